//! The paths of files in a capture, for commands that show paths or filter by them.

use crate::input::{Input, listen};
use crate::output::Failure;
use rdmascope_analysis::filter::TransactionFilter;
use rdmascope_analysis::paths::Paths;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use std::path::Path;

/// As [`follow`] if the filter uses paths, else empty.
pub(crate) fn for_filter(input: &Input, filter: &TransactionFilter) -> Paths {
    if filter.files.is_empty() { Paths::new() } else { follow(input) }
}

/// Collects the paths from the whole capture, so that a path seen late applies from the beginning.
/// For input that can be read only once, such as a pipe, the result is empty, and a path is known
/// only from where it was seen.
pub(crate) fn follow(input: &Input) -> Paths {
    let mut paths = Paths::new();
    let is_kept = |path: &Path| match path == Path::new("-") {
        true => input.spool.is_some(),
        false => path.metadata().is_ok_and(|metadata| metadata.is_file() || metadata.is_dir()),
    };
    if !input.files.iter().all(|path| is_kept(path)) {
        return paths;
    }
    // The next reading of the capture reports errors.
    let _: Result<_, Failure> = listen(input, Config::default(), |event, _| {
        if let Event::Transaction(transaction) = event {
            paths.take(transaction);
        }
        Ok(())
    });
    paths.rewind();
    paths
}
