//! The command line.

use crate::analyze::{self, Analyze};
#[cfg(unix)]
use crate::capture::{self, Capture};
use crate::check::{self, Check};
use crate::completions::{self, Completions};
use crate::confine::{Confinement, Paths};
use crate::connections::{self, Connections};
use crate::diff::{self, Diff};
use crate::events::{self, Events};
use crate::export::{self, Export};
use crate::extract::{self, Extract};
use crate::input::Input;
use crate::live::{self, LiveArguments};
use crate::man::{self, Man};
use crate::mode::NewFiles;
use crate::packets::{self, Packets};
#[cfg(target_os = "linux")]
use crate::peer::{self, Peer};
use crate::regress::{self, Regress};
use crate::show::{self, Show};
use crate::state::{self, StateCommand};
use crate::transactions::{self, Transactions};
use crate::tui::{self, Tui};
use clap::{Parser, Subcommand};

/// The columns at which help is wrapped, on a terminal that has more.
pub(crate) const WIDTH: usize = 100;

/// Analyzes captures of NFS over RDMA: connections, RPC transactions with their chunks, and errors.
#[derive(Parser, Debug)]
#[command(name = "rdmascope", version, max_term_width = WIDTH, after_help = format!("{EXAMPLES}\n\n{}", man::COMMON))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Do not show reports and lists in a pager, where standard output is a terminal
    #[arg(long, global = true)]
    pub(crate) no_pager: bool,
    /// Do not confine the process to its input and output files (Linux)
    ///
    /// A command that reads captures lets the kernel refuse everything that it does not need: other
    /// files, sockets, programs. Without this, a packet or a file that exploits a defect of
    /// rdmascope can do whatever its user can do.
    #[arg(long, global = true)]
    pub(crate) no_sandbox: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Report on a capture: connections, operations with their latencies, errors
    ///
    /// The report lists what was captured, the connections with their negotiated parameters, and for each operation the number
    /// of calls and errors, the bytes moved, the latency, and how that latency is made up. It ends with the errors and
    /// losses that were found.
    #[command(after_help = analyze::EXAMPLES)]
    Analyze(Analyze),
    /// List the connections
    ///
    /// One line for each connection, in the order in which connections end: addresses and queue pairs, origin, negotiated parameters, and
    /// the bytes that both ends sent.
    #[command(after_help = connections::EXAMPLES)]
    Connections(Connections),
    /// List the RPC transactions
    ///
    /// One line for each transaction (a call and its reply), in the order in which transactions end.
    #[command(after_help = transactions::EXAMPLES)]
    Transactions(Transactions),
    /// List the packets
    ///
    /// One line for each packet of RoCE or InfiniBand, with the RPC-over-RDMA header or the CM message that it carries, and for each TCP segment of an iWARP
    /// connection, with its FPDUs.
    #[command(after_help = packets::EXAMPLES)]
    Packets(Packets),
    /// List the events: connections made, rejected and closed, and loss of service
    ///
    /// One line for each event, in the order of time: connections made, rejected and closed, requests that were sent again until
    /// their sender gave up, NAKs, calls sent again and recovery behind a reconnect, credits that were used up. Service counts as
    /// lost where a call, or a client without a connection, waited a second or longer and no reply came, or where one connection after the
    /// other ended with the same call refused.
    #[command(after_help = events::EXAMPLES)]
    Events(Events),
    /// List what NFSv4 keeps between calls: sessions, opens, locks, delegations
    ///
    /// Client IDs, sessions, opens, locks, delegations, layouts and asynchronous copies.
    /// One line for each, from when it began to how it ended, in the order in which they end; what is open at the end of the capture comes last.
    /// Text has a summary on top: what was open at the end, what was recalled and not returned, revoked, lost or abandoned. What the capture cannot
    /// show is said. docs/state.md describes it.
    #[command(after_help = state::EXAMPLES)]
    State(StateCommand),
    /// Export results in formats that other programs read
    #[command(after_help = export::EXAMPLES)]
    Export(Export),
    /// Extract the bytes of a transaction, or the files that NFS transferred
    ///
    /// Of one transaction: the call or the reply as it was before reduction, its payload, or one chunk. Of all transactions: the
    /// data that NFS READ and WRITE transferred, assembled file by file.
    #[command(after_help = extract::EXAMPLES)]
    Extract(Extract),
    /// Show one frame or one transaction in full
    ///
    /// Of a frame: every field of every header, with its bytes. Of a transaction: its operations and status, how its latency is
    /// made up, the packets that Requester and Responder exchanged, the fields of its headers, and its messages before reduction.
    #[command(after_help = show::EXAMPLES)]
    Show(Show),
    /// Check sessions against the specifications
    ///
    /// The command lists violations of RFC 8166, 8167, 8267 and 8797, of the reliable-reply draft, and of the reliable transport.
    /// Each finding names the rule and its section, the frames that are the evidence, the observed value and the allowed
    /// value. Packets that the capture lacks are not a violation: a finding that depends on them is inconclusive.
    /// docs/conformance.md lists all rules.
    #[command(after_help = check::EXAMPLES)]
    Check(Check),
    /// Compare two captures of the same workload
    ///
    /// The command compares two kernels, two servers, or the time before and after a change. It compares negotiated parameters,
    /// errors, latencies by size (and whether the difference is significant), how messages were conveyed, and which operations
    /// were called. The most important differences come first.
    #[command(after_help = diff::EXAMPLES)]
    Diff(Diff),
    /// Analyze a folder of captures and compare each with its expected results
    ///
    /// The expected results of NAME.pcap are in NAME.expected.jsonl beside it, in the format of `connections` and
    /// `transactions`; --bless writes them. Differences are listed by transaction and field. A MANIFEST in the folder is
    /// verified first. docs/regress.md describes all files.
    #[command(after_help = regress::EXAMPLES)]
    Regress(Regress),
    /// Capture RoCE packets from network interfaces
    ///
    /// Writes what passes the interfaces and is of RoCE as pcapng, with the packets that the kernel had to drop counted. Takes the capability
    /// CAP_NET_RAW on Linux. Where nobody counts what was dropped, that is said. docs/capture.md describes it, and where to capture.
    #[cfg(unix)]
    #[command(after_help = capture::EXAMPLES)]
    Capture(Capture),
    /// Watch a session while it goes on
    ///
    /// Analyzes packets of network interfaces, of a pipe or of files as they come, and shows for each interval what came by: calls, bytes,
    /// latencies, calls that wait, packets sent again; and events and findings as they happen. It serves the same as Prometheus metrics, and
    /// writes captures around what --trigger names. Interfaces take the capability CAP_NET_RAW. docs/live.md describes it.
    #[command(after_help = live::EXAMPLES)]
    Live(LiveArguments),
    /// Go through a session in the terminal, or watch one
    ///
    /// Shows connections, transactions, the exchange of each with its fields and bytes, events, findings and charts, of files, of a pipe or of
    /// network interfaces; and plays the session, forward, backward, packet by packet. Interfaces take the capability CAP_NET_RAW. The key ? shows
    /// all keys. docs/tui.md is a tour.
    #[command(after_help = tui::EXAMPLES)]
    Tui(Tui),
    /// Be one end of NFS/RDMA: call a live server, or serve clients
    ///
    /// This process speaks RoCEv2 on its own, without RDMA hardware: connection management, a reliable connection, RPC-over-RDMA. It sends
    /// only to the address that --to names, or to those that sent to it. docs/peer.md describes it.
    #[cfg(target_os = "linux")]
    #[command(after_help = peer::EXAMPLES)]
    Peer(Peer),
    /// Print a completion script for a shell
    ///
    /// The script completes commands, options and enumerated values. Packages install it.
    #[command(after_help = completions::EXAMPLES)]
    Completions(Completions),
    /// Print a manual page, or write all manual pages
    ///
    /// Each command has a page, such as rdmascope-analyze(1). Packages install them.
    #[command(after_help = man::EXAMPLES)]
    Man(Man),
}

const EXAMPLES: &str = "\
Examples:
  rdmascope analyze mount.pcap
  rdmascope transactions mount.pcap --operation write --latency-above 5ms
  rdmascope packets mount.pcap --connection 1 --since 2.5 --until 3";

impl Command {
    /// When it confines itself. It listens to signals from then on.
    pub(crate) fn confinement(&mut self) -> Confinement {
        let mut paths = Paths::default();
        if let Some(input) = self.input() {
            paths.read(input.files.iter().chain(input.with.others()));
        }
        match self {
            // Elsewhere there is nothing to confine it with.
            #[cfg(all(unix, not(target_os = "linux")))]
            Command::Capture(_) => return Confinement::Never,
            #[cfg(target_os = "linux")]
            Command::Capture(_) => return Confinement::Later,
            // `tui` hears signals itself, to give the terminal back.
            Command::Live(_) | Command::Tui(_) => return Confinement::Later,
            #[cfg(target_os = "linux")]
            Command::Peer(command) if command.is_confined() => return Confinement::Later,
            #[cfg(target_os = "linux")]
            Command::Peer(_) => return Confinement::Never,
            Command::Completions(_) | Command::Man(_) => return Confinement::Never,
            Command::Analyze(command) => paths.read(&command.kernel),
            Command::Check(command) => paths.read(&command.policies()),
            Command::Diff(command) => paths.read(&command.input.files),
            Command::Export(command) => command.add_to(&mut paths),
            Command::Extract(command) => command.add_to(&mut paths),
            Command::Regress(command) => command.add_to(&mut paths),
            Command::Connections(_)
            | Command::Transactions(_)
            | Command::Packets(_)
            | Command::Events(_)
            | Command::State(_)
            | Command::Show(_) => {}
        }
        Confinement::AtOnce(paths)
    }

    /// The permissions of the files that it makes; `None`: they are for everybody, as the umask
    /// says.
    pub(crate) fn new_files(&self) -> Option<NewFiles> {
        match self {
            #[cfg(unix)]
            Command::Capture(command) => Some(command.new_files),
            Command::Live(command) => Some(command.new_files),
            Command::Tui(command) => Some(command.new_files),
            Command::Export(command) => Some(command.new_files()),
            Command::Extract(command) => Some(command.new_files),
            #[cfg(target_os = "linux")]
            Command::Peer(command) => Some(command.new_files()),
            // Expectations go into a repository with their captures.
            Command::Completions(_) | Command::Man(_) | Command::Regress(_) => None,
            _ => Some(NewFiles::default()),
        }
    }

    /// Whether its output to a terminal goes through a pager: that of commands that report or list what is in files, and not packets as they come.
    pub(crate) fn is_paged(&mut self) -> bool {
        match self {
            Command::Analyze(_)
            | Command::Connections(_)
            | Command::Transactions(_)
            | Command::Packets(_)
            | Command::Events(_)
            | Command::State(_)
            | Command::Show(_)
            | Command::Check(_) => self.input().is_none_or(|input| !input.has_pipe()),
            Command::Diff(command) => !command.input.has_pipe(),
            _ => false,
        }
    }

    /// What the command reads as one capture. `diff` reads two, `regress` folders, and `export parquet` as many as there are.
    pub(crate) fn input(&mut self) -> Option<&mut Input> {
        match self {
            Command::Analyze(command) => Some(&mut command.input),
            Command::Connections(command) => Some(&mut command.input),
            Command::Transactions(command) => Some(&mut command.input),
            Command::Packets(command) => Some(&mut command.input),
            Command::Events(command) => Some(&mut command.input),
            Command::State(command) => Some(&mut command.input),
            Command::Export(command) => command.input(),
            Command::Extract(command) => Some(&mut command.input),
            Command::Show(command) => Some(&mut command.input),
            Command::Check(command) => Some(&mut command.input),
            Command::Live(command) => Some(&mut command.input),
            Command::Tui(command) => Some(&mut command.input),
            #[cfg(unix)]
            Command::Capture(_) => None,
            #[cfg(target_os = "linux")]
            Command::Peer(_) => None,
            Command::Diff(_) | Command::Regress(_) | Command::Completions(_) | Command::Man(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
