//! The records of a memory-mapped capture, all of which can be held at once.

use crate::capture::{Cut, Error};
use crate::framing::{Framer, Step};
use rdmascope_dissector::record::Record;

/// What is left of a memory-mapped capture. Its records live as long as the mapping, so that another thread can look at
/// some while this one goes on.
pub struct Mapped<'a> {
    pub(crate) name: &'a str,
    pub(crate) framer: &'a mut Framer,
    pub(crate) bytes: &'a [u8],
    pub(crate) at: &'a mut usize,
    pub(crate) over: &'a mut bool,
    pub(crate) cut: &'a mut Option<Cut>,
}

impl<'a> Mapped<'a> {
    /// As [`Capture::next`](crate::Capture::next).
    #[inline(always)] // As `Framer::next`.
    #[allow(clippy::should_implement_trait)] // Errors end it: a caller that goes on past one has to mean it.
    pub fn next(&mut self) -> Result<Option<Record<'a>>, Error> {
        while !*self.over {
            let rest = &self.bytes[*self.at..];
            match self.framer.next(rest) {
                Step::Record(framed) => {
                    *self.at += framed.consumed;
                    return Ok(Some(framed.record(&rest[..framed.consumed])));
                }
                Step::Skip(length) => *self.at += length,
                Step::Need(needed) => {
                    *self.over = true;
                    if !rest.is_empty() {
                        let (needed, available) = (needed as u64, rest.len() as u64);
                        *self.cut = Some(Cut { offset: self.framer.offset(), needed, available });
                    }
                }
                Step::Damaged(damage) => {
                    *self.over = true;
                    return Err(Error::Damaged { name: self.name.to_owned(), damage });
                }
            }
        }
        Ok(None)
    }

    /// As [`Capture::position`](crate::Capture::position).
    pub fn position(&self) -> u64 {
        self.framer.offset()
    }
}
