//! Walks through a message according to its description and calls a [`Visitor`] for each value.
//!
//! Counts from the wire cause no allocation: elements are read until the bytes end. The nesting of
//! types is bounded; linked lists do not nest.

use crate::language::{Form, Language, Length, Member, Type};
use crate::naming::Names;
use alloc::vec::Vec;
use core::ops::Range;

/// Maximum nesting of types. NFS types nest to a depth of about 20, including aliases.
const DEEPEST: usize = 40;

/// The walk has ended early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// The result of a step: whether the walk continues.
pub type Walked = Result<(), Stopped>;

/// The role of a value in the enclosing value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// All arguments or all results.
    Root,
    /// A member of a structure, or the discriminant of a union.
    Member,
    /// The arm of a union.
    Arm,
    /// An element of an array.
    Element,
    /// An entry of a linked list.
    Entry,
    /// The value of the attribute with this number.
    Attribute(u32),
}

/// The position of a value in the description.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The enclosing structure or union, or an empty string. For an element it is that of the
    /// array; for an attribute it is `fattr4`.
    pub of: &'static str,
    /// The member name. For an element it is that of the array; for an attribute, the attribute
    /// name.
    pub name: &'static str,
    /// The role.
    pub role: Role,
    /// Names of the bits or numbers of the value.
    pub names: Option<&'static Names>,
}

/// A value that the walk visits.
#[derive(Clone, Copy, Debug)]
pub struct Value<'w> {
    /// Its position in the description.
    pub place: Place,
    /// The names of its type, the outermost alias first, preceded by those of the enclosing array.
    pub types: &'w [&'static str],
    /// The type without aliases.
    pub is: &'static Type,
}

impl Value<'_> {
    /// Returns the innermost name of its type.
    pub fn type_name(&self) -> &'static str {
        self.types.last().copied().unwrap_or_default()
    }
}

/// The content of a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaf {
    /// A number, boolean or enumerator.
    Number(u64),
    /// Opaque data or text.
    Bytes,
    /// The count before opaque data, an array or attribute values.
    Length(u32),
    /// The word before an entry of a list: nonzero if another entry follows.
    Flag(u32),
}

/// The byte range of a leaf in the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The whole item, including the count before opaque data and the padding.
    pub all: Range<usize>,
    /// The value only.
    pub value: Range<usize>,
}

/// The reason why a walk stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The message, or the attribute values, end early.
    Short {
        /// Offset of the bytes that are needed.
        at: usize,
        /// Number of bytes needed.
        needed: usize,
        /// End of the message or of the attribute values.
        end: usize,
    },
    /// The bytes are part of the message, but not all of them are available.
    Lacking {
        /// Offset of the bytes that are needed.
        at: usize,
        /// Number of bytes needed.
        needed: usize,
    },
    /// The type does not allow this value.
    Malformed {
        /// Offset of the value.
        at: usize,
    },
}

/// The reason why the walk skips attribute values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rest {
    /// The attribute with this number is not described, so the values from there on cannot be read.
    Unknown(u32),
    /// The walk stopped within a value.
    Broken,
    /// Bytes follow the last value.
    Surplus,
}

/// Receives the values of a walk. If a method returns [`Stopped`], the walk ends, and
/// [`Visitor::leave`] is called for each value that was entered.
pub trait Visitor {
    /// Returns true if these bytes of the message are available.
    fn holds(&self, _range: Range<usize>) -> bool {
        true
    }

    /// Returns true if opaque data of this length are not part of the message.
    fn is_apart(&mut self, _value: &Value<'_>, _length: u32) -> bool {
        false
    }

    /// Called at the start of a value that contains others.
    fn enter(&mut self, _value: &Value<'_>, _at: usize) -> Walked {
        Ok(())
    }

    /// Called for a value that contains no others, and for counts and flags.
    fn leaf(&mut self, value: &Value<'_>, leaf: Leaf, extent: &Extent) -> Walked;

    /// Called at the end of the value entered last, also if the walk ends early.
    fn leave(&mut self, _at: usize, walked: Walked) -> Walked {
        walked
    }

    /// Called when the walk stops, before [`Visitor::leave`] for the values that were entered.
    fn stop(&mut self, _stop: Stop) {}

    /// Decides whether the walk skips the rest of the attribute values, in this range.
    fn rest(&mut self, rest: Rest, _range: Range<usize>) -> Walked {
        if rest == Rest::Broken { Err(Stopped) } else { Ok(()) }
    }
}

/// A walk through a message.
#[derive(Clone, Debug)]
pub struct Walk<'m, V> {
    /// Receives the values.
    pub visitor: V,
    /// End of the bytes that can be read.
    pub end: usize,
    /// Offset of the next byte.
    pub at: usize,
    language: &'static Language,
    bytes: &'m [u8],
    depth: usize,
    types: Vec<&'static str>,
    /// Index in `types` of the first name of the current value.
    first: usize,
}

impl<'m, V: Visitor> Walk<'m, V> {
    /// Starts a walk at byte `at` of a message of `length` bytes. `bytes` are the captured bytes.
    pub fn new(language: &'static Language, bytes: &'m [u8], length: usize, at: usize, visitor: V) -> Self {
        Walk { visitor, end: length, at, language, bytes, depth: 0, types: Vec::new(), first: 0 }
    }

    /// Walks through arguments or results.
    pub fn root(&mut self, of: &'static Type) -> Walked {
        self.value(Place { of: "", name: "", role: Role::Root, names: None }, of)
    }

    /// Walks through a value.
    pub fn value(&mut self, mut place: Place, mut of: &'static Type) -> Walked {
        let outer = self.types.len();
        while let Type::Named(index) = of {
            let defined = self.language.defined(*index);
            self.types.push(defined.name);
            let Form::Alias(aliased) = &defined.form else { break };
            // The outermost alias that has names determines them.
            place.names = place.names.or(defined.names.as_deref());
            of = aliased;
        }
        self.depth += 1;
        let walked = if self.depth < DEEPEST { self.inside(place, of) } else { self.malformed(self.at) };
        self.depth -= 1;
        self.types.truncate(outer);
        walked
    }

    fn inside(&mut self, place: Place, of: &'static Type) -> Walked {
        match of {
            Type::Void => Ok(()),
            Type::Int | Type::Unsigned => self.word(place, of).map(drop),
            Type::Bool => self.word(place, of).and_then(|word| self.boolean(word)).map(drop),
            Type::Hyper | Type::UnsignedHyper => self.number(place, of, 8, Leaf::Number).map(drop),
            Type::Opaque(length) => self.opaque(place, of, *length),
            Type::String => self.opaque(place, of, Length::Most(u32::MAX)),
            Type::Array(element, length) => self.entered(place, of, |walk| {
                let place = Place { role: Role::Element, ..place };
                (0..walk.length(place, of, *length)?).try_for_each(|_| {
                    let start = walk.at;
                    walk.value(place, element)?;
                    // Elements without bytes are malformed: an array of them could loop for its
                    // whole count.
                    if walk.at > start { Ok(()) } else { walk.malformed(start) }
                })
            }),
            Type::Optional(entry) => self.entered(place, of, |walk| walk.list(place, of, entry)),
            Type::Named(index) => match &self.language.defined(*index).form {
                Form::Enumeration(_) => self.word(place, of).map(drop),
                Form::Structure(_) | Form::Union { .. } => self.entered(place, of, |walk| {
                    let first = core::mem::replace(&mut walk.first, walk.types.len());
                    let walked = walk.members(*index);
                    walk.first = first;
                    walked
                }),
                Form::Alias(_) | Form::Awaited => self.malformed(self.at),
            },
        }
    }

    fn entered(
        &mut self,
        place: Place,
        is: &'static Type,
        inside: impl FnOnce(&mut Self) -> Walked,
    ) -> Walked {
        let value = Value { place, types: &self.types[self.first..], is };
        self.visitor.enter(&value, self.at)?;
        let walked = inside(self);
        self.visitor.leave(self.at, walked)
    }

    fn members(&mut self, index: usize) -> Walked {
        let defined = self.language.defined(index);
        match &defined.form {
            Form::Structure(members) => match &members[..] {
                [mask, values] if defined.name == "fattr4" => self.attributes(mask, values),
                members => members.iter().try_for_each(|member| self.member(defined.name, member)),
            },
            Form::Union { switch, arms, default } => {
                let start = self.at;
                self.member(defined.name, switch)?;
                let number = word_at(self.bytes, start);
                let arm = arms.iter().find(|(values, _)| values.contains(&number)).map(|(_, arm)| arm);
                let Some(arm) = arm.or(default.as_ref()) else { return self.malformed(start) };
                self.value(Place { of: defined.name, name: arm.name, role: Role::Arm, names: None }, &arm.of)
            }
            _ => Ok(()),
        }
    }

    fn member(&mut self, of: &'static str, member: &'static Member) -> Walked {
        self.value(place(of, member), &member.of)
    }

    /// Walks through a linked list iteratively. A flag before each entry marks its presence, and
    /// the last member of an entry is the rest of the list.
    fn list(&mut self, place: Place, is: &'static Type, entry: &'static Type) -> Walked {
        let Type::Named(index) = entry else { return self.malformed(self.at) };
        let defined = self.language.defined(*index);
        let Form::Structure(members) = &defined.form else { return self.malformed(self.at) };
        let members = &members[..members.len().saturating_sub(1)];
        loop {
            let flag = self.number(place, is, 4, |word| Leaf::Flag(word as u32))?;
            if !self.boolean(flag as u32)? {
                return Ok(());
            }
            self.entered(Place { role: Role::Entry, ..place }, entry, |walk| {
                members.iter().try_for_each(|member| walk.member(defined.name, member))
            })?;
        }
    }

    /// Walks through a fattr4 (RFC 8881, section 3.3.7): a bitmap of attributes, then their values.
    fn attributes(&mut self, mask: &'static Member, values: &'static Member) -> Walked {
        let start = self.at + 4;
        self.member("fattr4", mask)?;
        let mask = start..self.at;
        let place = place("fattr4", values);
        self.entered(place, &values.of, |walk| {
            let length = walk.length(place, &values.of, Length::Most(u32::MAX))? as usize;
            let end = walk.room(length)?;
            let outer = core::mem::replace(&mut walk.end, end);
            let walked = walk.each_attribute(mask);
            walk.end = outer;
            walked?;
            walk.at = end;
            Ok(())
        })
    }

    fn each_attribute(&mut self, mask: Range<usize>) -> Walked {
        let words = mask.step_by(4).map(|at| word_at(self.bytes, at));
        for number in set_bits(words) {
            let Some(attribute) = self.language.attribute(number) else {
                // The length of the value is unknown, so nothing after it can be read.
                return self.visitor.rest(Rest::Unknown(number), self.at..self.end);
            };
            let role = Role::Attribute(number);
            let place = Place { of: "fattr4", name: &attribute.name, role, names: None };
            if self.value(place, &attribute.of).is_err() {
                return self.visitor.rest(Rest::Broken, self.at..self.end);
            }
        }
        if self.at < self.end { self.visitor.rest(Rest::Surplus, self.at..self.end) } else { Ok(()) }
    }

    fn opaque(&mut self, place: Place, is: &'static Type, length: Length) -> Walked {
        let start = self.at;
        let length = self.length(place, is, length)?;
        let value = Value { place, types: &self.types[self.first..], is };
        if self.visitor.is_apart(&value, length) {
            return Ok(());
        }
        let range = self.at..self.room(length as usize)?;
        // The final padding of a message may be omitted (RFC 8166, section 3.4.5.2).
        self.at = range.end.saturating_add(range.len().wrapping_neg() % 4).min(self.end);
        self.report(place, is, Leaf::Bytes, Extent { all: start..self.at, value: range })
    }

    /// Returns the number of bytes or elements.
    fn length(&mut self, place: Place, is: &'static Type, length: Length) -> Result<u32, Stopped> {
        let start = self.at;
        match length {
            Length::Fixed(length) => Ok(length),
            Length::Most(most) => {
                let length = self.number(place, is, 4, |word| Leaf::Length(word as u32))? as u32;
                if length > most {
                    self.malformed(start)?
                }
                Ok(length)
            }
        }
    }

    fn word(&mut self, place: Place, is: &'static Type) -> Result<u32, Stopped> {
        self.number(place, is, 4, Leaf::Number).map(|word| word as u32)
    }

    /// Converts the word that was read last.
    fn boolean(&mut self, word: u32) -> Result<bool, Stopped> {
        if word > 1 {
            self.malformed(self.at - 4)?
        }
        Ok(word == 1)
    }

    fn number(
        &mut self,
        place: Place,
        is: &'static Type,
        needed: usize,
        leaf: impl FnOnce(u64) -> Leaf,
    ) -> Result<u64, Stopped> {
        let at = self.at;
        let range = at..self.room(needed)?;
        let Some(bytes) = self.bytes.get(range.clone()).filter(|_| self.visitor.holds(range.clone())) else {
            self.visitor.stop(Stop::Lacking { at, needed });
            return Err(Stopped);
        };
        let number = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        self.at = range.end;
        self.report(place, is, leaf(number), Extent { all: range.clone(), value: range })?;
        Ok(number)
    }

    fn report(&mut self, place: Place, is: &'static Type, leaf: Leaf, extent: Extent) -> Walked {
        let value = Value { place, types: &self.types[self.first..], is };
        self.visitor.leaf(&value, leaf, &extent)
    }

    /// Returns the end of the next `needed` bytes.
    ///
    /// # Errors
    /// Fails if the message ends before that. The visitor receives a [`Stop`].
    pub fn room(&mut self, needed: usize) -> Result<usize, Stopped> {
        let (at, end) = (self.at, self.end);
        at.checked_add(needed).filter(|until| *until <= end).ok_or_else(|| {
            self.visitor.stop(Stop::Short { at, needed, end });
            Stopped
        })
    }

    fn malformed(&mut self, at: usize) -> Walked {
        self.visitor.stop(Stop::Malformed { at });
        Err(Stopped)
    }
}

fn place(of: &'static str, member: &'static Member) -> Place {
    Place { of, name: member.name, role: Role::Member, names: member.names.as_deref() }
}

fn word_at(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..).and_then(|bytes| bytes.first_chunk().copied());
    word.map_or(0, u32::from_be_bytes)
}

/// Returns the numbers of the bits that are set in a bitmap4, in ascending order.
pub fn set_bits(words: impl Iterator<Item = u32>) -> impl Iterator<Item = u32> {
    let words = (0..=u32::MAX).step_by(32).zip(words);
    words
        .flat_map(|(first, word)| (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| first + bit))
}

#[cfg(test)]
mod tests;
