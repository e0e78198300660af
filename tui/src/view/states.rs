//! NFSv4 state at the moment that is shown: client IDs, sessions, opens, locks, delegations.

use super::{Pane, Selection, Target, Texts, fitted, yellow};
use crate::clock::wall;
use crate::state::State;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span, Text};
use rdmascope_analysis::names::Quoted;
use rdmascope_analysis::state::{At, Kind, Lifetime};
use rdmascope_analysis::units::{Counted, Duration, Number, Seconds};
use rdmascope_present::fold::folded;
use rdmascope_present::text::HexBytes;

/// Columns of an identifier: a client ID, a session ID, or the fixed bytes of a stateid.
const ID: usize = 32;

pub(super) struct States;

impl Pane for States {
    fn render(&self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        super::title(state, frame, area, &words(state), !state.in_detail);
        let times = state.time_column(area.width);
        let lifetimes = &state.moment.state;
        let is_wide = area.width >= 100;
        let id = if is_wide { format!("{:ID$} ", "id") } else { String::new() };
        let headings =
            format!(" {:10} {} {:>9} {:>5} {:11} {id}file", "kind", times.heading(), "age", "conn", "allows");
        let fixed = 40 + times.width() + if is_wide { ID + 1 } else { 0 };
        let room = usize::from(area.width).saturating_sub(fixed);
        let line = |index: usize| {
            let lifetime: &Lifetime = &lifetimes[index];
            let before = index.checked_sub(1).map(|before| lifetimes[before].first.time);
            let id =
                if is_wide { fitted(state, &identity(lifetime), ID, false) + " " } else { String::new() };
            let recalled = lifetime.recalled.is_some_and(|at| at.frame <= state.moment.record);
            let style = if recalled { yellow(state) } else { Style::new() };
            let front = format!(
                " {:10} {} {:>9} {:>5} {:11} {id}",
                lifetime.kind.word(),
                times.cell(Some(lifetime.first.time), before),
                age(state, lifetime),
                lifetime.connection.0,
                allows(lifetime),
            );
            let recalled = if recalled { "recalled; " } else { "" };
            let file = fitted(state, &format!("{recalled}{}", file(lifetime)), room, false);
            Line::from(Span::styled(front + &file, style))
        };
        let why =
            "No NFSv4 state at this moment. , and . step packet by packet, t goes to a time, f to the end.";
        super::list(state, frame, area, Some(headings), (lifetimes.len(), why), line);
    }

    fn count(&self, state: &State) -> usize {
        state.moment.state.len()
    }

    fn texts<'a>(&'a self, state: &'a State) -> Texts<'a> {
        let lifetimes = &state.moment.state;
        Texts::of(lifetimes.len(), |index| {
            let lifetime = &lifetimes[index];
            format!("{} {} {}", lifetime.kind.word(), identity(lifetime), file(lifetime))
        })
    }

    fn detail(&self, state: &State, width: u16) -> (String, Text<'static>) {
        let title = "The state".to_owned();
        let lifetime = state.moment.state.get(state.cursor().at);
        let Some(lifetime) = lifetime else { return (title, Text::default()) };
        let lines = facts(state, lifetime);
        let lines: Vec<String> = lines.iter().map(|line| folded(line, usize::from(width), None)).collect();
        (title, Text::raw(lines.join("\n")))
    }

    fn selection(&self, state: &State) -> Selection {
        let lifetime = state.moment.state.get(state.cursor().at);
        let since = Seconds(state.clock.0.saturating_sub(state.session.start.0));
        Selection {
            command: format!("rdmascope state {} --since {since} --until +1us", state.files),
            value: lifetime.map(identity),
            record: lifetime.map(|lifetime| lifetime.first.frame),
            target: lifetime.map(|lifetime| Target::Transaction(lifetime.first.transaction)),
            ..Selection::default()
        }
    }
}

/// The number of pieces of state of each kind.
fn words(state: &State) -> String {
    let count = |kind: Kind| state.moment.state.iter().filter(|lifetime| lifetime.kind == kind).count();
    let counted = |kind: Kind| match count(kind) {
        0 => None,
        1 => Some(format!("1 {}", kind.noun())),
        many => Some(format!("{} {}", Number(many as u64), kind.plural())),
    };
    let counts: Vec<String> = Kind::ALL.into_iter().filter_map(counted).collect();
    let mut words = match counts.is_empty() {
        true => "NFSv4 state at this moment: none".to_owned(),
        false => format!("NFSv4 state at this moment: {}", counts.join(", ")),
    };
    if state.moment.further_state > 0 {
        words += &format!(" (and {} more, not listed)", Number(state.moment.further_state));
    }
    words
}

fn identity(lifetime: &Lifetime) -> String {
    let mut text = String::new();
    lifetime.id.bytes(&mut |bytes| text = HexBytes(bytes).to_string());
    text
}

/// The time since it began, if the capture shows that.
fn age(state: &State, lifetime: &Lifetime) -> String {
    match lifetime.is_begun() {
        true => Duration(state.clock.since(lifetime.first.time)).to_string(),
        false => "before".to_owned(),
    }
}

fn allows(lifetime: &Lifetime) -> String {
    match (lifetime.slots, lifetime.access.and_then(|access| access.word())) {
        (Some(slots), _) => format!("{slots} slots"),
        (None, Some(access)) => access.to_owned(),
        (None, None) => "-".to_owned(),
    }
}

fn file(lifetime: &Lifetime) -> String {
    if lifetime.file().is_empty() { String::new() } else { Quoted(lifetime.file()).to_string() }
}

/// The facts about a lifetime, as lines. Those of the whole capture are marked as such.
fn facts(state: &State, lifetime: &Lifetime) -> Vec<String> {
    let at = |at: At| {
        let seconds = Seconds(at.time.0.saturating_sub(state.session.start.0));
        let time = wall(at.time, state.times.zone(), 6);
        format!("{time}, {seconds} s, frame {}, transaction {}", at.frame, at.transaction)
    };
    let mut lines = vec![format!("  {} {}", lifetime.kind.noun(), identity(lifetime))];
    let ends = lifetime.client_address.zip(lifetime.server_address);
    if let Some((client, server)) = ends {
        lines.push(format!("  client {client}, server {server}, NFSv4.{}", lifetime.minor_version));
    }
    if let Some(client) = lifetime.client.filter(|_| lifetime.kind != Kind::Client) {
        lines.push(format!("  client ID {client:016x}"));
    }
    if !lifetime.file().is_empty() {
        lines.push(format!("  file {}", file(lifetime)));
    }
    if let Some(deny) = lifetime.deny.and_then(|deny| deny.word()) {
        lines.push(format!("  denies {deny} to others"));
    }
    let first = if lifetime.is_begun() { "begun" } else { "first seen" };
    lines.push(format!("  {first} at {}: Enter shows the exchange", at(lifetime.first)));
    if let Some(recalled) = lifetime.recalled {
        lines.push(format!("  recalled at {}", at(recalled)));
    }
    lines.push(String::new());
    lines.push("  In the whole capture".to_owned());
    match lifetime.ended {
        Some(ended) => lines.push(format!("    {} at {}", lifetime.end.word(), at(ended))),
        None => lines.push("    not ended".to_owned()),
    }
    if let Some(duration) = lifetime.duration() {
        lines.push(format!("    lasted {}", Duration(duration)));
    }
    let reads = Counted(lifetime.reads, "READ");
    let writes = Counted(lifetime.writes, "WRITE");
    lines.push(format!("    {}, among them {reads} and {writes}", Counted(lifetime.uses, "use")));
    if let Some(ranges) = lifetime.ranges_text() {
        lines.push(format!("    locked bytes {ranges}"));
    }
    if let Some(slot) = lifetime.highest_slot {
        lines.push(format!("    highest slot used {slot}"));
    }
    lines
}
