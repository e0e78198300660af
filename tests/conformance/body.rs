//! Triggers and tests of arguments and results.

use crate::chunks::binding::{READ_3, fail_read};
use crate::chunks::{READ_OF_SIX, change_call, change_reply, results_at, send_of, version_3};
use crate::header::{basic, exchange, found};
use crate::{By, Trigger, shown};
use rdmascope_conformance::Verdict;
use rdmascope_tests::mutate::{self, CLIENT, Message};
use rdmascope_tests::pcap::Capture;

/// A READDIRPLUS of the NFSv3 session.
const READDIRPLUS: u32 = 0xa239_6a62;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "rpc-arguments",
        alteration: "the arguments of a GETATTR lack their last eight bytes",
        control: version_3,
        alter: |capture| {
            let xid = getattr(capture);
            change_call(capture, xid, |call| call.payload.truncate(call.payload.len() - 8));
        },
        also: &[],
        shows: shown(By::Requester, &[874], "8 bytes", "16 bytes"),
    },
    Trigger {
        rule: "rpc-arguments",
        alteration: "four bytes follow the arguments of a GETATTR",
        control: version_3,
        alter: |capture| {
            let xid = getattr(capture);
            change_call(capture, xid, |call| call.payload.extend([0; 4]));
        },
        also: &[],
        shows: shown(By::Requester, &[874], "4 bytes", "0 bytes"),
    },
    Trigger {
        rule: "rpc-arguments",
        alteration: "the discriminant of a SETATTR's mode is 7, and the reply reports that the call failed",
        control: version_3,
        alter: |capture| {
            let xid = crate::chunks::plain_calls(capture, 2)[0];
            change_call(capture, xid, |call| {
                let handle = crate::chunks::arguments_at(call);
                let attributes = handle + 4 + call.word(handle).next_multiple_of(4) as usize;
                call.set_word(attributes, 7);
            });
            change_reply(capture, xid, |reply| {
                let results = results_at(reply);
                reply.set_word(results, 22);
            });
        },
        also: &[],
        shows: shown(By::Requester, &[64], "", ""),
    },
    Trigger {
        rule: "rpc-results",
        alteration: "the results of a GETATTR lack their last four bytes",
        control: version_3,
        alter: |capture| {
            let xid = getattr(capture);
            change_reply(capture, xid, |reply| reply.payload.truncate(reply.payload.len() - 4));
        },
        also: &[],
        shows: shown(By::Responder, &[874, 876], "80 bytes", "84 bytes"),
    },
    Trigger {
        rule: "rpc-results",
        alteration: "eight bytes follow the results of a GETATTR",
        control: version_3,
        alter: |capture| {
            let xid = getattr(capture);
            change_reply(capture, xid, |reply| reply.payload.extend([0; 8]));
        },
        also: &[],
        shows: shown(By::Responder, &[874, 876], "8 bytes", "0 bytes"),
    },
    Trigger {
        rule: "rpc-results",
        alteration: "PUTFH fails with NFS4ERR_IO, and a result of GETATTR follows",
        control: basic,
        alter: |capture| {
            // The results follow status, empty tag and count: SEQUENCE with 44 bytes, then PUTFH.
            change_reply(capture, 0x3bfc_0516, |reply| reply.set_word(results_at(reply) + 12 + 44 + 4, 5));
        },
        also: &[],
        shows: shown(By::Responder, &[36, 38], "", ""),
    },
    Trigger {
        rule: "compound-results",
        alteration: "the status of a COMPOUND is NFS4ERR_ACCESS, that of its last result NFS4_OK",
        control: basic,
        alter: |capture| change_reply(capture, 0x3bfc_0516, |reply| reply.set_word(results_at(reply), 13)),
        also: &[],
        shows: shown(By::Responder, &[36, 38], "13", "0"),
    },
    Trigger {
        rule: "compound-results",
        alteration: "a COMPOUND with PUTFH is answered with a result of PUTROOTFH",
        control: basic,
        alter: |capture| {
            // As above. The result of PUTROOTFH is a status, too.
            change_reply(capture, 0x3bfc_0516, |reply| reply.set_word(results_at(reply) + 12 + 44, 24));
        },
        also: &[],
        shows: shown(By::Responder, &[36, 38], "PUTROOTFH", "PUTFH"),
    },
    Trigger {
        rule: "compound-tag",
        alteration: "the reply to a COMPOUND without a tag has one",
        control: basic,
        alter: |capture| {
            change_reply(capture, 0x3bfc_0516, |reply| {
                let tag = results_at(reply) + 4;
                reply.set_word(tag, 4);
                reply.payload.splice(tag + 4..tag + 4, *b"tag.");
            });
        },
        also: &[],
        shows: shown(By::Responder, &[36, 38], "", ""),
    },
    Trigger {
        rule: "result-count",
        alteration: "a READ that returns six bytes asks for five",
        control: basic,
        alter: |capture| {
            change_call(capture, READ_OF_SIX, |call| call.set_word(call.payload.len() - 4, 5));
        },
        also: &[],
        shows: shown(By::Responder, &[1018, 1021], "6 bytes", "5 bytes"),
    },
    Trigger {
        rule: "result-count",
        alteration: "a READDIRPLUS that returns some eight KiB of entries asks for 4096 bytes",
        control: version_3,
        alter: |capture| {
            change_call(capture, READDIRPLUS, |call| call.set_word(call.payload.len() - 4, 4096));
        },
        also: &[],
        shows: shown(By::Responder, &[882, 894], "7932 bytes", "4096 bytes"),
    },
    Trigger {
        rule: "result-stable",
        alteration: "a WRITE asks for FILE_SYNC, and its result is UNSTABLE",
        control: version_3,
        alter: |capture| {
            const WRITE_3: u32 = 0x1b39_6a62;
            change_call(capture, WRITE_3, |call| {
                let handle = crate::chunks::arguments_at(call);
                // The offset and the count precede it.
                call.set_word(handle + 4 + call.word(handle).next_multiple_of(4) as usize + 12, 2);
            });
            // The write verifier follows it.
            change_reply(capture, WRITE_3, |reply| reply.set_word(reply.payload.len() - 12, 0));
        },
        also: &[],
        shows: None,
    },
    Trigger {
        rule: "rpc-garbage-arguments",
        alteration: "a GETATTR is answered with GARBAGE_ARGS",
        control: version_3,
        alter: |capture| {
            let xid = getattr(capture);
            change_reply(capture, xid, refuse_arguments);
        },
        also: &[],
        shows: shown(By::Responder, &[874, 876], "GARBAGE_ARGS", "SUCCESS"),
    },
];

/// The XID of a GETATTR in the middle of the NFSv3 session.
pub(crate) fn getattr(capture: &Capture) -> u32 {
    crate::chunks::plain_calls(capture, 1)[2]
}

/// Changes a reply to GARBAGE_ARGS.
pub(crate) fn refuse_arguments(reply: &mut Message) {
    let results = results_at(reply);
    reply.payload.truncate(results);
    reply.set_word(results - 4, 4);
}

/// The conclusive findings of these rules.
fn conclusive(capture: &Capture) -> Vec<String> {
    let found = ["rpc-arguments", "rpc-results", "rpc-garbage"].map(|prefix| found(capture, prefix)).concat();
    let conclusive = found.iter().filter(|finding| finding.verdict == Verdict::Certain);
    conclusive.map(rdmascope_tests::judged::line).collect()
}

#[test]
fn value_accepted_by_the_responder_is_no_fault() {
    let mut capture = version_3();
    let xid = crate::chunks::plain_calls(&capture, 2)[0];
    change_call(&mut capture, xid, |call| {
        let handle = crate::chunks::arguments_at(call);
        let attributes = handle + 4 + call.word(handle).next_multiple_of(4) as usize;
        call.set_word(attributes, 7);
    });
    assert!(conclusive(&capture).is_empty(), "{:?}", conclusive(&capture));
}

#[test]
fn truncated_bodies_are_neither_short_nor_long() {
    for length in 90..400 {
        let cut = mutate::cut(&version_3(), length);
        assert!(conclusive(&cut).is_empty(), "{length}: {:?}", conclusive(&cut));
    }
}

#[test]
fn refused_garbage_is_the_fault_of_the_caller() {
    let mut capture = version_3();
    let xid = getattr(&capture);
    change_call(&mut capture, xid, |call| call.payload.truncate(call.payload.len() - 8));
    change_reply(&mut capture, xid, refuse_arguments);
    let lines = conclusive(&capture);
    assert!(lines.len() == 1 && lines[0].contains("rpc-arguments"), "{lines:?}");
}

#[test]
fn arguments_of_an_unknown_program_have_no_known_end() {
    let mut capture = basic();
    let (call, _) = exchange(&capture);
    let xid = capture.packets[call].xid().expect("a call has an XID");
    change_call(&mut capture, xid, |call| {
        call.set_word(12, 300_000);
        call.payload.extend([0; 40]);
    });
    assert_eq!(capture.packets[call].source(), CLIENT);
    assert!(conclusive(&capture).is_empty(), "{:?}", conclusive(&capture));
}

/// The conclusive findings of these rules after a GETATTR's call and reply are lengthened by these
/// bytes.
fn with_more(call: usize, reply: usize) -> Vec<String> {
    let mut capture = version_3();
    let xid = getattr(&capture);
    change_call(&mut capture, xid, |message| message.payload.extend(vec![0; call]));
    change_reply(&mut capture, xid, |message| message.payload.extend(vec![0; reply]));
    conclusive(&capture)
}

/// The length of an XDR stream is a multiple of four bytes (RFC 4506, section 3), and each of its
/// items is padded to that.
#[test]
fn trailing_bytes_are_a_fault() {
    assert!(with_more(0, 0).is_empty(), "{:?}", with_more(0, 0));
    for more in 1..5 {
        for (call, reply, rule) in [(more, 0, "rpc-arguments"), (0, more, "rpc-results")] {
            let lines = with_more(call, reply);
            assert!(lines.len() == 1 && lines[0].contains(rule), "{more}: {lines:?}");
        }
    }
}

/// XDR forbids these arguments, so the Responder is right to refuse them (RFC 4506, sections 4.3,
/// 4.4 and 4.10; RFC 1813, sections 2.4 and 3.3.7; RFC 8881, section 18.46).
#[test]
fn arguments_forbidden_by_xdr_are_the_fault_of_the_caller() {
    /// A WRITE of NFS version 3.
    const WRITE_3: u32 = 0x1b39_6a62;
    /// A call of NFS version 4.1 that begins with SEQUENCE.
    const SEQUENCE: u32 = 0x3bfc_0516;
    let refused = |mut capture: Capture, xid: u32, change: fn(&mut Message)| {
        change_call(&mut capture, xid, change);
        let accepted = conclusive(&capture);
        assert!(accepted.is_empty(), "the Responder knows the value: {accepted:?}");
        change_reply(&mut capture, xid, refuse_arguments);
        let lines = conclusive(&capture);
        assert!(lines.len() == 1 && lines[0].contains("rpc-arguments"), "{xid:x}: {lines:?}");
    };
    /// The offset after the file handle.
    fn after_handle(call: &Message) -> usize {
        let handle = crate::chunks::arguments_at(call);
        handle + 4 + call.word(handle).next_multiple_of(4) as usize
    }
    let capture = version_3();
    refused(capture.clone(), getattr(&capture), |call| {
        let handle = crate::chunks::arguments_at(call);
        let more = 68 - call.word(handle) as usize;
        call.set_word(handle, 68);
        call.payload.extend(vec![0; more]);
    });
    refused(capture.clone(), WRITE_3, |call| call.set_word(after_handle(call) + 8, 1));
    refused(capture, WRITE_3, |call| call.set_word(after_handle(call) + 12, 3));
    // sa_cachethis, after tag, minor version, count and number: 16 bytes; session, sequence and two
    // slots: 28 bytes.
    refused(basic(), SEQUENCE, |call| call.set_word(crate::chunks::arguments_at(call) + 16 + 28, 2));
}

/// ftype3 has the constants 1 to 7 (RFC 1813, section 2.5).
#[test]
fn undefined_constants_in_results_are_found() {
    for (kind, count) in [(7, 0), (8, 1), (0, 1)] {
        let mut capture = version_3();
        let xid = getattr(&capture);
        change_reply(&mut capture, xid, |reply| reply.set_word(results_at(reply) + 4, kind));
        let lines = conclusive(&capture);
        assert_eq!(lines.len(), count, "{kind}: {lines:?}");
        assert!(lines.iter().all(|line| line.contains("rpc-results")), "{kind}: {lines:?}");
    }
}

/// A wrong Write chunk is another finding. Trailing bytes after the results are reported if the
/// chunks are right.
#[test]
fn results_are_judged_if_the_write_chunks_are_right() {
    let lengthened = |change: fn(&mut Message)| {
        let mut capture = basic();
        change_reply(&mut capture, READ_OF_SIX, |reply| {
            change(reply);
            reply.payload.extend([0; 8]);
        });
        conclusive(&capture).len()
    };
    assert_eq!(lengthened(|_| {}), 1, "the chunk has the six bytes of its READ");
    assert_eq!(lengthened(|reply| reply.writes[0][0].length = 8), 1, "the chunk also has their padding");
    assert_eq!(lengthened(|reply| reply.writes[0][0].length = 5), 0, "the chunk lacks a byte");
    let failed = |reply: &mut Message| {
        fail_read(reply);
        reply.writes[0][0].length = 0;
    };
    assert_eq!(lengthened(failed), 1, "the READ failed, and its chunk is unused");
    let unused = |reply: &mut Message| {
        fail_read(reply);
        reply.writes[0][0].length = 6;
    };
    assert_eq!(lengthened(unused), 0, "the READ failed, and its chunk is used");
}

/// RFC 8267, section 6.4.1: a READ with an empty Write chunk, or without one, returns its data
/// inline.
#[test]
fn data_neither_in_a_chunk_nor_inline_are_missing() {
    let without_chunk: fn(&mut Message) = |message| message.writes.clear();
    let with_an_empty_one: fn(&mut Message) = |message| message.writes[0].clear();
    for change in [without_chunk, with_an_empty_one] {
        let mut capture = basic();
        change_call(&mut capture, READ_OF_SIX, change);
        change_reply(&mut capture, READ_OF_SIX, change);
        let conclusive = conclusive(&capture);
        assert!(conclusive.iter().any(|line| line.contains("rpc-results")), "{conclusive:?}");
    }
}

#[test]
fn arguments_of_unknown_minor_versions_are_not_judged() {
    let with_trailing_bytes = |minor: u32| {
        let mut capture = crate::chunks::large();
        let xid = crate::chunks::plain_calls(&capture, 1)[4];
        change_call(&mut capture, xid, |call| {
            // An empty tag, then the minor version (RFC 7530, section 16.2.2).
            let at = crate::chunks::arguments_at(call);
            assert_eq!((call.word(at), call.word(at + 4)), (0, 2));
            call.set_word(at + 4, minor);
            call.payload.extend([0; 8]);
        });
        conclusive(&capture).iter().filter(|line| line.contains("rpc-arguments")).count()
    };
    assert_eq!([2, 3].map(with_trailing_bytes), [1, 0]);
}

/// The arguments of a Long Call are in its Position Zero Read chunk.
#[test]
fn trailing_bytes_of_a_long_call_are_found() {
    let found = |more: usize| {
        let mut capture = version_3();
        let xid = getattr(&capture);
        change_call(&mut capture, xid, |call| call.payload.extend(vec![0; more]));
        let call = send_of(&capture, CLIENT, xid);
        mutate::make_long_call(&mut capture, call, true);
        conclusive(&capture)
    };
    assert!(found(0).is_empty(), "{:?}", found(0));
    assert!(found(4).len() == 1 && found(4)[0].contains("rpc-arguments"), "{:?}", found(4));
}

/// The end is unknown for arguments that RPCSEC_GSS seals and for unknown operations.
#[test]
fn trailing_bytes_need_a_known_end_of_the_arguments() {
    let mut capture = version_3();
    change_call(&mut capture, READ_3, |call| call.payload.extend([0; 8]));
    let lines = conclusive(&capture);
    assert!(lines.len() == 1 && lines[0].contains("rpc-arguments"), "{lines:?}");
    crate::chunks::binding::seal(&mut capture, READ_3, 0);
    assert!(conclusive(&capture).is_empty(), "{:?}", conclusive(&capture));

    let mut capture = basic();
    change_call(&mut capture, READ_OF_SIX, |call| {
        // READ with its stateid, offset and count.
        let read = call.payload.len() - 32;
        assert_eq!(call.word(read), 25);
        call.set_word(read, 200);
    });
    assert!(conclusive(&capture).is_empty(), "{:?}", conclusive(&capture));
}

/// The arguments of a WRITE can be judged without the data in its Read chunk.
#[test]
fn missing_chunk_data_hide_no_fault_of_the_send() {
    const WRITE_3: u32 = 0x1b39_6a62;
    let mut capture = version_3();
    change_call(&mut capture, WRITE_3, |call| call.payload.extend([0; 4]));
    let response = |packet: &rdmascope_tests::pcap::Packet| {
        packet.is_rc() && packet.opcode() == mutate::opcode::READ_RESPONSE_MIDDLE
    };
    let lost = capture.packets.iter().position(response).expect("the server reads a WRITE of 256 KiB");
    capture.packets.remove(lost);
    let lines = conclusive(&capture);
    assert!(lines.len() == 1 && lines[0].contains("rpc-arguments"), "{lines:?}");
}

/// GARBAGE_ARGS is right if the call is wrong in any way.
#[test]
fn garbage_args_is_right_for_a_faulty_call() {
    let garbage = |change: fn(&mut Message)| {
        let mut capture = version_3();
        let xid = getattr(&capture);
        change_call(&mut capture, xid, change);
        change_reply(&mut capture, xid, refuse_arguments);
        conclusive(&capture).iter().filter(|line| line.contains("rpc-garbage-arguments")).count()
    };
    assert_eq!(garbage(|call| call.credits += 1), 1, "the call is right");
    assert_eq!(garbage(|call| call.payload.extend([0; 4])), 0, "bytes after the arguments");
    assert_eq!(garbage(|call| call.set_word(0, 1)), 0, "the XID of another call");
    assert_eq!(garbage(|call| call.set_word(16, 9)), 0, "an unknown version of NFS");
}
