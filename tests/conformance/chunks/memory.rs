//! Triggers and tests of the memory that the chunks of one call name.

use super::{FOREIGN, READ, change_call, change_reply, found, is_conclusive, large};
use crate::{By, Trigger, shown};
use rdmascope_tests::mutate::Segment;
use rdmascope_tests::pcap::Capture;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "chunk-memory-overlap",
        alteration: "a second Write chunk begins in the last four bytes of a READ's Write chunk",
        control: large,
        alter: |capture| add_after(capture, 65_536 - 4),
        also: &[],
        shows: shown(By::Requester, &[1017], "0x00000ee5", ""),
    },
    Trigger {
        rule: "chunk-memory-handle",
        alteration: "a second Write chunk with the same handle begins after a READ's Write chunk",
        control: large,
        alter: |capture| add_after(capture, 65_536),
        also: &[],
        shows: shown(By::Requester, &[1017], "0x00000ee5", ""),
    },
];

/// Offers a READ a second Write chunk, `bytes` after the start of the first, and returns it unused.
fn add_after(capture: &mut Capture, bytes: u64) {
    let mut added = FOREIGN;
    change_call(capture, READ, |call| {
        let first = call.writes[0][0];
        added = Segment { handle: first.handle, offset: first.offset + bytes, length: 4096 };
        call.writes.push(vec![added]);
    });
    change_reply(capture, READ, |reply| reply.writes.push(vec![Segment { length: 0, ..added }]));
}

#[test]
fn adjacent_chunks_do_not_overlap() {
    let adjacent = |capture: &mut Capture| add_after(capture, 65_536);
    assert!(found(large, adjacent, "chunk-memory-overlap").is_empty());
    let overlapping = |capture: &mut Capture| add_after(capture, 65_535);
    assert!(is_conclusive(&found(large, overlapping, "chunk-memory-overlap")));
}
