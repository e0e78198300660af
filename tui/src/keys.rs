//! What keys do: one table, from which the help, the line of hints, the palette and docs/tui.md come.

use self::Group::{General, Lists, Replay, Views};
use crate::show::{Show, Step};
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// What a key does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Shows one of the views.
    View(Show),
    /// The next view, or the one before.
    NextView,
    /// The view before.
    PreviousView,
    /// Moves in the list or the text.
    Move(Step),
    /// Goes to the other pane of the view.
    OtherPane,
    /// Left: the part before, or closes a field.
    Left,
    /// Right: the next part, or opens a field.
    Right,
    /// Opens what is chosen.
    Open,
    /// Goes back to where this was opened.
    Back,
    /// Asks for a filter.
    Filter,
    /// Sorts by something else.
    Sort,
    /// Sorts the other way round.
    Reverse,
    /// Runs all scenarios that are not destructive, or none of those that wait.
    All,
    /// Plays the session, or pauses.
    Play,
    /// Goes on, or back, by one record.
    StepRecord(bool),
    /// Goes on, or back, to the end of a transaction.
    StepTransaction(bool),
    /// Goes on, or back, to the next finding or event.
    StepFound(bool),
    /// Goes on, or back, to the next slow call.
    StepSlow(bool),
    /// Plays faster, or slower.
    Speed(bool),
    /// Asks for a time to go to.
    Jump,
    /// Goes to the moment of what is chosen.
    MomentOf,
    /// Goes to the end; of what goes on, follows it.
    Follow,
    /// Saves packets.
    Save,
    /// Writes the capture as a page.
    Export,
    /// Sends the session from the chosen transaction on, or all of it.
    FromChosen,
    /// Puts a fault into the chosen transaction of the session that is sent.
    Fault,
    /// Copies the command that shows the same to the clipboard.
    CopyCommand,
    /// Copies the value that is chosen.
    CopyValue,
    /// Explains a term.
    Glossary,
    /// Lists all actions.
    Palette,
    /// Shows the keys.
    Help,
    /// Stops the process, as a shell's job.
    Suspend,
    /// Leaves.
    Quit,
}

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Binding {
    /// The keys, as they are written.
    pub keys: &'static [&'static str],
    /// What they do.
    pub action: Action,
    /// In words.
    pub help: &'static str,
    /// A word for the line of hints, if it stands there.
    pub hint: &'static str,
    /// Under which heading.
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
    /// All else.
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

/// All keys. No action is irreversible without being asked about.
pub static KEYS: &[Binding] = &[
    view(&["1"], Show::Report, "The report: what it is, and what went wrong"),
    view(&["2"], Show::Connections, "Connections, as they are at the moment"),
    view(&["3"], Show::Transactions, "Transactions"),
    view(&["4"], Show::Exchange, "How the chosen transaction was exchanged"),
    view(&["5"], Show::Bytes, "Fields and bytes of its messages and frames"),
    view(&["6"], Show::Events, "Events"),
    view(&["7"], Show::Findings, "Findings, and what the rules say"),
    view(&["8"], Show::Charts, "Charts: latency, throughput, credits, retransmissions"),
    view(&["9"], Show::Inject, "Injection: scenarios for a live server"),
    key(&["Tab"], Action::NextView, "view", "The next view", Views),
    key(&["Shift-Tab"], Action::PreviousView, "", "The view before", Views),
    key(&["p"], Action::OtherPane, "", "The other pane of the view", Views),
    key(&["Enter"], Action::Open, "open", "Opens what is chosen: a call, a rung, evidence", Lists),
    key(&["Esc", "Backspace"], Action::Back, "back", "Goes back; takes the filter away", Lists),
    key(&["j", "Down"], Action::Move(Step::Down(1)), "", "Down", Lists),
    key(&["k", "Up"], Action::Move(Step::Up(1)), "", "Up", Lists),
    key(&["Ctrl-d", "PageDown"], Action::Move(Step::PageDown), "", "A page down", Lists),
    key(&["Ctrl-u", "PageUp"], Action::Move(Step::PageUp), "", "A page up", Lists),
    key(&["g", "Home"], Action::Move(Step::First), "", "To the beginning", Lists),
    key(&["G", "End"], Action::Move(Step::Last), "", "To the end", Lists),
    key(&["h", "Left"], Action::Left, "", "The part before; closes a field", Lists),
    key(&["l", "Right"], Action::Right, "", "The next part; opens a field; the comparison", Lists),
    key(&["/"], Action::Filter, "filter", "Filters transactions: operation=READ latency-above=5ms", Lists),
    key(&["s"], Action::Sort, "sort", "Sorts them by latency, bytes moved, operation, number", Lists),
    key(&["S"], Action::Reverse, "", "Sorts them the other way round", Lists),
    key(&["a"], Action::All, "", "Injection: runs what is not destructive; comparison: all", Lists),
    key(&["i"], Action::FromChosen, "", "Injection: sends from the chosen call on, or all", Lists),
    key(&["e"], Action::Fault, "", "Injection: a fault in the chosen call; the next one", Lists),
    key(&["Space"], Action::Play, "play", "Plays the session from the moment shown; pauses", Replay),
    key(&["."], Action::StepRecord(true), "", "One packet on", Replay),
    key(&[","], Action::StepRecord(false), "", "One packet back", Replay),
    key(&[">"], Action::StepTransaction(true), "", "On to the end of the next transaction", Replay),
    key(&["<"], Action::StepTransaction(false), "", "Back to the end of the transaction before", Replay),
    key(&["]"], Action::StepFound(true), "", "On to the next finding or event", Replay),
    key(&["["], Action::StepFound(false), "", "Back to the finding or event before", Replay),
    key(&["}"], Action::StepSlow(true), "", "On to the next slow call (the slowest hundredth)", Replay),
    key(&["{"], Action::StepSlow(false), "", "Back to the slow call before", Replay),
    key(&["+", "="], Action::Speed(true), "", "Plays faster", Replay),
    key(&["-"], Action::Speed(false), "", "Plays slower", Replay),
    key(&["t"], Action::Jump, "time", "Goes to a time: seconds, RFC 3339, or #frame", Replay),
    key(&["m"], Action::MomentOf, "", "Goes to the moment of what is chosen", Replay),
    key(&["f"], Action::Follow, "", "Goes to the end, and follows what goes on", Replay),
    key(&["x"], Action::Save, "", "Saves packets as pcapng: of what is chosen, or all", General),
    key(&["X"], Action::Export, "", "Writes the capture as an HTML page", General),
    key(&["y"], Action::CopyCommand, "copy", "Copies the rdmascope command that shows the same", General),
    key(&["Y"], Action::CopyValue, "", "Copies what is chosen: an XID, a field's value", General),
    key(&["w"], Action::Glossary, "words", "Explains a word: looks it up in the glossary", General),
    key(&[":"], Action::Palette, "", "Lists all actions, chosen by their words", General),
    key(&["?", "F1"], Action::Help, "help", "Shows these keys", General),
    key(&["Ctrl-z"], Action::Suspend, "", "Suspends, as in any shell", General),
    key(&["q", "Ctrl-c"], Action::Quit, "quit", "Leaves", General),
];

/// What a key does, if it does something.
pub fn action(event: KeyEvent) -> Option<Action> {
    let name = name(event)?;
    KEYS.iter().find(|binding| binding.keys.contains(&&*name)).map(|binding| binding.action)
}

/// A key as it is written in the table.
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
        page.push_str(&format!("### {}\n\n| keys | what they do |\n|---|---|\n", group.title()));
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
    fn no_key_does_two_things() {
        let mut keys: Vec<&str> = KEYS.iter().flat_map(|binding| binding.keys.iter().copied()).collect();
        let count = keys.len();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), count);
    }

    /// The help has 80 columns at least, of which 22 are keys and frame.
    #[test]
    fn what_keys_do_fits() {
        for binding in KEYS {
            assert!(binding.help.len() <= 56, "{}: {}", binding.help, binding.help.len());
        }
    }

    #[test]
    fn keys_are_named_as_they_are_written() {
        let of = |code, modifiers| action(KeyEvent::new(code, modifiers));
        assert_eq!(of(KeyCode::Char('q'), KeyModifiers::NONE), Some(Action::Quit));
        assert_eq!(of(KeyCode::Char('c'), KeyModifiers::CONTROL), Some(Action::Quit));
        assert_eq!(of(KeyCode::Char('G'), KeyModifiers::SHIFT), Some(Action::Move(Step::Last)));
        assert_eq!(of(KeyCode::BackTab, KeyModifiers::SHIFT), Some(Action::PreviousView));
        assert_eq!(of(KeyCode::Char(' '), KeyModifiers::NONE), Some(Action::Play));
        assert_eq!(of(KeyCode::Char('q'), KeyModifiers::ALT), None);
    }
}
