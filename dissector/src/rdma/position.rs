//! Positions of packets in the numbering of their sender.

use rdmascope_wire::psn::Psn;

/// A position in the numbering of one sender.
///
/// It is a PSN, which counts packets and wraps after 2^24 - 1, or a TCP sequence number, which
/// counts bytes and wraps after 2^32 - 1.
///
/// Higher layers compare positions of one connection and one direction, and display their
/// [`number`](Position::number).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Position {
    /// The number, shifted to the highest bits so that it wraps correctly.
    value: u32,
    /// Number of unused low bits.
    shift: u8,
}

impl Position {
    const PSN_SHIFT: u8 = 8;

    /// Creates the position of the packet with this PSN.
    #[inline]
    pub const fn new(psn: Psn) -> Position {
        Position { value: psn.value() << Position::PSN_SHIFT, shift: Position::PSN_SHIFT }
    }

    /// Creates the position of the byte with this TCP sequence number.
    #[inline]
    pub(crate) const fn of_sequence(number: u32) -> Position {
        Position { value: number, shift: 0 }
    }

    /// The number in the transport's headers; for InfiniBand the PSN, 0 to 2^24 - 1.
    #[inline]
    pub const fn number(self) -> u32 {
        self.value >> self.shift
    }

    /// Returns the position `count` numbers later.
    #[inline]
    #[must_use]
    pub const fn plus(self, count: u32) -> Position {
        Position { value: self.value.wrapping_add(count << self.shift), ..self }
    }

    /// Distance from this position to `other`; negative if `other` is earlier.
    #[inline]
    pub const fn distance(self, other: Position) -> i32 {
        (other.value.wrapping_sub(self.value) as i32) >> self.shift
    }

    /// The longest distance that a sender can be ahead of the last acknowledgement. A packet
    /// further away belongs to a new use of the queue pair.
    #[inline]
    pub const fn window(self) -> i32 {
        // A TCP window has less than 2^30 bytes (RFC 7323, section 2.3).
        if self.counts_bytes() { 1 << 30 } else { 1 << 16 }
    }

    /// Whether an acknowledgement up to `acknowledged` covers this position.
    #[inline]
    pub(crate) fn is_covered_by(self, acknowledged: Position) -> bool {
        (0..=self.window()).contains(&self.distance(acknowledged))
    }

    /// Name of the numbers in the transport's specification.
    pub const fn unit(self) -> &'static str {
        if self.counts_bytes() { "sequence number" } else { "PSN" }
    }

    /// Whether the numbers count bytes. Otherwise they count packets.
    #[inline]
    pub const fn counts_bytes(self) -> bool {
        self.shift == 0
    }
}

impl Default for Position {
    fn default() -> Position {
        Position::new(Psn::default())
    }
}

impl From<Psn> for Position {
    #[inline]
    fn from(psn: Psn) -> Position {
        Position::new(psn)
    }
}

impl core::fmt::Display for Position {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.number().fmt(f)
    }
}

impl core::fmt::Debug for Position {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Position({})", self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn psns_wrap_at_24_bits_and_sequence_numbers_at_32() {
        let psn = |number| Position::new(Psn::new(number));
        let last = psn(0x00ff_ffff);
        assert_eq!((last.plus(2), last.distance(psn(1)), psn(1).distance(last)), (psn(1), 2, -2));
        let last = Position::of_sequence(u32::MAX);
        assert_eq!(last.plus(2), Position::of_sequence(1));
        assert_eq!((last.distance(last.plus(2)), last.plus(2).distance(last)), (2, -2));
        assert_eq!((psn(5).number(), last.number()), (5, u32::MAX));
        assert_eq!(psn(0x0080_0000).distance(psn(0)).abs(), 0x0080_0000);
    }
}
