//! What takes `unsafe` to read files. `live/ring.rs` has the rest of it in this crate.

use memmap2::Mmap;
use std::fs::File;
use std::io;

/// The whole of a temporary file that has no name, as memory.
pub(crate) fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the mapping is private and read-only, and what is read from it is taken as untrusted bytes, copied or
    // bounds-checked before use, never as anything with an invariant. The file has no name and this process alone has it
    // open, so nobody makes it shorter: reads behind its end would fault (SIGBUS).
    unsafe { Mmap::map(file) }
}
