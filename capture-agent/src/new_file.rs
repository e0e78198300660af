//! Creates output files.
//!
//! Files are opened for writing only, because a confined process (`confine`) may write below a
//! folder without the right to read there.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Creates a file for writing. Fails with [`io::ErrorKind::AlreadyExists`] if the name is taken,
/// even by a dangling link.
pub fn make(path: &Path) -> io::Result<File> {
    File::options().write(true).create_new(true).open(path)
}

/// Creates a file for writing, or empties an existing one. A FIFO or a device is opened unchanged.
///
/// Fails if the name is a symbolic link in a [public folder](is_in_public_folder).
pub fn make_or_empty(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    if is_in_public_folder(path) {
        return without_following(&mut options, path);
    }
    options.open(path)
}

#[cfg(unix)]
fn without_following(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    options.open(path).map_err(|error| match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
            io::Error::new(io::ErrorKind::PermissionDenied, PUBLIC_LINK)
        }
        _ => error,
    })
}

#[cfg(not(unix))]
fn without_following(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    options.open(path)
}

/// The error for a symbolic link in a [public folder](is_in_public_folder).
pub const PUBLIC_LINK: &str = "symbolic links in world-writable folders are not followed";

/// Returns true if the folder of `path` is sticky and world-writable, as /tmp is. Another user can
/// place a link there under a name that a privileged process is about to write.
pub fn is_in_public_folder(path: &Path) -> bool {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    folder.metadata().is_ok_and(|folder| is_public(&folder))
}

#[cfg(unix)]
fn is_public(folder: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    /// S_ISVTX and S_IWOTH.
    const STICKY_AND_WRITABLE: u32 = 0o1002;
    folder.mode() & STICKY_AND_WRITABLE == STICKY_AND_WRITABLE
}

#[cfg(not(unix))]
fn is_public(_: &fs::Metadata) -> bool {
    false
}

/// Removes a file on drop unless it is kept. Used while a file is incomplete.
#[derive(Debug)]
pub struct Unfinished(Option<PathBuf>);

impl Unfinished {
    /// Guards a file that was just created. A FIFO or a device is not removed.
    pub fn new(path: &Path, file: &File) -> Unfinished {
        let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
        Unfinished(is_file.then(|| path.to_owned()))
    }

    /// Keeps the file.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // The error that made the file unfinished is reported, not this one.
            let _ = fs::remove_file(path);
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn links_in_public_folders_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("target");
        fs::write(&target, "precious").unwrap();
        for (mode, follows) in [(0o1777, false), (0o777, true), (0o1700, true)] {
            let parent = folder.path().join(format!("{mode:o}"));
            fs::create_dir(&parent).unwrap();
            fs::set_permissions(&parent, fs::Permissions::from_mode(mode)).unwrap();
            let link = parent.join("link");
            symlink(&target, &link).unwrap();
            fs::write(&target, "precious").unwrap();
            let made = make_or_empty(&link);
            assert_eq!(made.is_ok(), follows, "{mode:o}");
            if let Err(error) = made {
                assert_eq!(error.to_string(), PUBLIC_LINK);
                assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
            }
            // A name without a link can be created.
            make_or_empty(&parent.join("file")).unwrap();
        }
    }

    #[test]
    fn files_are_opened_for_writing_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for mut file in [make(&path).unwrap(), make_or_empty(&path).unwrap()] {
            file.write_all(b"text").unwrap();
            assert!(file.read(&mut [0]).is_err());
        }
        assert_eq!(make(&path).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }

    #[test]
    fn unfinished_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        drop(Unfinished::new(&path, &make(&path).unwrap()));
        assert!(!path.exists());
        Unfinished::new(&path, &make(&path).unwrap()).keep();
        assert!(path.exists());
        let device = Path::new("/dev/null");
        drop(Unfinished::new(device, &make_or_empty(device).unwrap()));
        assert!(device.exists());
    }
}
