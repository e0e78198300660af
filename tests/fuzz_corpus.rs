//! Runs every fuzz target on its corpus and on the samples, without a fuzzer.

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

/// Runs a target; a panic names the input.
fn run(target: Target, name: &str, input: &str, bytes: &[u8]) {
    let caught = std::panic::catch_unwind(|| target(bytes));
    assert!(caught.is_ok(), "{name} panicked on {input}");
}

#[test]
fn targets_accept_their_corpus() {
    for (name, target) in TARGETS {
        let files = files(&corpora().join(name));
        assert!(files.len() > 4, "the corpus of {name} is missing");
        for path in files {
            let bytes = fs::read(&path).expect("a corpus file");
            run(target, name, &path.display().to_string(), &bytes);
        }
    }
}

/// The framer and its hand-written counterpart agree on altered captures. Bits are flipped near the
/// start, where headers and options are, and the end is cut off.
#[test]
fn framers_agree_on_altered_captures() {
    let mut state = 10u64;
    let mut dice = |sides: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % sides.max(1)
    };
    for path in files(&corpora().join("framing")) {
        let original = fs::read(&path).expect("a corpus file");
        for _ in 0..40 {
            let mut bytes = original[..original.len().min(2000)].to_vec();
            for _ in 0..=dice(3) {
                let (at, bit) = (dice(bytes.len().min(300)), dice(8));
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << bit;
                }
            }
            bytes.truncate(bytes.len() - dice(bytes.len() / 4));
            run(rdmascope_fuzz_targets::framing, "framing", &path.display().to_string(), &bytes);
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
fn targets_accept_the_samples() {
    for sample in samples::ALL {
        let path = samples::folder().join(format!("{sample}.pcap"));
        let file = fs::read(&path).expect("a sample");
        for (name, target) in TARGETS {
            // Cut within a record.
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
