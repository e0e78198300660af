//! Triggers and tests of the statuses with which operations fail.

use crate::chunks::{change_reply, plain_calls, results_at, send_of, version_3};
use crate::header::{basic, found};
use crate::sessions::{RECALL, recall, sequence_at};
use crate::{By, Trigger, shown};
use rdmascope_tests::judged::line;
use rdmascope_tests::mutate::{self, CLIENT, Message};
use rdmascope_tests::pcap::Capture;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "status-of-version",
        alteration: "an NFSv3 GETATTR fails with status 10012",
        control: version_3,
        alter: |capture| refuse_version_3(capture, 10012),
        also: &[],
        shows: shown(By::Responder, &[874, 876], "10012", ""),
    },
    Trigger {
        rule: "status-of-version",
        alteration: "a PUTFH of minor version 1 fails with NFS4ERR_WRONG_LFS",
        control: basic,
        alter: |capture| refuse(capture, PUTFH, 10092),
        also: &[],
        shows: shown(By::Responder, &[390, 392], "NFS4ERR_WRONG_LFS", ""),
    },
    Trigger {
        rule: "status-of-version",
        alteration: "a PUTFH of minor version 1 fails with NFS4ERR_STALE_STATEID",
        control: basic,
        alter: |capture| refuse(capture, PUTFH, 10023),
        also: &[],
        shows: shown(By::Responder, &[390, 392], "NFS4ERR_STALE_STATEID", ""),
    },
    Trigger {
        rule: "status-of-operation",
        alteration: "a PUTFH fails with NFS4ERR_EXIST",
        control: basic,
        alter: |capture| refuse(capture, PUTFH, 17),
        also: &[],
        shows: shown(By::Responder, &[390, 392], "NFS4ERR_EXIST", ""),
    },
    Trigger {
        rule: "status-of-operation",
        alteration: "a client answers CB_RECALL with NFS4ERR_NOENT",
        control: recall,
        alter: |capture| refuse_recall(capture, 2),
        also: &[],
        shows: shown(By::Requester, &[132, 134], "NFS4ERR_NOENT", ""),
    },
];

/// A GETATTR in the NFSv4.1 session: SEQUENCE, PUTFH, GETATTR.
const GETATTR: u32 = 0x4ffc_0516;
const PUTFH: u32 = 22;
/// The number and the status of OP_ILLEGAL.
const ILLEGAL: u32 = 10_044;
const SEQUENCE: u32 = 53;
const CB_RECALL: u32 = 4;

/// Makes an NFSv3 GETATTR fail.
fn refuse_version_3(capture: &mut Capture, status: u32) {
    let xid = plain_calls(capture, 1)[2];
    change_reply(capture, xid, |reply| {
        let at = results_at(reply);
        reply.payload.truncate(at + 4);
        reply.set_word(at, status);
    });
}

/// Makes the operation after SEQUENCE or CB_SEQUENCE fail.
fn fail(reply: &mut Message, operation: u32, status: u32) {
    let at = results_at(reply);
    // Status, tag and count. Only the result of SEQUENCE has sr_status_flags.
    let sequence = if reply.word(at + 12) == SEQUENCE { 44 } else { 40 };
    let result = at + 12 + sequence;
    assert_eq!(reply.word(result), operation);
    reply.payload.truncate(result + 4);
    reply.payload.extend(status.to_be_bytes());
    reply.set_word(at, status);
    reply.set_word(at + 8, 2);
}

fn refuse(capture: &mut Capture, operation: u32, status: u32) {
    change_reply(capture, GETATTR, |reply| fail(reply, operation, status));
}

fn refuse_recall(capture: &mut Capture, status: u32) {
    let answer = send_of(capture, CLIENT, RECALL);
    mutate::change_message(&mut capture.packets[answer], |reply| fail(reply, CB_RECALL, status));
}

/// The findings of these rules.
fn lines(capture: &Capture) -> Vec<String> {
    found(capture, "status-").iter().map(line).collect()
}

/// Errors that RFC 8881 lists for PUTFH, and those for all operations.
#[test]
fn listed_errors_give_no_finding() {
    for status in [70, 10001, 10016, 10019, 10008, 10006, 10036, 10066, 10070, 10078] {
        let mut capture = basic();
        refuse(&mut capture, PUTFH, status);
        assert!(lines(&capture).is_empty(), "{status}: {:?}", lines(&capture));
    }
}

/// RFC 7530, section 16.2: the number of the result is that of OP_ILLEGAL.
#[test]
fn known_operation_answered_as_illegal_is_found() {
    let mut capture = basic();
    change_reply(&mut capture, GETATTR, |reply| {
        fail(reply, PUTFH, ILLEGAL);
        let result = reply.payload.len() - 8;
        reply.set_word(result, ILLEGAL);
    });
    let lines = lines(&capture);
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains("PUTFH is answered as an illegal operation"), "{lines:?}");
}

/// RFC 7862, section 13: an OPTIONAL operation may be answered as unsupported.
#[test]
fn optional_operation_may_be_unsupported() {
    let mut capture = recall();
    refuse_recall(&mut capture, 10004);
    assert!(lines(&capture).is_empty(), "{:?}", lines(&capture));
}

/// The lists in RFC 1813 are only a guide.
#[test]
fn nfs3_procedures_may_fail_with_any_nfs3_error() {
    let mut capture = version_3();
    refuse_version_3(&mut capture, 28);
    assert!(lines(&capture).is_empty(), "{:?}", lines(&capture));
}

/// A later document may have defined the number.
#[test]
fn unknown_status_is_a_fault_in_complete_minor_versions() {
    for (minor_version, times) in [(0, 1), (1, 1), (2, 0), (3, 0)] {
        let mut capture = basic();
        refuse(&mut capture, PUTFH, 10200);
        crate::chunks::change_call(&mut capture, GETATTR, |call| {
            let version = sequence_at(call) - 12;
            assert_eq!(call.word(version), 1, "the minor version");
            call.set_word(version, minor_version);
        });
        assert_eq!(lines(&capture).len(), times, "{minor_version}: {:?}", lines(&capture));
    }
}
