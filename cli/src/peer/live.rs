//! An end on its sockets, and the file for `--save`.

use super::lines::{Sockets, sockets_name};
use super::report::Crossing;
use crate::atomic_file::OutputFile;
use crate::confine::Paths;
use crate::interrupt;
use crate::mode::NewFiles;
use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use rdmascope_capture_agent::PcapngWriter;
use rdmascope_dissector::record::{LinkType, Record, Tap, Time};
use rdmascope_peer::cm::State;
use rdmascope_peer::driver::{Crossed, Driver, Ended, Error, Kind, Reach, route};
use rdmascope_peer::endpoint::ConnectionId;
use rdmascope_peer::peer::{Config, Event, Peer};
use rdmascope_peer::time::Instant;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Most packets kept for one scenario. None is longer than an MTU.
const MOST_KEPT: usize = 1 << 14;
/// Longest wait for the answer to a DREQ.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Args, Debug, Default)]
pub(super) struct SocketArguments {
    /// Kind of sockets: raw sockets verify every ICRC and need CAP_NET_RAW; UDP sockets need no
    /// privileges
    #[arg(long, value_enum, default_value_t = Choice::Auto, value_name = "KIND")]
    socket: Choice,
    /// Write all packets sent and received to this pcapng file
    ///
    /// The file appears when the command ends. Packets begin with their IP header.
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,
    #[command(flatten)]
    pub(super) new_files: NewFiles,
}

impl SocketArguments {
    /// Adds the file of `--save` to the paths.
    pub(super) fn add_to(&self, paths: &mut Paths) {
        if let Some(save) = &self.save {
            paths.write(save);
        }
    }
}

#[derive(ValueEnum, Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Choice {
    /// Raw sockets if they are permitted, otherwise UDP sockets
    #[default]
    Auto,
    /// Raw sockets
    Raw,
    /// UDP sockets
    Udp,
}

/// The recorder's output.
#[derive(Default)]
struct Seen {
    file: Option<PcapngWriter<OutputFile>>,
    /// The error that ended the file.
    error: Option<io::Error>,
    packets: u64,
    /// The packets kept since they were last taken, at most `MOST_KEPT`; `None` if none are kept.
    kept: Option<Vec<Crossing>>,
}

impl Seen {
    fn take(&mut self, crossed: &Crossed<'_>) {
        let time = Time(i64::try_from(crossed.time).unwrap_or(i64::MAX));
        if let Some(kept) = self.kept.as_mut().filter(|kept| kept.len() < MOST_KEPT) {
            kept.push(Crossing { time, bytes: crossed.packet.to_vec() });
        }
        let Some(file) = &mut self.file else { return };
        self.packets += 1;
        let record = Record {
            number: self.packets,
            time,
            link: LinkType::RAW,
            original_length: u32::try_from(crossed.packet.len()).unwrap_or(u32::MAX),
            dropped: 0,
            tap: Tap::default(),
            data: crossed.packet,
        };
        if let Err(error) = file.packet(&record, "") {
            self.error = Some(error);
            self.file = None;
        }
    }
}

/// Returns the local address for `to`: `from`, or the source address of the route.
pub(super) fn local_address(from: Option<IpAddr>, to: IpAddr) -> Result<IpAddr> {
    let local = match from {
        Some(local) if local.is_ipv4() != to.is_ipv4() => {
            bail!("--from {local} and --to {to} differ in IP version");
        }
        Some(local) => local,
        None => route(to)?,
    };
    if local == to {
        bail!("{to} is an address of this host: set another local address with --from");
    }
    Ok(local)
}

/// The sockets and the file.
pub(super) struct Wire {
    pub(super) driver: Driver,
    kind: Kind,
    raw_refused: bool,
    locals: Vec<IpAddr>,
    seen: Arc<Mutex<Seen>>,
    save: Option<PathBuf>,
}

/// A peer on its sockets.
pub(super) struct Live {
    pub(super) wire: Wire,
    pub(super) peer: Peer,
}

impl Wire {
    /// Opens the sockets. Ctrl-C wakes the driver from here on. Nothing is [saved](Wire::save) yet.
    pub(super) fn open(arguments: &SocketArguments, locals: Vec<IpAddr>, reach: Reach) -> Result<Wire> {
        let first = if arguments.socket == Choice::Udp { Kind::Udp } else { Kind::Raw };
        let opened = match Driver::open(first, &locals, reach.clone()) {
            Err(Error::NotPermitted { .. }) if arguments.socket == Choice::Auto => {
                Driver::open(Kind::Udp, &locals, reach).map(|driver| (driver, Kind::Udp))
            }
            opened => opened.map(|driver| (driver, first)),
        };
        let (mut driver, kind) = opened?;
        let seen = Arc::new(Mutex::new(Seen::default()));
        let recorder = Arc::clone(&seen);
        driver.record(Some(Box::new(move |crossed| {
            recorder.lock().unwrap_or_else(PoisonError::into_inner).take(crossed);
        })));
        interrupt::wake_once(driver.waker());
        Ok(Wire { driver, kind, raw_refused: kind != first, locals, seen, save: None })
    }

    /// Saves packets from now on if `--save` names a file.
    pub(super) fn save(&mut self, arguments: &SocketArguments) -> Result<()> {
        let Some(path) = &arguments.save else { return Ok(()) };
        let file = create(path).with_context(|| cannot_write(path))?;
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).file = Some(file);
        self.save = Some(path.clone());
        Ok(())
    }

    /// Returns the GUID of an end on these sockets.
    pub(super) fn guid(&self) -> u64 {
        guid(self.locals.first())
    }

    /// Keeps packets from now on.
    pub(super) fn keep(&mut self) {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).kept = Some(Vec::new());
    }

    /// Takes the packets kept since the last call.
    pub(super) fn take_kept(&mut self) -> Vec<Crossing> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.kept.as_mut().map(core::mem::take).unwrap_or_default()
    }

    /// Passes the packets kept since the last [`take_kept`](Wire::take_kept) to `look`.
    pub(super) fn look_at_kept<T>(&self, look: impl FnOnce(&[Crossing]) -> T) -> T {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        look(seen.kept.as_deref().unwrap_or_default())
    }

    /// Completes the file.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.driver.record(None);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(path) = &self.save else { return Ok(()) };
        if let Some(error) = seen.error.take() {
            return Err(error).with_context(|| cannot_write(path));
        }
        match seen.file.take() {
            Some(file) => file.finish().and_then(OutputFile::finish).with_context(|| cannot_write(path)),
            None => Ok(()),
        }
    }
}

impl Live {
    /// Opens the sockets. Ctrl-C ends [`turn`](Live::turn) from here on.
    pub(super) fn open(
        arguments: &SocketArguments,
        locals: Vec<IpAddr>,
        reach: Reach,
        config: Config,
    ) -> Result<Live> {
        let mut wire = Wire::open(arguments, locals, reach)?;
        wire.save(arguments)?;
        Ok(Live::new(wire, config))
    }

    /// Creates a peer on these sockets.
    pub(super) fn new(wire: Wire, mut config: Config) -> Live {
        config.endpoint.guid = wire.guid();
        // Queue pair numbers, PSNs and keys differ between runs.
        let peer = Peer::new(config, RandomState::new().hash_one(0));
        Live { wire, peer }
    }

    /// Returns the output line about the sockets.
    pub(super) fn sockets(&self, port: u16) -> Sockets {
        Sockets {
            sockets: sockets_name(self.wire.kind),
            device: None,
            raw_refused: self.wire.raw_refused,
            local: self.wire.locals.clone(),
            target: None,
            port,
            serves: None,
        }
    }

    /// Runs until an event, the deadline or Ctrl-C. Returns the events with their times.
    pub(super) fn turn(&mut self, until: Option<Instant>) -> Result<(Ended, Vec<(Instant, Event)>), Error> {
        let mut events = Vec::new();
        let ended = self.wire.driver.run(&mut self.peer, until, |peer, now| {
            events.extend(core::iter::from_fn(|| peer.poll_event()).map(|event| (now, event)));
            !events.is_empty()
        })?;
        Ok((ended, events))
    }

    /// Disconnects, and waits briefly for each connection to close. Returns the events until then.
    pub(super) fn hang_up(&mut self, connections: &[ConnectionId]) -> Result<Vec<Event>, Error> {
        let until = self.wire.driver.now().plus(PATIENCE);
        let mut open = disconnect(&mut self.peer, connections);
        // A closed connection may still have packets to send and an event to report.
        let (_, events) = self.turn(Some(self.wire.driver.now()))?;
        let mut happened: Vec<Event> = events.into_iter().map(|(_, event)| event).collect();
        let closed = |event: &Event| Peer::closed(event).map(|(connection, _)| connection);
        open.retain(|connection| !happened.iter().any(|event| closed(event) == Some(*connection)));
        while !open.is_empty() {
            let (ended, events) = self.turn(Some(until))?;
            for (_, event) in events {
                if let Some((closed, _)) = Peer::closed(&event) {
                    open.retain(|connection| *connection != closed);
                }
                happened.push(event);
            }
            if ended != Ended::Done {
                break;
            }
        }
        Ok(happened)
    }

    /// Completes the file.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.wire.finish()
    }
}

/// Disconnects. Returns the connections that will still report their end.
fn disconnect(peer: &mut Peer, connections: &[ConnectionId]) -> Vec<ConnectionId> {
    let mut open = connections.to_vec();
    // A connection in TimeWait has reported its end. An unknown connection returns an error.
    open.retain(|connection| {
        peer.endpoint().state(*connection) != Some(State::TimeWait) && peer.disconnect(*connection).is_ok()
    });
    open
}

fn create(path: &Path) -> Result<PcapngWriter<OutputFile>> {
    let file = OutputFile::create(path, &[], "--save")?;
    Ok(PcapngWriter::new(file, concat!("rdmascope ", env!("CARGO_PKG_VERSION")))?)
}

fn cannot_write(path: &Path) -> String {
    format!("{}: cannot be written", path.display())
}

/// Returns a GUID that depends on the local address alone: remote sides use it to distinguish
/// hosts.
fn guid(local: Option<&IpAddr>) -> u64 {
    // The local bit, as in an IPv6 interface identifier (RFC 4291, appendix A).
    const LOCAL: u64 = 0x0200_0000_0000_0000;
    match local {
        Some(IpAddr::V4(address)) => LOCAL | u64::from(address.to_bits()),
        Some(IpAddr::V6(address)) => LOCAL | address.to_bits() as u64,
        None => LOCAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_peer::pair::Pair;

    #[test]
    fn disconnect_skips_closed_connections() {
        let peer = |seed| Peer::new(Config::default(), seed);
        let mut pair = Pair::new(peer(1), peer(2), 3);
        assert!(pair.b.listen(20049));
        let connect = |pair: &mut Pair<Peer>| pair.a.connect(pair.address_a, pair.address_b, 20049);
        let [closed, open] = [(); 2].map(|()| connect(&mut pair).expect("there is room"));
        let run_until = |pair: &mut Pair<Peer>, connection, state| {
            while pair.a.endpoint().state(connection) != Some(state) {
                assert!(pair.step(), "{connection:?} never gets to {state:?}");
            }
        };
        run_until(&mut pair, closed, State::Established);
        run_until(&mut pair, open, State::Established);
        pair.a.disconnect(closed).expect("it is open");
        run_until(&mut pair, closed, State::TimeWait);
        assert_eq!(disconnect(&mut pair.a, &[closed, open]), [open]);
        assert_eq!(pair.a.endpoint().state(open), Some(State::DisconnectSent));
    }
}
