//! Transactions, whole: how they were exchanged, their headers and messages.

use super::frame::Fields;
use super::{Shown, time, write_line};
use crate::column::Line;
use crate::columns::{FINDING, FindingRow, TRANSACTION};
use crate::fields::{Field, rpc};
use crate::findings::ByFrame;
use crate::ladder::{Ladder, Rung, RungKind};
use crate::message::{Stretch, stretches};
use crate::text::HexBytes;
use crate::words;
use rdmascope_conformance::Finding;
use rdmascope_dissector::exchange::StepKind;
use rdmascope_dissector::layout::{Piece, Source};
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::Transaction;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::io::{self, Write};

/// `"type":"exchange"`.
#[derive(Serialize)]
pub struct ExchangeLine<'a> {
    r#type: &'static str,
    transaction: Line<'a, Transaction>,
    rungs: Vec<RungView>,
    rungs_left_out: u64,
    call_fields: Fields<'a>,
    reply_fields: Fields<'a>,
    call_message: Option<MessageView<'a>>,
    reply_message: Option<MessageView<'a>>,
}

/// Writes a transaction with its `ladder`, fields and messages, and then the `findings` that are about it. `by_frame`: all findings of the
/// capture. Without `full`, the middle of long stretches of bytes is left out.
pub fn write_exchange(
    transaction: &Transaction,
    ladder: &Ladder,
    findings: &[&Finding],
    by_frame: &ByFrame<'_>,
    full: bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let [call, reply] = [false, true].map(|of_reply| rpc::of_send(transaction, of_reply));
    let messages = [false, true].map(|of_reply| {
        let piece = transaction.message(of_reply)?;
        let fields = rpc::of_message(transaction, of_reply, &piece);
        Some((fields, piece))
    });
    let line = ExchangeLine::new(
        transaction,
        ladder,
        [(&call.0, call.1), (&reply.0, reply.1)],
        [messages[0].as_ref(), messages[1].as_ref()],
        by_frame,
        full,
    );
    write_line(out, &line)?;
    findings.iter().try_for_each(|finding| write_line(out, &FINDING.of(FindingRow::new(finding, false))))
}

impl<'a> ExchangeLine<'a> {
    /// `fields` and `messages`: of the call and of the reply, messages with the fields that are not those of a Send. `findings`: those
    /// of the capture. Without `full`, the middle of long stretches is left out.
    pub fn new(
        transaction: &'a Transaction,
        ladder: &Ladder,
        fields: [(&'a [Field], &'a [u8]); 2],
        messages: [Option<&'a (Vec<Field>, Piece)>; 2],
        findings: &ByFrame<'_>,
        full: bool,
    ) -> ExchangeLine<'a> {
        let [call_fields, reply_fields] = fields.map(|(fields, bytes)| Fields { fields, bytes });
        let [call, reply] = messages;
        let message = |of_reply: bool, (fields, piece): &'a (Vec<Field>, Piece)| MessageView {
            length: piece.length,
            fields: Fields { fields, bytes: &piece.bytes },
            stretches: stretches(transaction, of_reply, piece, full).into_iter().map(StretchView).collect(),
        };
        let rungs = ladder.rungs.iter().zip(ladder.marks()).map(|(rung, frames)| {
            let mut evidence_of: Vec<_> = findings.rules(&frames).iter().map(|(rule, _)| rule.id).collect();
            evidence_of.sort_unstable();
            evidence_of.dedup();
            RungView { evidence_of, ..RungView::new(rung, ladder.start) }
        });
        ExchangeLine {
            r#type: "exchange",
            transaction: TRANSACTION.of(transaction),
            rungs: rungs.collect(),
            rungs_left_out: ladder.left_out,
            call_fields,
            reply_fields,
            call_message: call.map(|piece| message(false, piece)),
            reply_message: reply.map(|piece| message(true, piece)),
        }
    }
}

#[derive(Serialize)]
struct RungView {
    kind: &'static str,
    again: bool,
    from: &'static str,
    frame: u64,
    #[serde(serialize_with = "time")]
    time: Time,
    last_frame: u64,
    #[serde(serialize_with = "time")]
    last_time: Time,
    since_ns: u64,
    psn: u32,
    last_psn: u32,
    nak: Option<Shown<rdmascope_wire::bth::NakCode>>,
    message: Option<&'static str>,
    part: Option<&'static str>,
    index: Option<u16>,
    offset: Option<u64>,
    length: Option<u64>,
    evidence_of: Vec<&'static str>,
}

impl RungView {
    fn new(rung: &Rung, start: Time) -> RungView {
        let (kind, again, nak) = match rung.kind {
            RungKind::Step(kind) => (step(kind), false, None),
            RungKind::Again(kind) => (step(kind), true, None),
            RungKind::Acknowledgement => ("acknowledgement", false, None),
            RungKind::Nak(code) => ("nak", false, Some(Shown(code))),
            RungKind::RnrNak(_) => ("rnr-nak", false, None),
        };
        let place = rung.piece.map(|piece| words::part(piece.part));
        RungView {
            kind,
            again,
            from: if rung.from_requester { "requester" } else { "responder" },
            frame: rung.first.frame,
            time: rung.first.time,
            last_frame: rung.last.frame,
            last_time: rung.last.time,
            since_ns: rung.first.time.since(start),
            psn: rung.psn.value(),
            last_psn: rung.last_psn().value(),
            nak,
            message: rung.piece.map(|piece| if piece.of_reply { "reply" } else { "call" }),
            part: place.map(|(part, _)| part),
            index: place.and_then(|(_, index)| index),
            offset: rung.piece.map(|piece| piece.offset),
            length: rung.piece.map(|piece| piece.length),
            evidence_of: Vec::new(),
        }
    }
}

fn step(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Call => "call",
        StepKind::ReadRequest => "read-request",
        StepKind::ReadResponse => "read-response",
        StepKind::Write => "write",
        StepKind::Reply => "reply",
        StepKind::Done => "done",
    }
}

/// A message before reduction.
#[derive(Serialize)]
struct MessageView<'a> {
    length: u64,
    fields: Fields<'a>,
    stretches: Vec<StretchView<'a>>,
}

/// A stretch of it.
struct StretchView<'a>(Stretch<'a>);

impl Serialize for StretchView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Stretch { extent, position, bytes, missing, left_out } = &self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("start", &extent.start)?;
        map.serialize_entry("length", &extent.length)?;
        match extent.source {
            Source::Part(source, at) => {
                let (name, index) = words::part(source);
                map.serialize_entry("part", name)?;
                map.serialize_entry("index", &index)?;
                map.serialize_entry("offset", &at)?;
            }
            Source::Padding => map.serialize_entry("part", "padding")?,
        }
        map.serialize_entry("position", position)?;
        let missing: Vec<RangeView> =
            missing.iter().map(|(start, end)| RangeView { start: *start, end: *end }).collect();
        map.serialize_entry("missing", &missing)?;
        let shown = if left_out.is_empty() { bytes.len() } else { left_out.start };
        map.serialize_entry("bytes", &Shown(HexBytes(&bytes[..shown])))?;
        map.serialize_entry("left_out", &left_out.len())?;
        if !left_out.is_empty() {
            map.serialize_entry("last_bytes", &Shown(HexBytes(&bytes[left_out.end..])))?;
        }
        map.end()
    }
}

#[derive(Serialize)]
struct RangeView {
    start: u64,
    end: u64,
}
