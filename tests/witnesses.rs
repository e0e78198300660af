//! Checks the evidence that other tests rely on: traces, mountstats and packets agree with each
//! other, and the tools that alter sessions are correct. No test here runs the engine.

use core::net::Ipv4Addr;
use rdmascope_tests::mutate::{self, CLIENT, SERVER, attribute, opcode};
use rdmascope_tests::{Differences, samples};
use std::collections::{HashMap, HashSet};

#[test]
fn trace_and_mountstats_count_the_same_bytes() {
    for sample in samples::MOUNTS.into_iter().filter(|sample| !sample.starts_with("nfs3")) {
        // On an NFSv3 mount NFSACL is counted elsewhere. On NFSv4 mounts every call has a row.
        let (trace, stats) = (samples::client_trace(sample), samples::mountstats(sample));
        let counted = &trace.marshals[..stats.receives as usize];
        assert_eq!(stats.total(|row| row.operations), stats.receives, "{sample}");
        let bytes: u64 = counted.iter().map(|marshal| marshal.length()).sum();
        assert_eq!(
            bytes,
            stats.total(|row| row.bytes_sent),
            "{sample}: head + pages + tail is the call's length"
        );
    }
}

#[test]
fn both_kernels_saw_the_same_calls() {
    for sample in samples::MOUNTS {
        let (client, server) = (samples::client_trace(sample), samples::server_trace(sample));
        let callbacks: HashSet<u32> = client.callbacks.iter().copied().collect();
        let sent: HashMap<u32, u32> =
            client.marshals.iter().map(|marshal| (marshal.xid, marshal.header_length)).collect();
        let received: HashMap<u32, u32> = server
            .requests
            .iter()
            .filter(|request| !callbacks.contains(&request.xid))
            .map(|request| (request.xid, request.header_length))
            .collect();
        assert_eq!(sent, received, "{sample}");
        assert_eq!(client.marshals.len(), sent.len(), "{sample}: no XID is used twice");
        assert_eq!(client.marshals.len(), client.replies.len(), "{sample}: every call is answered");
        assert_eq!(client.callbacks, client.callback_replies, "{sample}");
        for marshal in &client.marshals {
            let request =
                server.requests.iter().find(|request| request.xid == marshal.xid).expect("shown above");
            assert_eq!(request.reads, marshal.reads, "{sample} 0x{:08x}", marshal.xid);
            let writes: Vec<_> = marshal.writes.iter().chain(&marshal.reply_chunk).copied().collect();
            assert_eq!(request.writes, writes, "{sample} 0x{:08x}", marshal.xid);
        }
    }
}

#[test]
fn segments_of_abandoned_attempts_are_excluded() {
    for sample in samples::MOUNTS {
        let trace = samples::client_trace(sample);
        let sent: usize = trace
            .marshals
            .iter()
            .map(|marshal| marshal.reads.len() + marshal.writes.len() + marshal.reply_chunk.len())
            .sum();
        assert_eq!(sent + trace.abandoned_segments, trace.segments.iter().sum(), "{sample}");
        let expected = if sample == "nfs4.2-mtu4096-large-io" { 3 } else { 0 };
        assert_eq!(trace.abandoned_segments, expected, "{sample}");
    }
}

#[test]
fn header_length_follows_from_the_chunks() {
    // RFC 8166, section 4.7: 16 fixed bytes and three empty lists are 28 bytes. A read segment adds
    // 24, a Write chunk 8, a Reply chunk 4, and each of their segments 16.
    for sample in samples::MOUNTS {
        for marshal in samples::client_trace(sample).marshals {
            let mut length = 28 + 24 * marshal.reads.len();
            if !marshal.writes.is_empty() {
                length += 8 + 16 * marshal.writes.len();
            }
            if !marshal.reply_chunk.is_empty() {
                length += 4 + 16 * marshal.reply_chunk.len();
            }
            assert_eq!(marshal.header_length as usize, length, "{sample} 0x{:08x}", marshal.xid);
        }
    }
}

#[test]
fn traced_xids_are_big_endian_on_the_wire() {
    for sample in samples::MOUNTS {
        let capture = samples::capture(sample);
        let on_the_wire: HashSet<u32> = capture
            .packets
            .iter()
            .filter(|packet| packet.is_roce() && packet.source() == CLIENT)
            .filter_map(|packet| packet.xid())
            .collect();
        for marshal in samples::client_trace(sample).marshals {
            assert!(on_the_wire.contains(&marshal.xid), "{sample}: no Send has XID 0x{:08x}", marshal.xid);
        }
    }
}

#[test]
fn offsets_begin_with_the_xid() {
    // The Linux client puts the XID into the upper half of its memory offsets, so an RDMA Read or
    // Write packet identifies its transaction.
    for sample in samples::MOUNTS {
        for marshal in samples::client_trace(sample).marshals {
            let reads = marshal.reads.iter().map(|(_, segment)| segment);
            for segment in reads.chain(&marshal.writes).chain(&marshal.reply_chunk) {
                assert_eq!((segment.offset >> 32) as u32, marshal.xid, "{sample}");
            }
        }
    }
}

#[test]
fn sample_icrcs_are_correct_and_sealing_keeps_them() {
    for sample in samples::ALL {
        let mut differences = Differences::of(format!("{sample}: resealed"));
        for packet in samples::capture(sample).packets {
            let mut sealed = packet.clone();
            sealed.seal();
            differences.check(packet.is_roce(), format!("frame {}: not RoCEv2", packet.number));
            differences.equal(format!("frame {}", packet.number), packet.icrc(), packet.icrc_found());
            differences.check(sealed == packet, format!("frame {}: resealing changes it", packet.number));
        }
        differences.end();
    }
}

#[test]
fn undone_alterations_restore_the_session() {
    let capture = samples::capture("nfs4.1-backchannel-recall");
    let mut altered = capture.clone();
    let elsewhere = Ipv4Addr::new(192, 0, 2, 7);
    mutate::shift_psn(&mut altered, SERVER, 5);
    mutate::shift_psn(&mut altered, CLIENT, 0xff_ff00);
    mutate::renumber_qp(&mut altered, SERVER, 0x77);
    mutate::renumber_qp(&mut altered, CLIENT, 0x78);
    mutate::readdress(&mut altered, CLIENT, elsewhere);
    mutate::change_communication_ids(&mut altered, 0x5a5a_5a5a);
    mutate::change_xids(&mut altered, |xid| !xid);
    mutate::rename_memory(&mut altered, |handle, offset| (handle + 1, offset ^ 1 << 63));
    assert!(altered.packets.iter().zip(&capture.packets).all(|(new, old)| new.data != old.data));
    mutate::rename_memory(&mut altered, |handle, offset| (handle - 1, offset ^ 1 << 63));
    mutate::change_xids(&mut altered, |xid| !xid);
    mutate::change_communication_ids(&mut altered, 0x5a5a_5a5a);
    mutate::readdress(&mut altered, elsewhere, CLIENT);
    mutate::renumber_qp(&mut altered, CLIENT, 0x16);
    mutate::renumber_qp(&mut altered, SERVER, 0x14);
    mutate::shift_psn(&mut altered, CLIENT, 0x100);
    mutate::shift_psn(&mut altered, SERVER, mutate::PSNS - 5);
    assert!(altered == capture);
}

#[test]
fn starting_psn_is_that_of_the_peers_first_request() {
    // The first request of each end has the PSN that the other end announced. So shifting the
    // requests of one end must also shift the Starting PSN in the other end's REQ or REP.
    for sample in samples::MOUNTS {
        let mut capture = samples::capture(sample);
        let mut announced = HashMap::new();
        for packet in &mut capture.packets {
            let source = packet.source();
            let at = match packet.cm_attribute() {
                Some(attribute::REQ) => 44,
                Some(attribute::REP) => 20,
                _ => continue,
            };
            let body = packet.cm_body();
            announced.insert(source, u32::from_be_bytes([0, body[at], body[at + 1], body[at + 2]]));
        }
        for (sender, peer) in [(CLIENT, SERVER), (SERVER, CLIENT)] {
            let first = capture
                .packets
                .iter()
                .find(|packet| packet.is_rc() && !packet.is_response() && packet.source() == sender)
                .expect("each side sends requests");
            assert_eq!(announced[&peer], first.psn(), "{sample}: {sender}");
        }
    }
}

#[test]
fn private_data_is_at_the_expected_offset() {
    // Private data is at 140 in a REQ, after the RDMA-CM IP header of 36 bytes, and at 36 in a REP.
    // The bytes are those of the field notes.
    for sample in samples::MOUNTS {
        for packet in &mut samples::capture(sample).packets {
            let (at, expected) = match packet.cm_attribute() {
                Some(attribute::REQ) => (140 + 36, [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3]),
                Some(attribute::REP) => (36, [0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3]),
                _ => continue,
            };
            let number = packet.number;
            assert_eq!(packet.cm_body()[at..at + 8], expected, "{sample} frame {number}");
        }
    }
}

#[test]
fn lossy_session_has_retransmissions() {
    // RDMA WRITE packets carried more bytes than the server's replies returned.
    let returned: u64 =
        samples::server_trace("nfs3-lossy").returned.iter().map(|segment| u64::from(segment.length)).sum();
    let writes = samples::capture("nfs3-lossy");
    let passed: usize = writes
        .packets
        .iter()
        .filter(|packet| {
            packet.is_rc() && (opcode::WRITE_FIRST..=opcode::WRITE_ONLY).contains(&packet.opcode())
        })
        .map(|packet| packet.payload().len())
        .sum();
    assert!(passed as u64 > returned, "{passed} bytes passed, {returned} were returned");
}

#[test]
fn long_replies_begin_with_the_xid() {
    // `change_xids` relies on this.
    let capture = samples::capture("nfs3-basic");
    let chunks: HashMap<(u32, u64), u32> = capture
        .packets
        .iter()
        .filter(|packet| packet.is_roce() && packet.source() == CLIENT)
        .filter_map(|packet| {
            let at = mutate::reply_chunk(packet)?;
            Some(((packet.u32(at), packet.u64(at + 8)), packet.xid()?))
        })
        .collect();
    let mut seen = 0;
    for packet in &capture.packets {
        if let Some((address, rkey, _)) = packet.reth()
            && packet.opcode() != opcode::READ_REQUEST
            && let Some(xid) = chunks.get(&(rkey, address))
        {
            assert_eq!(packet.u32(packet.payload().start), *xid, "frame {}", packet.number);
            seen += 1;
        }
    }
    assert_eq!(seen, chunks.len());
}
