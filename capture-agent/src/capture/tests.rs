//! The same captures from files, from pipes, and compressed.

use super::*;
use crate::block::{Blocks, Spare};
use crate::framing::tests::{LITTLE, Seen, captures, on_disk, seen};
use rdmascope_dissector::frame;
use std::io::Write;

/// Does the same as [`all`], through [`Blocks`].
fn all_in_blocks(capture: Result<Capture, Error>) -> All {
    let mut capture = match capture {
        Ok(capture) => capture,
        Err(error) => return (Vec::new(), None, Some(tail(&error))),
    };
    let mut blocks = Blocks::of(&mut capture);
    let mut found = Vec::new();
    let mut spare = Spare::default();
    let config = frame::Config::default();
    // Every second block is dissected ahead.
    let mut ahead = None;
    let error = loop {
        let (block, end) = blocks.next(core::mem::take(&mut spare), ahead);
        assert!(block.records().all(|(_, dissected)| dissected.is_some() == ahead.is_some()));
        found.extend(block.records().map(|(record, _)| seen(record)));
        spare = block.into_spare();
        ahead = if ahead.is_none() { Some(&config) } else { None };
        match end {
            Ok(true) => {}
            Ok(false) => break None,
            Err(error) => break Some(tail(&error)),
        }
    };
    (found, capture.end().copied().filter(|_| error.is_none()), error)
}

type All = (Vec<Seen>, Option<Cut>, Option<String>);

/// Returns all records, the cut, and the error without the name before it.
fn all(capture: Result<Capture, Error>) -> All {
    let mut records = Vec::new();
    let mut capture = match capture {
        Ok(capture) => capture,
        Err(error) => return (records, None, Some(tail(&error))),
    };
    loop {
        match capture.next() {
            Ok(Some(record)) => records.push(seen(&record)),
            Ok(None) => return (records, capture.end().copied(), None),
            Err(error) => {
                assert!(matches!(capture.next(), Ok(None)));
                return (records, None, Some(tail(&error)));
            }
        }
    }
}

fn tail(error: &Error) -> String {
    let text = error.to_string();
    text.split_once(": ").map_or(text.clone(), |(_, tail)| tail.to_owned())
}

/// Returns `bytes` a few at a time.
struct Pipe {
    bytes: Vec<u8>,
    at: usize,
    piece: usize,
}

impl Read for Pipe {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = self.piece.min(out.len()).min(self.bytes.len() - self.at);
        out[..length].copy_from_slice(&self.bytes[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}

fn pipe(bytes: &[u8], piece: usize) -> Result<Capture, Error> {
    Capture::from_reader("pipe", Pipe { bytes: bytes.to_vec(), at: 0, piece })
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 0).unwrap()
}

/// About 3 MiB of packets, all different.
fn large() -> Vec<u8> {
    let data: Vec<Vec<u8>> = (0..3000u32)
        .map(|n| (0..n % 2048).map(|at| (at.wrapping_mul(2_654_435_761) >> (n % 24)) as u8).collect())
        .collect();
    let records: Vec<_> = data.iter().zip(0..).map(|(data, n)| (n, n, 9000, &data[..])).collect();
    LITTLE.pcap(0xa1b2_c3d4, 1, &records)
}

#[test]
fn all_sources_give_the_same_records() {
    for bytes in captures().into_iter().chain([large()]) {
        let file = on_disk(&bytes);
        let expected = all(Capture::open(file.path()));
        assert_eq!((&expected.1, &expected.2), (&None, &None));
        assert_eq!(all_in_blocks(Capture::open(file.path())), expected);
        for piece in [1, 7, 4096, usize::MAX] {
            assert_eq!(all(pipe(&bytes, piece)), expected);
        }
        // Consecutive members form one stream.
        let half = bytes.len() / 2;
        let members =
            |encode: fn(&[u8]) -> Vec<u8>| [encode(&bytes[..half]), encode(&bytes[half..])].concat();
        for (name, compressed) in
            [("gz", gzip(&bytes)), ("zst", zstd(&bytes)), ("gz2", members(gzip)), ("zst2", members(zstd))]
        {
            let file = on_disk(&compressed);
            assert_eq!(all(Capture::open(file.path())), expected, "{name}");
            assert_eq!(all(pipe(&compressed, 5)), expected, "{name}");
        }
    }
    assert_eq!(all(pipe(&large(), 4096)).0.len(), 3000);
}

/// The length of the file header: of pcap, or the section header block of pcapng.
fn header_length(bytes: &[u8]) -> usize {
    match bytes[..8] {
        [0x0a, 0x0d, 0x0d, 0x0a, little, 0, 0, 0] => little.into(),
        [0x0a, 0x0d, 0x0d, 0x0a, 0, 0, 0, big] => big.into(),
        _ => 24,
    }
}

#[test]
fn truncation_is_reported_after_the_complete_records() {
    for bytes in captures() {
        let complete = all(pipe(&bytes, 100)).0;
        for length in 4..bytes.len() {
            let file = on_disk(&bytes[..length]);
            let (records, cut, error) = all(Capture::open(file.path()));
            assert_eq!(records, complete[..records.len()]);
            if length < header_length(&bytes) {
                let error = Some(format!("cut short at byte {length}, within the file header"));
                let expected = (Vec::new(), None, error);
                for capture in
                    [Capture::open(file.path()), pipe(&bytes[..length], 3), pipe(&zstd(&bytes[..length]), 3)]
                {
                    assert_eq!(all(capture), expected);
                }
                assert_eq!(all_in_blocks(Capture::open(file.path())), expected);
                continue;
            }
            assert_eq!(error, None);
            if let Some(cut) = cut {
                assert_eq!(cut.offset + cut.available, length as u64);
                assert!(cut.needed > cut.available && cut.available > 0);
            }
            assert_eq!(all_in_blocks(Capture::open(file.path())), (records.clone(), cut, None));
            assert_eq!(all(pipe(&bytes[..length], 3)), (records.clone(), cut, None));
            // Cutting before compression gives the same result.
            assert_eq!(all(pipe(&zstd(&bytes[..length]), 3)), (records, cut, None));
        }
    }
    let cut = Cut { offset: 40, needed: 21, available: 20 };
    assert_eq!(cut.to_string(), "cut short at byte 40: 21 bytes needed, 20 there");
}

#[test]
fn truncated_compressed_data_is_reported() {
    let bytes = large();
    let complete = all(pipe(&bytes, 4096)).0;
    for compressed in [gzip(&bytes), zstd(&bytes)] {
        for length in [4, 9, 20, compressed.len() / 2, compressed.len() - 1] {
            let (records, cut, error) = all(pipe(&compressed[..length], 4096));
            // The beginning of a compressed block cannot be decompressed.
            let expected = (length <= 20).then(|| "cut short at byte 0, within the file header".to_owned());
            assert_eq!(error, expected, "{length}");
            assert_eq!(cut.is_some(), expected.is_none(), "{length}");
            assert_eq!(records, complete[..records.len()]);
        }
        let (records, _, _) = all(pipe(&compressed[..compressed.len() / 2], 4096));
        assert!(records.len() > 100);
    }
}

#[test]
fn damaged_compressed_data_is_reported() {
    let bytes = large();
    let complete = all(pipe(&bytes, 4096)).0;
    for mut compressed in [gzip(&bytes), zstd(&bytes)] {
        let at = compressed.len() - 2000;
        compressed[at..at + 100].fill(0x55);
        let (records, cut, error) = all(pipe(&compressed, 4096));
        // Found by the decoder, or by the framer if the decoder delivers wrong bytes first.
        assert!(error.is_some() || cut.is_some());
        assert!(records.len() > 100);
        assert_eq!(records[..100], complete[..100]);
    }
    let file = [gzip(&bytes), b"trailing garbage".to_vec()].concat();
    let (records, _, error) = all(pipe(&file, 4096));
    assert_eq!(records, complete);
    assert!(error.unwrap().contains("cannot be decompressed further"));
}

#[test]
fn damage_is_an_error_after_the_records_before_it() {
    let mut bytes = LITTLE.pcap(0xa1b2_c3d4, 1, &[(1, 0, 1, b"a"), (2, 0, 1, b"b"), (3, 0, 1, b"c")]);
    bytes[24 + 17 + 8 + 3] = 0xff;
    let expected =
        "byte 49: expected a record of at most 16777216 bytes, found a captured length of 4278190081";
    for capture in [pipe(&bytes, 1), Capture::open(on_disk(&bytes).path())] {
        let (records, cut, error) = all(capture);
        assert_eq!((records.len(), cut, error.as_deref()), (1, None, Some(expected)));
    }
    let file = on_disk(&bytes);
    assert_eq!(all_in_blocks(Capture::open(file.path())), all(Capture::open(file.path())));
    let error = match all(pipe(&gzip(&bytes), 100)) {
        (_, _, Some(error)) => error,
        other => panic!("{other:?}"),
    };
    assert_eq!(error, expected);
}

#[test]
fn inputs_without_a_capture_are_errors() {
    let error = |capture: Result<Capture, Error>| capture.err().unwrap().to_string();
    let name = "pipe: ";
    assert_eq!(
        error(pipe(b"# fields", 3)),
        format!(
            "{name}byte 0: expected the magic number of a pcap or pcapng file, gzip or zstd, or ERF records, found 23 20 66 69"
        )
    );
    assert!(error(pipe(b"# f", 3)).ends_with("found 23 20 66 and no more: the file is cut short"));
    assert!(error(pipe(&gzip(b"# f"), 3)).starts_with("pipe (decompressed): byte 0: expected"));
    let empty = "empty; even a capture without packets has a file header";
    assert_eq!(error(pipe(b"", 3)), format!("{name}{empty}"));
    assert_eq!(error(pipe(&zstd(b""), 3)), format!("{name}{empty}"));
    let file = on_disk(b"");
    assert_eq!(error(Capture::open(file.path())), format!("{}: {empty}", file.path().display()));
    assert!(error(Capture::open(&file.path().with_extension("absent"))).contains("cannot be opened: "));
    assert!(error(Capture::open(&std::env::temp_dir())).contains("cannot be opened: is a directory"));
}

#[test]
fn read_failure_is_an_error_after_the_records_before_it() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the cable is out"))
        }
    }
    let bytes = LITTLE.pcap(0xa1b2_c3d4, 1, &[(1, 0, 1, b"a")]);
    let length = bytes.len();
    let (records, _, error) = all(Capture::from_reader("wire", io::Cursor::new(bytes).chain(Failing)));
    assert_eq!(records.len(), 1);
    assert_eq!(error.unwrap(), format!("byte {length}: cannot be read further: the cable is out"));
}

#[test]
fn captured_length_beyond_the_end_is_a_truncation() {
    let mut bytes = LITTLE.pcap(0xa1b2_c3d4, 1, &[(1, 0, 1, b"a")]);
    bytes[24 + 8..24 + 12].copy_from_slice(&(16u32 << 20).to_le_bytes());
    let (records, cut, error) = all(pipe(&bytes, 100));
    assert_eq!((records.len(), error), (0, None));
    assert_eq!(cut, Some(Cut { offset: 24, needed: 16 + (16 << 20), available: 17 }));
}

#[test]
fn position_advances_to_the_file_size() {
    let bytes = large();
    for contents in [bytes.clone(), gzip(&bytes)] {
        let file = on_disk(&contents);
        let mut capture = Capture::open(file.path()).unwrap();
        assert_eq!(capture.size(), Some(contents.len() as u64));
        let mut before = 0;
        while capture.next().unwrap().is_some() {
            assert!(before <= capture.position());
            before = capture.position();
        }
        assert_eq!(Some(capture.position()), capture.size());
    }
    assert_eq!(pipe(&bytes, 100).unwrap().size(), None);
}

#[test]
fn capture_dropped_early_leaves_no_waiting_thread() {
    let bytes = gzip(&large());
    for _ in 0..20 {
        let mut capture = pipe(&bytes, 4096).unwrap();
        assert!(capture.next().unwrap().is_some());
    }
}

/// A file of a ring that its writer truncates and refills is recognized by its size.
#[test]
fn shrinking_file_is_an_error() {
    // Incompressible data, so that the thread has not read all of it before the file shrinks.
    let mut state = 1u64;
    let mut any = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 56) as u8
    };
    let data: Vec<Vec<u8>> = (0..3000).map(|_| (0..2500).map(|_| any()).collect()).collect();
    let records: Vec<_> = data.iter().zip(0..).map(|(data, n)| (n, n, 9000, &data[..])).collect();
    let plain = LITTLE.pcap(0xa1b2_c3d4, 1, &records);
    for (name, bytes) in
        [("shrinks", plain.clone()), ("shrinks.gz", gzip(&plain)), ("shrinks.zst", zstd(&plain))]
    {
        for has in [0, 100, bytes.len() as u64 - 1] {
            let file = on_disk(&bytes);
            let mut capture = Capture::open(file.path()).unwrap();
            assert!(capture.next().unwrap().is_some());
            File::options().write(true).open(file.path()).unwrap().set_len(has).unwrap();
            let mut records = 1;
            let error = loop {
                match capture.next() {
                    Ok(Some(_)) => records += 1,
                    Ok(None) => panic!("{name}, {has}: {:?}", capture.end()),
                    Err(error) => break error,
                }
            };
            assert!(records < 3000, "{name}: {records}");
            let expected = format!("shrank while it was read: it had {} bytes, now {has}; ", bytes.len());
            assert!(error.to_string().contains(&expected), "{name}: {error}");
            assert!(matches!(capture.next(), Ok(None)));
        }
    }
}
