use super::*;

/// The page promises the last 512 segments.
#[test]
fn what_is_remembered_is_bounded() {
    let mut memory = AdvertisedMemory::default();
    for number in 1..=600 {
        memory.remember(Ended {
            owner: End::First,
            segment: Segment { handle: Rkey(number), length: 8, offset: 0 },
            direction: Direction::Forward,
            xid: Xid(number),
            number: number.into(),
            by: Ender::Reply,
            seen: None,
        });
    }
    assert_eq!(memory.ended.len(), 512);
    assert!(memory.former(End::First, Rkey(600 - 512), 0).is_none());
    assert!(memory.former(End::First, Rkey(600 - 512 + 1), 7).is_some());
}
