//! Tags that switches and capture equipment put between the MAC addresses and the EtherType: time
//! stamps, ports, security, redundancy, and outer frames.

use super::Other;
use super::view::View;
use rdmascope_wire::Layer;

/// A tag other than a VLAN tag, from the byte after its own EtherType.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tag {
    /// Its length in bytes, with the EtherType at its end if it has one.
    pub(super) length: usize,
    pub(super) payload: TagPayload,
}

/// The bytes after a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TagPayload {
    /// The payload of the EtherType in the last two bytes of the tag.
    EtherType,
    /// An Ethernet frame.
    Ethernet,
}

/// The EtherTypes of [`Tag::parse`].
pub(super) fn is_tag(ether_type: u16) -> bool {
    matches!(
        ether_type,
        0x22f3 | 0x8903 | 0x8909 | 0x8926 | 0x892f | 0x893f | 0x88e5 | 0x88e7 | 0xd28b | 0xf1c1
    )
}

impl Tag {
    /// Parses the tag of this EtherType. `None` if the EtherType is no tag, or if its contents
    /// cannot be read: another version, or encryption.
    pub(super) fn parse<'a>(ether_type: u16, view: &View<'a>) -> Result<Option<Tag>, Other<'a>> {
        let tag = |length| Some(Tag { length, payload: TagPayload::EtherType });
        let outer = |length| Some(Tag { length, payload: TagPayload::Ethernet });
        if !is_tag(ether_type) && ether_type > 1500 {
            return Ok(None);
        }
        let first = view.header::<4>(Layer::Link)?;
        let tag = match ether_type {
            // VN-Tag of Cisco: four bytes.
            0x8926 => tag(6),
            // E-TAG (IEEE 802.1BR, section 7.5): six bytes.
            0x893f => tag(8),
            // R-TAG (IEEE 802.1CB, section 7.8), and the HSR tag (IEC 62439-3, section 5.7): a
            // sequence number.
            0xf1c1 | 0x892f => tag(6),
            // Cisco MetaData: version 1, length 1, an option of four bytes with a security group.
            0x8909 => tag(8).filter(|_| first[..2] == [1, 1]),
            0xd28b => time_stamp(*first).and_then(tag),
            0x88e5 => security(*first).and_then(tag),
            // I-TAG (IEEE 802.1Q, section 9.7): four bytes.
            0x88e7 => outer(4),
            // FabricPath of Cisco: tree and time to live.
            0x8903 => outer(2),
            0x22f3 => trill(*first).and_then(outer),
            // A length (IEEE 802.3), LLC and SNAP, with the organization codes of EtherTypes.
            0..=1500 => tag(8).filter(|_| {
                first[..3] == [0xaa, 0xaa, 3] && matches!(view.data.get(3..6), None | Some([0, 0, 0 | 0xf8]))
            }),
            _ => None,
        };
        match tag {
            Some(Tag { length, .. }) if view.data.len() < length => Err(view.stop(Layer::Link, 0, length)),
            tag => Ok(tag),
        }
    }
}

/// The length of a time stamp of Arista, from its first four bytes: subtype 1, the time scale, and
/// the format, which is 1 for 64 bits and 2 for 48 bits. It ends with the next EtherType.
fn time_stamp(first: [u8; 4]) -> Option<usize> {
    match first {
        [0, 1, 0 | 1, format] if format >> 4 == 1 => Some(4 + 8 + 2),
        [0, 1, 0 | 1, format] if format >> 4 == 2 => Some(4 + 6 + 2),
        _ => None,
    }
}

/// The length of a SecTAG (IEEE 802.1AE, section 9.3), from its first four bytes, if the data after
/// it is neither encrypted nor changed. It has a packet number, a channel identifier if SC is set,
/// and the next EtherType.
fn security([control, ..]: [u8; 4]) -> Option<usize> {
    const VERSION: u8 = 0x80;
    const CHANNEL: u8 = 0x20;
    const ENCRYPTED_OR_CHANGED: u8 = 0x0c;
    let length = if control & CHANNEL == 0 { 6 + 2 } else { 6 + 8 + 2 };
    (control & (VERSION | ENCRYPTED_OR_CHANGED) == 0).then_some(length)
}

/// The length of a TRILL header (RFC 6325, section 3.2), from its first four bytes: the version, a
/// number of option words, the hop count, two nicknames.
fn trill([high, low, ..]: [u8; 4]) -> Option<usize> {
    let options = usize::from(high & 0x07) << 2 | usize::from(low >> 6);
    (high >> 6 == 0).then_some(6 + options * 4)
}
