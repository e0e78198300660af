//! `transaction`: an RPC call and its reply.

use super::capture_points::SPLIT;
use super::message::{MESSAGE, MessageRow};
use super::operation::{OPERATION, OperationRow};
use super::shared::{PAYLOAD_BYTES, SEEN, SPAN, STOP};
use crate::column::Align::{Left, Right};
use crate::column::Read::{
    Boolean, Frame, Lossy, Nanoseconds, Object, Objects, Offset, Shown, Texts, Time, U32, U64, Word,
};
use crate::column::{Cell, Column, Columns, Role, Subject, Tint, Within, Words, explained, lend};
use crate::tables::transactions::{Ending, Remarks, Waited};
use rdmascope_analysis::names::{self, Failure, Label, Protocol, SecurityName};
use rdmascope_analysis::paths::{self, TransactionRow};
use rdmascope_analysis::replies::{Mechanism, Pull};
use rdmascope_analysis::report::payload_bytes;
use rdmascope_dissector::phases::Phases;
use rdmascope_dissector::transaction::{Direction, Outcome, Transaction};

impl Subject for Transaction {
    type Of<'a> = TransactionRow<'a>;
}

static OUTCOMES: Words = &[
    explained("completed", "the capture has the call and the reply"),
    explained("no-reply", "the connection ended, or the XID was reused, without a reply"),
    explained("no-call", "the call was not captured"),
    explained("transport-error", "the reply is an RDMA_ERROR"),
    explained("cut-off", "the call was outstanding when the capture ended"),
];

/// An RPC call and its reply.
pub static TRANSACTION: Columns<Transaction> = {
    type C = Column<Transaction>;
    type O<U> = Within<Transaction, U>;
    Columns {
        name: "transaction",
        role: Role::Line,
        columns: &[
            C::new(
                "number",
                U64(|it| Some(it.number)),
                "The number of the transaction, from 1 in the order in which transactions end. Filters do not change it.",
            )
            .text(0, "#", Right(6)),
            C::connection(|it| Some(it.connection.0)).text(1, "conn", Right(4)),
            C::direction(|it| Some(names::direction(it.direction))).cell(
                2,
                "",
                Left(2),
                Cell::Shown(|it, _, see| {
                    see(match it.direction {
                        Direction::Forward => &"->",
                        Direction::Backward => &"<-",
                    });
                }),
            ),
            C::xid(|it| Some(it.xid.0)).text(3, "XID", Left(10)),
            C::new(
                "program",
                U32(|it| it.procedure.map(|called| called.program)),
                "The RPC program of the call. It is null if the call was not captured.",
            )
            .or_null(),
            C::new("version", U32(|it| it.procedure.map(|called| called.version)), "The version of the program.")
                .or_null(),
            C::new(
                "minor_version",
                U32(|it| it.details.minor_version),
                "The minor version of an NFSv4 COMPOUND.",
            )
            .or_null(),
            C::new(
                "procedure",
                U32(|it| it.procedure.map(|called| called.number)),
                "The number of the procedure.",
            )
            .or_null(),
            C::new(
                "name",
                Word(&[], |it| it.procedure.and_then(names::procedure_name)),
                "The name of the procedure: `READ`, `COMPOUND`.",
            )
            .or_null(),
            C::new(
                "protocol",
                Shown(|it, see| lend(Protocol::of(it.transaction), |protocol| see(&protocol))),
                "The program and its version as one name: `NFSv3`, `NFSv4.1`.",
            )
            .or_null()
            .text(8, "protocol", Left(8))
            .gap(2),
            C::new(
                "operation",
                Shown(|it, see| see(&Label::of(it.transaction))),
                "The principal operation of a COMPOUND, otherwise the procedure. `?`: the call was not \
                 captured.",
            )
            .text(9, "operation", Left(20)),
            C::new(
                "operations",
                Texts(|it, see| it.details.operations.iter().for_each(|operation| see(operation.name()))),
                "The names of the operations, in order. A procedure other than COMPOUND counts as one operation.",
            ),
            C::new(
                "status",
                U32(|it| it.status),
                "nfsstat3, nfsstat4, or the number at the start of the procedure's results.",
            )
            .or_null(),
            C::new("status_name", Word(&[], |it| names::status_of(it.transaction, it.status?)), "The name of the status: `NFS4ERR_NOENT`.").or_null(),
            C::new("outcome", Word(OUTCOMES, |it| Some(names::outcome(it.outcome))), "How the transaction ended.")
                .cell(10, "status", Left(14), Cell::Shown(|it, _, see| see(&Ending(it.transaction))))
                .tint(|it| match (Failure::of(it.transaction), it.outcome) {
                    (Some(_), _) => Tint::Red,
                    (None, Outcome::Completed) => Tint::Plain,
                    (None, _) => Tint::Yellow,
                }),
            C::new(
                "rpc_status",
                Shown(|it, see| lend(it.rpc_status, |status| see(&status))),
                "The status in the RPC header of the reply: `SUCCESS`, `PROG_UNAVAIL`, `PROG_MISMATCH 2 to \
                 4` (lowest and highest version), `PROC_UNAVAIL`, `GARBAGE_ARGS`, `SYSTEM_ERR`, \
                 `RPC_MISMATCH 2 to 2`, `AUTH_ERROR 13 (RPCSEC_GSS_CREDPROBLEM)` (auth_stat), or `accept_stat` or `reject_stat` with \
                 a number that has no name.",
            )
            .or_null(),
            C::new(
                "error",
                Shown(|it, see| lend(it.error, |error| see(&error))),
                "The error in an RDMA_ERROR: `ERR_VERS 1 to 1` (lowest and highest version), `ERR_CHUNK`, \
                 or `rdma_err` with a number that has no name.",
            )
            .or_null(),
            C::new(
                "failed",
                Boolean(|it| Some(Failure::of(it.transaction).is_some())),
                "Whether the reply reports an error: RDMA_ERROR, an RPC that was not executed, or a status \
                 other than 0.",
            ),
            C::new(
                "security",
                Shown(|it, see| lend(it.security, |security| see(&SecurityName(security)))),
                "The authentication of the call: `none`, `sys`, `gss` (krb5, or protection by the channel), \
                 `gss-integrity` (krb5i), `gss-privacy` (krb5p), `gss-control` (a context is set up, bound or \
                 destroyed), `gss-unknown` (another gss_proc or service, or a credential that cannot be \
                 read), or `flavor-` and a number.",
            )
            .or_null(),
            C::new(
                "client",
                Shown(|it, see| lend(paths::client(it.transaction), |address| see(&address))),
                "The address of the NFS client: the caller, or the called end of a callback.",
            )
            .or_null(),
            C::new(
                "server",
                Shown(|it, see| lend(paths::server(it.transaction), |address| see(&address))),
                "The address of the NFS server.",
            )
            .or_null(),
            C::new("uid", U32(|it| Some(it.user?.uid)), "The user ID of the AUTH_SYS credential.").or_null(),
            C::new("gid", U32(|it| Some(it.user?.gid)), "The group ID of the AUTH_SYS credential.").or_null(),
            C::new(
                "machine",
                Lossy(|it, see| lend(it.user, |user| see(it.transaction.details.bytes(user.machine)))),
                "The machine name in the AUTH_SYS credential. Bytes that are not UTF-8 are replaced by \
                 U+FFFD.",
            )
            .or_null(),
            C::new(
                "gss_context",
                Offset(|it| Some(it.gss?.context)),
                "A hash of the handle of the RPCSEC_GSS context: calls with the same hash are from the same \
                 principal. The principal's name is encrypted in the Kerberos ticket.",
            )
            .or_null(),
            C::new(
                "file",
                Lossy(|it, see| it.file(see)),
                "The path of the file that the principal operation uses, as far as the capture shows it. It \
                 begins with `/` if the capture shows the root of the server's name space, otherwise with \
                 the topmost directory whose name is known. A `/` in a name is written as `\\x2f`.",
            )
            .or_null(),
            C::new(
                "other_file",
                Lossy(|it, see| it.other_file(see)),
                "The path of a second file: the new name of RENAME and LINK, and the destination of COPY \
                 and CLONE.",
            )
            .or_null(),
            C::new(
                "capture_gap",
                Boolean(|it| Some(it.capture_gap)),
                "Whether packets are missing from the capture that could have held the missing parts of the \
                 transaction.",
            ),
            C::new(
                "latency_ns",
                Nanoseconds(|it| it.latency()),
                "The time from the packet that completed the Send of the call to the packet that completed the Send of the reply.",
            )
            .or_null()
            .sorts_by("waited_ns"),
            C::new(
                "waited_ns",
                Nanoseconds(|it| it.waited()),
                "How long the caller waited: the latency, or, for a call without a reply, at least this long: \
                 until its connection or the capture ended. It is null if the capture does not show it.",
            )
            .or_null()
            .cell(7, "latency", Right(8), Cell::Shown(|it, _, see| see(&Waited(it.transaction)))),
            C::new("phases", Object(&O { columns: &PHASES, lend: |it, see| lend(Phases::of(it.transaction), see) }), "The phases of the transaction.")
                .or_null(),
            C::new(
                "split",
                Object(&O { columns: &SPLIT, lend: |it, see| lend(it.split, see) }),
                "The time at each end and on the network, from captures at both ends: with `--with`, if \
                 both have call and reply.",
            )
            .optional()
            .json_only(),
            C::new(
                "read_bytes",
                U64(|it| Some(it.timing.read_bytes)),
                "Bytes moved by RDMA Read. Bytes moved twice count once.",
            ),
            C::new("written_bytes", U64(|it| Some(it.timing.written_bytes)), "Bytes moved by RDMA Write. Bytes moved twice count once.")
                .cell(11, "file; chunks; operations", Left(0), Cell::Shown(|it, _, see| see(&Remarks(it)))),
            C::new("bytes", U64(|it| Some(payload_bytes(&it))), PAYLOAD_BYTES),
            C::new(
                "acknowledged",
                Object(&O { columns: &SEEN, lend: |it, see| lend(it.timing.acknowledged, see) }),
                "The packet that acknowledged the Send of the call. It is null if none was captured before \
                 the transaction ended.",
            )
            .or_null(),
            C::new(
                "reads",
                Object(&O { columns: &SPAN, lend: |it, see| lend(it.timing.reads, see) }),
                "The time range of RDMA Reads on the wire.",
            )
            .or_null(),
            C::new(
                "writes",
                Object(&O { columns: &SPAN, lend: |it, see| lend(it.timing.writes, see) }),
                "The time range of RDMA Writes on the wire.",
            )
            .or_null(),
            C::new("call", Object(&O { columns: &MESSAGE, lend: |it, see| lend(call(it.transaction), see) }), "The call.").or_null().json_only(),
            C::new(
                "reply",
                Object(&O { columns: &MESSAGE, lend: |it, see| lend(reply(it.transaction), see) }),
                "The reply, which may be an RDMA_ERROR.",
            )
            .or_null()
            .json_only(),
            C::new(
                "call_frame",
                Frame(|it| Some(it.call.as_ref()?.seen.frame)),
                "The packet that completed the Send of the call.",
            )
            .or_null()
            .parquet_only()
            .text(4, "call", Right(7)),
            C::new("call_time", Time(|it| Some(it.call.as_ref()?.seen.time)), "The time of that packet.")
                .or_null()
                .parquet_only()
                .cell(
                    6,
                    "seconds",
                    Right(11),
                    Cell::Instant(|it| Some(it.call.as_ref().or(it.reply.as_ref())?.seen.time)),
                ),
            C::new(
                "reply_frame",
                Frame(|it| Some(it.reply.as_ref()?.seen.frame)),
                "The packet that completed the Send of the reply.",
            )
            .or_null()
            .parquet_only()
            .text(5, "reply", Right(7)),
            C::new("reply_time", Time(|it| Some(it.reply.as_ref()?.seen.time)), "The time of that packet.")
                .or_null()
                .parquet_only(),
            C::new(
                "done",
                Object(&O { columns: &SEEN, lend: |it, see| lend(it.done, see) }),
                "The RDMA_DONE that ended the transaction.",
            )
            .or_null(),
            C::new(
                "reply_mechanism",
                Word(MECHANISMS, |it| Mechanism::of(it.transaction).map(Mechanism::name)),
                "How the Payload stream of the reply was conveyed. It is null for an RDMA_ERROR and without \
                 a reply.",
            )
            .or_null(),
            C::new(
                "pulled_ns",
                Nanoseconds(|it| Pull::of(it.transaction).map(|pull| pull.pulled)),
                "From the Send of a reply in a Read chunk of the responder to the last RDMA Read response. \
                 The latency does not include it.",
            )
            .or_null(),
            C::new(
                "done_ns",
                Nanoseconds(|it| Pull::of(it.transaction).and_then(|pull| pull.done)),
                "From that response to the RDMA_DONE.",
            )
            .or_null(),
            C::new(
                "operation_details",
                Objects(&O { columns: &OPERATION, lend: operations }),
                "One object per entry of `operations`.",
            )
            .json_only(),
            C::new(
                "stop",
                Object(&O { columns: &STOP, lend: |it, see| lend(it.stop, see) }),
                "Where parsing of arguments or results stopped.",
            )
            .or_null(),
        ],
    }
};

static MECHANISMS: Words = &[
    explained("send", "inline"),
    explained("write-chunk", "inline, with items in Write chunks"),
    explained("reply-chunk", "in the Reply chunk of the call"),
    explained("read-chunk", "in a Read chunk of the responder, which the requester pulls"),
];

fn call(transaction: &Transaction) -> Option<MessageRow<'_>> {
    transaction.call.as_ref().map(|message| MessageRow { transaction, message, is_reply: false })
}

fn reply(transaction: &Transaction) -> Option<MessageRow<'_>> {
    transaction.reply.as_ref().map(|message| MessageRow { transaction, message, is_reply: true })
}

fn operations(row: TransactionRow<'_>, see: &mut dyn FnMut(OperationRow<'_>)) {
    let TransactionRow { transaction, paths, .. } = row;
    for (index, operation) in transaction.details.operations.iter().enumerate() {
        see(OperationRow { transaction, paths, index, operation });
    }
}

impl Subject for Phases {
    type Of<'a> = Phases;
}

/// The phases of a transaction.
pub(super) static PHASES: Columns<Phases> = {
    type C = Column<Phases>;
    Columns {
        name: "phases",
        role: Role::Inner,
        columns: &[
            C::new(
                "call_ns",
                Nanoseconds(|phases| Some(phases.times[0])),
                "First to last packet of the Send of the call. The latency does not include it. The \
                 following phases add up to the latency.",
            ),
            C::new(
                "ack_ns",
                Nanoseconds(|phases| phases.acknowledged.then_some(phases.times[1])),
                "From the last packet of the call's Send until its ACK: the network as seen from the \
                 capture point, and the responder's queue pair. If the responder acknowledges late, in \
                 software on a busy host, this phase includes server work. One ACK may cover several Sends, \
                 so this phase ends at the latest with the first RDMA operation or the reply. Without an ACK, \
                 and over TCP, which may acknowledge late, it is at most the shortest round trip of the \
                 connection so far. It is null if neither is known; `server_before_ns` then includes this \
                 time.",
            )
            .or_null(),
            C::new(
                "server_before_ns",
                Nanoseconds(|phases| Some(phases.times[2] + phases.times[3])),
                "The time before the first RDMA operation, or before the reply if there is none: \
                 `sending_before_ns` plus `idle_before_ns`.",
            ),
            C::new(
                "sending_before_ns",
                Nanoseconds(|phases| Some(phases.times[2])),
                "The part of `server_before_ns` in which data of the responder was in flight, mostly of \
                 other transactions, or data of the requester had to be sent again. The reply may have \
                 waited for the network then. If the server worked at the same time, that does not show.",
            ),
            C::new(
                "idle_before_ns",
                Nanoseconds(|phases| Some(phases.times[3])),
                "The rest of `server_before_ns`: nothing on the wire explains it, so it is time of the \
                 server. It includes its queues, and packets that were lost before the capture point.",
            ),
            C::new(
                "reads_ns",
                Nanoseconds(|phases| Some(phases.times[4])),
                "First to last packet of the RDMA Reads before the reply.",
            ),
            C::new(
                "server_ns",
                Nanoseconds(|phases| Some(phases.sending() + phases.server())),
                "The rest of the latency: `server_before_ns` plus `server_after_ns`. It is also \
                 `sending_ns` plus `idle_ns`.",
            ),
            C::new(
                "sending_ns",
                Nanoseconds(|phases| Some(phases.sending())),
                "The part of `server_ns` in which the reply may have waited for the network: \
                 `sending_before_ns` plus `sending_after_ns`.",
            ),
            C::new(
                "idle_ns",
                Nanoseconds(|phases| Some(phases.server())),
                "The time of the server, as far as the wire shows it: `idle_before_ns` plus `idle_after_ns`.",
            ),
            C::new(
                "server_after_ns",
                Nanoseconds(|phases| Some(phases.times[5] + phases.times[6])),
                "The time between and after the RDMA operations: `sending_after_ns` plus `idle_after_ns`.",
            ),
            C::new(
                "sending_after_ns",
                Nanoseconds(|phases| Some(phases.times[5])),
                "The part of `server_after_ns` in which data of the responder was in flight or data of the \
                 requester had to be sent again.",
            ),
            C::new(
                "idle_after_ns",
                Nanoseconds(|phases| Some(phases.times[6])),
                "The rest of `server_after_ns`: time of the server.",
            ),
            C::new(
                "writes_ns",
                Nanoseconds(|phases| Some(phases.times[7])),
                "First to last packet of the RDMA Writes before the reply, without the time of RDMA Reads.",
            ),
            C::new(
                "reply_ns",
                Nanoseconds(|phases| Some(phases.times[8])),
                "First to last packet of the Send of the reply.",
            ),
        ],
    }
};
