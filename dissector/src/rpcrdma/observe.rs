//! What is told of messages to those who judge them.

use super::{Kind, Peers, Transactions};
use crate::event::Event;
use crate::observation::{Observation, Observed, Sent, Stray};
use crate::rc::Send;
use crate::transaction::Seen;
use rdmascope_wire::bth::Reth;
use rdmascope_wire::rpc;
use rdmascope_wire::rpcrdma::{Header, Procedure};

impl Peers {
    /// Reports something seen on this connection.
    pub fn observe(&self, what: Observed<'_>, report: &mut impl FnMut(Event<'_>)) {
        let Peers { connection, half_flows, .. } = self;
        let requester = self.forward_caller();
        report(Event::Observation(&Observation { connection: *connection, requester, half_flows, what }));
    }
}

impl Transactions {
    /// Reports a Send of end `from`: what it is, its header, and the RPC message behind that.
    pub(super) fn observe_send(
        &mut self,
        send: &Send<'_>,
        (kind, header, payload): (Kind, Option<&Header<'_>>, Option<&[u8]>),
        from: usize,
        peers: &Peers,
        report: &mut impl FnMut(Event<'_>),
    ) {
        if header.is_none() && peers.speaks_rpc != Some(true) {
            return;
        }
        let xid = header.map(|header| header.xid);
        let waiting = xid.and_then(|xid| match kind {
            Kind::Call => peers.sides[from].calls.get(&xid),
            Kind::Reply | Kind::Error => peers.sides[1 - from].calls.get(&xid),
            Kind::Done => peers.sides[from].pulls.get(&xid),
            Kind::Other => None,
        });
        let told = match (kind, header) {
            (_, None) | (Kind::Other, _) => false,
            (Kind::Done, _) => true,
            (Kind::Error, _) => waiting.is_some(),
            (_, Some(header)) => match header.procedure {
                Procedure::Nomsg if kind == Kind::Call => !header.reads.is_empty() && header.stop.is_none(),
                Procedure::Nomsg => waiting.is_some(),
                _ => payload.is_some_and(|payload| rpc::peek(payload).is_ok()),
            },
        };
        let open = waiting.and_then(|slot| self.slots.get(slot.index as usize));
        let sent = Sent {
            from,
            kind,
            told,
            send,
            header,
            outstanding: open.is_some(),
            missing_at_call: open.filter(|_| kind != Kind::Call).map(|open| open.missing_before),
            missing_packets: peers.missing_packets,
            paired: peers.paired,
        };
        peers.observe(Observed::Sent(&sent), report);
    }

    /// Reports an RDMA operation of end `from` that leaves at `address` what was advertised.
    #[cold]
    pub fn observe_stray(
        &self,
        from: usize,
        (seen, reading, reth, address): (Seen, bool, Reth, u64),
        peers: &Peers,
        report: &mut impl FnMut(Event<'_>),
    ) {
        if self.observes {
            peers.observe(Observed::Stray(Stray { from, seen, reading, reth, address }), report);
        }
    }
}
