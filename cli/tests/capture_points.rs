//! Captures of both ends of a session, joined by `--with`. They are derived from one sample, so the
//! delay and loss of packets and the clock offset are known.

mod binary;

use binary::{Pcap, Temporary, json_lines, lines, refused, run, sample, text};
use rdmascope_tests::{pcap, samples};
use serde_json::Value;
use std::sync::atomic::{AtomicU32, Ordering};

/// Minimum delay of packets in nanoseconds: from the client to the server, and back.
const DELAYS: [i64; 2] = [60_000, 20_000];
/// Offset of the server's clock in nanoseconds, and its relative drift.
const AHEAD: i64 = 7_200_500_000_000;
const FASTER: f64 = 35e-6;

static MADE: AtomicU32 = AtomicU32::new(0);

/// A session captured at both ends.
struct BothEnds {
    client: Temporary,
    server: Temporary,
    /// Number of packets sent by the client that never reached the server, and vice versa.
    lost: [u64; 2],
}

/// A record with another time, in nanoseconds.
fn at(record: &[u8], time: i64) -> Vec<u8> {
    let mut record = record.to_vec();
    record[..4].copy_from_slice(&((time / 1_000_000_000) as u32).to_le_bytes());
    record[4..8].copy_from_slice(&((time % 1_000_000_000) as u32).to_le_bytes());
    record
}

/// Both ends of a sample.
fn both_ends(name: &str, is_lost: impl Fn(usize) -> bool) -> BothEnds {
    both_ends_of(Pcap::read(&format!("{name}.pcap")), is_lost)
}

/// Derives the captures from a session captured at the client. Packets with these numbers, from 0,
/// are missing from the receiver's capture.
fn both_ends_of(mut pcap: Pcap, is_lost: impl Fn(usize) -> bool) -> BothEnds {
    pcap.header[..4].copy_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
    let time = |record: &[u8]| {
        let (seconds, micros) = binary::time(record);
        i64::from(seconds) * 1_000_000_000 + i64::from(micros) * 1_000
    };
    let start = time(&pcap.records[0]);
    // Source addresses of IPv4 packets.
    let source = |record: &[u8]| record[16 + 26..16 + 30].to_vec();
    let client = source(&pcap.records[0]);
    let (mut at_client, mut at_server, mut lost) = (Vec::new(), Vec::new(), [0; 2]);
    for (index, record) in pcap.records.iter().enumerate() {
        let is_from_client = source(record) == client;
        // Some packets are queued on the path.
        let queued = (index as i64 * 7_919 % 13) * 1_000;
        let client_time = time(record);
        let server_time =
            if is_from_client { client_time + DELAYS[0] + queued } else { client_time - DELAYS[1] - queued };
        let by_server_clock = server_time + AHEAD + ((server_time - start) as f64 * FASTER) as i64;
        let is_lost = is_lost(index);
        lost[usize::from(!is_from_client)] += u64::from(is_lost);
        if !is_lost || is_from_client {
            at_client.push((client_time, at(record, client_time)));
        }
        if !is_lost || !is_from_client {
            at_server.push((by_server_clock, at(record, by_server_clock)));
        }
    }
    let file = |end: &str, mut records: Vec<(i64, Vec<u8>)>| {
        records.sort_by_key(|(time, _)| *time);
        Temporary::new(
            // Tests run in parallel.
            &format!("both-ends-{end}-{}.pcap", MADE.fetch_add(1, Ordering::Relaxed)),
            &pcap.with(&records.into_iter().map(|(_, record)| record).collect::<Vec<_>>()),
        )
    };
    BothEnds { client: file("client", at_client), server: file("server", at_server), lost }
}

impl BothEnds {
    fn output(&self, command: &str) -> Vec<Value> {
        let output = run(&[command, self.client.path(), "--with", self.server.path(), "--format", "jsonl"]);
        // `check` reported findings.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{}", text(&output.stderr));
        json_lines(text(&output.stdout))
    }
}

fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a Value> {
    lines.iter().filter(|line| line["type"] == kind).collect()
}

#[test]
fn clock_offset_delays_and_losses_are_found() {
    let ends = both_ends("nfs3-basic", |index| index > 60 && index % 97 == 0);
    let reported = ends.output("analyze");
    let [first, second] = of_type(&reported, "place")[..] else { panic!("{reported:?}") };
    assert_eq!((&first["near"][0], &second["near"][0]), (&"10.77.0.2".into(), &"10.77.0.1".into()));
    assert!(first["clock"].is_null());
    assert_eq!(
        (&second["clock"], &second["doubt"], &second["parts"]),
        (&"ahead".into(), &"within".into(), &1.into())
    );
    let (clock, doubt) = (second["clock_ns"].as_i64().unwrap(), second["doubt_ns"].as_i64().unwrap());
    // The offset is given for the first packet in both captures, some milliseconds after the first
    // of all.
    assert!((clock - AHEAD).abs() <= doubt + 1_000, "{} ns wrong, {doubt} stated", clock - AHEAD);
    // The estimate is wrong by half the difference of the delays, which cannot be observed. Half of
    // the round trip is certain.
    let half = (DELAYS[0] + DELAYS[1]) / 2;
    assert!((half..half + 15_000).contains(&doubt), "{doubt}");
    assert!((second["drift"].as_f64().unwrap() - FASTER * 1e6).abs() < 5.0, "{}", second["drift"]);
    let ways = of_type(&reported, "way");
    assert_eq!(ways.len(), 2);
    let mut both = 0;
    for way in ways {
        let is_there = way["source"] == "10.77.0.2";
        assert_eq!(
            (way["from"].as_u64(), way["to"].as_u64()),
            if is_there { (Some(1), Some(2)) } else { (Some(2), Some(1)) }
        );
        assert_eq!(way["lost"]["packets"], ends.lost[usize::from(!is_there)], "{way}");
        assert_eq!(
            way["lost"]["frames"].as_array().unwrap().len() as u64,
            ends.lost[usize::from(!is_there)].min(16)
        );
        for nothing in ["damaged", "doubled", "unseen"] {
            assert_eq!(way[nothing]["packets"], 0, "{nothing}: {way}");
        }
        both += way["min_ns"].as_i64().unwrap();
    }
    // The figures have three significant digits.
    assert!((2 * half - 200..2 * half + 1_000).contains(&both), "{both}");
}

/// A host that receives much data sends many acknowledgements with the same sequence number; these
/// segments are distinguished, too.
#[test]
fn iwarp_segments_are_matched_at_both_ends() {
    let reported = both_ends("iwarp-nfs3", |_| false).output("analyze");
    let ways = of_type(&reported, "way");
    assert_eq!(ways.len(), 2);
    for way in ways {
        assert!(way["packets"].as_u64().unwrap() > 800, "{way}");
        for nothing in ["lost", "damaged", "doubled", "unseen"] {
            assert_eq!(way[nothing]["packets"], 0, "{nothing}: {way}");
        }
    }
    let [_, second] = of_type(&reported, "place")[..] else { panic!("{reported:?}") };
    assert_eq!((&second["near"][0], &second["doubt"]), (&"10.77.0.1".into(), &"within".into()));
}

/// Packets missing from one capture are in the other: the transactions and findings are those of
/// the complete session. The parts of each transaction add up to its latency at the client, where
/// the sample was captured.
#[test]
fn joined_captures_cover_the_complete_session() {
    let ends = both_ends("nfs3-basic", |index| index > 60 && index % 97 == 0);
    let original = lines(&run(&["transactions", &sample("nfs3-basic.pcap"), "--format", "jsonl"]));
    let reported = ends.output("transactions");
    let client = lines(&run(&["transactions", ends.client.path(), "--format", "jsonl"]));
    let key = |line: &Value| {
        format!("{} {} {} {}", line["xid"], line["operations"], line["outcome"], line["status_name"])
    };
    let sorted = |lines: &[Value]| {
        let mut keys: Vec<String> = lines.iter().map(key).collect();
        keys.sort();
        keys
    };
    assert_eq!(sorted(&reported), sorted(&original));
    assert_ne!(sorted(&client), sorted(&original), "the client's capture alone lacks something");
    let mut split = 0;
    for line in reported.iter().filter(|line| !line["split"].is_null()) {
        let same =
            original.iter().find(|other| other["xid"] == line["xid"] && key(other) == key(line)).unwrap();
        let parts = ["client_ns", "there_ns", "server_ns", "sending_ns", "back_ns"]
            .map(|part| line["split"][part].as_u64().unwrap());
        assert_eq!(Some(parts.iter().sum::<u64>()), same["latency_ns"].as_u64(), "{line}");
        assert!(parts[1] + parts[4] >= (DELAYS[0] + DELAYS[1]) as u64, "{line}");
        if line["read_bytes"] == 0 {
            assert_eq!(parts[0], 0, "nothing was read: {line}");
        }
        split += 1;
    }
    assert!(split > 9 * reported.len() / 10, "{split} of {}", reported.len());
    let rules = |lines: &[Value]| {
        let mut rules: Vec<_> = of_type(lines, "finding")
            .iter()
            .filter(|finding| finding["verdict"] == "stands")
            .map(|finding| finding["rule"].to_string())
            .collect();
        rules.sort();
        rules
    };
    let judged = run(&["check", &sample("nfs3-basic.pcap"), "--format", "jsonl"]);
    assert_eq!(rules(&ends.output("check")), rules(&json_lines(text(&judged.stdout))));
}

/// Lost packets, and those that the receiver dropped after them, count when they are sent again:
/// the time until then belongs to their path.
#[test]
fn retransmission_delay_belongs_to_the_path() {
    const AGAIN: i64 = 5_000_000;
    let original = samples::capture("nfs3-basic");
    let before = both_ends("nfs3-basic", |_| false).output("transactions");
    // A call; and a Write followed by the reply, where only the Write is lost.
    for (name, part, lost) in [("SYMLINK", "there_ns", 1), ("GETACL", "back_ns", 2)] {
        let of = |reported: &[Value]| {
            let is_it = |line: &&Value| {
                line["operations"][0] == name
                    && line["status"] == 0
                    && line["call"]["frame"].as_u64() > Some(300)
            };
            reported.iter().find(is_it).expect("there is one").clone()
        };
        let line = of(&before);
        let first = original
            .packets
            .iter()
            .position(|packet| packet.xid() == line["xid"].as_str().map(xid))
            .expect("the call");
        let sent: Vec<usize> = if lost == 1 {
            vec![first]
        } else {
            let server = original.packets[first].destination();
            let is_sent =
                |at: &usize| original.packets[*at].source() == server && !original.packets[*at].is_response();
            (first..).filter(is_sent).take(2).collect()
        };
        let mut capture = original.clone();
        let last = *sent.last().expect("there is one");
        for packet in &mut capture.packets[last + 1..] {
            packet.time += AGAIN;
        }
        for (offset, index) in sent.iter().enumerate() {
            let mut again = original.packets[*index].clone();
            again.data[18..20].copy_from_slice(&0x7777u16.to_be_bytes());
            again.time += AGAIN;
            again.seal();
            capture.packets.insert(last + 1 + offset, again);
        }
        let ends = both_ends_of(Pcap::of(&pcap::write(&capture)), |index| index == sent[0]);
        let reported = ends.output("transactions");
        let (one, other) = (&line["split"], &of(&reported)["split"]);
        for same in ["client_ns", "there_ns", "server_ns", "sending_ns", "back_ns"] {
            let [expected, found] = [one, other].map(|split| split[same].as_i64().expect("it is split"));
            let expected = expected + if same == part { AGAIN } else { 0 };
            // Packets have different queueing delays.
            assert!((expected - found).abs() < 30_000, "{name}, {same}: {expected} expected, {found} found");
        }
    }
}

fn xid(text: &str) -> u32 {
    u32::from_str_radix(text.trim_start_matches("0x"), 16).expect("a number")
}

/// Three capture points are ordered along the path.
#[test]
fn intermediate_capture_point_is_ordered() {
    let ends = both_ends("nfs4.1-basic", |_| false);
    // The capture point between: a copy of the client's capture, 15 us later on the way to the
    // server and 15 us earlier on the way back.
    let mut pcap = Pcap::read("nfs4.1-basic.pcap");
    pcap.header[..4].copy_from_slice(&0xa1b2_3c4d_u32.to_le_bytes());
    let client = pcap.records[0][16 + 26..16 + 30].to_vec();
    let mut between: Vec<(i64, Vec<u8>)> = pcap
        .records
        .iter()
        .map(|record| {
            let (seconds, micros) = binary::time(record);
            let time = i64::from(seconds) * 1_000_000_000 + i64::from(micros) * 1_000;
            let time = if record[16 + 26..16 + 30] == client[..] { time + 15_000 } else { time - 15_000 };
            (time, at(record, time))
        })
        .collect();
    between.sort_by_key(|(time, _)| *time);
    let between = Temporary::new(
        "between-ends.pcap",
        &pcap.with(&between.into_iter().map(|(_, record)| record).collect::<Vec<_>>()),
    );
    let [client, server] = [ends.client.path(), ends.server.path()];
    let reported =
        lines(&run(&["analyze", client, "--with", server, "--with", between.path(), "--format", "jsonl"]));
    let mut ways: Vec<_> = of_type(&reported, "way")
        .iter()
        .map(|way| {
            (way["source"].as_str().unwrap(), way["from"].as_u64().unwrap(), way["to"].as_u64().unwrap())
        })
        .collect();
    ways.sort_unstable();
    assert_eq!(ways, [("10.77.0.1", 2, 3), ("10.77.0.1", 3, 1), ("10.77.0.2", 1, 3), ("10.77.0.2", 3, 2)]);
}

#[test]
fn text_output_has_the_capture_points() {
    let ends = both_ends("nfs3-basic", |index| index == 200);
    let with = ["--with", ends.server.path()];
    let report = run(&[&["analyze", ends.client.path()][..], &with].concat());
    let report = text(&report.stdout);
    for part in [
        "nearest to 10.77.0.2\n",
        " ahead of that of 1, and gains 35.",
        "estimated to within ",
        "1 packet captured at ",
        "way there",
    ] {
        assert!(report.contains(part), "{part}:\n{report}");
    }
    let shown = run(&[&["show", ends.client.path(), "--transaction", "16"][..], &with].concat());
    let shown = text(&shown.stdout);
    assert!(shown.contains("last packet at 1") && shown.contains("last packet at 2"), "{shown}");
}

#[test]
fn html_page_matches_the_report() {
    let ends = both_ends("nfs3-basic", |index| index == 200);
    let with = ["--with", ends.server.path()];
    let page = run(&[&["export", "html", ends.client.path(), "--output", "-"][..], &with].concat());
    let page = text(&page.stdout);
    let part = |from: &str, to: &str| {
        let rest = page.split_once(from).expect(from).1;
        rest.split_once(to).expect(to).0.to_owned()
    };
    assert!(part("id=\"places\"", "</dl>").contains("nearest to 10.77.0.2"), "{page}");
    let ways = part("id=\"ways\"", "</table>");
    assert_eq!(
        ways.matches("class=\"number bad\"><data value=\"1\">").count(),
        1,
        "one way has lost a packet: {ways}"
    );
    assert!(part("id=\"ways\"", "<h3>").contains("1 packet captured at "));
    let reported = ends.output("analyze");
    let rows = part("id=\"splits\"", "</table>").matches("<tr><th>").count();
    assert_eq!(rows, of_type(&reported, "operation_split").len());
    let alone = run(&["export", "html", ends.client.path(), "--output", "-"]);
    assert!(!text(&alone.stdout).contains("id=\"places\""));
}

#[test]
fn captures_that_cannot_be_joined_are_refused() {
    let [one, other] = [sample("nfs3-basic.pcap"), sample("nfs4.1-basic.pcap")];
    refused(&run(&["analyze", &one, "--with", &other]), &["have no packet in common"]);
    refused(&run(&["check", "-", "--with", &other]), &["-: --with needs regular files"]);
    refused(&run(&["analyze", &one, "--with", "/nowhere"]), &["/nowhere"]);
    let usage: [&[&str]; 3] = [
        &["diff", &one, &other, "--with", &one],
        &["export", "pcapng", &one, "--output", "-", "--with", &one],
        &["analyze", "--each", &one, &other, "--with", &one],
    ];
    for arguments in usage {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(text(&output.stderr).contains("--with"), "{arguments:?}");
    }
}
