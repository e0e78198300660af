//! `exchange`: a transaction with its rungs, its fields and its messages.

use super::TRANSACTION;
use super::frame::{self, FIELD};
use super::shared::PARTS;
use crate::column::Read::{
    Any, Boolean, Bytes, Frame, Nanoseconds, Object, Objects, Shown, Texts, Time, U16, U32, U64, Word,
};
use crate::column::{Column, Columns, Role, Subject, Value, Within, explained, lend, word};
use crate::fields::{Field, rpc};
use crate::ladder::{Ladder, Rung, RungKind};
use crate::words;
use rdmascope_analysis::findings::ByFrame;
use rdmascope_analysis::message::{Stretch, stretches};
use rdmascope_analysis::paths::TransactionRow;
use rdmascope_dissector::exchange::StepKind;
use rdmascope_dissector::layout::{Piece, Source};
use rdmascope_dissector::record;

/// A transaction, its ladder, and the contents of its Sends and messages.
#[derive(Clone, Copy)]
pub struct ExchangeRow<'a> {
    transaction: TransactionRow<'a>,
    /// The ladder of the transaction.
    ladder: &'a Ladder,
    /// For each rung, the rules whose findings refer to one of its packets.
    evidence: &'a [Vec<&'static str>],
    /// The fields and the bytes of the Sends of the call and of the reply.
    sends: [(&'a [Field], &'a [u8]); 2],
    /// The RPC messages of the call and of the reply before reduction.
    messages: [Option<UnreducedMessage<'a>>; 2],
}

/// An RPC message before reduction.
#[derive(Clone, Copy)]
pub struct UnreducedMessage<'a> {
    /// The bytes of the message.
    piece: &'a Piece,
    /// The fields of the message. Empty if they are among those of a Send.
    fields: &'a [Field],
    /// The stretches of the message, each with its source.
    stretches: &'a [Stretch<'a>],
}

impl ExchangeRow<'_> {
    /// Lends the row of a transaction to `see`. `findings` are those of the whole capture. Without
    /// `full`, the middle of long stretches is omitted.
    pub fn lend<R>(
        row: TransactionRow<'_>,
        ladder: &Ladder,
        findings: &ByFrame<'_>,
        full: bool,
        see: impl FnOnce(ExchangeRow<'_>) -> R,
    ) -> R {
        let transaction = row.transaction;
        let evidence: Vec<_> = ladder
            .marks()
            .iter()
            .map(|frames| {
                let mut rules: Vec<_> = findings.rules(frames).iter().map(|(rule, _)| rule.id).collect();
                rules.sort_unstable();
                rules.dedup();
                rules
            })
            .collect();
        let sends = [false, true].map(|of_reply| rpc::of_send(transaction, of_reply));
        let pieces = [false, true].map(|of_reply| transaction.message(of_reply));
        let messages = [false, true].map(|of_reply| {
            let piece = pieces[usize::from(of_reply)].as_ref()?;
            let fields = rpc::of_message(transaction, of_reply, piece);
            Some((piece, fields, stretches(transaction, of_reply, piece, full)))
        });
        see(ExchangeRow {
            transaction: row,
            ladder,
            evidence: &evidence,
            sends: sends.each_ref().map(|(fields, bytes)| (fields.as_slice(), *bytes)),
            messages: messages.each_ref().map(|message| {
                let (piece, fields, stretches) = message.as_ref()?;
                Some(UnreducedMessage { piece, fields, stretches })
            }),
        })
    }
}

impl Subject for ExchangeRow<'static> {
    type Of<'a> = ExchangeRow<'a>;
}

/// A transaction with its rungs, its fields and its messages.
pub static EXCHANGE: Columns<ExchangeRow<'static>> = {
    type C = Column<ExchangeRow<'static>>;
    type O<U> = Within<ExchangeRow<'static>, U>;
    Columns {
        name: "exchange",
        role: Role::Line,
        columns: &[
            C::new(
                "transaction",
                Object(&O { columns: &TRANSACTION, lend: |row, see| see(row.transaction) }),
                "The transaction.",
            ),
            C::new(
                "rungs",
                Objects(&O {
                    columns: &RUNG,
                    lend: |row, see| {
                        let start = row.ladder.start;
                        let rungs = row.ladder.rungs.iter().zip(row.evidence);
                        rungs.for_each(|(rung, evidence)| see(RungRow { rung, start, evidence }));
                    },
                }),
                "The packets of Requester and Responder, grouped into rungs in the order of their first \
                 packets.",
            ),
            C::new(
                "rungs_left_out",
                U64(|row| Some(row.ladder.left_out)),
                "Rungs beyond the first 8192, and operations that were not kept.",
            ),
            C::new(
                "call_fields",
                Objects(&O {
                    columns: &FIELD,
                    lend: |row, see| frame::each(row.sends[0].0, row.sends[0].1, see),
                }),
                "The fields of the Send of the call. Their offsets count from the start of the Send.",
            ),
            C::new(
                "reply_fields",
                Objects(&O {
                    columns: &FIELD,
                    lend: |row, see| frame::each(row.sends[1].0, row.sends[1].1, see),
                }),
                "The fields of the Send of the reply.",
            ),
            C::new(
                "call_message",
                Object(&O { columns: &UNREDUCED_MESSAGE, lend: |row, see| lend(row.messages[0], see) }),
                "The RPC message of the call before reduction. It is null if the capture holds no part of \
                 it.",
            )
            .or_null(),
            C::new(
                "reply_message",
                Object(&O { columns: &UNREDUCED_MESSAGE, lend: |row, see| lend(row.messages[1], see) }),
                "The RPC message of the reply before reduction.",
            )
            .or_null(),
        ],
    }
};

/// A rung, the start time of its ladder, and the rules whose findings refer to one of its packets.
#[derive(Clone, Copy)]
pub struct RungRow<'a> {
    rung: &'a Rung,
    start: record::Time,
    evidence: &'a [&'static str],
}

impl Subject for RungRow<'static> {
    type Of<'a> = RungRow<'a>;
}

/// Consecutive packets of one operation from one sender.
pub static RUNG: Columns<RungRow<'static>> = {
    type C = Column<RungRow<'static>>;
    Columns {
        name: "rung",
        role: Role::Shared,
        columns: &[
            C::new(
                "kind",
                Word(
                    &[
                        explained("call", "the Send of the call"),
                        explained("read-request", "an RDMA Read request"),
                        explained("read-response", "RDMA Read responses"),
                        explained("write", "an RDMA Write"),
                        explained("reply", "the Send of the reply"),
                        explained("done", "the Send of an RDMA_DONE"),
                        explained("acknowledgement", "an ACK"),
                        explained("nak", "a NAK"),
                        explained("rnr-nak", "an RNR NAK"),
                    ],
                    |row| Some(kind(row.rung.kind)),
                ),
                "The kind of rung.",
            ),
            C::new(
                "again",
                Boolean(|row| Some(matches!(row.rung.kind, RungKind::Again(_)))),
                "Whether these packets are a retransmission: the capture has an earlier transmission, or a \
                 NAK reports its loss.",
            ),
            C::new(
                "from",
                Word(
                    &[
                        explained("requester", "the end that calls, in either direction"),
                        explained("responder", "the other end"),
                    ],
                    |row| Some(words::end(row.rung.from_requester)),
                ),
                "The sender.",
            ),
            C::new("frame", Frame(|row| Some(row.rung.first.frame)), "The first packet."),
            C::new("time", Time(|row| Some(row.rung.first.time)), "The time of the first packet."),
            C::new("last_frame", Frame(|row| Some(row.rung.last.frame)), "The last packet."),
            C::new("last_time", Time(|row| Some(row.rung.last.time)), "The time of the last packet."),
            C::new(
                "since_ns",
                Nanoseconds(|row| Some(row.rung.first.time.since(row.start))),
                "The time from the first packet of the transaction to the first packet of the rung.",
            ),
            C::new(
                "psn",
                U32(|row| Some(row.rung.position.number())),
                "The first PSN. It is greater than `last_psn` if PSNs wrap. Responses have the PSNs of the \
                 end that requested them; an RDMA Read request has the PSNs of its responses.",
            ),
            C::new("last_psn", U32(|row| Some(row.rung.last_position().number())), "The last PSN."),
            C::new(
                "nak",
                Shown(|row, see| {
                    if let RungKind::Nak(code) = row.rung.kind {
                        see(&code);
                    }
                }),
                "The code of a NAK.",
            )
            .or_null(),
            C::new(
                "message",
                Word(&[word("call"), word("reply")], |row| {
                    row.rung.piece.map(|piece| if piece.of_reply { "reply" } else { "call" })
                }),
                "The message that the rung moved a piece of.",
            )
            .or_null(),
            C::new(
                "part",
                Word(PARTS, |row| row.rung.piece.map(|piece| words::part(piece.part).0)),
                "The part of the message that the piece belongs to.",
            )
            .or_null(),
            C::new(
                "index",
                U16(|row| row.rung.piece.and_then(|piece| words::part(piece.part).1)),
                "The index of the chunk, from 0.",
            )
            .or_null(),
            C::new(
                "offset",
                U64(|row| row.rung.piece.map(|piece| piece.offset)),
                "The offset of the piece in the part.",
            )
            .or_null(),
            C::new(
                "length",
                U64(|row| row.rung.piece.map(|piece| piece.length)),
                "The length of the piece in bytes; for an RDMA Read request, the bytes requested.",
            )
            .or_null(),
            C::new(
                "evidence_of",
                Texts(|row, see| row.evidence.iter().for_each(|rule| see(rule))),
                "The rules whose findings refer to a packet of the rung.",
            ),
        ],
    }
};

fn kind(kind: RungKind) -> &'static str {
    match kind {
        RungKind::Step(kind) | RungKind::Again(kind) => match kind {
            StepKind::Call => "call",
            StepKind::ReadRequest => "read-request",
            StepKind::ReadResponse => "read-response",
            StepKind::Write => "write",
            StepKind::Reply => "reply",
            StepKind::Done => "done",
        },
        RungKind::Acknowledgement => "acknowledgement",
        RungKind::Nak(_) => "nak",
        RungKind::RnrNak(_) => "rnr-nak",
    }
}

impl Subject for UnreducedMessage<'static> {
    type Of<'a> = UnreducedMessage<'a>;
}

/// An RPC message before reduction.
pub static UNREDUCED_MESSAGE: Columns<UnreducedMessage<'static>> = {
    type C = Column<UnreducedMessage<'static>>;
    type O<U> = Within<UnreducedMessage<'static>, U>;
    Columns {
        name: "unreduced_message",
        role: Role::Shared,
        columns: &[
            C::new(
                "length",
                U64(|message| Some(message.piece.length)),
                "The length of the message in bytes.",
            ),
            C::new(
                "fields",
                Objects(&O {
                    columns: &FIELD,
                    lend: |message, see| frame::each(message.fields, &message.piece.bytes, see),
                }),
                "The fields of the message, if a chunk conveyed it. Otherwise they are among those of the \
                 Send.",
            ),
            C::new(
                "stretches",
                Objects(&O {
                    columns: &STRETCH,
                    lend: |message, see| message.stretches.iter().for_each(see),
                }),
                "The stretches of the message, in order and without gaps.",
            ),
        ],
    }
};

impl Subject for Stretch<'static> {
    type Of<'a> = &'a Stretch<'a>;
}

static STRETCH: Columns<Stretch<'static>> = {
    type C = Column<Stretch<'static>>;
    type O<U> = Within<Stretch<'static>, U>;
    Columns {
        name: "stretch",
        role: Role::Inner,
        columns: &[
            C::new(
                "start",
                U64(|stretch| Some(stretch.extent.start)),
                "The offset of the first byte in the message, counted from the XID of the RPC message.",
            ),
            C::new("length", U64(|stretch| Some(stretch.extent.length)), "The length in bytes."),
            C::new(
                "part",
                Word(
                    &[
                        explained("send", "the Send (inline)"),
                        explained("read-chunk", "a Read chunk"),
                        explained("write-chunk", "a Write chunk"),
                        explained("reply-chunk", "the Reply chunk"),
                        explained("padding", "XDR padding that was not conveyed"),
                    ],
                    |stretch| {
                        Some(match stretch.extent.source {
                            Source::Part(part, _) => words::part(part).0,
                            Source::Padding => "padding",
                        })
                    },
                ),
                "The source of the bytes.",
            ),
            C::new(
                "index",
                Any("number or null", &[], |stretch, see| match stretch.extent.source {
                    // Null means that there is only one chunk of the kind. Padding has no index.
                    Source::Part(part, _) => match words::part(part).1 {
                        Some(index) => see(Value::Number(index.into())),
                        None => see(Value::Json(&serde_json::Value::Null)),
                    },
                    Source::Padding => {}
                }),
                "The index of the chunk, from 0. Padding has none.",
            )
            .optional(),
            C::new(
                "offset",
                U64(|stretch| match stretch.extent.source {
                    Source::Part(_, at) => Some(at),
                    Source::Padding => None,
                }),
                "The offset of the first byte in that part. Padding has none.",
            )
            .optional(),
            C::new("position", U32(|stretch| stretch.position), "The Position of the Read chunk.").or_null(),
            C::new(
                "missing",
                Objects(&O {
                    columns: &super::shared::RANGE,
                    lend: |stretch, see| stretch.missing.iter().copied().for_each(see),
                }),
                "The ranges of the message that are missing from the capture.",
            ),
            C::new(
                "bytes",
                Bytes(|stretch, see| {
                    let shown = if stretch.left_out.is_empty() {
                        stretch.bytes.len()
                    } else {
                        stretch.left_out.start
                    };
                    see(&stretch.bytes[..shown]);
                }),
                "The bytes, with zeros for those missing from the capture. Without `--full`, only the first \
                 128 bytes of long stretches.",
            ),
            C::new(
                "left_out",
                U64(|stretch| Some(stretch.left_out.len() as u64)),
                "Bytes omitted after `bytes`.",
            ),
            C::new(
                "last_bytes",
                Bytes(|stretch, see| {
                    if !stretch.left_out.is_empty() {
                        see(&stretch.bytes[stretch.left_out.end..]);
                    }
                }),
                "The last 32 bytes, if some were omitted.",
            )
            .optional(),
        ],
    }
};
