//! Parses scenarios from TOML files, and checks everything that needs no target.

use super::payload::from_digits;
use super::response::{Awaited, Response, Side};
use super::step::{Fraction, Handle, Offered, Payload, Segment, Send};
use super::{Level, Pattern, Scenario, Step};
use crate::nfs3;
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// The most messages of one `send` step and segments of one entry, and the longest memory.
const MOST_TIMES: u32 = 4096;
const MOST_LENGTH: u32 = 16 << 20;
const SIDES: &str = "see docs/scenarios.md for the steps of each side";

/// The error in a scenario's file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {description}")]
pub struct ScenarioError {
    /// The file.
    pub file: String,
    /// The line, counted from 1.
    pub line: usize,
    /// A description of the error.
    pub description: String,
}

/// Parses a scenario. `file` is its name in errors.
pub fn parse(file: &str, text: &str) -> Result<Scenario, ScenarioError> {
    let at = |line, description| ScenarioError { file: file.to_string(), line, description };
    let scenario: Scenario = toml::from_str(text).map_err(|error| {
        let before = error.span().map_or("", |span| text.get(..span.start).unwrap_or_default());
        at(before.matches('\n').count() + 1, error.message().to_string())
    })?;
    check(&scenario).map_err(|(needle, description)| {
        let line = text.lines().position(|line| line.contains(needle.as_str())).unwrap_or(0) + 1;
        at(line, description)
    })?;
    Ok(scenario)
}

/// A text from the erroneous line, and a description of the error.
type Wrong = (String, String);

fn check(scenario: &Scenario) -> Result<(), Wrong> {
    let wrong = |needle: &str, description: String| Err((needle.to_string(), description));
    let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if scenario.name.is_empty() || !scenario.name.bytes().all(good) {
        return wrong("name", "a name consists of lower case letters, digits and hyphens".to_string());
    }
    if scenario.title.is_empty() || scenario.requirement.text.is_empty() {
        return wrong("title", "the title or the text of the requirement is missing".to_string());
    }
    let requirement = &scenario.requirement;
    if requirement.document.is_empty() || !requirement.document.bytes().all(good) {
        let description = "a document consists of lower case letters, digits and hyphens".to_string();
        return wrong("document", description);
    }
    let part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !requirement.section.split('.').all(part) {
        return wrong("section", "a section consists of letters and digits, separated by dots".to_string());
    }
    let observing = scenario.steps.iter().filter(|step| match step {
        Step::Observe(_) => true,
        Step::Connect(connect) => connect.observe,
        _ => false,
    });
    if observing.count() != 1 {
        return wrong("steps", "exactly one step must observe".to_string());
    }
    if scenario.allowed.is_empty() {
        return wrong("allowed", "at least one reaction must be allowed".to_string());
    }
    if let Some(pattern) = scenario.wrong.iter().find(|pattern| scenario.allowed.contains(pattern)) {
        return wrong("wrong", format!("both allowed and wrong: {pattern}"));
    }
    let closes = |pattern: &Pattern| matches!(pattern, Pattern::Closed(_));
    if scenario.survives && scenario.allowed.iter().any(closes) {
        return wrong("survives", "the connection cannot survive if it may be closed".to_string());
    }
    if scenario.requirement.level == Level::May && !scenario.wrong.is_empty() {
        return wrong("wrong", "a MAY requirement has no wrong reactions".to_string());
    }
    check_side(scenario)?;
    let sessions = scenario.steps.iter().position(|step| matches!(step, Step::Session(_)));
    let recall = scenario.steps.iter().position(|step| matches!(step, Step::Recall(_)));
    if recall.is_some_and(|recall| sessions.is_none_or(|session| session > recall)) {
        return wrong("recall", "no session step precedes it".to_string());
    }
    check_offers(scenario)?;
    check_connections(scenario)?;
    let mut names = BTreeSet::new();
    scenario.steps.iter().try_for_each(|step| check_step(step, &mut names))
}

/// Checks that all steps belong to the scenario's side.
fn check_side(scenario: &Scenario) -> Result<(), Wrong> {
    let side = scenario.side;
    if let Some(number) = scenario.steps.iter().position(|step| !step.is_of(side)) {
        let description = format!("step {} does not belong to this side: {}", number + 1, SIDES);
        return Err(("steps".to_string(), description));
    }
    if side == Side::Requester {
        return Ok(());
    }
    let is_call = |step: &Step| matches!(step, Step::Call(_));
    if !scenario.steps.first().is_some_and(is_call) || scenario.steps.iter().skip(1).any(is_call) {
        return Err(("steps".to_string(), "the first step must be a call, and no other".to_string()));
    }
    if !scenario.needs.is_empty() {
        return Err(("needs".to_string(), "needs apply to servers only".to_string()));
    }
    Ok(())
}

/// Checks that a reply with a Read chunk is expected before a step uses the chunk.
fn check_offers(scenario: &Scenario) -> Result<(), Wrong> {
    let mut offers = 0;
    for step in &scenario.steps {
        let needed = match step {
            Step::Expect(expect) => {
                offers += usize::from(expect.reaction.is_read_chunk());
                0
            }
            Step::Pull(_) => 1,
            Step::Send(send) => match send.invalidate {
                Some(Handle::Offered(Offered::Offered)) => 1,
                Some(Handle::Offered(Offered::Earlier)) => 2,
                _ => 0,
            },
            _ => 0,
        };
        if needed > offers {
            return Err((
                "steps".to_string(),
                "no reply with a Read chunk is expected before it".to_string(),
            ));
        }
    }
    Ok(())
}

/// Checks that a connection is made before a step uses it.
fn check_connections(scenario: &Scenario) -> Result<(), Wrong> {
    let mut made = 0;
    for step in &scenario.steps {
        match step {
            Step::Connect(_) => made += 1,
            Step::Connection(number) if !(1..=made).contains(number) => {
                return Err(("connection".to_string(), format!("connection {number} is not made before it")));
            }
            _ => {}
        }
    }
    Ok(())
}

fn check_step(step: &Step, names: &mut BTreeSet<String>) -> Result<(), Wrong> {
    match step {
        Step::Connect(connect) => digits(connect.raw.as_deref().unwrap_or(""), "raw"),
        Step::Register(register) if register.length > MOST_LENGTH => {
            Err((register.name.clone(), format!("at most {MOST_LENGTH} bytes")))
        }
        Step::Register(register) => {
            names.insert(register.name.clone());
            Ok(())
        }
        Step::Write(write) if write.length > MOST_LENGTH => {
            Err((write.length.to_string(), format!("at most {MOST_LENGTH} bytes")))
        }
        Step::Read(read) if read.length > MOST_LENGTH => {
            Err((read.length.to_string(), format!("at most {MOST_LENGTH} bytes")))
        }
        Step::Pull(pull) if pull.beyond > MOST_LENGTH => {
            Err((pull.beyond.to_string(), format!("at most {MOST_LENGTH} bytes")))
        }
        Step::Call(Awaited { procedure: Some(name), .. }) if !is_procedure(name) => {
            Err((name.clone(), format!("{name}: no NFSv3 procedure")))
        }
        Step::WriteBeyond(write) if write.length > MOST_LENGTH => {
            Err((write.length.to_string(), format!("at most {MOST_LENGTH} bytes")))
        }
        Step::Reply(response) => {
            let Response { patch, append, pad_to, times, reads, writes, reply_chunk, read_chunk, .. } =
                &**response;
            few(*times)?;
            if read_chunk.is_some_and(|chunk| chunk.bytes_each == Some(0)) {
                return Err(("bytes-each".to_string(), "bytes-each: at least one".to_string()));
            }
            let counts = [*reads, writes.more, reply_chunk.more];
            counts.into_iter().try_for_each(|count| few(Some(u32::try_from(count).unwrap_or(u32::MAX))))?;
            check_changes(patch, append.as_deref(), *pad_to)
        }
        Step::Invalidate(name) => known(name, names),
        Step::SendRaw(send) => digits(&send.bytes, "bytes"),
        Step::Send(send) => {
            for segment in segments(send) {
                segment.memory.iter().try_for_each(|name| known(name, names))?;
                few(segment.times)?;
            }
            if let Payload::Write(arguments) = &send.payload {
                arguments.into.iter().try_for_each(|name| known(name, names))?;
                if arguments.length > MOST_LENGTH {
                    return Err((arguments.length.to_string(), format!("at most {MOST_LENGTH} bytes")));
                }
            }
            match &send.payload {
                Payload::Hex(text) => digits(text, "hex")?,
                Payload::Getattrs(count) => few(Some(*count))?,
                _ => {}
            }
            few(send.times)?;
            send.into.iter().try_for_each(|name| known(name, names))?;
            check_changes(&send.patch, send.append.as_deref(), send.pad_to)
        }
        _ => Ok(()),
    }
}

fn digits(text: &str, name: &str) -> Result<(), Wrong> {
    match from_digits(&text.replace("xid", "00000000")) {
        Some(_) => Ok(()),
        None => Err((text.to_string(), format!("{name}: not hex digits: {text}"))),
    }
}

/// Checks the changes to a message.
fn check_changes(patch: &[Fraction], append: Option<&str>, pad_to: Option<usize>) -> Result<(), Wrong> {
    patch.iter().try_for_each(|patch| digits(&patch.bytes, "bytes"))?;
    for (name, at) in patch.iter().map(|patch| ("at", patch.at)).chain(pad_to.map(|at| ("pad-to", at))) {
        if at > MOST_LENGTH as usize {
            return Err((at.to_string(), format!("{name}: at most {MOST_LENGTH}")));
        }
    }
    digits(append.unwrap_or(""), "append")
}

fn is_procedure(name: &str) -> bool {
    let mut names = (0..).map_while(nfs3::Procedure::from_number);
    names.any(|known| known.to_string().to_ascii_lowercase() == name)
}

fn segments(send: &Send) -> Vec<&Segment> {
    let reads = send.reads.iter().map(|entry| &entry.segment);
    let writes = send.writes.iter().chain(&send.reply).flatten();
    reads.chain(writes).collect()
}

fn known(name: &str, names: &BTreeSet<String>) -> Result<(), Wrong> {
    match names.contains(name) {
        true => Ok(()),
        false => Err((name.to_string(), format!("memory {name} is used before it is registered"))),
    }
}

fn few(times: Option<u32>) -> Result<(), Wrong> {
    match times.filter(|times| *times > MOST_TIMES) {
        None => Ok(()),
        Some(times) => Err((times.to_string(), format!("at most {MOST_TIMES} times"))),
    }
}
