//! The columns of a scenario's line. They define the JSON and its table in docs/peer.md.

use super::Ran;
use rdmascope_peer::scenario::{Alive, Verdict};
use rdmascope_present::column::Read::{Shown, Text, Texts, Word};
use rdmascope_present::column::{Column, Columns, Role, Subject, Words, explained, lend, word};

/// The names of the verdicts, as in `Verdict::name`.
const VERDICTS: Words = &[
    word("conforms"),
    word("violates"),
    word("tolerated"),
    word("lost-connection"),
    word("no-answer"),
    word("not-applicable"),
];

/// The words of `Alive::name`.
const ALIVE: Words = &[
    word("on-this-connection"),
    word("on-a-new-connection"),
    word("gone"),
    explained("not-asked", "the scenario did not reach its end"),
];

impl Subject for Ran {
    type Of<'a> = &'a Ran;
}

/// A scenario that was run or withheld.
pub(in crate::peer) static SCENARIO: Columns<Ran> = {
    type C = Column<Ran>;
    Columns {
        name: "peer_scenario",
        role: Role::Line,
        columns: &[
            C::new(
                "target",
                Text(|line, see| lend(line.target.as_deref(), see)),
                "The address and port of the server; for `serve` the address of the client. It is null if no client connected.",
            )
            .or_null(),
            C::new("scenario", Text(|line, see| see(&line.scenario.name)), "The name of the scenario."),
            C::new("title", Text(|line, see| see(&line.scenario.title)), "The title of the scenario."),
            C::new(
                "section",
                Text(|line, see| see(&line.scenario.section())),
                "The document and the section that it tests: `rfc8166/4.5`.",
            ),
            C::new(
                "level",
                Shown(|line, see| see(&line.scenario.requirement.level)),
                "The requirement level: `MUST`, `SHOULD` or `MAY`.",
            ),
            C::new(
                "requirement",
                Text(|line, see| see(&line.scenario.requirement.text)),
                "The requirement in plain words.",
            ),
            C::new(
                "verdict",
                Word(VERDICTS, |line| line.verdict().map(Verdict::name)),
                "The verdict. It is null if the scenario was withheld as destructive, or not run. \
                 [scenarios.md](scenarios.md) explains the words.",
            )
            .or_null(),
            C::new(
                "reason",
                Text(|line, see| lend(line.reason(), see)),
                "Why the verdict differs from the reactions, or why the scenario does not apply.",
            )
            .or_null(),
            C::new(
                "alive",
                Word(ALIVE, |line| line.alive().map(Alive::name)),
                "Whether the remote side answered a call afterwards, and on which connection. It is null if the scenario was not run.",
            )
            .or_null(),
            C::new(
                "sent",
                Texts(|line, see| line.sent().iter().for_each(|text| see(text))),
                "The messages and packets that were sent.",
            ),
            C::new(
                "observed",
                Texts(|line, see| line.observed().iter().for_each(|text| see(text))),
                "The observed reactions.",
            ),
            C::new(
                "allowed",
                Texts(|line, see| line.allowed().iter().for_each(|text| see(text))),
                "The reactions that the requirement allows.",
            ),
            C::new(
                "wrong",
                Texts(|line, see| line.wrong().iter().for_each(|text| see(text))),
                "The reactions that the requirement forbids.",
            ),
        ],
    }
};
