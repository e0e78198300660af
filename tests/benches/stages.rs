//! The cost of each stage on the samples: `cargo bench -p rdmascope-tests`.

#![allow(missing_docs)] // criterion_group! makes a public function.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use rdmascope_capture_agent::PcapngWriter;
use rdmascope_capture_agent::framing::{Framer, Step};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::frame;
use rdmascope_dissector::record::Record;
use rdmascope_dissector::transport::Dissected;
use rdmascope_fuzz_targets::ReferenceFramer;
use rdmascope_tests::{pcap, samples, session};
use rdmascope_wire::rpcrdma::Header;
use std::hint::black_box;

/// A session of small operations, and one of bulk transfers at path MTU 4096.
const SAMPLES: [&str; 2] = ["nfs4.1-backchannel-recall", "nfs4.2-mtu4096-large-io"];

/// The records as a pcapng capture, with a comment on each unless it is empty.
fn pcapng(records: &[Record<'_>], comment: &str) -> Vec<u8> {
    let mut writer = PcapngWriter::new(Vec::new(), "stages").expect("memory can be written");
    records.iter().for_each(|record| writer.packet(record, comment).expect("memory can be written"));
    writer.finish().expect("memory can be written")
}

/// Frames all records. The result depends on each of them.
#[inline(always)]
fn framed(bytes: &[u8], mut next: impl FnMut(&[u8]) -> Step) -> u64 {
    let (mut at, mut found) = (0, 0u64);
    loop {
        match next(&bytes[at..]) {
            Step::Record(framed) => {
                // Uses both, as the engine does.
                found = found.wrapping_add(framed.time.0 as u64 ^ framed.end as u64) | 1;
                at += framed.consumed;
            }
            Step::Skip(length) => at += length,
            Step::Need(_) | Step::Damaged(_) => return found,
        }
    }
}

fn stages(criterion: &mut Criterion) {
    for sample in SAMPLES {
        let capture = samples::capture(sample);
        let bytes = pcap::write(&capture);
        let records: Vec<Record<'_>> = session::records(&capture).collect();
        let mut group = criterion.benchmark_group(sample);
        group.throughput(Throughput::Elements(records.len() as u64));

        // The framer, and the hand-written one that it is tested against.
        let comment = |comment| pcapng(&records, comment);
        for (format, bytes) in
            [("pcap", bytes), ("pcapng", comment("")), ("pcapng with comments", comment("a comment"))]
        {
            group.bench_function(format!("framing of {format}"), |bencher| {
                bencher.iter(|| {
                    let mut framer = Framer::new();
                    framed(black_box(&bytes), |rest| framer.next(rest))
                });
            });
            group.bench_function(format!("framing of {format} by hand"), |bencher| {
                bencher.iter(|| {
                    let mut framer = ReferenceFramer::default();
                    framed(black_box(&bytes), |rest| framer.next(rest))
                });
            });
        }

        for (name, verify_icrc) in [("frame", false), ("frame and ICRC", true)] {
            let config = frame::Config { verify_icrc, ..frame::Config::default() };
            group.bench_function(name, |bencher| {
                bencher.iter(|| {
                    records.iter().filter(|record| frame::dissect(black_box(record), &config).is_ok()).count()
                });
            });
        }

        let config = frame::Config { verify_icrc: false, ..frame::Config::default() };
        let all: Vec<_> = records.iter().map(|record| Dissected::new(record, &config)).collect();
        group.bench_function("engine after frame", |bencher| {
            bencher.iter_batched_ref(
                || Engine::new(Config { frame: config, ..Config::default() }),
                |engine| {
                    let mut transactions = 0u64;
                    let mut report = |event: Event<'_>| {
                        transactions += u64::from(matches!(event, Event::Transaction(_)));
                    };
                    for (record, dissected) in records.iter().zip(&all) {
                        engine.handle_dissected(record, dissected, &mut report);
                    }
                    engine.finish(&mut report);
                    transactions
                },
                BatchSize::SmallInput,
            );
        });
        group.finish();
    }

    // The header of a call with a Read chunk of two segments, as sent by Linux.
    let words: [u32; 20] = [
        0x1b39_6a62,
        1,
        128,
        0,
        1,
        108,
        0xc43,
        131_072,
        0x1b39_6a62,
        0x0469_4000,
        1,
        108,
        0xbc4,
        131_072,
        0x1b39_6a62,
        0x046b_4000,
        0,
        0,
        0,
        0,
    ];
    let message: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    criterion.bench_function("RPC-over-RDMA header", |bencher| {
        bencher.iter(|| {
            let header = Header::parse(black_box(&message)).expect("the fixed fields are complete");
            header.reads.map(|read| u64::from(read.target.length)).sum::<u64>()
        });
    });
}

criterion_group!(benches, stages);
criterion_main!(benches);
