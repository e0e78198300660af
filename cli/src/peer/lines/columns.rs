//! The columns of each kind of line: JSON, and the tables of docs/peer.md, come from them.

use super::export::{ENTRY, EXPORT, FILE, JOB};
use super::{Call, Chunk, Connection, End, Faults, Line, PrivateData, Rep, Sockets, State};
use rdmascope_peer::rpcrdma::Mechanism;
use rdmascope_present::column::Read::{
    Boolean, Nanoseconds, Object, Qpn, Shown, Text, Texts, U8, U16, U32, U64, Word, Xid,
};
use rdmascope_present::column::{Column, Columns, Role, Subject, Within, Words, explained, lend, word};
use serde::{Serialize, Serializer};

/// Those with a table in docs/peer.md.
#[cfg(test)]
pub(in crate::peer) static LISTS: [&dyn rdmascope_present::column::List; 9] =
    [&SOCKETS, &CONNECTION, &CALL, &CHUNK, &EXPORT, &ENTRY, &JOB, &FILE, &END];

impl Serialize for Line {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Line::Sockets(line) => SOCKETS.of(line).serialize(serializer),
            Line::Connection(line) => CONNECTION.of(line).serialize(serializer),
            Line::Call(line) => CALL.of(line).serialize(serializer),
            Line::Chunk(line) => CHUNK.of(line).serialize(serializer),
            Line::Export(line) => EXPORT.of(line).serialize(serializer),
            Line::Entry(line) => ENTRY.of(line).serialize(serializer),
            Line::Job(line) => JOB.of(line).serialize(serializer),
            Line::File(line) => FILE.of(line).serialize(serializer),
            Line::End(line) => END.of(line).serialize(serializer),
        }
    }
}

impl Subject for Sockets {
    type Of<'a> = &'a Sockets;
}

/// The sockets are there.
static SOCKETS: Columns<Sockets> = {
    type C = Column<Sockets>;
    Columns {
        name: "peer_sockets",
        role: Role::Line,
        columns: &[
            C::new(
                "sockets",
                Word(&[word("raw"), word("udp"), explained("verbs", "a device instead")], |line| {
                    Some(line.sockets)
                }),
                "The kind of sockets.",
            ),
            C::new(
                "device",
                Text(|line, see| lend(line.device.as_deref(), see)),
                "The device that `--verbs` names.",
            )
            .or_null(),
            C::new(
                "raw_refused",
                Boolean(|line| Some(line.raw_refused)),
                "Whether raw sockets were not permitted, and UDP sockets are used instead.",
            ),
            C::new(
                "local",
                Texts(|line, see| line.local.iter().for_each(|address| see(&address.to_string()))),
                "The local addresses.",
            ),
            C::new(
                "target",
                Shown(|line, see| lend(line.target, |target| see(&target))),
                "The address and port that `--to` names. It is null for `serve`.",
            )
            .or_null(),
            C::new("port", U16(|line| Some(line.port)), "The port of the RDMA connection manager."),
        ],
    }
};

impl Subject for Connection {
    type Of<'a> = &'a Connection;
}

/// In the words of [`State::word`].
const STATES: Words = &[
    word("connected"),
    explained("rejected", "the remote side sent a REJ"),
    explained("no-answer", "to the REQ or the REP"),
    explained("closed", "by this side"),
    word("closed-by-remote"),
    explained("closed-unanswered", "the DREQ of this side was not answered"),
    explained("given-up", "by this side, before the connection was made"),
    explained("gave-way", "by this side, because all places were taken and another client came"),
];

impl State {
    pub(super) const fn word(self) -> &'static str {
        match self {
            State::Connected => "connected",
            State::Rejected => "rejected",
            State::NoAnswer => "no-answer",
            State::Closed => "closed",
            State::ClosedByRemote => "closed-by-remote",
            State::ClosedUnanswered => "closed-unanswered",
            State::GivenUp => "given-up",
            State::GaveWay => "gave-way",
        }
    }
}

/// A connection was made, refused or closed.
static CONNECTION: Columns<Connection> = {
    type C = Column<Connection>;
    type O<U> = Within<Connection, U>;
    Columns {
        name: "peer_connection",
        role: Role::Line,
        columns: &[
            C::new("state", Word(STATES, |line| Some(line.state.word())), "What became of it."),
            C::new("remote", Shown(|line, see| see(&line.remote)), "The remote address."),
            C::new(
                "elapsed_ns",
                Nanoseconds(|line| line.elapsed_ns),
                "From the REQ to the moment when the connection was made.",
            )
            .or_null(),
            C::new("reject_reason", U16(|line| line.reject_reason), "The reason of the REJ.").or_null(),
            C::new("reject_name", Word(&[], |line| line.reject_name), "Its name.").or_null(),
            C::new(
                "rep",
                Object(&O { columns: &REP, lend: |line, see| lend(line.rep.as_ref(), see) }),
                "What the REP of the server says. It is null for `serve`, and with `--verbs`.",
            )
            .or_null(),
            C::new(
                "private_data",
                Object(&O {
                    columns: &PRIVATE_DATA,
                    lend: |line, see| lend(line.private_data.as_ref(), see),
                }),
                "RFC 8797 private data of the remote side.",
            )
            .or_null(),
            C::new(
                "call_inline_threshold",
                U32(|line| line.call_inline_threshold),
                "The inline threshold of calls on which both sides agreed.",
            )
            .or_null(),
            C::new("reply_inline_threshold", U32(|line| line.reply_inline_threshold), "That of replies.")
                .or_null(),
            C::new(
                "remote_invalidation",
                Boolean(|line| line.remote_invalidation),
                "Whether both sides support remote invalidation.",
            )
            .or_null(),
        ],
    }
};

impl Subject for Rep {
    type Of<'a> = &'a Rep;
}

static REP: Columns<Rep> = {
    type C = Column<Rep>;
    Columns {
        name: "rep",
        role: Role::Inner,
        columns: &[
            C::new("qpn", Qpn(|rep| Some(rep.qpn.0)), "The queue pair of the server."),
            C::new("starting_psn", U32(|rep| Some(rep.starting_psn)), "The Starting PSN."),
            C::new(
                "responder_resources",
                U8(|rep| Some(rep.responder_resources)),
                "RDMA Reads that the server can have outstanding towards it.",
            ),
            C::new(
                "initiator_depth",
                U8(|rep| Some(rep.initiator_depth)),
                "RDMA Reads that it means to have outstanding.",
            ),
            C::new(
                "rnr_retry_count",
                U8(|rep| Some(rep.rnr_retry_count)),
                "How often this side is to try again after an RNR NAK; 7: without end.",
            ),
            C::new(
                "target_ack_delay_ns",
                Nanoseconds(|rep| Some(rep.target_ack_delay_ns)),
                "The longest time that it takes to acknowledge.",
            ),
            C::new(
                "end_to_end_flow_control",
                Boolean(|rep| Some(rep.end_to_end_flow_control)),
                "Whether its acknowledgements carry credits.",
            ),
        ],
    }
};

impl Subject for PrivateData {
    type Of<'a> = &'a PrivateData;
}

static PRIVATE_DATA: Columns<PrivateData> = {
    type C = Column<PrivateData>;
    Columns {
        name: "private_data",
        role: Role::Inner,
        columns: &[
            C::new("version", U8(|data| Some(data.version)), "Its version; only version 1 counts."),
            C::new("remote_invalidation", Boolean(|data| Some(data.remote_invalidation)), "The R flag."),
            C::new("send_size", U32(|data| Some(data.send_size)), "Bytes that it sends inline at most."),
            C::new(
                "receive_size",
                U32(|data| Some(data.receive_size)),
                "Bytes that it receives inline at most.",
            ),
        ],
    }
};

impl Subject for Call {
    type Of<'a> = &'a Call;
}

/// A call, and what became of it.
static CALL: Columns<Call> = {
    type C = Column<Call>;
    Columns {
        name: "peer_call",
        role: Role::Line,
        columns: &[
            C::new("remote", Shown(|line, see| see(&line.remote)), "The remote address."),
            C::new(
                "number",
                U64(|line| Some(line.number)),
                "The number of the call, from 1, over all connections.",
            ),
            C::new("xid", Xid(|line| Some(line.xid.0)), "Its XID."),
            C::new(
                "program",
                U32(|line| line.program),
                "The RPC program. It is null where the RPC header could not be read.",
            )
            .or_null(),
            C::new("version", U32(|line| line.version), "Its version.").or_null(),
            C::new("procedure", U32(|line| line.procedure), "Its procedure.").or_null(),
            C::new(
                "rpc_status",
                Text(|line, see| lend(line.rpc_status.as_deref(), see)),
                "What the RPC header of the reply says, in the words of \
                 [json.md](json.md#transaction-an-rpc-call-and-its-reply).",
            )
            .or_null(),
            C::new(
                "nfs_status",
                Text(|line, see| lend(line.nfs_status.as_deref(), see)),
                "The status of the results of an NFSv3 procedure, such as `NFS3_OK`; digits where RFC 1813 does not know it. It is \
                 null for NULL, other programs and other versions, and where the RPC failed.",
            )
            .or_null(),
            C::new(
                "error",
                Text(|line, see| lend(line.error.as_deref(), see)),
                "What the RDMA_ERROR says, why the reply was discarded, or why there was no reply.",
            )
            .or_null(),
            C::new(
                "latency_ns",
                Nanoseconds(|line| line.latency_ns),
                "From the call to its reply, in this process. It is null for `serve`, and without a reply.",
            )
            .or_null(),
            C::new(
                "credits",
                U32(|line| line.credits),
                "rdma_credit: of `call` what the reply grants, of `serve` what the call asks for.",
            )
            .or_null(),
            C::new(
                "mechanism",
                Word(
                    &[
                        explained("send", "inline"),
                        explained("reply-chunk", "in the Reply chunk of the call"),
                        explained("read-chunk", "in a Read chunk of the server: see `--reliable-reply`"),
                    ],
                    |line| line.mechanism.map(Mechanism::name),
                ),
                "How the Payload stream of the reply was conveyed.",
            )
            .or_null(),
        ],
    }
};

impl Subject for Chunk {
    type Of<'a> = &'a Chunk;
}

/// In the words of `Freed::name`.
const FREED: Words = &[
    explained("done", "by RDMA_DONE"),
    explained("invalidated", "by RDMA_DONE, whose Send invalidated the first handle"),
    explained("time", "`--offer-time` is over"),
    explained("room", "a newer chunk would have exceeded `--offer-bytes`"),
    explained("reused", "a newer reply has the same XID"),
    explained("lost", "the connection ended"),
];

/// A Read chunk of `serve` is no longer offered.
static CHUNK: Columns<Chunk> = {
    type C = Column<Chunk>;
    Columns {
        name: "peer_chunk",
        role: Role::Line,
        columns: &[
            C::new("remote", Shown(|line, see| see(&line.remote)), "The remote address."),
            C::new("xid", Xid(|line| Some(line.xid.0)), "The XID of the reply."),
            C::new("bytes", U64(|line| Some(line.bytes)), "The bytes of its Payload stream."),
            C::new(
                "offered_ns",
                Nanoseconds(|line| Some(line.offered_ns)),
                "From the reply until the registration ended.",
            ),
            C::new("freed", Word(FREED, |line| Some(line.freed.name())), "Why it ended."),
        ],
    }
};

impl Subject for End {
    type Of<'a> = &'a End;
}

/// The command is at its end.
static END: Columns<End> = {
    type C = Column<End>;
    type O<U> = Within<End, U>;
    Columns {
        name: "peer_end",
        role: Role::Line,
        columns: &[
            C::new("calls", U64(|line| Some(line.calls)), "Calls made, or received."),
            C::new(
                "answered",
                U64(|line| Some(line.answered)),
                "Calls that were answered, whatever the status.",
            ),
            C::new(
                "sent",
                U64(|line| line.sent),
                "Packets sent. This and the next three are null with `--verbs`.",
            )
            .or_null(),
            C::new("icrc_good", U64(|line| line.icrc_good), "Packets received whose ICRC is right.")
                .or_null(),
            C::new(
                "icrc_bad",
                U64(|line| line.icrc_bad),
                "Packets received whose ICRC is wrong: they were dropped.",
            )
            .or_null(),
            C::new(
                "icrc_unverified",
                U64(|line| line.icrc_unverified),
                "Packets received whose ICRC could not be verified for certain.",
            )
            .or_null(),
            C::new(
                "faults",
                Object(&O { columns: &FAULTS, lend: |line, see| lend(line.faults.as_ref(), see) }),
                "What was done on purpose. It is null without `--loss`, `--duplication` and `--reordering`.",
            )
            .or_null(),
        ],
    }
};

impl Subject for Faults {
    type Of<'a> = &'a Faults;
}

static FAULTS: Columns<Faults> = {
    type C = Column<Faults>;
    Columns {
        name: "faults",
        role: Role::Inner,
        columns: &[
            C::new("lost", U32(|faults| Some(faults.lost)), "Packets that were lost."),
            C::new("repeated", U32(|faults| Some(faults.repeated)), "Packets that went twice."),
            C::new("delayed", U32(|faults| Some(faults.delayed)), "Packets that were held back."),
        ],
    }
};
