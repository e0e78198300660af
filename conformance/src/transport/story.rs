//! What led to the end of a connection, in order.

use super::trouble::{Again, is_fatal};
use crate::finding::Finding;
use crate::rpc;
use crate::rule::Findings;
use crate::view::View;
use alloc::borrow::ToOwned;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use core::fmt::Write;
use rdmascope_dissector::connection::{Connection, State};
use rdmascope_dissector::observation::{Managed, Observed};
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::rdma::Position;
use rdmascope_dissector::rdma::Refusal;
use rdmascope_dissector::transaction::{Outcome, Seen, Transaction};
use rdmascope_wire::bth::NakCode;
use rdmascope_wire::cm::{Message, reject_reason_name};

/// What happened to a connection beside what it is there for.
#[derive(Clone, Debug, Default)]
pub struct Story {
    /// The last of it, in the order of the capture.
    chapters: VecDeque<Chapter>,
    /// Something was refused for good.
    is_fatal: bool,
    /// The connection is over: transactions that end now were under way.
    is_over: bool,
    /// Calls under way, whose replies the capture does not lack, as far as is known.
    outstanding: u64,
    /// The same whose replies it may lack.
    uncertain: u64,
    /// Replies whose calls the capture does not show: one of them may answer a call that seems to be under way.
    orphans: u64,
    /// The first of the calls under way.
    first_call: Option<u64>,
}

/// The same thing, once or several times in a row.
#[derive(Clone, Copy, Debug)]
struct Chapter {
    what: What,
    /// The end that did it.
    from: End,
    times: u32,
    first: Seen,
    last: Seen,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    Message(&'static str),
    Rejected(u16),
    Repeated(Position),
    NotReady(Position),
    OutOfSequence(Position),
    /// The frame of the request, where it is known.
    Fatal(NakCode, Option<u64>),
}

impl Story {
    /// Chapters that are remembered: the last ones count.
    const MOST: usize = 12;

    fn note(&mut self, what: What, from: End, seen: Seen) {
        if let Some(last) = self.chapters.back_mut().filter(|last| last.from == from && last.what == what) {
            last.times += 1;
            last.last = seen;
            return;
        }
        if self.chapters.len() == Story::MOST {
            self.chapters.pop_front();
        }
        self.chapters.push_back(Chapter { what, from, times: 1, first: seen, last: seen });
    }

    /// What led to the end, from the connect on without it, in words.
    pub(crate) fn tell(&self, requester: End) -> String {
        let mut words = String::new();
        for chapter in &self.chapters {
            let separator = if words.is_empty() { "" } else { ", " };
            // A String takes all that is written to it.
            let _ = write!(words, "{separator}{}", chapter.words(requester));
        }
        words
    }

    pub(crate) fn frames(&self) -> impl Iterator<Item = u64> {
        // Sixteen frames are few: the last ones tell most.
        let later = self.chapters.iter().rev().take(Finding::MOST_FRAMES / 2 - 1);
        later.flat_map(|chapter| [chapter.first.frame, chapter.last.frame])
    }
}

impl Chapter {
    fn words(&self, requester: End) -> String {
        let name = |end: End| if end == requester { "the Requester" } else { "the Responder" };
        let what = match self.what {
            What::Message(message) => format!("{message} by {}", name(self.from)),
            What::Rejected(reason) => {
                let reason = reject_reason_name(reason).map_or(format!("reason {reason}"), str::to_owned);
                format!("ConnectReject by {}: {reason}", name(self.from))
            }
            What::Repeated(psn) => format!("PSN {psn} sent again by {}", name(self.from)),
            What::NotReady(psn) => format!("{} has no Receive for PSN {psn}", name(self.from)),
            What::OutOfSequence(psn) => format!("{} waits for PSN {psn}", name(self.from)),
            What::Fatal(code, Some(request)) => {
                format!("{} refuses the request of frame {request}: {code}", name(self.from))
            }
            What::Fatal(code, None) => format!("{} refuses a request: {code}", name(self.from)),
        };
        match self.times {
            1 => format!("{what} (frame {})", self.first.frame),
            times => format!("{what} {times} times (frames {} to {})", self.first.frame, self.last.frame),
        }
    }
}

impl View {
    pub(crate) fn note_story(&mut self, observed: &Observed<'_>) {
        let story = &mut self.story;
        match observed {
            Observed::Managed(Managed { from, seen, message }) => {
                let what = match message {
                    Message::Reject(reject) => What::Rejected(reject.reason),
                    message => What::Message(message.name()),
                };
                story.note(what, *from, *seen);
            }
            Observed::Refused(refused) => {
                let what = match (refused.refusal, is_fatal(refused.refusal)) {
                    (_, Some(code)) => {
                        story.is_fatal = true;
                        What::Fatal(code, refused.request.map(|request| request.frame))
                    }
                    (Refusal::ReceiverNotReady(_), None) => What::NotReady(refused.position),
                    (Refusal::Nak(_), None) => What::OutOfSequence(refused.position),
                };
                story.note(what, refused.from, refused.seen);
            }
            // What follows the packet that the sender went back to is no news.
            Observed::Repeated(repeated)
                if self.trouble[repeated.from].again.is_some_and(|again| again.psn == repeated.position) =>
            {
                story.note(What::Repeated(repeated.position), repeated.from, repeated.seen);
            }
            Observed::Ending(_) => story.is_over = true,
            _ => {}
        }
    }

    /// Notes a call that had no reply when the connection ended, and a reply that had no call.
    pub(crate) fn note_outstanding(&mut self, transaction: &Transaction) {
        if transaction.outcome == Outcome::NoCall {
            self.story.orphans += 1;
        }
        if !self.story.is_over || transaction.outcome != Outcome::NoReply || transaction.reply.is_some() {
            return;
        }
        let is_certain =
            transaction.call.as_ref().is_some_and(|call| !rpc::lacks_answer(transaction, call, self));
        let story = &mut self.story;
        if is_certain {
            story.outstanding += 1;
        } else {
            story.uncertain += 1;
        }
        if story.first_call.is_none() {
            story.first_call = transaction.call.as_ref().map(|call| call.seen.frame);
        }
    }
}

/// Tells how a connection came to a bad end.
pub(super) fn broken(connection: &Connection, view: &View, findings: &mut Findings<'_>) {
    let story = &view.story;
    let calls = story.outstanding + story.uncertain;
    let in_vain = End::BOTH.into_iter().find_map(|from| Some((from, view.in_vain(from)?)));
    let unready = End::BOTH
        .into_iter()
        .find(|end| view.trouble[*end].unready.is_some_and(|psn| !view.is_acknowledged(end.other(), psn)));
    let outstanding = story.outstanding > 0 && story.orphans == 0;
    let is_certain = story.is_fatal
        || in_vain.is_some_and(|(_, again)| again.times >= Again::CERTAIN)
        || unready.is_some()
        || outstanding;
    // Where only the reply to a call may be missing from the capture, nothing broke.
    if !is_certain && in_vain.is_none() {
        return;
    }
    let mut words = match connection.state {
        State::Closed => "the connection ended".to_owned(),
        _ => "the connection came to a standstill".to_owned(),
    };
    if calls > 0 {
        let _ = write!(words, " with {calls} {} under way", if calls == 1 { "call" } else { "calls" });
    }
    let _ = write!(words, ": {}", story.tell(view.requester));
    findings.add(Finding::new(words).frames(story.first_call).frames(story.frames()).unless(!is_certain));
}
