//! `rdmascope peer serve`: listens for clients and answers their calls.

mod export;
mod recorded;
mod replies;
mod scenarios;

use super::faults::{FaultArguments, Faults};
use super::lines::{self, Connection, End, Line, print};
use super::live::{Live, SocketArguments, Wire};
use super::report::Format;
use crate::confine::Paths;
use crate::output::{self, Out, Status};
use anyhow::{Result, bail};
use clap::Args;
use export::{Export, ExportArguments, Opened};
use rdmascope_analysis::units::Counted;
use rdmascope_peer::driver::{Ended, Reach};
use rdmascope_peer::endpoint::{self, ConnectionId};
use rdmascope_peer::nfs3::refusal;
use rdmascope_peer::peer::{Config, Event};
use rdmascope_peer::rpcrdma::{self, Called, Discard, Reply, Sent};
use rdmascope_peer::time::Instant;
use rdmascope_present::text::Style;
use rdmascope_wire::rpc::{self, program};
use rdmascope_wire::rpcrdma::NFS_PORT;
use rdmascope_wire::xdr::Reader;
use rdmascope_wire::{Layer, Xid};
use recorded::Recorded;
use replies::ReplyArguments;
use scenarios::{ScenarioArguments, Scenarios};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// NFS versions with a NULL procedure that is answered.
const VERSIONS: core::ops::RangeInclusive<u32> = 3..=4;

/// Reported if a reply did not fit.
const TOO_LONG: &str = "ERR_CHUNK: the reply does not fit the chunks of its call";

/// The arguments of `peer serve`.
#[derive(Args, Debug)]
pub(super) struct Serve {
    /// Local address to listen on; repeat it for several addresses
    ///
    /// Any client that reaches this address can connect. Without this option the command lists the
    /// addresses of this host and exits.
    #[arg(long, value_name = "ADDR")]
    bind: Vec<IpAddr>,
    /// Port of the RDMA connection manager to listen on
    #[arg(long, value_name = "PORT", default_value_t = NFS_PORT)]
    port: u16,
    /// Answer as the server in this capture did
    ///
    /// A call that equals a recorded one, apart from its XID and credential, gets the recorded
    /// reply. Any other call gets SYSTEM_ERR.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Reject a capture whose calls and replies hold more bytes than this: 512M, 4G
    #[arg(long, value_name = "SIZE", default_value = "1G", value_parser = crate::extract::parse_size, requires = "from")]
    memory: u64,
    #[command(flatten)]
    export: ExportArguments,
    #[command(flatten)]
    replies: ReplyArguments,
    #[command(flatten)]
    scenarios: ScenarioArguments,
    #[command(flatten)]
    faults: FaultArguments,
    #[command(flatten)]
    pub(super) sockets: SocketArguments,
    /// Output format: text, or JSON Lines for programs; with --scenario also JUnit XML for CI
    /// systems, or an HTML page
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  rdmascope peer serve --bind 192.0.2.1
  rdmascope peer serve --bind 192.0.2.1 --save clients.pcapng
  rdmascope peer serve --bind 192.0.2.1 --export memory
  mount -t nfs -o vers=3,proto=rdma,port=20049,mountport=20048,mountproto=tcp,nolock \\
    192.0.2.1:/export /mnt
  rdmascope peer serve --bind 127.0.0.2 --socket udp --format jsonl
  rdmascope peer serve --from mount.pcap --bind 192.0.2.1
  rdmascope peer serve --bind 192.0.2.1 --export memory --reliable-reply
  rdmascope peer serve --bind 192.0.2.1 --export memory --scenario reply-version-2 reply-twice
  rdmascope peer serve --bind 192.0.2.1 --export memory --scenario all --until-judged > report";

/// Runs the command.
pub(super) fn run(command: &Serve, style: Style, out: &mut Out) -> io::Result<Status> {
    let opened = command.scenarios.begin(command.format);
    let opened = opened.and_then(|scenarios| Ok((command.open()?, scenarios)));
    let ((wire, export), scenarios) = match opened {
        Ok(opened) => opened,
        Err(error) => return output::complain(&error, out),
    };
    // From here on the process reads packets of untrusted hosts, from the network or the capture.
    let recorded =
        match command.from.as_ref().map(|path| Recorded::read(path, command.memory, out)).transpose()? {
            Some(Err(status)) => return Ok(status),
            recorded => recorded.and_then(Result::ok),
        };
    let (mut live, export) = match command.start(wire, export, recorded.as_ref()) {
        Ok(started) => started,
        Err(error) => return output::complain(&error, out),
    };
    let faults = command.faults.begin(live.peer.endpoint_mut());
    let mut server = Server {
        command,
        style,
        recorded,
        export,
        scenarios,
        clients: BTreeMap::new(),
        calls: 0,
        answered: 0,
    };
    let served = server.serve(&mut live, out)?;
    for file in server.export.iter().flat_map(Export::changed) {
        server.print(&Line::File(file), out)?;
    }
    let end = Line::End(End {
        calls: server.calls,
        answered: server.answered,
        counts: Some(live.wire.driver.counts()),
        faults: faults.as_ref().map(Faults::counts),
    });
    let finished = live.finish();
    if let Err(error) = served.and(finished) {
        return output::complain(&error, out);
    }
    let is_violation = match server.scenarios.take() {
        Some(scenarios) => scenarios.finish(out)?,
        None => false,
    };
    server.print(&end, out)?;
    Ok(if is_violation { Status::Differs } else { Status::Done })
}

impl Serve {
    /// Opens all sockets, then drops every capability and the access to other files and new
    /// sockets.
    fn open(&self) -> Result<(Wire, Option<Opened>)> {
        if self.bind.is_empty() {
            bail!("add --bind ADDR, the address that clients connect to: {}", own_addresses());
        }
        self.replies.check()?;
        let export = self.export.open(&self.bind)?;
        let mut wire = Wire::open(&self.sockets, self.bind.clone(), Reach::Senders)?;
        let mut paths = Paths::default();
        paths.read(&self.from);
        self.sockets.add_to(&mut paths);
        paths.confine_server()?;
        // Created without root's capabilities: a file that cannot get its name fails now.
        wire.save(&self.sockets)?;
        Ok((wire, export))
    }

    /// Starts the threads and the peer.
    fn start(
        &self,
        mut wire: Wire,
        export: Option<Opened>,
        recorded: Option<&Recorded>,
    ) -> Result<(Live, Option<Export>)> {
        if self.format == Format::Html {
            wire.keep();
        }
        let export = export.map(|export| export.start(&self.export, self.port)).transpose()?;
        let mut config = recorded.map_or_else(Config::default, Recorded::config);
        self.replies.apply(&mut config.session);
        let mut live = Live::new(wire, config);
        // The first port of this end, so there is room for it.
        live.peer.listen(self.port);
        Ok((live, export))
    }
}

/// Lists the addresses of this host from /proc, without link-local IPv6 addresses.
fn own_addresses() -> String {
    // A kernel without IPv6 has no such file.
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let mut found = ipv4_addresses(&read("/proc/net/fib_trie"));
    found.extend(ipv6_addresses(&read("/proc/net/if_inet6")));
    found.sort();
    found.dedup();
    if found.is_empty() {
        return "this host has no address yet (`ip address add`, `ip link set DEVICE up`)".to_owned();
    }
    let addresses: Vec<String> = found.iter().map(ToString::to_string).collect();
    format!("this host has {}", addresses.join(", "))
}

/// Parses the routing tables: an address line followed by `/32 host LOCAL`.
fn ipv4_addresses(tries: &str) -> Vec<IpAddr> {
    let pairs = tries.lines().zip(tries.lines().skip(1));
    let local = pairs.filter(|(_, following)| following.trim() == "/32 host LOCAL");
    local
        .filter_map(|(line, _)| line.trim().strip_prefix("|-- ")?.parse::<Ipv4Addr>().ok())
        .map(IpAddr::V4)
        .collect()
}

/// Parses one line per address: 32 digits, interface, prefix, scope, flags, name.
fn ipv6_addresses(lines: &str) -> Vec<IpAddr> {
    /// Flags of an address that is a duplicate, or not yet checked for duplicates (if_addr.h).
    const DAD_FAILED_OR_TENTATIVE: u8 = 0x48;
    let address = |line: &str| {
        let mut fields = line.split_whitespace();
        let address = Ipv6Addr::from_bits(u128::from_str_radix(fields.next()?, 16).ok()?);
        let flags = u8::from_str_radix(fields.nth(3)?, 16).ok()?;
        let usable = flags & DAD_FAILED_OR_TENTATIVE == 0 && !address.is_unicast_link_local();
        usable.then_some(IpAddr::V6(address))
    };
    lines.lines().filter_map(address).collect()
}

/// A connection and its client.
struct Client {
    remote: IpAddr,
    private_data: Vec<u8>,
    requested_at: Instant,
}

struct Server<'a> {
    command: &'a Serve,
    style: Style,
    /// The source of the replies: a capture, an export, or neither.
    recorded: Option<Recorded>,
    export: Option<Export>,
    /// The scenarios that run against clients.
    scenarios: Option<Scenarios>,
    /// Bounded by the connections of the endpoint.
    clients: BTreeMap<ConnectionId, Client>,
    calls: u64,
    answered: u64,
}

impl Server<'_> {
    fn print(&self, line: &Line, out: &mut Out) -> io::Result<()> {
        match self.command.format.line_format() {
            Some(format) => print(line, format, self.style, out),
            None => Ok(()),
        }
    }

    /// Serves until Ctrl-C. The outer error comes from standard output.
    fn serve(&mut self, live: &mut Live, out: &mut Out) -> io::Result<Result<()>> {
        let serves = match (&self.recorded, &self.export) {
            (Some(recorded), _) => format!("answers {} calls as recorded", recorded.calls()),
            (_, Some(_)) => "serves NFSv3".to_owned(),
            _ => "serves NULL of NFSv3 and NFSv4".to_owned(),
        };
        let serves = match &self.scenarios {
            Some(scenarios) => format!("{serves}, with {}", Counted(scenarios.count() as u64, "scenario")),
            None => serves,
        };
        let sockets = lines::Sockets { serves: Some(serves), ..live.sockets(self.command.port) };
        self.print(&Line::Sockets(sockets), out)?;
        if let Some(export) = &self.export {
            self.print(&Line::Export(export.line()), out)?;
        }
        loop {
            if self.advance_scenarios(live, out)? {
                break;
            }
            let deadline = self.scenarios.as_ref().and_then(Scenarios::next_deadline);
            let (ended, events) = match live.turn(deadline) {
                Ok(turned) => turned,
                Err(error) => return Ok(Err(error.into())),
            };
            if let Some(scenarios) = &mut self.scenarios {
                scenarios.see(&live.wire.take_kept());
            }
            for (now, event) in events {
                self.take(live, now, event, out)?;
            }
            if ended == Ended::Woken {
                break;
            }
        }
        let connections: Vec<ConnectionId> = self.clients.keys().copied().collect();
        match live.hang_up(&connections) {
            Ok(happened) => {
                for event in happened {
                    let now = live.wire.driver.now();
                    self.take(live, now, event, out)?;
                }
                Ok(Ok(()))
            }
            Err(error) => Ok(Err(error.into())),
        }
    }

    /// Advances the scenarios. Returns whether all are over and the server should end.
    fn advance_scenarios(&mut self, live: &mut Live, out: &mut Out) -> io::Result<bool> {
        let Some(scenarios) = &mut self.scenarios else { return Ok(false) };
        let now = live.wire.driver.now();
        let has_clients = !self.clients.is_empty();
        scenarios.advance(&mut live.peer, now, has_clients, out)
    }

    fn take(&mut self, live: &mut Live, now: Instant, event: Event, out: &mut Out) -> io::Result<()> {
        if let Some(scenarios) = &mut self.scenarios {
            scenarios.handle(&live.peer, &event);
        }
        self.answer_as_recorded(live, &event, out)?;
        match event {
            Event::Endpoint(endpoint::Event::Requested { connection, remote, private_data, .. }) => {
                self.clients.insert(connection, Client { remote, private_data, requested_at: now });
            }
            Event::Endpoint(endpoint::Event::Connected { connection }) => {
                let Some(client) = self.clients.get(&connection) else { return Ok(()) };
                let line = Connection {
                    elapsed_ns: u64::try_from(now.since(client.requested_at).as_nanos()).ok(),
                    negotiated: live.peer.session(connection).map(|session| *session.negotiated()),
                    ..Connection::established(client.remote, &client.private_data)
                };
                self.print(&Line::Connection(line), out)?;
            }
            Event::Endpoint(endpoint::Event::Closed { connection, why }) => {
                let Some(client) = self.clients.remove(&connection) else { return Ok(()) };
                self.print(&Line::Connection(Connection::closed(why, client.remote)), out)?;
            }
            Event::Rpc { connection, event: rpcrdma::Event::Called(called) } if self.recorded.is_none() => {
                self.answer(live, now, connection, &called, out)?;
            }
            // The server's own answers are reported in the lines of their calls.
            Event::Rpc { connection, event: rpcrdma::Event::Refused { xid, error, why } }
                if why != Discard::ReplyTooLong =>
            {
                let mut line = self.call_line(connection, xid);
                line.error = Some(format!("{error}: {why}"));
                self.print(&Line::Call(line), out)?;
            }
            Event::Rpc { connection, event: rpcrdma::Event::Freed { xid, bytes, offered_for, why } } => {
                let is_shown = self.command.format == Format::Jsonl || !why.is_regular();
                let remote = self.clients.get(&connection).map(|client| client.remote);
                if let Some(remote) = remote.filter(|_| is_shown) {
                    let offered_ns = u64::try_from(offered_for.as_nanos()).unwrap_or(u64::MAX);
                    let chunk = lines::Chunk { remote, xid, bytes, offered_ns, freed: why };
                    self.print(&Line::Chunk(chunk), out)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Answers from the capture, if there is one.
    fn answer_as_recorded(&mut self, live: &mut Live, event: &Event, out: &mut Out) -> io::Result<()> {
        let Some(recorded) = &mut self.recorded else { return Ok(()) };
        let answers = recorded.handle(&mut live.peer, event);
        let results: Vec<_> = answers.iter().map(|answered| recorded.status(answered)).collect();
        for (answered, result) in answers.into_iter().zip(results) {
            let mut line = self.call_line(answered.connection, answered.xid);
            line.called = answered.called;
            self.answered += u64::from(result.is_ok());
            match result {
                Ok(status) => line.rpc_status = Some(status),
                Err(error) => line.error = Some(error),
            }
            self.print(&Line::Call(line), out)?;
        }
        Ok(())
    }

    fn call_line(&mut self, connection: ConnectionId, xid: Xid) -> lines::Call {
        self.calls += 1;
        let client = self.clients.get(&connection);
        let remote = client.map_or(Ipv4Addr::UNSPECIFIED.into(), |client| client.remote);
        lines::Call::new(remote, self.calls, xid)
    }

    fn answer(
        &mut self,
        live: &mut Live,
        now: Instant,
        connection: ConnectionId,
        called: &Called,
        out: &mut Out,
    ) -> io::Result<()> {
        let mut line = self.call_line(connection, called.xid);
        line.credits = Some(called.credits);
        let reply = match &mut self.export {
            Some(export) => export.call(&called.message),
            None => null(&called.message),
        };
        match (line.called(&called.message), reply) {
            (Ok(()), Some(reply)) => {
                let parsed = line.replied(&reply.message);
                debug_assert!(parsed.is_ok(), "a reply of this side can be read");
                let name = self.scenarios.as_ref().and_then(Scenarios::name).unwrap_or_default().to_owned();
                let sent = match &mut self.scenarios {
                    Some(scenarios) => scenarios.answer(&mut live.peer, now, connection, called, reply),
                    None => live.peer.reply(connection, called.xid, reply).map(Some),
                };
                if let Ok(Some(Sent::Reply(mechanism))) = &sent {
                    line.mechanism = Some(*mechanism);
                }
                let error = match sent {
                    Ok(Some(Sent::Reply(_))) => None,
                    Ok(Some(Sent::ErrorChunk)) => Some(TOO_LONG.to_owned()),
                    Ok(None) => Some(format!("answered by scenario {name}")),
                    // The connection may be closed by now.
                    Err(error) => Some(format!("could not send a reply: {error}")),
                };
                self.answered += u64::from(error.is_none());
                if error.is_some() {
                    (line.rpc_status, line.nfs_status, line.error) = (None, None, error);
                }
            }
            (parsed, _) => {
                // RFC 5531 defines no answer to a message that is not a call.
                if let Some((session, _)) = live.peer.session_mut(connection) {
                    session.forget(called.xid);
                }
                line.error = parsed.err().map(|stop| format!("not answered: {stop}"));
            }
        }
        self.print(&Line::Call(line), out)
    }
}

/// Answers a call without an export. Returns `None` if its RPC header cannot be read.
fn null(message: &[u8]) -> Option<Reply> {
    let call = rpc::Call::parse(&mut Reader::new(message, Layer::Rpc)).ok()?;
    let mut reply = Vec::new();
    rpc::Reply { xid: call.xid, status: status(&call), verifier: None }.build(&mut reply);
    Some(Reply::inline(reply))
}

/// Returns the status of the answer to a call without an export.
fn status(call: &rpc::Call<'_>) -> rpc::Status {
    match refusal(call, &[(program::NFS, VERSIONS)]) {
        Some(status) => status,
        None if call.procedure != 0 => rpc::Status::ProcedureUnavailable,
        None => rpc::Status::Success,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_wire::rpc::Auth;

    #[test]
    fn host_addresses_are_parsed_from_kernel_tables() {
        let tries = "Main:\n  +-- 0.0.0.0/0 3 0 5\n     |-- 0.0.0.0\n        /0 universe UNICAST\n     |-- 192.0.2.0\n        /24 link UNICAST\n\
                     Local:\n        |-- 192.0.2.7\n           /32 host LOCAL\n        |-- 192.0.2.255\n           /32 link BROADCAST\n";
        assert_eq!(ipv4_addresses(tries), ["192.0.2.7".parse::<IpAddr>().unwrap()]);
        let lines = "00000000000000000000000000000001 01 80 10 80       lo\n\
                     fe800000000000000042acfffe110002 02 40 20 80     eth0\n\
                     20010db8000000000000000000000002 02 40 00 80     eth0\n\
                     20010db8000000000000000000000003 02 40 00 c8     eth0\n";
        let expected = ["::1", "2001:db8::2"].map(|address| address.parse::<IpAddr>().unwrap());
        assert_eq!(ipv6_addresses(lines), expected);
        assert!(ipv4_addresses("").is_empty() && ipv6_addresses("no such line").is_empty());
    }

    #[test]
    fn unserved_calls_get_the_specified_status() {
        let null = rpc::Call::null(Xid(1), 100_003, 3);
        assert_eq!(status(&null), rpc::Status::Success);
        assert_eq!(status(&rpc::Call { version: 4, ..null }), rpc::Status::Success);
        let refused = [
            (rpc::Call { rpc_version: 3, ..null }, rpc::Status::RpcMismatch { low: 2, high: 2 }),
            (rpc::Call { credential: Auth { flavor: 7, body: &[] }, ..null }, rpc::Status::AuthError(1)),
            (rpc::Call { program: 100_005, ..null }, rpc::Status::ProgramUnavailable),
            (rpc::Call { version: 2, ..null }, rpc::Status::ProgramMismatch { low: 3, high: 4 }),
            (rpc::Call { procedure: 1, ..null }, rpc::Status::ProcedureUnavailable),
        ];
        for (call, expected) in refused {
            assert_eq!(status(&call), expected);
        }
    }
}
