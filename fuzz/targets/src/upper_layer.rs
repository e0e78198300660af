//! A call and its reply, with chunks, in any upper layer.

use crate::bytes::Bytes;
use rdmascope_dissector::ulb::{self, Chunks, Details, Payload, Procedure};

/// `(program, version)` of every binding, and one without.
const PROGRAMS: [(u32, u32); 9] = [
    (100_003, 4),
    (100_003, 3),
    (100_003, 2),
    (100_227, 3),
    (100_227, 2),
    (0x4000_0000, 1),
    (0x4000_0000, 4),
    (100_005, 3),
    (100_003, 5),
];

/// The most bytes of names and file handles that one transaction keeps.
const LARGEST_ARENA: usize = 1 << 18;

/// Reads a call, and then a reply to it.
pub fn upper_layer(data: &[u8]) {
    let mut bytes = Bytes(data);
    let (program, version) = bytes.choose(&PROGRAMS);
    let procedure = Procedure { program, version, number: u32::from(bytes.u8()) };
    let counts = bytes.u8();
    let mut reads: Vec<(u32, u64, u16)> = (0..u16::from(counts & 3))
        .map(|index| (u32::from(bytes.u16()), u64::from(bytes.u16()), index))
        .collect();
    reads.sort_unstable();
    let writes: Vec<u64> = (0..counts >> 2 & 3).map(|_| u64::from(bytes.u16())).collect();
    let length = usize::from(bytes.u16());
    let call = if counts & 0x80 == 0 { bytes.take(length) } else { &[] };

    let mut details = Details::default();
    let _ = ulb::call(procedure, &mut Payload::new(call, Chunks::Read(&reads)), &mut details);
    check(&details);
    let _ = ulb::reply(procedure, &mut Payload::new(bytes.0, Chunks::Write(&writes)), &mut details);
    check(&details);
    let status = details.status.and_then(|status| ulb::status_name(program, version, status));
    let _ = (status, ulb::procedure_name(procedure), ulb::principal_operation(&details));
}

fn check(details: &Details) {
    assert!(details.operations.len() <= Details::MOST_OPERATIONS);
    assert!(details.arena.len() <= LARGEST_ARENA);
    let _ = details.bytes(details.tag);
    for entry in &details.entries {
        let texts = [entry.name, entry.file_handle];
        texts.into_iter().for_each(|text| assert!(!details.bytes(text).is_empty()));
    }
    for operation in &details.operations {
        let texts = [
            operation.file_handle,
            operation.other_file_handle,
            operation.result_file_handle,
            operation.file_name,
            operation.other_name,
        ];
        texts
            .into_iter()
            .flatten()
            .for_each(|text| assert!(text.is_empty() || !details.bytes(text).is_empty()));
    }
}
