//! The type information of a kernel: offsets of structure members and parameters of functions.
//!
//! ```text
//! header:  magic 2 | version 1 | flags 1 | header length 4 | types: offset 4, length 4
//!          | strings: offset 4, length 4      offsets count from the end of the header
//! type:    name 4 | kind, number of members 4 | size or type 4 | members
//! ```
//!
//! Numbers are in host byte order. A module continues the types and the strings of vmlinux: its
//! first type has the number after the last one there, and its strings begin where those end. The
//! format is that of Linux, `Documentation/bpf/btf.rst`. Any bytes are accepted; unreadable
//! types are not found.

const MAGIC: u16 = 0xeb9f;

/// Kinds of types: BTF_KIND_…
mod kind {
    pub(super) const NUMBER: u32 = 1;
    pub(super) const POINTER: u32 = 2;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUMERATION: u32 = 6;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const VOLATILE: u32 = 9;
    pub(super) const CONST: u32 = 10;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const FUNCTION: u32 = 12;
    pub(super) const PROTOTYPE: u32 = 13;
    pub(super) const TYPE_TAG: u32 = 18;
}

/// The types of vmlinux, and of a module if there is one.
pub(crate) struct Btf {
    parts: Vec<Part>,
}

/// The types of one file.
struct Part {
    words: Vec<u32>,
    /// The index in `words` of each type.
    starts: Vec<usize>,
    strings: Vec<u8>,
}

/// The number of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypeId(u32);

/// A type with its members.
struct Type<'a> {
    name: u32,
    kind: u32,
    /// Whether member offsets have the size of a bit field in their upper byte.
    has_bit_fields: bool,
    /// The size, or the number of another type.
    rest: u32,
    members: &'a [u32],
}

impl Btf {
    /// Parses `/sys/kernel/btf/vmlinux`, and the file of a module if given. `None` if one of them
    /// is no BTF.
    pub(crate) fn parse(vmlinux: &[u8], module: Option<&[u8]>) -> Option<Btf> {
        let mut parts = vec![Part::parse(vmlinux)?];
        if let Some(module) = module {
            parts.push(Part::parse(module)?);
        }
        Some(Btf { parts })
    }

    fn get(&self, TypeId(number): TypeId) -> Option<Type<'_>> {
        // Number 0 is `void`, which no file has.
        let mut index = (number as usize).checked_sub(1)?;
        for part in &self.parts {
            if let Some(start) = part.starts.get(index) {
                return part.read(*start).map(|(this, _)| this);
            }
            index -= part.starts.len();
        }
        None
    }

    fn name(&self, offset: u32) -> Option<&[u8]> {
        let mut offset = offset as usize;
        for part in &self.parts {
            if let Some(rest) = part.strings.get(offset..).filter(|rest| !rest.is_empty()) {
                return rest.split(|byte| *byte == 0).next();
            }
            offset -= part.strings.len();
        }
        None
    }

    /// Finds a type by kind and name. The latest file comes first, because its functions use its
    /// own version of a structure.
    fn find(&self, kinds: &[u32], name: &str) -> Option<TypeId> {
        let mut end: usize = self.parts.iter().map(|part| part.starts.len()).sum();
        for part in self.parts.iter().rev() {
            end -= part.starts.len();
            for (index, start) in part.starts.iter().enumerate() {
                let Some((this, _)) = part.read(*start) else { continue };
                if kinds.contains(&this.kind) && self.name(this.name) == Some(name.as_bytes()) {
                    return Some(TypeId((end + index + 1) as u32));
                }
            }
        }
        None
    }

    /// The position, from 1, of the parameter of a function that points to a structure. `None`:
    /// the function is missing. `Some(None)`: it has no such parameter.
    pub(crate) fn parameter(&self, function: &str, structure: &str) -> Option<Option<usize>> {
        let function = self.get(self.find(&[kind::FUNCTION], function)?)?;
        let prototype = self.get(TypeId(function.rest)).filter(|this| this.kind == kind::PROTOTYPE)?;
        let points_to_structure = |member: &[u32]| {
            let pointee = self.pointee(TypeId(member[1]));
            pointee.and_then(|this| self.name(self.get(this)?.name)) == Some(structure.as_bytes())
        };
        Some(prototype.members.chunks_exact(2).position(points_to_structure).map(|index| index + 1))
    }

    /// The structure or union with a name.
    pub(crate) fn structure(&self, name: &str) -> Option<TypeId> {
        self.find(&[kind::STRUCT, kind::UNION], name)
    }

    /// The type that a pointer points to, without qualifiers.
    pub(crate) fn pointee(&self, pointer: TypeId) -> Option<TypeId> {
        let this = self.get(self.plain(pointer)?).filter(|this| this.kind == kind::POINTER)?;
        self.plain(TypeId(this.rest))
    }

    /// The offset of a member in bytes, and its type. Members of unnamed structures and unions belong
    /// to the structure around them. Instead of an array, this returns its first element. Bit fields
    /// are not found.
    pub(crate) fn member(&self, structure: TypeId, name: &str) -> Option<(u32, TypeId)> {
        self.member_within(structure, name, 8)
    }

    fn member_within(&self, structure: TypeId, name: &str, depth: u32) -> Option<(u32, TypeId)> {
        let depth = depth.checked_sub(1)?;
        let this = self.get(self.plain(structure)?)?;
        if ![kind::STRUCT, kind::UNION].contains(&this.kind) {
            return None;
        }
        this.members.chunks_exact(3).find_map(|member| {
            let (own, of, bits) = (self.name(member[0])?, TypeId(member[1]), member[2]);
            let (bits, size) = if this.has_bit_fields { (bits & 0xff_ffff, bits >> 24) } else { (bits, 0) };
            let (offset, of) = match own {
                [] => self.member_within(of, name, depth)?,
                own if own == name.as_bytes() && size == 0 => (0, self.element(of)?),
                _ => return None,
            };
            Some((offset.checked_add(bits / 8)?, of))
        })
    }

    /// The size of a number, pointer, structure or union in bytes.
    pub(crate) fn size(&self, of: TypeId) -> Option<u32> {
        let this = self.get(self.plain(of)?)?;
        match this.kind {
            kind::POINTER => Some(size_of::<usize>() as u32),
            kind::NUMBER | kind::ENUMERATION | kind::STRUCT | kind::UNION => Some(this.rest),
            _ => None,
        }
    }

    fn element(&self, array: TypeId) -> Option<TypeId> {
        let plain = self.plain(array)?;
        match self.get(plain) {
            Some(Type { kind: kind::ARRAY, members: [element, ..], .. }) => self.plain(TypeId(*element)),
            _ => Some(plain),
        }
    }

    /// A type without qualifiers and type definitions.
    fn plain(&self, mut of: TypeId) -> Option<TypeId> {
        use kind::{CONST, RESTRICT, TYPE_TAG, TYPEDEF, VOLATILE};
        for _ in 0..16 {
            match self.get(of) {
                Some(Type { kind: TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG, rest, .. }) => {
                    of = TypeId(rest);
                }
                _ => return Some(of),
            }
        }
        None
    }
}

impl Part {
    fn parse(bytes: &[u8]) -> Option<Part> {
        if bytes.get(..2)? != MAGIC.to_ne_bytes() {
            return None;
        }
        let word = |at: usize| Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?) as usize);
        let body = bytes.get(word(4)?..)?;
        let section = |offset: usize, length: usize| body.get(offset..offset.checked_add(length)?);
        let types = section(word(8)?, word(12)?)?;
        let words = types.as_chunks().0.iter().map(|bytes| u32::from_ne_bytes(*bytes)).collect();
        let strings = section(word(16)?, word(20)?)?.to_vec();
        let mut part = Part { words, starts: Vec::new(), strings };
        let mut start = 0;
        while let Some((_, end)) = part.read(start) {
            part.starts.push(start);
            start = end;
        }
        Some(part)
    }

    /// The type at an index in `words`, and the index after it.
    fn read(&self, start: usize) -> Option<(Type<'_>, usize)> {
        let [name, info, rest] = *self.words.get(start..)?.first_chunk()?;
        let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        let words = match kind {
            // Numbers, variables and declaration tags have one word.
            kind::NUMBER | 14 | 17 => 1,
            // Arrays, enumerations of 4 and of 8 bytes, and sections.
            kind::ARRAY => 3,
            kind::ENUMERATION | kind::PROTOTYPE => 2 * count,
            kind::STRUCT | kind::UNION | 15 | 19 => 3 * count,
            // The length of unknown kinds is unknown.
            0 | 20.. => return None,
            _ => 0,
        };
        let end = start + 3 + words;
        let members = self.words.get(start + 3..end)?;
        Some((Type { name, kind, has_bit_fields: info >> 31 == 1, rest, members }, end))
    }
}

#[cfg(test)]
pub(super) mod tests;
