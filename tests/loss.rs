//! Imperfect captures, with missing, cut, reordered or duplicated packets, give no new accusations and
//! affect only transactions that lost packets.
//!
//! CI runs 500 variants, `tests/loss` runs 10,000. `RDMASCOPE_VARIANTS` sets the number and
//! `RDMASCOPE_FIRST_VARIANT` the first seed; `RDMASCOPE_KEEP_VARIANTS` names a folder for captures
//! that are judged wrongly.

use core::fmt::Write as _;
use rdmascope_analysis::events::{self, Events, SessionEvent};
use rdmascope_analysis::observer::Observer as _;
use rdmascope_conformance::{Finding, Level, Verdict};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::transaction::{Direction, Message, Outcome, Transaction};
use rdmascope_tests::judged::{self, rule};
use rdmascope_tests::mutate::{self, CLIENT, Kind, SERVER, Variant};
use rdmascope_tests::owners::owners;
use rdmascope_tests::pcap::{self, Capture, Packet};
use rdmascope_tests::segments::Form;
use rdmascope_tests::streams::{self, Flow};
use rdmascope_tests::{samples, session};
use rdmascope_wire::Xid;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A complete session and its results.
struct Baseline {
    name: String,
    capture: Capture,
    owners: Owners,
    transactions: BTreeMap<Key, Vec<String>>,
    accusations: HashSet<String>,
    events: HashSet<events::Kind>,
}

type Key = (bool, u32);

/// Maps missing packets to the affected transactions.
enum Owners {
    /// RoCE: the transactions of the packets.
    Packets(HashMap<u64, Xid>),
    /// iWARP: the transactions of FPDUs that are missing or cannot be found.
    Flows(Vec<Flow>),
}

impl Owners {
    fn of(capture: &Capture) -> Owners {
        let flows = streams::flows(capture);
        if flows.is_empty() { Owners::Packets(owners(capture)) } else { Owners::Flows(flows) }
    }

    fn affected(&self, lost: &HashSet<u64>) -> HashSet<Xid> {
        match self {
            Owners::Packets(owners) => lost.iter().filter_map(|lost| owners.get(lost)).copied().collect(),
            Owners::Flows(flows) => flows.iter().flat_map(|flow| flow.affected(lost)).collect(),
        }
    }
}

impl Baseline {
    fn new(name: &str, capture: Capture) -> Baseline {
        Baseline {
            name: name.into(),
            owners: Owners::of(&capture),
            transactions: transactions(&capture),
            accusations: accusations(&capture).into_iter().map(|(id, _)| id).collect(),
            events: notable_events(&capture).into_iter().map(|event| event.kind).collect(),
            capture,
        }
    }

    /// A session over TCP that is shown in several variants. In one of them the server does not
    /// listen on the NFS/RDMA port.
    fn over_tcp(name: &str) -> Baseline {
        let mut baseline = Baseline::new(name, samples::capture(name));
        baseline.accusations.insert("binding-port".into());
        baseline
    }

    /// Whether loss without a trace can look like this event. The last packets of a connection can be
    /// missing without a trace; over TCP, also the first ones of an end.
    fn may_look_like(&self, kind: events::Kind, variant: &Variant) -> bool {
        use events::Kind::{CallFailsAgain, CallWaited, CallsReplayed, RequestUnanswered, ServiceLost};
        let leaves_no_trace = match self.owners {
            Owners::Packets(_) => matches!(variant.kind, Kind::Late | Kind::NearCm | Kind::Burst),
            Owners::Flows(_) => !variant.lost.is_empty() || variant.kind == Kind::Snap,
        };
        let is_about_silence =
            matches!(kind, CallFailsAgain | CallWaited | CallsReplayed | RequestUnanswered | ServiceLost);
        leaves_no_trace && is_about_silence
    }

    /// The wrong results for a variant.
    fn complaints(&self, variant: &Variant, form: Form) -> Vec<String> {
        let mut complaints = Vec::new();
        for (id, line) in accusations(&variant.capture) {
            if !self.accusations.contains(&id) {
                complaints.push(line);
            }
        }
        for event in notable_events(&variant.capture) {
            if !self.events.contains(&event.kind) && !self.may_look_like(event.kind, variant) {
                complaints.push(format!("event {}: {}", event.kind.word(), event.text));
            }
        }
        // The header of an FPDU may contain a marker, which prevents resynchronization.
        let has_markers = form == Form::Markers && !variant.lost.is_empty();
        if !variant.kind.keeps_transactions() || has_markers {
            return complaints;
        }
        let affected = self.owners.affected(&variant.lost);
        let found = transactions(&variant.capture);
        for (key, expected) in self.transactions.iter().filter(|((_, xid), _)| !affected.contains(&Xid(*xid)))
        {
            let found = found.get(key);
            if found != Some(expected) {
                let found = found.map_or("none".into(), |found| found.join(" | "));
                complaints.push(format!("XID 0x{:08x}: {} became {found}", key.1, expected.join(" | ")));
            }
        }
        complaints
    }
}

/// The findings that accuse an end, each with the ID of its rule.
fn accusations(capture: &Capture) -> Vec<(String, String)> {
    let accuses =
        |finding: &Finding| finding.verdict == Verdict::Certain && rule(finding).level != Level::Advice;
    let found = judged::findings(capture).into_iter().filter(accuses);
    found.map(|finding| (rule(&finding).id.into(), judged::line(&finding))).collect()
}

/// The events of a capture, except connections made and closed, and recovery.
fn notable_events(capture: &Capture) -> Vec<SessionEvent> {
    let mut engine = Engine::new(Config { observe: Observe::Events, ..Config::default() });
    let mut events = Events::default();
    for record in session::records(capture) {
        engine.handle(&record, &mut |event| events.handle(&event));
    }
    engine.finish(&mut |event| events.handle(&event));
    let last = engine.totals().span.map(|(_, last)| last);
    let harmless = |event: &SessionEvent| {
        matches!(event.kind, events::Kind::Connected | events::Kind::Disconnected | events::Kind::Recovery)
    };
    events.list(last).into_iter().filter(|event| !harmless(event)).collect()
}

/// The part of each transaction that must not change: all except times, frames and properties of
/// the connection.
fn transactions(capture: &Capture) -> BTreeMap<Key, Vec<String>> {
    let mut all: BTreeMap<Key, Vec<String>> = BTreeMap::new();
    let session = session::run(capture);
    for transaction in &session.transactions {
        let key = (transaction.direction == Direction::Forward, transaction.xid.0);
        all.entry(key).or_default().push(content(transaction, session.totals.segments > 0));
    }
    all
}

fn content(transaction: &Transaction, over_tcp: bool) -> String {
    // Over TCP, the segment that ends a connection may be lost too.
    let outcome = match transaction.outcome {
        Outcome::CutOff if over_tcp => Outcome::NoReply,
        outcome => outcome,
    };
    let mut text = format!("{outcome:?} status {:?}", transaction.status);
    for name in session::names(transaction) {
        let _ = write!(text, " {name}");
    }
    let mut message = |which: &str, message: &Option<Message>| {
        let Some(message) = message else { return };
        let Message { send_length, message_length, missing, read_chunks, write_chunks, reply_chunk, .. } =
            message;
        let _ = write!(
            text,
            ", {which} {send_length} of {message_length:?} {} {} {} lacks {missing:?}",
            read_chunks.len(),
            write_chunks.len(),
            reply_chunk.is_some()
        );
    };
    message("call", &transaction.call);
    message("reply", &transaction.reply);
    let _ = write!(
        text,
        ", read {}, written {}",
        transaction.timing.read_bytes, transaction.timing.written_bytes
    );
    text
}

/// A session that begins with a Long Reply: its first call, a NULL, and the reply are removed.
fn begun_with_a_long_reply(session: &Capture) -> Capture {
    let mut session = session.clone();
    for sender in [CLIENT, SERVER] {
        let begins = |packet: &Packet| packet.source() == sender && packet.starts_message();
        let first = session.packets.iter().position(begins).expect("both ends send");
        mutate::remove_request(&mut session, first);
    }
    session
}

/// A reconnect: the session followed by another one, on a second connection with names of its own.
fn reconnected(session: &Capture, mut second: Capture) -> Capture {
    const OTHER: u32 = 0x0550_0000;
    // The Linux client puts the XID into the upper half of its memory addresses.
    mutate::rename_memory(&mut second, |rkey, offset| (rkey ^ 0x40, offset ^ (u64::from(OTHER) << 32)));
    mutate::change_xids(&mut second, |xid| xid ^ OTHER);
    mutate::change_communication_ids(&mut second, 0x0055_0000);
    mutate::renumber_qp(&mut second, CLIENT, 0x91);
    mutate::renumber_qp(&mut second, SERVER, 0x92);
    mutate::shift_psn(&mut second, CLIENT, 0x12_3456);
    mutate::shift_psn(&mut second, SERVER, 0x65_4321);
    let (first, last) = (session.packets[0].time, session.packets[session.packets.len() - 1].time);
    second.packets.iter_mut().for_each(|packet| packet.time += last - first + 300_000_000);
    mutate::merge(session, &second)
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect("a number"))
}

#[test]
fn loss_accuses_no_end_and_affects_only_lost_transactions() {
    let sample = |name: &str| Baseline::new(name, samples::capture(name));
    let twice = |name: &str, first: &Capture, second: &Capture| {
        let mut baseline = Baseline::new(&format!("{name}, reconnected"), reconnected(first, second.clone()));
        // The second session has the IDs of the first, so a return in it can seem to be missing.
        baseline.events.extend([events::Kind::RecallUnanswered, events::Kind::StateLost]);
        baseline
    };
    let basic = samples::capture("nfs3-basic");
    let recall = samples::capture("nfs4.1-backchannel-recall");
    let long = begun_with_a_long_reply(&recall);
    let baselines = [
        sample("nfs3-basic"),
        sample("nfs4.1-backchannel-recall"),
        twice("nfs3-basic", &basic, &basic),
        sample("nfs4.1-basic"),
        twice("nfs4.1-backchannel-recall", &recall, &recall),
        sample("nfs4.2-basic"),
        twice("a Long Reply first", &recall, &long),
        Baseline::new("a Long Reply first", long),
        sample("nfs4.2-mtu4096-large-io"),
        sample("nfs3-odd-direct"),
        sample("nfs4.2-directories"),
    ];
    for baseline in &baselines {
        assert!(
            baseline.transactions.len() > 20,
            "{}: {} transactions",
            baseline.name,
            baseline.transactions.len()
        );
    }
    let kinds = mutate::Kind::ALL.len() as u64;
    judge(|seed| {
        let baseline = &baselines[(seed / kinds) as usize % baselines.len()];
        (baseline, Form::Plain, mutate::variant(&baseline.capture, seed))
    });
}

/// The client acknowledges a packet of the server from before the first one in the capture. It may be
/// the reply.
#[test]
fn missing_acknowledged_packet_may_be_the_reply() {
    let mut session = mutate::without_cm(&samples::capture("nfs3-basic"));
    let is_reply = |packet: &Packet| packet.source() == SERVER && packet.starts_message();
    let reply = session.packets.iter().position(is_reply).expect("the server replies");
    let xid = session.packets.remove(reply).xid().expect("it is a message");
    session.renumber();
    let found = session::run(&session);
    let call = found.transactions.iter().find(|transaction| transaction.xid == Xid(xid));
    let call = call.expect("the call is in the capture");
    assert_eq!((call.outcome, call.capture_gap, call.unanswered_until), (Outcome::CutOff, true, None));
}

/// A new session with the ID of a destroyed one begins its sequence IDs again.
#[test]
fn reused_session_id_begins_a_new_session() {
    /// A variant that lacks packets of both sessions. The rule accused it before it had this exception.
    const SEED: u64 = 12_390;
    let session = samples::capture("nfs4.1-backchannel-recall");
    let variant = mutate::variant(&reconnected(&session, session.clone()), SEED);
    let found = accusations(&variant.capture);
    assert!(found.iter().all(|(id, _)| id != "state-session-destroyed"), "{found:?}");
}

/// The same for replies in Read chunks of the server.
#[test]
fn loss_of_pulled_replies_accuses_no_end() {
    let mut baseline = Baseline::new(samples::RELIABLE_REPLY, samples::capture(samples::RELIABLE_REPLY));
    // The client pulls a reply again after 15 s. Without the first attempt, that is an outage.
    baseline.events.insert(events::Kind::ServiceLost);
    // If the capture has no earlier reply in a Read chunk, one without its call looks like a Long Call
    // of the server. If the REP comes after the first call, the connection is a second one for the call.
    baseline.transactions.clear();
    let kinds = mutate::Kind::ALL.len() as u64;
    judge(|seed| {
        // The client answers within 10 us. Jitter reorders the packets of one end, and the judge takes
        // their order as certain.
        let jitters = Kind::ALL[(seed % kinds) as usize] == Kind::Jitter;
        let seed = if jitters { seed - seed % kinds } else { seed };
        (&baseline, Form::Plain, mutate::variant(&baseline.capture, seed))
    });
}

/// The capture shows a reply in a Read chunk before its call.
#[test]
fn pulled_reply_may_come_before_its_call() {
    let baseline = Baseline::new(samples::RELIABLE_REPLY, samples::capture(samples::RELIABLE_REPLY));
    let mut capture = baseline.capture.clone();
    let at = |xid: u32| move |packet: &Packet| packet.starts_message() && packet.xid() == Some(xid);
    let call = capture.packets.iter().position(at(0xdf40_a497)).expect("the call");
    let reply = capture.packets.iter().skip(call + 1).position(at(0xdf40_a497)).expect("the reply");
    mutate::reorder(&mut capture, call + 1 + reply, call);
    let variant = Variant { kind: mutate::Kind::One, capture, lost: HashSet::new() };
    let complaints = baseline.complaints(&variant, Form::Plain);
    assert!(complaints.is_empty(), "{complaints:#?}");
}

/// The same over TCP, in all variants of the segments.
#[test]
fn loss_over_tcp_affects_only_lost_transactions() {
    let baselines = samples::IWARP.map(Baseline::over_tcp);
    let mut captures = HashMap::new();
    let kinds = mutate::Kind::ALL.len() as u64;
    judge(|seed| {
        let round = seed / kinds;
        let at = round as usize % baselines.len();
        // The variant changes each time; the numbers of variants and samples are not equal.
        let form = Form::ALL[(round as usize + round as usize / baselines.len()) % Form::ALL.len()];
        let baseline = &baselines[at];
        let shown = captures.entry((at, form)).or_insert_with(|| form.apply(&baseline.capture));
        (baseline, form, mutate::variant_in_form(&baseline.capture, shown, seed))
    });
}

/// A session gives the same results in all variants.
#[test]
fn tcp_session_gives_the_same_results_in_every_variant() {
    for sample in samples::IWARP {
        let baseline = Baseline::over_tcp(sample);
        for form in Form::ALL {
            let capture = form.apply(&baseline.capture);
            let variant = Variant { kind: mutate::Kind::One, capture, lost: HashSet::new() };
            let complaints = baseline.complaints(&variant, form);
            assert!(complaints.is_empty(), "{sample}, {form:?}: {complaints:#?}");
        }
    }
}

/// Fails if a seed's variant is judged wrongly.
fn judge<'w>(mut variant: impl FnMut(u64) -> (&'w Baseline, Form, Variant)) {
    let first = number("RDMASCOPE_FIRST_VARIANT", 0);
    let seeds = first..first + number("RDMASCOPE_VARIANTS", 500);
    let (mut wrong, mut count) = (String::new(), 0);
    for seed in seeds.clone() {
        let (baseline, form, variant) = variant(seed);
        let complaints = baseline.complaints(&variant, form);
        if complaints.is_empty() {
            continue;
        }
        count += 1;
        if let Some(folder) = std::env::var_os("RDMASCOPE_KEEP_VARIANTS") {
            let file = std::path::Path::new(&folder).join(format!("{seed}.pcap"));
            std::fs::write(file, pcap::write(&variant.capture)).expect("the folder is writable");
        }
        let mut lost: Vec<u64> = variant.lost.iter().copied().collect();
        lost.sort_unstable();
        lost.truncate(12);
        let _ = writeln!(
            wrong,
            "\nvariant {seed}, {:?} of {}, {form:?}, {} lost: {lost:?}",
            variant.kind,
            baseline.name,
            variant.lost.len()
        );
        for complaint in complaints.iter().take(4) {
            let _ = writeln!(wrong, "  {complaint}");
        }
        if complaints.len() > 4 {
            let _ = writeln!(wrong, "  and {} more", complaints.len() - 4);
        }
    }
    assert!(count == 0, "{count} of {} variants were judged wrongly:{wrong}", seeds.end - seeds.start);
}
