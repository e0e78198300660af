//! Triggers and tests of Long Messages and the Reply chunk.

use super::{
    EXCHANGE_ID, FOREIGN, NOMSG, READ_OF_SIX, WRITE, arguments_at, basic, call_of, change_call, change_reply,
    found, is_conclusive, large, plain, plain_calls, results_at, send_of, send_reply_inline, set_written,
    version_3, write_to,
};
use crate::establishment::IN_REQ;
use crate::transport::in_message;
use crate::{By, Trigger, shown};
use rdmascope_conformance::Value;
use rdmascope_tests::mutate::{CLIENT, EXTENSION, Message, SERVER, Segment, attribute};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::{judged, samples};

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "long-message-chunk",
        alteration: "a Long Reply returns its Reply chunk with no bytes",
        control: large,
        alter: |capture| change_reply(capture, EXCHANGE_ID, empty_reply_chunk),
        also: &[],
        shows: shown(By::Responder, &[12], "0 bytes", "the Payload stream"),
    },
    Trigger {
        rule: "long-message-chunk",
        alteration: "a reply is an RDMA_NOMSG without chunks, as its call has none",
        control: large,
        alter: |capture| {
            let xid = plain(capture);
            change_reply(capture, xid, |reply| {
                reply.procedure = NOMSG;
                reply.payload.clear();
            });
        },
        also: &[],
        shows: shown(By::Responder, &[38], "0 bytes", "the Payload stream"),
    },
    Trigger {
        rule: "long-message-inline",
        alteration: "four bytes follow the chunk lists of a Long Reply",
        control: large,
        alter: |capture| change_reply(capture, EXCHANGE_ID, |reply| reply.payload.extend([0; 4])),
        also: &[],
        shows: shown(By::Responder, &[12], "4 bytes", "0 bytes"),
    },
    Trigger {
        rule: "long-message-padding",
        alteration: "a Long Reply returns two bytes less in its Reply chunk",
        control: large,
        alter: |capture| {
            change_reply(capture, EXCHANGE_ID, |reply| {
                reply.reply.iter_mut().flatten().for_each(|segment| segment.length -= 2);
            })
        },
        also: &[],
        shows: shown(By::Responder, &[12], "98 bytes", "a multiple of 4"),
    },
    Trigger {
        rule: "reduced-payload-padding",
        alteration: "two bytes of padding follow the reduced arguments of a WRITE",
        control: large,
        alter: |capture| change_call(capture, WRITE, |call| call.payload.extend([0; 2])),
        also: &[],
        shows: shown(By::Requester, &[82], "194 bytes", "a multiple of 4"),
    },
    Trigger {
        rule: "reduced-payload-padding",
        alteration: "two bytes of padding follow the reduced results of a READ",
        control: basic,
        alter: |capture| change_reply(capture, READ_OF_SIX, |reply| reply.payload.extend([0; 2])),
        also: &[],
        shows: shown(By::Responder, &[1021], "106 bytes", "a multiple of 4"),
    },
    Trigger {
        rule: "reply-chunk-returned",
        alteration: "a reply is sent inline and does not return the Reply chunk",
        control: large,
        alter: |capture| {
            send_reply_inline(capture, EXCHANGE_ID);
            change_reply(capture, EXCHANGE_ID, |reply| reply.reply = None);
        },
        also: &[],
        shows: shown(By::Responder, &[8, 12], "none", "4240 bytes in 1 segment"),
    },
    Trigger {
        rule: "reply-chunk-not-offered",
        alteration: "a reply returns an unused Reply chunk that its call does not have",
        control: large,
        alter: |capture| {
            let xid = plain(capture);
            change_reply(capture, xid, |reply| {
                reply.reply = Some(vec![Segment { length: 0, ..FOREIGN }]);
            });
        },
        also: &[],
        shows: shown(By::Responder, &[36, 38], "0 bytes in 1 segment", "none"),
    },
    Trigger {
        rule: "reply-chunk-unused",
        alteration: "a reply is sent inline and returns the Reply chunk with its previous length",
        control: large,
        alter: |capture| {
            send_reply_inline(capture, EXCHANGE_ID);
            change_reply(capture, EXCHANGE_ID, |reply| {
                reply.reply.iter_mut().flatten().for_each(|segment| segment.length = 100);
            });
        },
        also: &[],
        shows: shown(By::Responder, &[12], "100 bytes", "0 bytes"),
    },
    Trigger {
        rule: "reply-chunk-empty",
        alteration: "a call has a Reply chunk without segments, which is returned",
        control: large,
        alter: |capture| {
            let xid = plain(capture);
            change_call(capture, xid, |call| call.reply = Some(Vec::new()));
            change_reply(capture, xid, |reply| reply.reply = Some(Vec::new()));
        },
        also: &[],
        shows: shown(By::Requester, &[36], "0 bytes in 0 segments", ""),
    },
    Trigger {
        rule: "reply-chunk-empty",
        alteration: "a call has a Reply chunk of one segment without bytes, which is returned",
        control: large,
        alter: |capture| {
            let xid = plain(capture);
            let chunk = || Some(vec![Segment { length: 0, ..FOREIGN }]);
            change_call(capture, xid, |call| call.reply = chunk());
            change_reply(capture, xid, |reply| reply.reply = chunk());
        },
        also: &[],
        shows: shown(By::Requester, &[36], "0 bytes in 1 segment", ""),
    },
    Trigger {
        rule: "reply-chunk-needed",
        alteration: "a GETATTR becomes a READDIR of up to 4097 bytes, and its reply that of an empty \
            directory",
        control: version_3,
        alter: |capture| read_directory(capture, 4097),
        also: &[],
        shows: shown(By::Requester, &[874], "4097 bytes", "4096 bytes"),
    },
    Trigger {
        rule: "reply-chunk-too-small",
        alteration: "a READDIR of up to 4097 bytes without a Reply chunk is answered with ERR_CHUNK",
        control: version_3,
        alter: |capture| {
            let xid = getattr(capture);
            read_directory(capture, 4097);
            refuse(capture, xid);
        },
        also: &[],
        shows: shown(By::Requester, &[874, 876], "0 bytes", ""),
    },
];

fn empty_reply_chunk(reply: &mut Message) {
    reply.reply.iter_mut().flatten().for_each(|segment| segment.length = 0);
}

/// The XID of a GETATTR in the middle of the NFSv3 session.
pub(crate) fn getattr(capture: &Capture) -> u32 {
    plain_calls(capture, 1)[2]
}

/// Answers the call of this XID with ERR_CHUNK.
pub(crate) fn refuse(capture: &mut Capture, xid: u32) {
    let index = send_of(capture, SERVER, xid);
    let packet = &mut capture.packets[index];
    let start = packet.payload().start;
    assert_eq!(start, EXTENSION, "no remote invalidation here");
    let words = [xid, 1, packet.u32(start + 8), 4, 2];
    // At least 28 bytes: shorter headers are not trusted (RFC 8166, section 4.5).
    let bytes: Vec<u8> = words.into_iter().chain([0, 0]).flat_map(u32::to_be_bytes).collect();
    packet.set_after_bth(&bytes);
}

/// Turns an NFSv3 GETATTR into a READ of `count` bytes at the start of the file (RFC 1813, section
/// 3.3.6).
fn read_file(capture: &mut Capture, count: u32) {
    let xid = getattr(capture);
    change_call(capture, xid, |call| {
        call.set_word(20, 6);
        for word in [0, 0, count] {
            call.payload.extend(word.to_be_bytes());
        }
    });
}

/// Turns an NFSv3 GETATTR into a READDIR (RFC 1813, section 3.3.16).
pub(crate) fn read_directory(capture: &mut Capture, count: u32) {
    let xid = getattr(capture);
    change_call(capture, xid, |call| {
        call.set_word(20, 16);
        // The file handle stays; cookie, cookieverf and count follow.
        for word in [0, 0, 0, 0, count] {
            call.payload.extend(word.to_be_bytes());
        }
        assert_eq!(
            call.word(arguments_at(call)).next_multiple_of(4) as usize,
            call.payload.len() - arguments_at(call) - 24
        );
    });
    change_reply(capture, xid, |reply| {
        reply.payload.truncate(results_at(reply));
        // NFS3_OK, no attributes, cookieverf, no entry, the end.
        for word in [0, 0, 0, 0, 0, 1u32] {
            reply.payload.extend(word.to_be_bytes());
        }
    });
}

#[test]
fn reply_up_to_the_threshold_needs_no_reply_chunk() {
    assert!(found(version_3, |capture| read_directory(capture, 4096), "reply-chunk-needed").is_empty());
}

/// A call with another fault may be refused for that; its Reply chunk is not judged.
#[test]
fn err_chunk_for_a_faulty_call_needs_no_reply_chunk() {
    let refused = |change: fn(&mut Message)| {
        let alter = |capture: &mut Capture| {
            let xid = getattr(capture);
            read_directory(capture, 4097);
            refuse(capture, xid);
            change_call(capture, xid, change);
        };
        found(version_3, alter, "reply-chunk-too-small").len()
    };
    assert_eq!(refused(|call| call.credits += 1), 1, "the call is right");
    assert_eq!(refused(|call| call.set_word(0, 1)), 0, "the XID of another call");
    assert_eq!(refused(|call| call.reads.push((4096, FOREIGN))), 0, "a Position after the end of the stream");
    let overlapping = |call: &mut Message| {
        let small = Segment { length: 8, ..FOREIGN };
        (call.writes, call.reply) = (vec![vec![FOREIGN]], Some(vec![small]));
    };
    assert_eq!(refused(overlapping), 0, "memory in two chunks");
}

/// Calls and replies have separate thresholds: the client's Send size and its Receive size.
#[test]
fn calls_and_replies_have_separate_thresholds() {
    let alter = |capture: &mut Capture, field: usize, count: u32| {
        // The client's Send Size and Receive Size in KiB, less one (RFC 8797, section 4).
        in_message(capture, attribute::REQ, |body| body[IN_REQ + field] = 1);
        read_directory(capture, count);
    };
    let needed = |field, count| {
        let found = found(version_3, |capture| alter(capture, field, count), "reply-chunk-needed");
        found.iter().map(|finding| finding.allowed.clone()).collect::<Vec<_>>()
    };
    assert_eq!(needed(6, 4096), []);
    assert_eq!(needed(7, 2048), []);
    assert_eq!(needed(6, 4097), [Some(Value::Bytes(4096))]);
    assert_eq!(needed(7, 2049), [Some(Value::Bytes(2048))]);
}

#[test]
fn long_call_without_any_chunk_is_found() {
    let alter = |capture: &mut Capture| {
        let xid = plain(capture);
        change_call(capture, xid, |call| {
            call.procedure = NOMSG;
            call.payload.clear();
        });
    };
    let finding = found(large, alter, "long-message-chunk");
    assert!(is_conclusive(&finding), "{finding:?}");
    assert_eq!(finding[0].by_requester, Some(true));
}

/// A Long Call is in its Position Zero Read chunk, not in one at another Position, nor in the Reply
/// chunk.
#[test]
fn reply_chunk_contains_no_call() {
    let alter = |capture: &mut Capture| {
        change_call(capture, EXCHANGE_ID, |call| {
            call.procedure = NOMSG;
            call.payload.clear();
            call.reads.push((4, FOREIGN));
        });
    };
    let finding = found(large, alter, "long-message-chunk");
    assert!(finding.iter().any(|finding| finding.by_requester == Some(true)), "{finding:?}");
}

/// A reply that returns its Write chunk unused reduces nothing.
#[test]
fn reply_without_reduction_needs_no_padding() {
    let alter = |capture: &mut Capture| {
        change_reply(capture, READ_OF_SIX, |reply| {
            super::binding::fail_read(reply);
            reply.writes[0][0].length = 0;
            reply.payload.extend([0; 2]);
        });
    };
    assert!(found(basic, alter, "reduced-payload-padding").is_empty());
}

/// If the length of a Long Reply is no multiple of 4, long-message-padding reports that, and its
/// results are not judged.
#[test]
fn trailing_bytes_of_a_long_reply_are_found() {
    let results = |more: usize| {
        let alter = |capture: &mut Capture| {
            let handle = call_of(capture, EXCHANGE_ID).reply.expect("a Reply chunk")[0].handle;
            let written = write_to(capture, handle);
            let stream = capture.packets[written].data[capture.packets[written].payload()].to_vec();
            set_written(&mut capture.packets[written], &[stream, vec![0; more]].concat());
            change_reply(capture, EXCHANGE_ID, |reply| {
                reply.reply.iter_mut().flatten().for_each(|segment| segment.length += more as u32);
            });
        };
        let found = found(large, alter, "rpc-results");
        found.iter().map(|finding| (finding.by_requester, finding.observed.clone())).collect::<Vec<_>>()
    };
    assert_eq!(results(0), []);
    assert_eq!(results(8), [(Some(false), Some(Value::Bytes(8)))]);
    assert_eq!(results(6), []);
}

#[test]
fn short_reply_returns_the_reply_chunk_unused() {
    let alter = |capture: &mut Capture| send_reply_inline(capture, EXCHANGE_ID);
    for id in ["reply-chunk-returned", "reply-chunk-unused", "returned-chunk-segments", "long-message-chunk"]
    {
        assert!(found(large, alter, id).is_empty(), "{id}");
    }
}

#[test]
fn err_chunk_for_a_misplaced_read_chunk_is_unrelated_to_room() {
    let alter = |capture: &mut Capture| {
        super::read::set_positions(capture, [178; 4]);
        refuse(capture, WRITE);
    };
    assert!(found(large, alter, "reply-chunk-too-small").is_empty());
}

/// If the call is at fault or every possible reply fits, the room for the reply is not judged.
#[test]
fn err_chunk_if_every_reply_fits_accuses_no_requester() {
    let alter = |capture: &mut Capture| refuse(capture, getattr(capture));
    assert!(found(version_3, alter, "reply-chunk-too-small").is_empty());
    let alter = |capture: &mut Capture| {
        let xid = getattr(capture);
        read_directory(capture, 500);
        refuse(capture, xid);
    };
    assert!(found(version_3, alter, "reply-chunk-too-small").is_empty(), "500 bytes fit");
}

/// The longest RPC header of a reply is 424 bytes: three words, a verifier of 408 bytes,
/// accept_stat (RFC 5531, section 9). 140 bytes are allowed for the parts of a READDIR reply other
/// than entries.
#[test]
fn room_for_a_reply_is_exact() {
    const AROUND: u32 = 12 + 408 + 4 + 140;
    let too_small = |count: u32, chunk: Option<u32>| {
        let alter = |capture: &mut Capture| {
            let xid = getattr(capture);
            read_directory(capture, count);
            let chunk = chunk.map(|length| vec![Segment { length, ..FOREIGN }]);
            change_call(capture, xid, |call| call.reply = chunk);
            refuse(capture, xid);
        };
        found(version_3, alter, "reply-chunk-too-small").len()
    };
    // 4,096 bytes fit inline, and the transport header takes 28 of them.
    let inline = 4096 - 28 - AROUND;
    assert_eq!([inline, inline + 1].map(|count| too_small(count, None)), [0, 1]);
    let room = 5000 + AROUND;
    assert_eq!([room, room - 1].map(|chunk| too_small(5000, Some(chunk))), [0, 1]);
}

/// The data of a READ is in its Write chunk if it fits, and otherwise in the reply.
#[test]
fn room_for_the_reply_to_a_read_is_exact() {
    const AROUND: u32 = 12 + 408 + 4 + 140;
    let refused = |count: u32, chunk: Option<u32>| {
        let alter = |capture: &mut Capture| {
            let xid = getattr(capture);
            read_file(capture, count);
            change_call(capture, xid, |call| {
                call.writes.extend(chunk.map(|length| vec![Segment { length, ..FOREIGN }]));
            });
            refuse(capture, xid);
        };
        ["reply-chunk-too-small", "header-error-chunk"].map(|id| found(version_3, alter, id).len())
    };
    let inline = 4096 - 28 - AROUND;
    assert_eq!([inline, inline + 1].map(|count| refused(count, None)), [[0, 1], [1, 0]]);
    assert_eq!([65_536, 65_535].map(|chunk| refused(65_536, Some(chunk))), [[0, 1], [1, 0]]);
}

/// ERR_CHUNK is the Responder's fault if no reply to the call can be long, and the Requester's if a
/// reply has no limit.
#[test]
fn longest_reply_depends_on_the_operations() {
    let refused = |control: fn() -> Capture, call: &dyn Fn(&Capture) -> u32, change: fn(&mut Message)| {
        let alter = |capture: &mut Capture| {
            let xid = call(capture);
            change_call(capture, xid, change);
            refuse(capture, xid);
        };
        ["reply-chunk-too-small", "header-error-chunk"].map(|id| found(control, alter, id).len())
    };
    let readlink = |call: &mut Message| call.set_word(20, 5);
    assert_eq!(refused(version_3, &getattr, readlink), [1, 0], "READLINK has no limit");
    assert_eq!(refused(large, &|capture| plain_calls(capture, 0)[0], |_| {}), [0, 1], "NULL has no results");
    // The last operation after SEQUENCE is RECLAIM_COMPLETE with its one argument.
    let last_operation = |call: &Message| call.word(call.payload.len() - 8);
    let capture = large();
    let reclaim =
        plain_calls(&capture, 1).into_iter().find(|xid| last_operation(&call_of(&capture, *xid)) == 58);
    let reclaim = reclaim.expect("the client sends RECLAIM_COMPLETE");
    assert_eq!(refused(large, &|_| reclaim, |_| {}), [0, 1], "its results are short");
    // A GETATTR of no attributes, of size (RFC 8881, section 5.8), and of acl, which has no limit.
    fn make_getattr(call: &mut Message, bitmap: &[u32]) {
        let at = call.payload.len() - 8;
        call.payload.truncate(at);
        call.payload
            .extend([9, bitmap.len() as u32].iter().chain(bitmap).flat_map(|word| word.to_be_bytes()));
    }
    assert_eq!(refused(large, &|_| reclaim, |call| make_getattr(call, &[])), [0, 1], "no attribute");
    assert_eq!(
        refused(large, &|_| reclaim, |call| make_getattr(call, &[1 << 4])),
        [0, 1],
        "size has a length"
    );
    assert_eq!(
        refused(large, &|_| reclaim, |call| make_getattr(call, &[1 << 12])),
        [1, 0],
        "acl has no limit"
    );
}

/// A session with a CB_RECALL that is answered with ERR_CHUNK.
pub(crate) fn with_refused_callback() -> Capture {
    let mut capture = samples::capture("nfs4.1-backchannel-recall");
    let is_callback = |packet: &&Packet| {
        packet.starts_message() && packet.source() == SERVER && packet.u32(packet.payload().start + 32) == 0
    };
    let callback = capture.packets.iter().find(is_callback).expect("the server recalls").xid();
    let is_reply =
        |packet: &Packet| packet.starts_message() && packet.source() == CLIENT && packet.xid() == callback;
    let reply = capture.packets.iter().position(is_reply).expect("it is answered");
    let packet = &mut capture.packets[reply];
    let words = [callback.expect("it is a message"), 1, packet.u32(packet.payload().start + 8), 4, 2, 0, 0];
    packet.set_after_bth(&crate::header::words(&words));
    capture
}

/// RFC 8167, section 5.3: a client need not support chunks, and the reply to a callback is small.
#[test]
fn err_chunk_for_a_callback_is_unrelated_to_room() {
    let found: Vec<String> = judged::findings(&with_refused_callback())
        .iter()
        .filter(|finding| judged::rule(finding).id == "reply-chunk-too-small")
        .map(judged::line)
        .collect();
    assert!(found.is_empty(), "{found:?}");
}
