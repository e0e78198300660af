//! The command line.

use crate::analyze::{self, Analyze};
use crate::check::{self, Check};
use crate::completions::{self, Completions};
use crate::connections::{self, Connections};
use crate::diff::{self, Diff};
use crate::export::{self, Export};
use crate::extract::{self, Extract};
use crate::man::{self, Man};
use crate::packets::{self, Packets};
use crate::regress::{self, Regress};
use crate::show::{self, Show};
use crate::transactions::{self, Transactions};
use clap::{Parser, Subcommand};

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
    #[command(after_help = analyze::EXAMPLES)]
    Analyze(Analyze),
    /// List the connections
    ///
    /// One line for each connection, in the order in which they end: its ends, how it is known, what was negotiated, and what both ends sent.
    #[command(after_help = connections::EXAMPLES)]
    Connections(Connections),
    /// List the RPC transactions
    ///
    /// One line for each call and its reply, in the order in which they end.
    #[command(after_help = transactions::EXAMPLES)]
    Transactions(Transactions),
    /// List the packets
    ///
    /// One line for each RoCE packet, with the front of the RPC-over-RDMA message or the CM message that it carries.
    #[command(after_help = packets::EXAMPLES)]
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
    Show(Show),
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

const EXAMPLES: &str = "\
Examples:
  rdmascope analyze mount.pcap
  rdmascope transactions mount.pcap --operation write --latency-above 5ms
  rdmascope packets mount.pcap --connection 1 --since 2.5 --until 3";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
