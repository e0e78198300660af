use super::*;

/// The ends of the lifetimes of a kind, with the frames of their ends, in the order of their numbers.
fn ends_of(kind: Kind, found: &[Lifetime]) -> Vec<(End, Option<u64>)> {
    let mut found: Vec<&Lifetime> = found.iter().filter(|one| one.kind == kind).collect();
    found.sort_by_key(|one| one.number);
    found.iter().map(|one| (one.end, one.ended.map(|at| at.frame))).collect()
}

const OPEN: (End, Option<u64>) = (End::Open, None);

fn closed(frame: u64) -> (End, Option<u64>) {
    (End::Closed, Some(frame))
}

/// Opens the file with the stateid `id`, and locks a range of it with the stateid `lock`.
fn open_and_lock(capture: &mut Capture, id: u32, lock: u32) {
    let opened = format!("22 0;18 0 1 0 0 {id} 0 h0 h0 4 0 0");
    capture.on("22 'file';18 1 1 0 h7 'owner' 0 4", &opened);
    let call = format!("22 'file';12 2 0 h0 h9 1 1 1 0 0 {id} 1 h7 'owner'");
    capture.on(&call, &format!("22 0;12 0 1 0 0 {lock}"));
}

#[test]
fn a_close_ends_the_locks_of_its_open_only() {
    let mut capture = Capture::new(1);
    capture.mounted();
    (0..4).for_each(|at| open_and_lock(&mut capture, 20 + at, 30 + at));
    // One lock is unlocked before. Another one is refused, and then used.
    capture.on("22 'file';14 2 1 1 0 0 32 h0 h9", "22 0;14 0 2 0 0 32");
    capture.on("22 'file';25 1 0 0 31 h0 5", "22 0;25 10025");
    capture.on("22 'file';25 1 0 0 31 h0 5", "22 0;25 0 1 'bytes'");
    for id in [21, 22, 23] {
        capture.on(&format!("22 'file';4 1 1 0 0 {id}"), &format!("22 0;4 0 2 0 0 {id}"));
    }
    let (found, _) = capture.end();
    assert_eq!(ends_of(Kind::Open, &found), [OPEN, closed(142), closed(152), closed(162)]);
    let unlocked = (End::Unlocked, Some(112));
    assert_eq!(ends_of(Kind::Lock, &found), [OPEN, closed(142), unlocked, closed(162)]);
}

fn layout(capture: &mut Capture, id: u32) {
    let got = format!("22 0;50 0 1 1 0 0 {id} 1 h0 h4 1 1 'body'");
    capture.on("22 'file';50 0 1 2 h0 h9 h1 1 0 0 5 4096", &got);
}

/// A LAYOUTRETURN of this extent, which names no file.
fn returned(capture: &mut Capture, extent: u32) {
    capture.on(&format!("22 'file';51 0 1 3 {extent}"), "22 0;51 0 0");
}

#[test]
fn returns_of_a_file_system_concern_layouts_that_were_not_seen_since() {
    let mut capture = Capture::new(1);
    capture.mounted();
    (20..23).for_each(|id| layout(&mut capture, id));
    // A stateid that is known as that of a layout later.
    capture.on("22 'file';55 1 1 0 0 23", "22 0;55 0 1 0");
    returned(&mut capture, 2);
    layout(&mut capture, 20);
    returned(&mut capture, 2);
    layout(&mut capture, 21);
    layout(&mut capture, 23);
    let (found, _) = capture.end();
    let unknown = |frame| (End::Unknown, Some(frame));
    assert_eq!(ends_of(Kind::Layout, &found), [unknown(92), OPEN, unknown(72), OPEN]);
}

#[test]
fn returns_and_recalls_of_all_files_concern_layouts_only() {
    let mut capture = Capture::new(1);
    capture.mounted().on(super::OPEN, OPENED);
    layout(&mut capture, 20);
    layout(&mut capture, 21);
    capture.back("5 1 3 0 1 'file' h0 h9 1 0 0 20", "5 0").back("5 1 3 0 3", "5 0");
    layout(&mut capture, 22);
    capture.back("5 1 3 0 3", "5 0");
    returned(&mut capture, 3);
    layout(&mut capture, 23);
    returned(&mut capture, 3);
    let (mut found, _) = capture.end();
    found.sort_by_key(|one| one.number);
    let recalled: Vec<_> = found.iter().map(|one| one.recalled.map(|at| at.frame)).collect();
    assert_eq!(recalled, [None, None, None, None, Some(60), Some(70), Some(90), None]);
    let end = |frame| (End::Returned, Some(frame));
    assert_eq!(ends_of(Kind::Layout, &found), [end(102), end(102), end(102), end(122)]);
    assert_eq!(ends_of(Kind::Delegation, &found), [OPEN]);
}

#[test]
fn client_ids_of_minor_version_0_end_with_their_opens() {
    let mut capture = Capture::new(0);
    for (client, id) in [(7, 20), (8, 21), (7, 22)] {
        let call = format!("22 'file';18 1 1 0 h{client} 'owner' 0 4");
        capture.call(&call, &format!("22 0;18 0 1 0 0 {id} 0 h0 h0 4 0 0"));
    }
    capture.call("30 h7", "30 0").call("30 h7", "30 10022").call("30 h7", "30 10022");
    let (found, _) = capture.end();
    let lost = (End::Lost, Some(52));
    assert_eq!(ends_of(Kind::Open, &found), [lost, OPEN, lost]);
}

#[test]
fn missing_packets_make_ends_of_the_last_second_unknown() {
    let mut capture = Capture::new(1);
    capture.mounted();
    (0..4).for_each(|at| open_and_lock(&mut capture, 20 + at, 30 + at));
    let refused = |capture: &mut Capture, id: u32| {
        capture.on(&format!("22 'file';25 1 0 0 {id} h0 5"), "22 0;25 10025");
    };
    refused(&mut capture, 20);
    // Transactions are a tenth of a second apart.
    (0..8).for_each(|_| _ = capture.on("24", "24 0"));
    (21..23).for_each(|id| refused(&mut capture, id));
    capture.on("22 'file';25 1 0 0 21 h0 5", "22 0;25 0 1 'bytes'");
    capture.states.blind(ConnectionId(2));
    capture.states.blind(ConnectionId(1));
    capture.states.table.check_index();
    let (found, _) = capture.end();
    let ends = [(End::Lost, Some(112)), OPEN, (End::Unknown, Some(212)), OPEN];
    assert_eq!(ends_of(Kind::Open, &found), ends);
}

#[test]
fn missing_packets_concern_the_present_client_of_a_connection() {
    let mut capture = Capture::new(1);
    capture.mounted();
    (0..2).for_each(|at| open_and_lock(&mut capture, 20 + at, 30 + at));
    capture.connection = 2;
    capture.on("24", "24 0");
    capture.states.blind(ConnectionId(2));
    capture.states.blind(ConnectionId(3));
    let client = capture.states.blind_scopes();
    capture.on("55 1 1 0 0 20", "55 0 1 10025");
    // A session of another client.
    let session = |text: &str| text.replace("9 9 9 9", "8 8 8 8");
    capture.call(&session(SEQUENCE), &session(SEQUENCED));
    let other = capture.states.blind_scopes();
    assert_eq!((client.len(), other.len(), client == other), (1, 1, false));
    capture.connection = 1;
    capture.on("55 1 1 0 0 21", "55 0 1 10025");
    let (found, _) = capture.end();
    let ends = [(End::Unknown, Some(82)), (End::Lost, Some(102))];
    assert_eq!(ends_of(Kind::Open, &found), ends);
}
