//! Columns as JSON.

use super::value::Lossy;
use super::{Fields, Info, Items, Line, Output, Presence, Subject, Value};
use crate::serialized::{Json, quoted, serialize, shown, string};
use crate::text::HexBytes;
use rdmascope_analysis::time::Rfc3339;
use serde::ser::Error as _;
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

impl<S: Subject> Json for Line<'_, S> {
    fn json(&self, out: &mut Vec<u8>) {
        object(self, out);
    }
}

/// A line within a larger JSON document.
impl<S: Subject> Serialize for Line<'_, S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        RawValue::from_string(self.to_json()).map_err(Z::Error::custom)?.serialize(serializer)
    }
}

impl Json for Value<'_> {
    fn json(&self, out: &mut Vec<u8>) {
        match *self {
            Value::Missing => out.extend_from_slice(b"null"),
            Value::Boolean(true) => out.extend_from_slice(b"true"),
            Value::Boolean(false) => out.extend_from_slice(b"false"),
            Value::Number(number) | Value::Nanoseconds(number) => {
                out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
            }
            Value::Fraction(number) => serialize(&number, out),
            Value::Time(time) => quoted(Rfc3339::from(time).as_bytes(), out),
            Value::Key(key) => hex::<8>(key.into(), out),
            Value::Qpn(qpn) => hex::<6>(qpn.into(), out),
            Value::Offset(offset) => hex::<16>(offset, out),
            Value::Text(text) => string(text, out),
            Value::Shown(value) => shown(value, out),
            Value::Lossy(bytes) => match core::str::from_utf8(bytes) {
                Ok(text) => string(text, out),
                Err(_) => shown(&Lossy(bytes), out),
            },
            Value::Bytes(bytes) => shown(&HexBytes(bytes), out),
            Value::Json(json) => serialize(json, out),
            Value::Object(fields) => object(fields, out),
            Value::List(items) => list(items, out, &mut |item, out| item.json(out)),
        }
    }
}

fn object(fields: &dyn Fields, out: &mut Vec<u8>) {
    let mut object = Object::begin(fields.line(), out);
    fields.each(Output::Json, &mut |info, value| object.field(info, value, |out| value.json(out)));
    object.end();
}

/// A list whose items `write` writes.
pub(super) fn list(items: &dyn Items, out: &mut Vec<u8>, write: &mut dyn FnMut(Value<'_>, &mut Vec<u8>)) {
    out.push(b'[');
    let begin = out.len();
    items.each(&mut |item| {
        if out.len() > begin {
            out.push(b',');
        }
        write(item, out);
    });
    out.push(b']');
}

/// An object whose fields are written one after the other.
pub(super) struct Object<'a> {
    out: &'a mut Vec<u8>,
    /// The length of the output at the first field.
    begin: usize,
}

impl<'a> Object<'a> {
    /// Begins an object. `line` is the value of its field `type`.
    pub(super) fn begin(line: Option<&str>, out: &'a mut Vec<u8>) -> Object<'a> {
        out.push(b'{');
        let begin = out.len();
        if let Some(line) = line {
            out.extend_from_slice(b"\"type\":");
            quoted(line.as_bytes(), out);
        }
        Object { out, begin }
    }

    /// Adds a field, whose value `write` writes, unless it is to be omitted.
    pub(super) fn field(&mut self, info: &Info, value: Value<'_>, write: impl FnOnce(&mut Vec<u8>)) {
        if is_left_out(info, value) {
            return;
        }
        if self.out.len() > self.begin {
            self.out.push(b',');
        }
        quoted(info.name.as_bytes(), self.out);
        self.out.push(b':');
        write(self.out);
    }

    /// Ends the object.
    pub(super) fn end(self) {
        self.out.push(b'}');
    }
}

/// Whether the field is omitted.
fn is_left_out(info: &Info, value: Value<'_>) -> bool {
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

/// Appends `0x` and a fixed number of hexadecimal digits, as a string.
fn hex<const DIGITS: usize>(number: u64, out: &mut Vec<u8>) {
    let mut text = *b"0x0000000000000000";
    let mut rest = number;
    for digit in text[2..2 + DIGITS].iter_mut().rev() {
        *digit = b"0123456789abcdef"[(rest & 15) as usize];
        rest >>= 4;
    }
    quoted(&text[..2 + DIGITS], out);
}
