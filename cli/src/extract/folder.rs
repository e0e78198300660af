//! The output folder of extracted files. Nothing outside of it is written, whatever names a capture
//! contains.

use crate::atomic_file::Staging;
use anyhow::{Context, Result, bail, ensure};
use md5::Md5;
use rdmascope_analysis::extract::{Contents, Digests, Log, Run};
use sha2::{Digest, Sha256};
use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// The name of the index.
pub(super) const INDEX: &str = "index.jsonl";

/// A folder that was empty. All files appear in it together, with [`Folder::finish`].
///
/// The folder is flat: names have no separators, so no symbolic link can be on the path. Each file
/// is newly created; if its name is taken, even by a link, it gets another name.
pub(super) struct Folder {
    path: PathBuf,
    staging: Staging,
    names: Vec<String>,
    /// The names in use, in lower case, because some file systems ignore case.
    taken: HashSet<String>,
}

impl Folder {
    /// Fails unless `path` is an empty folder or does not exist.
    pub(super) fn check(path: &Path) -> Result<()> {
        match fs::read_dir(path) {
            Ok(mut entries) => {
                ensure!(
                    entries.next().is_none(),
                    "{}: the folder is not empty; use a new or an empty folder",
                    path.display()
                );
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        }
        Ok(())
    }

    /// Opens the folder at `path`, and creates it if needed.
    pub(super) fn open(path: &Path) -> Result<Folder> {
        Folder::check(path)?;
        let staging = Staging::in_folder(path)
            .with_context(|| format!("{}: cannot create the folder", path.display()))?;
        let taken = HashSet::from([INDEX.to_owned()]);
        Ok(Folder { path: path.to_owned(), staging, names: Vec::new(), taken })
    }

    /// Creates a file with this name, which must be safe, or a similar one. Returns its name.
    pub(super) fn create(&mut self, name: &str, handle: &str) -> Result<(String, File)> {
        let others = (0..100).map(|number| match number {
            0 => name.to_owned(),
            1 => format!("{name}~{handle}"),
            _ => format!("{name}~{handle}~{number}"),
        });
        for name in others {
            if !self.taken.insert(name.to_lowercase()) {
                continue;
            }
            if self.path.join(&name).symlink_metadata().is_ok() {
                continue;
            }
            return Ok((name.clone(), self.make(name)?));
        }
        bail!("{}: no free name like {name}", self.path.display())
    }

    /// Creates the index.
    pub(super) fn create_index(&mut self) -> Result<BufWriter<File>> {
        Ok(BufWriter::new(self.make(INDEX.to_owned())?))
    }

    /// Creates a file that gets this name when all files are complete.
    fn make(&mut self, name: String) -> Result<File> {
        let file = self.staging.create(&name).with_context(|| self.path.join(&name).display().to_string())?;
        self.names.push(name);
        Ok(file)
    }

    /// Gives all files their names when they are complete.
    pub(super) fn finish(self) -> Result<()> {
        let files = self.names.into_iter().map(|name| (name.clone(), PathBuf::from(name)));
        let placed = self.staging.place(files);
        placed.with_context(|| format!("{}: cannot be written", self.path.display()))
    }
}

/// Writes a file with holes for missing bytes. Returns its digests if no bytes are missing.
pub(super) fn write(file: File, contents: &Contents, log: &mut Log<File>) -> io::Result<Option<Digests>> {
    let mut out = BufWriter::with_capacity(64 << 10, file);
    let (mut md5, mut sha256) = (Md5::new(), Sha256::new());
    let mut next = 0;
    let mut is_complete = true;
    let mut place = 0;
    contents.each(log, |at, run| {
        is_complete &= at == next;
        match run {
            Run::Bytes(bytes) => {
                if at != place {
                    out.seek(SeekFrom::Start(at))?;
                }
                next = at + bytes.len() as u64;
                place = next;
                md5.update(bytes);
                sha256.update(bytes);
                out.write_all(bytes)
            }
            // Zeros are a hole here, too.
            Run::Zeros(length) => {
                const ZEROS: [u8; 4096] = [0; 4096];
                next = at + length;
                let mut rest = if is_complete { length } else { 0 };
                while rest > 0 {
                    let zeros = &ZEROS[..rest.min(4096) as usize];
                    md5.update(zeros);
                    sha256.update(zeros);
                    rest -= zeros.len() as u64;
                }
                Ok(())
            }
        }
    })?;
    let file = out.into_inner()?;
    // The end of the file may be missing or zeros.
    is_complete &= next == contents.size();
    if place < contents.size() {
        file.set_len(contents.size())?;
    }
    Ok(is_complete
        .then(|| Digests { md5: hex::encode(md5.finalize()), sha256: hex::encode(sha256.finalize()) }))
}

/// A short hash of a file handle of a server.
pub(super) fn short_hash(server: &str, handle: &[u8]) -> String {
    let digest = Sha256::new().chain_update(server).chain_update([0]).chain_update(handle).finalize();
    hex::encode(&digest[..6])
}

/// A name that every file system accepts, that refers to an entry of its folder only, and that is
/// harmless on a terminal and as an argument. Returns `None` if nothing is left.
pub(super) fn safe_name(name: &[u8]) -> Option<String> {
    /// Maximum length in bytes: file systems allow 255, and a suffix may follow.
    const LONGEST: usize = 180;
    let mut safe = String::new();
    for chunk in name.utf8_chunks() {
        let replaced =
            chunk.valid().chars().map(|character| if is_safe(character) { character } else { '_' });
        for character in replaced.chain(chunk.invalid().iter().map(|_| '_')) {
            if safe.len() + character.len_utf8() > LONGEST {
                break;
            }
            safe.push(character);
        }
    }
    // Windows strips dots and spaces at the end; `.` and `..` are folders everywhere.
    let kept = safe.trim_end_matches(['.', ' ']).len();
    let dots = safe.len() - kept;
    safe.truncate(kept);
    safe.extend(core::iter::repeat_n('_', dots));
    if safe.is_empty() {
        return None;
    }
    // The name is an option or a Windows device, which may have any extension.
    let stem = safe.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let is_device = matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$")
        || matches!(stem.strip_prefix("COM").or(stem.strip_prefix("LPT")), Some(port) if port.chars().count() == 1);
    if is_device || safe.starts_with(['-', '~', ' ']) {
        safe.insert(0, '_');
    }
    Some(safe)
}

/// Whether a character is safe in a name: not a separator, not special to a shell or Windows, and
/// not misleading on a screen.
fn is_safe(character: char) -> bool {
    let is_invisible = matches!(character,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{fff0}'..='\u{ffff}' | '\u{e0000}'..='\u{e007f}');
    !character.is_control()
        && !is_invisible
        && !matches!(character, '/' | '\\' | ':' | '*' | '?' | '"' | '<' | '>' | '|' | '\'' | '`' | '$')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::path::Component;

    #[test]
    fn unsafe_names_are_sanitized() {
        for (name, safe) in [
            (&b"big"[..], Some("big")),
            (b"with space.txt", Some("with space.txt")),
            (b".bashrc", Some(".bashrc")),
            ("gr\u{fc}n".as_bytes(), Some("gr\u{fc}n")),
            (b"..", Some("__")),
            (b".", Some("_")),
            (b"", None),
            (b"../../etc/passwd", Some(".._.._etc_passwd")),
            (b"/etc/passwd", Some("_etc_passwd")),
            (b"..\\..\\boot.ini", Some(".._.._boot.ini")),
            (b"C:evil", Some("C_evil")),
            (b"a\0b\x1b[31mc\x7f", Some("a_b_[31mc_")),
            (b"\xff\xfe", Some("__")),
            ("a\u{202e}txt.exe".as_bytes(), Some("a_txt.exe")),
            (b"NUL", Some("_NUL")),
            (b"com1.txt", Some("_com1.txt")),
            (b"nul .txt", Some("_nul .txt")),
            (b"COM10", Some("COM10")),
            (b"-rf", Some("_-rf")),
            (b"name. .", Some("name___")),
        ] {
            assert_eq!(safe_name(name).as_deref(), safe, "{name:?}");
        }
        assert_eq!(safe_name(&[b'x'; 4000]).unwrap().len(), 180);
        assert_eq!(safe_name("\u{20ac}".repeat(100).as_bytes()).unwrap().len(), 180);
    }

    proptest! {
        #[test]
        fn safe_name_is_one_path_component(name in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Some(safe) = safe_name(&name) {
                let path = Path::new(&safe);
                let components: Vec<_> = path.components().collect();
                prop_assert_eq!(components, [Component::Normal(path.as_os_str())]);
                prop_assert!(safe.len() <= 181 && !safe.contains(char::is_control));
                prop_assert_eq!(safe_name(safe.as_bytes()).map(|again| again.len() <= safe.len() + 1), Some(true));
            }
        }
    }

    #[test]
    fn taken_names_get_a_suffix() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let mut folder = Folder::open(&path).unwrap();
        // Entries created by others in the folder are neither followed nor overwritten.
        let outside = directory.path().join("outside");
        fs::write(&outside, "precious").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(&outside, path.join("link")).unwrap();
        #[cfg(unix)]
        assert_eq!(folder.create("link", "c0ffee").unwrap().0, "link~c0ffee");
        assert_eq!(folder.create("name", "1").unwrap().0, "name");
        assert_eq!(folder.create("NAME", "2").unwrap().0, "NAME~2");
        assert_eq!(folder.create("name", "2").unwrap().0, "name~2~2");
        assert_eq!(folder.create("index.jsonl", "3").unwrap().0, "index.jsonl~3");
        folder.create_index().unwrap();
        folder.finish().unwrap();
        assert!(path.join("name~2~2").is_file() && path.join("index.jsonl").is_file());
        assert_eq!(fs::read_to_string(&outside).unwrap(), "precious");
        assert!(Folder::open(&path).is_err(), "it is not empty");
    }
}
