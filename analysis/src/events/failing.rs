//! Calls that fail in the same way on one connection after the other. Linux does that with calls that a server cannot take, such as the
//! SETACL of a long ACL: it is answered with GARBAGE_ARGS or ERR_CHUNK, the client disconnects, and the operation comes again.

use crate::names::{Failure, FailureName, Label, Protocol};
use crate::units::Duration;
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::record::Seen;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_wire::{Xid, rpc};
use std::collections::HashMap;

/// What failed, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct What {
    protocol: Option<Protocol>,
    label: Label,
    failure: Failure,
}

/// Calls of one connection that failed in the same way.
#[derive(Clone, Debug)]
pub(super) struct Failing {
    what: What,
    calls: u64,
    first_call: Seen,
    last_reply: Seen,
    /// The first of them.
    xids: Vec<Xid>,
}

impl Failing {
    /// The last reply that said so.
    pub(super) fn last_reply(&self) -> Seen {
        self.last_reply
    }
}

/// Kinds of failures that are kept of a connection.
const MOST_KINDS: usize = 8;
/// XIDs that are kept of each.
const MOST_XIDS: usize = 8;
/// Connections that are named.
const MOST_NAMED: usize = 8;

/// Takes in a transaction: whether the other end could not take the call, as far as that is no matter of the operation.
pub(super) fn add(failing: &mut Vec<Failing>, transaction: &Transaction) {
    let Some(failure) = Failure::of(transaction) else { return };
    if !matches!(failure, Failure::Transport(_) | Failure::Rpc(rpc::Status::GarbageArguments)) {
        return;
    }
    let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply) else { return };
    let what = What { protocol: Protocol::of(transaction), label: Label::of(transaction), failure };
    match failing.iter().position(|known| known.what == what) {
        Some(at) => {
            let known = &mut failing[at];
            known.calls += 1;
            known.last_reply = reply.seen;
            if known.xids.len() < MOST_XIDS {
                known.xids.push(transaction.xid);
            }
        }
        None if failing.len() < MOST_KINDS => failing.push(Failing {
            what,
            calls: 1,
            first_call: call.seen,
            last_reply: reply.seen,
            xids: vec![transaction.xid],
        }),
        None => {}
    }
}

/// What failed in the same way on several connections that follow one another.
#[derive(Clone, Debug)]
pub(super) struct Story {
    what: What,
    pub(super) calls: u64,
    pub(super) first_call: Seen,
    pub(super) last_reply: Seen,
    pub(super) connections: Vec<ConnectionId>,
    xids: Vec<Xid>,
    /// All XIDs are known.
    has_all: bool,
}

impl Story {
    /// Nanoseconds from the first call to the last reply.
    pub(super) fn length(&self) -> u64 {
        self.last_reply.time.since(self.first_call.time)
    }

    /// The story in words.
    pub(super) fn text(&self) -> String {
        let What { protocol, label, failure } = self.what;
        let protocol = protocol.map_or(String::new(), |protocol| format!("{protocol} "));
        let mut xids = self.xids.clone();
        xids.sort_unstable();
        xids.dedup();
        let under = match xids.len() as u64 {
            1 => " under the same XID",
            different if self.has_all && different == self.calls => " under new XIDs",
            _ => "",
        };
        let named: Vec<String> =
            self.connections.iter().take(MOST_NAMED).map(|id| id.0.to_string()).collect();
        let more = match self.connections.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!(
            "client sent {protocol}{label} {} times in {}{under}, each time answered with {}; on connections {}{more}",
            self.calls,
            Duration(self.length()),
            FailureName(failure, self.what.protocol),
            named.join(", "),
        )
    }
}

/// The stories of connections in the order of time: of each its number, the first of those that it follows, and what failed on it.
pub(super) fn stories<'a>(
    connections: impl Iterator<Item = (ConnectionId, ConnectionId, &'a [Failing])>,
) -> Vec<Story> {
    // By the connection that all others follow, and the operation: the places of its stories, few as there are few kinds of failures.
    type Places = HashMap<(ConnectionId, Option<Protocol>, Label), Vec<usize>, FixedState>;
    let mut places = Places::default();
    let mut stories: Vec<Story> = Vec::new();
    for (id, root, failing) in connections {
        for Failing { what, calls, first_call, last_reply, xids } in failing {
            let has_all = xids.len() as u64 == *calls;
            let places = places.entry((root, what.protocol, what.label)).or_default();
            match places.iter().find(|at| stories[**at].what == *what) {
                Some(at) => {
                    let story = &mut stories[*at];
                    story.calls += calls;
                    story.last_reply = *last_reply;
                    story.connections.push(id);
                    story.has_all &= has_all;
                    story.xids.extend(xids);
                }
                None => {
                    places.push(stories.len());
                    stories.push(Story {
                        what: *what,
                        calls: *calls,
                        first_call: *first_call,
                        last_reply: *last_reply,
                        connections: vec![id],
                        xids: xids.clone(),
                        has_all,
                    });
                }
            }
        }
    }
    stories.retain(|story| story.connections.len() > 1);
    stories
}
