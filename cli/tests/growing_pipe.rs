//! A pipe that stays open: results are shown before the command waits for more input.

mod binary;

use binary::{Pcap, Temporary, command, lines, run, sample};
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

const NAME: &str = "nfs3-basic.pcap";

/// Longer than any machine needs. Only a failing test waits this long.
const LONG: Duration = Duration::from_secs(60);

/// The binary with a pipe at each end.
struct Running {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Running {
    fn start(arguments: &[&str]) -> Running {
        let mut child =
            command(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the binary runs");
        let input = child.stdin.take().expect("it was piped");
        let output = BufReader::new(child.stdout.take().expect("it was piped"));
        let (send, lines) = channel();
        std::thread::spawn(move || {
            // The receiver is gone if the test has failed.
            output.lines().map_while(Result::ok).try_for_each(|line| send.send(line))
        });
        Running { child, input, lines }
    }

    fn write(&mut self, bytes: &[u8]) {
        self.input.write_all(bytes).expect("the pipe is open");
    }

    /// The next lines, which must arrive while the pipe is open.
    fn lines(&self, count: usize) -> Vec<String> {
        (0..count)
            .map(|_| self.lines.recv_timeout(LONG).expect("the line comes before the pipe is closed"))
            .collect()
    }

    /// The lines that arrive when the pipe is closed.
    fn end(self) -> Vec<String> {
        let Running { mut child, input, lines } = self;
        drop(input);
        let rest = lines.iter().collect();
        assert!(child.wait().expect("the binary ends").success());
        rest
    }
}

/// Number of these that are known from the first packets.
fn known(transactions: &[Value], packets: usize) -> usize {
    let last = |one: &Value| one["reply"]["frame"].as_u64().expect("each call has a reply");
    transactions.iter().filter(|one| last(one) <= packets as u64).count()
}

#[test]
fn line_is_printed_with_its_completing_packet() {
    let output = run(&["transactions", &sample(NAME), "--format", "jsonl"]);
    let pcap = Pcap::read(NAME);
    let half = pcap.records.len() / 2;
    let mut running = Running::start(&["transactions", "-", "--format", "jsonl"]);
    running.write(&pcap.with(&pcap.records[..half]));
    // `tcpdump` without -U leaves a partial record in the pipe.
    let (begun, rest) = pcap.records[half].split_at(40);
    running.write(begun);
    let all = lines(&output);
    let count = known(&all, half);
    assert!(count > 100 && count < all.len());
    let mut listed = running.lines(count);

    // From here on packet by packet, as `tcpdump -U` writes them.
    let mut records = vec![rest];
    records.extend(pcap.records[half + 1..].iter().map(Vec::as_slice));
    for (index, record) in records.into_iter().enumerate() {
        running.write(record);
        listed.extend(running.lines(known(&all, half + 1 + index) - listed.len()));
    }
    listed.extend(running.end());
    let expected: Vec<&str> = std::str::from_utf8(&output.stdout).expect("UTF-8").lines().collect();
    assert_eq!(listed, expected);
}

#[test]
fn packet_columns_are_printed_as_packets_arrive() {
    let output = run(&["packets", &sample(NAME)]);
    let expected: Vec<&str> = std::str::from_utf8(&output.stdout).expect("UTF-8").lines().collect();
    let headings = expected.len() - Pcap::read(NAME).records.len();
    let pcap = Pcap::read(NAME);
    let mut running = Running::start(&["packets", "-"]);
    running.write(&pcap.with(&pcap.records[..1]));
    let mut listed = running.lines(headings + 1);
    running.write(&pcap.records[1]);
    listed.extend(running.lines(1));
    assert_eq!(listed, expected[..headings + 2]);
    running.end();
}

/// A finding is reported when it is certain, not at the end of the capture.
#[test]
fn finding_is_printed_when_it_is_certain() {
    let pcap = Pcap::read(NAME);
    let mut records = pcap.records.clone();
    // The third reply, frame 14: rdma_credit comes after 16 bytes of record header, 42 of Ethernet,
    // IP and UDP, and 12 of BTH.
    let credits = &mut records[13][16 + 42 + 12 + 8..][..4];
    assert_eq!(credits, [0, 0, 0, 64]);
    credits.fill(0);
    let arguments =
        ["check", "-", "--format", "jsonl", "--no-icrc", "--level", "violation", "--allow", "credits"];
    let mut running = Running::start(&arguments);
    running.write(&pcap.with(&records[..14]));
    let listed = running.lines(1);
    assert!(
        listed[0].contains("\"rule\":\"credit-grant-zero\"") && listed[0].contains("\"frames\":[14]"),
        "{listed:?}"
    );
    running.write(&records[14]);
    let rest = running.end();
    assert!(rest.last().is_some_and(|line| line.contains("\"type\":\"check\"")), "{rest:?}");
}

/// When a complete file is read as well, the packets of the pipe still appear as they arrive.
#[test]
fn pipe_packets_are_printed_beside_a_file() {
    let pcap = Pcap::read(NAME);
    let third = pcap.records.len() / 3;
    let file = Temporary::new("beside.pcap", &pcap.with(&pcap.records[..third]));
    let mut running = Running::start(&["packets", file.path(), "-", "--format", "jsonl"]);
    running.write(&pcap.with(&pcap.records[third..2 * third]));
    running.lines(2 * third);
    assert_eq!(running.end(), Vec::<String>::new());
}
