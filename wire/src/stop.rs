//! Where parsing came to its end before the header did.

/// A located stop: what was understood up to here is kept by whoever returns this.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{layer} stops at byte {offset}: {cause}, {needed} bytes needed, {available} there")]
pub struct Stop {
    /// The header that could not be read whole.
    pub layer: Layer,
    /// Where, in bytes from the first byte of that layer.
    pub offset: usize,
    /// Bytes that the field at `offset` needs; 0 where its value, not its length, is at fault.
    pub needed: usize,
    /// Bytes that are there from `offset` on.
    pub available: usize,
    /// Why.
    pub cause: Cause,
}

impl Stop {
    /// A field that runs past the end of `bytes.len() == length`.
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

    /// A field whose value cannot stand.
    #[inline]
    pub fn malformed(layer: Layer, offset: usize) -> Stop {
        Stop { layer, offset, needed: 0, available: 0, cause: Cause::Malformed }
    }

    /// The same stop, where it is known that the capture, not the sender, cut the bytes off.
    #[must_use]
    pub fn in_cut_capture(self) -> Stop {
        match self.cause {
            Cause::TruncatedPacket => Stop { cause: Cause::TruncatedCapture, ..self },
            _ => self,
        }
    }
}

/// Why a parser stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The capture kept fewer bytes than were on the wire.
    TruncatedCapture,
    /// The packet or message itself ends too early.
    TruncatedPacket,
    /// A value that its specification does not allow and that leaves no way to go on.
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

/// The layers that a [`Stop`] can be in.
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
