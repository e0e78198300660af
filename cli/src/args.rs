//! The command line.

use crate::check::{self, Check};
use crate::completions::{self, Completions};
use crate::diff::{self, Diff};
use crate::export::{self, Export};
use crate::extract::{self, Extract};
use crate::filters::{ConnectionArguments, PacketArguments, TransactionArguments};
use crate::man::{self, Man};
use crate::regress::{self, Regress};
use crate::show;
use crate::source::Spool;
use anyhow::Context as _;
use clap::{Args, Parser, Subcommand, ValueEnum};
use rdmascope_dissector::frame;
use std::path::{Path, PathBuf};

/// Reads captures of NFS over RDMA: every connection, every RPC with its chunks, and what went wrong.
#[derive(Parser, Debug)]
#[command(name = "rdmascope", version, max_term_width = 100, after_help = format!("{EXAMPLES}\n\n{}", man::COMMON))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Report what a capture holds: connections, operations with latencies, what went wrong
    ///
    /// The report says what was captured, which connections there are and what they negotiated, and for each operation how
    /// many there were, how many failed, what they moved, how long they took and where the time went. It ends
    /// with what went wrong.
    #[command(after_help = ANALYZE_EXAMPLES)]
    Analyze(Analyze),
    /// List the connections
    ///
    /// One line for each connection, in the order in which they end: its ends, how it is known, what was negotiated, and what both ends sent.
    #[command(after_help = CONNECTIONS_EXAMPLES)]
    Connections(Connections),
    /// List the RPC transactions
    ///
    /// One line for each call and its reply, in the order in which they end.
    #[command(after_help = TRANSACTIONS_EXAMPLES)]
    Transactions(Transactions),
    /// List the packets
    ///
    /// One line for each RoCE packet, with the front of the RPC-over-RDMA message or the CM message that it carries.
    #[command(after_help = PACKETS_EXAMPLES)]
    Packets(Packets),
    /// Write what was found in forms that other programs work on
    #[command(after_help = export::EXAMPLES)]
    Export(Export),
    /// Get the bytes of a transaction, or the files that NFS moved
    ///
    /// Of a transaction, the call or the reply as it was before reduction, its payload, or one chunk. Of all, the contents that
    /// NFS READ and WRITE moved, put together file by file.
    #[command(after_help = extract::EXAMPLES)]
    Extract(Extract),
    /// Show one frame or one transaction, whole
    ///
    /// Of a frame, every field of every header with its bytes. Of a transaction, what it was, where its time went, how
    /// Requester and Responder exchanged it, the fields of its headers, and its messages as they were before reduction.
    #[command(after_help = show::EXAMPLES)]
    Show(show::Show),
    /// Judge sessions against the specifications
    ///
    /// What breaks RFC 8166, 8167, 8267 or 8797, the reliable-reply draft, or the reliable transport below them: each with the rule
    /// and where it stands, the frames that are the evidence, and the value seen beside the value allowed. What a capture
    /// lacks is no violation: where a finding may rest on it, it is inconclusive. docs/conformance.md lists all rules.
    #[command(after_help = check::EXAMPLES)]
    Check(Check),
    /// Compare two captures of the same workload
    ///
    /// What differs between two kernels, two servers, or before and after a change: what was negotiated, what went wrong, how
    /// long operations took and whether the difference is more than chance, how messages were conveyed, what was called. What a
    /// person should look at first stands first.
    #[command(after_help = diff::EXAMPLES)]
    Diff(Diff),
    /// Analyze a folder of captures and compare with what is expected of each
    ///
    /// What is expected of NAME.pcap stands beside it in NAME.expected.jsonl, in the form that `connections` and
    /// `transactions` write; --bless writes it. What differs is told by transaction and field. A MANIFEST in the folder is
    /// verified first. docs/regress.md describes all files.
    #[command(after_help = regress::EXAMPLES)]
    Regress(Regress),
    /// Print a script by which a shell completes the command line
    ///
    /// The script completes commands, options and those values of which there are only a few. Packages install it.
    #[command(after_help = completions::EXAMPLES)]
    Completions(Completions),
    /// Print a manual page, or write all of them
    ///
    /// There is a page for each command: rdmascope-analyze(1). Packages install them.
    #[command(after_help = man::EXAMPLES)]
    Man(Man),
}

#[derive(Args, Debug)]
pub(crate) struct Analyze {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) output: Output,
}

#[derive(Args, Debug)]
pub(crate) struct Connections {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) filter: ConnectionArguments,
}

#[derive(Args, Debug)]
pub(crate) struct Transactions {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) filter: TransactionArguments,
}

#[derive(Args, Debug)]
pub(crate) struct Packets {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    pub(crate) output: Output,
    #[command(flatten)]
    pub(crate) filter: PacketArguments,
}

/// What is read.
#[derive(Args, Debug)]
pub(crate) struct Input {
    /// Capture; `-` is standard input. Several files are one capture
    ///
    /// `-` is standard input. Several files, such as rotated ones, are analyzed as one capture, of whatever formats they are:
    /// packets are taken in the order of time, where times are equal in the order of the files, and numbered in that
    /// order. Within a file the order of its packets is kept. A packet that was captured twice counts as sent again.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// UDP destination port of RoCEv2
    #[arg(long, value_name = "PORT", default_value_t = frame::Config::default().port)]
    pub(crate) port: u16,
    /// Do not verify the invariant CRC of packets
    #[arg(long)]
    pub(crate) no_icrc: bool,
    /// Do not show progress
    ///
    /// Without this, progress is shown on standard error while large files or long pipes are read, where that is a terminal
    /// and lines of output do not go to a terminal too.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Standard input, for commands that read it more than once.
    #[arg(skip)]
    pub(crate) spool: Option<Spool>,
}

impl Input {
    /// Makes it possible to read this more than once. Standard input is read to its end, once; another pipe is refused.
    pub(crate) fn keep(&mut self) -> anyhow::Result<()> {
        for path in &self.files {
            if path == Path::new("-") {
                if self.spool.is_none() {
                    self.spool = Some(Spool::new().context("standard input")?);
                }
            } else if path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
                anyhow::bail!(
                    "{}: is read twice, which takes a file; let it be standard input, and give - in its place",
                    path.display()
                );
            }
        }
        Ok(())
    }
}

/// How it is written.
#[derive(Args, Debug)]
pub(crate) struct Output {
    /// How to write: for people, or JSON Lines for programs
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Text in columns
    Text,
    /// One JSON object per line; docs/json.md describes them
    Jsonl,
}

const EXAMPLES: &str = "\
Examples:
  rdmascope analyze mount.pcap
  rdmascope transactions mount.pcap --operation write --latency-above 5ms
  rdmascope packets mount.pcap --connection 1 --since 2.5 --until 3";

const ANALYZE_EXAMPLES: &str = "\
Examples:
  rdmascope analyze mount.pcap
  rdmascope analyze mount.pcap0 mount.pcap1 mount.pcap2.zst
  tcpdump -i eth0 -w - udp port 4791 | rdmascope analyze -
  rdmascope analyze mount.pcap --format jsonl | jq 'select(.type == \"operation\")'";

const CONNECTIONS_EXAMPLES: &str = "\
Examples:
  rdmascope connections mount.pcap
  rdmascope connections mount.pcap --format jsonl | jq '.requester.private_data'";

const TRANSACTIONS_EXAMPLES: &str = "\
Examples:
  rdmascope transactions mount.pcap --operation read --operation write --latency-above 5ms
  rdmascope transactions mount.pcap --status error
  tcpdump -i eth0 -U -w - udp port 4791 | rdmascope transactions - --latency-above 5ms
  rdmascope transactions mount.pcap --status NFS4ERR_DELAY --since 2025-11-21T09:30:00Z
  rdmascope transactions mount.pcap --xid 0x1a2b3c4d --format jsonl | jq .call.read_chunks";

const PACKETS_EXAMPLES: &str = "\
Examples:
  rdmascope packets mount.pcap --connection 1 --since 2.5 --until 3
  rdmascope packets mount.pcap --opcode 'read response' --qp 0x12
  rdmascope packets mount.pcap --psn 16777210-5";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
