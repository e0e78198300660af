use super::*;
use crate::rc::Extension;
use proptest::prelude::*;
use rdmascope_wire::Rkey;
use rdmascope_wire::bth::Reth;

/// What a delivery says, owned.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Got {
    Send { bytes: Vec<u8>, length: Option<u32>, missing: Option<(u32, Option<u32>)>, last: u64 },
    Write { address: u64, bytes: Vec<u8> },
    Read { psn: u32, packets: Option<u32>, repeated: bool },
    Missing(u32),
    Unplaced(u32),
    Overflow,
}

/// Repetitions and faults have tests of their own.
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
        Delivery::Missing { packets } => Got::Missing(packets),
        Delivery::Unplaced { bytes } => Got::Unplaced(bytes),
        Delivery::Repeated(_) | Delivery::Faulty { .. } | Delivery::Restarted => return None,
        Delivery::Refused { .. } | Delivery::ReadResponse(_) => unreachable!("no request"),
        Delivery::Overflow => Got::Overflow,
    })
}

/// A request packet as a test writes it: its payload is `length` bytes of `fill`.
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

/// Feeds packets a microsecond apart.
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

/// A Send of three packets, an RDMA WRITE of three, a Send of one, from PSN `first` on.
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

/// What must come of a delivery whatever happened on the way: without the frame numbers.
fn essence(got: &[Got]) -> Vec<Got> {
    got.iter()
        .cloned()
        .map(|got| match got {
            Got::Send { bytes, length, missing, .. } => Got::Send { bytes, length, missing, last: 0 },
            other => other,
        })
        .collect()
}

#[test]
fn messages_across_the_wrap() {
    // The PSN wraps inside the first Send, and in other places of the conversation.
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
fn a_last_before_its_first_at_the_start_of_a_capture() {
    let all = conversation(100);
    let mut feed = Feed::new();
    [2, 0, 1, 3, 4, 5, 6].iter().for_each(|index| feed.take(all[*index]));
    feed.finish();
    assert_eq!(essence(&feed.got), essence(&run(100, &IN_ORDER)));
}

#[test]
fn a_capture_that_starts_inside_a_message_says_nothing_of_it() {
    let all = conversation(100);
    let mut feed = Feed::new();
    [4, 5, 6].iter().for_each(|index| feed.take(all[*index]));
    assert_eq!(essence(&feed.got), essence(&run(100, &IN_ORDER)[4..]));
    assert_eq!(feed.requests.expected(), Some(Psn::new(107)));
}

#[test]
fn going_back_to_a_lost_packet_repeats_nothing() {
    // Packet 1 is lost on its way to the receiver, after the capture or before it; the sender goes back to it.
    for order in [&[0usize, 1, 2, 3, 1, 2, 3, 4, 5, 6][..], &[0, 2, 3, 1, 2, 3, 4, 5, 6]] {
        assert_eq!(essence(&run(5, order)), essence(&run(5, &IN_ORDER)), "{order:?}");
    }
}

#[test]
fn one_packet_missing_inside_a_send_is_a_hole_of_known_length() {
    let got = run(5, &[0, 2, 3, 4, 5, 6]);
    assert_eq!(got[0], Got::Missing(1));
    let expected =
        Got::Send { bytes: vec![1; 256], length: Some(522), missing: Some((256, Some(512))), last: 2 };
    assert_eq!(got[1], expected);
}

#[test]
fn what_is_missing_may_hide_the_end_of_a_send() {
    // Of PSNs 5 to 11 the capture has 5 and 8: whether 6 ended the Send cannot be told.
    let mut feed = Feed::new();
    feed.requests.begin(Psn::new(5), Some(256));
    feed.take(sent(Operation::SendFirst, 5, 1, 256));
    feed.take(sent(Operation::SendLast, 8, 3, 10));
    feed.finish();
    let broken = Got::Send { bytes: vec![1; 256], length: None, missing: Some((256, None)), last: 1 };
    assert_eq!(feed.got, [Got::Missing(2), broken, Got::Unplaced(10)]);
}

#[test]
fn a_write_goes_on_behind_a_gap() {
    let got = run(5, &[0, 1, 2, 3, 5, 6]);
    assert_eq!(got[2], Got::Missing(1));
    assert_eq!(got[3], Got::Write { address: 0x1200, bytes: vec![6; 88] });
}

#[test]
fn what_the_receiver_acknowledged_will_not_be_sent_again() {
    let all = conversation(5);
    let mut feed = Feed::new();
    feed.requests.begin(Psn::new(5), Some(256));
    for index in [0, 1, 2, 4, 5, 6] {
        feed.take(all[index]);
    }
    assert_eq!(feed.got.len(), 1, "the gap may yet be filled");
    feed.acknowledge(11);
    feed.frame += 3000;
    feed.acknowledge(11);
    assert_eq!(feed.got[1], Got::Missing(1));
    assert_eq!(feed.got[2..4], [Got::Unplaced(256), Got::Unplaced(88)]);
    // And what turns up afterwards was only late: one packet that stands for itself is still good.
    feed.requests.begin(Psn::new(12), Some(256));
    feed.take(sent(Operation::SendOnly, 8, 9, 1));
    assert!(matches!(feed.got.last(), Some(Got::Send { bytes, .. }) if bytes == &[9]));
}

#[test]
fn a_read_takes_up_the_psns_of_its_responses() {
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
fn without_a_path_mtu_a_read_leaves_the_next_psn_open() {
    let mut feed = Feed::new();
    feed.take(Sent { reth: reth(0, 3000), ..sent(Operation::ReadRequest, 10, 0, 0) });
    feed.take(sent(Operation::SendOnly, 13, 1, 1));
    assert_eq!(feed.got[0], Got::Read { psn: 10, packets: None, repeated: false });
    assert!(matches!(feed.got[1], Got::Send { .. }));
    assert_eq!(feed.got.len(), 2);
}

/// A snap length of 68 bytes ends within the RETH.
#[test]
fn a_read_whose_reth_was_cut_leaves_the_next_psn_open() {
    let mut feed = Feed::new();
    feed.requests.begin(Psn::new(10), Some(1024));
    feed.take(sent(Operation::ReadRequest, 10, 0, 0));
    feed.take(sent(Operation::SendOnly, 13, 1, 1));
    assert!(matches!(feed.got[..], [Got::Send { .. }]), "{:?}", feed.got);
    assert_eq!(feed.requests.unsure, 1);
}

#[test]
fn a_queue_pair_with_a_new_life() {
    let mut feed = Feed::new();
    feed.take(sent(Operation::SendOnly, 10, 1, 1));
    feed.take(sent(Operation::SendOnly, 0x70_0000, 2, 1));
    feed.take(sent(Operation::SendOnly, 0x70_0001, 3, 1));
    assert_eq!(feed.got.len(), 3);
    assert_eq!((feed.requests.repeated, feed.requests.reordered), (0, 0));
}

/// What comes behind others is out of order, not what came before it; and where nothing comes any more, nothing is.
#[test]
fn only_what_fills_a_gap_is_reordered() {
    let all: Vec<_> = (10..16).map(|psn| sent(Operation::SendOnly, psn, 1, 1)).collect();
    for (order, reordered, first) in [
        (vec![0, 2, 3, 4, 5], 0, None),
        (vec![0, 2, 3, 4, 1, 5], 1, Some(5)),
        (vec![0, 3, 4, 1, 2, 5], 2, Some(4)),
        // Sent again from the gap on: one fills it, the others are repeated.
        (vec![0, 2, 3, 1, 2, 3], 1, Some(4)),
    ] {
        let mut feed = Feed::new();
        order.iter().for_each(|index| feed.take(all[*index]));
        feed.finish();
        let Requests { reordered: found, first_reordered, .. } = feed.requests;
        assert_eq!((found, first_reordered), (reordered, first), "{order:?}");
    }
    // The other end acknowledged what is missing, so that the gap is given up before its packet comes by.
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
fn a_storm_of_packets_ahead_is_bounded() {
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
    fn any_reordering_and_repetition_comes_to_the_same(
        first in 0u32..Psn::MODULUS,
        order in Just(IN_ORDER.to_vec()).prop_shuffle(),
        repeated in proptest::collection::vec(0usize..7, 0..7),
    ) {
        let order: Vec<usize> = order.into_iter().chain(repeated).collect();
        prop_assert_eq!(essence(&run(first, &order)), essence(&run(first, &IN_ORDER)));
    }

    #[test]
    fn any_packets_at_all(packets in proptest::collection::vec((any_operation(), 0u32..40, any::<bool>(), 0u32..300), 0..60)) {
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

/// What somebody who watches is told of faults, and of repetitions with the packet seen first: the PSN, and of a fault what it is.
fn watched(announced: Option<u32>, packets: &[Sent]) -> Vec<(u32, Option<Fault>)> {
    let mut requests = Requests::default();
    requests.watch();
    if let Some(first) = announced {
        requests.begin(Psn::new(first), Some(256));
    }
    let mut told = Vec::new();
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
                told.push((position.number(), None));
            }
            Delivery::Faulty { position, fault, .. } => told.push((position.number(), Some(fault))),
            _ => {}
        });
    }
    told
}

#[test]
fn what_goes_on_with_nothing_or_begins_too_early_is_told_once() {
    use Operation::*;
    let write = |operation, psn, length| Sent { reth: reth(0x1000, 600), ..sent(operation, psn, 1, length) };
    let order = Some(Fault::Order);
    type Told<'a> = &'a [(u32, Option<Fault>)];
    let cases: [(&[Sent], Told<'_>); 7] = [
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
fn nothing_is_told_of_a_message_whose_beginning_is_not_known() {
    use Operation::*;
    let packets = [sent(SendMiddle, 11, 1, 256), sent(SendLast, 12, 1, 9), sent(SendOnly, 13, 1, 9)];
    assert_eq!(watched(None, &packets), [], "the capture starts in the middle");
    assert_eq!(watched(Some(10), &packets), [], "a packet is missing");
}

#[test]
fn repetitions_are_told_with_the_first() {
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

/// A request asks; the bytes that it asks for are those of responses.
#[test]
fn a_repeated_read_request_has_no_payload() {
    let request = Sent { reth: reth(0x1000, 65_536), ..sent(Operation::ReadRequest, 10, 0, 0) };
    let mut requests = Requests::default();
    requests.watch();
    requests.begin(Psn::new(10), Some(256));
    let mut told = Vec::new();
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
                told.push((repetition.seen.frame, repetition.bytes, repetition.asked));
            }
        });
    }
    assert_eq!(told, [(2, 0, 65_536)]);
}

#[test]
fn the_first_request_has_the_announced_psn_or_one_behind_it() {
    use Operation::SendOnly;
    for (psn, is_told) in [(0, false), (5, false), (0xff_ffff, true), (0x80_0000, true), (0x0f_0000, true)] {
        let told = watched(Some(0), &[sent(SendOnly, psn, 1, 9)]);
        let starts = told.iter().any(|(_, fault)| matches!(fault, Some(Fault::Start { .. })));
        assert_eq!(starts, is_told, "{psn:#x}: {told:?}");
    }
}

/// Single Sends at these PSNs, behind an announced PSN 10.
fn sends(psns: &[u32]) -> Feed {
    let mut feed = Feed::new();
    feed.requests.begin(Psn::new(10), Some(256));
    psns.iter().for_each(|psn| feed.take(sent(Operation::SendOnly, *psn, 1, 1)));
    feed
}

/// What the capture shows, may show yet, and cannot show, of an end that has sent PSNs 10, 11 and 13 to 15, where 12 was given up.
#[test]
fn what_is_known_of_a_psn() {
    let mut feed = sends(&[10, 11, 13, 14, 15]);
    assert!(feed.requests.waits());
    assert!(!feed.requests.give_up_received(&mut |_| {}), "nobody has acknowledged it");
    feed.acknowledge(15);
    assert!(feed.requests.give_up_received(&mut |_| {}));
    assert!(!feed.requests.waits());
    let shows: Vec<u32> = (5..20).filter(|psn| feed.requests.shows(Psn::new(*psn))).collect();
    assert_eq!(shows, [10, 11, 13, 14, 15], "16 comes next");
    let may: Vec<u32> = (5..20).filter(|psn| feed.requests.may_yet_show(Psn::new(*psn))).collect();
    assert_eq!(may, [16, 17, 18, 19]);
    let settled: Vec<u32> = (5..20).filter(|psn| feed.requests.is_settled(Psn::new(*psn))).collect();
    assert_eq!(settled, (5..16).collect::<Vec<_>>());
    // 65536 is as far as a sender may get ahead.
    for (psn, cannot) in [(16 + 65_536, false), (16 + 65_537, true), (0xff_0010, false), (0xff_000f, true)] {
        assert_eq!(feed.requests.cannot_have_sent(Psn::new(psn)), cannot, "{psn:#x}");
    }
    // A Send that has begun is not settled from its first packet on.
    feed.take(sent(Operation::SendFirst, 16, 1, 256));
    assert!(feed.requests.is_settled(Psn::new(15)) && !feed.requests.is_settled(Psn::new(16)));
}

/// Before anything begins a message, it is not known what comes; where nothing waits, nothing does.
#[test]
fn what_is_known_before_the_first_message() {
    let mut feed = Feed::new();
    assert!(!feed.requests.may_yet_show(Psn::new(5)) && feed.requests.is_settled(Psn::new(5)));
    assert!(!feed.requests.cannot_have_sent(Psn::new(0x80_0000)));
    feed.take(sent(Operation::SendLast, 10, 1, 1));
    assert!(feed.requests.may_yet_show(Psn::new(5)) && !feed.requests.is_settled(Psn::new(5)));
    // The same packet again, and another one of it.
    feed.take(sent(Operation::SendLast, 10, 1, 1));
    assert_eq!(feed.requests.repeated, 1);
    feed.take(sent(Operation::SendMiddle, 9, 1, 1));
    assert_eq!(feed.requests.repeated, 1);
    // What begins at the PSN of one that waits takes its place: none of the two came before.
    feed.take(sent(Operation::SendOnly, 10, 1, 1));
    assert_eq!((feed.requests.repeated, feed.requests.expected()), (1, Some(Psn::new(11))));
    assert!(!feed.requests.waits());
}

/// Of a message whose beginning does not come 64 packets are waited for.
#[test]
fn a_beginning_that_does_not_come_is_waited_for_in_vain() {
    let mut feed = Feed::new();
    (0..64).for_each(|psn| feed.take(sent(Operation::SendMiddle, psn, 1, 256)));
    assert_eq!((feed.got.len(), feed.requests.expected()), (0, None));
    feed.take(sent(Operation::SendMiddle, 64, 1, 256));
    assert_eq!((&feed.got[..], feed.requests.expected()), (&[Got::Unplaced(256)][..], Some(Psn::new(65))));
    assert!(!feed.requests.waits());
}

/// 65536 PSNs ahead is a gap; one more is another life of the queue pair, of which it is not known where it begins.
#[test]
fn a_gap_is_no_wider_than_a_sender_gets_ahead() {
    for (psn, waits, unsure) in [(10 + 65_536, true, 0), (10 + 65_537, false, 1)] {
        let feed = sends(&[psn]);
        assert_eq!((feed.requests.waits(), feed.requests.unsure), (waits, unsure), "{psn}");
    }
    // Two lives later.
    assert_eq!(sends(&[10, 0x30_0000, 0x60_0000]).requests.unsure, 2);
    // Of a message that began before the announced PSN nothing follows, nor of one that is in another life.
    let mut feed = sends(&[]);
    feed.take(sent(Operation::SendMiddle, 9, 1, 256));
    assert_eq!((feed.requests.expected(), feed.requests.repeated), (Some(Psn::new(10)), 1));
}

/// What was given up counts as late from its first to its last packet, and what is beside it as repeated.
#[test]
fn what_is_late_is_what_was_given_up() {
    for (psn, repeated, late) in [(12, 1, 0), (13, 0, 1), (14, 0, 1), (15, 1, 0), (10, 1, 0)] {
        let mut feed = sends(&[10, 11, 12, 15, 16]);
        feed.acknowledge(16);
        assert!(feed.requests.give_up_received(&mut |_| {}));
        feed.got.clear();
        feed.take(sent(Operation::SendOnly, psn, 7, 1));
        assert_eq!((feed.requests.repeated, feed.requests.reordered), (repeated, late), "{psn}");
        assert_eq!(feed.got.len(), late as usize, "{psn}: it stands for itself");
        assert_eq!((feed.requests.unsure, feed.requests.expected()), (0, Some(Psn::new(17))));
    }
    // What is in the middle of a message does not.
    let mut feed = sends(&[10, 13]);
    feed.requests.finish(&mut |_| {});
    feed.got.clear();
    feed.take(sent(Operation::SendMiddle, 12, 7, 256));
    assert_eq!((feed.got, feed.requests.reordered), (vec![], 1));
    // How many PSNs a late READ takes up is not known without a path MTU.
    let mut feed = Feed::new();
    [10, 12].iter().for_each(|psn| feed.take(sent(Operation::SendOnly, *psn, 1, 1)));
    feed.requests.finish(&mut |_| {});
    feed.take(Sent { reth: reth(0, 3000), ..sent(Operation::ReadRequest, 11, 0, 0) });
    assert_eq!((feed.requests.unsure, feed.requests.expected()), (1, Some(Psn::new(13))));
}

/// Sixteen gaps are remembered; behind more it is not known what was late.
#[test]
fn gaps_given_up_are_remembered_for_a_while() {
    for (gaps, shows) in [(16, true), (17, false)] {
        let mut feed = sends(&(0..=gaps).map(|index| 10 + 2 * index).collect::<Vec<_>>());
        feed.requests.finish(&mut |_| {});
        assert_eq!(feed.requests.lost.len(), 16);
        assert_eq!(feed.requests.shows(Psn::new(10 + 2 * gaps)), shows, "{gaps} gaps");
    }
}

/// The times and numbers at which a gap is given up.
#[test]
fn how_long_a_gap_is_waited_for() {
    let later = |feed: &mut Feed, nanoseconds: u64| {
        let now = feed.now().plus(nanoseconds);
        let Feed { requests, got, .. } = feed;
        requests.handle_time(now, &mut |delivery| got.extend(keep(delivery)));
        !requests.waits()
    };
    // Nobody acknowledges: 64 packets behind it, and no time.
    let mut feed = sends(&[10]);
    for psn in 12..12 + 63 {
        feed.take(sent(Operation::SendOnly, psn, 1, 1));
    }
    assert!(feed.requests.waits() && feed.requests.deadline().is_none());
    assert!(!later(&mut feed, u64::from(u32::MAX)));
    feed.take(sent(Operation::SendOnly, 12 + 63, 1, 1));
    assert!(!feed.requests.waits());
    // What came before it was acknowledged: a retransmission may take four seconds.
    let mut feed = sends(&[10, 12]);
    feed.acknowledge(10);
    assert_eq!(feed.requests.deadline(), Some(feed.now().plus(4_000_000_001)));
    assert!(!later(&mut feed, 4_000_000_000));
    assert!(later(&mut feed, 4_000_000_001));
    // It was acknowledged itself: two milliseconds.
    let mut feed = sends(&[10, 12]);
    feed.acknowledge(11);
    assert_eq!(feed.requests.deadline(), Some(feed.now().plus(2_000_001)));
    let (now, at) = (feed.now(), |feed: &mut Feed, by: u64, now: Time| {
        feed.requests.acknowledge(Psn::new(11), now.plus(by), &mut |_| {});
        !feed.requests.waits()
    });
    assert!(!at(&mut feed, 2_000_000, now));
    assert!(at(&mut feed, 2_000_001, now));
    // Packets count from then on.
    let mut feed = sends(&[10, 12, 13, 14, 15]);
    feed.acknowledge(11);
    (16..16 + 63).for_each(|psn| feed.take(sent(Operation::SendOnly, psn, 1, 1)));
    assert!(feed.requests.waits());
    feed.take(sent(Operation::SendOnly, 16 + 63, 1, 1));
    assert!(!feed.requests.waits());
    // A second gap, of which the ACK says the same: it is looked at at once.
    let mut feed = sends(&[10, 12, 14]);
    let since = feed.now();
    feed.acknowledge(14);
    feed.take(sent(Operation::SendOnly, 11, 1, 1));
    assert_eq!((feed.requests.waits(), feed.requests.deadline()), (true, Some(since)));
}

/// An RDMA READ that fills a gap takes up PSNs, of packets that came before it as well.
#[test]
fn a_packet_within_a_read_is_a_repetition() {
    let mut feed = sends(&[12]);
    feed.take(Sent { reth: reth(0, 1024), ..sent(Operation::ReadRequest, 10, 0, 0) });
    assert_eq!(feed.got, [Got::Read { psn: 10, packets: Some(4), repeated: false }]);
    assert_eq!((feed.requests.repeated, feed.requests.expected()), (1, Some(Psn::new(14))));
}

/// The last Send that begins among packets that wait, and what is given up so that it can go on.
#[test]
fn a_send_behind_gaps_is_found() {
    let mut feed = sends(&[10, 12]);
    feed.take(Sent { reth: reth(0, 1), ..sent(Operation::WriteOnly, 14, 4, 1) });
    feed.take(sent(Operation::SendFirst, 16, 2, 256));
    feed.take(sent(Operation::SendMiddle, 17, 3, 256));
    let found = |fill: Option<u8>| {
        feed.requests.find_held_send(|bytes| fill.is_none_or(|fill| bytes[0] == fill)).map(Psn::value)
    };
    assert_eq!((found(None), found(Some(1))), (Some(16), Some(12)));
    assert_eq!(
        (found(Some(3)), found(Some(4))),
        (None, None),
        "one that does not begin, and one that is no Send"
    );
    feed.got.clear();
    let Feed { requests, got, .. } = &mut feed;
    requests.give_up_before(Psn::new(14), &mut |delivery| got.extend(keep(delivery)));
    assert_eq!(got.iter().filter(|got| matches!(got, Got::Missing(1))).count(), 2, "11 and 13");
    assert!(requests.waits(), "15 may yet come");
}

/// A closed connection tells nothing of what was sent on it: its queue pair may be used again.
#[test]
fn what_is_forgotten_is_not_told() {
    let mut feed = sends(&[]);
    feed.requests.watch();
    feed.take(sent(Operation::SendOnly, 10, 1, 1));
    assert!(feed.requests.find_request(Psn::new(10)).is_some());
    feed.requests.forget_recent_requests();
    assert!(feed.requests.find_request(Psn::new(10)).is_none());
}

/// The path MTU is what CM agrees on, or else what packets carry that others follow.
#[test]
fn where_the_path_mtu_comes_from() {
    let mut requests = Requests::default();
    requests.note_path_mtu(1000);
    requests.note_path_mtu(128);
    assert_eq!(requests.path_mtu(), None);
    requests.note_path_mtu(256);
    requests.note_path_mtu(1024);
    assert_eq!(requests.path_mtu(), Some(256));
    requests.agree_on_path_mtu(None);
    assert_eq!(requests.path_mtu(), Some(256));
    requests.agree_on_path_mtu(Some(2048));
    assert_eq!(requests.path_mtu(), Some(2048));
}

/// A READ of up to 256 bytes has one response, whatever the path MTU is.
#[test]
fn a_short_read_has_one_response() {
    for (length, packets) in [(0, Some(1)), (1, Some(1)), (256, Some(1)), (257, None)] {
        let mut feed = Feed::new();
        feed.take(Sent { reth: reth(0, length), ..sent(Operation::ReadRequest, 10, 0, 0) });
        assert_eq!(feed.got, [Got::Read { psn: 10, packets, repeated: false }]);
    }
}

/// What waits takes up memory, and so does a Send that has begun.
#[test]
fn what_is_held_back_is_counted() {
    let mut feed = sends(&[]);
    assert_eq!(feed.requests.buffered(), 0);
    feed.take(sent(Operation::SendFirst, 10, 1, 256));
    assert!((256..1024).contains(&feed.requests.buffered()));
    let before = feed.requests.buffered();
    (12..22).for_each(|psn| feed.take(sent(Operation::SendMiddle, psn, 1, 256)));
    let held = 10 * (256 + size_of::<HeldPacket>());
    assert!((held..4 * held).contains(&(feed.requests.buffered() - before)));
    feed.requests.give_up_buffered(&mut |_| {});
    assert_eq!(feed.requests.buffered(), 0);
}

/// An RDMA WRITE of 600 bytes takes up three PSNs: what comes behind a gap within these goes on with it, and nothing else does.
#[test]
fn what_goes_on_with_a_write_behind_a_gap() {
    use Operation::*;
    let write = Got::Write { address: 0x1000, bytes: vec![4; 256] };
    for (operation, psn, got) in [
        (WriteLast, 12, Got::Write { address: 0x1200, bytes: vec![6; 88] }),
        (WriteLast, 13, Got::Unplaced(88)),
        (SendLast, 12, Got::Unplaced(88)),
    ] {
        let mut feed = sends(&[]);
        feed.requests.watch();
        feed.take(Sent { reth: reth(0x1000, 600), ..sent(WriteFirst, 10, 4, 256) });
        feed.take(sent(operation, psn, 6, 88));
        let mut faults = 0;
        feed.requests.finish(&mut |delivery| match delivery {
            Delivery::Faulty { .. } => faults += 1,
            other => feed.got.extend(keep(other)),
        });
        assert_eq!(feed.got, [write.clone(), Got::Missing(psn - 11), got], "{operation:?} {psn}");
        assert_eq!(faults, 0, "{operation:?} {psn}: what is missing may have ended it");
    }
    // Nothing is missing, and nothing comes.
    let mut feed = sends(&[]);
    feed.take(Sent { reth: reth(0x1000, 600), ..sent(WriteOnly, 10, 4, 0) });
    assert_eq!(feed.got, []);
}
