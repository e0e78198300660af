//! Columns as JSON.

use super::value::Lossy;
use super::{Fields, Info, Items, Line, Output, Presence, Subject, Value};
use crate::text::HexBytes;
use core::fmt;
use rdmascope_analysis::time::Rfc3339;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};

impl<S: Subject> Serialize for Line<'_, S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        Value::Object(self).serialize(serializer)
    }
}

impl Serialize for Value<'_> {
    #[inline]
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        match *self {
            Value::Missing => serializer.serialize_none(),
            Value::Boolean(value) => serializer.serialize_bool(value),
            Value::Number(number) | Value::Nanoseconds(number) => serializer.serialize_u64(number),
            Value::Fraction(number) => serializer.serialize_f64(number),
            Value::Time(time) => serializer.serialize_str(Rfc3339::from(time).as_str()),
            Value::Key(key) => Hex::<8>(key.into()).serialize(serializer),
            Value::Qpn(qpn) => Hex::<6>(qpn.into()).serialize(serializer),
            Value::Offset(offset) => Hex::<16>(offset).serialize(serializer),
            Value::Text(text) => serializer.serialize_str(text),
            Value::Shown(shown) => match Short::of(shown) {
                Some(text) => serializer.serialize_str(text.as_str()),
                None => serializer.collect_str(shown),
            },
            Value::Lossy(bytes) => match core::str::from_utf8(bytes) {
                Ok(text) => serializer.serialize_str(text),
                Err(_) => serializer.collect_str(&Lossy(bytes)),
            },
            Value::Bytes(bytes) => serializer.collect_str(&HexBytes(bytes)),
            Value::Json(json) => json.serialize(serializer),
            Value::Object(fields) => object(fields, serializer),
            Value::List(items) => list(items, serializer),
        }
    }
}

fn object<Z: Serializer>(fields: &dyn Fields, serializer: Z) -> Result<Z::Ok, Z::Error> {
    let mut map = serializer.serialize_map(None)?;
    let mut written = match fields.line() {
        Some(line) => map.serialize_entry("type", line),
        None => Ok(()),
    };
    fields.each(Output::Json, &mut |info, value| {
        if written.is_ok() && !is_left_out(info, value) {
            written = map.serialize_entry(info.name, &value);
        }
    });
    written?;
    map.end()
}

/// Whether the field is omitted.
pub(super) fn is_left_out(info: &Info, value: Value<'_>) -> bool {
    info.presence == Presence::Optional
        && match value {
            Value::Missing => true,
            Value::List(items) => is_empty(items),
            _ => false,
        }
}

/// Whether a list is empty.
fn is_empty(items: &dyn Items) -> bool {
    let mut is_empty = true;
    items.each(&mut |_| is_empty = false);
    is_empty
}

fn list<Z: Serializer>(items: &dyn Items, serializer: Z) -> Result<Z::Ok, Z::Error> {
    let mut sequence = serializer.serialize_seq(None)?;
    let mut written = Ok(());
    items.each(&mut |value| {
        if written.is_ok() {
            written = sequence.serialize_element(&value);
        }
    });
    written?;
    sequence.end()
}

/// A short text on the stack. Serializing one string is faster than collecting pieces.
struct Short {
    bytes: [u8; Short::CAPACITY],
    length: usize,
}

impl Short {
    const CAPACITY: usize = 48;

    /// Formats `shown`, if it is short enough.
    fn of(shown: &dyn fmt::Display) -> Option<Short> {
        let mut short = Short { bytes: [0; Short::CAPACITY], length: 0 };
        fmt::write(&mut short, format_args!("{shown}")).ok()?;
        Some(short)
    }

    fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).expect("only whole strings were written")
    }
}

impl fmt::Write for Short {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        self.bytes.get_mut(self.length..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

/// `0x` and a fixed number of hexadecimal digits.
#[derive(Clone, Copy)]
struct Hex<const DIGITS: usize>(u64);

impl<const DIGITS: usize> Serialize for Hex<DIGITS> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = [b'0'; 18];
        text[1] = b'x';
        let mut rest = self.0;
        for digit in text[2..2 + DIGITS].iter_mut().rev() {
            *digit = b"0123456789abcdef"[(rest & 15) as usize];
            rest >>= 4;
        }
        let text = core::str::from_utf8(&text[..2 + DIGITS]).expect("hexadecimal digits are ASCII");
        serializer.serialize_str(text)
    }
}
