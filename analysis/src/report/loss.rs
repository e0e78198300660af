//! Summaries of the events in which service was lost.

use crate::events::SessionEvent;
use crate::units::Number;
use core::fmt;

/// Events of one kind and end in which service was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The longest event.
    pub longest: SessionEvent,
    /// The number of events.
    pub count: u64,
    /// The total duration, in nanoseconds.
    pub length: u64,
    /// Whether the texts of all events are the same except for numbers.
    pub is_same: bool,
}

impl Loss {
    pub(super) fn new(event: SessionEvent) -> Loss {
        Loss { length: event.duration.unwrap_or(0), longest: event, count: 1, is_same: true }
    }

    /// Adds an event of the same kind and end.
    pub(super) fn add(&mut self, event: SessionEvent) {
        self.count += 1;
        self.length = self.length.saturating_add(event.duration.unwrap_or(0));
        self.is_same &= story(&event.text).eq(story(&self.longest.text));
        if self.longest.duration < event.duration {
            self.longest = event;
        }
    }
}

/// The words of a text without its numbers (durations, counts, connections).
fn story(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().filter(|word| !word.starts_with(|first: char| first.is_ascii_digit()))
}

/// The text of the longest event, with the number of events: `...; three times`.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const WORDS: [&str; 11] =
            ["twice", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"];
        f.write_str(&self.longest.text)?;
        match (self.count, self.is_same) {
            (..=1, _) => Ok(()),
            (count, false) => write!(f, " (the longest of {})", Number(count)),
            (2, true) => f.write_str("; twice"),
            (count, true) => match WORDS.get(count as usize - 2) {
                Some(word) => write!(f, "; {word} times"),
                None => write!(f, "; {} times", Number(count)),
            },
        }
    }
}
