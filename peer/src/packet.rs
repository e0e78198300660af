//! Datagrams, and the transport packet in them, from the BTH to before the ICRC.

use alloc::vec::Vec;
use core::net::IpAddr;
use rdmascope_wire::bth::{Bth, Extensions};
use rdmascope_wire::{Layer, Stop};

/// One transport packet between two IP addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// The source address.
    pub source: IpAddr,
    /// The destination address.
    pub destination: IpAddr,
    /// The UDP source port. The destination port is 4791.
    pub source_port: u16,
    /// The transport packet: from the first byte of the BTH to the last one before the ICRC.
    pub transport: Vec<u8>,
    /// For a received packet, the result of the driver's check. For a packet to send, the ICRC that
    /// the driver makes.
    pub icrc: Icrc,
}

/// The state of a datagram's ICRC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Icrc {
    /// Correct. To send: compute it.
    #[default]
    Good,
    /// Bad; the packet is dropped. To send: make it wrong.
    Bad,
    /// Unknown, because a UDP socket hides the IP header, which the ICRC covers. Treated as good.
    Unverified,
}

/// A parsed transport packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// The base transport header.
    pub bth: Bth,
    /// The extension headers of its opcode.
    pub extensions: Extensions,
    /// The payload without its padding.
    pub payload: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses the headers. Stops if headers are incomplete or the padding exceeds the payload.
    pub fn parse(transport: &'a [u8]) -> Result<Packet<'a>, Stop> {
        let bth = Bth::parse(transport)?;
        let (extensions, length) = Extensions::parse(bth.opcode, &transport[Bth::LENGTH..])?;
        let start = Bth::LENGTH + length;
        let end = transport.len().checked_sub(usize::from(bth.pad_count)).filter(|end| *end >= start);
        let end = end.ok_or_else(|| Stop::malformed(Layer::Bth, 1))?;
        Ok(Packet { bth, extensions, payload: &transport[start..end] })
    }

    /// Builds the packet with padding. The pad count follows from the payload.
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
