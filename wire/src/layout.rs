//! Where the fields of a header stand: for whoever shows a person which bytes are which field.
//!
//! Headers of fixed layout have a `LAYOUT`: their fields as the specification's diagrams draw them, one behind the other. Layout,
//! parser and builder come from one table.

use core::ops::Range;

/// The fields of a header, in order and without gaps: names, as the specification has them, and bits.
#[derive(Clone, Copy, Debug)]
pub struct Layout(pub &'static [(&'static str, usize)]);

/// A field in its header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The specification's name; `reserved` where it has none.
    pub name: &'static str,
    /// Its bits, counted from the most significant bit of the header's first byte, as the diagrams do.
    pub bits: Range<usize>,
}

impl Layout {
    /// The fields.
    pub fn fields(self) -> impl Iterator<Item = Field> {
        let mut at = 0;
        self.0.iter().map(move |(name, length)| {
            let bits = at..at + length;
            at = bits.end;
            Field { name, bits }
        })
    }

    /// The first field of this name.
    pub fn field(self, name: &str) -> Option<Field> {
        self.fields().find(|field| field.name == name)
    }

    /// Length of the header in bytes.
    pub const fn length(self) -> usize {
        let (mut bits, mut field) = (0, 0);
        while field < self.0.len() {
            bits += self.0[field].1;
            field += 1;
        }
        bits / 8
    }
}

/// The layout of headers that stand one behind the other, `N` fields in all.
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
    /// The bytes of the header that hold the field; where it does not fill them, [`Field::mask`] says which bits.
    pub fn bytes(&self) -> Range<usize> {
        self.bits.start / 8..self.bits.end.div_ceil(8)
    }

    /// Which bits of [`Field::bytes`], taken as one big-endian number, are the field's; `None` where all are.
    pub fn mask(&self) -> Option<u64> {
        let (bits, bytes) = (self.bits.len(), self.bytes());
        if bits == 8 * bytes.len() || bits >= 64 {
            return None;
        }
        Some(((1 << bits) - 1) << self.shift())
    }

    /// The value in a header that begins with `header`. `None` where the bytes are not all there, and of a field of more than
    /// 64 bits.
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
        const WHOLE: Layout = Layout(&[("byte", 8), ("half", 16), ("double", 64), ("rest", 8)]);
        let masks = ["byte", "half", "double"].map(|name| WHOLE.field(name).unwrap().mask());
        assert_eq!(masks, [None; 3]);
        assert_eq!(LAYOUT.field("d").unwrap().value(&header[..3]), None);
        assert_eq!(LAYOUT.field("e"), None);
    }
}
