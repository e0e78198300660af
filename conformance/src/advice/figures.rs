//! Human-readable sizes and times.

/// A size in bytes.
pub(super) struct Size(pub(super) u64);

impl core::fmt::Display for Size {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.0 {
            bytes @ ..10_000 => write!(f, "{bytes} bytes"),
            bytes @ ..10_000_000 => write!(f, "{} kB", bytes / 1_000),
            bytes @ ..10_000_000_000 => write!(f, "{} MB", bytes / 1_000_000),
            bytes => write!(f, "{} GB", bytes / 1_000_000_000),
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
        assert_eq!(Size(65_536).to_string(), "65 kB");
        assert_eq!(Size(1 << 30).to_string(), "1073 MB");
        assert_eq!(Span(1_234_567).to_string(), "1.23 ms");
        assert_eq!(Span(12_345_678).to_string(), "12 ms");
    }
}
