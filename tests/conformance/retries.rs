//! Triggers and tests of calls that are sent again.

use crate::chunks::reply::{getattr, refuse};
use crate::chunks::{change_call, change_reply, plain_calls, results_at, send_of, version_3};
use crate::header::{connection, exchanges, found, withhold};
use crate::{By, Trigger, shown};
use rdmascope_tests::mutate::{self, CLIENT, Message, Segment};
use rdmascope_tests::pcap::Capture;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "retry-without-room",
        alteration: "a GETATTR is answered with ERR_CHUNK, and so is the same call with another XID",
        control: version_3,
        alter: |capture| refuse_twice(capture, None),
        also: &[],
        shows: shown(By::Requester, &[874, 876, 1546, 1548], "0 bytes", "more than 0 bytes"),
    },
    Trigger {
        rule: "retry-executed-twice",
        alteration: "a REMOVE without a reply is sent again on the next connection, where it fails with \
            NFS3ERR_NOENT",
        control: twice,
        alter: |capture| call_again(capture, REMOVE, 2),
        also: &[],
        shows: shown(By::Responder, &[1710, 3431, 3433], "NFS3ERR_NOENT", ""),
    },
];

/// Refuses a GETATTR with ERR_CHUNK, and the same call with another XID and this Reply chunk as
/// well.
fn refuse_twice(capture: &mut Capture, reply_chunk: Option<Segment>) {
    let first = getattr(capture);
    let again = *plain_calls(capture, 1).last().expect("it has several");
    let original = Message::of(&capture.packets[send_of(capture, CLIENT, first)]);
    change_call(capture, again, |call| {
        let xid = call.xid;
        call.payload = original.payload.clone();
        call.set_word(0, xid);
        call.reply = reply_chunk.map(|segment| vec![segment]);
    });
    refuse(capture, first);
    refuse(capture, again);
}

/// The NFSv3 session twice, the second time a minute later on another connection.
fn twice() -> Capture {
    let first = version_3();
    mutate::merge(&first, &mutate::on_another_connection(&first, 60_000_000_000))
}

/// NFSv3 procedures.
const ACCESS: u32 = 4;
const CREATE: u32 = 8;
const REMOVE: u32 = 12;

/// Removes the reply to a call of this procedure on the first connection, and sets the status of
/// its reply on the second.
fn call_again(capture: &mut Capture, procedure: u32, status: u32) {
    let is_wanted =
        |capture: &Capture, call: usize| Message::of(&capture.packets[call]).word(20) == procedure;
    let calls: Vec<(usize, usize)> =
        exchanges(capture).into_iter().filter(|(call, _)| is_wanted(capture, *call)).collect();
    let second = connection(capture, capture.packets.len() - 1);
    let (_, reply) = *calls.iter().rfind(|(call, _)| second.contains(call)).expect("a call");
    let xid = capture.packets[reply].xid();
    mutate::change_message(&mut capture.packets[reply], |reply| {
        let at = results_at(reply);
        reply.payload.truncate(at);
        // The status, and wcc_data without attributes.
        reply.payload.extend([status, 0, 0].map(u32::to_be_bytes).concat());
    });
    let left = calls.iter().find(|(call, _)| capture.packets[*call].xid() == xid).expect("the first one");
    withhold(capture, left.1);
}

#[test]
fn call_with_more_room_is_a_valid_retry() {
    let mut capture = version_3();
    refuse_twice(&mut capture, Some(Segment { handle: 7, length: 4096, offset: 0x7000_0000 }));
    assert!(found(&capture, "retry").is_empty());
    // The second attempt of the same call is answered, so it needed no more room.
    let mut capture = version_3();
    let first = getattr(&capture);
    refuse(&mut capture, first);
    assert!(found(&capture, "retry").is_empty());
}

/// Calls are equal if all their arguments were parsed and are equal.
#[test]
fn other_or_unreadable_call_is_no_retry() {
    let retried = |change: fn(&mut Message)| {
        let mut capture = version_3();
        refuse_twice(&mut capture, None);
        let calls = plain_calls(&capture, 1);
        for xid in [getattr(&capture), calls[calls.len() - 1]] {
            change_call(&mut capture, xid, change);
        }
        found(&capture, "retry").len()
    };
    assert_eq!(retried(|call| call.credits += 1), 1, "the same call");
    assert_eq!(retried(|call| call.set_word(12, 300_000)), 0, "a program without a binding");
    assert_eq!(retried(|call| call.payload.truncate(call.payload.len() - 8)), 0, "arguments that end early");
    let mut capture = version_3();
    let (first, other) = (getattr(&capture), plain_calls(&capture, ACCESS)[0]);
    refuse(&mut capture, first);
    refuse(&mut capture, other);
    assert_eq!(found(&capture, "retry").len(), 0, "GETATTR and ACCESS");
}

/// A refused call is remembered even if another one is refused before it is sent again.
#[test]
fn several_refused_calls_are_remembered() {
    let mut capture = version_3();
    refuse_twice(&mut capture, None);
    let first = send_of(&capture, CLIENT, getattr(&capture));
    let between =
        plain_calls(&capture, ACCESS).into_iter().find(|xid| send_of(&capture, CLIENT, *xid) > first);
    refuse(&mut capture, between.expect("an ACCESS comes in between"));
    assert_eq!(found(&capture, "retry").len(), 1);
}

/// A repeated CREATE finds the object, and a repeated REMOVE does not.
#[test]
fn repeated_execution_is_recognized_by_call_and_status() {
    for (procedure, status, message) in [
        (CREATE, 17, Some("CREATE that was sent again gives NFS3ERR_EXIST")),
        (CREATE, 2, None),
        (REMOVE, 17, None),
        (REMOVE, 2, Some("REMOVE that was sent again gives NFS3ERR_NOENT")),
    ] {
        let mut capture = twice();
        call_again(&mut capture, procedure, status);
        let found = found(&capture, "retry");
        let messages: Vec<&str> = found.iter().map(|finding| &finding.message[..]).collect();
        let expected =
            message.map(|message| format!("{message}: the server did not remember its first reply"));
        assert_eq!(messages, Vec::from_iter(expected.as_deref()), "{procedure} {status}");
        assert!(found.iter().all(|finding| finding.by_requester == Some(false)), "{found:?}");
    }
}

#[test]
fn repeated_first_reply_gives_no_finding() {
    for status in [0, 13] {
        let mut capture = twice();
        call_again(&mut capture, REMOVE, status);
        assert!(found(&capture, "retry").is_empty(), "{status}");
        assert_eq!(found(&capture, "rpc-replay").len(), 1, "it came again");
    }
    // NOENT for a call that was not sent again does not concern the server's reply cache.
    let mut capture = version_3();
    let remove =
        exchanges(&capture).into_iter().find(|(call, _)| Message::of(&capture.packets[*call]).word(20) == 12);
    let xid = capture.packets[remove.expect("a REMOVE").0].xid().expect("it is a message");
    change_reply(&mut capture, xid, |reply| {
        let at = results_at(reply);
        reply.payload.truncate(at);
        reply.payload.extend([2, 0, 0].map(u32::to_be_bytes).concat());
    });
    assert!(found(&capture, "retry").is_empty());
}
