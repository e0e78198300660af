//! Packet sequence numbers: 24-bit serial numbers that wrap (IBTA volume 1, section 9.7.2).

/// A packet sequence number.
///
/// It wraps after 2^24 - 1, so it has no order. Use [`distance`](Psn::distance) to compare two.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Psn(u32);

impl Psn {
    /// The number of PSNs.
    pub const MODULUS: u32 = 1 << 24;

    /// Creates a PSN from the low 24 bits of `value`.
    #[inline]
    pub const fn new(value: u32) -> Psn {
        Psn(value & (Psn::MODULUS - 1))
    }

    /// Returns the number, 0 to 2^24 - 1.
    #[inline]
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Returns the PSN `count` packets later (modulo 2^24).
    #[inline]
    #[must_use]
    pub const fn plus(self, count: u32) -> Psn {
        Psn::new(self.0.wrapping_add(count))
    }

    /// Returns the PSN `count` packets earlier (modulo 2^24).
    #[inline]
    #[must_use]
    pub const fn minus(self, count: u32) -> Psn {
        Psn::new(self.0.wrapping_sub(count))
    }

    /// Returns the distance to `other`: -2^23 to 2^23 - 1, negative if `other` is earlier.
    #[inline]
    pub const fn distance(self, other: Psn) -> i32 {
        ((other.0.wrapping_sub(self.0) << 8) as i32) >> 8
    }
}

impl core::fmt::Display for Psn {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl core::fmt::Debug for Psn {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Psn({})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn psn_wraps_to_zero() {
        assert_eq!(Psn::new(0xff_ffff).plus(1), Psn::new(0));
        assert_eq!(Psn::new(0).minus(1), Psn::new(0xff_ffff));
        assert_eq!(Psn::new(0xff_fffe).distance(Psn::new(3)), 5);
        assert_eq!(Psn::new(3).distance(Psn::new(0xff_fffe)), -5);
    }

    #[test]
    fn distance_of_half_the_psn_space_is_negative() {
        assert_eq!(Psn::new(0).distance(Psn::new(0x7f_ffff)), 0x7f_ffff);
        assert_eq!(Psn::new(0).distance(Psn::new(0x80_0000)), -0x80_0000);
    }

    proptest! {
        #[test]
        fn distance_undoes_plus(start in 0u32..Psn::MODULUS, step in 0u32..0x80_0000) {
            let psn = Psn::new(start);
            prop_assert_eq!(psn.distance(psn.plus(step)), step as i32);
            prop_assert_eq!(psn.plus(step).minus(step), psn);
        }
    }
}
