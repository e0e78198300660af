//! Commands that write a line for each of some events, as they come.

use crate::filters::Asked;
use crate::input::{Audience, Input, read};
use crate::output::{Out, Status, complain, tell_of_ending};
use crate::table::{Rows, Table};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use rdmascope_present::column::{Columns, Subject};
use rdmascope_present::text::Style;
use std::io::{self, Write as _};

/// Reads the capture and writes lines of `columns` as its events come: `write` hands the subject of a line to the rows.
pub(crate) fn list<S: Subject>(
    input: &Input,
    (table, columns): (&Table, &'static Columns<S>),
    style: Style,
    out: &mut Out,
    (report_packets, mut asked): (bool, Asked),
    mut write: impl FnMut(&Event<'_>, Time, &mut Rows<S>, &mut Out) -> io::Result<()>,
) -> io::Result<Status> {
    let rows = match table.rows(columns, style) {
        Ok(rows) => rows,
        Err(error) => return complain(&error, out),
    };
    let write = |event: &Event<'_>, start, rows: &mut Rows<S>, out: &mut Out| {
        asked.handle(event);
        write(event, start, rows, out)
    };
    let mut listing = Listing { rows, out, write };
    match read(input, Config { report_packets, ..Config::default() }, &mut listing)? {
        Ok(ending) => {
            listing.rows.end(listing.out)?;
            let status = tell_of_ending(&ending, out)?;
            match asked.check(&ending) {
                Ok(()) => Ok(status),
                Err(error) => complain(&error, out),
            }
        }
        Err(error) => complain(&error, out),
    }
}

/// Lines on their way to the output, below a heading that waits for the first event: what is no capture gets none.
struct Listing<'a, S: Subject, W> {
    rows: Rows<S>,
    out: &'a mut Out,
    write: W,
}

impl<S: Subject, W> Audience for Listing<'_, S, W>
where
    W: FnMut(&Event<'_>, Time, &mut Rows<S>, &mut Out) -> io::Result<()>,
{
    const LISTS: bool = true;

    fn event(&mut self, event: Event<'_>, start: Time) -> io::Result<()> {
        self.rows.head(self.out)?;
        (self.write)(&event, start, &mut self.rows, self.out)
    }

    /// Whoever watches a growing pipe sees all that was read before anybody waits for more.
    fn wait(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
