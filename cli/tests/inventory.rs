//! The inventory of the host's connections in a capture, in every command: it pairs the half-flows
//! of a capture that starts in the middle.

mod binary;

use binary::{Temporary, folder, lines, run, text};
use rdmascope_capture_agent::{NoteKind, PcapngWriter};
use rdmascope_tests::{samples, session};

/// nfs3-basic without its CM exchange, with the inventory that the client's kernel would have
/// provided.
fn captured() -> Vec<u8> {
    let capture = samples::capture("nfs3-basic");
    let connection = &session::run(&capture).connections[0];
    let [client, server] = [&connection.requester, &connection.responder].map(|end| end.qpn.expect("CM").0);
    let inventory = format!(
        "device=rxe0 local-qp={client} remote-qp={server} source=10.77.0.2:40000 destination=10.77.0.1:20049 owner=rpcrdma\n"
    );
    let mut writer = PcapngWriter::new(Vec::new(), "test").expect("memory has room");
    writer.note(NoteKind::Inventory, inventory.as_bytes()).expect("memory has room");
    let is_cm = |data: &[u8]| data[42] == 0x64;
    for record in session::records(&capture).filter(|record| !is_cm(record.data)) {
        writer.packet(&record, "").expect("memory has room");
    }
    writer.finish().expect("memory has room")
}

fn origins(file: &str) -> Vec<String> {
    let connections = lines(&run(&["connections", file, "--format", "jsonl"]));
    connections.iter().map(|line| line["origin"].as_str().expect("a word").to_owned()).collect()
}

#[test]
fn every_command_uses_the_kernel_inventory() {
    let file = Temporary::new("inventory.pcapng", &captured());
    assert_eq!(origins(file.path()), ["kernel"]);
    for arguments in [&["analyze"][..], &["export", "html", "--output", "-"]] {
        let output = run(&[arguments, &[file.path()]].concat());
        assert!(text(&output.stdout).contains("known from the kernel"), "{arguments:?}");
    }
}

#[test]
fn rewritten_captures_keep_the_inventory() {
    let file = Temporary::new("inventory-again.pcapng", &captured());
    for arguments in [&[][..], &["--no-comments"], &["--cut-bulk"]] {
        let copy = Temporary::new("inventory-copy.pcapng", b"");
        let output = run(&[&["export", "pcapng", file.path(), "--output", copy.path()], arguments].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
        assert_eq!(origins(copy.path()), ["kernel"], "{arguments:?}");
    }
    let folder = folder();
    let to = folder.path().to_str().expect("a plain name");
    let output = run(&["live", file.path(), "--trigger", "write>20ms", "--trigger-folder", to]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let written: Vec<_> = std::fs::read_dir(folder.path()).expect("it is there").collect();
    assert!(!written.is_empty());
    for entry in written {
        let path = entry.expect("a file").path();
        assert_eq!(origins(path.to_str().expect("a plain name")), ["kernel"]);
    }
}
