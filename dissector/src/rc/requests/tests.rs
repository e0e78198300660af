mod gaps;

use super::*;
use crate::rc::Extension;
use proptest::prelude::*;
use rdmascope_wire::Rkey;
use rdmascope_wire::bth::Reth;

/// The contents of a delivery, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Got {
    Send { bytes: Vec<u8>, length: Option<u32>, missing: Option<(u32, Option<u32>)>, last: u64 },
    Write { address: u64, bytes: Vec<u8> },
    Read { psn: u32, packets: Option<u32>, repeated: bool },
    Missing(u32),
    Unplaced(u32),
    Overflow,
}

/// Repetitions and faults have separate tests.
fn keep(delivery: Delivery<'_>) -> Option<Got> {
    Some(match delivery {
        Delivery::Send(send) => Got::Send {
            bytes: send.bytes.to_vec(),
            length: send.length,
            missing: send.missing,
            last: send.seen.frame,
        },
        Delivery::Write(write) => Got::Write { address: write.address, bytes: write.bytes.to_vec() },
        Delivery::ReadRequest(ReadRequest { position, extent: packets, repeated, .. }) => {
            Got::Read { psn: position.number(), packets, repeated }
        }
        Delivery::Missing { packets, .. } => Got::Missing(packets),
        Delivery::Unplaced { bytes } => Got::Unplaced(bytes),
        Delivery::Repeated(_) | Delivery::Faulty { .. } | Delivery::Restarted => return None,
        Delivery::Refused { .. } | Delivery::ReadResponse(_) => unreachable!("no request"),
        Delivery::Damaged { .. } => unreachable!("no CRC of its own"),
        Delivery::Overflow => Got::Overflow,
    })
}

/// A request packet in short form: its payload is `length` bytes of `fill`.
#[derive(Clone, Copy, Debug)]
struct Sent {
    operation: Operation,
    psn: u32,
    fill: u8,
    length: u32,
    reth: Option<Reth>,
}

fn sent(operation: Operation, psn: u32, fill: u8, length: u32) -> Sent {
    Sent { operation, psn, fill, length, reth: None }
}

fn reth(virtual_address: u64, dma_length: u32) -> Option<Reth> {
    Some(Reth { virtual_address, rkey: Rkey(7), dma_length })
}

/// Feeds packets one microsecond apart.
struct Feed {
    requests: Requests,
    frame: u64,
    got: Vec<Got>,
}

impl Feed {
    fn new() -> Feed {
        Feed { requests: Requests::default(), frame: 0, got: Vec::new() }
    }

    fn now(&self) -> Time {
        Time(self.frame as i64 * 1000)
    }

    fn take(&mut self, sent: Sent) {
        self.frame += 1;
        let payload = vec![sent.fill; sent.length as usize];
        let packet = Packet {
            seen: Seen { frame: self.frame, time: self.now() },
            operation: sent.operation,
            psn: Psn::new(sent.psn),
            extension: sent.reth.map_or(Extension::None, Extension::Reth),
            payload: &payload,
            payload_length: sent.length,
        };
        let Feed { requests, got, .. } = self;
        requests.handle(&packet, &mut |delivery| got.extend(keep(delivery)));
    }

    fn acknowledge(&mut self, psn: u32) {
        let now = self.now();
        let Feed { requests, got, .. } = self;
        requests.acknowledge(Psn::new(psn), now, &mut |delivery| got.extend(keep(delivery)));
    }

    fn finish(&mut self) {
        let Feed { requests, got, .. } = self;
        requests.finish(&mut |delivery| got.extend(keep(delivery)));
    }
}

/// A Send of three packets, an RDMA WRITE of three, and a Send of one, from PSN `first` on.
fn conversation(first: u32) -> Vec<Sent> {
    use Operation::*;
    let at = |index: u32| Psn::new(first).plus(index).value();
    vec![
        sent(SendFirst, at(0), 1, 256),
        sent(SendMiddle, at(1), 2, 256),
        sent(SendLast, at(2), 3, 10),
        Sent { reth: reth(0x1000, 600), ..sent(WriteFirst, at(3), 4, 256) },
        sent(WriteMiddle, at(4), 5, 256),
        sent(WriteLast, at(5), 6, 88),
        sent(SendOnly, at(6), 7, 20),
    ]
}

fn run(first: u32, order: &[usize]) -> Vec<Got> {
    let all = conversation(first);
    let mut feed = Feed::new();
    feed.requests.begin(Psn::new(first), Some(256));
    order.iter().for_each(|index| feed.take(all[*index]));
    feed.finish();
    feed.got
}

const IN_ORDER: [usize; 7] = [0, 1, 2, 3, 4, 5, 6];

/// The deliveries without frame numbers, which depend on the order of the packets.
fn without_frames(got: &[Got]) -> Vec<Got> {
    got.iter()
        .cloned()
        .map(|got| match got {
            Got::Send { bytes, length, missing, .. } => Got::Send { bytes, length, missing, last: 0 },
            other => other,
        })
        .collect()
}

#[test]
fn messages_are_assembled_across_psn_wrap() {
    // The PSN wraps inside the first Send, and at other points of the conversation.
    for first in (0xff_fff8..=0xff_ffff).chain([0, 0x7f_fffd]) {
        let got = run(first, &IN_ORDER);
        let message = [vec![1; 256], vec![2; 256], vec![3; 10]].concat();
        assert_eq!(got[0], Got::Send { bytes: message, length: Some(522), missing: None, last: 3 });
        let addresses: Vec<u64> = got[1..4]
            .iter()
            .map(|got| match got {
                Got::Write { address, .. } => *address,
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(addresses, [0x1000, 0x1100, 0x1200]);
        assert_eq!(got[4], Got::Send { bytes: vec![7; 20], length: Some(20), missing: None, last: 7 });
        assert_eq!(got.len(), 5);
    }
}

#[test]
fn last_packet_before_first_is_held_at_capture_start() {
    let all = conversation(100);
    let mut feed = Feed::new();
    [2, 0, 1, 3, 4, 5, 6].iter().for_each(|index| feed.take(all[*index]));
    feed.finish();
    assert_eq!(without_frames(&feed.got), without_frames(&run(100, &IN_ORDER)));
}

#[test]
fn message_begun_before_capture_is_not_delivered() {
    let all = conversation(100);
    let mut feed = Feed::new();
    [4, 5, 6].iter().for_each(|index| feed.take(all[*index]));
    assert_eq!(without_frames(&feed.got), without_frames(&run(100, &IN_ORDER)[4..]));
    assert_eq!(feed.requests.expected(), Some(Psn::new(107)));
}

#[test]
fn retransmission_delivers_each_message_once() {
    // Packet 1 is lost before or after the capture point. The sender goes back to it.
    for order in [&[0usize, 1, 2, 3, 1, 2, 3, 4, 5, 6][..], &[0, 2, 3, 1, 2, 3, 4, 5, 6]] {
        assert_eq!(without_frames(&run(5, order)), without_frames(&run(5, &IN_ORDER)), "{order:?}");
    }
}

#[test]
fn one_missing_packet_is_a_gap_of_known_length() {
    let got = run(5, &[0, 2, 3, 4, 5, 6]);
    assert_eq!(got[0], Got::Missing(1));
    let expected =
        Got::Send { bytes: vec![1; 256], length: Some(522), missing: Some((256, Some(512))), last: 2 };
    assert_eq!(got[1], expected);
}

#[test]
fn several_missing_packets_may_hide_the_end_of_a_send() {
    // Of PSNs 5 to 11 the capture has 5 and 8. The Send may have ended at 6.
    let mut feed = Feed::new();
    feed.requests.begin(Psn::new(5), Some(256));
    feed.take(sent(Operation::SendFirst, 5, 1, 256));
    feed.take(sent(Operation::SendLast, 8, 3, 10));
    feed.finish();
    let broken = Got::Send { bytes: vec![1; 256], length: None, missing: Some((256, None)), last: 1 };
    assert_eq!(feed.got, [Got::Missing(2), broken, Got::Unplaced(10)]);
}

#[test]
fn write_continues_after_a_gap() {
    let got = run(5, &[0, 1, 2, 3, 5, 6]);
    assert_eq!(got[2], Got::Missing(1));
    assert_eq!(got[3], Got::Write { address: 0x1200, bytes: vec![6; 88] });
}

#[test]
fn acknowledged_gap_is_given_up() {
    let all = conversation(5);
    let mut feed = Feed::new();
    feed.requests.begin(Psn::new(5), Some(256));
    for index in [0, 1, 2, 4, 5, 6] {
        feed.take(all[index]);
    }
    assert_eq!(feed.got.len(), 1, "the gap may still be filled");
    feed.acknowledge(11);
    feed.frame += 3000;
    feed.acknowledge(11);
    assert_eq!(feed.got[1], Got::Missing(1));
    assert_eq!(feed.got[2..4], [Got::Unplaced(256), Got::Unplaced(88)]);
    // A packet that arrives afterwards is late. If it is a complete message, it is still delivered.
    feed.requests.begin(Psn::new(12), Some(256));
    feed.take(sent(Operation::SendOnly, 8, 9, 1));
    assert!(matches!(feed.got.last(), Some(Got::Send { bytes, .. }) if bytes == &[9]));
}

#[test]
fn read_covers_the_psns_of_its_responses() {
    let mut feed = Feed::new();
    feed.requests.begin(Psn::new(0xff_fffe), Some(1024));
    feed.take(Sent { reth: reth(0, 3000), ..sent(Operation::ReadRequest, 0xff_fffe, 0, 0) });
    feed.take(sent(Operation::SendOnly, 1, 1, 1));
    feed.take(Sent { reth: reth(1024, 1976), ..sent(Operation::ReadRequest, 0xff_ffff, 0, 0) });
    assert_eq!(feed.got[0], Got::Read { psn: 0xff_fffe, packets: Some(3), repeated: false });
    assert!(matches!(feed.got[1], Got::Send { .. }));
    assert_eq!(feed.got[2], Got::Read { psn: 0xff_ffff, packets: Some(2), repeated: true });
}

#[test]
fn next_psn_after_a_read_is_unknown_without_path_mtu() {
    let mut feed = Feed::new();
    feed.take(Sent { reth: reth(0, 3000), ..sent(Operation::ReadRequest, 10, 0, 0) });
    feed.take(sent(Operation::SendOnly, 13, 1, 1));
    assert_eq!(feed.got[0], Got::Read { psn: 10, packets: None, repeated: false });
    assert!(matches!(feed.got[1], Got::Send { .. }));
    assert_eq!(feed.got.len(), 2);
}

/// A snap length of 68 bytes cuts the RETH.
#[test]
fn next_psn_after_a_read_is_unknown_without_reth() {
    let mut feed = Feed::new();
    feed.requests.begin(Psn::new(10), Some(1024));
    feed.take(sent(Operation::ReadRequest, 10, 0, 0));
    feed.take(sent(Operation::SendOnly, 13, 1, 1));
    assert!(matches!(feed.got[..], [Got::Send { .. }]), "{:?}", feed.got);
    assert_eq!(feed.requests.unsure, 1);
}

#[test]
fn reused_queue_pair_starts_at_a_new_psn() {
    let mut feed = Feed::new();
    feed.take(sent(Operation::SendOnly, 10, 1, 1));
    feed.take(sent(Operation::SendOnly, 0x70_0000, 2, 1));
    feed.take(sent(Operation::SendOnly, 0x70_0001, 3, 1));
    assert_eq!(feed.got.len(), 3);
    assert_eq!((feed.requests.repeated, feed.requests.reordered), (0, 0));
}

/// A packet that fills a gap counts as reordered, not the packets that came before it. A gap that
/// is never filled has no reordered packet.
#[test]
fn only_packets_that_fill_a_gap_are_reordered() {
    let all: Vec<_> = (10..16).map(|psn| sent(Operation::SendOnly, psn, 1, 1)).collect();
    for (order, reordered, first) in [
        (vec![0, 2, 3, 4, 5], 0, None),
        (vec![0, 2, 3, 4, 1, 5], 1, Some(5)),
        (vec![0, 3, 4, 1, 2, 5], 2, Some(4)),
        // Retransmission from the gap on: one packet fills it, the others are repeated.
        (vec![0, 2, 3, 1, 2, 3], 1, Some(4)),
    ] {
        let mut feed = Feed::new();
        order.iter().for_each(|index| feed.take(all[*index]));
        feed.finish();
        let Requests { reordered: found, first_reordered, .. } = feed.requests;
        assert_eq!((found, first_reordered), (reordered, first), "{order:?}");
    }
    // The other end acknowledged the missing packet, so the gap is given up before the packet
    // arrives.
    let mut feed = Feed::new();
    [0, 2].iter().for_each(|index| feed.take(all[*index]));
    feed.acknowledge(12);
    while feed.requests.waits() {
        feed.frame += 1000;
        feed.acknowledge(12);
    }
    feed.take(all[1]);
    assert_eq!((feed.requests.reordered, feed.requests.repeated), (1, 0));
}

#[test]
fn held_packets_are_bounded() {
    let mut feed = Feed::new();
    feed.requests.begin(Psn::new(0), Some(256));
    feed.acknowledge(0xff_fff0);
    for index in 0..3000u32 {
        feed.take(sent(Operation::SendOnly, 2 + 2 * index, 0, 256));
        assert!(feed.requests.held.len() <= Requests::MOST_HELD);
    }
    assert!(feed.got.contains(&Got::Overflow));
}

fn any_operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    proptest::sample::select(vec![
        SendFirst,
        SendMiddle,
        SendLast,
        SendOnly,
        SendOnlyWithInvalidate,
        WriteFirst,
        WriteMiddle,
        WriteLast,
        WriteOnly,
        ReadRequest,
        CompareSwap,
    ])
}

proptest! {
    #[test]
    fn deliveries_do_not_depend_on_packet_order(
        first in 0u32..Psn::MODULUS,
        order in Just(IN_ORDER.to_vec()).prop_shuffle(),
        repeated in proptest::collection::vec(0usize..7, 0..7),
    ) {
        let order: Vec<usize> = order.into_iter().chain(repeated).collect();
        prop_assert_eq!(without_frames(&run(first, &order)), without_frames(&run(first, &IN_ORDER)));
    }

    #[test]
    fn random_packets_leave_nothing_held(packets in proptest::collection::vec((any_operation(), 0u32..40, any::<bool>(), 0u32..300), 0..60)) {
        let mut feed = Feed::new();
        for (operation, psn, acknowledge, length) in packets {
            let with_reth = matches!(operation, Operation::WriteFirst | Operation::WriteOnly | Operation::ReadRequest);
            let reth = if with_reth { reth(u64::MAX - 100, length.wrapping_mul(9)) } else { None };
            feed.take(Sent { reth, ..sent(operation, psn.wrapping_sub(8), 0, length) });
            if acknowledge {
                feed.frame += 3000;
                feed.acknowledge(psn);
            }
        }
        feed.finish();
        prop_assert!(feed.requests.held.is_empty());
        prop_assert_eq!(feed.requests.held_bytes, 0);
    }
}

/// The faults, and the repetitions that have a first sighting, as PSN and fault.
fn watched(announced: Option<u32>, packets: &[Sent]) -> Vec<(u32, Option<Fault>)> {
    let mut requests = Requests::default();
    requests.watch();
    if let Some(first) = announced {
        requests.begin(Psn::new(first), Some(256));
    }
    let mut events = Vec::new();
    for (frame, sent) in (1..).zip(packets) {
        let payload = vec![sent.fill; sent.length as usize];
        let packet = Packet {
            seen: Seen { frame, time: Time(frame as i64 * 1000) },
            operation: sent.operation,
            psn: Psn::new(sent.psn),
            extension: sent.reth.map_or(Extension::None, Extension::Reth),
            payload: &payload,
            payload_length: sent.length,
        };
        requests.handle(&packet, &mut |delivery| match delivery {
            Delivery::Repeated(Repetition { position, first: Some(first), .. }) if first.frame < frame => {
                events.push((position.number(), None));
            }
            Delivery::Faulty { position, fault, .. } => events.push((position.number(), Some(fault))),
            _ => {}
        });
    }
    events
}

#[test]
fn order_and_length_faults_are_reported_once() {
    use Operation::*;
    let write = |operation, psn, length| Sent { reth: reth(0x1000, 600), ..sent(operation, psn, 1, length) };
    let order = Some(Fault::Order);
    type Expected<'a> = &'a [(u32, Option<Fault>)];
    let cases: [(&[Sent], Expected<'_>); 7] = [
        (&[sent(SendFirst, 10, 1, 256), sent(SendMiddle, 11, 1, 256), sent(SendLast, 12, 1, 9)], &[]),
        (
            &[sent(SendMiddle, 10, 1, 256), sent(SendMiddle, 11, 1, 256), sent(SendLast, 12, 1, 9)],
            &[(10, order)],
        ),
        (&[sent(SendFirst, 10, 1, 256), sent(SendOnly, 11, 1, 9)], &[(11, order)]),
        (
            &[sent(SendFirst, 10, 1, 256), sent(WriteMiddle, 11, 1, 256), sent(WriteLast, 12, 1, 9)],
            &[(11, order)],
        ),
        (&[write(WriteFirst, 10, 256), sent(SendLast, 11, 1, 9), sent(SendOnly, 12, 1, 9)], &[(11, order)]),
        // 600 bytes in three packets of up to 256.
        (&[write(WriteFirst, 10, 256), sent(WriteMiddle, 11, 1, 256), sent(WriteLast, 12, 1, 88)], &[]),
        (
            &[write(WriteFirst, 10, 256), sent(WriteMiddle, 11, 1, 256), sent(WriteLast, 12, 1, 87)],
            &[(12, Some(Fault::Written { bytes: 599, announced: 600 }))],
        ),
    ];
    for (packets, expected) in cases {
        assert_eq!(watched(Some(10), packets), expected, "{packets:?}");
    }
}

#[test]
fn message_of_unknown_start_is_no_fault() {
    use Operation::*;
    let packets = [sent(SendMiddle, 11, 1, 256), sent(SendLast, 12, 1, 9), sent(SendOnly, 13, 1, 9)];
    assert_eq!(watched(None, &packets), [], "the capture starts in the middle");
    assert_eq!(watched(Some(10), &packets), [], "a packet is missing");
}

#[test]
fn repeated_packets_reference_the_first_sighting() {
    use Operation::*;
    let packets = [
        sent(SendOnly, 0xff_ffff, 1, 9),
        sent(SendOnly, 0, 1, 9),
        sent(SendOnly, 0xff_ffff, 1, 9),
        sent(SendOnly, 2, 1, 9),
        sent(SendOnly, 2, 1, 9),
    ];
    assert_eq!(watched(Some(0xff_ffff), &packets), [(0xff_ffff, None), (2, None)]);
}

/// A READ request has no payload. The bytes that it asks for are in its responses.
#[test]
fn repeated_read_request_has_no_payload() {
    let request = Sent { reth: reth(0x1000, 65_536), ..sent(Operation::ReadRequest, 10, 0, 0) };
    let mut requests = Requests::default();
    requests.watch();
    requests.begin(Psn::new(10), Some(256));
    let mut repeated = Vec::new();
    for frame in 1..=2 {
        let packet = Packet {
            seen: Seen { frame, time: Time(frame as i64) },
            operation: request.operation,
            psn: Psn::new(request.psn),
            extension: Extension::Reth(request.reth.unwrap()),
            payload: &[],
            payload_length: 0,
        };
        requests.handle(&packet, &mut |delivery| {
            if let Delivery::Repeated(repetition) = delivery {
                repeated.push((repetition.seen.frame, repetition.bytes, repetition.read_length));
            }
        });
    }
    assert_eq!(repeated, [(2, 0, 65_536)]);
}

#[test]
fn first_request_outside_announced_psn_window_is_a_fault() {
    use Operation::SendOnly;
    for (psn, is_fault) in [(0, false), (5, false), (0xff_ffff, true), (0x80_0000, true), (0x0f_0000, true)] {
        let events = watched(Some(0), &[sent(SendOnly, psn, 1, 9)]);
        let has_fault = events.iter().any(|(_, fault)| matches!(fault, Some(Fault::Start { .. })));
        assert_eq!(has_fault, is_fault, "{psn:#x}: {events:?}");
    }
}
