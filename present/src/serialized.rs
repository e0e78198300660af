//! JSON without whitespace, and with the control characters of strings escaped.

use core::fmt;
use rdmascope_analysis::units::{Small, is_hidden};
use serde::{Serialize, Serializer};
use serde_json::ser::Formatter;
use std::io::{self, Write};

/// A value that writes itself as JSON. Lines have many small fields, and a generic serializer takes
/// four times as long for them.
pub trait Json {
    /// Appends the value to `out`.
    fn json(&self, out: &mut Vec<u8>);

    /// The value as text.
    fn to_json(&self) -> String {
        let mut bytes = Vec::with_capacity(2048);
        self.json(&mut bytes);
        String::from_utf8(bytes).expect("JSON is UTF-8")
    }
}

/// Writes one line.
pub fn write_line(out: &mut dyn Write, line: &dyn Json) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(2048);
    line.json(&mut bytes);
    bytes.push(b'\n');
    out.write_all(&bytes)
}

/// Appends a string with its quotes.
pub(crate) fn string(text: &str, out: &mut Vec<u8>) {
    let is_plain = |byte: u8| (b' '..0x7f).contains(&byte) && byte != b'"' && byte != b'\\';
    if text.bytes().all(is_plain) {
        quoted(text.as_bytes(), out);
    } else {
        serialize(text, out);
    }
}

/// Appends a string in UTF-8 whose characters need no escape.
pub(crate) fn quoted(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    out.extend_from_slice(text);
    out.push(b'"');
}

/// Appends the output of `Display` as a string.
pub(crate) fn shown(shown: &dyn fmt::Display, out: &mut Vec<u8>) {
    // Most texts are short, so they are checked on the stack.
    let mut short = Small::default();
    match fmt::write(&mut short, format_args!("{shown}")) {
        Ok(()) => string(short.as_str(), out),
        Err(_) => string(&shown.to_string(), out),
    }
}

/// Appends any other value.
pub(crate) fn serialize<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) {
    let mut serializer = serde_json::Serializer::with_formatter(&mut *out, Visible);
    value.serialize(&mut serializer).expect("strings, numbers and JSON can be serialized to memory");
}

/// Writes a value without a line end. Buffering it means that the serializer is compiled for one
/// type of output only.
pub fn write_value(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(1024);
    value.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, Visible))?;
    out.write_all(&bytes)
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
