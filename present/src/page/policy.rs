//! The text section about the outcome of a policy.

use crate::fold::folded;
use crate::screen::Screen;
use rdmascope_analysis::policy::Policed;
use rdmascope_analysis::units::{Counted, Number, Plain};
use std::io::{self, Write};

/// Writes the name and the outcome of the policy, and a line for each entry that fails.
pub fn write(policed: &Policed, screen: Screen, out: &mut dyn Write) -> io::Result<()> {
    let entries = policed.entries.len() as u64;
    let entries = if entries == 1 { "1 entry".to_owned() } else { format!("{} entries", Number(entries)) };
    let outcome = match policed.failures() {
        0 => "met".to_owned(),
        failures => screen.style.red(Counted(failures, "failure")).to_string(),
    };
    let mut line = |text: String| match screen.style.width() {
        Some(width) => writeln!(out, "{}", folded(&text, width, Some(2))),
        None => writeln!(out, "{text}"),
    };
    line(format!("Policy {} ({entries}): {outcome}.", Plain(&policed.file)))?;
    let failures = policed.entries.iter().filter(|entry| entry.fails());
    failures.into_iter().try_for_each(|entry| line(format!("  {}", Plain(policed.named(entry)))))
}
