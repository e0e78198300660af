//! `extract` for one transaction: a message before reduction, its payload, a Send, or a chunk.

use crate::atomic_file::OutputFile;
use crate::input::{Input, listen, observe};
use crate::output::{Failure, Out, Status, complain_of_troubles, warn_of_cuts, warn_of_left_out_data};
use crate::selection::{Choice, Selection};
use anyhow::{Context, Result, anyhow, bail};
use clap::{ArgGroup, Args};
use core::fmt;
use rdmascope_analysis::filter::parse_number;
use rdmascope_analysis::names::PartName;
use rdmascope_analysis::owner::Owner;
use rdmascope_analysis::units::Counted;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::{Exchange, Keep};
use rdmascope_dissector::layout::Piece;
use rdmascope_dissector::transaction::{Part, Transaction};
use rdmascope_dissector::ulb::Item;
use rdmascope_wire::Xid;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// The options that select the bytes.
#[derive(Args, Debug)]
#[command(next_help_heading = "One transaction")]
#[command(group = ArgGroup::new("what").required(true).args(["xid", "transaction", "frame", "folder"]))]
pub(super) struct One {
    /// XID of the transaction: decimal, or hexadecimal after 0x
    #[arg(long, value_name = "XID", value_parser = parse_number)]
    xid: Option<u32>,
    /// Number of the transaction, as listed by `rdmascope transactions`
    #[arg(long, value_name = "N")]
    transaction: Option<u64>,
    /// Number of a frame of the transaction
    #[arg(long, value_name = "N")]
    frame: Option<u64>,
    /// Extract from the reply instead of the call
    ///
    /// Write chunks and the Reply chunk always belong to the reply. The payload is taken from the
    /// message that has one.
    #[arg(long, conflicts_with = "folder")]
    reply: bool,
    /// Part to extract: `message`, `send`, `payload`, `payload:I`, `read-chunk:I`, `write-chunk:I`
    /// or `reply-chunk`
    ///
    /// `message`: the RPC message before reduction; `send`: the Send including its RPC-over-RDMA
    /// header; `payload`: the DDP-eligible item, such as the data of a WRITE, or `payload:I` if
    /// there are several; `read-chunk:I`, `write-chunk:I`, `reply-chunk`: one chunk. I counts from
    /// 0.
    #[arg(long, value_name = "PART", value_parser = Wanted::parse, default_value = "message", conflicts_with = "folder")]
    part: Wanted,
    /// Output file, or `-` for standard output, even if that is a terminal
    ///
    /// The file appears when it is complete. It replaces an existing regular file and keeps its
    /// mode.
    #[arg(short, long, alias = "out", value_name = "FILE", conflicts_with = "folder")]
    pub(super) output: Option<PathBuf>,
}

/// The part of a transaction to extract.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Message,
    Payload(Option<usize>),
    Part(Part),
}

impl Wanted {
    fn parse(text: &str) -> Result<Wanted> {
        let (name, index) = match text.split_once(':') {
            Some((name, index)) => {
                (name, Some(index.parse::<u16>().context("expected an index after the colon")?))
            }
            None => (text, None),
        };
        Ok(match (name, index) {
            ("message", None) => Wanted::Message,
            ("send", None) => Wanted::Part(Part::Send),
            ("payload", index) => Wanted::Payload(index.map(usize::from)),
            ("read-chunk", Some(index)) => Wanted::Part(Part::ReadChunk(index)),
            ("write-chunk", Some(index)) => Wanted::Part(Part::WriteChunk(index)),
            ("reply-chunk", None) => Wanted::Part(Part::ReplyChunk),
            _ => bail!(
                "expected message, send, payload, payload:I, read-chunk:I, write-chunk:I or reply-chunk"
            ),
        })
    }
}

/// Runs the command.
pub(super) fn run(input: &mut Input, one: &One, out: &mut Out) -> Result<Status, Failure> {
    if one.output.is_none() && io::stdout().is_terminal() {
        let error =
            anyhow!("raw bytes are not written to a terminal; use --output FILE, or --output - to force it");
        return Err(error.into());
    }
    let choice = match (one.xid, one.transaction, one.frame) {
        (Some(xid), ..) => Choice::Xid(Xid(xid), None),
        (_, Some(number), _) => Choice::Number(number),
        (.., frame) => Choice::Number(transaction_of(input, frame.unwrap_or_default())?),
    };
    let (mut selection, mut found) = (Selection::new(choice), None);
    let config = Config { keep: Keep { steps: false, contents: true }, ..Config::default() };
    let ending = listen(input, config, |event, _| {
        if let Event::Transaction(transaction) = event
            && selection.is_first(transaction)
        {
            found = Some(wanted(transaction, one));
        }
        Ok(())
    })?;
    warn_of_cuts(&ending, out)?;
    warn_of_left_out_data(&ending, out)?;
    let status = complain_of_troubles(&ending, out)?;
    selection.check()?;
    let piece = found.expect("one was chosen")?;
    match &one.output {
        Some(path) if path != Path::new("-") => {
            let mut file = OutputFile::create(path, &input.files, "--output")?;
            let written = write(&piece, &mut file).and_then(|()| file.finish());
            written.with_context(|| path.display().to_string())?;
        }
        _ => write(&piece, out)?,
    }
    if piece.missing().next().is_none() {
        return Ok(status);
    }
    Err(anyhow!("{}", Lacks(&piece)).into())
}

/// The transaction that a frame belongs to. Reads the capture once more than the extraction.
fn transaction_of(input: &mut Input, frame: u64) -> Result<u64> {
    input.keep()?;
    let mut owner = Owner::of(frame);
    let ending = observe(input, &mut owner)?;
    match owner.transaction() {
        Some(number) => Ok(number),
        None if (1..=ending.totals.records).contains(&frame) => {
            bail!("frame {frame} belongs to no transaction")
        }
        None => bail!("the capture has no frame {frame}"),
    }
}

/// The selected bytes of a transaction.
fn wanted(transaction: &Transaction, one: &One) -> Result<Piece> {
    let (piece, description) = match one.part {
        Wanted::Message => {
            let kind = if one.reply { "reply" } else { "call" };
            (transaction.message(one.reply), format!("{kind} with a readable header"))
        }
        Wanted::Payload(index) => {
            let (of_reply, item) = payload(transaction, one.reply, index)?;
            (transaction.item(of_reply, &item), "message with the payload".to_owned())
        }
        Wanted::Part(part) => {
            let of_reply = one.reply || matches!(part, Part::WriteChunk(_) | Part::ReplyChunk);
            (
                transaction.part(of_reply, part),
                format!("{} in its {}", PartName(part), if of_reply { "reply" } else { "call" }),
            )
        }
    };
    let number = transaction.number;
    let piece =
        piece.with_context(|| format!("transaction {number} has no {description} in this capture"))?;
    if piece.length > 0 && piece.captured.end() == 0 {
        bail!("transaction {number}: none of the {} are in this capture", Counted(piece.length, "byte"));
    }
    Ok(piece)
}

/// The selected DDP-eligible item, and whether it belongs to the reply.
fn payload(transaction: &Transaction, of_reply: bool, index: Option<usize>) -> Result<(bool, Item)> {
    let items = |of_reply: bool| -> Vec<(bool, Item)> {
        let operations = transaction.details.operations.iter();
        operations
            .filter_map(|operation| if of_reply { operation.result_item } else { operation.argument_item })
            .map(|item| (of_reply, item))
            .collect()
    };
    let mut found = items(of_reply);
    if found.is_empty() && !of_reply {
        found = items(true);
    }
    let number = transaction.number;
    match (found.as_slice(), index) {
        ([], _) if of_reply => bail!("the reply of transaction {number} has no DDP-eligible item"),
        ([], _) => bail!("transaction {number} has no DDP-eligible item"),
        ([only], None) => Ok(*only),
        (_, None) => bail!(
            "transaction {number} has {} DDP-eligible items; select one with --part payload:0 to payload:{}",
            found.len(),
            found.len() - 1
        ),
        (_, Some(index)) => found.get(index).copied().with_context(|| {
            format!("transaction {number} has {}", Counted(found.len() as u64, "DDP-eligible item"))
        }),
    }
}

/// Number of bytes of a piece to write. The length that headers claim may exceed anything that is
/// ever transferred.
fn length_written(piece: &Piece) -> u64 {
    piece.length.min(Exchange::LONGEST_CONTENT.max(piece.bytes.len() as u64))
}

fn write(piece: &Piece, out: &mut impl Write) -> io::Result<()> {
    out.write_all(&piece.bytes)?;
    let trailing = length_written(piece).saturating_sub(piece.bytes.len() as u64);
    io::copy(&mut io::Read::take(io::repeat(0), trailing), out)?;
    Ok(())
}

/// The missing bytes of a piece.
struct Lacks<'a>(&'a Piece);

impl fmt::Display for Lacks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MOST: usize = 8;
        let piece = self.0;
        let lacking: u64 = piece.missing().map(|(start, end)| end - start).sum();
        write!(
            f,
            "incomplete: of {} the capture lacks {}:",
            Counted(piece.length, "byte"),
            Counted(lacking, "byte")
        )?;
        for (index, (start, end)) in piece.missing().take(MOST).enumerate() {
            write!(f, "{} {start} to {}", if index == 0 { "" } else { "," }, end - 1)?;
        }
        let further = piece.missing().count().saturating_sub(MOST);
        if further > 0 {
            write!(f, ", and {further} more ranges")?;
        }
        match length_written(piece) {
            length if length < piece.length => {
                write!(f, "; they are zeros up to byte {length}, where the output ends")
            }
            _ => write!(f, "; they are zeros in the output"),
        }
    }
}
