//! What in a packet, or in a run of them, breaks the rules of a reliable connection.

use super::{Extension, Packet};
use crate::rdma::Fault;
use rdmascope_wire::bth::{Acknowledgement, Bth, NakCode, Operation, PacketPosition};

/// What the ends of a connection agreed on, as far as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Agreed {
    /// Path MTU in bytes.
    pub(super) path_mtu: Option<u32>,
    /// Partition key.
    pub(super) partition_key: Option<u16>,
}

/// The bits of a partition key that both ends have in common; the highest says which kind of member one is.
const PARTITION: u16 = 0x7fff;

/// The largest path MTU.
const LARGEST: u32 = 4096;

/// The most bytes that a message may have (IBTA volume 1, section 9.3.3).
pub const LONGEST_MESSAGE: u32 = 1 << 31;

/// What is wrong with a packet by itself.
#[inline]
pub(super) fn of_packet(bth: &Bth, packet: &Packet<'_>, agreed: &Agreed) -> Option<Fault> {
    let length = packet.payload_length;
    let fits = fits(packet.operation, length, agreed.path_mtu);
    let key = agreed.partition_key.unwrap_or(bth.partition_key);
    let is_usual = fits
        && bth.pad_count == padding(length)
        && bth.transport_version == 0
        && (bth.partition_key ^ key) & PARTITION == 0
        && !is_foreign(packet.operation)
        && match packet.extension {
            Extension::None | Extension::Ieth(_) => true,
            Extension::Reth(reth) => (1..=LONGEST_MESSAGE).contains(&reth.dma_length),
            Extension::Aeth(aeth) => matches!(aeth.syndrome.kind(), Acknowledgement::Ack { .. }),
        };
    if is_usual { None } else { unusual(bth, packet, fits, key, agreed) }
}

/// Bytes that fill a payload up to a multiple of four.
#[inline]
fn padding(length: u32) -> u8 {
    (length.wrapping_neg() & 3) as u8
}

#[inline]
fn fits(operation: Operation, length: u32, path_mtu: Option<u32>) -> bool {
    let longest = path_mtu.unwrap_or(LARGEST);
    match operation.position() {
        PacketPosition::First | PacketPosition::Middle => match path_mtu {
            Some(path_mtu) => length == path_mtu,
            None => length.is_power_of_two() && (256..=LARGEST).contains(&length),
        },
        PacketPosition::Last => (1..=longest).contains(&length),
        PacketPosition::Only if takes_payload(operation) => length <= longest,
        PacketPosition::Only => length == 0,
    }
}

/// Whether packets of this operation may carry payload.
fn takes_payload(operation: Operation) -> bool {
    operation.is_send() || operation.is_write() || operation.is_read_response()
}

/// Whether it is no operation of those that RPC-over-RDMA builds on (RFC 8166, section 2.3.2).
#[inline]
fn is_foreign(operation: Operation) -> bool {
    operation.has_immediate() || operation.is_atomic()
}

#[cold]
fn unusual(bth: &Bth, packet: &Packet<'_>, fits: bool, key: u16, agreed: &Agreed) -> Option<Fault> {
    let length = packet.payload_length;
    if !fits {
        return Some(Fault::Length { length, path_mtu: agreed.path_mtu });
    }
    let expected = padding(length);
    if bth.pad_count != expected {
        return Some(Fault::Padding { pad_count: bth.pad_count, expected });
    }
    if bth.transport_version != 0 {
        return Some(Fault::Version(bth.transport_version));
    }
    if (bth.partition_key ^ key) & PARTITION != 0 {
        return Some(Fault::PartitionKey { found: bth.partition_key, agreed: key });
    }
    if is_foreign(packet.operation) {
        return Some(Fault::Foreign);
    }
    if let Some(reth) = packet.extension.reth() {
        return match reth.dma_length {
            0 => Some(Fault::Nothing),
            length if length > LONGEST_MESSAGE => Some(Fault::DmaLength(length)),
            _ => None,
        };
    }
    let syndrome = packet.extension.aeth()?.syndrome;
    let is_right = match syndrome.kind() {
        Acknowledgement::Ack { .. } => true,
        _ if packet.operation != Operation::Acknowledge => false,
        Acknowledgement::RnrNak { .. } => true,
        Acknowledgement::Nak(code) => !matches!(code, NakCode::InvalidRdRequest | NakCode::Reserved(_)),
        Acknowledgement::Reserved(_) => false,
    };
    (!is_right).then_some(Fault::Syndrome(syndrome.0))
}

/// What is wrong with a READ response, at `index` among those to a request for `length` bytes.
#[inline]
pub(super) fn of_response(packet: &Packet<'_>, index: u32, length: u32, path_mtu: u32) -> Option<Fault> {
    let before = u64::from(index) * u64::from(path_mtu);
    let left = u64::from(length).saturating_sub(before) as u32;
    // A request for the rest may not be in the capture: its first response is a First or an Only one too.
    let is_right = match packet.operation.position() {
        PacketPosition::First => left > path_mtu,
        PacketPosition::Middle => index > 0 && left > path_mtu,
        PacketPosition::Last => index > 0 && left == packet.payload_length,
        PacketPosition::Only => left == packet.payload_length,
    };
    (!is_right).then_some(Fault::Response { left, index, length: packet.payload_length })
}
