//! Calls that fail in the same way on successive connections. Linux does this with calls that a
//! server cannot process, such as the SETACL of a long ACL: the server answers GARBAGE_ARGS or
//! ERR_CHUNK, the client disconnects, and sends the operation again. A call that makes one end close
//! the connection without a reply does the same.

use crate::names::{Failure, FailureName, Label, Protocol};
use crate::units::{Counted, Duration};
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::record::Seen;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_wire::{Xid, rpc};
use std::collections::HashMap;

/// The operation that failed, and its failure. Without a failure, it had no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FailureKind {
    protocol: Option<Protocol>,
    label: Label,
    failure: Option<Failure>,
}

/// Calls of one connection that failed in the same way.
#[derive(Clone, Debug)]
pub(super) struct Failing {
    kind: FailureKind,
    calls: u64,
    first_call: Seen,
    /// The last reply, or the last call if there was no reply.
    last: Seen,
    /// The XIDs of the first calls.
    xids: Vec<Xid>,
}

impl Failing {
    /// The last packet that shows it.
    pub(super) fn last(&self) -> Seen {
        self.last
    }
}

/// The most kinds of failures kept for a connection.
const MOST_KINDS: usize = 8;
/// The most XIDs kept for each kind.
const MOST_XIDS: usize = 8;
/// The most connections listed in the text.
const MOST_NAMED: usize = 8;

/// Adds a transaction if the other end could not process the call, or never answered it. Failures of
/// the operation itself do not count. `is_lossy`: packets of the connection are missing. Then a call
/// without a reply does not count, because the last packets of a connection can be missing without a
/// trace.
pub(super) fn add(failing: &mut Vec<Failing>, transaction: &Transaction, is_lossy: bool) {
    let failure = Failure::of(transaction);
    let is_failed =
        matches!(failure, Some(Failure::Transport(_) | Failure::Rpc(rpc::Status::GarbageArguments)));
    let is_unanswered = transaction.unanswered_until.is_some() && !is_lossy;
    if !is_failed && !is_unanswered {
        return;
    }
    let Some(call) = &transaction.call else { return };
    let kind = FailureKind { protocol: Protocol::of(transaction), label: Label::of(transaction), failure };
    let last = transaction.reply.as_ref().unwrap_or(call).seen;
    match failing.iter().position(|known| known.kind == kind) {
        Some(at) => {
            let known = &mut failing[at];
            known.calls += 1;
            known.last = last;
            if known.xids.len() < MOST_XIDS {
                known.xids.push(transaction.xid);
            }
        }
        None if failing.len() < MOST_KINDS => {
            let xids = vec![transaction.xid];
            failing.push(Failing { kind, calls: 1, first_call: call.seen, last, xids });
        }
        None => {}
    }
}

/// The facts of a connection that the stories of its calls need.
pub(super) struct Through<'a> {
    pub(super) id: ConnectionId,
    /// The first connection of its chain.
    pub(super) root: ConnectionId,
    pub(super) failing: &'a [Failing],
    /// The packets that ended it; `None` if it did not end.
    pub(super) end: Option<End>,
    /// Whether packets were lost when it ended. Calls were under way by chance then.
    pub(super) is_lossy: bool,
}

/// The packets that ended a connection.
#[derive(Clone, Debug)]
pub(super) struct End {
    pub(super) seen: Seen,
    pub(super) how: String,
    /// Whether the requester caused the end, if known.
    pub(super) by_requester: Option<bool>,
}

/// A call that failed in the same way on several successive connections, or that was under way when
/// each of them ended.
#[derive(Clone, Debug)]
pub(super) struct Story {
    kind: FailureKind,
    pub(super) calls: u64,
    pub(super) first_call: Seen,
    pub(super) last: Seen,
    pub(super) connections: Vec<ConnectionId>,
    xids: Vec<Xid>,
    /// Whether `xids` holds the XID of every call.
    has_all: bool,
    /// How the connections ended, if all ended in the same way.
    end: Option<String>,
    /// Whether the requester is the end that caused it, if one end did: it sent the call again, or
    /// ended the connections.
    pub(super) by_requester: Option<bool>,
    /// The other operations that were under way when the same connections ended.
    others: Vec<(Option<Protocol>, Label)>,
}

impl Story {
    /// Nanoseconds from the first call to the last packet.
    pub(super) fn length(&self) -> u64 {
        self.last.time.since(self.first_call.time)
    }

    /// The description for people.
    pub(super) fn text(&self) -> String {
        let FailureKind { protocol, failure, .. } = self.kind;
        let mut xids = self.xids.clone();
        xids.sort_unstable();
        xids.dedup();
        let named: Vec<String> =
            self.connections.iter().take(MOST_NAMED).map(|id| id.0.to_string()).collect();
        let more = match self.connections.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let (length, on) = (Duration(self.length()), named.join(", "));
        let call = called(protocol, self.kind.label);
        let Some(failure) = failure else {
            let xid = match xids.as_slice() {
                [xid] => format!(" (XID 0x{:08x})", xid.0),
                _ => String::new(),
            };
            let others: Vec<String> =
                self.others.iter().map(|(protocol, label)| called(*protocol, *label)).collect();
            let with = match others.as_slice() {
                [] => String::new(),
                others => format!(", with {},", others.join(", ")),
            };
            let end = self.end.as_ref().map_or(String::new(), |end| format!(": {end}"));
            let ended = Counted(self.connections.len() as u64, "connection");
            return format!(
                "{call}{xid}{with} under way each time {ended} ended, in {length}{end}; on connections {on}{more}"
            );
        };
        let under = match xids.len() as u64 {
            1 => " under the same XID",
            different if self.has_all && different == self.calls => " under new XIDs",
            _ => "",
        };
        format!(
            "client sent {call} {} times in {length}{under}, each time answered with {}; on connections {on}{more}",
            self.calls,
            FailureName(failure, protocol),
        )
    }
}

/// The name of an operation in a sentence: `NFSv3 WRITE`.
pub(super) fn called(protocol: Option<Protocol>, label: Label) -> String {
    match (protocol, label) {
        (None, Label::Unknown) => "an unknown call".to_owned(),
        (Some(protocol), Label::Unknown) => format!("an unknown {protocol} call"),
        (None, label) => label.to_string(),
        (Some(protocol), label) => format!("{protocol} {label}"),
    }
}

/// The stories of connections in order of time.
pub(super) fn stories<'a>(connections: impl Iterator<Item = Through<'a>>) -> Vec<Story> {
    // Indexes into `stories`, by the first connection of the chain and the operation. Each list is
    // as short as the number of kinds of failures.
    type Places = HashMap<(ConnectionId, Option<Protocol>, Label), Vec<usize>, FixedState>;
    let mut places = Places::default();
    let mut stories: Vec<Story> = Vec::new();
    for Through { id, root, failing, end, is_lossy } in connections {
        let is_chance = |failing: &&Failing| failing.kind.failure.is_none() && is_lossy;
        for Failing { kind, calls, first_call, last, xids } in failing.iter().filter(|it| !is_chance(it)) {
            let (last, end, by_requester) = match (kind.failure, &end) {
                (Some(_), _) => (*last, None, Some(true)),
                (None, Some(end)) => (end.seen, Some(end.how.clone()), end.by_requester),
                // The call still waits.
                (None, None) => continue,
            };
            let has_all = xids.len() as u64 == *calls;
            let places = places.entry((root, kind.protocol, kind.label)).or_default();
            match places.iter().find(|at| stories[**at].kind == *kind) {
                Some(at) => {
                    let story = &mut stories[*at];
                    story.calls += calls;
                    story.last = last;
                    story.connections.push(id);
                    story.has_all &= has_all;
                    story.xids.extend(xids);
                    story.end = story.end.take().filter(|known| end.as_ref() == Some(known));
                    story.by_requester = story.by_requester.filter(|_| story.by_requester == by_requester);
                }
                None => {
                    places.push(stories.len());
                    stories.push(Story {
                        kind: *kind,
                        calls: *calls,
                        first_call: *first_call,
                        last,
                        connections: vec![id],
                        xids: xids.clone(),
                        has_all,
                        end,
                        by_requester,
                        others: Vec::new(),
                    });
                }
            }
        }
    }
    stories.retain(|story| story.connections.len() > 1);
    merged(stories)
}

/// Merges the stories of calls that were under way when the same connections ended. A connection
/// is in one chain, so connections identify the chain. Calls that were under way at fewer of these
/// ends were there by chance.
fn merged(stories: Vec<Story>) -> Vec<Story> {
    let mut merged: Vec<Story> = Vec::new();
    let mut widest: HashMap<ConnectionId, usize, FixedState> = HashMap::default();
    for story in stories {
        if story.kind.failure.is_some() {
            merged.push(story);
            continue;
        }
        let known = story.connections.iter().find_map(|id| widest.get(id).copied());
        match known {
            Some(at) if merged[at].connections == story.connections => {
                let earlier = &mut merged[at];
                earlier.calls += story.calls;
                earlier.first_call = if story.first_call.time < earlier.first_call.time {
                    story.first_call
                } else {
                    earlier.first_call
                };
                earlier.others.push((story.kind.protocol, story.kind.label));
            }
            Some(at) if merged[at].connections.len() >= story.connections.len() => {}
            Some(at) => {
                story.connections.iter().for_each(|id| _ = widest.insert(*id, at));
                merged[at] = story;
            }
            None => {
                story.connections.iter().for_each(|id| _ = widest.insert(*id, merged.len()));
                merged.push(story);
            }
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_calls_have_a_name() {
        assert_eq!(called(None, Label::Unknown), "an unknown call");
        let nfs = Some(Protocol { program: rpc::program::NFS, version: 3, minor: None });
        assert_eq!(called(nfs, Label::Unknown), "an unknown NFSv3 call");
        assert_eq!(called(nfs, Label::Named("WRITE")), "NFSv3 WRITE");
        assert_eq!(called(None, Label::Procedure(7)), "procedure 7");
    }
}
