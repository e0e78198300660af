//! Hostile clients of the HTTP server of `live --metrics`: scrapes continue, and memory and threads
//! are bounded.

#![cfg(target_os = "linux")]

mod binary;
#[path = "live/mod.rs"]
mod server;

use binary::{command, sample};
use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, ChildStdin, Stdio};
use std::time::Duration;

/// Maximum number of connections (docs/live.md).
const CONNECTIONS: usize = 16;

/// Size of an endless request, in bytes.
const ENDLESS: usize = 64 << 20;

/// The limit on memory growth, in KiB.
const GROWTH: u64 = 16 << 10;

/// Longer than any machine needs. Only a failing test waits this long.
const LONG: Duration = Duration::from_secs(60);

/// `live` on a pipe that stays open.
struct Live {
    child: Child,
    address: String,
    _input: ChildStdin,
}

impl Live {
    fn start() -> Live {
        Live::of(command(&["live", "-"]))
    }

    /// Starts it with this command, which lacks `--metrics`.
    fn of(mut command: std::process::Command) -> Live {
        let address = format!("{}:9464", server::address());
        let mut child = command
            .args(["--metrics", &address])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .expect("the binary runs");
        let mut input = child.stdin.take().expect("it was piped");
        let capture = std::fs::read(sample("nfs3-basic.pcap")).expect("it is there");
        input.write_all(&capture).and_then(|()| input.flush()).expect("it is read");
        let live = Live { child, address, _input: input };
        live.await_listener();
        live
    }

    fn await_listener(&self) {
        for _ in 0..6000 {
            if TcpStream::connect(&self.address).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("no listener at {}", self.address);
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("somebody listens");
        stream
            .set_read_timeout(Some(LONG))
            .and_then(|()| stream.set_write_timeout(Some(LONG)))
            .expect("it is no 0");
        stream
    }

    /// The response to these bytes.
    fn ask(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("it can be sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer
    }

    /// The metrics, requested like Prometheus does.
    fn scrape(&self) -> String {
        let answer = self.ask("GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("\n# EOF\n"), "{answer}");
        answer
    }

    /// Number of entries in a folder of /proc.
    fn count(&self, folder: &str) -> usize {
        let path = format!("/proc/{}/{folder}", self.child.id());
        std::fs::read_dir(path).expect("the process runs").count()
    }

    /// The peak memory, in KiB.
    fn memory(&self) -> u64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("the process runs");
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("it is there");
        line.trim().trim_end_matches(" kB").parse().expect("it is a number")
    }

    /// Its resources, measured after a response.
    fn usage(&self) -> Usage {
        self.scrape();
        Usage { memory: self.memory(), threads: self.count("task"), files: self.count("fd") }
    }

    /// Asserts that it responds, within the limits on its resources.
    fn assert_within_limits(&self, before: &Usage) {
        let Usage { memory, threads, files } = self.usage();
        assert!(threads <= before.threads, "{} threads, then {threads}", before.threads);
        assert!(files <= before.files + CONNECTIONS, "{} files, then {files}", before.files);
        assert!(memory < before.memory + GROWTH, "{} KiB, then {memory} KiB", before.memory);
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Usage {
    memory: u64,
    threads: usize,
    files: usize,
}

/// The value of a header field.
fn field<'a>(answer: &'a str, name: &str) -> &'a str {
    let line = answer.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
    line.unwrap_or_else(|| panic!("no {name} in {answer}"))
}

/// Sends pieces until the server closes the connection. Panics if it reads all of [`ENDLESS`].
fn send_without_end(stream: &mut TcpStream, piece: &[u8]) -> io::Error {
    let mut sent = 0;
    while sent < ENDLESS {
        match stream.write(piece) {
            Ok(length) => sent += length,
            Err(error) => return error,
        }
    }
    panic!("it takes {sent} bytes");
}

#[test]
fn each_request_gets_its_status() {
    let live = Live::start();
    let page = live.scrape();
    assert_eq!(field(&page, "Content-Type"), "application/openmetrics-text; version=1.0.0; charset=utf-8");
    let (_, body) = page.split_once("\r\n\r\n").expect("the head has an end");
    assert_eq!(field(&page, "Content-Length"), body.len().to_string());
    let [page, head] = ["GET", "HEAD"].map(|method| live.ask(&format!("{method} / HTTP/1.0\r\n\r\n")));
    assert!(page.ends_with("\r\n\r\nrdmascope: see /metrics\n"), "{page}");
    assert_eq!(field(&head, "Content-Length"), field(&page, "Content-Length"));
    assert!(head.ends_with("\r\n\r\n"), "{head}");
    let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
    let long = format!("GET /metrics HTTP/1.1\r\na: {}", "b".repeat(8 << 10));
    let path = format!("GET /{}", "a".repeat(8 << 10));
    for (request, status) in [
        ("GET / HTTP/1.0\r\n\r\n", "200 OK"),
        ("GET /metrics?a=b HTTP/1.0\r\n\r\n", "200 OK"),
        ("GET /other HTTP/1.0\r\n\r\n", "404 Not Found"),
        ("POST /metrics HTTP/1.0\r\n\r\n", "405 Method Not Allowed"),
        ("BREW /pot HTTP/1.0\r\n\r\n", "405 Method Not Allowed"),
        ("GET /metrics HTTP/1.1\r\n\r\n", "400 Bad Request"),
        ("\0\0\0\0", "400 Bad Request"),
        ("GET /metrics HTTP/2.0\r\n\r\n", "505 HTTP Version Not Supported"),
        (&many, "431 Request Header Fields Too Large"),
        (&long, "431 Request Header Fields Too Large"),
        (&path, "414 URI Too Long"),
    ] {
        let answer = live.ask(request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{request}: {answer}");
        assert_eq!((field(&answer, "Allow"), field(&answer, "Connection")), ("GET, HEAD", "close"));
    }
}

/// Regression test: the old server allocated memory for the claimed length.
#[test]
fn request_bodies_are_not_read() {
    let live = Live::start();
    let before = live.usage();
    for (method, status) in [("GET", "200"), ("HEAD", "200"), ("POST", "405")] {
        for body in ["Content-Length: 9999999999999", "Transfer-Encoding: chunked", "Expect: 100-continue"] {
            let answer =
                live.ask(&format!("{method} /metrics HTTP/1.1\r\nHost: localhost\r\n{body}\r\n\r\n"));
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{method} {body}: {answer}");
        }
    }
    let mut stream = live.connect();
    let head = b"POST /metrics HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999999\r\n\r\n";
    stream.write_all(head).expect("it can be sent");
    send_without_end(&mut stream, &[0; 64 << 10]);
    live.assert_within_limits(&before);
}

#[test]
fn endless_requests_are_cut_off() {
    let live = Live::start();
    let before = live.usage();
    let field = "a: b\r\n".repeat(10_000);
    for (begin, piece) in [
        ("GET /", "a".repeat(64 << 10)),
        ("GET /metrics HTTP/1.1\r\n", field),
        ("GET /metrics HTTP/1.1\r\nHost: ", "a".repeat(64 << 10)),
        ("", "\r\n".repeat(32 << 10)),
        ("", "\0".repeat(64 << 10)),
    ] {
        let mut stream = live.connect();
        stream.write_all(begin.as_bytes()).expect("it can be sent");
        send_without_end(&mut stream, piece.as_bytes());
        live.assert_within_limits(&before);
    }
}

/// 500 clients that do not finish their request, and 500 that do not read the response.
#[test]
fn slow_clients_do_not_block_others() {
    let live = Live::start();
    let before = live.usage();
    for request in ["GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "GET /metrics HTTP/1.1\r\n", ""] {
        let mut held = Vec::new();
        for number in 0..500 {
            let mut stream = live.connect();
            // A new connection closes the oldest.
            let _may_be_closed = stream.write_all(request.as_bytes());
            held.push(stream);
            if number % 20 == 0 {
                live.assert_within_limits(&before);
            }
        }
        live.assert_within_limits(&before);
    }
}

/// A client that sends single bytes is slow, too.
#[test]
fn slow_request_times_out() {
    let live = Live::start();
    let mut stream = live.connect();
    stream.write_all(b"GET /metrics HTTP/1.1\r\na: ").expect("it can be sent");
    let mut drips = stream.try_clone().expect("it can be shared");
    let dripping = std::thread::spawn(move || {
        // For at least half a minute, which is at most 4 KiB.
        for _ in 0..600 {
            if drips.write_all(b"b").is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = drips.shutdown(Shutdown::Both);
    });
    let mut answer = String::new();
    let _may_be_reset = stream.read_to_string(&mut answer);
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
    drop(stream);
    dripping.join().expect("it ends");
}

/// The connection closes after one response, so a client repeats the others (RFC 9112, section
/// 9.3.2).
#[test]
fn only_the_first_request_is_answered() {
    let live = Live::start();
    let before = live.usage();
    let one = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let answer = live.ask(&one.repeat(100));
    assert_eq!(answer.matches("HTTP/1.1 200 OK").count(), 1);
    assert_eq!(field(&answer, "Connection"), "close");
    let mut stream = live.connect();
    send_without_end(&mut stream, one.repeat(1000).as_bytes());
    live.assert_within_limits(&before);
}

/// The limit of open files is reached before that of connections.
#[test]
fn live_survives_file_descriptor_exhaustion() {
    const FILES: usize = 20;
    let mut limited = std::process::Command::new("sh");
    let plain = command(&["live", "-"]);
    limited.args(["-c", &format!("ulimit -n {FILES} && exec \"$0\" \"$@\"")]).arg(plain.get_program());
    limited.args(plain.get_args()).current_dir(plain.get_current_dir().expect("it has one"));
    let live = Live::of(limited);
    let mut held = Vec::new();
    while live.count("fd") < FILES {
        assert!(held.len() < 100, "it has open files left");
        held.push(live.connect());
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(held);
    live.scrape();
}
