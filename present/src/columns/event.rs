//! `event`: an event of a connection.

use super::shared::ENDS;
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
        "a connection was established, from the REQ to the RTU, or from the MPA Request to the Reply",
    ),
    explained(
        "request-repeated",
        "the client repeated its REQ, or the SYN of an iWARP connection, because it was not answered or because \
         the answer was lost",
    ),
    explained("request-unanswered", "a REQ, an MPA Request or a SYN was never answered"),
    explained(
        "rejected",
        "a REJ, an MPA Reply with R set, or a RST in answer to a SYN refused the connection",
    ),
    explained("disconnected", "the connection was closed, by a DREQ, FIN or RST"),
    explained(
        "service-lost",
        "no reply arrived for at least a second, while a call or a client without a connection waited",
    ),
    explained(
        "retries-exhausted",
        "a request was sent at least three times and never acknowledged, until its connection was closed or \
         silent",
    ),
    explained("nak", "NAKs of one cause, each less than a second after the previous one"),
    explained("rnr-nak", "RNR NAKs, each less than a second after the previous one"),
    explained(
        "calls-replayed",
        "calls without a reply on one connection were repeated on the next connection",
    ),
    explained(
        "recovery",
        "NFSv4 calls after a reconnect that establish client ID and session again, and reclaims of opens and \
         locks",
    ),
    explained(
        "call-waited",
        "a call waited for at least a second, or never had a reply, while calls sent later were answered; or a \
         callback did",
    ),
    explained("disconnect-unanswered", "a DREQ was repeated and never answered"),
    explained(
        "credits-exhausted",
        "the number of outstanding calls reached the credits that the server had granted",
    ),
    explained(
        "call-fails-again",
        "the same operation failed with the same RDMA_ERROR, or with GARBAGE_ARGS, on one connection and on \
         later ones; or it was under way each time they ended",
    ),
    explained(
        "call-delayed",
        "the server answered a request with NFS3ERR_JUKEBOX, NFS4ERR_DELAY or another error that asks the client \
         to send it again later, or denied a lock that the client waits for, for at least a second",
    ),
    explained(
        "carried-out-twice",
        "a request that creates, removes or renames had no reply, was sent again, and failed because the object \
         exists or is gone",
    ),
    explained(
        "status-flags",
        "a server set flags of sr_status_flags in a reply to SEQUENCE, until a reply has none of them or \
         the session ends",
    ),
    explained("state-lost", "NFSv4 state was revoked, or was lost without being returned"),
    explained("recall-unanswered", "delegations or layouts were recalled and never returned"),
    explained(
        "copy-unreported",
        "no CB_OFFLOAD, OFFLOAD_STATUS or OFFLOAD_CANCEL ended an asynchronous COPY or WRITE_SAME",
    ),
];

/// An event of a connection.
pub static EVENT: Columns<SessionEvent> = {
    type C = Column<SessionEvent>;
    Columns {
        name: "event",
        role: Role::Line,
        columns: &[
            C::new("time", Time(|event| Some(event.time)), "When the event began.").cell(
                0,
                "seconds",
                Right(11),
                Cell::Instant(|event| Some(event.time)),
            ),
            C::new("event", Word(KINDS, |event| Some(event.kind.word())), "The kind of event.")
                .text(3, "event", Left(18))
                .tint(|event| if event.kind.is_loss() { Tint::Red } else { Tint::Plain }),
            C::connection(|event| Some(event.connection.0)).text(2, "conn", Right(4)),
            C::new(
                "other_connection",
                U32(|event| event.other.map(|id| id.0)),
                "For `connected` and `calls-replayed`, the previous connection between the same two ends; \
                 for `disconnected`, the connection for which a client with work asked at once; for \
                 `service-lost`, the connection with the next reply, or the next one that was made; for \
                 `call-fails-again` and `call-delayed`, the last connection with the call; \
                 for `carried-out-twice`, the first one.",
            )
            .or_null(),
            C::new(
                "by",
                Word(ENDS, |event| event.by_requester.map(words::end)),
                "The end that sent the packets of the event, such as the DREQ, the NAKs or the repeated request. \
                 It need not be at fault. It is null if neither end did, or if the capture does not show it.",
            )
            .or_null(),
            C::new(
                "duration_ns",
                Nanoseconds(|event| event.duration),
                "The duration. For `connected`, from the REQ to the RTU, or to the REP if there is no RTU; \
                 over iWARP, from the MPA Request to the Reply. For repetitions, from the first to the \
                 last. For `credits-exhausted`, the sum. It is null if unknown.",
            )
            .or_null()
            .text(1, "duration", Right(9)),
            C::new(
                "count",
                U64(|event| Some(event.count)),
                "The number of packets sent, NAKs, calls that waited, failed or were repeated, or periods \
                 without credits; otherwise 1.",
            ),
            C::new("first_frame", Frame(|event| event.frames[0]), "The first packet of the evidence.")
                .or_null()
                .text(4, "frame", Right(7)),
            C::new("last_frame", Frame(|event| event.frames[1]), "The last packet of the evidence.")
                .or_null(),
            C::new(
                "text",
                Text(|event, see| see(&event.text)),
                "A description of the event, in words for people. The wording may change.",
            )
            .text(5, "what", Left(0)),
        ],
    }
};
