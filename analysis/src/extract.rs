//! The files that NFS moved: put together from the bytes of READs and WRITEs. Writing them is a matter of the caller.

mod contents;
mod files;

pub use contents::{Contents, Lacking, Log, Run, Storage};
pub use files::{Files, Found, Key, LeftOut, Limits};

/// A file that was put together.
#[derive(Debug)]
pub struct Extracted<'a> {
    /// What was found of it.
    pub found: &'a Found,
    /// The name that the capture shows.
    pub name: Option<&'a [u8]>,
    /// The file in the folder; `None` where it is left out.
    pub path: Option<String>,
    /// The digests, where nothing is missing.
    pub digests: Option<Digests>,
    /// What of it is not there.
    pub lacking: Lacking,
}

/// Digests of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    /// MD5, in hexadecimal digits.
    pub md5: String,
    /// SHA-256, likewise.
    pub sha256: String,
}

/// What all files came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Files that were written.
    pub files: u64,
    /// The sum of their sizes.
    pub bytes: u64,
    /// What was left out.
    pub left_out: LeftOut,
    /// Files left out because all together would have been too large.
    pub files_beyond_total: u64,
}

impl Summary {
    /// What was left out: how much of what, in words for people.
    pub fn left_out(&self) -> impl Iterator<Item = (u64, &'static str)> {
        let LeftOut { bytes_beyond_size, of_further_files, unclear, scattered, sealed } = self.left_out;
        let counts = [
            (bytes_beyond_size, "bytes lie behind the largest size of a file: see --max-file-size"),
            (self.files_beyond_total, "files would have made all together too large: see --max-total-size"),
            (
                of_further_files,
                "READs and WRITEs are of files beyond the most that there may be: see --max-files",
            ),
            (unclear, "READs and WRITEs show no file handle, offset or count in this capture"),
            (scattered, "READs and WRITEs are too scattered to keep track of"),
            (sealed, "calls are encrypted (krb5p): what they read and wrote is not known"),
        ];
        counts.into_iter().filter(|(count, _)| *count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_dissector::transaction::{Security, Transaction};
    use rdmascope_dissector::ulb::Procedure;
    use rdmascope_tests::values;
    use std::io::Cursor;

    #[test]
    fn encrypted_calls_are_said_to_be_left_out() {
        let limits = Limits { file_size: 1 << 30, files: 100 };
        let mut files = Files::new(limits, Cursor::new(Vec::new()));
        let compound = values::transaction(Procedure { program: 100_003, version: 4, number: 1 }, 1, 1);
        let sealed = Transaction { security: Some(Security::GssPrivacy), status: None, ..compound };
        files.take(&sealed).unwrap();
        let summary = Summary { left_out: files.left_out, ..Summary::default() };
        let said: Vec<_> = summary.left_out().collect();
        assert_eq!(said, [(1, "calls are encrypted (krb5p): what they read and wrote is not known")]);
    }
}
