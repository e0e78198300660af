//! Prints the findings of a capture, with their rules and evidence:
//! `cargo run -p rdmascope-conformance --example findings -- samples/nfs4.1-backchannel-recall.pcap`

use rdmascope_capture_agent::{Capture, Error};
use rdmascope_conformance::{Finding, Judge};
use rdmascope_dissector::engine::Engine;
use std::path::Path;

fn main() -> Result<(), Error> {
    for path in std::env::args_os().skip(1) {
        findings(path.as_ref(), &mut |line| println!("{line}"))?;
    }
    Ok(())
}

/// Passes a line for each finding to `print`.
pub(crate) fn findings(path: &Path, print: &mut dyn FnMut(String)) -> Result<(), Error> {
    let mut capture = Capture::open(path)?;
    // The engine reports the observations on which rules rest.
    let mut engine = Engine::new(Judge::needs());
    let mut judge = Judge::default();
    let mut report = |finding: &Finding| {
        let Some(rule) = finding.rule else { return };
        let Finding { verdict, frames, message, .. } = finding;
        print(format!("{} {}, {verdict}, frames {frames:?}: {message}", rule.level, rule.id));
    };
    while let Some(record) = capture.next()? {
        engine.handle(&record, &mut |event| judge.handle(&event, &mut report));
    }
    // Transactions that are open at the end, and the findings that waited for more packets.
    engine.finish(&mut |event| judge.handle(&event, &mut report));
    Ok(())
}
