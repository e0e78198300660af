//! `rdmascope peer replay`: repeats the calls of a capture and compares the replies.

pub(super) mod lines;
pub(super) mod screen;
#[cfg(test)]
mod tests;

use super::call::{file_handle, target};
use super::lines::{self as common, Connection};
use super::live::{Live, SocketArguments, local_address};
use super::recording::{self, Read, Use};
use crate::capture_points::With;
use crate::filters::TransactionArguments;
use crate::input::Input;
use crate::output::{self, Format, Out, Output, Status};
use anyhow::{Context as _, Result, anyhow};
use clap::{Args, ValueEnum};
use lines::{Replayed, Summary};
use rdmascope_analysis::time::parse_duration;
use rdmascope_peer::driver::{Ended, Reach};
use rdmascope_peer::endpoint;
use rdmascope_peer::nfs3::Caller;
use rdmascope_peer::peer::{Config, Event, Peer};
use rdmascope_peer::replay::{Fault, Options, Outcome, Recording, Replayer, Timing};
use rdmascope_peer::tcp;
use rdmascope_peer::time::earlier;
use rdmascope_present::text::Style;
use rdmascope_wire::Xid;
use rdmascope_wire::cm::Reply;
use std::collections::BTreeMap;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// The arguments of `peer replay`.
#[derive(Args, Debug)]
#[command(mut_args(With::never))]
pub(super) struct Replay {
    #[command(flatten)]
    input: Input,
    /// Server address, and a port if it is not 20049; packets go to this address only
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = target)]
    to: SocketAddr,
    /// Local address [default: that of the route to the server]
    #[arg(long, value_name = "ADDR")]
    from: Option<IpAddr>,
    /// When to send calls
    #[arg(long, value_enum, default_value_t = When::Fastest, value_name = "WHEN")]
    timing: When,
    /// Longest wait for a connection, and for each reply
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    timeout: u64,
    /// Ask MOUNT of the server on TCP for the file handle of this path; it replaces the first
    /// handle in the capture's NFSv3 calls
    #[arg(long, value_name = "PATH")]
    mount: Option<String>,
    /// Replace this file handle of the capture by another one, both in hexadecimal; repeat it for
    /// several handles
    #[arg(long, value_name = "HEX=HEX", value_parser = handles)]
    handle: Vec<(Vec<u8>, Vec<u8>)>,
    /// Leave out calls that cannot be repeated, such as those with bytes missing from the capture
    #[arg(long)]
    leave_out: bool,
    /// Start with the call of this transaction; not for NFSv4, whose calls depend on earlier ones
    #[arg(long, value_name = "N")]
    starting_at: Option<u64>,
    /// Inject a fault into the call of this transaction: `version` sets rdma_vers to 9, `procedure`
    /// sets rdma_proc to 9, `short` omits the last four bytes
    #[arg(long, value_name = "NAME@N", value_parser = fault)]
    fault: Option<(Fault, u64)>,
    /// Show every call, not only those whose replies differ or could not be compared
    #[arg(long)]
    all: bool,
    /// Reject a capture whose calls and replies hold more bytes than this: 512M, 4G
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = crate::extract::parse_size)]
    memory: u64,
    #[command(flatten)]
    pub(super) sockets: SocketArguments,
    #[command(flatten)]
    output: Output,
    // Last, because its heading would be that of later options.
    #[command(flatten)]
    filter: TransactionArguments,
}

#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// Once the replies that precede the call in the capture have arrived
    Fastest,
    /// As fastest, but no earlier after the first call than in the capture
    Recorded,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  rdmascope peer replay mount.pcap --to 192.0.2.2
  rdmascope peer replay mount.pcap --to 192.0.2.2 --mount /export --save replayed.pcapng
  rdmascope peer replay mount.pcap --to 192.0.2.2 --connection 1 --timing recorded --format jsonl
  rdmascope peer replay mount.pcap --to 192.0.2.2 --starting-at 12 --fault version@20
  rdmascope peer serve --from mount.pcap --bind 192.0.2.2

docs/peer.md describes the comparison and the differences that are allowed.";

/// Parses two file handles.
fn handles(text: &str) -> Result<(Vec<u8>, Vec<u8>), String> {
    let both = text.split_once('=').and_then(|(one, other)| Some((file_handle(one)?, file_handle(other)?)));
    both.ok_or_else(|| "expected two file handles in hexadecimal, such as 0x0102=0x0304".to_owned())
}

/// Parses a fault and the number of the transaction whose call gets it.
fn fault(text: &str) -> Result<(Fault, u64), String> {
    let found = text.split_once('@').and_then(|(name, number)| {
        let fault = Fault::ALL.into_iter().find(|fault| fault.name() == name)?;
        Some((fault, number.parse().ok()?))
    });
    let names = || Fault::ALL.map(Fault::name).join(", ");
    found.ok_or_else(|| format!("expected a fault ({}) and a transaction, such as version@12", names()))
}

/// Returns the index of a transaction's call in the recording.
fn index_of(recording: &Recording, number: u64) -> Result<usize> {
    let place = recording.calls.iter().position(|call| call.number == number && !call.backward);
    place.ok_or_else(|| anyhow!("no call of transaction {number} is replayed"))
}

/// Runs the command.
pub(super) fn run(command: &Replay, style: Style, out: &mut Out) -> io::Result<Status> {
    let filter = command.filter.filter();
    let purpose = Use::Calls { leave_out: command.leave_out };
    let read = match recording::load(&command.input, &filter, command.memory, purpose, out)? {
        Ok(read) => read,
        Err(status) => return Ok(status),
    };
    let format = command.output.format;
    let mut printing = Printing { format, all: command.all, style, out };
    match command.replay(read, &mut printing)? {
        Ok(summary) => {
            lines::print_summary(&summary, format, style, out)?;
            Ok(if summary.is_agreement() { Status::Done } else { Status::Differs })
        }
        Err(error) => output::complain(&error, out),
    }
}

/// Receives the progress of a replay.
trait Listener {
    /// Reports that the sockets are open, or that a connection was made or closed.
    fn line(&mut self, line: common::Line) -> io::Result<()>;

    /// Reports the outcome of a call or a connection.
    fn outcome(&mut self, outcome: &Outcome, replayed: Replayed) -> io::Result<()>;

    /// Returns whether to stop. `None`: only a signal stops the replay.
    fn is_stopped(&self) -> Option<bool>;
}

/// Prints the replay as the command's output.
struct Printing<'a> {
    format: Format,
    all: bool,
    style: Style,
    out: &'a mut Out,
}

impl Listener for Printing<'_> {
    fn line(&mut self, line: common::Line) -> io::Result<()> {
        common::print(&line, self.format, self.style, self.out)
    }

    fn outcome(&mut self, _: &Outcome, replayed: Replayed) -> io::Result<()> {
        if self.format == Format::Jsonl || self.all || replayed.is_noteworthy() {
            lines::print(&replayed, self.format, self.style, self.out)?;
        }
        Ok(())
    }

    fn is_stopped(&self) -> Option<bool> {
        None
    }
}

impl Replay {
    /// Replays the calls and reports the outcomes. The outer error comes from the output.
    fn replay(&self, read: Read, listener: &mut impl Listener) -> io::Result<Result<Summary>> {
        let (mut live, mut run) = match self.open(read) {
            Ok((live, replayer, read)) => (live, Run::new(self.to, replayer, read)),
            Err(error) => return Ok(Err(error)),
        };
        let result = run.run_to_end(&mut live, listener)?;
        run.summary.counts = live.wire.driver.counts();
        let finished = live.finish();
        if let Err(error) = result.and(finished) {
            return Ok(Err(error));
        }
        Ok(Ok(run.summary))
    }

    fn open(&self, mut read: Read) -> Result<(Live, Replayer, Read)> {
        if let Some(number) = self.starting_at {
            let rest = read.recording.starting_at(number).context("--starting-at")?;
            read.recording = Arc::new(rest);
        }
        let fault = match self.fault {
            Some((fault, number)) => Some((index_of(&read.recording, number).context("--fault")?, fault)),
            None => None,
        };
        let to = self.to.ip();
        let local = local_address(self.from, to)?;
        let mut handles = self.handle.clone();
        if let Some(path) = &self.mount {
            let recorded = read.recording.first_handle();
            let recorded = recorded
                .ok_or_else(|| anyhow!("--mount: no NFSv3 call of the capture names a file handle"))?;
            let patience = Duration::from_nanos(self.timeout);
            let mut caller = Caller::new(Xid(RandomState::new().hash_one(2) as u32), 0, 0);
            let root = tcp::root(to, None, path.as_bytes(), (&mut caller, patience))
                .with_context(|| format!("--mount {path}"))?;
            handles.push((recorded, root.bytes().to_vec()));
        }
        let mut config = Config { session: read.recording.requester(), ..Config::default() };
        // A lost REQ is retransmitted after 1.1 s, until the command's own timeout.
        config.endpoint.cm.response_timeout = 18;
        let live = Live::open(&self.sockets, vec![local], Reach::Only(vec![to]), config)?;
        let options = Options {
            local,
            remote: to,
            port: self.to.port(),
            timing: match self.timing {
                When::Fastest => Timing::Fastest,
                When::Recorded => Timing::Recorded,
            },
            timeout: Duration::from_nanos(self.timeout),
            linger: Duration::from_nanos(self.timeout).min(LINGER),
            first_xid: Xid(RandomState::new().hash_one(1) as u32),
            handles,
            fault,
        };
        let replayer = Replayer::new(Arc::clone(&read.recording), options);
        Ok((live, replayer, read))
    }
}

/// Longest wait at the end of a connection for optional messages.
const LINGER: Duration = Duration::from_millis(500);

/// Interval between two checks whether to stop.
const LOOK_UP: Duration = Duration::from_millis(50);

struct Run {
    to: SocketAddr,
    replayer: Replayer,
    read: Read,
    /// The contents of REPs, by connection.
    reps: BTreeMap<endpoint::ConnectionId, (Option<Reply<'static>>, Vec<u8>)>,
    summary: Summary,
}

impl Run {
    fn new(to: SocketAddr, replayer: Replayer, read: Read) -> Run {
        Run { to, replayer, read, reps: BTreeMap::new(), summary: Summary::default() }
    }

    /// Replays until the end, Ctrl-C, or a stop. The outer error comes from the output.
    fn run_to_end(&mut self, live: &mut Live, listener: &mut impl Listener) -> io::Result<Result<()>> {
        let sockets = common::Sockets { target: Some(self.to), ..live.sockets(self.to.port()) };
        listener.line(common::Line::Sockets(sockets))?;
        let mut interrupted = false;
        while !self.replayer.is_over() {
            let now = live.wire.driver.now();
            self.replayer.advance(&mut live.peer, now);
            self.deliver(listener)?;
            let stopped = listener.is_stopped();
            if self.replayer.is_over() || stopped == Some(true) {
                break;
            }
            let look_up = stopped.map(|_| now.plus(LOOK_UP));
            let (ended, events) = match live.turn(earlier(self.replayer.next_deadline(), look_up)) {
                Ok(turned) => turned,
                Err(error) => return Ok(Err(error.into())),
            };
            for (now, event) in events {
                self.replayer.handle(&mut live.peer, now, &event);
                self.connection(live, event, listener)?;
            }
            if ended == Ended::Woken {
                interrupted = true;
                break;
            }
        }
        self.deliver(listener)?;
        let connections: Vec<endpoint::ConnectionId> = live.peer.endpoint().connections().collect();
        let happened = match live.hang_up(&connections) {
            Ok(happened) => happened,
            Err(error) => return Ok(Err(error.into())),
        };
        for event in happened {
            self.connection(live, event, listener)?;
        }
        Ok(if interrupted { Err(anyhow!("interrupted")) } else { Ok(()) })
    }

    /// Reports that a connection was made or closed.
    fn connection(&mut self, live: &Live, event: Event, listener: &mut impl Listener) -> io::Result<()> {
        let remote = self.to.ip();
        if let Some((id, why)) = Peer::closed(&event) {
            self.reps.remove(&id);
            return listener.line(common::Line::Connection(Connection::closed(why.clone(), remote)));
        }
        match event {
            Event::Endpoint(endpoint::Event::Replied { connection, reply, private_data, .. }) => {
                self.reps.insert(connection, (reply, private_data));
            }
            Event::Endpoint(endpoint::Event::Connected { connection }) => {
                let (rep, private_data) = self.reps.remove(&connection).unwrap_or_default();
                let line = Connection {
                    rep,
                    negotiated: live.peer.session(connection).map(|session| *session.negotiated()),
                    ..Connection::established(remote, &private_data)
                };
                listener.line(common::Line::Connection(line))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Reports the outcomes of calls.
    fn deliver(&mut self, listener: &mut impl Listener) -> io::Result<()> {
        while let Some(outcome) = self.replayer.poll_outcome() {
            self.summary.add(&outcome);
            listener.outcome(&outcome, Replayed::new(&outcome, &self.read))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod arguments {
    use super::{Fault, fault, handles};

    #[test]
    fn handle_pairs_are_parsed() {
        assert_eq!(handles("0x01aB=02"), Ok((vec![1, 0xab], vec![2])));
        for wrong in ["", "01", "01=", "0=1", "01=0g", "=01", "é1=01", "+1=01", "01=0x"] {
            assert!(handles(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn faults_are_parsed() {
        assert_eq!(fault("short@12"), Ok((Fault::Short, 12)));
        for wrong in ["", "short", "@1", "short@", "short@-1", "long@1"] {
            assert!(fault(wrong).is_err(), "{wrong}");
        }
    }
}
