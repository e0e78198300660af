//! Commands that write one line per event as events arrive.

use crate::filters::RequestedScope;
use crate::input::{Audience, Input, read};
use crate::output::{Failure, Out, Status, report_ending};
use crate::table::{Rows, Table};
use rdmascope_analysis::observer::Observer;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use rdmascope_present::column::{Columns, Subject};
use rdmascope_present::text::Style;
use std::io::{self, Write as _};

/// Reads the capture and writes lines of `columns` as events arrive. The capture must have `scope`.
/// `write` passes the subject of a line to the rows. It is called with `None` after the last event.
pub(crate) fn list<S: Subject>(
    input: &Input,
    (table, columns): (&Table, &'static Columns<S>),
    needs: Config,
    mut scope: RequestedScope,
    style: Style,
    out: &mut Out,
    mut write: impl FnMut(Option<&Event<'_>>, Time, &mut Rows<S>, &mut Out) -> io::Result<()>,
) -> Result<Status, Failure> {
    let rows = table.rows(columns, style)?;
    let write = |event: Option<&Event<'_>>, start, rows: &mut Rows<S>, out: &mut Out| {
        if let Some(event) = event {
            scope.handle(event);
        }
        write(event, start, rows, out)
    };
    let mut listing = Listing { rows, out, start: Time::default(), needs, write };
    let ending = read(input, &mut listing)?;
    (listing.write)(None, listing.start, &mut listing.rows, listing.out)?;
    listing.rows.end(listing.out)?;
    let status = report_ending(&ending, out)?;
    scope.check(&ending)?;
    Ok(status)
}

/// Writes lines below a heading. The heading waits for the first event, so an input that is no
/// capture gets none.
struct Listing<'a, S: Subject, W> {
    rows: Rows<S>,
    out: &'a mut Out,
    /// The time of the first record.
    start: Time,
    needs: Config,
    write: W,
}

impl<S: Subject, W> Audience for Listing<'_, S, W>
where
    W: FnMut(Option<&Event<'_>>, Time, &mut Rows<S>, &mut Out) -> io::Result<()>,
{
    fn lists(&self) -> bool {
        true
    }

    fn needs(&self) -> Config {
        self.needs
    }

    fn event(&mut self, event: Event<'_>, start: Time) -> io::Result<()> {
        self.rows.head(self.out)?;
        self.start = start;
        (self.write)(Some(&event), start, &mut self.rows, self.out)
    }

    /// Flushes before a read that blocks, so that a reader of a growing pipe sees all lines so far.
    fn wait(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
