//! `export rpc`: the RPC messages before reduction, as RPC over TCP for programs that do not
//! support RPC-over-RDMA.
//!
//! Messages are spooled to a temporary file as their transactions end. They are written at the end
//! of the capture, when the addresses of all connections are known, in the order of their Sends.
//! Memory use is linear in the number of messages, not in their size.

mod streams;
#[cfg(test)]
mod tests;

use super::{FileArguments, pcapng_to};
use crate::input::{Input, listen};
use crate::output::{self, Failure, Out, Status, notify};
use crate::slice::{Records, SliceArguments};
use anyhow::{Context, Result, ensure};
use clap::Args;
use foldhash::fast::FixedState;
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::units::Counted;
use rdmascope_capture_agent::temporary;
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Direction, Outcome, Transaction};
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, IntoInnerError, Read as _, Seek as _, SeekFrom, Write};
use streams::Streams;

#[derive(Args, Debug)]
pub(super) struct Rpc {
    #[command(flatten)]
    pub(super) input: Input,
    #[command(flatten)]
    pub(super) file: FileArguments,
    #[command(flatten)]
    slice: SliceArguments,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  rdmascope export rpc mount.pcap --output nfs.pcapng
  rdmascope export rpc mount.pcap --output - | tshark -r - -V
  rdmascope export rpc mount.pcap --operation READ --output - | tshark -r - -T fields -e nfs.offset3
  rdmascope export rpc mount.pcap --connection 2 --output - | tshark -r - -z rpc,srt,100003,3 -q";

/// Writes the messages.
pub(super) fn run(command: &Rpc, out: &mut Out) -> Result<Status, Failure> {
    let (ending, left_out) = pcapng_to(&command.file.output, &command.input, out, |out| write(command, out))?;
    left_out.report();
    Ok(output::report_ending(&ending, out)?)
}

/// Writes the messages. Errors of the temporary file are not errors of the output.
fn write(command: &Rpc, out: impl Write) -> Result<(Ending, LeftOut), Failure> {
    let (gathered, ending) = gather(command)?;
    let mut streams = Streams::new(out)?;
    let left_out = gathered.left_out;
    gathered.write(&mut streams)?;
    streams.finish()?;
    Ok((ending, left_out))
}

/// The context of errors of the temporary file.
const SPOOL: &str = "a temporary file";

/// A message before reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Message {
    /// The transaction.
    transaction: u64,
    connection: ConnectionId,
    /// Whether the end that opened the connection sent it.
    from_requester: bool,
    of_reply: bool,
    /// The time at which its Send was complete.
    time: Time,
    /// The first and the last frame of its Send.
    frames: (u64, u64),
    /// Its length, and the length of its beginning without gaps in the capture, in bytes.
    length: u64,
    held: u64,
    /// The offset of that beginning in the temporary file.
    at: u64,
}

/// Numbers of omitted messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct LeftOut {
    /// Messages without any bytes in the capture, or without a known layout.
    unknown: u64,
    /// Messages with only the first bytes written.
    cut: u64,
    /// RDMA_ERRORs in place of replies.
    errors: u64,
}

impl LeftOut {
    fn report(self) {
        let LeftOut { unknown, cut, errors } = self;
        if unknown > 0 {
            notify(format_args!(
                "omitted: {} with a missing beginning or an unreadable header",
                Counted(unknown, "message")
            ));
        }
        if cut > 0 {
            notify(format_args!(
                "warning: {} truncated at bytes missing from the capture",
                Counted(cut, "message")
            ));
        }
        if errors > 0 {
            notify(format_args!(
                "omitted: {} in place of replies, which RPC cannot express",
                Counted(errors, "RDMA_ERROR")
            ));
        }
    }
}

/// The messages of a capture.
struct Gathered {
    spool: BufWriter<File>,
    at: u64,
    messages: Vec<Message>,
    connections: HashMap<ConnectionId, Connection, FixedState>,
    left_out: LeftOut,
}

/// Reads the capture.
fn gather(command: &Rpc) -> Result<(Gathered, Ending)> {
    let spool = temporary::file().context("cannot create a temporary file")?;
    let mut gathered = Gathered {
        spool: BufWriter::new(spool),
        at: 0,
        messages: Vec::new(),
        connections: HashMap::default(),
        left_out: LeftOut::default(),
    };
    let config = Config { keep: Keep { steps: false, contents: true }, ..Config::default() };
    let (slice, captured) = command.slice.of(&command.input, Records::Unknown)?;
    let is_empty = slice.chosen().is_some_and(|chosen| chosen.transactions == 0);
    ensure!(!is_empty, "no transaction matches the filter");
    let read = listen(captured.input(), config, |event, _| match event {
        Event::Transaction(transaction) if slice.has(&event) => gathered.take(transaction),
        Event::Connection(connection) => {
            gathered.connections.insert(connection.id, connection.clone());
            Ok(())
        }
        _ => Ok(()),
    });
    let ending = read.map_err(|failure| failure.about(SPOOL))?;
    Ok((gathered, ending))
}

impl Gathered {
    fn take(&mut self, transaction: &Transaction) -> io::Result<()> {
        for of_reply in [false, true] {
            let Some(header) = (if of_reply { &transaction.reply } else { &transaction.call }) else {
                continue;
            };
            if of_reply && transaction.outcome == Outcome::TransportError {
                self.left_out.errors += 1;
                continue;
            }
            let piece = transaction.message(of_reply).filter(|piece| piece.captured.front() > 0);
            let Some(piece) = piece else {
                self.left_out.unknown += 1;
                continue;
            };
            let held = &piece.bytes
                [..piece.bytes.len().min(usize::try_from(piece.captured.front()).unwrap_or(usize::MAX))];
            self.left_out.cut += u64::from((held.len() as u64) < piece.length);
            self.spool.write_all(held)?;
            self.messages.push(Message {
                transaction: transaction.number,
                connection: transaction.connection,
                from_requester: (transaction.direction == Direction::Forward) != of_reply,
                of_reply,
                time: header.seen.time,
                frames: (header.first.frame, header.seen.frame),
                length: piece.length,
                held: held.len() as u64,
                at: self.at,
            });
            self.at += held.len() as u64;
        }
        Ok(())
    }

    /// Writes all messages.
    fn write(mut self, streams: &mut Streams<impl Write>) -> Result<(), Failure> {
        self.messages.sort_by_key(|message| (message.frames.1, message.of_reply));
        let spool = self.spool.into_inner().map_err(IntoInnerError::into_error).context(SPOOL)?;
        let mut spool = BufReader::new(spool);
        let mut bytes = Vec::new();
        for message in &self.messages {
            let held = usize::try_from(message.held).unwrap_or(usize::MAX);
            bytes.resize(held, 0);
            spool.seek(SeekFrom::Start(message.at)).context(SPOOL)?;
            spool.read_exact(&mut bytes).context(SPOOL)?;
            streams.message(message, self.connections.get(&message.connection), &bytes)?;
        }
        Ok(())
    }
}
