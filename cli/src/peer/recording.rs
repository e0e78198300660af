//! Reads the calls and replies of a capture into a recording that can be replayed.

use crate::filters::RequestedScope;
use crate::input::{Input, listen};
use crate::output::{self, Failure, Out, Status, notify};
use crate::paths;
use anyhow::{Result, bail};
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::filter::TransactionFilter;
use rdmascope_analysis::names::{Label, Protocol};
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::paths::TransactionRow;
use rdmascope_analysis::units::{Bytes, Counted};
use rdmascope_dissector::connection::{self, ConnectionId, State};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::layout::{Piece, Source};
use rdmascope_dissector::transaction::{Chunk, Direction, Message, Outcome, Part, Security, Transaction};
use rdmascope_peer::replay::{Answer, Call, Connection, Recording};
use rdmascope_peer::rpcrdma::{Conveyance, Invalidated, Mechanism, Shape, handles};
use rdmascope_wire::private_data::{PrivateData, encode_size};
use rdmascope_wire::rpcrdma::Procedure;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Most calls listed by name as unfit for a replay.
const MOST_NAMED: usize = 5;

/// The contents of a capture, for a replay.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub(super) recording: Arc<Recording>,
    /// Program and operation of each call, by transaction number.
    pub(super) names: BTreeMap<u64, String>,
    /// Reasons why calls cannot be repeated: the first `MOST_NAMED`, and the count of all.
    pub(super) unfit: Vec<String>,
    pub(super) unfit_count: u64,
    /// Replies to calls that are missing from the capture.
    pub(super) replies_only: u64,
    /// Calls with RPCSEC_GSS credentials, whose contexts are unknown to another target.
    pub(super) gss: u64,
    /// Calls whose reply is missing or incomplete in the capture.
    pub(super) unknown_replies: u64,
}

/// The purpose of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Its calls are repeated: all, or with `leave_out` those that can be.
    Calls { leave_out: bool },
    /// Calls are answered from it.
    Answers,
}

/// Reads a capture for a command, and reports damage and unusable parts. `Err` is the command's
/// exit status, and the reason was printed. The outer error comes from standard output.
pub(super) fn load(
    input: &Input,
    filter: &TransactionFilter,
    most: u64,
    purpose: Use,
    out: &mut Out,
) -> io::Result<Result<Read, Status>> {
    let checked = match read(input, filter, most) {
        Ok((read, ending)) => {
            output::warn_of_cuts(&ending, out)?;
            let status = output::complain_of_troubles(&ending, out)?;
            if status != Status::Done {
                return Ok(Err(status));
            }
            check(&read, &ending, purpose != Use::Calls { leave_out: false }).map(|()| read)
        }
        Err(error) => Err(error),
    };
    let read = match checked {
        Ok(read) => read,
        Err(error) => return output::complain(&error, out).map(Err),
    };
    let (unfit, replies) = (read.unfit_count, read.unknown_replies);
    match purpose {
        Use::Answers if unfit + replies > 0 => notify(format_args!(
            "warning: {} cannot be answered: the call or the reply is missing from the capture",
            Counted(unfit + replies, "call")
        )),
        Use::Answers => {}
        Use::Calls { .. } => {
            if unfit > 0 {
                notify(format_args!("left out: {}", Counted(unfit, "call")));
            }
            if read.gss > 0 {
                let calls = Counted(read.gss, "call");
                notify(format_args!(
                    "warning: {calls} with RPCSEC_GSS: a server that did not create the contexts rejects them"
                ));
            }
            if replies > 0 {
                let replies = Counted(replies, "reply");
                notify(format_args!("warning: {replies} missing or incomplete in the capture: not compared"));
            }
        }
    }
    Ok(Ok(read))
}

/// Reads a capture. Fails if its messages hold more than `most` bytes.
pub(super) fn read(input: &Input, filter: &TransactionFilter, most: u64) -> Result<(Read, Ending)> {
    let mut scope = RequestedScope::new(&filter.connections, filter.span);
    let mut collector = Collector { most, ..Collector::default() };
    let mut paths = paths::for_filter(input, filter);
    let config = Config { keep: Keep { steps: false, contents: true }, ..Config::default() };
    let read = listen(input, config, |event, start| {
        scope.handle(&event);
        match event {
            Event::Transaction(transaction)
                if filter.matches(&TransactionRow::follow(transaction, &mut paths), start) =>
            {
                collector.transaction(transaction);
            }
            Event::Connection(connection) => {
                let wanted = &filter.connections;
                collector.connection(connection, wanted.is_empty() || wanted.contains(&connection.id));
            }
            _ => {}
        }
        if collector.size > most { Err(io::ErrorKind::QuotaExceeded.into()) } else { Ok(()) }
    });
    let ending = match read {
        Err(Failure::Output(_)) if collector.size > most => {
            bail!("the calls and replies hold more than {}: select fewer, or increase --memory", Bytes(most))
        }
        read => read?,
    };
    scope.check(&ending)?;
    Ok((collector.finish(), ending))
}

/// Reports why a replay is impossible or incomplete.
pub(super) fn check(read: &Read, ending: &Ending, leave_out: bool) -> Result<()> {
    let recording = &read.recording;
    let has_call = recording.calls.iter().any(|call| !call.backward);
    let has_rejection = recording.connections.iter().any(|connection| connection.rejected.is_some());
    let cut = match ending.totals.cut_records {
        0 => String::new(),
        cut => format!("; a snap length cut {}", Counted(cut, "packet")),
    };
    let bare = match ending.totals.records_without_payload {
        0 => String::new(),
        bare => format!("; {} without payload (--cut-bulk)", Counted(bare, "packet")),
    };
    if read.unfit_count > 0 && !leave_out {
        let more = read.unfit_count - read.unfit.len() as u64;
        bail!(
            "{} cannot be replayed{cut}{bare}: {}{}; --leave-out replays the others",
            Counted(read.unfit_count, "call"),
            read.unfit.join("; "),
            if more > 0 { format!("; and {more} more") } else { String::new() }
        );
    }
    if !has_call && !has_rejection {
        let only = match read.replies_only {
            0 => "the capture holds no complete call".to_owned(),
            count => format!("the capture holds {} and no complete call", Counted(count, "reply")),
        };
        bail!("{only}{cut}{bare}: nothing to replay");
    }
    Ok(())
}

/// Collects a recording from events.
#[derive(Default)]
struct Collector {
    most: u64,
    size: u64,
    read: Read,
    recording: Recording,
    /// The connection of each collected transaction.
    of: Vec<ConnectionId>,
    connections: BTreeMap<ConnectionId, Connection>,
}

impl Collector {
    fn transaction(&mut self, transaction: &Transaction) {
        let read = &mut self.read;
        if transaction.outcome == Outcome::NoCall {
            read.replies_only += 1;
            return;
        }
        match call(transaction) {
            Ok(call) => {
                self.size += call.size() as u64;
                read.unknown_replies += u64::from(matches!(call.answer, Answer::Unknown { .. }));
                read.gss += u64::from(is_gss(transaction));
                if self.size <= self.most {
                    let name = match Protocol::of(transaction) {
                        Some(protocol) => format!("{protocol} {}", Label::of(transaction)),
                        None => Label::of(transaction).to_string(),
                    };
                    read.names.insert(call.number, name);
                    self.recording.calls.push(call);
                    self.of.push(transaction.connection);
                }
            }
            Err(why) => {
                read.unfit_count += 1;
                if read.unfit.len() < MOST_NAMED {
                    read.unfit.push(format!("transaction {}: {why}", transaction.number));
                }
            }
        }
        let known = self.connections.entry(transaction.connection).or_default();
        if transaction.direction == Direction::Forward {
            let granted = transaction.reply.as_ref();
            let requested = transaction.call.as_ref();
            for (credits, message) in known.credits.iter_mut().zip([requested, granted]) {
                *credits = (*credits).max(message.map_or(0, |message| message.credits));
            }
        }
    }

    fn connection(&mut self, connection: &connection::Connection, wanted: bool) {
        let rejected = match connection.state {
            State::Rejected(reason) if wanted => Some(reason),
            _ => None,
        };
        if rejected.is_none() && !self.connections.contains_key(&connection.id) {
            return;
        }
        let known = self.connections.entry(connection.id).or_default();
        known.number = connection.id.0;
        known.rejected = rejected;
        known.private_data =
            [&connection.requester, &connection.responder].map(|end| end.private_data.map(private_data));
    }

    /// Sorts the calls, and replaces connection IDs by indexes.
    fn finish(self) -> Read {
        let Collector { read, mut recording, of, connections, .. } = self;
        let index: BTreeMap<ConnectionId, usize> =
            connections.keys().enumerate().map(|(index, id)| (*id, index)).collect();
        for (call, id) in recording.calls.iter_mut().zip(of) {
            call.connection = index[&id];
        }
        recording.calls.sort_by_key(|call| call.order);
        recording.connections = connections.into_values().collect();
        Read { recording: Arc::new(recording), ..read }
    }
}

fn is_gss(transaction: &Transaction) -> bool {
    use Security::{Gss, GssControl, GssIntegrity, GssPrivacy, GssUnknown};
    matches!(transaction.security, Some(Gss | GssIntegrity | GssPrivacy | GssControl(_) | GssUnknown))
}

fn private_data(data: connection::PrivateData) -> PrivateData {
    // Sizes come from the encoding, so each has a code.
    let code = |size: u32| encode_size(size).unwrap_or_default();
    PrivateData {
        version: data.version,
        remote_invalidation: data.remote_invalidation,
        send_size: code(data.send_size),
        receive_size: code(data.receive_size),
        ..PrivateData::DEFAULT
    }
}

/// Returns a call that can be repeated, with its recorded answer, or the reason why it cannot.
fn call(transaction: &Transaction) -> Result<Call> {
    let Some(message) = &transaction.call else { bail!("the call is missing from the capture") };
    if message.procedure == Procedure::Msgp {
        bail!("RDMA_MSGP is never sent");
    }
    let Some(piece) = transaction.message(false) else { bail!("unreadable header") };
    let bytes = complete_bytes(piece)?;
    let (items, reads) = read_chunks(transaction, message);
    let position_zero = message.read_chunks.iter().find(|chunk| chunk.position == 0);
    Ok(Call {
        connection: 0,
        backward: transaction.direction == Direction::Backward,
        number: transaction.number,
        xid: transaction.xid,
        order: message.seen.frame,
        time: u64::try_from(message.seen.time.0).unwrap_or(0),
        message: bytes,
        items,
        long: message.procedure == Procedure::Nomsg,
        shape: Shape {
            position_zero: position_zero.map(|chunk| lengths(&chunk.segments)).unwrap_or_default(),
            reads,
            writes: message.write_chunks.iter().map(chunk_lengths).collect(),
            reply: message.reply_chunk.as_ref().map(chunk_lengths),
        },
        answer: answer(transaction),
    })
}

fn lengths(segments: &[rdmascope_wire::rpcrdma::Segment]) -> Vec<u32> {
    segments.iter().map(|segment| segment.length).collect()
}

fn chunk_lengths(chunk: &Chunk) -> Vec<u32> {
    lengths(&chunk.segments)
}

/// Returns the bytes of a piece, or an error with the number of missing bytes.
fn complete_bytes(piece: Piece) -> Result<Vec<u8>> {
    let lacking: u64 = piece.missing().map(|(start, end)| end - start).sum();
    if lacking > 0 {
        bail!("{} of {} missing from the capture", Counted(lacking, "byte"), piece.length);
    }
    Ok(piece.bytes)
}

/// Returns the ranges of the items in Read chunks, and the lengths of their segments.
fn read_chunks(
    transaction: &Transaction,
    message: &Message,
) -> (Vec<core::ops::Range<usize>>, Vec<Vec<u32>>) {
    let layout = transaction.layout(false);
    let items = layout.iter().filter_map(|extent| {
        let Source::Part(Part::ReadChunk(index), _) = extent.source else { return None };
        let chunk = message.read_chunks.get(usize::from(index)).filter(|chunk| chunk.position != 0)?;
        let start = usize::try_from(extent.start).ok()?;
        Some((start..start + usize::try_from(extent.length).ok()?, lengths(&chunk.segments)))
    });
    items.unzip()
}

fn answer(transaction: &Transaction) -> Answer {
    let order = transaction.reply.as_ref().map(|reply| reply.seen.frame);
    match (transaction.outcome, &transaction.reply, transaction.error) {
        (Outcome::TransportError, Some(reply), Some(error)) => {
            Answer::Error { order: reply.seen.frame, error }
        }
        (Outcome::Completed, Some(reply), _) => match reply_of(transaction, reply) {
            Some((stream, items)) => Answer::Reply {
                order: reply.seen.frame,
                stream,
                items,
                conveyance: conveyance(transaction, reply),
            },
            None => Answer::Unknown { order },
        },
        (Outcome::CutOff, ..) => Answer::Nothing,
        (Outcome::NoReply, ..) if !transaction.capture_gap => Answer::Nothing,
        _ => Answer::Unknown { order },
    }
}

/// Returns how a reply was conveyed.
fn conveyance(transaction: &Transaction, reply: &Message) -> Conveyance {
    let call = transaction.call.as_ref();
    let reads: Vec<_> =
        call.iter().flat_map(|call| &call.read_chunks).map(|chunk| handles(&chunk.segments)).collect();
    let writes: Vec<_> =
        call.iter().flat_map(|call| &call.write_chunks).map(|chunk| handles(&chunk.segments)).collect();
    let long = call.and_then(|call| call.reply_chunk.as_ref()).map(|chunk| handles(&chunk.segments));
    let invalidated = reply.invalidated;
    Conveyance {
        mechanism: Mechanism::of(reply.procedure, !reply.read_chunks.is_empty()),
        invalidated: invalidated.map(|rkey| Invalidated::find(rkey, &reads, &writes, long.as_deref())),
        ..Conveyance::of_chunks(
            (writes.len(), long.is_some()),
            reply.write_chunks.iter().map(chunk_lengths),
            reply.reply_chunk.as_ref().map(chunk_lengths),
        )
    }
}

/// Returns the Payload stream of a reply and the items of its Write chunks. `None`: incomplete in
/// the capture.
fn reply_of(transaction: &Transaction, reply: &Message) -> Option<(Vec<u8>, Vec<Vec<u8>>)> {
    if !reply.read_chunks.is_empty() || reply.stop.is_some() {
        return None;
    }
    let part = |part: Part| complete_bytes(transaction.part(true, part)?).ok();
    let stream = match reply.procedure {
        Procedure::Msg => part(Part::Send)?.split_off(reply.header_length as usize),
        Procedure::Nomsg => part(Part::ReplyChunk)?,
        _ => return None,
    };
    let chunks = 0..u16::try_from(reply.write_chunks.len()).ok()?;
    let items: Option<Vec<Vec<u8>>> = chunks.map(|index| part(Part::WriteChunk(index))).collect();
    Some((stream, items?))
}
