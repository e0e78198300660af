//! `rdmascope peer`: one end of NFS/RDMA, for tests of a live peer.
//!
//! The modules from the bottom up: `lines`, the output; `live`, the end on its sockets, with its
//! packets written to a file; `device`, an RDMA device instead (feature `verbs`); `faults`,
//! deliberate packet faults; one module per command; `bench`, the scenarios for the screen of
//! `rdmascope tui`.

mod bench;
mod call;
#[cfg(feature = "verbs")]
mod device;
mod faults;
mod inject;
mod lines;
mod live;
#[cfg(test)]
mod pages;
mod recording;
mod replay;
mod report;
mod serve;

use crate::mode::NewFiles;
use crate::output::{Out, Status};
pub(crate) use bench::bench;
use call::Call;
pub(crate) use call::target;
use clap::{Args, Subcommand};
use inject::Inject;
use rdmascope_present::text::Style;
use replay::Replay;
use serve::Serve;
use std::io;

#[derive(Args, Debug)]
pub(crate) struct Peer {
    #[command(subcommand)]
    part: Part,
}

/// The peer commands.
#[derive(Subcommand, Debug)]
enum Part {
    /// Connect to a server, and call NULL or use an NFSv3 export
    ///
    /// Connects to an NFS/RDMA server over RoCEv2, without RDMA hardware, and prints the server's
    /// REP and private data, the status and credits of its replies, and their latencies. With
    /// --export it writes and reads a file, lists a directory, and prints the MD5 of the data.
    ///
    /// The exit status is 0 if every call was answered with SUCCESS and everything was done, 1 if a
    /// call or the connection was refused or not answered, and 2 for wrong usage, or if the sockets
    /// cannot be opened.
    #[command(after_help = call::EXAMPLES)]
    Call(Call),
    /// Listen for NFS/RDMA clients, and answer NULL or serve an NFSv3 export
    ///
    /// Accepts every connection. NULL of NFSv3 and NFSv4 is answered; other calls are refused as
    /// specified in RFC 5531: PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL, RPC_MISMATCH or
    /// AUTH_ERROR. With `--from`, calls are answered as in a capture. With `--export`, clients can
    /// mount, list, read and write an NFSv3 export. With `--scenario`, the server sends a client
    /// what a specification forbids or leaves open, and gives a verdict on the client's reaction,
    /// as `peer inject` does for a server; --format junit or html writes a report of the verdicts
    /// at the end.
    ///
    /// Ctrl-C closes the connections and then ends the command. The exit status is 0, or 1 if a
    /// scenario has the verdict violates, and 2 for wrong usage, or if the sockets cannot be
    /// opened.
    #[command(after_help = serve::EXAMPLES)]
    Serve(Serve),
    /// Run fault scenarios against a server
    ///
    /// Each scenario connects, sends what a specification forbids or leaves open, and compares the
    /// reaction with those that the specification allows. The verdict is: conforms, violates,
    /// tolerated, lost connection, no answer, or not applicable. Afterwards a NULL call determines
    /// whether the server is alive, on the same connection or a new one, or gone. docs/scenarios.md
    /// lists the scenarios and describes their files.
    ///
    /// The exit status is 0 without a violation, 1 with one, and 2 for wrong usage, or if the
    /// sockets cannot be opened.
    #[command(after_help = inject::EXAMPLES)]
    Inject(Inject),
    /// Replay the calls of a capture, and compare the replies
    ///
    /// Sends the calls of the capture in order, with local memory for their chunks, and compares
    /// each reply with the recorded one: its contents, and how it is conveyed (inline or by chunks,
    /// where a server has no choice). Values that the server chose differently from the recorded
    /// one (file handles, stateids, sessions, verifiers) are replaced in later calls, so that a
    /// session with state can be replayed. `rdmascope peer serve --from` answers like the recorded
    /// server: a replay against it agrees completely.
    ///
    /// The exit status is 0 if no reply differs, 1 if one does or a call was not sent, and 2 for
    /// wrong usage, if the sockets cannot be opened, or if the capture cannot be replayed.
    #[command(after_help = replay::EXAMPLES)]
    Replay(Box<Replay>),
}

pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope peer call --to 192.0.2.2
  rdmascope peer inject --to 192.0.2.2 all
  rdmascope peer serve --bind 192.0.2.1
  rdmascope peer replay mount.pcap --to 192.0.2.2";

impl Peer {
    /// Whether it accepts packets from unknown hosts. It confines itself when its sockets are open.
    pub(crate) fn is_confined(&self) -> bool {
        matches!(self.part, Part::Serve(_))
    }

    pub(crate) fn new_files(&self) -> NewFiles {
        match &self.part {
            Part::Call(command) => command.sockets.new_files,
            Part::Serve(command) => command.sockets.new_files,
            Part::Inject(command) => command.sockets.new_files,
            Part::Replay(command) => command.sockets.new_files,
        }
    }
}

/// Runs the peer command.
pub(crate) fn run(command: &Peer, style: Style, out: &mut Out) -> io::Result<Status> {
    match &command.part {
        Part::Call(command) => call::run(command, style, out),
        Part::Serve(command) => serve::run(command, style, out),
        Part::Inject(command) => inject::run(command, out),
        Part::Replay(command) => replay::run(command, style, out),
    }
}
