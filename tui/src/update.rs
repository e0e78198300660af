//! Applies messages to the state. A pure function: the same messages give the same state.

mod back;
mod inject;
mod marks;
mod moment;
mod mouse;
mod packets;
mod prompt;
mod requests;
mod search;

use crate::analysis::{Answer, PacketSet, Request};
use crate::chart::{Figures, Wanted};
use crate::compare::Compared;
use crate::filter::Filter;
use crate::inject::{Order, Ran, Update};
use crate::keys::{self, Action};
use crate::rows::{Rows, Sort};
use crate::session::{Batch, Progress};
use crate::show::{Show, Step};
use crate::state::{BytesOf, Over, Prompt, Purpose, State};
use crate::view::{self, Target, VIEWS};
use back::back;
use crossterm::event::{KeyEvent, KeyModifiers, MouseEvent};
use moment::seek;
use rdmascope_analysis::timeline::Moment;
use rdmascope_analysis::units::Counted;
use rdmascope_present::notes::Note;
use requests::{kind, look_at_charts, look_at_chosen, look_at_report, send_request};
use std::path::PathBuf;

/// An input of [`update`].
#[derive(Debug)]
pub enum Message {
    /// A key was pressed.
    Key(KeyEvent),
    /// A mouse event.
    Mouse(MouseEvent),
    /// The terminal was resized.
    Resize(u16, u16),
    /// Nanoseconds that have passed.
    Tick(u64),
    /// New results of the analysis.
    Batch(Box<Batch>),
    /// Records can be read again from now on.
    Stored,
    /// The analysis answered.
    Answer(Answer),
    /// Two captures were compared, or the comparison failed.
    Compared(Box<Result<Compared, String>>),
    /// The data of charts was computed.
    Charted(Box<Figures>),
    /// An intermediate result of the running order.
    Update(Box<Update>),
    /// A page was written, or writing failed.
    Exported(Result<PathBuf, String>),
    /// Notes were written, or writing failed.
    Noted(Result<PathBuf, String>),
    /// Notes on the capture were read from its file.
    Notes(PathBuf, Vec<Note>),
    /// The result of the scenario with this index, or the reason why it failed.
    Ran(usize, Box<Result<Ran, String>>),
}

/// An action to be performed outside of the state.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send a request to the analysis.
    Request(Request),
    /// Run this order.
    Inject(Order),
    /// Stop the order with this number.
    Stop(u64),
    /// Write the capture as a page to this file.
    Export(PathBuf),
    /// Write this text to a file of notes, which may be replaced if the last value is set.
    Notes(PathBuf, String, bool),
    /// Compute the data of charts.
    Chart(Wanted, Rows),
    /// Copy this to the clipboard.
    Copy(String),
    /// Open the capture with this index.
    Open(usize),
    /// Suspend the process.
    Suspend,
    /// Quit.
    Quit,
}

/// Changes the state by a message.
pub fn update(state: &mut State, message: Message) -> Vec<Effect> {
    let mut effects = Vec::new();
    match message {
        Message::Key(key) => press(state, key, &mut effects),
        Message::Mouse(event) => mouse::mouse(state, event, &mut effects),
        Message::Resize(width, height) => state.size = (width, height),
        Message::Tick(nanoseconds) => moment::tick(state, nanoseconds, &mut effects),
        Message::Batch(batch) => take(state, *batch),
        // A request that failed before is sent again.
        Message::Stored => {
            state.failed = None;
            state.packets.has_failed = false;
        }
        Message::Answer(answer) => handle_answer(state, answer, &mut effects),
        Message::Compared(compared) => {
            if let Some(other) = &mut state.other {
                other.compared = Some(*compared);
            }
        }
        Message::Charted(figures) => {
            state.charting = None;
            state.figures = Some(figures);
        }
        Message::Update(update) => inject::update(state, *update),
        Message::Ran(index, ran) => inject::ran(state, index, *ran),
        Message::Noted(written) => marks::saved(state, written),
        Message::Notes(path, notes) => {
            state.notice = Some(format!("{}: {}", path.display(), Counted(notes.len() as u64, "note")));
            state.marks.list = notes.into_iter().map(|note| marks::found(state, note)).collect();
            state.marks.file = Some(path);
        }
        Message::Exported(written) => {
            state.notice = Some(match written {
                Ok(path) => format!("{}: page written", path.display()),
                Err(error) => error,
            });
        }
    }
    effects.extend(state.inject.begin_next().map(Effect::Inject));
    settle(state);
    packets::look(state, &mut effects);
    look_at_chosen(state, &mut effects);
    look_at_charts(state, &mut effects);
    look_at_report(state, &mut effects);
    effects
}

/// Adds new results.
fn take(state: &mut State, mut batch: Batch) {
    let before = state.session.rows.len();
    let now = batch.now.take();
    let renamed = state.session.take(batch);
    state.list_renamed(renamed.into_iter().filter(|index| (*index as usize) < before).collect());
    state.list_from(before);
    marks::complete(state);
    if let Some(now) = now
        && state.follows
    {
        state.clock = now.time.unwrap_or(state.session.start);
        state.moment = now;
    }
}

fn handle_answer(state: &mut State, answer: Answer, effects: &mut Vec<Effect>) {
    let kind = match &answer {
        Answer::Moment(_) => 0,
        Answer::Exchange(_) => 1,
        Answer::Frame(_) => 2,
        Answer::Saved(..) => 3,
        Answer::Packets(_) => 4,
        Answer::Found { .. } => 5,
        Answer::Report(..) => 6,
        Answer::Failed(request, _) => kind(request),
    };
    let pending = state.pending[kind].take();
    match answer {
        Answer::Moment(moment) => {
            // In a silence, the clock is ahead of the last record.
            if !matches!(pending, Some(Request::Seek(Moment::Time(_)))) {
                state.clock = moment.time.unwrap_or(state.session.start);
            }
            state.moment = moment;
        }
        Answer::Exchange(exchange) => {
            if Some(exchange.transaction.number) != state.exchange.as_ref().map(|one| one.transaction.number)
            {
                state.cursors[Show::Exchange as usize] = Default::default();
                if state.bytes_of != BytesOf::Frame {
                    state.cursors[Show::Bytes as usize] = Default::default();
                }
            }
            state.exchange = Some(exchange);
        }
        Answer::Frame(frame) => state.frame = Some(frame),
        Answer::Report(width, text) => state.session.report = (width, text),
        Answer::Saved(path, packets) => {
            state.notice = Some(format!("{}: {} written", path.display(), Counted(packets, "packet")));
        }
        Answer::Packets(page) => state.packets.take(*page),
        Answer::Found { number, last } => packets::found(state, number, last, effects),
        Answer::Failed(request, error) => {
            state.plays = false;
            state.packets.has_failed |= matches!(request, Request::Packets(..));
            if let Request::Frame(number) = request {
                state.packets.without_fields = Some(number);
            }
            if matches!(request, Request::Find(..)) {
                state.packets.search = None;
            }
            // It is not requested again without a reason.
            if let Request::Exchange(named) = request {
                state.failed = Some(named.number);
            }
            state.notice = Some(error);
        }
    }
    if let Some(next) = state.next[kind].take() {
        send_request(state, next, effects);
    }
}

/// Keeps all cursors within their lists.
fn settle(state: &mut State) {
    let areas = state.areas();
    if areas.detail.is_none() {
        state.in_detail = false;
    }
    let show = state.show as usize;
    let count = state.pane().count(state);
    if state.is_list() {
        state.cursors[show].settle(count, areas.lines());
    } else {
        state.cursors[show].scroll(Step::Up(0), count, areas.lines());
    }
    if state.show == Show::Exchange {
        let rungs = state.exchange.as_ref().map_or(0, |one| one.ladder.rungs.len());
        state.cursors[show].at = state.cursors[show].at.min(rungs.saturating_sub(1));
    }
    let count = state.detail_count();
    state.details[show].scroll(Step::Up(0), count, areas.detail_lines());
}

fn press(state: &mut State, key: KeyEvent, effects: &mut Vec<Effect>) {
    state.notice = None;
    if state.prompt.is_some() {
        return prompt::write(state, key, effects);
    }
    if state.term.is_some() || state.over.is_some() {
        return over(state, key, effects);
    }
    if let Some(action) = keys::action(key) {
        act(state, action, effects);
    }
}

/// Handles a key while a box is over the view.
fn over(state: &mut State, key: KeyEvent, effects: &mut Vec<Effect>) {
    match (keys::action(key), &mut state.over) {
        (Some(Action::Move(step)), Some(Over::Help(top))) => {
            let seen = usize::from(state.size.1.saturating_sub(4));
            *top = step.from(*top, seen).min(view::help_end(state.size.1));
        }
        (Some(Action::Move(step)), Some(Over::Captures(at))) => {
            let seen = usize::from(state.size.1);
            *at = step.from(*at, seen).min(state.captures.len().saturating_sub(1));
        }
        (Some(Action::Open), Some(Over::Captures(at))) => effects.push(Effect::Open(*at)),
        (Some(Action::Quit), Some(Over::Captures(_))) => effects.push(Effect::Quit),
        (_, Some(Over::Captures(_))) => {}
        (Some(Action::Quit), _) if key.modifiers.contains(KeyModifiers::CONTROL) => {
            effects.push(Effect::Quit)
        }
        (Some(Action::Suspend), _) => effects.push(Effect::Suspend),
        _ => {
            state.over = None;
            state.term = None;
        }
    }
}

/// Performs an action.
pub(crate) fn act(state: &mut State, action: Action, effects: &mut Vec<Effect>) {
    match action {
        Action::View(show) => visit(state, show),
        Action::NextView => turn(state, 1),
        Action::PreviousView => turn(state, Show::COUNT - 1),
        Action::Move(step) => go(state, step),
        Action::OtherPane => state.in_detail = !state.in_detail && state.areas().detail.is_some(),
        Action::Left => part(state, false),
        Action::Right => part(state, true),
        Action::Open => open(state, effects),
        Action::Back => back(state, effects),
        Action::Filter if state.show == Show::Packets => {
            begin_prompt(state, Purpose::PacketFilter, &state.packets.line.clone());
        }
        Action::Filter => {
            visit(state, Show::Transactions);
            begin_prompt(state, Purpose::Filter, &state.filter_line.clone());
        }
        Action::Search => begin_prompt(state, Purpose::Search, ""),
        Action::SearchOn(on) => search::continue_search(state, on, effects),
        Action::Times => {
            state.times = state.times.next();
            state.notice = Some(format!("times: {}", state.times.name()));
        }
        Action::Sort => {
            let place = Sort::ALL.iter().position(|sort| *sort == state.sort).unwrap_or(0);
            state.sort = Sort::ALL[(place + 1) % Sort::ALL.len()];
            state.relist();
            state.cursors[Show::Transactions as usize] = Default::default();
            state.notice = Some(format!("sorted by {}", state.sort.name()));
        }
        Action::Reverse => {
            state.reversed = !state.reversed;
            state.relist();
            state.cursors[Show::Transactions as usize] = Default::default();
        }
        Action::All => match (state.show, &mut state.other) {
            (Show::Inject, _) => inject::run_all(state),
            (Show::Report, Some(other)) => other.has_all = !other.has_all,
            _ => {}
        },
        Action::Play => moment::play(state, effects),
        Action::StepRecord(on) => moment::step_record(state, on, effects),
        Action::StepTransaction(on) => moment::step_transaction(state, on, effects),
        Action::StepFound(on) => moment::step_found(state, on, effects),
        Action::StepSlow(on) => moment::step_slow(state, on, effects),
        Action::Speed(faster) => moment::change_speed(state, faster),
        Action::Jump => begin_prompt(state, Purpose::Jump, ""),
        Action::MomentOf => {
            if let Some(record) = state.pane().selection(state).record {
                seek(state, Moment::Record(record), effects);
            }
        }
        Action::Follow => moment::follow(state, effects),
        Action::CopyCommand => copy(state, Some(state.pane().selection(state).command), effects),
        Action::CopyValue => copy(state, state.pane().selection(state).value, effects),
        Action::Glossary => begin_prompt(state, Purpose::Glossary, &view::term(state).unwrap_or_default()),
        Action::Save => {
            let text = match saved(state) {
                PacketSet::Frames(numbers) if state.packets.line.is_empty() => {
                    format!("packet-{}.pcapng", numbers.first().unwrap_or(&0))
                }
                PacketSet::Rows(_) | PacketSet::Frames(_) => "filtered.pcapng".to_owned(),
                PacketSet::All => "capture.pcapng".to_owned(),
                PacketSet::Connection(id) => format!("connection-{}.pcapng", id.0),
                PacketSet::Between(..) => format!("transaction-{}.pcapng", state.chosen.unwrap_or(0)),
            };
            begin_prompt(state, Purpose::Save, &text);
        }
        Action::Mark => marks::prompt_for_note(state),
        Action::SaveNotes => {
            let path = state.marks.file.clone().unwrap_or_else(|| state.notes.clone());
            begin_prompt(state, Purpose::Notes, &path.display().to_string());
        }
        Action::Export => begin_prompt(state, Purpose::Export, "capture.html"),
        Action::FromChosen => inject::from_chosen(state),
        Action::Fault => inject::fault(state),
        Action::Palette => begin_prompt(state, Purpose::Palette, ""),
        Action::Help => state.over = Some(Over::Help(0)),
        Action::Suspend => effects.push(Effect::Suspend),
        Action::Quit => effects.push(Effect::Quit),
    }
}

/// The packets to save: those of the selected entry. If a filter is set, the entry of the list of
/// transactions is the whole list.
fn saved(state: &State) -> PacketSet {
    if state.show == Show::Packets && !state.packets.line.is_empty() {
        return PacketSet::Frames(state.packets.matched.iter().map(|row| row.number).collect());
    }
    if state.show != Show::Transactions || state.filter.is_empty() {
        return state.pane().selection(state).packets;
    }
    let rows = state.order.iter().map(|index| &state.session.rows[*index as usize]);
    PacketSet::Rows(rows.map(|row| (row.connection, row.first, row.last)).collect())
}

fn begin_prompt(state: &mut State, purpose: Purpose, text: &str) {
    state.prompt = Some(Prompt { purpose, text: text.to_owned(), at: 0, earlier: None });
}

fn copy(state: &mut State, text: Option<String>, effects: &mut Vec<Effect>) {
    if let Some(text) = text {
        state.notice = Some(format!("copied: {text}"));
        effects.push(Effect::Copy(text));
    }
}

fn turn(state: &mut State, by: usize) {
    visit(state, VIEWS[(state.show as usize + by) % Show::COUNT].show);
}

/// Selects a transaction, and its row if it is listed.
fn choose(state: &mut State, number: u64) {
    let place = state.order.iter().position(|index| state.session.rows[*index as usize].number == number);
    if let Some(place) = place {
        state.cursors[Show::Transactions as usize].at = place;
    }
    state.chosen = Some(number);
}

fn go(state: &mut State, step: Step) {
    state.inject.confirm = None;
    let areas = state.areas();
    let show = state.show as usize;
    if state.in_detail {
        let count = state.detail_count();
        state.details[show].scroll(step, count, areas.detail_lines());
        return;
    }
    let count = state.pane().count(state);
    match state.show {
        Show::Exchange => {
            let rungs = state.exchange.as_ref().map_or(0, |one| one.ladder.rungs.len());
            let mut cursor = state.cursors[show];
            // The selection moves by rungs; the visible part follows it.
            let page = (areas.lines() / 4).max(1);
            cursor.step(step, rungs, page);
            cursor.top = state.cursors[show].top;
            if let Some(lines) = view::lines_of_rung(state, cursor.at) {
                let seen = areas.lines().max(1);
                if lines.start < cursor.top || step == Step::First {
                    cursor.top = if cursor.at == 0 { 0 } else { lines.start };
                } else if lines.end > cursor.top + seen {
                    cursor.top = lines.end - seen;
                }
                if step == Step::Last {
                    cursor.top = count.saturating_sub(seen);
                }
            }
            state.cursors[show] = cursor;
        }
        _ if state.is_list() => {
            state.cursors[show].step(step, count, areas.lines());
            state.details[show] = Default::default();
        }
        _ => state.cursors[show].scroll(step, count, areas.lines()),
    }
}

/// Handles left and right.
fn part(state: &mut State, on: bool) {
    match (state.show, &mut state.other) {
        (Show::Bytes, _) => {}
        (Show::Overview, _) => {
            let to = view::adjacent_tile(state, on);
            state.cursors[Show::Overview as usize].at = to.unwrap_or(0);
            return;
        }
        (Show::Report, Some(other)) => {
            other.is_shown = on;
            state.cursors[Show::Report as usize] = Default::default();
            return;
        }
        _ => return,
    }
    if let Some(field) = view::field_of_chosen(state).filter(|field| field.has_children) {
        let key = (state.bytes_of, field.path);
        if on == state.closed.contains(&key) {
            return turn_field(state, key.1);
        }
    }
    let parts = view::parts(state);
    let place = parts.iter().position(|part| *part == state.bytes_of).unwrap_or(0);
    let to = if on { place + 1 } else { place.wrapping_sub(1) };
    if let Some(part) = parts.get(to) {
        state.bytes_of = *part;
        state.cursors[Show::Bytes as usize] = Default::default();
        state.details[Show::Bytes as usize] = Default::default();
    }
}

/// Opens a closed field, or closes an open one.
fn turn_field(state: &mut State, path: Vec<usize>) {
    let key = (state.bytes_of, path);
    if !state.closed.remove(&key) {
        state.closed.insert(key);
    }
}

/// Goes to a view.
fn visit(state: &mut State, show: Show) {
    if state.show != show {
        back::note(state);
    }
    state.in_detail = false;
    let before = core::mem::replace(&mut state.show, show);
    if show == Show::Packets {
        packets::enter(state, before);
    }
}

/// Shows another view, with the entry at this place.
fn visit_at(state: &mut State, show: Show, at: usize) {
    visit(state, show);
    let cursor = &mut state.cursors[show as usize];
    cursor.at = at;
    // A few entries before it are seen too.
    cursor.top = at.saturating_sub(3);
    state.details[show as usize] = Default::default();
}

fn open(state: &mut State, effects: &mut Vec<Effect>) {
    if let Some(number) = inject::lit_transaction(state) {
        choose(state, number);
        return visit(state, Show::Exchange);
    }
    match state.pane().selection(state).target {
        None => {}
        Some(Target::View(show)) => visit(state, show),
        Some(Target::Filtered(line)) => {
            visit(state, Show::Transactions);
            set_filter(state, line);
        }
        Some(Target::Listed(line, sort)) => {
            visit(state, Show::Transactions);
            set_filter(state, line);
            (state.sort, state.reversed) = (sort, false);
            state.relist();
            visit_at(state, Show::Transactions, 0);
        }
        Some(Target::Event(at)) => visit_at(state, Show::Events, at),
        Some(Target::Finding(at)) => visit_at(state, Show::Findings, at),
        Some(Target::Transaction(number)) => {
            choose(state, number);
            visit(state, Show::Exchange);
        }
        Some(Target::Frame(frame)) => show_frame(state, frame, effects),
        Some(Target::Field(path)) => turn_field(state, path),
        Some(Target::Scenario) => inject::run(state, effects),
        Some(Target::Unseen) => state.notice = Some("no packet shows this entry".into()),
    }
}

fn show_frame(state: &mut State, frame: u64, effects: &mut Vec<Effect>) {
    back::note(state);
    state.in_detail = false;
    state.show = Show::Bytes;
    state.bytes_of = BytesOf::Frame;
    state.cursors[Show::Bytes as usize] = Default::default();
    send_request(state, Request::Frame(frame), effects);
}

fn set_filter(state: &mut State, line: String) {
    let parsed = Filter::parse(&line, state.times.zone());
    match parsed.and_then(|filter| check_connection(state, filter.highest_connection()).map(|()| filter)) {
        Ok(filter) => {
            state.filter = filter;
            state.filter_line = line;
            state.relist();
        }
        Err(error) => state.notice = Some(error),
    }
}

/// Fails if a filter names a connection that the capture does not have.
fn check_connection(state: &State, highest: Option<u32>) -> Result<(), String> {
    let highest = u64::from(highest.unwrap_or(0));
    let last = state.session.totals.connections;
    match state.session.progress {
        Progress::Ended if highest > last => {
            Err(format!("no connection {highest}: the highest number is {last}"))
        }
        _ => Ok(()),
    }
}
