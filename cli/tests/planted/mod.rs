//! Sessions with one deliberate fault.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part of it.

use rdmascope_tests::mutate::SERVER;
use rdmascope_tests::{pcap, samples};

/// The violated rule (RFC 8166, section 3.3.1).
pub const RULE: &str = "credit-grant-zero";

/// A sample with a reply that grants no credits.
pub struct NoCredits {
    /// The file.
    pub bytes: Vec<u8>,
    /// The altered packet.
    pub frame: u64,
}

/// `sample` with 0 in place of the 64 credits that the server's reply to `xid` grants.
pub fn no_credits(sample: &str, xid: u32) -> NoCredits {
    let mut capture = samples::capture(sample);
    let replies = capture.packets.iter_mut().filter(|packet| packet.source() == SERVER);
    let mut replies = replies.filter(|packet| packet.xid() == Some(xid));
    let reply = replies.next().expect("the call was answered");
    // rdma_credit is the third word of the header (RFC 8166, section 4.1).
    let credits = reply.payload().start + 8;
    assert_eq!(reply.u32(credits), 64);
    reply.set_u32(credits, 0);
    reply.seal();
    let frame = reply.number;
    assert!(replies.next().is_none(), "it was answered once");
    NoCredits { bytes: pcap::write(&capture), frame }
}

/// `sample` without credits in any reply: the bytes of the file, and the first reply.
pub fn never_any_credits(sample: &str) -> NoCredits {
    let mut capture = samples::capture(sample);
    let mut first = None;
    for packet in &mut capture.packets {
        if packet.source() == SERVER && packet.starts_message() {
            let credits = packet.payload().start + 8;
            packet.set_u32(credits, 0);
            packet.seal();
            first.get_or_insert(packet.number);
        }
    }
    NoCredits { bytes: pcap::write(&capture), frame: first.expect("the server replied") }
}

/// `sample` with a grant of one credit in the first reply, and later replies for unknown XIDs: the
/// bytes of the file, and the first reply. Each later call exceeds the grant.
pub fn one_credit(sample: &str) -> NoCredits {
    let mut capture = samples::capture(sample);
    let mut first = None;
    for packet in &mut capture.packets {
        if packet.source() == SERVER && packet.starts_message() {
            let start = packet.payload().start;
            packet.set_u32(start + 8, 1);
            if first.is_some() {
                let xid = packet.u32(start);
                packet.set_u32(start, !xid);
            }
            packet.seal();
            first.get_or_insert(packet.number);
        }
    }
    NoCredits { bytes: pcap::write(&capture), frame: first.expect("the server replied") }
}
