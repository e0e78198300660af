//! Management datagrams: addresses and GUIDs are replaced, and private data are removed except for
//! known formats.

use super::values::Values;
use rdmascope_wire::cm::{self, Message};
use rdmascope_wire::mad::{self, ManagementClass};
use rdmascope_wire::private_data::{PrivateData, find_all};
use rdmascope_wire::rdma_cm_ip::Header;

/// Replaces the contents of a MAD, as far as captured. Only the header stays if its class is not
/// communication management.
pub(super) fn replace(values: &mut Values, mad: &mut [u8]) {
    let original = mad.to_vec();
    let (header, data) = mad.split_at_mut(mad::Header::LENGTH.min(mad.len()));
    data.fill(0);
    let Ok(header) = mad::Header::parse(header) else { return header.fill(0) };
    let Some(layout) = cm::layout(header.attribute)
        .filter(|_| header.management_class == ManagementClass::COMMUNICATION_MANAGEMENT)
    else {
        return;
    };
    let original = &original[mad::Header::LENGTH..];
    let is_request = cm_request(&header, original);
    for field in layout.fields() {
        let place = field.bytes();
        let Some(from) = original.get(place.start..place.end.min(original.len())) else { break };
        let to = &mut data[place.start..place.start + from.len()];
        match (field.name, field.bits.len()) {
            (_, 128) => copy(to, from, |gid| values.ipv6(gid)),
            (name, 64) if name.ends_with("GUID") => copy(to, from, |guid| values.guid(guid)),
            (_, ..=64) => to.copy_from_slice(from),
            ("Private Data", _) => private_data(values, is_request, from, to),
            _ => {}
        }
    }
}

/// Whether the message is a REQ whose private data begin with the header of the RDMA connection
/// manager.
fn cm_request(header: &mad::Header, data: &[u8]) -> bool {
    let mut bytes = Vec::new();
    header.build(&mut bytes);
    bytes.extend_from_slice(data);
    match Message::parse(&bytes) {
        Ok((_, Message::Request(request))) => request.service_id.rdma_cm_port().is_some(),
        _ => false,
    }
}

fn copy<const N: usize>(to: &mut [u8], from: &[u8], new: impl FnOnce([u8; N]) -> [u8; N]) {
    // A truncated address is not written.
    if let (Some(to), Ok(from)) = (to.first_chunk_mut(), from.try_into()) {
        *to = new(from);
    }
}

/// Replaces the header of the RDMA connection manager, and keeps the RPC-over-RDMA private data
/// (RFC 8797).
fn private_data(values: &mut Values, is_request: bool, from: &[u8], to: &mut [u8]) {
    let mut consumer = 0;
    if is_request && let Ok((header, _)) = Header::parse(from) {
        let mut address = |address: [u8; 16]| match (header.ip_version, address) {
            (4, [.., a, b, c, d]) => {
                let mut replaced = [0; 16];
                replaced[12..].copy_from_slice(&values.ipv4([a, b, c, d]));
                replaced
            }
            (6, address) => values.ipv6(address),
            _ => [0; 16],
        };
        let replaced = Header {
            source_address: address(header.source_address),
            destination_address: address(header.destination_address),
            ..header
        };
        consumer = Header::LENGTH;
        to[..consumer].copy_from_slice(&replaced.to_bytes());
    }
    copy_private_data(&from[consumer..], &mut to[consumer..]);
}

/// Copies RPC-over-RDMA private data (RFC 8797), at any offset.
pub(super) fn copy_private_data(from: &[u8], to: &mut [u8]) {
    for found in find_all(from) {
        let place = found.offset..(found.offset + PrivateData::LENGTH).min(from.len());
        to[place.clone()].copy_from_slice(&from[place]);
    }
}
