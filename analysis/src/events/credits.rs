//! Outstanding calls, and the times in which all granted credits were in use.

use super::SILENCE;
use super::facts::{Exhaustion, Run};
use rdmascope_dissector::observation::{Kind, Sent};
use rdmascope_dissector::record::{Seen, Time};

/// Outstanding calls and granted credits.
#[derive(Clone, Debug, Default)]
pub(super) struct Credits {
    outstanding: u64,
    /// The most calls that were outstanding at once.
    most: u64,
    granted: Option<u32>,
    /// Whether packets are missing, which makes the number of outstanding calls unknown.
    is_blind: bool,
    since: Option<Seen>,
    /// Times in which all were in use.
    exhausted: Vec<Exhaustion>,
}

impl Credits {
    /// The most entries of `exhausted`.
    const MOST: usize = 128;

    /// Takes a Send.
    pub(super) fn sent(&mut self, sent: &Sent<'_>, by_requester: bool) {
        if self.is_blind || !sent.paired {
            return;
        }
        match sent.kind {
            Kind::Call if by_requester && !sent.outstanding => {
                self.outstanding += 1;
                self.most = self.most.max(self.outstanding);
                // A requester that is granted no credits may still send one call.
                if self.granted.is_some_and(|granted| u64::from(granted.max(1)) == self.outstanding) {
                    self.since.get_or_insert(sent.send.seen);
                }
            }
            Kind::Reply | Kind::Error if !by_requester && sent.outstanding => {
                self.outstanding = self.outstanding.saturating_sub(1);
                let now = sent.header.map(|header| header.credits);
                let before = core::mem::replace(&mut self.granted, now);
                if let (Some(since), Some(granted)) = (self.since.take(), before) {
                    self.used_up(since, sent.send.seen, granted);
                }
            }
            _ => {}
        }
    }

    /// Forgets the outstanding calls: packets are missing, or a Send was mistaken for a call.
    pub(super) fn become_blind(&mut self) {
        (self.outstanding, self.granted, self.is_blind, self.since) = (0, None, true, None);
    }

    /// Forgets the time from which it counts, because the clock stepped back.
    pub(super) fn clock_stepped(&mut self) {
        self.since = None;
    }

    /// The time since which all credits are in use, and their number.
    pub(super) fn exhausted_since(&self) -> Option<(Seen, u32)> {
        self.since.zip(self.granted)
    }

    /// The most calls that were outstanding at once, and the credits that the latest reply granted.
    /// `None` if packets are missing.
    pub(super) fn most(&self) -> Option<(u64, u32)> {
        self.granted.map(|granted| (self.most, granted))
    }

    /// The times in which all credits were in use.
    pub(super) fn exhausted(&self) -> &[Exhaustion] {
        &self.exhausted
    }

    /// Forgets the times that ended before this one.
    pub(super) fn forget(&mut self, before: Time) {
        self.exhausted.retain(|spell| spell.run.last.time >= before);
    }

    /// Adds a time from `since` to `end` in which all credits were in use. It joins the last one if that
    /// ended shortly before, or if the list is full.
    fn used_up(&mut self, since: Seen, end: Seen, granted: u32) {
        let length = end.time.since(since.time);
        let is_full = self.exhausted.len() >= Credits::MOST;
        let joins = |known: &&mut Exhaustion| is_full || since.time.since(known.run.last.time) < SILENCE;
        match self.exhausted.last_mut().filter(joins) {
            Some(known) => {
                known.run.extend(end);
                known.length += length;
            }
            None => {
                let run = Run { last: end, ..Run::new(since) };
                self.exhausted.push(Exhaustion { granted, run, length });
            }
        }
    }
}
