//! Located parse errors.

/// The place and the reason where a parser stopped. The caller keeps the fields that were read
/// before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{layer} stops at byte {offset}: {cause}, {needed} bytes needed, {available} there")]
pub struct Stop {
    /// The header that is incomplete or malformed.
    pub layer: Layer,
    /// Offset in bytes from the first byte of that layer.
    pub offset: usize,
    /// Bytes that the field at `offset` needs; 0 if the cause is its value and not its length.
    pub needed: usize,
    /// Bytes available from `offset` on.
    pub available: usize,
    /// The reason.
    pub cause: Cause,
}

impl Stop {
    /// A field that runs past the end of the input, which has `length` bytes.
    #[inline]
    pub fn short(layer: Layer, offset: usize, needed: usize, length: usize) -> Stop {
        Stop {
            layer,
            offset,
            needed,
            available: length.saturating_sub(offset),
            cause: Cause::TruncatedPacket,
        }
    }

    /// A field with an invalid value.
    #[inline]
    pub fn malformed(layer: Layer, offset: usize) -> Stop {
        Stop { layer, offset, needed: 0, available: 0, cause: Cause::Malformed }
    }

    /// Changes a truncated packet to a truncated capture. Used when the capture, not the sender,
    /// cut the packet.
    #[must_use]
    pub fn in_cut_capture(self) -> Stop {
        match self.cause {
            Cause::TruncatedPacket => Stop { cause: Cause::TruncatedCapture, ..self },
            _ => self,
        }
    }
}

/// The reason why a parser stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The capture kept fewer bytes than were on the wire.
    TruncatedCapture,
    /// The packet or message itself ends early.
    TruncatedPacket,
    /// The specification does not allow the value, and the parser cannot continue.
    Malformed,
}

impl core::fmt::Display for Cause {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Cause::TruncatedCapture => "truncated capture",
            Cause::TruncatedPacket => "truncated packet",
            Cause::Malformed => "malformed",
        })
    }
}

/// The layer of a [`Stop`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum Layer {
    Link,
    Network,
    Udp,
    Lrh,
    Grh,
    Bth,
    Mad,
    Cm,
    Tcp,
    Mpa,
    Ddp,
    Rdmap,
    PrivateData,
    RpcRdma,
    Rpc,
    RpcsecGss,
    UpperLayer,
}

impl core::fmt::Display for Layer {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Layer::Link => "link",
            Layer::Network => "network",
            Layer::Udp => "UDP",
            Layer::Lrh => "LRH",
            Layer::Grh => "GRH",
            Layer::Bth => "BTH",
            Layer::Mad => "MAD",
            Layer::Cm => "CM",
            Layer::Tcp => "TCP",
            Layer::Mpa => "MPA",
            Layer::Ddp => "DDP",
            Layer::Rdmap => "RDMAP",
            Layer::PrivateData => "private data",
            Layer::RpcRdma => "RPC-over-RDMA",
            Layer::Rpc => "RPC",
            Layer::RpcsecGss => "RPCSEC_GSS",
            Layer::UpperLayer => "upper layer",
        })
    }
}
