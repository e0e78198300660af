//! The key, and the permutations that it gives.
//!
//! A value is replaced by another one of the same length, by a permutation that only the key tells: equal values stay equal, and different ones different. So
//! whatever a capture shows of equality stays, and nothing has to be remembered.

use core::fmt;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// A key. What it gives are pseudo-random functions: HMAC with SHA-256 (RFC 2104).
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// The fewest bytes of a key: with fewer, all keys can be tried.
    pub const SHORTEST: usize = 16;

    /// The key that these bytes are. `None` where they are fewer than [`Key::SHORTEST`].
    pub fn new(bytes: &[u8]) -> Option<Key> {
        let function = Hmac::new_from_slice(bytes).ok()?;
        (bytes.len() >= Key::SHORTEST).then_some(Key(function))
    }

    /// The first bits of what the key makes of a value of this kind.
    pub(super) fn number(&self, kind: Kind, value: &[u8]) -> u64 {
        let block = self.block(kind, 0, 0, value);
        block.first_chunk().copied().map_or(0, u64::from_be_bytes)
    }

    /// Replaces digits, each less than `radix`, by others, as many. For each `kind`, `radix` and number of digits this is a permutation.
    ///
    /// A Feistel network of ten rounds, as in FF1 (NIST SP 800-38G): the digits of one half are added to what the key makes of the other. A single
    /// digit has no halves: it is replaced by its place among all digits, sorted by what the key makes of each.
    pub(super) fn permute(&self, kind: Kind, radix: u16, digits: &mut [u8]) {
        match digits {
            [] => {}
            [digit] => {
                let order = |digit: u8| self.order(kind, radix, digit);
                let own = (order(*digit), *digit);
                let all = (0..radix).map(|digit| digit as u8);
                *digit = all.filter(|other| (order(*other), *other) < own).count() as u8;
            }
            _ => self.rounds(0..ROUNDS, Sign::Plus, kind, radix, digits),
        }
    }

    /// The same, and nothing stands for itself: one after the other, all values follow in one circle, in the order of what [`Key::permute`] makes of them.
    /// So where a value is replaced until it comes to one of a class of two or more, none of the class stands for itself either.
    pub(super) fn replace(&self, kind: Kind, radix: u16, digits: &mut [u8]) {
        self.permute(kind, radix, digits);
        for digit in &mut *digits {
            *digit = ((u16::from(*digit) + 1) % radix) as u8;
            if *digit > 0 {
                break;
            }
        }
        self.restore(kind, radix, digits);
    }

    /// The inverse of [`Key::permute`].
    fn restore(&self, kind: Kind, radix: u16, digits: &mut [u8]) {
        match digits {
            [] => {}
            [place] => {
                let mut all: Vec<u8> = (0..radix).map(|digit| digit as u8).collect();
                all.sort_by_cached_key(|digit| (self.order(kind, radix, *digit), *digit));
                *place = all[usize::from(*place)];
            }
            _ => self.rounds((0..ROUNDS).rev(), Sign::Minus, kind, radix, digits),
        }
    }

    /// By what digits that stand alone are sorted.
    fn order(&self, kind: Kind, radix: u16, digit: u8) -> u64 {
        self.number(kind, &[radix.to_be_bytes()[0], radix as u8, digit])
    }

    /// These rounds of the Feistel network, on two digits or more.
    fn rounds(
        &self,
        rounds: impl Iterator<Item = u8>,
        sign: Sign,
        kind: Kind,
        radix: u16,
        digits: &mut [u8],
    ) {
        let length = digits.len();
        let (left, right) = digits.split_at_mut(length / 2);
        for round in rounds {
            let (changed, from) = if round % 2 == 0 { (&mut *left, &*right) } else { (&mut *right, &*left) };
            self.add(kind, radix, ([round, (length % 2) as u8], sign), changed, from);
        }
    }

    /// Adds what the key makes of `from` to the digits of `changed`, or takes it away from them.
    fn add(&self, kind: Kind, radix: u16, (round, sign): ([u8; 2], Sign), changed: &mut [u8], from: &[u8]) {
        const BYTES: usize = 2;
        for (index, part) in changed.chunks_mut(32 / BYTES).enumerate() {
            let tweak = u16::from_be_bytes(round) ^ radix.rotate_left(4);
            let block = self.block(kind, tweak, index as u32, from);
            for (digit, random) in part.iter_mut().zip(block.chunks_exact(BYTES)) {
                let random = u16::from_be_bytes([random[0], random[1]]) % radix;
                let random = if sign == Sign::Plus { random } else { radix - random };
                *digit = ((u16::from(*digit) + random) % radix) as u8;
            }
        }
    }

    fn block(&self, kind: Kind, tweak: u16, index: u32, value: &[u8]) -> [u8; 32] {
        let mut function = self.0.clone();
        function.update(&[kind as u8]);
        function.update(&tweak.to_be_bytes());
        function.update(&index.to_be_bytes());
        function.update(value);
        function.finalize().into_bytes().into()
    }
}

/// Rounds of the Feistel network.
const ROUNDS: u8 = 10;

/// Which way a round goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
}

/// What is replaced. Each kind has permutations of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A bit of an IPv4 address, by those before it.
    Ipv4,
    /// A bit of the first half of an IPv6 address, by those before it.
    Ipv6Prefix,
    /// The second half, and GUIDs.
    Identifier,
    /// An Ethernet address.
    Mac,
    /// A uid or gid, and text that is a number.
    Number,
    /// Text.
    Text,
    /// By how much a wrong ICRC is wrong.
    Icrc,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn key(byte: u8) -> Key {
        Key::new(&[byte; 16]).expect("it is long enough")
    }

    #[test]
    fn a_short_key_is_none() {
        assert!(Key::new(&[7; 15]).is_none() && Key::new(b"").is_none() && Key::new(&[7; 200]).is_some());
    }

    /// All values of some small domains: each comes back once.
    #[test]
    fn a_permutation() {
        for (radix, length) in [(2, 1), (10, 1), (256, 1), (10, 2), (65, 2), (10, 3), (2, 9), (3, 8)] {
            let mut found = HashSet::new();
            let (mut digits, mut count) = (vec![0u8; length], 0);
            let (mut unchanged, mut differ) = (0, 0);
            'all: loop {
                let (mut replaced, mut other) = (digits.clone(), digits.clone());
                key(1).permute(Kind::Text, radix, &mut replaced);
                key(2).permute(Kind::Text, radix, &mut other);
                assert!(replaced.iter().all(|digit| u16::from(*digit) < radix));
                unchanged += usize::from(replaced == digits);
                differ += usize::from(replaced != other);
                assert!(found.insert(replaced), "{radix} {digits:?}");
                count += 1;
                for digit in &mut digits {
                    if u16::from(*digit) + 1 < radix {
                        *digit += 1;
                        continue 'all;
                    }
                    *digit = 0;
                }
                break;
            }
            assert_eq!(count, usize::from(radix).pow(length as u32));
            assert!(
                count < 10 || (unchanged < count / 2 && differ > count / 2),
                "{radix}, {length}: {unchanged} {differ}"
            );
        }
    }

    /// All values of some small domains are in one circle, and none stands for itself.
    #[test]
    fn one_circle() {
        for (radix, length) in [(2u16, 1), (10, 1), (256, 1), (10, 2), (65, 2), (10, 3), (2, 9), (3, 8)] {
            let all = usize::from(radix).pow(length as u32);
            let mut digits = vec![1u8; length];
            let mut found = HashSet::new();
            while found.insert(digits.clone()) {
                let before = digits.clone();
                key(1).replace(Kind::Text, radix, &mut digits);
                assert_ne!(digits, before, "{radix}");
                assert!(digits.iter().all(|digit| u16::from(*digit) < radix));
            }
            assert_eq!((found.len(), digits), (all, vec![1; length]), "{radix}");
        }
    }

    #[test]
    fn long_values_and_kinds() {
        let replaced = |kind, bytes: &[u8]| {
            let mut digits = bytes.to_vec();
            key(1).permute(kind, 256, &mut digits);
            digits
        };
        let long = vec![7; 1000];
        let text = replaced(Kind::Text, &long);
        assert_eq!(text, replaced(Kind::Text, &long));
        assert_ne!(text, replaced(Kind::Mac, &long));
        // A changed byte anywhere changes about all.
        for at in [0, 499, 500, 999] {
            let mut other = long.clone();
            other[at] = 8;
            let same =
                text.iter().zip(replaced(Kind::Text, &other)).filter(|(one, two)| **one == *two).count();
            assert!(same < 30, "{at}: {same}");
        }
    }
}
