//! Calls that fail in the same way on successive connections. Linux does this with calls that a
//! server cannot process, such as the SETACL of a long ACL: the server answers GARBAGE_ARGS or
//! ERR_CHUNK, the client disconnects, and sends the operation again.

use crate::names::{Failure, FailureName, Label, Protocol};
use crate::units::Duration;
use foldhash::fast::FixedState;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::record::Seen;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_wire::{Xid, rpc};
use std::collections::HashMap;

/// The operation that failed, and its failure.
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
    /// The XIDs of the first calls.
    xids: Vec<Xid>,
}

impl Failing {
    /// The last reply with this failure.
    pub(super) fn last_reply(&self) -> Seen {
        self.last_reply
    }
}

/// The most kinds of failures kept for a connection.
const MOST_KINDS: usize = 8;
/// The most XIDs kept for each kind.
const MOST_XIDS: usize = 8;
/// The most connections listed in the text.
const MOST_NAMED: usize = 8;

/// Adds a transaction if the other end could not process the call. Failures of the operation itself
/// do not count.
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

/// A call that failed in the same way on several successive connections.
#[derive(Clone, Debug)]
pub(super) struct Story {
    what: What,
    pub(super) calls: u64,
    pub(super) first_call: Seen,
    pub(super) last_reply: Seen,
    pub(super) connections: Vec<ConnectionId>,
    xids: Vec<Xid>,
    /// Whether `xids` holds the XID of every call.
    has_all: bool,
}

impl Story {
    /// Nanoseconds from the first call to the last reply.
    pub(super) fn length(&self) -> u64 {
        self.last_reply.time.since(self.first_call.time)
    }

    /// The description for people.
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

/// The stories of connections in order of time. The iterator yields each connection's number, the
/// first connection of its chain, and its failed calls.
pub(super) fn stories<'a>(
    connections: impl Iterator<Item = (ConnectionId, ConnectionId, &'a [Failing])>,
) -> Vec<Story> {
    // Indexes into `stories`, by the first connection of the chain and the operation. Each list is
    // as short as the number of kinds of failures.
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
