//! The inputs that fuzzing found worth keeping, and cuts of every sample, through every fuzz target; no fuzzer needed.

use rdmascope_fuzz_targets::{TARGETS, Target, frame, headers};
use rdmascope_tests::samples;
use std::fs;
use std::path::{Path, PathBuf};

fn corpora() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus"))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    files.sort();
    files
}

/// Runs a target, and says on which input it panicked.
fn run(target: Target, name: &str, input: &str, bytes: &[u8]) {
    let caught = std::panic::catch_unwind(|| target(bytes));
    assert!(caught.is_ok(), "{name} panicked on {input}");
}

#[test]
fn every_corpus_holds() {
    for (name, target) in TARGETS {
        let files = files(&corpora().join(name));
        assert!(files.len() > 4, "the corpus of {name} is not there");
        for path in files {
            let bytes = fs::read(&path).expect("a corpus file");
            run(target, name, &path.display().to_string(), &bytes);
        }
    }
}

#[test]
fn every_corpus_has_a_target() {
    for folder in files(&corpora()) {
        let name = folder.file_name().and_then(|name| name.to_str()).expect("a name");
        assert!(TARGETS.iter().any(|(target, _)| *target == name), "{name}");
    }
}

#[test]
fn samples_hold_in_every_target() {
    for sample in samples::MOUNTS.into_iter().chain([samples::REJECTED]) {
        let path = samples::folder().join(format!("{sample}.pcap"));
        let file = fs::read(&path).expect("a sample");
        for (name, target) in TARGETS {
            // Not where a record ends: the rest is then a record that is cut.
            let cut = &file[..file.len().min(200_001)];
            run(target, name, sample, cut);
        }
        for packet in samples::capture(sample).packets.iter().take(500) {
            run(frame, "frame", sample, &[&[0, 0, 0], &packet.data[..]].concat());
            let bth = packet.data.get(42..).unwrap_or(&[]);
            (0..9).for_each(|which| run(headers, "headers", sample, &[&[which], bth].concat()));
        }
    }
}
