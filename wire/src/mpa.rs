//! Marker PDU Aligned framing for TCP (RFC 5044), with the enhanced connection setup of RFC 6581.
//!
//! An iWARP connection begins with one start frame from each end. After it, the stream of each end
//! is a sequence of FPDUs: the length of a ULPDU, the ULPDU (a DDP segment, [`ddp`](crate::ddp)),
//! padding to a multiple of four, and a CRC32C. If the receiver asked for markers, the stream has a
//! four-byte marker every 512 bytes, beginning with the first FPDU.

use crate::table::header;
use crate::{Layer, Stop};

/// The first frame of each end (RFC 5044, section 7.1.1; RFC 6581, section 6). Private data follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartFrame {
    /// Key: [`StartFrame::REQUEST`] or [`StartFrame::REPLY`].
    pub key: [u8; 16],
    /// M: the sender wants to receive markers.
    pub markers: bool,
    /// C: the sender wants CRCs. If either end does, both generate and check them.
    pub crc: bool,
    /// R: the connection is rejected (replies only).
    pub rejected: bool,
    /// S: the private data begin with [`ReadDepths`] (RFC 6581, section 6). Reserved in revision 1.
    pub enhanced: bool,
    /// Res, 4 bits, zero.
    pub reserved: u8,
    /// Rev: 1, or 2 for RFC 6581.
    pub revision: u8,
    /// PD_Length: length of the private data in bytes.
    pub private_data_length: u16,
}

header! {
    StartFrame {
        128 "Key" key;
        1 "M" markers, 1 "C" crc, 1 "R" rejected, 1 "S" enhanced, 4 "Res" reserved, 8 "Rev" revision,
            16 "PD_Length" private_data_length;
    }
}

impl StartFrame {
    /// The key of the initiator's frame.
    pub const REQUEST: [u8; 16] = *b"MPA ID Req Frame";
    /// The key of the responder's frame.
    pub const REPLY: [u8; 16] = *b"MPA ID Rep Frame";
    /// Maximum length of the private data in bytes (RFC 5044, section 7.1.1).
    pub const MOST_PRIVATE_DATA: u16 = 512;

    /// Returns true if `bytes` begin with one of the keys.
    #[inline]
    pub fn is_begun_by(bytes: &[u8]) -> bool {
        bytes.first_chunk().is_some_and(|key| *key == StartFrame::REQUEST || *key == StartFrame::REPLY)
    }

    /// Parses the first [`StartFrame::LENGTH`] of `bytes`. A frame without one of the keys is
    /// malformed.
    pub fn parse(bytes: &[u8]) -> Result<StartFrame, Stop> {
        let Some(header) = bytes.first_chunk() else {
            return Err(Stop::short(Layer::Mpa, 0, StartFrame::LENGTH, bytes.len()));
        };
        let frame = StartFrame::from_bytes(header);
        if StartFrame::is_begun_by(header) { Ok(frame) } else { Err(Stop::malformed(Layer::Mpa, 0)) }
    }

    /// Returns true for the initiator's frame.
    pub fn is_request(&self) -> bool {
        self.key == StartFrame::REQUEST
    }

    /// Splits the private data in `after`, the bytes after the frame, as far as they are present.
    ///
    /// The first part is the RFC 6581 header, which is present if S is set in a frame of revision 2
    /// or later. The second part is the consumer's private data.
    pub fn private_data<'a>(&self, after: &'a [u8]) -> (Option<ReadDepths>, &'a [u8]) {
        let data = &after[..after.len().min(self.private_data_length.into())];
        if !self.enhanced || self.revision < 2 {
            return (None, data);
        }
        match data.split_first_chunk() {
            Some((depths, rest)) => (Some(ReadDepths::from_bytes(depths)), rest),
            None => (None, &[]),
        }
    }
}

/// The RDMA Read limits of one end, and the ready-to-receive indications that it accepts (RFC 6581,
/// section 9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReadDepths {
    /// A: peer-to-peer mode; the initiator sends a ready-to-receive indication.
    pub peer_to_peer: bool,
    /// B: a Send without data may be the indication.
    pub by_send: bool,
    /// IRD: number of RDMA Read requests that the sender of this frame can serve at once; 14 bits.
    pub inbound: u16,
    /// C: an RDMA Write of zero bytes may be the indication.
    pub by_write: bool,
    /// D: an RDMA Read of zero bytes may be the indication.
    pub by_read: bool,
    /// ORD: number of RDMA Read requests that the sender of this frame may have outstanding; 14
    /// bits.
    pub outbound: u16,
}

header! {
    ReadDepths {
        1 "A" peer_to_peer, 1 "B" by_send, 14 "IRD" inbound, 1 "C" by_write, 1 "D" by_read, 14 "ORD" outbound;
    }
}

impl ReadDepths {
    /// The IRD or ORD value for limits that are negotiated elsewhere (RFC 6581, section 9.1).
    pub const NOT_NEGOTIATED: u16 = 0x3fff;
}

/// Length of the ULPDU length field in bytes.
pub const LENGTH_FIELD: usize = 2;
/// Length of the CRC in bytes.
pub const CRC_LENGTH: usize = 4;
/// Distance between markers in TCP sequence numbers (RFC 5044, section 4.3).
pub const MARKER_INTERVAL: u32 = 512;
/// Length of a marker in bytes: 16 reserved bits, and the distance back to the start of the FPDU.
pub const MARKER_LENGTH: usize = 4;

/// Returns the number of padding bytes after a ULPDU of `ulpdu_length` bytes. They make the FPDU
/// without its CRC a multiple of four (RFC 5044, section 4.1).
#[inline]
pub const fn padding(ulpdu_length: u16) -> usize {
    (LENGTH_FIELD + ulpdu_length as usize).wrapping_neg() % 4
}

/// Returns the length of an FPDU in bytes, from its length field through its CRC, without markers.
#[inline]
pub const fn fpdu_length(ulpdu_length: u16) -> usize {
    LENGTH_FIELD + ulpdu_length as usize + padding(ulpdu_length) + CRC_LENGTH
}

/// Computes the CRC32C of an FPDU incrementally (RFC 5044, section 4.4).
///
/// It covers the FPDU from its length field, or from the marker before that, through its padding,
/// including the markers within.
#[derive(Clone, Copy, Debug, Default)]
pub struct Crc(u32);

impl Crc {
    /// Adds the next bytes.
    #[inline]
    pub fn update(&mut self, bytes: &[u8]) {
        #[cfg(feature = "std")]
        let next = crc32c::crc32c_append(self.0, bytes);
        #[cfg(not(feature = "std"))]
        let next = by_table(self.0, bytes);
        self.0 = next;
    }

    /// Returns the CRC as the bytes on the wire.
    #[inline]
    pub const fn finish(&self) -> [u8; CRC_LENGTH] {
        // Least significant byte first, as in iSCSI. MPA uses the polynomial and byte order of
        // iSCSI.
        self.0.to_le_bytes()
    }
}

/// Continues the CRC `so_far` over `bytes`. Used without `std`, which the crate with the hardware
/// implementation requires.
#[cfg(any(test, not(feature = "std")))]
fn by_table(so_far: u32, bytes: &[u8]) -> u32 {
    static TABLE: crc::Crc<u32, crc::Table<16>> = crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_ISCSI);
    // The initial value is not bit-reflected, but the result is.
    let mut digest = TABLE.digest_with_initial((!so_far).reverse_bits());
    digest.update(bytes);
    digest.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn crc(bytes: &[u8]) -> [u8; 4] {
        let mut crc = Crc::default();
        crc.update(bytes);
        crc.finish()
    }

    /// RFC 5044, section 4.4, figure 5: a marker, the length, a DDP segment with 24 zero bytes of
    /// data, the CRC.
    #[test]
    fn crc_matches_the_first_fpdu_of_rfc_5044() {
        let mut fpdu = [0; 0x30];
        (fpdu[5], fpdu[6], fpdu[7], fpdu[0x13]) = (0x2a, 0x41, 0x43, 1);
        assert_eq!(crc(&fpdu), [0x52, 0x23, 0x99, 0x83]);
        assert_eq!((padding(0x2a), fpdu_length(0x2a)), (0, 0x30 - MARKER_LENGTH + CRC_LENGTH));
    }

    /// RFC 5044, section 4.4, figure 6: the second FPDU, with a marker inside.
    #[test]
    fn crc_matches_the_second_fpdu_of_rfc_5044() {
        let mut fpdu = [0; 0x30];
        (fpdu[1], fpdu[2], fpdu[3], fpdu[0xf], fpdu[0x17]) = (0x2a, 0x41, 0x43, 2, 0x14);
        assert_eq!(crc(&fpdu), [0x84, 0x92, 0x58, 0x98]);
        // Computed in pieces, the CRC is the same.
        let mut pieces = Crc::default();
        fpdu.chunks(7).for_each(|piece| pieces.update(piece));
        assert_eq!(pieces.finish(), [0x84, 0x92, 0x58, 0x98]);
        let by_table = fpdu.chunks(7).fold(0, by_table);
        assert_eq!(by_table.to_le_bytes(), [0x84, 0x92, 0x58, 0x98]);
    }

    #[test]
    fn padding_aligns_to_four_bytes() {
        assert_eq!([14, 15, 16, 17, 18].map(padding), [0, 3, 2, 1, 0]);
        assert_eq!((fpdu_length(0), fpdu_length(u16::MAX)), (8, 65_535 + 2 + 3 + 4));
    }

    /// A request of revision 2 as sent by Linux: CRCs, S, IRD 128, ORD 0, then RFC 8797 private
    /// data.
    #[test]
    fn hand_written_request_is_parsed() {
        let mut bytes = b"MPA ID Req Frame".to_vec();
        bytes.extend([0x50, 2, 0, 12, 0x00, 0x80, 0x00, 0x00]);
        bytes.extend([0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3, 0xee]);
        let frame = StartFrame::parse(&bytes).unwrap();
        assert!(frame.is_request() && frame.crc && frame.enhanced && !frame.markers && !frame.rejected);
        assert_eq!((frame.revision, frame.private_data_length, frame.reserved), (2, 12, 0));
        let (depths, data) = frame.private_data(&bytes[StartFrame::LENGTH..]);
        assert_eq!(depths, Some(ReadDepths { inbound: 128, ..ReadDepths::default() }));
        assert_eq!(data, [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3]);
        // In revision 1 the bit is reserved, and all private data belong to the consumer.
        let first = StartFrame { revision: 1, ..frame };
        assert_eq!(first.private_data(&bytes[20..]), (None, &bytes[20..32]));
        assert_eq!(frame.private_data(&[1, 2]), (None, &[][..]));
        assert_eq!(StartFrame::parse(&bytes[..19]), Err(Stop::short(Layer::Mpa, 0, 20, 19)));
        bytes[8] = b'r';
        assert_eq!(StartFrame::parse(&bytes), Err(Stop::malformed(Layer::Mpa, 0)));
    }

    #[test]
    fn hand_written_read_depths_are_parsed() {
        let depths = ReadDepths::from_bytes(&[0x80, 0x80, 0xc0, 0x01]);
        let expected = ReadDepths {
            peer_to_peer: true,
            by_send: false,
            inbound: 128,
            by_write: true,
            by_read: true,
            outbound: 1,
        };
        assert_eq!(depths, expected);
        assert_eq!(depths.to_bytes(), [0x80, 0x80, 0xc0, 0x01]);
    }

    proptest! {
        #[test]
        fn start_frames_round_trip(bytes in proptest::array::uniform::<_, 20>(any::<u8>())) {
            prop_assert_eq!(StartFrame::from_bytes(&bytes).to_bytes(), bytes);
        }
    }
}
