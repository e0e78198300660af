//! Reads a regular file safely while it may shrink.
//!
//! A capture may be a file of a ring, which its writer truncates and refills. Accessing a mapping
//! beyond the new end would kill the process. So the file is read, and its size is checked after
//! each read.

use core::ops::Range;
use std::fs::File;
use std::io::{self, Read};

/// Reads a file up to its size at the time of opening.
pub(crate) struct Regular {
    file: File,
    size: u64,
    at: u64,
}

/// The file lost bytes while it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("shrank while it was read: it had {had} bytes, now {has}")]
pub(crate) struct Shrank {
    /// Size at the time of opening, in bytes.
    pub(crate) had: u64,
    /// Current size in bytes.
    pub(crate) has: u64,
}

impl Regular {
    /// Reads this range of `file`. The range ends at the end of the file.
    pub(crate) fn new(file: File, bytes: Range<u64>) -> Regular {
        Regular { file, size: bytes.end, at: bytes.start }
    }
}

impl Read for Regular {
    /// Bytes read from a file that shrank during the read may be new contents, so they are
    /// discarded.
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.size.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let wanted = out.len().min(left);
        if wanted == 0 {
            return Ok(0);
        }
        let length = read_at(&self.file, &mut out[..wanted], self.at)?;
        let has = self.file.metadata()?.len();
        if has < self.size {
            return Err(io::Error::other(Shrank { had: self.size, has }));
        }
        self.at += length as u64;
        Ok(length)
    }
}

/// Reads at an offset, independent of the position that the descriptor shares with others.
#[cfg(unix)]
fn read_at(file: &File, out: &mut [u8], at: u64) -> io::Result<usize> {
    std::os::unix::fs::FileExt::read_at(file, out, at)
}

/// Reads at the current position.
#[cfg(not(unix))]
fn read_at(mut file: &File, out: &mut [u8], _: u64) -> io::Result<usize> {
    file.read(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn file(length: usize) -> (tempfile::NamedTempFile, Regular) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&vec![7; length]).unwrap();
        let regular = Regular::new(File::open(file.path()).unwrap(), 0..length as u64);
        (file, regular)
    }

    #[test]
    fn appended_bytes_are_not_read() {
        let (mut file, mut regular) = file(10);
        file.write_all(b"more").unwrap();
        let mut all = Vec::new();
        regular.read_to_end(&mut all).unwrap();
        assert_eq!(all, [7; 10]);
    }

    #[test]
    fn shrinking_file_is_an_error_at_any_position() {
        let (file, mut regular) = file(10);
        let mut out = [0; 4];
        assert_eq!(regular.read(&mut out).unwrap(), 4);
        for has in [8, 2, 0] {
            file.as_file().set_len(has).unwrap();
            let error = regular.read(&mut out).unwrap_err();
            let shrank = error.get_ref().and_then(|error| error.downcast_ref::<Shrank>());
            assert_eq!(shrank, Some(&Shrank { had: 10, has }));
        }
    }
}
