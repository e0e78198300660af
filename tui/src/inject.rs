//! Scenarios for a live peer: what can be sent to it, and what came of it. Whoever runs the screen brings what sends them.

/// What sends scenarios to a target.
pub struct Bench {
    /// The target.
    pub target: String,
    /// The scenarios.
    pub offers: Vec<Offer>,
    /// Opens sockets, on the thread on which scenarios will run.
    pub open: Box<dyn FnOnce() -> Result<Runner, String> + Send>,
}

/// Runs the scenario of this index, a destructive one too.
pub type Runner = Box<dyn FnMut(usize) -> Result<Ran, String>>;

/// A scenario.
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

/// A scenario that was run.
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

/// The scenarios on the screen.
#[derive(Debug, Default)]
pub struct Inject {
    /// The target; empty where there is none.
    pub target: String,
    /// The scenarios.
    pub offers: Vec<Offer>,
    /// What came of each.
    pub ran: Vec<Option<Result<Ran, String>>>,
    /// The one that runs.
    pub running: Option<usize>,
    /// Those that run after it.
    pub queue: Vec<usize>,
    /// The destructive one that runs where Enter is pressed once more.
    pub confirm: Option<usize>,
}

impl Inject {
    /// Scenarios for a target.
    pub fn new(target: String, offers: Vec<Offer>) -> Inject {
        let ran = offers.iter().map(|_| None).collect();
        Inject { target, offers, ran, ..Inject::default() }
    }

    /// Begins what is to run now, if something is and nothing runs.
    pub fn begin_next(&mut self) -> Option<usize> {
        if self.running.is_some() || self.queue.is_empty() {
            return None;
        }
        self.running = Some(self.queue.remove(0));
        self.running
    }
}
