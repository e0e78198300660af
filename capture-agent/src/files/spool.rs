//! Standard input, kept so that it can be read more than once.

use std::fs::File;
use std::io::{self, Seek};

/// All of standard input, in a file without a name: it is gone when this process is.
#[derive(Debug)]
pub struct Spool(File);

impl Spool {
    /// Reads standard input to its end.
    pub fn new() -> io::Result<Spool> {
        let mut file = tempfile::tempfile()?;
        io::copy(&mut io::stdin().lock(), &mut file)?;
        Ok(Spool(file))
    }

    /// What was read, at its beginning. One reader at a time: all share the place in the file.
    pub(super) fn file(&self) -> io::Result<File> {
        let mut file = self.0.try_clone()?;
        file.rewind()?;
        Ok(file)
    }
}
