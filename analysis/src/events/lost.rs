//! NFSv4 state that did not end in order, and what its client reclaimed of it.

use super::known::event;
use super::{Kind, SessionEvent};
use crate::names::Quoted;
use crate::state::{Counts, End, Kind as StateKind, Lifetime};
use crate::units::Counted;
use foldhash::fast::FixedState;
use rdmascope_dissector::frame::Address;
use std::collections::{BTreeMap, HashMap};

/// Adds events about lost state to `events`. Lifetimes that one message ended in the same way are one
/// event. `all` are the lifetimes of the capture, lost ones included.
pub(super) fn report<'a>(all: impl Iterator<Item = &'a Lifetime>, events: &mut Vec<SessionEvent>) {
    let mut groups: BTreeMap<(u64, End), Vec<&Lifetime>> = BTreeMap::new();
    let mut known = Known::default();
    for lifetime in all {
        known.add(lifetime);
        if let Some(at) = lifetime.ended
            && lifetime.end.is_broken()
            && lifetime.end != End::Failed
        {
            groups.entry((at.transaction, lifetime.end)).or_default().push(lifetime);
        }
    }
    for ((_, end), group) in groups {
        let Some(at) = group[0].ended else { continue };
        let lost = Lost::new(&group, &known);
        events.push(SessionEvent {
            connection: group[0].last_connection,
            count: group.len() as u64,
            frames: [Some(at.frame), Some(at.frame)],
            does_harm: lost.does_harm(),
            ..event(at.time, Kind::StateLost, lost.text(end, &known))
        });
    }
}

/// Facts about all lifetimes.
#[derive(Default)]
struct Known<'a> {
    /// The latest lifetime that a client reclaimed, by kind, client and file handle.
    reclaimed: HashMap<(StateKind, Option<Address>, &'a [u8]), u64, FixedState>,
    /// The names of opened files.
    opened: HashMap<u64, &'a [u8], FixedState>,
}

impl<'a> Known<'a> {
    fn add(&mut self, lifetime: &'a Lifetime) {
        if lifetime.reclaimed {
            let latest = self.reclaimed.entry(key(lifetime)).or_default();
            *latest = lifetime.number.max(*latest);
        }
        if lifetime.kind == StateKind::Open {
            self.opened.insert(lifetime.number, lifetime.file());
        }
    }

    /// Whether a client reclaimed lost state. It holds locks under a delegation by itself.
    fn is_reclaimed(&self, lost: &Lifetime) -> bool {
        let (kind, client, file) = key(lost);
        let is_later =
            |kind| self.reclaimed.get(&(kind, client, file)).is_some_and(|later| *later > lost.number);
        is_later(kind) || kind == StateKind::Lock && is_later(StateKind::Delegation)
    }

    /// The name of the file; that of a lock is with its open.
    fn file(&self, lifetime: &'a Lifetime) -> Option<&'a [u8]> {
        let open = || self.opened.get(&lifetime.open?).copied();
        let name = Some(lifetime.file()).filter(|name| !name.is_empty());
        name.or_else(open).filter(|name| !name.is_empty())
    }
}

fn key(lifetime: &Lifetime) -> (StateKind, Option<Address>, &[u8]) {
    (lifetime.kind, lifetime.client_address, &lifetime.file_handle)
}

/// Lifetimes that one message ended.
struct Lost<'a> {
    /// Those that the client did not reclaim.
    gone: Vec<&'a Lifetime>,
    reclaimed: Vec<&'a Lifetime>,
}

impl<'a> Lost<'a> {
    fn new(group: &[&'a Lifetime], known: &Known<'_>) -> Lost<'a> {
        let (reclaimed, gone) = group.iter().partition(|lost| known.is_reclaimed(lost));
        Lost { gone, reclaimed }
    }

    /// Whether an application may notice it. A client asks for client ID and session again by itself.
    fn does_harm(&self) -> bool {
        self.gone.iter().any(|lifetime| !matches!(lifetime.kind, StateKind::Client | StateKind::Session))
    }

    fn text(&self, end: End, known: &Known<'a>) -> String {
        let reason = match end {
            End::Revoked => "revoked by the server",
            End::Abandoned => "not returned before the client gave up its client ID",
            End::Restarted => "not returned before the client restarted",
            End::TakenOver => "taken over: another address asked for a client ID with the same client owner",
            _ => "no longer known to the server",
        };
        let reclaimed = match (self.gone.is_empty(), self.reclaimed.is_empty()) {
            (_, true) => String::new(),
            (true, false) => ", then reclaimed".to_owned(),
            (false, false) => format!("; {} reclaimed", Counts(&counts(&self.reclaimed))),
        };
        let first = if self.gone.is_empty() { &self.reclaimed } else { &self.gone };
        format!("{}{}: {reason}{reclaimed}", Counts(&counts(first)), self.files(known))
    }

    /// The files whose state is gone.
    fn files(&self, known: &Known<'a>) -> String {
        let mut names: Vec<&[u8]> = self.gone.iter().filter_map(|lifetime| known.file(lifetime)).collect();
        names.sort_unstable();
        names.dedup();
        match names[..] {
            [] => String::new(),
            [name] => format!(" ({})", Quoted(name)),
            [name, ..] => {
                format!(" ({} and {})", Quoted(name), Counted(names.len() as u64 - 1, "other file"))
            }
        }
    }
}

fn counts(lifetimes: &[&Lifetime]) -> [(StateKind, u64); StateKind::ALL.len()] {
    StateKind::ALL
        .map(|kind| (kind, lifetimes.iter().filter(|lifetime| lifetime.kind == kind).count() as u64))
}
