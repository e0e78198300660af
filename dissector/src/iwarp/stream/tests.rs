use super::*;
use alloc::format;
use alloc::string::String;
use alloc::vec;

const MILLISECOND: i64 = 1_000_000;

/// A stream with this first sequence number. Positions count from it.
struct Feed {
    stream: Stream,
    begin: u32,
}

fn seen(frame: u64, time: i64) -> Seen {
    Seen { frame, time: Time(time) }
}

impl Feed {
    fn new(begin: u32) -> Feed {
        Feed { stream: Stream::default(), begin }
    }

    /// A stream after its first 100 bytes, which arrived in packet 1.
    fn begun(begin: u32) -> Feed {
        let mut feed = Feed::new(begin);
        assert_eq!(feed.take(seen(1, 0), 0, 100), "next 0+100");
        feed
    }

    fn at(&self, place: i64) -> u32 {
        self.begin.wrapping_add(place as u32)
    }

    fn take(&mut self, seen: Seen, place: i64, length: u32) -> String {
        let bytes = vec![length as u8; length as usize];
        let run = Run { seen, sequence: self.at(place), bytes: &bytes, length };
        match self.stream.take(run) {
            Arrival::Next(run) => {
                assert_eq!(run.bytes.len(), run.length as usize);
                format!("next {}+{}", run.sequence.wrapping_sub(self.begin), run.length)
            }
            Arrival::Held => "held".into(),
            Arrival::Repeated => "repeated".into(),
            Arrival::Nothing => "nothing".into(),
        }
    }

    fn acknowledge(&mut self, place: i64, seen: Seen) {
        self.stream.acknowledge(self.at(place), seen);
    }

    /// The next released item: the missing bytes, or a segment with its packet, range and known
    /// bytes.
    fn next(&mut self, until: Until) -> Option<String> {
        Some(match self.stream.next(until)? {
            Next::Missing(bytes) => format!("missing {bytes}"),
            Next::Segment(held, before) => {
                let Run { seen, sequence, length, bytes } = held.run();
                assert_eq!(bytes, vec![length as u8; length as usize]);
                format!("#{} {}+{length}, {before} known", seen.frame, sequence.wrapping_sub(self.begin))
            }
        })
    }

    fn all(&mut self, until: Until) -> Vec<String> {
        core::iter::from_fn(|| self.next(until)).collect()
    }

    fn expected(&self) -> Option<u32> {
        Some(self.stream.expected()?.wrapping_sub(self.begin))
    }
}

/// RFC 9293, section 3.10.7.4: bytes before RCV.NXT are trimmed, bytes after it are held. Sequence
/// numbers may wrap anywhere.
#[test]
fn segments_are_trimmed_held_or_ignored_by_position() {
    for begin in [1000, 0, 0u32.wrapping_sub(50), 0u32.wrapping_sub(100), 0u32.wrapping_sub(151), 1 << 31] {
        let mut feed = Feed::new(begin);
        assert_eq!((feed.expected(), feed.next(Until::End)), (None, None));
        let rows = [
            // An ACK without payload shows the start of the stream.
            (0, 0, "nothing"),
            (0, 100, "next 0+100"),
            (0, 100, "repeated"),
            (40, 60, "repeated"),
            (50, 100, "next 100+50"),
            // A keep-alive has SEG.SEQ = SND.NXT - 1 and at most one byte (section 3.8.4).
            (149, 1, "nothing"),
            (149, 0, "nothing"),
            (148, 1, "repeated"),
            (148, 2, "repeated"),
            (149, 2, "next 150+1"),
            // More than a window away (RFC 7323, section 2.3).
            (151 + (1 << 30), 1, "nothing"),
            (150 - (1 << 30), 10, "nothing"),
            (151 - (1 << 30), 10, "repeated"),
            (150 + (1 << 30), 1, "held"),
            (152, 1, "held"),
        ];
        for (frame, (place, length, expected)) in (1..).zip(rows) {
            assert_eq!(feed.take(seen(frame, 0), place, length), expected, "{begin}: {place}+{length}");
        }
        let Stream { repeated, first_repeated, reordered, first_reordered, .. } = feed.stream;
        assert_eq!((repeated, first_repeated, reordered, first_reordered), (5, Some(3), 0, None));
        assert_eq!((feed.expected(), feed.stream.waits()), (Some(151), true));
        // The longest segment has 100 bytes.
        assert_eq!([0, 1, 100, 101, 200, 201].map(|bytes| feed.stream.packets(bytes)), [1, 1, 1, 2, 2, 3]);
    }
    assert_eq!(Stream::default().packets(7), 7);
}

/// Held segments are released in the order of their sequence numbers. Of duplicate bytes the first
/// count.
#[test]
fn held_segments_are_released_in_order() {
    for begin in [1000, 0u32.wrapping_sub(150), 0u32.wrapping_sub(320)] {
        let mut feed = Feed::begun(begin);
        for (frame, place, length) in [(2, 300, 50), (3, 200, 50), (4, 220, 100), (5, 200, 40), (6, 500, 1)] {
            assert_eq!(feed.take(seen(frame, 0), place, length), "held");
        }
        assert_eq!(feed.next(Until::Packet(seen(6, 0))), None);
        let mut unfilled = Feed { stream: feed.stream.clone(), begin };
        let released =
            ["#3 200+50, 0 known", "#5 200+40, 40 known", "#4 220+100, 30 known", "#2 300+50, 20 known"];
        // The gap is filled.
        assert_eq!(feed.take(seen(7, 0), 90, 110), "next 100+100");
        assert_eq!((feed.stream.reordered, feed.stream.first_reordered), (1, Some(7)));
        assert_eq!(feed.all(Until::Packet(seen(7, 0))), released);
        assert_eq!((feed.expected(), feed.stream.waits()), (Some(350), true));
        assert_eq!(feed.take(seen(8, 0), 350, 100), "next 350+100");
        assert_eq!((feed.stream.reordered, feed.stream.first_reordered), (2, Some(7)));
        assert_eq!(feed.all(Until::End), ["missing 50", "#6 500+1, 0 known"]);
        assert_eq!((feed.expected(), feed.stream.waits(), feed.stream.footprint()), (Some(501), false, 0));
        // The gap is not filled.
        let all = unfilled.all(Until::End);
        assert_eq!((&all[0][..], &all[1..5]), ("missing 100", &released.map(String::from)[..]));
        assert_eq!(all[5..], ["missing 150", "#6 500+1, 0 known"]);
        assert_eq!(unfilled.stream.reordered, 0);
    }
}

/// The missing bytes are not acknowledged, so a retransmission may arrive within 4 s.
#[test]
fn unacknowledged_gap_is_given_up_after_4_s() {
    let mut feed = Feed::begun(1000);
    assert_eq!(feed.stream.deadline(), None);
    let begin = 7 * MILLISECOND;
    feed.take(seen(2, begin), 200, 10);
    feed.take(seen(3, begin + 5), 210, 10);
    let over = begin + 4_000_000_001;
    assert_eq!(feed.stream.deadline(), Some(Time(over)));
    for until in [
        Until::Packet(seen(100_000, over - 1)),
        Until::Time(Time(over - 1)),
        Until::Received,
        Until::Time(Time(0)),
    ] {
        assert_eq!(feed.next(until), None, "{until:?}");
    }
    for until in [Until::Packet(seen(3, over)), Until::Time(Time(over)), Until::End] {
        let mut feed = Feed { stream: feed.stream.clone(), ..feed };
        assert_eq!(feed.next(until).as_deref(), Some("missing 100"), "{until:?}");
        assert_eq!(feed.all(until).len(), 2);
        assert_eq!(feed.stream.deadline(), None);
    }
}

/// The missing bytes were acknowledged, so they may still arrive within 2 ms and 64 packets.
#[test]
fn acknowledged_gap_is_given_up_after_2_ms() {
    let (arrival, time) = (seen(10, MILLISECOND), 3 * MILLISECOND);
    // Positions acknowledged by packet 20, and whether they confirm the gap.
    for (place, is_confirmed) in [
        (100, false),
        (199, false),
        (200, true),
        (250, true),
        (99, false),
        (99 + (1 << 30), true),
        (100 + (1 << 30), false),
    ] {
        let mut feed = Feed::begun(0u32.wrapping_sub(150));
        feed.take(arrival, 200, 10);
        feed.acknowledge(place, seen(20, time));
        let over = if is_confirmed { time + 2_000_001 } else { arrival.time.0 + 4_000_000_001 };
        assert_eq!(feed.stream.deadline(), Some(Time(over)), "{place}");
        // The first packet that confirms it counts.
        feed.acknowledge(if is_confirmed { place.max(201) } else { 201 }, seen(21, time + 5));
        let over = if is_confirmed { over } else { time + 2_000_006 };
        assert_eq!(feed.stream.deadline(), Some(Time(over)), "{place}");
    }
    let mut feed = Feed::begun(1000);
    feed.take(arrival, 200, 10);
    feed.acknowledge(200, seen(20, time));
    for (until, is_over) in [
        (Until::Packet(seen(84, time + 2_000_000)), false),
        (Until::Packet(seen(85, time)), true),
        (Until::Packet(seen(20, time + 2_000_001)), true),
        (Until::Packet(seen(3, 0)), false),
        (Until::Time(Time(time + 2_000_000)), false),
        (Until::Time(Time(time + 2_000_001)), true),
        (Until::Received, true),
        (Until::End, true),
    ] {
        let mut feed = Feed { stream: feed.stream.clone(), ..feed };
        assert_eq!(feed.next(until).is_some(), is_over, "{until:?}");
    }
}

/// The acknowledgement precedes the held segment, so the wait starts at that segment. The
/// acknowledgement also covers the next gap.
#[test]
fn earlier_acknowledgement_starts_wait_at_held_segment() {
    let mut feed = Feed::new(1000);
    feed.acknowledge(400, seen(1, 0));
    feed.take(seen(1, 0), 0, 100);
    feed.acknowledge(400, seen(2, MILLISECOND));
    feed.acknowledge(400, seen(3, 2 * MILLISECOND));
    feed.acknowledge(350, seen(3, 2 * MILLISECOND));
    feed.take(seen(4, 3 * MILLISECOND), 200, 10);
    assert_eq!(feed.stream.deadline(), Some(Time(5 * MILLISECOND + 1)));
    feed.take(seen(5, 4 * MILLISECOND), 300, 10);
    feed.take(seen(6, 5 * MILLISECOND), 500, 10);
    assert_eq!(feed.stream.deadline(), Some(Time(5 * MILLISECOND + 1)));
    let until = Until::Time(Time(5 * MILLISECOND + 1));
    assert_eq!(feed.all(until), ["missing 100", "#4 200+10, 0 known"]);
    assert_eq!(feed.stream.deadline(), Some(Time(6 * MILLISECOND + 1)));
    // The first packet that acknowledged it counts if it came after the held segment.
    let mut later = Feed::begun(1000);
    later.take(seen(2, 0), 200, 10);
    later.take(seen(3, 0), 300, 10);
    later.acknowledge(400, seen(4, MILLISECOND));
    later.acknowledge(400, seen(5, 2 * MILLISECOND));
    assert_eq!(later.next(Until::Received).as_deref(), Some("missing 100"));
    assert_eq!(later.next(Until::Received).as_deref(), Some("#2 200+10, 0 known"));
    assert_eq!(later.stream.deadline(), Some(Time(3 * MILLISECOND + 1)));
    assert_eq!(later.all(Until::Received).len(), 2);
    // Nothing after 400 is acknowledged.
    let until = Until::Time(Time(10 * MILLISECOND));
    assert_eq!(feed.all(until), ["missing 90", "#5 300+10, 0 known"]);
    assert_eq!(feed.stream.deadline(), Some(Time(4_005 * MILLISECOND + 1)));
}

/// 1,024 segments, and 2 MiB of captured bytes.
#[test]
fn held_segments_are_bounded() {
    let mut feed = Feed::begun(1000);
    (0..1024).for_each(|index| assert_eq!(feed.take(seen(2, 0), 200 + index, 1), "held"));
    let now = Until::Packet(seen(2, 0));
    assert_eq!(feed.next(now), None);
    feed.take(seen(2, 0), 2000, 1);
    assert_eq!(feed.next(now).as_deref(), Some("missing 100"));
    let mut feed = Feed::begun(1000);
    feed.take(seen(2, 0), 200, 1 << 20);
    feed.take(seen(2, 0), 200, 1 << 20);
    assert_eq!(feed.next(now), None);
    assert!(feed.stream.footprint() > 2 << 20);
    let cut = Run { seen: seen(2, 0), sequence: 1000 + 400, bytes: &[], length: 50 };
    feed.stream.take(cut);
    assert_eq!(feed.next(now), None, "it has no captured bytes");
    feed.take(seen(2, 0), 400, 1);
    assert_eq!(feed.next(now).as_deref(), Some("missing 100"));
}
