//! `rdmascope peer call`: connects to a server and calls NULL, or works on an NFSv3 export.

mod jobs;
#[cfg(feature = "verbs")]
mod verbs;

use super::faults::{FaultArguments, Faults};
use super::lines::{self, Connection, End, Line, print};
use super::live::{Live, SocketArguments, local_address};
use crate::output::{self, Format, Out, Output, Status};
use anyhow::Result;
use clap::Args;
use jobs::{JobArguments, Jobs};
use rdmascope_analysis::time::parse_duration;
use rdmascope_peer::cm::Closed;
use rdmascope_peer::driver::{Ended, Reach};
use rdmascope_peer::endpoint::{self, ConnectionId};
use rdmascope_peer::peer::{Config, Event};
use rdmascope_peer::rpcrdma::{self, OfferLimits, Replied};
use rdmascope_peer::time::Instant;
use rdmascope_present::text::Style;
use rdmascope_wire::Xid;
use rdmascope_wire::cm::Reply;
use rdmascope_wire::rpc::{self, program};
use rdmascope_wire::rpcrdma::NFS_PORT;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// The arguments of `peer call`.
#[derive(Args, Debug)]
pub(super) struct Call {
    /// Server address, and a port if it is not 20049; packets go to this address only
    ///
    /// An IPv6 address with a port is written in brackets, as in a URL.
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = target)]
    to: SocketAddr,
    /// Local address [default: that of the route to the server]
    #[arg(long, value_name = "ADDR")]
    from: Option<IpAddr>,
    /// Program whose NULL procedure is called: nfs, mount, nlm, nfsacl, portmapper, or a number
    #[arg(long, value_name = "PROGRAM", default_value = "nfs", value_parser = program_number)]
    program: u32,
    /// Version of the program
    #[arg(long, value_name = "NUMBER", default_value_t = 3)]
    version: u32,
    /// Number of calls
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    count: u64,
    /// Time between the starts of two calls; each call also waits for the reply to the previous one
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_duration)]
    interval: u64,
    /// Longest wait for the connection, and for each reply
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    timeout: u64,
    /// Read replies from Read chunks of the server, and provide a Reply chunk only if the reply is
    /// certain to need one; the server needs the same option
    ///
    /// The reliable-reply draft describes this. RFC 8166 has no way to negotiate it.
    #[arg(long)]
    reliable_reply: bool,
    #[command(flatten)]
    jobs: JobArguments,
    #[command(flatten)]
    faults: FaultArguments,
    #[command(flatten)]
    pub(super) sockets: SocketArguments,
    #[cfg(feature = "verbs")]
    #[command(flatten)]
    device: super::device::DeviceArguments,
    #[command(flatten)]
    output: Output,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  rdmascope peer call --to 192.0.2.2
  rdmascope peer call --to 192.0.2.2 --version 4 --count 100 --interval 10ms --save null.pcapng
  rdmascope peer call --to [2001:db8::2]:20049 --format jsonl
  rdmascope peer call --to 192.0.2.2 --export /srv --list
  rdmascope peer call --to 192.0.2.2 --export /srv --list --reliable-reply
  rdmascope peer call --to 192.0.2.2 --export /srv --write disk.img --read disk.img --save c.pcapng

docs/peer.md describes the sockets, the privileges that they need, and the output.";

pub(crate) fn target(text: &str) -> Result<SocketAddr, String> {
    let parsed =
        text.parse().or_else(|_| text.parse().map(|address: IpAddr| SocketAddr::new(address, NFS_PORT)));
    parsed.map_err(|_| {
        "expected an IP address with an optional port, such as 192.0.2.2 or [2001:db8::2]:20049; names are not resolved: `getent hosts NAME` \
         prints the addresses of a name"
            .to_owned()
    })
}

/// Parses a file handle from hexadecimal digits, with or without 0x.
pub(super) fn file_handle(text: &str) -> Option<Vec<u8>> {
    hex::decode(text.strip_prefix("0x").unwrap_or(text)).ok().filter(|bytes| !bytes.is_empty())
}

fn program_number(text: &str) -> Result<u32, String> {
    Ok(match text {
        "nfs" => program::NFS,
        "mount" => program::MOUNT,
        "nlm" => program::NLM,
        "nfsacl" => program::NFSACL,
        "portmapper" => program::PORTMAPPER,
        number => number
            .parse()
            .map_err(|_| "expected nfs, mount, nlm, nfsacl, portmapper or a number".to_owned())?,
    })
}

/// Runs the command.
pub(super) fn run(command: &Call, style: Style, out: &mut Out) -> io::Result<Status> {
    #[cfg(feature = "verbs")]
    if let Some(device) = &command.device.verbs {
        return verbs::run(command, device, style, out);
    }
    let opened = command.open();
    let (mut live, local, jobs) = match opened {
        Ok(opened) => opened,
        Err(error) => return output::complain(&error, out),
    };
    let faults = command.faults.begin(live.peer.endpoint_mut());
    let mut caller = Caller { jobs, ..Caller::new(command, style) };
    let result = caller.run(&mut live, local, out)?;
    let end = Line::End(End {
        calls: caller.calls,
        answered: caller.answered,
        counts: Some(live.wire.driver.counts()),
        faults: faults.as_ref().map(Faults::counts),
    });
    let finished = live.finish();
    let finished = match &mut caller.jobs {
        Some(jobs) => finished.and(jobs.finish()),
        None => finished,
    };
    if let Err(error) = result.and(finished) {
        return output::complain(&error, out);
    }
    caller.print(&end, out)?;
    Ok(caller.status())
}

impl Call {
    fn open(&self) -> Result<(Live, IpAddr, Option<Jobs>)> {
        let to = self.to.ip();
        let local = local_address(self.from, to)?;
        let jobs = self.jobs.open(to, Duration::from_nanos(self.timeout))?;
        let mut config = Config::default();
        // A lost REQ is retransmitted after 1.1 s, until the command's own timeout.
        config.endpoint.cm.response_timeout = 18;
        config.session.reliable_reply = self.reliable_reply.then(OfferLimits::default);
        let live = Live::open(&self.sockets, vec![local], Reach::Only(vec![to]), config)?;
        Ok((live, local, jobs))
    }

    /// Builds a call of NULL with AUTH_NONE and no arguments.
    fn message(&self, xid: Xid) -> Vec<u8> {
        let mut message = Vec::new();
        rpc::Call::null(xid, self.program, self.version).build(&mut message);
        message
    }
}

/// The event that the caller waits for.
enum Waits {
    Connection,
    Reply(lines::Call, Instant),
    NextCall,
}

struct Caller<'a> {
    command: &'a Call,
    style: Style,
    /// Work to do instead of calling NULL.
    jobs: Option<Jobs>,
    connection: Option<ConnectionId>,
    started: Instant,
    calls: u64,
    /// Calls answered with SUCCESS.
    good: u64,
    answered: u64,
}

impl Caller<'_> {
    fn new(command: &Call, style: Style) -> Caller<'_> {
        let started = Instant::default();
        Caller { command, style, jobs: None, connection: None, started, calls: 0, good: 0, answered: 0 }
    }

    fn status(&self) -> Status {
        let all = match &self.jobs {
            Some(jobs) => jobs.all_done(),
            None => self.calls > 0 && self.good == self.calls,
        };
        if all { Status::Done } else { Status::Differs }
    }

    fn print(&self, line: &Line, out: &mut Out) -> io::Result<()> {
        print(line, self.command.output.format, self.style, out)
    }

    /// Connects, calls and disconnects. The outer error comes from standard output.
    fn run(&mut self, live: &mut Live, local: IpAddr, out: &mut Out) -> io::Result<Result<()>> {
        let Call { to, timeout, interval, .. } = *self.command;
        let timeout = Duration::from_nanos(timeout);
        let sockets = lines::Sockets { target: Some(to), ..live.sockets(to.port()) };
        self.print(&Line::Sockets(sockets), out)?;
        self.started = live.wire.driver.now();
        let connection = match live.peer.connect(local, to.ip(), to.port()) {
            Ok(connection) => connection,
            Err(error) => return Ok(Err(error.into())),
        };
        self.connection = Some(connection);
        let first_xid = RandomState::new().hash_one(1) as u32;
        let mut rep = (None, Vec::new());
        let mut waits = Waits::Connection;
        let mut deadline = self.started.plus(timeout);
        loop {
            let (ended, events) = match live.turn(Some(deadline)) {
                Ok(turned) => turned,
                Err(error) => return Ok(Err(error.into())),
            };
            let mut call_now = ended == Ended::Deadline && matches!(waits, Waits::NextCall);
            for (now, event) in events {
                match event {
                    Event::Endpoint(endpoint::Event::Replied { reply, private_data, .. }) => {
                        rep = (reply, private_data);
                    }
                    Event::Endpoint(endpoint::Event::Connected { .. }) => {
                        self.connected(live, now, &rep, out)?;
                        call_now = true;
                    }
                    Event::Endpoint(endpoint::Event::Closed { why, .. }) => {
                        if let Waits::Reply(line, _) = waits {
                            self.unanswered(line, "the connection was lost", now, out)?;
                        }
                        self.print(&Line::Connection(Connection::closed(why, to.ip())), out)?;
                        return Ok(Ok(()));
                    }
                    Event::Rpc { event, .. } => {
                        let Waits::Reply(line, sent) = &waits else { continue };
                        let (xid, latency) = (line.xid, nanoseconds(now.since(*sent)));
                        let answer = match &event {
                            rpcrdma::Event::Replied(replied) if replied.xid == xid => Ok(replied),
                            rpcrdma::Event::Error { xid: of, error, .. } if *of == xid => {
                                Err(error.to_string())
                            }
                            // The session accepts no other reply for this XID. A call without a
                            // reply would keep its credit.
                            rpcrdma::Event::Discarded { xid: Some(of), why, .. } if *of == xid => {
                                if let Some((session, endpoint)) = live.peer.session_mut(connection) {
                                    session.cancel(endpoint, xid);
                                }
                                Err(format!("the reply was discarded: {why}"))
                            }
                            // `Closed` follows if the connection is lost.
                            _ => continue,
                        };
                        let failed = answer.as_ref().err().cloned();
                        let pause = if self.jobs.is_some() { 0 } else { interval };
                        deadline = sent.plus(Duration::from_nanos(pause));
                        self.ended(line.clone(), Some(answer), Some(latency), out)?;
                        waits = Waits::NextCall;
                        if let Some(jobs) = &mut self.jobs {
                            jobs.take(&event, failed, now);
                            self.print_jobs(out)?;
                            call_now = true;
                        } else if self.calls == self.command.count {
                            return self.hang_up(live, out);
                        }
                    }
                    _ => {}
                }
            }
            if ended == Ended::Woken {
                return self.hang_up(live, out);
            }
            if call_now {
                let sent = live.wire.driver.now();
                let xid = Xid(first_xid.wrapping_add(self.calls as u32));
                let call = match &mut self.jobs {
                    Some(jobs) => jobs.next(sent),
                    None => Some(rpcrdma::Call::inline(self.command.message(xid))),
                };
                let Some(call) = call else { return self.hang_up(live, out) };
                self.calls += 1;
                let mut line = lines::Call::new(to.ip(), self.calls, call.xid().unwrap_or(xid));
                let parsed = line.called(&call.message);
                debug_assert!(parsed.is_ok(), "a call of this side can be read");
                if let Err(error) = live.peer.call(connection, call) {
                    return Ok(Err(error.into()));
                }
                waits = Waits::Reply(line, sent);
                deadline = sent.plus(timeout);
            } else if ended == Ended::Deadline {
                match waits {
                    Waits::Reply(line, _) => {
                        let now = live.wire.driver.now();
                        self.unanswered(line, "no reply within --timeout", now, out)?;
                    }
                    _ => {
                        let line = Connection::closed(Closed::NoAnswer, to.ip());
                        self.print(&Line::Connection(line), out)?;
                    }
                }
                return self.hang_up(live, out);
            }
        }
    }

    /// Ends a call with a reply, an RDMA_ERROR, or no answer. The text output lists calls of a job
    /// only if they fail.
    fn ended(
        &mut self,
        mut line: lines::Call,
        answer: Option<Result<&Replied, String>>,
        latency_ns: Option<u64>,
        out: &mut Out,
    ) -> io::Result<()> {
        let is_answered = answer.is_some();
        self.answered += u64::from(is_answered);
        line.latency_ns = latency_ns;
        match answer {
            Some(Ok(replied)) => {
                line.credits = Some(replied.credits);
                line.mechanism = Some(replied.conveyance.mechanism);
                match line.replied(&replied.message) {
                    Ok(is_success) => self.good += u64::from(is_success),
                    Err(stop) => line.error = Some(format!("unreadable reply: {stop}")),
                }
            }
            Some(Err(error)) => line.error = Some(error),
            None => {}
        }
        let is_part = self.jobs.is_some() && self.command.output.format == Format::Text;
        if is_part && is_answered && line.error.is_none() {
            Ok(())
        } else {
            self.print(&Line::Call(line), out)
        }
    }

    /// Ends a call that will get no reply.
    fn unanswered(&mut self, line: lines::Call, why: &str, now: Instant, out: &mut Out) -> io::Result<()> {
        self.ended(line, None, None, out)?;
        if let Some(jobs) = &mut self.jobs {
            jobs.fail(why.to_owned(), now);
        }
        self.print_jobs(out)
    }

    /// Prints the jobs that have finished.
    fn print_jobs(&mut self, out: &mut Out) -> io::Result<()> {
        let done = self.jobs.as_mut().map(Jobs::done).unwrap_or_default();
        done.iter().try_for_each(|line| self.print(line, out))
    }

    fn connected(
        &self,
        live: &Live,
        now: Instant,
        (rep, private_data): &(Option<Reply<'static>>, Vec<u8>),
        out: &mut Out,
    ) -> io::Result<()> {
        let session = self.connection.and_then(|connection| live.peer.session(connection));
        let line = Connection {
            elapsed_ns: Some(nanoseconds(now.since(self.started))),
            rep: *rep,
            negotiated: session.map(|session| *session.negotiated()),
            ..Connection::established(self.command.to.ip(), private_data)
        };
        self.print(&Line::Connection(line), out)
    }

    /// Sends the DREQ, or abandons a connection that is not established.
    fn hang_up(&self, live: &mut Live, out: &mut Out) -> io::Result<Result<()>> {
        let happened = match live.hang_up(self.connection.as_slice()) {
            Ok(happened) => happened,
            Err(error) => return Ok(Err(error.into())),
        };
        for event in happened {
            if let Some((_, why)) = rdmascope_peer::peer::Peer::closed(&event) {
                let line = Connection::closed(why.clone(), self.command.to.ip());
                self.print(&Line::Connection(line), out)?;
            }
        }
        Ok(Ok(()))
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
