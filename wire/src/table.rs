//! Header tables: one description of a header's fields gives its layout, parser and builder.
//!
//! The specifications draw a header as rows of fields. [`header!`] takes the same rows: for each
//! field the width in bits, the specification's name, and the struct field that holds the value.
//!
//! `Aeth in Layer::Bth { 8 "Syndrome" syndrome, 24 "MSN" message_sequence_number; }`
//!
//! | cell | meaning |
//! |---|---|
//! | `24 "MSN" message_sequence_number` | a field |
//! | `8 "Vendor ID 23-16" vendor_id << 16` | part of a numeric field: its bits from bit 16 |
//! | `32 "Format Identifier" = FORMAT_IDENTIFIER` | a constant: written, ignored when read |
//! | `7 reserved` | written as zeros, ignored when read |
//!
//! XDR headers ([`rpcrdma`](crate::rpcrdma), [`rpc`](crate::rpc)) have no tables: which fields and
//! list items exist depends on earlier values.
//!
//! The struct of a table needs a default in which fields that are read in parts are 0. Offsets are
//! compile-time constants, so a table compiles to loads, shifts and stores.

use crate::psn::Psn;
use core::ops::{BitOr, Shl};

/// The type of a field.
pub(crate) trait Value {
    /// Reads `bits` bits of `header` from bit `at`, counted from the most significant bit.
    fn read(header: &[u8], at: usize, bits: usize) -> Self;

    /// Writes the value to the same bits, which must be zero before. Bits that do not fit are
    /// dropped.
    fn write(&self, header: &mut [u8], at: usize, bits: usize);
}

/// Reads a number of `bits` bits, at most 64, from bit `at`.
#[inline(always)]
pub(crate) const fn number(header: &[u8], at: usize, bits: usize) -> u64 {
    let end = (at + bits).div_ceil(8);
    let mut value = 0;
    let mut byte = at / 8;
    if end - byte == 3 && byte > 0 {
        // Together with the byte before them, three bytes are a single 32-bit load.
        byte -= 1;
    }
    while byte < end {
        value = value << 8 | header[byte] as u64;
        byte += 1;
    }
    value >> (end * 8 - at - bits) & (u64::MAX >> (64 - bits))
}

/// Writes a number of `bits` bits at bit `at`. The bits of `header` must be zero before; bits of
/// `value` that do not fit are dropped.
#[inline(always)]
pub(crate) const fn put(header: &mut [u8], at: usize, bits: usize, value: u64) {
    let mut byte = (at + bits).div_ceil(8);
    let mut value = (value & (u64::MAX >> (64 - bits))) << (byte * 8 - at - bits);
    while byte > at / 8 {
        byte -= 1;
        header[byte] |= value as u8;
        value >>= 8;
    }
}

/// Reads a part of a field and inserts it into `so_far` at bit `shift`.
#[inline(always)]
pub(crate) fn part<T>(so_far: T, header: &[u8], at: usize, bits: usize, shift: u32) -> T
where
    T: Value + BitOr<Output = T> + Shl<u32, Output = T>,
{
    so_far | T::read(header, at, bits) << shift
}

macro_rules! integers {
    ($($ty:ty)*) => {$(
        impl Value for $ty {
            #[inline(always)]
            fn read(header: &[u8], at: usize, bits: usize) -> $ty {
                number(header, at, bits) as $ty
            }

            #[inline(always)]
            fn write(&self, header: &mut [u8], at: usize, bits: usize) {
                put(header, at, bits, u64::from(*self));
            }
        }
    )*};
}
integers! { u8 u16 u32 u64 }

impl Value for bool {
    #[inline(always)]
    fn read(header: &[u8], at: usize, bits: usize) -> bool {
        number(header, at, bits) != 0
    }

    #[inline(always)]
    fn write(&self, header: &mut [u8], at: usize, bits: usize) {
        put(header, at, bits, u64::from(*self));
    }
}

impl<const N: usize> Value for [u8; N] {
    #[inline(always)]
    fn read(header: &[u8], at: usize, _: usize) -> [u8; N] {
        let mut value = [0; N];
        value.copy_from_slice(&header[at / 8..][..N]);
        value
    }

    #[inline(always)]
    fn write(&self, header: &mut [u8], at: usize, _: usize) {
        header[at / 8..][..N].copy_from_slice(self);
    }
}

impl Value for Psn {
    #[inline(always)]
    fn read(header: &[u8], at: usize, bits: usize) -> Psn {
        Psn::new(number(header, at, bits) as u32)
    }

    #[inline(always)]
    fn write(&self, header: &mut [u8], at: usize, bits: usize) {
        put(header, at, bits, u64::from(self.value()));
    }
}

/// Implements [`Value`] for newtypes.
macro_rules! wrappers {
    ($($name:path),* $(,)?) => {$(
        impl $crate::table::Value for $name {
            #[inline(always)]
            fn read(header: &[u8], at: usize, bits: usize) -> $name {
                $name($crate::table::Value::read(header, at, bits))
            }

            #[inline(always)]
            fn write(&self, header: &mut [u8], at: usize, bits: usize) {
                $crate::table::Value::write(&self.0, header, at, bits);
            }
        }
    )*};
}
pub(crate) use wrappers;
wrappers! { crate::Qpn, crate::Rkey }

/// Implements [`Value`] for enums with `bits()` and `from_bits()`.
macro_rules! enumerations {
    ($($name:path),* $(,)?) => {$(
        impl $crate::table::Value for $name {
            #[inline(always)]
            fn read(header: &[u8], at: usize, bits: usize) -> $name {
                <$name>::from_bits($crate::table::number(header, at, bits) as u8)
            }

            #[inline(always)]
            fn write(&self, header: &mut [u8], at: usize, bits: usize) {
                $crate::table::put(header, at, bits, u64::from(self.bits()));
            }
        }
    )*};
}
pub(crate) use enumerations;

/// Reads a cell into its field or a part of it.
macro_rules! read {
    ($field:expr, $header:expr, $at:expr, $bits:literal) => {
        $field = $crate::table::Value::read($header, $at, $bits)
    };
    ($field:expr, $header:expr, $at:expr, $bits:literal, $shift:literal) => {
        $field = $crate::table::part($field, $header, $at, $bits, $shift)
    };
}
pub(crate) use read;

/// Writes a field or a part of it to its cell.
macro_rules! write {
    ($field:expr, $header:expr, $at:expr, $bits:literal) => {
        $crate::table::Value::write(&$field, $header, $at, $bits)
    };
    ($field:expr, $header:expr, $at:expr, $bits:literal, $shift:literal) => {
        $crate::table::Value::write(&($field >> $shift), $header, $at, $bits)
    };
}
pub(crate) use write;

/// The specification's name of a cell, or `reserved`.
macro_rules! name {
    () => {
        "reserved"
    };
    ($name:literal) => {
        $name
    };
}
pub(crate) use name;

/// Implements a header of fixed length from the rows of its table: `LENGTH`, `LAYOUT`,
/// `from_bytes`, `to_bytes`, `build`, and `parse` if a layer is given.
macro_rules! header {
    ($name:ident in Layer::$layer:ident { $($rows:tt)+ }) => {
        $crate::table::header! { $name { $($rows)+ } }

        impl $name {
            #[doc = concat!("Reads the first [`", stringify!($name), "::LENGTH`] of `bytes`.")]
            #[inline]
            pub fn parse(bytes: &[u8]) -> Result<$name, $crate::Stop> {
                match bytes.first_chunk() {
                    Some(bytes) => Ok($name::from_bytes(bytes)),
                    None => Err($crate::Stop::short($crate::Layer::$layer, 0, $name::LENGTH, bytes.len())),
                }
            }
        }
    };
    ($name:ident { $($(
        $bits:literal $(reserved)? $($label:literal $(= $constant:ident)? $($field:ident $(.$part:tt)? $(<< $shift:literal)?)?)?
    ),+;)+ }) => {
        impl $name {
            /// Length in bytes.
            pub const LENGTH: usize = (0 $($(+ $bits)+)+) / 8;
            /// The fields of the header, in order.
            ///
            $($(#[doc = concat!("* ", $bits, " bits: ", $crate::table::name!($($label)?))])+)+
            pub const LAYOUT: $crate::layout::Layout =
                $crate::layout::Layout(&[$($(($crate::table::name!($($label)?), $bits)),+),+]);

            /// Parses the header. Reserved bits are ignored.
            #[inline]
            pub fn from_bytes(bytes: &[u8; $name::LENGTH]) -> $name {
                let mut header = $name::default();
                let mut at = 0;
                $($(
                    $($(
                        $crate::table::read!(header.$field$(.$part)?, bytes, at, $bits $(, $shift)?);
                    )?)?
                    at += $bits;
                )+)+
                debug_assert!(at == 8 * $name::LENGTH);
                header
            }

            /// Returns the header's bytes. Reserved bits are zero; bits that do not fit a field are
            /// dropped.
            #[inline]
            pub fn to_bytes(&self) -> [u8; $name::LENGTH] {
                let mut bytes = [0; $name::LENGTH];
                let mut at = 0;
                $($(
                    $(
                        $($crate::table::write!($constant, &mut bytes, at, $bits);)?
                        $($crate::table::write!(self.$field$(.$part)?, &mut bytes, at, $bits $(, $shift)?);)?
                    )?
                    at += $bits;
                )+)+
                debug_assert!(at == 8 * $name::LENGTH);
                bytes
            }

            /// Appends the header. Reserved bits are zero; bits that do not fit a field are
            /// dropped.
            pub fn build(&self, out: &mut ::alloc::vec::Vec<u8>) {
                out.extend_from_slice(&self.to_bytes());
            }
        }
    };
}
pub(crate) use header;

/// Implements the fixed rows of a CM message: its layout, which includes the opaque fields after
/// the rows, and `read` and `write` for the rows.
///
/// A row is read as a whole, so a truncated message stops at the start of a row.
macro_rules! rows {
    ($visibility:vis const $layout:ident for $name:ty { $($(
        $bits:literal $(reserved)? $($label:literal $($field:ident $(.$part:tt)? $(<< $shift:literal)?)?)?
    ),+;)+ } $($opaque:literal: $length:expr;)*) => {
        impl $name {
            /// The fields of the message, in order.
            ///
            $($(#[doc = concat!("* ", $bits, " bits: ", $crate::table::name!($($label)?))])+)+
            $(#[doc = concat!("* [`", stringify!($length), "`] bytes: ", $opaque)])*
            $visibility const $layout: $crate::layout::Layout = $crate::layout::Layout(&[
                $($(($crate::table::name!($($label)?), $bits),)+)+
                $(($opaque, 8 * $length),)*
            ]);

            /// Reads the fields of the rows.
            fn read(&mut self, fields: &mut $crate::cm::Fields<'_>) -> Result<(), $crate::Stop> {
                $(
                    let row = fields.take::<{ (0 $(+ $bits)+) / 8 }>()?;
                    let mut at = 0;
                    $(
                        $($(
                            $crate::table::read!(self.$field$(.$part)?, &row, at, $bits $(, $shift)?);
                        )?)?
                        at += $bits;
                    )+
                    debug_assert!(at == 8 * row.len());
                )+
                Ok(())
            }

            /// Appends the rows. Reserved bits are zero; bits that do not fit a field are dropped.
            fn write(&self, out: &mut ::alloc::vec::Vec<u8>) {
                $(
                    let row = &mut [0; (0 $(+ $bits)+) / 8];
                    let mut at = 0;
                    $(
                        $($(
                            $crate::table::write!(self.$field$(.$part)?, row, at, $bits $(, $shift)?);
                        )?)?
                        at += $bits;
                    )+
                    debug_assert!(at == 8 * row.len());
                    out.extend_from_slice(row);
                )+
            }
        }
    };
}
pub(crate) use rows;

#[cfg(test)]
#[allow(unreachable_pub)]
mod tests {
    #[derive(Debug, Default, PartialEq)]
    struct Sample {
        low: u8,
        flag: bool,
        split: u16,
        bytes: [u8; 3],
        long: u64,
    }

    const MAGIC: u16 = 0xabc;

    header! {
        Sample in Layer::Mad {
            3 "low" low, 1 "flag" flag, 4 "split 11-8" split << 8;
            12 "magic" = MAGIC, 4 reserved;
            8 "split 7-0" split << 0, 24 "bytes" bytes;
            4 reserved, 56 "long" long, 4 reserved;
        }
    }

    /// The bits were counted by hand.
    #[test]
    fn cells_of_every_kind() {
        let bytes = [0b1011_0110, 0xab, 0xcf, 0x5a, 1, 2, 3, 0xf1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];
        let expected =
            Sample { low: 5, flag: true, split: 0x65a, bytes: [1, 2, 3], long: 0x12_3456_789a_bcde };
        assert_eq!(Sample::parse(&bytes).as_ref(), Ok(&expected));
        assert_eq!(Sample::parse(&bytes[..14]), Err(crate::Stop::short(crate::Layer::Mad, 0, 15, 14)));
        let mut built = bytes;
        (built[2], built[7], built[14]) = (0xc0, 0x01, 0xe0);
        let mut appended = vec![0xee];
        expected.build(&mut appended);
        assert_eq!(appended[1..], built);
        assert_eq!(Sample::LAYOUT.length(), Sample::LENGTH);
        assert_eq!(Sample::LAYOUT.field("long").map(|field| field.bits), Some(60..116));
        // Bits that do not fit are dropped.
        let wide = Sample { low: 0xff, split: 0xffff, long: u64::MAX, ..expected };
        assert_eq!(wide.to_bytes()[..8], [0xff, 0xab, 0xc0, 0xff, 1, 2, 3, 0x0f]);
    }
}
