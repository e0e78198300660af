//! Scenarios for a live peer, and the shown session: their list and their results. The caller of
//! the UI provides the code that sends them.

use rdmascope_analysis::units::{Counted, Number};

/// Everything needed to send scenarios to a target.
pub struct Bench {
    /// The target.
    pub target: String,
    /// Further options of commands that send the same, each after a space.
    pub arguments: String,
    /// Further options of the command that sends the session.
    pub session_arguments: String,
    /// The scenarios.
    pub entries: Vec<Entry>,
    /// The faults that can be put into a call of the session.
    pub faults: Vec<Fault>,
    /// Opens sockets, on the thread on which scenarios will run.
    pub open: Box<dyn FnOnce() -> Result<Runner, String> + Send>,
}

/// Runs an order, even if its scenario is destructive.
pub type Runner = Box<dyn FnMut(&Order, &mut dyn Watch) -> Result<Ran, String>>;

/// Observes a running order.
pub trait Watch {
    /// Receives an intermediate result.
    fn update(&mut self, update: Update);

    /// Whether the order has to stop.
    fn is_stopped(&self) -> bool;
}

/// An order to run a scenario or the session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// The index of the entry.
    pub index: usize,
    /// The plan for sending, if the entry is the session.
    pub plan: Plan,
    /// A running number of orders, from 1.
    pub number: u64,
}

/// The way in which a session is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The transaction of the first call to send; `None` for all of them.
    pub starting_at: Option<u64>,
    /// The fault to insert, as the name of a [`Fault`], and the transaction of its call.
    pub fault: Option<(&'static str, u64)>,
}

/// A fault that can be put into a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its name.
    pub name: &'static str,
    /// A description of the fault.
    pub help: &'static str,
}

/// A scenario, or the session, that can be sent.
#[derive(Clone, Debug, Default)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// A one-line description.
    pub title: String,
    /// The section of the specification that it tests.
    pub section: String,
    /// The full description, as text.
    pub explanation: String,
    /// It may crash or exhaust the target, or create a file on it.
    pub is_destructive: bool,
    /// It is the shown session, sent again.
    pub is_session: bool,
}

/// An intermediate result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// The number of calls that the session has.
    Calls(u64),
    /// All packets exchanged so far.
    Arrows(Vec<Arrow>),
    /// The result of the next call of the session.
    Call(SentCall),
}

/// The result of an order.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// The verdict.
    pub verdict: String,
    /// The target broke the requirement.
    pub is_violation: bool,
    /// A text with the message sent, the answer received and the answers allowed.
    pub text: String,
    /// The packets exchanged.
    pub arrows: Vec<Arrow>,
}

/// A packet between this side and the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// Nanoseconds since the first packet.
    pub since: u64,
    /// This side sent it.
    pub out: bool,
    /// A description of the packet.
    pub text: String,
}

/// A call of the session that was sent again, or one of its connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentCall {
    /// The transaction in the capture; `None` for a connection, or a call that is not in the
    /// capture.
    pub transaction: Option<u64>,
    /// The name of the call.
    pub name: String,
    /// Whether the replies agree, in a word.
    pub verdict: &'static str,
    /// The replies differ.
    pub is_difference: bool,
    /// From the call to the reply, in nanoseconds.
    pub latency: Option<u64>,
    /// The differences.
    pub differences: Vec<Difference>,
    /// Further notes.
    pub notes: Vec<String>,
}

/// A difference between the recorded reply and the live one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// The field that differs.
    pub field: String,
    /// The value in the capture.
    pub recorded: String,
    /// The live value.
    pub live: String,
    /// The value may differ.
    pub is_allowed: bool,
}

/// A line in the results of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentLine {
    /// A call.
    Call(SentCall),
    /// A difference in its reply.
    Difference(Difference),
    /// A note on it.
    Note(String),
}

/// The scenarios on the screen.
#[derive(Debug, Default)]
pub struct Inject {
    /// The target; empty if there is none.
    pub target: String,
    /// Further options of commands that send the same, each after a space.
    pub arguments: String,
    /// Further options of the command that sends the session.
    pub session_arguments: String,
    /// The scenarios.
    pub entries: Vec<Entry>,
    /// The faults that can be put into a call of the session.
    pub faults: Vec<Fault>,
    /// The result of each scenario.
    pub ran: Vec<Option<Result<Ran, String>>>,
    /// The running order.
    pub running: Option<Order>,
    /// The scenarios that wait for it.
    pub queue: Vec<usize>,
    /// The destructive scenario that runs if Enter is pressed once more.
    pub confirm: Option<usize>,
    /// The plan for the next sending of the session.
    pub plan: Plan,
    /// The plan of its last sending.
    pub sent_as: Plan,
    /// The results of that sending.
    pub sent: Vec<SentLine>,
    /// The number of calls of that sending, once it is known.
    pub calls: Option<u64>,
    /// The difference that is lit: an index into the results.
    pub lit: Option<usize>,
    /// The packets of the running order.
    pub crossed: Vec<Arrow>,
    /// The running order was asked to stop.
    pub is_stopping: bool,
    ordered: u64,
}

impl Inject {
    /// Creates the list of scenarios for a target.
    pub fn new(target: String, entries: Vec<Entry>, faults: Vec<Fault>) -> Inject {
        let ran = entries.iter().map(|_| None).collect();
        Inject { target, entries, faults, ran, ..Inject::default() }
    }

    /// Starts the next scenario of the queue if none is running.
    pub(crate) fn begin_next(&mut self) -> Option<Order> {
        if self.running.is_some() || self.queue.is_empty() {
            return None;
        }
        let index = self.queue.remove(0);
        self.ordered += 1;
        self.crossed.clear();
        self.is_stopping = false;
        if self.entries[index].is_session {
            self.sent.clear();
            (self.calls, self.lit) = (None, None);
            self.sent_as = self.plan.clone();
        }
        self.ran[index] = None;
        self.running = Some(Order { index, plan: self.plan.clone(), number: self.ordered });
        self.running.clone()
    }

    /// Whether this scenario is running.
    pub fn is_running(&self, index: usize) -> bool {
        self.running.as_ref().is_some_and(|order| order.index == index)
    }

    /// Takes an intermediate result of the running order.
    pub fn take(&mut self, update: Update) {
        match update {
            Update::Calls(calls) => self.calls = Some(calls),
            Update::Arrows(arrows) => self.crossed = arrows,
            Update::Call(mut call) => {
                let differences = core::mem::take(&mut call.differences);
                let notes = core::mem::take(&mut call.notes);
                self.sent.push(SentLine::Call(call));
                self.sent.extend(differences.into_iter().map(SentLine::Difference));
                self.sent.extend(notes.into_iter().map(SentLine::Note));
            }
        }
    }

    /// The indices of the calls whose replies differ, in the results of the session.
    pub fn differing(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        let differs = |line: &SentLine| matches!(line, SentLine::Call(call) if call.is_difference);
        self.sent.iter().enumerate().filter(move |(_, line)| differs(line)).map(|(index, _)| index)
    }

    /// The calls of the session whose results have arrived, without its connections.
    fn arrived(&self) -> u64 {
        let is_call = |line: &&SentLine| matches!(line, SentLine::Call(call) if call.transaction.is_some());
        self.sent.iter().filter(is_call).count() as u64
    }

    /// The progress of the session: how many calls it has made, and of how many.
    pub fn progress(&self) -> String {
        match self.calls {
            Some(calls) => format!("{} of {} sent", Number(self.arrived()), Counted(calls, "call")),
            None => format!("{} sent", Counted(self.arrived(), "call")),
        }
    }

    /// The result of the session: how many replies differ, and which.
    pub fn outcome(&self) -> String {
        /// The most calls that are named.
        const NAMED: usize = 5;
        let name = |index: usize| match &self.sent[index] {
            SentLine::Call(SentCall { transaction: Some(number), .. }) => number.to_string(),
            SentLine::Call(call) => call.name.clone(),
            _ => String::new(),
        };
        let names: Vec<String> = self.differing().take(NAMED).map(name).collect();
        let differing = self.differing().count();
        let (of, more) = (Number(self.arrived()), if differing > NAMED { ", ..." } else { "" });
        match differing {
            0 => format!("none of {} differs", Counted(self.arrived(), "call")),
            1 => format!("1 of {of} differs: call {}", names.join("")),
            _ => format!("{} of {of} differ: calls {}{more}", Number(differing as u64), names.join(", ")),
        }
    }

    /// Selects the first fault for the call of this transaction. If one is selected already,
    /// selects the next one, and after the last one none.
    pub(crate) fn next_fault(&mut self, transaction: u64) {
        let place = match self.plan.fault {
            Some((name, of)) if of == transaction => {
                self.faults.iter().position(|fault| fault.name == name).map_or(0, |place| place + 1)
            }
            _ => 0,
        };
        self.plan.fault = self.faults.get(place).map(|fault| (fault.name, transaction));
    }

    /// A description of a plan.
    pub fn words(&self, plan: &Plan) -> String {
        let mut words = match plan.starting_at {
            Some(number) => format!("from transaction {number} on"),
            None => "all calls".to_owned(),
        };
        if let Some((name, number)) = plan.fault {
            let help = self.faults.iter().find(|fault| fault.name == name).map_or(name, |fault| fault.help);
            words += &format!("; in transaction {number} {help}");
        }
        words
    }

    /// The number of scenarios that ran and of those that found a violation, as text.
    pub fn counts(&self) -> String {
        let done = self.ran.iter().flatten().count();
        let is_violation = |one: &&Result<Ran, String>| one.as_ref().is_ok_and(|ran| ran.is_violation);
        let violations = self.ran.iter().flatten().filter(is_violation).count();
        let mut words =
            format!("{done} of {} run, {}", self.entries.len(), Counted(violations as u64, "violation"));
        if !self.queue.is_empty() {
            words += &format!(", {} waiting", self.queue.len());
        }
        words
    }
}
