//! Facts that the first pass keeps for the comments of the second.

use super::brief::brief;
use crate::output::notify;
use core::fmt;
use foldhash::fast::FixedState;
use rdmascope_analysis::names::{self, Failure, Label, Protocol};
use rdmascope_analysis::units::Counted;
use rdmascope_dissector::connection::{Connection, ConnectionId, Endpoint, Origin, State};
use rdmascope_dissector::event::{Event, Packet};
use rdmascope_dissector::exchange::Step;
use rdmascope_dissector::role::StepOf;
use rdmascope_dissector::transaction::{Missing, Outcome, Transaction};
use rdmascope_wire::Xid;
use std::collections::HashMap;

/// The facts about connections and transactions that comments need.
#[derive(Debug, Default)]
pub(super) struct Facts {
    connections: HashMap<ConnectionId, ConnectionFacts, FixedState>,
    /// By [`Transaction::begun`].
    transactions: HashMap<u64, TransactionFacts, FixedState>,
    /// The last transaction that ended.
    last: Option<(ConnectionId, u64)>,
    /// Number of connections with a single packet.
    single: u64,
}

#[derive(Debug)]
pub(super) struct ConnectionFacts {
    requester: Endpoint,
    responder: Endpoint,
    roles_known: bool,
    /// The negotiated parameters: maximum size of Sends to the responder and to the requester in
    /// bytes, and whether both support remote invalidation.
    pub(super) negotiated: Option<(u32, u32, bool)>,
}

#[derive(Debug)]
pub(super) struct TransactionFacts {
    pub(super) number: u64,
    pub(super) connection: ConnectionId,
    pub(super) xid: Xid,
    pub(super) protocol: Option<Protocol>,
    pub(super) label: Label,
    pub(super) outcome: Outcome,
    pub(super) ending: Ending,
    pub(super) latency: Option<u64>,
    pub(super) call: Option<MessageFacts>,
    pub(super) reply: Option<MessageFacts>,
    pub(super) steps: Box<[Step]>,
}

#[derive(Debug)]
pub(super) struct MessageFacts {
    /// The packet that completed the Send.
    pub(super) frame: u64,
    /// The first ranges missing from the capture.
    pub(super) missing: Box<[Missing]>,
    /// Number of further ranges.
    pub(super) further_missing: usize,
    /// Its main fields, in a line.
    pub(super) fields: Box<str>,
}

impl Facts {
    /// Maximum number of kept connections with a single packet. Spoofed packets can open any
    /// number.
    const MOST_SINGLE: u64 = 16_384;

    /// Takes an event of the first pass. For a connection that is dropped, returns `Some` with the
    /// packet of its transaction, if any.
    pub(super) fn handle(&mut self, event: &Event<'_>) -> Option<Option<u64>> {
        match event {
            Event::Transaction(transaction) => {
                self.transactions.insert(transaction.begun, TransactionFacts::from(*transaction));
                self.last = Some((transaction.connection, transaction.begun));
            }
            Event::Connection(connection) => {
                let is_single = is_single(connection);
                self.single += u64::from(is_single);
                if is_single && self.single > Facts::MOST_SINGLE {
                    return Some(self.leave_out(connection.id));
                }
                self.connections.insert(connection.id, ConnectionFacts::from(*connection));
            }
            _ => {}
        }
        None
    }

    /// Forgets the transaction of a connection with a single packet. Returns the packet.
    fn leave_out(&mut self, id: ConnectionId) -> Option<u64> {
        let (_, begun) = self.last.filter(|(connection, _)| *connection == id)?;
        Some(self.transactions.remove(&begun)?.call?.frame)
    }

    /// Warns about dropped connections.
    pub(super) fn report_left_out(&self) {
        if let left_out @ 1.. = self.single.saturating_sub(Facts::MOST_SINGLE) {
            let connections = Counted(left_out, "connection");
            notify(format_args!("warning: comments omit {connections} with a single packet each"));
        }
    }

    /// A connection. Returns `None` for one that turned out to be part of another.
    pub(super) fn connection(&self, id: ConnectionId) -> Option<&ConnectionFacts> {
        self.connections.get(&id)
    }

    /// The transaction of a step.
    pub(super) fn transaction(&self, of: StepOf) -> Option<&TransactionFacts> {
        self.transactions.get(&of.begun)
    }
}

/// Whether a connection has at most one packet, or is a REQ without an answer.
fn is_single(connection: &Connection) -> bool {
    let sent = |end: &Endpoint| end.sent.packets + end.sent.bad_icrc;
    let may_be_single = connection.origin != Origin::Cm || connection.state == State::Requested;
    may_be_single && sent(&connection.requester) + sent(&connection.responder) <= 1
}

impl From<&Connection> for ConnectionFacts {
    fn from(connection: &Connection) -> ConnectionFacts {
        let thresholds = connection.call_inline_threshold.zip(connection.reply_inline_threshold);
        let negotiated = thresholds.zip(connection.remote_invalidation);
        ConnectionFacts {
            requester: connection.requester,
            responder: connection.responder,
            roles_known: connection.roles_known,
            negotiated: negotiated.map(|((call, reply), invalidation)| (call, reply, invalidation)),
        }
    }
}

impl ConnectionFacts {
    /// The end that sent a packet of the connection.
    pub(super) fn sender(&self, packet: &Packet<'_>) -> Option<&'static str> {
        let flow = packet.flow()?;
        let is_from = |from: &Endpoint, to: &Endpoint| {
            let addresses = (from.address, to.address) == (flow.source, flow.destination);
            addresses && (from.address != to.address || to.qpn == Some(flow.destination_qp))
        };
        let by_requester = is_from(&self.requester, &self.responder);
        let by_responder = is_from(&self.responder, &self.requester);
        Some(match (by_requester, by_responder, self.roles_known) {
            (true, false, true) => "from the requester",
            (false, true, true) => "from the responder",
            (true, false, false) => "probably from the requester",
            (false, true, false) => "probably from the responder",
            _ => return None,
        })
    }
}

impl From<&Transaction> for TransactionFacts {
    fn from(transaction: &Transaction) -> TransactionFacts {
        TransactionFacts {
            number: transaction.number,
            connection: transaction.connection,
            xid: transaction.xid,
            protocol: Protocol::of(transaction),
            label: Label::of(transaction),
            outcome: transaction.outcome,
            ending: Ending::of(transaction),
            latency: transaction.latency(),
            call: MessageFacts::of(transaction, false),
            reply: MessageFacts::of(transaction, true),
            steps: transaction.exchange.as_ref().map(|kept| kept.steps.as_slice()).unwrap_or_default().into(),
        }
    }
}

impl MessageFacts {
    fn of(transaction: &Transaction, of_reply: bool) -> Option<MessageFacts> {
        const MOST: usize = 4;
        let message = if of_reply { &transaction.reply } else { &transaction.call };
        let message = message.as_ref()?;
        let missing = &message.missing[..message.missing.len().min(MOST)];
        Some(MessageFacts {
            frame: message.seen.frame,
            missing: missing.into(),
            further_missing: message.missing.len() - missing.len(),
            fields: brief(transaction, of_reply),
        })
    }
}

/// The result in a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// An error below the procedure.
    Failed(Failure),
    /// The status of the procedure.
    Status(u32, Option<&'static str>),
    /// No result that could be decoded.
    Unknown,
}

impl Ending {
    fn of(transaction: &Transaction) -> Ending {
        let name = |status| names::status_of(transaction, status);
        match (Failure::of(transaction), transaction.status) {
            (Some(Failure::Status(status)), _) | (None, Some(status)) => Ending::Status(status, name(status)),
            (Some(failure), _) => Ending::Failed(failure),
            (None, None) => Ending::Unknown,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ending::Failed(Failure::Transport(Some(error))) => write!(f, ", RDMA_ERROR {error}"),
            Ending::Failed(Failure::Transport(None)) => f.write_str(", RDMA_ERROR"),
            Ending::Failed(Failure::Rpc(status)) => write!(f, ", {status}"),
            Ending::Failed(Failure::Status(status)) | Ending::Status(status, None) => {
                write!(f, ", status {status}")
            }
            Ending::Status(_, Some(name)) => write!(f, ", {name}"),
            Ending::Unknown => Ok(()),
        }
    }
}
