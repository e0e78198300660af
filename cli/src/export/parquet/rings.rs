//! Finds the rings of rotated files among the files of a folder.
//!
//! ```text
//! tcpdump -C, -W            mount.pcap  mount.pcap1  mount.pcap2      mount.pcap00  mount.pcap01
//! dumpcap -b                mount_00001_20251121093000.pcapng         mount_20251121093000_00001.pcapng
//! rdmascope --rotate-size   mount-00001.pcapng
//! ```
//!
//! Each file may be compressed. Files of `tcpdump -G` have unrelated names for each time span, so
//! each is a separate capture.

use crate::captures::{CAPTURES, without_compression};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The files of one capture, in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Ring {
    /// The file name, or the common name of the files without their numbers.
    pub(super) name: String,
    /// The files.
    pub(super) files: Vec<PathBuf>,
}

/// Groups files into captures, in the order of their folders and names.
pub(super) fn rings(files: &[PathBuf]) -> Vec<Ring> {
    let mut rings: BTreeMap<Key<'_>, Vec<Member<'_>>> = BTreeMap::new();
    let mut others = Vec::new();
    // A file and its compressed copy are two captures. Compressed files come last.
    let mut seen = BTreeSet::new();
    let (plain, compressed): (Vec<_>, Vec<_>) =
        files.iter().partition(|path| without_compression(path) == **path);
    for path in plain.into_iter().chain(compressed) {
        match of_ring(&file_name(&without_compression(path))) {
            Some((ring, naming, number)) if seen.insert(without_compression(path)) => {
                rings.entry((folder(path), ring, naming)).or_default().push((number, path));
            }
            _ => others.push(path),
        }
    }
    for path in others {
        let uncompressed = without_compression(path);
        let is_first = seen.insert(uncompressed.clone());
        match rings.get_mut(&(folder(path), file_name(&uncompressed), Naming::AfterExtension)) {
            // tcpdump does not number the first file.
            Some(ring) if is_first => ring.push((0, path)),
            _ => rings.entry((folder(path), file_name(path), Naming::Alone)).or_default().push((0, path)),
        }
    }
    let ring = |((_, name, _), mut files): (Key<'_>, Vec<Member<'_>>)| {
        files.sort();
        Ring { name, files: files.into_iter().map(|(_, path)| path.clone()).collect() }
    };
    rings.into_iter().map(ring).collect()
}

/// The folder, the common name and the naming scheme of a ring.
type Key<'a> = (&'a Path, String, Naming);

/// The number of a file in its ring, and its path.
type Member<'a> = (u64, &'a PathBuf);

/// How the files of a ring are named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Naming {
    /// The number follows the extension; the first file may have none.
    AfterExtension,
    /// The number precedes the extension.
    BeforeExtension,
    /// A single file that is not part of a ring.
    Alone,
}

fn folder(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The ring name of an uncompressed file, its naming scheme, and its number.
fn of_ring(name: &str) -> Option<(String, Naming, u64)> {
    let (stem, extension) = name.rsplit_once('.')?;
    let kind = extension.trim_end_matches(|letter: char| letter.is_ascii_digit());
    if !CAPTURES.iter().any(|one| kind.eq_ignore_ascii_case(one)) {
        return None;
    }
    if kind.len() < extension.len() {
        return Some((
            format!("{stem}.{kind}"),
            Naming::AfterExtension,
            extension[kind.len()..].parse().ok()?,
        ));
    }
    let (stem, number) = of_dumpcap(stem).or_else(|| of_rdmascope(stem))?;
    Some((format!("{stem}.{extension}"), Naming::BeforeExtension, number))
}

/// Parses `mount_00001_20251121093000`, or the same with number and time swapped.
fn of_dumpcap(stem: &str) -> Option<(&str, u64)> {
    let (rest, last) = stem.rsplit_once('_')?;
    let (rest, first) = rest.rsplit_once('_')?;
    let is_time = |text: &str| text.len() == 14 && is_number(text);
    let number = match (is_time(first), is_time(last)) {
        (false, true) => first,
        (true, false) => last,
        _ => return None,
    };
    (number.len() >= 5 && is_number(number)).then(|| Some((rest, number.parse().ok()?)))?
}

/// Parses `mount-00001`. Eight digits would be a date.
fn of_rdmascope(stem: &str) -> Option<(&str, u64)> {
    let (rest, number) = stem.rsplit_once('-')?;
    (matches!(number.len(), 5 | 6) && is_number(number)).then(|| Some((rest, number.parse().ok()?)))?
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// fleet/tests/rings.txt, which the Python package is tested with, too: one line per capture,
    /// with its name and files.
    const CASES: &str = include_str!("../../../../fleet/tests/rings.txt");

    #[test]
    fn files_are_grouped_into_rings() {
        let cases = CASES.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut expected: Vec<Ring> = cases
            .map(|line| {
                let mut words = line.split_whitespace().map(str::to_owned);
                let name = words.next().expect("a line is not empty");
                Ring { name, files: words.map(PathBuf::from).collect() }
            })
            .collect();
        expected.sort_by(|a, b| (folder(&a.files[0]), &a.name).cmp(&(folder(&b.files[0]), &b.name)));
        let mut files: Vec<PathBuf> = expected.iter().flat_map(|ring| ring.files.clone()).collect();
        files.reverse();
        assert_eq!(rings(&files), expected);
    }
}
