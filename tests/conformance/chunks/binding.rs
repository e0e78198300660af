//! Triggers and tests of the upper-layer binding of NFS.

use super::reply::{getattr, refuse};
use super::{
    FOREIGN, READ_OF_SIX, WRITE, arguments_at, basic, change_call, change_reply, found, is_conclusive, large,
    plain, plain_calls, results_at, send_of, version_3,
};
use crate::{By, Trigger, shown};
use rdmascope_conformance::Value;
use rdmascope_tests::judged::findings;
use rdmascope_tests::mutate::{self, CLIENT, Message, SERVER, Segment, attribute};
use rdmascope_tests::pcap::Capture;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "binding-argument",
        alteration: "the Read chunk of a WRITE is at Position 172",
        control: large,
        alter: |capture| super::read::set_positions(capture, [172; 4]),
        // The reply is unchanged.
        also: &["binding-argument-accepted"],
        shows: shown(By::Requester, &[82], "172 bytes", "none known"),
    },
    Trigger {
        rule: "binding-argument-accepted",
        alteration: "the Read chunk of a WRITE is at Position 172, and the reply says SUCCESS",
        control: large,
        alter: |capture| super::read::set_positions(capture, [172; 4]),
        // The call itself is at fault.
        also: &["binding-argument"],
        shows: shown(By::Responder, &[82, 987], "SUCCESS", "ERR_CHUNK or GARBAGE_ARGS"),
    },
    Trigger {
        rule: "binding-result",
        alteration: "the reply to a READ reports failure, and its Write chunk is returned with data",
        control: basic,
        alter: |capture| change_reply(capture, READ_OF_SIX, fail_read),
        also: &[],
        shows: shown(By::Responder, &[1018, 1021], "6 bytes", "0 bytes"),
    },
    Trigger {
        rule: "binding-write-list",
        alteration: "a call has a Write chunk that none of its results can use, which is returned unused",
        control: large,
        alter: |capture| {
            let xid = plain(capture);
            change_call(capture, xid, |call| call.writes.push(vec![FOREIGN]));
            change_reply(capture, xid, |reply| reply.writes.push(vec![Segment { length: 0, ..FOREIGN }]));
        },
        also: &[],
        shows: shown(By::Requester, &[36], "1", "0"),
    },
    Trigger {
        rule: "binding-complexity",
        alteration: "a call has a Reply chunk of seventeen segments, which is returned unused",
        control: large,
        alter: |capture| offer_segments(capture, 17),
        also: &[],
        shows: shown(By::Requester, &[36], "17", "16"),
    },
    Trigger {
        rule: "binding-complexity",
        alteration: "the Read chunk of a WRITE has thirteen more segments of no bytes",
        control: large,
        alter: |capture| {
            change_call(capture, WRITE, |call| {
                let position = call.reads[0].0;
                let empty = |index: u32| Segment { handle: FOREIGN.handle + index, length: 0, ..FOREIGN };
                call.reads.extend((0..13).map(|index| (position, empty(index))));
            });
        },
        also: &[],
        shows: shown(By::Requester, &[82], "17", "16"),
    },
    Trigger {
        rule: "binding-sealed",
        alteration: "a WRITE with a Read chunk is sealed by RPCSEC_GSS integrity",
        control: version_3,
        alter: seal_write,
        also: &[],
        shows: shown(By::Requester, &[68], "112 bytes", "0 bytes"),
    },
    Trigger {
        rule: "binding-sealed",
        alteration: "a READ whose data is in a Write chunk is sealed by RPCSEC_GSS integrity",
        control: version_3,
        alter: |capture| seal(capture, READ_3, 0),
        also: &[],
        shows: shown(By::Responder, &[1181, 1249], "65536 bytes", "0 bytes"),
    },
    Trigger {
        rule: "binding-gss-control",
        alteration: "a WRITE with a Read chunk has a credential that destroys an RPCSEC_GSS context",
        control: version_3,
        alter: |capture| seal(capture, WRITE_3, 3),
        also: &[],
        shows: shown(By::Requester, &[68], "112 bytes", "0 bytes"),
    },
    Trigger {
        rule: "binding-retry",
        alteration: "a GETATTR is answered with ERR_CHUNK, and a later one has its XID",
        control: version_3,
        alter: |capture| {
            let refused = getattr(capture);
            refuse(capture, refused);
            let later = *plain_calls(capture, 1).last().expect("it has several");
            let places = [send_of(capture, CLIENT, later), send_of(capture, SERVER, later)];
            for index in places {
                mutate::change_message(&mut capture.packets[index], |message| {
                    message.xid = refused;
                    message.set_word(0, refused);
                });
            }
        },
        also: &[],
        shows: shown(By::Requester, &[874, 876, 1546], "0xa0396a62", ""),
    },
    Trigger {
        rule: "binding-retry",
        alteration: "a COMPOUND is answered with GARBAGE_ARGS, and a later one has its XID",
        control: basic,
        alter: |capture| {
            let refused = plain_calls(capture, 1)[20];
            change_reply(capture, refused, crate::body::refuse_arguments);
            let later = *plain_calls(capture, 1).last().expect("it has several");
            let places = [send_of(capture, CLIENT, later), send_of(capture, SERVER, later)];
            for index in places {
                mutate::change_message(&mut capture.packets[index], |message| {
                    message.xid = refused;
                    message.set_word(0, refused);
                });
            }
        },
        also: &[],
        shows: shown(By::Requester, &[386, 388, 1617], "0x4efc0516", ""),
    },
    Trigger {
        rule: "binding-port",
        alteration: "the REQ names port 2049",
        control: basic,
        alter: |capture| {
            mutate::each(capture, |packet| {
                if packet.cm_attribute() == Some(attribute::REQ) {
                    packet.cm_body()[14..16].copy_from_slice(&2049u16.to_be_bytes());
                }
            })
        },
        also: &[],
        shows: shown(By::Responder, &[4], "2049", "20049"),
    },
];

/// A READ with a Write chunk in the NFSv3 session.
pub(crate) const READ_3: u32 = 0xd339_6a62;
/// A WRITE with a Read chunk at Position 112 in the NFSv3 session.
const WRITE_3: u32 = 0x1b39_6a62;

/// Changes the reply to a COMPOUND that ends in READ: the READ fails with NFS4ERR_IO.
pub(crate) fn fail_read(reply: &mut Message) {
    // READ, its status, eof, count: the last words.
    let read = reply.payload.len() - 16;
    assert_eq!((reply.word(read), reply.word(read + 4)), (25, 0), "the READ is the last operation");
    reply.set_word(read + 4, 5);
    reply.payload.truncate(read + 8);
    reply.set_word(results_at(reply), 5);
}

/// Offers a Reply chunk of `count` segments and returns it unused.
fn offer_segments(capture: &mut Capture, count: u32) {
    let xid = plain(capture);
    let segments = |length: u32| {
        let segment = |index: u32| Segment { handle: FOREIGN.handle + index, length, ..FOREIGN };
        Some((0..count).map(segment).collect())
    };
    change_call(capture, xid, |call| call.reply = segments(4096));
    change_reply(capture, xid, |reply| reply.reply = segments(0));
}

/// Seals the WRITE of the NFSv3 session and its reply with RPCSEC_GSS integrity (RFC 2203, section
/// 5.3.2).
fn seal_write(capture: &mut Capture) {
    seal(capture, WRITE_3, 0);
}

/// The same for any call and any gss_proc.
pub(crate) fn seal(capture: &mut Capture, xid: u32, procedure: u32) {
    change_call(capture, xid, |call| {
        let arguments = call.payload.split_off(arguments_at(call));
        let old = call.payload.len();
        call.payload.truncate(24);
        // RPCSEC_GSS: version 1, RPCSEC_GSS_DATA, sequence number 7, integrity, a handle of 4
        // bytes; an empty verifier.
        for word in [6, 24, 1, procedure, 7, 2, 4, 0x0102_0304, 6, 0] {
            call.payload.extend(u32::to_be_bytes(word));
        }
        // The length of the sealed data, and the sequence number again.
        for word in [arguments.len() as u32 + 4, 7] {
            call.payload.extend(word.to_be_bytes());
        }
        let moved = call.payload.len() as u32;
        call.payload.extend(arguments);
        call.reads.iter_mut().for_each(|(position, _)| *position = *position + moved - old as u32);
    });
    change_reply(capture, xid, |reply| {
        let results = reply.payload.split_off(results_at(reply));
        for word in [results.len() as u32 + 4, 7] {
            reply.payload.extend(word.to_be_bytes());
        }
        reply.payload.extend(results);
    });
}

/// RFC 5403, section 3.4: arguments and results are in the clear. A call with an unknown service is
/// not accused.
#[test]
fn items_of_a_call_protected_by_its_channel_may_be_reduced() {
    for service in [4, 9] {
        let mut capture = version_3();
        for xid in [WRITE_3, READ_3] {
            protect_by_channel(&mut capture, xid, service);
        }
        assert_eq!(findings(&capture), findings(&version_3()), "service {service}");
    }
}

/// Replaces the credential by one of RPCSEC_GSS version 2, without a verifier.
fn protect_by_channel(capture: &mut Capture, xid: u32, service: u32) {
    change_call(capture, xid, |call| {
        let arguments = call.payload.split_off(arguments_at(call));
        let old = call.payload.len() as u32;
        call.payload.truncate(24);
        for word in [6, 24, 2, 0, xid, service, 4, 0x0102_0304, 0, 0] {
            call.payload.extend(u32::to_be_bytes(word));
        }
        let moved = call.payload.len() as u32;
        call.payload.extend(arguments);
        call.reads.iter_mut().for_each(|(position, _)| *position = *position + moved - old);
    });
}

#[test]
fn position_before_or_after_the_item_is_found() {
    for position in [4, 172, 180, 188] {
        let alter = |capture: &mut Capture| super::read::set_positions(capture, [position; 4]);
        assert!(is_conclusive(&found(large, alter, "binding-argument")), "{position}");
    }
}

/// RFC 8166, section 8.2.2: a credential is not reduced.
#[test]
fn read_chunk_in_a_credential_is_found() {
    let alter = |capture: &mut Capture| {
        change_call(capture, WRITE_3, |call| {
            let length = call.word(28);
            call.payload.drain(32..32 + length as usize);
            call.reads.insert(0, (32, Segment { length, ..FOREIGN }));
        });
    };
    let finding = found(version_3, alter, "binding-argument");
    assert!(is_conclusive(&finding), "{finding:?}");
}

#[test]
fn unknown_program_has_no_known_items() {
    let alter = |capture: &mut Capture| super::read::set_positions(capture, [172; 4]);
    for id in ["binding-argument", "read-chunk-length"] {
        assert!(found(super::read::unknown, alter, id).is_empty(), "{id}");
    }
}

#[test]
fn sealed_arguments_have_no_items() {
    for id in ["binding-argument", "read-chunk-length", "binding-result"] {
        assert!(found(version_3, seal_write, id).is_empty(), "{id}");
    }
}

#[test]
fn second_read_chunk_after_all_items_is_found() {
    // The data of the WRITE is in the first chunk, and the arguments are parsed completely.
    let alter = |capture: &mut Capture| {
        super::read::set_positions(capture, [176, 176, 176, 176 + 3 * 131_072 + 16]);
        change_call(capture, WRITE, |call| call.set_word(172, 3 * 131_072));
    };
    let finding = found(large, alter, "binding-argument");
    assert!(is_conclusive(&finding), "{finding:?}");
    assert_eq!(finding.len(), 1, "the first chunk is where it belongs");
    // RFC 8267, section 6.4.2: a server need not accept a second one either.
    let finding = found(large, alter, "binding-complexity");
    let values = finding.iter().map(|finding| (finding.observed.clone(), finding.allowed.clone()));
    assert_eq!(values.collect::<Vec<_>>(), [(Some(Value::Count(2)), Some(Value::Count(1)))]);
}

/// RFC 8166, section 6.1: a call that reduces an item that is not DDP-eligible is refused.
#[test]
fn err_chunk_is_right_for_an_ineligible_item() {
    let refused = |is_wrong: bool| {
        let alter = |capture: &mut Capture| {
            let xid = getattr(capture);
            if is_wrong {
                // A chunk of four bytes at the end of the arguments, which are complete without it.
                change_call(capture, xid, |call| {
                    call.reads.push((call.payload.len() as u32, Segment { length: 4, ..FOREIGN }));
                });
            }
            refuse(capture, xid);
        };
        found(version_3, alter, "header-error-chunk").len()
    };
    assert_eq!([false, true].map(refused), [1, 0]);
}

/// After the last possible result no chunk can be used, whether or not the reply can be parsed.
#[test]
fn used_chunk_beyond_all_results_is_found() {
    let alter = |capture: &mut Capture| {
        let xid = plain(capture);
        change_call(capture, xid, |call| call.writes.push(vec![FOREIGN]));
        change_reply(capture, xid, |reply| {
            reply.writes.push(vec![FOREIGN]);
            reply.payload.truncate(reply.payload.len() - 4);
        });
    };
    assert!(is_conclusive(&found(large, alter, "binding-result")));
}

/// RDMA_DONE with the XID of a refused call is no call.
#[test]
fn rdma_done_is_no_retry() {
    let mut capture = version_3();
    let xid = getattr(&capture);
    refuse(&mut capture, xid);
    let answer = send_of(&capture, SERVER, xid);
    let done = crate::header::words(&[xid, 1, 32, 3]);
    crate::header::insert(&mut capture, answer, CLIENT, mutate::opcode::SEND_ONLY, &done);
    assert!(crate::header::found(&capture, "binding-retry").is_empty());
    assert_eq!(crate::header::found(&capture, "header-done").len(), 1);
}

/// Each refused call is remembered, not only the last one.
#[test]
fn first_of_two_refused_calls_must_not_be_retried() {
    let alter = |capture: &mut Capture| {
        let calls = plain_calls(capture, 1);
        let (first, second, later) = (calls[0], calls[1], calls[calls.len() - 1]);
        refuse(capture, first);
        refuse(capture, second);
        for sender in [CLIENT, SERVER] {
            let index = send_of(capture, sender, later);
            mutate::change_message(&mut capture.packets[index], |message| {
                message.xid = first;
                message.set_word(0, first);
            });
        }
    };
    let finding = found(version_3, alter, "binding-retry");
    assert!(finding.len() == 1 && is_conclusive(&finding), "{finding:?}");
}

/// RFC 8267, section 6.4.2: a server need not process more than sixteen segments, and may answer
/// GARBAGE_ARGS.
#[test]
fn garbage_args_is_right_for_a_complex_chunk_list() {
    let garbage = |segments: u32| {
        let alter = |capture: &mut Capture| {
            let xid = plain(capture);
            offer_segments(capture, segments);
            change_reply(capture, xid, crate::body::refuse_arguments);
        };
        found(large, alter, "rpc-garbage-arguments").len()
    };
    assert_eq!([16, 17].map(garbage), [1, 0]);
}

#[test]
fn sixteen_segments_are_allowed() {
    assert!(found(large, |capture| offer_segments(capture, 16), "binding-complexity").is_empty());
}
