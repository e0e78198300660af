//! Standard output that is not read. `live -i` continues, because packets do not wait. `live FILE`
//! waits and loses no line.

#![cfg(target_os = "linux")]

mod binary;
#[path = "live/mod.rs"]
mod server;
mod world;

use binary::{command, interruptible, run, sample, start, text};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use world::World;

/// Attempts of 10 ms each. Only a failing test makes all of them.
const LONG: usize = 6000;

/// `live` on the loopback interface, with the shortest intervals.
struct Live {
    child: Child,
    address: String,
}

impl Live {
    /// Returns `None` if this process may not capture from `lo`.
    fn start() -> Option<Live> {
        let address = format!("{}:9464", server::address());
        let arguments = [
            "live",
            "-i",
            "lo",
            "--interval",
            "10ms",
            "--format",
            "jsonl",
            "--no-icrc",
            "--metrics",
            &address,
        ];
        let mut child = start(&mut interruptible(&arguments));
        let mut stderr = BufReader::new(child.stderr.take().expect("it was piped"));
        let mut lines = String::new();
        while stderr.read_line(&mut lines).expect("it can be read") > 0 {
            if lines.contains("watching lo") {
                child.stderr = Some(stderr.into_inner());
                return Some(Live { child, address });
            }
        }
        eprintln!("SKIPPED: {lines}");
        assert_eq!(child.wait().expect("it ends").code(), Some(2));
        None
    }

    /// A metric without labels, or 0 before it exists.
    fn metric(&self, name: &str) -> f64 {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").expect("it can be sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        let value = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.map_or(0.0, |value| value.parse().expect("it is a number"))
    }

    /// Waits until the metric is at least `value`.
    fn reaches(&self, name: &str, value: f64) {
        for _ in 0..LONG {
            if self.metric(name) >= value {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("{name} stays at {}", self.metric(name));
    }

    /// Ends it with this signal. Returns its remaining lines on standard error.
    fn end(mut self, signal: &str) -> (ExitStatus, String) {
        let pid = self.child.id().to_string();
        assert!(
            std::process::Command::new("kill")
                .args([signal, &pid])
                .status()
                .expect("kill is there")
                .success()
        );
        let status = (0..LONG).find_map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            self.child.try_wait().expect("it can be waited for")
        });
        let mut stderr = String::new();
        let status = status.unwrap_or_else(|| panic!("{signal} does not end it"));
        self.child.stderr.take().expect("it was piped").read_to_string(&mut stderr).expect("it can be read");
        (status, stderr)
    }
}

impl Drop for Live {
    /// Runs when a test fails before its end.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const INTERVAL: &str = "rdmascope_last_interval_timestamp_seconds";

#[test]
fn metrics_continue_without_a_reader() {
    for signal in ["-INT", "-TERM"] {
        let Some(live) = Live::start() else { return };
        live.reaches(INTERVAL, 1.0);
        // The intervals of this time take more bytes than a pipe holds.
        live.reaches(INTERVAL, live.metric(INTERVAL) + 5.0);
        let (status, stderr) = live.end(signal);
        assert_eq!(status.code(), Some(0), "{stderr}");
        assert!(stderr.contains("the reader of standard output is too slow: "), "{stderr}");
        assert!(stderr.contains(" packets seen, ") || stderr.contains(" packet seen, "), "{stderr}");
    }
}

/// The time is between those before and after sending the packet.
#[test]
fn metrics_have_the_time_of_the_last_packet() {
    const PACKET: &str = "rdmascope_last_packet_timestamp_seconds";
    let Some(live) = Live::start() else { return };
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_secs_f64();
    let before = now();
    send([127, 0, 0, 1], [127, 0, 0, 1], &[0; 64]);
    live.reaches(PACKET, before);
    assert!(live.metric(PACKET) <= now());
}

/// Each of many connections has a line in each interval.
#[test]
fn dropped_lines_are_counted() {
    const DROPPED: &str = "rdmascope_output_dropped_lines_total";
    let Some(live) = Live::start() else { return };
    let mut world = World::new();
    world.write(b"handle", 0, b"data");
    for pair in 0..250 {
        let [client, server] = [1, 2].map(|end| [127, 254, pair, end]);
        send(client, server, &world.frames[0][UDP..]);
        send(server, client, &world.frames[1][UDP..]);
    }
    live.reaches(DROPPED, 1.0);
    assert_eq!(live.metric("rdmascope_dropped_packets_total"), 0.0);
    let (status, stderr) = live.end("-TERM");
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("the reader of standard output is too slow: "), "{stderr}");
}

/// The headers before the UDP payload: Ethernet, IPv4, UDP.
const UDP: usize = 14 + 20 + 8;

/// Sends a datagram of RoCE.
fn send(from: [u8; 4], to: [u8; 4], payload: &[u8]) {
    let socket = UdpSocket::bind((Ipv4Addr::from(from), 0)).expect("all of 127.0.0.0/8 is this host");
    socket.send_to(payload, (Ipv4Addr::from(to), 4791)).expect("it can be sent");
}

/// For example, `live FILE | less`.
#[test]
fn file_input_waits_for_the_reader() {
    let arguments =
        ["live", &sample("iwarp-nfs4.2-nconnect.pcap"), "--format", "jsonl", "--interval", "10ms"];
    let expected = run(&arguments).stdout;
    assert!(expected.len() > 256 << 10, "a pipe would hold all {} bytes", expected.len());
    let mut child = command(&arguments).stdout(Stdio::piped()).spawn().expect("the binary runs");
    let mut output = child.stdout.take().expect("it was piped");
    // Meanwhile it fills the pipe. If this is too short, the test proves less but does not fail.
    std::thread::sleep(Duration::from_millis(500));
    let mut found = Vec::new();
    output.read_to_end(&mut found).expect("it can be read");
    assert!(child.wait().expect("it ends").success());
    assert_eq!(text(&found), text(&expected));
}
