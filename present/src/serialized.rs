//! JSON without whitespace, and with the control characters of strings escaped.

use rdmascope_analysis::units::is_hidden;
use serde::{Serialize, Serializer};
use serde_json::ser::Formatter;
use std::io::{self, Write};

/// Writes one line.
pub fn write_line(out: &mut dyn Write, line: &impl Serialize) -> io::Result<()> {
    let mut bytes = serialized(line)?;
    bytes.push(b'\n');
    out.write_all(&bytes)
}

/// Writes a value without a line end.
pub fn write_value(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    out.write_all(&serialized(value)?)
}

/// The bytes of a value. Buffering them means that the serializer is compiled for one type of
/// output only.
fn serialized(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(1024);
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Visible))?;
    Ok(bytes)
}

/// A formatter that escapes [hidden](is_hidden) characters in strings, because JSON Lines are also
/// viewed on terminals. It adds no whitespace.
struct Visible;

impl Formatter for Visible {
    #[inline]
    fn write_string_fragment<W: Write + ?Sized>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        // The serializer itself escapes characters below U+0020; they are never in a fragment.
        if fragment.bytes().all(|byte| byte < 0x7f) {
            return out.write_all(fragment.as_bytes());
        }
        for part in fragment.split_inclusive(is_hidden) {
            let shown = part.trim_end_matches(is_hidden);
            out.write_all(shown.as_bytes())?;
            let mut units = [0; 2];
            for hidden in part[shown.len()..].chars() {
                hidden.encode_utf16(&mut units).iter().try_for_each(|unit| write!(out, "\\u{unit:04x}"))?;
            }
        }
        Ok(())
    }
}

/// Serializes the output of `Display` as a string.
pub struct Shown<T>(pub T);

impl<T: core::fmt::Display> Serialize for Shown<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}
