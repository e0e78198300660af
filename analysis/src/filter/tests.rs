use super::*;

#[test]
fn opcodes() {
    let named = OpcodeFilter::parse("read response").unwrap();
    assert!(named.matches(Opcode(0x0d)) && named.matches(Opcode(0x10)));
    assert!(!named.matches(Opcode::RC_READ_REQUEST) && !named.matches(Opcode(0xff)));
    let only = OpcodeFilter::parse("rc send only").unwrap();
    assert!(only.matches(Opcode(0x04)) && only.matches(Opcode(0x17)) && !only.matches(Opcode(0x64)));
    let number = OpcodeFilter::parse("0x81").unwrap();
    assert!(number.matches(Opcode::CNP) && !number.matches(Opcode(0x80)));
    assert!(OpcodeFilter::parse("cnp").unwrap().matches(Opcode::CNP));
    let send = OpcodeFilter::parse("send").unwrap();
    let of_rdmap = |filter: OpcodeFilter, bits| filter.matches_rdmap(rdmap::Opcode::from_bits(bits));
    assert!((3..=6).all(|bits| of_rdmap(send, bits)) && !of_rdmap(send, 0) && !of_rdmap(number, 3));
    assert!(of_rdmap(OpcodeFilter::parse("terminate").unwrap(), 7));
    assert!(OpcodeFilter::parse("swim").is_err() && OpcodeFilter::parse("256").is_err());
}

#[test]
fn psn_ranges_wrap() {
    let range = PsnRange::parse("16777214-1").unwrap();
    for (psn, inside) in
        [(0xff_fffd, false), (0xff_fffe, true), (0xff_ffff, true), (0, true), (1, true), (2, false)]
    {
        assert_eq!(range.contains(Psn::new(psn)), inside, "{psn}");
    }
    let one = PsnRange::parse("7").unwrap();
    assert!(one.contains(Psn::new(7)) && !one.contains(Psn::new(8)) && !one.contains(Psn::new(6)));
    for wrong in ["0x1000000", "1-", "-1", "x"] {
        assert!(PsnRange::parse(wrong).unwrap_err().to_string().contains("24 bits"), "{wrong}");
    }
    assert!(parse_24_bits("16777216").is_err() && parse_24_bits("0xffffff") == Ok(0xff_ffff));
}
