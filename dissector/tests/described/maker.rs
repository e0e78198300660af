//! Generator of random values that conform to their XDR description.

use rdmascope_xdr::language::{Form, Language, Length, Member, Type};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Maximum number of elements of an array, or of entries of a list.
const MOST_ELEMENTS: u32 = 3;
/// Maximum number of bytes of opaque data or text.
const MOST_BYTES: u32 = 40;

/// The unions of operations.
pub(crate) const OPERATIONS: [&str; 4] = ["nfs_argop4", "nfs_resop4", "nfs_cb_argop4", "nfs_cb_resop4"];

/// Enumerations to which other documents add constants, and the statuses, which rules of their own
/// judge.
const OPEN: [&str; 5] = ["nfs_opnum4", "layouttype4", "nfsstat3", "nfsstat4", "filelayout_hint_care4"];

/// The generator. Its values depend only on the seed.
pub(crate) struct Maker {
    language: &'static Language,
    random: fastrand::Rng,
    /// The number of times that each arm of a union was generated. The rarest is next.
    made: BTreeMap<Arm, u32>,
}

/// An arm of a union: its name, and the index of the arm; the last one is `default`.
pub(crate) type Arm = (&'static str, usize);

/// An encoded value.
#[derive(Default)]
pub(crate) struct Made {
    pub(crate) bytes: Vec<u8>,
    /// Opaque data, texts and numbers, in order.
    pub(crate) leaves: Vec<Leaf>,
    /// The first bytes of the operations, where their discriminants are; for other values than a
    /// COMPOUND, the first byte of the value.
    pub(crate) operations: Vec<usize>,
    /// The offsets of booleans and constants of enumerations.
    pub(crate) constants: Vec<usize>,
    /// The offset of a discriminant without an arm.
    pub(crate) wrong: Option<usize>,
    /// Whether the status of each operation must be success.
    succeeds: bool,
    /// The number of closed unions left to pass before one receives a wrong discriminant.
    right: Option<usize>,
}

/// A value without inner values.
pub(crate) struct Leaf {
    /// The structure or union that contains it, and its name there.
    pub(crate) member: (&'static str, &'static str),
    /// Its bytes, without length and padding.
    pub(crate) range: Range<usize>,
}

impl Maker {
    pub(crate) fn new(language: &'static Language, seed: u64) -> Maker {
        Maker { language, random: fastrand::Rng::with_seed(seed), made: BTreeMap::new() }
    }

    /// A value of this type.
    pub(crate) fn value(&mut self, of: &'static Type) -> Made {
        let mut made = Made::default();
        self.put(&mut made, of, ("", ""));
        made.one_operation_unless_compound();
        made
    }

    /// A value in which the discriminant of one union has no arm, if the type has such a union. A
    /// random arm follows it.
    pub(crate) fn wrong_value(&mut self, of: &'static Type) -> Made {
        let mut made = Made { right: Some(self.random.usize(0..10)), ..Made::default() };
        self.put(&mut made, of, ("", ""));
        made.one_operation_unless_compound();
        made
    }

    /// The arms generated so far.
    pub(crate) fn arms(&self) -> BTreeSet<Arm> {
        self.made.keys().copied().collect()
    }

    fn put(&mut self, made: &mut Made, of: &'static Type, member: (&'static str, &'static str)) {
        match of {
            Type::Void => {}
            Type::Int | Type::Unsigned => {
                let number = self.number() as u32;
                made.leaf(member, &number.to_be_bytes());
            }
            Type::Hyper | Type::UnsignedHyper => {
                let number = self.number();
                made.leaf(member, &number.to_be_bytes());
            }
            Type::Bool => {
                made.constants.push(made.bytes.len());
                made.leaf(member, &u32::from(self.random.bool()).to_be_bytes());
            }
            Type::Opaque(Length::Fixed(length)) => self.opaque(made, *length, member),
            Type::Opaque(Length::Most(most)) => {
                let length = self.random.u32(0..=MOST_BYTES.min(*most));
                made.word(length);
                self.opaque(made, length, member);
            }
            Type::String => {
                let length = self.random.u32(0..=MOST_BYTES);
                made.word(length);
                self.opaque(made, length, member);
            }
            Type::Array(of, length) => {
                let count = match length {
                    Length::Fixed(count) => *count,
                    Length::Most(most) => {
                        let count = self.random.u32(0..=MOST_ELEMENTS.min(*most));
                        made.word(count);
                        count
                    }
                };
                let are_operations = member.1 == "argarray" || member.1 == "resarray";
                for index in 0..count {
                    if are_operations {
                        made.operations.push(made.bytes.len());
                        // The first failing operation is the last one (RFC 7530, section 16.2).
                        made.succeeds = index + 1 < count;
                    }
                    self.put(made, of, member);
                }
            }
            Type::Optional(of) => {
                let is_present = self.random.u32(0..=MOST_ELEMENTS) > 0;
                made.word(is_present.into());
                if is_present {
                    self.put(made, of, member);
                }
            }
            Type::Named(index) => {
                let defined = self.language.defined(*index);
                match &defined.form {
                    Form::Alias(of) => self.put(made, of, member),
                    Form::Enumeration(values) => {
                        let value = match made.succeeds && defined.name == "nfsstat4" {
                            true => 0,
                            false => values[self.random.usize(..values.len())].0,
                        };
                        if !OPEN.contains(&defined.name) {
                            made.constants.push(made.bytes.len());
                        }
                        made.leaf(member, &value.to_be_bytes());
                    }
                    // The walks do not look into the values of attributes.
                    Form::Structure(_) if defined.name == "fattr4" => {
                        let before = made.constants.len();
                        self.attributes(made);
                        made.constants.truncate(before);
                    }
                    Form::Structure(members) => {
                        for inner in members {
                            self.put(made, &inner.of, (defined.name, inner.name));
                        }
                    }
                    Form::Union { switch, arms, default } => {
                        self.union(made, defined.name, switch, arms, default.as_ref());
                    }
                    Form::Awaited => unreachable!("everything is defined"),
                }
            }
        }
    }

    fn union(
        &mut self,
        made: &mut Made,
        name: &'static str,
        switch: &'static Member,
        arms: &'static [(Vec<u32>, Member)],
        default: Option<&'static Member>,
    ) {
        let discriminant = (name, switch.name);
        let listed: Vec<u32> = arms.iter().flat_map(|(values, _)| values.clone()).collect();
        let mut choices: Vec<usize> = (0..arms.len()).collect();
        if default.is_some() {
            choices.push(arms.len());
        }
        if made.succeeds && self.is_status(&switch.of) {
            let success = arms.iter().position(|(values, _)| values.contains(&0));
            choices = vec![success.unwrap_or(arms.len())];
        }
        let times = |arm: &usize| self.made.get(&(name, *arm)).copied().unwrap_or(0);
        let least = choices.iter().map(times).min().expect("a union has an arm");
        choices.retain(|arm| times(arm) == least);
        let arm = choices[self.random.usize(..choices.len())];
        *self.made.entry((name, arm)).or_default() += 1;
        let mut number = match arms.get(arm) {
            Some((values, _)) => values[self.random.usize(..values.len())],
            None if made.succeeds && self.is_status(&switch.of) => 0,
            None => self.other(&switch.of, &listed),
        };
        if default.is_none() && !OPERATIONS.contains(&name) && made.wrong.is_none() {
            match &mut made.right {
                Some(0) => {
                    made.wrong = Some(made.bytes.len());
                    number = (0..)
                        .find(|number| !listed.contains(number) && *number > 1)
                        .expect("some number is not listed");
                }
                Some(left) => *left -= 1,
                None => {}
            }
        }
        made.leaf(discriminant, &number.to_be_bytes());
        let follows = arms.get(arm).map(|(_, member)| member).or(default).expect("the union has this arm");
        self.put(made, &follows.of, (name, follows.name));
    }

    /// A discriminant value that is in none of the arms.
    fn other(&mut self, of: &'static Type, listed: &[u32]) -> u32 {
        let possible = match self.values(of) {
            Some(values) => values,
            None if *of == Type::Bool => vec![0, 1],
            None => (0..20).collect(),
        };
        let possible: Vec<u32> = possible.into_iter().filter(|value| !listed.contains(value)).collect();
        // READ_PLUS has a default in addition to all values of `data_content4`, for later minor
        // versions.
        let later = listed.iter().max().expect("an arm has a value") + 1;
        match possible.is_empty() {
            true => later,
            false => possible[self.random.usize(..possible.len())],
        }
    }

    fn values(&self, of: &Type) -> Option<Vec<u32>> {
        let Type::Named(index) = of else { return None };
        match &self.language.defined(*index).form {
            Form::Enumeration(values) => Some(values.iter().map(|(value, _)| *value).collect()),
            Form::Alias(of) => self.values(of),
            _ => None,
        }
    }

    fn is_status(&self, of: &Type) -> bool {
        matches!(of, Type::Named(index) if self.language.defined(*index).name == "nfsstat4")
    }

    /// A fattr4 with the values of random attributes.
    fn attributes(&mut self, made: &mut Made) {
        const FILEHANDLE: u32 = 19;
        let mut numbers: Vec<u32> = (0..=86).filter(|_| self.random.u8(..8) == 0).collect();
        if self.random.bool() && !numbers.contains(&FILEHANDLE) {
            numbers.push(FILEHANDLE);
            numbers.sort_unstable();
        }
        let words = numbers.last().map_or(0, |last| last / 32 + 1);
        made.word(words);
        for word in 0..words {
            made.word(
                numbers.iter().filter(|number| *number / 32 == word).map(|number| 1 << (number % 32)).sum(),
            );
        }
        let length_at = made.bytes.len();
        made.word(0);
        let (succeeds, right) = (std::mem::take(&mut made.succeeds), made.right.take());
        for number in numbers {
            let attribute = self.language.attribute(number).expect("the attribute has a description");
            self.put(made, &attribute.of, ("fattr4", &attribute.name));
        }
        (made.succeeds, made.right) = (succeeds, right);
        let length = (made.bytes.len() - length_at - 4) as u32;
        made.bytes[length_at..length_at + 4].copy_from_slice(&length.to_be_bytes());
    }

    fn opaque(&mut self, made: &mut Made, length: u32, member: (&'static str, &'static str)) {
        let bytes: Vec<u8> = (0..length).map(|_| self.random.u8(..)).collect();
        made.leaf(member, &bytes);
        made.bytes.resize(made.bytes.len().next_multiple_of(4), 0);
    }

    /// A random number, small or of any size.
    fn number(&mut self) -> u64 {
        if self.random.bool() { self.random.u64(0..8) } else { self.random.u64(..) }
    }
}

impl Made {
    fn word(&mut self, word: u32) {
        self.bytes.extend(word.to_be_bytes());
    }

    fn leaf(&mut self, member: (&'static str, &'static str), bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend(bytes);
        self.leaves.push(Leaf { member, range: start..self.bytes.len() });
    }

    fn one_operation_unless_compound(&mut self) {
        let is_compound = self.leaves.first().is_some_and(|leaf| leaf.member.0.contains("COMPOUND4"));
        if !is_compound {
            self.operations.push(0);
        }
    }
}

/// The arms of all unions that a value of this type may contain.
pub(crate) fn arms(language: &'static Language, of: &'static Type) -> BTreeSet<Arm> {
    let (mut found, mut seen) = (BTreeSet::new(), BTreeSet::new());
    add_arms(language, of, &mut found, &mut seen);
    found
}

fn add_arms(
    language: &'static Language,
    of: &'static Type,
    found: &mut BTreeSet<Arm>,
    seen: &mut BTreeSet<usize>,
) {
    let index = match of {
        Type::Array(of, _) | Type::Optional(of) => return add_arms(language, of, found, seen),
        Type::Named(index) if seen.insert(*index) => *index,
        _ => return,
    };
    let defined = language.defined(index);
    match &defined.form {
        Form::Alias(of) => add_arms(language, of, found, seen),
        Form::Structure(_) if defined.name == "fattr4" => {
            for number in 0..=86 {
                add_arms(
                    language,
                    &language.attribute(number).expect("the attribute has a description").of,
                    found,
                    seen,
                );
            }
        }
        Form::Structure(members) => {
            members.iter().for_each(|member| add_arms(language, &member.of, found, seen))
        }
        Form::Union { arms, default, .. } => {
            let all = arms.iter().map(|(_, member)| member).chain(default);
            for (arm, member) in all.enumerate() {
                found.insert((defined.name, arm));
                add_arms(language, &member.of, found, seen);
            }
        }
        Form::Enumeration(_) | Form::Awaited => {}
    }
}
