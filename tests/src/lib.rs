//! Tools for tests.
//!
//! They share no code with the code under test, except the engine's interface and the ICRC: reading
//! captures, parsing tracepoints and altering packets are implemented here independently.
#![forbid(unsafe_code)]

pub mod floods;
pub mod judged;
pub mod mountstats;
pub mod mutate;
pub mod owners;
pub mod pages;
pub mod pcap;
pub mod samples;
pub mod segments;
pub mod session;
pub mod streams;
pub mod trace;
pub mod values;

/// Collects differences, so that a failure shows more than the first one.
#[derive(Debug)]
pub struct Differences {
    label: String,
    compared: usize,
    found: Vec<String>,
}

impl Differences {
    /// An empty collection for the comparison with this label.
    pub fn of(label: impl Into<String>) -> Differences {
        Differences { label: label.into(), compared: 0, found: Vec::new() }
    }

    /// Compares two values; `place` names the frame or XID.
    pub fn equal<T: PartialEq + core::fmt::Debug>(
        &mut self,
        place: impl core::fmt::Display,
        expected: T,
        actual: T,
    ) {
        self.compared += 1;
        if expected != actual {
            self.found.push(format!("{place}: expected {expected:?}, got {actual:?}"));
        }
    }

    /// Notes a difference if `holds` is false.
    pub fn check(&mut self, holds: bool, place: impl core::fmt::Display) {
        self.compared += 1;
        if !holds {
            self.found.push(place.to_string());
        }
    }

    /// Fails the test if there are differences.
    ///
    /// # Panics
    /// If a difference was found, or if nothing was compared.
    pub fn end(self) {
        const SHOWN: usize = 25;
        assert!(self.compared > 0, "{}: nothing was compared", self.label);
        if !self.found.is_empty() {
            let shown = self.found.iter().take(SHOWN).map(|line| format!("\n  {line}")).collect::<String>();
            let more = self.found.len().saturating_sub(SHOWN);
            panic!(
                "{}: {} of {} comparisons differ{shown}{}",
                self.label,
                self.found.len(),
                self.compared,
                if more > 0 { format!("\n  … and {more} more") } else { String::new() }
            );
        }
    }
}
