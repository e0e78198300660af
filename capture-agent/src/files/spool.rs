//! A copy of standard input that can be read more than once.

use crate::capture::Error;
use crate::pipe::{Interrupt, Pipe};
use crate::temporary;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};

/// The contents of standard input, in a temporary file without a name.
#[derive(Debug)]
pub struct Spool(File);

impl Spool {
    /// Reads standard input to its end, or until `interrupt` ends it.
    pub fn new(interrupt: &Interrupt) -> Result<Spool, Error> {
        let name = || "standard input".to_owned();
        let cannot_keep = |error| Error::spool(name(), error);
        let mut file = temporary::file().map_err(cannot_keep)?;
        let mut offset = 0;
        let cannot_read = |offset| move |error| Error::Read { name: name(), offset, error };
        let mut input = Pipe::new(io::stdin(), interrupt).map_err(cannot_read(0))?;
        let mut piece = vec![0; 64 << 10];
        loop {
            match input.read(&mut piece).map_err(cannot_read(offset))? {
                0 => return Ok(Spool(file)),
                length => {
                    file.write_all(&piece[..length]).map_err(cannot_keep)?;
                    offset += length as u64;
                }
            }
        }
    }

    /// Returns the file, positioned at its start. All readers share that position, so use one at a
    /// time.
    pub(super) fn file(&self) -> io::Result<File> {
        let mut file = self.0.try_clone()?;
        file.rewind()?;
        Ok(file)
    }
}
