//! Files that NFS moved, assembled from the data of READs and WRITEs. The caller writes them.

mod contents;
mod files;

pub use contents::{Contents, Lacking, Log, Run, Storage};
pub use files::{Files, Found, Key, LeftOut, Limits};

/// An assembled file.
#[derive(Debug)]
pub struct Extracted<'a> {
    /// The facts that the capture shows about it.
    pub found: &'a Found,
    /// Its name in the capture.
    pub name: Option<&'a [u8]>,
    /// Its path in the output folder; `None` if it was left out.
    pub path: Option<String>,
    /// Its digests, if no bytes are missing.
    pub digests: Option<Digests>,
    /// The bytes that it lacks.
    pub lacking: Lacking,
}

/// Digests of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digests {
    /// MD5, in hexadecimal digits.
    pub md5: String,
    /// SHA-256, in hexadecimal digits.
    pub sha256: String,
}

/// The totals of an extraction.
#[derive(Clone, Copy, Debug, Default)]
pub struct Summary {
    /// Files written.
    pub files: u64,
    /// The sum of their sizes.
    pub bytes: u64,
    /// Counts of everything that was left out.
    pub left_out: LeftOut,
    /// Files left out because of the limit on the total size.
    pub files_beyond_total: u64,
}

impl Summary {
    /// The counts of everything that was left out, each with a description for people.
    pub fn left_out(&self) -> impl Iterator<Item = (u64, &'static str)> {
        let LeftOut { bytes_beyond_size, of_further_files, unclear, scattered, read_plus, sealed } =
            self.left_out;
        let counts = [
            (bytes_beyond_size, "bytes are beyond the size limit of a file (--max-file-size)"),
            (self.files_beyond_total, "files exceed the limit on the total size (--max-total-size)"),
            (of_further_files, "READs and WRITEs are of files beyond the limit (--max-files)"),
            (unclear, "READs and WRITEs have no file handle, offset or count in this capture"),
            (scattered, "READs and WRITEs are too scattered to be tracked"),
            (read_plus, "READ_PLUS results are not supported"),
            (sealed, "calls are encrypted (krb5p) and may be READs or WRITEs"),
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
    fn encrypted_calls_are_reported_as_left_out() {
        let limits = Limits { file_size: 1 << 30, files: 100 };
        let mut files = Files::new(limits, Cursor::new(Vec::new()));
        let compound = values::transaction(Procedure { program: 100_003, version: 4, number: 1 }, 1, 1);
        let sealed = Transaction { security: Some(Security::GssPrivacy), status: None, ..compound };
        files.take(&sealed).unwrap();
        let summary = Summary { left_out: files.left_out, ..Summary::default() };
        let reasons: Vec<_> = summary.left_out().collect();
        assert_eq!(reasons, [(1, "calls are encrypted (krb5p) and may be READs or WRITEs")]);
    }
}
