//! Commands that write a line for each of some events, as they come.

use crate::filters::Asked;
use crate::input::{Audience, Input, read};
use crate::output::{Format, Out, Output, Status, complain, tell_of_ending};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use rdmascope_present::column::Setting;
use rdmascope_present::text::Style;
use std::io::{self, Write as _};

/// An event on its way to the output.
pub(crate) struct Shown<'a> {
    pub(crate) event: Event<'a>,
    /// When the capture starts.
    pub(crate) start: Time,
    pub(crate) format: Format,
}

impl Shown<'_> {
    /// What the cells of a text table rest on.
    pub(crate) fn setting(&self, style: Style) -> Setting {
        Setting { start: self.start, style }
    }
}

/// Reads the capture and writes its events as they come.
pub(crate) fn list(
    input: &Input,
    output: &Output,
    style: Style,
    out: &mut Out,
    (report_packets, mut asked): (bool, Asked),
    write_heading: impl Fn(Style, &mut Out) -> io::Result<()>,
    mut write: impl FnMut(Shown<'_>, &mut Out) -> io::Result<()>,
) -> io::Result<Status> {
    let write = |shown: Shown<'_>, out: &mut Out| {
        asked.handle(&shown.event);
        write(shown, out)
    };
    let headed = output.format != Format::Text;
    let mut listing = Listing { format: output.format, style, out, headed, write_heading, write };
    match read(input, Config { report_packets, ..Config::default() }, &mut listing)? {
        Ok(ending) => {
            listing.head()?;
            let status = tell_of_ending(&ending, out)?;
            match asked.check(&ending) {
                Ok(()) => Ok(status),
                Err(error) => complain(&error, out),
            }
        }
        Err(error) => complain(&error, out),
    }
}

/// Lines on their way to the output, below a heading that waits for the first: what is no capture gets none.
struct Listing<'a, H, W> {
    format: Format,
    style: Style,
    out: &'a mut Out,
    headed: bool,
    write_heading: H,
    write: W,
}

impl<H: Fn(Style, &mut Out) -> io::Result<()>, W> Listing<'_, H, W> {
    fn head(&mut self) -> io::Result<()> {
        if core::mem::replace(&mut self.headed, true) {
            return Ok(());
        }
        (self.write_heading)(self.style, self.out)
    }
}

impl<H, W> Audience for Listing<'_, H, W>
where
    H: Fn(Style, &mut Out) -> io::Result<()>,
    W: FnMut(Shown<'_>, &mut Out) -> io::Result<()>,
{
    const LISTS: bool = true;

    fn event(&mut self, event: Event<'_>, start: Time) -> io::Result<()> {
        self.head()?;
        (self.write)(Shown { event, start, format: self.format }, self.out)
    }

    /// Whoever watches a growing pipe sees all that was read before anybody waits for more.
    fn wait(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
