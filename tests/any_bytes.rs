//! Arbitrary input: real sessions cut and corrupted everywhere, and captures that try to exhaust
//! memory.

use rdmascope_conformance::Judge;
use rdmascope_dissector::engine::{Config, Engine, Totals};
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::frame;
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::record::{LinkType, Record, Time};
use rdmascope_fuzz_targets::records;
use rdmascope_tests::judged::Compared;
use rdmascope_tests::session::record;
use rdmascope_tests::{mutate, pcap, samples};
use rdmascope_wire::bth::{Bth, Extensions, Opcode};
use rdmascope_wire::psn::Psn;
use rdmascope_wire::rpcrdma::{Builder, Procedure, ReadSegment, Segment};
use rdmascope_wire::{Qpn, Rkey, Xid, compose};
use std::net::Ipv4Addr;
use std::process::{Command, Stdio};
use std::{env, fs};

/// ICRCs are not verified, because corrupted packets would only be dropped.
const UNCHECKED: Config = Config {
    frame: frame::Config { port: 4791, vxlan_port: None, verify_icrc: false },
    report_packets: true,
    keep: Keep { steps: true, contents: true },
    observe: Observe::All,
    attribute: true,
    report_framed: true,
    capture_points_apart: None,
    crowd: None,
};

fn all_samples() -> impl Iterator<Item = &'static str> {
    samples::ALL.into_iter().chain(samples::IWARP)
}

/// Runs the engine, and the judge on its events, with gates and without.
fn run<'a>(records: impl Iterator<Item = Record<'a>>, config: Config) -> Totals {
    let mut engine = Engine::new(config);
    let mut judge = Compared::default();
    records.for_each(|record| engine.handle(&record, &mut |event| drop(judge.handle(&event))));
    engine.finish(&mut |event| drop(judge.handle(&event)));
    *engine.totals()
}

#[test]
fn captures_truncated_at_every_byte_cause_no_panic() {
    const PACKETS: usize = 40;
    for sample in all_samples() {
        let file = fs::read(samples::folder().join(format!("{sample}.pcap"))).expect("a sample");
        let end: usize =
            24 + records(&file).take(PACKETS).map(|record| 16 + record.data.len()).sum::<usize>();
        for length in 0..=end.min(24_000) {
            let count = run(records(&file[..length]), Config::default()).records;
            assert!(count <= PACKETS as u64);
        }
        // A snap length cuts the last packet in the same way, and the record states its original
        // length.
        let packets = &samples::capture(sample).packets;
        let packets = &packets[..packets.len().min(PACKETS)];
        for last in 0..packets.len() {
            for kept in 0..packets[last].data.len().min(400) {
                let mut cut = packets[last].clone();
                cut.data.truncate(kept);
                let from = last.saturating_sub(8);
                let totals = run(packets[from..last].iter().chain([&cut]).map(record), UNCHECKED);
                assert_eq!(totals.records, (last - from + 1) as u64);
            }
        }
    }
}

/// Runs the packets around packet `at`, after applying `change` to it.
fn changed(packets: &[pcap::Packet], at: usize, change: impl FnOnce(&mut Vec<u8>)) {
    let mut packet = packets[at].clone();
    change(&mut packet.data);
    let (from, to) = (at.saturating_sub(6), packets.len().min(at + 10));
    let around = packets[from..at].iter().chain([&packet]).chain(&packets[at + 1..to]);
    assert_eq!(run(around.map(record), UNCHECKED).records, (to - from) as u64);
}

#[test]
fn flipped_header_bytes_cause_no_panic() {
    for sample in all_samples() {
        let packets = samples::capture(sample).packets;
        for at in 0..packets.len().min(60) {
            for byte in 12..packets[at].data.len().min(240) {
                for mask in [0xff, 0x01, 0x80] {
                    changed(&packets, at, |data| data[byte] ^= mask);
                }
            }
        }
    }
}

#[test]
fn wrong_length_fields_cause_no_panic() {
    const IP_LENGTH: usize = 16;
    const UDP_LENGTH: usize = 38;
    for sample in all_samples() {
        let packets = samples::capture(sample).packets;
        for at in 0..packets.len().min(60) {
            for field in [IP_LENGTH, UDP_LENGTH] {
                for wrong in [0u16, 1, 7, 8, 19, 20, 27, 28, 40, u16::MAX] {
                    changed(&packets, at, |data| {
                        data[field..field + 2].copy_from_slice(&wrong.to_be_bytes())
                    });
                }
            }
            // Every word after the BTH: the length of a RETH, the counts and lengths of chunks,
            // those of XDR items.
            let words = (mutate::EXTENSION..packets[at].data.len().min(300).saturating_sub(4)).step_by(4);
            for word in words {
                for wrong in [0, 1, u32::MAX] {
                    changed(&packets, at, |data| data[word..word + 4].copy_from_slice(&wrong.to_be_bytes()));
                }
            }
        }
    }
}

#[test]
fn arbitrary_times_cause_no_panic() {
    // Times as far apart as a file can express, in any order: differences overflow.
    const TIMES: [i64; 6] = [0, 1, i64::MIN, i64::MAX, i64::MAX - 1_000_000_000, 1 << 60];
    let sessions: [&dyn Fn(usize) -> i64; 3] = [
        &|at| TIMES[at % TIMES.len()],
        // Each call takes the longest possible time, regardless of the packets before its reply.
        &|at| TIMES[at / 2 % 2 + 2],
        &|at| (at as i64) << 55,
    ];
    for sample in all_samples() {
        for time in sessions {
            let packets = samples::capture(sample).packets;
            let dated = packets
                .iter()
                .enumerate()
                .map(|(at, packet)| Record { time: Time(time(at)), ..record(packet) });
            assert_eq!(run(dated, UNCHECKED).records, packets.len() as u64);
        }
    }
}

/// An engine and a judge, fed with packets made here.
struct Hostile {
    engine: Engine,
    judge: Judge,
    number: u64,
    frame: Vec<u8>,
}

impl Hostile {
    fn new() -> Hostile {
        let config = Config { frame: UNCHECKED.frame, observe: Observe::All, ..Config::default() };
        Hostile { engine: Engine::new(config), judge: Judge::default(), number: 0, frame: Vec::new() }
    }

    /// Passes a packet from host 1 to queue pair `qp` of host 2. `rest` has the bytes after the
    /// BTH.
    fn packet(&mut self, qp: u32, opcode: u8, psn: u32, rest: &[u8]) {
        self.packet_of([1, 2], qp, opcode, psn, rest);
    }

    /// Passes a packet from the first of two hosts to queue pair `qp` of the second.
    fn packet_of(&mut self, [from, to]: [u8; 2], qp: u32, opcode: u8, psn: u32, rest: &[u8]) {
        let host = |number| Ipv4Addr::new(10, 0, 0, number);
        let frame = compose::Frame {
            ethernet: None,
            carrier: compose::Carrier::Ipv4(
                compose::Ipv4::new(host(from), host(to)),
                compose::Udp::default(),
            ),
            bth: Bth {
                opcode: Opcode(opcode),
                partition_key: 0xffff,
                destination_qp: Qpn(qp),
                psn: Psn::new(psn),
                ..Bth::default()
            },
            extensions: Extensions::default(),
            payload: rest,
        };
        self.frame.clear();
        frame.append(&mut self.frame).expect("it fits a packet");
        self.number += 1;
        let record = Record {
            number: self.number,
            time: Time(self.number as i64 * 1000),
            link: LinkType::RAW,
            original_length: self.frame.len() as u32,
            dropped: 0,
            tap: Default::default(),
            data: &self.frame,
        };
        self.engine.handle(&record, &mut |event| self.judge.handle(&event, &mut |_| ()));
    }

    fn end(mut self) -> Totals {
        self.engine.finish(&mut |event| self.judge.handle(&event, &mut |_| ()));
        let totals = *self.engine.totals();
        assert_eq!(totals.packets, self.number, "all packets are recognized");
        totals
    }
}

const SEND_FIRST: u8 = 0;
const SEND_MIDDLE: u8 = 1;
const SEND_LAST: u8 = 2;
const SEND_ONLY: u8 = 4;
const WRITE_ONLY: u8 = 0x0a;

/// A call of NFSv4 COMPOUND with `count` operations of one word each.
fn call(xid: u32, count: u32, segments: usize) -> Vec<u8> {
    let mut header = Builder::new(Xid(xid), 8, Procedure::Msg);
    header.reads = (0..segments)
        .map(|index| ReadSegment {
            position: index as u32 + 1,
            target: Segment { handle: Rkey(xid), length: 1 << 20, offset: (index as u64) << 20 },
        })
        .collect();
    let mut out = Vec::new();
    header.build(&mut out);
    // Call, version 2, NFS 4, COMPOUND, AUTH_NONE twice, no tag, minor version 1; then PUTROOTFH.
    for word in [xid, 0, 2, 100_003, 4, 1, 0, 0, 0, 0, 0, 1, count] {
        out.extend(word.to_be_bytes());
    }
    (0..count).for_each(|_| out.extend(24u32.to_be_bytes()));
    out
}

/// The hostile captures by name. Each runs in its own process, so that its peak memory can be read.
const HOSTILE: [(&str, fn()); 8] = [
    ("queue pairs", || {
        let mut hostile = Hostile::new();
        (0..1_000_000).for_each(|qp| hostile.packet(qp + 2, SEND_ONLY, 7, &[0; 32]));
        let totals = hostile.end();
        assert_eq!(totals.connections, 1_000_000);
        // At the end, 512 are in the table, and another 65,536 are held with one packet each. A
        // packet whose 32-bit name equals that of a held one releases it to the table; 15 such
        // collisions are expected.
        let given_up = 1_000_000 - 512 - 65_536;
        assert!((given_up - 64..=given_up).contains(&totals.evictions), "{}", totals.evictions);
    }),
    ("outstanding XIDs", || {
        let mut hostile = Hostile::new();
        (0..1_000_000u32).for_each(|xid| hostile.packet(2, SEND_ONLY, xid, &call(xid, 0, 0)));
        let totals = hostile.end();
        assert_eq!(totals.transactions.iter().sum::<u64>(), 1_000_000);
        assert!(totals.evictions > 980_000);
    }),
    ("operations", || {
        let mut hostile = Hostile::new();
        (0..20_000u32).for_each(|xid| hostile.packet(2, SEND_ONLY, xid, &call(xid, 1000, 0)));
        assert_eq!(hostile.end().transactions.iter().sum::<u64>(), 20_000);
    }),
    ("segments", || {
        let mut hostile = Hostile::new();
        // The most segments that fit one packet, and the most that fit one Send.
        (0..300).for_each(|xid| hostile.packet(2, SEND_ONLY, xid, &call(xid, 0, 2700)));
        let long = call(1000, 0, 21_000);
        for round in 0..20 {
            let pieces: Vec<&[u8]> = long.chunks(32_768).collect();
            for (index, piece) in pieces.iter().enumerate() {
                let opcode = match index {
                    0 => SEND_FIRST,
                    _ if index + 1 == pieces.len() => SEND_LAST,
                    _ => SEND_MIDDLE,
                };
                hostile.packet(3, opcode, round * pieces.len() as u32 + index as u32, piece);
            }
        }
        assert_eq!(hostile.end().transactions.iter().sum::<u64>(), 320);
    }),
    ("empty chunks", || {
        let mut hostile = Hostile::new();
        for xid in 0..2_000u32 {
            let mut header = Builder::new(Xid(xid), 8, Procedure::Msg);
            header.writes = vec![Vec::new(); 8000];
            let mut out = Vec::new();
            header.build(&mut out);
            out.extend([xid.to_be_bytes(), [0; 4]].concat());
            hostile.packet(2, SEND_ONLY, xid, &out);
        }
        assert_eq!(hostile.end().transactions.iter().sum::<u64>(), 2_000);
    }),
    ("PSN storm", || {
        let mut hostile = Hostile::new();
        let mut dice = 1u32;
        for _ in 0..400_000 {
            dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let opcode = (dice >> 3) as u8 % 0x18;
            hostile.packet(2 + (dice & 1), opcode, dice >> 8, &[0; 200]);
        }
        hostile.end();
    }),
    ("scattered writes", || {
        let mut hostile = Hostile::new();
        // Each call offers memory, and every other byte of it is written, so no two of the ranges
        // can be merged.
        let (calls, writes) = (400u32, 4096u32);
        for xid in 0..calls {
            let mut header = Builder::new(Xid(xid), 8, Procedure::Msg);
            header.writes = vec![vec![Segment { handle: Rkey(xid), length: 1 << 20, offset: 0 }]];
            let mut out = Vec::new();
            header.build(&mut out);
            out.extend([xid.to_be_bytes(), [0; 4]].concat());
            hostile.packet(2, SEND_ONLY, xid, &out);
            for write in 0..writes {
                let address = u64::from(2 * write + 1).to_be_bytes();
                let reth = [&address[..], &xid.to_be_bytes(), &1u32.to_be_bytes(), &[0xff]].concat();
                hostile.packet_of([2, 1], 3, WRITE_ONLY, xid * writes + write, &reth);
            }
        }
        let totals = hostile.end();
        assert_eq!(totals.transactions.iter().sum::<u64>(), u64::from(calls));
        assert_eq!(totals.connections, 1, "the written memory identifies the writer");
        assert!(totals.evictions > 100, "{}", totals.evictions);
    }),
    ("gaps everywhere", || {
        let mut hostile = Hostile::new();
        for psn in [0].into_iter().chain(2..130) {
            (0..1000).for_each(|qp| hostile.packet(qp + 2, SEND_ONLY, psn, &[0; 1000]));
        }
        hostile.end();
    }),
];

const CHILD: &str = "RDMASCOPE_HOSTILE";

/// Not a separate test: the next test runs this in child processes.
#[test]
fn hostile_child() {
    let Ok(name) = env::var(CHILD) else { return };
    let (_, case) = HOSTILE.iter().find(|(known, _)| *known == name).expect("a case");
    case();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM: unknown");
    println!("{peak}");
}

#[test]
fn hostile_captures_use_bounded_memory() {
    const MOST_KIB: u64 = 64 << 10;
    // All run at the same time; their output fits the pipe buffer.
    let children = HOSTILE.map(|(name, _)| {
        let mut command = Command::new(env::current_exe().expect("a path"));
        command.args(["--exact", "hostile_child", "--nocapture"]).env(CHILD, name);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        (name, child.expect("the test starts"))
    });
    let mut greedy = Vec::new();
    for (name, child) in children {
        let output = child.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{name}: {text}{}", String::from_utf8_lossy(&output.stderr));
        let peak = text.lines().find(|line| line.starts_with("VmHWM"));
        let peak = peak.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        if peak.is_some_and(|peak| peak > MOST_KIB) {
            greedy.push((name, peak));
        }
    }
    assert!(greedy.is_empty(), "peak in KiB: {greedy:?}");
}
