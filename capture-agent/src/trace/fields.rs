//! The fields of an event: words, most of them of the form `name=value`.

use super::event::{Completion, Segment, Task};

/// The text after the event's name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields<'a>(pub(super) &'a str);

impl<'a> Fields<'a> {
    /// Returns the rest of the word that begins with `name`. Before Linux 5.14 some words end with
    /// `:` or `,`.
    pub(super) fn word(self, name: &str) -> Option<&'a str> {
        let mut words = self.0.split_ascii_whitespace();
        let value = words.find_map(|word| word.strip_prefix(name))?;
        Some(value.trim_end_matches([',', ':'])).filter(|value| !value.is_empty())
    }

    /// Parses a decimal number.
    pub(super) fn number<T: core::str::FromStr>(self, name: &str) -> Option<T> {
        self.word(name)?.parse().ok()
    }

    /// Parses `xid=0x0c396a62`.
    pub(super) fn xid(self) -> Option<u32> {
        u32::try_from(hex(self.word("xid=")?)?).ok()
    }

    /// Parses `task:00000001@00000000`: the task and the RPC client.
    ///
    /// The digits are hexadecimal, or decimal before Linux 5.15. Parsing both as hexadecimal keeps
    /// tasks distinct.
    pub(super) fn task(self) -> Option<Task> {
        let (task, client) = self.word("task:")?.split_once('@')?;
        let id = |digits| i64::from_str_radix(digits, 16).ok();
        Some(Task { task: id(task)?, client: id(client)? })
    }

    /// Parses `cq.id=2 cid=64` or `cq_id=2 cid=64`: a completion queue and a completion ID.
    pub(super) fn completion(self) -> Option<Completion> {
        let queue = self.number("cq.id=").or_else(|| self.number("cq_id="))?;
        Some(Completion { queue, id: self.number("cid=")? })
    }

    /// Parses `131072@0x1b396a6204694000:0x00000c43`: length, offset, handle.
    pub(super) fn segment(self) -> Option<Segment> {
        let word = self.0.split_ascii_whitespace().find(|word| word.contains("@0x"))?;
        let (length, place) = word.split_once('@')?;
        let (offset, handle) = place.split_once(':')?;
        Some(Segment {
            length: length.parse().ok()?,
            offset: hex(offset)?,
            handle: u32::try_from(hex(handle)?).ok()?,
        })
    }

    /// Returns the address in `peer=[10.77.0.1]:20049`, as written.
    pub(super) fn peer(self) -> Option<&'a str> {
        self.word("peer=")
    }
}

/// Parses hexadecimal digits after `0x`.
pub(super) fn hex(text: &str) -> Option<u64> {
    let digits = text.strip_prefix("0x")?;
    let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(digits, 16).ok().filter(|_| is_number)
}
