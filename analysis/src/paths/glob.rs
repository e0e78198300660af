//! Patterns for paths.

use crate::time::ParseError;
use glob::{MatchOptions, Pattern};

/// A pattern for paths. `*`, `?` and `[…]` match characters within one name, `**` matches any
/// directories. A pattern that begins with `/` must match the whole path. Any other pattern must
/// match the end of the path, starting at a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePattern(Pattern);

const OPTIONS: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: false,
};

impl FilePattern {
    /// Parses a pattern.
    pub fn parse(text: &str) -> Result<FilePattern, ParseError> {
        if text.is_empty() {
            return Err(ParseError("expected a path or a pattern such as 'a/*.dat'"));
        }
        let pattern = Pattern::new(text);
        pattern
            .map(FilePattern)
            .map_err(|_| ParseError("invalid path pattern: it may contain *, **, ? and [...]"))
    }

    /// Whether the pattern matches a path. Bytes that are not UTF-8 count as U+FFFD.
    pub fn matches(&self, path: &[u8]) -> bool {
        let path = String::from_utf8_lossy(path);
        if self.0.matches_with(&path, OPTIONS) {
            return true;
        }
        let is_absolute = self.0.as_str().starts_with('/');
        !is_absolute && path.match_indices('/').any(|(at, _)| self.0.matches_with(&path[at + 1..], OPTIONS))
    }
}
