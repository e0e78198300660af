//! The fields of a message: a visitor that creates one for each value.

use super::Unreduced;
use crate::fields::{Field, with_name};
use crate::text::HexBytes;
use core::ops::Range;
use rdmascope_analysis::names::Quoted;
use rdmascope_analysis::time::Rfc3339;
use rdmascope_analysis::units::Counted;
use rdmascope_dissector::record::Time;
use rdmascope_wire::{Layer, Stop};
use rdmascope_xdr::language::{Form, Language, Length, Member, Type};
use rdmascope_xdr::naming::Names;
use rdmascope_xdr::visit::{
    self, Extent, Leaf, Place, Rest, Role, Stopped, Value, Visitor, Walked, set_bits,
};
use std::borrow::Cow;

/// The most fields of one message.
const MOST: usize = 1 << 16;
/// The most bytes of opaque data that are shown.
const SHOWN: usize = 32;
/// Members whose nfstime3 or nfstime4 is a duration, not a point in time.
const DURATIONS: [&str; 6] = [
    "time_delta",
    "dir_notif_delay",
    "dirent_notif_delay",
    "cnr_lease_time",
    "gdda_child_attr_delay",
    "gdda_dir_attr_delay",
];
/// Types whose values stay one field, also as arms of a union.
const TIMES: [&str; 3] = ["nfstime3", "nfstime4", "timeval"];

static WORD: Type = Type::Unsigned;
static OPAQUE: Type = Type::Opaque(Length::Most(u32::MAX));
static VOID: Type = Type::Void;

/// A walk that creates fields.
pub(super) type Walk<'a> = visit::Walk<'a, Fields<'a>>;

/// See the [module](self).
pub(super) struct Fields<'a> {
    language: &'static Language,
    unreduced: Unreduced<'a>,
    /// The fields of the innermost group.
    open: Vec<Field>,
    /// The enclosing values.
    around: Vec<Frame>,
    made: usize,
    /// The names of the bits of bitmaps in the innermost array.
    within: Option<&'static Names>,
}

/// An enclosing value.
enum Frame {
    /// Its values are shown without a group around them.
    Inline,
    /// The words of a bitmap4, which is one field.
    Bits { place: Place, name: Cow<'static, str>, start: usize, words: Vec<u32> },
    /// A group.
    Group(Group),
}

struct Group {
    name: Cow<'static, str>,
    start: usize,
    /// The fields before it.
    outer: Vec<Field>,
    within: Option<&'static Names>,
    kind: Kind,
}

/// The contents of a group.
enum Kind {
    /// A structure or a union with this name.
    Parts(&'static str),
    /// An entry of a list.
    Entry,
    /// An array or a list.
    Entries,
    /// Values of attributes, or a body; the length in bytes.
    Bytes(u32),
}

impl<'a> Fields<'a> {
    /// Starts at byte `at` of a message.
    pub(super) fn walk(language: &'static Language, unreduced: Unreduced<'a>, at: usize) -> Walk<'a> {
        let fields =
            Fields { language, unreduced, open: Vec::new(), around: Vec::new(), made: 0, within: None };
        let length = usize::try_from(unreduced.length).unwrap_or(usize::MAX);
        Walk::new(language, unreduced.bytes, length, at, fields)
    }

    /// The fields.
    pub(super) fn into_fields(self) -> Vec<Field> {
        self.open
    }

    fn push(&mut self, field: Field) -> Walked {
        self.made += 1;
        if self.made > MOST {
            let text = format!("not shown: more than {MOST}");
            self.open.push(Field::known("further fields", text));
            return Err(Stopped);
        }
        self.open.push(field);
        Ok(())
    }

    fn begin(&mut self, name: Cow<'static, str>, start: usize, kind: Kind) {
        let outer = core::mem::take(&mut self.open);
        self.around.push(Frame::Group(Group { name, start, outer, within: self.within, kind }));
    }

    fn end(&mut self, group: Group, end: usize, walked: Walked) -> Walked {
        let value = if walked.is_ok() { self.summary(&group.kind) } else { String::new() };
        let children = core::mem::replace(&mut self.open, group.outer);
        self.within = group.within;
        let mut field = Field::new(group.name, value, group.start..end).with(children);
        if walked.is_ok() && matches!(group.kind, Kind::Parts(name) if TIMES.contains(&name)) {
            field.meaning = date(&field).unwrap_or_default();
        }
        let pushed = self.push(field);
        walked.and(pushed)
    }

    /// A summary of a group.
    fn summary(&self, kind: &Kind) -> String {
        match (kind, &self.open[..]) {
            (Kind::Parts("nfstime3" | "nfstime4"), [seconds, nanoseconds]) => {
                format!("{}.{:0>9} s", seconds.value, nanoseconds.value)
            }
            // Version 2, with microseconds.
            (Kind::Parts("timeval"), [seconds, microseconds]) => {
                format!("{}.{:0>6} s", seconds.value, microseconds.value)
            }
            (Kind::Parts("nfs_fh3"), [handle]) => handle.value.clone(),
            (Kind::Parts(_), _) => String::new(),
            (Kind::Entry, fields) => {
                let name = fields.iter().find(|field| field.name == "name");
                name.map_or(String::new(), |name| name.value.clone())
            }
            (Kind::Entries, entries) => Counted(entries.len() as u64, "entry").to_string(),
            (Kind::Bytes(length), _) => Counted((*length).into(), "byte").to_string(),
        }
    }

    /// The name of a field. An operation has its own name; other elements are named by their index.
    fn name(&self, value: &Value<'_>, at: usize) -> Cow<'static, str> {
        match value.place.role {
            Role::Element => match self.operation(value.is, at) {
                Some(name) => name.into(),
                None => self.open.len().to_string().into(),
            },
            Role::Entry => self.open.len().to_string().into(),
            // The alias that names the bits, or the innermost one.
            Role::Root => {
                let named = value.types.iter().find(|of| self.has_names(of));
                named.copied().unwrap_or(value.type_name()).into()
            }
            _ => value.place.name.into(),
        }
    }

    fn has_names(&self, of: &str) -> bool {
        let Some(Type::Named(index)) = self.language.named(of) else { return false };
        self.language.defined(*index).names.is_some()
    }

    fn operation(&self, of: &'static Type, at: usize) -> Option<&'static str> {
        let Type::Named(index) = of else { return None };
        let Form::Union { switch: Member { of: Type::Named(switch), .. }, .. } =
            &self.language.defined(*index).form
        else {
            return None;
        };
        let Form::Enumeration(values) = &self.language.defined(*switch).form else { return None };
        known(values, self.word(at)?)?.strip_prefix("OP_")
    }

    fn word(&self, at: usize) -> Option<u32> {
        self.unreduced.bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
    }

    /// Formats a number, with its meaning.
    fn number(&self, value: &Value<'_>, number: u64) -> Option<(String, String)> {
        let word = number as u32;
        let names = value.place.names;
        let meaning = || names.map_or(String::new(), |names| names.of(word));
        Some(match value.is {
            Type::Int => ((word as i32).to_string(), meaning()),
            Type::Unsigned if names.is_some_and(Names::is_mode) => (format!("0{word:o}"), meaning()),
            Type::Unsigned => (word.to_string(), meaning()),
            Type::Hyper => ((number as i64).to_string(), String::new()),
            Type::Bool if word > 1 => return None,
            Type::Bool => (if word == 1 { "yes" } else { "no" }.to_owned(), String::new()),
            Type::Named(index) => {
                let Form::Enumeration(values) = &self.language.defined(*index).form else { return None };
                let known = known(values, word);
                let meaning = if known.is_none() { "unknown" } else { "" };
                (with_name(number, known), meaning.to_owned())
            }
            _ => (number.to_string(), String::new()),
        })
    }

    /// Formats opaque data as text or in hexadecimal, or describes it if some bytes were not
    /// captured.
    fn opaque(&self, value: &Value<'_>, range: Range<usize>) -> String {
        let is_text = *value.is == Type::String || matches!(value.type_name(), "utf8string" | "linktext4");
        let lacking = self.lacking(&range);
        if lacking > 0 {
            let length = Counted(range.len() as u64, "byte");
            return format!("{length}, {lacking} of them missing from the capture");
        }
        match self.unreduced.bytes.get(range).unwrap_or_default() {
            bytes if is_text => Quoted(bytes).to_string(),
            [] => "empty".to_owned(),
            bytes if bytes.len() <= SHOWN => format!("0x{}", HexBytes(bytes)),
            bytes => format!("0x{}... ({} bytes)", HexBytes(&bytes[..SHOWN]), bytes.len()),
        }
    }

    /// A bitmap4 as one field.
    fn bits(
        &mut self,
        place: Place,
        name: Cow<'static, str>,
        range: Range<usize>,
        words: Vec<u32>,
    ) -> Walked {
        let numbers: Vec<u32> = set_bits(words.into_iter()).collect();
        if name.contains("attr") {
            return self.push(Field::new(name, attributes(self.language, &numbers), range));
        }
        let meaning = place.names.or(self.within).map_or(String::new(), |names| names.of_bits(&numbers));
        self.push(Field { meaning, ..Field::new(name, listed(&numbers), range) })
    }

    /// The number of bytes in the range that were not captured.
    fn lacking(&self, range: &Range<usize>) -> u64 {
        let held = self.unreduced.captured.within(range.start as u64, range.end as u64);
        (range.len() as u64) - held.map(|(from, to)| to - from).sum::<u64>()
    }
}

impl Visitor for Fields<'_> {
    fn holds(&self, range: Range<usize>) -> bool {
        self.lacking(&range) == 0
    }

    fn enter(&mut self, value: &Value<'_>, at: usize) -> Walked {
        let (place, type_name) = (value.place, value.type_name());
        let is_inline = matches!(place.role, Role::Root | Role::Arm) && !TIMES.contains(&type_name);
        let kind = match value.is {
            Type::Array(..) if type_name == "bitmap4" => {
                let name = self.name(value, at);
                self.around.push(Frame::Bits { place, name, start: at, words: Vec::new() });
                return Ok(());
            }
            Type::Array(..) | Type::Optional(_) => Kind::Entries,
            _ if place.role == Role::Entry => Kind::Entry,
            _ if (place.of, place.name) == ("fattr4", "attr_vals") => Kind::Bytes(0),
            _ if is_inline => {
                self.around.push(Frame::Inline);
                return Ok(());
            }
            _ => Kind::Parts(type_name),
        };
        self.begin(self.name(value, at), at, kind);
        if let Type::Array(..) = value.is {
            self.within = place.names;
        }
        Ok(())
    }

    fn leaf(&mut self, value: &Value<'_>, leaf: Leaf, extent: &Extent) -> Walked {
        let (shown, meaning) = match (leaf, self.around.last_mut()) {
            (Leaf::Number(number), Some(Frame::Bits { words, .. })) => {
                words.push(number as u32);
                return Ok(());
            }
            (Leaf::Length(length), Some(Frame::Group(Group { kind: Kind::Bytes(bytes), .. })))
                if value.place.name == "attr_vals" =>
            {
                *bytes = length;
                return Ok(());
            }
            (Leaf::Length(_) | Leaf::Flag(_), _) => return Ok(()),
            (Leaf::Bytes, _) => (self.opaque(value, extent.value.clone()), String::new()),
            (Leaf::Number(number), _) => match self.number(value, number) {
                Some(shown) => shown,
                None => return Ok(()),
            },
        };
        let name = self.name(value, extent.all.start);
        self.push(Field { meaning, ..Field::new(name, shown, extent.all.clone()) })
    }

    fn leave(&mut self, at: usize, walked: Walked) -> Walked {
        match self.around.pop() {
            Some(Frame::Group(group)) => self.end(group, at, walked),
            Some(Frame::Bits { place, name, start, words }) => {
                walked.and_then(|()| self.bits(place, name, start..at, words))
            }
            Some(Frame::Inline) | None => walked,
        }
    }

    fn stop(&mut self, stop: visit::Stop) {
        let stop = match stop {
            visit::Stop::Short { at, needed, end } => Stop::short(Layer::UpperLayer, at, needed, end),
            visit::Stop::Lacking { at, needed } => {
                let front = at.max(self.unreduced.captured.front() as usize);
                Stop::short(Layer::UpperLayer, at, needed, front).in_cut_capture()
            }
            visit::Stop::Malformed { at } => Stop::malformed(Layer::UpperLayer, at),
        };
        self.open.push(Field::stop(stop, 0));
    }

    fn rest(&mut self, rest: Rest, range: Range<usize>) -> Walked {
        match rest {
            Rest::Unknown(number) => {
                let text = format!("unknown: {} bytes from here on", range.len());
                self.push(Field::new(format!("attribute {number}"), text, range))
            }
            Rest::Broken => Err(Stopped),
            Rest::Surplus => Ok(()),
        }
    }
}

/// Walks a value that extends to the end. Any bytes after it become a field.
pub(super) fn all(walk: &mut Walk<'_>, of: &'static Type) {
    // A stop is already among the fields.
    let _ = walk.root(of).and_then(|()| rest(walk));
}

/// The bytes after the last field.
fn rest(walk: &mut Walk<'_>) -> Walked {
    let rest = walk.end.saturating_sub(walk.at);
    if rest == 0 {
        return Ok(());
    }
    let value = format!("{} after the last field", Counted(rest as u64, "byte"));
    walk.visitor.push(Field::new("rest", value, walk.at..walk.end))
}

/// Walks a value with RPCSEC_GSS integrity protection (RFC 2203, section 5.3.2.2).
pub(super) fn integrity(walk: &mut Walk<'_>, of: &'static Type) {
    let outer_end = walk.end;
    walk.visitor.begin("databody_integ".into(), walk.at, Kind::Bytes(0));
    let body = body(walk, of);
    walk.end = outer_end;
    let left = walk.visitor.leave(walk.at, body);
    if left.and_then(|()| walk.value(named("checksum"), &OPAQUE)).is_ok() {
        all(walk, &VOID);
    }
}

/// Walks a length, and within that many bytes a sequence number and the value.
fn body(walk: &mut Walk<'_>, of: &'static Type) -> Walked {
    let (start, outer_end) = (walk.at, walk.end);
    walk.value(named("length"), &WORD)?;
    let length = walk.visitor.word(start).unwrap_or_default();
    walk.end = walk.room(length as usize)?;
    if let Some(Frame::Group(group)) = walk.visitor.around.last_mut() {
        group.kind = Kind::Bytes(length);
    }
    walk.value(named("seq_num"), &WORD)?;
    walk.root(of)?;
    rest(walk)?;
    walk.at = walk.end.saturating_add(length.wrapping_neg() as usize % 4).min(outer_end);
    Ok(())
}

/// Walks data encrypted by RPCSEC_GSS (RFC 2203, section 5.3.2.3).
pub(super) fn privacy(walk: &mut Walk<'_>) {
    let start = walk.at;
    if walk.value(named("databody_priv"), &OPAQUE).is_err() {
        return;
    }
    let length = walk.visitor.word(start).unwrap_or_default();
    if let Some(field) = walk.visitor.open.last_mut() {
        field.value = format!("{}, encrypted by RPCSEC_GSS", Counted(length.into(), "byte"));
    }
    all(walk, &VOID);
}

/// A value that no XDR description contains.
fn named(name: &'static str) -> Place {
    Place { of: "", name, role: Role::Member, names: None }
}

/// Formats a point in time with seconds since 1970 and nanoseconds or microseconds (RFC 1094,
/// section 2.3.4; RFC 1813, section 2.5; RFC 8881, section 3.3.1). `None` for a duration, or if the
/// date cannot be represented.
fn date(time: &Field) -> Option<String> {
    let [seconds, fraction] = &time.children[..] else { return None };
    if DURATIONS.contains(&&*time.name) {
        return None;
    }
    let scale = if fraction.name == "useconds" { 1000 } else { 1 };
    let nanoseconds = fraction.value.parse::<i64>().ok()?.checked_mul(scale)?;
    let nanoseconds = Some(nanoseconds).filter(|nanoseconds| *nanoseconds < 1_000_000_000)?;
    let since = seconds.value.parse::<i64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanoseconds)?;
    Some(Rfc3339::from(Time(since)).as_str().to_owned())
}

fn known(values: &[(u32, &'static str)], number: u32) -> Option<&'static str> {
    values.binary_search_by_key(&number, |(value, _)| *value).ok().map(|index| values[index].1)
}

/// The names of attributes.
fn attributes(language: &Language, numbers: &[u32]) -> String {
    let name = |number: &u32| match language.attribute(*number) {
        Some(attribute) => attribute.name.clone(),
        None => number.to_string(),
    };
    match numbers {
        [] => "none".to_owned(),
        numbers => numbers.iter().map(name).collect::<Vec<_>>().join(" "),
    }
}

fn listed(numbers: &[u32]) -> String {
    if numbers.is_empty() {
        return "none".to_owned();
    }
    numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" ")
}
