//! Endpoints on sockets over the loopback interface. Each test has its own addresses, so that each
//! can bind port 4791.
#![cfg(all(feature = "std", target_os = "linux"))]

use core::time::Duration;
use rdmascope_peer::cm::{self, Closed};
use rdmascope_peer::driver::{Counts, Driver, Ended, Error, Kind, Reach, route};
use rdmascope_peer::endpoint::{Config, Connect, Endpoint, Event};
use rdmascope_peer::packet::{Datagram, Icrc};
use rdmascope_peer::rc::{Fault, QueueEvent, Send};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

const PORT: u16 = 20049;

/// An address of 127.0.0.0/8 that no other test or process uses.
fn address() -> IpAddr {
    static NEXT: AtomicU8 = AtomicU8::new(100);
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, NEXT.fetch_add(1, Ordering::Relaxed), high, low.clamp(1, 254)).into()
}

/// Opens a driver. Prints a message and returns `None` if this host does not permit it.
fn open(kind: Kind, local: IpAddr, reach: Reach) -> Option<Driver> {
    match Driver::open(kind, &[local], reach) {
        Ok(driver) => Some(driver),
        Err(error @ (Error::NotPermitted { .. } | Error::PortTaken { .. } | Error::NotLocal { .. })) => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// The packets at one end: whether it was received, the packet, and its ICRC state.
type Crossings = Arc<Mutex<Vec<(bool, Vec<u8>, Icrc)>>>;

fn recorded(driver: &mut Driver) -> Crossings {
    let crossings = Crossings::default();
    let mut last = 0;
    let to = Arc::clone(&crossings);
    driver.record(Some(Box::new(move |crossed| {
        assert!(crossed.time >= last, "time goes back");
        last = crossed.time;
        to.lock().unwrap().push((crossed.incoming, crossed.packet.to_vec(), crossed.icrc));
    })));
    crossings
}

/// Accepts one connection and echoes messages until it is closed.
fn echo(mut driver: Driver, mut endpoint: Endpoint) -> (Counts, Vec<Event>) {
    endpoint.listen(PORT);
    let mut others = Vec::new();
    let until = driver.now().plus(Duration::from_secs(20));
    let ended = driver.run(&mut endpoint, Some(until), |endpoint, _| {
        while let Some(event) = endpoint.poll_event() {
            match event {
                Event::Requested { connection, .. } => {
                    endpoint.accept(connection, b"welcome").unwrap();
                    (0..8).for_each(|_| endpoint.post_receive(connection, 65_536).unwrap());
                }
                Event::Queue { connection, event: QueueEvent::Received(received) } => {
                    endpoint.post_receive(connection, 65_536).unwrap();
                    endpoint.send(connection, Send { bytes: received.bytes, ..Send::default() }).unwrap();
                }
                Event::Closed { .. } => return true,
                other => others.push(other),
            }
        }
        false
    });
    assert_eq!(ended.unwrap(), Ended::Done);
    (driver.counts(), others)
}

/// Connects, sends messages that are echoed, and disconnects.
fn talk(driver: &mut Driver, endpoint: &mut Endpoint, local: IpAddr, to: IpAddr) {
    let connection = endpoint.connect(Connect::new(local, to, PORT)).unwrap();
    let message = |number: usize| -> Vec<u8> { (0..number * 4099).map(|at| (at * number) as u8).collect() };
    let mut echoed = 0;
    let until = driver.now().plus(Duration::from_secs(20));
    let ended = driver.run(endpoint, Some(until), |endpoint, _| {
        while let Some(event) = endpoint.poll_event() {
            match event {
                Event::Replied { private_data, .. } => assert!(private_data.starts_with(b"welcome")),
                Event::Connected { .. } => {
                    for number in 0..8 {
                        endpoint.post_receive(connection, 65_536).unwrap();
                        endpoint
                            .send(connection, Send { bytes: message(number), ..Send::default() })
                            .unwrap();
                    }
                }
                Event::Queue { event: QueueEvent::Received(received), .. } => {
                    assert_eq!(received.bytes, message(echoed));
                    echoed += 1;
                    if echoed == 8 {
                        endpoint.disconnect(connection).unwrap();
                    }
                }
                Event::Closed { why, .. } => {
                    assert_eq!(why, Closed::Local);
                    return true;
                }
                _ => {}
            }
        }
        false
    });
    assert_eq!((ended.unwrap(), echoed), (Ended::Done, 8));
}

/// Runs two ends on these sockets. Returns their counters and packets.
fn session(active: Kind, passive: Kind) -> Option<(Counts, Counts, [Crossings; 2])> {
    let (local, to) = (address(), address());
    let mut server = open(passive, to, Reach::Senders)?;
    let mut client = open(active, local, Reach::Only(vec![to]))?;
    let crossings = [recorded(&mut client), recorded(&mut server)];
    let counts = thread::scope(|scope| {
        let server = scope.spawn(move || echo(server, Endpoint::new(Config::default(), 2)));
        talk(&mut client, &mut Endpoint::new(Config::default(), 1), local, to);
        server.join().unwrap()
    });
    assert_eq!(counts.1.iter().find(|event| matches!(event, Event::Dropped { .. })), None);
    Some((client.counts(), counts.0, crossings))
}

/// Checks that both ends recorded the same packets in the same order, except for fields that the
/// ICRC does not cover.
fn assert_same_packets(crossings: &[Crossings; 2]) {
    let seen = |end: usize, incoming: bool| {
        let crossings = crossings[end].lock().unwrap();
        let mut packets: Vec<Vec<u8>> = crossings
            .iter()
            .filter(|crossing| crossing.0 == incoming)
            .map(|crossing| crossing.1.clone())
            .collect();
        for packet in &mut packets {
            // The kernel computes the UDP checksum, which only a raw socket shows.
            packet[26..28].fill(0);
        }
        packets
    };
    assert!(seen(0, false).len() > 100);
    assert!(seen(0, false) == seen(1, true));
    // The active end may close before the last DREP arrives.
    assert!(seen(1, false).starts_with(&seen(0, true)));
}

#[test]
fn udp_sockets_exchange_messages() {
    let Some((client, server, crossings)) = session(Kind::Udp, Kind::Udp) else { return };
    for counts in [client, server] {
        assert_eq!((counts.bad, counts.unverified, counts.withheld, counts.lost), (0, 0, 0, 0), "{counts:?}");
        assert!(counts.good > 100, "{counts:?}");
        // The driver slept, and woke up only for events.
        assert!(counts.waits < 2 * (counts.good + counts.sent), "{counts:?}");
    }
    assert_same_packets(&crossings);
}

#[test]
fn raw_sockets_exchange_messages() {
    let Some((client, server, crossings)) = session(Kind::Raw, Kind::Raw) else { return };
    for counts in [client, server] {
        assert_eq!((counts.bad, counts.unverified, counts.withheld, counts.lost), (0, 0, 0, 0), "{counts:?}");
    }
    assert_same_packets(&crossings);
}

#[test]
fn udp_socket_recovers_the_ip_identification() {
    let Some((client, server, crossings)) = session(Kind::Udp, Kind::Raw) else { return };
    assert_eq!((client.bad, client.good, server.bad, server.unverified), (0, 0, 0, 0));
    assert!(client.unverified > 100 && server.good > 100);
    assert_same_packets(&crossings);
}

#[test]
fn endpoint_connects_to_itself_over_ipv6() {
    let local: IpAddr = Ipv6Addr::LOCALHOST.into();
    let Some(mut driver) = open(Kind::Udp, local, Reach::Only(vec![local])) else { return };
    let mut endpoint = Endpoint::new(Config::default(), 1);
    endpoint.listen(PORT);
    endpoint.connect(Connect::new(local, local, PORT)).unwrap();
    let until = driver.now().plus(Duration::from_secs(20));
    let mut connected = 0;
    let ended = driver.run(&mut endpoint, Some(until), |endpoint, _| {
        while let Some(event) = endpoint.poll_event() {
            match event {
                Event::Requested { connection, .. } => endpoint.accept(connection, b"").unwrap(),
                Event::Connected { .. } => connected += 1,
                _ => {}
            }
        }
        connected == 2
    });
    assert_eq!(ended.unwrap(), Ended::Done);
    // REQ, REP and RTU.
    let counts = driver.counts();
    assert_eq!((counts.sent, counts.good, counts.bad, counts.unverified), (3, 3, 0, 0));
}

#[test]
fn deliberately_bad_icrc_is_detected() {
    for kind in [Kind::Udp, Kind::Raw] {
        let (local, to) = (address(), address());
        let reach = Reach::Only(vec![to]);
        let (Some(mut sender), Some(mut receiver)) =
            (open(kind, local, reach), open(kind, to, Reach::Senders))
        else {
            continue;
        };
        let mut endpoint = Endpoint::new(Config::default(), 1);
        let transport = vec![0x64; 40];
        let icrc = Icrc::Bad;
        endpoint.transmit_raw(Datagram {
            source: local,
            destination: to,
            source_port: 0xc000,
            transport,
            icrc,
        });
        let until = sender.now();
        assert_eq!(sender.run(&mut endpoint, Some(until), |_, _| false).unwrap(), Ended::Deadline);
        let mut listener = Endpoint::new(Config::default(), 2);
        let until = receiver.now().plus(Duration::from_secs(20));
        let mut event = None;
        let ended = receiver.run(&mut listener, Some(until), |listener, _| {
            event = listener.poll_event();
            event.is_some()
        });
        assert_eq!(ended.unwrap(), Ended::Done);
        assert_eq!(event, Some(Event::Dropped { source: local, fault: Fault::BadIcrc }));
        assert_eq!(receiver.counts().bad, 1);
    }
}

#[test]
fn packets_to_other_addresses_are_withheld() {
    let (local, to, other) = (address(), address(), address());
    let Some(mut driver) = open(Kind::Udp, local, Reach::Only(vec![other])) else { return };
    let mut endpoint = Endpoint::new(Config::default(), 1);
    endpoint.connect(Connect::new(local, to, PORT)).unwrap();
    let until = driver.now();
    driver.run(&mut endpoint, Some(until), |_, _| false).unwrap();
    assert_eq!((driver.counts().sent, driver.counts().withheld), (0, 1));
    driver.allow(to);
    endpoint.connect(Connect::new(local, to, PORT)).unwrap();
    driver.run(&mut endpoint, Some(until), |_, _| false).unwrap();
    assert_eq!((driver.counts().sent, driver.counts().withheld), (1, 1));
}

#[test]
fn deadlines_are_kept_without_a_busy_loop() {
    let (local, to) = (address(), address());
    let Some(mut driver) = open(Kind::Udp, local, Reach::Only(vec![to])) else { return };
    // 4.2 ms for an answer, and two retries.
    let cm = cm::Config { response_timeout: 10, most_retries: 2, ..cm::Config::default() };
    let mut endpoint = Endpoint::new(Config { cm, ..Config::default() }, 1);
    let connection = endpoint.connect(Connect::new(local, to, PORT)).unwrap();
    let mut closed = None;
    let ended = driver.run(&mut endpoint, None, |endpoint, _| {
        closed = endpoint.poll_event();
        closed.is_some()
    });
    assert_eq!(ended.unwrap(), Ended::Done);
    assert_eq!(closed, Some(Event::Closed { connection, why: Closed::NoAnswer }));
    let counts = driver.counts();
    // Three REQs and a REJ.
    assert_eq!(counts.sent, 4);
    assert!(counts.waits < 10, "{counts:?}");
}

#[test]
fn waker_ends_the_wait() {
    let Some(mut driver) = open(Kind::Udp, address(), Reach::Senders) else { return };
    let mut endpoint = Endpoint::new(Config::default(), 1);
    let waker = driver.waker();
    waker.wake();
    waker.wake();
    assert_eq!(driver.run(&mut endpoint, None, |_, _| false).unwrap(), Ended::Woken);
    // Two wakes before a run count as one.
    let until = driver.now();
    assert_eq!(driver.run(&mut endpoint, Some(until), |_, _| false).unwrap(), Ended::Deadline);
    let other = thread::spawn(move || waker.wake());
    assert_eq!(driver.run(&mut endpoint, None, |_, _| false).unwrap(), Ended::Woken);
    other.join().unwrap();
}

#[test]
fn errors_include_the_remedy() {
    let local = address();
    assert_eq!(route(local).ok(), Some(Ipv4Addr::LOCALHOST.into()));
    let Some(_first) = open(Kind::Udp, local, Reach::Senders) else { return };
    let refused = |local: IpAddr| match Driver::open(Kind::Udp, &[local], Reach::Senders) {
        Ok(_) => panic!("{local} is available"),
        Err(error) => error.to_string(),
    };
    let taken = refused(local);
    assert!(taken.contains("4791") && taken.contains("rxe") && taken.contains("ss -ulpn"), "{taken}");
    // RFC 5737: a documentation address.
    let elsewhere = refused(Ipv4Addr::new(192, 0, 2, 1).into());
    assert!(elsewhere.contains("not an address of this host"), "{elsewhere}");
    let link_local: IpAddr = "fe80::1".parse().unwrap();
    assert!(matches!(route(link_local), Err(Error::LinkLocal { .. })));
    let remote = Driver::open(Kind::Udp, &[address()], Reach::Only(vec![link_local]));
    assert!(matches!(remote, Err(Error::LinkLocal { .. })));
    for invalid in ["0.0.0.0", "224.0.0.1", "255.255.255.255", "::", "ff02::1"] {
        let refused = refused(invalid.parse().unwrap());
        assert!(refused.contains("not the address of one host"), "{refused}");
    }
}

#[test]
fn oversized_packet_is_an_error() {
    let (local, to) = (address(), address());
    let Some(mut driver) = open(Kind::Udp, local, Reach::Only(vec![to])) else { return };
    let mut endpoint = Endpoint::new(Config::default(), 1);
    // The loopback interface has an MTU of 65,536 bytes, but an IPv4 packet has at most 65,535.
    let transport = vec![0x64; 65_520];
    endpoint.transmit_raw(Datagram {
        source: local,
        destination: to,
        source_port: 0xc000,
        transport,
        icrc: Icrc::Good,
    });
    let error = driver.run(&mut endpoint, None, |_, _| false).unwrap_err();
    assert!(matches!(error, Error::TooLong { length: 65_520 }), "{error}");
}
