//! One transaction: what it was, how it was exchanged, its headers and messages.

use super::{Show, listen};
use crate::output::{self, Format, Out, Status};
use rdmascope_conformance::Finding;
use rdmascope_dissector::attribution::Steps;
use rdmascope_dissector::connection::{Connection, ConnectionId, Endpoint};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::layout::Piece;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Direction, Message, Outcome, Part, Transaction};
use rdmascope_present::fields::Field;
use rdmascope_present::fields::rpc;
use rdmascope_present::findings::{ByFrame, Findings, is_about};
use rdmascope_present::json::{self, ExchangeLine, FindingLine};
use rdmascope_present::ladder::Ladder;
use rdmascope_present::names::{self, Failure, Label, Protocol, SecurityName};
use rdmascope_present::screen::{self, Screen, findings, heading, message};
use rdmascope_present::tables::transactions::{Arguments, operation_details};
use rdmascope_present::text::{Bytes, Counted, Duration, Maybe, Seconds};
use rdmascope_present::time::Rfc3339;
use rdmascope_wire::Xid;
use rdmascope_wire::rpcrdma::Procedure;
use std::collections::HashSet;
use std::io::{self, Write};

/// Transactions that are told of where more than one has the XID.
const MOST_TOLD: usize = 8;

/// Shows the transaction that `command` names.
pub(super) fn run(command: &Show, screen: Screen, out: &mut Out) -> io::Result<Status> {
    let (mut found, mut steps) = (Found::default(), Steps::default());
    let mut findings = Findings::new(Findings::ALL);
    let keep = Keep { steps: true, contents: true };
    let config = Config { keep, observe: true, ..Config::default() };
    let read = listen(&command.input, config, |event, start| {
        findings.handle(&event);
        if let Event::Transaction(transaction) = event {
            steps.add(transaction);
        }
        found.handle(command, event, start);
        Ok(())
    })?;
    let ending = match read {
        Ok(ending) => ending,
        Err(error) => return output::complain(&error, out),
    };
    let transaction = match found.only(command) {
        Ok(transaction) => transaction,
        Err(error) => return output::complain(&error, out),
    };
    let by_frame = findings.by_frame();
    let mut ladder = Ladder::of(transaction);
    let mut attribution = steps.finish();
    let config = Config { report_packets: true, ..Config::default() };
    let read = listen(&command.input, config, |event, _| {
        if let Event::Packet(packet) = event {
            let attributed = attribution.next(packet);
            ladder.see(transaction, packet, &attributed);
            if by_frame.names(packet.record.number) {
                ladder.mark(transaction, packet, &attributed);
            }
        }
        Ok(())
    })?;
    if let Err(error) = read {
        return output::complain(&error, out);
    }
    let marked: HashSet<u64> = ladder.marked().collect();
    let concerns = |finding: &&Finding| {
        is_about(finding, transaction) || finding.frames.iter().any(|frame| marked.contains(frame))
    };
    let shown = Shown {
        transaction,
        connection: found.connection.as_ref(),
        start: found.start,
        findings: findings.kept().filter(concerns).collect(),
        by_frame: &by_frame,
    };
    match command.output.format {
        Format::Text => shown.write_text(&ladder, command.full, screen, out)?,
        Format::Jsonl => shown.write_jsonl(&ladder, command.full, out)?,
    }
    output::tell_of_left_out(&findings);
    output::warn_of_cuts(&ending, out)?;
    output::complain_of_troubles(&ending, out)
}

/// What matches.
#[derive(Default)]
struct Found {
    /// The first that does.
    transaction: Option<Transaction>,
    /// The connection of the first.
    connection: Option<Connection>,
    /// All that match, but no more than [`MOST_TOLD`].
    titles: Vec<String>,
    count: u64,
    start: Time,
}

impl Found {
    fn handle(&mut self, command: &Show, event: Event<'_>, start: Time) {
        self.start = start;
        match event {
            Event::Transaction(transaction) if matches(command, transaction) => {
                self.count += 1;
                if self.titles.len() < MOST_TOLD {
                    self.titles.push(told(transaction));
                }
                self.transaction.get_or_insert_with(|| transaction.clone());
            }
            Event::Connection(connection) => {
                let id = self.transaction.as_ref().map(|transaction| transaction.connection);
                if id == Some(connection.id) && self.connection.is_none() {
                    self.connection = Some(connection.clone());
                }
            }
            _ => {}
        }
    }

    /// The one transaction that matches.
    fn only(&self, command: &Show) -> anyhow::Result<&Transaction> {
        let wanted = match (command.transaction, command.xid, command.connection) {
            (Some(number), _, _) => format!("the number {number}"),
            (None, xid, None) => format!("the XID {}", Xid(xid.unwrap_or_default())),
            (None, xid, Some(id)) => format!("the XID {} on connection {id}", Xid(xid.unwrap_or_default())),
        };
        let Some(transaction) = &self.transaction else {
            anyhow::bail!("no transaction has {wanted}: `rdmascope transactions` lists all");
        };
        if self.count > 1 {
            let more = match self.count - self.titles.len() as u64 {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            anyhow::bail!(
                "{} transactions have {wanted}: {}{more}: choose one with --transaction, or those of a connection with \
                 --connection",
                self.count,
                self.titles.join("; ")
            );
        }
        Ok(transaction)
    }
}

fn matches(command: &Show, transaction: &Transaction) -> bool {
    if let Some(number) = command.transaction {
        return transaction.number == number;
    }
    command.xid.is_some_and(|xid| transaction.xid == Xid(xid))
        && command.connection.is_none_or(|id| transaction.connection == ConnectionId(id))
}

/// A transaction in a few words.
fn told(transaction: &Transaction) -> String {
    let message = transaction.call.as_ref().or(transaction.reply.as_ref());
    format!(
        "{} ({} on connection {}, {}, frame {})",
        transaction.number,
        Label::of(transaction),
        transaction.connection.0,
        names::direction(transaction.direction),
        Maybe(message.map(|message| message.seen.frame)),
    )
}

/// A transaction that is shown.
struct Shown<'a> {
    transaction: &'a Transaction,
    connection: Option<&'a Connection>,
    /// When the capture starts.
    start: Time,
    /// What is about it, and of what its packets are evidence.
    findings: Vec<&'a Finding>,
    by_frame: &'a ByFrame<'a>,
}

impl Shown<'_> {
    fn write_text(&self, ladder: &Ladder, full: bool, screen: Screen, out: &mut Out) -> io::Result<()> {
        self.write_summary(screen, out)?;
        findings::section(&self.findings, screen, out)?;
        if !ladder.rungs.is_empty() {
            heading("Exchange", screen, out)?;
            screen::ladder::ladder(ladder, self.transaction, self.by_frame, screen, out)?;
            screen::ladder::phases(self.transaction, screen, out)?;
        }
        for (of_reply, name) in [(false, "Call"), (true, "Reply")] {
            let (fields, bytes) = send_fields(self.transaction, of_reply);
            if !fields.is_empty() {
                heading(&format!("{name}: fields of its Send"), screen, out)?;
                screen::tree(&fields, bytes, screen, out)?;
            }
        }
        for (of_reply, name) in [(false, "Call"), (true, "Reply")] {
            let Some(piece) = self.transaction.message(of_reply) else { continue };
            let fields = message_fields(self.transaction, of_reply, &piece);
            if !fields.is_empty() {
                heading(&format!("{name}: fields of its message, which a chunk conveyed"), screen, out)?;
                screen::tree(&fields, &piece.bytes, screen, out)?;
            }
            message::view(self.transaction, of_reply, &piece, full, screen, out)?;
        }
        Ok(())
    }

    fn write_jsonl(&self, ladder: &Ladder, full: bool, out: &mut Out) -> io::Result<()> {
        let [call, reply] = [false, true].map(|of_reply| send_fields(self.transaction, of_reply));
        let messages = [false, true].map(|of_reply| {
            let piece = self.transaction.message(of_reply)?;
            let fields = message_fields(self.transaction, of_reply, &piece);
            Some((fields, piece))
        });
        let line = ExchangeLine::new(
            self.transaction,
            ladder,
            [(&call.0, call.1), (&reply.0, reply.1)],
            [messages[0].as_ref(), messages[1].as_ref()],
            self.by_frame,
            full,
        );
        json::write_line(out, &line)?;
        self.findings.iter().try_for_each(|finding| json::write_line(out, &FindingLine::new(finding, false)))
    }

    /// What the transaction is.
    fn write_summary(&self, screen: Screen, out: &mut Out) -> io::Result<()> {
        let transaction = self.transaction;
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
        if let Some(status) = transaction.rpc_status {
            writeln!(out, "  RPC status   {status}")?;
        }
        if let Some(latency) = transaction.latency() {
            writeln!(out, "  latency      {}", Duration(latency))?;
        }
        let timing = &transaction.timing;
        for (bytes, how) in [(timing.read_bytes, "RDMA Read"), (timing.written_bytes, "RDMA Write")] {
            if bytes > 0 {
                writeln!(out, "  moved        {} by {how}", Bytes(bytes))?;
            }
        }
        if transaction.capture_gap {
            let gap = "packets are missing from the capture that could have held what is missing here";
            writeln!(out, "  gap          {}", style.yellow(gap))?;
        }
        if let Some(stop) = transaction.stop {
            writeln!(out, "  stop         {}", style.yellow(stop))?;
        }
        self.write_operations(out)
    }

    fn write_connection(&self, out: &mut Out) -> io::Result<()> {
        let transaction = self.transaction;
        let Some(connection) = self.connection else {
            return writeln!(out, "  connection   {}", transaction.connection.0);
        };
        let end = |end: &Endpoint| format!("{} QP {}", end.address, Maybe(end.qpn));
        let (caller, other, direction) = match transaction.direction {
            Direction::Forward => (&connection.requester, &connection.responder, "forward"),
            Direction::Backward => (&connection.responder, &connection.requester, "backward"),
        };
        writeln!(out, "  connection   {}, {direction}", connection.id.0)?;
        writeln!(out, "  Requester    {}", end(caller))?;
        writeln!(out, "  Responder    {}", end(other))
    }

    fn write_message(&self, name: &str, message: &Message, out: &mut Out) -> io::Result<()> {
        let (first, last) = (message.first.frame, message.seen.frame);
        let frames = if first == last { format!("frame {last}") } else { format!("frames {first}-{last}") };
        let seconds = Seconds(message.seen.time.0.saturating_sub(self.start.0));
        writeln!(out, "  {name:12} {frames}, {}, {seconds} s", Rfc3339::from(message.seen.time))?;
        write!(out, "               {}, {}", message.procedure, Counted(message.credits.into(), "credit"))?;
        writeln!(out, ", {} in the Send", Counted(message.send_length.into(), "byte"))?;
        let sum = |segments: &[rdmascope_wire::rpcrdma::Segment]| {
            let bytes = segments.iter().map(|segment| u64::from(segment.length)).sum();
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

    fn write_operations(&self, out: &mut Out) -> io::Result<()> {
        let details = &self.transaction.details;
        for (index, operation) in details.operations.iter().enumerate() {
            let title = if index == 0 { "operations" } else { "" };
            write!(out, "  {title:12} {}", Label::of_operation(operation))?;
            if operation_details(operation) {
                write!(out, "({})", Arguments(details, operation))?;
            }
            let called = self.transaction.procedure;
            if let Some(status) = operation.status {
                match called.and_then(|called| names::status_name(called.program, called.version, status)) {
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

/// What is wrong, in words.
fn failed(transaction: &Transaction, failure: Failure) -> String {
    match failure {
        Failure::Transport(Some(error)) => format!("RDMA_ERROR {error}"),
        Failure::Transport(None) => "RDMA_ERROR".to_owned(),
        Failure::Rpc(status) => status.to_string(),
        Failure::Status(status) => rpc::status_name(transaction, status),
    }
}

/// The fields of the call's or the reply's Send as far as the capture holds it without a hole, and its bytes.
fn send_fields(transaction: &Transaction, of_reply: bool) -> (Vec<Field>, &[u8]) {
    let message = if of_reply { &transaction.reply } else { &transaction.call };
    let content = transaction.exchange.as_ref().and_then(|kept| kept.content(of_reply, Part::Send));
    let (Some(message), Some(content)) = (message, content) else { return (Vec::new(), &[]) };
    let whole = usize::try_from(content.captured.front()).unwrap_or(usize::MAX).min(content.bytes.len());
    let bytes = &content.bytes[..whole];
    let cut = (whole as u64) < u64::from(message.send_length);
    let send = rpc::SendBytes { bytes, base: 0, cut, goes_on: false };
    (rpc::send(send, Some(transaction)), bytes)
}

/// The fields of a message that was conveyed by a chunk, as far as the capture holds it without a hole; none of one whose fields
/// are those of its Send.
fn message_fields(transaction: &Transaction, of_reply: bool, piece: &Piece) -> Vec<Field> {
    let message = if of_reply { &transaction.reply } else { &transaction.call };
    if message.as_ref().is_none_or(|message| message.procedure != Procedure::Nomsg) {
        return Vec::new();
    }
    let whole = usize::try_from(piece.captured.front()).unwrap_or(usize::MAX).min(piece.bytes.len());
    let cut = (whole as u64) < piece.length;
    let stream = rpc::SendBytes { bytes: &piece.bytes[..whole], base: 0, cut, goes_on: false };
    rpc::message(stream, Some(transaction))
}
