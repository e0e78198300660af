//! The state of the screen.

use crate::analysis::{Exchanged, FrameFields, Request};
use crate::chart::{Figures, Wanted};
use crate::clock::{Column, Times};
use crate::compare::OtherCapture;
use crate::filter::Filter;
use crate::inject::Inject;
use crate::marks::Marks;
use crate::packets::Packets;
use crate::rows::{Row, Sort};
use crate::session::{Progress, Session, Snapshot};
use crate::show::{Show, Step};
use rdmascope_analysis::timeline::Moment;
use rdmascope_dissector::record::Time;
use rdmascope_present::notes::Subject;
use std::collections::HashSet;
use std::path::PathBuf;

/// The selected entry of a list, and the first visible line. A text uses only the latter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    /// The selected entry.
    pub at: usize,
    /// The first visible line.
    pub top: usize,
}

impl Cursor {
    /// Moves in a list of `count` entries with `seen` of them on the screen.
    pub fn step(&mut self, step: Step, count: usize, seen: usize) {
        self.at = step.from(self.at, seen);
        self.settle(count, seen);
    }

    /// Keeps the selected entry among `count`, and visible.
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

/// Characters and colours of the display.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// The terminal shows more than ASCII.
    pub unicode: bool,
    /// Colours are used; see [`theme`](crate::theme).
    pub colour: bool,
    /// The colours that the terminal has.
    pub palette: Palette,
}

/// The colours that a terminal has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Palette {
    /// The usual 256.
    #[default]
    Few,
    /// Any mixture of red, green and blue.
    Any,
}

/// A line that is being typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    /// Its purpose.
    pub purpose: Purpose,
    /// The text so far.
    pub text: String,
    /// The selected entry, if there is a list of choices.
    pub at: usize,
    /// The number of lines back in the history, and the text typed before going back.
    pub earlier: Option<(usize, String)>,
}

/// The purpose of a typed line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A filter of transactions.
    Filter,
    /// A filter of packets.
    PacketFilter,
    /// A text to find.
    Search,
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
    /// A note on a packet or a transaction.
    Note(Subject),
    /// A file for notes.
    Notes,
}

/// A box over the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// The keys, starting with this line.
    Help(usize),
    /// Captures to open, with the index of the selected one.
    Captures(usize),
}

/// The bytes shown by the view of bytes.
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

/// A place to go back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The view.
    pub show: Show,
    /// Its cursor.
    pub cursor: Cursor,
    /// The transaction that was shown in detail.
    pub chosen: Option<u64>,
    /// The bytes that were shown.
    pub bytes_of: BytesOf,
    /// The frame that was shown.
    pub frame: Option<u64>,
    /// The filter of transactions.
    pub filter: String,
    /// The filter of packets.
    pub packets: String,
}

/// The state of the screen.
#[derive(Debug, Default)]
pub struct State {
    /// The results of the analysis.
    pub session: Session,
    /// Characters and colours of the display.
    pub look: Look,
    /// Captures that can be opened, if none was named.
    pub captures: Vec<String>,
    /// The capture that this one is compared with.
    pub other: Option<OtherCapture>,
    /// Scenarios for a live peer.
    pub inject: Inject,
    /// Columns and lines of the terminal.
    pub size: (u16, u16),
    /// The view.
    pub show: Show,
    /// The places to go back to.
    pub back: Vec<Place>,
    /// The keys move in the other pane.
    pub in_detail: bool,
    /// The list's share of the body, in hundredths.
    pub split: u16,
    /// The cursor of each view.
    pub cursors: [Cursor; Show::COUNT],
    /// The cursor of the other pane of each view.
    pub details: [Cursor; Show::COUNT],
    /// The filter of the listed transactions.
    pub filter: Filter,
    /// The filter as it was typed.
    pub filter_line: String,
    /// The lines typed so far, with their purpose.
    pub history: Vec<(Purpose, String)>,
    /// The text to find, in lower case; empty if there is none.
    pub search: String,
    /// The line with that text that was found last: its view, whether it is in the other pane, and
    /// its index.
    pub hit: Option<(Show, bool, usize)>,
    /// The form of times in lists.
    pub times: Times,
    /// The sort criterion.
    pub sort: Sort,
    /// The sort order is reversed.
    pub reversed: bool,
    /// The rows that are listed.
    pub order: Vec<u32>,
    /// The transaction to show in detail, once it is loaded.
    pub chosen: Option<u64>,
    /// The transaction that is shown in detail.
    pub exchange: Option<Box<Exchanged>>,
    /// A frame.
    pub frame: Option<Box<FrameFields>>,
    /// Marks and notes.
    pub marks: Marks,
    /// The file for notes that is proposed.
    pub notes: PathBuf,
    /// The list of packets.
    pub packets: Packets,
    /// The data of the charts, once it is computed.
    pub figures: Option<Box<Figures>>,
    /// The request for charts that is being computed.
    pub charting: Option<Wanted>,
    /// The bytes that are shown.
    pub bytes_of: BytesOf,
    /// Closed fields: the bytes that they belong to, and their path in the tree.
    pub closed: HashSet<(BytesOf, Vec<usize>)>,
    /// The session at the moment that is shown.
    pub moment: Box<Snapshot>,
    /// The shown moment is the latest one, and follows it.
    pub follows: bool,
    /// The session is playing.
    pub plays: bool,
    /// The speed, as an index into [`SPEEDS`].
    pub speed: usize,
    /// The shown time. It may be in a silence, after the last record.
    pub clock: Time,
    /// The line that is being typed.
    pub prompt: Option<Prompt>,
    /// The box over the view.
    pub over: Option<Over>,
    /// A term that is explained.
    pub term: Option<&'static str>,
    /// A notice to the user.
    pub notice: Option<String>,
    /// Requests to the analysis that are not answered yet, by kind.
    pub pending: [Option<Request>; State::KINDS],
    /// The transaction whose request failed.
    pub failed: Option<u64>,
    /// The next request of each kind.
    pub next: [Option<Request>; State::KINDS],
    /// The files named in equivalent commands: `rdmascope {} FILE`.
    pub files: String,
}

/// Playing speeds: nanoseconds of the session in one second, and the text. The last one is as fast
/// as possible.
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
    /// The kinds of requests.
    pub const KINDS: usize = 7;

    /// Creates an empty state for a terminal of this size.
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

    /// Whether the capture is live.
    pub fn is_live(&self) -> bool {
        self.session.progress == Progress::Live
    }

    /// The cursor of the view.
    pub fn cursor(&self) -> Cursor {
        self.cursors[self.show as usize]
    }

    /// The cursor of the other pane.
    pub fn detail(&self) -> Cursor {
        self.details[self.show as usize]
    }

    /// The selected row of the transactions.
    pub fn row(&self) -> Option<&Row> {
        let index = self.order.get(self.cursors[Show::Transactions as usize].at)?;
        self.session.rows.get(*index as usize)
    }

    /// The columns of times in a list of this width.
    pub(crate) fn time_column(&self, width: u16) -> Column {
        Column::new(self.times, width, self.session.start)
    }

    /// The record of the shown moment, or of a requested one that is not answered yet. Steps start
    /// from it.
    pub fn heading(&self) -> u64 {
        match self.next[0].as_ref().or(self.pending[0].as_ref()) {
            Some(Request::Seek(Moment::Record(record))) => *record,
            _ => self.moment.record,
        }
    }

    /// Lists all rows again.
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
        // The selected row stays selected if it is still listed.
        let at = chosen
            .and_then(|number| order.iter().position(|index| session.rows[*index as usize].number == number));
        self.cursors[Show::Transactions as usize].at = at.unwrap_or(0);
    }

    /// Adds the rows after the first `before` ones to the list. The selected row stays selected.
    pub(crate) fn list_from(&mut self, before: usize) {
        let State { session, filter, order, sort, reversed, cursors, .. } = self;
        let rows = session.rows.iter_from(before).filter(|(_, row)| filter.matches(row, session.start));
        let new = rows.map(|(index, _)| index as u32);
        if *sort == Sort::Number && !*reversed {
            return order.extend(new);
        }
        let at = &mut cursors[Show::Transactions as usize].at;
        *at = sort.insert(&session.rows, order, new.collect(), *reversed, *at);
    }

    /// Updates the list for rows whose paths changed, which a filter may match. The selected row
    /// stays selected if it is still listed.
    pub(crate) fn list_renamed(&mut self, mut renamed: Vec<u32>) {
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

    /// The latency of the slowest hundredth of the calls; `None` if no call has a latency.
    pub fn slow(&self) -> Option<u64> {
        let mut latencies: Vec<u64> = self.session.rows.iter().filter_map(|row| row.latency).collect();
        let last = latencies.len().checked_sub(1)?;
        let place = last - last / 100;
        let (_, latency, _) = latencies.select_nth_unstable(place);
        Some(*latency)
    }
}
