use super::*;
use proptest::prelude::*;
use rdmascope_capture_agent::{NoteKind, PcapngWriter};
use rdmascope_dissector::connection::Origin;
use rdmascope_tests::floods::Kind;
use rdmascope_tests::{pcap, samples, session};
use std::sync::LazyLock;

impl Records for &[Record<'_>] {
    fn walk(&self, number: u64) -> Box<dyn Iterator<Item = Record<'_>> + '_> {
        Box::new(self.iter().copied().skip(number as usize - 1))
    }
}

impl Records for Vec<Record<'_>> {
    fn walk(&self, number: u64) -> Box<dyn Iterator<Item = Record<'_>> + '_> {
        Box::new(self.iter().copied().skip(number as usize - 1))
    }
}

/// All state that can be queried at a moment.
fn digest(now: &Now<'_>) -> String {
    let connections: Vec<Connection> = now.connections().collect();
    let open: Vec<_> = now.open_transactions().map(|open| (open, open.progress().count())).collect();
    let credits: Vec<_> = connections.iter().map(|one| now.judge().credits(one.id)).collect();
    format!(
        "{} {:?} {:?}\n{:?}\n{connections:?}\n{open:?}\n{credits:?}\n{:?}",
        now.record(),
        now.time(),
        now.found(),
        now.totals(),
        now.findings(),
    )
}

fn config() -> Config {
    let engine = engine::Config { attribute: true, ..engine::Config::default() };
    Config { engine, ..Config::default() }
}

/// A timeline over these records.
fn timeline(config: Config, records: &[Record<'_>]) -> Timeline {
    let mut timeline = Timeline::new(config, Judge::default());
    records.iter().for_each(|record| timeline.take(record));
    timeline
}

/// A timeline over the records of a live source, which reports its clock after each record.
fn live(config: Config, records: &[Record<'_>]) -> Timeline {
    let mut timeline = Timeline::new(config, Judge::default());
    let mut clock = Time(i64::MIN);
    for record in records {
        timeline.take(record);
        clock = clock.max(record.time);
        timeline.handle_time(clock, &mut |_| {});
    }
    timeline
}

/// A timeline with inventories of a kernel: before the first record, again after some records, and
/// before or after the time.
fn with_notes(config: Config, records: &[Record<'_>]) -> Timeline {
    let mut timeline = Timeline::new(config, Judge::default());
    timeline.take_note(&KNOWN);
    for record in records {
        timeline.take(record);
        let phase = record.number % 89;
        if phase == 5 {
            timeline.take_note(&KNOWN);
        }
        timeline.handle_time(record.time, &mut |_| {});
        if phase < 2 {
            timeline.take_note(&KNOWN);
        }
    }
    timeline
}

/// The connections of all samples, as the clients' kernels would report them.
static KNOWN: LazyLock<Note> = LazyLock::new(|| {
    let connections = SAMPLES.iter().flat_map(|capture| session::run(capture).connections);
    inventory_of(connections)
});

fn inventory_of(connections: impl Iterator<Item = Connection>) -> Note {
    let mut text = String::new();
    for Connection { requester, responder, .. } in connections {
        let (Some(local), Some(remote)) = (requester.qpn, responder.qpn) else { continue };
        text += &format!(
            "device=rxe0 local-qp={} remote-qp={} source=10.77.0.2:40000 destination=10.77.0.1:20049 owner=rpcrdma\n",
            local.0, remote.0
        );
    }
    Note { kind: NoteKind::Inventory, bytes: text.into_bytes() }
}

/// One of the three constructors above.
type Run = fn(Config, &[Record<'_>]) -> Timeline;

/// The digest and the complete state of a run that stops after this record.
fn fresh(run: Run, records: &[Record<'_>], number: u64) -> (String, String) {
    let timeline = run(config(), &records[..number as usize]);
    (digest(&timeline.latest()), format!("{:?}", timeline.latest))
}

/// Seeks to the records of the walk, and compares each state with a fresh run.
fn walk(run: Run, config: Config, records: &[Record<'_>], steps: &[prop::sample::Index]) {
    let timeline = &mut run(config, records);
    assert!(timeline.checkpoint_bytes() <= config.budget);
    for step in steps {
        let number = step.index(records.len() + 1) as u64;
        let now = timeline.seek(&records, Moment::Record(number)).expect("every record is available");
        assert_eq!(now.record(), number);
        let (expected, state) = fresh(run, records, number);
        same(number, &digest(&now), &expected);
        same(number, &format!("{:?}", timeline.shown), &state);
    }
}

/// Compares two texts, and shows where they begin to differ.
fn same(number: u64, actual: &str, expected: &str) {
    let Some(at) = actual.bytes().zip(expected.bytes()).position(|(one, other)| one != other) else {
        return assert_eq!(actual.len(), expected.len(), "record {number}");
    };
    let around = |text: &str| {
        String::from_utf8_lossy(&text.as_bytes()[at.saturating_sub(200)..text.len().min(at + 100)])
            .into_owned()
    };
    panic!("record {number}:\n  {}\nwhere a fresh run has\n  {}", around(actual), around(expected));
}

static SAMPLES: LazyLock<Vec<pcap::Capture>> =
    LazyLock::new(|| samples::MOUNTS.into_iter().map(samples::capture).collect());

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn seeks_in_a_sample_match_a_fresh_run(
        which in 0..samples::MOUNTS.len(),
        run in prop::sample::select(&[timeline as Run, live, with_notes][..]),
        steps in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
        spacing in 1u64..400,
        budget in prop::sample::select(&[0usize, 200_000, 2_000_000, 64 << 20][..]),
    ) {
        let records: Vec<Record<'_>> = session::records(&SAMPLES[which]).take(1500).collect();
        walk(run, Config { spacing, budget, ..config() }, &records, &steps);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn seeks_in_any_session_match_a_fresh_run(
        path in prop::sample::select(corpus()),
        run in prop::sample::select(&[timeline as Run, live, with_notes][..]),
        steps in prop::collection::vec(any::<prop::sample::Index>(), 1..8),
        spacing in 1u64..40,
        budget in prop::sample::select(&[0usize, 100_000, 64 << 20][..]),
    ) {
        let frames = rdmascope_fuzz_targets::frames(&std::fs::read(path).expect("a corpus file"));
        let records: Vec<Record<'_>> =
            (1..).zip(&frames).map(|(number, frame)| frame.record(number)).collect();
        walk(run, Config { spacing, budget, ..config() }, &records, &steps);
    }
}

/// The sessions in the fuzzing corpus.
fn corpus() -> Vec<std::path::PathBuf> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/engine");
    let entries = std::fs::read_dir(folder).expect("the corpus exists");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.sort();
    paths
}

/// A capture that begins in the middle of a connection. The archive returns the kernel's note about
/// the connection, so it is known at every moment and in every replay.
#[test]
fn kernel_notes_apply_at_every_moment() {
    let capture = samples::capture("nfs3-basic");
    let note = inventory_of(session::run(&capture).connections.into_iter());
    let is_cm = |record: &Record<'_>| record.data[42] == 0x64;
    let mut writer = PcapngWriter::new(tempfile::NamedTempFile::new().unwrap(), "test").unwrap();
    writer.note(note.kind, &note.bytes).unwrap();
    session::records(&capture)
        .filter(|record| !is_cm(record))
        .for_each(|record| writer.packet(&record, "").unwrap());
    let file = writer.finish().unwrap();
    let archive = Archive::open(&[file.path().to_owned()], None).unwrap();
    let mut timeline = Timeline::new(Config { spacing: 100, ..config() }, Judge::default());
    for record in archive.walk(1) {
        archive.notes(record.number).for_each(|note| timeline.take_note(&note));
        timeline.take(&record);
    }
    timeline.finish();
    assert!(timeline.checkpoints() > 3);
    let origins = |now: &Now<'_>| now.connections().map(|one| one.origin).collect::<Vec<_>>();
    assert_eq!(origins(&timeline.latest()), [Origin::Kernel]);
    for number in [0, archive.records(), 350, 10, 1, 0, 40] {
        let now = timeline.seek(&archive, Moment::Record(number)).unwrap();
        assert_eq!(now.totals().known_connections, 1, "record {number}");
        assert!(origins(&now).iter().all(|origin| *origin == Origin::Kernel), "record {number}");
        assert_eq!(now.connections().count(), usize::from(number > 0), "record {number}");
    }
    let mut connections = Vec::new();
    let all = 1..=archive.records();
    let mut see = |happening: Happening<'_>| {
        if let Happening::Event(Event::Packet(packet)) = happening {
            connections.extend(packet.connection);
        }
    };
    timeline.replay(&archive, all, true, &mut see).unwrap();
    assert!(connections.len() > 300 && connections.iter().all(|one| *one == ConnectionId(1)));
}

#[test]
fn results_match_a_run_without_a_timeline() {
    let mut capture = samples::capture("nfs3-lossy");
    // A reply that grants no credits is found at once, retransmissions at the end.
    let server = rdmascope_tests::mutate::SERVER;
    let reply =
        capture.packets.iter_mut().find(|packet| packet.source() == server && packet.starts_message());
    let reply = reply.expect("the server replies");
    reply.set_u32(reply.payload().start + 8, 0);
    reply.seal();
    let records: Vec<Record<'_>> = session::records(&capture).collect();
    let mut judge = Judge::default();
    let mut engine = Engine::new(config().engine.and(Judge::needs()));
    let (mut found, mut transactions) = (Vec::new(), Vec::new());
    let mut take = |event: Event<'_>| {
        if let Event::Transaction(transaction) = event {
            transactions.push(format!("{transaction:?}"));
        }
        judge.handle(&event, &mut |finding| found.push(format!("{finding:?}")));
    };
    records.iter().for_each(|record| engine.handle(record, &mut take));
    engine.finish(&mut take);

    let mut timeline = timeline(Config { spacing: 100, ..config() }, &records);
    timeline.finish();
    let latest = timeline.latest();
    let all = latest.findings().iter().chain(timeline.findings_at_the_end());
    let all: Vec<String> = all.map(|one| format!("{:?}", one.finding)).collect();
    assert!(latest.found() > 0 && all.len() > latest.found() as usize, "some at the end, some before");
    assert_eq!(all, found);
    for (number, expected) in (1..).zip(&transactions).step_by(7).chain((1..).zip(&transactions).last()) {
        let transaction = timeline.transaction(&records, number).expect("every record is available");
        assert_eq!(format!("{:?}", transaction.expect("it has ended")), *expected);
    }
    for number in [0, transactions.len() as u64 + 1] {
        assert!(timeline.transaction(&records, number).expect("every record is available").is_none());
    }
}

#[test]
fn deadlines_apply_again_after_a_seek() {
    let capture = samples::capture("nfs3-lossy");
    let records: Vec<Record<'_>> = session::records(&capture).collect();
    let mut timeline = Timeline::new(config(), Judge::default());
    let deadline = records.iter().find_map(|record| {
        timeline.take(record);
        timeline.handle_time(Time(i64::MIN), &mut |_| {});
        timeline.latest().engine().next_deadline()
    });
    let (number, deadline) = (timeline.taken(), deadline.expect("packets that wait"));
    assert_eq!(timeline.inputs, [], "nothing was due before");
    timeline.handle_time(deadline, &mut |_| {});
    assert_eq!(timeline.inputs, [(number, Input::Time(deadline))]);
    let ended = digest(&timeline.latest());
    assert_ne!(timeline.latest().engine().next_deadline(), Some(deadline));
    for sought in [number - 1, number] {
        timeline.seek(&records, Moment::Record(sought)).expect("every record is available");
    }
    assert_eq!(digest(&timeline.shown()), ended);
}

#[test]
fn a_replay_covers_exactly_its_records() {
    let capture = samples::capture("nfs4.1-basic");
    let records: Vec<Record<'_>> = session::records(&capture).collect();
    let timeline = timeline(Config { spacing: 64, ..config() }, &records);
    let replay = |range: RangeInclusive<u64>| {
        let (mut packets, mut others) = (Vec::new(), Vec::new());
        let result = timeline.replay(&records, range, true, &mut |happening| match happening {
            Happening::Event(Event::Packet(packet)) => packets.push(packet.record.number),
            other => others.push(format!("{other:?}")),
        });
        result.expect("every record is available");
        (packets, others)
    };
    let all = replay(1..=400);
    assert!(all.0.iter().copied().eq(1..=400));
    let (first, second) = (replay(1..=150), replay(151..=400));
    assert!(second.0.iter().copied().eq(151..=400));
    assert_eq!([first.1, second.1].concat(), all.1);
}

#[test]
fn seek_by_time_stops_before_the_first_later_record() {
    let capture = samples::capture("nfs3-basic");
    let mut records: Vec<Record<'_>> = session::records(&capture).take(3000).collect();
    // One record is late: the records after it are not shown before its time.
    records[1500].time.0 += 5_000_000_000;
    let mut timeline = timeline(config(), &records);
    for number in [0usize, 1, 700, 1023, 1024, 1025, 1400, 1499, 1500] {
        let time = records[number].time;
        let expected = records.iter().take_while(|record| record.time <= time).count();
        let now = timeline.seek(&records, Moment::Time(time)).expect("every record is available");
        assert_eq!(now.record(), expected as u64, "the time of record {}", number + 1);
    }
    let before = Time(records[0].time.0 - 1);
    assert_eq!(timeline.seek(&records, Moment::Time(before)).expect("the start").record(), 0);
    let after = Time(records[1500].time.0 + 1);
    assert_eq!(timeline.seek(&records, Moment::Time(after)).expect("the end").record(), records.len() as u64);
}

#[test]
fn unreachable_records_are_an_error() {
    let capture = samples::capture("nfs4.1-basic");
    let records: Vec<Record<'_>> = session::records(&capture).take(500).collect();
    let mut timeline = timeline(Config { spacing: 100, ..config() }, &records);
    assert_eq!(
        timeline.seek(&records, Moment::Record(501)).map(|now| now.record()),
        Err(Error::Ahead { wanted: 501, taken: 500 })
    );
    /// A source that has lost its first records, like a ring.
    struct Later<'a>(&'a [Record<'a>], u64);
    impl Records for Later<'_> {
        fn walk(&self, number: u64) -> Box<dyn Iterator<Item = Record<'_>> + '_> {
            self.0.walk(number.max(self.1 + 1))
        }
    }
    let later = Later(&records, 250);
    assert_eq!(timeline.seek(&later, Moment::Record(350)).map(|now| now.record()), Ok(350));
    assert_eq!(timeline.seek(&later, Moment::Record(200)).map(|now| now.record()), Ok(200), "a checkpoint");
    assert_eq!(timeline.seek(&later, Moment::Record(220)).map(|now| now.record()), Err(Error::Gone(201)));
    assert_eq!(timeline.seek(&later, Moment::Record(500)).map(|now| now.record()), Ok(500));
}

#[test]
fn checkpoints_thin_out_to_fit_the_budget() {
    let capture = samples::capture("nfs3-basic");
    let records: Vec<Record<'_>> = session::records(&capture).collect();
    let all = timeline(Config { spacing: 50, budget: usize::MAX, ..config() }, &records);
    let budget = all.checkpoint_bytes() / 5;
    let thin = timeline(Config { spacing: 50, budget, ..config() }, &records);
    assert_eq!(all.checkpoints() as u64, records.len() as u64 / 50 + 1);
    assert!(thin.checkpoint_bytes() <= budget && thin.spacing() > 50, "{}", thin.spacing());
    assert_eq!(thin.checkpoints() as u64, records.len() as u64 / thin.spacing() + 1);
    // No more checkpoints are dropped than necessary.
    assert!(thin.checkpoint_bytes() * 3 > budget, "{} of {budget}", thin.checkpoint_bytes());
}

#[test]
fn unlisted_findings_are_counted_and_replayed() {
    let capture = samples::capture("nfs3-lossy");
    let records: Vec<Record<'_>> = session::records(&capture).collect();
    let all = timeline(config(), &records);
    let few = timeline(Config { findings: 0, ..config() }, &records);
    assert_eq!((few.latest().findings().len(), few.latest().found()), (0, all.latest().found()));
    let mut replayed = 0;
    let count =
        &mut |happening: Happening<'_>| replayed += u64::from(matches!(happening, Happening::Finding(_)));
    few.replay(&records, 1..=records.len() as u64, false, count).expect("every record is available");
    assert_eq!(replayed, few.latest().found());
}

/// Two packets of each of 17,000 spoofed flows. The state stays within the bound, evictions are
/// counted, and a seek gives the same state.
#[test]
fn bounded_memory_evicts_connections() {
    const MOST: usize = 32 << 20;
    let packets = (0..34_000).map(|number| {
        let data = Kind::Call.frame(number / 2, number % 2);
        let (number, original_length) = (u64::from(number) + 1, data.len() as u32);
        pcap::Packet { number, time: number as i64 * 1000, original_length, data }
    });
    let capture = pcap::Capture { link: 1, packets: packets.collect() };
    let records: Vec<Record<'_>> = session::records(&capture).collect();
    let mut timeline = Timeline::new(Config::default(), Judge::default());
    timeline.bound_memory(MOST);
    let mut given_up = 0;
    for record in &records {
        let dissected = Dissected::new(record, &Default::default());
        timeline.take_reporting(record, &dissected, &mut |happening| {
            given_up += u64::from(matches!(happening, Happening::Event(Event::Eviction(_))));
        });
        if record.number == LOOK {
            assert!(timeline.latest.footprint() <= MOST);
        }
    }
    assert!(given_up > 5_000 && timeline.latest().totals().evictions == given_up, "{given_up}");
    let last = digest(&timeline.latest());
    for number in [LOOK - 1, LOOK, 34_000] {
        timeline.seek(&records, Moment::Record(number)).expect("every record is available");
    }
    assert_eq!(digest(&timeline.shown()), last);
}
