//! The index of `extract --files`.

use super::{Extracted, LeftOut, Summary};
use rdmascope_dissector::frame::Address;
use rdmascope_present::json::Shown;
use rdmascope_present::text::HexBytes;
use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// `"type":"file"`.
#[derive(Serialize)]
pub(crate) struct FileLine<'a> {
    r#type: &'static str,
    name: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name_hex: Option<Shown<HexBytes<'a>>>,
    path: Option<&'a str>,
    file_handle: Shown<HexBytes<'a>>,
    server: Shown<Address>,
    transactions: u64,
    bytes_written: u64,
    bytes_read: u64,
    size: u64,
    md5: Option<&'a str>,
    sha256: Option<&'a str>,
    hole_bytes: u64,
    holes: Ranges<'a>,
    missing_bytes: u64,
    missing: Ranges<'a>,
    conflicts: u64,
    left_out_bytes: u64,
}

impl<'a> From<&'a Extracted<'a>> for FileLine<'a> {
    fn from(extracted: &'a Extracted<'a>) -> FileLine<'a> {
        let Extracted { found, name, path, digests, lacking } = extracted;
        let text = name.map(String::from_utf8_lossy);
        // As in a transaction: what was replaced is told in full.
        let replaced = matches!(text, Some(Cow::Owned(_)));
        FileLine {
            r#type: "file",
            name_hex: name.filter(|_| replaced).map(|name| Shown(HexBytes(name))),
            name: text,
            path: path.as_deref(),
            file_handle: Shown(HexBytes(&found.key.handle)),
            server: Shown(found.key.server),
            transactions: found.transactions,
            bytes_written: found.bytes_written,
            bytes_read: found.bytes_read,
            size: found.contents.size(),
            md5: digests.as_ref().map(|digests| digests.md5.as_str()),
            sha256: digests.as_ref().map(|digests| digests.sha256.as_str()),
            hole_bytes: lacking.hole_bytes(),
            holes: Ranges(&lacking.holes),
            missing_bytes: lacking.missing_bytes(),
            missing: Ranges(&lacking.missing),
            conflicts: found.conflicts,
            left_out_bytes: found.left_out,
        }
    }
}

/// The first of many ranges.
struct Ranges<'a>(&'a [(u64, u64)]);

impl Ranges<'_> {
    const MOST: usize = 1000;
}

#[derive(Serialize)]
struct RangeView {
    start: u64,
    end: u64,
}

impl Serialize for Ranges<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let ranges = self.0.iter().take(Ranges::MOST);
        serializer.collect_seq(ranges.map(|(start, end)| RangeView { start: *start, end: *end }))
    }
}

/// `"type":"extraction"`.
#[derive(Serialize)]
pub(crate) struct ExtractionLine {
    r#type: &'static str,
    files: u64,
    bytes: u64,
    left_out: LeftOutView,
}

#[derive(Serialize)]
struct LeftOutView {
    bytes_beyond_size: u64,
    of_further_files: u64,
    unclear: u64,
    scattered: u64,
    files_beyond_total: u64,
}

impl From<&Summary> for ExtractionLine {
    fn from(summary: &Summary) -> ExtractionLine {
        let LeftOut { bytes_beyond_size, of_further_files, unclear, scattered } = summary.left_out;
        let files_beyond_total = summary.files_beyond_total;
        ExtractionLine {
            r#type: "extraction",
            files: summary.files,
            bytes: summary.bytes,
            left_out: LeftOutView {
                bytes_beyond_size,
                of_further_files,
                unclear,
                scattered,
                files_beyond_total,
            },
        }
    }
}
