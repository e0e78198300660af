//! Output files and folders that appear under their names when complete.

mod staging;

pub(crate) use staging::Staging;

use anyhow::{Context, Result, bail, ensure};
use rdmascope_capture_agent::new_file;
use std::fs::{self, File, Metadata};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::NamedTempFile;

/// Size of the output buffer, in bytes.
const BUFFER: usize = 128 << 10;

/// Prefix of unfinished files and folders. Parquet readers ignore names with a leading dot.
const PREFIX: &str = ".rdmascope-";

/// Paths that were started, in the order of creation. Paths that were renamed or removed are
/// harmless here: no other file gets such a name, and a folder is removed only if empty.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// While this lock is held, a signal removes nothing.
fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes unfinished files, for a process that ends without returning. While the result is held,
/// no file is started, so nothing appears in a folder during its removal or afterwards.
pub(crate) fn remove_unfinished() -> impl Sized {
    let mut unfinished = unfinished();
    for path in unfinished.drain(..).rev() {
        let is_ours = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        // There is no way left to report an error.
        let _ = match path.is_dir() {
            true if is_ours => fs::remove_dir_all(&path),
            true => fs::remove_dir(&path),
            false if is_ours => fs::remove_file(&path),
            false => Ok(()),
        };
    }
    unfinished
}

/// Creates something and registers it, without a signal in between.
fn begin<T>(make: impl FnOnce() -> io::Result<T>, path: impl FnOnce(&T) -> PathBuf) -> io::Result<T> {
    let mut unfinished = unfinished();
    let made = make()?;
    unfinished.push(path(&made));
    Ok(made)
}

/// A file being written.
pub(crate) enum OutputFile {
    /// A temporary file. [`OutputFile::finish`] gives it its name, and replaces an existing file.
    New { file: BufWriter<NamedTempFile>, path: PathBuf },
    /// A FIFO, a device, or a descriptor of this process. It is written directly.
    Special(BufWriter<File>),
}

impl OutputFile {
    /// Starts a file at `path`, which may not be one of the files `read`. `option` is the option
    /// that named it.
    ///
    /// Only a regular file is replaced. The new file has its mode and, if permitted, its owner.
    pub(crate) fn create(path: &Path, read: &[PathBuf], option: &str) -> Result<OutputFile> {
        let cannot = || format!("{}: cannot be written", path.display());
        let before = match path.metadata() {
            Ok(before) => before,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if path.is_symlink() {
                    bail!("{}: cannot be written: it is a link to a missing file", path.display());
                }
                return OutputFile::at(path, None).with_context(cannot);
            }
            Err(error) => return Err(error).with_context(cannot),
        };
        ensure!(
            !(path.is_symlink() && new_file::is_in_public_folder(path)),
            "{}: cannot be written: {}",
            path.display(),
            new_file::PUBLIC_LINK
        );
        if !before.is_file() || is_descriptor(path) {
            let special = File::options().append(true).open(path).with_context(cannot)?;
            return Ok(OutputFile::Special(BufWriter::with_capacity(BUFFER, special)));
        }
        let canonical = path.canonicalize().with_context(cannot)?;
        if read.iter().any(|read| read.canonicalize().is_ok_and(|read| read == canonical)) {
            bail!("{}: is an input file; use another name for {option}", path.display());
        }
        // A file without write permission is not replaced either.
        let place = if new_file::is_in_public_folder(path) { path.to_owned() } else { canonical };
        File::options().write(true).open(&place).with_context(cannot)?;
        OutputFile::at(&place, Some(&before)).with_context(cannot)
    }

    fn at(path: &Path, before: Option<&Metadata>) -> io::Result<OutputFile> {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut builder = tempfile::Builder::new();
        builder.prefix(PREFIX);
        let make = || builder.make_in(folder.unwrap_or(Path::new(".")), new_file::make);
        let file = begin(make, |file| file.path().to_owned())?;
        if let Some(before) = before {
            #[cfg(not(unix))]
            let permissions = before.permissions();
            #[cfg(unix)]
            let permissions = {
                use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
                // Only root may change the owner.
                let _ = fchown(file.as_file(), Some(before.uid()), Some(before.gid()));
                // Clear the setuid, setgid and sticky bits: data must not run with the rights of
                // its owner.
                fs::Permissions::from_mode(before.mode() & 0o777)
            };
            file.as_file().set_permissions(permissions)?;
        }
        Ok(OutputFile::New { file: BufWriter::with_capacity(BUFFER, file), path: path.to_owned() })
    }

    /// Finishes the file: it is complete and gets its name.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        let OutputFile::New { file, path } = self else { return Ok(()) };
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        let _unfinished = unfinished();
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

/// Whether a path refers to an open descriptor, such as `/dev/stdout`. If it is a file, its opener
/// continues to use it.
fn is_descriptor(path: &Path) -> bool {
    ["/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/fd", "/proc"].iter().any(|one| path.starts_with(one))
}
