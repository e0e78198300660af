//! Whatever packets a capture lacks, shows out of order or shows twice: nothing is an accusation that the session itself does not give,
//! and no transaction suffers but those that the lost packets were of.
//!
//! The gate runs 500 variants. `tests/loss` runs 10,000: `RDMASCOPE_VARIANTS` says how many, `RDMASCOPE_FIRST_VARIANT` from which seed,
//! `RDMASCOPE_KEEP_VARIANTS` names a folder for captures of those that are judged wrongly.

use core::fmt::Write as _;
use rdmascope_conformance::{Finding, Level, Verdict};
use rdmascope_dissector::transaction::{Direction, Message, Transaction};
use rdmascope_tests::judged::{self, rule};
use rdmascope_tests::mutate::{self, CLIENT, SERVER, Variant};
use rdmascope_tests::owners::owners;
use rdmascope_tests::pcap::{self, Capture, Packet};
use rdmascope_tests::{samples, session};
use rdmascope_wire::Xid;
use std::collections::{BTreeMap, HashMap, HashSet};

/// A session, with what is known of it.
struct Whole {
    name: String,
    capture: Capture,
    owners: HashMap<u64, Xid>,
    transactions: BTreeMap<Key, Vec<String>>,
    accusations: HashSet<String>,
}

type Key = (bool, u32);

impl Whole {
    fn new(name: &str, capture: Capture) -> Whole {
        Whole {
            name: name.into(),
            owners: owners(&capture),
            transactions: transactions(&capture),
            accusations: accusations(&capture).into_iter().map(|(id, _)| id).collect(),
            capture,
        }
    }

    /// What is wrong with what comes of a variant.
    fn complaints(&self, variant: &Variant) -> Vec<String> {
        let mut complaints = Vec::new();
        for (id, line) in accusations(&variant.capture) {
            if !self.accusations.contains(&id) {
                complaints.push(line);
            }
        }
        if !variant.kind.keeps_both_directions() {
            return complaints;
        }
        let hurt: HashSet<Xid> =
            variant.lost.iter().filter_map(|lost| self.owners.get(lost)).copied().collect();
        let found = transactions(&variant.capture);
        for (key, expected) in self.transactions.iter().filter(|((_, xid), _)| !hurt.contains(&Xid(*xid))) {
            let found = found.get(key);
            if found != Some(expected) {
                let found = found.map_or("none".into(), |found| found.join(" | "));
                complaints.push(format!("XID 0x{:08x}: {} became {found}", key.1, expected.join(" | ")));
            }
        }
        complaints
    }
}

/// What is found against an end, with a name that tells one accusation from another.
fn accusations(capture: &Capture) -> Vec<(String, String)> {
    let accuses =
        |finding: &Finding| finding.verdict == Verdict::Stands && rule(finding).level != Level::Advice;
    let found = judged::findings(capture).into_iter().filter(accuses);
    found.map(|finding| (rule(&finding).id.into(), judged::line(&finding))).collect()
}

/// What of each transaction has to stay as it is: all but times, frames, and what rests on the connection as a whole.
fn transactions(capture: &Capture) -> BTreeMap<Key, Vec<String>> {
    let mut all: BTreeMap<Key, Vec<String>> = BTreeMap::new();
    for transaction in &session::run(capture).transactions {
        let key = (transaction.direction == Direction::Forward, transaction.xid.0);
        all.entry(key).or_default().push(content(transaction));
    }
    all
}

fn content(transaction: &Transaction) -> String {
    let mut text = format!("{:?} status {:?}", transaction.outcome, transaction.status);
    for name in session::names(transaction) {
        let _ = write!(text, " {name}");
    }
    let mut message = |what: &str, message: &Option<Message>| {
        let Some(message) = message else { return };
        let Message { send_length, message_length, missing, read_chunks, write_chunks, reply_chunk, .. } =
            message;
        let _ = write!(
            text,
            ", {what} {send_length} of {message_length:?} {} {} {} lacks {missing:?}",
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

/// A session that begins with a Long Reply: without its first call, which is NULL, and the reply to that.
fn begun_with_a_long_reply(session: &Capture) -> Capture {
    let mut session = session.clone();
    for sender in [CLIENT, SERVER] {
        let begins = |packet: &Packet| packet.source() == sender && packet.starts_message();
        let first = session.packets.iter().position(begins).expect("both ends send");
        mutate::remove_request(&mut session, first);
    }
    session
}

/// A session with another one behind it, on a second connection with names of its own: a reconnect.
fn reconnected(session: &Capture, mut second: Capture) -> Capture {
    const OTHER: u32 = 0x0550_0000;
    // The Linux client names memory by the XID in the upper half of the address.
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
fn loss_is_no_misbehaviour_and_costs_only_what_was_lost() {
    let sample = |name: &str| Whole::new(name, samples::capture(name));
    let twice = |name: &str| {
        let session = samples::capture(name);
        Whole::new(&format!("{name}, reconnected"), reconnected(&session, session.clone()))
    };
    let recall = samples::capture("nfs4.1-backchannel-recall");
    let long = begun_with_a_long_reply(&recall);
    let wholes = [
        sample("nfs3-basic"),
        sample("nfs4.1-backchannel-recall"),
        twice("nfs3-basic"),
        sample("nfs4.1-basic"),
        twice("nfs4.1-backchannel-recall"),
        sample("nfs4.2-basic"),
        Whole::new("a Long Reply first, reconnected", reconnected(&recall, long.clone())),
        Whole::new("a Long Reply first", long),
        sample("nfs4.2-mtu4096-large-io"),
    ];
    for whole in &wholes {
        assert!(whole.transactions.len() > 20, "{}: {} transactions", whole.name, whole.transactions.len());
    }
    let first = number("RDMASCOPE_FIRST_VARIANT", 0);
    let seeds = first..first + number("RDMASCOPE_VARIANTS", 500);
    let (mut wrong, mut count) = (String::new(), 0);
    for seed in seeds.clone() {
        let whole = &wholes[(seed / mutate::Kind::ALL.len() as u64) as usize % wholes.len()];
        let variant = mutate::variant(&whole.capture, seed);
        let complaints = whole.complaints(&variant);
        if complaints.is_empty() {
            continue;
        }
        count += 1;
        if let Some(folder) = std::env::var_os("RDMASCOPE_KEEP_VARIANTS") {
            let file = std::path::Path::new(&folder).join(format!("{seed}.pcap"));
            std::fs::write(file, pcap::write(&variant.capture)).expect("the folder takes files");
        }
        let mut lost: Vec<u64> = variant.lost.iter().copied().collect();
        lost.sort_unstable();
        lost.truncate(12);
        let _ = writeln!(
            wrong,
            "\nvariant {seed}, {:?} of {}, {} lost: {lost:?}",
            variant.kind,
            whole.name,
            variant.lost.len()
        );
        for complaint in complaints.iter().take(4) {
            let _ = writeln!(wrong, "  {complaint}");
        }
        if complaints.len() > 4 {
            let _ = writeln!(wrong, "  and {} more", complaints.len() - 4);
        }
    }
    assert!(count == 0, "{count} of {} variants are judged wrongly:{wrong}", seeds.end - seeds.start);
}
