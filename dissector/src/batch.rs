//! Events that outlive the call that reports them, so that another thread can take them.

use crate::connection::{Connection, ConnectionId};
use crate::event::{Event, Eviction, Report};
use crate::observation::{Announced, HalfFlow, Managed, Observation, Observed, Sent};
use crate::rdma::{End, Position, Send};
use crate::record::{Seen, Time};
use crate::transaction::Transaction;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use rdmascope_wire::cm;
use rdmascope_wire::psn::Psn;
use rdmascope_wire::rpcrdma::Header;

/// Copies of events, in order. Their contents are those of the events; a Send and its header refer
/// to a copy of the Send's bytes.
#[derive(Debug, Default)]
pub struct Batch {
    events: Vec<Kept>,
    /// The transactions of the events, then transactions whose memory is reused.
    transactions: Vec<Transaction>,
    /// Number of transactions of the events.
    used: usize,
    /// Bytes of Sends, MADs and private data.
    bytes: Vec<u8>,
    /// Bytes of memory of the transactions.
    weight: usize,
}

/// A copy of an event.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "most events are observations")]
enum Kept {
    ClockStep(Seen),
    ClocksDiffer(Seen),
    /// The index of the transaction.
    Transaction(usize),
    Connection(Box<Connection>),
    Eviction(Eviction),
    Observation(Place, Copied),
}

/// The fields that all observations have.
#[derive(Clone, Copy, Debug)]
struct Place {
    connection: ConnectionId,
    place: u32,
    requester: End,
    roles_known: bool,
    half_flows: [HalfFlow; 2],
}

/// A copy of [`Observed`]. Ranges are in [`Batch::bytes`].
#[derive(Debug)]
enum Copied {
    /// Without borrowed data.
    Plain(Observed<'static>),
    Established(Box<Connection>),
    /// Without the Send and its header.
    Sent {
        sent: Sent<'static>,
        send: Send<'static>,
        bytes: Range<usize>,
        has_header: bool,
    },
    Managed {
        from: End,
        seen: Seen,
        mad: Range<usize>,
    },
    /// Without private data.
    Announced(Announced<'static>, Range<usize>),
}

/// Replaces a Send whose bytes are kept elsewhere.
static NO_SEND: Send<'static> = {
    let seen = Seen { frame: 0, time: Time(0) };
    Send {
        first: seen,
        seen,
        position: Position::new(Psn::new(0)),
        extent: 0,
        bytes: &[],
        length: None,
        missing: None,
        invalidated: None,
    }
};

impl Batch {
    /// Number of events from which on a batch is large.
    const MANY: usize = 128;
    /// Bytes of memory from which on a batch is large.
    const LARGE: usize = 1 << 18;

    /// Adds a copy of an event. Returns false for an event that cannot be kept: [`Event::Packet`],
    /// [`Event::Attributed`] and [`Event::Framed`].
    pub fn push(&mut self, event: &Event<'_>) -> bool {
        let kept = match *event {
            Event::ClockStep(seen) => Kept::ClockStep(seen),
            Event::ClocksDiffer(seen) => Kept::ClocksDiffer(seen),
            Event::Transaction(transaction) => Kept::Transaction(self.keep(transaction)),
            Event::Connection(connection) => Kept::Connection(Box::new(connection.clone())),
            Event::Eviction(eviction) => Kept::Eviction(eviction),
            Event::Observation(observation) => {
                let Observation { connection, place, requester, roles_known, half_flows, kind } =
                    *observation;
                let place = Place { connection, place, requester, roles_known, half_flows: *half_flows };
                Kept::Observation(place, self.copy(kind))
            }
            Event::Packet(_) | Event::Attributed(_) | Event::Framed(_) => return false,
        };
        self.events.push(kept);
        true
    }

    /// Whether the batch is large enough to be passed on.
    pub fn is_large(&self) -> bool {
        self.events.len() >= Batch::MANY || self.footprint() >= Batch::LARGE
    }

    /// Whether the batch has no events.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Reports the events, in order.
    pub fn each(&self, report: &mut Report<'_>) {
        for kept in &self.events {
            match kept {
                Kept::ClockStep(seen) => report(Event::ClockStep(*seen)),
                Kept::ClocksDiffer(seen) => report(Event::ClocksDiffer(*seen)),
                Kept::Transaction(index) => report(Event::Transaction(&self.transactions[*index])),
                Kept::Connection(connection) => report(Event::Connection(connection)),
                Kept::Eviction(eviction) => report(Event::Eviction(*eviction)),
                Kept::Observation(place, copied) => self.observe(place, copied, report),
            }
        }
    }

    /// Removes the events. The memory is kept for the next ones, unless it is large.
    pub fn clear(&mut self) {
        if self.footprint() >= 2 * Batch::LARGE {
            *self = Batch::default();
        }
        self.events.clear();
        self.bytes.clear();
        (self.used, self.weight) = (0, 0);
    }

    /// Bytes of memory of transactions and messages.
    fn footprint(&self) -> usize {
        self.weight + self.bytes.len()
    }

    fn keep(&mut self, transaction: &Transaction) -> usize {
        match self.transactions.get_mut(self.used) {
            Some(spare) => spare.clone_from(transaction),
            None => self.transactions.push(transaction.clone()),
        }
        self.weight += size_of::<Transaction>() + transaction.details.footprint();
        self.used += 1;
        self.used - 1
    }

    fn keep_bytes(&mut self, bytes: &[u8]) -> Range<usize> {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        begin..self.bytes.len()
    }

    fn copy(&mut self, observed: Observed<'_>) -> Copied {
        let plain = match observed {
            Observed::Established(connection) => return Copied::Established(Box::new(connection.clone())),
            Observed::Sent(sent) => {
                let bytes = self.keep_bytes(sent.send.bytes);
                let has_header = sent.header.is_some();
                return Copied::Sent {
                    sent: without_send(sent),
                    send: without_bytes(sent.send),
                    bytes,
                    has_header,
                };
            }
            Observed::Managed(&Managed { from, seen, mad, .. }) => {
                return Copied::Managed { from, seen, mad: self.keep_bytes(mad) };
            }
            Observed::Announced(announced) => {
                let range = self.keep_bytes(announced.private_data);
                return Copied::Announced(without_private_data(announced), range);
            }
            Observed::RolesKnown => Observed::RolesKnown,
            Observed::Joined(other) => Observed::Joined(other),
            Observed::Missing(missing) => Observed::Missing(missing),
            Observed::Unmatched(unmatched) => Observed::Unmatched(unmatched),
            Observed::Handshake(handshake) => Observed::Handshake(handshake),
            Observed::Closes(closes) => Observed::Closes(closes),
            Observed::Repeated(repeated) => Observed::Repeated(repeated),
            Observed::Refused(refused) => Observed::Refused(refused),
            Observed::Spoiled(spoiled) => Observed::Spoiled(spoiled),
            Observed::Faulty(faulty) => Observed::Faulty(faulty),
            Observed::Outstanding(outstanding) => Observed::Outstanding(outstanding),
            Observed::Revoked(revoked) => Observed::Revoked(revoked),
            Observed::Shared(shared) => Observed::Shared(shared),
            Observed::Corrected(corrected) => Observed::Corrected(corrected),
            Observed::Offered(offered) => Observed::Offered(offered),
            Observed::Ending(ending) => Observed::Ending(ending),
        };
        Copied::Plain(plain)
    }

    fn observe(&self, place: &Place, copied: &Copied, report: &mut Report<'_>) {
        let Place { connection, place, requester, roles_known, ref half_flows } = *place;
        let mut report_kind = |kind: Observed<'_>| {
            let it = Observation { connection, place, requester, roles_known, half_flows, kind };
            report(Event::Observation(&it));
        };
        match copied {
            Copied::Plain(kind) => report_kind(*kind),
            Copied::Established(connection) => report_kind(Observed::Established(connection)),
            Copied::Sent { sent, send, bytes, has_header } => {
                let send = Send { bytes: &self.bytes[bytes.clone()], ..*send };
                let header = if *has_header { Header::parse(send.bytes).ok() } else { None };
                report_kind(Observed::Sent(&Sent { send: &send, header: header.as_ref(), ..*sent }));
            }
            &Copied::Managed { from, seen, ref mad } => {
                let mad = &self.bytes[mad.clone()];
                if let Ok((_, message)) = cm::Message::parse(mad) {
                    report_kind(Observed::Managed(&Managed { from, seen, message: &message, mad }));
                }
            }
            Copied::Announced(announced, range) => {
                let private_data = &self.bytes[range.clone()];
                report_kind(Observed::Announced(&Announced { private_data, ..*announced }));
            }
        }
    }
}

fn without_send(sent: &Sent<'_>) -> Sent<'static> {
    let Sent { from, kind, is_explicit, send: _, header: _, outstanding, of_own_call, .. } = *sent;
    let Sent { missing_at_call, missing_packets, call, earlier, paired, .. } = *sent;
    Sent {
        from,
        kind,
        is_explicit,
        send: &NO_SEND,
        header: None,
        outstanding,
        of_own_call,
        missing_at_call,
        missing_packets,
        call,
        earlier,
        paired,
    }
}

fn without_bytes(send: &Send<'_>) -> Send<'static> {
    let Send { first, seen, position, extent, bytes: _, length, missing, invalidated } = *send;
    Send { first, seen, position, extent, bytes: &[], length, missing, invalidated }
}

fn without_private_data(announced: &Announced<'_>) -> Announced<'static> {
    let Announced { from, seen, name, meaning, private_data: _, is_cut, position, expects } = *announced;
    Announced { from, seen, name, meaning, private_data: &[], is_cut, position, expects }
}
