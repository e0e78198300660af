use super::*;
use crate::fields::nfs::Unreduced;
use rdmascope_dissector::engine::Engine;
use rdmascope_dissector::frame::{Other, dissect};
use rdmascope_dissector::interval::Intervals;
use rdmascope_dissector::record::LinkType;
use rdmascope_tests::pcap::Capture;
use rdmascope_tests::{samples, session};

/// The anonymized records of a capture.
fn anonymized(capture: &Capture) -> Vec<Vec<u8>> {
    let mut anonymizer =
        Anonymizer::new(Key::new(&[7; 32]).expect("it is long enough"), frame::Config::default());
    let mut engine = Engine::new(Anonymizer::first_pass());
    for record in session::records(capture) {
        engine.handle(&record, &mut |event| anonymizer.learn(&event));
    }
    engine.finish(&mut |event| anonymizer.learn(&event));
    let mut engine = Engine::new(Anonymizer::second_pass());
    let mut written = Vec::new();
    for record in session::records(capture) {
        engine.handle(&record, &mut |event| {
            written.extend(anonymizer.handle(&event).map(|record| record.data.to_vec()));
        });
    }
    written
}

fn verdict(capture: &Capture, data: &[u8]) -> Option<IcrcVerdict> {
    let record = Record {
        number: 1,
        time: Default::default(),
        link: LinkType(capture.link),
        original_length: data.len() as u32,
        dropped: 0,
        tap: Default::default(),
        data,
    };
    dissect(&record, &frame::Config::default()).ok().map(|frame| frame.icrc)
}

#[test]
fn equal_packets_stay_equal_and_bad_icrcs_stay_bad() {
    let mut capture = samples::capture("nfs3-lossy");
    // Packets with a damaged payload or ICRC, and copies of these and of other packets directly
    // after the original.
    let packets = core::mem::take(&mut capture.packets);
    for (index, mut packet) in packets.into_iter().take(600).enumerate() {
        if index % 50 == 49 {
            let at = packet.data.len() - 1 - index % 40;
            packet.data[at] ^= 0x40;
        }
        let copies = if index % 10 == 9 { 2 } else { 1 };
        capture.packets.extend((0..copies).map(|_| packet.clone()));
    }
    for (index, packet) in capture.packets.iter_mut().enumerate() {
        packet.number = index as u64 + 1;
    }
    let written = anonymized(&capture);
    assert_eq!(written.len(), capture.packets.len());
    let (mut bad, mut equal) = (0, 0);
    for (index, packet) in capture.packets.iter().enumerate() {
        assert_eq!(verdict(&capture, &packet.data), verdict(&capture, &written[index]), "{index}");
        bad += usize::from(verdict(&capture, &packet.data) == Some(IcrcVerdict::Bad));
        let earlier = capture.packets[..index].iter().rposition(|other| other.data == packet.data);
        if let Some(earlier) = earlier {
            assert!(written[earlier] == written[index], "{earlier} and {index}");
            equal += 1;
        }
    }
    assert!(bad >= 12 && equal >= 60, "{bad} {equal}");
}

/// A capture truncated by a snap length.
#[test]
fn truncated_packets_match_complete_ones() {
    let mut capture = samples::capture("nfs4.1-basic");
    let full = anonymized(&capture);
    for packet in &mut capture.packets {
        packet.data.truncate(120);
    }
    for (cut, full) in anonymized(&capture).iter().zip(&full) {
        assert_eq!(cut.len(), full.len().min(120));
        // The headers equal those of the complete packet, up to the UDP checksum. Bytes that cannot
        // be interpreted are zeros.
        assert_eq!(cut[..40], full[..40]);
        assert!(
            cut.len() < 120 || cut[54..].iter().zip(&full[54..]).all(|(cut, full)| *cut == 0 || cut == full)
        );
    }
}

#[test]
fn other_traffic_is_anonymized() {
    let ethernet = |kind: [u8; 2], rest: &[u8]| [&[2; 6][..], &[6; 6], &kind, rest].concat();
    let ip = |protocol: u8, rest: &[u8]| {
        let mut header = vec![0x45, 0, 0, 0, 0, 7, 0, 0, 64, protocol, 1, 1, 10, 0, 0, 1, 10, 0, 0, 2];
        header[2..4].copy_from_slice(&(20 + rest.len() as u16).to_be_bytes());
        ethernet([8, 0], &[&header, rest].concat())
    };
    let tcp = |port: u16, payload: &[u8]| {
        let ports = [&port.to_be_bytes()[..], &[0xc0, 0]].concat();
        let header = [&ports[..], &[1; 8], &[0x60, 0x18, 9, 9, 8, 8, 0, 0], &[1; 4]].concat();
        ip(6, &[&header[..], payload].concat())
    };
    let secret = b"secret secret secret";
    let mut capture = samples::capture("connect-rejected");
    let packet = capture.packets[0].clone();
    for data in [
        ethernet([8, 6], secret),
        ip(1, secret),
        ip(17, &[&[0, 53, 0xc0, 0, 0, 28, 5, 5][..], secret].concat()),
        tcp(80, secret),
        tcp(20_049, &[b"MPA ID Req Frame", &secret[..]].concat()),
        tcp(2049, secret),
        // A later fragment has no ports.
        {
            let mut data = ip(17, secret);
            data[20] = 0x01;
            data
        },
        secret.to_vec(),
    ] {
        capture.packets.push(rdmascope_tests::pcap::Packet {
            original_length: data.len() as u32,
            data,
            ..packet.clone()
        });
    }
    for (old, new) in capture.packets.iter().zip(anonymized(&capture)).skip(4) {
        assert!(!new.windows(6).any(|window| window == b"secret"), "{new:?}");
        let config = frame::Config::default();
        let record = |data| Record { data, ..session::records(&capture).next().expect("a record") };
        let of = |data| dissect(&record(data), &config).map(drop).map_err(Other::named);
        assert!(of(&old.data) == of(&new) || old.data == secret, "{:?} {:?}", of(&old.data), of(&new));
    }
}

#[test]
fn runs_copy_bytes_to_their_offsets() {
    let mut runs = Runs::default();
    for (at, bytes) in [(2, &b"ab"[..]), (4, b"cd"), (10, b"xyz"), (11, b"nothing"), (13, b"")] {
        runs.put(at, bytes);
    }
    let copied = |at, length| {
        let mut bytes = vec![b'.'; length];
        runs.copy(at, &mut bytes);
        String::from_utf8(bytes).expect("it is ASCII")
    };
    assert_eq!(copied(0, 15), "..abcd....xyz..");
    assert_eq!(
        (copied(3, 2), copied(5, 6), copied(13, 3), copied(u64::MAX, 2)),
        ("bc".into(), "d....x".into(), "...".into(), "..".into())
    );
}

/// SYMLINK of NFS version 2: a directory, a name, a path, the mode, uid, gid, size and two times.
#[test]
fn arguments_of_nfs2_keep_their_lengths() {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
    let names = [&words(&[4])[..], b"name", &words(&[8]), b"a/secret"].concat();
    let attributes = [0o777, 1234, u32::MAX, 0, 7, 8, 9, 10];
    let call = [&[5; 32][..], &names, &words(&attributes)].concat();
    let procedure = rdmascope_dissector::ulb::Procedure { program: 100_003, version: 2, number: 13 };
    let mut captured = Intervals::default();
    captured.insert(0, call.len() as u64);
    let unreduced = Unreduced { bytes: &call, length: call.len() as u64, captured: &captured };
    let mut values = values::Values::new(Key::new(&[7; 32]).expect("it is long enough"));
    let mut runs = Runs::default();
    let transaction = rdmascope_tests::values::transaction(procedure, 1, 1000);
    message::body(&mut values, &transaction, false, unreduced, 0, &mut runs);
    let mut out = vec![0; call.len()];
    runs.copy(0, &mut out);
    assert_eq!((&out[..36], &out[40..44], &out[52..56]), (&call[..36], &call[40..44], &call[52..56]));
    assert_eq!((&out[60..], out[45]), (&call[60..], b'/'));
    assert!(out[36..40] != call[36..40] && out[44..52] != call[44..52] && out[56..60] != call[56..60]);
}
