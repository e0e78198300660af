//! Events of one kind in which service was lost, as one story.

use crate::events::SessionEvent;
use crate::units::Number;
use core::fmt;

/// What happened once or several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What took longest.
    pub longest: SessionEvent,
    /// How often it happened.
    pub count: u64,
    /// How long that took together, in nanoseconds.
    pub length: u64,
    /// The same happened each time, if not for as long or on the same connection.
    pub is_same: bool,
}

impl Loss {
    pub(super) fn new(event: SessionEvent) -> Loss {
        Loss { length: event.duration.unwrap_or(0), longest: event, count: 1, is_same: true }
    }

    /// Takes in another event of the kind.
    pub(super) fn add(&mut self, event: SessionEvent) {
        self.count += 1;
        self.length = self.length.saturating_add(event.duration.unwrap_or(0));
        self.is_same &= story(&event.text).eq(story(&self.longest.text));
        if self.longest.duration < event.duration {
            self.longest = event;
        }
    }
}

/// What happened, without the numbers: how long, how often, on which connection.
fn story(text: &str) -> impl Iterator<Item = &str> {
    text.split_whitespace().filter(|word| !word.starts_with(|first: char| first.is_ascii_digit()))
}

/// What happened, and how often: `..., three times`.
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
