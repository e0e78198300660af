//! Replacement of addresses, names and uids.

use super::key::{Key, Kind};
use core::net::{Ipv4Addr, Ipv6Addr};
use foldhash::fast::FixedState;
use std::collections::HashMap;

/// Replaces values, with a cache of recent ones.
#[derive(Clone, Debug)]
pub(super) struct Values {
    key: Key,
    /// The length of an address identifies its kind.
    addresses: HashMap<Box<[u8]>, Box<[u8]>, FixedState>,
    texts: HashMap<Box<[u8]>, Box<[u8]>, FixedState>,
}

/// The most addresses, and the most texts, in the cache. It is cleared when full.
const MOST_KNOWN: usize = 1 << 14;
/// The longest text in the cache, in bytes.
const LONGEST_KNOWN: usize = 256;

impl Values {
    pub(super) fn new(key: Key) -> Values {
        Values { key, addresses: HashMap::default(), texts: HashMap::default() }
    }

    /// Replaces an IPv4 address within its class. Addresses keep common prefixes, as in Crypto-PAn.
    pub(super) fn ipv4(&mut self, address: [u8; 4]) -> [u8; 4] {
        self.address(address, |key, address| {
            let class = class_of_ipv4(address);
            let mut number = u32::from_be_bytes(address);
            // A result outside of the class is permuted again until it is inside.
            loop {
                let bits = (class.1..32).map(|bit| {
                    let before = number & !(u32::MAX >> bit);
                    let value = u64::from(bit) << 32 | u64::from(before);
                    (key.number(Kind::Ipv4, &value.to_be_bytes()) as u32 & 1) << (31 - bit)
                });
                number ^= bits.sum::<u32>();
                if class_of_ipv4(number.to_be_bytes()) == class {
                    return number.to_be_bytes();
                }
            }
        })
    }

    /// Replaces an IPv6 address or a GID: the first half like an IPv4 address, the second half like
    /// a GUID. A mapped IPv4 address is replaced as such.
    pub(super) fn ipv6(&mut self, address: [u8; 16]) -> [u8; 16] {
        if let Some(mapped) = Ipv6Addr::from(address).to_ipv4_mapped() {
            return Ipv4Addr::from(self.ipv4(mapped.octets())).to_ipv6_mapped().octets();
        }
        self.address(address, |key, address| {
            let class = class_of_ipv6(address);
            let number = u128::from_be_bytes(address);
            let (mut prefix, mut identifier) = ((number >> 64) as u64, number as u64);
            if class.1 > 64 {
                return address;
            }
            loop {
                let bits = (class.1..64).map(|bit| {
                    let before = prefix & !(u64::MAX >> bit);
                    let value = u128::from(bit) << 64 | u128::from(before);
                    (key.number(Kind::Ipv6Prefix, &value.to_be_bytes()) & 1) << (63 - bit)
                });
                prefix ^= bits.sum::<u64>();
                identifier = new_identifier(key, identifier);
                let replaced = (u128::from(prefix) << 64 | u128::from(identifier)).to_be_bytes();
                if class_of_ipv6(replaced) == class {
                    return replaced;
                }
            }
        })
    }

    /// Replaces an EUI-64, which is also the second half of a link-local GID. 0 stays.
    pub(super) fn guid(&mut self, guid: [u8; 8]) -> [u8; 8] {
        self.address(guid, |key, guid| new_identifier(key, u64::from_be_bytes(guid)).to_be_bytes())
    }

    /// Replaces an Ethernet address. The group bit and the local bit stay, as do broadcast and 0.
    pub(super) fn mac(&mut self, address: [u8; 6]) -> [u8; 6] {
        self.address(address, |key, address| {
            let class = class_of_mac(address);
            let mut replaced = address;
            while class.is_some() {
                key.permute(Kind::Mac, 256, &mut replaced);
                if class_of_mac(replaced) == class {
                    break;
                }
            }
            replaced
        })
    }

    /// Replaces a uid or gid by one with the same number of decimal digits. 0 stays.
    pub(super) fn user(&mut self, user: u32) -> u32 {
        let text = self.text(user.to_string().as_bytes());
        core::str::from_utf8(&text).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    /// Replaces text, or another kind of name, by one of the same length. The parts between `/` and
    /// `@` are replaced one by one within their class.
    pub(super) fn text(&mut self, text: &[u8]) -> Box<[u8]> {
        if WELL_KNOWN.contains(&text) {
            return text.into();
        }
        if let Some(known) = self.texts.get(text) {
            return known.clone();
        }
        let mut replaced: Box<[u8]> = text.into();
        for part in replaced.split_mut(|byte| SEPARATORS.contains(byte)) {
            new_text(&self.key, part);
        }
        if text.len() <= LONGEST_KNOWN {
            if self.texts.len() >= MOST_KNOWN {
                self.texts.clear();
            }
            self.texts.insert(text.into(), replaced.clone());
        }
        replaced
    }

    /// Replaces the difference of a wrong checksum from the correct one. Zero stays zero, and any
    /// other value stays nonzero.
    pub(super) fn difference(&self, difference: u32) -> u32 {
        u32::from_be_bytes(permuted(&self.key, Kind::Icrc, difference.to_be_bytes()))
    }

    fn address<const N: usize>(
        &mut self,
        address: [u8; N],
        new: impl FnOnce(&Key, [u8; N]) -> [u8; N],
    ) -> [u8; N] {
        if let Some(known) = self.addresses.get(&address[..]).and_then(|known| known.first_chunk()) {
            return *known;
        }
        let replaced = new(&self.key, address);
        if self.addresses.len() >= MOST_KNOWN {
            self.addresses.clear();
        }
        self.addresses.insert(address.into(), replaced.into());
        replaced
    }
}

/// The class of an IPv4 address, and the number of prefix bits that determine it. These bits stay.
fn class_of_ipv4(address: [u8; 4]) -> (u8, u32) {
    match address {
        // This host, loopback, local multicast, broadcast.
        [0 | 127, ..] | [224, 0, 0, _] | [255, 255, 255, 255] => (0, 32),
        // Private (RFC 1918), shared (RFC 6598), link-local (RFC 3927).
        [10, ..] => (1, 8),
        [172, 16..=31, ..] => (2, 12),
        [192, 168, ..] => (3, 16),
        [100, 64..=127, ..] => (4, 10),
        [169, 254, ..] => (5, 16),
        [224..=239, ..] => (6, 4),
        [240..=255, ..] => (7, 4),
        _ => (8, 0),
    }
}

/// The class of an IPv6 address (RFC 4291, section 2.4), and its prefix bits. If there are more
/// than 64, the whole address stays.
fn class_of_ipv6(address: [u8; 16]) -> (u8, u32) {
    match address {
        // Unspecified, loopback, the well-known groups of each scope.
        [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 | 1]
        | [0xff, _, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, _] => (0, 128),
        [0xff, ..] => (1, 16),
        [0xfe, 0x80..=0xbf, ..] => (2, 64),
        // Unique local (RFC 4193).
        [0xfc | 0xfd, ..] => (3, 8),
        [0x20..=0x3f, ..] => (4, 3),
        _ => (5, 0),
    }
}

fn new_identifier(key: &Key, identifier: u64) -> u64 {
    u64::from_be_bytes(permuted(key, Kind::Identifier, identifier.to_be_bytes()))
}

/// Replaces a number; 0 stays. The value whose image is 0 gets the image of 0, so that at most two
/// steps are needed.
fn permuted<const N: usize>(key: &Key, kind: Kind, mut bytes: [u8; N]) -> [u8; N] {
    if bytes == [0; N] {
        return bytes;
    }
    loop {
        key.permute(kind, 256, &mut bytes);
        if bytes != [0; N] {
            return bytes;
        }
    }
}

/// The two type bits of an Ethernet address, and its first digit if it is one by which MPLS
/// distinguishes IP and pseudowires from Ethernet (RFC 4928, section 3). `None` for broadcast and
/// 0, which stay.
fn class_of_mac(address: [u8; 6]) -> Option<(u8, u8)> {
    let digit = Some(address[0] >> 4).filter(|digit| matches!(digit, 0 | 4 | 6)).unwrap_or(u8::MAX);
    (address != [0; 6] && address != [0xff; 6]).then_some((address[0] & 3, digit))
}

/// The separators of the parts of text.
const SEPARATORS: &[u8] = b"/@";

/// Special principals of NFSv4 ACEs (RFC 8881, section 6.2.1.5).
const WELL_KNOWN: [&[u8]; 10] = [
    b"OWNER@",
    b"GROUP@",
    b"EVERYONE@",
    b"INTERACTIVE@",
    b"NETWORK@",
    b"DIALUP@",
    b"BATCH@",
    b"ANONYMOUS@",
    b"AUTHENTICATED@",
    b"SERVICE@",
];

/// The characters in a part of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Without information: empty, `.`, `..`, and 0, which is root.
    Fixed,
    /// A decimal 32-bit number without leading zeros. The text of a uid is replaced like the uid.
    Number,
    /// Letters, digits, and other characters common in names.
    Plain,
    /// Other printable ASCII characters.
    Printable,
    /// Any bytes.
    Other,
}

impl Class {
    fn of(part: &[u8]) -> Class {
        if matches!(part, b"" | b"." | b".." | b"0") {
            return Class::Fixed;
        }
        let number = core::str::from_utf8(part).ok().and_then(|text| text.parse::<u32>().ok());
        if number.is_some() && !matches!(part[0], b'0' | b'+') {
            return Class::Number;
        }
        let consists_of = |class: Class| part.iter().all(|byte| class.has(*byte));
        [Class::Plain, Class::Printable].into_iter().find(|class| consists_of(*class)).unwrap_or(Class::Other)
    }

    fn has(self, byte: u8) -> bool {
        match self {
            Class::Fixed => false,
            Class::Number => byte.is_ascii_digit(),
            Class::Plain => byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_'),
            Class::Printable => matches!(byte, b' '..=b'~') && !SEPARATORS.contains(&byte),
            Class::Other => !SEPARATORS.contains(&byte),
        }
    }
}

/// Replaces a part of text.
fn new_text(key: &Key, part: &mut [u8]) {
    let class = Class::of(part);
    if class == Class::Fixed {
        return;
    }
    let kind = if class == Class::Number { Kind::Number } else { Kind::Text };
    let alphabet: Vec<u8> = (0..=u8::MAX).filter(|byte| class.has(*byte)).collect();
    let mut digits: Vec<u8> =
        part.iter().map(|byte| alphabet.partition_point(|other| other < byte) as u8).collect();
    loop {
        key.replace(kind, alphabet.len() as u16, &mut digits);
        for (byte, digit) in part.iter_mut().zip(&digits) {
            *byte = alphabet[usize::from(*digit)];
        }
        // A result outside of the class is replaced again until it is inside.
        if Class::of(part) == class {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn values() -> Values {
        Values::new(Key::new(b"a key for these tests").expect("it is long enough"))
    }

    #[test]
    fn addresses_keep_their_class_and_their_prefixes() {
        let mut values = values();
        let addresses = [
            "10.77.0.1",
            "10.77.0.2",
            "10.78.0.1",
            "172.16.9.9",
            "192.168.1.1",
            "169.254.3.3",
            "8.8.8.8",
            "8.8.8.130",
            "131.169.4.5",
            "131.169.4.6",
            "239.1.2.3",
            "250.1.1.1",
            "100.64.1.1",
            "172.32.0.1",
        ];
        let common =
            |one: [u8; 4], two: [u8; 4]| (u32::from_be_bytes(one) ^ u32::from_be_bytes(two)).leading_zeros();
        let all: Vec<[u8; 4]> = addresses.map(|text| text.parse::<Ipv4Addr>().unwrap().octets()).into();
        let replaced: Vec<[u8; 4]> = all.iter().map(|address| values.ipv4(*address)).collect();
        for (one, (own, other)) in all.iter().zip(&replaced).enumerate() {
            assert_ne!(own, other);
            assert_eq!(class_of_ipv4(*own), class_of_ipv4(*other));
            for (two, (own_two, other_two)) in all.iter().zip(&replaced).enumerate() {
                if one != two && common(*own, *own_two) >= 16 {
                    assert_eq!(common(*own, *own_two), common(*other, *other_two));
                }
            }
        }
        for stays in [[0; 4], [127, 0, 0, 1], [255; 4], [224, 0, 0, 251]] {
            assert_eq!(values.ipv4(stays), stays);
        }
        // The hosts of a /24 map to distinct hosts of one /24.
        let hosts: HashSet<[u8; 4]> = (0..=255).map(|host| values.ipv4([10, 1, 2, host])).collect();
        assert_eq!(hosts.len(), 256);
        assert_eq!(hosts.iter().map(|host| &host[..3]).collect::<HashSet<_>>().len(), 1);
    }

    #[test]
    fn ipv6_addresses_and_guids() {
        let mut values = values();
        let mut of = |text: &str| Ipv6Addr::from(values.ipv6(text.parse::<Ipv6Addr>().unwrap().octets()));
        assert_eq!(of("::1").to_string(), "::1");
        assert_eq!(of("ff02::1").to_string(), "ff02::1");
        let (one, two, other) = (of("fd00:1:2:3::1"), of("fd00:1:2:3::2"), of("fd00:1:2:4::1"));
        assert_eq!((one.octets()[0], one.segments()[3] ^ two.segments()[3]), (0xfd, 0));
        assert_eq!(one.octets()[..7], other.octets()[..7]);
        assert_ne!(one.segments()[3], other.segments()[3]);
        assert_eq!(one.octets()[8..], other.octets()[8..]);
        let link_local = of("fe80::202:c9ff:fe01:203");
        assert_eq!(link_local.octets()[..8], [0xfe, 0x80, 0, 0, 0, 0, 0, 0]);
        let mapped = of("::ffff:10.77.0.1").to_ipv4_mapped().expect("it stays mapped");
        assert_eq!(values.ipv4([10, 77, 0, 1]), mapped.octets());
        assert_eq!(values.guid([2, 2, 0xc9, 0xff, 0xfe, 1, 2, 3]), link_local.octets()[8..]);
        assert_eq!(values.guid([0; 8]), [0; 8]);
    }

    #[test]
    fn ethernet_addresses() {
        let mut values = values();
        for stays in [[0; 6], [0xff; 6]] {
            assert_eq!(values.mac(stays), stays);
        }
        for first in [0x52, 0x00, 0x01, 0x33] {
            let address = [first, 0x54, 0, 0x12, 0x34, 0x56];
            let replaced = values.mac(address);
            assert_eq!((replaced[0] & 3, replaced != address), (first & 3, true));
        }
    }

    #[test]
    fn uids_and_their_texts() {
        let mut values = values();
        assert_eq!((values.user(0), &*values.text(b"0")), (0, &b"0"[..]));
        for user in [1, 9, 10, 999, 1000, 65534, 4_294_967_294, u32::MAX] {
            let replaced = values.user(user);
            assert_eq!(replaced.to_string().len(), user.to_string().len());
            assert_eq!(*values.text(user.to_string().as_bytes()), *replaced.to_string().as_bytes());
        }
        let all: HashSet<u32> = (1..1000).map(|user| values.user(user)).collect();
        assert_eq!((all.len(), all.contains(&0)), (999, false));
    }

    #[test]
    fn names_keep_their_class() {
        let mut values = values();
        for text in ["", ".", "..", "/", "OWNER@", "EVERYONE@", "../..", "0"] {
            assert_eq!(*values.text(text.as_bytes()), *text.as_bytes(), "{text}");
        }
        for text in [
            "a",
            "file.dat",
            "1000",
            "007",
            "+7",
            "4294967296",
            "with space",
            "Größe",
            "a\0b",
            "alice@example.com",
            "/export/home",
            "10.77.0.2.78.33",
            "Linux NFSv4.1 client/10.77.0.2",
        ] {
            let replaced = values.text(text.as_bytes());
            assert_ne!(*replaced, *text.as_bytes());
            assert_eq!(replaced, values.text(text.as_bytes()));
            let parts = |text: &[u8]| -> Vec<(usize, Class)> {
                text.split(|byte| SEPARATORS.contains(byte))
                    .map(|part| (part.len(), Class::of(part)))
                    .collect()
            };
            assert_eq!(parts(&replaced), parts(text.as_bytes()), "{text}");
        }
        // The parts of a path are replaced like single names.
        let path = values.text(b"export/home/../file.dat");
        let parts: Vec<_> =
            ["export", "home", "..", "file.dat"].map(|part| values.text(part.as_bytes())).into();
        assert_eq!(*path, *parts.join(&b'/'));
        // All names of two characters.
        let plain: Vec<u8> = (0..=u8::MAX).filter(|byte| Class::Plain.has(*byte)).collect();
        let all: HashSet<Box<[u8]>> = plain
            .iter()
            .flat_map(|one| plain.iter().map(|two| [*one, *two]))
            .map(|name| values.text(&name))
            .collect();
        assert_eq!(all.len(), plain.len() * plain.len());
    }

    /// With any key, a short name is changed, and different names stay different.
    #[test]
    fn no_name_is_replaced_by_itself() {
        let names: Vec<Vec<u8>> = (1..=u8::MAX)
            .map(|byte| vec![byte])
            .chain((10..100).map(|number: u32| number.to_string().into_bytes()))
            .chain([b"ab".to_vec(), b"a.c".to_vec(), b"root".to_vec(), b"4294967295".to_vec()])
            .filter(|name| Class::of(name) != Class::Fixed && !SEPARATORS.contains(&name[0]))
            .collect();
        for byte in 0..16 {
            let mut values = Values::new(Key::new(&[byte; 16]).expect("it is long enough"));
            let mut replaced = HashSet::new();
            for name in &names {
                let new = values.text(name);
                assert_ne!(*new, **name);
                assert_eq!((new.len(), Class::of(&new)), (name.len(), Class::of(name)));
                assert_eq!(values.text(name), new);
                assert!(replaced.insert(new), "{name:?}");
            }
        }
    }

    #[test]
    fn nonzero_differences_stay_nonzero() {
        let values = values();
        assert_eq!(values.difference(0), 0);
        assert!((1..1000).all(|by| values.difference(by) != 0));
    }
}
