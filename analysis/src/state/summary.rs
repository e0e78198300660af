//! Counts of lifetimes.

use super::{Beginning, End, Kind, Lifetime};
use crate::units::Number;
use core::fmt;

/// Lifetimes, counted by kind and end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    counts: [[u64; End::ALL.len()]; Kind::ALL.len()],
    /// By kind, and by how much of the beginning was captured.
    beginnings: [[u64; Beginning::ALL.len()]; Kind::ALL.len()],
    /// By kind: recalled lifetimes, and those of them that were not returned.
    recalled: [[u64; 2]; Kind::ALL.len()],
    /// By kind: lifetimes open at the end whose end may be missing from the capture.
    gaps: [u64; Kind::ALL.len()],
    /// NFSv4 calls with krb5p, whose effects on state are encrypted.
    pub encrypted: u64,
    /// NFSv4 calls that could not be decoded, were not captured, or have no reply that could be
    /// decoded.
    pub unread: u64,
}

impl Summary {
    pub(super) fn count(&mut self, lifetime: &Lifetime) {
        let kind = lifetime.kind as usize;
        self.counts[kind][lifetime.end as usize] += 1;
        self.beginnings[kind][lifetime.beginning as usize] += 1;
        self.gaps[kind] += u64::from(lifetime.capture_gap);
        if lifetime.recalled.is_some() {
            self.recalled[kind][0] += 1;
            self.recalled[kind][1] += u64::from(lifetime.is_owed());
        }
    }

    /// The number of lifetimes of a kind with this end.
    pub fn ended(&self, kind: Kind, end: End) -> u64 {
        self.counts[kind as usize][end as usize]
    }

    /// The number of lifetimes with this end.
    pub fn all(&self, end: End) -> u64 {
        Kind::ALL.iter().map(|kind| self.ended(*kind, end)).sum()
    }

    /// The number of lifetimes of a kind.
    pub fn of(&self, kind: Kind) -> u64 {
        self.counts[kind as usize].iter().sum()
    }

    /// The number of recalled lifetimes of a kind, and of those that were not returned.
    pub fn recalled(&self, kind: Kind) -> [u64; 2] {
        self.recalled[kind as usize]
    }

    /// Whether there are no lifetimes.
    pub fn is_empty(&self) -> bool {
        Kind::ALL.iter().all(|kind| self.of(*kind) == 0)
    }

    /// The lines of the summary: a label, and the kinds with their counts.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        let mut line = |about, count: &dyn Fn(Kind) -> u64| {
            let text = Counts(&Kind::ALL.map(|kind| (kind, count(kind)))).to_string();
            if !text.is_empty() {
                lines.push((about, text));
            }
        };
        line("total", &|kind| self.of(kind));
        let began = |kind: Kind, beginning: Beginning| self.beginnings[kind as usize][beginning as usize];
        line("begun before the capture", &|kind| began(kind, Beginning::Before));
        line("begun in an encrypted call", &|kind| began(kind, Beginning::Encrypted));
        line("begun before, or encrypted", &|kind| began(kind, Beginning::Unclear));
        line("open at the end", &|kind| self.ended(kind, End::Open));
        line("of these after a gap", &|kind| self.gaps[kind as usize]);
        line("recalled", &|kind| self.recalled(kind)[0]);
        line("of these not returned", &|kind| self.recalled(kind)[1]);
        line("revoked", &|kind| self.ended(kind, End::Revoked));
        line("lost", &|kind| self.ended(kind, End::Lost));
        line("abandoned", &|kind| self.ended(kind, End::Abandoned));
        line("lost by a restart of the client", &|kind| self.ended(kind, End::Restarted));
        line("taken over by another host", &|kind| self.ended(kind, End::TakenOver));
        line("failed", &|kind| self.ended(kind, End::Failed));
        line("end unknown", &|kind| self.ended(kind, End::Unknown));
        line("not followed", &|kind| self.ended(kind, End::NotFollowed));
        lines
    }
}

/// Kinds with their counts.
pub(crate) struct Counts<'a>(pub(crate) &'a [(Kind, u64)]);

impl fmt::Display for Counts<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut comma = "";
        for (kind, count) in self.0.iter().filter(|(_, count)| *count > 0) {
            let name = if *count == 1 { kind.noun() } else { kind.plural() };
            write!(f, "{comma}{} {name}", Number(*count))?;
            comma = ", ";
        }
        Ok(())
    }
}
