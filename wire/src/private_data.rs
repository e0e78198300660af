//! The private data in which RPC-over-RDMA version 1 peers exchange their buffer sizes (RFC 8797,
//! section 4).

use crate::table::header;
use crate::{Layer, Stop};

/// The Format Identifier at the start of RPC-over-RDMA version 1 private data (section 4).
pub const FORMAT_IDENTIFIER: u32 = 0xf6ab_0e18;

/// The version that section 4 defines.
pub const VERSION: u8 = 1;

/// The inline threshold in bytes of a peer that sends no private data (RFC 8166, section 3.3.3).
pub const DEFAULT_INLINE_THRESHOLD: u32 = 1024;

/// The fields after the Format Identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrivateData {
    /// Version: [`VERSION`], or another version, whose layout may differ.
    pub version: u8,
    /// The seven Reserved bits. A sender must clear them; a receiver must ignore them.
    pub reserved: u8,
    /// R: the sender supports remote invalidation.
    pub remote_invalidation: bool,
    /// Encoded Send Size; [`send_bytes`](PrivateData::send_bytes) decodes it.
    pub send_size: u8,
    /// Encoded Receive Size; [`receive_bytes`](PrivateData::receive_bytes) decodes it.
    pub receive_size: u8,
}

header! {
    PrivateData {
        32 "Format Identifier" = FORMAT_IDENTIFIER;
        8 "Version" version, 7 "Reserved" reserved, 1 "R" remote_invalidation, 8 "Send Size" send_size,
            8 "Receive Size" receive_size;
    }
}

impl PrivateData {
    /// The values that apply to a peer without private data (section 5.1): R clear, both sizes 1024
    /// bytes.
    pub const DEFAULT: PrivateData = PrivateData {
        version: VERSION,
        reserved: 0,
        remote_invalidation: false,
        send_size: 0,
        receive_size: 0,
    };

    /// Returns the maximum size in bytes of the sender's RDMA Sends: 1024 to 262144 (section 4.2).
    #[inline]
    pub const fn send_bytes(&self) -> u32 {
        decode_size(self.send_size)
    }

    /// Returns the size in bytes of the sender's RDMA Receives: 1024 to 262144 (section 4.2).
    #[inline]
    pub const fn receive_bytes(&self) -> u32 {
        decode_size(self.receive_size)
    }

    /// Returns true if the version is known, so that the fields have the meaning of section 4.
    /// [`Found::is_valid`] also requires that no field is cut off.
    #[inline]
    pub const fn is_valid(&self) -> bool {
        self.version == VERSION
    }
}

impl Default for PrivateData {
    fn default() -> PrivateData {
        PrivateData::DEFAULT
    }
}

/// Decodes a size to bytes (section 4.2).
#[inline]
pub const fn decode_size(encoded: u8) -> u32 {
    1024 * (encoded as u32 + 1)
}

/// Encodes a size in bytes, rounded down to a multiple of 1024. `None` below 1024 and above 262144
/// bytes.
#[inline]
pub const fn encode_size(bytes: u32) -> Option<u8> {
    match bytes / 1024 {
        units @ 1..=256 if bytes <= 262_144 => Some((units - 1) as u8),
        _ => None,
    }
}

/// A Format Identifier, and the fields after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Offset of the Format Identifier from the first byte searched. Any alignment is possible
    /// (section 5.2).
    pub offset: usize,
    /// The fields, or a stop if they overrun the buffer. The offset of the stop counts from the
    /// first byte searched.
    pub fields: Result<PrivateData, Stop>,
}

impl Found {
    /// Returns the fields if they are usable: the version is known and nothing overruns the buffer
    /// (section 5.2).
    #[inline]
    pub fn valid(&self) -> Option<PrivateData> {
        self.fields.ok().filter(PrivateData::is_valid)
    }

    /// Returns true if the fields are usable.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.valid().is_some()
    }
}

/// Finds the first Format Identifier in `bytes`, the one that a receiver uses (section 5.2).
#[inline]
pub fn find(bytes: &[u8]) -> Option<Found> {
    find_all(bytes).next()
}

/// Finds all Format Identifiers in `bytes`, in order. More than one is unusual: the sender may be
/// at fault, or another layer's data may look like it (section 7).
#[inline]
pub fn find_all(bytes: &[u8]) -> FindAll<'_> {
    FindAll { bytes, at: 0 }
}

/// The iterator that [`find_all`] returns.
#[derive(Clone, Debug)]
pub struct FindAll<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Iterator for FindAll<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        const LENGTH: usize = size_of_val(&FORMAT_IDENTIFIER);
        let identifier = FORMAT_IDENTIFIER.to_be_bytes();
        let ahead = self.bytes.get(self.at..)?;
        let offset = self.at + ahead.windows(LENGTH).position(|window| window == identifier)?;
        // Continue after the identifier, which cannot overlap itself, and not after its fields,
        // which may contain another identifier.
        self.at = offset + LENGTH;
        let fields = match self.bytes[offset..].first_chunk() {
            Some(found) => Ok(PrivateData::from_bytes(found)),
            None => Err(Stop::short(Layer::PrivateData, self.at, 4, self.bytes.len())),
        };
        Some(Found { offset, fields })
    }
}

/// The parameters of a connection after both peers have sent, or omitted, their private data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Negotiated {
    /// Client-to-server inline threshold in bytes: limits RPC calls on the forward channel.
    pub call_inline_threshold: u32,
    /// Server-to-client inline threshold in bytes: limits RPC replies on the forward channel.
    pub reply_inline_threshold: u32,
    /// True if the responder may use RDMA Send with Invalidate, because both peers set R (section
    /// 4.1).
    pub remote_invalidation: bool,
}

impl Negotiated {
    /// Combines the private data of the client (the active side) and the server (section 4.2).
    /// [`PrivateData::DEFAULT`] replaces missing or invalid private data (section 5.1).
    pub fn new(client: Option<PrivateData>, server: Option<PrivateData>) -> Negotiated {
        let valid_or_default =
            |data: Option<PrivateData>| data.filter(PrivateData::is_valid).unwrap_or(PrivateData::DEFAULT);
        let (client, server) = (valid_or_default(client), valid_or_default(server));
        Negotiated {
            call_inline_threshold: client.send_bytes().min(server.receive_bytes()),
            reply_inline_threshold: server.send_bytes().min(client.receive_bytes()),
            remote_invalidation: client.remote_invalidation && server.remote_invalidation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The private data of a Linux 6.1 client: version 1, R, 4096 and 4096 bytes.
    const CLIENT: [u8; 8] = [0xf6, 0xab, 0x0e, 0x18, 0x01, 0x01, 0x03, 0x03];

    fn data(send_size: u8, receive_size: u8, remote_invalidation: bool) -> PrivateData {
        PrivateData { version: 1, reserved: 0, remote_invalidation, send_size, receive_size }
    }

    #[test]
    fn fields_after_the_identifier_are_parsed() {
        let found = find(&CLIENT).unwrap();
        assert_eq!(found, Found { offset: 0, fields: Ok(data(3, 3, true)) });
        assert!(found.is_valid());
        let value = |name| PrivateData::LAYOUT.field(name).and_then(|field| field.value(&CLIENT)).unwrap();
        assert_eq!(PrivateData::LAYOUT.length(), PrivateData::LENGTH);
        assert_eq!(value("Format Identifier"), u64::from(FORMAT_IDENTIFIER));
        assert_eq!(["Version", "Reserved", "R", "Send Size", "Receive Size"].map(value), [1, 0, 1, 3, 3]);
        let mut built = Vec::new();
        found.fields.unwrap().build(&mut built);
        assert_eq!(built, CLIENT);

        // Version 2, all Reserved bits set, R clear, the largest and the smallest size.
        let found = find(&[0xf6, 0xab, 0x0e, 0x18, 0x02, 0xfe, 0xff, 0x00]).unwrap();
        let fields = found.fields.unwrap();
        assert_eq!((fields.version, fields.reserved, fields.remote_invalidation), (2, 0x7f, false));
        assert_eq!((fields.send_bytes(), fields.receive_bytes()), (262_144, 1024));
        assert!(!found.is_valid() && found.valid().is_none());
    }

    #[test]
    fn identifier_is_found_at_any_offset() {
        for offset in 0..70 {
            let mut bytes = vec![0xf6; offset];
            bytes.extend_from_slice(&CLIENT);
            bytes.extend_from_slice(&[0; 9]);
            let found = find(&bytes).unwrap();
            assert_eq!((found.offset, found.valid()), (offset, Some(data(3, 3, true))));
        }
        assert_eq!(find(&[]), None);
        assert_eq!(find(&CLIENT[..3]), None);
        assert_eq!(find(&CLIENT[1..]), None);
    }

    #[test]
    fn truncation_after_the_identifier_is_located() {
        for length in 4..8 {
            let mut bytes = vec![0; 5];
            bytes.extend_from_slice(&CLIENT[..length]);
            let found = find(&bytes).unwrap();
            assert_eq!(found.offset, 5);
            assert_eq!(found.fields, Err(Stop::short(Layer::PrivateData, 9, 4, 5 + length)));
            assert!(!found.is_valid());
        }
    }

    #[test]
    fn all_identifiers_are_found() {
        let mut bytes = CLIENT.to_vec();
        bytes.push(0);
        bytes.extend_from_slice(&[0xf6, 0xab, 0x0e, 0x18, 0x01, 0x00, 0x00, 0x07]);
        // One identifier in place of another's fields, and the last one without fields.
        bytes.extend_from_slice(&CLIENT[..4]);
        bytes.extend_from_slice(&CLIENT[..4]);
        let all: Vec<_> = find_all(&bytes).collect();
        assert_eq!(all.iter().map(|found| found.offset).collect::<Vec<_>>(), [0, 9, 17, 21]);
        assert_eq!(all[1].fields, Ok(data(0, 7, false)));
        assert_eq!(all[2].fields.map(|fields| fields.version), Ok(0xf6));
        assert!(all[3].fields.is_err());
        assert_eq!(find(&bytes), Some(all[0]));
    }

    #[test]
    fn sizes_and_their_encoding() {
        assert_eq!((decode_size(0), decode_size(3), decode_size(255)), (1024, 4096, 262_144));
        for encoded in 0..=255 {
            assert_eq!(encode_size(decode_size(encoded)), Some(encoded));
        }
        assert_eq!((encode_size(2047), encode_size(1023)), (Some(0), None));
        assert_eq!((encode_size(262_145), encode_size(u32::MAX)), (None, None));
    }

    #[test]
    fn thresholds_are_the_smaller_of_send_and_receive() {
        // Client: sends 4096, receives 8192. Server: sends 16384, receives 2048.
        let (client, server) = (data(3, 7, true), data(15, 1, true));
        let negotiated = Negotiated::new(Some(client), Some(server));
        assert_eq!((negotiated.call_inline_threshold, negotiated.reply_inline_threshold), (2048, 8192));
        assert!(negotiated.remote_invalidation);
        let one_sided = Negotiated::new(Some(client), Some(data(15, 1, false)));
        assert!(!one_sided.remote_invalidation);
    }

    #[test]
    fn missing_or_unknown_private_data_means_the_defaults() {
        let default = Negotiated {
            call_inline_threshold: DEFAULT_INLINE_THRESHOLD,
            reply_inline_threshold: DEFAULT_INLINE_THRESHOLD,
            remote_invalidation: false,
        };
        let valid = data(255, 255, true);
        let unknown = PrivateData { version: 2, ..valid };
        for (client, server) in
            [(None, None), (Some(valid), None), (None, Some(valid)), (Some(unknown), Some(valid))]
        {
            assert_eq!(Negotiated::new(client, server), default);
        }
    }

    proptest! {
        #[test]
        fn built_private_data_is_found(
            version: u8, reserved in 0u8..0x80, remote_invalidation: bool, send_size: u8, receive_size: u8,
            before in proptest::collection::vec(0u8..0x80, 0..40),
        ) {
            let fields = PrivateData { version, reserved, remote_invalidation, send_size, receive_size };
            let mut built = before.clone();
            fields.build(&mut built);
            prop_assert_eq!(find(&built), Some(Found { offset: before.len(), fields: Ok(fields) }));
            prop_assert_eq!(fields.is_valid(), version == 1);
        }

        #[test]
        fn find_all_agrees_with_a_naive_search(bytes in proptest::collection::vec(
            prop_oneof![Just(0xf6u8), Just(0xab), Just(0x0e), Just(0x18), any::<u8>()], 0..300,
        )) {
            let naive: Vec<_> = (0..bytes.len())
                .filter(|at| bytes[*at..].starts_with(&[0xf6, 0xab, 0x0e, 0x18]))
                .collect();
            let found: Vec<_> = find_all(&bytes).map(|found| found.offset).collect();
            prop_assert_eq!(found, naive);
        }
    }
}
