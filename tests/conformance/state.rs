//! Triggers and tests of NFSv4.1 state: stateids and sessions after their end, and reclaiming.

use crate::chunks::{arguments_at, change_call, change_reply, results_at, send_of, write_to};
use crate::header::{basic, found, withhold};
use crate::sessions::{recall, sequence_at};
use crate::{By, Trigger, shown};
use rdmascope_conformance::Verdict;
use rdmascope_tests::judged::line;
use rdmascope_tests::mutate::{self, CLIENT, Message, SERVER};
use rdmascope_tests::pcap::{Capture, Packet};

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "state-ended-stateid",
        alteration: "a WRITE names the closed stateid of the previous file, and succeeds",
        control: basic,
        alter: |capture| write_with(capture, closed(capture, 1)),
        also: &[],
        shows: shown(By::Responder, &[386, 388, 420, 422], "NFS4_OK", ""),
    },
    Trigger {
        rule: "state-stateid-old",
        alteration: "an OPEN returns a stateid with sequence number 5, and a later WRITE succeeds with \
            number 4",
        control: basic,
        alter: |capture| {
            number_first_open(capture, 5);
            let stateid = closed(capture, 4);
            name_in_write(capture, FIRST_WRITE, stateid);
        },
        also: &[],
        shows: shown(By::Responder, &[376, 379, 382, 384], "4", "0, or 5 or more"),
    },
    Trigger {
        rule: "state-stateid-file",
        alteration: "a WRITE has a file handle other than that of the CLOSE of the same stateid",
        control: basic,
        alter: |capture| {
            change_call(capture, FIRST_WRITE, |call| {
                let last = write_at(call) - 4;
                call.set_word(last, !call.word(last));
            });
        },
        also: &[],
        shows: shown(By::Responder, &[382, 384, 386, 388], "", ""),
    },
    Trigger {
        rule: "state-lock-conflict",
        alteration: "two lock-owners lock the same bytes of a file for writing, and the first one then \
            unlocks them with the sequence number that it was given",
        control: basic,
        alter: |capture| lock_and_unlock(capture, &Locking::default()),
        also: &[],
        shows: shown(By::Responder, &[390, 392, 406, 408, 410, 412], "NFS4_OK", "NFS4ERR_DENIED"),
    },
    Trigger {
        rule: "state-delegation-conflict",
        alteration: "a client gets a read delegation, another client opens the file for writing instead of \
            for reading, and the server then accepts the delegation's stateid",
        control: || crate::compounds::capture(&two_clients("1")),
        alter: |capture| *capture = crate::compounds::capture(&two_clients("2")),
        also: &[],
        shows: shown(By::Responder, &[8, 9, 110, 111, 212, 213], "NFS4_OK", "NFS4ERR_DELAY"),
    },
    Trigger {
        rule: "state-stateid-sequence",
        alteration: "an OPEN returns the stateid of an earlier OPEN, which had sequence number 5, with number 2",
        control: basic,
        alter: |capture| {
            number_first_open(capture, 5);
            opens_again(capture, 2);
        },
        also: &[],
        shows: shown(By::Responder, &[376, 379, 414, 417], "2", "5 or more"),
    },
    Trigger {
        rule: "state-session-destroyed",
        alteration: "a GETATTR becomes DESTROY_SESSION, and the session is used afterwards",
        control: basic,
        alter: |capture| {
            let session = session(capture);
            replace_operation(
                capture,
                GETATTR,
                &[&[DESTROY_SESSION], &session[..]].concat(),
                &[DESTROY_SESSION, 0],
            );
        },
        also: &[],
        shows: shown(By::Responder, &[390, 392, 394, 396], "NFS4_OK", ""),
    },
    Trigger {
        rule: "state-session-destroyed",
        alteration: "a GETATTR becomes DESTROY_CLIENTID, and a session of the client is used afterwards",
        control: basic,
        alter: |capture| {
            let client = client(capture);
            destroy_client(capture, client);
        },
        also: &[],
        shows: shown(By::Responder, &[390, 392, 394, 396], "NFS4_OK", ""),
    },
    Trigger {
        rule: "state-reclaim-complete",
        alteration: "RECLAIM_COMPLETE comes after the first file",
        control: basic,
        alter: |capture| {
            reclaim_one_file_system(capture);
            replace_operation(capture, GETATTR, &[RECLAIM_COMPLETE, 0], &[RECLAIM_COMPLETE, 0]);
        },
        also: &[],
        shows: shown(By::Requester, &[84, 88, 390, 392], "", ""),
    },
    Trigger {
        rule: "state-reclaim-repeated",
        alteration: "a second RECLAIM_COMPLETE succeeds",
        control: basic,
        alter: |capture| replace_operation(capture, GETATTR, &[RECLAIM_COMPLETE, 0], &[RECLAIM_COMPLETE, 0]),
        also: &[],
        shows: shown(By::Responder, &[24, 26, 390, 392], "", ""),
    },
    Trigger {
        rule: "state-recall-revoked",
        alteration: "the DELEGRETURN after a recall is answered with NFS4ERR_DELEG_REVOKED",
        control: recall,
        alter: |capture| refuse_return(capture, 10087),
        also: &[],
        shows: shown(By::Requester, &[132, 134, 136, 138], "NFS4ERR_DELEG_REVOKED", ""),
    },
];

/// A script of a client with a read delegation, and another client that opens the file with
/// `access` while the first one uses the delegation.
fn two_clients(access: &str) -> String {
    format!(
        "- create:1,s | - create:2,t | s.0.1 putfh:f share:1,fh,x.1,d.1,1 getfh:f | later \
         | t.0.1 putfh:f share:{access},fh,y.1 getfh:f | later | s.0.2 putfh:f setattr:d.1"
    )
}

/// The OPEN, WRITE and CLOSE of a file, and the OPEN and WRITE of the next file.
const FIRST_OPEN: u32 = 0x4cfc_0516;
const FIRST_WRITE: u32 = 0x4dfc_0516;
const FIRST_CLOSE: u32 = 0x4efc_0516;
const SECOND_OPEN: u32 = 0x55fc_0516;
const SECOND_WRITE: u32 = 0x56fc_0516;
/// A GETATTR after the first file.
const GETATTR: u32 = 0x4ffc_0516;
const LATER_GETATTR: u32 = 0x53fc_0516;
const ACCESS: u32 = 0x54fc_0516;
/// The first DELEGRETURN of the recall session.
const RETURN: u32 = 0x344d_5b14;
/// RECLAIM_COMPLETE of the session.
const RECLAIM: u32 = 0x38fc_0516;

// Operations.
const PUTFH: u32 = 22;
const DESTROY_SESSION: u32 = 44;
const RECLAIM_COMPLETE: u32 = 58;

/// The length of the arguments of SEQUENCE, and of its results including the operation.
const SEQUENCE_ARGUMENTS: usize = 32;
const SEQUENCE_RESULTS: usize = 44;

/// A stateid: its sequence number, and the rest.
type Stateid = [u32; 4];

/// The stateid of the first CLOSE, at the end of the call, with another number.
fn closed(capture: &Capture, number: u32) -> Stateid {
    let call = Message::of(&capture.packets[send_of(capture, CLIENT, FIRST_CLOSE)]);
    let at = call.payload.len() - 16;
    [number, call.word(at + 4), call.word(at + 8), call.word(at + 12)]
}

/// Turns the WRITE of the second file into one of the first file with this stateid.
fn write_with(capture: &mut Capture, stateid: Stateid) {
    let first = Message::of(&capture.packets[send_of(capture, CLIENT, FIRST_WRITE)]);
    let handle = first.payload[putfh_at(&first)..write_at(&first)].to_vec();
    change_call(capture, SECOND_WRITE, |call| {
        let at = putfh_at(call)..write_at(call);
        call.payload[at].copy_from_slice(&handle);
    });
    name_in_write(capture, SECOND_WRITE, stateid);
}

/// Sets the stateid of a WRITE.
fn name_in_write(capture: &mut Capture, xid: u32, stateid: Stateid) {
    change_call(capture, xid, |call| {
        let write = write_at(call);
        set(call, write + 4, &stateid);
    });
}

/// The offset of the PUTFH after SEQUENCE.
fn putfh_at(call: &Message) -> usize {
    sequence_at(call) + SEQUENCE_ARGUMENTS
}

/// The offset of the WRITE after PUTFH.
fn write_at(call: &Message) -> usize {
    let putfh = putfh_at(call);
    let write = putfh + 8 + call.word(putfh + 4).next_multiple_of(4) as usize;
    assert_eq!((call.word(putfh), call.word(write)), (PUTFH, 38), "PUTFH and WRITE");
    write
}

/// Sets the number of the stateid that the first OPEN returns and that the CLOSE names.
fn number_first_open(capture: &mut Capture, number: u32) {
    set_opened(capture, FIRST_OPEN, &[number]);
    let stateid = closed(capture, number);
    change_call(capture, FIRST_CLOSE, |call| {
        let at = call.payload.len() - 16;
        set(call, at, &stateid);
    });
}

/// Two locks, and the LOCKU of the first one.
struct Locking {
    /// nfs_lock_type4, offset and length of each.
    ranges: [(u32, u64, u64); 2],
    /// Lock-owners of four bytes.
    owners: [u32; 2],
    /// File handles of four bytes.
    files: [u32; 2],
    /// The sequence number in LOCKU; the first lock's is 1.
    number: u32,
}

impl Default for Locking {
    /// WRITE_LT of bytes 0 to 99, and of bytes from 50 on.
    fn default() -> Locking {
        Locking { ranges: [(2, 0, 100), (2, 50, u64::MAX)], owners: [1, 2], files: [7, 7], number: 1 }
    }
}

fn lock_and_unlock(capture: &mut Capture, locking: &Locking) {
    let [first, second] = [0, 1].map(|index| {
        let ((kind, offset, length), file) = (locking.ranges[index], locking.files[index]);
        let lock = [&[PUTFH, 4, file, 12, kind, 0], &words(offset)[..], &words(length)].concat();
        // A new lock-owner: its open stateid, and a client ID with its name.
        [&lock[..], &[1, 0, 1, 5, 5, file, 0, 0, 0, 4, locking.owners[index]]].concat()
    });
    replace_operations(capture, GETATTR, 2, &first, &[PUTFH, 0, 12, 0, 1, 8, 8, 8]);
    replace_operations(capture, LATER_GETATTR, 2, &second, &[PUTFH, 0, 12, 0, 1, 9, 9, 9]);
    let unlock =
        [&[PUTFH, 4, locking.files[0], 14, 2, 0, locking.number, 8, 8, 8], &words(0)[..], &words(100)]
            .concat();
    replace_operations(capture, ACCESS, 2, &unlock, &[PUTFH, 0, 14, 0, locking.number + 1, 8, 8, 8]);
}

fn words(number: u64) -> [u32; 2] {
    [(number >> 32) as u32, number as u32]
}

/// Sets the stateid that an OPEN returns, or its first words. The reply is in a Reply chunk, so
/// this changes an RDMA Write.
fn set_opened(capture: &mut Capture, xid: u32, words: &[u32]) {
    let reply = Message::of(&capture.packets[send_of(capture, SERVER, xid)]);
    let index = write_to(capture, reply.reply.expect("a Reply chunk")[0].handle);
    let packet = &mut capture.packets[index];
    // After XID, message type, reply_stat, verifier and accept_stat; status, tag and count; PUTFH.
    let open = packet.payload().start + 24 + 12 + SEQUENCE_RESULTS + 8;
    assert_eq!(packet.u32(open), 18, "OPEN");
    words.iter().enumerate().for_each(|(index, word)| packet.set_u32(open + 8 + 4 * index, *word));
    packet.seal();
}

/// Makes the second OPEN return the stateid of the first one, with this number.
fn opens_again(capture: &mut Capture, number: u32) {
    let stateid = closed(capture, number);
    set_opened(capture, SECOND_OPEN, &stateid);
}

fn set(message: &mut Message, at: usize, words: &[u32]) {
    words.iter().enumerate().for_each(|(index, word)| message.set_word(at + 4 * index, *word));
}

/// The session ID of the GETATTR.
fn session(capture: &Capture) -> [u32; 4] {
    let call = Message::of(&capture.packets[send_of(capture, CLIENT, GETATTR)]);
    [0, 4, 8, 12].map(|at| call.word(sequence_at(&call) + at))
}

/// The client ID in CREATE_SESSION, after tag, minor version, count and the operation.
fn client(capture: &Capture) -> [u32; 2] {
    const CREATE_SESSION: u32 = 43;
    let creates = |packet: &&Packet| {
        packet.starts_message()
            && packet.source() == CLIENT
            && packet.opcode() == mutate::opcode::SEND_ONLY
            && {
                let call = Message::of(packet);
                call.payload.len() > 100
                    && call.word(20) == 1
                    && call.word(arguments_at(&call) + 12) == CREATE_SESSION
            }
    };
    let call = Message::of(capture.packets.iter().find(creates).expect("the session is created"));
    [16, 20].map(|at| call.word(arguments_at(&call) + at))
}

/// Turns a GETATTR into DESTROY_CLIENTID.
fn destroy_client(capture: &mut Capture, client: [u32; 2]) {
    const DESTROY_CLIENTID: u32 = 57;
    replace_operation(capture, GETATTR, &[DESTROY_CLIENTID, client[0], client[1]], &[DESTROY_CLIENTID, 0]);
}

/// Turns a call into SEQUENCE and one other operation, with these arguments and results.
fn replace_operation(capture: &mut Capture, xid: u32, arguments: &[u32], results: &[u32]) {
    replace_operations(capture, xid, 1, arguments, results);
}

/// Turns a call into SEQUENCE and some other operations, with these arguments and results.
fn replace_operations(capture: &mut Capture, xid: u32, operations: u32, arguments: &[u32], results: &[u32]) {
    change_call(capture, xid, |call| {
        let count = arguments_at(call) + 8;
        call.set_word(count, 1 + operations);
        let end = sequence_at(call) + SEQUENCE_ARGUMENTS;
        append(call, end, arguments);
    });
    change_reply(capture, xid, |reply| {
        let at = results_at(reply);
        reply.set_word(at + 8, 1 + operations);
        append(reply, at + 12 + SEQUENCE_RESULTS, results);
    });
}

fn append(message: &mut Message, end: usize, words: &[u32]) {
    message.payload.truncate(end);
    message.payload.extend(words.iter().flat_map(|word| word.to_be_bytes()));
}

/// Limits the session's RECLAIM_COMPLETE to one file system.
fn reclaim_one_file_system(capture: &mut Capture) {
    change_call(capture, RECLAIM, |call| call.set_word(sequence_at(call) + SEQUENCE_ARGUMENTS + 4, 1));
}

/// Makes the first DELEGRETURN fail. It is the last operation, and its status is the last word.
fn refuse_return(capture: &mut Capture, status: u32) {
    change_reply(capture, RETURN, |reply| {
        let (all, last) = (results_at(reply), reply.payload.len() - 4);
        reply.set_word(all, status);
        reply.set_word(last, status);
    });
}

/// The findings of these rules and their verdicts.
fn verdicts(capture: &Capture) -> Vec<(String, Verdict)> {
    let found = found(capture, "state-");
    found.iter().map(|finding| (line(finding), finding.verdict)).collect()
}

/// Number 0 means the latest one: the server may have issued the stateid again, in a reply that the
/// capture lacks.
#[test]
fn stateid_with_number_0_may_have_been_issued_again() {
    let mut capture = basic();
    let stateid = closed(&capture, 0);
    write_with(&mut capture, stateid);
    assert_eq!(
        verdicts(&capture).iter().map(|(_, verdict)| *verdict).collect::<Vec<_>>(),
        [Verdict::Inconclusive]
    );
    // A newer number proves that it did.
    let mut capture = basic();
    let stateid = closed(&capture, 2);
    write_with(&mut capture, stateid);
    assert_eq!(verdicts(&capture), []);
    // The OPEN does, too.
    let mut capture = basic();
    opens_again(&mut capture, 2);
    let stateid = closed(&capture, 0);
    write_with(&mut capture, stateid);
    assert_eq!(verdicts(&capture), []);
}

/// Missing exchanges in between change nothing: an old number stays old.
#[test]
fn missing_exchanges_in_between_do_not_matter() {
    for xid in [GETATTR, SECOND_OPEN] {
        let mut capture = basic();
        let stateid = closed(&capture, 1);
        write_with(&mut capture, stateid);
        for sender in [SERVER, CLIENT] {
            let packet = send_of(&capture, sender, xid);
            withhold(&mut capture, packet);
        }
        let found = verdicts(&capture);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].1, Verdict::Certain, "{found:?}");
    }
}

/// The sessions of another client are not affected.
#[test]
fn end_of_another_client_id_ends_no_session() {
    let mut capture = basic();
    let [high, low] = client(&capture);
    destroy_client(&mut capture, [high, low ^ 1]);
    assert_eq!(verdicts(&capture), []);
}

/// The capture lacks the end of the stateid.
#[test]
fn stateid_without_a_captured_end_gives_no_finding() {
    let mut capture = basic();
    let stateid = closed(&capture, 1);
    write_with(&mut capture, stateid);
    let close = send_of(&capture, SERVER, FIRST_CLOSE);
    withhold(&mut capture, close);
    assert_eq!(verdicts(&capture), []);
}

/// The same number twice, a higher one, and one that wraps.
#[test]
fn increasing_sequence_numbers_give_no_finding() {
    for (before, number) in [(5, 5), (5, 6), (5, 500), (u32::MAX, 1), (u32::MAX - 1, 2)] {
        let mut capture = basic();
        number_first_open(&mut capture, before);
        opens_again(&mut capture, number);
        assert_eq!(verdicts(&capture), [], "{before}, {number}");
    }
}

/// A session is destroyed without RECLAIM_COMPLETE: it may have been sent over another connection.
/// A missing packet of the client may have been that call.
#[test]
fn missing_reclaim_complete_is_inconclusive() {
    let mut capture = basic();
    reclaim_one_file_system(&mut capture);
    assert_eq!(
        verdicts(&capture).iter().map(|(_, verdict)| *verdict).collect::<Vec<_>>(),
        [Verdict::Inconclusive]
    );
    let original = basic();
    let gone = [SERVER, CLIENT].map(|sender| original.packets[send_of(&original, sender, RECLAIM)].number);
    let lossy = mutate::keep(&original, |packet| !gone.contains(&packet.number));
    assert_eq!(verdicts(&lossy), []);
}

/// Without the recall in the capture, it is unknown whether the client received it.
#[test]
fn revocation_without_a_recall_is_inconclusive() {
    let mut capture = recall();
    refuse_return(&mut capture, 10087);
    for (sender, xid) in [(SERVER, crate::sessions::RECALL), (CLIENT, crate::sessions::RECALL)] {
        let packet = send_of(&capture, sender, xid);
        withhold(&mut capture, packet);
    }
    assert_eq!(
        verdicts(&capture).iter().map(|(_, verdict)| *verdict).collect::<Vec<_>>(),
        [Verdict::Inconclusive]
    );
    // Another error is not judged.
    let mut capture = recall();
    refuse_return(&mut capture, 10025);
    assert_eq!(verdicts(&capture), []);
}

/// Number 0 means the latest number, and an unknown number may be newer.
#[test]
fn current_stateid_number_gives_no_finding() {
    for number in [0, 5, 6] {
        let mut capture = basic();
        number_first_open(&mut capture, 5);
        let stateid = closed(&capture, number);
        name_in_write(&mut capture, FIRST_WRITE, stateid);
        assert_eq!(verdicts(&capture), [], "{number}");
    }
    // If the capture lacks the OPEN, the number is unknown.
    let mut capture = basic();
    number_first_open(&mut capture, 5);
    let stateid = closed(&capture, 4);
    name_in_write(&mut capture, FIRST_WRITE, stateid);
    let open = send_of(&capture, SERVER, FIRST_OPEN);
    withhold(&mut capture, open);
    assert_eq!(verdicts(&capture), []);
}

/// Compatible locks, and one without proof that it was held.
#[test]
fn compatible_locks_give_no_finding() {
    let ordinary = Locking::default();
    for (label, locking) in [
        ("both only read", Locking { ranges: [(1, 0, 100), (3, 50, 100)], ..ordinary }),
        ("they do not overlap", Locking { ranges: [(2, 0, 100), (2, 100, 1)], ..Locking::default() }),
        ("one lock-owner, with two opens", Locking { owners: [1, 1], ..Locking::default() }),
        ("two files", Locking { files: [7, 8], ..Locking::default() }),
        ("another LOCK or LOCKU came between", Locking { number: 2, ..Locking::default() }),
        ("number 0 proves nothing", Locking { number: 0, ..Locking::default() }),
    ] {
        let mut capture = basic();
        lock_and_unlock(&mut capture, &locking);
        assert_eq!(verdicts(&capture), [], "{label}");
    }
}

/// Two locks that share one byte overlap, and a write lock excludes readers.
#[test]
fn locks_that_share_one_byte_conflict() {
    for ranges in [[(2, 0, 100), (2, 99, 1)], [(1, 50, 1), (4, 0, 51)], [(4, 0, u64::MAX), (1, u64::MAX, 1)]]
    {
        let mut capture = basic();
        lock_and_unlock(&mut capture, &Locking { ranges, ..Locking::default() });
        assert_eq!(verdicts(&capture).len(), 1, "{ranges:?}");
    }
}

/// Without any one of the three replies there is no finding.
#[test]
fn lock_conflict_needs_three_replies() {
    for xid in [GETATTR, LATER_GETATTR, ACCESS] {
        let mut capture = basic();
        lock_and_unlock(&mut capture, &Locking::default());
        let reply = send_of(&capture, SERVER, xid);
        withhold(&mut capture, reply);
        assert_eq!(verdicts(&capture), [], "{xid:#x}");
    }
}
