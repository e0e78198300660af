//! Triggers and tests of Write chunks, and of the chunks that replies return.

use super::binding::{READ_3, seal};
use super::{
    EXCHANGE_ID, FOREIGN, READ, READ_OF_SIX, READ_OF_TWO, basic, call_of, change_call, change_reply, found,
    is_conclusive, large, plain, send_reply_inline, send_six_inline, set_written, version_3, write_to,
};
use crate::{By, Trigger, shown};
use rdmascope_tests::mutate::{Message, SERVER, Segment};
use rdmascope_tests::pcap::Capture;

pub(crate) const TRIGGERS: &[Trigger] = &[
    Trigger {
        rule: "write-chunk-count",
        alteration: "the reply to a READ has the data inline, and no Write list",
        control: basic,
        alter: |capture| {
            send_six_inline(capture);
            change_reply(capture, READ_OF_SIX, |reply| reply.writes.clear());
        },
        also: &[],
        shows: shown(By::Responder, &[1018, 1021], "0", "1"),
    },
    Trigger {
        rule: "returned-chunk-segments",
        alteration: "the Write chunk of a READ is returned with another handle",
        control: large,
        alter: |capture| change_reply(capture, READ, |reply| reply.writes[0][0].handle ^= 1),
        also: &[],
        shows: shown(
            By::Responder,
            &[1017, 1037],
            "0x00000ee4 at 0xf88a5ddc48ba6000",
            "0x00000ee5 at 0xf88a5ddc48ba6000",
        ),
    },
    Trigger {
        rule: "returned-chunk-segments",
        alteration: "the Write chunk of a READ of version 4 is returned with one segment of two",
        control: large,
        alter: |capture| {
            change_reply(capture, READ_OF_TWO, |reply| {
                reply.writes[0].pop();
                shorten_result(reply, 131_072);
            })
        },
        also: &[],
        shows: shown(By::Responder, &[1076, 1153], "1", "2"),
    },
    Trigger {
        rule: "returned-chunk-segments",
        alteration: "a reply of version 4 is sent inline and returns its Reply chunk without segments",
        control: large,
        alter: |capture| {
            send_reply_inline(capture, EXCHANGE_ID);
            change_reply(capture, EXCHANGE_ID, |reply| reply.reply = Some(Vec::new()));
        },
        also: &[],
        shows: shown(By::Responder, &[8, 12], "0", "1"),
    },
    Trigger {
        rule: "returned-chunk-length",
        alteration: "the first segment of a READ's Write chunk is returned with four bytes more than it \
            has, the second with four less",
        control: large,
        alter: |capture| {
            change_reply(capture, READ_OF_TWO, |reply| {
                reply.writes[0][0].length += 4;
                reply.writes[0][1].length -= 4;
            })
        },
        also: &[],
        shows: shown(By::Responder, &[1076, 1153], "131076 bytes", "131072 bytes"),
    },
    Trigger {
        rule: "returned-chunk-filling",
        alteration: "the result of a READ is four bytes shorter, and its first segment lacks these bytes",
        control: large,
        alter: |capture| {
            change_reply(capture, READ_OF_TWO, |reply| {
                reply.writes[0][0].length -= 4;
                shorten_result(reply, 4);
            })
        },
        also: &[],
        shows: shown(By::Responder, &[1076, 1153], "131068 bytes", "131072 bytes"),
    },
    Trigger {
        rule: "write-chunk-length",
        alteration: "the Write chunk of a READ of six bytes is returned with five",
        control: basic,
        alter: |capture| change_reply(capture, READ_OF_SIX, |reply| reply.writes[0][0].length = 5),
        also: &[],
        shows: shown(By::Responder, &[1018, 1021], "5 bytes", "6 bytes"),
    },
    Trigger {
        rule: "write-chunk-length",
        alteration: "the Write chunk of a READ of six bytes is returned unused, and the reply is unchanged",
        control: basic,
        alter: |capture| change_reply(capture, READ_OF_SIX, |reply| reply.writes[0][0].length = 0),
        also: &[],
        shows: shown(By::Responder, &[1018, 1021], "0 bytes", "5 to 8 bytes"),
    },
    Trigger {
        rule: "write-chunk-length",
        alteration: "the Write chunk of a READ of six bytes is returned without segments, and the reply is \
            unchanged",
        control: basic,
        alter: |capture| change_reply(capture, READ_OF_SIX, |reply| reply.writes[0].clear()),
        also: &[],
        shows: shown(By::Responder, &[1018, 1021], "0 bytes", "5 to 8 bytes"),
    },
    Trigger {
        rule: "write-chunk-padding",
        alteration: "eight bytes are written for a READ of six, and the Write chunk is returned with eight",
        control: basic,
        alter: |capture| {
            let handle = call_of(capture, READ_OF_SIX).writes[0][0].handle;
            let index = write_to(capture, handle);
            set_written(&mut capture.packets[index], &[1, 2, 3, 4, 5, 6, 0, 0]);
            change_reply(capture, READ_OF_SIX, |reply| reply.writes[0][0].length = 8);
        },
        also: &[],
        shows: shown(By::Responder, &[1018, 1021], "8 bytes", "6 bytes"),
    },
    Trigger {
        rule: "write-chunk-padding",
        alteration: "eight bytes are written for a READ of six, and the Write chunk is returned with six",
        control: basic,
        alter: |capture| {
            let handle = call_of(capture, READ_OF_SIX).writes[0][0].handle;
            let index = write_to(capture, handle);
            set_written(&mut capture.packets[index], &[1, 2, 3, 4, 5, 6, 0, 0]);
        },
        also: &[],
        shows: shown(By::Responder, &[1018, 1021], "8 bytes", "6 bytes"),
    },
    Trigger {
        rule: "write-chunk-space",
        alteration: "a READ of 65534 bytes has a Write chunk of 65536",
        control: large,
        alter: |capture| change_call(capture, READ, |call| set_count(call, 65_534)),
        // The result is longer than the READ asks for.
        also: &["result-count"],
        shows: shown(By::Requester, &[1017], "65536 bytes", "65534 bytes"),
    },
    Trigger {
        rule: "write-chunk-order",
        alteration: "a READ is offered two Write chunks and its reply uses the second one",
        control: large,
        alter: use_the_second,
        also: &[],
        shows: shown(By::Responder, &[1017, 1037], "Write chunk 2", "Write chunk 1"),
    },
    Trigger {
        rule: "write-chunk-order",
        alteration: "a READ is offered an empty Write chunk and one with room, and its reply uses the second one",
        control: large,
        alter: |capture| {
            change_call(capture, READ, |call| call.writes.insert(0, Vec::new()));
            change_reply(capture, READ, |reply| reply.writes.insert(0, Vec::new()));
        },
        also: &[],
        shows: shown(By::Responder, &[1017, 1037], "Write chunk 2", "Write chunk 1"),
    },
    Trigger {
        rule: "write-chunk-order",
        alteration: "a READ is offered three Write chunks and its reply uses the third one",
        control: large,
        alter: |capture| {
            let second = Segment { handle: FOREIGN.handle + 1, ..FOREIGN };
            change_call(capture, READ, |call| drop(call.writes.splice(0..0, [vec![FOREIGN], vec![second]])));
            change_reply(capture, READ, |reply| {
                let unused = |segment| vec![Segment { length: 0, ..segment }];
                reply.writes.splice(0..0, [unused(FOREIGN), unused(second)]);
            });
        },
        also: &[],
        shows: shown(By::Responder, &[1017, 1037], "Write chunk 3", "Write chunk 1"),
    },
    Trigger {
        rule: "write-chunk-ignored",
        alteration: "the reply to a READ has the data inline, and its Write chunk is returned unused",
        control: basic,
        alter: send_six_inline,
        also: &[],
        shows: shown(By::Responder, &[1018, 1021], "inline", "Write chunk 1"),
    },
    Trigger {
        rule: "write-chunk-too-small",
        alteration: "the Write chunk of a READ has four bytes, and the result is six bytes inline",
        control: basic,
        alter: |capture| {
            let handle = call_of(capture, READ_OF_SIX).writes[0][0].handle;
            let index = write_to(capture, handle);
            set_written(&mut capture.packets[index], &[1, 2, 3, 4]);
            change_call(capture, READ_OF_SIX, |call| call.writes[0][0].length = 4);
            send_six_inline(capture);
        },
        also: &[],
        shows: shown(By::Requester, &[1018, 1021], "4 bytes", "6 bytes"),
    },
    Trigger {
        rule: "write-chunk-room",
        alteration: "a READ asks for one byte more than its Write chunk has",
        control: large,
        alter: |capture| change_call(capture, READ, |call| set_count(call, 65_537)),
        also: &[],
        shows: shown(By::Requester, &[1017], "65536 bytes", "65537 bytes"),
    },
    Trigger {
        rule: "write-chunk-only-empty",
        alteration: "a call has an empty Write chunk that none of its results can use, which is returned",
        control: large,
        alter: |capture| {
            let xid = plain(capture);
            change_call(capture, xid, |call| call.writes.push(Vec::new()));
            change_reply(capture, xid, |reply| reply.writes.push(Vec::new()));
        },
        also: &[],
        shows: shown(By::Requester, &[36], "1", "0"),
    },
];

/// Sets the count of [`READ`].
fn set_count(call: &mut Message, bytes: u32) {
    let count = call.payload.len() - 4;
    assert_eq!(call.word(count), 65_536, "the count is the last word of the call");
    call.set_word(count, bytes);
}

/// Shortens the data of a READ, whose count is the last word of its reply.
pub(super) fn shorten_result(reply: &mut Message, by: u32) {
    let count = reply.payload.len() - 4;
    let length = reply.word(count);
    assert_eq!(length, 262_144, "the count is the last word of the reply");
    reply.set_word(count, length - by);
}

#[test]
fn last_used_segment_need_not_be_full() {
    let alter = |capture: &mut Capture| {
        change_reply(capture, READ_OF_TWO, |reply| {
            reply.writes[0][1].length -= 4;
            shorten_result(reply, 4);
        })
    };
    for id in ["returned-chunk-filling", "write-chunk-length", "write-chunk-padding"] {
        assert!(found(large, alter, id).is_empty(), "{id}");
    }
}

#[test]
fn empty_write_chunk_keeps_its_result_inline() {
    // RFC 8166, section 4.3.2.3. The RDMA WRITE for the chunk then belongs to no call, which is
    // another rule.
    let alter = |capture: &mut Capture| {
        send_six_inline(capture);
        change_call(capture, READ_OF_SIX, |call| call.writes[0].clear());
        change_reply(capture, READ_OF_SIX, |reply| reply.writes[0].clear());
    };
    for id in [
        "write-chunk-ignored",
        "write-chunk-too-small",
        "write-chunk-room",
        "write-chunk-count",
        "returned-chunk-segments",
    ] {
        assert!(found(basic, alter, id).is_empty(), "{id}");
    }
}

/// Data missing from the stream is no fault of a chunk that has no room or was not returned.
#[test]
fn missing_data_accuse_only_returned_chunks_with_room() {
    let empty = |capture: &mut Capture| {
        change_call(capture, READ_OF_SIX, |call| call.writes[0].clear());
        change_reply(capture, READ_OF_SIX, |reply| reply.writes[0].clear());
    };
    assert!(found(basic, empty, "write-chunk-length").is_empty());
    let results = found(basic, empty, "rpc-results");
    assert!(is_conclusive(&results) && results[0].by_requester == Some(false), "{results:?}");
    let one_of_two = |capture: &mut Capture| {
        change_call(capture, READ_OF_SIX, |call| call.writes.push(vec![FOREIGN]));
        change_reply(capture, READ_OF_SIX, |reply| reply.writes[0][0].length = 0);
    };
    assert!(found(basic, one_of_two, "write-chunk-length").is_empty());
    assert!(is_conclusive(&found(basic, one_of_two, "write-chunk-count")));
}

/// Offers a READ two Write chunks, and uses the second one in the reply.
fn use_the_second(capture: &mut Capture) {
    change_call(capture, READ, |call| call.writes.insert(0, vec![FOREIGN]));
    change_reply(capture, READ, |reply| reply.writes.insert(0, vec![Segment { length: 0, ..FOREIGN }]));
}

/// The assignment of results to chunks is known only if the results can be parsed.
#[test]
fn chunk_order_is_judged_only_for_parsed_results() {
    assert!(is_conclusive(&found(large, use_the_second, "write-chunk-order")));
    let unknown = |capture: &mut Capture| {
        use_the_second(capture);
        change_call(capture, READ, super::make_unknown);
    };
    assert!(found(large, unknown, "write-chunk-order").is_empty(), "a program without a binding");
    let cut = |capture: &mut Capture| {
        use_the_second(capture);
        let reply = super::send_of(capture, SERVER, READ);
        let packet = &mut capture.packets[reply];
        packet.data.truncate(packet.payload().end - 4);
    };
    assert!(found(large, cut, "write-chunk-order").is_empty(), "the capture lacks the end of the reply");
}

/// A READ at the end of its file has no data for its chunk.
#[test]
fn empty_result_leaves_its_chunk_unused() {
    let alter = |capture: &mut Capture| {
        change_reply(capture, READ_OF_SIX, |reply| {
            let count = reply.payload.len() - 4;
            assert_eq!(reply.word(count), 6, "the count is the last word of the reply");
            reply.set_word(count, 0);
            reply.writes[0][0].length = 0;
        })
    };
    for id in ["write-chunk-ignored", "write-chunk-length", "write-chunk-order", "rpc-results"] {
        assert!(found(basic, alter, id).is_empty(), "{id}");
    }
}

/// An inline result is the Responder's fault if the chunk has room for it, and the Requester's if
/// it has none.
#[test]
fn room_for_an_inline_result_is_exact() {
    let inline = |room: u32| {
        let alter = |capture: &mut Capture| {
            change_call(capture, READ_OF_SIX, |call| call.writes[0][0].length = room);
            send_six_inline(capture);
        };
        ["write-chunk-too-small", "write-chunk-ignored", "write-chunk-room"]
            .map(|id| found(basic, alter, id).len())
    };
    assert_eq!([5, 6].map(inline), [[1, 0, 0], [0, 1, 1]], "the READ asks for 4096 bytes");
}

/// RFC 8267, section 5: data sealed by RPCSEC_GSS must not be in a chunk, which is another rule.
#[test]
fn chunk_of_a_sealed_read_is_not_measured() {
    let measured = |sealed: bool, more: i32| {
        let alter = |capture: &mut Capture| {
            change_call(capture, READ_3, |call| {
                let room = call.writes[0].iter().map(|segment| segment.length).sum::<u32>();
                let count = call.payload.len() - 4;
                call.set_word(count, room.checked_add_signed(more).expect("a length"));
            });
            if sealed {
                seal(capture, READ_3, 0);
            }
        };
        ["write-chunk-room", "write-chunk-space"].map(|id| found(version_3, alter, id).len())
    };
    assert_eq!([measured(false, 1), measured(false, -1)], [[1, 0], [0, 1]]);
    assert_eq!([measured(true, 1), measured(true, -1)], [[0, 0]; 2]);
}

#[test]
fn nfs4_chunk_without_a_result_may_be_empty_or_unused() {
    // RFC 8267, section 6.4.1, and RFC 8166, section 4.3.2.2, disagree.
    for is_empty in [false, true] {
        let alter = |capture: &mut Capture| {
            change_reply(capture, READ_OF_SIX, |reply| {
                super::binding::fail_read(reply);
                reply.writes[0][0].length = 0;
                if is_empty {
                    reply.writes[0].clear();
                }
            })
        };
        for id in ["returned-chunk-segments", "write-chunk-count", "write-chunk-ignored", "binding-result"] {
            assert!(found(basic, alter, id).is_empty(), "{id}, {is_empty}");
        }
    }
}

#[test]
fn nfs3_chunk_is_returned_with_its_segments() {
    let alter = |capture: &mut Capture| change_reply(capture, READ_3, |reply| reply.writes[0].clear());
    assert!(is_conclusive(&found(super::version_3, alter, "returned-chunk-segments")));
}

#[test]
fn written_bytes_that_are_not_returned_are_no_padding() {
    // RFC 8166, section 4.3.2.2: more bytes may be written than are returned.
    for bytes in [7, 9, 12, 4096] {
        let alter = |capture: &mut Capture| {
            let handle = call_of(capture, READ_OF_SIX).writes[0][0].handle;
            let index = write_to(capture, handle);
            set_written(&mut capture.packets[index], &vec![0; bytes.min(1024)]);
        };
        assert!(found(basic, alter, "write-chunk-padding").is_empty(), "{bytes}");
    }
}

#[test]
fn write_chunk_without_room_for_padding_is_allowed() {
    for count in [65_536, 65_532, 65_533 - 4] {
        let alter = |capture: &mut Capture| change_call(capture, READ, |call| set_count(call, count));
        assert!(found(large, alter, "write-chunk-space").is_empty(), "{count}");
    }
}
