//! The values of columns.

use super::{Info, Output};
use core::fmt;
use rdmascope_dissector::record::Time;

/// The value of a column, borrowed from the subject of the line.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// Absent, or not known from this capture.
    Missing,
    /// True or false.
    Boolean(bool),
    /// A number.
    Number(u64),
    /// A number with decimals.
    Fraction(f64),
    /// A duration.
    Nanoseconds(u64),
    /// An instant.
    Time(Time),
    /// An XID, a handle, or another key of 32 bits.
    Key(u32),
    /// A queue pair number.
    Qpn(u32),
    /// An offset in registered memory.
    Offset(u64),
    /// A text.
    Text(&'a str),
    /// A `Display` value.
    Shown(&'a dyn fmt::Display),
    /// A text in which invalid UTF-8 is replaced.
    Lossy(&'a [u8]),
    /// Bytes as hexadecimal digits.
    Bytes(&'a [u8]),
    /// A value from other JSON.
    Json(&'a serde_json::Value),
    /// An object.
    Object(&'a dyn Fields),
    /// Several values.
    List(&'a dyn Items),
}

/// The columns of an object.
pub trait Fields {
    /// The `type` of the line, if the object is a line.
    fn line(&self) -> Option<&'static str>;

    /// Lends the value of each column that appears in `output` to `see`, in order.
    fn each(&self, output: Output, see: &mut dyn FnMut(&'static Info, Value<'_>));
}

/// The values of a list.
pub trait Items {
    /// Lends each value to `see`.
    fn each(&self, see: &mut dyn FnMut(Value<'_>));
}

impl<F: Fn(&mut dyn FnMut(Value<'_>))> Items for F {
    fn each(&self, see: &mut dyn FnMut(Value<'_>)) {
        self(see);
    }
}

/// A text with U+FFFD for each invalid UTF-8 sequence.
pub struct Lossy<'a>(pub &'a [u8]);

impl fmt::Display for Lossy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            f.write_str(chunk.valid())?;
            if !chunk.invalid().is_empty() {
                f.write_str("\u{fffd}")?;
            }
        }
        Ok(())
    }
}
