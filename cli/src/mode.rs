//! The permissions of files and folders that commands create.
//!
//! They are set through the umask of the process, so that every file that is created gets them.

use clap::Args;

/// The `--mode` option of commands that write files.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct NewFiles {
    /// Permissions of new files, in octal
    ///
    /// Captures hold file data and credentials, so only their owner can read new files by default.
    /// The umask is ignored. Users that can read the files of a new folder can also list and enter
    /// it. A file that is replaced keeps its permissions.
    #[arg(long, value_name = "OCTAL", default_value = "0600", value_parser = parse)]
    mode: Mode,
}

/// Permission bits of a file: readable and writable by its owner, without execute bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mode(u16);

impl Default for Mode {
    fn default() -> Mode {
        Mode(0o600)
    }
}

fn parse(text: &str) -> Result<Mode, String> {
    let bits =
        u16::from_str_radix(text, 8).map_err(|_| "expected an octal number such as 0640".to_owned())?;
    match bits {
        0o600..=0o666 if bits & 0o111 == 0 => Ok(Mode(bits)),
        _ => Err("expected 0600 to 0666: the owner must have read and write, execute bits are not allowed"
            .to_owned()),
    }
}

impl Mode {
    /// The umask that gives files this mode. Users that can read the files can search their
    /// folders.
    const fn umask(self) -> u16 {
        let search = (self.0 & 0o444) >> 2;
        0o777 & !(self.0 | search)
    }
}

impl NewFiles {
    /// Sets the umask of the process accordingly.
    pub(crate) fn apply(self) {
        #[cfg(unix)]
        rustix::process::umask(rustix::fs::Mode::from_bits_truncate(self.mode.umask().into()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_sets_file_and_folder_permissions() {
        for (text, umask, file, folder) in [
            ("0600", 0o077, 0o600, 0o700),
            ("640", 0o027, 0o640, 0o750),
            ("0644", 0o022, 0o644, 0o755),
            ("0660", 0o007, 0o660, 0o770),
            ("0666", 0o000, 0o666, 0o777),
            ("0602", 0o075, 0o602, 0o702),
        ] {
            let mode = parse(text).unwrap();
            assert_eq!(mode.umask(), umask, "{text}");
            assert_eq!((0o666 & !mode.umask(), 0o777 & !mode.umask()), (file, folder), "{text}");
        }
        assert_eq!(parse("600").unwrap(), Mode::default());
        for wrong in ["", "0400", "0700", "0755", "1600", "0690", "rw", "-600", "99999999"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
