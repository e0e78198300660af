//! Fields of a Send: the RPC-over-RDMA header (RFC 8166, section 4), the RPC message (RFC 5531,
//! section 9), and the operations.

use super::{Field, Words, nfs, with_name, with_name_in};
use crate::text::HexBytes;
use core::ops::Range;
use rdmascope_analysis::names::{self, Quoted};
use rdmascope_analysis::units::Bytes;
use rdmascope_dissector::layout::{Extent, Piece, Source};
use rdmascope_dissector::transaction::{Part, Transaction};
use rdmascope_dissector::ulb::{self, Item, Operation, Place};
use rdmascope_wire::rpc::{auth_stat_name, flavor};
use rdmascope_wire::rpcrdma::{self, Procedure};
use rdmascope_wire::{Layer, Stop};

/// The bytes of a Send, or the first of them.
#[derive(Clone, Copy)]
pub struct SendBytes<'a> {
    /// The available bytes.
    pub bytes: &'a [u8],
    /// The offset of the bytes in the displayed data.
    pub base: usize,
    /// Whether the capture truncated the Send.
    pub cut: bool,
    /// Whether the Send continues in other packets.
    pub continues: bool,
}

/// The bytes of the call's or the reply's Send, up to the first one that was not captured.
pub fn send_bytes(transaction: &Transaction, of_reply: bool) -> &[u8] {
    let content = transaction.exchange.as_ref().and_then(|kept| kept.content(of_reply, Part::Send));
    content.map_or(&[], |content| {
        let captured = usize::try_from(content.captured.front()).unwrap_or(usize::MAX);
        &content.bytes[..captured.min(content.bytes.len())]
    })
}

/// The fields of the call's or the reply's Send, with their bytes.
pub fn of_send(transaction: &Transaction, of_reply: bool) -> (Vec<Field>, &[u8]) {
    let message = if of_reply { &transaction.reply } else { &transaction.call };
    let bytes = send_bytes(transaction, of_reply);
    let Some(message) = message.as_ref().filter(|_| !bytes.is_empty()) else { return (Vec::new(), &[]) };
    let cut = (bytes.len() as u64) < u64::from(message.send_length);
    (send(SendBytes { bytes, base: 0, cut, continues: false }, Some(transaction)), bytes)
}

/// The fields of a message in a chunk, up to the first byte that was not captured. Empty if the
/// message is in its Send.
pub fn of_message(transaction: &Transaction, of_reply: bool, piece: &Piece) -> Vec<Field> {
    let header = if of_reply { &transaction.reply } else { &transaction.call };
    if header.as_ref().is_none_or(|header| header.procedure != Procedure::Nomsg) {
        return Vec::new();
    }
    let captured = usize::try_from(piece.captured.front()).unwrap_or(usize::MAX).min(piece.bytes.len());
    let cut = (captured as u64) < piece.length;
    let stream = SendBytes { bytes: &piece.bytes[..captured], base: 0, cut, continues: false };
    message(stream, Some(transaction), false)
}

/// Returns the headers of a Send, and the fields of its message as far as `transaction` has them.
pub fn send(send: SendBytes<'_>, transaction: Option<&Transaction>) -> Vec<Field> {
    let mut words = Words::new(send.bytes, Layer::RpcRdma, send.base, send.cut || send.continues);
    let mut called = Procedure::Unknown(u32::MAX);
    let header = words.group("RPC-over-RDMA", |words| {
        let (procedure, version) = fixed(words)?;
        called = procedure;
        lists(procedure, version, words)?;
        Ok(procedure.to_string())
    });
    let at = words.place();
    let stream = words.rest();
    let mut fields = words.into_fields();
    if header.is_ok() && matches!(called, Procedure::Msg | Procedure::Msgp) && !stream.is_empty() {
        let stream = SendBytes { bytes: stream, base: at, ..send };
        fields.extend(message(stream, transaction, true));
    } else if header.is_ok() && !stream.is_empty() {
        let range = at..at + stream.len();
        fields.push(Field::new("rest", format!("{} bytes after the header", stream.len()), range));
    }
    if send.continues {
        fields.push(Field::known("continued", "the Send continues in later packets"));
    }
    fields
}

/// rdma_xid, rdma_vers, rdma_credit, rdma_proc.
fn fixed(words: &mut Words<'_>) -> Result<(Procedure, u32), Stop> {
    words.word("rdma_xid", hex)?;
    let version = words.word("rdma_vers", decimal)?;
    words.word("rdma_credit", decimal)?;
    let number = words.word("rdma_proc", |number| format!("{} ({number})", Procedure::from(number)))?;
    Ok((Procedure::from(number), version))
}

/// The fields after the fixed ones, by procedure.
fn lists(procedure: Procedure, version: u32, words: &mut Words<'_>) -> Result<(), Stop> {
    match procedure {
        Procedure::Error => return error(words),
        // Only the fixed fields have the same position in all versions (section 7).
        _ if version != rpcrdma::VERSION => return Ok(()),
        Procedure::Msg | Procedure::Nomsg => {}
        Procedure::Msgp => {
            words.word("rdma_align", decimal)?;
            words.word("rdma_thresh", decimal)?;
        }
        Procedure::Done => return Ok(()),
        Procedure::Unknown(_) => return Err(words.malformed()),
    }
    words.group("Read list", |words| {
        let mut count = 0;
        while words.bool("entry follows", yes_or_no)? {
            words.group(format!("Read segment {count}"), |words| {
                let position = words.word("Position", decimal)?;
                Ok(format!("Position {position}, {}", segment(words)?))
            })?;
            count += 1;
        }
        Ok(counted(count, "segment"))
    })?;
    words.group("Write list", |words| {
        let mut count = 0;
        while words.bool("entry follows", yes_or_no)? {
            words.group(format!("Write chunk {count}"), chunk)?;
            count += 1;
        }
        Ok(counted(count, "chunk"))
    })?;
    words.group("Reply chunk", |words| match words.bool("there is one", yes_or_no)? {
        true => chunk(words),
        false => Ok("none".to_owned()),
    })
}

fn chunk(words: &mut Words<'_>) -> Result<String, Stop> {
    let count = words.word("segments", decimal)?;
    for index in 0..count {
        words.group(format!("segment {index}"), segment)?;
    }
    Ok(counted(count as usize, "segment"))
}

fn segment(words: &mut Words<'_>) -> Result<String, Stop> {
    let handle = words.word("Handle", hex)?;
    let length = words.word("Length", decimal)?;
    let offset = words.hyper("Offset", |offset| format!("0x{offset:016x}"))?;
    Ok(format!("{length} bytes of 0x{handle:08x} at 0x{offset:016x}"))
}

fn error(words: &mut Words<'_>) -> Result<(), Stop> {
    let named = |number: u32| match number {
        1 => "ERR_VERS (1)".to_owned(),
        2 => "ERR_CHUNK (2)".to_owned(),
        _ => number.to_string(),
    };
    if words.word("rdma_err", named)? == 1 {
        words.word("rdma_vers_low", decimal)?;
        words.word("rdma_vers_high", decimal)?;
    }
    Ok(())
}

/// The RPC message at the start of a Payload stream, or a message before reduction if `is_reduced`
/// is false.
fn message(stream: SendBytes<'_>, transaction: Option<&Transaction>, is_reduced: bool) -> Vec<Field> {
    let mut words = Words::new(stream.bytes, Layer::Rpc, stream.base, stream.cut || stream.continues);
    let (mut of_reply, mut has_body) = (None, true);
    let read = words.group("RPC", |words| {
        words.word("xid", hex)?;
        let kind = words.word("mtype", |kind| match kind {
            0 => "CALL (0)".to_owned(),
            1 => "REPLY (1)".to_owned(),
            _ => kind.to_string(),
        })?;
        of_reply = Some(kind == 1);
        match kind {
            0 => call(words).map(|()| "call".to_owned()),
            1 => {
                has_body = reply(words)?;
                Ok("reply".to_owned())
            }
            _ => Err(words.malformed()),
        }
    });
    let at = words.place();
    let rest = words.rest().len();
    let mut fields = words.into_fields();
    let Some(of_reply) = of_reply.filter(|_| read.is_ok()) else { return fields };
    if !has_body {
        if rest > 0 {
            let value = format!("{rest} bytes after a reply that has no results");
            fields.push(Field::new("rest", value, at..at + rest));
        }
        return fields;
    }
    let name = match (of_reply, transaction.and_then(names::Protocol::of)) {
        (false, Some(protocol)) => format!("{protocol} arguments"),
        (true, Some(protocol)) => format!("{protocol} results"),
        (false, None) => "arguments".to_owned(),
        (true, None) => "results".to_owned(),
    };
    let value = match transaction {
        Some(transaction) => names::Label::of(transaction).to_string(),
        None => String::new(),
    };
    if rest > 0 {
        let children = transaction.map_or(Vec::new(), |transaction| {
            let every = every_field(transaction, of_reply, stream, at, is_reduced);
            every.unwrap_or_else(|| operations(transaction, of_reply))
        });
        fields.push(Field::new(name, value, at..at + rest).with(children));
    }
    fields
}

/// The fields of arguments or results that begin at offset `at` of the displayed data. Values in
/// chunks have no position. `None` if the transaction has no contents, or the fields of its
/// procedure are unknown.
fn every_field(
    transaction: &Transaction,
    of_reply: bool,
    stream: SendBytes<'_>,
    at: usize,
    is_reduced: bool,
) -> Option<Vec<Field>> {
    let message = transaction.message(of_reply)?;
    let unreduced =
        nfs::Unreduced { bytes: &message.bytes, length: message.length, captured: &message.captured };
    // Chunks never contain parts of the RPC header.
    let fields = nfs::fields(transaction, of_reply, unreduced, at - stream.base)?;
    let header = if of_reply { &transaction.reply } else { &transaction.call };
    let header_length = header.as_ref().map_or(0, |header| u64::from(header.header_length));
    let layout = if is_reduced { transaction.layout(of_reply) } else { Vec::new() };
    let end = stream.base + stream.bytes.len();
    let place = |range: Range<usize>| {
        let shown = if is_reduced { in_send(&layout, range, header_length)? } else { range };
        let shown = stream.base + shown.start..stream.base + shown.end;
        (shown.end <= end).then_some(shown)
    };
    Some(nfs::moved(fields, &place))
}

/// Maps a range of a message before reduction to the Payload stream of its Send, as far as it is
/// there.
fn in_send(layout: &[Extent], range: Range<usize>, header_length: u64) -> Option<Range<usize>> {
    let (from, to) = (range.start as u64, range.end as u64);
    let parts = layout.iter().filter_map(|extent| {
        let Source::Part(Part::Send, offset) = extent.source else { return None };
        let (start, end) = (extent.start.max(from), extent.end().min(to));
        let moved = (offset + start).checked_sub(extent.start)?.checked_sub(header_length)?;
        (start < end).then(|| (moved, moved + (end - start)))
    });
    let (start, end) = parts.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)))?;
    Some(usize::try_from(start).ok()?..usize::try_from(end).ok()?)
}

fn call(words: &mut Words<'_>) -> Result<(), Stop> {
    words.word("rpcvers", decimal)?;
    let program = words.word("prog", |program| with_name(program.into(), ulb::program_name(program)))?;
    let version = words.word("vers", decimal)?;
    words.word("proc", |number| {
        with_name(number.into(), ulb::procedure_name(ulb::Procedure { program, version, number }))
    })?;
    words.group("cred", |words| auth(Of::Credential, words))?;
    words.group("verf", |words| auth(Of::Verifier, words))
}

/// Reads a reply. Returns whether results follow: only with success, or possibly with an unknown
/// status.
fn reply(words: &mut Words<'_>) -> Result<bool, Stop> {
    let accepted = words.word("reply_stat", |status| match status {
        0 => "MSG_ACCEPTED (0)".to_owned(),
        1 => "MSG_DENIED (1)".to_owned(),
        _ => status.to_string(),
    })?;
    let (name, names): (&'static str, &[&'static str]) = match accepted {
        0 => {
            words.group("verf", |words| auth(Of::Verifier, words))?;
            let names =
                &["SUCCESS", "PROG_UNAVAIL", "PROG_MISMATCH", "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR"];
            ("accept_stat", names)
        }
        1 => ("reject_stat", &["RPC_MISMATCH", "AUTH_ERROR"]),
        _ => return Err(words.malformed()),
    };
    let status = words.word(name, |status| with_name_in(status.into(), names))?;
    match (accepted, status) {
        (0, 2) | (1, 0) => {
            words.word("low", decimal)?;
            words.word("high", decimal)?;
        }
        (1, 1) => {
            words.word("auth_stat", |number| with_name(number.into(), auth_stat_name(number)))?;
        }
        _ => {}
    }
    Ok((accepted, status) == (0, 0) || status as usize >= names.len())
}

/// An `opaque_auth`, with its body as defined by its flavor.
fn auth(of: Of, words: &mut Words<'_>) -> Result<String, Stop> {
    let name = |number| match number {
        flavor::NONE => Some("AUTH_NONE"),
        flavor::SYS => Some("AUTH_SYS"),
        flavor::SHORT => Some("AUTH_SHORT"),
        flavor::RPCSEC_GSS => Some("RPCSEC_GSS"),
        flavor::TLS => Some("AUTH_TLS"),
        _ => None,
    };
    let number = words.word("flavor", |number| with_name(number.into(), name(number)))?;
    words.opaque("body", |body| {
        let length = body.rest().len();
        if length > LONGEST_AUTH {
            return Ok(format!("{length} bytes, more than the maximum of {LONGEST_AUTH}"));
        }
        match (number, of) {
            (flavor::SYS, _) => sys(body)?,
            (flavor::RPCSEC_GSS, Of::Credential) => gss(body)?,
            _ => {}
        }
        Ok(format!("{length} bytes"))
    })?;
    Ok(with_name(number.into(), name(number)))
}

/// The greatest length of an `opaque_auth`'s body (RFC 5531, section 8.2).
const LONGEST_AUTH: usize = 400;

/// The use of an `opaque_auth`.
#[derive(Clone, Copy)]
enum Of {
    Credential,
    Verifier,
}

/// An `authsys_parms` (RFC 5531, appendix A).
fn sys(words: &mut Words<'_>) -> Result<(), Stop> {
    words.word("stamp", hex)?;
    words.opaque("machinename", |name| Ok(Quoted(name.rest()).to_string()))?;
    words.word("uid", decimal)?;
    words.word("gid", decimal)?;
    words.group("gids", |words| {
        let count = words.word("count", decimal)?;
        for index in 0..count {
            words.word(format!("gid {index}"), decimal)?;
        }
        Ok(counted(count as usize, "gid"))
    })
}

/// An `rpc_gss_cred_vers_1_t` (RFC 5403, section 3.2).
fn gss(words: &mut Words<'_>) -> Result<(), Stop> {
    words.word("version", decimal)?;
    let procedures = [
        "RPCSEC_GSS_DATA",
        "RPCSEC_GSS_INIT",
        "RPCSEC_GSS_CONTINUE_INIT",
        "RPCSEC_GSS_DESTROY",
        "RPCSEC_GSS_BIND_CHANNEL",
    ];
    words.word("gss_proc", |number| with_name_in(number.into(), &procedures))?;
    words.word("seq_num", decimal)?;
    let services =
        ["", "rpc_gss_svc_none", "rpc_gss_svc_integrity", "rpc_gss_svc_privacy", "rpc_gss_svc_channel_prot"];
    words.word("service", |number| {
        let name = services.get(number as usize).filter(|name| !name.is_empty());
        with_name(number.into(), name.copied())
    })?;
    words.opaque("handle", |handle| Ok(format!("{} bytes", handle.rest().len())))
}

/// The operations of a transaction with their arguments or results, without their positions in the
/// message.
pub fn operations(transaction: &Transaction, of_reply: bool) -> Vec<Field> {
    let details = &transaction.details;
    let field = |operation: &Operation| {
        let mut children = Vec::new();
        let mut known = |name: &'static str, value: Option<String>| {
            children.extend(value.map(|value| Field::known(name, value)));
        };
        let handle = |handle| HexBytes(details.bytes(handle)).to_string();
        let text = |text| Quoted(details.bytes(text)).to_string();
        if of_reply {
            known("status", operation.status.map(|status| status_name(transaction, status)));
            known("file handle", operation.result_file_handle.map(handle));
            known("count", operation.result_count.map(|count| count.to_string()));
            known("end of file", operation.end_of_file.map(yes_or_no));
            known("DDP-eligible item", operation.result_item.map(item));
        } else {
            known("file handle", operation.file_handle.map(handle));
            known("name", operation.file_name.map(text));
            known("other name", operation.other_name.map(text));
            known("offset", operation.offset.map(|offset| offset.to_string()));
            known("count", operation.count.map(|count| count.to_string()));
            known("DDP-eligible item", operation.argument_item.map(item));
        }
        Field::known(names::Label::of_operation(operation).to_string(), "").with(children)
    };
    details.operations.iter().map(field).collect()
}

/// A status of the transaction's procedure: its number, with its name if it has one.
pub fn status_name(transaction: &Transaction, status: u32) -> String {
    with_name(status.into(), names::status_of(transaction, status))
}

fn item(item: Item) -> String {
    let Item { length, position, place } = item;
    let place = match place {
        Place::Inline(_) => "inline".to_owned(),
        Place::ReadChunk(index) => format!("in Read chunk {index}"),
        Place::WriteChunk(index) => format!("in Write chunk {index}"),
    };
    format!("{}, {place}, at byte {position} of the unreduced message", Bytes(length.into()))
}

fn counted(count: usize, noun: &str) -> String {
    match count {
        0 => "empty".to_owned(),
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

fn hex(word: u32) -> String {
    format!("0x{word:08x}")
}

fn decimal(word: u32) -> String {
    word.to_string()
}

fn yes_or_no(set: bool) -> String {
    if set { "yes" } else { "no" }.to_owned()
}
