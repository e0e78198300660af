//! Sequence numbers of RPCSEC_GSS (RFC 2203, section 5.3.3.1).
//!
//! A context may be used on several connections, and outlives each of them. The latest numbers are
//! therefore kept across connections.

use super::bounded;
use super::check::{Check, Checked, Findings, View};
use super::finding::{Finding, Value};
use super::known::{Known, Memory};
use super::reconnection::Place;
use super::rule::{Document, Level, Source, Unseen};
use alloc::collections::VecDeque;
use alloc::format;
use alloc::vec;
use alloc::vec::Vec;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::transaction::{GssCall, Transaction};
use rdmascope_wire::Xid;

const SEQUENCE: Source = Source { document: Document::Rfc2203, section: "5.3.3.1" };

pub(crate) const RULES: &[Checked<GssUse>] = &[
    Checked {
        id: "gss-sequence-repeated",
        level: Level::Violation,
        sources: &[SEQUENCE],
        sentence: "No two calls of an RPCSEC_GSS context have the same sequence number.",
        explanation: "A server drops the second call without an answer. This includes a \
            retransmitted call, also on another connection. The last numbers of each context are \
            kept, across all connections between the same two hosts, until the context is \
            established anew. That may have happened over another connection: on different \
            connections, the finding is certain if the XID is the same, and inconclusive \
            otherwise. rpc-call-repeated and rpc-nfs4-call-repeated cover a call that is \
            retransmitted on its own connection.",
        check: Check::Transaction(repeated),
    },
    Checked {
        id: "gss-sequence-window",
        level: Level::Warning,
        sources: &[SEQUENCE, Source { document: Document::Rfc2203, section: "5.2.3.1" }],
        sentence: "The sequence number of a call is within the server's window below the highest number of its context.",
        explanation: "A server drops a call below its window without an answer. The window is \
            that of the reply that established the context; nothing is reported if the capture \
            lacks that reply. The highest number is that of the calls sent before on the same \
            connection.",
        check: Check::Transaction(window),
    },
];

pub(crate) const UNSEEN: &[Unseen] = &[Unseen {
    source: SEQUENCE,
    requirement: "A client destroys a context before its sequence number reaches 0x80000000.",
    reason: "A client's own count is not on the wire. A server refuses such a call with \
        RPCSEC_GSS_CTXPROBLEM.",
}];

/// The most recently used contexts, of all connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contexts {
    /// Oldest first.
    contexts: VecDeque<Context>,
}

/// A context.
#[derive(Clone, Debug)]
struct Context {
    id: u64,
    place: Place,
    window: Option<u32>,
    /// The highest number on the connection that used it last, with the frame of the call.
    highest: Option<(ConnectionId, u32, u64)>,
    /// The latest numbers, each at its remainder.
    numbers: Vec<Option<Number>>,
}

#[derive(Clone, Copy, Debug)]
struct Number {
    number: u32,
    connection: ConnectionId,
    xid: Xid,
    frame: u64,
}

/// A number that was used before.
#[derive(Clone, Copy, Debug)]
struct Repeated {
    number: u32,
    /// The frame of the call that used it before.
    frame: u64,
    /// It cannot be another context with the same handle.
    same_context: bool,
}

/// The faults of the call that ends.
#[derive(Clone, Debug, Default)]
pub(crate) struct GssUse {
    repeated: Option<Repeated>,
    /// The number, the lowest of the window, and the frame of the highest.
    below: Option<(u32, u32, u64)>,
}

impl Contexts {
    /// Contexts that are kept.
    const MOST: usize = 32;
    /// Numbers that are kept of each.
    const MOST_NUMBERS: usize = 256;

    /// Heap bytes that its lists take up.
    pub(crate) fn footprint(&self) -> usize {
        let numbers: usize = self.contexts.iter().map(|context| size_of_val(&context.numbers[..])).sum();
        self.contexts.len() * size_of::<Context>() + numbers
    }

    /// Records a finished transaction, and returns the faults of its call's sequence number.
    pub(crate) fn note(&mut self, gss: GssCall, transaction: &Transaction, known: &Known) -> GssUse {
        let place = known.place(transaction.direction);
        if gss.sequence.is_none() && gss.window.is_none() {
            return GssUse::default();
        }
        let used = self.contexts.iter().rposition(|used| (used.id, used.place) == (gss.context, place));
        let at = used.unwrap_or_else(|| {
            let numbers = vec![None; Contexts::MOST_NUMBERS];
            let context = Context { id: gss.context, place, window: None, highest: None, numbers };
            bounded::push(&mut self.contexts, Contexts::MOST, context);
            self.contexts.len() - 1
        });
        let context = &mut self.contexts[at];
        if gss.window.is_some() {
            // The context was established, so its numbers restart: a server that restarted may
            // reuse a handle.
            (context.window, context.highest) = (gss.window, None);
            context.numbers.fill(None);
        }
        match (gss.sequence, &transaction.call) {
            (Some(number), Some(call)) => context.note(number, transaction.xid, call.first.frame, known),
            _ => GssUse::default(),
        }
    }
}

impl Context {
    fn note(&mut self, number: u32, xid: Xid, frame: u64, known: &Known) -> GssUse {
        let connection = known.connection;
        let noted = &mut self.numbers[number as usize % Contexts::MOST_NUMBERS];
        let before = noted.replace(Number { number, connection, xid, frame });
        let again = before
            .filter(|before| before.number == number && (before.connection, before.xid) != (connection, xid));
        let highest = self.highest.filter(|(on, _, _)| *on == connection);
        let below = match (self.window, highest) {
            (Some(window), Some((_, highest, seen)))
                if seen < frame && number.saturating_add(window) <= highest =>
            {
                Some((number, highest - window + 1, seen))
            }
            _ => None,
        };
        if highest.is_none_or(|(_, highest, _)| highest < number) {
            self.highest = Some((connection, number, frame));
        }
        let repeated = again.map(|before| Repeated {
            number,
            frame: before.frame,
            same_context: before.connection == connection || before.xid == xid,
        });
        GssUse { repeated, below }
    }
}

impl Memory for GssUse {
    fn transaction(&mut self, _: &Transaction, _: &Known) {
        *self = GssUse::default();
    }

    fn joined(&mut self) {
        *self = GssUse::default();
    }
}

/// True if a sequence number is faulty.
pub(crate) fn may_break(transaction: &Transaction, gss: &GssUse) -> bool {
    transaction.gss.is_some() && (gss.repeated.is_some() || gss.below.is_some())
}

fn about(
    transaction: &Transaction,
    view: &View<'_, GssUse>,
    message: alloc::string::String,
    frame: u64,
) -> Finding {
    let call = transaction.call.as_ref().map(|call| call.first.frame);
    Finding::new(message)
        .by(view.caller(transaction.direction))
        .of(transaction)
        .frames(call.into_iter().chain([frame]))
}

fn repeated(transaction: &Transaction, view: &View<'_, GssUse>, findings: &mut Findings<'_>) {
    let Some(Repeated { number, frame, same_context }) = view.memory.repeated else { return };
    let message = format!("RPCSEC_GSS sequence number {number} is used a second time");
    let finding = about(transaction, view, message, frame).observed(Value::Count(number.into()));
    findings.add(finding.unless(!same_context));
}

fn window(transaction: &Transaction, view: &View<'_, GssUse>, findings: &mut Findings<'_>) {
    let Some((number, lowest, frame)) = view.memory.below else { return };
    let message = format!(
        "RPCSEC_GSS sequence number {number} is below the window, which begins at \
            {lowest}"
    );
    let values = (Value::Count(number.into()), Value::Words(format!("{lowest} or more")));
    findings.add(about(transaction, view, message, frame).values(values.0, values.1));
}
