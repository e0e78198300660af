use super::*;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::observation::Shared;

fn ended(number: u32) -> Ended {
    Ended {
        owner: End::First,
        segment: Segment { handle: Rkey(number), length: 8, offset: 0x1000 },
        direction: Direction::Forward,
        xid: Xid(number),
        number: number.into(),
        by: Ender::Reply,
        seen: Some(Seen { frame: number.into(), time: Default::default() }),
    }
}

/// docs/conformance.md promises the last 512 segments.
#[test]
fn ended_segments_are_bounded() {
    let mut memory = AdvertisedMemory::default();
    (1..=600).for_each(|number| memory.remember(ended(number)));
    assert_eq!(memory.ended.len(), 512);
    assert!(memory.former(End::First, Rkey(600 - 512), 0x1000).is_none());
    assert!(memory.former(End::First, Rkey(600 - 512 + 1), 0x1007).is_some());
}

/// A segment is identified by owner, handle and address, and by the Send that ended it.
#[test]
fn a_former_segment_is_found_by_owner_handle_and_address() {
    let mut memory = AdvertisedMemory::default();
    memory.remember(ended(1));
    memory.remember(Ended { number: 2, ..ended(1) });
    for (owner, rkey, address, is_known) in [
        (End::First, 1, 0x1000, true),
        (End::First, 1, 0x1007, true),
        (End::First, 1, 0x1008, false),
        (End::First, 1, 0x0fff, false),
        (End::First, 2, 0x1000, false),
        (End::Second, 1, 0x1000, false),
    ] {
        let found = memory.former(owner, Rkey(rkey), address).map(|ended| ended.number);
        assert_eq!(found, is_known.then_some(2), "{owner:?} {rkey} {address:#x}");
    }
    assert!(memory.ended_with(1, Rkey(1)));
    assert!(!memory.ended_with(2, Rkey(1)) && !memory.ended_with(1, Rkey(2)));
}

/// The last 64 pairs of transactions with memory in common are kept, and none from before two
/// half-flows were joined.
#[test]
fn transactions_that_share_memory_are_remembered() {
    let (mut memory, known) = (AdvertisedMemory::default(), Known::new(ConnectionId(1)));
    for number in 1..=70 {
        let shared = Shared { owner: End::First, xids: [Xid(number), Xid(1000 + number)] };
        memory.observed(&Observed::Shared(shared), &known);
    }
    for (number, is_remembered) in [(6, false), (7, true), (70, true)] {
        for xid in [number, 1000 + number] {
            assert_eq!(memory.is_shared(End::First, Xid(xid)), is_remembered, "{xid}");
            assert!(!memory.is_shared(End::Second, Xid(xid)), "{xid}");
        }
    }
    memory.remember(ended(1));
    memory.evicted(End::First);
    assert!(
        memory.senders.iter().all(|sender| sender.blind),
        "memory of a call that was given up is unknown"
    );
    memory.joined();
    assert!(!memory.is_shared(End::First, Xid(70)) && memory.former(End::First, Rkey(1), 0x1000).is_none());
    assert!(memory.senders.iter().all(|sender| !sender.blind));
}
