//! Typing a line: a filter, a time, a file, a word, an action.

use super::{Effect, act, back, marks, packets, saved, search, seek, send_request, set_filter};
use crate::analysis::Request;
use crate::state::{Prompt, Purpose, State};
use crate::view;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use rdmascope_analysis::time::{self, Zone};
use rdmascope_analysis::timeline::Moment;
use rdmascope_analysis::units::Seconds;
use rdmascope_dissector::record::Time;
use rdmascope_present::glossary;

/// Handles a key while a line is typed.
pub(super) fn write(state: &mut State, key: KeyEvent, effects: &mut Vec<Effect>) {
    let Some(mut prompt) = state.prompt.take() else { return };
    let choices = view::choices(state, &prompt);
    match key.code {
        KeyCode::Esc => return,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return,
        KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => prompt.text.clear(),
        KeyCode::Char('w') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            let rest = prompt.text.trim_end().rfind(' ').map_or(0, |at| at + 1);
            prompt.text.truncate(rest);
        }
        KeyCode::Char(character) if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => {
            prompt.text.push(character);
            (prompt.at, prompt.earlier) = (0, None);
        }
        KeyCode::Backspace => {
            prompt.text.pop();
            prompt.at = 0;
        }
        KeyCode::Up if prompt.at == 0 => earlier(state, &mut prompt, true),
        KeyCode::Down if prompt.earlier.is_some() => earlier(state, &mut prompt, false),
        KeyCode::Up => prompt.at -= 1,
        KeyCode::Down => prompt.at = (prompt.at + 1).min(choices.len().saturating_sub(1)),
        KeyCode::Tab => {
            if let (Purpose::Filter | Purpose::PacketFilter, Some(choice)) =
                (prompt.purpose, choices.get(prompt.at))
            {
                let rest = prompt.text.rfind(' ').map_or(0, |at| at + 1);
                prompt.text.truncate(rest);
                prompt.text.push_str(&choice.word);
                (prompt.at, prompt.earlier) = (0, None);
            }
        }
        KeyCode::Enter => return finish(state, &prompt, effects),
        _ => {}
    }
    state.prompt = Some(prompt);
}

/// Handles the finished line.
fn finish(state: &mut State, prompt: &Prompt, effects: &mut Vec<Effect>) {
    let choices = view::choices(state, prompt);
    let choice = choices.get(prompt.at);
    remember(state, prompt);
    match prompt.purpose {
        Purpose::Filter => {
            back::note(state);
            set_filter(state, prompt.text.trim().to_owned());
            if state.notice.is_some() {
                state.back.pop();
                state.prompt = Some(prompt.clone());
            }
        }
        Purpose::PacketFilter => {
            if let Err(error) = packets::set_filter(state, prompt.text.trim()) {
                state.notice = Some(error);
                state.prompt = Some(prompt.clone());
            }
        }
        Purpose::Search => search::begin(state, prompt.text.trim(), effects),
        Purpose::Jump => {
            match moment(prompt.text.trim(), state.clock, state.session.start, state.times.zone()) {
                Ok(moment) => {
                    let (start, end) = state.session.span();
                    if matches!(moment, Moment::Time(time) if time > end) {
                        let length = Seconds(end.0.saturating_sub(start.0));
                        state.notice =
                            Some(format!("no packet after that time: the last one is at {length} s"));
                    }
                    seek(state, moment, effects);
                }
                Err(error) => {
                    state.notice = Some(error);
                    state.prompt = Some(prompt.clone());
                }
            }
        }
        Purpose::Save => {
            let selection = saved(state);
            let comments = state.marks.comments();
            send_request(state, Request::Save(selection, prompt.text.trim().into(), comments), effects);
        }
        Purpose::Note(on) => marks::set(state, on, prompt.text.trim()),
        Purpose::Notes => marks::save(state, prompt.text.trim().into(), effects),
        Purpose::Export => {
            state.notice = Some("the page is being written".to_owned());
            effects.push(Effect::Export(prompt.text.trim().into()));
        }
        Purpose::Palette => {
            if let Some(action) = choice.and_then(|choice| choice.action) {
                act(state, action, effects);
            }
        }
        Purpose::Glossary => {
            let entry = choice.and_then(|choice| glossary::find(&choice.word));
            state.term = entry.map(|entry| entry.term);
        }
    }
}

/// Goes to an earlier line of the history, or to a later one.
fn earlier(state: &State, prompt: &mut Prompt, back: bool) {
    let lines: Vec<&String> = state
        .history
        .iter()
        .rev()
        .filter(|(purpose, _)| *purpose == prompt.purpose)
        .map(|(_, line)| line)
        .collect();
    let (at, typed) = prompt.earlier.take().unwrap_or((0, prompt.text.clone()));
    let to = if back { (at + 1).min(lines.len()) } else { at.saturating_sub(1) };
    let line = to.checked_sub(1).and_then(|index| lines.get(index));
    prompt.text = line.map_or_else(|| typed.clone(), |line| (*line).clone());
    prompt.earlier = (to > 0).then_some((to, typed));
}

/// Keeps a line for the history.
fn remember(state: &mut State, prompt: &Prompt) {
    const MOST: usize = 100;
    let is_kept =
        matches!(prompt.purpose, Purpose::Filter | Purpose::PacketFilter | Purpose::Search | Purpose::Jump);
    if !is_kept || prompt.text.trim().is_empty() {
        return;
    }
    let line = (prompt.purpose, prompt.text.trim().to_owned());
    state.history.retain(|one| *one != line);
    if state.history.len() == MOST {
        state.history.remove(0);
    }
    state.history.push(line);
}

/// Parses a moment: `#` and the number of a frame, or a time as the command line takes it. `+` and
/// `-` count from the shown moment.
fn moment(text: &str, now: Time, start: Time, zone: Zone) -> Result<Moment, String> {
    if let Some(number) = text.strip_prefix('#') {
        return number
            .parse()
            .map(Moment::Record)
            .map_err(|_| format!("{text}: expected a frame number after #"));
    }
    let moment = time::Moment::parse_in(text, zone).map_err(|error| format!("{text}: {error}"))?;
    Ok(Moment::Time(moment.relative_to(now, start)))
}
