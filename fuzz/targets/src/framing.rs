//! A capture file: pcap, pcapng or ERF, compressed or not.

mod by_hand;

pub use by_hand::ReferenceFramer;
use rdmascope_capture_agent::Capture;
use rdmascope_capture_agent::framing::{Framed, Framer, LIMIT, Step};
use std::io::{self, Read};

/// The most records that are read: compressed files may contain far more.
const MOST: usize = 20_000;

/// The fields of a record that are compared.
type Kept = (u64, i64, u16, u32, u32, Vec<u8>);

/// Finds the records of a capture in one piece, compares each step with a framer written by hand,
/// and reads them again through a pipe that gives a few bytes at a time.
pub fn framing(data: &[u8]) {
    let (mut framer, mut at, mut records) = (Framer::new(), 0, Vec::new());
    let mut reference = ReferenceFramer::default();
    let mut steps = 0;
    while records.len() < MOST {
        steps += 1;
        assert!(steps <= data.len() + 2, "every step takes some bytes");
        let step = framer.next(&data[at..]);
        let comparable = match step {
            Step::Record(framed) => Step::Record(Framed { dropped: 0, interface: 0, ..framed }),
            other => other,
        };
        assert_eq!(comparable, reference.next(&data[at..]), "the framer written by hand agrees");
        match step {
            Step::Record(framed) => {
                let record = framed.record(&data[at..at + framed.consumed]);
                assert!(record.data.len() <= LIMIT);
                records.push((
                    record.number,
                    record.time.0,
                    record.link.0,
                    record.original_length,
                    record.dropped,
                    record.data.to_vec(),
                ));
                at += framed.consumed;
            }
            Step::Skip(length) => {
                // The format is recognised before anything is read.
                assert!(length > 0 || at == 0, "it makes progress");
                at += length;
            }
            Step::Need(needed) => {
                assert!(needed > data.len() - at, "it asks only for missing bytes");
                break;
            }
            Step::Damaged(damage) => {
                assert!(damage.offset <= data.len() as u64);
                break;
            }
        }
    }

    let pipe = Pieces { bytes: data.to_vec(), at: 0 };
    let Ok(mut capture) = Capture::from_reader("fuzz", pipe) else { return };
    // gzip; zstd, which may begin with a skippable frame (RFC 8878, section 3.1.2).
    let compressed =
        matches!(data, [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]);
    let mut piped: Vec<Kept> = Vec::new();
    while let Ok(Some(record)) = capture.next() {
        piped.push((
            record.number,
            record.time.0,
            record.link.0,
            record.original_length,
            record.dropped,
            record.data.to_vec(),
        ));
        if piped.len() == MOST {
            break;
        }
    }
    if !compressed {
        assert_eq!(piped, records, "a pipe gives the same records");
    }
}

/// Returns 1, 2, 3, … 17 bytes, and then starts again with 1.
struct Pieces {
    bytes: Vec<u8>,
    at: usize,
}

impl Read for Pieces {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let length = (self.at % 17 + 1).min(out.len()).min(self.bytes.len() - self.at);
        out[..length].copy_from_slice(&self.bytes[self.at..self.at + length]);
        self.at += length;
        Ok(length)
    }
}
