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

/// The maximum width of help, in columns.
pub(crate) const WIDTH: usize = 100;

/// Analyzes captures of NFS over RDMA: connections, RPC transactions with their chunks, and errors.
#[derive(Parser, Debug)]
#[command(name = "rdmascope", version, max_term_width = WIDTH, after_help = format!("{EXAMPLES}\n\n{}", man::COMMON))]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Do not show reports and lists in a pager on a terminal
    #[arg(long, global = true)]
    pub(crate) no_pager: bool,
    /// Do not confine the process to its input and output files (Linux)
    ///
    /// By default, a command that reads captures gives up access to everything else: other files,
    /// sockets, programs. The kernel enforces this. With this option, a packet or file that
    /// exploits a bug in rdmascope has all permissions of the user.
    #[arg(long, global = true)]
    pub(crate) no_sandbox: bool,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Report on a capture: connections, operations with latencies, errors
    ///
    /// The report shows the capture files, the connections with their negotiated parameters, and
    /// for each operation the number of calls and errors, the bytes moved, the latency and its
    /// components. Errors and losses come last.
    #[command(after_help = analyze::EXAMPLES)]
    Analyze(Analyze),
    /// List the connections
    ///
    /// Prints one line per connection, in the order in which connections end: addresses, queue
    /// pairs, origin, negotiated parameters, and the bytes sent by each end.
    #[command(after_help = connections::EXAMPLES)]
    Connections(Connections),
    /// List the RPC transactions
    ///
    /// Prints one line per transaction (a call and its reply), in the order in which transactions
    /// end.
    #[command(after_help = transactions::EXAMPLES)]
    Transactions(Transactions),
    /// List the packets
    ///
    /// Prints one line per RoCE or InfiniBand packet, with its RPC-over-RDMA header or CM message,
    /// and one line per TCP segment of an iWARP connection, with its FPDUs.
    #[command(after_help = packets::EXAMPLES)]
    Packets(Packets),
    /// List the events: connections opened, rejected and closed, and loss of service
    ///
    /// Prints one line per event, in time order: connections opened, rejected and closed, retries
    /// exhausted, NAKs, calls sent again and recovery after a reconnect, credits used up. Service
    /// counts as lost if a call, or a client without a connection, waited one second or longer
    /// without any reply, or if successive connections ended with the same call refused.
    #[command(after_help = events::EXAMPLES)]
    Events(Events),
    /// List NFSv4 state: sessions, opens, locks, delegations
    ///
    /// Lists client IDs, sessions, opens, locks, delegations, layouts and asynchronous copies, one
    /// line each, with how they began and ended. Lines come in the order in which state ends; state
    /// still open at the end of the capture comes last. Text output starts with a summary: state
    /// open at the end, recalled but not returned, revoked, lost or abandoned. Warnings on standard
    /// error count the calls whose state is unknown. docs/state.md has details.
    #[command(after_help = state::EXAMPLES)]
    State(StateCommand),
    /// Export results in formats that other programs read
    #[command(after_help = export::EXAMPLES)]
    Export(Export),
    /// Extract the bytes of a transaction, or the files that NFS transferred
    ///
    /// For one transaction: the call or the reply before reduction, its payload, or one chunk. For
    /// all transactions: the data of NFS READ and WRITE, assembled into files.
    #[command(after_help = extract::EXAMPLES)]
    Extract(Extract),
    /// Show one frame or one transaction in full
    ///
    /// For a frame: every field of every header, with its bytes. For a transaction: its operations
    /// and status, the components of its latency, the packets exchanged by Requester and Responder,
    /// the fields of its headers, and its messages before reduction.
    #[command(after_help = show::EXAMPLES)]
    Show(Show),
    /// Check sessions against the specifications
    ///
    /// Lists violations of RFC 8166, 8167, 8267 and 8797, of the reliable-reply draft, and of the
    /// reliable transport. Each finding gives the rule and its section, the frames that are the
    /// evidence, the observed value and the allowed value. Packets missing from the capture are not
    /// a violation: a finding that depends on them is inconclusive. docs/conformance.md lists all
    /// rules.
    #[command(after_help = check::EXAMPLES)]
    Check(Check),
    /// Compare two captures of the same workload
    ///
    /// Use it to compare two kernels, two servers, or the time before and after a change. It
    /// compares negotiated parameters, errors, latencies by size (with a significance test), how
    /// messages were conveyed, and the operations called. The most important differences come
    /// first.
    #[command(after_help = diff::EXAMPLES)]
    Diff(Diff),
    /// Analyze a folder of captures and compare each with its expected results
    ///
    /// The expected results of NAME.pcap are in NAME.expected.jsonl in the same folder, in the
    /// format of `connections` and `transactions`; --bless writes them. Differences are listed by
    /// transaction and field. A MANIFEST in the folder is verified first. docs/regress.md describes
    /// all files.
    #[command(after_help = regress::EXAMPLES)]
    Regress(Regress),
    /// Capture RoCE packets from network interfaces
    ///
    /// Writes the RoCE packets seen on the interfaces to a pcapng file, together with the kernel's
    /// drop counts. If no drop count is available, the command reports that. It needs the
    /// capability CAP_NET_RAW on Linux. docs/capture.md describes it and where to capture.
    #[cfg(unix)]
    #[command(after_help = capture::EXAMPLES)]
    Capture(Capture),
    /// Watch a live session
    ///
    /// Analyzes packets of network interfaces, a pipe or files as they arrive. For each interval it
    /// shows calls, bytes, latencies, outstanding calls and retransmissions; events and findings
    /// are shown as they happen. It can serve the same data as Prometheus metrics, and can write
    /// captures around the conditions of --trigger. Interfaces need the capability CAP_NET_RAW.
    /// docs/live.md describes it.
    #[command(after_help = live::EXAMPLES)]
    Live(LiveArguments),
    /// Browse a session in the terminal, or watch a live one
    ///
    /// Shows connections, transactions, the exchange of each transaction with its fields and bytes,
    /// events, findings and charts. The input is files, a pipe or network interfaces. Playback runs
    /// forward, backward or packet by packet. Interfaces need the capability CAP_NET_RAW. The key ?
    /// shows all keys. docs/tui.md is a tour.
    #[command(after_help = tui::EXAMPLES)]
    Tui(Tui),
    /// Act as one end of NFS/RDMA: call a live server, or serve clients
    ///
    /// The process implements RoCEv2 in user space, without RDMA hardware: connection management, a
    /// reliable connection, RPC-over-RDMA. It sends only to the address given by --to, or to
    /// addresses that sent to it. docs/peer.md describes it.
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
    /// When the process confines itself, and which paths it needs.
    pub(crate) fn confinement(&mut self) -> Confinement {
        let mut paths = Paths::default();
        if let Some(input) = self.input() {
            paths.read(input.files.iter().chain(input.with.others()));
        }
        match self {
            // No confinement is implemented for these systems.
            #[cfg(all(unix, not(target_os = "linux")))]
            Command::Capture(_) => return Confinement::Never,
            #[cfg(target_os = "linux")]
            Command::Capture(_) => return Confinement::Later,
            // `tui` handles signals itself, to restore the terminal.
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

    /// The permissions of files that the command creates; `None` leaves them to the umask.
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
            // Regress writes expectations into a repository, next to the captures.
            Command::Completions(_) | Command::Man(_) | Command::Regress(_) => None,
            _ => Some(NewFiles::default()),
        }
    }

    /// Whether output to a terminal goes through a pager: true for commands that report on or list
    /// files, false for commands that read packets as they arrive.
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

    /// The input of a command that reads one capture. `diff` reads two, `regress` reads folders,
    /// and `export parquet` reads any number.
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
    fn command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
