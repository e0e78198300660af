//! Parses a line of a trace.

use super::event::{self, Event};
use super::fields::Fields;

/// An event with its context.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line<'a> {
    /// The process or thread that was running. For an event in an interrupt it is unrelated.
    pub pid: u32,
    /// The CPU.
    pub cpu: u32,
    /// Time in nanoseconds by the trace's clock.
    pub time: i64,
    /// Resolution of the time in nanoseconds: the unit of its last digit.
    pub resolution: i64,
    /// The event.
    pub event: Event<'a>,
}

/// The content of a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LineContent<'a> {
    /// An event.
    Event(Line<'a>),
    /// Events were lost, with the number if it is given.
    Lost(Option<u64>),
    /// The line is empty, a comment, or part of the heading of trace-cmd.
    Nothing,
}

/// The reason why a line cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// The line is not UTF-8.
    #[error("the line is not UTF-8")]
    Encoding,
    /// The line has no CPU in square brackets after the task.
    #[error("expected a task and CPU as in `nfsd-182 [000]`")]
    Task,
    /// The line has no time in seconds.
    #[error("expected a time in seconds as in `40.415147:`")]
    Time,
    /// The line has no event after the time.
    #[error("expected an event after the time")]
    Event,
    /// A field of a known event is missing or malformed.
    #[error("{event} has no readable field `{field}`")]
    Field {
        /// Name of the event.
        event: &'static str,
        /// Name of the field.
        field: &'static str,
    },
}

/// Parses a line.
pub fn read(bytes: &[u8]) -> Result<LineContent<'_>, LineError> {
    let text = core::str::from_utf8(bytes).map_err(|_| LineError::Encoding)?.trim_end();
    let start = text.trim_start();
    if start.is_empty() {
        return Ok(LineContent::Nothing);
    }
    if let Some(comment) = start.strip_prefix('#') {
        return Ok(overwritten(comment));
    }
    if let Some(lost) = lost(start) {
        return Ok(lost);
    }
    let Some((task, cpu, rest)) = task(start) else {
        return if is_heading(start) { Ok(LineContent::Nothing) } else { Err(LineError::Task) };
    };
    let (time, resolution, rest) = time(rest).ok_or(LineError::Time)?;
    // `event: fields`; trace-cmd writes more spaces after the colon.
    let (name, fields) = rest.split_once(':').ok_or(LineError::Event)?;
    let name = name.trim();
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(LineError::Event);
    }
    let event = event::read(name, Fields(fields.trim()))?;
    Ok(LineContent::Event(Line { pid: task, cpu, time, resolution, event }))
}

/// Parses `entries-in-buffer/entries-written: 930/1030   #P:1`. Entries that are no longer in the
/// buffer were overwritten.
fn overwritten(comment: &str) -> LineContent<'_> {
    let counts = comment.trim().strip_prefix("entries-in-buffer/entries-written:");
    let counts = counts.and_then(|counts| counts.split_ascii_whitespace().next()?.split_once('/'));
    let counts = counts.and_then(|(kept, written)| Some((kept.parse().ok()?, written.parse().ok()?)));
    match counts {
        Some((kept, written)) if written > kept => LineContent::Lost(Some(written - kept)),
        Some::<(u64, u64)>(_) | None => LineContent::Nothing,
    }
}

/// Parses a line about lost events.
///
/// tracefs writes `CPU:0 [LOST 23 EVENTS]` or `CPU:0 [LOST EVENTS]`; trace-cmd writes
/// `CPU:0 [23 EVENTS DROPPED]` or `CPU:0 [EVENTS DROPPED]`.
fn lost(line: &str) -> Option<LineContent<'_>> {
    let inside = line.strip_prefix("CPU:")?.split_once('[')?.1.strip_suffix(']')?;
    let words = inside.split_ascii_whitespace();
    let is_lost = inside.contains("LOST") || inside.contains("DROPPED");
    is_lost.then(|| LineContent::Lost(words.filter_map(|word| word.parse().ok()).next()))
}

/// Returns true for a line of the heading that trace-cmd writes.
fn is_heading(line: &str) -> bool {
    let first = ["cpus=", "version =", "CPU "].iter().any(|start| line.starts_with(start));
    first && !line.contains('[')
}

/// Parses process ID and CPU and returns the rest of the line.
///
/// The formats are `comm-pid [000] ` and `comm-pid (tgid) [000] `. The name of a process may
/// contain anything, so the first match that is followed by a time is used.
fn task(line: &str) -> Option<(u32, u32, &str)> {
    let (mut from, mut first) = (0, None);
    while let Some(open) = line[from..].find('[').map(|open| from + open) {
        from = open + 1;
        let Some((cpu, rest)) = line[from..].split_once(']') else { continue };
        let is_cpu = !cpu.is_empty() && cpu.bytes().all(|digit| digit.is_ascii_digit());
        let Some(cpu) = cpu.parse().ok().filter(|_| is_cpu && rest.starts_with(' ')) else { continue };
        let mut before = line[..open].trim_end();
        if let Some(group) = before.strip_suffix(')').and_then(|before| before.rfind('(')) {
            before = before[..group].trim_end();
        }
        let Some((_, pid)) = before.rsplit_once('-') else { continue };
        let Ok(pid) = pid.parse() else { continue };
        if time(rest).is_some() {
            return Some((pid, cpu, rest));
        }
        first.get_or_insert((pid, cpu, rest));
    }
    first
}

/// Parses the time in nanoseconds and its resolution, and returns the rest. Flags may precede the
/// time.
fn time(rest: &str) -> Option<(i64, i64, &str)> {
    let mut rest = rest.trim_start();
    for _ in 0..2 {
        let (word, remainder) = rest.split_once(char::is_whitespace)?;
        match word.strip_suffix(':').and_then(seconds) {
            Some((time, resolution)) => return Some((time, resolution, remainder.trim_start())),
            None => rest = remainder.trim_start(),
        }
    }
    None
}

/// Parses `39.870408` to nanoseconds and the resolution of the last digit.
fn seconds(text: &str) -> Option<(i64, i64)> {
    let (integer, fraction) = text.split_once('.')?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(integer) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let resolution = 10i64.pow(9 - fraction.len() as u32);
    let fraction: i64 = fraction.parse().ok()?;
    let integer: i64 = integer.parse().ok()?;
    Some((integer.checked_mul(1_000_000_000)?.checked_add(fraction * resolution)?, resolution))
}
