use super::*;
use crate::layout::Layout;
use proptest::prelude::*;

/// RC SEND Only to QP 0x000016 with the acknowledge request bit, written by hand from section 9.2.
const SEND_ONLY: [u8; 12] = [0x04, 0xc0 | 0x20, 0xff, 0xff, 0x40, 0x00, 0x00, 0x16, 0x80, 0x12, 0x34, 0x56];

#[test]
fn fields_of_a_base_transport_header() {
    let bth = Bth::parse(&SEND_ONLY).unwrap();
    assert_eq!(bth.opcode, Opcode::RC_SEND_ONLY);
    assert!(bth.solicited_event && bth.migration_request && bth.acknowledge_request);
    assert!(!bth.fecn && bth.becn);
    assert_eq!((bth.pad_count, bth.transport_version), (2, 0));
    assert_eq!(bth.partition_key, 0xffff);
    assert_eq!(bth.destination_qp, Qpn(0x16));
    assert_eq!(bth.psn, Psn::new(0x12_3456));
    let mut built = Vec::new();
    bth.build(&mut built);
    assert_eq!(built, SEND_ONLY);
}

#[test]
fn every_truncation_is_located() {
    for length in 0..Bth::LENGTH {
        let stop = Bth::parse(&SEND_ONLY[..length]).unwrap_err();
        assert_eq!((stop.offset, stop.needed, stop.available), (0, 12, length));
    }
    let stop = Extensions::parse(Opcode::RC_READ_REQUEST, &[0; 10]).unwrap_err();
    assert_eq!((stop.offset, stop.needed, stop.available), (12, 16, 10));
    // RD SEND Only: the DETH follows the RDETH.
    let stop = Extensions::parse(Opcode(0x44), &[0; 11]).unwrap_err();
    assert_eq!((stop.offset, stop.needed, stop.available), (16, 8, 7));
}

/// Byte 0 of the XRCETH and of the RDETH is reserved.
#[test]
fn reserved_bytes_are_ignored() {
    let bytes = [0xff, 1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0];
    assert_eq!(Extensions::parse(Opcode(0xa4), &bytes).unwrap().0.xrceth, Some(0x01_0203));
    assert_eq!(Extensions::parse(Opcode(0x44), &bytes).unwrap().0.rdeth, Some(0x01_0203));
}

#[test]
fn names_of_opcodes() {
    assert_eq!(Opcode(0x00).to_string(), "RC SEND First");
    assert_eq!(Opcode(0x17).to_string(), "RC SEND Only with Invalidate");
    assert_eq!(Opcode(0x0d).to_string(), "RC RDMA READ Response First");
    assert_eq!(Opcode(0x2a).to_string(), "UC RDMA WRITE Only");
    assert_eq!(Opcode(0x64).to_string(), "UD SEND Only");
    assert_eq!(Opcode(0x81).to_string(), "CNP");
    assert_eq!(Opcode(0x6a).to_string(), "opcode 0x6a");
    assert_eq!(Opcode(0xff).to_string(), "opcode 0xff");
}

#[test]
fn syndromes() {
    // Table 45: 0b000ccccc ACK, 0b001ttttt RNR NAK, 0b011nnnnn NAK.
    assert_eq!(Syndrome(0x1f).kind(), Acknowledgement::Ack { credits: 31 });
    assert_eq!(Syndrome(0x2c).kind(), Acknowledgement::RnrNak { timer: 12 });
    assert_eq!(Syndrome(0x60).kind(), Acknowledgement::Nak(NakCode::PsnSequenceError));
    assert_eq!(Syndrome(0x62).kind(), Acknowledgement::Nak(NakCode::RemoteAccessError));
    assert_eq!(Syndrome(0x43).kind(), Acknowledgement::Reserved(3));
}

proptest! {
    #[test]
    fn headers_round_trip(bytes: [u8; 12]) {
        let bth = Bth::parse(&bytes).unwrap();
        let mut built = Vec::new();
        bth.build(&mut built);
        prop_assert_eq!(Bth::parse(&built).unwrap(), bth);
    }

    #[test]
    fn extensions_round_trip(opcode: u8, bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
        if let Ok((extensions, length)) = Extensions::parse(Opcode(opcode), &bytes) {
            let mut built = Vec::new();
            extensions.build(&mut built);
            prop_assert_eq!(built.len(), length);
            prop_assert_eq!(Extensions::parse(Opcode(opcode), &built), Ok((extensions, length)));
        }
    }
}

#[test]
fn lengths_of_opcodes_match_their_extension_headers() {
    for opcode in (0..=255).map(Opcode) {
        let (_, length) = Extensions::parse(opcode, &[0; 64]).unwrap();
        assert_eq!(Extensions::length(opcode), length, "{opcode}");
    }
}

/// Tables 46 and 47. The timers are also in `enum ib_rnr_timeout` of Linux's ib_verbs.h.
#[test]
fn encoded_credits_and_timers_are_decoded() {
    let credits =
        [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (5, 6), (6, 8), (7, 12), (10, 32), (11, 48), (30, 32_768)];
    for (encoded, expected) in credits {
        assert_eq!(end_to_end_credits(encoded), Some(expected), "{encoded}");
    }
    assert_eq!(end_to_end_credits(31), None);
    for (encoded, microseconds) in
        [(0, 655_360), (1, 10), (4, 40), (5, 60), (12, 640), (14, 1280), (31, 491_520)]
    {
        assert_eq!(rnr_timer(encoded).as_micros(), microseconds, "{encoded}");
    }
}

proptest! {
    /// The layouts and the parsers agree on the position of each field.
    #[test]
    fn layouts_agree_with_the_parsers(bytes: [u8; 36]) {
        let bth = Bth::parse(&bytes).unwrap();
        let values = |layout: Layout, bytes: &[u8]| -> Vec<u64> {
            let fields = layout.fields().filter(|field| field.name != "reserved");
            fields.map(|field| field.value(bytes).unwrap()).collect()
        };
        prop_assert_eq!(Bth::LAYOUT.length(), Bth::LENGTH);
        prop_assert_eq!(values(Bth::LAYOUT, &bytes), vec![
            bth.opcode.0.into(), bth.solicited_event.into(), bth.migration_request.into(), bth.pad_count.into(),
            bth.transport_version.into(), bth.partition_key.into(), bth.fecn.into(), bth.becn.into(),
            bth.destination_qp.0.into(), bth.acknowledge_request.into(), bth.psn.value().into(),
        ]);
        let extensions = |opcode: u8| Extensions::parse(Opcode(opcode), &bytes).unwrap().0;
        let reth = extensions(0x0c).reth.unwrap();
        let expected = vec![reth.virtual_address, reth.rkey.0.into(), reth.dma_length.into()];
        prop_assert_eq!(values(Reth::LAYOUT, &bytes), expected);
        let aeth = extensions(0x11).aeth.unwrap();
        let expected = vec![aeth.syndrome.0.into(), aeth.message_sequence_number.into()];
        prop_assert_eq!(values(Aeth::LAYOUT, &bytes), expected);
        let deth = extensions(0x64).deth.unwrap();
        prop_assert_eq!(values(Deth::LAYOUT, &bytes), vec![deth.queue_key.into(), deth.source_qp.0.into()]);
        let atomic = extensions(0x13).atomic_eth.unwrap();
        let expected = vec![atomic.virtual_address, atomic.rkey.0.into(), atomic.swap_or_add, atomic.compare];
        prop_assert_eq!(values(AtomicEth::LAYOUT, &bytes), expected);
        prop_assert_eq!(values(ExtensionHeader::Rdeth.layout(), &bytes), vec![extensions(0x51).rdeth.unwrap().into()]);
        prop_assert_eq!(values(ExtensionHeader::Ieth.layout(), &bytes), vec![extensions(0x17).ieth.unwrap().0.into()]);
    }
}
