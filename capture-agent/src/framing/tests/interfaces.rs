//! Descriptions and drop counts of interfaces.

use super::*;

/// Returns the interfaces of a capture that ends regularly.
fn interfaces(bytes: &[u8]) -> Vec<Interface> {
    let mut framer = Framer::new();
    let mut at = 0;
    loop {
        match framer.next(&bytes[at..]) {
            Step::Record(found) => at += found.consumed,
            Step::Skip(length) => at += length,
            Step::Need(_) if at == bytes.len() => return framer.interfaces().to_vec(),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn names_and_filters_are_read() {
    for writer in [LITTLE, BIG] {
        let described = writer.interface(
            1,
            0,
            &[(2, b"ens1f0"), (3, b"ConnectX-6 \xff"), (11, b"\0udp port 4791"), (9, &[9])],
        );
        let by_code = writer.interface(247, 0, &[(11, &[1, 6, 0, 0, 0]), (2, &[b'x'; 1000])]);
        let bytes = [writer.section(), described, by_code, writer.section(), writer.interface(1, 0, &[])];
        let [first, second, third] = <[Interface; 3]>::try_from(interfaces(&bytes.concat())).unwrap();
        assert_eq!((first.section, first.number, first.link), (1, 0, LinkType::ETHERNET));
        assert_eq!(first.name.as_deref(), Some("ens1f0"));
        assert_eq!(first.description.as_deref(), Some("ConnectX-6 \u{fffd}"));
        assert_eq!(first.filter.as_deref(), Some("udp port 4791"));
        assert_eq!((second.section, second.number, second.link), (1, 1, LinkType::INFINIBAND));
        assert_eq!((second.name.unwrap().len(), second.filter), (256, None));
        assert_eq!((third.section, third.number, third.name), (2, 0, None));
    }
}

/// draft-ietf-opsawg-pcapng, section 4.6.
#[test]
fn statistics_are_read() {
    for writer in [LITTLE, BIG] {
        let value = |value: u64| writer.u64(value);
        // Timestamps are two words, the upper half first.
        let time =
            |ticks: u64| <[u8; 8]>::try_from(writer.words(&[(ticks >> 32) as u32, ticks as u32])).unwrap();
        let begun = writer.statistics(0, &[(4, &value(10)), (7, &value(1))]);
        let ended = writer.statistics(
            0,
            &[
                (1, b"a comment"),
                (2, &time(0x0001_0000_0002)),
                (3, &time(0x0001_0000_0003)),
                (4, &value(1_000_000_000_000)),
                (5, &value(7)),
                (6, &value(900)),
                (7, &value(30)),
                (8, &value(863)),
            ],
        );
        let bytes = [writer.section(), writer.interface(1, 0, &[]), begun, ended].concat();
        let [interface] = <[Interface; 1]>::try_from(interfaces(&bytes)).unwrap();
        let expected = Statistics {
            start: Some(Time(0x0001_0000_0002 * 1000)),
            end: Some(Time(0x0001_0000_0003 * 1000)),
            received: Some(1_000_000_000_000),
            dropped_by_interface: Some(7),
            accepted: Some(900),
            dropped_by_system: Some(30),
            delivered: Some(863),
        };
        assert_eq!(interface.statistics, expected);
        assert_eq!(interface.dropped(), 37);
    }
}

#[test]
fn invalid_statistics_are_ignored() {
    for writer in [LITTLE, BIG] {
        let bytes = [
            writer.section(),
            writer.interface(1, 0, &[]),
            // For an unknown interface; too short; with a short option, an option beyond the block,
            // and bytes after the end.
            writer.statistics(7, &[(5, &[1; 8])]),
            writer.block(5, &[0; 4]),
            writer.block(5, &[]),
            writer.statistics(0, &[(5, &[1; 4]), (7, &writer.u64(2))]),
            writer.block(5, &[&[0; 12][..], &writer.u16(5), &writer.u16(800), &[1; 8]].concat()),
            writer.block(5, &[&[0; 12][..], &[0; 4], &writer.options(&[(5, &[1; 8])])].concat()),
            writer.enhanced(0, 1, 1, b"x"),
        ];
        assert_eq!(all_records(&bytes.concat()).len(), 1);
        assert_eq!(interfaces(&bytes.concat())[0].dropped(), 2);
    }
}

/// draft-ietf-opsawg-pcapng, section 4.3, epb_dropcount, and section B.1, drops count.
#[test]
fn drop_counts_of_packets_are_added_to_the_interface() {
    for writer in [LITTLE, BIG] {
        let count = writer.u64(5);
        let bytes = [
            writer.section(),
            writer.interface(1, 0, &[]),
            writer.interface(1, 0, &[]),
            writer.enhanced_with(0, 7, 9, b"first", &[(1, b"a comment"), (4, &count), (2, &[0; 4])]),
            writer.enhanced_with(1, 8, 9, b"second", &[(2, &[0; 4])]),
            writer.enhanced_with(0, 9, 9, b"", &[(4, &writer.u64(u64::MAX))]),
            // Its drop count is the bytes 00 09.
            writer.obsolete(1, 10, 9, b"third"),
        ]
        .concat();
        let records = all_records(&bytes);
        assert_eq!(
            records.iter().map(|record| &record.data[..]).collect::<Vec<_>>(),
            [&b"first"[..], b"second", b"", b"third"]
        );
        assert_eq!(records.iter().map(|record| record.time).collect::<Vec<_>>(), [7000, 8000, 9000, 10_000]);
        let dropped: Vec<u64> = interfaces(&bytes).iter().map(Interface::dropped).collect();
        assert_eq!(dropped, [u64::MAX, if writer.0 { 9 } else { 0x0900 }]);
    }
}

/// Returns the number of drops before each record, and checks that a framer resumed from a mark
/// gives the same.
fn dropped(bytes: &[u8]) -> Vec<u32> {
    let (mut framer, mut at, mut all) = (Framer::new(), 0, Vec::new());
    loop {
        match framer.next(&bytes[at..]) {
            Step::Record(framed) => {
                let mark = framer.mark(&framed, None);
                assert_eq!(Framer::resume(&mark).next(&bytes[at..]), Step::Record(framed));
                all.push(framed.dropped);
                at += framed.consumed;
            }
            Step::Skip(length) => at += length,
            Step::Need(_) if at == bytes.len() => return all,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn records_carry_the_drops_before_them() {
    for writer in [LITTLE, BIG] {
        let counted = |count| writer.statistics(1, &[(5, &writer.u64(1)), (7, &writer.u64(count))]);
        let bytes = [
            writer.section(),
            writer.interface(1, 0, &[]),
            writer.interface(1, 0, &[]),
            writer.enhanced(1, 1, 9, b"none"),
            counted(2),
            writer.enhanced(0, 2, 9, b"three by the statistics"),
            counted(2),
            writer.enhanced(1, 3, 9, b"no more"),
            counted(4),
            writer.enhanced_with(1, 4, 9, b"four, of which the statistics know two", &[(4, &writer.u64(4))]),
            counted(6),
            writer.enhanced(1, 5, 9, b"the same ones again"),
            writer.enhanced_with(1, 6, 9, b"many", &[(4, &writer.u64(u64::MAX))]),
            counted(7),
            writer.section(),
            writer.interface(1, 0, &[]),
            writer.simple(9, b"none"),
        ];
        assert_eq!(dropped(&bytes.concat()), [0, 3, 0, 4, 0, u32::MAX, 0]);
    }
}

#[test]
fn larger_of_both_drop_counts_is_used() {
    let mut bytes = [LITTLE.section(), LITTLE.interface(1, 0, &[])].concat();
    bytes.extend(LITTLE.enhanced_with(0, 7, 9, b"x", &[(4, &5u64.to_le_bytes())]));
    assert_eq!(interfaces(&bytes)[0].dropped(), 5);
    bytes.extend(LITTLE.statistics(0, &[(7, &3u64.to_le_bytes())]));
    assert_eq!(interfaces(&bytes)[0].dropped(), 5);
    bytes.extend(LITTLE.statistics(0, &[(5, &4u64.to_le_bytes()), (7, &3u64.to_le_bytes())]));
    assert_eq!(interfaces(&bytes)[0].dropped(), 7);
}

#[test]
fn damaged_options_do_not_affect_the_packet() {
    for writer in [LITTLE, BIG] {
        let mut damaged = writer.enhanced_with(0, 7, 9, b"data", &[(4, &[1; 8])]);
        // The option's length exceeds the block.
        damaged[28 + 4 + 2..][..2].fill(0xff);
        let bytes = [writer.section(), writer.interface(1, 0, &[]), damaged].concat();
        assert_eq!(all_records(&bytes), [record(1, 7000, 1, 9, b"data")]);
        assert_eq!(interfaces(&bytes)[0].dropped(), 0);
    }
}

#[test]
fn reported_interfaces_are_bounded() {
    let mut bytes = Vec::new();
    for _ in 0..100 {
        bytes.extend(LITTLE.section());
        (0..20).for_each(|_| bytes.extend(LITTLE.interface(1, 0, &[])));
        bytes.extend(LITTLE.statistics(19, &[(7, &1u64.to_le_bytes())]));
    }
    let all = interfaces(&bytes);
    assert_eq!(all.len(), 1024);
    assert_eq!(all.iter().map(Interface::dropped).sum::<u64>(), 51);
}
