//! `kernel`, `kernel_step`, `kernel_disagreement` and `kernel_transaction`: the contents of a
//! kernel trace, compared with the capture.

use crate::column::Read::{
    Boolean, Fraction, Frame, Key, Nanoseconds, Objects, Offset, Shown, U32, U64, Word,
};
use crate::column::{Column, Columns, Role, Subject, Within, Words, explained, lend, word};
use rdmascope_analysis::kernel::{self, Call, Chunks, Disagreement, KernelTrace, Point, Step, TraceResults};
use rdmascope_analysis::units::Plain;
use rdmascope_capture_agent::trace::Segment;

impl Subject for TraceResults {
    type Of<'a> = &'a TraceResults;
}

static ROLES: Words =
    &[explained("caller", "the host sends the call"), explained("answerer", "the host sends the reply")];

static POINTS: Words = &[
    explained("begun", "the start of the RPC task, by `rpc_stats_latency`"),
    explained("reserved", "`xprt_reserve`: the RPC has an XID"),
    explained("marshalled", "`xprtrdma_marshal`"),
    explained("call-posted", "`xprtrdma_post_send`"),
    explained("call-sent", "the call's first packet"),
    explained("reply-arrived", "the reply's last packet"),
    explained("reply-received", "`xprtrdma_wc_receive`"),
    explained("reply-matched", "`xprtrdma_reply`"),
    explained("call-arrived", "the call's last packet"),
    explained("call-received", "`svcrdma_wc_recv`"),
    explained("decoded", "`svcrdma_decode_rqst`, for a callback `xprtrdma_cb_call`"),
    explained("reads-done", "`svcrdma_read_finished`"),
    explained("processed", "`svc_process`"),
    explained("encoded", "`svcrdma_encode_wseg`"),
    explained("reply-posted", "`svcrdma_post_send`, for a callback `xprtrdma_cb_reply`"),
    explained("reply-sent", "the reply's first packet"),
];

/// The totals of a trace, and the match with the capture.
pub static KERNEL: Columns<TraceResults> = {
    type C = Column<TraceResults>;
    Columns {
        name: "kernel",
        role: Role::Line,
        columns: &[
            C::new("trace", Shown(|one, see| see(&Plain(&one.trace.name))), "The trace file as given."),
            C::new("lines", U64(|one| Some(one.trace.lines)), "Lines in the trace."),
            C::new("events", U64(|one| Some(one.trace.events)), "Events in the trace."),
            C::new("unknown_events", U64(|one| Some(one.trace.unknown)), "Events of unknown types."),
            C::new("unread_lines", U64(|one| Some(one.trace.unread.lines)), "Lines that could not be read."),
            C::new(
                "first_unread_line",
                U64(|one| one.trace.unread.first.map(|(line, _)| line)),
                "The first unreadable line, from 1.",
            )
            .or_null(),
            C::new("lost_events", U64(|one| Some(one.trace.lost.events)), "Events that the trace reports as lost."),
            C::new("transactions", U64(|one| Some(one.trace.calls.len() as u64)), "Transactions in the trace."),
            C::new(
                "beyond",
                U64(|one| Some(one.trace.beyond.saturating_add(one.beyond))),
                "Events and transactions beyond the limits, which were discarded.",
            ),
            C::new("joined", U64(|one| one.has_capture.then_some(one.joined.joined)), "Transactions that were matched with the capture. It is null without a capture.").or_null(),
            C::new("ambiguous", U64(|one| one.has_capture.then_some(one.joined.ambiguous)), "Transactions that were not matched because several transactions in the capture have their XID.").or_null(),
            C::new(
                "only_in_trace",
                U64(|one| one.has_capture.then_some(one.joined.only_in_trace)),
                "Transactions missing from the capture, although it covers their time and their connection.",
            )
            .or_null(),
            C::new(
                "only_in_capture",
                U64(|one| one.has_capture.then_some(one.joined.only_in_capture)),
                "Transactions missing from the trace, although it covers their time and their connection.",
            )
            .or_null(),
            C::new("outside", U64(|one| one.has_capture.then_some(one.joined.outside)), "Other transactions of the trace: at other times, or on connections that are not in the capture.").or_null(),
            C::new("without_segments", U64(|one| one.has_capture.then_some(one.joined.without_segments)), "Matched transactions whose chunk lists were not compared, because the trace lacks events of their segments.").or_null(),
            C::new(
                "offset_ns",
                Shown(|one, see| lend(one.clock.windows.first(), |window| see(&window.offset))),
                "Nanoseconds from a time in the trace to the same time in the capture, as a decimal number; \
                 for the first part if there are several. It is null if no transaction relates the clocks.",
            )
            .or_null(),
            C::new(
                "uncertainty_ns",
                Nanoseconds(|one| one.clock.uncertainty()),
                "The error of the offset, in either direction. It is null if transactions bound it on one \
                 side only.",
            )
            .or_null(),
            C::new(
                "clock_parts",
                U64(|one| one.has_capture.then_some(one.clock.windows.len() as u64)),
                "Parts of the trace with their own offset, because the clocks drifted or were set.",
            )
            .or_null(),
            C::new("backward_steps", U64(|one| Some(one.backward_steps)), "Steps that would end before they begin. They are omitted."),
        ],
    }
};

/// A marker for a step of the transactions of one operation.
pub struct StepRow;

impl Subject for StepRow {
    type Of<'a> = (&'a TraceResults, &'a Step);
}

/// A step of the transactions of one operation.
pub static KERNEL_STEP: Columns<StepRow> = {
    type C = Column<StepRow>;
    Columns {
        name: "kernel_step",
        role: Role::Line,
        columns: &[
            C::new("trace", Shown(|(one, _), see| see(&Plain(&one.trace.name))), "The trace file as given."),
            C::new(
                "operation",
                Shown(|(one, step), see| see(&Plain(one.operation(step)))),
                "The protocol and the operation, or the kernel's name for the operation if there is no \
                 capture.",
            ),
            C::new(
                "host",
                Word(ROLES, |(_, step)| Some(step.role.word())),
                "The role of the host in the transactions.",
            ),
            C::new(
                "from",
                Word(POINTS, |(_, step)| Some(step.from.word())),
                "The point where the step begins.",
            ),
            C::new(
                "to",
                Word(POINTS, |(_, step)| Some(step.to.word())),
                "The point where the step ends: the next known point.",
            ),
            C::new(
                "holds",
                Shown(|(_, step), see| see(&step.holds())),
                "A description of the step, in words for people. The wording may change.",
            ),
            C::new(
                "crosses_clocks",
                Boolean(|(_, step)| Some(step.crosses_clocks())),
                "Whether one point is a packet in the capture and the other an event in the trace. The \
                 times then include the offset of the clocks.",
            ),
            C::new("count", U64(|(_, step)| Some(step.count())), "Transactions."),
            C::new("min_ns", Nanoseconds(|(_, step)| Some(step.minimum())), "The minimum."),
            C::new("median_ns", Nanoseconds(|(_, step)| Some(step.percentile(50))), "The median."),
            C::new("p99_ns", Nanoseconds(|(_, step)| Some(step.percentile(99))), "The 99th percentile."),
            C::new("max_ns", Nanoseconds(|(_, step)| Some(step.maximum())), "The maximum."),
            C::new("total_ns", Nanoseconds(|(_, step)| Some(step.total())), "The sum."),
            C::new(
                "share",
                Fraction(|(one, step)| Some(one.share(step))),
                "The share of the total time of all steps of the operation.",
            ),
        ],
    }
};

/// A marker for a disagreement between kernel and wire.
pub struct DisagreementRow;

impl Subject for DisagreementRow {
    type Of<'a> = (&'a TraceResults, &'a Disagreement);
}

/// A disagreement between kernel and wire.
pub static KERNEL_DISAGREEMENT: Columns<DisagreementRow> = {
    type C = Column<DisagreementRow>;
    Columns {
        name: "kernel_disagreement",
        role: Role::Line,
        columns: &[
            C::new("trace", Shown(|(one, _), see| see(&Plain(&one.trace.name))), "The trace file as given."),
            C::new(
                "about",
                Word(
                    &[
                        explained("only-in-trace", "the capture lacks the call"),
                        explained("only-in-capture", "the trace lacks the call"),
                        explained("header-length", "bytes of the RPC-over-RDMA header"),
                        explained("call-length", "bytes of the RPC call before reduction"),
                        explained("send-length", "bytes of the Send"),
                        word("credits"),
                        explained("read-list", "the Read list"),
                        explained(
                            "write-list",
                            "the segments of Write chunks; at the server, also those of the Reply chunk",
                        ),
                        explained("reply-chunk", "the Reply chunk"),
                        explained(
                            "returned-segments",
                            "the segments of written memory that the reply returns",
                        ),
                        explained("rdma-error", "whether the reply is an RDMA_ERROR"),
                    ],
                    |(_, one)| Some(one.difference.about.word()),
                ),
                "The property that differs.",
            ),
            C::xid(|(_, one)| Some(one.xid)),
            C::connection(|(_, one)| one.connection).or_null(),
            C::new("frame", Frame(|(_, one)| one.frame), "The packet that differs.").or_null(),
            C::new("line", U64(|(_, one)| one.line), "The line of the trace.").or_null(),
            C::new(
                "host",
                Word(ROLES, |(_, one)| one.role.map(kernel::Role::word)),
                "The role of the host in the transaction.",
            )
            .or_null(),
            C::new(
                "kernel",
                Shown(|(_, one), see| see(&Plain(&one.difference.kernel))),
                "The value in the kernel trace.",
            ),
            C::new(
                "wire",
                Shown(|(_, one), see| see(&Plain(&one.difference.wire))),
                "The value in the packets.",
            ),
        ],
    }
};

/// A marker for a transaction from the trace alone.
pub struct CallRow;

impl Subject for CallRow {
    type Of<'a> = (&'a KernelTrace, &'a Call);
}

impl Subject for Segment {
    type Of<'a> = Segment;
}

/// A Read segment with its Position.
struct ReadSegment;

impl Subject for ReadSegment {
    type Of<'a> = (u32, Segment);
}

static READ_SEGMENT: Columns<ReadSegment> = {
    type C = Column<ReadSegment>;
    Columns {
        name: "kernel_read_segment",
        role: Role::Inner,
        columns: &[
            C::new("position", U32(|(position, _)| Some(position)), "The Position of the segment."),
            C::new("handle", Key(|(_, one)| Some(one.handle)), "The handle."),
            C::new("length", U32(|(_, one)| Some(one.length)), "The length in bytes."),
            C::new("offset", Offset(|(_, one)| Some(one.offset)), "The offset."),
        ],
    }
};

static PLAIN_SEGMENT: Columns<Segment> = {
    type C = Column<Segment>;
    Columns {
        name: "kernel_segment",
        role: Role::Inner,
        columns: &[
            C::new("handle", Key(|one| Some(one.handle)), "The handle."),
            C::new("length", U32(|one| Some(one.length)), "The length in bytes."),
            C::new("offset", Offset(|one| Some(one.offset)), "The offset."),
        ],
    }
};

/// Lends each segment of a list to `see`.
fn segments<T: Copy>(call: &Call, list: fn(&Chunks) -> &Vec<T>, see: &mut dyn FnMut(T)) {
    call.chunks.iter().flat_map(|chunks| list(chunks)).for_each(|one| see(*one));
}

/// The time of a point, by the trace's clock.
struct PointRow;

impl Subject for PointRow {
    type Of<'a> = (Point, i64);
}

static POINT: Columns<PointRow> = {
    type C = Column<PointRow>;
    Columns {
        name: "kernel_point",
        role: Role::Inner,
        columns: &[
            C::new("point", Word(POINTS, |(point, _)| Some(point.word())), "The point."),
            C::new(
                "time_ns",
                U64(|(_, time)| u64::try_from(time).ok()),
                "The time of the point, in nanoseconds of the trace's clock.",
            ),
        ],
    }
};

/// A transaction from the trace alone.
pub static KERNEL_TRANSACTION: Columns<CallRow> = {
    type C = Column<CallRow>;
    type O<U> = Within<CallRow, U>;
    Columns {
        name: "kernel_transaction",
        role: Role::Line,
        columns: &[
            C::new("trace", Shown(|(trace, _), see| see(&Plain(&trace.name))), "The trace file as given."),
            C::new("origin", Word(&[word("kernel")], |_| Some("kernel")), "The source of the data."),
            C::new("line", U64(|(_, call)| Some(call.line)), "The first line about the transaction, from 1."),
            C::new("host", Word(ROLES, |(_, call)| Some(call.role.word())), "The role of the host in the transaction."),
            C::new("callback", Boolean(|(_, call)| Some(call.backward)), "Whether the transaction is known to be a callback."),
            C::xid(|(_, call)| Some(call.xid)),
            C::new("operation", Shown(|(trace, call), see| lend(trace.name_of(call), |name| see(&Plain(name)))), "The kernel's name for the operation, if `rpc_stats_latency` or `svc_process` was traced.").or_null(),
            C::new("latency_ns", Nanoseconds(|(_, call)| call.latency()), "From marshalling the call to matching the reply. If the host answers: from receiving the call, or else decoding it, to posting the reply.").or_null(),
            C::new("header_length", U32(|(_, call)| call.header_length), "Bytes of the RPC-over-RDMA header.").or_null(),
            C::new("message_length", U64(|(_, call)| call.message_length), "Bytes of the RPC call before reduction, if the host calls.").or_null(),
            C::new("received_length", U32(|(_, call)| call.received), "Bytes of the Send that the host received.").or_null(),
            C::new("credits", U32(|(_, call)| call.credits), "rdma_credit in the message that the host received.").or_null(),
            C::new("rdma_error", Boolean(|(_, call)| Some(call.has_error)), "Whether the answer was an RDMA_ERROR."),
            C::new(
                "reads",
                Objects(&O {
                    columns: &READ_SEGMENT,
                    lend: |(_, call), see| segments(call, |chunks| &chunks.reads, see),
                }),
                "The segments of the Read list.",
            )
            .optional(),
            C::new(
                "writes",
                Objects(&O {
                    columns: &PLAIN_SEGMENT,
                    lend: |(_, call), see| segments(call, |chunks| &chunks.writes, see),
                }),
                "The segments of Write chunks; if the host answers, followed by those of the Reply chunk.",
            )
            .optional(),
            C::new(
                "reply_chunk",
                Objects(&O {
                    columns: &PLAIN_SEGMENT,
                    lend: |(_, call), see| segments(call, |chunks| &chunks.reply, see),
                }),
                "The segments of the Reply chunk, if the host calls.",
            )
            .optional(),
            C::new(
                "returned",
                Objects(&O {
                    columns: &PLAIN_SEGMENT,
                    lend: |(_, call), see| segments(call, |chunks| &chunks.returned, see),
                }),
                "The segments that the reply returns, with the lengths used, if the host answers.",
            )
            .optional(),
            C::new(
                "points",
                Objects(&O {
                    columns: &POINT,
                    lend: |(_, call), see| {
                        for point in call.role.points() {
                            lend(call.time(*point), |time| see((*point, time)));
                        }
                    },
                }),
                "The points of the transaction in the trace, in the order of the steps.",
            ),
        ],
    }
};
