//! Memory mapping of temporary files, which is `unsafe`.

use memmap2::Mmap;
use std::fs::File;
use std::io;

/// Maps a whole temporary file that has no name.
pub(crate) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the mapping is private and read-only. Its bytes are untrusted: they are copied or
    // bounds-checked before use and never assumed to satisfy an invariant. The file has no name and
    // only this process has it open, so it cannot be truncated, which would make reads beyond its
    // end fault (SIGBUS).
    unsafe { Mmap::map(file) }
}
