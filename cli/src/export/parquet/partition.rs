//! Where the tables of a capture stand: `DIR/TABLE/capture=NAME/part-0.parquet`.

use core::fmt::{self, Write as _};
use std::path::{Path, PathBuf};

/// The place of a table's file, below the folder of all tables.
pub(super) fn place(table: &str, capture: &str) -> PathBuf {
    Path::new(table).join(format!("capture={}", Escaped(capture))).join("part-0.parquet")
}

/// A name as part of a path, as Hive, Spark, DuckDB and Polars read it: what is neither letter nor digit of any script, nor one of
/// `-_.`, as `%` and two digits for each of its bytes.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for character in self.0.chars() {
            if character.is_alphanumeric() || "-_.".contains(character) {
                f.write_char(character)?;
            } else {
                let mut bytes = [0; 4];
                character.encode_utf8(&mut bytes).bytes().try_for_each(|byte| write!(f, "%{byte:02X}"))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_leave_their_folder() {
        for (name, escaped) in [
            ("nfs3-basic.pcap", "nfs3-basic.pcap"),
            ("../../etc/passwd", "..%2F..%2Fetc%2Fpasswd"),
            ("a=b c%d\\e\n\0", "a%3Db%20c%25d%5Ce%0A%00"),
            ("caf\u{e9}\u{202e}\u{fffd}", "caf\u{e9}%E2%80%AE%EF%BF%BD"),
        ] {
            assert_eq!(Escaped(name).to_string(), escaped);
        }
    }
}
