//! Violations of the rules of a reliable connection.

use super::{Extension, Packet};
use crate::rdma::Fault;
use rdmascope_wire::bth::{Acknowledgement, Bth, NakCode, Operation, PacketPosition};

/// Parameters that the ends of a connection agreed on, as far as they are known.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Agreed {
    /// Path MTU in bytes.
    pub(super) path_mtu: Option<u32>,
    /// Partition key.
    pub(super) partition_key: Option<u16>,
}

/// The bits that identify a partition. The highest bit of a key is the membership type.
const PARTITION: u16 = 0x7fff;

/// Largest path MTU in bytes.
const LARGEST: u32 = 4096;

/// The longest message in bytes (IBTA volume 1, section 9.3.3).
pub const LONGEST_MESSAGE: u32 = 1 << 31;

/// Finds the fault of a single packet.
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

/// Number of bytes that pad a payload to a multiple of four.
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

/// Whether packets of this operation may have a payload.
fn takes_payload(operation: Operation) -> bool {
    operation.is_send() || operation.is_write() || operation.is_read_response()
}

/// Whether RPC-over-RDMA does not use this operation (RFC 8166, section 2.3.2).
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
        // No other check failed, so the length is wrong: 0 or above LONGEST_MESSAGE.
        return Some(match reth.dma_length {
            0 => Fault::Nothing,
            length => Fault::DmaLength(length),
        });
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

/// Finds the fault of a READ response at `index` among the responses to a request for `length`
/// bytes.
#[inline]
pub(super) fn of_response(packet: &Packet<'_>, index: u32, length: u32, path_mtu: u32) -> Option<Fault> {
    let before = u64::from(index) * u64::from(path_mtu);
    let left = u64::from(length).saturating_sub(before) as u32;
    // A request for the remaining bytes may not be in the capture. Its first response is a First or
    // an Only too.
    let is_right = match packet.operation.position() {
        PacketPosition::First => left > path_mtu,
        PacketPosition::Middle => index > 0 && left > path_mtu,
        PacketPosition::Last => index > 0 && left == packet.payload_length,
        PacketPosition::Only => left == packet.payload_length,
    };
    (!is_right).then_some(Fault::Response { left, index, length: packet.payload_length })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Seen, Time};
    use Operation::*;
    use rdmascope_wire::Rkey;
    use rdmascope_wire::bth::{Aeth, Reth, Syndrome};
    use rdmascope_wire::psn::Psn;

    fn packet(operation: Operation, payload_length: u32, extension: Extension) -> Packet<'static> {
        let seen = Seen { frame: 1, time: Time(0) };
        Packet { seen, operation, psn: Psn::new(0), extension, payload: &[], payload_length }
    }

    fn of(packet: &Packet<'_>, change: impl Fn(&mut Bth), agreed: Agreed) -> Option<Fault> {
        let pad_count = (packet.payload_length.wrapping_neg() % 4) as u8;
        let mut bth = Bth { pad_count, partition_key: 0xffff, ..Bth::default() };
        change(&mut bth);
        of_packet(&bth, packet, &agreed)
    }

    fn reth(dma_length: u32) -> Extension {
        Extension::Reth(Reth { virtual_address: 0, rkey: Rkey(1), dma_length })
    }

    /// Valid payload lengths of each operation (sections 9.7.2 and 9.8.2), with a path MTU of 1024
    /// and with an unknown one.
    #[test]
    fn invalid_payload_lengths_are_faults() {
        let fits = |operation: Operation, length: u32, path_mtu: Option<u32>| {
            let extension = if operation.is_write() { reth(1) } else { Extension::None };
            let found =
                of(&packet(operation, length, extension), |_| {}, Agreed { path_mtu, partition_key: None });
            assert!(matches!(found, None | Some(Fault::Length { .. })), "{operation:?} {length}: {found:?}");
            found.is_none()
        };
        for (operation, known, unknown) in [
            (SendFirst, &[1024][..], &[256, 512, 1024, 4096][..]),
            (ReadResponseMiddle, &[1024], &[256, 512, 1024, 4096]),
            (WriteLast, &[1, 256, 512, 1000, 1024], &[1, 256, 512, 1000, 1024, 4095, 4096]),
            (SendOnly, &[0, 1, 256, 512, 1000, 1024], &[0, 1, 256, 512, 1000, 1024, 4095, 4096]),
            (WriteOnly, &[0, 1, 256, 512, 1000, 1024], &[0, 1, 256, 512, 1000, 1024, 4095, 4096]),
            (ReadResponseOnly, &[0, 1, 256, 512, 1000, 1024], &[0, 1, 256, 512, 1000, 1024, 4095, 4096]),
            (Acknowledge, &[0], &[0]),
            (ReadRequest, &[0], &[0]),
        ] {
            let lengths = [0, 1, 128, 256, 512, 1000, 1024, 4095, 4096, 4097, 8192];
            for (path_mtu, right) in [(Some(1024), known), (None, unknown)] {
                let found: Vec<u32> =
                    lengths.into_iter().filter(|length| fits(operation, *length, path_mtu)).collect();
                let right: Vec<u32> = lengths
                    .into_iter()
                    .filter(|length| right.contains(length) || right.contains(&1) && *length == 128)
                    .collect();
                assert_eq!(found, right, "{operation:?} {path_mtu:?}");
            }
        }
    }

    #[test]
    fn invalid_bth_fields_are_faults() {
        let agreed = |partition_key| Agreed { path_mtu: None, partition_key };
        let send = packet(SendOnly, 5, Extension::None);
        // The payload needs three bytes of padding.
        for pad_count in 0..4 {
            let found = of(&send, |bth| bth.pad_count = pad_count, agreed(None));
            assert_eq!(found, (pad_count != 3).then_some(Fault::Padding { pad_count, expected: 3 }));
        }
        assert_eq!(of(&send, |bth| bth.transport_version = 1, agreed(None)), Some(Fault::Version(1)));
        // The highest bit is set for full members. The other bits identify the partition.
        for (found, of_both, is_wrong) in [
            (0xffff, 0x7fff, false),
            (0x8001, 0x0001, false),
            (0x8001, 0x8002, true),
            (0x7fff, 0xfffe, true),
            (0xd555, 0xaaaa, true),
        ] {
            let fault = of(&send, |bth| bth.partition_key = found, agreed(Some(of_both)));
            assert_eq!(fault, is_wrong.then_some(Fault::PartitionKey { found, agreed: of_both }));
            assert_eq!(of(&send, |bth| bth.partition_key = found, agreed(None)), None);
        }
    }

    #[test]
    fn operations_unused_by_rpc_over_rdma_are_foreign() {
        for (operation, is_foreign) in [
            (SendOnly, false),
            (SendOnlyWithInvalidate, false),
            (SendOnlyWithImmediate, true),
            (SendLastWithImmediate, true),
            (WriteOnlyWithImmediate, true),
            (CompareSwap, true),
            (FetchAdd, true),
        ] {
            let length = if operation.is_send() || operation.is_write() { 4 } else { 0 };
            let extension = if operation.is_write() { reth(4) } else { Extension::None };
            let found = of(&packet(operation, length, extension), |_| {}, Agreed::default());
            assert_eq!(found, is_foreign.then_some(Fault::Foreign), "{operation:?}");
        }
    }

    #[test]
    fn dma_length_of_zero_or_above_2_gib_is_a_fault() {
        for (length, fault) in [
            (0, Some(Fault::Nothing)),
            (1, None),
            (1 << 31, None),
            ((1 << 31) + 1, Some(Fault::DmaLength((1 << 31) + 1))),
        ] {
            assert_eq!(of(&packet(ReadRequest, 0, reth(length)), |_| {}, Agreed::default()), fault);
        }
    }

    /// IBTA volume 1, tables 43 to 45: 000 ACK, 001 RNR NAK, 011 NAK with codes 0 to 4. READ
    /// responses may only carry an ACK.
    #[test]
    fn invalid_syndromes_are_faults() {
        for syndrome in 0..=0xff_u8 {
            let aeth = Extension::Aeth(Aeth { syndrome: Syndrome(syndrome), message_sequence_number: 0 });
            // The highest bit is reserved.
            let is_ack = syndrome >> 5 & 3 == 0;
            let is_right = is_ack || syndrome >> 5 & 3 == 1 || syndrome >> 5 & 3 == 3 && syndrome & 0x1f < 4;
            let fault = |operation, length| of(&packet(operation, length, aeth), |_| {}, Agreed::default());
            let wrong = Some(Fault::Syndrome(syndrome));
            assert_eq!(fault(Acknowledge, 0).is_none(), is_right, "{syndrome:#x}");
            assert_eq!(fault(ReadResponseOnly, 4).is_none(), is_ack, "{syndrome:#x}");
            assert!(
                [None, wrong].contains(&fault(Acknowledge, 0))
                    && [None, wrong].contains(&fault(ReadResponseOnly, 4))
            );
        }
    }

    /// A READ of 600 bytes with a path MTU of 256: responses of 256, 256 and 88 bytes.
    #[test]
    fn responses_that_do_not_fit_are_faults() {
        use Operation::{
            ReadResponseFirst as First, ReadResponseLast as Last, ReadResponseMiddle as Middle,
            ReadResponseOnly as Only,
        };
        let is_right = |operation, index, length, asked| {
            of_response(&packet(operation, length, Extension::None), index, asked, 256).is_none()
        };
        for (operation, index, length, asked, right) in [
            (First, 0, 256, 600, true),
            (First, 1, 256, 600, true),
            (First, 2, 256, 600, false),
            (First, 0, 256, 256, false),
            (First, 0, 256, 257, true),
            (Middle, 1, 256, 600, true),
            (Middle, 0, 256, 600, false),
            (Middle, 1, 256, 512, false),
            (Middle, 1, 256, 513, true),
            (Last, 2, 88, 600, true),
            (Last, 2, 87, 600, false),
            (Last, 0, 88, 88, false),
            (Last, 1, 88, 600, false),
            (Only, 0, 88, 88, true),
            (Only, 0, 87, 88, false),
            (Only, 2, 88, 600, true),
        ] {
            assert_eq!(
                is_right(operation, index, length, asked),
                right,
                "{operation:?} {index} {length} of {asked}"
            );
        }
        // The fault contains the index and the bytes left.
        let fault = of_response(&packet(Last, 87, Extension::None), 2, 600, 256);
        assert_eq!(fault, Some(Fault::Response { left: 88, index: 2, length: 87 }));
    }
}
