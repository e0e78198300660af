//! Errors and limits of pcap-parser, the reason for the hand-written framer. If a test fails with a
//! later version, some of the framer's code can be removed.

use super::*;
use ::pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use ::pcap_parser::{
    Block, LegacyPcapReader, PcapBlockOwned, PcapError, PcapNGReader, create_reader, parse_block_be,
    parse_block_le, parse_pcap_frame,
};
use std::io::Cursor;

fn block(writer: Writer, bytes: &[u8]) -> Block<'_> {
    let parsed = if writer.0 { parse_block_be(bytes) } else { parse_block_le(bytes) };
    parsed.expect("it is a block").1
}

/// Resolutions that are powers of two or finer than 10^-19 s, and offsets in big-endian sections.
#[test]
fn some_resolutions_and_offsets_are_unsupported() {
    let clock = |writer: Writer, options: &[(u16, &[u8])]| {
        let bytes = writer.interface(1, 0, options);
        match block(writer, &bytes) {
            Block::InterfaceDescription(interface) => (interface.ts_resolution(), interface.ts_offset()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(clock(LITTLE, &[(9, &[6])]).0, Some(1_000_000));
    assert_eq!(clock(LITTLE, &[(9, &[0x80 | 10])]).0, None, "2^10 ticks a second");
    assert_eq!(clock(LITTLE, &[(9, &[20])]).0, None);
    assert_eq!(clock(LITTLE, &[(14, &3i64.to_le_bytes())]).1, 3);
    assert_ne!(clock(BIG, &[(14, &3i64.to_be_bytes())]).1, 3);
}

/// The second word of a pcap record is named microseconds even if it contains nanoseconds.
#[test]
fn nanoseconds_are_named_microseconds() {
    let bytes = LITTLE.pcap(0xa1b2_3c4d, 1, &[(1, 999_999_999, 1, b"x")]);
    assert_eq!(parse_pcap_frame(&bytes[24..]).expect("a record").1.ts_usec, 999_999_999);
}

/// The counts of interface statistics are read as little-endian in every section.
#[test]
fn big_endian_counts_are_wrong() {
    for (writer, right) in [(LITTLE, true), (BIG, false)] {
        let bytes = writer.statistics(0, &[(7, &writer.u64(3))]);
        match block(writer, &bytes) {
            Block::InterfaceStatistics(statistics) => {
                assert_eq!(statistics.isb_osdrop() == Some(Ok(3)), right);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// The options of every packet are collected in allocated memory.
#[test]
fn options_of_every_packet_are_allocated() {
    let options = |options: &[(u16, &[u8])]| {
        let bytes = LITTLE.enhanced_with(0, 0, 1, b"x", options);
        match block(LITTLE, &bytes) {
            Block::EnhancedPacket(packet) => (packet.options.len(), packet.options.capacity()),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(options(&[]), (0, 0));
    // The size of an option in memory, compared to at least four bytes in the file.
    assert_eq!(size_of::<::pcap_parser::PcapNGOption<'_>>(), 32);
    let (found, capacity) = options(&[(2, &[0; 4])]);
    assert!(found == 2 && capacity >= 4, "including opt_endofopt");
}

/// The trailing lengths of most blocks, and lengths that are not a multiple of four, are not
/// checked.
#[test]
fn trailing_and_odd_lengths_are_not_checked() {
    let mut simple = LITTLE.simple(1, b"x");
    let last = simple.len() - 4;
    simple[last] ^= 4;
    assert!(matches!(block(LITTLE, &simple), Block::SimplePacket(_)));
    let mut odd = LITTLE.block(0x0bad_cafe, &[0; 8]);
    odd[4] -= 1;
    assert!(matches!(block(LITTLE, &odd), Block::Unknown(_)));
    // The obsolete packet block is not supported.
    assert!(matches!(block(LITTLE, &LITTLE.obsolete(0, 0, 1, b"x")), Block::Unknown(_)));
}

/// A reader fails if the first read returns only a part of the header.
#[test]
fn readers_need_the_first_header_in_one_read() {
    let bytes = LITTLE.pcapng();
    let (first, rest) = bytes.split_at(10);
    let pipe = || Pieces(vec![Ok(first.to_vec()), Ok(rest.to_vec())]);
    assert!(matches!(PcapNGReader::new(65_536, pipe()), Err(PcapError::Incomplete(_))));
    let bytes = LITTLE.pcap(0xa1b2_c3d4, 1, &[]);
    let pipe = Pieces(vec![Ok(bytes[..10].to_vec()), Ok(bytes[10..].to_vec())]);
    assert!(matches!(LegacyPcapReader::new(65_536, pipe), Err(PcapError::Incomplete(_))));
}

/// The readers treat an interruption as an error and do not report which error it was.
#[test]
fn interrupted_reads_are_errors() {
    let bytes = LITTLE.pcapng();
    for kind in [io::ErrorKind::Interrupted, io::ErrorKind::ConnectionReset] {
        let pipe = Pieces(vec![Ok(bytes[..28].to_vec()), Err(kind.into()), Ok(bytes[28..].to_vec())]);
        let mut reader = PcapNGReader::new(65_536, pipe).unwrap_or_else(|_| panic!("a section header"));
        assert!(matches!(reader.refill(), Err(PcapError::ReadError)));
    }
}

/// A corrupt length looks like a buffer that is too small. Growing it as requested would take 4
/// GiB.
#[test]
fn corrupt_length_is_reported_as_a_small_buffer() {
    let mut bytes = LITTLE.pcap(0xa1b2_c3d4, 1, &[(1, 0, 1, b"x")]);
    bytes[24 + 8..24 + 12].fill(0xf0);
    let mut reader = LegacyPcapReader::new(65_536, Cursor::new(bytes)).unwrap_or_else(|_| panic!("a header"));
    let offset = reader.next().expect("the header").0;
    reader.consume(offset);
    assert!(matches!(reader.next(), Err(PcapError::BufferTooSmall)));
}

/// The readers agree with the framer on captures that they support.
#[test]
fn readers_agree_with_the_framer() {
    for bytes in captures() {
        let mut reader = create_reader(65_536, Cursor::new(bytes.clone())).unwrap();
        let mut theirs = Vec::new();
        loop {
            let offset = match reader.next() {
                Ok((offset, block)) => {
                    match block {
                        PcapBlockOwned::Legacy(record) => theirs.push((record.origlen, record.data.to_vec())),
                        PcapBlockOwned::NG(Block::EnhancedPacket(packet)) => {
                            theirs.push((packet.origlen, packet.packet_data().to_vec()));
                        }
                        _ => {}
                    }
                    offset
                }
                Err(PcapError::Eof) => break,
                Err(PcapError::Incomplete(_)) => 0,
                Err(error) => panic!("{error:?}"),
            };
            reader.consume(offset);
            if offset == 0 {
                reader.refill().unwrap();
            }
        }
        let mut ours = all_records(&bytes);
        if bytes[0] == 0x0a {
            ours.retain(|record| record.data == b"first");
        }
        let ours: Vec<_> = ours.into_iter().map(|record| (record.original_length, record.data)).collect();
        assert_eq!(ours, theirs);
    }
}
