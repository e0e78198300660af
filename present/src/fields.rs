//! The field tree: the meaning of each byte of a frame or message, and where parsing stopped.

mod carriers;
pub mod headers;
mod iwarp;
pub(crate) mod nfs;
pub mod rpc;

use core::ops::Range;
use rdmascope_wire::layout::{self, Layout};
use rdmascope_wire::xdr::Reader;
use rdmascope_wire::{Layer, Stop};
use std::borrow::Cow;

/// A field, or a header of several fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Field {
    /// The name in the specification.
    pub name: Cow<'static, str>,
    /// The value, with its name if it has one.
    pub value: String,
    /// The meaning of flags, or the value in readable form, such as a date. Otherwise empty.
    pub meaning: String,
    /// The bytes of the field. `None` if its position is unknown.
    pub range: Option<Range<usize>>,
    /// The bits of the bytes that belong to the field, if not all do.
    pub mask: Option<u64>,
    /// Where parsing stopped. The entry is then not a field, but the reason why no further fields
    /// follow.
    pub stop: Option<Stop>,
    /// The subfields.
    pub children: Vec<Field>,
}

impl Field {
    /// Creates a field without subfields.
    pub fn new(name: impl Into<Cow<'static, str>>, value: impl Into<String>, range: Range<usize>) -> Field {
        Field { name: name.into(), value: value.into(), range: Some(range), ..Field::default() }
    }

    /// Creates a field whose position is unknown.
    pub fn known(name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Field {
        Field { name: name.into(), value: value.into(), ..Field::default() }
    }

    /// Creates the entry for a stop, `stop.offset` bytes after `base`.
    pub fn stop(stop: Stop, base: usize) -> Field {
        let at = base.saturating_add(stop.offset);
        Field {
            name: "stop".into(),
            value: stop.to_string(),
            range: Some(at..at),
            stop: Some(stop),
            ..Field::default()
        }
    }

    /// The value, followed by its meaning in parentheses.
    pub fn shown(&self) -> Cow<'_, str> {
        match (&*self.value, &*self.meaning) {
            (value, "") => value.into(),
            ("", meaning) => meaning.into(),
            (value, meaning) => format!("{value} ({meaning})").into(),
        }
    }

    /// Returns the field with these subfields.
    pub fn with(self, children: Vec<Field>) -> Field {
        Field { children, ..self }
    }
}

/// The fields of a header with a fixed layout that begins at `at`, as far as `bytes` reaches.
/// `show` formats a value; if it returns `None`, the value is shown as a decimal number, or as a
/// byte count for long fields.
pub(crate) fn by_layout(
    layout: Layout,
    bytes: &[u8],
    at: usize,
    show: impl Fn(&str, Value<'_>) -> Option<String>,
) -> Vec<Field> {
    let header = bytes.get(at..).unwrap_or_default();
    let field = |field: layout::Field| {
        let place = field.bytes();
        let available =
            header.get(place.start..place.end.min(header.len())).filter(|available| !available.is_empty())?;
        let value = Value { number: field.value(header), bytes: available };
        let shown = show(field.name, value).unwrap_or_else(|| match value.number {
            Some(number) => number.to_string(),
            None => format!("{} bytes", available.len()),
        });
        let range = at + place.start..at + place.start + available.len();
        Some(Field { mask: field.mask(), ..Field::new(field.name, shown, range) })
    };
    layout.fields().filter_map(field).collect()
}

/// The value of a field.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    /// The number, for complete fields of at most 64 bits.
    pub number: Option<u64>,
    /// The bytes of the field, as far as present.
    pub bytes: &'a [u8],
}

/// Formats a number with its name, if it has one.
pub fn with_name(number: u64, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{name} ({number})"),
        None => number.to_string(),
    }
}

/// Formats a number with its name in a list of names by number, if it has one.
pub(crate) fn with_name_in(number: u64, names: &[&str]) -> String {
    with_name(number, usize::try_from(number).ok().and_then(|at| names.get(at).copied()))
}

/// A walk over XDR data that creates a field for everything it reads.
///
/// A failed read adds one stop to the fields at its position; earlier fields stay.
pub struct Words<'a> {
    reader: Reader<'a>,
    /// The offset of the stream in the displayed bytes.
    base: usize,
    /// The fields of the innermost group so far.
    fields: Vec<Field>,
    /// Whether the capture, and not the sender, truncated the bytes.
    cut: bool,
    stopped: bool,
}

impl<'a> Words<'a> {
    /// Starts a walk over `stream`, which begins at offset `base`. `cut`: the capture truncated the
    /// stream.
    pub fn new(stream: &'a [u8], layer: Layer, base: usize, cut: bool) -> Words<'a> {
        Words { reader: Reader::new(stream, layer), base, fields: Vec::new(), cut, stopped: false }
    }

    /// Returns the fields.
    pub(crate) fn into_fields(self) -> Vec<Field> {
        self.fields
    }

    /// The current offset in the displayed bytes.
    pub fn place(&self) -> usize {
        self.base + self.reader.position()
    }

    /// The bytes that were not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    /// Reads a 32-bit word, formatted by `show`.
    pub fn word(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        show: impl FnOnce(u32) -> String,
    ) -> Result<u32, Stop> {
        let start = self.place();
        let word = self.reader.u32();
        let word = self.or_stop(word)?;
        self.fields.push(Field::new(name, show(word), start..start + 4));
        Ok(word)
    }

    /// Reads a 64-bit hyper, formatted by `show`.
    pub fn hyper(&mut self, name: &'static str, show: impl FnOnce(u64) -> String) -> Result<u64, Stop> {
        let start = self.place();
        let hyper = self.reader.u64();
        let hyper = self.or_stop(hyper)?;
        self.fields.push(Field::new(name, show(hyper), start..start + 8));
        Ok(hyper)
    }

    /// Reads a boolean, formatted by `show`.
    pub fn bool(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        show: impl FnOnce(bool) -> String,
    ) -> Result<bool, Stop> {
        let start = self.place();
        let set = self.reader.bool();
        let set = self.or_stop(set)?;
        self.fields.push(Field::new(name, show(set), start..start + 4));
        Ok(set)
    }

    /// Reads opaque data: the length, the fields that `inside` reads, and padding. A stop inside
    /// does not stop the enclosing stream.
    pub fn opaque(
        &mut self,
        name: &'static str,
        inside: impl FnOnce(&mut Words<'a>) -> Result<String, Stop>,
    ) -> Result<(), Stop> {
        let start = self.place();
        let data = self.reader.opaque();
        let data = self.or_stop(data)?;
        let (first, end) = (start + 4, start + 4 + data.len());
        let mut words = Words::new(data, self.reader.layer(), first, false);
        let value = inside(&mut words).unwrap_or_default();
        let read = words.place();
        let mut children = vec![Field::new("length", data.len().to_string(), start..first)];
        children.extend(words.into_fields());
        if read < end {
            children.push(Field::new("data", format!("{} bytes", end - read), read..end));
        }
        if end < self.place() {
            let padding = format!("{} bytes", self.place() - end);
            children.push(Field::new("padding", padding, end..self.place()));
        }
        self.fields.push(Field::new(name, value, start..self.place()).with(children));
        Ok(())
    }

    /// Reads a group of fields with `inside`, which returns the value of the group.
    pub fn group(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        inside: impl FnOnce(&mut Words<'a>) -> Result<String, Stop>,
    ) -> Result<(), Stop> {
        let outer = core::mem::take(&mut self.fields);
        let start = self.place();
        let value = inside(self);
        let children = core::mem::replace(&mut self.fields, outer);
        let shown = value.as_ref().map_or(String::new(), String::clone);
        self.fields.push(Field::new(name, shown, start..self.place()).with(children));
        value.map(|_| ())
    }

    /// Stops here: the last word is invalid.
    pub fn malformed(&mut self) -> Stop {
        let at = self.reader.position().saturating_sub(4);
        let stop = Stop::malformed(self.reader.layer(), at);
        self.note(stop)
    }

    fn or_stop<T>(&mut self, read: Result<T, Stop>) -> Result<T, Stop> {
        read.map_err(|stop| self.note(stop))
    }

    fn note(&mut self, stop: Stop) -> Stop {
        let stop = if self.cut { stop.in_cut_capture() } else { stop };
        if !core::mem::replace(&mut self.stopped, true) {
            self.fields.push(Field::stop(stop, self.base));
        }
        stop
    }
}

#[cfg(test)]
mod tests;
