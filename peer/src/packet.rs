//! What crosses the wire: a datagram, and the packet in it from the BTH to before the ICRC.

use alloc::vec::Vec;
use core::net::IpAddr;
use rdmascope_wire::bth::{Bth, Extensions};
use rdmascope_wire::{Layer, Stop};

/// One transport packet between two IP addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Who sends it.
    pub source: IpAddr,
    /// For whom it is.
    pub destination: IpAddr,
    /// The UDP source port. The destination port is 4791.
    pub source_port: u16,
    /// The transport packet: from the first byte of the BTH to the last one before the ICRC.
    pub transport: Vec<u8>,
    /// What the driver found out about the ICRC of a packet received; how it shall make that of a packet to be sent.
    pub icrc: Icrc,
}

/// What is known of the ICRC of a datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Icrc {
    /// It was right; to be sent: make it right.
    #[default]
    Good,
    /// It was wrong, and the packet is dropped; to be sent: make it wrong on purpose.
    Bad,
    /// The driver could not tell: an ordinary UDP socket does not show the IP header, which the ICRC covers. Taken as good.
    Unverified,
}

/// A transport packet, taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The base transport header.
    pub bth: Bth,
    /// The extension headers that its opcode calls for.
    pub extensions: Extensions,
    /// The payload without its padding.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads the headers. A stop where they are not all there, or the padding is longer than the payload.
    pub fn parse(transport: &'a [u8]) -> Result<Packet<'a>, Stop> {
        let bth = Bth::parse(transport)?;
        let (extensions, length) = Extensions::parse(bth.opcode, &transport[Bth::LENGTH..])?;
        let start = Bth::LENGTH + length;
        let end = transport.len().checked_sub(usize::from(bth.pad_count)).filter(|end| *end >= start);
        let end = end.ok_or_else(|| Stop::malformed(Layer::Bth, 1))?;
        Ok(Packet { bth, extensions, payload: &transport[start..end] })
    }

    /// The packet's bytes, with padding. The pad count follows from the payload.
    pub fn build(&self) -> Vec<u8> {
        let padding = self.payload.len().wrapping_neg() & 3;
        let mut bytes = Vec::with_capacity(Bth::LENGTH + 28 + self.payload.len() + padding);
        Bth { pad_count: padding as u8, ..self.bth }.build(&mut bytes);
        self.extensions.build(&mut bytes);
        bytes.extend_from_slice(self.payload);
        bytes.resize(bytes.len() + padding, 0);
        bytes
    }
}
