//! The views, and movements in them.

/// The views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Show {
    /// The state of the session at a glance.
    #[default]
    Overview,
    /// Connections at the shown moment.
    Connections,
    /// Transactions.
    Transactions,
    /// The ladder of one transaction.
    Exchange,
    /// Fields and bytes.
    Bytes,
    /// Events.
    Events,
    /// Findings.
    Findings,
    /// Charts.
    Charts,
    /// Scenarios for a live peer.
    Inject,
    /// The report of `analyze`.
    Report,
    /// Packets.
    Packets,
    /// NFSv4 state at the shown moment.
    State,
    /// Marks and notes.
    Marks,
}

impl Show {
    /// The number of views.
    pub const COUNT: usize = Show::Marks as usize + 1;
}

/// A movement in a list or a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Up by this number.
    Up(usize),
    /// Down by this number.
    Down(usize),
    /// One page up.
    PageUp,
    /// One page down.
    PageDown,
    /// To the first.
    First,
    /// To the last.
    Last,
}

impl Step {
    /// The position after this movement from `place`, not limited by the end. A page is `seen`
    /// lines less one.
    pub(crate) fn from(self, place: usize, seen: usize) -> usize {
        let page = seen.saturating_sub(1).max(1);
        match self {
            Step::Up(by) => place.saturating_sub(by),
            Step::Down(by) => place.saturating_add(by),
            Step::PageUp => place.saturating_sub(page),
            Step::PageDown => place.saturating_add(page),
            Step::First => 0,
            Step::Last => usize::MAX,
        }
    }
}
