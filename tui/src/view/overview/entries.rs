//! The entries of the overview, and the places that Enter opens for them.

use super::super::{Selection, Target};
use crate::analysis::PacketSet;
use crate::overview::{Overview, WAITING};
use crate::rows::Sort;
use crate::show::Show;
use crate::state::State;
use rdmascope_analysis::names::{Failure, Label};
use rdmascope_analysis::report::{ErrorKey, Harm, Statement, Subject};
use rdmascope_conformance::{Level, Verdict};

/// The number of tiles. They are the last entries.
pub(super) const TILES: usize = 6;

/// An entry that can be selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The statement with this index.
    Problem(usize),
    /// The operation with this index.
    Operation(usize),
    /// Of files, clients or servers, the one with this index.
    Busy(usize, usize),
    /// The tile with this index.
    Tile(usize),
}

/// All entries, in the order in which the selection moves.
pub(super) fn entries(state: &State) -> Vec<Entry> {
    let overview: &Overview = &state.session.overview;
    let busiest = overview.busiest.iter().enumerate();
    let busiest = busiest.flat_map(|(kind, busy)| (0..busy.len()).map(move |index| Entry::Busy(kind, index)));
    (0..overview.statements.len())
        .map(Entry::Problem)
        .chain((0..overview.operations.len()).map(Entry::Operation))
        .chain(busiest)
        .chain((0..TILES).map(Entry::Tile))
        .collect()
}

/// The number of statements in the verdict: those about harm that fit in three lines, and the worst
/// in any case.
pub(super) fn leading(state: &State, width: u16) -> usize {
    const LINES: usize = 3;
    let room = usize::from(width).saturating_sub(3).max(20);
    let mut lines = 0;
    let fits = |(index, statement): &(usize, &Statement)| {
        lines += super::wrapped(&super::sentence(statement), room).len();
        statement.harm < Harm::Note && (lines <= LINES || *index == 0)
    };
    state.session.overview.statements.iter().enumerate().take_while(fits).count()
}

impl Entry {
    /// The entry as keys use it.
    pub(super) fn selection(self, state: &State) -> Selection {
        let overview: &Overview = &state.session.overview;
        let command = |subcommand: &str| format!("rdmascope {subcommand} {}", state.files);
        let analyze = Selection { command: command("analyze"), ..Selection::default() };
        match self {
            Entry::Problem(index) => match overview.statements.get(index) {
                Some(statement) => of_statement(state, statement),
                None => analyze,
            },
            Entry::Operation(index) => {
                let operation = overview.operations.get(index);
                let target = operation.map(|operation| listed(operation.label, operation.backward));
                Selection { target, value: operation.map(|operation| operation.name.clone()), ..analyze }
            }
            Entry::Busy(kind, index) => {
                let busy = overview.busiest.get(kind).and_then(|busy| busy.get(index));
                let name = busy.map(|busy| String::from_utf8_lossy(&busy.name).into_owned());
                let filter = busy.zip(name.as_ref()).map(|(busy, name)| match kind {
                    0 => super::of_file(&busy.name),
                    1 => format!("client={name}"),
                    _ => format!("server={name}"),
                });
                Selection { target: filter.map(Target::Filtered), value: name, ..analyze }
            }
            Entry::Tile(index) => {
                let problem = |name| {
                    let is_it = |statement: &&Statement| statement.subject == Subject::Problem(name);
                    let statement = overview.statements.iter().find(is_it);
                    statement.map_or(Target::View(Show::Report), |statement| target(state, statement))
                };
                let target = match index {
                    0 if overview.tiles.lost > 0 => lost_service(state),
                    0 => Target::View(Show::Connections),
                    1 => Target::Filtered(String::new()),
                    2 => Target::Filtered("status=error".to_owned()),
                    3 => problem("retransmission"),
                    4 => problem("dropped-packet"),
                    _ => Target::View(Show::Findings),
                };
                Selection { target: Some(target), ..analyze }
            }
        }
    }
}

/// The first loss of service, or all events.
fn lost_service(state: &State) -> Target {
    let statement = state.session.overview.statements.iter().find(|it| it.harm == Harm::ServiceLost);
    statement.map_or(Target::View(Show::Events), |statement| target(state, statement))
}

fn of_statement(state: &State, statement: &Statement) -> Selection {
    let files = &state.files;
    let command = match (statement.is_of_events, statement.frame) {
        (true, _) => format!("rdmascope events {files}"),
        (false, Some(frame)) => format!("rdmascope show {files} --frame {frame}"),
        (false, None) => format!("rdmascope analyze {files}"),
    };
    Selection {
        command,
        value: Some(statement.text.clone()),
        record: statement.frame,
        packets: PacketSet::All,
        target: Some(target(state, statement)),
    }
}

fn target(state: &State, statement: &Statement) -> Target {
    let frame = || statement.frame.map_or(Target::View(Show::Report), Target::Frame);
    match statement.subject {
        Subject::Event(connection, kind, time) => {
            let events = state.session.events.iter();
            let place = events
                .map(|event| (event.connection, event.kind, event.time))
                .position(|event| event == (connection, kind, time));
            place.map_or(Target::View(Show::Events), Target::Event)
        }
        Subject::Events => Target::View(Show::Events),
        Subject::Failure(key) => Target::Filtered(failed(key)),
        Subject::Failures => Target::Filtered("status=error".to_owned()),
        Subject::Violations => {
            let is_violation = |found: &crate::session::Found| {
                found.allowance.is_none()
                    && found.finding.verdict == Verdict::Certain
                    && found.finding.rule.is_none_or(|rule| rule.level == Level::Violation)
            };
            let place = state.session.findings.iter().position(is_violation);
            place.map_or(Target::View(Show::Findings), Target::Finding)
        }
        Subject::Problem(name @ ("no-reply" | "no-call" | "cut-off" | "transport-error")) => {
            Target::Filtered(format!("outcome={name}"))
        }
        Subject::Problem("hidden-reply" | "one-direction") => Target::Filtered("outcome=no-reply".to_owned()),
        Subject::Problem("one-direction-replies") => Target::Filtered("outcome=no-call".to_owned()),
        Subject::Problem(WAITING) => Target::View(Show::Connections),
        Subject::Problem(_) => frame(),
    }
}

/// The filter of the replies with this error.
fn failed(key: ErrorKey) -> String {
    match (key.label, key.failure) {
        (Label::Named(name), Failure::Status(status)) => format!("operation={name} status={status}"),
        (Label::Named(name), _) => format!("operation={name} status=error"),
        _ => "status=error".to_owned(),
    }
}

/// The transactions of an operation, the slowest first.
fn listed(label: Label, backward: bool) -> Target {
    let direction = if backward { " direction=backward" } else { "" };
    let filter = match label {
        Label::Named(name) => format!("operation={name}{direction}"),
        _ => direction.trim_start().to_owned(),
    };
    Target::Listed(filter, Sort::Latency)
}
