//! `rdmascope show`: one frame or one transaction in full.

mod frame;
mod transaction;

use crate::input::Input;
use crate::output::{Failure, Out, Output, Status};
use crate::terminal;
use clap::{ArgGroup, Args};
use rdmascope_analysis::filter::parse_number;
use rdmascope_present::text::Style;

pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope show mount.pcap --frame 12
  rdmascope show mount.pcap --transaction 7
  rdmascope show mount.pcap --xid 0x1a2b3c4d --connection 1 --full
  rdmascope show mount.pcap --frame 12 --format jsonl | jq '.fields[] | select(.name == \"BTH\")'";

#[derive(Args, Debug)]
#[command(group = ArgGroup::new("what").required(true).args(["xid", "frame", "transaction"]))]
pub(crate) struct Show {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    output: Output,
    /// XID of the transaction: decimal, or hexadecimal after 0x
    #[arg(long, value_name = "XID", value_parser = parse_number)]
    xid: Option<u32>,
    /// Number of the frame, counted from 1 as in other tools
    #[arg(long, value_name = "N")]
    frame: Option<u64>,
    /// Number of the transaction, as listed by `rdmascope transactions`
    #[arg(long, value_name = "N")]
    transaction: Option<u64>,
    /// Number of the connection that carries the XID
    #[arg(long, value_name = "N", conflicts_with_all = ["frame", "transaction"])]
    connection: Option<u32>,
    /// Show all bytes of the transaction's messages
    #[arg(long, conflicts_with = "frame")]
    full: bool,
}

pub(crate) fn run(command: &mut Show, style: Style, out: &mut Out) -> Result<Status, Failure> {
    command.input.keep()?;
    let screen = terminal::screen(style);
    match command.frame {
        Some(number) => frame::run(command, number, screen, out),
        None => transaction::run(command, screen, out),
    }
}
