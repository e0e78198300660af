//! `rdmascope extract`, compared with records of the samples' hosts and with handmade captures.

mod binary;
mod world;

use binary::{Pcap, Temporary, command, folder, json_lines, lines, refused, root, run, sample, text};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use world::{World, extract_files, opaque, word};

/// The digests that the client computed of the file it wrote, and of the same file read back, by
/// its name there.
fn truth(name: &str) -> Option<(String, String)> {
    let truth = fs::read_to_string(sample(&format!("{name}.truth.txt"))).expect("the sample is there");
    let line = |line: &str| {
        let (digest, path) = line.split_once("  ")?;
        let is_digest = digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_digest.then(|| (digest.to_owned(), path.rsplit('/').next().unwrap_or(path).to_owned()))
    };
    let mut found = truth.lines().filter_map(line);
    let (digest, name) = found.next()?;
    assert_eq!(found.next(), Some((digest.clone(), name.clone())), "read back as it was written");
    Some((digest, name))
}

/// The session before the first SETATTR after all READs, if there is one: a client of the samples
/// truncates its file to 1000 bytes at the end.
fn before_the_cut(pcap: &Pcap, name: &str) -> Temporary {
    let complete = Temporary::new(&format!("{name}.complete.pcap"), &pcap.with(&pcap.records));
    let transactions = lines(&run(&["transactions", complete.path(), "--format", "jsonl"]));
    let frames = |operation: &'static str, message: &'static str| {
        let of = transactions.iter().filter(move |line| {
            let details = line["operation_details"].as_array();
            details.is_some_and(|details| details.iter().any(|details| details["name"] == operation))
        });
        of.filter_map(move |line| line[message]["frame"].as_u64())
    };
    let read = frames("READ", "reply").max();
    let cut = frames("SETATTR", "call").find(|frame| Some(*frame) > read);
    let records = pcap.records.iter().take(cut.map_or(usize::MAX, |cut| cut as usize - 1));
    Temporary::new(&format!("{name}.before.pcap"), &pcap.with(records))
}

/// The lines of the index by file path, and the summary line.
fn index(output: &Output, to: &Path) -> (BTreeMap<String, Value>, Value) {
    let mut found = lines(output);
    let written = fs::read_to_string(to.join("index.jsonl")).expect("there is an index");
    let written: Vec<Value> = json_lines(&written);
    assert_eq!(found, written, "the index equals standard output");
    let last = found.pop().expect("a last line");
    assert_eq!(last["type"], "extraction");
    let files = found.into_iter().map(|line| {
        assert_eq!(line["type"], "file");
        (line["path"].as_str().unwrap_or_default().to_owned(), line)
    });
    (files.collect(), last)
}

#[test]
fn extracted_files_match_the_client_digests() {
    let (mut compared, mut cut) = (0, 0);
    for entry in fs::read_dir(root().join("samples")).expect("it is there") {
        let path = entry.expect("it can be read").path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()?.strip_suffix(".truth.txt")) else {
            continue;
        };
        let Some((digest, file)) = truth(name) else { continue };
        let capture = format!("{name}.pcap");
        let to = folder();
        let to = to.path().join("new");
        let extracted = extract_files(&sample(&capture), &to, &[]);
        let ended = index(&extracted, &to).0[&file].clone();
        let at_the_end = fs::read(to.join(&file)).expect("the file is there");
        let before = before_the_cut(&Pcap::read(&capture), name);
        let to = folder();
        let to = to.path().join("new");
        let output = extract_files(before.path(), &to, &[]);
        let (files, _) = index(&output, &to);
        let found = &files[&file];
        assert_eq!((&found["md5"], &found["name"]), (&json!(digest), &json!(file)), "{name}");
        assert_eq!(
            (&found["hole_bytes"], &found["missing_bytes"], &found["conflicts"]),
            (&json!(0), &json!(0), &json!(0))
        );
        let bytes = fs::read(to.join(&file)).expect("the file is there");
        assert_eq!(found["size"], bytes.len() as u64);
        // The size in the client's stat after it had truncated the file.
        let truth = fs::read_to_string(&path).expect("it is there");
        let size = truth.lines().find(|line| *line == "1000").map_or(bytes.len(), |_| 1000);
        assert_eq!(at_the_end, bytes[..size], "{name}");
        assert_eq!(
            (&ended["size"], &ended["cut_bytes"]),
            (&json!(size), &json!(bytes.len() - size)),
            "{name}"
        );
        compared += 1;
        cut += usize::from(size < bytes.len());
    }
    assert_eq!((compared, cut), (11, 6));
}

#[test]
fn truncated_bytes_are_listed_as_missing() {
    let mut pcap = Pcap::read("nfs3-basic.pcap");
    for record in &mut pcap.records {
        if record.len() > 16 + 600 {
            record.truncate(16 + 600);
            record[8..12].copy_from_slice(&600u32.to_le_bytes());
        }
    }
    let capture = Temporary::new("cut.pcap", &pcap.with(&pcap.records));
    let to = folder();
    let output = extract_files(capture.path(), to.path(), &[]);
    let (files, _) = index(&output, to.path());
    let big = &files["big"];
    let (missing, size) = (big["missing_bytes"].as_u64().unwrap(), big["size"].as_u64().unwrap());
    assert!(missing > size / 4 && missing < size, "{missing} of {size}");
    assert_eq!((&big["md5"], &big["hole_bytes"]), (&Value::Null, &json!(0)));
    let first = &big["missing"][0];
    let bytes = fs::read(to.path().join("big")).unwrap();
    let range = first["start"].as_u64().unwrap() as usize..first["end"].as_u64().unwrap() as usize;
    assert!(bytes[range].iter().all(|byte| *byte == 0));
}

#[test]
fn write_payloads_add_up_to_the_file() {
    let (digest, _) = truth("nfs3-basic").unwrap();
    let capture = sample("nfs3-basic.pcap");
    let writes = lines(&run(&["transactions", &capture, "--operation", "write", "--format", "jsonl"]));
    let mut pieces = BTreeMap::new();
    for write in &writes {
        let details = &write["operation_details"][0];
        if details["count"].as_u64() < Some(100_000) {
            continue;
        }
        let number = write["number"].to_string();
        let payload = run(&["extract", &capture, "--transaction", &number, "--part", "payload"]);
        assert_eq!((payload.status.code(), text(&payload.stderr)), (Some(0), ""));
        let chunk = run(&["extract", &capture, "--transaction", &number, "--part", "read-chunk:0"]);
        assert_eq!(chunk.stdout, payload.stdout);
        // Each packet of the transaction selects it.
        let frame = write["reply"]["frame"].to_string();
        let message = run(&["extract", &capture, "--frame", &frame]);
        assert_eq!(message.stdout.len() as u64, write["call"]["message_length"].as_u64().unwrap());
        assert!(message.stdout.ends_with(&payload.stdout));
        pieces.insert(details["offset"].as_u64().unwrap(), payload.stdout);
    }
    let payloads: Vec<u8> = pieces.into_values().flatten().collect();
    let to = folder();
    let before = before_the_cut(&Pcap::read("nfs3-basic.pcap"), "payloads");
    extract_files(before.path(), to.path(), &[]);
    assert_eq!(fs::read(to.path().join("big")).unwrap(), payloads);
    assert_eq!(digest.len(), 32);
}

#[test]
fn incomplete_message_is_an_error() {
    let pcap = Pcap::read("nfs3-basic.pcap");
    let writes = lines(&run(&[
        "packets",
        &sample("nfs3-basic.pcap"),
        "--opcode",
        "read response middle",
        "--format",
        "jsonl",
    ]));
    let lost = writes[0]["frame"].as_u64().unwrap() as usize - 1;
    let mut rest = pcap;
    rest.records.remove(lost);
    let capture = Temporary::new("lost.pcap", &rest.with(&rest.records));
    let transactions = lines(&run(&["transactions", capture.path(), "--format", "jsonl"]));
    let write = transactions
        .iter()
        .find(|line| line["call"]["missing"].as_array().is_some_and(|missing| !missing.is_empty()))
        .expect("a WRITE that lacks a packet");
    let missing = &write["call"]["missing"][0];
    let number = write["number"].to_string();
    let output = run(&["extract", capture.path(), "--transaction", &number, "--part", "read-chunk:0"]);
    assert_eq!(output.status.code(), Some(2));
    let (start, end) = (missing["start"].as_u64().unwrap(), missing["end"].as_u64().unwrap());
    let complaint = text(&output.stderr);
    assert!(complaint.contains(&format!("{start} to {}", end - 1)), "{complaint}");
    assert_eq!(complaint.lines().count(), 1);
    assert!(output.stdout[start as usize..end as usize].iter().all(|byte| *byte == 0));
    assert!(output.stdout.len() as u64 >= end);
    // Ranges missing from WRITEs are filled from READs.
    let to = folder();
    let before = before_the_cut(&rest, "lost");
    let (files, _) = index(&extract_files(before.path(), to.path(), &[]), to.path());
    assert_eq!(files["big"]["md5"], truth("nfs3-basic").unwrap().0);
}

#[test]
fn nonempty_folder_is_refused() {
    let to = folder();
    fs::write(to.path().join("mine"), "precious").unwrap();
    refused(&extract_files(&sample("nfs3-basic.pcap"), to.path(), &[]), &["not empty", "empty folder"]);
    let file = to.path().join("mine");
    refused(&extract_files(&sample("nfs3-basic.pcap"), &file, &[]), &["mine"]);
    // Nothing is created if nothing can be read.
    let new = to.path().join("new");
    refused(&extract_files("no-such-file.pcap", &new, &[]), &["no-such-file.pcap"]);
    assert!(!new.exists());
}

#[test]
fn invalid_selections_are_refused() {
    let capture = sample("nfs3-basic.pcap");
    let extract = |arguments: &[&str]| run(&[&["extract", &capture], arguments].concat());
    refused(&extract(&["--xid", "0x12345678"]), &["0x12345678"]);
    refused(&extract(&["--transaction", "100000"]), &["100000"]);
    refused(&extract(&["--frame", "100000000"]), &["no frame 100000000"]);
    refused(&extract(&["--transaction", "1", "--part", "reply-chunk"]), &["transaction 1", "Reply chunk"]);
    refused(&extract(&["--transaction", "1", "--part", "payload"]), &["transaction 1", "DDP-eligible"]);
    for wrong in [
        &["--part", "send"][..],
        &["--transaction", "1", "--xid", "1"],
        &["--transaction", "1", "--part", "reply-chunk:1"],
        &["--xid", "1", "--files", "out"],
    ] {
        assert_eq!(extract(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn index_has_all_columns_for_a_sparse_file() {
    let mut world = World::new();
    world.named(b"\xff", b"handle");
    world.write(b"handle", 1 << 62, b"far");
    world.write(b"handle", 10, b"near");
    let to = folder();
    let (files, _) = index(&world.extract(to.path(), &[]), to.path());
    let file = files.values().next().expect("there is a file");
    assert_eq!((&file["name"], &file["name_hex"]), (&json!("\u{fffd}"), &json!("ff")));
}

#[test]
fn hostile_names_stay_in_the_folder() {
    let long = vec![b'x'; 1000];
    let names: [&[u8]; 14] = [
        b"../../outside",
        b"/etc/passwd",
        b"..",
        b".",
        b"",
        b"a/b",
        b"a\\b",
        b"a\0b",
        b"\x1b]0;title\x07",
        &long,
        b"CON",
        b"index.jsonl",
        b"same",
        b"SAME",
    ];
    let mut world = World::new();
    for (index, name) in names.iter().enumerate() {
        let handle = [b'h', index as u8];
        world.named(name, &handle);
        world.write(&handle, 0, &[index as u8; 5]);
    }
    let around = folder();
    fs::write(around.path().join("outside"), "precious").unwrap();
    let to = around.path().join("a").join("b");
    fs::create_dir_all(&to).unwrap();
    let output = world.extract(&to, &[]);
    let (files, last) = index(&output, &to);
    assert_eq!((files.len(), &last["files"]), (names.len(), &json!(names.len())));
    assert!(!text(&output.stdout).contains('\x1b'));
    for (path, line) in &files {
        assert!(!path.contains(['/', '\\', '\0']) && !path.contains(char::is_control), "{path:?}");
        let number = u8::from_str_radix(&line["file_handle"].as_str().unwrap()[2..], 16).unwrap();
        assert_eq!(fs::read(to.join(path)).unwrap(), [number; 5], "{path}");
    }
    assert!(files.contains_key(".._.._outside") && files.contains_key("_CON"));
    // The folder has nothing but these and the index, and nothing else was created around it.
    assert_eq!(fs::read_dir(&to).unwrap().count(), names.len() + 1);
    let mut around_it: Vec<_> =
        fs::read_dir(around.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    around_it.sort();
    assert_eq!(around_it, ["a", "outside"]);
    assert_eq!(fs::read_to_string(around.path().join("outside")).unwrap(), "precious");
}

#[test]
fn file_size_is_bounded_for_any_offset() {
    let mut world = World::new();
    for offset in [0, (1 << 30) - 2, 1 << 40, 1 << 62, u64::MAX - 1] {
        world.write(b"handle", offset, b"four");
    }
    world.write(b"other", (1 << 30) - 4, b"four");
    let to = folder();
    let output = world.extract(to.path(), &[]);
    let (files, last) = index(&output, to.path());
    let far = files.values().find(|line| line["file_handle"] == "68616e646c65").unwrap();
    assert_eq!((&far["size"], &far["left_out_bytes"]), (&json!(1 << 30), &json!(2 + 3 * 4)));
    assert_eq!((&far["md5"], &far["holes"]), (&Value::Null, &json!([{"start": 4, "end": (1 << 30) - 2}])));
    assert_eq!(far["path"].as_str().unwrap().split('-').next(), Some("handle"), "it was never named");
    for line in files.values() {
        let written = fs::metadata(to.path().join(line["path"].as_str().unwrap())).unwrap();
        assert_eq!(written.len(), 1 << 30);
        #[cfg(unix)]
        assert!(std::os::unix::fs::MetadataExt::blocks(&written) * 512 < 1 << 20, "holes take up no room");
    }
    assert_eq!(last["left_out"]["bytes_beyond_size"], 14);
    assert!(text(&output.stderr).contains("--max-file-size"), "{}", text(&output.stderr));

    let to = folder();
    let limits = ["--max-file-size", "4K", "--max-total-size", "100", "--max-files", "2"];
    world.write(b"third", 0, b"four");
    world.write(b"other", 0, b"four");
    world.write(b"other", 4092, b"four");
    let (files, last) = index(&world.extract(to.path(), &limits), to.path());
    assert_eq!(files.len(), 2);
    let left_out = json!({"bytes_beyond_size": 20, "of_further_files": 1, "unclear": 0, "scattered": 0, "read_plus": 0, "sealed": 0, "files_beyond_total": 1});
    assert_eq!((&last["left_out"], &last["files"]), (&left_out, &json!(1)));
}

#[test]
fn empty_result_is_explained() {
    let to = folder();
    let output = run(&["extract", &sample("connect-rejected.pcap"), "--files", to.path().to_str().unwrap()]);
    assert!(text(&output.stderr).contains("no successful NFS READ or WRITE"), "{}", text(&output.stderr));
}

/// A signal removes files while others are created: none appears in the folder meanwhile or
/// afterwards.
#[cfg(unix)]
#[test]
fn signal_while_creating_files_leaves_no_files() {
    let mut world = World::new();
    (0..3000u32).for_each(|file| world.write(&file.to_be_bytes(), 0, b"some bytes"));
    let capture = Temporary::new("many-files.pcap", &world.capture());
    let count = |folder: &Path| fs::read_dir(folder).map_or(0, |entries| entries.count());
    let hit = (0..20).any(|_| {
        let to = folder();
        let files = to.path().join("new");
        let arguments = ["extract", capture.path(), "--files", files.to_str().expect("the path is UTF-8")];
        let mut child = command(&arguments).stdout(Stdio::null()).spawn().expect("the binary runs");
        let unfinished = || fs::read_dir(&files).ok()?.next()?.ok().map(|entry| entry.path());
        while child.try_wait().expect("it is ours").is_none()
            && unfinished().is_none_or(|folder| count(&folder) < 50)
        {
            std::thread::yield_now();
        }
        let sent =
            Command::new("kill").args(["-s", "TERM", &child.id().to_string()]).stderr(Stdio::null()).status();
        sent.expect("kill(1) is there");
        let status = child.wait().expect("it ends");
        let is_ended = std::os::unix::process::ExitStatusExt::signal(&status) == Some(15);
        // The signal may arrive while the files get their names or afterwards: then it waits until
        // all have them.
        if is_ended && count(&files) < 3001 {
            assert_eq!(count(to.path()), 0, "{} files", count(&files));
            return true;
        }
        false
    });
    assert!(hit, "it was never making files");
}

#[test]
fn later_writes_win_and_reads_fill_gaps() {
    let mut world = World::new();
    world.named(b"old", b"handle");
    world.named(b"new", b"handle");
    world.read(b"handle", 0, b"0123456789");
    world.write(b"handle", 2, b"abcdef");
    world.write(b"handle", 4, b"XY");
    // The server accepts half of it.
    world.write_some(b"handle", 12, b"half????", 4);
    world.read(b"handle", 0, b"01abXYef89");
    world.read(b"handle", 8, b"!!..half");
    let to = folder();
    let (files, _) = index(&world.extract(to.path(), &[]), to.path());
    let found = &files["new"];
    assert_eq!(fs::read(to.path().join("new")).unwrap(), b"01abXYef!!..half");
    assert_eq!((&found["conflicts"], &found["transactions"]), (&json!(1), &json!(6)));
    assert_eq!((&found["bytes_written"], &found["bytes_read"]), (&json!(12), &json!(28)));
}

/// A punched hole reads as zeros until data is transferred there again.
#[test]
fn punched_hole_is_zeros() {
    let mut world = World::new();
    world.named(b"name", b"handle");
    world.write(b"handle", 0, b"0123456789abcdef");
    world.punch(b"handle", 4, 8);
    // Bytes after the last transferred one are unknown, and so are files without transferred data.
    world.punch(b"handle", 14, 1000);
    world.punch(b"other", 0, 1000);
    let to = folder();
    let (files, _) = index(&world.extract(to.path(), &[]), to.path());
    let found = &files["name"];
    assert_eq!(fs::read(to.path().join("name")).unwrap(), b"0123\0\0\0\0\0\0\0\0cd\0\0");
    let punched = json!([{"start": 4, "end": 12}, {"start": 14, "end": 16}]);
    assert_eq!(
        (&found["punched_bytes"], &found["punched"], &found["size"]),
        (&json!(10), &punched, &json!(16))
    );
    // All of the file is known.
    assert_eq!((&found["hole_bytes"], &found["missing_bytes"]), (&json!(0), &json!(0)));
    assert_eq!(found["md5"], "69f8d6f696d0fc55003c4d61a3169806");
    world.read(b"handle", 0, b"0123\0\0\0\0\0\0\0\0cd\0\0");
    world.write(b"handle", 6, b"XY");
    let to = folder();
    let (files, _) = index(&world.extract(to.path(), &[]), to.path());
    let found = &files["name"];
    assert_eq!(fs::read(to.path().join("name")).unwrap(), b"0123\0\0XY\0\0\0\0cd\0\0");
    assert_eq!((&found["conflicts"], &found["punched_bytes"]), (&json!(0), &json!(8)));
}

/// Data cut off by a SETATTR is not in the file, and is listed; data transferred later is in the
/// file. Up to a known size, the file continues with zeros.
#[test]
fn truncated_file_ends_at_its_size() {
    for cut in [
        (|world, handle, size| world.resize_3(handle, Some(size), 0)) as fn(&mut World, &[u8], u64),
        |world, handle, size| world.resize_4(handle, size, false),
        |world, handle, size| world.resize_4(handle, size, true),
    ] {
        let mut world = World::new();
        world.named(b"name", b"handle");
        world.write(b"handle", 0, b"0123456789abcdef");
        // The control: attributes without a size, a size that the server refuses, the current size,
        // another file.
        world.resize_3(b"handle", None, 0);
        world.resize_3(b"handle", Some(2), 13);
        world.resize_3(b"other", Some(2), 0);
        cut(&mut world, b"handle", 16);
        let to = folder();
        let (files, _) = index(&world.extract(to.path(), &[]), to.path());
        assert_eq!(fs::read(to.path().join("name")).unwrap(), b"0123456789abcdef");
        assert_eq!((&files["name"]["cut_bytes"], &files["name"]["cut"]), (&json!(0), &json!([])));
        cut(&mut world, b"handle", 4);
        let to = folder();
        let (files, _) = index(&world.extract(to.path(), &[]), to.path());
        let found = &files["name"];
        assert_eq!(fs::read(to.path().join("name")).unwrap(), b"0123");
        assert_eq!((&found["size"], &found["cut"]), (&json!(4), &json!([{"start": 4, "end": 16}])));
        assert_eq!(
            (&found["cut_bytes"], &found["hole_bytes"], &found["conflicts"]),
            (&json!(12), &json!(0), &json!(0))
        );
        assert_ne!(found["md5"], Value::Null);
        // Written again after the end, and read.
        world.write(b"handle", 8, b"XY");
        world.read(b"handle", 0, b"0123\0\0\0\0XY");
        let to = folder();
        let (files, _) = index(&world.extract(to.path(), &[]), to.path());
        let found = &files["name"];
        assert_eq!(fs::read(to.path().join("name")).unwrap(), b"0123\0\0\0\0XY");
        assert_eq!(
            (&found["conflicts"], &found["hole_bytes"], &found["punched_bytes"]),
            (&json!(0), &json!(0), &json!(4))
        );
        assert_eq!(found["cut"], json!([{"start": 4, "end": 8}, {"start": 10, "end": 16}]));
    }
}

/// SETATTR and CREATE of NFS version 2 (RFC 1094, sections 2.2.3, 2.2.10 and 2.3.6): a size of all
/// ones is not to be set.
#[test]
fn version_2_sets_sizes() {
    let (handle, fattr) = (vec![0x48; 32], vec![0; 68]);
    let sattr = |size| [vec![0xff; 12], word(size), vec![0xff; 16]].concat();
    let found = [word(0), handle.clone(), fattr.clone()].concat();
    let entry = [vec![0x49; 32], opaque(b"name")].concat();
    let contents = |calls: &[(u32, Vec<u8>)]| {
        let mut world = World::new();
        let write = [handle.clone(), vec![0; 12], opaque(b"0123456789abcdef")].concat();
        for (procedure, arguments) in [(4, entry.clone()), (8, write)].iter().chain(calls) {
            let results =
                if matches!(procedure, 4 | 9) { found.clone() } else { [word(0), fattr.clone()].concat() };
            let [call, reply] = world.exchange(2, *procedure, arguments, &results);
            world.send(0, &call);
            world.send(1, &reply);
        }
        let to = folder();
        world.extract(to.path(), &[]);
        fs::read(to.path().join("name")).unwrap()
    };
    let set = |size| (2, [handle.clone(), sattr(size)].concat());
    let create = |size| (9, [entry.clone(), sattr(size)].concat());
    assert_eq!(contents(&[set(0xffff_ffff), create(0xffff_ffff)]), b"0123456789abcdef");
    assert_eq!(contents(&[set(4)]), b"0123");
    assert_eq!(contents(&[create(0)]), b"");
}

/// READ_PLUS (RFC 7862, section 15.10) after PUTFH, with four bytes of data.
#[test]
fn read_plus_is_reported_as_left_out() {
    let mut world = World::new();
    let arguments = [opaque(b""), [2, 2, 22].map(word).concat(), opaque(b"handle"), word(68)].concat();
    let arguments = [arguments, vec![0; 16 + 8], word(4)].concat();
    let results = [0, 0, 2, 22, 0, 68, 0, 1, 1, 0, 0, 0].map(word).concat();
    let [call, reply] = world.exchange(4, 1, &arguments, &[results, opaque(b"data")].concat());
    world.send(0, &call);
    world.send(1, &reply);
    let output = world.extract(folder().path(), &[]);
    let notices = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(notices.contains("omitted: 1 READ_PLUS results are not supported"), "{notices}");
}

/// A READ that overlapped with a WRITE in time may return the earlier contents of the file.
#[test]
fn read_concurrent_with_a_write_replaces_nothing() {
    for is_concurrent in [true, false] {
        let mut world = World::new();
        world.named(b"name", b"handle");
        world.write(b"handle", 0, b"old.");
        let read = [opaque(b"handle"), vec![0; 8], word(4)].concat();
        let results = [word(0), word(0), word(4), word(1), opaque(b"old.")].concat();
        let [call, reply] = world.exchange(3, 6, &read, &results);
        if is_concurrent {
            world.send(0, &call);
        }
        world.write(b"handle", 0, b"new.");
        if !is_concurrent {
            world.send(0, &call);
        }
        world.send(1, &reply);
        let to = folder();
        let (files, _) = index(&world.extract(to.path(), &[]), to.path());
        let expected = if is_concurrent { b"new." } else { b"old." };
        assert_eq!(fs::read(to.path().join("name")).unwrap(), expected);
        assert_eq!(files["name"]["conflicts"], 1);
    }
}

#[test]
fn same_handle_on_two_servers_is_two_files() {
    let mut world = World::new();
    world.named(b"name", b"handle");
    world.write(b"handle", 0, b"one");
    world.server = 2;
    world.psns = [70_000, 80_000];
    world.named(b"name", b"handle");
    world.write(b"handle", 0, b"other");
    let to = folder();
    let (files, _) = index(&world.extract(to.path(), &[]), to.path());
    let mut contents: Vec<_> = files
        .iter()
        .map(|(path, line)| (line["server"].clone(), fs::read(to.path().join(path)).unwrap()))
        .collect();
    contents.sort_by_key(|(server, _)| server.to_string());
    assert_eq!(contents, [(json!("192.0.2.1"), b"one".to_vec()), (json!("192.0.2.2"), b"other".to_vec())]);
}

#[test]
fn ambiguous_xid_is_refused() {
    let mut world = World::new();
    world.write(b"handle", 0, b"one");
    world.xid = 1;
    world.read(b"handle", 0, b"one");
    let capture = Temporary::new("twice.pcap", &world.capture());
    let output = run(&["extract", capture.path(), "--xid", "1"]);
    refused(&output, &["2 transactions", "--transaction 1 (WRITE", "--transaction 2 (READ"]);
    let output = run(&["extract", capture.path(), "--transaction", "2", "--part", "payload"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(0), &b"one"[..]));
    // To a file, from standard input, which is read more than once. `--out` is the former name of
    // `--output`.
    let to = folder();
    let file = to.path().join("out.bin");
    let path = file.to_str().expect("the path is UTF-8");
    let output =
        binary::with_input(&["extract", "-", "--frame", "2", "--reply", "--out", path], &world.capture());
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(0), &b""[..]),
        "{}",
        text(&output.stderr)
    );
    let expected =
        [word(1), word(1), vec![0; 16], word(0), word(0), word(0), word(3), word(2), vec![0; 8]].concat();
    assert_eq!(fs::read(file).unwrap(), expected);
}
