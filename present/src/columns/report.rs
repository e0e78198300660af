//! The counts in the report of `analyze`: `operation`, `error` and `problem`.

use super::shared::{PAYLOAD_BYTES, direction, rounded};
use crate::column::Read::{Boolean, Fraction, Frame, Nanoseconds, Object, Shown, U32, U64, Word};
use crate::column::{Column, Columns, Role, Subject, Within, lend, word};
use rdmascope_analysis::names::{self, Failure};
use rdmascope_analysis::replies::{Mechanism, Replies};
use rdmascope_analysis::report::{ErrorCount, ErrorKey, Group, Key, Latency, Problem, Report, Stats};
use rdmascope_dissector::phases::{Phases, grouped};

/// A marker for the transactions of one protocol, direction and principal operation.
pub struct Operation;

impl Subject for Operation {
    type Of<'a> = (&'a Key, &'a Stats);
}

/// The transactions of one protocol, direction and principal operation.
pub static OPERATION_FIGURES: Columns<Operation> = {
    type C = Column<Operation>;
    type O<U> = Within<Operation, U>;
    Columns {
        name: "operation",
        role: Role::Line,
        columns: &[
            C::protocol(|(key, _), see| lend(key.protocol, |protocol| see(&protocol))),
            C::new("program", U32(|(key, _)| Some(key.protocol?.program)), "The RPC program.").or_null(),
            C::new("version", U32(|(key, _)| Some(key.protocol?.version)), "The version of the program.")
                .or_null(),
            C::new("minor_version", U32(|(key, _)| key.protocol?.minor), "The minor version of NFSv4.")
                .or_null(),
            C::direction(|(key, _)| Some(direction(key.backward))),
            C::operation(|(key, _), see| see(&key.label)),
            C::new("count", U64(|(_, stats)| Some(stats.count)), "Transactions."),
            C::new("errors", U64(|(_, stats)| Some(stats.errors)), "Transactions that failed."),
            C::new("bytes", U64(|(_, stats)| Some(stats.bytes)), PAYLOAD_BYTES),
            C::new(
                "latency",
                Object(&O {
                    columns: &LATENCY,
                    lend: |(_, stats), see| {
                        lend(stats.latency(), |latency| see((latency, stats.total_latency)));
                    },
                }),
                "The latencies. The median and the percentile have three significant digits. A call without a \
                 reply counts with the time that it waited, at least.",
            )
            .or_null(),
            C::new(
                "unanswered",
                U64(|(_, stats)| Some(stats.unanswered)),
                "Transactions without a reply that count in the latencies.",
            ),
            C::new(
                "shares",
                Object(&O { columns: &SHARES, lend: |(_, stats), see| lend(stats.shares(), see) }),
                "The share of each phase in the time of all transactions. The sum is 1, with `server` and \
                 its parts counted once.",
            )
            .or_null(),
        ],
    }
};

/// Latencies, and their sum.
pub(super) struct Latencies;

impl Subject for Latencies {
    type Of<'a> = (Latency, u64);
}

pub(super) static LATENCY: Columns<Latencies> = {
    type C = Column<Latencies>;
    Columns {
        name: "latency",
        role: Role::Inner,
        columns: &[
            C::new("min_ns", Nanoseconds(|(latency, _)| Some(latency.minimum)), "The minimum."),
            C::new("median_ns", Nanoseconds(|(latency, _)| Some(latency.median)), "The median."),
            C::new("p99_ns", Nanoseconds(|(latency, _)| Some(latency.p99)), "The 99th percentile."),
            C::new("max_ns", Nanoseconds(|(latency, _)| Some(latency.maximum)), "The maximum."),
            C::new("total_ns", Nanoseconds(|(_, total)| Some(total)), "The sum."),
        ],
    }
};

/// The share of each phase.
struct Shares;

impl Subject for Shares {
    type Of<'a> = [f64; Phases::COUNT];
}

static SHARES: Columns<Shares> = {
    type C = Column<Shares>;
    Columns {
        name: "shares",
        role: Role::Inner,
        columns: &[
            C::new("call", Fraction(|shares| Some(rounded(shares[0]))), "The Sends of the calls."),
            C::new(
                "ack",
                Fraction(|shares| Some(rounded(shares[1]))),
                "From the end of the calls' Sends until their ACKs.",
            ),
            C::new(
                "server_before",
                Fraction(|shares| Some(rounded(shares[2] + shares[3]))),
                "The time before the first RDMA operation or the reply: `sending_before` and `idle_before` \
                 together. It includes the time until the ACK if that is unknown.",
            ),
            C::new(
                "sending_before",
                Fraction(|shares| Some(rounded(shares[2]))),
                "The part of `server_before` in which data of the responder was in flight or data of the \
                 requester had to be sent again.",
            ),
            C::new(
                "idle_before",
                Fraction(|shares| Some(rounded(shares[3]))),
                "The rest of `server_before`: time of the server.",
            ),
            C::new("reads", Fraction(|shares| Some(rounded(shares[4]))), "RDMA Reads."),
            C::new(
                "server",
                Fraction(|shares| Some(rounded(grouped(shares)[2] + grouped(shares)[3]))),
                "`server_before` and `server_after` together. It is also `sending` and `idle` together.",
            ),
            C::new(
                "sending",
                Fraction(|shares| Some(rounded(grouped(shares)[2]))),
                "The part of `server` in which the reply may have waited for the network: `sending_before` \
                 and `sending_after` together.",
            ),
            C::new(
                "idle",
                Fraction(|shares| Some(rounded(grouped(shares)[3]))),
                "The time of the server, as far as the wire shows it: `idle_before` and `idle_after` \
                 together.",
            ),
            C::new(
                "server_after",
                Fraction(|shares| Some(rounded(shares[5] + shares[6]))),
                "The time between and after the RDMA operations: `sending_after` and `idle_after` together.",
            ),
            C::new(
                "sending_after",
                Fraction(|shares| Some(rounded(shares[5]))),
                "The part of `server_after` in which data of the responder was in flight or data of the \
                 requester had to be sent again.",
            ),
            C::new(
                "idle_after",
                Fraction(|shares| Some(rounded(shares[6]))),
                "The rest of `server_after`: time of the server.",
            ),
            C::new("writes", Fraction(|shares| Some(rounded(shares[7]))), "RDMA Writes."),
            C::new("reply", Fraction(|shares| Some(rounded(shares[8]))), "The Sends of the replies."),
        ],
    }
};

impl Subject for Report {
    type Of<'a> = &'a Report;
}

/// The time of all calls of clients.
pub static CALLS: Columns<Report> = {
    type C = Column<Report>;
    type O<U> = Within<Report, U>;
    Columns {
        name: "calls",
        role: Role::Line,
        columns: &[
            C::new(
                "under_way_ns",
                Nanoseconds(|report| Some(report.under_way().length())),
                "The time in which at least one call waited for its reply. A call without a reply counts \
                 with the time that it waited, at least.",
            ),
            C::new(
                "mean",
                Fraction(|report| report.under_way().mean_calls().map(rounded)),
                "The mean number of such calls in that time.",
            )
            .or_null(),
            C::new(
                "shares",
                Object(&O { columns: &SHARES, lend: |report, see| lend(report.shares(), see) }),
                "The share of each phase in the time of all calls, as for one operation.",
            )
            .or_null(),
        ],
    }
};

impl Subject for Replies {
    type Of<'a> = &'a Replies;
}

/// How replies were conveyed, and which Reply chunks were unnecessary.
pub static REPLIES: Columns<Replies> = {
    type C = Column<Replies>;
    Columns {
        name: "replies",
        role: Role::Line,
        columns: &[
            C::new("send", U64(|it| Some(it.conveyed(Mechanism::Send))), "Inline replies."),
            C::new(
                "write_chunk",
                U64(|it| Some(it.conveyed(Mechanism::WriteChunk))),
                "Inline replies with items in Write chunks.",
            ),
            C::new(
                "reply_chunk",
                U64(|it| Some(it.conveyed(Mechanism::ReplyChunk))),
                "Replies in the Reply chunk of the call.",
            ),
            C::new(
                "read_chunk",
                U64(|it| Some(it.conveyed(Mechanism::ReadChunk))),
                "Replies in a Read chunk of the responder.",
            ),
            C::new("offered", U64(|it| Some(it.offered().0)), "Reply chunks of calls with a reply."),
            C::new(
                "offered_bytes",
                U64(|it| Some(it.offered().1)),
                "The total length of these Reply chunks.",
            ),
            C::new(
                "in_vain",
                U64(|it| Some(it.in_vain().0)),
                "Unnecessary Reply chunks: the reply fits inline, or did not use the chunk. Sizes are \
                 counted in steps of 1024 bytes.",
            ),
            C::new(
                "in_vain_bytes",
                U64(|it| Some(it.in_vain().1)),
                "The total length of these Reply chunks.",
            ),
        ],
    }
};

/// A marker for replies that report the same error for the same operation.
pub struct ErrorRow;

impl Subject for ErrorRow {
    type Of<'a> = (&'a ErrorKey, ErrorCount);
}

/// Replies that report the same error for the same operation.
pub static ERROR: Columns<ErrorRow> = {
    type C = Column<ErrorRow>;
    Columns {
        name: "error",
        role: Role::Line,
        columns: &[
            C::protocol(|(key, _), see| lend(key.protocol, |protocol| see(&protocol))),
            C::new("program", U32(|(key, _)| Some(key.protocol?.program)), "The RPC program.").or_null(),
            C::new("version", U32(|(key, _)| Some(key.protocol?.version)), "The version of the program.")
                .or_null(),
            C::new("minor_version", U32(|(key, _)| key.protocol?.minor), "The minor version of NFSv4.")
                .or_null(),
            C::new("operation", Shown(|(key, _), see| see(&key.label)), "The operation that failed."),
            C::new(
                "ordinary",
                Boolean(|(key, _)| Some(key.is_ordinary())),
                "Whether normal work brings this error, as NFS4ERR_NOENT for LOOKUP. The text report leaves \
                 it out.",
            ),
            C::new(
                "layer",
                Word(&[word("rpc-over-rdma"), word("rpc"), word("procedure")], |(key, _)| {
                    Some(match key.failure {
                        Failure::Transport(_) => "rpc-over-rdma",
                        Failure::Rpc(_) => "rpc",
                        Failure::Status(_) => "procedure",
                    })
                }),
                "The layer that reports the error.",
            ),
            C::new(
                "status",
                U32(|(key, _)| match key.failure {
                    Failure::Status(status) => Some(status),
                    Failure::Transport(_) | Failure::Rpc(_) => None,
                }),
                "The status of the procedure.",
            )
            .or_null(),
            C::new(
                "status_name",
                Shown(|(key, _), see| match key.failure {
                    Failure::Transport(error) => lend(error, |error| see(&error)),
                    Failure::Rpc(status) => see(&status),
                    Failure::Status(status) => {
                        let name =
                            key.protocol.and_then(|p| names::status_name(p.program, p.version, status));
                        lend(name, |name| see(&name));
                    }
                }),
                "The name of the error, in any layer.",
            )
            .or_null(),
            C::new("count", U64(|(_, error)| Some(error.count)), "The number of replies that report it."),
            C::new("first_frame", Frame(|(_, error)| error.first_frame), "The first reply that reports it.")
                .or_null(),
        ],
    }
};

impl Subject for Problem {
    type Of<'a> = &'a Problem;
}

/// A problem other than errors in replies.
pub static PROBLEM: Columns<Problem> = {
    type C = Column<Problem>;
    Columns {
        name: "problem",
        role: Role::Line,
        columns: &[
            C::new(
                "problem",
                Word(&[], |problem| Some(problem.name)),
                "The name of the problem, such as `no-reply`, `retransmission`, `sequence-nak`, \
                 `missing-packet`, `dropped-packet`.",
            ),
            C::new(
                "group",
                Word(&[word("transactions"), word("transport"), word("capture")], |problem| {
                    Some(match problem.group {
                        Group::Transactions => "transactions",
                        Group::Transport => "transport",
                        Group::Capture => "capture",
                    })
                }),
                "The area of the problem.",
            ),
            C::new("count", U64(|problem| Some(problem.count)), "The number of occurrences."),
            C::new(
                "what",
                Shown(|problem, see| see(&problem.description())),
                "A description of the problem, in words for people. The wording may change.",
            ),
            C::new("first_frame", Frame(|problem| problem.first_frame), "The packet to look at first.")
                .or_null(),
        ],
    }
};
