//! One line: who, where, when, which event.

use super::event::{self, Event};
use super::fields::Fields;

/// An event as a line tells it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line<'a> {
    /// The process or thread that ran, which in an interrupt is any.
    pub pid: u32,
    /// The CPU.
    pub cpu: u32,
    /// Nanoseconds of the trace's clock.
    pub time: i64,
    /// Nanoseconds of the last digit that the time is written with.
    pub resolution: i64,
    /// The event.
    pub event: Event<'a>,
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Said<'a> {
    /// An event.
    Event(Line<'a>),
    /// Events were lost: how many, if it says so.
    Lost(Option<u64>),
    /// It is empty, a comment, or what trace-cmd writes above the events.
    Nothing,
}

/// Why a line cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// It is not UTF-8.
    #[error("the line is not UTF-8")]
    Encoding,
    /// There is no CPU in square brackets behind the task.
    #[error("there is no task and CPU as in `nfsd-182 [000]`")]
    Task,
    /// There is no time in seconds.
    #[error("there is no time in seconds as in `40.415147:`")]
    Time,
    /// There is no event behind the time.
    #[error("there is no event behind the time")]
    Event,
    /// A field of a known event is not there, or is not as known.
    #[error("{event} has no field `{field}` that can be read")]
    Field {
        /// The event.
        event: &'static str,
        /// The field.
        field: &'static str,
    },
}

/// Reads a line.
pub fn read(bytes: &[u8]) -> Result<Said<'_>, LineError> {
    let text = core::str::from_utf8(bytes).map_err(|_| LineError::Encoding)?.trim_end();
    let start = text.trim_start();
    if start.is_empty() {
        return Ok(Said::Nothing);
    }
    if let Some(comment) = start.strip_prefix('#') {
        return Ok(overwritten(comment));
    }
    if let Some(lost) = lost(start) {
        return Ok(lost);
    }
    let Some((task, cpu, rest)) = task(start) else {
        return if is_heading(start) { Ok(Said::Nothing) } else { Err(LineError::Task) };
    };
    let (time, resolution, rest) = time(rest).ok_or(LineError::Time)?;
    // `event: fields`; trace-cmd has more blanks behind the colon.
    let (name, fields) = rest.split_once(':').ok_or(LineError::Event)?;
    let name = name.trim();
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(LineError::Event);
    }
    let event = event::read(name, Fields(fields.trim()))?;
    Ok(Said::Event(Line { pid: task, cpu, time, resolution, event }))
}

/// `entries-in-buffer/entries-written: 930/1030   #P:1`: what is not in the buffer any more was overwritten.
fn overwritten(comment: &str) -> Said<'_> {
    let counts = comment.trim().strip_prefix("entries-in-buffer/entries-written:");
    let counts = counts.and_then(|counts| counts.split_ascii_whitespace().next()?.split_once('/'));
    let counts = counts.and_then(|(kept, written)| Some((kept.parse().ok()?, written.parse().ok()?)));
    match counts {
        Some((kept, written)) if written > kept => Said::Lost(Some(written - kept)),
        Some::<(u64, u64)>(_) | None => Said::Nothing,
    }
}

/// `CPU:0 [LOST 23 EVENTS]`, `CPU:0 [LOST EVENTS]` of tracefs; `CPU:0 [23 EVENTS DROPPED]`, `CPU:0 [EVENTS DROPPED]` of trace-cmd.
fn lost(line: &str) -> Option<Said<'_>> {
    let inside = line.strip_prefix("CPU:")?.split_once('[')?.1.strip_suffix(']')?;
    let words = inside.split_ascii_whitespace();
    let is_lost = inside.contains("LOST") || inside.contains("DROPPED");
    is_lost.then(|| Said::Lost(words.filter_map(|word| word.parse().ok()).next()))
}

/// What trace-cmd writes above the events.
fn is_heading(line: &str) -> bool {
    let first = ["cpus=", "version =", "CPU "].iter().any(|start| line.starts_with(start));
    first && !line.contains('[')
}

/// The process and the CPU, and what stands behind: `comm-pid [000] `, or `comm-pid (tgid) [000] `. The name of a process may hold anything,
/// so it is the first one with a time behind it.
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

/// The time in nanoseconds, how fine it is, and what stands behind it. Flags may stand before it.
fn time(rest: &str) -> Option<(i64, i64, &str)> {
    let mut rest = rest.trim_start();
    for _ in 0..2 {
        let (word, behind) = rest.split_once(char::is_whitespace)?;
        match word.strip_suffix(':').and_then(seconds) {
            Some((time, resolution)) => return Some((time, resolution, behind.trim_start())),
            None => rest = behind.trim_start(),
        }
    }
    None
}

/// `39.870408` in nanoseconds, and those of its last digit.
fn seconds(text: &str) -> Option<(i64, i64)> {
    let (whole, fraction) = text.split_once('.')?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|digit| digit.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > 9 {
        return None;
    }
    let resolution = 10i64.pow(9 - fraction.len() as u32);
    let fraction: i64 = fraction.parse().ok()?;
    let whole: i64 = whole.parse().ok()?;
    Some((whole.checked_mul(1_000_000_000)?.checked_add(fraction * resolution)?, resolution))
}
