//! A walk through a message that says where each value stands, and shows none.

use super::Whole;
use core::ops::Range;
use rdmascope_xdr::language::{Form, Language, Length, Type};

/// A value that has no others in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf<'a> {
    /// The structure or union that it is a member of.
    pub(crate) of: &'static str,
    /// Its name there; of an attribute, that.
    pub(crate) name: &'a str,
    /// The names of its type, the outermost first.
    pub(crate) types: &'a [&'static str],
    /// What it is.
    pub(crate) form: LeafForm,
}

/// See [`Leaf::form`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeafForm {
    /// A number, or another word that says how the message goes on.
    Number,
    /// Bytes, without their length, which is a number, and their padding.
    Bytes,
}

/// See the [module](self).
pub(super) struct Leaves<'a, F> {
    language: &'static Language,
    whole: Whole<'a>,
    /// Where what is read now ends at the latest.
    end: usize,
    at: usize,
    depth: usize,
    types: Vec<&'static str>,
    tell: F,
}

/// Types within one another.
const DEEPEST: usize = 40;

/// The message ends, or cannot be as it is.
type Ended = Option<()>;

impl<'a, F: FnMut(Leaf<'_>, Range<usize>)> Leaves<'a, F> {
    /// Begins at byte `at` of a message. It goes over opaque data of which the capture lacks some, and over nothing else.
    pub(super) fn new(language: &'static Language, whole: Whole<'a>, at: usize, tell: F) -> Self {
        let end = usize::try_from(whole.length).unwrap_or(usize::MAX);
        Leaves { language, whole, end, at, depth: 0, types: Vec::new(), tell }
    }

    /// Goes through a value, as far as it can be read.
    pub(super) fn all(mut self, of: &'static Type) {
        self.value("", "", of);
    }

    fn number(&mut self, of: &'static str, name: &str, length: usize) -> Option<u64> {
        let range = self.at..self.at.checked_add(length).filter(|end| *end <= self.end)?;
        let bytes = self.whole.bytes.get(range.clone())?;
        let held = self.whole.captured.within(range.start as u64, range.end as u64).next()?;
        (held == (range.start as u64, range.end as u64)).then_some(())?;
        self.at = range.end;
        (self.tell)(Leaf { of, name, types: &self.types, form: LeafForm::Number }, range);
        Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn word(&mut self, of: &'static str, name: &str) -> Option<u32> {
        self.number(of, name, 4).map(|word| word as u32)
    }

    fn length(&mut self, length: Length) -> Option<usize> {
        Some(match length {
            Length::Fixed(length) => length,
            Length::Most(most) => self.word("", "length").filter(|length| *length <= most)?,
        } as usize)
    }

    fn opaque(&mut self, of: &'static str, name: &str, length: Length) -> Ended {
        let length = self.length(length)?;
        let range = self.at..self.at.checked_add(length).filter(|end| *end <= self.end)?;
        // The last padding of a message may have been left out (RFC 8166, section 3.4.5.2).
        self.at = range.end.saturating_add(length.wrapping_neg() % 4).min(self.end);
        (self.tell)(Leaf { of, name, types: &self.types, form: LeafForm::Bytes }, range);
        Some(())
    }

    /// A value of this name in the structure or union `within`.
    fn value(&mut self, within: &'static str, name: &str, of: &'static Type) -> Ended {
        self.depth += 1;
        let before = self.types.len();
        let read = if self.depth < DEEPEST { self.inside(within, name, of) } else { None };
        self.types.truncate(before);
        self.depth -= 1;
        read
    }

    fn inside(&mut self, within: &'static str, name: &str, of: &'static Type) -> Ended {
        match of {
            Type::Void => Some(()),
            Type::Int | Type::Unsigned => self.word(within, name).map(drop),
            Type::Bool => self.word(within, name).filter(|word| *word < 2).map(drop),
            Type::Hyper | Type::UnsignedHyper => self.number(within, name, 8).map(drop),
            Type::Opaque(length) => self.opaque(within, name, *length),
            Type::String => self.opaque(within, name, Length::Most(u32::MAX)),
            Type::Array(of, length) => {
                for _ in 0..self.length(*length)? {
                    let start = self.at;
                    self.value(within, name, of)?;
                    // No array of nothing takes time.
                    (self.at > start).then_some(())?;
                }
                Some(())
            }
            Type::Optional(of) => self.optional(within, name, of),
            Type::Named(index) => {
                let defined = self.language.defined(*index);
                match &defined.form {
                    Form::Alias(of) => {
                        self.types.push(defined.name);
                        self.value(within, name, of)
                    }
                    Form::Enumeration(_) => self.word(within, name).map(drop),
                    Form::Structure(_) if defined.name == "fattr4" => self.attributes(),
                    Form::Structure(members) => members.iter().try_for_each(|member| {
                        let types = core::mem::take(&mut self.types);
                        let read = self.value(defined.name, member.name, &member.of);
                        self.types = types;
                        read
                    }),
                    Form::Union { switch, arms, default } => {
                        let types = core::mem::take(&mut self.types);
                        let number = self
                            .whole
                            .bytes
                            .get(self.at..)?
                            .first_chunk()
                            .copied()
                            .map(u32::from_be_bytes)?;
                        self.value(defined.name, switch.name, &switch.of)?;
                        let arm =
                            arms.iter().find(|(values, _)| values.contains(&number)).map(|(_, arm)| arm);
                        let arm = arm.or(default.as_ref())?;
                        let read = self.value(defined.name, arm.name, &arm.of);
                        self.types = types;
                        read
                    }
                    Form::Awaited => None,
                }
            }
        }
    }

    /// A value that may be absent. Lists are made of such, the next one always the last member: these are no deeper than the first.
    fn optional(&mut self, within: &'static str, name: &str, of: &'static Type) -> Ended {
        let members = match of {
            Type::Named(index) => match &self.language.defined(*index).form {
                Form::Structure(members) => Some((self.language.defined(*index).name, members)),
                _ => None,
            },
            _ => None,
        };
        let next = members.and_then(|(structure, members)| match members.split_last() {
            Some((next, members)) if matches!(&next.of, Type::Optional(next) if **next == *of) => {
                Some((structure, members))
            }
            _ => None,
        });
        loop {
            match self.word(within, name)? {
                0 => return Some(()),
                1 => {}
                _ => return None,
            }
            let Some((structure, members)) = next else { return self.value(within, name, of) };
            members.iter().try_for_each(|member| self.value(structure, member.name, &member.of))?;
        }
    }

    /// A fattr4 (RFC 8881, section 3.3.7).
    fn attributes(&mut self) -> Ended {
        let words = self.word("fattr4", "attrmask")?;
        let mut numbers = Vec::new();
        for word in 0..words {
            let bits = self.word("fattr4", "attrmask")?;
            let set = (0..32).filter(|bit| bits & 1 << bit != 0);
            numbers.extend(set.filter_map(|bit| word.checked_mul(32)?.checked_add(bit)));
        }
        let length = self.word("fattr4", "attr_vals")? as usize;
        let end = self.at.checked_add(length).filter(|end| *end <= self.end)?;
        let behind = core::mem::replace(&mut self.end, end);
        for number in numbers {
            // One that is not known has a length that is not known.
            let Some(attribute) = self.language.attribute(number) else { break };
            self.value("fattr4", &attribute.name, &attribute.of)?;
        }
        (self.at, self.end) = (end, behind);
        Some(())
    }
}
