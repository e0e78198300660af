//! Positions of header fields, for displays that map bytes to fields.
//!
//! Headers of fixed layout have a `LAYOUT`: their fields in the order of the specification's
//! diagrams. Layout, parser and builder come from one table.

use core::ops::Range;

/// The fields of a header, in order and without gaps: the specification's name and the width in
/// bits.
#[derive(Clone, Copy, Debug)]
pub struct Layout(pub &'static [(&'static str, usize)]);

/// A field and its position in the header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The specification's name; `reserved` for reserved bits.
    pub name: &'static str,
    /// The bits of the field, counted from the most significant bit of the header's first byte, as
    /// in the specification's diagrams.
    pub bits: Range<usize>,
}

impl Layout {
    /// Returns the fields in order.
    pub fn fields(self) -> impl Iterator<Item = Field> {
        let mut at = 0;
        self.0.iter().map(move |(name, length)| {
            let bits = at..at + length;
            at = bits.end;
            Field { name, bits }
        })
    }

    /// Finds the first field with this name.
    pub fn field(self, name: &str) -> Option<Field> {
        self.fields().find(|field| field.name == name)
    }

    /// Returns the length of the header in bytes.
    pub const fn length(self) -> usize {
        let (mut bits, mut field) = (0, 0);
        while field < self.0.len() {
            bits += self.0[field].1;
            field += 1;
        }
        bits / 8
    }
}

/// Concatenates the layouts of consecutive headers, `N` fields in all.
pub(crate) const fn join<const N: usize>(layouts: &[Layout]) -> [(&'static str, usize); N] {
    let mut fields = [("", 0); N];
    let (mut layout, mut at) = (0, 0);
    while layout < layouts.len() {
        let mut field = 0;
        while field < layouts[layout].0.len() {
            fields[at] = layouts[layout].0[field];
            (field, at) = (field + 1, at + 1);
        }
        layout += 1;
    }
    assert!(at == N);
    fields
}

impl Field {
    /// Returns the bytes of the header that hold the field. [`Field::mask`] selects its bits in
    /// them.
    pub fn bytes(&self) -> Range<usize> {
        self.bits.start / 8..self.bits.end.div_ceil(8)
    }

    /// Returns the mask of the field's bits in [`Field::bytes`], read as one big-endian number.
    /// `None` if the field fills the bytes or has 64 bits or more.
    pub fn mask(&self) -> Option<u64> {
        let (bits, bytes) = (self.bits.len(), self.bytes());
        if bits == 8 * bytes.len() || bits >= 64 {
            return None;
        }
        Some(((1 << bits) - 1) << self.shift())
    }

    /// Reads the value from a header that begins with `header`. Returns `None` if bytes are missing
    /// or the field is longer than 64 bits.
    pub fn value(&self, header: &[u8]) -> Option<u64> {
        let bytes = header.get(self.bytes())?;
        if bytes.len() > 8 {
            return None;
        }
        let number = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        Some(match self.mask() {
            Some(mask) => (number & mask) >> self.shift(),
            None => number,
        })
    }

    fn shift(&self) -> usize {
        self.bytes().end * 8 - self.bits.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_every_kind() {
        const LAYOUT: Layout = Layout(&[("a", 3), ("b", 5), ("c", 4), ("d", 20), ("long", 96)]);
        let header = [0xa1, 0x23, 0x45, 0x67, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
        assert_eq!(LAYOUT.length(), header.len());
        let read = |name| {
            let field = LAYOUT.field(name).unwrap();
            (field.bytes(), field.mask(), field.value(&header))
        };
        assert_eq!(read("a"), (0..1, Some(0xe0), Some(5)));
        assert_eq!(read("b"), (0..1, Some(0x1f), Some(1)));
        assert_eq!(read("c"), (1..2, Some(0xf0), Some(2)));
        assert_eq!(read("d"), (1..4, Some(0x0f_ffff), Some(0x3_4567)));
        assert_eq!(read("long"), (4..16, None, None));
        const ALIGNED: Layout = Layout(&[("byte", 8), ("half", 16), ("double", 64), ("rest", 8)]);
        let masks = ["byte", "half", "double"].map(|name| ALIGNED.field(name).unwrap().mask());
        assert_eq!(masks, [None; 3]);
        assert_eq!(LAYOUT.field("d").unwrap().value(&header[..3]), None);
        assert_eq!(LAYOUT.field("e"), None);
    }
}
