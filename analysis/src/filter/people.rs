//! Filters for clients, servers and users.

use super::parse_number;
use crate::time::ParseError;
use glob::Pattern;
use rdmascope_dissector::frame::Address;

/// An address, or a pattern with `*`, `?` and `[…]` for its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressPattern(Pattern);

impl AddressPattern {
    /// Parses an address or a pattern.
    pub fn parse(text: &str) -> Result<AddressPattern, ParseError> {
        const WANTED: ParseError = ParseError("expected an address such as 10.0.0.7, fd00::7 or 10.0.0.*");
        let is_address = |character: char| {
            character.is_ascii_hexdigit()
                || matches!(character, '.' | ':' | '*' | '?' | '[' | ']' | '-' | '!')
        };
        // A host on native InfiniBand has a LID as its address.
        let is_lid = text.strip_prefix("LID ").is_some_and(|number| number.parse::<u16>().is_ok());
        if text.is_empty() || !is_lid && !text.chars().all(is_address) {
            return Err(WANTED);
        }
        Pattern::new(text).map(AddressPattern).map_err(|_| WANTED)
    }

    /// Whether the pattern matches this address.
    pub fn matches(&self, address: Address) -> bool {
        self.0.matches(&address.to_string())
    }
}

/// A user of AUTH_SYS: a uid, a machine name or a pattern for it, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserPattern {
    uid: Option<u32>,
    machine: Option<Pattern>,
}

impl UserPattern {
    /// Parses `UID`, `MACHINE` or `UID@MACHINE`.
    pub fn parse(text: &str) -> Result<UserPattern, ParseError> {
        const WANTED: ParseError = ParseError("expected a uid, a machine name, or both, such as 1000@node7");
        let machine = |text: &str| match text {
            "" => Err(WANTED),
            text => Pattern::new(text).map(Some).map_err(|_| WANTED),
        };
        if let Some((uid, name)) = text.split_once('@') {
            return Ok(UserPattern { uid: Some(parse_number(uid)?), machine: machine(name)? });
        }
        match parse_number(text) {
            Ok(uid) => Ok(UserPattern { uid: Some(uid), machine: None }),
            Err(_) => Ok(UserPattern { uid: None, machine: machine(text)? }),
        }
    }

    /// Whether the pattern matches this user on this machine.
    pub fn matches(&self, uid: u32, machine: &[u8]) -> bool {
        self.uid.is_none_or(|wanted| wanted == uid)
            && self.machine.as_ref().is_none_or(|pattern| pattern.matches(&String::from_utf8_lossy(machine)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        let matches =
            |pattern: &str, address: Address| AddressPattern::parse(pattern).unwrap().matches(address);
        let address = Address::V4([10, 0, 0, 7].into());
        assert!(
            matches("10.0.0.7", address) && matches("10.0.0.*", address) && matches("10.0.?.[6-8]", address)
        );
        assert!(!matches("10.0.0.70", address) && !matches("10.0.0", address) && !matches("11.*", address));
        assert!(matches("fd00::7", Address::V6("fd00::7".parse().unwrap())));
        assert!(matches("LID 12", Address::Lid(12)) && !matches("LID 1", Address::Lid(12)));
        for wrong in ["", "server.example", "10.0.0.[", "LID x"] {
            assert!(AddressPattern::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn users() {
        let matches =
            |pattern: &str, uid, machine| UserPattern::parse(pattern).unwrap().matches(uid, machine);
        assert!(matches("1000", 1000, b"node7") && !matches("1000", 100, b"1000"));
        assert!(
            matches("node7", 0, b"node7") && matches("node*", 0, b"node7") && !matches("node", 0, b"node7")
        );
        assert!(matches("0@node7", 0, b"node7") && !matches("0@node7", 1, b"node7"));
        assert!(!matches("0@node7", 0, b"node8") && !matches("0@node?", 0, b"\xff\xfe"));
        for wrong in ["", "1000@", "x@node7", "node[", "@node7"] {
            assert!(UserPattern::parse(wrong).is_err(), "{wrong}");
        }
    }
}
