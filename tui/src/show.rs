//! The views, and movements in them.

/// The views.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Show {
    /// What `analyze` says.
    #[default]
    Report,
    /// Connections at the moment that is shown.
    Connections,
    /// Transactions.
    Transactions,
    /// The ladder of one.
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
}

impl Show {
    /// All of them, in the order of their numbers.
    pub const ALL: [Show; 9] = [
        Show::Report,
        Show::Connections,
        Show::Transactions,
        Show::Exchange,
        Show::Bytes,
        Show::Events,
        Show::Findings,
        Show::Charts,
        Show::Inject,
    ];

    /// Its name where there is little room.
    pub const fn short_name(self) -> &'static str {
        match self {
            Show::Connections => "Conn",
            Show::Transactions => "Trans",
            Show::Exchange => "Exch",
            Show::Findings => "Find",
            Show::Charts => "Chart",
            other => other.name(),
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Show::Report => "Report",
            Show::Connections => "Connections",
            Show::Transactions => "Transactions",
            Show::Exchange => "Exchange",
            Show::Bytes => "Bytes",
            Show::Events => "Events",
            Show::Findings => "Findings",
            Show::Charts => "Charts",
            Show::Inject => "Inject",
        }
    }
}

/// A movement in a list or a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// So many up.
    Up(usize),
    /// So many down.
    Down(usize),
    /// As many up as are seen.
    PageUp,
    /// As many down.
    PageDown,
    /// To the first.
    First,
    /// To the last.
    Last,
}

impl Step {
    /// The place after this movement from `place`, not bounded by the end. A page is `seen` lines, less one.
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
