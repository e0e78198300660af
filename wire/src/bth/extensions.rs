//! The extension headers that follow a BTH (IBTA volume 1, section 9.3).

use super::{Bth, Opcode, Operation, Transport};
use crate::layout::Layout;
use crate::table::{header, wrappers};
use crate::{Layer, Qpn, Rkey, Stop};
use alloc::vec::Vec;
use core::time::Duration;

/// The RDMA extended transport header (section 9.3.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reth {
    /// Address in the remote memory region.
    pub virtual_address: u64,
    /// R_Key of the remote memory region.
    pub rkey: Rkey,
    /// Total length of the transfer in bytes.
    pub dma_length: u32,
}

header! {
    Reth {
        64 "Virtual Address" virtual_address;
        32 "R_Key" rkey, 32 "DMA Length" dma_length;
    }
}

/// The ACK extended transport header (section 9.3.5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aeth {
    /// The kind of acknowledgement, with its detail.
    pub syndrome: Syndrome,
    /// MSN: number of messages that the responder has completed, modulo 2^24.
    pub message_sequence_number: u32,
}

header! {
    Aeth {
        8 "Syndrome" syndrome, 24 "MSN" message_sequence_number;
    }
}
wrappers! { Syndrome }

/// The syndrome byte of an AETH (section 9.7.5.2.1, tables 45 to 47).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Syndrome(pub u8);

impl Syndrome {
    /// Decodes the kind of acknowledgement (bits 6 and 5) and its detail (bits 4 to 0).
    #[inline]
    pub const fn kind(self) -> Acknowledgement {
        let detail = self.0 & 0x1f;
        match self.0 >> 5 & 3 {
            0 => Acknowledgement::Ack { credits: detail },
            1 => Acknowledgement::RnrNak { timer: detail },
            3 => Acknowledgement::Nak(match detail {
                0 => NakCode::PsnSequenceError,
                1 => NakCode::InvalidRequest,
                2 => NakCode::RemoteAccessError,
                3 => NakCode::RemoteOperationalError,
                4 => NakCode::InvalidRdRequest,
                other => NakCode::Reserved(other),
            }),
            _ => Acknowledgement::Reserved(detail),
        }
    }
}

/// Decodes the end-to-end credit count of an ACK (table 46). `None` means no end-to-end flow
/// control.
pub const fn end_to_end_credits(encoded: u8) -> Option<u32> {
    match encoded {
        0..=2 => Some(encoded as u32),
        // Even codes are powers of two; each odd code is 1.5 times the even code before it.
        3..=30 if encoded.is_multiple_of(2) => Some(1 << (encoded / 2)),
        3..=30 => Some(3 << ((encoded - 3) / 2)),
        _ => None,
    }
}

/// Decodes the timer of an RNR NAK (table 47).
pub const fn rnr_timer(encoded: u8) -> Duration {
    const HUNDREDTHS_OF_A_MILLISECOND: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
        3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    Duration::from_micros(HUNDREDTHS_OF_A_MILLISECOND[(encoded & 0x1f) as usize] * 10)
}

/// The decoded syndrome of an AETH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acknowledgement {
    /// Everything up to the PSN was received.
    Ack {
        /// End-to-end credits, encoded as in table 46; 31 means no end-to-end flow control.
        credits: u8,
    },
    /// No receive buffer was posted; the sender has to retry after the encoded time.
    RnrNak {
        /// Time to wait, encoded as in table 47.
        timer: u8,
    },
    /// The request at the PSN failed.
    Nak(NakCode),
    /// Bits 6 and 5 are 2, a reserved value.
    Reserved(u8),
}

/// The reason why a request failed (table 48).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum NakCode {
    PsnSequenceError,
    InvalidRequest,
    RemoteAccessError,
    RemoteOperationalError,
    InvalidRdRequest,
    Reserved(u8),
}

impl core::fmt::Display for NakCode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            NakCode::PsnSequenceError => "PSN sequence error",
            NakCode::InvalidRequest => "invalid request",
            NakCode::RemoteAccessError => "remote access error",
            NakCode::RemoteOperationalError => "remote operational error",
            NakCode::InvalidRdRequest => "invalid RD request",
            NakCode::Reserved(code) => return write!(f, "reserved NAK code {code}"),
        })
    }
}

/// The datagram extended transport header (section 9.3.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deth {
    /// Q_Key.
    pub queue_key: u32,
    /// The source queue pair.
    pub source_qp: Qpn,
}

header! {
    Deth {
        32 "Queue Key" queue_key;
        8 reserved, 24 "Source QP" source_qp;
    }
}

/// The atomic extended transport header (section 9.3.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicEth {
    /// Address in the remote memory region.
    pub virtual_address: u64,
    /// R_Key of the remote memory region.
    pub rkey: Rkey,
    /// The operand to swap in or to add.
    pub swap_or_add: u64,
    /// The operand to compare with.
    pub compare: u64,
}

header! {
    AtomicEth {
        64 "Virtual Address" virtual_address;
        32 "R_Key" rkey;
        64 "Swap (or Add) Data" swap_or_add;
        64 "Compare Data" compare;
    }
}

/// The extension headers, in wire order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "each has the name of the standard")]
pub enum ExtensionHeader {
    Rdeth,
    Deth,
    Xrceth,
    Reth,
    AtomicEth,
    Aeth,
    AtomicAckEth,
    ImmDt,
    Ieth,
}

impl ExtensionHeader {
    /// All extension headers, in wire order.
    pub const ALL: [ExtensionHeader; 9] = {
        use ExtensionHeader::*;
        [Rdeth, Deth, Xrceth, Reth, AtomicEth, Aeth, AtomicAckEth, ImmDt, Ieth]
    };

    /// Returns the name in the specification.
    pub const fn name(self) -> &'static str {
        ["RDETH", "DETH", "XRCETH", "RETH", "AtomicETH", "AETH", "AtomicAckETH", "ImmDt", "IETH"]
            [self as usize]
    }

    /// Returns the fields of the header.
    pub const fn layout(self) -> Layout {
        match self {
            ExtensionHeader::Rdeth => Layout(&[("reserved", 8), ("EE-Context", 24)]),
            ExtensionHeader::Deth => Deth::LAYOUT,
            ExtensionHeader::Xrceth => Layout(&[("reserved", 8), ("XRCSRQ", 24)]),
            ExtensionHeader::Reth => Reth::LAYOUT,
            ExtensionHeader::AtomicEth => AtomicEth::LAYOUT,
            ExtensionHeader::Aeth => Aeth::LAYOUT,
            ExtensionHeader::AtomicAckEth => Layout(&[("Original Remote Data", 64)]),
            ExtensionHeader::ImmDt => Layout(&[("Immediate Data", 32)]),
            ExtensionHeader::Ieth => Layout(&[("R_Key", 32)]),
        }
    }

    /// Returns true if packets with `opcode` have this header.
    #[inline]
    pub const fn is_of(self, opcode: Opcode) -> bool {
        CALLED_FOR[opcode.0 as usize] & self.bit() != 0
    }

    /// The bit of this header in [`CALLED_FOR`].
    const fn bit(self) -> u16 {
        1 << self as u16
    }

    const fn length(self) -> usize {
        self.layout().length()
    }
}

/// The extension headers of each opcode (section 9.3, table 38).
static CALLED_FOR: [u16; 256] = table();

const fn table() -> [u16; 256] {
    let mut table = [0; 256];
    let mut opcode = 0;
    while opcode < 256 {
        table[opcode] = called_for(Opcode(opcode as u8));
        opcode += 1;
    }
    table
}

const fn called_for(opcode: Opcode) -> u16 {
    use ExtensionHeader::{Aeth, AtomicAckEth, AtomicEth, Deth, Ieth, ImmDt, Rdeth, Reth, Xrceth};
    use Operation::*;
    let Some(operation) = opcode.operation() else { return 0 };
    let of_transport = match opcode.transport() {
        Transport::ReliableDatagram if operation.is_response() => Rdeth.bit(),
        Transport::ReliableDatagram => Rdeth.bit() | Deth.bit(),
        Transport::UnreliableDatagram => Deth.bit(),
        Transport::ExtendedReliableConnection if !operation.is_response() => Xrceth.bit(),
        _ => 0,
    };
    of_transport
        | match operation {
            WriteFirst | WriteOnly | ReadRequest => Reth.bit(),
            WriteOnlyWithImmediate => Reth.bit() | ImmDt.bit(),
            SendLastWithImmediate | SendOnlyWithImmediate | WriteLastWithImmediate => ImmDt.bit(),
            SendLastWithInvalidate | SendOnlyWithInvalidate => Ieth.bit(),
            ReadResponseFirst | ReadResponseLast | ReadResponseOnly | Acknowledge => Aeth.bit(),
            AtomicAcknowledge => Aeth.bit() | AtomicAckEth.bit(),
            CompareSwap | FetchAdd => AtomicEth.bit(),
            SendFirst | SendMiddle | SendLast | SendOnly | WriteMiddle | WriteLast | ReadResponseMiddle
            | Resync => 0,
        }
}

/// The extension headers of a packet, in wire order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Reliable datagram: the end-to-end context.
    pub rdeth: Option<u32>,
    /// Datagrams: queue key and source queue pair.
    pub deth: Option<Deth>,
    /// Extended reliable connection: the shared receive queue.
    pub xrceth: Option<u32>,
    /// RDMA WRITE and READ requests.
    pub reth: Option<Reth>,
    /// Atomic requests.
    pub atomic_eth: Option<AtomicEth>,
    /// Acknowledgements and the first, last or only READ response.
    pub aeth: Option<Aeth>,
    /// The original value, returned by an ATOMIC Acknowledge.
    pub atomic_ack_eth: Option<u64>,
    /// Immediate data.
    pub immediate: Option<u32>,
    /// The R_Key that a SEND with Invalidate invalidates.
    pub ieth: Option<Rkey>,
}

impl Extensions {
    /// Parses the extension headers of `opcode` from the bytes after the BTH. Also returns their
    /// length. Offsets in a [`Stop`] count from the first byte of the BTH.
    pub fn parse(opcode: Opcode, bytes: &[u8]) -> Result<(Extensions, usize), Stop> {
        let mut extensions = Extensions::default();
        let mut cursor = Cursor { bytes, at: 0 };
        for header in ExtensionHeader::ALL.into_iter().filter(|header| header.is_of(opcode)) {
            extensions.read(header, &mut cursor)?;
        }
        Ok((extensions, cursor.at))
    }

    fn read(&mut self, header: ExtensionHeader, cursor: &mut Cursor<'_>) -> Result<(), Stop> {
        match header {
            ExtensionHeader::Rdeth => self.rdeth = Some(u32::from_be_bytes(cursor.take()?) & 0x00ff_ffff),
            ExtensionHeader::Deth => self.deth = Some(Deth::from_bytes(&cursor.take()?)),
            ExtensionHeader::Xrceth => self.xrceth = Some(u32::from_be_bytes(cursor.take()?) & 0x00ff_ffff),
            ExtensionHeader::Reth => self.reth = Some(Reth::from_bytes(&cursor.take()?)),
            ExtensionHeader::AtomicEth => self.atomic_eth = Some(AtomicEth::from_bytes(&cursor.take()?)),
            ExtensionHeader::Aeth => self.aeth = Some(Aeth::from_bytes(&cursor.take()?)),
            ExtensionHeader::AtomicAckEth => self.atomic_ack_eth = Some(u64::from_be_bytes(cursor.take()?)),
            ExtensionHeader::ImmDt => self.immediate = Some(u32::from_be_bytes(cursor.take()?)),
            ExtensionHeader::Ieth => self.ieth = Some(Rkey(u32::from_be_bytes(cursor.take()?))),
        }
        Ok(())
    }

    /// Returns the length in bytes of the extension headers of `opcode`.
    #[inline]
    pub const fn length(opcode: Opcode) -> usize {
        /// Indexed by opcode.
        static LENGTHS: [u8; 256] = {
            let mut lengths = [0; 256];
            let (mut opcode, called_for) = (0, table());
            while opcode < 256 {
                let mut header = 0;
                while header < ExtensionHeader::ALL.len() {
                    let one = ExtensionHeader::ALL[header];
                    lengths[opcode] +=
                        if called_for[opcode] & one.bit() != 0 { one.length() as u8 } else { 0 };
                    header += 1;
                }
                opcode += 1;
            }
            lengths
        };
        LENGTHS[opcode.0 as usize] as usize
    }

    /// Appends the headers that are present, in wire order.
    pub fn build(&self, out: &mut Vec<u8>) {
        self.each(|header| out.extend_from_slice(header));
    }

    /// Returns the length in bytes of the headers that are present.
    pub(crate) fn present(&self) -> usize {
        let mut length = 0;
        self.each(|header| length += header.len());
        length
    }

    /// Calls `put` with the bytes of each header that is present, in wire order.
    #[inline]
    pub(crate) fn each(&self, mut put: impl FnMut(&[u8])) {
        if let Some(rdeth) = self.rdeth {
            put(&rdeth.to_be_bytes());
        }
        if let Some(deth) = self.deth {
            put(&deth.to_bytes());
        }
        if let Some(xrceth) = self.xrceth {
            put(&xrceth.to_be_bytes());
        }
        if let Some(reth) = self.reth {
            put(&reth.to_bytes());
        }
        if let Some(atomic) = self.atomic_eth {
            put(&atomic.to_bytes());
        }
        if let Some(aeth) = self.aeth {
            put(&aeth.to_bytes());
        }
        if let Some(original) = self.atomic_ack_eth {
            put(&original.to_be_bytes());
        }
        if let Some(immediate) = self.immediate {
            put(&immediate.to_be_bytes());
        }
        if let Some(rkey) = self.ieth {
            put(&rkey.0.to_be_bytes());
        }
    }
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        match self.bytes[self.at..].first_chunk::<N>() {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => Err(Stop::short(Layer::Bth, Bth::LENGTH + self.at, N, Bth::LENGTH + self.bytes.len())),
        }
    }
}
