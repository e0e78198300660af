//! Gaps: when they are given up, and the state of PSNs before, in and after them. Each bound is
//! tested from both sides.

use super::*;

/// Single Sends at these PSNs. The announced first PSN is 10.
fn sends(psns: &[u32]) -> Feed {
    let mut feed = Feed::new();
    feed.requests.begin(Psn::new(10), Some(256));
    psns.iter().for_each(|psn| feed.take(sent(Operation::SendOnly, *psn, 1, 1)));
    feed
}

/// An end has sent PSNs 10, 11 and 13 to 15, and 12 was given up. The test checks which PSNs the
/// capture has, may still have, and cannot have.
#[test]
fn psn_state_follows_from_packets_and_acknowledgements() {
    let mut feed = sends(&[10, 11, 13, 14, 15]);
    assert!(feed.requests.waits());
    assert!(!feed.requests.skip_acknowledged_gap(&mut |_| {}), "it was not acknowledged");
    feed.acknowledge(15);
    assert!(feed.requests.skip_acknowledged_gap(&mut |_| {}));
    assert!(!feed.requests.waits());
    let shows: Vec<u32> = (5..20).filter(|psn| feed.requests.shows(Psn::new(*psn))).collect();
    assert_eq!(shows, [10, 11, 13, 14, 15], "16 comes next");
    let may: Vec<u32> = (5..20).filter(|psn| feed.requests.may_yet_show(Psn::new(*psn))).collect();
    assert_eq!(may, [16, 17, 18, 19]);
    let settled: Vec<u32> = (5..20).filter(|psn| feed.requests.is_settled(Psn::new(*psn))).collect();
    assert_eq!(settled, (5..16).collect::<Vec<_>>());
    // A sender is at most 65536 PSNs ahead.
    for (psn, cannot) in [(16 + 65_536, false), (16 + 65_537, true), (0xff_0010, false), (0xff_000f, true)] {
        assert_eq!(feed.requests.cannot_have_sent(Psn::new(psn)), cannot, "{psn:#x}");
    }
    // A Send is unsettled from its first packet until it ends.
    feed.take(sent(Operation::SendFirst, 16, 1, 256));
    assert!(feed.requests.is_settled(Psn::new(15)) && !feed.requests.is_settled(Psn::new(16)));
}

/// Before the first packet of a message, any packet may still arrive if another one is held.
#[test]
fn any_psn_may_arrive_before_the_first_message() {
    let mut feed = Feed::new();
    assert!(!feed.requests.may_yet_show(Psn::new(5)) && feed.requests.is_settled(Psn::new(5)));
    assert!(!feed.requests.cannot_have_sent(Psn::new(0x80_0000)));
    feed.take(sent(Operation::SendLast, 10, 1, 1));
    assert!(feed.requests.may_yet_show(Psn::new(5)) && !feed.requests.is_settled(Psn::new(5)));
    // The same packet again, and then another packet of its message.
    feed.take(sent(Operation::SendLast, 10, 1, 1));
    assert_eq!(feed.requests.repeated, 1);
    feed.take(sent(Operation::SendMiddle, 9, 1, 1));
    assert_eq!(feed.requests.repeated, 1);
    // A message that starts at the PSN of a held packet replaces it. Neither is a repetition.
    feed.take(sent(Operation::SendOnly, 10, 1, 1));
    assert_eq!((feed.requests.repeated, feed.requests.expected()), (1, Some(Psn::new(11))));
    assert!(!feed.requests.waits());
}

/// Up to 64 packets of a message without its start are held.
#[test]
fn message_without_start_is_held_for_64_packets() {
    let mut feed = Feed::new();
    (0..64).for_each(|psn| feed.take(sent(Operation::SendMiddle, psn, 1, 256)));
    assert_eq!((feed.got.len(), feed.requests.expected()), (0, None));
    feed.take(sent(Operation::SendMiddle, 64, 1, 256));
    assert_eq!((&feed.got[..], feed.requests.expected()), (&[Got::Unplaced(256)][..], Some(Psn::new(65))));
    assert!(!feed.requests.waits());
}

/// 65536 PSNs ahead is a gap. One more is a new use of the queue pair, with an unknown start.
#[test]
fn psn_more_than_65536_ahead_is_a_new_use() {
    for (psn, waits, unsure) in [(10 + 65_536, true, 0), (10 + 65_537, false, 1)] {
        let feed = sends(&[psn]);
        assert_eq!((feed.requests.waits(), feed.requests.unsure), (waits, unsure), "{psn}");
    }
    // Two new uses in a row.
    assert_eq!(sends(&[10, 0x30_0000, 0x60_0000]).requests.unsure, 2);
    // A packet before the announced PSN that continues a message does not set the expected PSN.
    let mut feed = sends(&[]);
    feed.take(sent(Operation::SendMiddle, 9, 1, 256));
    assert_eq!((feed.requests.expected(), feed.requests.repeated), (Some(Psn::new(10)), 1));
}

/// The first request may precede the announced PSN by up to 65536. The end then starts with it.
#[test]
fn first_request_may_precede_the_announced_psn() {
    for (before, begins) in [(1, true), (65_536, true), (65_537, false)] {
        let first = Psn::new(10).minus(before);
        let feed = sends(&[first.value()]);
        assert_eq!(feed.requests.expected(), Some(first.plus(1)), "{before}");
        assert_eq!((feed.requests.repeated, feed.got.len()), (0, 1), "{before}");
        assert_eq!(feed.requests.unsure, u32::from(!begins), "{before}");
    }
}

/// The predecessor of the first packet of a new use is unknown. So its position in a message is no
/// fault, and a READ is not certainly new.
#[test]
fn first_packet_of_a_new_use_has_no_predecessor() {
    let mut packets = vec![sent(Operation::SendOnly, 10, 1, 1)];
    packets.extend((0..65).map(|index| sent(Operation::SendMiddle, 0x70_0000 + index, 1, 256)));
    assert_eq!(watched(Some(10), &packets), []);
    let mut requests = Requests::default();
    requests.begin(Psn::new(10), Some(256));
    let mut new_reads = Vec::new();
    for (frame, psn) in [(1, 10), (2, 0x70_0000), (3, 0x70_0001)] {
        let packet = Packet {
            seen: Seen { frame, time: Time(0) },
            operation: Operation::ReadRequest,
            psn: Psn::new(psn),
            extension: Extension::Reth(reth(0x1000, 4).unwrap()),
            payload: &[],
            payload_length: 0,
        };
        requests.handle(&packet, &mut |delivery| {
            if let Delivery::ReadRequest(request) = delivery {
                new_reads.push(request.is_new);
            }
        });
    }
    assert_eq!(new_reads, [true, false, true]);
}

/// Exactly the packets of a gap that was given up count as late. Those beside it are repeated.
#[test]
fn only_packets_of_a_given_up_gap_are_late() {
    for (psn, repeated, late) in [(12, 1, 0), (13, 0, 1), (14, 0, 1), (15, 1, 0), (10, 1, 0)] {
        let mut feed = sends(&[10, 11, 12, 15, 16]);
        feed.acknowledge(16);
        assert!(feed.requests.skip_acknowledged_gap(&mut |_| {}));
        feed.got.clear();
        feed.take(sent(Operation::SendOnly, psn, 7, 1));
        assert_eq!((feed.requests.repeated, feed.requests.reordered), (repeated, late), "{psn}");
        assert_eq!(feed.got.len(), late as usize, "{psn}: a late message is delivered");
        assert_eq!((feed.requests.unsure, feed.requests.expected()), (0, Some(Psn::new(17))));
    }
    // A late packet from the middle of a message is not delivered.
    let mut feed = sends(&[10, 13]);
    feed.requests.finish(&mut |_| {});
    feed.got.clear();
    feed.take(sent(Operation::SendMiddle, 12, 7, 256));
    assert_eq!((feed.got, feed.requests.reordered), (vec![], 1));
    // Without a path MTU, the number of PSNs of a late READ is unknown.
    let mut feed = Feed::new();
    [10, 12].iter().for_each(|psn| feed.take(sent(Operation::SendOnly, *psn, 1, 1)));
    feed.requests.finish(&mut |_| {});
    feed.take(Sent { reth: reth(0, 3000), ..sent(Operation::ReadRequest, 11, 0, 0) });
    assert_eq!((feed.requests.unsure, feed.requests.expected()), (1, Some(Psn::new(13))));
}

/// The last sixteen gaps are remembered. After more, late packets cannot be recognized.
#[test]
fn last_16_given_up_gaps_are_remembered() {
    for (gaps, shows) in [(16, true), (17, false)] {
        let mut feed = sends(&(0..=gaps).map(|index| 10 + 2 * index).collect::<Vec<_>>());
        feed.requests.finish(&mut |_| {});
        assert_eq!(feed.requests.lost.len(), 16);
        assert_eq!(feed.requests.shows(Psn::new(10 + 2 * gaps)), shows, "{gaps} gaps");
    }
}

/// The times and packet counts after which a gap is given up.
#[test]
fn gap_is_given_up_after_64_packets_or_a_timeout() {
    let later = |feed: &mut Feed, nanoseconds: u64| {
        let now = feed.now().plus(nanoseconds);
        let Feed { requests, got, .. } = feed;
        requests.handle_time(now, &mut |delivery| got.extend(keep(delivery)));
        !requests.waits()
    };
    // Without any acknowledgement: after 64 packets, at any time.
    let mut feed = sends(&[10]);
    for psn in 12..12 + 63 {
        feed.take(sent(Operation::SendOnly, psn, 1, 1));
    }
    assert!(feed.requests.waits() && feed.requests.deadline().is_none());
    assert!(!later(&mut feed, u64::from(u32::MAX)));
    feed.take(sent(Operation::SendOnly, 12 + 63, 1, 1));
    assert!(!feed.requests.waits());
    // The packet before the gap was acknowledged: four seconds, for a retransmission.
    let mut feed = sends(&[10, 12]);
    feed.acknowledge(10);
    assert_eq!(feed.requests.deadline(), Some(feed.now().plus(4_000_000_001)));
    assert!(!later(&mut feed, 4_000_000_000));
    assert!(later(&mut feed, 4_000_000_001));
    // The same if a packet arrives at that time.
    let mut feed = sends(&[10, 12]);
    let since = feed.now();
    for (after, waits) in [(0, true), (4_000_000_000, true), (4_000_000_001, false)] {
        feed.requests.acknowledge(Psn::new(10), since.plus(after), &mut |_| {});
        assert_eq!(feed.requests.waits(), waits, "{after}");
    }
    // The gap itself was acknowledged: two milliseconds.
    let mut feed = sends(&[10, 12]);
    feed.acknowledge(11);
    assert_eq!(feed.requests.deadline(), Some(feed.now().plus(2_000_001)));
    let (now, at) = (feed.now(), |feed: &mut Feed, by: u64, now: Time| {
        feed.requests.acknowledge(Psn::new(11), now.plus(by), &mut |_| {});
        !feed.requests.waits()
    });
    assert!(!at(&mut feed, 2_000_000, now));
    assert!(at(&mut feed, 2_000_001, now));
    // Packets count from the acknowledgement on.
    let mut feed = sends(&[10, 12, 13, 14, 15]);
    feed.acknowledge(11);
    (16..16 + 63).for_each(|psn| feed.take(sent(Operation::SendOnly, psn, 1, 1)));
    assert!(feed.requests.waits());
    feed.take(sent(Operation::SendOnly, 16 + 63, 1, 1));
    assert!(!feed.requests.waits());
    // The same ACK covers a second gap, which is checked at once.
    let mut feed = sends(&[10, 12, 14]);
    let since = feed.now();
    feed.acknowledge(14);
    feed.take(sent(Operation::SendOnly, 11, 1, 1));
    assert_eq!((feed.requests.waits(), feed.requests.deadline()), (true, Some(since)));
}

/// An RDMA READ that fills a gap covers PSNs of packets that were seen before it.
#[test]
fn packet_within_a_read_is_repeated() {
    let mut feed = sends(&[12]);
    feed.take(Sent { reth: reth(0, 1024), ..sent(Operation::ReadRequest, 10, 0, 0) });
    assert_eq!(feed.got, [Got::Read { psn: 10, packets: Some(4), repeated: false }]);
    assert_eq!((feed.requests.repeated, feed.requests.expected()), (1, Some(Psn::new(14))));
}

/// Finds the last held Send and gives up the gaps before it.
#[test]
fn held_send_after_gaps_is_found() {
    let mut feed = sends(&[10, 12]);
    feed.take(Sent { reth: reth(0, 1), ..sent(Operation::WriteOnly, 14, 4, 1) });
    feed.take(sent(Operation::SendFirst, 16, 2, 256));
    feed.take(sent(Operation::SendMiddle, 17, 3, 256));
    let found = |fill: Option<u8>| {
        feed.requests.find_held_send(|bytes| fill.is_none_or(|fill| bytes[0] == fill)).map(Psn::value)
    };
    assert_eq!((found(None), found(Some(1))), (Some(16), Some(12)));
    assert_eq!((found(Some(3)), found(Some(4))), (None, None), "a middle packet, and an RDMA WRITE");
    feed.got.clear();
    let Feed { requests, got, .. } = &mut feed;
    requests.skip_gaps_before(Psn::new(14), &mut |delivery| got.extend(keep(delivery)));
    assert_eq!(got.iter().filter(|got| matches!(got, Got::Missing(1))).count(), 2, "11 and 13");
    assert!(requests.waits(), "15 may still arrive");
}

/// A closed connection drops its recorded requests, because its queue pair may be used again.
#[test]
fn forgotten_requests_are_not_found() {
    let mut feed = sends(&[]);
    feed.requests.watch();
    feed.take(sent(Operation::SendOnly, 10, 1, 1));
    assert!(feed.requests.find_request(Psn::new(10)).is_some());
    feed.requests.forget_recent_requests();
    assert!(feed.requests.find_request(Psn::new(10)).is_none());
}

/// The path MTU comes from the CM exchange, or from packets that are not the last of their message.
#[test]
fn negotiated_path_mtu_overrides_observed_one() {
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

/// A READ of up to 256 bytes has one response with any path MTU.
#[test]
fn short_read_has_one_response() {
    for (length, packets) in [(0, Some(1)), (1, Some(1)), (256, Some(1)), (257, None)] {
        let mut feed = Feed::new();
        feed.take(Sent { reth: reth(0, length), ..sent(Operation::ReadRequest, 10, 0, 0) });
        assert_eq!(feed.got, [Got::Read { psn: 10, packets, repeated: false }]);
    }
}

/// Held packets and an open Send count as memory.
#[test]
fn held_packets_and_open_send_count_as_memory() {
    let mut feed = sends(&[]);
    assert_eq!(feed.requests.buffered(), 0);
    feed.take(sent(Operation::SendFirst, 10, 1, 256));
    assert!((256..1024).contains(&feed.requests.buffered()));
    let before = feed.requests.buffered();
    (12..22).for_each(|psn| feed.take(sent(Operation::SendMiddle, psn, 1, 256)));
    let held = 10 * (256 + size_of::<HeldPacket>());
    assert!((held..4 * held).contains(&(feed.requests.buffered() - before)));
    feed.requests.release_buffered(&mut |_| {});
    assert_eq!(feed.requests.buffered(), 0);
}

/// An RDMA WRITE of 600 bytes has three PSNs. After a gap, only an RDMA WRITE packet within these
/// PSNs continues it.
#[test]
fn only_write_packets_within_range_continue_after_a_gap() {
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
        assert_eq!(faults, 0, "{operation:?} {psn}: the gap may contain its end");
    }
    // An RDMA WRITE without payload has no gap and no placement.
    let mut feed = sends(&[]);
    feed.take(Sent { reth: reth(0x1000, 600), ..sent(WriteOnly, 10, 4, 0) });
    assert_eq!(feed.got, []);
}
