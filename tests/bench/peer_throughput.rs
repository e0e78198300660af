//! Two peers over the loopback interface: calls per second, Write and Read throughput, CPU time per
//! packet.
//!
//! `cargo run --profile dist -p rdmascope-tests --bin peer_throughput [SECONDS]` prints a table.
//! Each peer has its own thread and driver, with raw sockets if permitted and with UDP sockets; the
//! path MTU is 4096. CPU time is that of both threads as counted by Linux, including the kernel's
//! network stack, divided by the packets that an end sent and received.

#[cfg(target_os = "linux")]
mod linux {
    use rdmascope_peer::driver::{Counts, Driver, Error, Kind, Reach};
    use rdmascope_peer::endpoint::{self, ConnectionId};
    use rdmascope_peer::memory::Access;
    use rdmascope_peer::peer::{Config, Event, Peer};
    use rdmascope_peer::rc::{self, Operation, QueueEvent};
    use rdmascope_peer::rpcrdma::{self, Call, Reply};
    use rdmascope_wire::rpc;
    use rdmascope_wire::{Rkey, Xid};
    use std::net::{IpAddr, Ipv4Addr};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::thread;
    use std::time::{Duration, Instant};

    const PORT: u16 = 20049;
    /// The bytes of one Write or Read: the largest segment of a Linux client.
    const OPERATION: usize = 1 << 20;
    /// The number of outstanding operations.
    const DEPTH: usize = 4;

    /// The operation that the active end repeats.
    #[derive(Clone, Copy)]
    enum Load {
        /// NULL calls, this many outstanding.
        Null(usize),
        Write,
        Read,
    }

    /// The result for a load.
    struct Measured {
        seconds: f64,
        /// The number of calls or operations.
        done: u64,
        retransmissions: u64,
        active: End,
        passive: End,
    }

    struct End {
        counts: Counts,
        /// CPU time in nanoseconds.
        busy: u64,
    }

    impl End {
        fn packet(&self) -> f64 {
            let Counts { sent, good, unverified, bad, .. } = self.counts;
            self.busy as f64 / (sent + good + unverified + bad) as f64 / 1e3
        }
    }

    /// The CPU time of this thread, in nanoseconds.
    fn busy() -> u64 {
        let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        statistics.split_whitespace().next().and_then(|time| time.parse().ok()).unwrap_or_default()
    }

    fn peer(seed: u64) -> Peer {
        // If both threads share a slow processor, a turn of the other one takes longer than the
        // default timeout.
        let timeout = Some(Duration::from_secs(1));
        let queue = rc::Config { path_mtu: 4096, timeout, ..rc::Config::default() };
        let endpoint = endpoint::Config { queue, ..endpoint::Config::default() };
        Peer::new(Config { endpoint, ..Config::default() }, seed)
    }

    fn null(xid: u32) -> Vec<u8> {
        let mut message = Vec::new();
        rpc::Call::null(Xid(xid), 100_003, 3).build(&mut message);
        message
    }

    /// The reply to NULL: accepted, no verifier, SUCCESS.
    fn answer(xid: Xid) -> Vec<u8> {
        [xid.0, 1, 0, 0, 0, 0].iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// Answers NULL until the connection is closed. Sends the location of its memory when the
    /// connection is open.
    fn serve(mut driver: Driver, location: &Sender<(Rkey, u64)>) -> End {
        let (mut peer, before) = (peer(2), busy());
        assert!(peer.listen(PORT));
        driver
            .run(&mut peer, None, |peer, _| {
                while let Some(event) = peer.poll_event() {
                    match event {
                        Event::Endpoint(endpoint::Event::Connected { connection }) => {
                            let access = Access { remote_read: true, remote_write: true };
                            let memory = peer.endpoint_mut().register(connection, vec![7; OPERATION], access);
                            location
                                .send(memory.expect("memory can be registered"))
                                .expect("the other end waits");
                        }
                        Event::Rpc { connection, event: rpcrdma::Event::Called(called) } => {
                            let reply = Reply { message: answer(called.xid), reduce: vec![], edit: None };
                            peer.reply(connection, called.xid, reply).expect("the call is outstanding");
                        }
                        Event::Endpoint(endpoint::Event::Closed { .. }) => return true,
                        _ => {}
                    }
                }
                false
            })
            .expect("the sockets work");
        End { counts: driver.counts(), busy: busy() - before }
    }

    /// Keeps up the load for `time`, then disconnects.
    fn drive(
        mut driver: Driver,
        local: IpAddr,
        to: IpAddr,
        load: Load,
        time: Duration,
        memory: &Receiver<(Rkey, u64)>,
    ) -> Measured {
        let (mut peer, before) = (peer(1), busy());
        let connection = peer.connect(local, to, PORT).expect("a connection is available");
        let (mut began, mut ended) = (None::<Instant>, None::<f64>);
        let (mut done, mut retransmissions, mut next) = (0, 0, 0);
        let mut place = (Rkey(0), 0);
        driver
            .run(&mut peer, None, |peer, _| {
                let mut again = 0;
                while let Some(event) = peer.poll_event() {
                    match event {
                        Event::Endpoint(endpoint::Event::Connected { .. }) => {
                            place = memory.recv().expect("the other end sends it");
                            began = Some(Instant::now());
                            again = if let Load::Null(depth) = load { depth } else { DEPTH };
                        }
                        Event::Rpc { event: rpcrdma::Event::Replied(_), .. } => again += 1,
                        Event::Rpc { event, .. } => panic!("{event:?}"),
                        Event::Endpoint(endpoint::Event::Closed { why, .. }) => {
                            assert!(ended.is_some(), "{why:?}");
                            return true;
                        }
                        Event::Endpoint(endpoint::Event::Queue { event, .. }) => match event {
                            QueueEvent::Completed { outcome, .. } if !matches!(load, Load::Null(_)) => {
                                assert!(outcome.is_ok() || ended.is_some(), "{outcome:?}");
                                again += 1;
                            }
                            QueueEvent::Retransmission { .. } => retransmissions += 1,
                            _ => {}
                        },
                        Event::Endpoint(_) => {}
                    }
                }
                let Some(since) = began.map(|began| began.elapsed()) else { return false };
                if ended.is_none() {
                    if next > 0 {
                        done += again as u64;
                    }
                    if since >= time {
                        ended = Some(since.as_secs_f64());
                        peer.disconnect(connection).expect("the connection is open");
                    } else {
                        (0..again).for_each(|_| post(peer, connection, load, &mut next, place));
                    }
                }
                false
            })
            .expect("the sockets work");
        let active = End { counts: driver.counts(), busy: busy() - before };
        let passive = End { counts: Counts::default(), busy: 0 };
        Measured { seconds: ended.unwrap_or_default(), done, retransmissions, active, passive }
    }

    fn post(
        peer: &mut Peer,
        connection: ConnectionId,
        load: Load,
        next: &mut u32,
        (rkey, address): (Rkey, u64),
    ) {
        *next += 1;
        let operation = match load {
            Load::Null(_) => {
                peer.call(connection, Call::inline(null(*next))).expect("the connection is open");
                return;
            }
            Load::Write => Operation::Write { rkey, address, bytes: vec![9; OPERATION], immediate: None },
            Load::Read => Operation::Read { rkey, address, length: OPERATION as u32 },
        };
        peer.endpoint_mut().post(connection, operation).expect("the connection is open");
    }

    fn measure(kind: Kind, load: Load, time: Duration) -> Result<Measured, Error> {
        let process = std::process::id().to_be_bytes();
        let address = |end: u8| IpAddr::V4(Ipv4Addr::new(127, end, process[2], process[3].clamp(1, 254)));
        let (local, to) = (address(11), address(12));
        let server = Driver::open(kind, &[to], Reach::Senders)?;
        let client = Driver::open(kind, &[local], Reach::Only(vec![to]))?;
        Ok(thread::scope(|scope| {
            let (sender, memory) = channel();
            let server = scope.spawn(move || serve(server, &sender));
            let measured = drive(client, local, to, load, time, &memory);
            Measured { passive: server.join().expect("the server does not panic"), ..measured }
        }))
    }

    pub(crate) fn main() {
        let seconds =
            std::env::args().nth(1).map_or(5.0, |argument| argument.parse().expect("a number of seconds"));
        let time = Duration::from_secs_f64(seconds);
        println!(
            "sockets  load                        result   packets/s   CPU per packet, active   passive   \
             sent again"
        );
        for kind in [Kind::Raw, Kind::Udp] {
            for load in [Load::Null(1), Load::Null(32), Load::Write, Load::Read] {
                let measured = match measure(kind, load, time) {
                    Ok(measured) => measured,
                    Err(error) => {
                        println!("{kind:?}: {error}");
                        break;
                    }
                };
                let rate = measured.done as f64 / measured.seconds;
                let (name, result) = match load {
                    Load::Null(1) => ("NULL, one at a time".to_owned(), format!("{rate:.0} calls/s")),
                    Load::Null(depth) => (format!("NULL, {depth} at once"), format!("{rate:.0} calls/s")),
                    Load::Write => ("RDMA Write of 1 MiB".to_owned(), format!("{:.0} MiB/s", rate)),
                    Load::Read => ("RDMA Read of 1 MiB".to_owned(), format!("{:.0} MiB/s", rate)),
                };
                let Measured { active, passive, seconds, retransmissions, .. } = &measured;
                let packets = (active.counts.sent + passive.counts.sent) as f64 / seconds;
                let (ours, theirs) = (active.packet(), passive.packet());
                let kind = if kind == Kind::Raw { "raw" } else { "UDP" };
                println!(
                    "{kind:7}  {name:20} {result:>17}   {packets:9.0}   {ours:17.2} us   {theirs:4.2} us   {retransmissions:10}"
                );
            }
        }
    }
}

fn main() {
    #[cfg(target_os = "linux")]
    linux::main();
    #[cfg(not(target_os = "linux"))]
    eprintln!("the driver is for Linux");
}
