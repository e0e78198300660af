//! Segment headers of direct data placement (RFC 5041) as used by RDMAP (RFC 5040).
//!
//! A segment is the content of an FPDU of [`mpa`](crate::mpa). A tagged segment names the memory
//! for its data; an untagged segment names a queue and a message in it. RDMAP's control field is
//! the first byte that DDP leaves to its user, so the control bytes of both protocols form one
//! header here.

use crate::rdmap::Opcode;
use crate::table::header;
use crate::{Rkey, Stop};

/// The two control bytes at the start of each segment (RFC 5041, section 4.1; RFC 5040, section
/// 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// T: the segment is tagged.
    pub tagged: bool,
    /// L: the segment is the last of its message.
    pub last: bool,
    /// The four reserved bits of DDP, zero.
    pub reserved: u8,
    /// DV: the DDP version, 1.
    pub ddp_version: u8,
    /// RV: the RDMAP version: 1, or 0 for the version of the RDMA Consortium.
    pub rdmap_version: u8,
    /// The two reserved bits of RDMAP, zero.
    pub rdmap_reserved: u8,
    /// The type of the message.
    pub opcode: Opcode,
}

header! {
    Control in Layer::Ddp {
        1 "T" tagged, 1 "L" last, 4 "Rsvd" reserved, 2 "DV" ddp_version,
            2 "RV" rdmap_version, 2 "Rsv" rdmap_reserved, 4 "Opcode" opcode;
    }
}

impl Control {
    /// The DDP version that RFC 5041 defines.
    pub const DDP_VERSION: u8 = 1;
    /// The RDMAP version that RFC 5040 defines.
    pub const RDMAP_VERSION: u8 = 1;

    /// Returns the length of the whole segment header in bytes.
    #[inline]
    pub const fn header_length(&self) -> usize {
        if self.tagged { Tagged::LENGTH } else { Untagged::LENGTH }
    }
}

/// The header of a tagged segment (RFC 5041, section 4.2): RDMA Write and RDMA Read Response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tagged {
    /// The control bytes.
    pub control: Control,
    /// STag of the destination memory, which belongs to the receiver.
    pub stag: Rkey,
    /// TO: offset in that memory of the first byte of the segment.
    pub offset: u64,
}

header! {
    Tagged in Layer::Ddp {
        16 "DDP and RDMAP Control" control;
        32 "STag" stag;
        64 "Tagged Offset" offset;
    }
}

/// The header of an untagged segment (RFC 5041, section 4.3): Sends, RDMA Read Request and
/// Terminate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Untagged {
    /// The control bytes.
    pub control: Control,
    /// The STag that a Send with Invalidate invalidates; otherwise zero.
    pub invalidate_stag: Rkey,
    /// QN: 0 for Sends, 1 for RDMA Read Requests, 2 for Terminate.
    pub queue: u32,
    /// MSN: number of the message in its queue, counted from 1.
    pub message_number: u32,
    /// MO: offset in the message of the first byte of the segment.
    pub message_offset: u32,
}

header! {
    Untagged in Layer::Ddp {
        16 "DDP and RDMAP Control" control;
        32 "Invalidate STag" invalidate_stag;
        32 "Queue Number" queue;
        32 "Message Sequence Number" message_number;
        32 "Message Offset" message_offset;
    }
}

impl crate::table::Value for Control {
    #[inline(always)]
    fn read(header: &[u8], at: usize, bits: usize) -> Control {
        Control::from_bytes(&crate::table::Value::read(header, at, bits))
    }

    #[inline(always)]
    fn write(&self, header: &mut [u8], at: usize, bits: usize) {
        self.to_bytes().write(header, at, bits);
    }
}

/// A segment header of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// The header of a tagged segment.
    Tagged(Tagged),
    /// The header of an untagged segment.
    Untagged(Untagged),
}

impl Header {
    /// Parses the header at the start of `bytes`.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Header, Stop> {
        if Control::parse(bytes)?.tagged {
            Tagged::parse(bytes).map(Header::Tagged)
        } else {
            Untagged::parse(bytes).map(Header::Untagged)
        }
    }

    /// Returns the control bytes.
    #[inline]
    pub const fn control(&self) -> Control {
        match self {
            Header::Tagged(header) => header.control,
            Header::Untagged(header) => header.control,
        }
    }

    /// Returns the length of the header in bytes.
    #[inline]
    pub const fn length(&self) -> usize {
        self.control().header_length()
    }

    /// Returns true if the header follows RFC 5040 and RFC 5041: versions, reserved bits, and the
    /// fields that figure 4 of RFC 5040 requires for the opcode.
    pub fn is_regular(&self) -> bool {
        let control = self.control();
        let fields = match self {
            Header::Tagged(_) => control.opcode.is_tagged(),
            Header::Untagged(header) => {
                control.opcode.queue() == Some(header.queue)
                    && (control.opcode.invalidates() || header.invalidate_stag == Rkey(0))
            }
        };
        fields
            && control.ddp_version == Control::DDP_VERSION
            && control.rdmap_version <= Control::RDMAP_VERSION
            && (control.reserved, control.rdmap_reserved) == (0, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layer;
    use proptest::prelude::*;

    /// The bytes after the length in figure 5 of RFC 5044.
    #[test]
    fn hand_written_send_is_parsed() {
        let bytes = [0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0xee];
        let Ok(Header::Untagged(header)) = Header::parse(&bytes) else { panic!("untagged") };
        assert!(header.control.last && !header.control.tagged);
        assert_eq!((header.control.ddp_version, header.control.rdmap_version), (1, 1));
        assert_eq!(header.control.opcode, Opcode::Send);
        assert_eq!((header.queue, header.message_number, header.message_offset), (0, 1, 0));
        assert_eq!(header.to_bytes(), bytes[..18]);
        assert!(Header::Untagged(header).is_regular());
        for length in 0..18 {
            let needed = if length < 2 { 2 } else { 18 };
            assert_eq!(Header::parse(&bytes[..length]), Err(Stop::short(Layer::Ddp, 0, needed, length)));
        }
    }

    #[test]
    fn hand_written_write_is_parsed() {
        let bytes = [0xc1, 0x40, 0xca, 0xfe, 0, 1, 0, 0, 0, 1, 2, 3, 4, 5];
        let Ok(Header::Tagged(header)) = Header::parse(&bytes) else { panic!("tagged") };
        assert!(header.control.last && header.control.opcode == Opcode::Write);
        assert_eq!((header.stag, header.offset), (Rkey(0xcafe_0001), 0x1_0203_0405));
        assert_eq!(header.to_bytes(), bytes);
        assert!(Header::Tagged(header).is_regular());
    }

    /// Each case has one fault.
    #[test]
    fn irregular_headers_are_detected() {
        let send = [0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        let write = [0xc1, 0x40, 0xca, 0xfe, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        let regular = |bytes: &[u8]| Header::parse(bytes).is_ok_and(|header| header.is_regular());
        assert!(regular(&send) && regular(&write));
        for (at, value) in [(0, 0x40), (0, 0x42), (0, 0x45), (1, 0x83), (1, 0x53), (1, 0x4a), (2, 1), (9, 1)]
        {
            let mut bytes = send;
            bytes[at] = value;
            assert!(!regular(&bytes), "byte {at}: {value:#x}");
        }
        // The tagged bit contradicts the opcode.
        assert!(!regular(&[&[0xc1, 0x43][..], &write[2..]].concat()));
        assert!(!regular(&[&[0x41, 0x40][..], &send[2..]].concat()));
        // A Send with Invalidate may name an STag.
        assert!(regular(&[&[0x41, 0x44, 1, 2, 3, 4][..], &send[6..]].concat()));
    }

    proptest! {
        #[test]
        fn headers_round_trip(bytes in proptest::array::uniform::<_, 18>(any::<u8>())) {
            prop_assert_eq!(Untagged::from_bytes(&bytes).to_bytes(), bytes);
            let tagged: [u8; 14] = bytes[..14].try_into().unwrap();
            prop_assert_eq!(Tagged::from_bytes(&tagged).to_bytes(), tagged);
        }
    }
}
