//! The paths of tables: `DIR/TABLE/capture=NAME/part-0.parquet`, or with a site
//! `DIR/TABLE/day=2025-11-21/site=NAME/capture=NAME/part-0.parquet`.

use anyhow::{Result, bail};
use core::fmt::{self, Write as _};
use rdmascope_analysis::time::Rfc3339;
use rdmascope_dissector::record::Time;
use rdmascope_present::columns::TABLES;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Hive's name of the partition for missing values: a capture without packets has no day.
const NONE: &str = "__HIVE_DEFAULT_PARTITION__";

/// The partition of a capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Partition<'a> {
    /// The name of the capture.
    pub(super) capture: &'a str,
    /// The site, if captures are partitioned by site.
    pub(super) site: Option<&'a str>,
}

impl Partition<'_> {
    /// The path of a table's file, relative to the folder of all tables. `first` is the time of the
    /// first packet.
    pub(super) fn place(self, table: &str, first: Option<Time>) -> PathBuf {
        let folder = Path::new(table);
        match self.site {
            Some(_) => folder.join(day(first)).join(self.within_day()),
            None => folder.join(self.of_capture()),
        }
        .join("part-0.parquet")
    }

    /// Removes earlier exports of the same capture from other days: a ring may have had older
    /// packets then.
    pub(super) fn remove_other_days(self, output: &Path, first: Option<Time>) -> io::Result<()> {
        if self.site.is_none() {
            return Ok(());
        }
        for (table, _) in TABLES {
            for entry in fs::read_dir(output.join(table))? {
                let entry = entry?;
                if entry.file_name() == *day(first) || !is_day(&entry.file_name().to_string_lossy()) {
                    continue;
                }
                let place = entry.path().join(self.within_day());
                match fs::remove_dir_all(&place) {
                    Ok(()) => {}
                    // Another process may have removed it.
                    Err(error) if error.kind() == ErrorKind::NotFound => continue,
                    Err(error) => return Err(error),
                }
                // Remove its parent folders if they are empty.
                let _ = place.parent().map(fs::remove_dir);
                let _ = fs::remove_dir(entry.path());
            }
        }
        Ok(())
    }

    /// Fails if the folder has tables with the other partitioning, because readers would find
    /// neither.
    pub(super) fn check(self, output: &Path) -> Result<()> {
        let (table, _) = TABLES[0];
        let Ok(entries) = fs::read_dir(output.join(table)) else { return Ok(()) };
        for entry in entries {
            let name = entry?.file_name();
            let name = name.to_string_lossy();
            match self.site {
                Some(_) if name.starts_with("capture=") => {
                    bail!(
                        "{}: the tables there are partitioned by capture only; use another folder, or omit --site and --sites",
                        output.display()
                    );
                }
                None if is_day(&name) => {
                    bail!(
                        "{}: the tables there are partitioned by day, site and capture; use --site NAME",
                        output.display()
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn within_day(self) -> PathBuf {
        let site = self.site.unwrap_or_default();
        Path::new(&format!("site={}", Escaped(site))).join(self.of_capture())
    }

    fn of_capture(self) -> String {
        format!("capture={}", Escaped(self.capture))
    }
}

/// The folder of a day (UTC).
fn day(first: Option<Time>) -> String {
    match first {
        Some(time) => format!("day={}", &Rfc3339::from(time).as_str()[.."2025-11-21".len()]),
        None => format!("day={NONE}"),
    }
}

fn is_day(name: &str) -> bool {
    name.starts_with("day=")
}

/// A name as part of a path, as Hive, Spark, DuckDB and Polars read it: each byte of a character
/// other than letters and digits of any script and `-_.` is written as `%` and two hexadecimal
/// digits.
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
    fn partition_day_is_in_utc() {
        let partition = Partition { capture: "a b", site: Some("node/1") };
        let path = |first| partition.place("events", first).display().to_string();
        assert_eq!(path(Some(Time(0))), "events/day=1970-01-01/site=node%2F1/capture=a%20b/part-0.parquet");
        assert!(path(Some(Time(-1))).contains("/day=1969-12-31/"));
        assert!(path(Some(Time(1_763_769_599_999_999_999))).contains("/day=2025-11-21/"));
        assert!(path(None).contains("/day=__HIVE_DEFAULT_PARTITION__/"));
        let partition = Partition { site: None, ..partition };
        assert_eq!(partition.place("events", None), Path::new("events/capture=a%20b/part-0.parquet"));
    }

    #[test]
    fn names_are_escaped_in_paths() {
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
