//! `rdmascope export parquet` of many captures: partitions by day, site and capture, rings of
//! rotated files, and damaged files.
#![cfg(feature = "parquet")]

mod binary;

use binary::{Pcap, folder, refused, root, run, sample, text};
use parquet::file::reader::{FileReader, SerializedFileReader};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const TABLES: [&str; 8] =
    ["transactions", "operations", "messages", "packets", "connections", "findings", "events", "captures"];

fn word(path: &Path) -> &str {
    path.to_str().expect("the path is UTF-8")
}

/// The partitions of a table, relative to it.
fn partitions(output: &Path, table: &str) -> BTreeSet<String> {
    fn walk(folder: &Path, base: &Path, found: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).expect("the folder is there") {
            let path = entry.expect("it can be read").path();
            if path.is_dir() {
                walk(&path, base, found);
            } else {
                assert_eq!(path.file_name().expect("a file has a name"), "part-0.parquet");
                let folder =
                    path.parent().expect("it is in a folder").strip_prefix(base).expect("it is below");
                found.insert(word(folder).to_owned());
            }
        }
    }
    let mut found = BTreeSet::new();
    walk(&output.join(table), &output.join(table), &mut found);
    found
}

/// The rows of a partition as text.
fn rows(output: &Path, table: &str, partition: &str) -> Vec<String> {
    let file =
        File::open(output.join(table).join(partition).join("part-0.parquet")).expect("the table is there");
    let reader = SerializedFileReader::new(file).expect("it is complete");
    let rows = reader.get_row_iter(None).expect("it has rows");
    rows.map(|row| row.expect("it can be read").to_string()).collect()
}

/// The one row of `captures` of a partition.
fn captured(output: &Path, partition: &str) -> String {
    let [row] = <[String; 1]>::try_from(rows(output, "captures", partition)).expect("a capture has one row");
    row
}

#[track_caller]
fn has(row: &str, parts: &[&str]) {
    for part in parts {
        assert!(row.contains(part), "{part} is not in {row}");
    }
}

fn export(input: &[&str], output: &Path) -> (Option<i32>, String) {
    let ended = run(&[&["export", "parquet", "--output", word(output)], input].concat());
    assert_eq!(text(&ended.stdout), "");
    (ended.status.code(), text(&ended.stderr).to_owned())
}

/// The records of a sample split into `pieces` files, named as in a ring of tcpdump that wrapped,
/// so that the first names have the latest packets.
fn ring(name: &str, pieces: usize, folder: &Path) -> Vec<PathBuf> {
    let pcap = Pcap::read(name);
    let size = pcap.records.len().div_ceil(pieces);
    let parts: Vec<_> = pcap.records.chunks(size).collect();
    let count = parts.len();
    let paths = parts.into_iter().enumerate().map(|(index, records)| {
        let path = folder.join(format!("ring.pcap{:04}", (index + count / 3) % count));
        fs::write(&path, pcap.with(records)).expect("it can be written");
        path
    });
    paths.collect()
}

/// The process may open 64 files here, and reads a ring one file at a time.
#[test]
fn ring_of_1000_files_equals_the_original_capture() {
    for name in ["nfs3-basic.pcap", "nfs3-lossy.pcap", "iwarp-nfs3.pcap"] {
        let (folder, output) = (folder(), folder());
        let files = ring(name, 1000, folder.path());
        assert!(files.len() > 500, "{}", files.len());
        let (status, stderr) = export(&[&sample(name), "--capture", "original"], output.path());
        assert_eq!((status, stderr.as_str()), (Some(0), ""));
        let limited = "ulimit -n 64; exec \"$@\"";
        let mut command = Command::new("sh");
        command.args(["-c", limited, "sh", env!("CARGO_BIN_EXE_rdmascope"), "export", "parquet"]);
        command.args(["--output", word(output.path()), word(folder.path())]);
        let ended = command.output().expect("there is a shell");
        assert_eq!((ended.status.code(), text(&ended.stderr)), (Some(0), ""));
        for table in TABLES.into_iter().filter(|table| *table != "captures") {
            let (original, parts) = (
                rows(output.path(), table, "capture=original"),
                rows(output.path(), table, "capture=ring.pcap"),
            );
            assert_eq!(original.len(), parts.len(), "{name}: {table}");
            for (index, (original, part)) in original.iter().zip(&parts).enumerate() {
                assert_eq!(original, part, "{name}: {table}, row {index}");
            }
        }
        // The files are listed in time order.
        let first = files[0].file_name().expect("a file has a name").to_string_lossy().into_owned();
        has(&captured(output.path(), "capture=ring.pcap"), &[&format!("files: [\"{first}\"")]);
    }
}

/// Missing or unreadable files are treated like packets missing from the capture.
#[test]
fn damaged_ring_file_does_not_affect_the_others() {
    let (folder, output) = (folder(), folder());
    let files = ring("nfs3-basic.pcap", 10, folder.path());
    fs::write(&files[4], "nothing of a capture").expect("it can be written");
    let (status, stderr) = export(&[word(folder.path())], output.path());
    assert_eq!(status, Some(2));
    let name = files[4].file_name().expect("a file has a name").to_string_lossy().into_owned();
    has(&stderr, &[&name]);
    let row = captured(output.path(), "capture=ring.pcap");
    has(&row, &[&format!("error: \"{name}: ")]);
    let total = Pcap::read("nfs3-basic.pcap").records.len();
    let lost = total.div_ceil(10);
    has(&row, &[&format!("records: {}", total - lost)]);
}

#[test]
fn unrelated_files_are_separate_captures() {
    let (folder, output) = (folder(), folder());
    fs::copy(sample("nfs3-basic.pcap"), folder.path().join("a.pcap")).expect("it can be copied");
    fs::copy(sample("nfs3-lossy.pcap"), folder.path().join("b.pcap")).expect("it can be copied");
    fs::write(folder.path().join("c.pcap"), "").expect("it can be written");
    let (status, stderr) = export(&[word(folder.path())], output.path());
    assert_eq!(status, Some(2));
    has(&stderr, &["c.pcap: empty"]);
    for table in TABLES {
        assert_eq!(
            partitions(output.path(), table),
            ["a.pcap", "b.pcap", "c.pcap"].map(|name| format!("capture={name}")).into()
        );
    }
    for (name, capture) in [("nfs3-basic.pcap", "a.pcap"), ("nfs3-lossy.pcap", "b.pcap")] {
        let alone = self::folder();
        export(&[&sample(name)], alone.path());
        for table in TABLES.into_iter().filter(|table| *table != "captures") {
            let expected = rows(alone.path(), table, &format!("capture={name}"));
            assert_eq!(rows(output.path(), table, &format!("capture={capture}")), expected, "{table}");
        }
    }
    // tcpdump -r nfs3-basic.pcap | wc -l, and the length of the file.
    let size = fs::metadata(sample("nfs3-basic.pcap")).expect("it is there").len();
    let packets = Pcap::read("nfs3-basic.pcap").records.len();
    has(
        &captured(output.path(), "capture=a.pcap"),
        &[&format!("files: [\"a.pcap\"], size: {size}, records: {packets}"), "error: null", "schema: 1"],
    );
    let empty = captured(output.path(), "capture=c.pcap");
    has(&empty, &["files: [\"c.pcap\"], size: 0, records: null", "error: \"c.pcap: empty", "rows: 0"]);
    assert!(rows(output.path(), "transactions", "capture=c.pcap").is_empty());
}

/// A capture with all packet times shifted by this number of seconds.
fn later(name: &str, seconds: u32) -> Vec<u8> {
    let mut pcap = Pcap::read(name);
    for record in &mut pcap.records {
        let at = u32::from_le_bytes(record[..4].try_into().expect("four bytes"));
        record[..4].copy_from_slice(&(at + seconds).to_le_bytes());
    }
    pcap.with(&pcap.records)
}

#[test]
fn dataset_is_partitioned_by_day_site_and_capture() {
    let (hosts, output) = (folder(), folder());
    // Sites may be nested, and links may lead back to the top.
    for site in ["rack1/client", "server"] {
        fs::create_dir_all(hosts.path().join(site)).expect("it can be made");
        fs::copy(sample("nfs3-basic.pcap"), hosts.path().join(site).join("x.pcap"))
            .expect("it can be copied");
    }
    for link in ["rack1/all", "rack1/again", "server/all"] {
        std::os::unix::fs::symlink(hosts.path(), hosts.path().join(link)).expect("it can be linked");
    }
    fs::write(hosts.path().join("server/bad.pcap"), "no capture").expect("it can be written");
    let (status, stderr) = export(&[word(hosts.path()), "--sites"], output.path());
    assert_eq!(status, Some(2), "{stderr}");
    let day = |partition: &str| partition.split_once('/').expect("a day comes first").0.to_owned();
    let found = partitions(output.path(), "captures");
    let of = |site: &str, capture: &str| {
        let end = format!("/site={site}/capture={capture}");
        let all: Vec<_> = found.iter().filter(|partition| partition.ends_with(&end)).collect();
        assert_eq!(all.len(), 1, "{found:?}");
        all[0].clone()
    };
    let (client, bad) = (of("client", "x.pcap"), of("server", "bad.pcap"));
    assert_eq!(found.len(), 3, "{found:?}");
    assert_eq!(day(&bad), "day=__HIVE_DEFAULT_PARTITION__");
    // The day of the first packet, as in its row.
    let row = captured(output.path(), &client);
    has(&row, &[&format!("first: {} ", day(&client).trim_start_matches("day="))]);

    // After another export with packets of a different day, the capture moves there; the others
    // stay.
    let site = hosts.path().join("rack1/client");
    fs::write(site.join("x.pcap"), later("nfs3-basic.pcap", 86_400)).expect("it can be written");
    let (status, stderr) = export(&[word(&site), "--site", "client"], output.path());
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    for table in TABLES {
        let moved = partitions(output.path(), table);
        assert!(!moved.contains(&client), "{moved:?}");
        assert_eq!(moved.len(), 3, "{moved:?}");
    }
    // The contents of the repaired capture replace its error.
    let site = hosts.path().join("server");
    fs::copy(sample("nfs3-lossy.pcap"), site.join("bad.pcap")).expect("it can be copied");
    let (status, stderr) = export(&[word(&site.join("bad.pcap")), "--site", "server"], output.path());
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    let mended = partitions(output.path(), "captures");
    assert!(!mended.contains(&bad) && mended.len() == 3, "{mended:?}");
    assert!(!output.path().join("captures/day=__HIVE_DEFAULT_PARTITION__").exists());

    // A capture that could not be fetched.
    let words = ["gone.pcap", "--site", "server", "--capture", "bad.pcap", "--unread", "the disk is gone"];
    let (status, stderr) = export(&words, output.path());
    assert_eq!((status, stderr.as_str()), (Some(0), ""));
    has(&captured(output.path(), &bad), &["size: null", "error: \"the disk is gone\""]);

    // The two layouts cannot be mixed.
    refused(
        &run(&["export", "parquet", &sample("nfs3-basic.pcap"), "--output", word(output.path())]),
        &["--site"],
    );
    let plain = folder();
    export(&[&sample("nfs3-basic.pcap")], plain.path());
    let words =
        ["export", "parquet", &sample("nfs3-basic.pcap"), "--site", "a", "--output", word(plain.path())];
    refused(&run(&words), &["by capture only"]);
}

#[test]
fn unreadable_capture_of_a_site_has_a_row() {
    let output = folder();
    let manifest = root().join("Cargo.toml");
    let (status, stderr) = export(&[word(&manifest), "--site", "a"], output.path());
    assert_eq!(status, Some(2));
    has(&stderr, &["Cargo.toml"]);
    let row = captured(output.path(), "day=__HIVE_DEFAULT_PARTITION__/site=a/capture=Cargo.toml");
    has(&row, &["error: \"Cargo.toml: "]);
    assert!(!row.contains(word(&root())), "{row}");
}

/// A block of pcapng: draft-ietf-opsawg-pcapng, section 3.1.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes(), &length[..], body, &length[..]].concat()
}

/// An option, section 3.5.
fn option(code: u16, text: &str) -> Vec<u8> {
    let mut bytes = [code.to_le_bytes(), (text.len() as u16).to_le_bytes()].concat();
    bytes.extend_from_slice(text.as_bytes());
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The section header names the system (option 3), and an interface may name another (option 12).
#[test]
fn operating_system_comes_from_pcapng_options() {
    let section =
        [&0x1a2b_3c4d_u32.to_le_bytes()[..], &[1, 0, 0, 0], &[0xff; 8], &option(3, "Linux 6.12.1")].concat();
    let interface = [1, 0, 0, 0, 0, 0, 0, 0];
    let packet = [&[0; 12][..], &1_u32.to_le_bytes(), &1_u32.to_le_bytes(), b"x\0\0\0"].concat();
    for (options, expected) in [(Vec::new(), "Linux 6.12.1"), (option(12, "other"), "other")] {
        let (folder, output) = (folder(), folder());
        let path = folder.path().join("a.pcapng");
        let bytes =
            [block(0x0a0d_0d0a, &section), block(1, &[&interface[..], &options].concat()), block(6, &packet)];
        fs::write(&path, bytes.concat()).expect("it can be written");
        let (status, _) = export(&[word(&path)], output.path());
        assert_eq!(status, Some(0));
        has(
            &captured(output.path(), "capture=a.pcapng"),
            &["records: 1", &format!("operating_system: \"{expected}\"")],
        );
    }
}
