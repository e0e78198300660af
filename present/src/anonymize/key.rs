//! The key, and its permutations.
//!
//! Each value is replaced by a value of the same length, by a permutation that depends on the key:
//! equal values stay equal, and different values stay different. So all equalities in a capture are
//! preserved without storing replaced values.

use core::fmt;
use hmac::{Hmac, Mac};
use sha2::Sha256;

/// A key. Its pseudo-random functions are HMAC with SHA-256 (RFC 2104).
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key")
    }
}

impl Key {
    /// The least number of bytes in a key. A shorter key could be found by trying all keys.
    pub const SHORTEST: usize = 16;

    /// Creates a key. `None` if there are fewer than [`Key::SHORTEST`] bytes.
    pub fn new(bytes: &[u8]) -> Option<Key> {
        let function = Hmac::new_from_slice(bytes).ok()?;
        (bytes.len() >= Key::SHORTEST).then_some(Key(function))
    }

    /// The first 64 bits of the pseudo-random function for a value of this kind.
    pub(super) fn number(&self, kind: Kind, value: &[u8]) -> u64 {
        let block = self.block(kind, 0, 0, value);
        block.first_chunk().copied().map_or(0, u64::from_be_bytes)
    }

    /// Replaces digits, each less than `radix`, by the same number of digits. For each `kind`,
    /// `radix` and number of digits this is a permutation.
    ///
    /// It is a Feistel network of ten rounds, as in FF1 (NIST SP 800-38G): each round adds a
    /// pseudo-random function of one half to the digits of the other. A single digit has no halves:
    /// it is replaced by its rank among all digits, ordered by their pseudo-random functions.
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

    /// Replaces digits by a permutation without fixed points. All values form one cycle, in the
    /// order of their images under [`Key::permute`]. So if a value is replaced repeatedly until the
    /// result is in a class of two or more values, no value of the class is replaced by itself.
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

    /// The sort key of a single digit.
    fn order(&self, kind: Kind, radix: u16, digit: u8) -> u64 {
        self.number(kind, &[radix.to_be_bytes()[0], radix as u8, digit])
    }

    /// Applies rounds of the Feistel network to two or more digits.
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

    /// Adds or subtracts a pseudo-random function of `from` to or from the digits of `changed`.
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

/// The number of rounds of the Feistel network.
const ROUNDS: u8 = 10;

/// The direction of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
}

/// The kind of value. Each kind has permutations of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A bit of an IPv4 address, as a function of the preceding bits.
    Ipv4,
    /// A bit of the first half of an IPv6 address, as a function of the preceding bits.
    Ipv6Prefix,
    /// The second half of an IPv6 address, and GUIDs.
    Identifier,
    /// An Ethernet address.
    Mac,
    /// A uid or gid, and text that is a number.
    Number,
    /// Text.
    Text,
    /// The difference of a wrong ICRC from the correct one.
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
    fn short_keys_are_rejected() {
        assert!(Key::new(&[7; 15]).is_none() && Key::new(b"").is_none() && Key::new(&[7; 200]).is_some());
    }

    /// Each value of some small domains is the image of exactly one value.
    #[test]
    fn permute_is_a_permutation() {
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

    /// All values of some small domains form one cycle, so that none is replaced by itself.
    #[test]
    fn replace_forms_one_cycle() {
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
    fn long_values_depend_on_every_byte_and_the_kind() {
        let replaced = |kind, bytes: &[u8]| {
            let mut digits = bytes.to_vec();
            key(1).permute(kind, 256, &mut digits);
            digits
        };
        let long = vec![7; 1000];
        let text = replaced(Kind::Text, &long);
        assert_eq!(text, replaced(Kind::Text, &long));
        assert_ne!(text, replaced(Kind::Mac, &long));
        // A change of any byte changes almost all bytes of the result.
        for at in [0, 499, 500, 999] {
            let mut other = long.clone();
            other[at] = 8;
            let same =
                text.iter().zip(replaced(Kind::Text, &other)).filter(|(one, two)| **one == *two).count();
            assert!(same < 30, "{at}: {same}");
        }
    }
}
