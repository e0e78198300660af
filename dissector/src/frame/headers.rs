//! The headers in front of a transport packet, and their places.

use super::Config;
use super::view::View;
use core::ops::Range;

/// A header between the first byte of a record and its transport packet, or one behind the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Header {
    /// Ethernet II.
    Ethernet,
    /// A VLAN tag: control information and the Ethertype of what follows.
    VlanTag,
    /// Linux "cooked" capture, version 1.
    LinuxSll,
    /// Linux "cooked" capture, version 2.
    LinuxSll2,
    /// Four bytes of address family.
    Loopback,
    /// An Endace record header, with its extension headers, and the two bytes that stand in front of Ethernet.
    Erf,
    /// IPv4, with its options.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// An extension header of IPv6, with the number by which the header before it announced it.
    Ipv6Extension(u8),
    /// UDP.
    Udp,
    /// GRE.
    Gre,
    /// ERSPAN type II.
    Erspan2,
    /// ERSPAN type III.
    Erspan3,
    /// VXLAN.
    Vxlan,
    /// GENEVE, with its options.
    Geneve,
    /// One entry of an MPLS label stack.
    Mpls,
    /// The control word of a pseudowire that carries Ethernet over MPLS.
    ControlWord,
    /// PPPoE, with the protocol number of PPP behind it.
    Pppoe,
    /// The local route header.
    Lrh,
    /// The global route header.
    Grh,
    /// The transport packet, from the BTH on, as far as it was captured.
    Transport,
    /// The invariant CRC.
    Icrc,
    /// The variant CRC of a packet as an InfiniBand link carries it.
    VariantCrc,
}

/// A function that is called for each header, with its byte range in the record.
pub(super) trait Found: FnMut(Header, Range<usize>) {}

impl<F: FnMut(Header, Range<usize>)> Found for F {}

/// What goes along on the way through the headers.
pub(super) struct Walk<'c, F> {
    pub(super) config: &'c Config,
    pub(super) tell: F,
}

impl<F: Found> Walk<'_, F> {
    /// A header takes up the first `length` bytes of `view`.
    #[inline]
    pub(super) fn found(&mut self, header: Header, view: &View<'_>, length: usize) {
        (self.tell)(header, view.at..view.at.saturating_add(length));
    }
}
