//! Texts of reactions.

use super::*;
use crate::scenario::pattern::{ErrorPattern, Pattern, ReplyPattern, RpcStatus};
use alloc::vec::Vec;

#[test]
fn names_match_those_in_scenario_files() {
    let read = |field: &str, name: &str| {
        toml::from_str::<ReplyPattern>(&format!("{field} = \"{name}\""))
            .map_err(|error| format!("{name}: {error}"))
    };
    for status in ["success", "garbage-args", "refused", "denied", "unreadable"] {
        let pattern = read("status", status).unwrap();
        assert_eq!(pattern.status.map(RpcStatus::name), Some(status));
        assert_eq!(Pattern::Reply(pattern).to_string(), format!("reply {status}"));
    }
    for chunks in ["missing", "returned", "unused", "used", "different"] {
        let pattern = read("writes", chunks).unwrap();
        assert_eq!(pattern.writes.map(ReplyChunks::name), Some(chunks));
        assert_eq!(Pattern::Reply(pattern).to_string(), format!("reply Write list {chunks}"));
        let pattern = read("reply-chunk", chunks).unwrap();
        assert_eq!(Pattern::Reply(pattern).to_string(), format!("reply Reply chunk {chunks}"));
    }
}

#[test]
fn observed_replies_are_displayed_as_text() {
    let plain = ReplySeen {
        status: Some(Status::Success),
        credits: 64,
        long: false,
        read_chunk: false,
        length: 1024,
        invalidated: false,
        writes: ReplyChunks::Unused,
        reply_chunk: ReplyChunks::Unused,
        retransmitted: false,
    };
    let long = ReplySeen { long: true, reply_chunk: ReplyChunks::Used, ..plain };
    let texts: Vec<String> = [
        plain,
        ReplySeen { length: 7432, ..plain },
        ReplySeen { writes: ReplyChunks::Missing, ..plain },
        ReplySeen { writes: ReplyChunks::Used, reply_chunk: ReplyChunks::Different, ..plain },
        long,
        ReplySeen { status: None, read_chunk: true, ..plain },
        ReplySeen { status: None, ..plain },
    ]
    .map(|reply| Observed::Reply(reply).to_string())
    .into();
    let expected = [
        "reply SUCCESS, credits 64",
        "reply SUCCESS of 7432 bytes, credits 64",
        "reply SUCCESS, credits 64, Write list missing",
        "reply SUCCESS, credits 64, Write list used, Reply chunk different",
        "reply SUCCESS, credits 64, in the Reply chunk",
        "reply in a Read chunk, credits 64",
        "unreadable reply, credits 64",
    ];
    assert_eq!(texts, expected);
    assert_eq!(Observed::Silence.to_string(), "nothing");
}

#[test]
fn error_without_a_version_matches_neither_same_nor_other() {
    let seen = |same_version| Observed::Error { error: Error::Chunk, same_version, credits: 1 };
    let named = |wanted| Pattern::Error(ErrorPattern { same_version: wanted, ..ErrorPattern::default() });
    for (sent, same, other) in [(Some(true), true, false), (Some(false), false, true), (None, false, false)] {
        assert!(named(None).matches(&seen(sent)));
        assert_eq!(named(Some(true)).matches(&seen(sent)), same);
        assert_eq!(named(Some(false)).matches(&seen(sent)), other);
        assert_eq!(seen(sent).to_string().contains("another rdma_vers"), other);
    }
}
