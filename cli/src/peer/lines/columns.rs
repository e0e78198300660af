//! The columns of each kind of line. They define the JSON and the tables of docs/peer.md.

use super::export::{ENTRY, EXPORT, FILE, JOB};
use super::{Call, Chunk, Connection, End, Faults, Line, Sockets, target_ack_delay};
use rdmascope_peer::cm::Closed;
use rdmascope_peer::rpcrdma::Mechanism;
use rdmascope_present::column::Read::{
    Boolean, Nanoseconds, Object, Qpn, Shown, Text, Texts, U8, U16, U32, U64, Word, Xid,
};
use rdmascope_present::column::{Column, Columns, Role, Subject, Within, Words, explained, lend, word};
use rdmascope_present::json::Json;
use rdmascope_wire::cm::{Reply, reject_reason_name};
use rdmascope_wire::private_data::PrivateData;

/// The lists with a table in docs/peer.md.
#[cfg(test)]
pub(in crate::peer) static LISTS: [&dyn rdmascope_present::column::List; 9] =
    [&SOCKETS, &CONNECTION, &CALL, &CHUNK, &EXPORT, &ENTRY, &JOB, &FILE, &END];

impl Json for Line {
    fn json(&self, out: &mut Vec<u8>) {
        match self {
            Line::Sockets(line) => SOCKETS.of(line).json(out),
            Line::Connection(line) => CONNECTION.of(line).json(out),
            Line::Call(line) => CALL.of(line).json(out),
            Line::Chunk(line) => CHUNK.of(line).json(out),
            Line::Export(line) => EXPORT.of(line).json(out),
            Line::Entry(line) => ENTRY.of(line).json(out),
            Line::Job(line) => JOB.of(line).json(out),
            Line::File(line) => FILE.of(line).json(out),
            Line::End(line) => END.of(line).json(out),
        }
    }
}

impl Subject for Sockets {
    type Of<'a> = &'a Sockets;
}

/// The sockets are open.
static SOCKETS: Columns<Sockets> = {
    type C = Column<Sockets>;
    Columns {
        name: "peer_sockets",
        role: Role::Line,
        columns: &[
            C::new(
                "sockets",
                Word(&[word("raw"), word("udp"), explained("verbs", "an RDMA device")], |line| {
                    Some(line.sockets)
                }),
                "The kind of sockets.",
            ),
            C::new(
                "device",
                Text(|line, see| lend(line.device.as_deref(), see)),
                "The device set with `--verbs`.",
            )
            .or_null(),
            C::new(
                "raw_refused",
                Boolean(|line| Some(line.raw_refused)),
                "Whether UDP sockets replace raw sockets that were not permitted.",
            ),
            C::new(
                "local",
                Texts(|line, see| line.local.iter().for_each(|address| see(&address.to_string()))),
                "The local addresses.",
            ),
            C::new(
                "target",
                Shown(|line, see| lend(line.target, |target| see(&target))),
                "The address and port set with `--to`. It is null for `serve`.",
            )
            .or_null(),
            C::new("port", U16(|line| Some(line.port)), "The port of the RDMA connection manager."),
        ],
    }
};

impl Subject for Connection {
    type Of<'a> = &'a Connection;
}

const STATES: Words = &[
    word("connected"),
    explained("rejected", "the remote side sent a REJ"),
    explained("no-answer", "no answer to the REQ or the REP"),
    explained("closed", "by this side"),
    word("closed-by-remote"),
    explained("closed-unanswered", "the DREQ of this side was not answered"),
    explained("given-up", "by this side, before the connection was established"),
    explained("gave-way", "by this side, to make room for another client"),
];

const fn state(line: &Connection) -> &'static str {
    match line.closed {
        None => "connected",
        Some(Closed::Rejected { .. }) => "rejected",
        Some(Closed::NoAnswer) => "no-answer",
        Some(Closed::Local) => "closed",
        Some(Closed::Remote) => "closed-by-remote",
        Some(Closed::LocalUnanswered) => "closed-unanswered",
        Some(Closed::LocalReject) => "given-up",
        Some(Closed::GaveWay) => "gave-way",
    }
}

/// A connection was established, rejected or closed.
static CONNECTION: Columns<Connection> = {
    type C = Column<Connection>;
    type O<U> = Within<Connection, U>;
    Columns {
        name: "peer_connection",
        role: Role::Line,
        columns: &[
            C::new("state", Word(STATES, |line| Some(state(line))), "The state of the connection."),
            C::new("remote", Shown(|line, see| see(&line.remote)), "The remote address."),
            C::new(
                "elapsed_ns",
                Nanoseconds(|line| line.elapsed_ns),
                "Time from the REQ until the connection was established.",
            )
            .or_null(),
            C::new("reject_reason", U16(|line| line.reject_reason()), "The reason of the REJ.").or_null(),
            C::new("reject_name", Word(&[], |line| reject_reason_name(line.reject_reason()?)), "Its name.")
                .or_null(),
            C::new(
                "rep",
                Object(&O { columns: &REP, lend: |line, see| lend(line.rep, see) }),
                "The fields of the server's REP. It is null for `serve`, and with `--verbs`.",
            )
            .or_null(),
            C::new(
                "private_data",
                Object(&O { columns: &PRIVATE_DATA, lend: |line, see| lend(line.private_data, see) }),
                "The RFC 8797 private data of the remote side.",
            )
            .or_null(),
            C::new(
                "call_inline_threshold",
                U32(|line| Some(line.negotiated?.call_inline_threshold)),
                "The negotiated inline threshold of calls.",
            )
            .or_null(),
            C::new(
                "reply_inline_threshold",
                U32(|line| Some(line.negotiated?.reply_inline_threshold)),
                "The negotiated inline threshold of replies.",
            )
            .or_null(),
            C::new(
                "remote_invalidation",
                Boolean(|line| Some(line.negotiated?.remote_invalidation)),
                "Whether both sides support remote invalidation.",
            )
            .or_null(),
        ],
    }
};

struct Rep;

impl Subject for Rep {
    type Of<'a> = Reply<'static>;
}

static REP: Columns<Rep> = {
    type C = Column<Rep>;
    Columns {
        name: "rep",
        role: Role::Inner,
        columns: &[
            C::new("qpn", Qpn(|rep| Some(rep.local_qpn.0)), "The queue pair of the server."),
            C::new("starting_psn", U32(|rep| Some(rep.starting_psn.value())), "The Starting PSN."),
            C::new(
                "responder_resources",
                U8(|rep| Some(rep.responder_resources)),
                "Most incoming RDMA Reads that the server can have outstanding.",
            ),
            C::new(
                "initiator_depth",
                U8(|rep| Some(rep.initiator_depth)),
                "Most outgoing RDMA Reads that it intends to have outstanding.",
            ),
            C::new(
                "rnr_retry_count",
                U8(|rep| Some(rep.rnr_retry_count)),
                "Number of retries by this side after an RNR NAK; 7: unlimited.",
            ),
            C::new(
                "target_ack_delay_ns",
                Nanoseconds(|rep| Some(target_ack_delay(&rep))),
                "The longest time that the server takes to acknowledge.",
            ),
            C::new(
                "end_to_end_flow_control",
                Boolean(|rep| Some(rep.end_to_end_flow_control)),
                "Whether its acknowledgements carry credits.",
            ),
        ],
    }
};

struct PrivateDataRow;

impl Subject for PrivateDataRow {
    type Of<'a> = PrivateData;
}

static PRIVATE_DATA: Columns<PrivateDataRow> = {
    type C = Column<PrivateDataRow>;
    Columns {
        name: "private_data",
        role: Role::Inner,
        columns: &[
            C::new("version", U8(|data| Some(data.version)), "The version; only version 1 is used."),
            C::new("remote_invalidation", Boolean(|data| Some(data.remote_invalidation)), "The R flag."),
            C::new("send_size", U32(|data| Some(data.send_bytes())), "Most bytes that it sends inline."),
            C::new(
                "receive_size",
                U32(|data| Some(data.receive_bytes())),
                "Most bytes that it receives inline.",
            ),
        ],
    }
};

impl Subject for Call {
    type Of<'a> = &'a Call;
}

/// A call and its result.
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
                U32(|line| Some(line.called?.0)),
                "The RPC program. It is null if the RPC header could not be read.",
            )
            .or_null(),
            C::new("version", U32(|line| Some(line.called?.1)), "The program version.").or_null(),
            C::new("procedure", U32(|line| Some(line.called?.2)), "The procedure.").or_null(),
            C::new(
                "rpc_status",
                Text(|line, see| lend(line.rpc_status.as_deref(), see)),
                "The status in the RPC header of the reply, in the words of \
                 [json.md](json.md#transaction-an-rpc-call-and-its-reply).",
            )
            .or_null(),
            C::new(
                "nfs_status",
                Text(|line, see| lend(line.nfs_status.as_deref(), see)),
                "The status of an NFSv3 procedure, such as `NFS3_OK`; a number if RFC 1813 does not define it. It is \
                 null for NULL, other programs and other versions, and if the RPC failed.",
            )
            .or_null(),
            C::new(
                "error",
                Text(|line, see| lend(line.error.as_deref(), see)),
                "The content of the RDMA_ERROR, or why the reply was discarded or missing.",
            )
            .or_null(),
            C::new(
                "latency_ns",
                Nanoseconds(|line| line.latency_ns),
                "Time from the call to its reply, measured in this process. It is null for `serve`, and without a reply.",
            )
            .or_null(),
            C::new(
                "credits",
                U32(|line| line.credits),
                "rdma_credit: for `call` the grant in the reply, for `serve` the request in the call.",
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

/// The words of `Freed::name`.
const FREED: Words = &[
    explained("done", "by RDMA_DONE"),
    explained("invalidated", "by RDMA_DONE, whose Send invalidated the first handle"),
    explained("time", "`--offer-time` elapsed"),
    explained("room", "a newer chunk would have exceeded `--offer-bytes`"),
    explained("reused", "a newer reply has the same XID"),
    explained("lost", "the connection ended"),
];

/// A Read chunk of `serve` was freed.
static CHUNK: Columns<Chunk> = {
    type C = Column<Chunk>;
    Columns {
        name: "peer_chunk",
        role: Role::Line,
        columns: &[
            C::new("remote", Shown(|line, see| see(&line.remote)), "The remote address."),
            C::new("xid", Xid(|line| Some(line.xid.0)), "The XID of the reply."),
            C::new("bytes", U64(|line| Some(line.bytes)), "Bytes in its Payload stream."),
            C::new(
                "offered_ns",
                Nanoseconds(|line| Some(line.offered_ns)),
                "Time from the reply until the registration ended.",
            ),
            C::new("freed", Word(FREED, |line| Some(line.freed.name())), "Why the registration ended."),
        ],
    }
};

impl Subject for End {
    type Of<'a> = &'a End;
}

/// The command ends.
static END: Columns<End> = {
    type C = Column<End>;
    type O<U> = Within<End, U>;
    Columns {
        name: "peer_end",
        role: Role::Line,
        columns: &[
            C::new("calls", U64(|line| Some(line.calls)), "Calls sent or received."),
            C::new(
                "answered",
                U64(|line| Some(line.answered)),
                "Calls that were answered, whatever the status.",
            ),
            C::new(
                "sent",
                U64(|line| Some(line.counts?.sent)),
                "Packets sent. This and the next three are null with `--verbs`.",
            )
            .or_null(),
            C::new("icrc_good", U64(|line| Some(line.counts?.good)), "Packets received with a correct ICRC.")
                .or_null(),
            C::new(
                "icrc_bad",
                U64(|line| Some(line.counts?.bad)),
                "Packets received with a bad ICRC: they were dropped.",
            )
            .or_null(),
            C::new(
                "icrc_unverified",
                U64(|line| Some(line.counts?.unverified)),
                "Packets received whose ICRC could not be verified with certainty.",
            )
            .or_null(),
            C::new(
                "faults",
                Object(&O { columns: &FAULTS, lend: |line, see| lend(line.faults.as_ref(), see) }),
                "The injected faults. It is null without `--loss`, `--duplication` and `--reordering`.",
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
            C::new("repeated", U32(|faults| Some(faults.repeated)), "Packets that were duplicated."),
            C::new("delayed", U32(|faults| Some(faults.delayed)), "Packets that were delayed."),
        ],
    }
};
