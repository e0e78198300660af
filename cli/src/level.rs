//! The minimum level of rules.

use clap::ValueEnum;
use rdmascope_conformance::Level;

/// The minimum level of the rules to check.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MinimumLevel {
    /// Violations of a MUST, and of requirements that the transport depends on
    Violation,
    /// Also violations of a SHOULD, and likely mistakes
    Warning,
    /// Also behavior that is allowed but costs performance
    Advice,
}

impl MinimumLevel {
    /// The level of the judge.
    pub(crate) fn level(self) -> Level {
        match self {
            MinimumLevel::Violation => Level::Violation,
            MinimumLevel::Warning => Level::Warning,
            MinimumLevel::Advice => Level::Advice,
        }
    }
}
