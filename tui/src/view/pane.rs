//! The trait of a view, and the types of its answers to keys.

use super::{scrolled, title};
use crate::analysis::PacketSet;
use crate::rows::Sort;
use crate::show::Show;
use crate::state::State;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Text};

/// A view: a list or a text, and in some views another pane with details of the chosen entry.
pub trait Pane: Sync {
    /// Draws the title and the list or the text.
    fn render(&self, state: &State, frame: &mut Frame<'_>, area: Rect);

    /// The number of entries of the list, or of lines of the text.
    fn count(&self, state: &State) -> usize;

    /// The title and the text of the other pane.
    fn detail(&self, _state: &State, _width: u16) -> (String, Text<'static>) {
        Default::default()
    }

    /// The texts of the entries or lines, for a search.
    fn texts<'a>(&'a self, _state: &'a State) -> Texts<'a> {
        Texts { count: 0, text: Box::new(|_| String::new()) }
    }

    /// The texts of the lines of the other pane, for a search.
    fn detail_texts(&self, state: &State, width: u16) -> Vec<String> {
        self.detail(state, width).1.lines.iter().map(plain).collect()
    }

    /// The number of lines of the other pane.
    fn detail_count(&self, state: &State, width: u16) -> usize {
        self.detail(state, width).1.lines.len()
    }

    /// Draws the other pane.
    fn render_detail(&self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        let (words, text) = self.detail(state, area.width);
        title(state, frame, area, &words, state.in_detail);
        scrolled(state, frame, area, text, state.detail().top);
    }

    /// The chosen entry, as keys use it.
    fn selection(&self, state: &State) -> Selection;
}

/// The texts of a view.
pub struct Texts<'a> {
    /// Their number.
    pub count: usize,
    /// The text with this index.
    pub text: Box<dyn Fn(usize) -> String + 'a>,
}

impl<'a> Texts<'a> {
    /// The texts of `count` entries.
    pub(super) fn of(count: usize, text: impl Fn(usize) -> String + 'a) -> Texts<'a> {
        Texts { count, text: Box::new(text) }
    }

    /// The texts of these lines.
    pub(super) fn lines<'b>(lines: impl IntoIterator<Item = &'b Line<'b>>) -> Texts<'a> {
        let lines: Vec<String> = lines.into_iter().map(plain).collect();
        Texts::of(lines.len(), move |index| lines[index].clone())
    }
}

/// The text of a line.
pub(super) fn plain(line: &Line<'_>) -> String {
    line.spans.iter().map(|span| &*span.content).collect()
}

/// The chosen entry of a view, as keys use it.
#[derive(Debug, Default)]
pub struct Selection {
    /// The command that prints the same.
    pub command: String,
    /// The value to copy.
    pub value: Option<String>,
    /// The record that shows the entry, or at which it was found.
    pub record: Option<u64>,
    /// The packets to save.
    pub packets: PacketSet,
    /// The target of Enter.
    pub target: Option<Target>,
}

/// The target of Enter.
#[derive(Debug)]
pub enum Target {
    /// Another view.
    View(Show),
    /// The transactions that pass this filter.
    Filtered(String),
    /// The same, in this order.
    Listed(String, Sort),
    /// The event with this index.
    Event(usize),
    /// The finding with this index.
    Finding(usize),
    /// The exchange of a transaction.
    Transaction(u64),
    /// The bytes of a frame.
    Frame(u64),
    /// A field of the tree, which opens or closes.
    Field(Vec<usize>),
    /// The scenario, which runs or ends.
    Scenario,
    /// No packet shows the entry.
    Unseen,
}
