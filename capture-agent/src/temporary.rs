//! Temporary files without a name.
//!
//! A confined process (`confine`) cannot create any. It creates those that it may need in advance
//! and takes them here.

use std::fs::File;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Files created in advance. An error is reported when the file is taken.
static PREPARED: Mutex<Vec<io::Result<File>>> = Mutex::new(Vec::new());

/// Creates `count` files, which the next calls of [`file()`] return.
pub fn prepare(count: usize) {
    let files = (0..count).map(|_| tempfile::tempfile());
    PREPARED.lock().unwrap_or_else(PoisonError::into_inner).extend(files);
}

/// Returns a new file for reading and writing, in the folder that `TMPDIR` names. It disappears
/// when it is closed.
pub fn file() -> io::Result<File> {
    let prepared = PREPARED.lock().unwrap_or_else(PoisonError::into_inner).pop();
    prepared.unwrap_or_else(tempfile::tempfile)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn each_file_is_new_and_empty() {
        prepare(2);
        for _ in 0..3 {
            let mut file = file().unwrap();
            assert_eq!(file.metadata().unwrap().len(), 0);
            file.write_all(b"text").unwrap();
        }
    }
}
