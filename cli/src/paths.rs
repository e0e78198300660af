//! The paths of files in a capture, for commands that show or choose transactions by them.

use crate::input::{Input, listen};
use rdmascope_analysis::filter::TransactionFilter;
use rdmascope_analysis::paths::Paths;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use std::io;
use std::path::Path;

/// What [`follow`] says, if somebody asks for files; else nothing.
pub(crate) fn for_filter(input: &Input, filter: &TransactionFilter) -> Paths {
    if filter.files.is_empty() { Paths::new() } else { follow(input) }
}

/// What the whole capture tells of paths, so that what it tells late counts from the beginning. What can be read only once, as a pipe, tells nothing
/// yet: there a path is known from where it was shown on.
pub(crate) fn follow(input: &Input) -> Paths {
    let mut paths = Paths::new();
    let is_kept = |path: &Path| match path == Path::new("-") {
        true => input.spool.is_some(),
        false => path.metadata().is_ok_and(|metadata| metadata.is_file() || metadata.is_dir()),
    };
    if !input.files.iter().all(|path| is_kept(path)) {
        return paths;
    }
    // What is wrong with the capture is said by whoever reads it next.
    let _: io::Result<_> = listen(input, Config::default(), |event, _| {
        if let Event::Transaction(transaction) = event {
            paths.take(transaction);
        }
        Ok(())
    });
    paths.rewind();
    paths
}
