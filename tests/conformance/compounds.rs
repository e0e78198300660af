//! Scripts of NFSv4.1 COMPOUNDs, written by hand from RFC 8881 and RFC 5662, and their findings.
//!
//! A script has a line for each request: slot, sequence ID and operations. Call and reply take one
//! packet each, so the first line after the three packets of the connect has packets 4 and 5.

use crate::By;
use core::fmt::Write as _;
use rdmascope_testkit::messages::{call_to, compound, message, msg, reply};
use rdmascope_testkit::world::{CLIENT, Frame, SERVER, World};
use rdmascope_tests::judged::{findings, rule};
use rdmascope_tests::pcap::{Capture, Packet};
use std::collections::VecDeque;

/// A client and servers that follow a script.
struct ScriptedSession {
    world: World,
    xid: u32,
    /// Delayed replies, each with its connection and sending end.
    waiting: VecDeque<(usize, usize, Vec<u8>)>,
    /// The number of unrelated packets that the capture has before a packet.
    others: Vec<(usize, u64)>,
}

/// Arguments and results of an operation.
type Both = (String, String);

/// A stateid: `x` with sequence number 3 is `x.3`.
fn stateid(text: &str) -> String {
    let (name, number) = text.split_once('.').expect("a name and a number");
    match name {
        "zero" => format!("{number} 0 0 0"),
        name => format!("{number} {0} {0} {0}", u32::from(name.as_bytes()[0])),
    }
}

/// An operation that succeeds.
fn operation(text: &str) -> Both {
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let mut words = rest.split(',');
    let mut next = || words.next().expect("another argument");
    let both = |number: u32, arguments: String, results: String| {
        (format!("{number} {arguments}"), format!("{number} 0 {results}"))
    };
    let none = String::new;
    let range = "h0 h100";
    let channel = "0 4096 4096 4096 8 8 0";
    match name {
        "putfh" => both(22, format!("'{}'", next()), none()),
        "putrootfh" => both(24, none(), none()),
        "access" => both(3, "1".into(), "1 1".into()),
        "lookup" => both(15, "'n'".into(), none()),
        "close" => {
            let id = stateid(next());
            both(4, format!("0 {id}"), id)
        }
        "delegreturn" => both(8, stateid(next()), none()),
        "free" => both(45, stateid(next()), none()),
        "test" => both(55, format!("1 {}", stateid(next())), "1 0".into()),
        "write" => both(38, format!("{} h0 2 *4", stateid(next())), "4 2 h0".into()),
        // No attributes.
        "setattr" => both(34, format!("{} 0 0", stateid(next())), "0".into()),
        // The claim and the returned stateid.
        "open" => {
            let (claim, id) = (next(), stateid(next()));
            let claim = open_claim(claim);
            both(18, format!("0 3 0 h1 'o' 0 {claim}"), format!("{id} 1 h0 h0 0 0 0"))
        }
        // An OPEN by file handle that grants a read delegation.
        "delegate" => {
            let (id, delegation) = (stateid(next()), stateid(next()));
            both(18, "0 3 0 h1 'o' 0 4".into(), format!("{id} 1 h0 h0 0 0 1 {delegation} 0 0 0 0 ''"))
        }
        "getfh" => both(10, none(), format!("'{}'", next())),
        // An OPEN by file handle: share_access, claim, returned stateid, and optionally a
        // delegation and its type.
        "share" => {
            let (access, claim, id) = (next(), next(), stateid(next()));
            let delegation = match (words.next(), words.next()) {
                (Some(id), Some("1")) => format!("1 {} 0 0 0 0 ''", stateid(id)),
                (Some(id), _) => format!("2 {} 0 1 h1000 0 0 0 ''", stateid(id)),
                _ => "0".into(),
            };
            let claim = open_claim(claim);
            both(18, format!("0 {access} 0 h1 'o' 0 {claim}"), format!("{id} 1 h0 h0 0 0 {delegation}"))
        }
        // The stateid in the arguments and the one in the results.
        "downgrade" => {
            let (before, id) = (stateid(next()), stateid(next()));
            both(21, format!("{before} 0 1 0"), id)
        }
        // WRITE_LT: the lock-owner, the returned stateid, offset and length.
        "lock" => {
            let (owner, id, offset, length) = (next(), stateid(next()), next(), next());
            both(12, format!("2 0 h{offset} h{length} 1 0 1 5 5 5 0 h0 '{owner}'"), id)
        }
        "unlock" => {
            let (before, id) = (stateid(next()), stateid(next()));
            both(14, format!("2 0 {before} {range}"), id)
        }
        "layoutget" => {
            let (before, id) = (stateid(next()), stateid(next()));
            both(50, format!("0 1 1 h0 h100 h0 {before} 4096"), format!("0 {id} 0"))
        }
        "layoutcommit" => both(49, format!("h0 h100 0 {} 0 0 1 ''", stateid(next())), "0".into()),
        "create" => {
            let (client, session) = (next(), session(next()));
            let back = format!("{channel} 1073741824 1 0");
            both(43, format!("h{client} 1 0 {channel} {back}"), format!("{session} 1 0 {channel} {channel}"))
        }
        "destroy" => both(44, session(next()), none()),
        "destroyclient" => both(57, format!("h{}", next()), none()),
        "reclaim" => both(58, next().into(), none()),
        other => panic!("no operation {other}"),
    }
}

/// An open_claim4.
fn open_claim(name: &str) -> &'static str {
    match name {
        "null" => "0 'n'",
        "previous" => "1 0",
        "fh" => "4",
        other => panic!("no claim {other}"),
    }
}

/// A session ID is named by one letter.
fn session(name: &str) -> String {
    format!("0 0 0 {}", u32::from(name.as_bytes()[0]))
}

impl ScriptedSession {
    fn new() -> ScriptedSession {
        let world = World::connected();
        ScriptedSession { world, xid: 0, waiting: VecDeque::new(), others: Vec::new() }
    }

    /// Executes a line of a script.
    fn execute(&mut self, line: &str) {
        let mut words = line.split_whitespace();
        match words.next().expect("a word") {
            // Longer than the time by which captures reorder packets.
            "later" => {
                self.world.wait(3_000_000);
                self.others.push((self.world.frames.len(), 100));
            }
            // Only the time, or only the packets.
            "time" => self.world.wait(words.next().expect("nanoseconds").parse().expect("a number")),
            "packets" => {
                let packets = words.next().expect("how many").parse().expect("a number");
                self.others.push((self.world.frames.len(), packets));
            }
            // Opens another connection, to the same server or to another one.
            "connect" => {
                let on = self.world.connections.len() as u32;
                self.world.add([0x1000 + on, 0x2000 + on], [1_000_000 * on, 2_000_000 * on]);
                if words.next() == Some("elsewhere") {
                    self.world.end(SERVER).address = [192, 0, 2, 100].into();
                }
                self.world.connect();
            }
            "on" => self.world.on = words.next().expect("which").parse().expect("a number"),
            "answer" => {
                let (on, from, bytes) = self.waiting.pop_front().expect("a reply");
                self.world.on = on;
                self.world.send(from, &bytes);
            }
            // A call only; `answer` sends its reply.
            "call" => self.exchange(words.next().expect("a slot"), &words.collect::<Vec<_>>(), false),
            "recall" => self.recall(&words.collect::<Vec<_>>()),
            slot => self.exchange(slot, &words.collect::<Vec<_>>(), true),
        }
    }

    /// Sends a COMPOUND. `at` is session, slot and sequence ID, or `-` for no SEQUENCE.
    fn exchange(&mut self, at: &str, operations: &[&str], is_answered: bool) {
        self.xid += 1;
        let xid = self.xid;
        let mut status = "0";
        let mut all: Vec<Both> = Vec::new();
        if at != "-" {
            let mut parts = at.split('.');
            let mut next = || parts.next().expect("session, slot and sequence ID");
            let (id, slot, number) = (session(next()), next(), next());
            let results = format!("53 0 {id} {number} {slot} 7 7 0");
            all.push((format!("53 {id} {number} {slot} 7 0"), results));
        }
        for word in operations {
            // A failed operation ends the COMPOUND.
            let (text, failed) = word.split_once('=').unwrap_or((word, ""));
            let (arguments, results) = operation(text);
            if failed.is_empty() {
                all.push((arguments, results));
            } else {
                status = failed;
                let number = results.split(' ').next().expect("its number").to_string();
                all.push((arguments, format!("{number} {failed}")));
            }
        }
        let arguments: Vec<_> = all.iter().map(|(arguments, _)| &arguments[..]).collect();
        let results: Vec<_> = all.iter().map(|(_, results)| &results[..]).collect();
        let call = compound(xid, &format!("{} {}", all.len(), arguments.join(" ")));
        let answer = reply(xid, &format!("{status} '' {} {}", all.len(), results.join(" ")));
        self.world.send(CLIENT, &message(&msg(xid), &call));
        let answer = (self.world.on, SERVER, message(&msg(xid), &answer));
        if is_answered {
            self.world.send(SERVER, &answer.2);
        } else {
            self.waiting.push_back(answer);
        }
    }

    /// Sends CB_RECALL on a slot of the backchannel: session, slot and sequence ID, stateid,
    /// status.
    fn recall(&mut self, words: &[&str]) {
        self.xid += 1;
        let [at, id, status, wait @ ..] = words else { panic!("{words:?}") };
        let mut parts = at.split('.');
        let mut next = || parts.next().expect("session, slot and sequence ID");
        let (session, slot, number) = (session(next()), next(), next());
        let arguments = format!("'' 1 0 2 11 {session} {number} {slot} 7 0 0 4 {} 0 'f'", stateid(id));
        let results = format!("{status} '' 2 11 0 {session} {number} {slot} 7 7 4 {status}");
        let call = call_to(self.xid, [0x4000_0000, 1, 1], &arguments);
        self.world.send(SERVER, &message(&msg(self.xid), &call));
        wait.iter().for_each(|wait| self.world.wait(wait.parse().expect("nanoseconds")));
        self.world.send(CLIENT, &message(&msg(self.xid), &reply(self.xid, &results)));
    }

    fn capture(&self) -> Capture {
        let packet = |(index, frame): (usize, &Frame)| {
            let before: u64 =
                self.others.iter().filter(|(at, _)| *at <= index).map(|(_, packets)| packets).sum();
            let number = index as u64 + 1 + before;
            Packet {
                number,
                time: frame.time,
                original_length: frame.data.len() as u32,
                data: frame.data.clone(),
            }
        };
        Capture { link: 1, packets: self.world.frames.iter().enumerate().map(packet).collect() }
    }
}

/// The capture of a script.
pub(crate) fn capture(script: &str) -> Capture {
    let mut scripted = ScriptedSession::new();
    script.split('|').for_each(|line| scripted.execute(line));
    scripted.capture()
}

/// The findings of a script by the rules with this prefix. Each line has rule, accused end, frames,
/// observed and allowed value, and verdict.
fn found(prefix: &str, script: &str) -> Vec<String> {
    let found = findings(&capture(script));
    let of_rules = found.iter().filter(|finding| rule(finding).id.starts_with(prefix));
    of_rules
        .map(|finding| {
            let mut line =
                format!("{} {:?} {:?}", &rule(finding).id[prefix.len()..], By::of(finding), finding.frames);
            for value in [&finding.observed, &finding.allowed].into_iter().flatten() {
                let _ = write!(line, " {value}");
            }
            let _ = write!(line, " {}", finding.verdict);
            line
        })
        .collect()
}

/// Checks the findings of each script.
#[track_caller]
fn each(prefix: &str, cases: &[(&str, &[&str])]) {
    let mut wrong = Vec::new();
    for (script, expected) in cases {
        let found = found(prefix, script);
        if found != *expected {
            wrong.push(format!("{script}: {expected:?}, but {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The requests are on the same slot, or further apart than captures reorder packets: 2 ms and 64
/// packets.
#[test]
fn stateid_is_invalid_after_its_end() {
    const ENDED: &str = "ended-stateid Responder [4, 5, 6, 7] NFS4_OK stands";
    each(
        "state-",
        &[
            ("s.0.1 putfh:f close:x.1 | s.0.2 putfh:f write:x.1", &[ENDED]),
            ("s.0.1 putfh:f delegreturn:x.1 | s.0.2 putfh:f write:x.1", &[ENDED]),
            ("s.0.1 free:x.1 | s.0.2 putfh:f write:x.1", &[ENDED]),
            // Reported once.
            ("s.0.1 putfh:f close:x.1 | s.0.2 putfh:f write:x.1 | s.0.3 putfh:f write:x.1", &[ENDED]),
            ("s.0.1 putfh:f close:x.1 | s.0.2 putfh:f write:x.1 | - putrootfh", &[ENDED]),
            // On another slot, with any sequence ID.
            ("s.0.1 putfh:f close:x.1 | s.1.1 putfh:f write:x.1", &[]),
            ("s.0.1 putfh:f close:x.1 | s.1.2 putfh:f write:x.1", &[]),
            ("s.0.1 putfh:f close:x.1 | time 3000000 | s.1.2 putfh:f write:x.1", &[]),
            ("s.0.1 putfh:f close:x.1 | packets 100 | s.1.2 putfh:f write:x.1", &[]),
            (
                "s.0.1 putfh:f close:x.1 | later | s.1.2 putfh:f write:x.1",
                &["ended-stateid Responder [4, 5, 106, 107] NFS4_OK stands"],
            ),
            // The call of the WRITE is frame 69 or 70; the reply to the CLOSE is frame 5.
            ("s.0.1 putfh:f close:x.1 | packets 63 | time 3000000 | s.1.2 putfh:f write:x.1", &[]),
            (
                "s.0.1 putfh:f close:x.1 | packets 64 | time 3000000 | s.1.2 putfh:f write:x.1",
                &["ended-stateid Responder [4, 5, 70, 71] NFS4_OK stands"],
            ),
            // Packets are 1 us apart.
            ("s.0.1 putfh:f close:x.1 | packets 100 | time 1999000 | s.1.2 putfh:f write:x.1", &[]),
            (
                "s.0.1 putfh:f close:x.1 | packets 100 | time 1999001 | s.1.2 putfh:f write:x.1",
                &["ended-stateid Responder [4, 5, 106, 107] NFS4_OK stands"],
            ),
            // It was outstanding when the stateid ended.
            ("call s.1.1 putfh:f write:x.1 | s.0.1 putfh:f close:x.1 | later | answer", &[]),
            // TEST_STATEID returns a status for each stateid, and FREE_STATEID takes ended ones.
            ("s.0.1 putfh:f close:x.1 | s.0.2 test:x.1 | s.0.3 free:x.1", &[]),
            // Another stateid; and the same one in another session, which may be another client's.
            ("s.0.1 putfh:f close:x.1 | s.0.2 putfh:f write:y.1", &[]),
            ("s.0.1 putfh:f close:x.1 | later | t.0.1 putfh:f write:x.1", &[]),
            // The stateid was issued again, so the number is old.
            (
                "s.0.1 putfh:f close:x.1 | s.0.2 putfh:f open:fh,x.2 | s.0.3 putfh:f write:x.1",
                &["stateid-old Responder [6, 7, 8, 9] 1 0, or 2 or more stands"],
            ),
            // A failed operation neither ends nor uses a stateid.
            ("s.0.1 putfh:f close:x.1=10025 | s.0.2 putfh:f write:x.1", &[]),
            ("s.0.1 putfh:f close:x.1 | s.0.2 putfh:f write:x.1=10025", &[]),
        ],
    );
}

#[test]
fn stateid_sequence_numbers_are_checked() {
    each(
        "state-",
        &[
            (
                "s.0.1 putfh:f open:fh,x.5 | s.0.2 putfh:f open:fh,x.2",
                &["stateid-sequence Responder [4, 5, 6, 7] 2 5 or more stands"],
            ),
            // It counts on from there.
            (
                "s.0.1 putfh:f open:fh,x.5 | s.0.2 putfh:f open:fh,x.2 | s.0.3 putfh:f open:fh,x.3",
                &["stateid-sequence Responder [4, 5, 6, 7] 2 5 or more stands"],
            ),
            (
                "s.0.1 putfh:f open:fh,x.5 | s.0.2 putfh:f open:fh,x.6 | s.0.3 putfh:f open:fh,x.5",
                &["stateid-sequence Responder [6, 7, 8, 9] 5 6 or more stands"],
            ),
            // A lower number that may predate the highest one does not change it.
            (
                "s.0.1 putfh:f open:fh,x.5 | s.1.1 putfh:f open:fh,x.3 | s.0.2 putfh:f open:fh,x.4",
                &["stateid-sequence Responder [4, 5, 8, 9] 4 5 or more stands"],
            ),
            // One operation that names and returns a stateid; one that returns another stateid.
            ("s.0.1 putfh:f downgrade:x.5,x.4", &["stateid-sequence Responder [4, 5] 4 5 or more stands"]),
            ("s.0.1 putfh:f downgrade:x.5,x.6 | s.0.2 putfh:f downgrade:x.6,y.2", &[]),
            ("s.0.1 putfh:f downgrade:x.0,x.4", &[]),
            // A delegation.
            (
                "s.0.1 putfh:f delegate:x.1,d.5 | s.0.2 putfh:f delegate:x.1,d.2",
                &["stateid-sequence Responder [4, 5, 6, 7] 2 5 or more stands"],
            ),
            (
                "s.0.1 putfh:f open:fh,x.5 | s.0.2 putfh:f write:x.4 | s.0.3 putfh:f write:x.4",
                &["stateid-old Responder [4, 5, 6, 7] 4 0, or 5 or more stands"],
            ),
            ("s.0.1 putfh:f open:fh,x.5 | s.1.1 putfh:f write:x.4", &[]),
            ("s.0.1 putfh:f open:fh,x.5 | s.0.2 putfh:f write:x.0 | s.0.3 putfh:f write:x.6", &[]),
            // For layouts, a client may use an old number (RFC 8881, section 12.5.3).
            ("s.0.1 putfh:f layoutget:x.1,l.5 | s.0.2 putfh:f layoutcommit:l.4", &[]),
            (
                "s.0.1 putfh:f layoutget:x.1,l.5 | s.0.2 putfh:f layoutget:l.5,l.4",
                &["stateid-sequence Responder [6, 7] 4 5 or more stands"],
            ),
            // Another session in between changes nothing.
            (
                "s.0.1 putfh:f open:fh,x.5 | t.0.1 putrootfh | s.0.2 putfh:f write:x.4",
                &["stateid-old Responder [4, 5, 8, 9] 4 0, or 5 or more stands"],
            ),
        ],
    );
}

#[test]
fn stateid_belongs_to_one_file() {
    const FILE: &str = "stateid-file Responder [4, 5, 6, 7] stands";
    each(
        "state-",
        &[
            ("s.0.1 putfh:f write:x.1 | s.0.2 putfh:g write:x.1", &[FILE]),
            ("s.0.1 putfh:f write:x.1 | s.0.2 putfh:g close:x.1", &[FILE]),
            ("s.0.1 putfh:f write:x.1 | s.0.2 putfh:f write:x.1", &[]),
            ("s.0.1 putfh:f write:x.1 | s.0.2 putfh:g access write:x.1", &[FILE]),
            // Another operation may have changed the current file.
            ("s.0.1 putfh:f write:x.1 | s.0.2 putfh:g lookup write:x.1", &[]),
            ("s.0.1 putfh:f write:x.1 | s.0.2 putfh:g putrootfh write:x.1", &[]),
            ("s.0.1 putfh:f write:x.1 | t.0.1 putfh:g write:x.1", &[]),
        ],
    );
}

#[test]
fn conflicting_locks_of_two_owners_are_found() {
    each(
        "state-lock-",
        &[
            (
                "s.0.1 putfh:f lock:a,x.1,0,100 | s.0.2 putfh:f lock:b,y.1,99,1 | s.0.3 putfh:f unlock:x.1,x.2",
                &["conflict Responder [4, 5, 6, 7, 8, 9] NFS4_OK NFS4ERR_DENIED stands"],
            ),
            // The lock that is unlocked in between is another one.
            (
                "s.0.1 putfh:f lock:a,x.1,0,100 | s.0.2 putfh:g lock:b,y.1,0,100 | s.0.3 putfh:g unlock:y.1,y.2 \
                 | s.0.4 putfh:f lock:c,z.1,0,1 | s.0.5 putfh:f write:x.1",
                &["conflict Responder [4, 5, 10, 11, 12, 13] NFS4_OK NFS4ERR_DENIED stands"],
            ),
            (
                "s.0.1 putfh:f lock:a,x.1,0,100 | s.0.2 putfh:f unlock:x.1,x.2 | s.0.3 putfh:f lock:b,y.1,0,1 \
                 | s.0.4 putfh:f write:x.1",
                &[],
            ),
        ],
    );
}

/// `s` and `t` are sessions of two clients. `x` and `y` are their opens, `d` and `e` their
/// delegations.
#[test]
fn conflicting_delegations_of_two_clients_are_found() {
    const BOTH: &str = "create:1,s | - create:2,t";
    const FOUND: &str = "conflict Responder [8, 9, 110, 111, 212, 213] NFS4_OK NFS4ERR_DELAY stands";
    let first = |it: &str, other: &str, then: &str| {
        format!(
            "- {BOTH} | s.0.1 putfh:f {it} getfh:f | later | t.0.1 putfh:f {other} getfh:f | later | s.0.2 putfh:f {then}"
        )
    };
    let cases: &[(&str, &str, &str, bool)] = &[
        ("share:1,fh,x.1,d.1,1", "share:2,fh,y.1", "write:d.1", true),
        ("share:1,fh,x.1,d.1,1", "share:3,null,y.1", "write:d.1", true),
        // Two readers.
        ("share:1,fh,x.1,d.1,1", "share:1,fh,y.1", "write:d.1", false),
        ("share:1,fh,x.1,d.1,1", "share:1,fh,y.1,e.1,1", "write:d.1", false),
        ("share:1,fh,x.1,d.1,1", "share:1,fh,y.1,e.1,2", "write:d.1", true),
        ("share:2,fh,x.1,d.1,2", "share:1,fh,y.1", "write:d.1", true),
        // An open before the delegation.
        ("share:2,fh,x.1", "share:1,fh,y.1,e.1,1", "write:x.1", true),
        ("share:2,fh,x.1", "share:1,fh,y.1,e.1,1", "close:x.1", true),
        ("share:1,fh,x.1", "share:1,fh,y.1,e.1,1", "write:x.1", false),
        ("share:1,fh,x.1", "share:1,fh,y.1,e.1,2", "write:x.1", true),
        // Without a delegation.
        ("share:3,fh,x.1", "share:3,fh,y.1", "write:x.1", false),
        // No proof that the delegation was still held.
        ("share:2,fh,x.1,d.1,2", "share:1,fh,y.1", "delegreturn:d.1", false),
        ("share:2,fh,x.1,d.1,2", "share:1,fh,y.1", "write:d.0", false),
        ("share:2,fh,x.1,d.1,2", "share:1,fh,y.1", "write:d.2", false),
        ("share:2,fh,x.1,d.1,2", "share:1,fh,y.1", "write:x.1", false),
        // Reclaims.
        ("share:2,previous,x.1,d.1,2", "share:1,fh,y.1", "write:d.1", false),
        ("share:2,fh,x.1,d.1,2", "share:1,previous,y.1", "write:d.1", false),
    ];
    for (it, other, then, is_found) in cases {
        let script = first(it, other, then);
        assert_eq!(
            found("state-delegation-", &script),
            if *is_found { vec![FOUND] } else { vec![] },
            "{script}"
        );
    }
    let reading = "putfh:f share:1,fh,x.1,d.1,1 getfh:f";
    let writing = "putfh:f share:2,fh,y.1 getfh:f";
    each(
        "state-delegation-",
        &[
            // One client with two sessions.
            (
                &format!(
                    "- create:1,s | - create:1,t | s.0.1 {reading} | later | t.0.1 {writing} | later | s.0.2 write:d.1"
                ),
                &[],
            ),
            // Another file, an unknown file, another server.
            (
                &format!(
                    "- {BOTH} | s.0.1 {reading} | later | t.0.1 putfh:f share:2,fh,y.1 getfh:g | later | s.0.2 write:d.1"
                ),
                &[],
            ),
            (
                &format!(
                    "- {BOTH} | s.0.1 {reading} | later | t.0.1 putfh:f share:2,fh,y.1 lookup:n getfh:f | later | s.0.2 write:d.1"
                ),
                &[],
            ),
            (
                &format!(
                    "- create:1,s | s.0.1 {reading} | later | connect elsewhere | - create:2,t | t.0.1 {writing} | on 0 | later | s.0.2 write:d.1"
                ),
                &[],
            ),
            (
                &format!(
                    "- create:1,s | s.0.1 {reading} | later | connect | - create:2,t | t.0.1 {writing} | on 0 | later | s.0.2 write:d.1"
                ),
                &["conflict Responder [6, 7, 113, 114, 215, 216] NFS4_OK NFS4ERR_DELAY stands"],
            ),
            // An unknown client.
            (
                &format!(
                    "- create:1,s | s.0.1 {reading} | later | t.0.1 {writing} | later | s.0.2 write:d.1"
                ),
                &[],
            ),
            // The file handle is known only after the OPEN; reported once.
            (
                &format!(
                    "- {BOTH} | s.0.1 {reading} | later | t.0.1 putfh:f share:2,fh,y.1 access getfh:f | later | s.0.2 putfh:f write:d.1 | s.0.3 putfh:f write:d.1"
                ),
                &["conflict Responder [8, 9, 110, 111, 212, 213] NFS4_OK NFS4ERR_DELAY stands"],
            ),
            // The server may have answered one before it received the other.
            (&format!("- {BOTH} | s.0.1 {reading} | t.0.1 {writing} | later | s.0.2 write:d.1"), &[]),
            (&format!("- {BOTH} | s.0.1 {reading} | later | t.0.1 {writing} | s.0.2 write:d.1"), &[]),
        ],
    );
}

#[test]
fn session_is_invalid_after_its_end() {
    const DESTROYED: &str = "session-destroyed Responder [4, 5, 6, 7] NFS4_OK stands";
    each(
        "state-",
        &[
            ("s.0.1 destroy:s | s.0.2 putrootfh", &[DESTROYED]),
            ("s.0.1 destroy:s | s.0.2 putrootfh | s.0.3 putrootfh", &[DESTROYED]),
            // A slot without earlier use: the session may have been created again.
            ("s.0.1 destroy:s | later | s.1.1 putrootfh", &[]),
            ("s.0.1 destroy:s | s.0.5 putrootfh", &[]),
            ("s.0.1 destroy:t | s.0.2 putrootfh", &[]),
            ("s.0.1 destroy:s=10052 | s.0.2 putrootfh", &[]),
            // The session was created again.
            ("s.0.1 destroy:s | - create:7,s | s.0.2 putrootfh", &[]),
            // Destroyed by its client ID.
            (
                "- create:7,s | s.0.1 putrootfh | s.0.2 destroyclient:7 | s.0.3 putrootfh",
                &["session-destroyed Responder [8, 9, 10, 11] NFS4_OK stands"],
            ),
            ("- create:7,s | s.0.1 putrootfh | s.0.2 destroyclient:8 | s.0.3 putrootfh", &[]),
            ("s.0.1 putrootfh | s.0.2 destroyclient:7 | s.0.3 putrootfh", &[]),
            // Of another server.
            ("s.0.1 putrootfh | connect elsewhere | s.0.1 destroy:s | on 0 | later | s.0.2 putrootfh", &[]),
        ],
    );
}

#[test]
fn reclaim_complete_is_checked_per_session() {
    each(
        "state-",
        &[
            (
                "s.0.1 putfh:f open:null,x.1 | s.0.2 reclaim:0",
                &["reclaim-complete Requester [4, 5, 6, 7] stands"],
            ),
            (
                "s.0.1 putfh:f open:fh,x.1 | s.0.2 reclaim:0",
                &["reclaim-complete Requester [4, 5, 6, 7] stands"],
            ),
            ("s.0.1 putfh:f open:previous,x.1 | s.0.2 reclaim:0", &[]),
            ("s.0.1 putfh:f open:fh,x.1 | s.0.2 reclaim:1", &[]),
            ("s.0.1 putfh:f open:fh,x.1 | s.1.1 reclaim:0", &[]),
            ("s.0.1 reclaim:0 | s.0.2 putfh:f open:fh,x.1", &[]),
            ("s.0.1 reclaim:0 | s.0.2 reclaim:0", &["reclaim-repeated Responder [4, 5, 6, 7] stands"]),
            ("s.0.1 reclaim:0 | s.0.2 reclaim:1", &[]),
            ("s.0.1 reclaim:0 | t.0.1 reclaim:0", &[]),
            // RECLAIM_COMPLETE may have been sent over another connection before the session was
            // destroyed.
            (
                "- create:7,s | s.0.1 putfh:f open:fh,x.1 | s.0.2 destroy:s",
                &["reclaim-complete Requester [6, 7, 8, 9] inconclusive"],
            ),
            ("- create:7,s | s.0.1 reclaim:0 | s.0.2 putfh:f open:fh,x.1 | s.0.3 destroy:s", &[]),
            ("s.0.1 putfh:f open:fh,x.1 | s.0.2 destroy:s", &[]),
        ],
    );
}

#[test]
fn revoked_delegations_are_matched_with_recalls() {
    each(
        "state-recall-",
        &[
            (
                "s.0.1 putrootfh | recall s.0.1 d.1 0 | s.0.2 putfh:f delegreturn:d.1=10087",
                &["revoked Requester [6, 7, 8, 9] NFS4ERR_DELEG_REVOKED stands"],
            ),
            (
                "s.0.1 putrootfh | recall s.0.1 d.1 0 | s.0.2 putfh:f delegreturn:d.1=10087 | s.0.3 putfh:f write:d.1=10087",
                &["revoked Requester [6, 7, 8, 9] NFS4ERR_DELEG_REVOKED stands"],
            ),
            (
                "s.0.1 putrootfh | recall s.0.1 d.1 0 900000000 | s.0.2 putfh:f delegreturn:d.1=10087",
                &["revoked Requester [6, 7, 8, 9] NFS4ERR_DELEG_REVOKED stands"],
            ),
            // The recall may have arrived late.
            (
                "s.0.1 putrootfh | recall s.0.1 d.1 0 1100000000 | s.0.2 putfh:f delegreturn:d.1=10087",
                &["revoked Requester [8, 9] NFS4ERR_DELEG_REVOKED inconclusive"],
            ),
            // The client refuses the recall, or another stateid is recalled.
            (
                "s.0.1 putrootfh | recall s.0.1 d.1 10025 | s.0.2 putfh:f delegreturn:d.1=10087",
                &["revoked Requester [8, 9] NFS4ERR_DELEG_REVOKED inconclusive"],
            ),
            (
                "s.0.1 putrootfh | recall s.0.1 e.1 0 | s.0.2 putfh:f delegreturn:d.1=10087",
                &["revoked Requester [8, 9] NFS4ERR_DELEG_REVOKED inconclusive"],
            ),
        ],
    );
}

/// RFC 8881, section 2.10.6.1: each request on a slot has the sequence ID that follows the previous
/// one.
#[test]
fn sequence_ids_are_checked_per_slot() {
    each(
        "session-s",
        &[
            ("- create:7,s | s.0.1 putrootfh | s.0.2 putrootfh | s.1.1 putrootfh", &[]),
            // Another request with the same sequence ID.
            (
                "s.0.1 putrootfh | s.0.2 putrootfh | s.0.2 putrootfh access",
                &["equence Requester [6, 8, 9] 2 3 stands"],
            ),
            (
                "s.0.1 putrootfh | s.0.2 putrootfh | s.0.2 putrootfh access | - putrootfh",
                &[
                    "equence Requester [6, 8, 9] 2 3 stands",
                    "equence-first Requester [10] PUTROOTFH SEQUENCE stands",
                ],
            ),
            ("s.0.1 putrootfh | s.0.2 putrootfh | s.0.2 putrootfh", &[]),
            // Skipped ones may have been sent over another connection, unless a lower one follows.
            (
                "s.0.1 putrootfh | s.0.2 putrootfh | s.0.5 putrootfh | s.0.6 putrootfh",
                &["equence Requester [6, 8, 9] 5 3 inconclusive"],
            ),
            (
                "s.0.1 putrootfh | s.0.2 putrootfh | s.0.5 putrootfh | s.0.3 putrootfh",
                &["equence Requester [6, 8, 9, 10] 5 3 stands"],
            ),
            (
                "s.0.1 putrootfh | s.0.2 putrootfh | s.0.1 putrootfh access",
                &["equence Requester [6, 8, 9] 1 3 stands"],
            ),
            // The first one in a new session is 1.
            (
                "- create:7,s | s.0.3 putrootfh | s.0.4 putrootfh",
                &["equence Requester [6, 7] 3 1 inconclusive"],
            ),
            ("s.0.3 putrootfh | s.0.4 putrootfh", &[]),
            // A new session starts again at 1.
            ("- create:7,s | s.0.1 putrootfh | s.0.2 putrootfh | - create:7,s | s.0.1 putrootfh access", &[]),
            // CREATE_SESSION granted eight slots.
            ("- create:7,s | s.8.1 putrootfh", &["lot Requester [5, 6] 8 7 inconclusive"]),
        ],
    );
}

#[test]
fn concurrent_requests_on_a_slot_are_found() {
    each(
        "session-slot-",
        &[
            // The later request is answered first, or the earlier one much later.
            (
                "s.0.1 putrootfh | call s.0.2 putrootfh | s.0.3 putrootfh access | answer",
                &["busy Requester [6, 7, 8, 9] 2 1 stands"],
            ),
            (
                "s.0.1 putrootfh | call s.0.2 putrootfh | call s.0.3 putrootfh access | later | answer | answer",
                &["busy Requester [6, 7, 108, 109] 2 1 stands"],
            ),
            (
                "s.0.1 putrootfh | call s.0.2 putrootfh | call s.0.3 putrootfh access | answer | answer",
                &["busy Requester [6, 7, 8, 9] 2 1 inconclusive"],
            ),
            ("s.0.1 putrootfh | call s.0.2 putrootfh | call s.1.1 putrootfh | answer | answer", &[]),
        ],
    );
}
