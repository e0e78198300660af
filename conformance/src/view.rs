//! What is remembered of a connection, for rules to look at.

use super::chunks::binding;
use super::{advice, credits, establishment, invalidation, memory, reverse, rpc, transport, unmatched};
use alloc::boxed::Box;
use rdmascope_dissector::connection::{Connection, ConnectionId, Origin};
use rdmascope_dissector::observation::{Ending, HalfFlow, Missing, Observation, Observed, Sent};
use rdmascope_dissector::rdma::End;
use rdmascope_dissector::transaction::{Direction, Transaction};

/// What is known of a connection when something happens on it. Ends are named by their index.
#[derive(Clone, Debug)]
pub struct View {
    /// Its number.
    pub connection: ConnectionId,
    /// The end that opened it, or that stands as the one that did.
    pub requester: End,
    /// Whether that is known.
    pub roles_known: bool,
    /// How far the capture shows what each end sends.
    pub half_flows: [HalfFlow; 2],
    /// The connection as the last CM message left it; `None` where no CM message was captured.
    pub established: Option<Box<Connection>>,
    /// Packets that each end sent and the capture lacks, as far as is known by now.
    pub lost: [u64; 2],
    /// Both half-flows are known.
    pub paired: bool,
    /// The connection was put together from two halves: what each said before is not taken into account.
    pub joined: bool,
    /// Credits of the requests that each end sends.
    pub credits: [credits::Ledger; 2],
    /// What the ends said in the CM exchange.
    pub exchange: establishment::Exchange,
    /// What went wrong on the way from and to each end.
    pub trouble: [transport::Trouble; 2],
    /// What happened beside ordinary traffic, in order.
    pub story: transport::Story,
    /// Messages that answer nothing, and what has to be remembered to tell.
    pub unmatched: unmatched::Ledger,
    /// Calls that were left without a reply.
    pub rpc: rpc::Ledger,
    /// What is known at the end, once it has come.
    pub ending: Option<Ending>,
    /// What the Upper-Layer Binding asks to be remembered.
    pub binding: binding::Ledger,
    /// Memory that was advertised, and what touches it.
    pub memory: memory::Record,
    /// Remote invalidation.
    pub invalidation: invalidation::Record,
    /// Callbacks, and what allows them.
    pub reverse: reverse::Ledger,
    /// What costs performance.
    pub advice: advice::Ledger,
}

impl View {
    pub(crate) fn new(connection: ConnectionId) -> View {
        View {
            connection,
            requester: End::First,
            roles_known: false,
            half_flows: Default::default(),
            established: None,
            lost: [0; 2],
            paired: false,
            joined: false,
            credits: Default::default(),
            exchange: Default::default(),
            trouble: Default::default(),
            story: Default::default(),
            unmatched: Default::default(),
            rpc: Default::default(),
            ending: None,
            binding: Default::default(),
            memory: Default::default(),
            invalidation: Default::default(),
            reverse: reverse::Ledger::default(),
            advice: advice::Ledger::default(),
        }
    }

    /// Whether the capture holds the connection from its beginning.
    pub fn from_start(&self) -> bool {
        !self.joined && self.established.as_ref().is_some_and(|connection| connection.origin == Origin::Cm)
    }

    /// Whether the capture holds all that this end sent, as far as is known by now.
    pub fn is_whole(&self, end: End) -> bool {
        self.from_start() && self.losses(end) == 0 && !self.half_flows[end].waits
    }

    /// The direction of the transactions that this end calls.
    pub fn direction(&self, caller: End) -> Direction {
        if caller == self.requester { Direction::Forward } else { Direction::Backward }
    }

    /// The end that calls in this direction.
    pub fn caller(&self, direction: Direction) -> End {
        match direction {
            Direction::Forward => self.requester,
            Direction::Backward => self.requester.other(),
        }
    }

    /// The end that answers in this direction.
    pub fn answerer(&self, direction: Direction) -> End {
        self.caller(direction).other()
    }

    /// Bytes that a Send of this end may have; `None` where the capture does not hold what was negotiated.
    pub fn inline_threshold(&self, from: End) -> Option<u32> {
        let connection = self.established.as_ref()?;
        if from == self.requester {
            connection.call_inline_threshold
        } else {
            connection.reply_inline_threshold
        }
    }

    /// Whether the capture holds all that this end sent up to this frame; at the end of the connection only.
    pub fn is_complete(&self, end: End, frame: u64) -> bool {
        self.losses(end) == 0 && self.ending.is_some_and(|ending| ending.complete[end] >= Some(frame))
    }

    pub(crate) fn note(&mut self, observation: &Observation<'_>) {
        self.requester = observation.requester;
        self.roles_known = observation.roles_known;
        self.half_flows = *observation.half_flows;
    }

    pub(crate) fn note_sent(&mut self, sent: &Sent<'_>) {
        self.paired = sent.paired;
        self.note_credits(sent);
        self.note_unmatched(sent);
        self.rpc.note_sent(sent, self.direction(sent.from));
        self.note_memory_of_send(sent);
        self.note_invalidation(sent);
    }

    pub(crate) fn note_missing(&mut self, missing: &Missing) {
        self.lost[missing.from] += u64::from(missing.packets);
    }

    pub(crate) fn note_transaction(&mut self, transaction: &Transaction) {
        self.binding.note(transaction, self.caller(transaction.direction));
        self.note_memory_of_transaction(transaction);
        self.note_outstanding(transaction);
        self.rpc.note_transaction(transaction);
        self.unmatched.note_transaction(transaction);
        self.note_reverse(transaction);
        self.note_advice(transaction);
    }

    /// Whatever is no Send, after the rules saw it.
    pub(crate) fn note_observed(&mut self, observed: &Observed<'_>) {
        self.note_exchange(observed);
        self.note_trouble(observed);
        self.note_story(observed);
        self.reverse.observe(observed);
        self.advice.observe(observed);
    }

    /// A call was given up although no reply was seen.
    pub(crate) fn note_eviction(&mut self, direction: Direction) {
        let caller = self.caller(direction);
        self.credits[caller].forget_calls();
        self.unmatched.note_eviction(self.caller(direction));
        self.memory.note_eviction();
    }

    /// Two half-flows became this connection: what each said before that is not known to be complete.
    pub(crate) fn note_joined(&mut self) {
        let (trouble, story) = (core::mem::take(&mut self.trouble), core::mem::take(&mut self.story));
        let exchange = core::mem::take(&mut self.exchange);
        let established = self.established.take();
        let connection = View { established, exchange, trouble, story, ..View::new(self.connection) };
        let View { requester, roles_known, half_flows, .. } = *self;
        *self = View { requester, roles_known, half_flows, ..connection };
        (self.paired, self.joined) = (true, true);
    }
}
