use super::*;
use crate::columns::{COMPARISON, ComparisonRow, DIFFERENCE};
use crate::serialized::Json as _;
use crate::text::Style;
use rdmascope_analysis::diff::{SizeClass, Thresholds, names};
use rdmascope_analysis::ending::Cut;
use rdmascope_analysis::observer::Observer;
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::transaction::{Direction, Outcome, Transaction};
use rdmascope_dissector::ulb::{Callback, Nfs4, Procedure};
use rdmascope_tests::values::{self as samples, START, after, segment};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const THRESHOLDS: Thresholds = Thresholds { latency_ratio: 1.1, count_ratio: 1.1, significance: 0.01 };

fn side(name: &str, transactions: &[Transaction], connections: &[Connection]) -> Side {
    let mut side = Side::default();
    let transactions = transactions.iter().map(Event::Transaction);
    for event in transactions.chain(connections.iter().map(Event::Connection)) {
        side.handle(&event);
    }
    side.ending.files = vec![FileEnding { name: name.into(), ..FileEnding::default() }];
    side.ending.totals.records = 1000;
    side.ending.totals.packets = 1000;
    side.ending.totals.span = Some((START, after(2_000_000)));
    side
}

fn of(transactions: &[Transaction]) -> Side {
    side("mount.pcap", transactions, &[samples::connection()])
}

fn compare(a: &Side, b: &Side) -> Vec<Difference> {
    Comparison::of([a, b], &THRESHOLDS).differences
}

/// The only difference with this name.
fn only<'a>(differences: &'a [Difference], name: &str) -> &'a Difference {
    let found: Vec<_> = differences.iter().filter(|difference| difference.name == name).collect();
    let [difference] = found.as_slice() else { panic!("{name}: {found:?} of {differences:#?}") };
    difference
}

fn differing(differences: &[Difference]) -> Vec<&'static str> {
    let differing = differences.iter().filter(|difference| difference.verdict == Verdict::Differs);
    differing.map(|difference| difference.name).collect()
}

fn reads(latencies: impl IntoIterator<Item = i64>) -> Vec<Transaction> {
    (1..).zip(latencies).map(|(frame, latency)| samples::read(frame, latency)).collect()
}

/// The lines about the largest differences.
fn most(a: &Side, b: &Side, width: usize) -> Vec<String> {
    let comparison = Comparison::of([a, b], &THRESHOLDS);
    let shown: Vec<_> = comparison.differences.iter().filter(|one| one.is_shown()).collect();
    let style = Style::default().with_width(Some(width));
    let mut out = Vec::new();
    Text { sides: [a, b], comparison: &comparison, shown: &shown, style }.write_most(3, &mut out).unwrap();
    String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn the_largest_differences_have_a_probability() {
    let (slow, fast) =
        (of(&reads((0..100).map(|at| 200 + at % 7))), of(&reads((0..100).map(|at| 100 + at % 7))));
    for width in [80, 100] {
        let lines = most(&slow, &fast, width);
        assert!(lines[0].starts_with("What differs most") && lines[0].ends_with("by chance"), "{lines:#?}");
        let read = lines.iter().find(|line| line.contains("x0.5")).expect("READs differ");
        assert!(read.ends_with("p<0.001"), "{lines:#?}");
        assert!(lines.iter().all(|line| line.chars().count() <= width), "{lines:#?}");
    }
    assert!(most(&slow, &slow, 80).is_empty());
}

fn text(a: &Side, b: &Side, all: bool) -> String {
    let comparison = Comparison::of([a, b], &THRESHOLDS);
    let shown: Vec<_> = comparison.differences.iter().filter(|one| all || one.is_shown()).collect();
    let mut out = Vec::new();
    Text { sides: [a, b], comparison: &comparison, shown: &shown, style: Style::default() }
        .write(3, &mut out)
        .unwrap();
    let text = String::from_utf8(out).unwrap();
    samples::show(&text);
    text
}

#[test]
fn equal_captures_do_not_differ() {
    let mut all = reads(100..200);
    all.push(samples::full());
    let (a, b) = (of(&all), of(&all));
    assert_eq!(differing(&compare(&a, &b)), [""; 0]);
    assert!(text(&a, &b, false).ends_with("\nNo difference. --all shows everything that was compared.\n"));
    assert!(text(&a, &b, true).contains("path MTU"));
    let nothing = text(&of(&[]), &of(&[]), false);
    assert!(nothing.contains("neither capture has an RPC transaction"), "{nothing}");
}

#[test]
fn slower_latencies_differ() {
    // 50% slower: the medians of 100..=199 us and of 150..=298 us are 149 us and 223 us.
    let slower = reads((100..200).map(|latency| latency * 3 / 2));
    let differences = compare(&of(&reads(100..200)), &of(&slower));
    assert_eq!(differing(&differences), ["latency"]);
    let latency = only(&differences, "latency");
    let [a, b] = latency.latencies().unwrap();
    assert_eq!((a.count, b.count), (100, 100));
    assert!(a.latency.median.abs_diff(149_000) < 150, "{a:?}");
    assert!(b.latency.median.abs_diff(223_000) < 230, "{b:?}");
    assert!((latency.ratio().unwrap() - 1.497).abs() < 0.01);
    // The samples write from six to nine tenths of the time; the rest is the server's: of 149.5 us
    // and 223.75 us.
    let server = |side: &Latencies| [side.phases.times[3], side.phases.times[6]];
    assert!(server(&a)[0].abs_diff(89_700) < 10 && server(&a)[1].abs_diff(14_950) < 10, "{a:?}");
    assert!(server(&b)[0].abs_diff(134_250) < 300 && server(&b)[1].abs_diff(22_375) < 50, "{b:?}");

    let slightly = reads((1000..1100).map(|latency| latency * 105 / 100));
    let differences = compare(&of(&reads(1000..1100)), &of(&slightly));
    assert_eq!(only(&differences, "latency").verdict, Verdict::Equal);
}

/// READs that moved `bytes` each.
fn reads_of(bytes: u32, latencies: impl IntoIterator<Item = i64>) -> Vec<Transaction> {
    let mut reads = reads(latencies);
    for read in &mut reads {
        read.timing.written_bytes = bytes.into();
        for operation in &mut read.details.operations {
            operation.count = Some(bytes.into());
            operation.result_count = Some(bytes.into());
            operation.result_item.as_mut().expect("READ has one").length = bytes;
        }
    }
    reads
}

/// Many small READs and some large ones, against some small ones and many large ones.
#[test]
fn latencies_are_compared_per_size() {
    let mixed = |small: i64, large: i64, slower: i64| {
        let mut all = reads_of(4096, (0..small).map(|nth| 100 + nth % 7));
        all.extend(reads_of(1 << 20, (0..large).map(|nth| (10_000 + nth % 70) * slower)));
        of(&all)
    };
    let (a, b) = (mixed(80, 20, 1), mixed(20, 80, 1));
    let differences = compare(&a, &b);
    let latencies = |differences: &[Difference]| -> Vec<(String, Verdict)> {
        let latencies = differences.iter().filter(|difference| difference.area == Area::Latency);
        latencies.map(|it| (it.operation.expect("it is of one").to_string(), it.verdict)).collect()
    };
    let mut found = latencies(&differences);
    found.sort_by(|a, b| a.0.cmp(&b.0));
    assert_eq!(
        found,
        [("NFSv3 READ <=1 MiB".into(), Verdict::Equal), ("NFSv3 READ <=4 KiB".into(), Verdict::Equal)]
    );
    // Only the large ones became slower.
    let slower = mixed(20, 80, 2);
    let differences = compare(&a, &slower);
    let found = latencies(&differences);
    assert_eq!(found[0], ("NFSv3 READ <=1 MiB".into(), Verdict::Differs));
    assert_eq!(found[1], ("NFSv3 READ <=4 KiB".into(), Verdict::Equal));
    let shown = text(&a, &slower, false);
    assert!(shown.contains("  NFSv3 READ <=1 MiB         A      20"), "{shown}");
    assert!(shown.contains("% of the transactions of each capture\n  NFSv3 READ <=1 MiB\n"), "{shown}");
    // Without a common size, all are compared, and the text includes the bytes moved; with only one
    // size, it is not named.
    let (small, large) = (of(&reads_of(512, 100..150)), of(&reads_of(1 << 20, 1000..1050)));
    assert_eq!(latencies(&compare(&small, &large)), [("NFSv3 READ".into(), Verdict::Differs)]);
    assert!(
        text(&small, &large, false).contains(",\n    512 B -> 1 MiB\n"),
        "{}",
        text(&small, &large, false)
    );
    let page = of(&reads_of(4096, 100..150));
    assert_eq!(latencies(&compare(&small, &page)), [("NFSv3 READ".into(), Verdict::Equal)]);
}

#[test]
fn size_classes_have_names() {
    let words = |bytes| SizeClass::of(bytes).to_string();
    assert_eq!([0, 1, 4096].map(words), ["<=4 KiB"; 3]);
    assert_eq!([4097, 65_536, 65_537].map(words), ["<=64 KiB", "<=64 KiB", "<=256 KiB"]);
    assert_eq!([1 << 20, (1 << 20) + 1, u64::MAX].map(words), ["<=1 MiB", ">1 MiB", ">1 MiB"]);
}

#[test]
fn random_latency_differences_are_chance() {
    // Two draws from the same wide distribution, interleaved: the medians have a ratio of 1.3.
    let a = [100, 220, 330, 480, 590, 700, 850, 960, 1100, 1300];
    let b = [150, 260, 390, 520, 760, 900, 1000, 1200, 1400, 1700];
    let differences = compare(&of(&reads(a)), &of(&reads(b)));
    let latency = only(&differences, "latency");
    assert!(latency.ratio().unwrap() > 1.1);
    assert_eq!(latency.verdict, Verdict::Chance);
    assert!(latency.chance.unwrap() > 0.1);
    // With three values on each side, even a ratio of ten proves nothing.
    let differences = compare(&of(&reads([100, 110, 120])), &of(&reads([1000, 1100, 1200])));
    let latency = only(&differences, "latency");
    assert_eq!((latency.verdict, latency.chance), (Verdict::TooFew, None));
    assert!(latency.is_shown());
    assert_eq!(differing(&differences), [""; 0]);
    let text = text(&of(&reads([100, 110, 120])), &of(&reads([1000, 1100, 1200])), false);
    assert!(
        text.contains("\nNo certain difference; some operations have too few transactions to compare\n"),
        "{text}"
    );
}

#[test]
fn a_longer_tail_differs() {
    let a = reads(1000..1100);
    let b = reads((1000..1080).chain((0..20).map(|more| 50_000 + more)));
    let differences = compare(&of(&a), &of(&b));
    let tail = only(&differences, Difference::TAIL);
    assert_eq!(tail.verdict, Verdict::Differs);
    // From 1089 us to the tenth of the twenty.
    assert!((tail.ratio().unwrap() - 50_009.0 / 1089.0).abs() < 0.1, "{:?}", tail.ratio());
    assert!(text(&of(&a), &of(&b), false).contains(" of p90"));
}

#[test]
fn one_significant_test_of_many_is_no_difference() {
    // Completely separate, 7 against 7: alone, this has a probability of 0.002
    // (scipy.stats.mannwhitneyu, asymptotic).
    let operations = |count: u32, latency: i64| -> Vec<Transaction> {
        (0..count)
            .flat_map(|number| (0..7).map(move |frame| (number, frame)))
            .map(|(number, frame)| {
                let procedure = Procedure { program: 100_003, version: 3, number };
                let slow = if number == 0 { latency } else { 100 };
                samples::transaction(procedure, 1 + frame as u64, slow + frame)
            })
            .collect()
    };
    let alone = compare(&of(&operations(1, 100)), &of(&operations(1, 200)));
    assert_eq!(only(&alone, "latency").verdict, Verdict::Differs);
    let among_twenty = compare(&of(&operations(20, 100)), &of(&operations(20, 200)));
    assert_eq!(differing(&among_twenty), [""; 0]);
}

#[test]
fn counts_are_compared_as_shares_of_the_work() {
    let many = |number: usize, operation: u32| {
        let procedure = Procedure { program: 100_003, version: 3, number: operation };
        vec![samples::transaction(procedure, 1, 10); number]
    };
    // The same amount of work: counts are compared directly. GETATTR 10 and 12, LOOKUP 90 and 88.
    let a = of(&[many(10, 1), many(90, 3)].concat());
    let b = of(&[many(12, 1), many(88, 3)].concat());
    assert_eq!(differing(&compare(&a, &b)), ["count"]);
    // Twice the work with the same shares: only the amount differs.
    let twice = of(&[many(20, 1), many(180, 3)].concat());
    let differences = compare(&a, &twice);
    assert_eq!(differing(&differences), ["transactions"]);
    assert_eq!(only(&differences, "transactions").ratio(), Some(2.0));
    assert!(
        text(&a, &twice, false).contains("different numbers of transactions: counts are compared as shares")
    );
    // Shares that chance explains, 10 of 100 and 30 of 200: chi2_contingency([[10, 90], [30, 170]])
    // has p = 0.307.
    let differences = compare(&a, &of(&[many(30, 1), many(170, 3)].concat()));
    let getattr =
        differences.iter().find(|one| one.name == "count" && one.verdict == Verdict::Chance).unwrap();
    assert_eq!(getattr.sides, [Measure::Count(10, 100), Measure::Count(30, 200)]);
    assert!((getattr.chance.unwrap() - 0.30734).abs() < 0.0001, "{:?}", getattr.chance);
    // A call on one side only is a difference, however rare.
    let once = of(&[many(20, 1), many(180, 3), many(1, 12)].concat());
    assert_eq!(differing(&compare(&a, &once)), ["transactions", "count"]);
}

#[test]
fn different_conveyance_is_found() {
    let mut split = samples::read(1, 10);
    for message in [&mut split.call, &mut split.reply] {
        message.as_mut().unwrap().write_chunks[0].segments.push(segment(1, 100, 0));
    }
    let mut inline = samples::read(1, 10);
    for message in [&mut inline.call, &mut inline.reply] {
        message.as_mut().unwrap().write_chunks.clear();
    }
    let a = of(&vec![samples::read(1, 10); 8]);
    let differences = compare(&a, &of(&vec![split.clone(); 8]));
    assert_eq!(differing(&differences), ["write-chunk-segments"]);
    assert_eq!(only(&differences, "write-chunk-segments").ratio(), Some(2.0));
    let differences = compare(&a, &of(&[vec![split; 4], vec![inline; 4]].concat()));
    let mut names = differing(&differences);
    names.sort_unstable();
    assert_eq!(names, ["inline-reply", "write-chunk", "write-chunk-segments"]);
    assert_eq!(only(&differences, "write-chunk").sides, [Measure::Count(8, 8), Measure::Count(4, 8)]);
}

#[test]
fn different_connections_are_found() {
    let mut other = samples::connection();
    other.path_mtu = Some(4096);
    other.reply_inline_threshold = Some(1024);
    other.remote_invalidation = Some(true);
    other.requester.private_data.as_mut().unwrap().receive_size = 1024;
    other.transactions = [208, 0];
    let second = Connection { id: ConnectionId(2), ..other.clone() };
    let a = side("a", &[], &[samples::connection()]);
    let b = side("b", &[], &[other, second]);
    let differences = compare(&a, &b);
    let mut names = differing(&differences);
    names.sort_unstable();
    let expected = [
        "backchannel",
        "connections",
        "path-mtu",
        "remote-invalidation",
        "reply-inline-threshold",
        "requester-private-data",
    ];
    assert_eq!(names, expected);
    let mtu = only(&differences, "path-mtu");
    let values = |value: &str, count| Measure::Values(vec![(value.to_owned(), count)]);
    assert_eq!(mtu.sides, [values("1024", 1), values("4096", 2)]);
    // A value that one capture lacks is not a difference.
    let differences = compare(&a, &side("b", &[], &[samples::inferred()]));
    for name in ["call-inline-threshold", "requester-private-data", "remote-invalidation", "port"] {
        assert_eq!(only(&differences, name).verdict, Verdict::Unknown, "{name}");
    }
    assert_eq!(differing(&differences), ["state", "origin"]);
}

#[test]
fn different_credits_and_security_are_found() {
    let mut calls = reads([10, 10, 10]);
    for (call, credits) in calls.iter_mut().zip([1, 64, 32]) {
        call.reply.as_mut().unwrap().credits = credits;
        call.security = Some(rdmascope_dissector::transaction::Security::GssPrivacy);
    }
    let differences = compare(&of(&reads([10, 10, 10])), &of(&calls));
    assert_eq!(differing(&differences), ["security", "credits-granted-forward"]);
    let granted = only(&differences, "credits-granted-forward");
    assert_eq!(
        granted.sides,
        [Measure::Extremes(Some([128, 128, 128])), Measure::Extremes(Some([1, 64, 32]))]
    );
}

#[test]
fn missing_replies_and_retransmissions_differ() {
    let mut lossy = samples::connection();
    lossy.responder.sent.repeated_packets = 60;
    let mut less = samples::connection();
    less.responder.sent.repeated_packets = 52;
    let mut lost = samples::read(1, 10);
    lost.reply = None;
    lost.status = None;
    lost.outcome = Outcome::NoReply;
    let all = reads(100..150);
    let a = side("a", &all, &[samples::connection()]);
    let b = side("b", &[&all[1..], &[lost]].concat(), &[lossy]);
    let differences = compare(&a, &b);
    assert_eq!(differing(&differences), ["no-reply", "retransmission"]);
    assert_eq!(differences[0].area, Area::Transactions);
    assert_eq!(
        only(&differences, "retransmission").sides,
        [Measure::Count(0, 1000), Measure::Count(60, 1000)]
    );
    // Losses are random: 60 and 52 in a thousand do not differ.
    let differences = compare(&side("c", &all, &[less]), &b);
    assert_eq!(only(&differences, "retransmission").verdict, Verdict::Chance);
}

#[test]
fn errors_are_paired_across_minor_versions() {
    let lookups = |minor: u32, failures: usize| -> Vec<Transaction> {
        let mut lookup = samples::compound(&[Nfs4::Sequence, Nfs4::Lookup], 0, 1, 10);
        lookup.details.minor_version = Some(minor);
        let mut all = vec![lookup; 20];
        for failed in all.iter_mut().take(failures) {
            failed.status = Some(2);
            failed.details.operations[1].status = Some(2);
        }
        all
    };
    let differences = compare(&of(&lookups(1, 5)), &of(&lookups(2, 5)));
    assert_eq!(differing(&differences), ["protocols"]);
    let error = only(&differences, "error");
    assert_eq!(error.sides, [Measure::Count(5, 20), Measure::Count(5, 20)]);
    assert_eq!(error.description, "NFS4ERR_NOENT (2)");
    assert_eq!(error.operation.unwrap().to_string(), "NFS LOOKUP");
    let differences = compare(&of(&lookups(1, 5)), &of(&lookups(1, 15)));
    assert_eq!(differing(&differences), ["error"]);
}

#[test]
fn versions_are_paired_within_their_program() {
    let v3 = reads(100..120);
    let mut v4 = samples::compound(&[Nfs4::Sequence, Nfs4::Putfh, Nfs4::Read], 0, 1, 500);
    // The same size as for version 3, because different sizes are not compared.
    v4.timing.written_bytes = 65_536;
    let mut recall = samples::compound(&[Callback::Sequence, Callback::Recall], 0, 2, 10);
    recall.procedure = Some(Procedure { program: 0x4000_0000, version: 1, number: 1 });
    recall.direction = Direction::Backward;
    let a = of(&v3);
    let b = of(&[vec![v4.clone(); 20], vec![recall]].concat());
    let differences = compare(&a, &b);
    let latency = only(&differences, "latency");
    assert_eq!(latency.operation.unwrap().to_string(), "NFS READ");
    assert_eq!(latency.verdict, Verdict::Differs);
    let backward = differences.iter().find(|one| one.operation.is_some_and(|pair| pair.backward)).unwrap();
    assert_eq!(backward.operation.unwrap().to_string(), "NFSv4.1 CB_RECALL, backward");
    assert_eq!(backward.sides, [Measure::Count(0, 20), Measure::Count(1, 21)]);
    // A protocol on both sides is compared with itself.
    v4.details.minor_version = Some(2);
    let b = of(&[v3.clone(), vec![v4; 20]].concat());
    let differences = compare(&a, &b);
    assert_eq!(only(&differences, "latency").operation.unwrap().to_string(), "NFSv3 READ");
}

#[test]
fn different_compounds_are_found() {
    let names = [Nfs4::Sequence, Nfs4::Putfh, Nfs4::Access, Nfs4::Getattr];
    let a = of(&vec![samples::compound(&names, 0, 1, 10); 10]);
    let b = of(&vec![samples::compound(&names[..3], 0, 1, 10); 10]);
    let differences = compare(&a, &b);
    assert_eq!(differing(&differences), ["compound", "compound"]);
    let compounds: Vec<_> = differences.iter().filter(|one| one.name == "compound").collect();
    assert_eq!(compounds[0].description, "SEQUENCE PUTFH ACCESS");
    assert_eq!(compounds[0].sides, [Measure::Count(0, 10), Measure::Count(10, 10)]);
    assert_eq!(compounds[1].description, "SEQUENCE PUTFH ACCESS GETATTR");
}

#[test]
fn swapped_captures_differ_equally() {
    let (a, b) = (of(&reads(100..200)), side("b", &reads((300..360).map(|t| t * 2)), &[samples::inferred()]));
    let (forth, back) = (compare(&a, &b), compare(&b, &a));
    assert_eq!(forth.len(), back.len());
    for (forth, back) in forth.iter().zip(&back) {
        assert_eq!((forth.name, forth.verdict), (back.name, back.verdict));
        assert_eq!(forth.sides[0], back.sides[1]);
        assert!((forth.weight() - back.weight()).abs() < 1e-9);
    }
}

fn different_sides() -> [Side; 2] {
    let mut lossy = samples::inferred();
    lossy.responder.sent.repeated_packets = 17;
    lossy.path_mtu = Some(4096);
    let names = [Nfs4::Sequence, Nfs4::Putfh, Nfs4::Lookup, Nfs4::Getfh];
    let slower = reads((100..200).map(|latency| latency * 2));
    let mut a = side("-", &[reads(100..200), vec![samples::full()]].concat(), &[samples::connection()]);
    a.ending.files[0].cut = Some(Cut { offset: 77, needed: 16, available: 3 });
    let failed = samples::compound(&names, 2, 300, 90);
    let b = side("slow.pcap", &[slower, vec![failed, samples::full()]].concat(), &[lossy]);
    [a, b]
}

#[test]
fn text_output() {
    let [a, b] = different_sides();
    let text = text(&a, &b, true);
    for part in [
        "A  standard input\n   101 transactions in 2s (50.5 a second), 1,000 packets, 1 connection\n",
        "   cut short at byte 77: compared up to there\n",
        "  path MTU                                                         1024             4096\n",
        "  packets sent again                                                  -       17 (1.70%)   only B\n",
        "  NFSv3 READ                 A     100    100us    149us    189us    198us    199us\n",
        "                             B     100    200us    298us    378us    396us    398us  x2.00\n",
        "    mean server before 89.7us -> 179us, server after 15.0us -> 29.9us, writes 44.9us -> 89.7us\n",
        "Distribution of latencies, % of the transactions of each capture\n  NFSv3 READ\n",
    ] {
        assert!(text.contains(part), "{part}is not in\n{text}");
    }
    let long: Vec<_> = text.lines().filter(|line| line.chars().count() > 100).collect();
    assert!(long.is_empty(), "{long:#?}");
    assert!(!text.contains("\x1b["));
}

/// Bars computed by hand: of 100, 101 … 199 us there are 20 from 100, 30 from 120, 50 from 150; of
/// 200, 202 … 398 us 25, 25, 50. Half has 34 columns, the longest bar.
#[test]
fn distributions() {
    let [a, b] = different_sides();
    let text = text(&a, &b, false);
    let rows: Vec<_> = text.lines().skip_while(|line| !line.starts_with("Distribution")).skip(2).collect();
    let bar = |length: usize, share: &str| format!("{} {share}", "#".repeat(length));
    assert_eq!(rows[0].split_whitespace().collect::<Vec<_>>().join(" "), "from 100 in A 100 in B");
    let expected = [
        ("100us", bar(14, "20.0%"), String::new()),
        ("120us", bar(20, "30.0%"), String::new()),
        ("150us", bar(34, "50.0%"), String::new()),
        ("200us", String::new(), bar(17, "25.0%")),
        ("250us", String::new(), bar(17, "25.0%")),
        ("300us", String::new(), bar(34, "50.0%")),
    ];
    for (row, (edge, a, b)) in rows[1..].iter().zip(expected) {
        assert_eq!(*row, format!("  {edge:>8}  {a:43}{b}").trim_end(), "{text}");
    }
}

#[test]
fn json_lines() {
    let [a, b] = different_sides();
    let comparison = Comparison::of([&a, &b], &THRESHOLDS);
    let first: Value = serde_json::from_str(
        &COMPARISON.of(ComparisonRow { sides: [&a, &b], comparison: &comparison }).to_json(),
    )
    .unwrap();
    assert_eq!(first["type"], "comparison");
    assert_eq!(first["a"]["name"], "-");
    assert_eq!(first["a"]["transactions"], 101);
    assert_eq!(first["same_work"], true);
    let lines: Vec<Value> = comparison
        .differences
        .iter()
        .map(|one| serde_json::from_str(&DIFFERENCE.of(one).to_json()).unwrap())
        .collect();
    let line = |name: &str| lines.iter().find(|line| line["name"] == name).unwrap();
    assert_eq!(line("path-mtu")["a"], json!([{"value": "1024", "count": 1}]));
    assert_eq!(line("retransmission")["b"], json!({"count": 17, "of": 1000}));
    assert_eq!(line("retransmission")["verdict"], "differs");
    assert_eq!(line("credits-requested-forward")["a"], json!({"min": 128, "max": 128, "last": 128}));
    let latency = line("latency");
    assert_eq!(latency["operation"], "READ");
    assert_eq!(latency["direction"], "forward");
    assert_eq!(latency["protocol_a"], "NFSv3");
    assert_eq!((&latency["a"]["count"], &latency["a"]["min_ns"]), (&json!(100), &json!(100_000)));
    assert_eq!(latency["a"]["mean_bytes"], 65_536);
    let weights: Vec<_> = lines.iter().map(|line| line["weight"].as_f64().unwrap()).collect();
    assert!(weights.is_sorted_by(|a, b| a >= b), "{weights:?}");
    assert!(weights.iter().all(|weight| (0.0..=100.0).contains(weight)));

    // The documentation lists every name of a compared property.
    let mut words = BTreeSet::new();
    words.extend(Area::ALL.map(|area| area.name().to_owned()));
    words.extend(names().map(str::to_owned));
    words.insert(Difference::TAIL.to_owned());
    // The names of problems are documented in the section about the report.
    let own = lines
        .iter()
        .filter(|line| !["transactions", "transport", "capture"].contains(&line["area"].as_str().unwrap()));
    words.extend(own.filter_map(|line| line["name"].as_str()).map(str::to_owned));
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/json.md");
    let documentation = std::fs::read_to_string(path).expect("docs/json.md exists");
    let (_, section) = documentation.split_once("## The comparison").expect("it has its section");
    let missing: Vec<_> = words.iter().filter(|word| !section.contains(&format!("`{word}`"))).collect();
    assert!(missing.is_empty(), "not in docs/json.md: {missing:?}");
}
