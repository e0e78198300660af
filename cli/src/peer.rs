//! `rdmascope peer`: an end of NFS/RDMA that this process is, for tests of a live one.
//!
//! Upwards: `lines`, what is printed; `live`, the end on its sockets, with what crosses written to a file; `device`, a device instead
//! (the feature `verbs`); `faults`, what an end does to packets on purpose; a module a command; `bench`, the scenarios for the screen of
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

/// What the end does.
#[derive(Subcommand, Debug)]
enum Part {
    /// Connect to a server, and call NULL or work on an NFSv3 export
    ///
    /// The command connects to an NFS/RDMA server over RoCEv2, without RDMA hardware, and says what the server tells of itself: its REP,
    /// its private data, the status and the credits of its replies, and how long each took. With --export it writes and reads a file and lists a
    /// directory, and prints the MD5 of the data.
    ///
    /// The status is 0 if every call was answered with SUCCESS and everything was done, 1 if a call or the connection was refused or not
    /// answered, and 2 for wrong usage, or if the sockets cannot be had.
    #[command(after_help = call::EXAMPLES)]
    Call(Call),
    /// Listen for NFS/RDMA clients, and answer NULL or serve an NFSv3 export
    ///
    /// Every connection is accepted. NULL of NFSv3 and NFSv4 is answered, and any other call is refused as RFC 5531 says: PROG_UNAVAIL,
    /// PROG_MISMATCH, PROC_UNAVAIL, RPC_MISMATCH or AUTH_ERROR. With `--from` calls are answered as in a capture; with `--export` clients can mount
    /// an NFSv3 export, list, read and write it. With `--scenario` it does to a client what a specification forbids or leaves open, and tells a
    /// verdict on what the client does, as `peer inject` does on a server; --format junit or html writes a report of the verdicts at the end.
    ///
    /// Ctrl-C ends the connections and then the command. The status is 0, 1 if a scenario has the verdict violates, and 2 for wrong usage, or if
    /// the sockets cannot be had.
    #[command(after_help = serve::EXAMPLES)]
    Serve(Serve),
    /// Run scenarios against a server: what does it do with a faulty message?
    ///
    /// Each scenario connects, sends what a specification forbids or leaves open, and compares the reaction with those that the
    /// specification allows. The verdict is: conforms, violates, tolerated, lost connection, no answer, or not applicable. Afterwards the server is
    /// asked NULL: it is alive, on the same connection or a new one, or gone. docs/scenarios.md lists the scenarios, and describes the
    /// files in which they stand.
    ///
    /// The status is 0 without a violation, 1 with one, and 2 for wrong usage, or if the sockets cannot be had.
    #[command(after_help = inject::EXAMPLES)]
    Inject(Inject),
    /// Make the calls of a capture again, and compare the replies
    ///
    /// The calls that the capture shows are made again, in their order, with memory of this end for their chunks, and each reply is compared
    /// with the recorded one: what it says, and how it is conveyed (inline or by chunks, as far as a server has no choice there).
    /// What the server named otherwise than the recorded one did (file handles, stateids, sessions, verifiers) is
    /// named so in later calls, so that a session that has state can be replayed. `rdmascope peer serve --from` answers as the recorded
    /// server did: a replay against that agrees completely.
    ///
    /// The status is 0 if no reply differs, 1 if one does, or a call was not sent, and 2 for wrong usage, if the sockets cannot be had, or
    /// if the capture cannot be replayed.
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
    /// Whether it waits for strangers. It confines itself when its sockets are open.
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

/// Runs one of them.
pub(crate) fn run(command: &Peer, style: Style, out: &mut Out) -> io::Result<Status> {
    match &command.part {
        Part::Call(command) => call::run(command, style, out),
        Part::Serve(command) => serve::run(command, style, out),
        Part::Inject(command) => inject::run(command, out),
        Part::Replay(command) => replay::run(command, style, out),
    }
}
