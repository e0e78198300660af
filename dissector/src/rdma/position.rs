//! Where a packet stands among those of its sender.

use rdmascope_wire::psn::Psn;

/// Where something stands in the order of its sender, in the numbers that the transport gives it.
///
/// Who stands above the transport compares positions of one connection and one direction, and shows their [`number`](Position::number).
/// Today every transport here numbers packets with PSNs, which wrap after 2^24 - 1. RDMAP over TCP will number otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Position(Psn);

impl Position {
    /// The position of the packet with this PSN.
    #[inline]
    pub const fn new(psn: Psn) -> Position {
        Position(psn)
    }

    /// The number as the transport's headers carry it: for InfiniBand the PSN, 0 to 2^24 - 1.
    #[inline]
    pub const fn number(self) -> u32 {
        self.0.value()
    }

    /// The position `count` numbers later.
    #[inline]
    #[must_use]
    pub const fn plus(self, count: u32) -> Position {
        Position(self.0.plus(count))
    }

    /// How far `other` lies ahead of this one; negative where `other` is the earlier.
    #[inline]
    pub const fn distance(self, other: Position) -> i32 {
        self.0.distance(other.0)
    }
}

impl From<Psn> for Position {
    #[inline]
    fn from(psn: Psn) -> Position {
        Position(psn)
    }
}

impl core::fmt::Display for Position {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.fmt(f)
    }
}

impl core::fmt::Debug for Position {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Position({})", self.0)
    }
}
