//! Commands that write a line for each of some events, as they come.

use crate::filters::Asked;
use crate::input::{Audience, Input, read};
use crate::output::{Out, Status, complain, tell_of_ending};
use crate::table::{Rows, Table};
use rdmascope_analysis::observer::Observer;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use rdmascope_present::column::{Columns, Subject};
use rdmascope_present::text::Style;
use std::io::{self, Write as _};

/// What is asked of the engine, and what of the capture is asked for.
pub(crate) struct Wanted {
    /// The engine's configuration.
    pub(crate) config: Config,
    /// The numbers and the time that filters name.
    pub(crate) asked: Asked,
}

/// Reads the capture and writes lines of `columns` as its events come: `write` hands the subject of a line to the rows. It is called with `None` once
/// there is no further event.
pub(crate) fn list<S: Subject>(
    input: &Input,
    (table, columns): (&Table, &'static Columns<S>),
    style: Style,
    out: &mut Out,
    Wanted { config, mut asked }: Wanted,
    mut write: impl FnMut(Option<&Event<'_>>, Time, &mut Rows<S>, &mut Out) -> io::Result<()>,
) -> io::Result<Status> {
    let rows = match table.rows(columns, style) {
        Ok(rows) => rows,
        Err(error) => return complain(&error, out),
    };
    let write = |event: Option<&Event<'_>>, start, rows: &mut Rows<S>, out: &mut Out| {
        if let Some(event) = event {
            asked.handle(event);
        }
        write(event, start, rows, out)
    };
    let mut listing = Listing { rows, out, start: Time::default(), needs: config, write };
    match read(input, &mut listing)? {
        Ok(ending) => {
            (listing.write)(None, listing.start, &mut listing.rows, listing.out)?;
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
    /// When the capture starts.
    start: Time,
    needs: Config,
    write: W,
}

impl<S: Subject, W> Audience for Listing<'_, S, W>
where
    W: FnMut(Option<&Event<'_>>, Time, &mut Rows<S>, &mut Out) -> io::Result<()>,
{
    const LISTS: bool = true;

    fn needs(&self) -> Config {
        self.needs
    }

    fn event(&mut self, event: Event<'_>, start: Time) -> io::Result<()> {
        self.rows.head(self.out)?;
        self.start = start;
        (self.write)(Some(&event), start, &mut self.rows, self.out)
    }

    /// Whoever watches a growing pipe sees all that was read before anybody waits for more.
    fn wait(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
