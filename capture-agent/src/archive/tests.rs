//! Records found by number are the same as in a walk through the files.

use super::*;
use crate::NoteKind;
use crate::files::Files;
use crate::framing::tests::{BIG, LITTLE, Seen, captures, on_disk, seen};
use crate::pcapng_writer::PcapngWriter;
use crate::source::{Next, Source};
use std::io::Write as _;

/// Notes, each with the number of the record after it.
type Notes = Vec<(u64, Note)>;

/// Returns the records and notes of the files in order, and how the files ended.
fn walked(paths: &[PathBuf]) -> (Vec<Seen>, Notes, String) {
    let mut files = Files::open(paths, None, &Interrupt::default()).unwrap();
    let (mut records, mut notes) = (Vec::new(), Vec::new());
    loop {
        match files.next().unwrap() {
            Next::Record(record) => records.push(seen(&record)),
            Next::Idle(_) => panic!("files need not be waited for"),
            Next::Note(note) => notes.push((records.len() as u64 + 1, note)),
            Next::End => return (records, notes, format!("{:?}", files.endings())),
        }
    }
}

/// Compares records in arbitrary order, and walks that start at some of them.
fn agrees(paths: &[PathBuf], stride: u64, budget: usize) -> Archive {
    let (records, notes, endings) = walked(paths);
    let stored = files::open_all(paths, None, &Interrupt::default()).unwrap();
    let stored = stored.into_iter().map(|(name, capture)| (name, capture.into_stored().unwrap()));
    let archive = Archive::of(stored.collect(), stride, budget).unwrap();
    assert_eq!(archive.records(), records.len() as u64);
    assert_eq!(format!("{:?}", archive.endings()), endings);
    let numbers = 0..=records.len() as u64 + 2;
    let found = numbers.flat_map(|number| archive.notes(number).map(move |note| (number, note)));
    assert_eq!(found.collect::<Notes>(), notes);
    let mut state = 1u64;
    for _ in 0..records.len() * 2 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let number = (state >> 33) % records.len() as u64 + 1;
        let found = archive.record(number).expect("the archive has this record");
        assert_eq!(seen(&found), records[number as usize - 1]);
        if number.is_multiple_of(64) {
            let rest: Vec<Seen> = archive.walk(number).map(|record| seen(&record)).collect();
            assert_eq!(rest, records[number as usize - 1..]);
        }
    }
    assert_eq!(archive.walk(0).count(), records.len());
    for number in [0, records.len() as u64 + 1, u64::MAX] {
        assert!(archive.record(number).is_none());
    }
    archive
}

/// Builds `packets` different packets, two per second from `second` on.
fn pcap(second: u32, packets: u32) -> Vec<u8> {
    let data: Vec<Vec<u8>> =
        (0..packets).map(|n| format!("{second} {n}{}", "x".repeat(n as usize % 40)).into_bytes()).collect();
    let records: Vec<(u32, u32, u32, &[u8])> =
        data.iter().zip(0..).map(|(data, n)| (second + n / 2, n, 100, &data[..])).collect();
    LITTLE.pcap(0xa1b2_c3d4, 1, &records)
}

/// Sections of both byte orders, each with interfaces that no other section has, and one late
/// interface.
fn pcapng() -> Vec<u8> {
    let mut bytes = Vec::new();
    for section in 0..40u16 {
        let writer = if section % 3 == 0 { BIG } else { LITTLE };
        bytes.extend(writer.section());
        for interface in 0..=section % 5 {
            bytes.extend(writer.interface(100 + section, 0, &[(9, &[interface as u8])]));
        }
        for packet in 0..u64::from(section) {
            let data = format!("{section} {packet}").into_bytes();
            bytes.extend(writer.enhanced(u32::from(section % 5), packet, 9, &data));
            if packet == 7 {
                bytes.extend(writer.interface(7, 0, &[]));
            }
            if packet > 7 {
                bytes.extend(writer.enhanced(u32::from(section % 5) + 1, packet, 9, b"late"));
            }
        }
    }
    bytes
}

#[test]
fn records_are_found_by_number() {
    let mut all = captures();
    all.extend([pcap(5, 2000), pcapng()]);
    for bytes in all {
        let file = on_disk(&bytes);
        for stride in [1, 2, 7, 256] {
            agrees(&[file.path().to_owned()], stride, BUDGET);
        }
    }
}

#[test]
fn records_of_several_files_are_found_by_number() {
    let files = [pcap(0, 700), pcap(100, 30), pcapng(), LITTLE.pcap(0xa1b2_c3d4, 1, &[]), pcap(90, 700)];
    let files = files.map(|bytes| on_disk(&bytes));
    let paths = files.each_ref().map(|file| file.path().to_owned());
    for stride in [1, 16, 10_000] {
        agrees(&paths, stride, BUDGET);
    }
}

/// Notes are found where a reader of the files finds them: before the first packet, between two,
/// and after the last.
#[test]
fn notes_keep_their_positions() {
    let written = |first: i64, packets: i64| {
        let mut writer = PcapngWriter::new(Vec::new(), "test").unwrap();
        writer.note(NoteKind::Inventory, format!("before {first}").as_bytes()).unwrap();
        for packet in 0..packets {
            let data = packet.to_le_bytes();
            let time = rdmascope_dissector::record::Time(first + packet * 10);
            let link = rdmascope_dissector::record::LinkType::ETHERNET;
            let record = Record {
                number: 0,
                time,
                link,
                original_length: 9,
                dropped: 0,
                tap: Tap::default(),
                data: &data,
            };
            writer.packet(&record, "").unwrap();
            if packet % 7 == 2 {
                writer.note(NoteKind::Trace, format!("{first} {packet}").as_bytes()).unwrap();
                writer.note(NoteKind::Inventory, b"").unwrap();
                writer.note(NoteKind::Inventory, format!("again {packet}").as_bytes()).unwrap();
            }
        }
        writer.note(NoteKind::Trace, b"at the end").unwrap();
        writer.finish().unwrap()
    };
    let files = [written(0, 60), written(105, 600), written(50, 0), pcap(0, 40)].map(|bytes| on_disk(&bytes));
    let paths = files.each_ref().map(|file| file.path().to_owned());
    for stride in [1, 16, 256] {
        let archive = agrees(&paths[..1], stride, BUDGET);
        assert_eq!(archive.notes.len(), 1 + 2 * 9 + 1);
        assert_eq!(archive.notes(1).count(), 1);
        assert_eq!(archive.notes(61).map(|note| note.bytes).collect::<Vec<_>>(), [b"at the end"]);
        agrees(&paths, stride, BUDGET);
    }
}

#[test]
fn compressed_truncated_and_damaged_files_are_read() {
    let mut bytes = pcap(5, 900);
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(&bytes).unwrap();
    let gzip = encoder.finish().unwrap();
    // Of several blocks: a part of a block cannot be decompressed.
    let mut encoder = zstd::Encoder::new(Vec::new(), 0).unwrap();
    for part in bytes.chunks(bytes.len() / 4) {
        encoder.write_all(part).unwrap();
        encoder.flush().unwrap();
    }
    let zstd = encoder.finish().unwrap();
    bytes.truncate(bytes.len() - 3);
    let cut = bytes.clone();
    let at = bytes.len() - 1000;
    bytes[at..at + 200].fill(0xff);
    let files = [&gzip[..], &gzip[..gzip.len() / 2], &zstd, &zstd[..zstd.len() - 1], &cut, &bytes];
    let files = files.map(on_disk);
    let paths = files.each_ref().map(|file| file.path().to_owned());
    for path in &paths {
        agrees(core::slice::from_ref(path), 64, BUDGET);
    }
    agrees(&paths, 64, BUDGET);
}

#[test]
fn marks_stay_within_the_budget() {
    let [one, other] = [on_disk(&pcap(5, 3000)), on_disk(&pcapng())];
    let paths = [one.path().to_owned(), other.path().to_owned()];
    let budget = 4000;
    let archive = agrees(&paths, 1, budget);
    assert!(archive.index.weight <= budget, "{}", archive.index.weight);
    assert!(archive.index.stride > 1 && archive.index.marks.len() > 2);
    // The weight is the sum of the weights of all marks.
    let marks = &archive.index.marks;
    let before = |at: usize| at.checked_sub(2).and_then(|at| marks[at].as_ref());
    let weight: usize = marks.iter().enumerate().map(|(at, mark)| weight(mark.as_ref(), before(at))).sum();
    assert_eq!(archive.index.weight, weight);
}

#[test]
fn unreadable_input_is_an_error() {
    let mut damaged = pcap(1, 1);
    damaged[32..36].fill(0xff);
    let damaged = on_disk(&damaged);
    let error = Archive::open(&[damaged.path().to_owned()], None).err().unwrap().to_string();
    assert!(error.contains("byte 32: expected a record of at most"), "{error}");
    assert!(matches!(Archive::open(&["/nowhere".into()], None), Err(Error::Open { .. })));
}

/// The mapping is a copy of the file.
#[test]
fn shrinking_file_does_not_affect_the_archive() {
    let bytes = pcap(5, 900);
    let file = on_disk(&bytes);
    let archive = Archive::open(&[file.path().to_owned()], None).unwrap();
    file.as_file().set_len(100).unwrap();
    assert_eq!(archive.records(), 900);
    assert_eq!(archive.walk(0).map(|record| record.data.len()).sum::<usize>(), bytes.len() - 24 - 900 * 16);
}
