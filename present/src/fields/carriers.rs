//! Headers below the transport: link and network headers, and those of mirrors and tunnels.

use super::{Field, Value, by_layout, with_name, with_name_in};
use core::net::{Ipv4Addr, Ipv6Addr};
use core::ops::Range;
use rdmascope_analysis::time::Rfc3339;
use rdmascope_dissector::frame::Header;
use rdmascope_dissector::record::Time;
use rdmascope_wire::erf::{Erf, RecordType, Timestamp};
use rdmascope_wire::grh::Grh;
use rdmascope_wire::layout::Layout;
use rdmascope_wire::lrh::Lrh;

/// The fields of a header below the transport.
pub(super) fn carrier(header: Header, bytes: &[u8], place: &Range<usize>) -> Field {
    let (name, layout): (&'static str, Layout) = match header {
        Header::Ethernet => ("Ethernet II", ETHERNET),
        Header::VlanTag => ("VLAN tag", VLAN_TAG),
        Header::Tag(ether_type) => tag(ether_type),
        Header::LinuxSll => ("Linux cooked capture v1", LINUX_SLL),
        Header::LinuxSll2 => ("Linux cooked capture v2", LINUX_SLL2),
        Header::Loopback => ("Loopback", LOOPBACK),
        Header::Erf => ("Endace ERF", Erf::LAYOUT),
        Header::Ipv4 => ("IPv4", IPV4),
        Header::Ipv6 => ("IPv6", IPV6),
        Header::Ipv6Extension(_) => ("IPv6 extension header", IPV6_EXTENSION),
        Header::Udp => ("UDP", UDP),
        Header::Gre => ("GRE", GRE),
        Header::SpectrumMirror => ("Spectrum mirror header", Layout(&[])),
        Header::EtherIp => ("EtherIP", ETHER_IP),
        Header::Gue => ("GUE", GUE),
        Header::Erspan2 => ("ERSPAN type II", ERSPAN_2),
        Header::Erspan3 => ("ERSPAN type III", ERSPAN_3),
        Header::Vxlan => ("VXLAN", VXLAN),
        Header::Nsh => ("NSH", NSH),
        Header::Geneve => ("GENEVE", GENEVE),
        Header::Mpls => ("MPLS", MPLS),
        Header::ControlWord => ("Pseudowire control word", CONTROL_WORD),
        Header::Pppoe => ("PPPoE session", PPPOE),
        Header::Lrh => ("LRH", Lrh::LAYOUT),
        Header::Grh => ("GRH", Grh::LAYOUT),
        Header::Transport | Header::Icrc | Header::VariantCrc => ("transport packet", Layout(&[])),
    };
    let mut children = by_layout(layout, bytes, place.start, carrier_value);
    let mut end = place.start + layout.length();
    if header == Header::Erf {
        while place.end - end >= Erf::EXTENSION_LENGTH {
            let extension = end..end + Erf::EXTENSION_LENGTH;
            let inside = by_layout(Erf::EXTENSION, bytes, end, |_, _| None);
            end = extension.end;
            children.push(Field::new("Extension header", "", extension).with(inside));
        }
        if end < place.end {
            children.push(Field::new("Offset and padding", "", end..place.end));
        }
    } else if end < place.end {
        let rest = format!("{} bytes", place.end - end);
        children.push(Field::new("options", rest, end..place.end));
    }
    let value = match header {
        Header::Ipv6Extension(number) => number.to_string(),
        _ => String::new(),
    };
    Field::new(name, value, place.clone()).with(children)
}

/// The name and layout of a tag.
fn tag(ether_type: u16) -> (&'static str, Layout) {
    match ether_type {
        0x22f3 => ("TRILL", Layout(&[("V", 2), ("R", 2), ("M", 1), ("Op-Length", 5), ("Hop Count", 6)])),
        0x8903 => ("FabricPath", Layout(&[("FTAG", 10), ("TTL", 6)])),
        0x8909 => ("Cisco MetaData", CISCO_META_DATA),
        0x8926 => ("VN-Tag", VN_TAG),
        0x892f => {
            ("HSR tag", Layout(&[("Path", 4), ("LSDU size", 12), ("Sequence Number", 16), ("Type", 16)]))
        }
        0x893f => ("E-TAG", E_TAG),
        0x88e5 => ("MACsec", Layout(&[("TCI", 6), ("AN", 2), ("SL", 8), ("PN", 32)])),
        0x88e7 => {
            ("I-TAG", Layout(&[("I-PCP", 3), ("I-DEI", 1), ("UCA", 1), ("reserved", 3), ("I-SID", 24)]))
        }
        0xd28b => ("Arista time stamp", ARISTA),
        0xf1c1 => ("R-TAG", Layout(&[("reserved", 16), ("Sequence Number", 16), ("Type", 16)])),
        _ => ("LLC and SNAP", SNAP),
    }
}

const SNAP: Layout = Layout(&[("DSAP", 8), ("SSAP", 8), ("Control", 8), ("Organization", 24), ("Type", 16)]);
const ARISTA: Layout = Layout(&[("Subtype", 16), ("Time scale", 8), ("Format", 4), ("Hardware", 4)]);
const CISCO_META_DATA: Layout =
    Layout(&[("Version", 8), ("Length", 8), ("Option", 16), ("SGT", 16), ("Type", 16)]);
const VN_TAG: Layout = Layout(&[
    ("d", 1),
    ("p", 1),
    ("dvif_id", 14),
    ("l", 1),
    ("r", 1),
    ("ver", 2),
    ("svif_id", 12),
    ("Type", 16),
]);
/// IEEE 802.1BR, section 7.5.
const E_TAG: Layout = Layout(&[
    ("E-PCP", 3),
    ("E-DEI", 1),
    ("Ingress_E-CID_base", 12),
    ("reserved", 2),
    ("GRP", 2),
    ("E-CID_base", 12),
    ("Ingress_E-CID_ext", 8),
    ("E-CID_ext", 8),
    ("Type", 16),
]);
/// RFC 3378, section 3.
const ETHER_IP: Layout = Layout(&[("Version", 4), ("reserved", 12)]);
/// draft-ietf-intarea-gue-09, section 3.1.
const GUE: Layout = Layout(&[("Variant", 2), ("C", 1), ("Hlen", 5), ("Protocol", 8), ("Flags", 16)]);

const ETHERNET: Layout = Layout(&[("Destination", 48), ("Source", 48), ("Type", 16)]);
const VLAN_TAG: Layout = Layout(&[("PCP", 3), ("DEI", 1), ("VID", 12), ("Type", 16)]);
const LINUX_SLL: Layout = Layout(&[
    ("Packet type", 16),
    ("ARPHRD type", 16),
    ("Address length", 16),
    ("Link-layer address", 64),
    ("Type", 16),
]);
const LINUX_SLL2: Layout = Layout(&[
    ("Type", 16),
    ("reserved", 16),
    ("Interface index", 32),
    ("ARPHRD type", 16),
    ("Packet type", 8),
    ("Address length", 8),
    ("Link-layer address", 64),
]);
const LOOPBACK: Layout = Layout(&[("Address family", 32)]);
/// RFC 791, section 3.1.
const IPV4: Layout = Layout(&[
    ("Version", 4),
    ("IHL", 4),
    ("DSCP", 6),
    ("ECN", 2),
    ("Total Length", 16),
    ("Identification", 16),
    ("reserved", 1),
    ("DF", 1),
    ("MF", 1),
    ("Fragment Offset", 13),
    ("Time to Live", 8),
    ("Protocol", 8),
    ("Header Checksum", 16),
    ("Source Address", 32),
    ("Destination Address", 32),
]);
/// RFC 8200, section 3.
const IPV6: Layout = Layout(&[
    ("Version", 4),
    ("DSCP", 6),
    ("ECN", 2),
    ("Flow Label", 20),
    ("Payload Length", 16),
    ("Next Header", 8),
    ("Hop Limit", 8),
    ("Source Address", 128),
    ("Destination Address", 128),
]);
const IPV6_EXTENSION: Layout = Layout(&[("Next Header", 8)]);
const UDP: Layout =
    Layout(&[("Source Port", 16), ("Destination Port", 16), ("Length", 16), ("Checksum", 16)]);
/// RFC 2784, section 2.1, and RFC 2890, section 2.
const GRE: Layout = Layout(&[
    ("C", 1),
    ("reserved", 1),
    ("K", 1),
    ("S", 1),
    ("reserved", 9),
    ("Ver", 3),
    ("Protocol Type", 16),
]);
/// draft-foschiano-erspan-03, sections 4.2 and 4.3.
const ERSPAN_2: Layout = Layout(&[
    ("Ver", 4),
    ("VLAN", 12),
    ("COS", 3),
    ("En", 2),
    ("T", 1),
    ("Session ID", 10),
    ("reserved", 12),
    ("Index", 20),
]);
const ERSPAN_3: Layout = Layout(&[
    ("Ver", 4),
    ("VLAN", 12),
    ("COS", 3),
    ("BSO", 2),
    ("T", 1),
    ("Session ID", 10),
    ("Timestamp", 32),
    ("SGT", 16),
    ("P", 1),
    ("FT", 5),
    ("Hw ID", 6),
    ("D", 1),
    ("Gra", 2),
    ("O", 1),
]);
/// RFC 7348, section 5, and draft-ietf-nvo3-vxlan-gpe, section 3.
const VXLAN: Layout =
    Layout(&[("Flags", 8), ("reserved", 16), ("Next Protocol", 8), ("VNI", 24), ("reserved", 8)]);
/// RFC 8300, section 2.
const NSH: Layout = Layout(&[
    ("Ver", 2),
    ("O", 1),
    ("reserved", 1),
    ("TTL", 6),
    ("Length", 6),
    ("reserved", 4),
    ("MD Type", 4),
    ("Next Protocol", 8),
    ("Service Path Identifier", 24),
    ("Service Index", 8),
]);
/// RFC 8926, section 3.4.
const GENEVE: Layout = Layout(&[
    ("Ver", 2),
    ("Opt Len", 6),
    ("O", 1),
    ("C", 1),
    ("reserved", 6),
    ("Protocol Type", 16),
    ("VNI", 24),
    ("reserved", 8),
]);
/// RFC 3032, section 2.1, and RFC 5462, section 3.
const MPLS: Layout = Layout(&[("Label", 20), ("TC", 3), ("S", 1), ("TTL", 8)]);
/// RFC 4448, section 4.6.
const CONTROL_WORD: Layout = Layout(&[("0000", 4), ("reserved", 12), ("Sequence Number", 16)]);
/// RFC 2516, section 4, and RFC 1661, section 2.
const PPPOE: Layout =
    Layout(&[("VER", 4), ("TYPE", 4), ("CODE", 8), ("SESSION_ID", 16), ("LENGTH", 16), ("PPP Protocol", 16)]);

/// Formats the values below the transport that are not plain numbers.
fn carrier_value(name: &str, value: Value<'_>) -> Option<String> {
    match name {
        "Destination" | "Source" | "Link-layer address" => {
            let digits: Vec<String> = value.bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            Some(digits.join(":"))
        }
        "Source Address" | "Destination Address" | "SGID" | "DGID" => address(value.bytes),
        "PPP Protocol" => {
            let number = value.number?;
            Some(match number {
                0x0021 => "IPv4 (0x0021)".to_owned(),
                0x0057 => "IPv6 (0x0057)".to_owned(),
                0x0281 => "MPLS (0x0281)".to_owned(),
                0x0283 => "MPLS, upstream-assigned label (0x0283)".to_owned(),
                _ => format!("0x{number:04x}"),
            })
        }
        // The timestamp of ERF is little-endian. That of ERSPAN has 32 bits and stays a number.
        "Timestamp" => {
            let timestamp = Timestamp(u64::from_le_bytes(value.bytes.try_into().ok()?));
            let time = Time(i64::try_from(timestamp.nanoseconds()).ok()?);
            Some(Rfc3339::from(time).as_str().to_owned())
        }
        "Record type" => {
            let number = value.number?;
            Some(with_name(number, RecordType(u8::try_from(number).ok()?).name()))
        }
        "Type" | "Protocol Type" => {
            let number = value.number?;
            Some(match number {
                0x0800 => "IPv4 (0x0800)".to_owned(),
                0x86dd => "IPv6 (0x86dd)".to_owned(),
                0x8915 => "RoCEv1 (0x8915)".to_owned(),
                0x8100 => "VLAN tag (0x8100)".to_owned(),
                0x88a8 => "VLAN service tag (0x88a8)".to_owned(),
                0x88be => "ERSPAN (0x88be)".to_owned(),
                0x22eb => "ERSPAN type III (0x22eb)".to_owned(),
                0x6558 => "Ethernet (0x6558)".to_owned(),
                0x8847 => "MPLS (0x8847)".to_owned(),
                0x8848 => "MPLS, upstream-assigned label (0x8848)".to_owned(),
                0x8864 => "PPPoE session (0x8864)".to_owned(),
                0x8949 => "Spectrum mirror (0x8949)".to_owned(),
                0x894f => "NSH (0x894f)".to_owned(),
                _ => format!("0x{number:04x}"),
            })
        }
        "Protocol" | "Next Header" => {
            let number = value.number?;
            let name = match number {
                4 => Some("IPv4"),
                6 => Some("TCP"),
                17 => Some("UDP"),
                41 => Some("IPv6"),
                47 => Some("GRE"),
                97 => Some("EtherIP"),
                137 => Some("MPLS"),
                143 => Some("Ethernet"),
                _ => None,
            };
            Some(with_name(number, name))
        }
        "NxtHdr" => value.number.map(|number| with_name(number, (number == 0x1b).then_some("BTH"))),
        "ECN" => {
            let number = value.number?;
            let names = ["not ECN-capable", "ECT(1)", "ECT(0)", "congestion experienced"];
            Some(with_name_in(number, &names))
        }
        "Identification" | "Header Checksum" | "Checksum" | "DLID" | "SLID" | "SESSION_ID" => {
            value.number.map(|number| format!("0x{number:04x}"))
        }
        "Flow Label" | "FlowLabel" => value.number.map(|number| format!("0x{number:05x}")),
        _ => None,
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    if let Ok(bytes) = <[u8; 4]>::try_from(bytes) {
        return Some(Ipv4Addr::from(bytes).to_string());
    }
    <[u8; 16]>::try_from(bytes).ok().map(|bytes| Ipv6Addr::from(bytes).to_string())
}
