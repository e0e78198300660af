//! Random access to the records of the samples.

use rdmascope_capture_agent::{Archive, Files, Interrupt, Next, Source as _};
use rdmascope_dissector::record::Record;
use std::path::PathBuf;

fn same(one: &Record<'_>, other: &Record<'_>) -> bool {
    (one.number, one.time, one.link, one.original_length, one.data)
        == (other.number, other.time, other.link, other.original_length, other.data)
}

/// Compares each record with the one found by its number; then the same backwards, without reading
/// ahead.
fn agrees(paths: &[PathBuf]) -> u64 {
    let archive = Archive::open(paths, None).expect("a sample");
    let mut files = Files::open(paths, None, &Interrupt::default()).expect("a sample");
    let mut number = 0;
    loop {
        match files.next().expect("a sample can be read") {
            Next::Record(record) => {
                number += 1;
                let found = archive.record(number).expect("the record exists");
                assert!(same(&found, &record), "{number} of {paths:?}");
            }
            Next::End => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(archive.records(), number);
    for (back, ahead) in (1..=number).rev().zip(archive.walk(1).collect::<Vec<_>>().iter().rev()) {
        assert!(same(&archive.record(back).expect("the record exists"), ahead));
    }
    number
}

#[test]
fn records_found_by_number_equal_those_of_a_walk() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../samples");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder of the samples exists")
        .map(|entry| entry.expect("it can be listed").path())
        .filter(|path| path.to_string_lossy().contains(".pcap"))
        .collect();
    paths.sort();
    assert!(paths.len() >= 7, "{paths:?}");
    for path in &paths {
        assert!(agrees(core::slice::from_ref(path)) > 0);
    }
    agrees(&paths[..4]);
}
