//! Compares a live reply with the recorded one.

use super::conveyance::{Conveyed, Forms};
use super::directory::Listing;
use super::fields::{self, Called, Coding, Field, Kind, Part, Place};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write as _;
use rdmascope_xdr::NFS4;
use rdmascope_xdr::language::Language;
use rdmascope_xdr::visit::set_bits;

/// The most differences of one reply that are listed.
pub const MOST_DIFFERENCES: usize = 8;
/// The field with the length of a file.
const SIZE: &str = "size";
/// The most bytes of a value that are shown.
const MOST_SHOWN: usize = 32;

/// A field whose live value differs from the recorded one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// The operation of the COMPOUND, counted from 0, with its name; or the procedure.
    pub operation: Option<(usize, &'static str)>,
    /// The name of the field.
    pub field: &'static str,
    /// Its recorded value.
    pub recorded: String,
    /// Its live value.
    pub live: String,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that must be equal and are not, at most [`MOST_DIFFERENCES`].
    pub differences: Vec<Difference>,
    /// Fields that differ because the Responder may grant or choose another value, at most
    /// [`MOST_DIFFERENCES`].
    pub granted: Vec<Difference>,
    /// Differences of the RDMA transfer, at most [`MOST_DIFFERENCES`]; those that count come first.
    pub conveyance: Vec<Conveyed>,
    /// The number of fields that may differ and do: times, handles, verifiers.
    pub own: usize,
    /// Whether both replies were parsed completely. Unparsed parts are compared as bytes.
    pub understood: bool,
}

impl Comparison {
    /// The comparison of two equal messages without fields.
    pub(super) fn equal() -> Comparison {
        Comparison { understood: true, ..Comparison::default() }
    }

    /// Whether all fields that must be equal are, and the RDMA transfer has no difference that
    /// counts.
    pub fn agrees(&self) -> bool {
        self.differences.is_empty() && !self.is_conveyed_otherwise()
    }

    /// Whether the RDMA transfer differs in a way that the Responder may not choose.
    pub fn is_conveyed_otherwise(&self) -> bool {
        self.conveyance.iter().any(|conveyed| conveyed.counts)
    }
}

/// A Payload stream and the contents of the Write chunks.
pub(super) type Message<'m> = (&'m [u8], &'m [Vec<u8>]);

/// Compares two replies to the same call.
///
/// Passes each field that later calls name to `learn`, with its recorded and its live bytes.
/// `listing` has the entries of the same directory from earlier replies. `forms` has the RDMA
/// transfers to compare. With `is_concurrent`, other calls on the same file were outstanding, so
/// its size depends on their order.
pub(super) fn replies(
    called: Option<Called>,
    recorded: Message<'_>,
    live: Message<'_>,
    (forms, is_concurrent): (Option<Forms<'_>>, bool),
    listing: &mut Listing,
    learn: impl FnMut(Kind, &[u8], &[u8]),
) -> Comparison {
    let (mut one, mut other) =
        (fields::of_reply(called, recorded.0, recorded.1), fields::of_reply(called, live.0, live.1));
    let conveyance = forms.map(|forms| forms.compare([recorded, live], [&one, &other]));
    if is_concurrent {
        for fields in [&mut one, &mut other] {
            fields
                .list
                .iter_mut()
                .filter(|field| field.name == SIZE)
                .for_each(|field| field.kind = Kind::Granted);
        }
    }
    let found = compare((&one, recorded), (&other, live), listing, learn);
    Comparison { conveyance: conveyance.unwrap_or_default(), ..found }
}

/// Compares two calls.
pub(super) fn calls(recorded: &[u8], live: &[u8]) -> Comparison {
    let (one, other) = (fields::of_call(recorded).0, fields::of_call(live).0);
    // The target chooses the credential of a callback.
    let without_header = |mut fields: fields::Fields| {
        fields.list.retain(|field| field.name != fields::HEADER);
        fields
    };
    compare(
        (&without_header(one), (recorded, &[])),
        (&without_header(other), (live, &[])),
        &mut Listing::default(),
        |_, _, _| {},
    )
}

/// A field and its bytes.
pub(super) type Valued<'m> = (&'m Field, &'m [u8]);

fn compare<'m>(
    (one, recorded): (&'m fields::Fields, Message<'m>),
    (other, live): (&'m fields::Fields, Message<'m>),
    listing: &mut Listing,
    mut learn: impl FnMut(Kind, &[u8], &[u8]),
) -> Comparison {
    let mut found = Comparison { understood: one.understood && other.understood, ..Comparison::default() };
    let [one, other] = [(one, recorded), (other, live)].map(|(fields, message)| {
        let valued = fields.list.iter().map(|field| (field, field.bytes(message.0, message.1)));
        let (entries, rest): (Vec<Valued<'_>>, Vec<Valued<'_>>) =
            valued.partition(|(field, _)| field.entry.is_some());
        let rest: Vec<Valued<'_>> =
            rest.into_iter().filter(|(field, _)| field.name != fields::ENTRY).collect();
        (entries, rest)
    });
    found.pairs(&one.1, &other.1, &mut learn);
    let ends = [&one.1, &other.1].map(|rest| {
        let end = rest.iter().rfind(|(field, _)| field.name == fields::END);
        end.is_some_and(|(_, bytes)| bytes.ends_with(&[1]))
    });
    if !one.0.is_empty() || !other.0.is_empty() || !listing.is_empty() {
        listing.compare(&one.0, &other.0, ends == [true; 2], &mut found, &mut learn);
    }
    found
}

impl Comparison {
    /// Compares two lists of fields pairwise. Attributes are paired by number. A grant such as a
    /// delegation is skipped as a whole if its form differs; after any other change of form,
    /// comparison continues with the next operation.
    pub(super) fn pairs(
        &mut self,
        one: &[Valued<'_>],
        other: &[Valued<'_>],
        learn: &mut impl FnMut(Kind, &[u8], &[u8]),
    ) {
        let (mut one, mut other) = (one, other);
        while let ([(field, a), rest @ ..], [(counterpart, b), others @ ..]) = (one, other) {
            let is_same_operation = field.operation == counterpart.operation;
            match (field.part, counterpart.part) {
                (part, theirs) if is_same_operation && number(part) != number(theirs) => {
                    let is_recorded = number(part) < number(theirs);
                    let list = if is_recorded { &mut one } else { &mut other };
                    self.lone(list, is_recorded);
                    continue;
                }
                (Part::Grant, Part::Grant) if is_same_operation => {
                    let (grant, rest) = run(one);
                    let (other_grant, others) = run(other);
                    self.grant(grant, other_grant, learn);
                    (one, other) = (rest, others);
                    continue;
                }
                _ => {}
            }
            if (field.operation, field.name) != (counterpart.operation, counterpart.name) {
                self.add(field, String::from(field.name), String::from(counterpart.name));
                let (Some(next), Some(other_next)) = (next_operation(one), next_operation(other)) else {
                    return;
                };
                if next[0].0.operation != other_next[0].0.operation {
                    return;
                }
                (one, other) = (next, other_next);
                continue;
            }
            (one, other) = (rest, others);
            self.pair(field, a, b, learn);
        }
        for (list, is_recorded) in [(&mut one, true), (&mut other, false)] {
            while list.first().is_some_and(|(field, _)| number(field.part) != u32::MAX) {
                self.lone(list, is_recorded);
            }
        }
        match (one.first(), other.first()) {
            (Some((field, _)), _) => self.add(field, String::from("there"), String::from("the reply ends")),
            (_, Some((field, _))) => self.add(field, String::from("the reply ends"), String::from("there")),
            (None, None) => {}
        }
    }

    /// Compares two values of a field.
    fn pair(&mut self, field: &Field, a: &[u8], b: &[u8], learn: &mut impl FnMut(Kind, &[u8], &[u8])) {
        let differs = match field.coding {
            Coding::Bits | Coding::Attributes => !bits(a).eq(bits(b)),
            Coding::Plain | Coding::Counted => a != b,
        };
        match field.kind {
            Kind::Equal if differs && field.part != Part::Grant => {
                let (a, b) = values(field, a, b);
                self.add(field, a, b);
            }
            Kind::Equal | Kind::Granted if differs => {
                let (a, b) = values(field, a, b);
                self.add_granted(field, a, b);
            }
            Kind::Equal | Kind::Granted => {}
            kind => {
                self.own += usize::from(differs);
                // Cookies are mapped by their position in the listing, not by entry name.
                if kind.is_mapped() && (kind, field.entry.is_some()) != (Kind::Cookie, true) {
                    learn(kind, a, b);
                }
            }
        }
    }

    /// Compares two grants. The field that selects the form precedes it, so a change of form is
    /// already reported.
    fn grant(
        &mut self,
        one: &[Valued<'_>],
        other: &[Valued<'_>],
        learn: &mut impl FnMut(Kind, &[u8], &[u8]),
    ) {
        for ((field, a), (counterpart, b)) in one.iter().zip(other) {
            if field.name != counterpart.name {
                return;
            }
            self.pair(field, a, b, learn);
        }
    }

    /// Reports an attribute that only one side has, at the start of `list`, and removes it from
    /// there. A server may lack attributes that are not required.
    fn lone(&mut self, list: &mut &[Valued<'_>], is_recorded: bool) {
        let Some((field, bytes)) = list.first() else { return };
        let number = number(field.part);
        *list = &list[list.iter().take_while(|(field, _)| self::number(field.part) == number).count()..];
        let field = Field { name: attribute_name(number).unwrap_or(field.name), ..(*field).clone() };
        let (present, missing) = (value(&field, bytes), String::from("not there"));
        let (recorded, live) = if is_recorded { (present, missing) } else { (missing, present) };
        match fields::is_required(number) {
            true => self.add(&field, recorded, live),
            false => self.add_granted(&field, recorded, live),
        }
    }

    pub(super) fn add(&mut self, field: &Field, recorded: String, live: String) {
        add(&mut self.differences, field, recorded, live);
    }

    fn add_granted(&mut self, field: &Field, recorded: String, live: String) {
        add(&mut self.granted, field, recorded, live);
    }
}

fn add(list: &mut Vec<Difference>, field: &Field, recorded: String, live: String) {
    if list.len() < MOST_DIFFERENCES {
        let Field { operation, name, .. } = *field;
        list.push(Difference { operation, field: name, recorded, live });
    }
}

fn attribute_name(number: u32) -> Option<&'static str> {
    let language: &'static Language = &NFS4;
    language.attribute(number).map(|attribute| &attribute.name[..])
}

/// The number of an attribute. Fields after all attributes get a higher one.
const fn number(part: Part) -> u32 {
    match part {
        Part::Attribute(number) => number,
        Part::Message | Part::Grant => u32::MAX,
    }
}

/// Splits off the leading fields that are a grant of one operation.
fn run<'a, 'm>(fields: &'a [Valued<'m>]) -> (&'a [Valued<'m>], &'a [Valued<'m>]) {
    let operation = fields.first().and_then(|(field, _)| field.operation);
    let is_of = |(field, _): &&Valued<'_>| field.part == Part::Grant && field.operation == operation;
    fields.split_at(fields.iter().take_while(is_of).count())
}

/// The bits that are set in a `bitmap4`. Trailing zero words make no difference.
fn bits(bytes: &[u8]) -> impl Iterator<Item = u32> {
    let words = bytes.as_chunks().0.iter();
    set_bits(words.map(|word| u32::from_be_bytes(*word)))
}

/// The fields from the next operation of the COMPOUND on.
fn next_operation<'a, 'm>(fields: &'a [Valued<'m>]) -> Option<&'a [Valued<'m>]> {
    let number = |field: &Field| field.operation.map(|(index, _)| index);
    let current = number(fields.first()?.0)?;
    let at = fields.iter().position(|(field, _)| number(field).is_some_and(|number| number > current))?;
    fields.get(at..)
}

/// Formats two values so that the difference is visible.
fn values(field: &Field, a: &[u8], b: &[u8]) -> (String, String) {
    if let Coding::Bits | Coding::Attributes = field.coding {
        return (bits_beyond(field, a, b), bits_beyond(field, b, a));
    }
    let is_long = a.len().max(b.len()) > MOST_SHOWN;
    let at = a.iter().zip(b).position(|(a, b)| a != b);
    match at {
        Some(at) if is_long => {
            let one = |bytes: &[u8]| format!("0x{:02x} at byte {at} of {}", bytes[at], bytes.len());
            (one(a), one(b))
        }
        None if is_long => {
            let one = |bytes: &[u8]| format!("{} bytes", bytes.len());
            (one(a), one(b))
        }
        _ => (value(field, a), value(field, b)),
    }
}

/// Lists the bits that one bitmap has and the other lacks.
fn bits_beyond(field: &Field, bitmap: &[u8], other: &[u8]) -> String {
    let mut text = String::new();
    for bit in bits(bitmap).filter(|bit| !bits(other).any(|set| set == *bit)) {
        let name = attribute_name(bit).filter(|_| field.coding == Coding::Attributes);
        let name = name.map_or_else(|| format!("bit {bit}"), String::from);
        text.push_str(if text.is_empty() { "with " } else { ", " });
        text.push_str(&name);
        if text.len() > MOST_SHOWN {
            text.push('…');
            break;
        }
    }
    if text.is_empty() { String::from("without") } else { text }
}

fn value(field: &Field, bytes: &[u8]) -> String {
    let is_number = field.coding == Coding::Plain && matches!(field.place, Place::Stream(_));
    if let (true, Some(word), 4) = (is_number, bytes.first_chunk(), bytes.len()) {
        return format!("{}", u32::from_be_bytes(*word));
    }
    if let (true, Some(word), 8) = (is_number, bytes.first_chunk(), bytes.len()) {
        return format!("{}", u64::from_be_bytes(*word));
    }
    match core::str::from_utf8(bytes) {
        Ok(text) if field.coding == Coding::Counted && text.chars().all(|c| !c.is_control()) => {
            format!("{text:?}")
        }
        _ => hexadecimal(bytes),
    }
}

/// Formats bytes as `0x01020304`, with an ellipsis if there are more than are shown.
pub(super) fn hexadecimal(bytes: &[u8]) -> String {
    let mut text = String::from("0x");
    for byte in bytes.iter().take(MOST_SHOWN) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    if bytes.len() > MOST_SHOWN {
        text.push('…');
    }
    text
}
