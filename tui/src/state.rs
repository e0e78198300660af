//! What is on the screen.

use crate::analysis::{Exchanged, FrameFields, Request};
use crate::chart::{Figures, Wanted};
use crate::compare::Beside;
use crate::filter::Filter;
use crate::inject::Inject;
use crate::rows::{Row, Sort};
use crate::session::{Session, Snapshot};
use crate::show::{Show, Step};
use rdmascope_analysis::timeline::Moment;
use rdmascope_dissector::record::Time;
use std::collections::HashSet;

/// What is chosen in a list, and the first line that is seen; of a text, the second alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// What is chosen.
    pub at: usize,
    /// The first that is seen.
    pub top: usize,
}

impl Cursor {
    /// Moves in a list of `count` entries with `seen` of them on the screen.
    pub fn step(&mut self, step: Step, count: usize, seen: usize) {
        self.at = step.from(self.at, seen);
        self.settle(count, seen);
    }

    /// Keeps what is chosen among `count`, and in sight.
    pub fn settle(&mut self, count: usize, seen: usize) {
        self.at = self.at.min(count.saturating_sub(1));
        let seen = seen.max(1);
        if self.at < self.top {
            self.top = self.at;
        } else if self.at >= self.top + seen {
            self.top = self.at + 1 - seen;
        }
        self.top = self.top.min(count.saturating_sub(seen));
    }

    /// Scrolls a text of `count` lines.
    pub fn scroll(&mut self, step: Step, count: usize, seen: usize) {
        self.top = step.from(self.top, seen).min(count.saturating_sub(seen));
    }
}

/// How it looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// More than ASCII is shown.
    pub unicode: bool,
    /// There are colours: the sixteen of the terminal, so that they fit light and dark ones.
    pub colour: bool,
}

/// A line that is being written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// What for.
    pub purpose: Purpose,
    /// What was written so far.
    pub text: String,
    /// Of a list of choices, the one that is chosen.
    pub at: usize,
}

/// What a line is written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A filter of transactions.
    Filter,
    /// A time to go to.
    Jump,
    /// An action.
    Palette,
    /// A term of the glossary.
    Glossary,
    /// A file for packets.
    Save,
    /// A file for a page.
    Export,
}

/// What lies over the views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The keys, from this line on.
    Help(usize),
    /// Captures to open; this one is chosen.
    Captures(usize),
}

/// Which bytes the view of bytes shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BytesOf {
    /// The Send of the call, or of the reply.
    Send {
        /// Of the reply.
        of_reply: bool,
    },
    /// The RPC message that a chunk conveyed.
    Message {
        /// Of the reply.
        of_reply: bool,
    },
    /// A frame.
    Frame,
}

impl Default for BytesOf {
    fn default() -> BytesOf {
        BytesOf::Send { of_reply: false }
    }
}

/// What is on the screen.
#[derive(Debug, Default)]
pub struct State {
    /// What is known of the capture.
    pub session: Session,
    /// How it looks.
    pub look: Look,
    /// Captures that can be opened, where none was named.
    pub captures: Vec<String>,
    /// The capture that is compared with.
    pub beside: Option<Beside>,
    /// Scenarios for a live peer.
    pub inject: Inject,
    /// Columns and lines of the terminal.
    pub size: (u16, u16),
    /// The view.
    pub show: Show,
    /// The views from which others were opened.
    pub back: Vec<Show>,
    /// The keys move in the other pane.
    pub in_detail: bool,
    /// Hundredths of the body that the list has.
    pub split: u16,
    /// What is chosen in each view.
    pub cursors: [Cursor; Show::COUNT],
    /// The same of the other panes.
    pub details: [Cursor; Show::COUNT],
    /// Which transactions are listed.
    pub filter: Filter,
    /// The filter as it was written.
    pub filter_line: String,
    /// What they are sorted by.
    pub sort: Sort,
    /// The other way round.
    pub reversed: bool,
    /// The rows that are listed.
    pub order: Vec<u32>,
    /// The transaction that is shown in full, as soon as it is there.
    pub chosen: Option<u64>,
    /// The transaction that is shown in full.
    pub exchange: Option<Box<Exchanged>>,
    /// A frame.
    pub frame: Option<Box<FrameFields>>,
    /// What charts show, as soon as it is there.
    pub figures: Option<Box<Figures>>,
    /// What they are to show, and is being made.
    pub charting: Option<Wanted>,
    /// Which bytes are shown.
    pub bytes_of: BytesOf,
    /// Fields that are closed: of which bytes, and the way to them.
    pub closed: HashSet<(BytesOf, Vec<usize>)>,
    /// The session at the moment that is shown.
    pub moment: Box<Snapshot>,
    /// The moment is the latest one, and follows it.
    pub follows: bool,
    /// It plays.
    pub plays: bool,
    /// How fast, as an index into [`SPEEDS`].
    pub speed: usize,
    /// How far the playing has come.
    pub clock: Time,
    /// What is being written.
    pub prompt: Option<Prompt>,
    /// What lies over the view.
    pub over: Option<Over>,
    /// A term that is explained.
    pub term: Option<&'static str>,
    /// What is to be said.
    pub notice: Option<String>,
    /// What was asked of the analysis and is not answered.
    pub asked: [Option<Request>; 4],
    /// The transaction that was asked for and is not to be had.
    pub failed: Option<u64>,
    /// What to ask for next, of the same kinds.
    pub next: [Option<Request>; 4],
    /// The command that shows the same begins with this: `rdmascope {} FILE`.
    pub files: String,
}

/// Speeds of playing: nanoseconds of the session for a second, and how they are written. The last one is as fast as it goes.
pub const SPEEDS: [(u64, &str); 8] = [
    (1_000_000, "1/1000"),
    (10_000_000, "1/100"),
    (100_000_000, "1/10"),
    (1_000_000_000, "1"),
    (10_000_000_000, "10"),
    (100_000_000_000, "100"),
    (1_000_000_000_000, "1000"),
    (u64::MAX, "max"),
];

impl State {
    /// An empty one, on a terminal of this size.
    pub fn new(title: impl Into<String>, files: impl Into<String>, look: Look, size: (u16, u16)) -> State {
        State {
            session: Session::new(title.into()),
            look,
            size,
            split: 50,
            filter: Filter::all(),
            follows: true,
            speed: 3,
            files: files.into(),
            ..State::default()
        }
    }

    /// What is chosen in the view.
    pub fn cursor(&self) -> Cursor {
        self.cursors[self.show as usize]
    }

    /// The same of the other pane.
    pub fn detail(&self) -> Cursor {
        self.details[self.show as usize]
    }

    /// The row that is chosen among the transactions.
    pub fn row(&self) -> Option<&Row> {
        let index = self.order.get(self.cursors[Show::Transactions as usize].at)?;
        self.session.rows.get(*index as usize)
    }

    /// The record of the moment that is shown; where another one was asked for and is on its way, that of the other. A step goes on from there.
    pub fn heading(&self) -> u64 {
        match self.next[0].as_ref().or(self.asked[0].as_ref()) {
            Some(Request::Seek(Moment::Record(record))) => *record,
            _ => self.moment.record,
        }
    }

    /// Lists the rows anew.
    pub fn relist(&mut self) {
        let chosen = self.row().map(|row| row.number);
        let State { session, filter, order, sort, reversed, .. } = self;
        order.clear();
        let wanted = session.rows.iter_from(0).filter(|(_, row)| filter.matches(row, session.start));
        order.extend(wanted.map(|(index, _)| index as u32));
        sort.sort(&session.rows, order);
        if *reversed {
            order.reverse();
        }
        // What was chosen stays chosen, where it is still listed.
        let at = chosen
            .and_then(|number| order.iter().position(|index| session.rows[*index as usize].number == number));
        self.cursors[Show::Transactions as usize].at = at.unwrap_or(0);
    }

    /// Lists rows that came behind the first `before` ones. What was chosen stays chosen.
    pub fn list_from(&mut self, before: usize) {
        let State { session, filter, order, sort, reversed, cursors, .. } = self;
        let rows = session.rows.iter_from(before).filter(|(_, row)| filter.matches(row, session.start));
        let new = rows.map(|(index, _)| index as u32);
        if *sort == Sort::Number && !*reversed {
            return order.extend(new);
        }
        let at = &mut cursors[Show::Transactions as usize].at;
        *at = sort.insert(&session.rows, order, new.collect(), *reversed, *at);
    }

    /// Lists rows anew that got other paths, where a filter may ask for them. What was chosen stays chosen, where it is still listed.
    pub fn list_renamed(&mut self, mut renamed: Vec<u32>) {
        if self.filter.is_empty() || renamed.is_empty() {
            return;
        }
        renamed.sort_unstable();
        renamed.dedup();
        let chosen = self.order.get(self.cursors[Show::Transactions as usize].at).copied();
        let State { session, filter, order, sort, reversed, cursors, .. } = self;
        order.retain(|index| renamed.binary_search(index).is_err());
        renamed.retain(|index| filter.matches(&session.rows[*index as usize], session.start));
        let at = &mut cursors[Show::Transactions as usize].at;
        sort.insert(&session.rows, order, renamed, *reversed, 0);
        *at = order.iter().position(|index| Some(*index) == chosen).unwrap_or(*at);
    }

    /// The latency of the slowest hundredth of the calls; `None` where no call has a latency.
    pub fn slow(&self) -> Option<u64> {
        let mut latencies: Vec<u64> = self.session.rows.iter().filter_map(|row| row.latency).collect();
        let last = latencies.len().checked_sub(1)?;
        let place = last - last / 100;
        let (_, latency, _) = latencies.select_nth_unstable(place);
        Some(*latency)
    }
}
