//! `event`: what happened to a connection.

use crate::column::Align::{Left, Right};
use crate::column::Read::{Frame, Nanoseconds, Text, Time, U32, U64, Word};
use crate::column::{Cell, Column, Columns, Role, Subject, Tint, Words, explained};
use crate::words;
use rdmascope_analysis::events::SessionEvent;

impl Subject for SessionEvent {
    type Of<'a> = &'a SessionEvent;
}

static KINDS: Words = &[
    explained(
        "connected",
        "a connection was made, from the REQ to the RTU, or from the MPA Request to the Reply",
    ),
    explained("request-repeated", "the client sent its REQ again before it was answered"),
    explained("request-unanswered", "a REQ or an MPA Request was never answered"),
    explained("rejected", "a REJ, or an MPA Reply with R set, came in place of a connection"),
    explained("disconnected", "the connection was closed, by a DREQ, FIN or RST"),
    explained(
        "service-lost",
        "for a second or longer no reply came, while a call or a client without a connection waited",
    ),
    explained(
        "retries-exhausted",
        "a request was sent three times or more and never acknowledged, until its connection was closed or silent",
    ),
    explained("nak", "NAKs of one cause, each less than a second behind the one before"),
    explained("rnr-nak", "the same of RNR NAKs"),
    explained("calls-replayed", "calls without a reply on one connection were sent again on the next"),
    explained("recovery", "NFSv4 calls behind a reconnect that make client ID, session and state anew"),
    explained("credits-exhausted", "as many calls were under way as the server had granted"),
    explained(
        "call-fails-again",
        "the same operation was answered with the same RDMA_ERROR, or with GARBAGE_ARGS, on one connection and on those that follow it",
    ),
    explained(
        "status-flags",
        "a server raised flags of sr_status_flags in a reply to SEQUENCE, until a reply has none of them or the session ends",
    ),
    explained("state-lost", "state of NFSv4 was revoked, or gone without being given back"),
    explained("recall-unanswered", "delegations or layouts were recalled and never returned"),
    explained(
        "copy-unreported",
        "no CB_OFFLOAD, OFFLOAD_STATUS or OFFLOAD_CANCEL ended an asynchronous COPY or WRITE_SAME",
    ),
];

/// What happened to a connection.
pub static EVENT: Columns<SessionEvent> = {
    type C = Column<SessionEvent>;
    Columns {
        name: "event",
        role: Role::Line,
        columns: &[
            C::new("time", Time(|event| Some(event.time)), "When it began.").cell(
                0,
                "seconds",
                Right(11),
                Cell::Instant(|event| Some(event.time)),
            ),
            C::new("event", Word(KINDS, |event| Some(event.kind.word())), "What happened.")
                .text(3, "event", Left(18))
                .tint(|event| if event.kind.is_loss() { Tint::Red } else { Tint::Plain }),
            C::new("connection", U32(|event| Some(event.connection.0)), "The number of the connection.").text(
                2,
                "conn",
                Right(4),
            ),
            C::new(
                "other_connection",
                U32(|event| event.other.map(|id| id.0)),
                "Of `connected` and `calls-replayed`, the connection between the same two ends that this one follows; of `service-lost`, \
                 the one that brought the next reply; of `call-fails-again`, the last one on which it failed.",
            )
            .or_null(),
            C::new(
                "by",
                Word(
                    &[
                        explained("requester", "the end that opened the connection"),
                        explained("responder", "the other end"),
                    ],
                    |event| event.by_requester.map(words::end),
                ),
                "The end that did it. It is null where nobody did, or where it cannot be told.",
            )
            .or_null(),
            C::new(
                "duration_ns",
                Nanoseconds(|event| event.duration),
                "How long it took: of `connected` from the REQ to the RTU, or to the REP where there is no RTU, over iWARP from the MPA Request to the Reply; of what was repeated from the first to \
                 the last; of `credits-exhausted` the sum. It is null where it is not known.",
            )
            .or_null()
            .text(1, "duration", Right(9)),
            C::new(
                "count",
                U64(|event| Some(event.count)),
                "How many: packets sent, NAKs, calls that waited, failed or were sent again, times without credits; else 1.",
            ),
            C::new("first_frame", Frame(|event| event.frames[0]), "The first packet that shows it.")
                .or_null()
                .text(4, "frame", Right(7)),
            C::new("last_frame", Frame(|event| event.frames[1]), "The last packet that shows it.").or_null(),
            C::new(
                "text",
                Text(|event, see| see(&event.text)),
                "What happened, in words for people. They may change.",
            )
            .text(5, "what", Left(0)),
        ],
    }
};
