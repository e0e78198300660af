//! The keys and their actions: one table for the help, the hint line, the palette and docs/tui.md.

use self::Group::{General, Lists, Replay, Views};
use crate::show::{Show, Step};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Shows one of the views.
    View(Show),
    /// Shows the next view.
    NextView,
    /// Shows the previous view.
    PreviousView,
    /// Moves in the list or the text.
    Move(Step),
    /// Goes to the other pane of the view.
    OtherPane,
    /// Left: shows the previous part, or closes a field.
    Left,
    /// Right: shows the next part, or opens a field.
    Right,
    /// Opens the selected entry.
    Open,
    /// Goes back to the view from which this one was opened.
    Back,
    /// Asks for a filter.
    Filter,
    /// Asks for a text to find in the view.
    Search,
    /// Goes to the next place with that text, or to the previous one.
    SearchOn(bool),
    /// Shows times in the next form.
    Times,
    /// Sorts by the next criterion.
    Sort,
    /// Reverses the sort order.
    Reverse,
    /// Runs all scenarios that are not destructive, or cancels all that wait.
    All,
    /// Plays the session, or pauses.
    Play,
    /// Steps one record forward, or back.
    StepRecord(bool),
    /// Steps forward, or back, to the end of a transaction.
    StepTransaction(bool),
    /// Steps forward to the next finding or event, or back to the previous one.
    StepFound(bool),
    /// Steps forward to the next slow call, or back to the previous one.
    StepSlow(bool),
    /// Plays faster, or slower.
    Speed(bool),
    /// Asks for a time to go to.
    Jump,
    /// Marks the selected packet or transaction, and asks for a note on it.
    Mark,
    /// Saves the notes.
    SaveNotes,
    /// Goes to the moment of the selected entry.
    MomentOf,
    /// Goes to the end, and follows a live capture.
    Follow,
    /// Saves packets.
    Save,
    /// Writes the capture as a page.
    Export,
    /// Sends the session from the selected transaction on, or all of it.
    FromChosen,
    /// Puts a fault into the selected transaction of the session that is sent.
    Fault,
    /// Copies the equivalent command to the clipboard.
    CopyCommand,
    /// Copies the selected value.
    CopyValue,
    /// Explains a term.
    Glossary,
    /// Lists all actions.
    Palette,
    /// Shows the keys.
    Help,
    /// Suspends the process, as a shell's job.
    Suspend,
    /// Quits.
    Quit,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// The keys, as they are written.
    pub keys: &'static [&'static str],
    /// Their action.
    pub action: Action,
    /// A description.
    pub help: &'static str,
    /// A word for the hint line; empty if the key is not listed there.
    pub hint: &'static str,
    /// The heading that it is listed under.
    pub group: Group,
}

/// A heading of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// Views and panes.
    Views,
    /// Lists and texts.
    Lists,
    /// The moment that is shown.
    Replay,
    /// All other keys.
    General,
}

impl Group {
    /// All of them.
    pub const ALL: [Group; 4] = [Group::Views, Group::Lists, Group::Replay, Group::General];

    /// Its heading.
    pub const fn title(self) -> &'static str {
        match self {
            Group::Views => "Views",
            Group::Lists => "Lists and texts",
            Group::Replay => "Replay",
            Group::General => "General",
        }
    }
}

const fn key(
    keys: &'static [&'static str],
    action: Action,
    hint: &'static str,
    help: &'static str,
    group: Group,
) -> Binding {
    Binding { keys, action, help, hint, group }
}

const fn view(keys: &'static [&'static str], show: Show, help: &'static str) -> Binding {
    key(keys, Action::View(show), "", help, Views)
}

/// All keys. Every irreversible action asks for confirmation.
pub static KEYS: &[Binding] = &[
    view(&["1"], Show::Overview, "Overview: the state at a glance"),
    view(&["2"], Show::Connections, "Connections at the shown moment"),
    view(&["3"], Show::Transactions, "Transactions"),
    view(&["4"], Show::Exchange, "Packet exchange of the selected transaction"),
    view(&["5"], Show::Bytes, "Fields and bytes of its messages and frames"),
    view(&["6"], Show::Events, "Events"),
    view(&["7"], Show::Findings, "Findings and their rules"),
    view(&["8"], Show::Charts, "Charts: latency, throughput, credits, retransmissions"),
    view(&["9"], Show::Inject, "Injection: scenarios for a live server"),
    view(&["r"], Show::Report, "Report: the text of analyze, and the comparison"),
    view(&["P"], Show::Packets, "Packets"),
    view(&["O"], Show::State, "NFSv4 state: sessions, opens, locks, delegations"),
    view(&["'"], Show::Marks, "Marks and notes"),
    key(&["Tab"], Action::NextView, "view", "The next view", Views),
    key(&["Shift-Tab"], Action::PreviousView, "", "The previous view", Views),
    key(&["p"], Action::OtherPane, "", "The other pane of the view", Views),
    key(&["Enter"], Action::Open, "open", "Opens the selected entry: a problem, a call, a rung", Lists),
    key(&["Esc", "Backspace"], Action::Back, "back", "Goes back one step; clears the filter", Lists),
    key(&["j", "Down"], Action::Move(Step::Down(1)), "", "Down", Lists),
    key(&["k", "Up"], Action::Move(Step::Up(1)), "", "Up", Lists),
    key(&["Ctrl-d", "PageDown"], Action::Move(Step::PageDown), "", "A page down", Lists),
    key(&["Ctrl-u", "PageUp"], Action::Move(Step::PageUp), "", "A page up", Lists),
    key(&["g", "Home"], Action::Move(Step::First), "", "To the beginning", Lists),
    key(&["G", "End"], Action::Move(Step::Last), "", "To the end", Lists),
    key(&["h", "Left"], Action::Left, "", "The previous part, or tile; closes a field", Lists),
    key(&["l", "Right"], Action::Right, "", "The next part, or tile; opens a field; the comparison", Lists),
    key(&["/"], Action::Search, "search", "Searches the list or text in front", Lists),
    key(&["n"], Action::SearchOn(true), "", "To the next place with the searched text", Lists),
    key(&["N"], Action::SearchOn(false), "", "To the previous place with the searched text", Lists),
    key(&["&", "F4"], Action::Filter, "filter", "Filters the list: operation=READ latency-above=5ms", Lists),
    key(&["m"], Action::Mark, "", "Marks a packet or a transaction, with a note", Lists),
    key(&["T"], Action::Times, "", "Times: local, UTC, from the start, from the line before", Lists),
    key(&["s"], Action::Sort, "sort", "Sorts by latency, bytes moved, operation, number", Lists),
    key(&["S"], Action::Reverse, "", "Reverses the sort order", Lists),
    key(&["a"], Action::All, "", "Injection: runs all non-destructive; comparison: all", Lists),
    key(&["i"], Action::FromChosen, "", "Injection: sends from the selected call on, or all", Lists),
    key(&["e"], Action::Fault, "", "Injection: selects the next fault for this call", Lists),
    key(&["Space"], Action::Play, "play", "Plays the session from the moment shown; pauses", Replay),
    key(&["."], Action::StepRecord(true), "", "One packet forward", Replay),
    key(&[","], Action::StepRecord(false), "", "One packet back", Replay),
    key(&[">"], Action::StepTransaction(true), "", "Forward to the end of the next transaction", Replay),
    key(&["<"], Action::StepTransaction(false), "", "Back to the end of the previous transaction", Replay),
    key(&["]"], Action::StepFound(true), "", "Forward to the next finding or event", Replay),
    key(&["["], Action::StepFound(false), "", "Back to the previous finding or event", Replay),
    key(
        &["}"],
        Action::StepSlow(true),
        "",
        "Forward to the next slow call (the slowest \
        hundredth)",
        Replay,
    ),
    key(&["{"], Action::StepSlow(false), "", "Back to the previous slow call", Replay),
    key(&["+", "="], Action::Speed(true), "", "Plays faster", Replay),
    key(&["-"], Action::Speed(false), "", "Plays slower", Replay),
    key(&["t"], Action::Jump, "time", "Goes to a time: 5.0, 09:41:06, +3s, or #frame", Replay),
    key(&["M"], Action::MomentOf, "", "Goes to the moment of the selected entry", Replay),
    key(&["f"], Action::Follow, "", "Goes to the end, and follows a live capture", Replay),
    key(&["x"], Action::Save, "", "Saves packets as pcapng: of the selected entry, or all", General),
    key(&["W"], Action::SaveNotes, "", "Saves the notes beside the capture", General),
    key(&["X"], Action::Export, "", "Writes the capture as an HTML page", General),
    key(&["y"], Action::CopyCommand, "copy", "Copies the rdmascope command that shows the same", General),
    key(&["Y"], Action::CopyValue, "", "Copies the selected value: an XID, a field's value", General),
    key(&["w"], Action::Glossary, "words", "Explains a word from the glossary", General),
    key(&[":"], Action::Palette, "", "Lists all actions; type to search", General),
    key(&["?", "F1"], Action::Help, "help", "Shows these keys", General),
    key(&["Ctrl-z"], Action::Suspend, "", "Suspends, as in any shell", General),
    key(&["q", "Ctrl-c"], Action::Quit, "quit", "Quits", General),
];

/// The action of a key, if it has one.
pub fn action(event: KeyEvent) -> Option<Action> {
    let name = name(event)?;
    KEYS.iter().find(|binding| binding.keys.contains(&&*name)).map(|binding| binding.action)
}

/// The name of a key as written in the table.
pub fn name(event: KeyEvent) -> Option<String> {
    let name = match event.code {
        KeyCode::Char(' ') => "Space".to_owned(),
        KeyCode::Char(character) => character.to_string(),
        KeyCode::Enter => "Enter".to_owned(),
        KeyCode::Esc => "Esc".to_owned(),
        KeyCode::Backspace => "Backspace".to_owned(),
        KeyCode::Tab => "Tab".to_owned(),
        KeyCode::BackTab => return Some("Shift-Tab".to_owned()),
        KeyCode::Up => "Up".to_owned(),
        KeyCode::Down => "Down".to_owned(),
        KeyCode::Left => "Left".to_owned(),
        KeyCode::Right => "Right".to_owned(),
        KeyCode::PageUp => "PageUp".to_owned(),
        KeyCode::PageDown => "PageDown".to_owned(),
        KeyCode::Home => "Home".to_owned(),
        KeyCode::End => "End".to_owned(),
        KeyCode::F(number) => format!("F{number}"),
        _ => return None,
    };
    match event.modifiers.contains(KeyModifiers::CONTROL) {
        true => Some(format!("Ctrl-{}", name.to_lowercase())),
        false if event.modifiers.contains(KeyModifiers::ALT) => None,
        false => Some(name),
    }
}

/// The table of docs/tui.md.
pub fn page() -> String {
    let mut page = String::new();
    for group in Group::ALL {
        page.push_str(&format!("### {}\n\n| keys | action |\n|---|---|\n", group.title()));
        for binding in KEYS.iter().filter(|binding| binding.group == group) {
            let keys: Vec<String> = binding.keys.iter().map(|key| format!("`{key}`")).collect();
            page.push_str(&format!("| {} | {} |\n", keys.join(", "), binding.help));
        }
        page.push('\n');
    }
    page.trim_end().to_owned() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_bound_once() {
        let mut keys: Vec<&str> = KEYS.iter().flat_map(|binding| binding.keys.iter().copied()).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    /// The help has at least 80 columns, 22 of which are taken by keys and frame.
    #[test]
    fn help_texts_fit_the_screen() {
        for binding in KEYS {
            assert!(binding.help.len() <= 56, "{}: {}", binding.help, binding.help.len());
        }
    }

    #[test]
    fn key_events_map_to_actions() {
        let of = |code, modifiers| action(KeyEvent::new(code, modifiers));
        assert_eq!(of(KeyCode::Char('q'), KeyModifiers::NONE), Some(Action::Quit));
        assert_eq!(of(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Action::Quit));
        assert_eq!(of(KeyCode::Char('G'), KeyModifiers::SHIFT), Some(Action::Move(Step::Last)));
        assert_eq!(of(KeyCode::BackTab, KeyModifiers::SHIFT), Some(Action::PreviousView));
        assert_eq!(of(KeyCode::Char(' '), KeyModifiers::NONE), Some(Action::Play));
        assert_eq!(of(KeyCode::Char('q'), KeyModifiers::ALT), None);
    }
}
