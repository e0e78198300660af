//! Files that appear under their names once they are whole.

use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Output is gathered to this many bytes before it is handed on.
const BUFFER: usize = 128 << 10;

/// A file that is being written.
pub(super) enum OutputFile {
    /// Not yet there: it takes its name, and the place of a file that had it, with [`OutputFile::finish`].
    New { file: BufWriter<NamedTempFile>, path: PathBuf },
    /// A FIFO or a device, which keeps its name and takes the bytes as they come.
    Special(BufWriter<File>),
}

impl OutputFile {
    /// Begins a file at `path`, which may not be one of the files `read`.
    pub(super) fn create(path: &Path, read: &[PathBuf]) -> Result<OutputFile> {
        let cannot = || format!("{}: cannot be written", path.display());
        let Ok(place) = path.canonicalize() else {
            return OutputFile::at(path).with_context(cannot);
        };
        if read.iter().any(|read| read.canonicalize().is_ok_and(|read| read == place)) {
            bail!("{}: is read; choose another name for --output", path.display());
        }
        if place.is_file() {
            return OutputFile::at(&place).with_context(cannot);
        }
        let special = File::options().write(true).open(&place).with_context(cannot)?;
        Ok(OutputFile::Special(BufWriter::with_capacity(BUFFER, special)))
    }

    fn at(path: &Path) -> io::Result<OutputFile> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut builder = tempfile::Builder::new();
        builder.prefix(".rdmascope-");
        // As any new file, but for what the process masks.
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let file = builder.tempfile_in(folder.unwrap_or(Path::new(".")))?;
        Ok(OutputFile::New { file: BufWriter::with_capacity(BUFFER, file), path: path.to_owned() })
    }

    /// Ends the file: all of it is there now.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        let OutputFile::New { file, path } = self else { return Ok(()) };
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        file.persist(path)?;
        Ok(())
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            OutputFile::New { file, .. } => file.write(bytes),
            OutputFile::Special(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            OutputFile::New { file, .. } => file.flush(),
            OutputFile::Special(file) => file.flush(),
        }
    }
}
