//! The text page of one transaction.

use super::{Screen, events, findings, heading, ladder, message, tree};
use crate::fields::rpc;
use crate::fold::Folding;
use crate::ladder::Ladder;
use crate::tables::transactions::{Arguments, operation_details};
use crate::text::{Maybe, Named};
use rdmascope_analysis::events::SessionEvent;
use rdmascope_analysis::findings::ByFrame;
use rdmascope_analysis::names::{self, Failure, Label, Protocol, Quoted, SecurityName};
use rdmascope_analysis::paths::TransactionRow;
use rdmascope_analysis::replies::Mechanism;
use rdmascope_analysis::time::Rfc3339;
use rdmascope_analysis::units::{Bytes, Counted, Duration, Seconds};
use rdmascope_conformance::Finding;
use rdmascope_dissector::connection::{Connection, Endpoint};
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Direction, Message, Outcome, Transaction};
use std::io::{self, Write};

/// A transaction with its summary, findings, ladder, fields and messages.
pub struct TransactionPage<'a> {
    /// The transaction.
    pub transaction: TransactionRow<'a>,
    /// The connection of the transaction, if it has ended.
    pub connection: Option<&'a Connection>,
    /// The start of the capture.
    pub start: Time,
    /// The findings about the transaction, and those with its packets as evidence.
    pub findings: Vec<&'a Finding>,
    /// All findings, by the packets that are their evidence.
    pub by_frame: &'a ByFrame<'a>,
    /// The events of the connection during the transaction.
    pub events: Vec<&'a SessionEvent>,
}

impl TransactionPage<'_> {
    /// Writes the page. `rungs` is the ladder of the transaction. Without `full`, the middle of
    /// long stretches is omitted.
    pub fn write(&self, rungs: &Ladder, full: bool, screen: Screen, out: &mut dyn Write) -> io::Result<()> {
        self.write_head(screen, out)?;
        findings::section(&self.findings, screen, out)?;
        events::section(&self.events, self.start, screen, out)?;
        if !rungs.rungs.is_empty() {
            heading("Exchange", screen, out)?;
            ladder::ladder(rungs, &self.transaction, self.by_frame, screen, out)?;
            ladder::phases(&self.transaction, screen, out)?;
        }
        for (of_reply, name) in [(false, "Call"), (true, "Reply")] {
            let (fields, bytes) = rpc::of_send(&self.transaction, of_reply);
            if !fields.is_empty() {
                heading(&format!("{name}: fields of its Send"), screen, out)?;
                tree(&fields, bytes, screen, out)?;
            }
        }
        for (of_reply, name) in [(false, "Call"), (true, "Reply")] {
            let Some(piece) = self.transaction.message(of_reply) else { continue };
            let fields = rpc::of_message(&self.transaction, of_reply, &piece);
            if !fields.is_empty() {
                heading(&format!("{name}: fields of its message, conveyed in a chunk"), screen, out)?;
                tree(&fields, &piece.bytes, screen, out)?;
            }
            message::view(&self.transaction, of_reply, &piece, full, screen, out)?;
        }
        Ok(())
    }

    /// Writes the summary, with which [`TransactionPage::write`] begins.
    pub fn write_head(&self, screen: Screen, out: &mut dyn Write) -> io::Result<()> {
        let mut folding = Folding::new(&mut *out, screen.style);
        self.write_summary(screen, &mut folding)?;
        folding.flush()
    }

    /// Writes the summary without folding long lines.
    fn write_summary(&self, screen: Screen, out: &mut dyn Write) -> io::Result<()> {
        let transaction = self.transaction.transaction;
        let style = screen.style;
        let called = match Protocol::of(transaction) {
            Some(protocol) => format!("{protocol} {}", Label::of(transaction)),
            None => "call unknown".to_owned(),
        };
        let title = format!("Transaction {}  {called}", transaction.number);
        write!(out, "{}  ", style.bold(title))?;
        let outcome = names::outcome(transaction.outcome);
        match (Failure::of(transaction), transaction.outcome) {
            (Some(failure), _) => writeln!(out, "{outcome}, {}", style.red(failed(transaction, failure)))?,
            (None, Outcome::Completed) => writeln!(out, "{outcome}")?,
            (None, _) => writeln!(out, "{}", style.yellow(outcome))?,
        }
        self.write_connection(out)?;
        writeln!(out, "  XID          {}", transaction.xid)?;
        for (name, message) in [("call", &transaction.call), ("reply", &transaction.reply)] {
            if let Some(message) = message {
                self.write_message(name, message, out)?;
            }
        }
        if let Some(security) = transaction.security {
            writeln!(out, "  security     {}", SecurityName(security))?;
        }
        if let Some(user) = transaction.user {
            let machine = Quoted(transaction.details.bytes(user.machine));
            writeln!(out, "  user         uid {}, gid {}, machine {machine}", user.uid, user.gid)?;
        }
        let mut written = Ok(());
        self.transaction.file(&mut |path| written = writeln!(out, "  file         {}", Quoted(path)));
        written?;
        let mut written = Ok(());
        self.transaction.other_file(&mut |path| written = writeln!(out, "  other file   {}", Quoted(path)));
        written?;
        if let Some(status) = transaction.rpc_status {
            writeln!(out, "  RPC status   {status}")?;
        }
        if let Some(latency) = transaction.latency() {
            writeln!(out, "  latency      {}", Duration(latency))?;
        }
        if let Some(waited) = transaction.unanswered_until.and(transaction.waited()) {
            writeln!(out, "  waited       {} or longer, without a reply", Duration(waited))?;
        }
        let timing = &transaction.timing;
        for (bytes, how) in [(timing.read_bytes, "RDMA Read"), (timing.written_bytes, "RDMA Write")] {
            if bytes > 0 {
                writeln!(out, "  moved        {} by {how}", Bytes(bytes))?;
            }
        }
        self.write_mechanism(out)?;
        if transaction.capture_gap {
            let gap = match transaction.memory_unseen {
                true => "snooped at the kernel's transport, which does not show the data in chunks",
                false => "missing packets could have held the missing parts of this transaction",
            };
            writeln!(out, "  gap          {}", style.yellow(gap))?;
        }
        if let Some(stop) = transaction.stop {
            writeln!(out, "  stop         {}", style.yellow(stop))?;
        }
        self.write_operations(out)
    }

    fn write_connection(&self, out: &mut dyn Write) -> io::Result<()> {
        let transaction = self.transaction;
        let Some(connection) = self.connection else {
            return writeln!(out, "  connection   {}", transaction.connection.0);
        };
        let end = |end: &Endpoint| format!("{} QP {}", Named(end), Maybe(end.qpn));
        let (caller, other, direction) = match transaction.direction {
            Direction::Forward => (&connection.requester, &connection.responder, "forward"),
            Direction::Backward => (&connection.responder, &connection.requester, "backward"),
        };
        writeln!(out, "  connection   {}, {direction}", connection.id.0)?;
        writeln!(out, "  Requester    {}", end(caller))?;
        writeln!(out, "  Responder    {}", end(other))
    }

    fn write_message(&self, name: &str, message: &Message, out: &mut dyn Write) -> io::Result<()> {
        let (first, last) = (message.first.frame, message.seen.frame);
        let frames = if first == last { format!("frame {last}") } else { format!("frames {first}-{last}") };
        let seconds = Seconds(message.seen.time.0.saturating_sub(self.start.0));
        writeln!(out, "  {name:12} {frames}, {}, {seconds} s", Rfc3339::from(message.seen.time))?;
        write!(out, "               {}, {}", message.procedure, Counted(message.credits.into(), "credit"))?;
        writeln!(out, ", {} in the Send", Counted(message.send_length.into(), "byte"))?;
        let sum = |segments: &[rdmascope_wire::rpcrdma::Segment]| {
            let bytes = rdmascope_wire::rpcrdma::Segment::total(segments);
            format!("{} in {}", Bytes(bytes), Counted(segments.len() as u64, "segment"))
        };
        for (index, chunk) in message.read_chunks.iter().enumerate() {
            let position = chunk.position;
            writeln!(
                out,
                "               Read chunk {index} at Position {position}: {}",
                sum(&chunk.segments)
            )?;
        }
        for (index, chunk) in message.write_chunks.iter().enumerate() {
            writeln!(out, "               Write chunk {index}: {}", sum(&chunk.segments))?;
        }
        if let Some(chunk) = &message.reply_chunk {
            writeln!(out, "               Reply chunk: {}", sum(&chunk.segments))?;
        }
        if let Some(rkey) = message.invalidated {
            writeln!(out, "               invalidates {rkey}")?;
        }
        if let Some(length) = message.message_length {
            writeln!(out, "               {} before reduction", Counted(length, "byte"))?;
        }
        for missing in &message.missing {
            let part = names::PartName(missing.part);
            let (start, end) = (missing.start, Maybe(missing.end));
            writeln!(out, "               missing from the capture: bytes {start} to {end} of the {part}")?;
        }
        if let Some(stop) = message.stop {
            writeln!(out, "               {stop}")?;
        }
        Ok(())
    }

    /// Writes how a reply was conveyed that is not entirely inline.
    fn write_mechanism(&self, out: &mut dyn Write) -> io::Result<()> {
        match Mechanism::of(self.transaction.transaction) {
            Some(Mechanism::Send) | None => Ok(()),
            Some(mechanism) => writeln!(out, "  conveyed     {}", mechanism.title()),
        }
    }

    fn write_operations(&self, out: &mut dyn Write) -> io::Result<()> {
        let details = &self.transaction.details;
        for (index, operation) in details.operations.iter().enumerate() {
            let title = if index == 0 { "operations" } else { "" };
            write!(out, "  {title:12} {}", Label::of_operation(operation))?;
            if operation_details(operation) {
                write!(out, "({})", Arguments(details, operation))?;
            }
            if let Some(status) = operation.status {
                match names::status_of(&self.transaction, status) {
                    Some(name) => write!(out, ": {name}")?,
                    None => write!(out, ": status {status}")?,
                }
            }
            if let Some(count) = operation.result_count {
                write!(out, ", {}", Counted(count, "byte"))?;
            }
            if operation.end_of_file == Some(true) {
                write!(out, ", end of file")?;
            }
            writeln!(out)?;
        }
        Ok(())
    }
}

/// The failure in words.
fn failed(transaction: &Transaction, failure: Failure) -> String {
    match failure {
        Failure::Transport(Some(error)) => format!("RDMA_ERROR {error}"),
        Failure::Transport(None) => "RDMA_ERROR".to_owned(),
        Failure::Rpc(status) => status.to_string(),
        Failure::Status(status) => rpc::status_name(transaction, status),
    }
}
