//! Which rules are asked, by how much they weigh.

use clap::ValueEnum;
use rdmascope_conformance::Level;

/// The least weighty rules that are asked.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Least {
    /// Violations of a MUST, and of what the transport depends on
    Violation,
    /// Also violations of a SHOULD, and likely mistakes
    Warning,
    /// Also what is allowed but costs performance
    Advice,
}

impl Least {
    /// The level of these.
    pub(crate) fn level(self) -> Level {
        match self {
            Least::Violation => Level::Violation,
            Least::Warning => Level::Warning,
            Least::Advice => Level::Advice,
        }
    }
}
