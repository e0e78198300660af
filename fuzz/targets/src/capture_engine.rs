//! A complete capture in the engine.

use crate::judge::judge;
use rdmascope_dissector::record::{LinkType, Record, Time};

/// Reads the bytes as a classic pcap file and passes its records to the engine.
pub fn capture_engine(data: &[u8]) {
    judge(records(data));
}

/// The records of a classic pcap file, up to the first incomplete one. This is a minimal reader,
/// independent of the product's.
pub fn records(file: &[u8]) -> impl Iterator<Item = Record<'_>> + Clone {
    let (little, nano) = match file.first_chunk::<4>() {
        Some([0xd4, 0xc3, 0xb2, 0xa1]) => (true, false),
        Some([0x4d, 0x3c, 0xb2, 0xa1]) => (true, true),
        Some([0xa1, 0xb2, 0x3c, 0x4d]) => (false, true),
        _ => (false, false),
    };
    let word = move |bytes: &[u8]| {
        let bytes = bytes.first_chunk::<4>().copied().unwrap_or_default();
        if little { u32::from_le_bytes(bytes) } else { u32::from_be_bytes(bytes) }
    };
    let link = LinkType(file.get(20..24).map_or(1, word) as u16);
    let mut rest = file.get(24..).unwrap_or(&[]);
    let mut number = 0;
    core::iter::from_fn(move || {
        let (header, tail) = rest.split_first_chunk::<16>()?;
        let data = tail.get(..word(&header[8..]) as usize)?;
        rest = &tail[data.len()..];
        number += 1;
        let fraction = i64::from(word(&header[4..])) * if nano { 1 } else { 1000 };
        let time = Time(i64::from(word(header)) * 1_000_000_000 + fraction);
        Some(Record {
            number,
            time,
            link,
            original_length: word(&header[12..]),
            dropped: 0,
            tap: Default::default(),
            data,
        })
    })
}
