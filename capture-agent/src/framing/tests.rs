//! Captures written by hand from the diagrams of the specifications.

mod erf;
mod interfaces;
mod pcap_parser;

use super::*;
use proptest::prelude::*;
use std::io::{self, Read, Write as _};
use tempfile::NamedTempFile;

/// The fields of a record that tests compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) number: u64,
    pub(crate) time: i64,
    pub(crate) link: u16,
    pub(crate) original_length: u32,
    pub(crate) data: Vec<u8>,
}

pub(crate) fn seen(record: &Record<'_>) -> Seen {
    Seen {
        number: record.number,
        time: record.time.0,
        link: record.link.0,
        original_length: record.original_length,
        data: record.data.to_vec(),
    }
}

/// A file with these bytes, removed after the test.
pub(crate) fn on_disk(bytes: &[u8]) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// Returns one piece or one error per read, and then ends.
pub(crate) struct Pieces(pub(crate) Vec<io::Result<Vec<u8>>>);

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() {
            return Ok(0);
        }
        let piece = self.0.remove(0)?;
        out[..piece.len()].copy_from_slice(&piece);
        Ok(piece.len())
    }
}

/// Returns all records, and the end: the number of bytes needed and available, or the damage.
fn framed(bytes: &[u8]) -> (Vec<Seen>, Result<(usize, usize), Damage>) {
    let mut framer = Framer::new();
    let mut at = 0;
    let mut records = Vec::new();
    loop {
        assert_eq!(framer.offset(), at as u64);
        match framer.next(&bytes[at..]) {
            Step::Record(found) => {
                records.push(seen(&found.record(&bytes[at..])));
                at += found.consumed;
            }
            Step::Skip(length) => at += length,
            Step::Need(needed) => {
                assert!(needed > bytes.len() - at && needed <= LIMIT + 16);
                return (records, Ok((needed, bytes.len() - at)));
            }
            Step::Damaged(damage) => return (records, Err(damage)),
        }
    }
}

/// Returns all records of a capture that ends regularly.
fn all_records(bytes: &[u8]) -> Vec<Seen> {
    let (records, end) = framed(bytes);
    assert!(matches!(end, Ok((_, 0))), "{end:?}");
    records
}

#[derive(Clone, Copy)]
pub(crate) struct Writer(bool);

/// Writes in the byte order of a big-endian or a little-endian host.
pub(crate) const BIG: Writer = Writer(true);
pub(crate) const LITTLE: Writer = Writer(false);

impl Writer {
    fn u16(self, value: u16) -> [u8; 2] {
        if self.0 { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn u32(self, value: u32) -> [u8; 4] {
        if self.0 { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn words(self, words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|&word| self.u32(word)).collect()
    }

    pub(crate) fn pcap(self, magic: u32, link: u32, records: &[(u32, u32, u32, &[u8])]) -> Vec<u8> {
        let mut out = self.words(&[magic]);
        out.extend([self.u16(2), self.u16(4)].concat());
        out.extend(self.words(&[0, 0, 262_144, link]));
        for &(seconds, fraction, original_length, data) in records {
            out.extend(self.words(&[seconds, fraction, data.len() as u32, original_length]));
            out.extend(data);
        }
        out
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let padding = body.len().next_multiple_of(4) - body.len();
        let total = (12 + body.len() + padding) as u32;
        [&self.words(&[kind, total])[..], body, &[0xaa; 3][..padding], &self.u32(total)].concat()
    }

    pub(crate) fn section(self) -> Vec<u8> {
        let body = [&self.words(&[0x1a2b_3c4d])[..], &self.u16(1), &self.u16(0), &[0xff; 8]].concat();
        self.block(0x0a0d_0d0a, &body)
    }

    pub(crate) fn interface(self, link: u16, snap_length: u32, options: &[(u16, &[u8])]) -> Vec<u8> {
        let mut body = [self.u16(link), [0; 2]].concat();
        body.extend(self.u32(snap_length));
        body.extend(self.options(options));
        self.block(1, &body)
    }

    fn options(self, options: &[(u16, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (code, value) in options {
            out.extend([self.u16(*code), self.u16(value.len() as u16)].concat());
            out.extend(*value);
            out.resize(out.len().next_multiple_of(4), 0);
        }
        if !options.is_empty() {
            out.extend([0; 4]);
        }
        out
    }

    pub(crate) fn enhanced(self, interface: u32, ticks: u64, original_length: u32, data: &[u8]) -> Vec<u8> {
        self.enhanced_with(interface, ticks, original_length, data, &[])
    }

    pub(crate) fn enhanced_with(
        self,
        interface: u32,
        ticks: u64,
        original_length: u32,
        data: &[u8],
        options: &[(u16, &[u8])],
    ) -> Vec<u8> {
        let words = [interface, (ticks >> 32) as u32, ticks as u32, data.len() as u32, original_length];
        let mut body = [&self.words(&words)[..], data].concat();
        body.resize(body.len().next_multiple_of(4), 0xaa);
        body.extend(self.options(options));
        self.block(6, &body)
    }

    pub(crate) fn statistics(self, interface: u32, options: &[(u16, &[u8])]) -> Vec<u8> {
        self.block(5, &[self.words(&[interface, 0, 0]), self.options(options)].concat())
    }

    pub(crate) fn u64(self, value: u64) -> [u8; 8] {
        if self.0 { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn obsolete(self, interface: u16, ticks: u64, original_length: u32, data: &[u8]) -> Vec<u8> {
        let words = [(ticks >> 32) as u32, ticks as u32, data.len() as u32, original_length];
        self.block(2, &[&self.u16(interface)[..], &[0, 9], &self.words(&words), data].concat())
    }

    fn simple(self, original_length: u32, data: &[u8]) -> Vec<u8> {
        self.block(3, &[&self.u32(original_length)[..], data].concat())
    }

    /// A capture with one interface, three blocks without packets, and a packet of each kind.
    pub(crate) fn pcapng(self) -> Vec<u8> {
        [
            self.section(),
            self.interface(1, 6, &[]),
            self.block(4, &[0; 8]),
            self.enhanced(0, 1_500_000, 5, b"first"),
            self.block(0x0000_0bad, b"what is this"),
            self.obsolete(0, 2_500_000, 60, b"second"),
            self.block(5, &[0; 12]),
            self.simple(9, b"third."),
        ]
        .concat()
    }
}

fn record(number: u64, time: i64, link: u16, original_length: u32, data: &[u8]) -> Seen {
    Seen { number, time, link, original_length, data: data.to_vec() }
}

#[test]
fn pcap_is_read_in_both_byte_orders_and_units() {
    for writer in [LITTLE, BIG] {
        for (magic, unit) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            let records: [(u32, u32, u32, &[u8]); 4] = [
                (1, 2, 5, b"first"),
                (1, 999, 60, b"second"),
                (0, 0, 0, b""),
                (u32::MAX, u32::MAX, 2, b"late"),
            ];
            assert_eq!(
                all_records(&writer.pcap(magic, 1, &records)),
                [
                    record(1, 1_000_000_000 + 2 * unit, 1, 5, b"first"),
                    record(2, 1_000_000_000 + 999 * unit, 1, 60, b"second"),
                    record(3, 0, 1, 0, b""),
                    // The captured length exceeds the original length: kept unchanged.
                    record(4, 4_294_967_295_000_000_000 + 4_294_967_295 * unit, 1, 2, b"late"),
                ]
            );
        }
        // The upper half of the link type describes the frame check sequence.
        let other_link = writer.pcap(0xa1b2_c3d4, 0x1400_00f7, &[(0, 0, 1, b"x")]);
        assert_eq!(all_records(&other_link)[0].link, 247);
        assert_eq!(all_records(&writer.pcap(0xa1b2_c3d4, 1, &[])), []);
    }
}

#[test]
fn pcapng_packets_of_every_kind_are_read() {
    for writer in [LITTLE, BIG] {
        assert_eq!(
            all_records(&writer.pcapng()),
            [
                record(1, 1_500_000_000, 1, 5, b"first"),
                record(2, 2_500_000_000, 1, 60, b"second"),
                record(3, 0, 1, 9, b"third."),
            ]
        );
        // The snap length separates captured bytes of a simple packet from padding; 0 means no snap
        // length.
        for (snap_length, kept) in [(5, 5), (6, 6), (0, 8), (100, 8)] {
            let bytes =
                [writer.section(), writer.interface(1, snap_length, &[]), writer.simple(9, b"simple__")];
            assert_eq!(all_records(&bytes.concat()), [record(1, 0, 1, 9, &b"simple__"[..kept])]);
        }
        let bytes = [writer.section(), writer.interface(1, 0, &[]), writer.simple(5, b"third")];
        assert_eq!(all_records(&bytes.concat())[0].data, b"third");
    }
}

#[test]
fn timestamps_are_converted_to_nanoseconds() {
    let year_2026 = 1_800_000_000u64;
    let cases: &[(u8, u64, i64)] = &[
        (6, year_2026 * 1_000_000 + 7, 1_800_000_000_000_007_000),
        (9, year_2026 * 1_000_000_000 + 7, 1_800_000_000_000_000_007),
        (3, year_2026 * 1000 + 7, 1_800_000_000_007_000_000),
        (0, year_2026, 1_800_000_000_000_000_000),
        (12, 7_001_999, 7001),
        (19, 70_000_000_000, 7),
        (28, u64::MAX, 1),
        (29, u64::MAX, 0),
        (127, u64::MAX, 0),
        (0x80 | 10, year_2026 * 1024 + 512, 1_800_000_000_500_000_000),
        (0x80 | 30, 3 << 29, 1_500_000_000),
        (0x80, 5, 5_000_000_000),
        (0x80 | 127, u64::MAX, 0),
        // Out of range.
        (0, u64::MAX, i64::MAX),
        (6, u64::MAX, i64::MAX),
        (9, u64::MAX, i64::MAX),
        (0x80, u64::MAX, i64::MAX),
    ];
    for writer in [LITTLE, BIG] {
        for &(resolution, ticks, time) in cases {
            let interface = writer.interface(1, 0, &[(2, b"eth0"), (9, &[resolution]), (12, b"x")]);
            let bytes = [writer.section(), interface, writer.enhanced(0, ticks, 1, b"x")].concat();
            assert_eq!(all_records(&bytes)[0].time, time, "{resolution:#x} {ticks}");
        }
        let time_with_offset = |seconds: i64| {
            let value = if writer.0 { seconds.to_be_bytes() } else { seconds.to_le_bytes() };
            let interface = writer.interface(1, 0, &[(14, &value)]);
            let bytes = [writer.section(), interface, writer.enhanced(0, 1_000_007, 1, b"x")].concat();
            all_records(&bytes)[0].time
        };
        assert_eq!(time_with_offset(1_800_000_000), 1_800_000_001_000_007_000);
        assert_eq!(time_with_offset(-3), -1_999_993_000);
        assert_eq!(time_with_offset(i64::MAX), i64::MAX);
        assert_eq!(time_with_offset(i64::MIN), i64::MIN + 1_000_007_000);
    }
}

#[test]
fn interfaces_belong_to_their_section() {
    let section = |writer: Writer, links: [u16; 2]| {
        [
            writer.section(),
            writer.interface(links[0], 0, &[]),
            writer.interface(links[1], 0, &[(9, &[9])]),
            writer.enhanced(1, 5, 1, b"b"),
            writer.enhanced(0, 5, 1, b"a"),
            writer.obsolete(1, 6, 1, b"c"),
        ]
        .concat()
    };
    assert_eq!(
        all_records(&[section(LITTLE, [1, 113]), section(BIG, [247, 276])].concat()),
        [
            record(1, 5, 113, 1, b"b"),
            record(2, 5000, 1, 1, b"a"),
            record(3, 6, 113, 1, b"c"),
            record(4, 5, 276, 1, b"b"),
            record(5, 5000, 247, 1, b"a"),
            record(6, 6, 276, 1, b"c"),
        ]
    );
    // Interfaces belong to their section.
    let orphan = [section(LITTLE, [1, 1]), BIG.section(), BIG.enhanced(0, 0, 1, b"x")].concat();
    let (records, end) = framed(&orphan);
    assert_eq!(records.len(), 3);
    assert_eq!(end.unwrap_err().fault, Fault::Interface { found: 0, described: 0 });
}

/// The captures that other tests truncate and change.
pub(crate) fn captures() -> Vec<Vec<u8>> {
    let records: [(u32, u32, u32, &[u8]); 3] = [(1, 2, 5, b"first"), (1, 3, 60, b"second"), (2, 0, 0, b"")];
    let mut all = vec![
        LITTLE.pcap(0xa1b2_c3d4, 1, &records),
        BIG.pcap(0xa1b2_3c4d, 1, &records),
        LITTLE.pcapng(),
        BIG.pcapng(),
    ];
    all.push([LITTLE.pcapng(), BIG.pcapng()].concat());
    all.push([LITTLE.section(), LITTLE.interface(1, 0, &[(2, b"name"), (9, &[9]), (14, &[0; 8])])].concat());
    all
}

#[test]
fn truncated_captures_keep_their_first_records() {
    for bytes in captures() {
        let all = all_records(&bytes);
        for length in 0..bytes.len() {
            let (records, end) = framed(&bytes[..length]);
            assert_eq!(records, all[..records.len()]);
            let (needed, available) = end.unwrap();
            assert!(available < needed);
        }
    }
}

#[test]
fn changed_bytes_do_not_panic() {
    for bytes in captures() {
        for at in 0..bytes.len() {
            for flip in [0x01, 0x04, 0x80, 0xff] {
                let mut changed = bytes.clone();
                changed[at] ^= flip;
                let (records, end) = framed(&changed);
                assert!(records.len() <= 6);
                if let Err(damage) = end {
                    assert!(damage.offset <= bytes.len() as u64);
                    assert!(!damage.to_string().is_empty());
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_do_not_panic(
        capture: prop::sample::Index,
        noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut bytes = capture.get(&captures()).clone();
        for (at, byte) in noise {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        let _ = framed(&bytes);
    }
}

#[test]
fn damage_messages_include_offset_and_cause() {
    let damage = |bytes: &[u8]| framed(bytes).1.unwrap_err().to_string();
    let changed = |at: usize, to: &[u8]| {
        let mut bytes = LITTLE.pcapng();
        bytes[at..at + to.len()].copy_from_slice(to);
        damage(&bytes)
    };
    assert_eq!(
        damage(b"# fields of a file"),
        "byte 0: expected the magic number of a pcap or pcapng file, gzip or zstd, or ERF records, found 23 20 66 69"
    );
    assert_eq!(
        damage(&LITTLE.pcap(0xa1b2_cd34, 1, &[])),
        "byte 0: found the magic number of the modified pcap format of 1999; convert the file with `editcap -F pcap`"
    );
    assert!(damage(b"\xfd7zXZ\0").ends_with("decompress the file with `xz -d`"));
    let mut long = LITTLE.pcap(0xa1b2_c3d4, 1, &[(0, 0, 1, b"x")]);
    long[24 + 8..24 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert_eq!(
        damage(&long),
        "byte 32: expected a record of at most 16777216 bytes, found a captured length of 4294967295"
    );
    long[4] = 3;
    assert_eq!(damage(&long), "byte 4: expected version 2 of the format, found 3.4");

    // The section header has 28 bytes, the interface description 20, the interface statistics 20;
    // the packet starts at 68.
    assert_eq!(
        changed(8, &[1, 2, 3, 4]),
        "byte 8: expected the byte-order magic 1a2b3c4d of a pcapng section, found 01020304"
    );
    assert_eq!(changed(12, &[2]), "byte 12: expected version 1 of the format, found 2.0");
    assert_eq!(
        changed(32, &[16]),
        "byte 32: expected the length of a pcapng block, a multiple of 4 from 20 to 16777216, found 16"
    );
    assert!(changed(32, &[21]).ends_with("found 21"));
    assert!(changed(32, &[0, 0, 0, 2]).ends_with("found 33554432"));
    assert_eq!(
        changed(44, &[24]),
        "byte 44: expected the length 20 again at the end of its pcapng block, found 24"
    );
    assert_eq!(
        changed(68 + 8, &[1]),
        "byte 76: expected one of the 1 interfaces that the section describes, found number 1"
    );
    assert_eq!(
        changed(68 + 20, &[9]),
        "byte 88: expected a captured length of at most 8, the rest of the block, found 9"
    );
    let options = [LITTLE.section(), LITTLE.interface(1, 0, &[(2, b"eth0")])].concat();
    let mut long_option = options.clone();
    long_option[28 + 18] = 9;
    assert_eq!(
        damage(&long_option),
        "byte 44: expected an option within its pcapng block, found option 2 with a length of 9"
    );
}

#[test]
fn interface_table_is_bounded() {
    let mut bytes = LITTLE.section();
    for _ in 0..=65_536 {
        bytes.extend(LITTLE.interface(1, 0, &[]));
    }
    assert_eq!(framed(&bytes).1.unwrap_err().fault, Fault::Interfaces { limit: 65_536 });
}
