//! Scenarios for a live peer, and the session that is shown: what can be sent to it, and what came of it. Whoever runs the screen brings what sends them.

use rdmascope_analysis::units::Counted;

/// What sends scenarios to a target.
pub struct Bench {
    /// The target.
    pub target: String,
    /// The scenarios.
    pub offers: Vec<Offer>,
    /// What can be put wrong in a call of the session.
    pub faults: Vec<Fault>,
    /// Opens sockets, on the thread on which scenarios will run.
    pub open: Box<dyn FnOnce() -> Result<Runner, String> + Send>,
}

/// Runs what is ordered, a destructive scenario too.
pub type Runner = Box<dyn FnMut(&Order, &mut dyn Watch) -> Result<Ran, String>>;

/// Who looks on while something runs.
pub trait Watch {
    /// This came of it by now.
    fn told(&mut self, told: Told);

    /// Whether it is to end.
    fn is_stopped(&self) -> bool;
}

/// What is to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    /// Which of the offers.
    pub index: usize,
    /// If that is the session: how it is sent.
    pub plan: Plan,
    /// Counts what was ordered, from 1.
    pub number: u64,
}

/// How a session is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// From the call of this transaction on; `None`: all of it.
    pub starting_at: Option<u64>,
    /// What is put wrong, by the name of a [`Fault`], and in the call of which transaction.
    pub fault: Option<(&'static str, u64)>,
}

/// What can be put wrong in a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub help: &'static str,
}

/// What can be sent: a scenario, or the session.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    /// Its name.
    pub name: String,
    /// What it does, in a line.
    pub title: String,
    /// The section that it is of.
    pub section: String,
    /// All of it, as text.
    pub explanation: String,
    /// It may crash or exhaust the target, or makes a file on it.
    pub is_destructive: bool,
    /// It is the session that is shown, made again.
    pub is_session: bool,
}

/// What comes of something while it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The packets that crossed by now, all of them.
    Arrows(Vec<Arrow>),
    /// What came of the next call of the session.
    Call(SentCall),
}

/// What came of what was run.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// The verdict.
    pub verdict: String,
    /// The target broke the requirement.
    pub is_violation: bool,
    /// What was sent, what came back, what was allowed, as text.
    pub told: String,
    /// The packets that crossed.
    pub arrows: Vec<Arrow>,
}

/// A packet between this side and the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrow {
    /// Nanoseconds since the first one.
    pub since: u64,
    /// This side sent it.
    pub out: bool,
    /// What it is.
    pub text: String,
}

/// A call of the session that was made again, or a connection of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SentCall {
    /// The transaction in the capture; `None`: a connection, or a call that the capture does not have.
    pub transaction: Option<u64>,
    /// What is called.
    pub name: String,
    /// Whether the replies agree, in a word.
    pub verdict: &'static str,
    /// They do not.
    pub is_difference: bool,
    /// From the call to the reply, in nanoseconds.
    pub latency: Option<u64>,
    /// What differs.
    pub differences: Vec<Difference>,
    /// What else is to be said.
    pub notes: Vec<String>,
}

/// What differs between the recorded reply and the one that came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// In what.
    pub field: String,
    /// In the capture.
    pub recorded: String,
    /// Now.
    pub live: String,
    /// It may differ.
    pub is_allowed: bool,
}

/// A line of what came of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SentLine {
    /// A call.
    Call(SentCall),
    /// Something that differs in it.
    Difference(Difference),
    /// Something else that is to be said of it.
    Note(String),
}

/// The scenarios on the screen.
#[derive(Debug, Default)]
pub struct Inject {
    /// The target; empty where there is none.
    pub target: String,
    /// The scenarios.
    pub offers: Vec<Offer>,
    /// What can be put wrong in a call of the session.
    pub faults: Vec<Fault>,
    /// What came of each.
    pub ran: Vec<Option<Result<Ran, String>>>,
    /// What runs.
    pub running: Option<Order>,
    /// Those that run after it.
    pub queue: Vec<usize>,
    /// The destructive one that runs where Enter is pressed once more.
    pub confirm: Option<usize>,
    /// How the session is sent next.
    pub plan: Plan,
    /// How it was sent last.
    pub sent_as: Plan,
    /// What came of its calls then.
    pub sent: Vec<SentLine>,
    /// The packets of what runs.
    pub crossed: Vec<Arrow>,
    /// What runs was asked to end.
    pub is_stopping: bool,
    ordered: u64,
}

impl Inject {
    /// Scenarios for a target.
    pub fn new(target: String, offers: Vec<Offer>, faults: Vec<Fault>) -> Inject {
        let ran = offers.iter().map(|_| None).collect();
        Inject { target, offers, faults, ran, ..Inject::default() }
    }

    /// Begins what is to run now, if something is and nothing runs.
    pub fn begin_next(&mut self) -> Option<Order> {
        if self.running.is_some() || self.queue.is_empty() {
            return None;
        }
        let index = self.queue.remove(0);
        self.ordered += 1;
        self.crossed.clear();
        self.is_stopping = false;
        if self.offers[index].is_session {
            self.sent.clear();
            self.sent_as = self.plan.clone();
        }
        self.ran[index] = None;
        self.running = Some(Order { index, plan: self.plan.clone(), number: self.ordered });
        self.running.clone()
    }

    /// Whether this one runs.
    pub fn is_running(&self, index: usize) -> bool {
        self.running.as_ref().is_some_and(|order| order.index == index)
    }

    /// Takes what came by now of what runs.
    pub fn take(&mut self, told: Told) {
        match told {
            Told::Arrows(arrows) => self.crossed = arrows,
            Told::Call(mut call) => {
                let differences = core::mem::take(&mut call.differences);
                let notes = core::mem::take(&mut call.notes);
                self.sent.push(SentLine::Call(call));
                self.sent.extend(differences.into_iter().map(SentLine::Difference));
                self.sent.extend(notes.into_iter().map(SentLine::Note));
            }
        }
    }

    /// The first fault goes into the call of this transaction; where there is one already, the next one; behind the last one, none.
    pub fn next_fault(&mut self, transaction: u64) {
        let place = match self.plan.fault {
            Some((name, of)) if of == transaction => {
                self.faults.iter().position(|fault| fault.name == name).map_or(0, |place| place + 1)
            }
            _ => 0,
        };
        self.plan.fault = self.faults.get(place).map(|fault| (fault.name, transaction));
    }

    /// How a session is sent, in words.
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

    /// What was run, and what of it broke a requirement, in words.
    pub fn counts(&self) -> String {
        let done = self.ran.iter().flatten().count();
        let is_violation = |one: &&Result<Ran, String>| one.as_ref().is_ok_and(|ran| ran.is_violation);
        let violations = self.ran.iter().flatten().filter(is_violation).count();
        let mut words =
            format!("{done} of {} run, {}", self.offers.len(), Counted(violations as u64, "violation"));
        if !self.queue.is_empty() {
            words += &format!(", {} to come", self.queue.len());
        }
        words
    }
}
