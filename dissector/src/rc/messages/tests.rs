//! Handmade packets in order: messages that are truncated, broken off, or continued after a gap.

use super::*;
use crate::rc::Extension;
use crate::record::Time;
use alloc::vec;
use rdmascope_wire::Rkey;

/// The contents of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Event {
    Send { first: u64, last: u64, psn: u32, extent: u32, bytes: usize, length: Option<u32>, missing: Missing },
    Write { address: u64, length: u32 },
    Read { psn: u32, is_new: bool },
    Faulty(u32, Fault),
    Unplaced(u32),
}

type Missing = Option<(u32, Option<u32>)>;

fn event(delivery: Delivery<'_>) -> Event {
    match delivery {
        Delivery::Send(Send { first, seen, position, extent, bytes, length, missing, .. }) => Event::Send {
            first: first.frame,
            last: seen.frame,
            psn: position.number(),
            extent,
            bytes: bytes.len(),
            length,
            missing,
        },
        Delivery::Write(it) => Event::Write { address: it.address, length: it.length },
        Delivery::ReadRequest(it) => Event::Read { psn: it.position.number(), is_new: it.is_new },
        Delivery::Faulty { position, fault, .. } => Event::Faulty(position.number(), fault),
        Delivery::Unplaced { bytes } => Event::Unplaced(bytes),
        other => panic!("{other:?}"),
    }
}

/// Feeds packets. The frame number of each is its PSN.
struct Feed {
    messages: Messages,
    events: Vec<Event>,
}

impl Feed {
    /// A connection with a path MTU of 256, from its first packet on.
    fn begun() -> Feed {
        let mut messages = Messages::default();
        messages.begin();
        messages.agree_on_path_mtu(Some(256));
        Feed { messages, events: Vec::new() }
    }

    /// Feeds a packet of `length` bytes on the wire that was cut to `captured` bytes. Returns the
    /// next PSN.
    fn take(&mut self, it: (Operation, u32, u32), extension: Extension, captured: usize) -> Option<u32> {
        let payload = vec![7; captured];
        let Feed { messages, events } = self;
        messages.accept(&packet(it, extension, &payload), &mut |it| events.push(event(it))).map(Psn::value)
    }

    /// Feeds a fully captured packet.
    fn packet(&mut self, operation: Operation, psn: u32, length: u32) {
        let next = self.take((operation, psn, length), Extension::None, length as usize);
        assert_eq!(next, Some(psn + 1));
    }

    fn write(&mut self, operation: Operation, psn: u32, length: u32, announced: u32) {
        self.take((operation, psn, length), reth(announced), length as usize);
    }

    /// Feeds a late packet of four bytes.
    fn late(&mut self, operation: Operation, psn: u32) {
        let Feed { messages, events } = self;
        messages.accept_apart(&packet((operation, psn, 4), Extension::None, &[7; 4]), &mut |it| {
            events.push(event(it));
        });
    }

    /// Skips `packets` missing packets and feeds the one after them.
    fn skip(&mut self, packets: u32, operation: Operation, psn: u32, length: u32) {
        let payload = vec![7; length as usize];
        let held = HeldPacket::new(&packet((operation, psn, length), Extension::None, &payload));
        let Feed { messages, events } = self;
        messages.skip(packets, &held, &mut |it| events.push(event(it)));
        self.packet(operation, psn, length);
    }
}

fn packet(
    (operation, psn, payload_length): (Operation, u32, u32),
    extension: Extension,
    payload: &[u8],
) -> Packet<'_> {
    let seen = Seen { frame: psn.into(), time: Time(0) };
    Packet { seen, operation, psn: Psn::new(psn), extension, payload, payload_length }
}

fn reth(dma_length: u32) -> Extension {
    Extension::Reth(Reth { virtual_address: 0x1000, rkey: Rkey(1), dma_length })
}

/// A complete Send that started at PSN 10.
fn sent(last: u64, bytes: usize, length: u32, missing: Missing) -> Event {
    let extent = last as u32 - 9;
    Event::Send { first: 10, last, psn: 10, extent, bytes, length: Some(length), missing }
}

/// A Send from PSN 10 whose end is missing.
fn broken(extent: u32, bytes: usize, from: u32) -> Event {
    let missing = Some((from, None));
    Event::Send { first: 10, last: 10, psn: 10, extent, bytes, length: None, missing }
}

use Operation::*;

/// A snap length truncates a packet. The packets after it are counted and not appended.
#[test]
fn packets_after_a_truncated_one_are_not_appended() {
    for (captured, bytes) in
        [([256, 256, 9], 521), ([255, 256, 9], 255), ([256, 100, 9], 356), ([256, 256, 8], 520)]
    {
        let mut feed = Feed::begun();
        for (index, operation) in [SendFirst, SendMiddle, SendLast].into_iter().enumerate() {
            let length = [256, 256, 9][index];
            feed.take((operation, 10 + index as u32, length), Extension::None, captured[index]);
        }
        assert_eq!(feed.events, [sent(12, bytes, 521, None)], "{captured:?}");
        assert_eq!(feed.messages.open_send(), None);
    }
}

/// At most 512 KiB of a Send are kept: 128 packets of 4096 bytes.
#[test]
fn send_is_kept_up_to_512_kib() {
    for (packets, bytes) in [(127, 127 << 12), (128, 128 << 12), (129, 128 << 12), (130, 128 << 12)] {
        let mut feed = Feed::begun();
        feed.packet(SendFirst, 10, 4096);
        (11..9 + packets).for_each(|psn| feed.packet(SendMiddle, psn, 4096));
        feed.packet(SendLast, 9 + packets, 4096);
        assert_eq!(
            feed.events,
            [sent(u64::from(9 + packets), bytes, packets << 12, None)],
            "{packets} packets"
        );
    }
    // A packet that does not fit is left out, and so are all after it.
    let mut feed = Feed::begun();
    feed.packet(SendFirst, 10, 4096);
    (11..137).for_each(|psn| feed.packet(SendMiddle, psn, 4096));
    feed.packet(SendMiddle, 137, 4097);
    feed.packet(SendLast, 138, 1);
    assert_eq!(feed.events, [sent(138, 127 << 12, (128 << 12) + 2, None)]);
}

/// A single packet missing inside a Send was a middle packet. If more are missing, or another kind
/// of packet follows, the end of the Send is unknown.
#[test]
fn single_missing_middle_packet_has_known_length() {
    let mut feed = Feed::begun();
    feed.packet(SendFirst, 10, 256);
    feed.packet(SendMiddle, 11, 256);
    feed.skip(1, SendMiddle, 13, 256);
    feed.packet(SendLast, 14, 9);
    assert_eq!(feed.events, [sent(14, 512, 1033, Some((512, Some(768))))]);
    for (packets, operation, rest) in [
        (1, SendFirst, &[][..]),
        (1, WriteMiddle, &[Event::Unplaced(256)]),
        (2, SendMiddle, &[Event::Unplaced(256)]),
    ] {
        let mut feed = Feed::begun();
        feed.packet(SendFirst, 10, 256);
        feed.skip(packets, operation, 11 + packets, 256);
        let expected = [&[broken(1, 256, 256)][..], rest].concat();
        assert_eq!(feed.events, expected, "{packets} before {operation:?}");
    }
    // Two gaps. The Send that is given up has four known packets, one of them missing.
    let mut feed = Feed::begun();
    feed.packet(SendFirst, 10, 256);
    feed.skip(1, SendMiddle, 12, 256);
    feed.packet(SendMiddle, 13, 256);
    feed.skip(1, SendMiddle, 15, 256);
    assert_eq!(feed.events, [broken(4, 256, 256), Event::Unplaced(256)]);
}

/// A Send that was broken off has the number of PSNs that its bytes need, and at least one.
#[test]
fn unfinished_send_covers_the_psns_of_its_bytes() {
    for (lengths, extent) in [(&[256][..], 1), (&[256, 256], 2), (&[256, 100], 2), (&[0], 1)] {
        let mut feed = Feed::begun();
        feed.packet(SendFirst, 10, lengths[0]);
        lengths[1..].iter().zip(11..).for_each(|(length, psn)| feed.packet(SendMiddle, psn, *length));
        assert_eq!(feed.messages.open_send(), Some(Psn::new(10)));
        let bytes: u32 = lengths.iter().sum();
        let Feed { messages, events } = &mut feed;
        messages.close(&mut |it| events.push(event(it)));
        assert_eq!(feed.events, [broken(extent, bytes as usize, bytes)], "{lengths:?}");
    }
}

/// A late message of one packet does not change the open message and causes no fault.
#[test]
fn late_message_does_not_change_the_open_one() {
    let only = |psn: u32| {
        let (first, last) = (psn.into(), psn.into());
        Event::Send { first, last, psn, extent: 1, bytes: 4, length: Some(4), missing: None }
    };
    let mut feed = Feed::begun();
    feed.packet(SendFirst, 10, 256);
    feed.late(SendOnly, 5);
    feed.packet(SendLast, 11, 9);
    assert_eq!(feed.events, [only(5), sent(11, 265, 265, None)]);
    // The predecessor of the next packet is still known.
    feed.events.clear();
    feed.late(SendOnly, 6);
    feed.packet(SendLast, 12, 9);
    assert_eq!(feed.events, [only(6), Event::Faulty(12, Fault::Order), Event::Unplaced(9)]);
}

/// A packet that continues a message of another operation is reported once, and the open message
/// ends.
#[test]
fn packet_of_another_operation_is_reported_once() {
    let order = |psn| Event::Faulty(psn, Fault::Order);
    let mut feed = Feed::begun();
    feed.packet(SendFirst, 10, 256);
    feed.packet(WriteMiddle, 11, 256);
    feed.packet(WriteMiddle, 12, 256);
    feed.packet(WriteLast, 13, 9);
    let unplaced = [256, 256, 9].map(Event::Unplaced);
    assert_eq!(feed.events, [&[order(11), broken(1, 256, 256)][..], &unplaced].concat());
    // After a last packet the state is known again; after a middle packet it is not.
    for (operation, is_fault) in [(WriteLast, true), (WriteMiddle, false)] {
        let mut feed = Feed::begun();
        feed.packet(SendFirst, 10, 256);
        feed.packet(operation, 11, 256);
        feed.events.clear();
        feed.packet(SendMiddle, 12, 256);
        let expected = [order(12), Event::Unplaced(256)];
        assert_eq!(feed.events, expected[usize::from(!is_fault)..], "{operation:?}");
    }
}

/// The predecessor is known after a packet that continues its message or ends one.
#[test]
fn predecessor_is_known_after_any_part_of_a_message() {
    let mut feed = Feed::begun();
    feed.packet(SendFirst, 10, 256);
    feed.packet(SendMiddle, 11, 256);
    feed.packet(SendOnly, 12, 4);
    let only =
        Event::Send { first: 12, last: 12, psn: 12, extent: 1, bytes: 4, length: Some(4), missing: None };
    assert_eq!(feed.events, [Event::Faulty(12, Fault::Order), broken(2, 512, 512), only]);
    for operation in [SendOnly, SendFirst, SendLast] {
        let mut feed = Feed { messages: Messages::default(), events: Vec::new() };
        feed.packet(operation, 10, 256);
        feed.events.clear();
        feed.packet(if operation == SendFirst { SendOnly } else { SendMiddle }, 11, 256);
        assert_eq!(feed.events.first(), Some(&Event::Faulty(11, Fault::Order)), "{operation:?}");
    }
}

/// 600 bytes are announced. A different length is reported at the last packet, if the path MTU is
/// known and no packet is missing.
#[test]
fn write_of_another_length_than_announced_is_a_fault() {
    let wrong = |psn, bytes, announced| Event::Faulty(psn, Fault::Written { bytes, announced });
    let faults = |feed: &Feed| {
        feed.events.iter().filter(|event| matches!(event, Event::Faulty(..))).cloned().collect::<Vec<_>>()
    };
    for (length, announced, fault) in [
        (88, 600, None),
        (87, 600, Some(wrong(12, 599, 600))),
        (88, 599, Some(wrong(12, 600, 599))),
        // No message is longer than 2^31 bytes, so the RETH is at fault.
        (88, 1 << 31, Some(wrong(12, 600, 1 << 31))),
        (88, (1 << 31) + 1, None),
    ] {
        let mut feed = Feed::begun();
        feed.write(WriteFirst, 10, 256, announced);
        feed.packet(WriteMiddle, 11, 256);
        feed.packet(WriteLast, 12, length);
        assert_eq!(faults(&feed), fault.into_iter().collect::<Vec<_>>(), "{length} of {announced}");
    }
    for (length, announced) in [(0, 1), (4, 5), (4, 3)] {
        let mut feed = Feed::begun();
        feed.write(WriteOnly, 10, length, announced);
        assert_eq!(faults(&feed), [wrong(10, length.into(), announced)]);
        let writes = feed.events.iter().filter(|event| matches!(event, Event::Write { .. })).count();
        assert_eq!(writes, usize::from(length > 0));
    }
    // The check is skipped if a packet before the last is not as long as the path MTU, or missing.
    for lengths in [[200, 256, 144], [200, 256, 88], [256, 200, 88], [256, 200, 144]] {
        let mut feed = Feed::begun();
        feed.write(WriteFirst, 10, lengths[0], 600);
        feed.packet(WriteMiddle, 11, lengths[1]);
        feed.packet(WriteLast, 12, lengths[2]);
        assert_eq!(faults(&feed), [], "{lengths:?}");
    }
    let mut feed = Feed::begun();
    feed.write(WriteFirst, 10, 512, 600);
    feed.packet(WriteLast, 11, 9);
    assert_eq!(faults(&feed), []);
    let mut feed = Feed::begun();
    feed.write(WriteFirst, 10, 256, 600);
    feed.skip(1, WriteLast, 12, 9);
    assert_eq!(faults(&feed), []);
    assert_eq!(feed.events.last(), Some(&Event::Write { address: 0x1200, length: 9 }));
}

/// A READ is certainly new only if its predecessor is known.
#[test]
fn read_is_new_only_if_its_predecessor_is_known() {
    let mut feed = Feed::begun();
    assert_eq!(feed.take((ReadRequest, 10, 0), reth(600), 0), Some(13));
    assert_eq!(feed.take((ReadRequest, 13, 0), reth(600), 0), Some(16));
    // Without a RETH the next PSN is unknown.
    assert_eq!(feed.take((ReadRequest, 16, 0), Extension::None, 0), None);
    assert_eq!(feed.take((ReadRequest, 20, 0), reth(600), 0), Some(23));
    let reads = [(10, true), (13, true), (20, false)];
    assert_eq!(feed.events, reads.map(|(psn, is_new)| Event::Read { psn, is_new }));
    // Nor is it known without a path MTU.
    let mut feed = Feed { messages: Messages::default(), events: Vec::new() };
    feed.messages.begin();
    assert_eq!(feed.take((ReadRequest, 10, 0), reth(600), 0), None);
    assert_eq!(feed.take((ReadRequest, 13, 0), reth(256), 0), Some(14));
    assert_eq!(feed.take((ReadRequest, 14, 0), reth(1), 0), Some(15));
    let reads = [(10, true), (13, false), (14, true)];
    assert_eq!(feed.events, reads.map(|(psn, is_new)| Event::Read { psn, is_new }));
}
