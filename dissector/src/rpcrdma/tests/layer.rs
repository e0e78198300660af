//! Tests of the layer with handmade Sends and RDMA operations: transactions, observations and
//! state.

use super::*;
use crate::connection::{FlowKey, Route};
use crate::exchange::Step;
use crate::observation::{Mismatch, Observation};
use crate::rdma::{MemoryRange, Placement, Position};
use crate::record::Time;
use crate::roomy::room;
use crate::rpcrdma::peers::Side;
use crate::transaction::{Missing, Part};
use core::net::{IpAddr, Ipv4Addr};
use rdmascope_wire::Qpn;

const CLIENT: End = End::First;
const SERVER: End = End::Second;
const NOTHING: Keep = Keep { steps: false, contents: false };

/// A connection that carries RPC-over-RDMA.
struct Layer {
    transactions: Transactions,
    peers: Peers,
    /// The last packet.
    seen: Seen,
    ended: Vec<Transaction>,
    noted: Vec<Noted>,
}

/// A part of an observation, with the frame of its packet.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Noted {
    /// The sender, the kind, whether the Send shows its kind, and the identity of the outstanding
    /// call with its XID.
    Sent(u64, End, Kind, bool, Option<CallIdentity>),
    RolesKnown(u64),
    /// The first byte outside the advertised memory, and the reason.
    Unmatched(u64, Mismatch),
}

fn segment(handle: u32, length: u32, offset: u64) -> Segment {
    Segment { handle: Rkey(handle), length, offset }
}

fn header(xid: u32, procedure: Procedure) -> Builder {
    Builder::new(Xid(xid), 1, procedure)
}

fn message(header: &Builder, payload: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    header.build(&mut bytes);
    bytes.extend(payload.iter().flat_map(|word| word.to_be_bytes()));
    bytes
}

/// An RDMA_MSG whose RPC message has only an XID and a type: 0 for a call, 1 for a reply.
fn msg(xid: u32, kind: u32) -> Vec<u8> {
    message(&header(xid, Procedure::Msg), &[xid, kind])
}

/// An RDMA_MSG call that advertises Write chunks of one segment each.
fn call_with(xid: u32, writes: &[Segment]) -> Vec<u8> {
    let writes = writes.iter().map(|segment| vec![*segment]).collect();
    message(&Builder { writes, ..header(xid, Procedure::Msg) }, &[xid, 0])
}

/// The reply that returns them.
fn reply_with(xid: u32, writes: &[Segment]) -> Vec<u8> {
    let writes = writes.iter().map(|segment| vec![*segment]).collect();
    message(&Builder { writes, ..header(xid, Procedure::Msg) }, &[xid, 1])
}

/// The header of an RDMA_NOMSG whose call is in a Position Zero Read chunk.
fn long_call(xid: u32, chunk: Segment) -> Builder {
    Builder { reads: vec![ReadSegment { position: 0, target: chunk }], ..header(xid, Procedure::Nomsg) }
}

/// NULL of NFS version 3: XID, CALL, RPC version, program, version, procedure, and AUTH_NONE twice.
fn null(xid: u32) -> Vec<u8> {
    [xid, 0, 2, 100_003, 3, 0, 0, 0, 0, 0].into_iter().flat_map(u32::to_be_bytes).collect()
}

impl Layer {
    fn new(keep: Keep, observe: Observe) -> Layer {
        let mut transactions = Transactions::new(keep, observe, false);
        let mut peers = Peers::new(0);
        peers.speaks_rpc = Some(true);
        transactions.number(&mut peers);
        let seen = Seen { frame: 0, time: Time(0) };
        Layer { transactions, peers, seen, ended: Vec::new(), noted: Vec::new() }
    }

    fn step<R>(
        &mut self,
        step: impl FnOnce(&mut Transactions, &mut Peers, &mut dyn FnMut(Event<'_>)) -> R,
    ) -> R {
        let Layer { transactions, peers, seen, ended, noted } = self;
        let frame = seen.frame;
        step(transactions, peers, &mut |event| match event {
            Event::Transaction(transaction) => ended.push(transaction.clone()),
            Event::Observation(Observation { kind, .. }) => match kind {
                Observed::Sent(sent) => {
                    noted.push(Noted::Sent(frame, sent.from, sent.kind, sent.is_explicit, sent.earlier));
                }
                Observed::RolesKnown => noted.push(Noted::RolesKnown(frame)),
                Observed::Unmatched(unmatched) => {
                    noted.push(Noted::Unmatched(unmatched.address, unmatched.mismatch))
                }
                _ => {}
            },
            _ => {}
        })
    }

    fn send(&mut self, from: End, bytes: &[u8]) -> (Kind, Option<Slot>) {
        self.send_invalidating(from, bytes, None)
    }

    fn send_invalidating(
        &mut self,
        from: End,
        bytes: &[u8],
        invalidated: Option<Rkey>,
    ) -> (Kind, Option<Slot>) {
        self.seen.frame += 1;
        let send = Send {
            first: self.seen,
            seen: self.seen,
            position: Position::default().plus(self.seen.frame as u32),
            extent: 1,
            bytes,
            length: Some(bytes.len() as u32),
            missing: None,
            invalidated,
        };
        self.step(|transactions, peers, mut report| transactions.handle_send(&send, from, peers, &mut report))
    }

    fn placement<'a>(&mut self, target: Segment, bytes: &'a [u8]) -> Placement<'a> {
        self.seen.frame += 1;
        let position = Position::default().plus(self.seen.frame as u32);
        let Segment { handle: rkey, length, offset: address } = target;
        Placement {
            seen: self.seen,
            position,
            first: position,
            request: None,
            memory: MemoryRange { rkey, address, length },
            address,
            bytes,
            length,
            repeated: false,
        }
    }

    /// The server writes to or reads from the client's memory. Returns false if no transaction
    /// advertised it.
    fn move_bytes(&mut self, reading: bool, target: Segment, bytes: &[u8]) -> bool {
        let placement = self.placement(target, bytes);
        self.step(|transactions, peers, mut report| {
            transactions.place(&placement, reading, CLIENT, peers, &mut report)
        })
    }

    fn write(&mut self, target: Segment) -> bool {
        self.move_bytes(false, target, &vec![7; target.length as usize])
    }

    /// The server writes to memory that was not advertised, before the reply that returns it.
    fn write_unclaimed(&mut self, target: Segment) {
        assert!(!self.write(target));
        let bytes = vec![7; target.length as usize];
        let placement = self.placement(target, &bytes);
        self.transactions.keep_unclaimed(&placement, CLIENT, &self.peers);
    }

    /// The server starts an RDMA WRITE to this memory.
    fn begin_write(&mut self, target: Segment) {
        let Placement { seen, position, memory, .. } = self.placement(target, &[]);
        self.step(|transactions, peers, mut report| {
            transactions.observe_operation(SERVER, (seen, position, false, memory), peers, &mut report);
        });
    }

    fn sent(&self) -> Vec<(u64, Kind, bool)> {
        let sent = |it: &Noted| match *it {
            Noted::Sent(frame, _, kind, is_explicit, _) => Some((frame, kind, is_explicit)),
            _ => None,
        };
        self.noted.iter().filter_map(sent).collect()
    }
}

/// A transaction that has ended leaves no counts, bytes or advertised memory.
#[test]
fn ended_transaction_leaves_no_state() {
    let mut layer = Layer::new(Keep { steps: true, contents: true }, Observe::Nothing);
    let (call, reply) = (segment(7, 40, 0x1000), segment(8, 100, 0x2000));
    let header = Builder { reply: Some(vec![reply]), ..long_call(1, call) };
    let bytes = message(&header, &[]);
    assert_eq!(layer.send(CLIENT, &bytes).0, Kind::Call);
    assert!(layer.move_bytes(true, call, &null(1)));
    assert!(layer.write(Segment { length: 24, ..reply }));
    let Transactions { gathered, kept, open, weight, .. } = layer.transactions;
    assert_eq!((gathered, kept, open), (40 + 24, bytes.len() + 40 + 24, 1));
    assert_eq!(layer.transactions.open(), 1);
    assert_eq!(weight, layer.transactions.slots[0].weight);
    let answer =
        Builder { reply: Some(vec![Segment { length: 24, ..reply }]), ..self::header(1, Procedure::Nomsg) };
    layer.send(SERVER, &message(&answer, &[]));
    let Transactions { gathered, kept, open, weight, .. } = layer.transactions;
    assert_eq!((gathered, kept, open, weight), (0, 0, 0, 0));
    let Side { calls, pulls, memory, .. } = &layer.peers.sides[CLIENT];
    assert!(calls.is_empty() && pulls.is_empty());
    assert!([call, reply].iter().all(|segment| !memory.advertises(segment.handle, segment.offset)));
    let [ended] = &layer.ended[..] else { panic!("one transaction") };
    assert_eq!((ended.timing.read_bytes, ended.timing.written_bytes), (40, 24));
    assert_eq!(ended.exchange.as_ref().unwrap().contents.len(), 4, "two Sends and two chunks");
}

/// The list of steps counts with its capacity, however often it is counted.
#[test]
fn kept_steps_count_with_list_capacity() {
    let mut layer = Layer::new(Keep { steps: true, contents: false }, Observe::Nothing);
    let chunks: Vec<_> = (0..5).map(|index| segment(10 + index, 100, 0)).collect();
    layer.send(CLIENT, &call_with(1, &chunks));
    let kept = |layer: &Layer, steps: usize| {
        let open = &layer.transactions.slots[0];
        assert_eq!(open.weight - open.weigh(), room(steps) * size_of::<Step>());
        assert_eq!(layer.transactions.weight, open.weight);
    };
    kept(&layer, 1);
    // One RDMA WRITE for each chunk is a step each. At the fifth the list grows.
    for (steps, chunk) in (2..).zip(chunks) {
        assert!(layer.write(chunk));
        kept(&layer, steps);
    }
}

/// The slot is reused at once. Late packets of the ended transaction do not count for the next one.
#[test]
fn late_ack_does_not_count_for_reused_slot() {
    let mut layer = Layer::new(NOTHING, Observe::Nothing);
    let first = layer.send(CLIENT, &msg(1, 0)).1.unwrap();
    layer.send(SERVER, &msg(1, 1));
    let second = layer.send(CLIENT, &msg(2, 0)).1.unwrap();
    assert_eq!(first.index, second.index);
    layer.transactions.note_acknowledged(first, layer.seen, &layer.peers);
    layer.send(SERVER, &msg(2, 1));
    let acknowledged: Vec<_> = layer.ended.iter().map(|it| it.timing.acknowledged).collect();
    assert_eq!(acknowledged, [None, None]);
}

/// An acknowledgement of a call counts if it precedes the reply. A TCP segment may be both.
#[test]
fn ack_in_reply_does_not_acknowledge_call() {
    for (before, expected) in [(1, Some(2)), (0, None)] {
        let mut layer = Layer::new(NOTHING, Observe::Nothing);
        let call = layer.send(CLIENT, &msg(1, 0)).1.unwrap();
        layer.seen.frame += 1;
        // The reply is the next frame.
        let seen = Seen { frame: layer.seen.frame + 1 - before, ..layer.seen };
        layer.transactions.note_acknowledged(call, seen, &layer.peers);
        layer.send(SERVER, &msg(1, 1));
        assert_eq!(layer.ended[0].timing.acknowledged.map(|seen| seen.frame), expected);
    }
}

/// A TCP segment with the first RDMA operation also acknowledges the call. That does not show when
/// the call arrived, whichever of the two is processed first.
#[test]
fn ack_in_first_rdma_operation_does_not_acknowledge_call() {
    for (offset, expected) in [(0, None), (1, Some(2))] {
        for is_acknowledged_first in [true, false] {
            let mut layer = Layer::new(NOTHING, Observe::Nothing);
            let target = segment(7, 100, 0);
            let call = layer.send(CLIENT, &call_with(1, &[target])).1.unwrap();
            let seen = Seen { frame: layer.seen.frame + 1, ..layer.seen };
            layer.seen.frame += offset;
            if is_acknowledged_first {
                layer.transactions.note_acknowledged(call, seen, &layer.peers);
            }
            assert!(layer.write(target));
            if !is_acknowledged_first {
                layer.transactions.note_acknowledged(call, seen, &layer.peers);
            }
            layer.send(SERVER, &reply_with(1, &[target]));
            assert_eq!(layer.ended[0].timing.acknowledged.map(|seen| seen.frame), expected);
        }
    }
}

/// Ended transactions stay in the order until it has twice the maximum of open ones. Then only they
/// are removed.
#[test]
fn ended_transactions_are_swept_from_order() {
    let mut layer = Layer::new(NOTHING, Observe::Nothing);
    let stays = layer.send(CLIENT, &msg(0, 0)).1.unwrap();
    let (call, reply) = (msg(1, 0), msg(1, 1));
    let extra = 10;
    for _ in 1..2 * MOST_OPEN + extra {
        layer.send(CLIENT, &call);
        layer.send(SERVER, &reply);
        layer.ended.clear();
    }
    assert_eq!(layer.transactions.order.len(), 1 + extra);
    assert_eq!(layer.transactions.order[0], stays);
    assert_eq!(layer.transactions.all_open(|_| Some(&layer.peers)).count(), 1);
}

/// RDMA Writes before a reply without a call belong to the chunks that it returns, unless some of
/// them may have been dropped.
#[test]
fn reply_without_call_claims_writes_to_its_chunks() {
    let returned = segment(7, 100, 0x1000);
    let part = |start: u64, length: u32| Segment { length, offset: returned.offset + start, ..returned };
    let lacks = |start, end| vec![Missing { part: Part::WriteChunk(0), start, end: Some(end) }];
    for (name, written, forgot, claimed, missing) in [
        ("all of it", vec![part(0, 100)], false, 100, vec![]),
        ("all of it, and other writes were dropped", vec![part(0, 100)], true, 100, vec![]),
        ("in two packets", vec![part(0, 50), part(50, 50)], true, 100, vec![]),
        ("a part", vec![part(0, 60)], false, 60, lacks(60, 100)),
        ("a part, and the rest may have been dropped", vec![part(0, 60)], true, 0, vec![]),
        ("only another handle", vec![segment(9, 100, 0x1000)], false, 0, vec![]),
        ("only bytes after it", vec![part(100, 10)], false, 0, vec![]),
    ] {
        let mut layer = Layer::new(NOTHING, Observe::Nothing);
        written.iter().for_each(|segment| layer.write_unclaimed(*segment));
        layer.transactions.unclaimed.forgot = forgot;
        layer.send(SERVER, &reply_with(1, &[returned]));
        let [ended] = &layer.ended[..] else { panic!("one transaction") };
        assert_eq!(ended.outcome, Outcome::NoCall);
        assert_eq!(ended.timing.written_bytes, claimed, "{name}");
        assert_eq!(ended.reply.as_ref().unwrap().missing, missing, "{name}");
        let packets = if claimed > 0 { written.len() as u64 } else { 0 };
        assert_eq!(layer.transactions.take_claimed(), packets, "{name}");
    }
}

/// RDMA Writes before a call advertised its memory do not belong to it.
#[test]
fn reply_to_known_call_claims_no_earlier_writes() {
    let chunk = segment(7, 100, 0x1000);
    let mut layer = Layer::new(NOTHING, Observe::Nothing);
    layer.write_unclaimed(chunk);
    layer.send(CLIENT, &call_with(1, &[chunk]));
    layer.send(SERVER, &reply_with(1, &[chunk]));
    assert_eq!((layer.ended[0].outcome, layer.ended[0].timing.written_bytes), (Outcome::Completed, 0));
    let missing = Missing { part: Part::WriteChunk(0), start: 0, end: Some(100) };
    assert_eq!(layer.ended[0].reply.as_ref().unwrap().missing, [missing]);
    assert_eq!(layer.transactions.take_claimed(), 0);
}

/// The packets of one message go to one segment, even if another call advertises some of the same
/// memory. A new message goes to the segment at its address.
#[test]
fn packets_of_one_message_go_to_one_segment() {
    let (large, small, apart) = (segment(7, 0x1000, 0x1000), segment(7, 0x100, 0x1800), segment(8, 16, 0));
    for (first, expected) in [(segment(7, 0x800, 0x1000), [0x800 + 0x100, 0]), (apart, [0, 0x100])] {
        let mut layer = Layer::new(NOTHING, Observe::Nothing);
        layer.send(CLIENT, &call_with(1, &[large]));
        layer.send(CLIENT, &call_with(2, &[small]));
        layer.send(CLIENT, &call_with(3, &[apart]));
        assert!(layer.write(first));
        assert!(layer.write(small));
        for xid in 1..=2 {
            layer.send(SERVER, &msg(xid, 1));
        }
        let written: Vec<_> = layer.ended.iter().map(|it| it.timing.written_bytes).collect();
        assert_eq!(written, expected);
    }
}

/// An RDMA WRITE may span adjacent segments, but only those to be written.
#[test]
fn write_does_not_continue_into_read_segment() {
    let (written, read) = (segment(7, 100, 0x1000), segment(7, 100, 0x1064));
    let call = Builder {
        reads: vec![ReadSegment { position: 40, target: read }],
        writes: vec![vec![written]],
        ..header(1, Procedure::Msg)
    };
    let mut layer = Layer::new(NOTHING, Observe::Nothing);
    layer.send(CLIENT, &message(&call, &[1, 0]));
    assert!(layer.write(Segment { length: 150, ..written }), "its first bytes are placed");
    assert!(!layer.write(Segment { length: 150, ..read }), "this memory may only be read");
    layer.send(SERVER, &reply_with(1, &[written]));
    assert_eq!((layer.ended[0].timing.written_bytes, layer.ended[0].timing.read_bytes), (100, 0));
}

/// The Payload stream of an RDMA_MSG is in the Send. If the capture cut it within the Read list, no
/// other stream is parsed.
#[test]
fn reply_cut_in_its_header_is_not_parsed() {
    let answer = Builder {
        reads: vec![ReadSegment { position: 0, target: segment(7, 40, 0) }],
        ..header(1, Procedure::Msg)
    };
    let mut layer = Layer::new(NOTHING, Observe::Nothing);
    layer.send(CLIENT, &msg(1, 0));
    let cut = &message(&answer, &[1, 1])[..16 + 4 + 20];
    assert_eq!(layer.send(SERVER, cut).0, Kind::Reply, "a call with its XID is outstanding");
    let reply = layer.ended[0].reply.as_ref().unwrap();
    assert!(reply.stop.is_some());
    assert_eq!((reply.unread, layer.ended[0].rpc_status), (None, None));
}

/// A Send with Invalidate invalidates the memory of one handle (RFC 8166, section 3.3.2.2), and not
/// the other memory of its transaction.
#[test]
fn send_with_invalidate_invalidates_one_handle() {
    let (gone, stays) = (segment(7, 100, 0x1000), segment(8, 100, 0x2000));
    let mut layer = Layer::new(NOTHING, Observe::All);
    layer.send(CLIENT, &call_with(1, &[gone, stays]));
    layer.send(CLIENT, &msg(2, 0));
    layer.send_invalidating(SERVER, &msg(2, 1), Some(gone.handle));
    layer.begin_write(stays);
    layer.begin_write(gone);
    let unmatched: Vec<_> = layer.noted.iter().filter(|it| matches!(it, Noted::Unmatched(..))).collect();
    let [Noted::Unmatched(0x1000, Mismatch::Invalidated(revoked))] = unmatched[..] else {
        panic!("{unmatched:?}")
    };
    assert_eq!((revoked.rkey, revoked.xid, revoked.advertiser.xid), (gone.handle, Xid(2), Xid(1)));
    assert_eq!((revoked.seen.frame, revoked.since.frame), (3, 1));
}

/// Other messages are also reported if the connection carries RPC-over-RDMA and observations are
/// enabled.
#[test]
fn send_too_short_for_header_is_reported_as_other() {
    for (observe, speaks_rpc, expected) in [
        (Observe::All, Some(true), vec![(1, Kind::Other, false)]),
        (Observe::Events, Some(true), vec![(1, Kind::Other, false)]),
        (Observe::Nothing, Some(true), vec![]),
        (Observe::All, Some(false), vec![]),
        (Observe::All, None, vec![]),
    ] {
        let mut layer = Layer::new(NOTHING, observe);
        layer.peers.speaks_rpc = speaks_rpc;
        assert_eq!(layer.send(CLIENT, &[0; 15]), (Kind::Other, None));
        assert_eq!(layer.sent(), expected, "{observe:?} {speaks_rpc:?}");
    }
}

/// An RDMA_NOMSG is certainly a call only if it has a Read list that was captured completely.
#[test]
fn long_call_is_certain_only_with_complete_read_list() {
    let long = message(&long_call(1, segment(7, 40, 0)), &[]);
    let bare = message(&header(1, Procedure::Nomsg), &[]);
    // One Read segment, cut where the next one may start.
    let cut = &long[..16 + 4 + 20];
    for (bytes, is_explicit) in [(&long[..], true), (&bare, false), (cut, false)] {
        let mut layer = Layer::new(NOTHING, Observe::All);
        layer.send(CLIENT, bytes);
        assert_eq!(layer.sent(), [(1, Kind::Call, is_explicit)], "{bytes:?}");
    }
}

/// An RDMA_NOMSG with a Read list and an outstanding XID is the reply, except if it offers memory that
/// the call did not.
#[test]
fn message_that_offers_memory_is_no_reply() {
    let offered = segment(7, 40, 0x1000);
    let pulled = long_call(1, segment(8, 40, 0));
    let with = |writes: &[Segment], reply: Option<Segment>| {
        let writes = writes.iter().map(|segment| vec![*segment]).collect();
        message(&Builder { writes, reply: reply.map(|chunk| vec![chunk]), ..pulled.clone() }, &[])
    };
    let other = segment(9, 40, 0x1000);
    for (bytes, kind) in [
        (with(&[], None), Kind::Reply),
        (with(&[offered], None), Kind::Reply),
        (with(&[], Some(offered)), Kind::Reply),
        (with(&[other], None), Kind::Call),
        (with(&[], Some(other)), Kind::Call),
    ] {
        let mut layer = Layer::new(NOTHING, Observe::Nothing);
        layer.send(CLIENT, &call_with(1, &[offered]));
        assert_eq!(layer.send(SERVER, &bytes).0, kind, "{bytes:?}");
    }
}

/// With [`Observe::All`], a call whose XID is outstanding is reported with the identity of the
/// outstanding call: from the call in the Send, or from the complete Send of a Long Call.
#[test]
fn repeated_call_is_reported_with_outstanding_call() {
    let short = message(&header(1, Procedure::Msg), &[1, 0, 2, 100_003, 3, 0, 0, 0, 0, 0]);
    let long = message(&long_call(1, segment(7, 40, 0)), &[]);
    for (call, in_send) in [(&short, true), (&long, false)] {
        for observe in [Observe::All, Observe::Events] {
            let mut layer = Layer::new(NOTHING, observe);
            layer.send(CLIENT, call);
            layer.send(CLIENT, call);
            layer.send(SERVER, &msg(1, 1));
            let earlier: Vec<_> = layer
                .noted
                .iter()
                .filter_map(|it| match it {
                    Noted::Sent(_, _, _, _, earlier) => Some(*earlier),
                    _ => None,
                })
                .collect();
            let [None, again, None] = earlier[..] else { panic!("{earlier:?}") };
            assert_eq!(again.is_some(), observe == Observe::All);
            let Some(again) = again else { continue };
            assert_eq!((again.procedure.is_some(), again.send.is_some()), (in_send, !in_send));
            assert_eq!(again.is_same(&again), Some(true));
        }
    }
}

/// The requester is reported when it becomes known. A call in a Send shows it before any report,
/// and a Long Call at its end.
#[test]
fn roles_are_reported_once() {
    let chunk = segment(7, 40, 0x1000);
    let run = |observe: Observe, requester: Option<End>| {
        let mut layer = Layer::new(NOTHING, observe);
        layer.peers.requester = requester;
        // A reply without its call does not show it.
        layer.send(SERVER, &msg(9, 1));
        assert_eq!(layer.peers.requester, requester);
        for xid in 1..=2 {
            layer.send(CLIENT, &message(&long_call(xid, chunk), &[]));
            assert!(layer.move_bytes(true, chunk, &null(xid)));
            layer.send(SERVER, &msg(xid, 1));
        }
        assert_eq!(layer.peers.requester, Some(CLIENT));
        layer.noted.retain(|it| matches!(it, Noted::RolesKnown(_)));
        layer.noted
    };
    // Frame 1 is the reply without its call, frame 4 the reply to the first Long Call.
    assert_eq!(run(Observe::All, None), [Noted::RolesKnown(4)]);
    assert_eq!(run(Observe::All, Some(CLIENT)), []);
    assert_eq!(run(Observe::Nothing, None), []);
}

/// Segments of one Position are one chunk (RFC 8166, section 4.3.1). Any interleaving is noted.
#[test]
fn interleaved_read_chunks_are_noted() {
    for (positions, interleaved, chunks) in [
        (&[40, 40, 48][..], false, 2),
        (&[40, 48, 40], true, 2),
        (&[40, 48, 40, 40], true, 2),
        (&[40, 48, 40, 48], true, 2),
    ] {
        let read = |position: &u32| ReadSegment { position: *position, target: segment(7, 4, 0) };
        let call = Builder { reads: positions.iter().map(read).collect(), ..header(1, Procedure::Msg) };
        let mut layer = Layer::new(NOTHING, Observe::Nothing);
        let slot = layer.send(CLIENT, &message(&call, &[1, 0])).1.unwrap();
        let call = layer.transactions.slots[slot.index as usize].transaction.call.as_ref().unwrap();
        assert_eq!((call.interleaved, call.read_chunks.len()), (interleaved, chunks), "{positions:?}");
    }
}

/// The route from the calling host to the other one, shown by either half-flow, with the IP
/// addresses of a REQ.
#[test]
fn route_leads_from_caller_to_other_host() {
    let host = |number: u32| IpAddr::from(Ipv4Addr::from(number));
    let flow = |from: u32, to: u32| FlowKey {
        source: host(from).into(),
        destination: host(to).into(),
        destination_qp: Qpn(0x11),
    };
    let route = |from: u32, to: u32| Some(Route { source: host(from).into(), destination: host(to).into() });
    let ip = |number: u32| Some(host(number));
    for (flows, ips, expected) in [
        ([Some(flow(1, 2)), None], [None; 2], route(1, 2)),
        ([None, Some(flow(2, 1))], [None; 2], route(1, 2)),
        ([Some(flow(1, 2)), Some(flow(2, 1))], [ip(5), ip(6)], route(5, 6)),
        ([None; 2], [None; 2], None),
    ] {
        let mut layer = Layer::new(NOTHING, Observe::Nothing);
        (layer.peers.flows, layer.peers.ips) = (flows, ips);
        layer.send(CLIENT, &msg(1, 0));
        layer.send(SERVER, &msg(1, 1));
        assert_eq!(layer.ended[0].route, expected);
    }
}
