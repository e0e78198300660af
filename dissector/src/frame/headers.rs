//! The headers around a transport packet, and their byte ranges.

use super::Config;
use super::view::View;
use core::ops::Range;

/// A header between the first byte of a record and its transport packet, or a trailer of the
/// packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Header {
    /// Ethernet II.
    Ethernet,
    /// A VLAN tag: control information and the next Ethertype.
    VlanTag,
    /// Another tag before the EtherType, with its own EtherType from the header before it, or with a
    /// length of IEEE 802.3 for LLC and SNAP. It ends with the next EtherType, unless an Ethernet
    /// frame follows.
    Tag(u16),
    /// Linux "cooked" capture, version 1.
    LinuxSll,
    /// Linux "cooked" capture, version 2.
    LinuxSll2,
    /// Four bytes of address family.
    Loopback,
    /// An Endace record header, with its extension headers and the two bytes before Ethernet.
    Erf,
    /// IPv4, with its options.
    Ipv4,
    /// IPv6.
    Ipv6,
    /// An IPv6 extension header, with its number from the header before it.
    Ipv6Extension(u8),
    /// UDP.
    Udp,
    /// GRE.
    Gre,
    /// The 22 bytes between GRE and Ethernet in mirrored packets of Spectrum switches.
    SpectrumMirror,
    /// EtherIP.
    EtherIp,
    /// Generic UDP encapsulation, with its optional fields.
    Gue,
    /// ERSPAN type II.
    Erspan2,
    /// ERSPAN type III.
    Erspan3,
    /// VXLAN, or VXLAN-GPE.
    Vxlan,
    /// The network service header, with its metadata.
    Nsh,
    /// GENEVE, with its options.
    Geneve,
    /// One entry of an MPLS label stack.
    Mpls,
    /// The control word of a pseudowire for Ethernet over MPLS.
    ControlWord,
    /// PPPoE, with the PPP protocol number.
    Pppoe,
    /// The local route header.
    Lrh,
    /// The global route header.
    Grh,
    /// The captured bytes of the transport packet, from the BTH on.
    Transport,
    /// The invariant CRC.
    Icrc,
    /// The variant CRC of a native InfiniBand packet.
    VariantCrc,
}

/// A callback for each header, with its byte range in the record.
pub(super) trait Found: FnMut(Header, Range<usize>) {}

impl<F: FnMut(Header, Range<usize>)> Found for F {}

/// The context of a walk through the headers.
pub(super) struct Walk<'c, F> {
    pub(super) config: &'c Config,
    report: F,
    /// [`Frame::hop`](super::Frame::hop), as far as the headers were walked.
    pub(super) hop: u32,
    /// [`Frame::context`](super::Frame::context), likewise.
    pub(super) context: u32,
    /// Number of encapsulations around the rest.
    depth: u8,
}

impl<'c, F: Found> Walk<'c, F> {
    /// Maximum depth of encapsulation that is parsed. Real traffic has less.
    const MAXIMUM_DEPTH: u8 = 4;

    /// A walk from the first header on.
    #[inline]
    pub(super) fn new(config: &'c Config, report: F) -> Walk<'c, F> {
        Walk { config, report, hop: 0, context: 0, depth: 0 }
    }

    /// Whether another level of encapsulation is parsed.
    #[inline]
    pub(super) fn may_enter(&self) -> bool {
        self.depth < Self::MAXIMUM_DEPTH
    }

    /// Enters another level of encapsulation.
    #[inline]
    pub(super) fn enter(&mut self) -> &mut Self {
        self.depth += 1;
        self
    }

    /// Notes a value that is the same for all packets of a flow between two hops.
    #[inline]
    pub(super) fn pass(&mut self, value: u32) {
        self.hop = mix(self.hop, value);
    }

    /// Notes the identifier of a VLAN. 0 is none: the tag gives a priority only.
    #[inline]
    pub(super) fn pass_vlan(&mut self, vlan: u16) {
        self.pass(vlan.into());
        if vlan != 0 {
            self.context = mix(self.context, u32::from(vlan) + 1);
        }
    }

    /// Notes the 24 bits of an MPLS label stack entry without its time to live. Labels name paths, so
    /// they differ between the packets of one flow.
    pub(super) fn pass_label(&mut self, [a, b, c]: [u8; 3]) {
        self.pass(u32::from_be_bytes([0, a, b, c]));
    }

    /// Notes the 24 bits of a tunnel's network identifier.
    pub(super) fn pass_network(&mut self, identifier: [u8; 3]) {
        self.pass_label(identifier);
        let [a, b, c] = identifier;
        self.context = mix(self.context, u32::from_be_bytes([1, a, b, c]));
    }

    /// Enters a tunnel: the VLANs outside belong to the network of the tunnel's ends.
    #[inline]
    pub(super) fn enter_tunnel(&mut self) {
        self.enter().context = 0;
    }

    /// Reports a header in the first `length` bytes of `view`.
    #[inline]
    pub(super) fn found(&mut self, header: Header, view: &View<'_>, length: usize) {
        (self.report)(header, view.at..view.at.saturating_add(length));
    }
}

/// Adds a value to a hash.
#[inline]
fn mix(hash: u32, value: u32) -> u32 {
    (hash.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b1)
}
