//! Triggers and tests of RPCSEC_GSS.

use crate::header::{basic, found};
use crate::{By, Trigger, shown};
use rdmascope_conformance::Verdict;
use rdmascope_tests::mutate::{self, CLIENT, Message, SERVER};
use rdmascope_tests::pcap::Capture;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "gss-sequence-repeated",
        alteration: "the 30th call has the sequence number of the 20th",
        control: authenticated,
        alter: |capture| set_number(capture, 30, 20),
        also: &[],
        shows: shown(By::Requester, &[90, 402], "20", ""),
    },
    Trigger {
        rule: "gss-sequence-window",
        alteration: "the 30th call, with a window of 8, has a sequence number that is 13 lower and unused",
        control: authenticated_with_gaps,
        alter: |capture| set_number(capture, 30, 47),
        also: &[],
        shows: shown(By::Requester, &[398, 402], "47", "51 or more"),
    },
];

/// The offset of the length of the credential, after xid, msg_type, rpcvers, prog, vers, proc and
/// the flavor.
const LENGTH: usize = 28;
/// The offset of seq_num, after that length, version and gss_proc.
const NUMBER: usize = LENGTH + 4 + 8;

/// The basic session with RPCSEC_GSS instead of AUTH_SYS, without protection of arguments. The
/// first call establishes the context, with a window of 8. The sequence numbers of later calls are
/// multiples of `step`.
fn with_gss(step: u32) -> Capture {
    let mut capture = basic();
    let mut number = 0;
    let mut established = false;
    for index in 0..capture.packets.len() {
        let packet = &mut capture.packets[index];
        let is_call =
            packet.starts_message() && packet.source() == CLIENT && packet.payload().len() >= 28 + 40;
        if !is_call {
            continue;
        }
        let message = Message::of(packet);
        if message.payload.len() < 40 || message.word(4) != 0 {
            continue;
        }
        let flavor = message.word(24);
        if flavor == 0 && !established {
            // NULL becomes RPCSEC_GSS_INIT, and its reply grants the context.
            established = true;
            let xid = message.xid;
            mutate::change_message(packet, |call| {
                call.payload.truncate(24);
                // Credential: version 1, RPCSEC_GSS_INIT, no sequence number, rpc_gss_svc_none, no
                // handle; no verifier; an empty token.
                let words = [6, 20, 1, 1, 0, 1, 0, 0, 0, 0];
                call.payload.extend(words.map(u32::to_be_bytes).concat());
            });
            let reply = capture
                .packets
                .iter()
                .position(|packet| packet.source() == SERVER && packet.xid() == Some(xid));
            mutate::change_message(&mut capture.packets[reply.expect("it is answered")], |reply| {
                // The handle, GSS_S_COMPLETE, the window, an empty token.
                reply.payload.extend(handle_of(HANDLE));
                reply.payload.extend([0, 0, 8, 0].map(u32::to_be_bytes).concat());
            });
        } else if flavor == 1 {
            number += step;
            mutate::change_message(packet, |call| {
                let length = call.word(LENGTH) as usize;
                assert_eq!(length, 20 + HANDLE, "all credentials have this length");
                call.set_word(24, 6);
                for (at, word) in [1, 0, number, 1].into_iter().enumerate() {
                    call.set_word(LENGTH + 4 + 4 * at, word);
                }
                let handle = handle_of(HANDLE);
                call.payload[LENGTH + 20..][..handle.len()].copy_from_slice(&handle);
            });
        }
    }
    capture
}

/// The length of the context handle, chosen so that the credential is as long as the AUTH_SYS one.
const HANDLE: usize = 8;

fn handle_of(length: usize) -> Vec<u8> {
    [(length as u32).to_be_bytes().to_vec(), vec![0x77; length]].concat()
}

fn authenticated() -> Capture {
    with_gss(1)
}

fn authenticated_with_gaps() -> Capture {
    with_gss(2)
}

/// Sets the sequence number of the nth call that has one.
fn set_number(capture: &mut Capture, nth: usize, number: u32) {
    let is_wanted = |packet: &&mut rdmascope_tests::pcap::Packet| {
        packet.starts_message() && packet.source() == CLIENT && packet.payload().len() > 100 && {
            let message = Message::of(packet);
            message.payload.len() > 44
                && message.word(4) == 0
                && message.word(24) == 6
                && message.word(36) == 0
        }
    };
    let call =
        capture.packets.iter_mut().filter(is_wanted).nth(nth - 1).expect("the session has enough calls");
    mutate::change_message(call, |call| call.set_word(NUMBER, number));
}

/// Numbers within the window may come in any order.
#[test]
fn number_within_the_window_is_allowed() {
    let mut capture = authenticated_with_gaps();
    // The 29th call has 58, so 51 is the lowest of eight.
    set_number(&mut capture, 30, 51);
    assert!(found(&capture, "gss").is_empty());
    set_number(&mut capture, 30, 49);
    assert_eq!(found(&capture, "gss").len(), 1);
    // Without the reply that grants the window, its size is unknown.
    let reply =
        capture.packets.iter().position(|packet| packet.starts_message() && packet.source() == SERVER);
    let number = capture.packets[reply.expect("it is there")].number;
    let rest = mutate::keep(&capture, |packet| packet.number != number);
    assert!(found(&rest, "gss").is_empty());
}

/// A finding on a call is not repeated for the next call, which has no sequence number.
#[test]
fn repeated_number_is_reported_once() {
    let mut capture = authenticated();
    set_number(&mut capture, 30, 20);
    let is_later_call = |packet: &&mut rdmascope_tests::pcap::Packet| {
        packet.number > 402 && packet.starts_message() && packet.source() == CLIENT
    };
    let next = capture.packets.iter_mut().find(is_later_call).expect("the session goes on");
    // AUTH_NONE instead of RPCSEC_GSS.
    mutate::change_message(next, |call| call.set_word(24, 0));
    // It is below the window, too.
    assert_eq!(found(&capture, "gss-sequence-repeated").len(), 1);
    assert_eq!(found(&capture, "gss-sequence-window").len(), 1);
}

/// RFC 2203, section 5.3.3.1: a retransmitted call has a new number, on the next connection as
/// well, unless that has a new context.
#[test]
fn call_repeated_on_a_new_connection_needs_a_new_number() {
    let first = authenticated();
    let mut second = mutate::on_another_connection(&first, 60_000_000_000);
    let verdicts = |second: &Capture| -> Vec<Verdict> {
        let found = found(&mutate::merge(&first, second), "gss-sequence-repeated");
        found.iter().map(|finding| finding.verdict).collect()
    };
    assert_eq!(verdicts(&second), [], "the server issued the handle again, and the numbers start again");
    // RPCSEC_GSS_INIT becomes an ordinary NULL.
    let start = second.packets.iter().position(|packet| packet.starts_message() && packet.source() == CLIENT);
    mutate::change_message(&mut second.packets[start.expect("it is there")], |call| {
        call.payload.truncate(24);
        call.payload.extend([0; 16]);
    });
    let again = verdicts(&second);
    assert!(again.len() > 100 && again.iter().all(|verdict| *verdict == Verdict::Certain));
    // Other calls may have another context, whose establishment was not captured.
    mutate::change_xids(&mut second, |xid| xid ^ 0x5555_0000);
    let other = verdicts(&second);
    assert!(other.len() > 100 && other.iter().all(|verdict| *verdict == Verdict::Inconclusive));
}
