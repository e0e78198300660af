//! Passes deliveries from the transport to RPC-over-RDMA. Early ones wait.

use super::{Session, SessionEnd};
use crate::event::{Event, Eviction, Report};
use crate::observation::{Faulty, Missing, Observed, Refused, Repeated};
use crate::rdma::{Delivery, End, Fault, Operation, Piece, Placement, Position, Repetition, Send};
use crate::record::Seen;
use crate::rpcrdma::{Access, Kind, Peers, Transactions, is_request_for, reused_xid};

impl Session {
    /// Delivers waiting entries that are no longer early, or that have waited long enough by `now`
    /// (`None`: all of them).
    pub(super) fn settle_early(
        &mut self,
        now: Option<Seen>,
        transactions: &mut Transactions,
        report: &mut Report<'_>,
    ) {
        loop {
            self.note_half_flows(transactions);
            let Session { peers, ends, .. } = self;
            let ready = End::BOTH.into_iter().find_map(|side| {
                let mut early = core::mem::take(&mut ends[side].early);
                let held = early.take_ready(|delivery| !is_early(side, delivery, ends, peers, transactions));
                ends[side].early = early;
                Some((side, held?))
            });
            if let Some((side, held)) = ready {
                deliver(side, held.delivery(), ends, peers, transactions, report);
                continue;
            }
            if !ends.iter().any(|end| end.early.is_due(now, peers.paired)) {
                return;
            }
            if let Some(end) = ends.iter_mut().find(|end| !peers.paired && !end.alone && end.early.is_full())
            {
                end.alone = true;
                continue;
            }
            self.release_first(transactions, report);
        }
    }

    /// Delivers the oldest entry. If a gap of the other end holds back the message that the entry
    /// answers, or if the missing packets were acknowledged, skips the gap instead.
    fn release_first(&mut self, transactions: &mut Transactions, report: &mut Report<'_>) {
        let oldest = |side: End| self.ends[side].early.first().map_or(u64::MAX, |seen| seen.frame);
        let side = if oldest(End::Second) < oldest(End::First) { End::Second } else { End::First };
        let Session { peers, transport, ends, .. } = self;
        let answer = ends[side].early.iter().next();
        let request_psn = answer.and_then(|answer| {
            let answer = answer.delivery();
            transport.find_held_send(side.other(), |send| is_request_for(send, &answer))
        });
        let mut hand_up = |from: End, delivery: Delivery<'_>| {
            hand_up(from, &delivery, ends, peers, transactions, report);
        };
        if transport.skip_acknowledged_gaps(side.other(), &mut hand_up) {
            return;
        }
        if let Some(psn) = request_psn {
            return transport.skip_gaps_before(side.other(), psn, &mut hand_up);
        }
        if let Some(held) = ends[side].early.take_first() {
            deliver(side, held.delivery(), ends, peers, transactions, report);
        }
    }
}

#[cold]
pub(super) fn observe_fault(
    from: End,
    (seen, piece, position, fault): (Seen, Piece, Position, Fault),
    peers: &Peers,
    report: &mut Report<'_>,
) {
    // Other protocols use operations that RPC-over-RDMA does not.
    if !matches!(fault, Fault::Foreign | Fault::Opcode(_)) || peers.speaks_rpc == Some(true) {
        peers.observe(Observed::Faulty(Faulty { from, seen, piece, position, fault }), report);
    }
}

/// Delivers an operation of end `from` to RPC-over-RDMA, unless it has to wait.
#[inline]
pub(super) fn hand_up(
    from: End,
    delivery: &Delivery<'_>,
    ends: &mut [SessionEnd; 2],
    peers: &mut Peers,
    transactions: &mut Transactions,
    report: &mut Report<'_>,
) {
    if let Delivery::Send(send) = delivery {
        peers.recognize(send);
    }
    let must_follow = delivery.is_request() && ends[from].early.has_requests();
    if must_follow || is_early(from, delivery, ends, peers, transactions) {
        ends[from].early.keep(delivery);
    } else {
        deliver(from, *delivery, ends, peers, transactions, report);
    }
}

/// Whether an operation of end `from` answers a message that was not seen yet.
#[inline]
fn is_early(
    from: End,
    delivery: &Delivery<'_>,
    ends: &[SessionEnd; 2],
    peers: &Peers,
    transactions: &Transactions,
) -> bool {
    /// Maximum number of packets of a half-flow within which its protocol becomes known.
    const FIRST: u64 = 64;
    match delivery {
        _ if !peers.paired && ends[from].alone => false,
        Delivery::ReadResponse(placement) => {
            placement.request.is_some_and(|request| ends[from.other()].early.has_read_request(request))
        }
        Delivery::Refused { request, .. } => {
            request.is_some_and(|request| ends[from.other()].early.has_operation_in(request.frame))
        }
        // If the capture begins with an RDMA operation, only the other half-flow shows whose memory
        // it accesses.
        Delivery::Write(_) | Delivery::ReadRequest(_) if peers.speaks_rpc.is_none() && !peers.paired => {
            ends[from].counts.packets <= FIRST
        }
        Delivery::Send(send) if precedes_waiting_reply(send, from, ends, peers) => true,
        _ => transactions.is_early(delivery, from, peers),
    }
}

/// Whether a Send of end `from` is a call with the XID of another one, whose reply waits: for its call,
/// or after a gap that the caller has acknowledged.
#[inline]
fn precedes_waiting_reply(send: &Send<'_>, from: End, ends: &[SessionEnd; 2], peers: &Peers) -> bool {
    let other = from.other();
    (peers.gaps[other] || ends[other].early.has_requests())
        && reused_xid(send, from, peers)
            .is_some_and(|xid| peers.gaps[other] || ends[other].early.has_reply_to(xid))
}

/// Whether a delivery may lead to an event at once. Operations on memory that was not advertised
/// are only counted, unless the connection carries RPC-over-RDMA.
#[cold]
fn may_cause_event(delivery: &Delivery<'_>, peers: &Peers) -> bool {
    match delivery {
        Delivery::Write(_) | Delivery::ReadRequest(_) | Delivery::ReadResponse(_) => {
            peers.speaks_rpc == Some(true)
        }
        Delivery::Unplaced { .. } => false,
        _ => true,
    }
}

/// Notes payload of a protocol other than RPC-over-RDMA as bulk: no result depends on it.
#[cold]
fn note_foreign(placement: &Placement<'_>, peers: &Peers, transactions: &mut Transactions) {
    if peers.protocol.is_some() && peers.speaks_rpc != Some(true) {
        transactions.note_bulk(placement);
    }
}

/// Whether an operation is not yet counted as unmatched. `last` is the position of the last one of
/// its end that is. An operation of no bytes accesses no memory (IBTA volume 1, section 9.7.4.1.5).
#[cold]
fn begins_operation(placement: &Placement<'_>, last: &mut Option<Position>) -> bool {
    let Placement { position, first, memory, .. } = *placement;
    memory.length > 0 && (last.replace(first) != Some(first) || position == first)
}

/// Delivers an operation of end `from` to RPC-over-RDMA.
#[inline]
fn deliver(
    from: End,
    delivery: Delivery<'_>,
    ends: &mut [SessionEnd; 2],
    peers: &mut Peers,
    transactions: &mut Transactions,
    report: &mut Report<'_>,
) {
    if peers.number().is_none() && may_cause_event(&delivery, peers) {
        transactions.number(peers);
    }
    let SessionEnd { counts, unmatched, .. } = &mut ends[from];
    match delivery {
        Delivery::Send(send) => {
            counts.sends += 1;
            counts.invalidations += u64::from(send.invalidated.is_some());
            let (kind, call) = transactions.handle_send(&send, from, peers, report);
            counts.other_sends += u64::from(kind == Kind::Other);
            // These were counted before the reply showed whose memory it is.
            counts.unmatched_placements -= transactions.take_claimed().min(counts.unmatched_placements);
            ends[from].acknowledgements.note(&send, call, peers, transactions);
        }
        Delivery::Write(placement) => {
            counts.written_bytes += u64::from(placement.length);
            counts.writes += u64::from(placement.position == placement.first);
            if !transactions.place(&placement, false, from.other(), peers, report) {
                counts.unmatched_placements += u64::from(begins_operation(&placement, &mut unmatched[0]));
                transactions.keep_unclaimed(&placement, from.other(), peers);
                note_foreign(&placement, peers, transactions);
            }
            if placement.position == placement.first && transactions.is_judged() {
                let operation = (placement.seen, placement.position, false, placement.memory);
                transactions.observe_operation(from, operation, peers, report);
            }
        }
        Delivery::ReadRequest(request) => {
            counts.read_requests += u64::from(!request.repeated);
            transactions.handle_read(&request, from.other(), peers);
            if !request.repeated && transactions.is_judged() {
                let operation = (request.seen, request.position, true, request.memory);
                transactions.observe_operation(from, operation, peers, report);
            }
        }
        Delivery::ReadResponse(placement) => {
            let placed = transactions.place(&placement, true, from, peers, report);
            if placement.repeated {
                ends[from].replayed.note(&placement);
            } else if !placed {
                counts.unmatched_placements += u64::from(begins_operation(&placement, &mut unmatched[1]));
                note_foreign(&placement, peers, transactions);
            }
        }
        Delivery::Missing { packets, last } => {
            counts.missing_packets += u64::from(packets);
            let acknowledged = last.and_then(|last| peers.acknowledged_at(from, last));
            transactions.lack(packets.into(), acknowledged, peers);
            peers.flights[from].lack();
            if transactions.observes() {
                peers.observe(Observed::Missing(Missing { from, packets, acknowledged }), report);
            }
        }
        Delivery::Damaged { seen } => {
            counts.bad_icrc += 1;
            ends[from].first_frames.bad_icrc.get_or_insert(seen.frame);
            // The capture has them, but what they were is as unknown as if it had not.
            transactions.lack(1, None, peers);
            if transactions.observes() {
                peers.observe(Observed::Missing(Missing { from, packets: 1, acknowledged: None }), report);
            }
        }
        // No observers.
        Delivery::Repeated(_) | Delivery::Refused { .. } | Delivery::Restarted
            if !transactions.observes() => {}
        Delivery::Faulty { .. } if !transactions.is_judged() => {}
        Delivery::Repeated(Repetition { seen, first, piece, position, bytes, read_length }) => {
            let repeated = Repeated { from, seen, first, piece, position, bytes, read_length };
            peers.observe(Observed::Repeated(repeated), report);
        }
        Delivery::Refused { seen, position, refusal, request, operation: named } => {
            let operation = request.and_then(|request| peers.operation_in(request.frame));
            let is_operation = operation.is_some() || named.is_some();
            let of_request = request.unwrap_or(seen);
            let allowed = || {
                let (operation, memory) = named?;
                let access = Access { memory, address: memory.address, seen: of_request, position: None };
                let reading = operation == Operation::ReadRequest;
                transactions.allowed_memory(from, reading, &access, peers).ok()
            };
            let advertised = operation.or_else(allowed).flatten();
            let refused = Refused { from, seen, position, refusal, request, is_operation, advertised };
            peers.observe(Observed::Refused(refused), report);
        }
        Delivery::Restarted => {
            peers.observe(Observed::Missing(Missing { from, packets: 1, acknowledged: None }), report)
        }
        Delivery::Faulty { seen, piece, position, fault } => {
            observe_fault(from, (seen, piece, position, fault), peers, report);
        }
        // The capture lacks the packet that names the memory, and counts it as missing.
        Delivery::Unplaced { .. } => {}
        Delivery::Overflow => {
            let connection = peers.connection();
            report(Event::Eviction(Eviction::HeldPackets { connection }));
        }
    }
}
