mod index;

use super::table::Table;
use super::*;
use proptest::prelude::*;
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::transaction::{Direction, Outcome, Security, Transaction};
use rdmascope_dissector::ulb::{self, Chunks, Details, Payload, Procedure};
use rdmascope_testkit::messages::xdr;
use rdmascope_tests::values;

const COMPOUND: Procedure = Procedure { program: 100_003, version: 4, number: 1 };
const CB_COMPOUND: Procedure = Procedure { program: 0x4000_0000, version: 1, number: 1 };

/// A capture, built one transaction at a time.
#[derive(Default)]
pub(crate) struct Capture {
    states: States,
    found: Vec<Lifetime>,
    /// All transactions.
    pub(crate) transactions: Vec<Transaction>,
    number: u64,
    pub(crate) connection: u32,
    /// The last byte of the client's address; 0 if it is that of `values`.
    pub(crate) client: u8,
    /// The minor version.
    minor: u32,
}

impl Capture {
    pub(crate) fn new(minor: u32) -> Capture {
        Capture { minor, connection: 1, ..Capture::default() }
    }

    fn transaction(&mut self, direction: Direction, call: &str, reply: Option<&str>) -> Transaction {
        self.number += 1;
        let is_forward = direction == Direction::Forward;
        let procedure = if is_forward { COMPOUND } else { CB_COMPOUND };
        let ident = if is_forward { "" } else { "0" };
        let count = call.split(';').count();
        let call = xdr(&format!("'' {} {ident} {count} {}", self.minor, call.replace(';', " ")));
        let mut details = Details::default();
        ulb::call(procedure, &mut Payload::new(&call, Chunks::Read(&[])), &mut details).expect("arguments");
        let mut transaction = values::transaction(procedure, self.number * 10, 1000);
        if let Some(reply) = reply {
            let count = reply.split(';').count();
            let reply = xdr(&format!("0 '' {count} {}", reply.replace(';', " ")));
            ulb::reply(procedure, &mut Payload::new(&reply, Chunks::Write(&[])), &mut details)
                .expect("results");
        } else {
            (transaction.reply, transaction.rpc_status) = (None, None);
            transaction.outcome = Outcome::NoReply;
        }
        // The status of a COMPOUND is that of its last operation.
        transaction.status = details.operations.iter().rev().find_map(|operation| operation.status);
        (transaction.details, transaction.direction) = (details, direction);
        (transaction.number, transaction.connection) = (self.number, ConnectionId(self.connection));
        if let (Some(route), 1..) = (&mut transaction.route, self.client) {
            route.source = Address::V4([10, 77, 0, self.client].into());
        }
        transaction
    }

    fn add(&mut self, transaction: &Transaction) {
        let Capture { states, found, transactions, .. } = self;
        transactions.push(transaction.clone());
        states.handle(&Event::Transaction(transaction), &mut |lifetime| found.push(lifetime.clone()));
    }

    /// Adds a COMPOUND. Operations and results are separated by `;`.
    pub(crate) fn call(&mut self, call: &str, reply: &str) -> &mut Capture {
        let transaction = self.transaction(Direction::Forward, call, Some(reply));
        self.add(&transaction);
        self
    }

    /// Adds a COMPOUND without a reply.
    fn unanswered(&mut self, call: &str) -> &mut Capture {
        let transaction = self.transaction(Direction::Forward, call, None);
        self.add(&transaction);
        self
    }

    /// Adds a COMPOUND on the session.
    pub(crate) fn on(&mut self, call: &str, reply: &str) -> &mut Capture {
        self.call(&format!("{SEQUENCE};{call}"), &format!("{SEQUENCED};{reply}"))
    }

    pub(crate) fn back(&mut self, call: &str, reply: &str) -> &mut Capture {
        let (call, reply) = (format!("{CB_SEQUENCE};{call}"), format!("{CB_SEQUENCED};{reply}"));
        let transaction = self.transaction(Direction::Backward, &call, Some(&reply));
        self.add(&transaction);
        self
    }

    /// Adds EXCHANGE_ID and CREATE_SESSION, with which the session begins.
    pub(crate) fn mounted(&mut self) -> &mut Capture {
        self.call(EXCHANGE, EXCHANGED).call(CREATE, CREATED)
    }

    fn end(mut self) -> (Vec<Lifetime>, Summary) {
        let Capture { states, found, .. } = &mut self;
        states.table.check_index();
        states.finish(&mut |lifetime| found.push(lifetime.clone()));
        let summary = states.summary().clone();
        assert_eq!(End::ALL.iter().map(|end| summary.all(*end)).sum::<u64>(), found.len() as u64);
        (self.found, summary)
    }

    /// Kind and end of each lifetime, in the order of their numbers.
    fn ends(self) -> Vec<(Kind, End)> {
        let (mut found, _) = self.end();
        found.sort_by_key(|lifetime| lifetime.number);
        found.iter().map(|lifetime| (lifetime.kind, lifetime.end)).collect()
    }
}

// RFC 5662: sequence ID 1 on slot 3, highest slot 15, target highest slot 15.
pub(crate) const SEQUENCE: &str = "53 9 9 9 9 1 3 0 0";
pub(crate) const SEQUENCED: &str = "53 0 9 9 9 9 1 3 15 15 0";
const CB_SEQUENCE: &str = "11 9 9 9 9 1 0 0 0 0";
const CB_SEQUENCED: &str = "11 0 9 9 9 9 1 0 0 0";
pub(crate) const EXCHANGE: &str = "42 h1 'owner' 257 0 0";
pub(crate) const EXCHANGED: &str = "42 0 h7 1 131072 0 h0 'major' 'scope' 0";
pub(crate) const CREATE: &str = "43 h7 1 3 0 1 2 3 4 5 0 0 1 2 3 4 5 0 1073741824 1 0";
pub(crate) const CREATED: &str = "43 0 9 9 9 9 1 3 0 1 2 3 4 8 0 0 1 2 3 4 5 0";
/// OPEN of a name for reading, with the delegation 6, and GETFH.
pub(crate) const OPEN: &str = "22 'folder';18 1 1 2 h7 'owner' 0 0 'name';10";
pub(crate) const OPENED: &str = "22 0;18 0 1 0 0 5 0 h0 h0 4 0 1 1 0 0 6 0 0 0 7 'who';10 0 'file'";
const READ: &str = "22 'file';25 1 0 0 5 h0 5";
const READ_DONE: &str = "22 0;25 0 1 'bytes'";
const CLOSE: &str = "22 'file';4 1 1 0 0 5";
const CLOSED: &str = "22 0;4 0 2 0 0 5";

#[test]
fn lifetimes_run_from_creation_to_end() {
    let mut capture = Capture::new(1);
    capture.mounted().on(OPEN, OPENED).on(READ, READ_DONE).on(CLOSE, CLOSED);
    capture.back("4 1 0 0 6 0 'file'", "4 0").on("22 'file';8 1 0 0 6", "22 0;8 0");
    capture.on("44 9 9 9 9", "44 0").call("57 h7", "57 0");
    let (found, summary) = capture.end();
    let rows: Vec<_> = found.iter().map(|one| (one.kind, one.end, one.is_begun(), one.uses)).collect();
    assert_eq!(
        rows,
        [
            (Kind::Open, End::Closed, true, 1),
            (Kind::Delegation, End::Returned, true, 0),
            (Kind::Session, End::Destroyed, true, 5),
            (Kind::Client, End::Destroyed, true, 0),
        ]
    );
    let open = &found[0];
    assert_eq!((open.file_handle.as_slice(), open.file_name.as_slice()), (&b"file"[..], &b"name"[..]));
    assert_eq!((open.access, open.deny), (Some(Access::READ), Some(Access::of_share(2))));
    assert_eq!((open.reads, open.writes, open.client), (1, 0, Some(7)));
    // The replies to the OPEN and to the CLOSE.
    assert_eq!((open.first.frame, open.first.transaction, open.ended.unwrap().frame), (32, 3, 52));
    assert_eq!(open.duration(), Some(200_000_000));
    // The callback, not its reply.
    assert_eq!(found[1].recalled.unwrap().frame, 60);
    assert_eq!((found[2].slots, found[2].highest_slot), (Some(16), Some(3)));
    assert_eq!(summary.recalled(Kind::Delegation), [1, 0]);
    assert_eq!((summary.unread, summary.encrypted), (0, 0));
}

#[test]
fn failures_change_nothing_and_unanswered_ends_are_unknown() {
    // NFS4ERR_DELAY.
    let mut capture = Capture::new(1);
    capture.mounted().on(OPEN, OPENED).on(CLOSE, "22 0;4 10008");
    assert_eq!(capture.ends()[2..], [(Kind::Open, End::Open), (Kind::Delegation, End::Open)]);
    // An operation after a failed one was not executed.
    let mut capture = Capture::new(1);
    capture.mounted().on(OPEN, OPENED).on(CLOSE, "22 70");
    assert_eq!(capture.ends()[2], (Kind::Open, End::Open));
    // SEQUENCE failed.
    let mut capture = Capture::new(1);
    capture.mounted().on(OPEN, OPENED).call(&format!("{SEQUENCE};{CLOSE}"), "53 10063");
    assert_eq!(capture.ends()[2], (Kind::Open, End::Open));
    // Without a reply, and with a use that was sent later.
    let unanswered = || {
        let mut capture = Capture::new(1);
        capture.mounted().on(OPEN, OPENED).unanswered(&format!("{SEQUENCE};{CLOSE}"));
        capture
    };
    let mut capture = unanswered();
    assert_eq!(capture.states.summary().unread, 1);
    capture.on("22 'other'", "22 0");
    assert_eq!(capture.ends()[2..], [(Kind::Open, End::Unknown), (Kind::Delegation, End::Open)]);
    let mut capture = unanswered();
    capture.on(READ, READ_DONE);
    assert_eq!(capture.ends()[2], (Kind::Open, End::Open));
    // The same call again, on another connection.
    let mut capture = unanswered();
    capture.connection = 2;
    capture.on(CLOSE, CLOSED);
    assert_eq!(capture.ends()[2], (Kind::Open, End::Closed));
}

/// A reply shows that its call is missing, at the time of the call or when the connection ends. The
/// call may have returned the state that the server knows no longer.
#[test]
fn missing_call_may_have_ended_state() {
    for (call, answer) in [(READ, "22 0;25 10025"), ("22 'file';55 1 1 0 0 5", "22 0;55 0 1 10025")] {
        for is_late in [false, true] {
            let mut capture = Capture::new(1);
            capture.mounted().on(OPEN, OPENED);
            let mut lost = capture.transaction(Direction::Forward, CLOSE, Some(CLOSED));
            (lost.call, lost.procedure) = (None, None);
            if is_late {
                capture.on(call, answer).add(&lost);
            } else {
                capture.add(&lost);
                capture.on(call, answer);
            }
            assert_eq!(capture.ends()[2], (Kind::Open, End::Unknown), "{call} {is_late}");
        }
    }
    let mut capture = Capture::new(1);
    capture.mounted().on(OPEN, OPENED);
    let mut lost = capture.transaction(Direction::Forward, CLOSE, Some(CLOSED));
    (lost.call, lost.procedure) = (None, None);
    capture.call("44 9 9 9 9", "44 0").call("57 h7", "57 0").add(&lost);
    assert_eq!(capture.ends()[2..], [(Kind::Open, End::Unknown), (Kind::Delegation, End::Unknown)]);
}

#[test]
fn earlier_state_is_found_by_its_use() {
    let mut capture = Capture::new(1);
    // A stateid of unknown kind; a delegation; an open that is closed at once.
    capture
        .on(READ, READ_DONE)
        .on("22 'file';8 1 0 0 6", "22 0;8 0")
        .on("22 'other';4 1 1 0 0 8", "22 0;4 0 2 0 0 8");
    let (mut found, summary) = capture.end();
    found.sort_by_key(|one| one.number);
    let rows: Vec<_> = found.iter().map(|one| (one.kind, one.end, one.is_begun())).collect();
    assert_eq!(
        rows,
        [
            (Kind::Session, End::Open, false),
            (Kind::Stateid, End::Open, false),
            (Kind::Delegation, End::Returned, false),
            (Kind::Open, End::Closed, false),
        ]
    );
    assert_eq!((found[3].duration(), found[1].client), (None, None));
    assert_eq!(
        summary.lines()[1],
        ("begun before the capture", "1 session, 1 open, 1 delegation, 1 stateid".to_owned())
    );
}

#[test]
fn special_stateids_are_resolved() {
    let mut capture = Capture::new(1);
    // Anonymous, and READ bypass.
    capture.mounted().on("25 0 0 0 0 h0 5", "25 0 1 'bytes'");
    capture.on("25 4294967295 4294967295 4294967295 4294967295 h0 5", "25 0 1 'bytes'");
    assert_eq!(capture.ends().len(), 2);
    // OPEN, and CLOSE of the current stateid. The result of the CLOSE is not a stateid.
    let mut capture = Capture::new(1);
    capture.mounted().on(
        "22 'folder';18 1 1 0 h7 'owner' 0 0 'name';4 1 1 0 0 0",
        "22 0;18 0 1 0 0 5 0 h0 h0 4 0 0;4 0 4294967295 0 0 0",
    );
    assert_eq!(capture.ends()[2..], [(Kind::Open, End::Closed)]);
    // PUTFH clears the current stateid.
    let mut capture = Capture::new(1);
    capture.mounted().on(
        "22 'folder';18 1 1 0 h7 'owner' 0 0 'name';22 'file';4 1 1 0 0 0",
        "22 0;18 0 1 0 0 5 0 h0 h0 4 0 0;22 0;4 10025",
    );
    assert_eq!(capture.ends()[2..], [(Kind::Open, End::Open)]);
}

#[test]
fn a_replaced_client_id_loses_its_state() {
    let again_from = |client: u8, verifier: u32, server: &str| {
        let mut capture = Capture::new(1);
        capture.mounted().on(OPEN, OPENED);
        (capture.connection, capture.client) = (2, client);
        capture.call(
            &format!("42 h{verifier} 'owner' 257 0 0"),
            &format!("42 0 h8 1 131072 0 h0 '{server}' 'scope' 0"),
        );
        capture.call(&CREATE.replace("h7", "h8"), &CREATED.replace("9 9 9 9", "8 8 8 8"));
        capture.ends()
    };
    let again = |verifier: u32, server: &str| again_from(0, verifier, server);
    let lost = [
        (Kind::Client, End::Lost),
        (Kind::Session, End::Lost),
        (Kind::Open, End::Lost),
        (Kind::Delegation, End::Lost),
        (Kind::Client, End::Open),
        (Kind::Session, End::Open),
    ];
    // The server restarted and lost its state.
    assert_eq!(again(1, "major"), lost);
    // The client restarted; or another host has the same client owner.
    for (client, end) in [(0, End::Restarted), (9, End::TakenOver)] {
        let ends: Vec<End> = again_from(client, 2, "major").iter().map(|(_, end)| *end).collect();
        assert_eq!(ends, [End::Replaced, end, end, end, End::Open, End::Open]);
    }
    // The client has another address; the server lost its state.
    assert_eq!(again_from(9, 1, "major"), lost);
    // A client uses one owner name for all servers.
    assert!(again(1, "other").iter().all(|(_, end)| *end == End::Open));
}

#[test]
fn a_client_id_without_a_session_is_replaced_by_the_next() {
    let next = EXCHANGED.replace("h7", "h6");
    let mut capture = Capture::new(1);
    capture.call(EXCHANGE, &next).mounted().call(EXCHANGE, EXCHANGED);
    let expected = [(Kind::Client, End::Replaced), (Kind::Client, End::Open), (Kind::Session, End::Open)];
    assert_eq!(capture.ends(), expected);
    // A client ID with a session stays, as long as the next one has none.
    let mut capture = Capture::new(1);
    capture.mounted().call(EXCHANGE, &next);
    assert!(capture.ends().iter().all(|(_, end)| *end == End::Open));
}

#[test]
fn state_refused_by_the_server_has_ended() {
    for (status, end) in
        [(10011, End::Revoked), (10087, End::Revoked), (10025, End::Lost), (10008, End::Open)]
    {
        let mut capture = Capture::new(1);
        capture.mounted().on(OPEN, OPENED).on(READ, &format!("22 0;25 {status}"));
        assert_eq!(capture.ends()[2], (Kind::Open, end), "{status}");
    }
    // It still existed.
    let mut capture = Capture::new(1);
    capture.mounted().on(OPEN, OPENED).on(READ, "22 0;25 10025").on(READ, READ_DONE).on(CLOSE, CLOSED);
    assert_eq!(capture.ends()[2], (Kind::Open, End::Closed));
    // FREE_STATEID acknowledges the revocation.
    let mut capture = Capture::new(1);
    capture.mounted().on(OPEN, OPENED).on(READ, "22 0;25 10011").on("45 1 0 0 5", "45 0");
    assert_eq!(capture.ends()[2], (Kind::Open, End::Revoked));
    // TEST_STATEID of the open and the delegation.
    let mut capture = Capture::new(1);
    capture.mounted().on(OPEN, OPENED).on("55 2 1 0 0 5 1 0 0 6", "55 0 2 0 10087");
    assert_eq!(capture.ends()[2..], [(Kind::Open, End::Open), (Kind::Delegation, End::Revoked)]);
    // The session is gone; then a DESTROY_CLIENTID while state is left.
    let mut capture = Capture::new(1);
    capture.mounted().on(OPEN, OPENED).call(SEQUENCE, "53 10052").call("57 h7", "57 0");
    let ends = capture.ends();
    assert_eq!(ends[..2], [(Kind::Client, End::Destroyed), (Kind::Session, End::Lost)]);
    assert_eq!(ends[2..], [(Kind::Open, End::Abandoned), (Kind::Delegation, End::Abandoned)]);
    // DESTROY_CLIENTID of a client ID that nothing else names: it existed before the capture.
    let mut capture = Capture::new(1);
    capture.call("57 h7", "57 0").call("57 h8", "57 10022");
    assert_eq!(capture.ends(), [(Kind::Client, End::Destroyed)]);
    // SEQ4_STATUS_EXPIRED_ALL_STATE_REVOKED, once: a later open is not revoked.
    let flagged = SEQUENCED.replace("15 15 0", "15 15 8");
    let mut capture = Capture::new(1);
    capture.mounted().on(OPEN, OPENED).on("24", "24 0").call(SEQUENCE, &flagged);
    capture.call(
        &format!("{SEQUENCE};18 1 1 0 h7 'owner' 0 4"),
        &format!("{flagged};18 0 1 0 0 8 0 h0 h0 4 0 0"),
    );
    capture.call(SEQUENCE, &flagged);
    let (mut found, _) = capture.end();
    found.sort_by_key(|one| one.number);
    let ends: Vec<_> = found.iter().map(|one| one.end).collect();
    assert_eq!(ends, [End::Open, End::Open, End::Revoked, End::Revoked, End::Open]);
    assert_eq!(status_flags(found[1].flags).collect::<Vec<_>>(), ["EXPIRED_ALL_STATE_REVOKED"]);
}

#[test]
fn callbacks_may_come_early_and_late() {
    // CB_RECALL before the reply with the delegation.
    let mut capture = Capture::new(1);
    capture.mounted().back("4 1 0 0 6 0 'file'", "4 0").on(OPEN, OPENED);
    let (found, summary) = capture.end();
    let delegation = found.iter().find(|one| one.kind == Kind::Delegation).unwrap();
    assert!(delegation.is_owed() && delegation.recalled.is_some());
    assert_eq!(summary.recalled(Kind::Delegation), [1, 1]);
    // A callback without a reply is reported when its connection ends, after the DELEGRETURN.
    let mut capture = Capture::new(1);
    capture.mounted().on(OPEN, OPENED);
    let recall = format!("{CB_SEQUENCE};4 1 0 0 6 0 'file'");
    let recall = capture.transaction(Direction::Backward, &recall, None);
    capture.on("22 'file';8 1 0 0 6", "22 0;8 0").add(&recall);
    let (found, _) = capture.end();
    let delegation = found.iter().find(|one| one.kind == Kind::Delegation).unwrap();
    assert_eq!((delegation.end, delegation.recalled.map(|at| at.frame)), (End::Returned, Some(40)));
    // COPY, with CB_OFFLOAD before and after its reply.
    let (copy, copied) = ("60 1 0 0 5 1 0 0 5 h0 h4 h9 0 0 0", "60 0 1 7 0 0 7 h0 0 h0 1 0");
    for (status, end) in [("0 0 h9 2 h0", End::Completed), ("28 h4", End::Failed)] {
        let offload = format!("15 'file' 1 0 0 7 {status}");
        let (mut early, mut late) = (Capture::new(2), Capture::new(2));
        early.mounted().on(OPEN, OPENED).back(&offload, "15 0").on(copy, copied);
        late.mounted().on(OPEN, OPENED).on(copy, copied).back(&offload, "15 0");
        assert_eq!((early.ends()[4], late.ends()[4]), ((Kind::Copy, end), (Kind::Copy, end)));
    }
    let mut capture = Capture::new(2);
    capture.mounted().on(OPEN, OPENED).on(copy, copied);
    assert_eq!(capture.ends()[4], (Kind::Copy, End::Open));
}

#[test]
fn locks_end_with_their_last_range_or_their_open() {
    let lock =
        |first: u32, length: &str| format!("22 'file';12 2 0 h{first} {length} 1 1 1 0 0 5 1 h7 'owner'");
    let more = "22 'file';12 2 0 h200 h10 0 1 0 0 7 1";
    let locked = "22 0;12 0 1 0 0 7";
    let unlock = |first: u32, length: u32| format!("22 'file';14 2 1 1 0 0 7 h{first} h{length}");
    let unlocked = "22 0;14 0 2 0 0 7";
    let begun = || {
        let mut capture = Capture::new(1);
        capture.mounted().on(OPEN, OPENED).on(&lock(100, "h50"), locked).on(more, locked);
        capture
    };
    let of = |capture: Capture| {
        let (found, _) = capture.end();
        let lock = found.into_iter().find(|one| one.kind == Kind::Lock).unwrap();
        (lock.end, lock.ranges_text().unwrap_or_default())
    };
    assert_eq!(of(begun()), (End::Open, "100-149,200-209".to_owned()));
    let mut capture = begun();
    capture.on(&unlock(120, 85), unlocked);
    assert_eq!(of(capture), (End::Open, "100-119,205-209".to_owned()));
    let mut capture = begun();
    capture.on(&unlock(0, 300), unlocked);
    assert_eq!(of(capture), (End::Unlocked, String::new()));
    let mut capture = begun();
    capture.on(CLOSE, CLOSED);
    assert_eq!(of(capture), (End::Closed, "100-149,200-209".to_owned()));
    let mut capture = Capture::new(1);
    capture.mounted().on(OPEN, OPENED).on(&lock(7, "h18446744073709551615"), locked);
    assert_eq!(of(capture), (End::Open, "7-".to_owned()));
}

/// The reply of a LOCK is missing from the capture, so its stateid first appears in a LOCKU.
#[test]
fn lock_without_a_captured_reply_ends_with_its_file() {
    let of = |operations: &[(&str, &str)]| {
        let mut capture = Capture::new(1);
        capture.mounted().on(OPEN, OPENED);
        operations.iter().for_each(|(call, reply)| _ = capture.on(call, reply));
        capture.call("44 9 9 9 9", "44 0").call("57 h7", "57 0");
        let ends = capture.ends();
        ends.into_iter().find_map(|(kind, end)| (kind == Kind::Lock).then_some(end)).expect("a lock")
    };
    let unlocked = "22 0;14 0 2 0 0 7";
    let some = ("22 'file';14 2 1 1 0 0 7 h10 h5", unlocked);
    let all = ("22 'file';14 2 1 1 0 0 7 h0 h18446744073709551615", unlocked);
    assert_eq!(of(&[all, (CLOSE, CLOSED)]), End::Unlocked);
    assert_eq!(of(&[some, (CLOSE, CLOSED)]), End::Unknown);
    // The open was not closed, so the lock was left as well.
    assert_eq!(of(&[some]), End::Abandoned);
    // A CLOSE before its use did not end it.
    assert_eq!(of(&[(CLOSE, CLOSED), some]), End::Abandoned);
}

#[test]
fn layouts_are_returned_file_by_file_or_all_at_once() {
    let get = "22 'file';50 0 1 2 h0 h9 h1 1 0 0 5 4096";
    let got = "22 0;50 0 1 1 0 0 6 1 h0 h4 1 1 'body'";
    let begun = || {
        let mut capture = Capture::new(1);
        capture.mounted().on(get, got);
        capture
    };
    let end =
        |capture: Capture| capture.ends().into_iter().find(|(kind, _)| *kind == Kind::Layout).unwrap().1;
    assert_eq!(end(begun()), End::Open);
    let part = "22 'file';51 0 1 3 1 h0 h9 1 0 0 6 ''";
    for (call, reply, expected) in [
        (part, "22 0;51 0 1 2 0 0 6", End::Open),
        (part, "22 0;51 0 0", End::Returned),
        ("22 'file';51 0 1 3 3", "22 0;51 0 0", End::Returned),
        // A file system is returned, but the file system of the file is unknown.
        ("22 'file';51 0 1 3 2", "22 0;51 0 0", End::Unknown),
    ] {
        let mut capture = begun();
        capture.on(call, reply);
        assert_eq!(end(capture), expected, "{call}");
    }
    // The client has no layout of the file.
    let mut capture = begun();
    capture.back("5 1 3 0 1 'file' h0 h9 1 0 0 6", "5 10060");
    assert_eq!(end(capture), End::Returned);
}

#[test]
fn minor_version_0_has_no_sessions() {
    let mut capture = Capture::new(0);
    capture.call("35 h1 'owner' 1073741824 'tcp' '10.0.0.1.8.1' 1", "35 0 h7 h9").call("36 h7 h9", "36 0");
    capture.call(OPEN, OPENED);
    capture.connection = 2;
    capture.call(READ, READ_DONE).call(CLOSE, CLOSED).call("30 h7", "30 10022");
    let (found, _) = capture.end();
    let rows: Vec<_> = found.iter().map(|one| (one.kind, one.end, one.client)).collect();
    assert_eq!(
        rows,
        [
            (Kind::Open, End::Closed, Some(7)),
            // The owner of the delegation is unknown.
            (Kind::Client, End::Lost, Some(7)),
            (Kind::Delegation, End::Open, None),
        ]
    );
    assert_eq!((found[0].connection.0, found[0].last_connection.0), (1, 2));
}

/// A server answers an OPEN with the status of its client ID.
#[test]
fn an_open_of_minor_version_0_shows_that_the_client_id_ended() {
    for (status, end) in [(10011, End::Revoked), (10022, End::Lost), (13, End::Open)] {
        let mut capture = Capture::new(0);
        capture
            .call("35 h1 'owner' 1073741824 'tcp' '10.0.0.1.8.1' 1", "35 0 h7 h9")
            .call("36 h7 h9", "36 0");
        capture.call("22 'file';18 1 1 0 h7 'owner' 0 4", "22 0;18 0 1 0 0 5 0 h0 h0 4 0 0");
        capture.call("22 'file';18 2 1 0 h7 'owner' 0 4", &format!("22 0;18 {status}"));
        assert_eq!(capture.ends(), [(Kind::Client, end), (Kind::Open, end)], "{status}");
    }
}

/// SETCLIENTID_CONFIRM with another verifier ends the state of the client (RFC 7530, section 16.34.5).
#[test]
fn a_client_id_of_minor_version_0_is_replaced() {
    let set = |verifier: u32| format!("35 h{verifier} 'owner' 1073741824 'tcp' '10.0.0.1.8.1' 1");
    for (client, verifier, ends) in [
        (0, 1, [End::Lost, End::Lost]),
        (0, 2, [End::Replaced, End::Restarted]),
        (9, 2, [End::Replaced, End::TakenOver]),
    ] {
        let mut capture = Capture::new(0);
        capture.call(&set(1), "35 0 h7 h9").call("36 h7 h9", "36 0");
        capture.call("22 'file';18 1 1 0 h7 'owner' 0 4", "22 0;18 0 1 0 0 5 0 h0 h0 4 0 0");
        capture.client = client;
        capture.call(&set(verifier), "35 0 h8 h9").call("36 h8 h9", "36 0");
        let found: Vec<End> = capture.ends().iter().map(|(_, end)| *end).collect();
        assert_eq!(found, [ends[0], ends[1], End::Open], "{client} {verifier}");
    }
}

#[test]
fn encrypted_calls_are_capture_gaps() {
    let mut capture = Capture::new(1);
    capture.mounted().on(OPEN, OPENED);
    let mut encrypted = capture.transaction(Direction::Forward, "24", None);
    (encrypted.security, encrypted.details) = (Some(Security::GssPrivacy), Details::default());
    capture.add(&encrypted);
    let (found, summary) = capture.end();
    assert_eq!(summary.encrypted, 1);
    let gaps: Vec<_> = found.iter().map(|one| one.capture_gap).collect();
    assert_eq!(gaps, [true; 4], "each may have ended unseen");
    // A later use shows that the open still existed.
    let mut capture = Capture::new(1);
    capture.mounted().on(OPEN, OPENED).add(&encrypted);
    capture.number += 10;
    capture.on(READ, READ_DONE);
    let (found, _) = capture.end();
    let open = found.iter().find(|one| one.kind == Kind::Open).unwrap();
    assert!(!open.capture_gap);
}

/// A call that was not parsed may have returned the state.
#[test]
fn state_that_an_unread_call_may_return_is_not_abandoned() {
    let mut capture = Capture::new(1);
    capture.mounted().on(OPEN, OPENED);
    let mut unread = capture.transaction(Direction::Forward, "24", None);
    unread.procedure = None;
    capture.add(&unread);
    capture.number += 1;
    capture.call("57 h7", "57 0");
    let ends = capture.ends();
    assert_eq!(ends[0], (Kind::Client, End::Destroyed));
    assert!(ends[1..].iter().all(|(_, end)| *end == End::Unknown), "{ends:?}");
}

/// The OPEN of a krb5p session is encrypted. Its CLOSE is not; the client sends it with its machine
/// credential.
#[test]
fn state_may_begin_in_an_encrypted_call() {
    let beginnings = |is_new: bool, is_encrypted: bool| {
        let mut capture = Capture::new(1);
        if is_new {
            capture.mounted();
        }
        if is_encrypted {
            let mut encrypted = capture.transaction(Direction::Forward, "24", None);
            (encrypted.security, encrypted.details) = (Some(Security::GssPrivacy), Details::default());
            capture.add(&encrypted);
            capture.number += 1;
        }
        capture.on(CLOSE, CLOSED);
        let (found, summary) = capture.end();
        let open = found.iter().find(|one| one.kind == Kind::Open).expect("it was closed");
        assert_eq!((open.is_begun(), open.duration()), (false, None));
        let lines: Vec<_> =
            summary.lines().into_iter().filter(|(about, _)| about.starts_with("begun")).collect();
        (
            open.beginning,
            lines.into_iter().map(|(about, text)| format!("{about}: {text}")).collect::<Vec<_>>(),
        )
    };
    let (beginning, lines) = beginnings(true, true);
    assert_eq!(beginning, Beginning::Encrypted);
    assert_eq!(lines, ["begun in an encrypted call: 1 open"]);
    assert_eq!(beginnings(true, false).0, Beginning::Before, "the capture lacks packets");
    assert_eq!(beginnings(false, true).0, Beginning::Unclear);
    assert_eq!(beginnings(false, false).0, Beginning::Before);
}

#[test]
fn the_table_is_bounded() {
    let mut capture = Capture::new(1);
    capture.mounted();
    for number in 0..Table::MOST_LIVE as u32 {
        capture.on("22 'file';25 1 0 0 5 h0 5", "22 0;25 0 1 'bytes'");
        let open = "18 1 1 0 h7 'owner' 0 4";
        capture.on(open, &format!("18 0 1 1 1 {number} 0 h0 h0 4 0 0"));
    }
    let (found, summary) = capture.end();
    // The client ID and the session of the mount, the stateid of the READs, and the opens.
    assert_eq!(found.len(), Table::MOST_LIVE + 3);
    assert_eq!(summary.all(End::NotFollowed), 3);
    assert_eq!(summary.all(End::Open), Table::MOST_LIVE as u64);
}

#[test]
fn words_are_different() {
    for mut words in [Kind::ALL.map(Kind::word).to_vec(), End::ALL.map(End::word).to_vec()] {
        words.sort_unstable();
        assert!(words.windows(2).all(|pair| pair[0] != pair[1]));
    }
}

#[test]
fn ranges_are_joined_and_bounded() {
    let mut ranges = Ranges::default();
    ranges.add(10, 10);
    ranges.add(20, 5);
    ranges.add(0, 0);
    assert_eq!(ranges.list(), [(10, 24)]);
    ranges.remove(12, 2);
    assert_eq!(ranges.list(), [(10, 11), (14, 24)]);
    ranges.add(u64::MAX, 7);
    assert_eq!(ranges.list().last(), Some(&(u64::MAX, u64::MAX)));
    ranges.remove(0, u64::MAX);
    assert!(ranges.is_empty());
    (0..200).for_each(|at| ranges.add(at * 10, 5));
    assert_eq!(ranges.list().len(), Ranges::MOST);
    ranges.remove(0, 10_000);
    assert!(ranges.list().is_empty() && !ranges.is_empty(), "the remaining ranges are unknown");
}

#[test]
fn ended_connections_are_forgotten_unless_packets_are_missing() {
    let mut states = States::default();
    for number in [1, 2] {
        states.line(ConnectionId(number)).scope = Some(number.into());
    }
    states.blind(ConnectionId(2));
    for number in [1, 2] {
        let ended = Connection { id: ConnectionId(number), ..values::connection() };
        states.handle(&Event::Connection(&ended), &mut |_| {});
    }
    let lines: Vec<_> = states.lines.keys().copied().collect();
    assert_eq!((lines, states.blind_scopes().len()), (vec![ConnectionId(2)], 1));
}

proptest! {
    /// For any operations in any order with any results, the counts are right and each number
    /// occurs once.
    #[test]
    fn any_order_of_operations_gives_consistent_lifetimes(
        steps in proptest::collection::vec((0usize..18, 0u32..4, 0usize..4), 0..60),
    ) {
        const STEPS: [(&str, &str); 18] = [
            (EXCHANGE, EXCHANGED),
            (CREATE, CREATED),
            ("44 9 9 9 9", "44 0"),
            ("57 h7", "57 0"),
            (OPEN, OPENED),
            (READ, READ_DONE),
            (CLOSE, CLOSED),
            ("8 1 0 0 6", "8 0"),
            ("12 2 0 h0 h9 1 1 1 0 0 5 1 h7 'owner'", "12 0 1 0 0 7"),
            ("14 2 1 1 0 0 7 h0 h9", "14 0 2 0 0 7"),
            ("50 0 1 2 h0 h9 h1 1 0 0 5 4096", "50 0 1 1 0 0 8 0"),
            ("51 0 1 3 1 h0 h9 1 0 0 8 ''", "51 0 0"),
            ("51 0 1 3 3", "51 0 0"),
            ("60 1 0 0 5 1 0 0 5 h0 h4 h9 0 0 0", "60 0 1 1 0 0 4 h0 0 h0 1 0"),
            ("67 1 0 0 4", "67 0 h9 1 0"),
            ("45 1 0 0 6", "45 0"),
            ("55 2 1 0 0 5 1 0 0 6", "55 0 2 10025 0"),
            ("35 h1 'owner' 1073741824 'tcp' '10.0.0.1.8.1' 1", "35 0 h7 h9"),
        ];
        let mut capture = Capture::new(1);
        for (step, connection, how) in steps {
            let (call, reply) = STEPS[step];
            capture.connection = connection;
            match how {
                0 => capture.call(call, reply),
                1 => capture.on(call, reply),
                2 => capture.unanswered(&format!("{SEQUENCE};{call}")),
                _ => capture.back("4 1 0 0 6 0 'file'", "4 0"),
            };
        }
        let (mut found, _) = capture.end();
        found.sort_by_key(|one| one.number);
        let numbers: Vec<u64> = found.iter().map(|one| one.number).collect();
        prop_assert_eq!(numbers, (1..=found.len() as u64).collect::<Vec<_>>());
        for one in &found {
            prop_assert!(one.ended.is_some() == (one.end != End::Open));
            prop_assert!(one.ended.is_none_or(|at| at.time >= one.first.time));
        }
    }
}
