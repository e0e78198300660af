//! A walk through a message by the types of its values, which makes a field of each.

use super::Whole;
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
use std::borrow::Cow;

/// Fields that are made of one message.
const MOST: usize = 1 << 16;
/// Types within one another. Those of NFS are a dozen deep; lists do not count.
const DEEPEST: usize = 40;
/// Bytes of opaque data that are shown.
const SHOWN: usize = 32;
/// Members whose nfstime3 or nfstime4 says how long, and not when.
const DURATIONS: [&str; 6] = [
    "time_delta",
    "dir_notif_delay",
    "dirent_notif_delay",
    "cnr_lease_time",
    "gdda_child_attr_delay",
    "gdda_dir_attr_delay",
];

/// The walk cannot go on; its fields say why.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stopped;

/// See the [module](self).
pub(super) struct Walk<'a> {
    language: &'static Language,
    whole: Whole<'a>,
    at: usize,
    fields: Vec<Field>,
    made: usize,
    depth: usize,
    /// What the entries are called of the array that is gone through, or the bits of bitmaps in them.
    within: Option<&'static Names>,
}

/// What is known of a value beside its type.
#[derive(Clone, Copy, Default)]
struct As {
    /// The innermost alias of its type.
    alias: &'static str,
    /// What its bits or numbers are called.
    names: Option<&'static Names>,
}

impl As {
    fn of(member: &'static Member) -> As {
        As { alias: "", names: member.names.as_deref() }
    }
}

impl<'a> Walk<'a> {
    /// Begins at byte `at` of a message.
    pub(super) fn new(language: &'static Language, whole: Whole<'a>, at: usize) -> Walk<'a> {
        Walk { language, whole, at, fields: Vec::new(), made: 0, depth: 0, within: None }
    }

    /// Goes through a value that takes up all that is left. What is behind it is a field too.
    pub(super) fn all(&mut self, of: &'static Type) {
        // Where it stopped, a field says so.
        let _ = self.inline("", of).and_then(|()| self.rest());
    }

    /// What is behind the last field.
    fn rest(&mut self) -> Result<(), Stopped> {
        let rest = usize::try_from(self.whole.length).unwrap_or(usize::MAX).saturating_sub(self.at);
        if rest == 0 {
            return Ok(());
        }
        let range = self.at..self.at + rest;
        let value = format!("{} behind the last field", Counted(rest as u64, "byte"));
        self.push(Field::new("rest", value, range))
    }

    /// Goes through a value that RPCSEC_GSS protects the integrity of, with what is around it (RFC 2203, section 5.3.2.2).
    pub(super) fn integrity(&mut self, of: &'static Type) {
        if self.protected(of).is_ok() {
            self.all(&Type::Void);
        }
    }

    fn protected(&mut self, of: &'static Type) -> Result<(), Stopped> {
        self.group("databody_integ", |walk| {
            let start = walk.at;
            let length = walk.word()? as usize;
            let end = walk.at.saturating_add(length);
            let there = usize::try_from(walk.whole.length).unwrap_or(usize::MAX);
            if end > there {
                return Err(walk.stop(Stop::short(Layer::UpperLayer, walk.at, length, there)));
            }
            walk.leaf("length", length.to_string(), start)?;
            // The value ends where the body does.
            walk.whole.length = end as u64;
            let read = walk.in_body(of);
            walk.whole.length = there as u64;
            read?;
            walk.at = end.saturating_add(length.wrapping_neg() % 4).min(there);
            Ok(Counted(length as u64, "byte").to_string())
        })?;
        let start = self.at;
        let checksum = self.opaque(Length::Most(u32::MAX), false)?;
        self.leaf("checksum", checksum, start)
    }

    /// A sequence number, and the value.
    fn in_body(&mut self, of: &'static Type) -> Result<(), Stopped> {
        let start = self.at;
        let number = self.word()?;
        self.leaf("seq_num", number.to_string(), start)?;
        self.inline("", of)?;
        self.rest()
    }

    /// What RPCSEC_GSS encrypted (RFC 2203, section 5.3.2.3).
    pub(super) fn privacy(&mut self) {
        let start = self.at;
        let Ok(length) = self.word() else { return };
        self.at = start;
        if self.opaque(Length::Most(u32::MAX), false).is_ok() {
            let value = format!("{}, encrypted by RPCSEC_GSS", Counted(length.into(), "byte"));
            // One field is never too many.
            let _ = self.leaf("databody_priv", value, start);
            self.all(&Type::Void);
        }
    }

    /// What was made.
    pub(super) fn into_fields(self) -> Vec<Field> {
        self.fields
    }

    fn push(&mut self, field: Field) -> Result<(), Stopped> {
        self.made += 1;
        if self.made > MOST {
            self.fields
                .push(Field::known("further fields", format!("not shown: there are more than {MOST}")));
            return Err(Stopped);
        }
        self.fields.push(field);
        Ok(())
    }

    /// The message ends here, or the capture lacks these bytes, or they cannot stand.
    fn stop(&mut self, stop: Stop) -> Stopped {
        self.fields.push(Field::stop(stop, 0));
        Stopped
    }

    /// The next bytes, all of which are needed.
    fn take(&mut self, length: usize) -> Result<&'a [u8], Stopped> {
        let range = self.at..self.at.saturating_add(length);
        let there = usize::try_from(self.whole.length).unwrap_or(usize::MAX);
        if range.end > there {
            return Err(self.stop(Stop::short(Layer::UpperLayer, self.at, length, there)));
        }
        match self.whole.bytes.get(range.clone()).filter(|_| self.lacking(&range) == 0) {
            Some(bytes) => {
                self.at = range.end;
                Ok(bytes)
            }
            None => {
                let front = self.at.max(self.whole.captured.front() as usize);
                Err(self.stop(Stop::short(Layer::UpperLayer, self.at, length, front).in_cut_capture()))
            }
        }
    }

    /// How many of these bytes the capture lacks.
    fn lacking(&self, range: &Range<usize>) -> u64 {
        let held = self.whole.captured.within(range.start as u64, range.end as u64);
        (range.len() as u64) - held.map(|(from, to)| to - from).sum::<u64>()
    }

    fn word(&mut self) -> Result<u32, Stopped> {
        let bytes = self.take(4)?;
        Ok(bytes.first_chunk().copied().map_or(0, u32::from_be_bytes))
    }

    fn hyper(&mut self) -> Result<u64, Stopped> {
        let bytes = self.take(8)?;
        Ok(bytes.first_chunk().copied().map_or(0, u64::from_be_bytes))
    }

    fn leaf(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: String,
        start: usize,
    ) -> Result<(), Stopped> {
        self.push(Field::new(name, value, start..self.at))
    }

    /// A leaf whose value has a meaning, where `meaning` is not empty.
    fn named(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        value: String,
        meaning: String,
        start: usize,
    ) -> Result<(), Stopped> {
        self.push(Field { meaning, ..Field::new(name, value, start..self.at) })
    }

    /// Fields that belong together, of which `inside` says what they are.
    fn group(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        inside: impl FnOnce(&mut Walk<'a>) -> Result<String, Stopped>,
    ) -> Result<(), Stopped> {
        let outer = core::mem::take(&mut self.fields);
        let start = self.at;
        self.depth += 1;
        let value = match self.depth < DEEPEST {
            true => inside(self),
            false => self.push(Field::known("deeper fields", "not shown")).and(Err(Stopped)),
        };
        self.depth -= 1;
        let children = core::mem::replace(&mut self.fields, outer);
        let shown = value.as_ref().map_or(String::new(), String::clone);
        let pushed = self.push(Field::new(name, shown, start..self.at).with(children));
        value.and(pushed)
    }

    /// A value under its name.
    fn value(
        &mut self,
        name: impl Into<Cow<'static, str>>,
        of: &'static Type,
        known_as: As,
    ) -> Result<(), Stopped> {
        let start = self.at;
        let As { alias, names } = known_as;
        match of {
            Type::Void => Ok(()),
            Type::Int => {
                let number = self.word()?;
                let meaning = names.map_or(String::new(), |names| names.of(number));
                self.named(name, (number as i32).to_string(), meaning, start)
            }
            Type::Unsigned => {
                let number = self.word()?;
                let shown = match names {
                    Some(names) if names.is_mode() => format!("0{number:o}"),
                    _ => number.to_string(),
                };
                let meaning = names.map_or(String::new(), |names| names.of(number));
                self.named(name, shown, meaning, start)
            }
            Type::Hyper => {
                let number = self.hyper()? as i64;
                self.leaf(name, number.to_string(), start)
            }
            Type::UnsignedHyper => {
                let number = self.hyper()?;
                self.leaf(name, number.to_string(), start)
            }
            Type::Bool => {
                let set = self.boolean()?;
                self.leaf(name, if set { "yes" } else { "no" }.to_owned(), start)
            }
            Type::Opaque(length) => {
                let shown = self.opaque(*length, matches!(alias, "utf8string" | "linktext4"))?;
                self.leaf(name, shown, start)
            }
            Type::String => {
                let shown = self.opaque(Length::Most(u32::MAX), true)?;
                self.leaf(name, shown, start)
            }
            Type::Array(_, _) if alias == "bitmap4" => {
                let numbers = self.bitmap()?;
                let name = name.into();
                if name.contains("attr") {
                    return self.leaf(name, attributes(self.language, &numbers), start);
                }
                let meaning = names.or(self.within).map_or(String::new(), |names| names.of_bits(&numbers));
                self.named(name, listed(&numbers), meaning, start)
            }
            Type::Array(of, length) => {
                let outer = core::mem::replace(&mut self.within, names);
                let read = self.group(name, |walk| walk.array(of, *length));
                self.within = outer;
                read
            }
            Type::Optional(of) => match self.list(of) {
                Some(members) => self.group(name, |walk| walk.entries(members)),
                None => self.group(name, |walk| {
                    if walk.boolean()? {
                        walk.value("value", of, As::default())?;
                        return Ok(String::new());
                    }
                    Ok("none".to_owned())
                }),
            },
            Type::Named(index) => {
                let defined = self.language.defined(*index);
                match &defined.form {
                    // The innermost alias says what is text; the outermost names are those of the bits.
                    Form::Alias(of) => self.value(
                        name,
                        of,
                        As { alias: defined.name, names: names.or(defined.names.as_deref()) },
                    ),
                    Form::Enumeration(values) => {
                        let number = self.word()?;
                        let known = known(values, number);
                        let meaning = if known.is_none() { "unknown".to_owned() } else { String::new() };
                        self.named(name, with_name(number.into(), known), meaning, start)
                    }
                    _ => {
                        self.group(name, |walk| {
                            walk.inline("", of)?;
                            Ok(walk.summary(defined.name))
                        })?;
                        if let (true, Some(time)) = (self.is_time(of), self.fields.last_mut()) {
                            time.meaning = date(time).unwrap_or_default();
                        }
                        Ok(())
                    }
                }
            }
        }
    }

    /// The members of a structure or a union, without a group around them; of anything else, the value.
    fn inline(&mut self, name: &'static str, of: &'static Type) -> Result<(), Stopped> {
        let Type::Named(index) = of else { return self.value(name, of, As::default()) };
        let defined = self.language.defined(*index);
        match &defined.form {
            Form::Structure(_) if defined.name == "fattr4" => self.attributes(),
            Form::Structure(members) => {
                members.iter().try_for_each(|member| self.value(member.name, &member.of, As::of(member)))
            }
            Form::Union { switch, arms, default } => {
                let start = self.at;
                let number = self.word()?;
                self.at = start;
                self.value(switch.name, &switch.of, As::of(switch))?;
                let arm = arms.iter().find(|(values, _)| values.contains(&number)).map(|(_, arm)| arm);
                match arm.or(default.as_ref()) {
                    Some(arm) if self.is_time(&arm.of) => self.value(arm.name, &arm.of, As::default()),
                    Some(arm) => self.inline(arm.name, &arm.of),
                    None => {
                        // The union has no such arm.
                        let stop = Stop::malformed(Layer::UpperLayer, start);
                        Err(self.stop(stop))
                    }
                }
            }
            Form::Alias(of) if matches!(of, Type::Named(_)) && defined.names.is_none() => {
                self.inline(name, of)
            }
            _ => {
                let name = if name.is_empty() { defined.name } else { name };
                self.value(name, of, As::default())
            }
        }
    }

    /// A time stays one field, also as an arm of a union.
    fn is_time(&self, of: &Type) -> bool {
        matches!(of, Type::Named(index) if matches!(self.language.defined(*index).name, "nfstime3" | "nfstime4" | "timeval"))
    }

    fn boolean(&mut self) -> Result<bool, Stopped> {
        let start = self.at;
        match self.word()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => {
                let stop = Stop::malformed(Layer::UpperLayer, start);
                Err(self.stop(stop))
            }
        }
    }

    /// Opaque data with what belongs to it, shown as text or in hexadecimal. The capture may lack some of it.
    fn opaque(&mut self, length: Length, is_text: bool) -> Result<String, Stopped> {
        let start = self.at;
        let length = match length {
            Length::Fixed(length) => length,
            Length::Most(most) => {
                let length = self.word()?;
                if length > most {
                    let stop = Stop::malformed(Layer::UpperLayer, start);
                    return Err(self.stop(stop));
                }
                length
            }
        } as usize;
        let there = usize::try_from(self.whole.length).unwrap_or(usize::MAX);
        let range = self.at..self.at.saturating_add(length);
        if range.end > there {
            return Err(self.stop(Stop::short(Layer::UpperLayer, self.at, length, there)));
        }
        // The last padding of a message may have been left out (RFC 8166, section 3.4.5.2).
        self.at = range.end.saturating_add(length.wrapping_neg() % 4).min(there);
        let lacking = self.lacking(&range);
        if lacking > 0 {
            return Ok(format!("{}, of which the capture lacks {lacking}", Counted(length as u64, "byte")));
        }
        let bytes = self.whole.bytes.get(range).unwrap_or_default();
        Ok(match bytes {
            bytes if is_text => Quoted(bytes).to_string(),
            [] => "empty".to_owned(),
            bytes if bytes.len() <= SHOWN => format!("0x{}", HexBytes(bytes)),
            bytes => format!("0x{}... ({} bytes)", HexBytes(&bytes[..SHOWN]), bytes.len()),
        })
    }

    /// The numbers of the bits that are set in a bitmap4.
    fn bitmap(&mut self) -> Result<Vec<u32>, Stopped> {
        let count = self.word()?;
        let mut numbers = Vec::new();
        for word in 0..count {
            let bits = self.word()?;
            let set = (0..32).filter(|bit| bits & 1 << bit != 0);
            numbers.extend(set.filter_map(|bit| word.checked_mul(32)?.checked_add(bit)));
        }
        Ok(numbers)
    }

    fn array(&mut self, of: &'static Type, length: Length) -> Result<String, Stopped> {
        let start = self.at;
        let count = match length {
            Length::Fixed(count) => count,
            Length::Most(most) => {
                let count = self.word()?;
                if count > most {
                    let stop = Stop::malformed(Layer::UpperLayer, start);
                    return Err(self.stop(stop));
                }
                count
            }
        };
        for index in 0..count {
            let name = self.label(of).map_or_else(|| index.to_string().into(), Cow::Borrowed);
            self.value(name, of, As { alias: "", names: self.within })?;
        }
        Ok(Counted(count.into(), "entry").to_string())
    }

    /// What an entry of an array is called: an operation, by its name.
    fn label(&self, of: &'static Type) -> Option<&'static str> {
        let Type::Named(index) = of else { return None };
        let Form::Union { switch: Member { of: Type::Named(switch), .. }, .. } =
            &self.language.defined(*index).form
        else {
            return None;
        };
        let Form::Enumeration(values) = &self.language.defined(*switch).form else { return None };
        let bytes = self.whole.bytes.get(self.at..self.at + 4)?;
        known(values, bytes.first_chunk().copied().map(u32::from_be_bytes)?)?.strip_prefix("OP_")
    }

    /// The members of a structure whose last one is such a structure again, if there is a further one: but for that.
    fn list(&self, of: &'static Type) -> Option<&'static [Member]> {
        let Type::Named(index) = of else { return None };
        let Form::Structure(members) = &self.language.defined(*index).form else { return None };
        let (last, members) = members.split_last()?;
        (matches!(&last.of, Type::Optional(next) if **next == *of)).then_some(members)
    }

    /// A list: each entry is preceded by whether there is one.
    fn entries(&mut self, members: &'static [Member]) -> Result<String, Stopped> {
        let mut count = 0u64;
        while self.boolean()? {
            self.group(format!("{count}"), |walk| {
                members.iter().try_for_each(|member| walk.value(member.name, &member.of, As::of(member)))?;
                Ok(walk.name_among())
            })?;
            count += 1;
        }
        Ok(Counted(count, "entry").to_string())
    }

    /// The value of the field `name`, which says which entry it is.
    fn name_among(&self) -> String {
        let name = self.fields.iter().find(|field| field.name == "name");
        name.map_or(String::new(), |name| name.value.clone())
    }

    /// What a group is, in a few words.
    fn summary(&self, name: &str) -> String {
        match (name, &self.fields[..]) {
            ("nfstime3" | "nfstime4", [seconds, nanoseconds]) => {
                format!("{}.{:0>9} s", seconds.value, nanoseconds.value)
            }
            // Of version 2, with microseconds.
            ("timeval", [seconds, microseconds]) => {
                format!("{}.{:0>6} s", seconds.value, microseconds.value)
            }
            ("nfs_fh3", [handle]) => handle.value.clone(),
            _ => String::new(),
        }
    }

    /// A fattr4: which attributes, and their values one behind the other.
    fn attributes(&mut self) -> Result<(), Stopped> {
        let start = self.at;
        let numbers = self.bitmap()?;
        self.leaf("attrmask", attributes(self.language, &numbers), start)?;
        self.group("attr_vals", |walk| {
            let length = walk.word()? as usize;
            let end = walk.at.saturating_add(length);
            let there = usize::try_from(walk.whole.length).unwrap_or(usize::MAX);
            if end > there {
                return Err(walk.stop(Stop::short(Layer::UpperLayer, walk.at, length, there)));
            }
            for number in numbers {
                let Some(attribute) = walk.language.attribute(number) else {
                    // Its length is not known, so nothing behind it can be read.
                    let rest = end.saturating_sub(walk.at);
                    let range = walk.at..end;
                    walk.push(Field::new(
                        format!("attribute {number}"),
                        format!("not known: {rest} bytes from here on"),
                        range,
                    ))?;
                    break;
                };
                walk.value(&*attribute.name, &attribute.of, As::default())?;
            }
            walk.at = end;
            Ok(Counted(length as u64, "byte").to_string())
        })
    }
}

/// When a point in time is, which has its seconds since 1970 and its nanoseconds in it, or microseconds (RFC 1094, section 2.3.4; RFC 1813, section 2.5; RFC 8881, section 3.3.1).
/// `None` where it is no date that can be written, or a duration.
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
