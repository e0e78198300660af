//! The tree of fields: what each byte of a frame or message means, and where it could not be said.

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

/// A field, or a header of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Field {
    /// The specification's word for it.
    pub name: Cow<'static, str>,
    /// Its value, with the name that the value has.
    pub value: String,
    /// What the value says, where it is a number of flags, or has another form that people read: names of flags, a date. Else empty.
    pub meaning: String,
    /// Its bytes; `None` where it is known what it is, and not where it stands.
    pub range: Option<Range<usize>>,
    /// Which bits of its bytes are its own, where not all are.
    pub mask: Option<u64>,
    /// Where the bytes could not be read on: the field is none, but says why there are no more.
    pub stop: Option<Stop>,
    /// The fields in it.
    pub children: Vec<Field>,
}

impl Field {
    /// A field without others in it.
    pub fn new(name: impl Into<Cow<'static, str>>, value: impl Into<String>, range: Range<usize>) -> Field {
        Field { name: name.into(), value: value.into(), range: Some(range), ..Field::default() }
    }

    /// What is known of the bytes without knowing in which of them it stands.
    pub fn known(name: impl Into<Cow<'static, str>>, value: impl Into<String>) -> Field {
        Field { name: name.into(), value: value.into(), ..Field::default() }
    }

    /// The place where the bytes could not be read on, `stop.offset` bytes behind `base`.
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

    /// The value, with its meaning behind it in parentheses.
    pub fn shown(&self) -> Cow<'_, str> {
        match (&*self.value, &*self.meaning) {
            (value, "") => value.into(),
            ("", meaning) => meaning.into(),
            (value, meaning) => format!("{value} ({meaning})").into(),
        }
    }

    /// The same with these fields in it.
    pub fn with(self, children: Vec<Field>) -> Field {
        Field { children, ..self }
    }
}

/// The fields of a header of fixed layout that begins at `at`, as far as `bytes` reach. `show` gives a value its form; where it
/// gives none, it is a decimal number, or for long fields a count of bytes.
pub fn by_layout(
    layout: Layout,
    bytes: &[u8],
    at: usize,
    show: impl Fn(&str, Value<'_>) -> Option<String>,
) -> Vec<Field> {
    let header = bytes.get(at..).unwrap_or_default();
    let field = |field: layout::Field| {
        let place = field.bytes();
        let there = header.get(place.start..place.end.min(header.len())).filter(|there| !there.is_empty())?;
        let value = Value { number: field.value(header), bytes: there };
        let shown = show(field.name, value).unwrap_or_else(|| match value.number {
            Some(number) => number.to_string(),
            None => format!("{} bytes", there.len()),
        });
        let range = at + place.start..at + place.start + there.len();
        Some(Field { mask: field.mask(), ..Field::new(field.name, shown, range) })
    };
    layout.fields().filter_map(field).collect()
}

/// What stands in a field.
#[derive(Clone, Copy)]
pub struct Value<'a> {
    /// As a number, of fields of at most 64 bits that are all there.
    pub number: Option<u64>,
    /// The bytes that hold it, as far as they are there.
    pub bytes: &'a [u8],
}

/// A number behind the name that it has.
pub fn with_name(number: u64, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{name} ({number})"),
        None => number.to_string(),
    }
}

/// A walk over XDR that makes a field of everything that it reads.
///
/// A read that fails puts its stop among the fields, once, at the place where it happened; what was read before stays.
pub struct Words<'a> {
    reader: Reader<'a>,
    /// Where the reader's first byte is in the bytes that are shown.
    base: usize,
    /// What was read so far of the innermost group.
    fields: Vec<Field>,
    /// Whether the capture, and not the sender, ended the bytes.
    cut: bool,
    stopped: bool,
}

impl<'a> Words<'a> {
    /// A walk over `stream`, which begins at `base`; `cut`: there was more of it on the wire.
    pub fn new(stream: &'a [u8], layer: Layer, base: usize, cut: bool) -> Words<'a> {
        Words { reader: Reader::new(stream, layer), base, fields: Vec::new(), cut, stopped: false }
    }

    /// The fields that were read.
    pub fn into_fields(self) -> Vec<Field> {
        self.fields
    }

    /// Where the walk stands, in the bytes that are shown.
    pub fn place(&self) -> usize {
        self.base + self.reader.position()
    }

    /// What was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }

    /// A word of 32 bits, shown by `show`.
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

    /// A hyper of 64 bits, shown by `show`.
    pub fn hyper(&mut self, name: &'static str, show: impl FnOnce(u64) -> String) -> Result<u64, Stop> {
        let start = self.place();
        let hyper = self.reader.u64();
        let hyper = self.or_stop(hyper)?;
        self.fields.push(Field::new(name, show(hyper), start..start + 8));
        Ok(hyper)
    }

    /// A boolean, shown by `show`.
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

    /// Opaque data: its length, what `inside` makes of it, the padding. A stop in there is none of the stream that it is in.
    pub fn opaque(
        &mut self,
        name: &'static str,
        inside: impl FnOnce(&mut Words<'a>) -> Result<String, Stop>,
    ) -> Result<(), Stop> {
        let start = self.place();
        let data = self.reader.opaque();
        let data = self.or_stop(data)?;
        let (first, behind) = (start + 4, start + 4 + data.len());
        let mut words = Words::new(data, self.reader.layer(), first, false);
        let value = inside(&mut words).unwrap_or_default();
        let read = words.place();
        let mut children = vec![Field::new("length", data.len().to_string(), start..first)];
        children.extend(words.into_fields());
        if read < behind {
            children.push(Field::new("data", format!("{} bytes", behind - read), read..behind));
        }
        if behind < self.place() {
            let padding = format!("{} bytes", self.place() - behind);
            children.push(Field::new("padding", padding, behind..self.place()));
        }
        self.fields.push(Field::new(name, value, start..self.place()).with(children));
        Ok(())
    }

    /// Fields that belong together, of which `inside` says what they are.
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

    /// Stops here: the word that was read last cannot stand.
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
