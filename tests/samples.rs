//! Checks the samples against samples/MANIFEST.

use rdmascope_tests::{Differences, mountstats, pcap, samples};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

fn manifest() -> toml::Table {
    let path = samples::folder().join("MANIFEST");
    let text = std::fs::read_to_string(&path).expect("samples/MANIFEST can be read");
    text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn sample_files_match_the_manifest() {
    let manifest = manifest();
    let mut differences = Differences::of("samples/MANIFEST");
    let mut listed = BTreeSet::from(["MANIFEST".to_owned()]);
    for sample in manifest["sample"].as_array().expect("[[sample]]") {
        let name = sample["name"].as_str().expect("a sample has a name");
        for key in ["holds", "notes"] {
            differences.check(sample.get(key).is_some(), format!("{name} lacks {key:?}"));
        }
        for (extension, digest) in sample["sha256"].as_table().expect("[sample.sha256]") {
            differences.check(
                manifest["files"].get(extension).is_some(),
                format!("{name}: [files] does not describe .{extension}"),
            );
            let file = format!("{name}.{extension}");
            let bytes = std::fs::read(samples::folder().join(&file)).unwrap_or_default();
            let actual: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
            differences.equal(&file, digest.as_str().unwrap_or_default(), actual.as_str());
            listed.insert(file);
        }
        // The expectation changes with the output of rdmascope, so it has no digest.
        let expectation = format!("{name}.expected.jsonl");
        differences
            .check(samples::folder().join(&expectation).is_file(), format!("{expectation} is missing"));
        listed.insert(expectation);
    }
    for entry in std::fs::read_dir(samples::folder()).expect("samples/ can be read") {
        let file = entry.expect("an entry can be read").file_name().to_string_lossy().into_owned();
        differences.check(listed.contains(&file), format!("{file} has no entry"));
    }
    differences.end();
}

#[test]
fn captures_round_trip() {
    for sample in samples::ALL {
        let bytes = std::fs::read(samples::folder().join(format!("{sample}.pcap"))).expect("a sample");
        let capture = pcap::read(&bytes).unwrap_or_else(|error| panic!("{sample}: {error}"));
        assert!(pcap::write(&capture) == bytes, "{sample}: the rewritten file differs");
    }
}

#[test]
fn written_files_were_read_back_unchanged() {
    for sample in samples::MOUNTS {
        let text = samples::text(sample, "truth.txt");
        let digests = mountstats::digests(&text);
        assert!(digests.windows(2).all(|pair| pair[0].0 == pair[1].0), "{sample}: {digests:?}");
    }
}
