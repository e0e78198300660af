//! State of NFS version 4.1: stateids and sessions behind their end, reclaiming.

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
        alteration: "a WRITE names the stateid of the file before, which was closed, and succeeds",
        control: basic,
        alter: |capture| write_with(capture, closed(capture, 1)),
        also: &[],
        shows: shown(By::Responder, &[386, 388, 420, 422], "NFS4_OK", ""),
    },
    Trigger {
        rule: "state-stateid-sequence",
        alteration: "an OPEN returns the stateid of an earlier OPEN, which had sequence number 5, with number 2",
        control: basic,
        alter: |capture| {
            set_opened(capture, FIRST_OPEN, &[5]);
            opens_again(capture, 2);
        },
        also: &[],
        shows: shown(By::Responder, &[376, 379, 414, 417], "2", "5 or more"),
    },
    Trigger {
        rule: "state-session-destroyed",
        alteration: "a GETATTR is DESTROY_SESSION, and the session is used on",
        control: basic,
        alter: |capture| {
            let session = session(capture);
            behind_sequence(
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
        alteration: "a GETATTR is DESTROY_CLIENTID, and a session of the client is used on",
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
        alteration: "RECLAIM_COMPLETE comes behind the first file",
        control: basic,
        alter: |capture| {
            reclaim_one_file_system(capture);
            behind_sequence(capture, GETATTR, &[RECLAIM_COMPLETE, 0], &[RECLAIM_COMPLETE, 0]);
        },
        also: &[],
        shows: shown(By::Requester, &[84, 88, 390, 392], "", ""),
    },
    Trigger {
        rule: "state-reclaim-repeated",
        alteration: "a second RECLAIM_COMPLETE succeeds",
        control: basic,
        alter: |capture| behind_sequence(capture, GETATTR, &[RECLAIM_COMPLETE, 0], &[RECLAIM_COMPLETE, 0]),
        also: &[],
        shows: shown(By::Responder, &[24, 26, 390, 392], "", ""),
    },
    Trigger {
        rule: "state-recall-revoked",
        alteration: "the DELEGRETURN behind a recall is answered with NFS4ERR_DELEG_REVOKED",
        control: recall,
        alter: |capture| refuse_return(capture, 10087),
        also: &[],
        shows: shown(By::Requester, &[132, 134, 136, 138], "NFS4ERR_DELEG_REVOKED", ""),
    },
];

/// The OPEN of a file, its WRITE and its CLOSE, and the OPEN and WRITE of the next file.
const FIRST_OPEN: u32 = 0x4cfc_0516;
const FIRST_CLOSE: u32 = 0x4efc_0516;
const SECOND_OPEN: u32 = 0x55fc_0516;
const SECOND_WRITE: u32 = 0x56fc_0516;
/// A GETATTR behind the first file.
const GETATTR: u32 = 0x4ffc_0516;
/// The first DELEGRETURN of the recall session.
const RETURN: u32 = 0x344d_5b14;
/// RECLAIM_COMPLETE of the session.
const RECLAIM: u32 = 0x38fc_0516;

// Operations.
const DESTROY_SESSION: u32 = 44;
const RECLAIM_COMPLETE: u32 = 58;

/// Bytes of the arguments of SEQUENCE, and of its results from the operation on.
const SEQUENCE_ARGUMENTS: usize = 32;
const SEQUENCE_RESULTS: usize = 44;

/// A stateid: its sequence number and the rest.
type Stateid = [u32; 4];

/// The stateid that the first CLOSE names, at the end of the call, with another number.
fn closed(capture: &Capture, number: u32) -> Stateid {
    let call = Message::of(&capture.packets[send_of(capture, CLIENT, FIRST_CLOSE)]);
    let at = call.payload.len() - 16;
    [number, call.word(at + 4), call.word(at + 8), call.word(at + 12)]
}

/// Has the WRITE of the second file name this stateid: behind PUTFH.
fn write_with(capture: &mut Capture, stateid: Stateid) {
    change_call(capture, SECOND_WRITE, |call| {
        let putfh = sequence_at(call) + SEQUENCE_ARGUMENTS;
        let write = putfh + 8 + call.word(putfh + 4).next_multiple_of(4) as usize;
        assert_eq!((call.word(putfh), call.word(write)), (22, 38), "PUTFH and WRITE");
        set(call, write + 4, &stateid);
    });
}

/// Sets the stateid that an OPEN behind PUTFH returns, or the first words of it: in an RDMA Write, for its reply is conveyed by a Reply chunk.
fn set_opened(capture: &mut Capture, xid: u32, words: &[u32]) {
    let reply = Message::of(&capture.packets[send_of(capture, SERVER, xid)]);
    let index = write_to(capture, reply.reply.expect("a Reply chunk")[0].handle);
    let packet = &mut capture.packets[index];
    // Behind XID, message type, reply_stat, verifier and accept_stat; status, tag and count; PUTFH.
    let open = packet.payload().start + 24 + 12 + SEQUENCE_RESULTS + 8;
    assert_eq!(packet.u32(open), 18, "OPEN");
    words.iter().enumerate().for_each(|(index, word)| packet.set_u32(open + 8 + 4 * index, *word));
    packet.seal();
}

/// Has the second OPEN return the stateid of the first one, with this number.
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

/// The client ID for which the session is created: behind tag, minor version, count and the operation.
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

/// Makes a GETATTR one that destroys a client ID.
fn destroy_client(capture: &mut Capture, client: [u32; 2]) {
    const DESTROY_CLIENTID: u32 = 57;
    behind_sequence(capture, GETATTR, &[DESTROY_CLIENTID, client[0], client[1]], &[DESTROY_CLIENTID, 0]);
}

/// Makes a call SEQUENCE and one other operation, with these arguments and results.
fn behind_sequence(capture: &mut Capture, xid: u32, arguments: &[u32], results: &[u32]) {
    change_call(capture, xid, |call| {
        let count = arguments_at(call) + 8;
        call.set_word(count, 2);
        let end = sequence_at(call) + SEQUENCE_ARGUMENTS;
        append(call, end, arguments);
    });
    change_reply(capture, xid, |reply| {
        let at = results_at(reply);
        reply.set_word(at + 8, 2);
        append(reply, at + 12 + SEQUENCE_RESULTS, results);
    });
}

fn append(message: &mut Message, end: usize, words: &[u32]) {
    message.payload.truncate(end);
    message.payload.extend(words.iter().flat_map(|word| word.to_be_bytes()));
}

/// Has the RECLAIM_COMPLETE of the session be about one file system.
fn reclaim_one_file_system(capture: &mut Capture) {
    change_call(capture, RECLAIM, |call| call.set_word(sequence_at(call) + SEQUENCE_ARGUMENTS + 4, 1));
}

/// Has the first DELEGRETURN fail: it is the last operation, and its status the last word.
fn refuse_return(capture: &mut Capture, status: u32) {
    change_reply(capture, RETURN, |reply| {
        let (all, last) = (results_at(reply), reply.payload.len() - 4);
        reply.set_word(all, status);
        reply.set_word(last, status);
    });
}

/// Verdicts of these rules.
fn verdicts(capture: &Capture) -> Vec<(String, Verdict)> {
    let found = found(capture, "state-");
    found.iter().map(|finding| (line(finding), finding.verdict)).collect()
}

/// Number 0 stands for the latest one: the server may have given out the stateid again, in a reply that the capture lacks.
#[test]
fn a_stateid_without_a_number_may_have_been_given_out_again() {
    let mut capture = basic();
    let stateid = closed(&capture, 0);
    write_with(&mut capture, stateid);
    assert_eq!(
        verdicts(&capture).iter().map(|(_, verdict)| *verdict).collect::<Vec<_>>(),
        [Verdict::Inconclusive]
    );
    // A newer number shows that it did.
    let mut capture = basic();
    let stateid = closed(&capture, 2);
    write_with(&mut capture, stateid);
    assert_eq!(verdicts(&capture), []);
    // And so does the OPEN.
    let mut capture = basic();
    opens_again(&mut capture, 2);
    let stateid = closed(&capture, 0);
    write_with(&mut capture, stateid);
    assert_eq!(verdicts(&capture), []);
}

/// What the capture lacks between changes nothing: an old number stays old.
#[test]
fn what_lies_between_does_not_matter() {
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
        assert_eq!(found[0].1, Verdict::Stands, "{found:?}");
    }
}

/// The sessions of another client go on.
#[test]
fn the_end_of_another_client_id_ends_no_session() {
    let mut capture = basic();
    let [high, low] = client(&capture);
    destroy_client(&mut capture, [high, low ^ 1]);
    assert_eq!(verdicts(&capture), []);
}

/// A stateid of which the capture does not show the end, and one that the server refuses.
#[test]
fn a_stateid_whose_end_was_not_captured_is_no_finding() {
    let mut capture = basic();
    let stateid = closed(&capture, 1);
    write_with(&mut capture, stateid);
    let close = send_of(&capture, SERVER, FIRST_CLOSE);
    withhold(&mut capture, close);
    assert_eq!(verdicts(&capture), []);
}

/// The same number twice, and one that goes on, or wraps.
#[test]
fn sequence_numbers_that_go_on_are_no_finding() {
    for (before, number) in [(5, 5), (5, 6), (5, 500), (u32::MAX, 1), (u32::MAX - 1, 2)] {
        let mut capture = basic();
        set_opened(&mut capture, FIRST_OPEN, &[before]);
        opens_again(&mut capture, number);
        assert_eq!(verdicts(&capture), [], "{before}, {number}");
    }
}

/// A session that is destroyed without RECLAIM_COMPLETE: it may have gone over another connection. Where a packet of the client is missing, it
/// may have been that.
#[test]
fn a_reclaim_complete_that_was_not_seen_is_inconclusive() {
    let mut capture = basic();
    reclaim_one_file_system(&mut capture);
    assert_eq!(
        verdicts(&capture).iter().map(|(_, verdict)| *verdict).collect::<Vec<_>>(),
        [Verdict::Inconclusive]
    );
    let whole = basic();
    let gone = [SERVER, CLIENT].map(|sender| whole.packets[send_of(&whole, sender, RECLAIM)].number);
    let lossy = mutate::keep(&whole, |packet| !gone.contains(&packet.number));
    assert_eq!(verdicts(&lossy), []);
}

/// Without the recall in the capture, nobody knows whether it came to the client.
#[test]
fn what_was_revoked_without_a_recall_is_inconclusive() {
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
    // Another error says nothing of the kind.
    let mut capture = recall();
    refuse_return(&mut capture, 10025);
    assert_eq!(verdicts(&capture), []);
}
