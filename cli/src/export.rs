//! `rdmascope export`: what was found, in forms that other programs work on.

mod html;
mod output;
#[cfg(feature = "parquet")]
mod parquet;
mod pcapng;

use crate::output::{Out, Status};
use clap::{Args, Subcommand};
use html::Html;
use pcapng::Pcapng;
use std::io;

#[derive(Args, Debug)]
pub(crate) struct Export {
    #[command(subcommand)]
    form: Form,
}

/// What is written.
#[derive(Subcommand, Debug)]
enum Form {
    /// Write tables for DuckDB, Polars or Spark
    ///
    /// A table of transactions, one of their operations, one of their RPC-over-RDMA messages, one of packets and one of
    /// connections, partitioned by capture: captures that are exported to one folder are queried as one. docs/parquet.md
    /// describes the columns.
    #[cfg(feature = "parquet")]
    #[command(after_help = parquet::EXAMPLES)]
    Parquet(parquet::Parquet),
    /// Write the packets as pcapng, with comments that Wireshark shows
    ///
    /// All packets of all files, in the order in which they are taken, with their time stamps in nanoseconds and their original
    /// lengths. The comment of a packet says which connection and transaction it is of, what it is to that: a call, bytes of a
    /// chunk, a reply with its status and latency, an acknowledgement or a retransmission of which frame. It says as well what is
    /// wrong: a bad ICRC, a NAK, bytes that were not seen moving. Of a pcapng file the packets are taken and nothing else:
    /// neither its comments nor its other blocks.
    ///
    /// The capture is read twice; standard input is kept in a temporary file for that. In between, memory is needed for every
    /// transaction, and for every Send and RDMA operation: a few hundred bytes each.
    #[command(after_help = pcapng::EXAMPLES)]
    Pcapng(Pcapng),
    /// Write a report as one page of HTML
    ///
    /// The page opens in any browser without a network, and holds what `analyze` says, charts of latencies, throughput, transactions
    /// and credits over time, and drawings of the slowest and of the broken transactions.
    ///
    /// The capture is read twice; standard input is kept in a temporary file for that. Neither the page nor the memory that is needed
    /// grows with the length of the capture.
    #[command(after_help = html::EXAMPLES)]
    Html(Html),
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope export parquet mount.pcap --output tables
  rdmascope export pcapng mount.pcap --output mount.pcapng
  rdmascope export html mount.pcap --output mount.html";

/// Runs one of the exports.
pub(crate) fn run(command: &mut Export, out: &mut Out) -> io::Result<Status> {
    match &mut command.form {
        #[cfg(feature = "parquet")]
        Form::Parquet(parquet) => parquet::run(parquet, out),
        Form::Pcapng(pcapng) => pcapng::run(pcapng, out),
        Form::Html(html) => html::run(html, out),
    }
}
