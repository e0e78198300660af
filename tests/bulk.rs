//! Captures without bulk data.
//!
//! Without the data of RDMA Writes and Read responses, a capture gives the same transactions,
//! connections, findings and latencies. Checked on every sample and on imperfect captures of them.

use rdmascope_conformance::Judge;
use rdmascope_dissector::bulk::BulkCut;
use rdmascope_dissector::engine::{Config, Engine, Totals};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::frame;
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::record::{Record, Tap};
use rdmascope_dissector::transaction::{Outcome, Part};
use rdmascope_tests::mutate::{self, CLIENT};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::segments::Form;
use rdmascope_tests::session::{self, records};
use rdmascope_tests::{Differences, samples};
use std::net::Ipv4Addr;

/// The events and findings of some records, one per line, and the totals.
fn reported<'a>(records: impl Iterator<Item = Record<'a>>, config: frame::Config) -> (Vec<String>, Totals) {
    let mut engine =
        Engine::new(Config { frame: config, observe: Observe::All, attribute: true, ..Config::default() });
    let (mut judge, mut lines) = (Judge::default(), Vec::new());
    let mut take = |event: Event<'_>| {
        judge.handle(&event, &mut |finding| lines.push(format!("{finding:?}")));
        lines.push(format!("{event:?}"));
    };
    records.for_each(|record| engine.handle(&record, &mut take));
    engine.finish(&mut take);
    (lines, *engine.totals())
}

/// The number of bytes to keep of each packet.
fn kept<'a>(records: impl Iterator<Item = Record<'a>>, config: frame::Config) -> Vec<usize> {
    let mut bulk = BulkCut::new(config);
    records.map(|record| bulk.kept(&record)).collect()
}

/// The totals without those that shortened packets may change.
fn comparable(totals: Totals) -> Totals {
    let icrc = [0, totals.icrc[1], 0];
    Totals { icrc, sound_segments: 0, records_without_payload: 0, cut_records: 0, ..totals }
}

/// Shortens records. Returns the captured bytes before and after, and the first change in the
/// results.
fn shorten<'a>(
    records: impl Iterator<Item = Record<'a>> + Clone,
    config: frame::Config,
) -> ([usize; 2], Option<String>) {
    let lengths = kept(records.clone(), config);
    let before: usize = records.clone().map(|record| record.data.len()).sum();
    let shortened = records
        .clone()
        .zip(&lengths)
        .map(|(record, length)| Record { data: &record.data[..*length], ..record });
    let (expected, full) = reported(records.clone(), config);
    let (found, cut) = reported(shortened, config);
    let without = records.zip(&lengths).filter(|(record, length)| **length < record.data.len()).count();
    let differs = expected.iter().zip(&found).find(|(expected, found)| expected != found);
    let problem = if let Some((expected, found)) = differs {
        Some(format!("{expected}\n  became {found}"))
    } else if expected.len() != found.len() {
        Some(format!("{} events became {}", expected.len(), found.len()))
    } else if comparable(full) != comparable(cut) {
        Some(format!("{full:?}\n  became {cut:?}"))
    } else if cut.records_without_payload < without as u64
        || cut.cut_records + cut.records_without_payload < full.cut_records
        || cut.cut_records > full.cut_records
    {
        let [left, snapped] = [cut.records_without_payload, cut.cut_records];
        Some(format!(
            "{without} packets were shortened, {left} are reported as such, and {snapped} as cut \
            by a snap length"
        ))
    } else {
        None
    };
    ([before, lengths.iter().sum()], problem)
}

fn shorten_capture(capture: &Capture) -> ([usize; 2], Option<String>) {
    let all: Vec<Record<'_>> = records(capture).collect();
    shorten(all.iter().copied(), frame::Config::default())
}

#[test]
fn shortened_samples_are_smaller_with_the_same_results() {
    let mut differences = Differences::of("samples");
    // Clients read and write almost nothing in these. Replies in Read chunks are messages, which
    // stay.
    let move_nothing =
        [samples::REJECTED, samples::RELIABLE_REPLY, "iwarp-reconnect", "iwarp-rejected", "iwarp-scripted"];
    for name in samples::ALL.into_iter().chain(samples::IWARP) {
        let ([before, after], problem) = shorten_capture(&samples::capture(name));
        println!("{name}: {before} bytes captured, {after} kept");
        differences.check(problem.is_none(), format!("{name}: {}", problem.unwrap_or_default()));
        let is_smaller = after < before || move_nothing.contains(&name);
        differences.check(is_smaller, format!("{name}: {after} of {before}"));
    }
    differences.end();
}

/// Without loss, reordering or duplicates, only Sends and messages are kept. The number of kept
/// chunk bytes equals the length of the Long Calls and Long Replies.
#[test]
fn only_messages_are_kept() {
    for name in ["nfs3-basic", "nfs4.1-basic", "nfs4.2-basic", "nfs4.2-mtu4096-large-io"] {
        let capture = samples::capture(name);
        let lengths = kept(records(&capture), frame::Config::default());
        let payload = |(packet, length): (&Packet, &usize)| {
            let is_bulk = packet.is_rc() && matches!(packet.opcode(), 0x06..=0x0b | 0x0d..=0x10);
            if !is_bulk || length == &packet.payload().start { 0 } else { packet.payload().len() }
        };
        let kept: usize = capture.packets.iter().zip(&lengths).map(payload).sum();
        let found = session::run(&capture);
        let of = |part: Part, segments: u64| if part == Part::ReplyChunk { segments } else { 0 };
        let mut messages = 0;
        for transaction in found.transactions.iter().filter(|it| it.outcome == Outcome::Completed) {
            let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply) else { continue };
            let zero = call.read_chunks.iter().filter(|chunk| chunk.position == 0);
            let read = zero.flat_map(|chunk| &chunk.segments).map(|segment| u64::from(segment.length));
            messages += read.sum::<u64>();
            let written = reply.reply_chunk.iter().flat_map(|chunk| &chunk.segments);
            messages += of(Part::ReplyChunk, written.map(|segment| u64::from(segment.length)).sum());
        }
        assert_eq!(kept as u64, messages, "{name}");
    }
}

/// Missing, reordered and duplicated packets.
#[test]
fn shortened_variants_give_the_same_results() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).ok().map_or(otherwise, |text| text.parse().expect("a number"))
    };
    let (count, first) = (number("RDMASCOPE_VARIANTS", 170), number("RDMASCOPE_FIRST_VARIANT", 0));
    let mut differences = Differences::of("variants");
    let names: Vec<&str> = samples::MOUNTS.into_iter().chain(samples::IWARP_MOUNTS).collect();
    let sessions: Vec<Capture> = names.iter().map(|name| samples::capture(name)).collect();
    for seed in first..first + count {
        let index = (seed % sessions.len() as u64) as usize;
        let variant = mutate::variant(&sessions[index], seed);
        let (_, problem) = shorten_capture(&variant.capture);
        let label = format!("seed {seed}, {} {:?}", names[index], variant.kind);
        differences.check(problem.is_none(), format!("{label}: {}", problem.unwrap_or_default()));
    }
    differences.end();
}

#[test]
fn shortened_captures_give_the_same_results() {
    let mut differences = Differences::of("captures");
    let mut check = |label: String, capture: &Capture| {
        let (_, problem) = shorten_capture(capture);
        differences.check(problem.is_none(), format!("{label}: {}", problem.unwrap_or_default()));
    };
    for name in samples::MOUNTS {
        let original = samples::capture(name);
        check(format!("{name}, without CM"), &mutate::without_cm(&original));
        for index in (1..original.packets.len()).step_by(original.packets.len() / 7) {
            check(format!("{name}, from {index}"), &mutate::from(&original, index));
        }
        for snap_length in [60, 70, 96, 128, 256, 1000] {
            check(format!("{name}, snap length {snap_length}"), &mutate::cut(&original, snap_length));
        }
        check(format!("{name}, side by side"), &mutate::side_by_side(&original, 3_000));
        check(format!("{name}, sent twice"), &mutate::repeat(&original, |_| true));
        check(format!("{name}, captured twice"), &mutate::copy(&original, |packet| packet.number % 3 > 0));
        let mut unnumbered = original.clone();
        mutate::each(&mut unnumbered, |packet| packet.data[18..20].fill(0));
        let mut copied = mutate::copy(&unnumbered, |_| true);
        check(format!("{name}, no Identification"), &copied);
        // The same PSNs with other payload right after the first: no copies.
        mutate::each(&mut copied, |packet| {
            if packet.is_rc() && packet.number % 2 == 0 && !packet.payload().is_empty() {
                let last = packet.payload().end - 1;
                packet.data[last] ^= 1;
            }
        });
        check(format!("{name}, other bytes sent again"), &copied);
        // Bad ICRCs: of every packet, of every fifth, of every packet of one end, of all before
        // number 400.
        let spoils: [fn(&Packet) -> bool; 4] =
            [|_| true, |it| it.number % 5 == 0, |it| it.source() == CLIENT, |it| it.number < 400];
        for (index, spoils) in spoils.into_iter().enumerate() {
            let mut spoiled = original.clone();
            for packet in spoiled.packets.iter_mut().filter(|packet| packet.is_roce() && spoils(packet)) {
                if let Some(last) = packet.data.last_mut() {
                    *last ^= 1;
                }
            }
            check(format!("{name}, spoiled {index}"), &spoiled);
        }
        let mut elsewhere = original.clone();
        mutate::readdress(&mut elsewhere, CLIENT, Ipv4Addr::new(192, 0, 2, 7));
        check(format!("{name}, two clients"), &mutate::merge(&original, &elsewhere));
    }
    for name in samples::IWARP_MOUNTS {
        let original = samples::capture(name);
        for index in (1..original.packets.len()).step_by(original.packets.len() / 7) {
            check(format!("{name}, from {index}"), &mutate::from(&original, index));
        }
        for snap_length in [60, 66, 86, 96, 128, 256, 1000] {
            check(format!("{name}, snap length {snap_length}"), &mutate::cut(&original, snap_length));
        }
        check(format!("{name}, captured twice"), &mutate::copy(&original, |packet| packet.number % 3 > 0));
        for form in [Form::Sealed, Form::Unfinished, Form::Markers] {
            check(format!("{name}, {form:?}"), &form.apply(&original));
        }
    }
    // A Long Call: its bytes are fetched by RDMA Reads, like bulk data.
    let mut long = samples::capture("nfs3-basic");
    let is_call =
        |packet: &Packet| packet.xid().is_some() && packet.source() == CLIENT && packet.opcode() == 4;
    let at = long.packets.iter().position(|packet| is_call(packet) && mutate::header_length(packet) == 28);
    mutate::make_long_call(&mut long, at.expect("most calls have no chunks"), true);
    check("a Long Call".into(), &long);
    differences.end();
}

/// Two taps with reported drops, with and without verification of ICRCs.
#[test]
fn shortened_records_of_two_taps_give_the_same_results() {
    for name in samples::MOUNTS {
        let capture = mutate::copy(&samples::capture(name), |_| true);
        let all: Vec<Record<'_>> = records(&capture)
            .map(|record| Record {
                tap: Tap { file: 0, interface: (record.number % 2) as u32 },
                dropped: u32::from(record.number % 701 == 0),
                ..record
            })
            .collect();
        for verify_icrc in [false, true] {
            let config = frame::Config { verify_icrc, ..frame::Config::default() };
            let (_, problem) = shorten(all.iter().copied(), config);
            assert_eq!(problem, None, "{name}");
        }
    }
}

/// Shortening a shortened capture again changes nothing.
#[test]
fn shortening_twice_changes_nothing() {
    for name in samples::MOUNTS.into_iter().chain(samples::IWARP) {
        let mut capture = samples::capture(name);
        let lengths = kept(records(&capture), frame::Config::default());
        capture.packets.iter_mut().zip(&lengths).for_each(|(packet, length)| packet.data.truncate(*length));
        assert_eq!(kept(records(&capture), frame::Config::default()), lengths, "{name}");
    }
}
