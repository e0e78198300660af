//! Patterns of paths.

use crate::time::ParseError;
use glob::{MatchOptions, Pattern};

/// A pattern of paths: `*`, `?` and `[…]` stand for characters of one name, `**` for any directories. One that begins with `/` is held against the whole
/// path, any other against its end, from the beginning of a name on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePattern(Pattern);

const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

impl FilePattern {
    /// Reads a pattern.
    pub fn parse(text: &str) -> Result<FilePattern, ParseError> {
        if text.is_empty() {
            return Err(ParseError("a path or a pattern such as 'a/*.dat' is expected"));
        }
        let pattern = Pattern::new(text);
        pattern.map(FilePattern).map_err(|_| ParseError("a pattern of a path has *, **, ? and [...]"))
    }

    /// Whether a path is meant. Bytes that are not UTF-8 count as U+FFFD.
    pub fn matches(&self, path: &[u8]) -> bool {
        let path = String::from_utf8_lossy(path);
        if self.0.matches_with(&path, OPTIONS) {
            return true;
        }
        let is_whole = self.0.as_str().starts_with('/');
        !is_whole && path.match_indices('/').any(|(at, _)| self.0.matches_with(&path[at + 1..], OPTIONS))
    }
}
