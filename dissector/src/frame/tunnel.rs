//! Mirrored and tunnelled traffic: GRE with ERSPAN or Ethernet in it, and VXLAN.

use super::headers::{Found, Header, Walk};
use super::view::View;
use super::{Frame, Other, link};
use rdmascope_wire::Layer;

/// The UDP destination port of VXLAN (RFC 7348, section 5).
pub(super) const VXLAN_PORT: u16 = 4789;

/// VXLAN: a byte of flags, of which I says that there is a network identifier, 7 bytes, an Ethernet frame.
pub(super) fn vxlan<'a, F: Found>(
    view: View<'a>,
    walk: &mut Walk<'_, F>,
    depth: u8,
) -> Result<Frame<'a>, Other> {
    let header = view.header::<8>(Layer::Link)?;
    if header[0] & 0x08 == 0 {
        return Err(Other::NotInfiniBand);
    }
    walk.found(Header::Vxlan, &view, 8);
    link::ethernet(view.skip(8), walk, depth)
}

/// GRE (RFC 2784 and 2890): four bytes, and four each for a checksum, a key and a sequence number where C, K and S say so.
pub(super) fn gre<'a, F: Found>(
    view: View<'a>,
    walk: &mut Walk<'_, F>,
    depth: u8,
) -> Result<Frame<'a>, Other> {
    let header = view.header::<4>(Layer::Link)?;
    let checksum = header[0] & 0x80 != 0;
    let routing = header[0] & 0x40 != 0;
    let key = header[0] & 0x20 != 0;
    let sequence = header[0] & 0x10 != 0;
    let version = header[1] & 0x07;
    if routing || version != 0 {
        return Err(Other::NotInfiniBand);
    }
    let length = 4 + [checksum, key, sequence].into_iter().filter(|&there| there).count() * 4;
    if view.data.len() < length {
        return Err(view.stop(Layer::Link, 0, length));
    }
    walk.found(Header::Gre, &view, length);
    let inner = view.skip(length);
    match u16::from_be_bytes([header[2], header[3]]) {
        // ERSPAN type I has neither a sequence number nor a header of its own.
        0x88be if !sequence => link::ethernet(inner, walk, depth),
        0x88be => {
            let header = inner.header::<8>(Layer::Link)?;
            walk.found(Header::Erspan2, &inner, 8);
            link::ethernet(inner.skip(8).cut_if(truncated(header)), walk, depth)
        }
        0x22eb => erspan_3(inner, walk, depth),
        0x6558 => link::ethernet(inner, walk, depth),
        _ => link::by_ether_type([header[2], header[3]], inner, walk, depth),
    }
}

/// ERSPAN type III (draft-foschiano-erspan-03, section 4.3): 12 bytes, and 8 more where the last bit of them says so.
fn erspan_3<'a, F: Found>(view: View<'a>, walk: &mut Walk<'_, F>, depth: u8) -> Result<Frame<'a>, Other> {
    let header = view.header::<12>(Layer::Link)?;
    let length = if header[11] & 1 == 0 { 12 } else { 20 };
    if view.data.len() < length {
        return Err(view.stop(Layer::Link, 0, length));
    }
    walk.found(Header::Erspan3, &view, length);
    let inner = view.skip(length).cut_if(truncated(header.first_chunk().expect("12 bytes hold 8")));
    // FT: what kind of frame was mirrored.
    match header[10] >> 2 & 0x1f {
        0 => link::ethernet(inner, walk, depth),
        2 => link::by_ip_version(inner, walk, depth),
        _ => Err(Other::NotInfiniBand),
    }
}

/// T, in types II and III: the mirroring device cut the frame.
fn truncated(header: &[u8; 8]) -> bool {
    header[2] & 0x04 != 0
}
