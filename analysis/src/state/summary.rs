//! What there was, counted.

use super::{Beginning, End, Kind, Lifetime};
use crate::units::Number;
use core::fmt;

/// Lifetimes, counted by what they are of and how they ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    counts: [[u64; End::ALL.len()]; Kind::ALL.len()],
    /// Of each kind, by how far the capture shows how they began.
    beginnings: [[u64; Beginning::ALL.len()]; Kind::ALL.len()],
    /// Of each kind: those that were recalled, and of these those that nobody gave back.
    recalled: [[u64; 2]; Kind::ALL.len()],
    /// Of each kind, those open at the end of which the capture may lack the end.
    gaps: [u64; Kind::ALL.len()],
    /// NFSv4 calls with krb5p: what they say of state is encrypted.
    pub encrypted: u64,
    /// NFSv4 calls that could not be read, were not captured, or have no reply that could be read.
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

    /// How many of a kind ended so.
    pub fn ended(&self, kind: Kind, end: End) -> u64 {
        self.counts[kind as usize][end as usize]
    }

    /// How many ended so, whatever they are.
    pub fn all(&self, end: End) -> u64 {
        Kind::ALL.iter().map(|kind| self.ended(*kind, end)).sum()
    }

    /// How many of a kind there were.
    pub fn of(&self, kind: Kind) -> u64 {
        self.counts[kind as usize].iter().sum()
    }

    /// How many of a kind were recalled, and of these how many nobody gave back.
    pub fn recalled(&self, kind: Kind) -> [u64; 2] {
        self.recalled[kind as usize]
    }

    /// Whether there was nothing.
    pub fn is_empty(&self) -> bool {
        Kind::ALL.iter().all(|kind| self.of(*kind) == 0)
    }

    /// Its lines: what each is about, and the kinds with their counts.
    pub fn lines(&self) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        let mut line = |about, count: &dyn Fn(Kind) -> u64| {
            let text = Counts(&Kind::ALL.map(|kind| (kind, count(kind)))).to_string();
            if !text.is_empty() {
                lines.push((about, text));
            }
        };
        line("there were", &|kind| self.of(kind));
        let began = |kind: Kind, so: Beginning| self.beginnings[kind as usize][so as usize];
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
        line("failed", &|kind| self.ended(kind, End::Failed));
        line("end not known", &|kind| self.ended(kind, End::Unknown));
        line("not followed", &|kind| self.ended(kind, End::NotFollowed));
        lines
    }
}

/// Kinds, with how many there are of each.
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
