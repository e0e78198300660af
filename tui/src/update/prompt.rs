//! Typing a line: a filter, a time, a file, a word, an action.

use super::{Effect, act, ask, seek, set_filter};
use crate::analysis::Request;
use crate::state::{Prompt, Purpose, State};
use crate::view;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use rdmascope_analysis::time;
use rdmascope_analysis::timeline::Moment;
use rdmascope_dissector::record::Time;
use rdmascope_present::glossary;

/// Handles a key while a line is typed.
pub(super) fn write(state: &mut State, key: KeyEvent, effects: &mut Vec<Effect>) {
    let Some(mut prompt) = state.prompt.take() else { return };
    let choices = view::choices(&prompt);
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
            prompt.at = 0;
        }
        KeyCode::Backspace => {
            prompt.text.pop();
            prompt.at = 0;
        }
        KeyCode::Up => prompt.at = prompt.at.saturating_sub(1),
        KeyCode::Down => prompt.at = (prompt.at + 1).min(choices.len().saturating_sub(1)),
        KeyCode::Tab => {
            if let (Purpose::Filter, Some(choice)) = (prompt.purpose, choices.get(prompt.at)) {
                let rest = prompt.text.rfind(' ').map_or(0, |at| at + 1);
                prompt.text.truncate(rest);
                prompt.text.push_str(&choice.word);
                prompt.at = 0;
            }
        }
        KeyCode::Enter => return finish(state, &prompt, effects),
        _ => {}
    }
    state.prompt = Some(prompt);
}

/// Handles the finished line.
fn finish(state: &mut State, prompt: &Prompt, effects: &mut Vec<Effect>) {
    let choices = view::choices(prompt);
    let choice = choices.get(prompt.at);
    match prompt.purpose {
        Purpose::Filter => {
            set_filter(state, prompt.text.trim().to_owned());
            if state.notice.is_some() {
                state.prompt = Some(prompt.clone());
            }
        }
        Purpose::Jump => match moment(prompt.text.trim(), state.session.start) {
            Ok(moment) => seek(state, moment, effects),
            Err(error) => {
                state.notice = Some(error);
                state.prompt = Some(prompt.clone());
            }
        },
        Purpose::Save => {
            let what = state.pane().selection(state).packets;
            ask(state, Request::Save(what, prompt.text.trim().into()), effects);
        }
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

/// Parses a moment: seconds from the start, an RFC 3339 time, or `#` and the number of a frame.
fn moment(text: &str, start: Time) -> Result<Moment, String> {
    if let Some(number) = text.strip_prefix('#') {
        return number
            .parse()
            .map(Moment::Record)
            .map_err(|_| format!("{text}: expected a frame number after #"));
    }
    let moment = time::Moment::parse(text).map_err(|error| format!("{text}: {error}"))?;
    Ok(Moment::Time(moment.in_capture(start)))
}
