//! Events about NFSv4 state: flags that servers raised, and state that was lost, not returned or
//! not reported.

use super::known::{Reached, event};
use super::{Kind, SILENCE, SessionEvent, lost};
use crate::state::{Counts, End, Kind as StateKind, Lifetime, States, status_flags};
use crate::units::{Counted, Duration};
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::{Direction, Transaction};
use rdmascope_dissector::ulb::{Details, FactKind, Nfs4, OperationKind, Procedure, StateFact};
use std::collections::{BTreeMap, VecDeque};

/// NFSv4 state, and the lifetimes that cause events.
#[derive(Clone, Debug, Default)]
pub(super) struct StateEvents {
    states: States,
    /// The latest lifetimes that did not end in order.
    broken: VecDeque<Lifetime>,
}

impl StateEvents {
    /// The most lifetimes kept in `broken`.
    const MOST: usize = 1024;

    #[inline]
    pub(super) fn handle(&mut self, event: &Event<'_>) {
        let StateEvents { states, broken } = self;
        if let Event::Transaction(transaction) = event
            && states.is_calm()
            && !changes(transaction)
        {
            return;
        }
        states.handle(event, &mut |lifetime| {
            if lifetime.end.is_broken() {
                if broken.len() >= StateEvents::MOST {
                    broken.pop_front();
                }
                broken.push_back(lifetime.clone());
            }
        });
    }

    /// Forgets everything that ended before this time.
    pub(super) fn forget(&mut self, before: Time) {
        self.states.forget(before);
        self.broken.retain(|lifetime| lifetime.last.time >= before);
    }

    /// Adds the events up to `reached`.
    pub(super) fn report(&self, reached: Reached, events: &mut Vec<SessionEvent>) {
        self.flags(reached, events);
        let broken =
            || self.broken.iter().chain(self.states.ended()).filter(|lifetime| lifetime.end.is_broken());
        if broken().next().is_some() {
            let all = self.broken.iter().chain(self.states.ended()).chain(self.states.open());
            lost::report(all, events);
        }
        // An open lifetime may still end in order if the capture continues.
        let open = self.states.open().filter(|_| !reached.is_live);
        let mut owed: BTreeMap<(Kind, ConnectionId), Owed> = BTreeMap::new();
        for lifetime in broken().chain(open) {
            let (kind, since) = match (lifetime.recalled, lifetime.kind) {
                (Some(at), _) => (Kind::RecallUnanswered, at),
                (None, StateKind::Copy) if lifetime.end != End::Failed => {
                    (Kind::CopyUnreported, lifetime.first)
                }
                _ => continue,
            };
            let until = lifetime.ended.map_or(reached.time, |at| at.time);
            if lifetime.ended.is_some() || until.since(since.time) >= SILENCE {
                let owed = owed.entry((kind, lifetime.connection)).or_insert(Owed {
                    from: since.time,
                    until,
                    is_open: false,
                    counts: [0; StateKind::ALL.len()],
                    frames: [since.frame; 2],
                });
                (owed.from, owed.until) = (owed.from.min(since.time), owed.until.max(until));
                owed.is_open |= lifetime.ended.is_none();
                owed.counts[lifetime.kind as usize] += 1;
                owed.frames = [owed.frames[0].min(since.frame), owed.frames[1].max(since.frame)];
            }
        }
        for ((kind, connection), owed) in owed {
            let length = owed.until.since(owed.from);
            let counts = StateKind::ALL.map(|kind| (kind, owed.counts[kind as usize]));
            let label = match kind {
                Kind::CopyUnreported => "no CB_OFFLOAD for",
                _ => "recalled and not returned:",
            };
            let until = if owed.is_open { ", until the capture ends" } else { "" };
            let text = format!("{label} {}, {}{until}", Counts(&counts), Duration(length));
            events.push(SessionEvent {
                connection,
                // The end that failed to act: the client returns, the server reports.
                by_requester: Some(kind == Kind::RecallUnanswered),
                duration: Some(length),
                count: owed.counts.iter().sum(),
                frames: owed.frames.map(Some),
                ..event(owed.from, kind, text)
            });
        }
    }

    fn flags(&self, reached: Reached, events: &mut Vec<SessionEvent>) {
        for raised in self.states.raised() {
            let names: Vec<_> = status_flags(raised.flags).collect();
            let end = raised.gone.map_or(reached.time, |at| at.time);
            let length = end.since(raised.first.time);
            let then = match raised.gone {
                Some(_) => format!("cleared after {}", Duration(length)),
                None if reached.is_live => "still set".to_owned(),
                None => "still set when the capture ends".to_owned(),
            };
            let replies = Counted(raised.replies, "reply");
            let text = format!("server raised {} in {replies}, {then}", names.join(", "));
            events.push(SessionEvent {
                connection: raised.connection,
                by_requester: Some(false),
                duration: Some(length),
                count: raised.replies,
                frames: [Some(raised.first.frame), Some(raised.last.frame)],
                ..event(raised.first.time, Kind::StatusFlags, text)
            });
        }
    }
}

/// Whether a transaction may begin or end a lifetime, or raise a flag. Most transactions only use
/// existing state, which causes no event.
fn changes(transaction: &Transaction) -> bool {
    if !transaction.procedure.is_some_and(Procedure::is_compound) {
        return transaction.procedure.is_none();
    }
    let details = &transaction.details;
    let is_plain = transaction.direction == Direction::Forward
        && transaction.status == Some(0)
        && transaction.stop.is_none()
        && transaction.messages().all(|message| message.unread.is_none())
        && details.session.sequenced.is_none_or(|results| results.flags == 0);
    if !is_plain {
        return true;
    }
    let only_names =
        |fact: &StateFact| matches!(fact.kind, FactKind::ArgumentStateId(_)) && !ends(details, fact);
    !details.states.iter().all(only_names)
}

/// Whether the operation that names a stateid ends its lifetime.
fn ends(details: &Details, fact: &StateFact) -> bool {
    let operation = details.operations.get(usize::from(fact.operation));
    let kind = operation.map(|operation| operation.kind);
    use Nfs4::{Delegreturn, FreeStateid, OffloadCancel, OffloadStatus, TestStateid};
    let ending = [Delegreturn, FreeStateid, OffloadCancel, OffloadStatus, TestStateid];
    ending.iter().any(|ending| kind == Some(OperationKind::Nfs4(*ending)))
}

/// State that was recalled and not returned, or copies whose end was not reported, on one
/// connection.
#[derive(Clone, Copy, Debug)]
struct Owed {
    from: Time,
    until: Time,
    is_open: bool,
    counts: [u64; StateKind::ALL.len()],
    frames: [u64; 2],
}

#[cfg(test)]
mod tests {
    use crate::events::{Events, Kind, SessionEvent};
    use crate::observer::Observer as _;
    use crate::state::tests::{
        CREATE, CREATED, Capture, EXCHANGE, EXCHANGED, OPEN, OPENED, SEQUENCE, SEQUENCED,
    };
    use rdmascope_dissector::event::Event;
    use rdmascope_dissector::record::Time;
    use rdmascope_tests::values;

    /// The time `number` seconds after the start.
    fn second(number: i64) -> Time {
        values::after(number * 1_000_000)
    }

    fn gathered(capture: &Capture) -> Events {
        let mut events = Events::default();
        capture.transactions.iter().for_each(|transaction| events.handle(&Event::Transaction(transaction)));
        events
    }

    /// The events of a capture that ends 100 seconds after its start.
    fn events(capture: &Capture) -> Vec<SessionEvent> {
        gathered(capture).list(Some(second(100)))
    }

    fn mounted() -> Capture {
        let mut capture = Capture::new(2);
        capture.mounted();
        capture
    }

    /// Transactions are 100 ms apart, and each takes 1 ms.
    #[test]
    fn status_flags_last_until_they_are_cleared() {
        // BACKCHANNEL_FAULT; then CB_PATH_DOWN as well.
        let flagged = |flags: u32| SEQUENCED.replace("15 15 0", &format!("15 15 {flags}"));
        let mut capture = mounted();
        capture.call(SEQUENCE, &flagged(1024)).call(SEQUENCE, &flagged(1025)).call(SEQUENCE, &flagged(1));
        let found = events(&capture);
        let reported: Vec<_> =
            found.iter().map(|event| (event.kind, event.count, event.text.as_str())).collect();
        assert_eq!(
            reported,
            [
                (Kind::StatusFlags, 2, "server raised BACKCHANNEL_FAULT in 2 replies, cleared after 200ms"),
                (
                    Kind::StatusFlags,
                    2,
                    "server raised CB_PATH_DOWN in 2 replies, still set when the capture ends"
                ),
            ]
        );
        assert_eq!((found[0].frames, found[0].duration), ([Some(32), Some(42)], Some(200_000_000)));
        assert_eq!(found[0].by_requester, Some(false));
        // DESTROY_SESSION clears the flags of its session.
        capture.call("44 9 9 9 9", "44 0");
        assert_eq!(events(&capture)[1].text, "server raised CB_PATH_DOWN in 2 replies, cleared after 200ms");
    }

    #[test]
    fn state_lost_at_once_is_one_event() {
        let left = "1 session, 1 open, 1 delegation (\"name\"): ";
        let abandoned = format!("{left}not returned before the client gave up its client ID");
        let taken = "taken over: another address asked for a client ID with the same client owner";
        // The server restarted, or the client, or another host has the same client owner.
        for (client, verifier, count, text) in [
            (0, "h1", 4, format!("1 client ID, {left}no longer known to the server")),
            (0, "h2", 3, format!("{left}not returned before the client restarted")),
            (9, "h2", 3, format!("{left}{taken}")),
        ] {
            let mut capture = mounted();
            capture.on(OPEN, OPENED);
            assert_eq!(events(&capture), []);
            (capture.connection, capture.client) = (2, client);
            capture.call(&EXCHANGE.replace("h1", verifier), &EXCHANGED.replace("h7", "h8"));
            capture.call(&CREATE.replace("h7", "h8"), &CREATED.replace("9 9 9 9", "8 8 8 8"));
            let found = events(&capture);
            let [lost] = &found[..] else { panic!("{found:?}") };
            assert_eq!((lost.kind, lost.count, lost.frames[0]), (Kind::StateLost, count, Some(52)));
            assert_eq!((lost.text.as_str(), lost.does_harm), (text.as_str(), true));
        }
        let mut capture = mounted();
        capture.on(OPEN, OPENED).call("57 h7", "57 0");
        assert_eq!(events(&capture)[0].text, abandoned);
    }

    /// A client that reclaims its open, or its delegation, keeps it. Locks under a delegation need no
    /// LOCK.
    #[test]
    fn reclaimed_state_does_no_harm() {
        let lost = |claims: &[(&str, &str)]| {
            let mut capture = mounted();
            capture.on("22 'file';18 1 1 0 h7 'owner' 0 4", "22 0;18 0 1 0 0 5 0 h0 h0 4 0 0");
            capture.on("22 'file';12 2 0 h0 h9 1 1 1 0 0 5 1 h7 'owner'", "22 0;12 0 1 0 0 6");
            capture.connection = 2;
            capture.call(EXCHANGE, &EXCHANGED.replace("h7", "h8"));
            capture.call(&CREATE.replace("h7", "h8"), &CREATED.replace("9 9 9 9", "8 8 8 8"));
            for (call, reply) in claims {
                let call = format!("{SEQUENCE};22 'file';{call}").replace("9 9 9 9", "8 8 8 8");
                let reply = format!("{SEQUENCED};22 0;{reply}").replace("9 9 9 9", "8 8 8 8");
                capture.call(&call, &reply);
            }
            let found = events(&capture);
            let [lost] = &found[..] else { panic!("{found:?}") };
            (lost.text.clone(), lost.does_harm)
        };
        let unknown = "no longer known to the server";
        let open = ("18 1 1 0 h8 'owner' 0 1 0", "18 0 1 0 0 7 0 h0 h0 4 0 0");
        let delegated =
            ("18 1 1 0 h8 'owner' 0 1 2", "18 0 1 0 0 7 0 h0 h0 4 0 2 1 0 0 9 0 1 h0 0 0 0 'who'");
        let lock = ("12 2 1 h0 h9 1 1 1 0 0 7 1 h8 'owner'", "12 0 1 0 0 8");
        let anew = ("12 2 0 h0 h9 1 1 1 0 0 7 1 h8 'owner'", "12 0 1 0 0 8");
        assert_eq!(lost(&[]), (format!("1 client ID, 1 session, 1 open, 1 lock: {unknown}"), true));
        let rest = format!("1 client ID, 1 session: {unknown}; 1 open, 1 lock reclaimed");
        assert_eq!(lost(&[open, lock]), (rest.clone(), false));
        assert_eq!(lost(&[delegated]), (rest, false));
        let rest = format!("1 client ID, 1 session, 1 lock: {unknown}; 1 open reclaimed");
        assert_eq!(lost(&[open]), (rest.clone(), true));
        assert_eq!(lost(&[open, anew]), (rest, true));
    }

    #[test]
    fn recalled_state_is_reported_if_not_returned() {
        let mut capture = mounted();
        capture.on(OPEN, OPENED).back("4 1 0 0 6 0 'file'", "4 0");
        let found = events(&capture);
        let [owed] = &found[..] else { panic!("{found:?}") };
        assert_eq!(
            (owed.kind, owed.by_requester, owed.frames[0]),
            (Kind::RecallUnanswered, Some(true), Some(40))
        );
        assert_eq!(owed.text, "recalled and not returned: 1 delegation, 99.6s, until the capture ends");
        // It may still be returned if the capture goes on or ends shortly after.
        assert_eq!(gathered(&capture).list_now(&crate::events::Open::default(), second(100)), []);
        assert_eq!(gathered(&capture).list(Some(second(1))), []);
        let mut revoked = mounted();
        revoked.on(OPEN, OPENED).back("4 1 0 0 6 0 'file'", "4 0").on("25 1 0 0 6 h0 5", "25 10087");
        let kinds: Vec<_> = events(&revoked).iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [Kind::RecallUnanswered, Kind::StateLost]);
        capture.on("22 'file';8 1 0 0 6", "22 0;8 0");
        assert_eq!(events(&capture), []);
    }

    #[test]
    fn a_copy_without_cb_offload_is_reported() {
        let mut capture = mounted();
        capture.on(OPEN, OPENED).on("60 1 0 0 5 1 0 0 5 h0 h4 h9 0 0 0", "60 0 1 7 0 0 7 h0 0 h0 1 0");
        let found = events(&capture);
        let [copy] = &found[..] else { panic!("{found:?}") };
        assert_eq!((copy.kind, copy.by_requester), (Kind::CopyUnreported, Some(false)));
        assert_eq!(copy.text, "no CB_OFFLOAD for 1 asynchronous copy, 99.6s, until the capture ends");
        capture.back("15 'file' 1 0 0 7 0 0 h9 2 h0", "15 0");
        assert_eq!(events(&capture), []);
    }
}
