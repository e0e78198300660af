//! Human-readable sizes and times.

/// A size in bytes.
pub(super) struct Size(pub(super) u64);

impl core::fmt::Display for Size {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let in_units = |f: &mut core::fmt::Formatter<'_>, shift: u32, unit: &str| {
            let tenths = (u128::from(self.0) * 10) >> shift;
            write!(f, "{}.{} {unit}", tenths / 10, tenths % 10)
        };
        match self.0 {
            bytes @ 0..10_240 => write!(f, "{bytes} bytes"),
            10_240..0x10_0000 => in_units(f, 10, "KiB"),
            0x10_0000..0x4000_0000 => in_units(f, 20, "MiB"),
            0x4000_0000.. => in_units(f, 30, "GiB"),
        }
    }
}

/// A time span in nanoseconds.
pub(super) struct Span(pub(super) u64);

impl core::fmt::Display for Span {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            time @ ..10_000_000 => write!(f, "{}.{:02} ms", time / 1_000_000, time / 10_000 % 100),
            time @ ..10_000_000_000 => write!(f, "{} ms", time / 1_000_000),
            time => write!(f, "{} s", time / 1_000_000_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_human_readable() {
        assert_eq!(Size(9_999).to_string(), "9999 bytes");
        assert_eq!(Size(10_240).to_string(), "10.0 KiB");
        assert_eq!(Size((1 << 20) - 1).to_string(), "1023.9 KiB");
        assert_eq!(Size(114_000_000).to_string(), "108.7 MiB");
        assert_eq!(Size(1 << 30).to_string(), "1.0 GiB");
        assert_eq!(Size(u64::MAX).to_string(), "17179869183.9 GiB");
        assert_eq!(Span(1_234_567).to_string(), "1.23 ms");
        assert_eq!(Span(12_345_678).to_string(), "12 ms");
    }
}
