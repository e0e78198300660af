use super::*;

/// Runs a program without unsupported instructions, and returns the number of bytes to keep.
fn run(program: &[Instruction], packet: &[u8], interface: u32) -> u32 {
    super::sieve::run(program, packet, interface).expect("the instructions are known")
}

/// An Ethernet frame with this EtherType and VLAN tags.
fn frame(tags: &[u16], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![2; 12];
    for tag in tags {
        out.extend(tag.to_be_bytes());
        out.extend([0, 7]);
    }
    out.extend(ethertype.to_be_bytes());
    out.extend(payload);
    out
}

/// An IPv4 header (RFC 791) with `options` words of options, and its payload.
fn ipv4(options: u8, fragment: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 20 + 4 * usize::from(options)];
    out[0] = 0x45 + options;
    out[6..8].copy_from_slice(&fragment.to_be_bytes());
    out[9] = protocol;
    out.extend(payload);
    out
}

fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; 40];
    (out[0], out[6]) = (0x60, next);
    out.extend(payload);
    out
}

/// Ports of UDP or TCP, and some payload.
fn ports(source: u16, destination: u16) -> Vec<u8> {
    [&source.to_be_bytes()[..], &destination.to_be_bytes(), &[0; 16]].concat()
}

const ROCE: (u16, u16) = (50_000, 4791);

fn roce() -> Vec<u8> {
    ports(ROCE.0, ROCE.1)
}

#[test]
fn default_filter_passes_only_roce() {
    let program = program(&Wanted::default(), 262_144);
    for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100], &[0x9100, 0x8100]] {
        let passes = |ethertype, payload: &[u8]| run(&program, &frame(tags, ethertype, payload), 1);
        for (case, ethertype, payload) in [
            ("IPv4", 0x0800, ipv4(0, 0x4000, 17, &roce())),
            ("IPv4 with options", 0x0800, ipv4(3, 0, 17, &roce())),
            ("a first fragment", 0x0800, ipv4(0, 0x2000, 17, &roce())),
            ("a later fragment, which has no ports", 0x0800, ipv4(0, 0x2001, 17, &[9; 30])),
            ("IPv6", 0x86dd, ipv6(17, &roce())),
            ("an IPv6 fragment", 0x86dd, ipv6(44, &[17, 0, 0, 1, 0, 0, 0, 1, 9, 9])),
            ("RoCEv1", 0x8915, vec![0x60; 60]),
        ] {
            assert_eq!(passes(ethertype, &payload), 262_144, "{case} after {tags:x?}");
        }
        for (case, ethertype, payload) in [
            ("UDP to another port", 0x0800, ipv4(0, 0, 17, &ports(1, 53))),
            ("UDP from that port", 0x0800, ipv4(0, 0, 17, &ports(4791, 53))),
            ("its options name the port", 0x0800, ipv4(1, 0, 17, &ports(1, 53))),
            ("TCP", 0x0800, ipv4(0, 0, 6, &ports(1, 4791))),
            ("TCP of iWARP", 0x0800, ipv4(0, 0, 6, &ports(700, 20049))),
            ("UDP of IPv6 to another port", 0x86dd, ipv6(17, &ports(1, 53))),
            ("TCP of IPv6", 0x86dd, ipv6(6, &ports(1, 4791))),
            ("VXLAN", 0x0800, ipv4(0, 0, 17, &ports(1, 4789))),
            ("GRE", 0x0800, ipv4(0, 0, 47, &[0; 30])),
            ("ARP", 0x0806, vec![0; 28]),
            ("a cut header", 0x0800, vec![0x45, 0]),
        ] {
            assert_eq!(passes(ethertype, &payload), 0, "{case} after {tags:x?}");
        }
    }
}

#[test]
fn requested_protocols_pass() {
    let most = Wanted::MOST_INTERFACES as u32;
    let everything = Wanted {
        port: 4792,
        vxlan_port: Some(5000),
        encapsulated: true,
        iwarp: Some(20049),
        interfaces: (1..=most).collect(),
    };
    let program = program(&everything, 96);
    for (case, ethertype, payload) in [
        ("another port", 0x0800, ipv4(0, 0, 17, &ports(1, 4792))),
        ("to iWARP", 0x0800, ipv4(0, 0, 6, &ports(700, 20049))),
        ("from iWARP", 0x0800, ipv4(2, 0, 6, &ports(20049, 700))),
        ("from iWARP by IPv6", 0x86dd, ipv6(6, &ports(20049, 700))),
        ("VXLAN", 0x0800, ipv4(0, 0, 17, &ports(1, 4789))),
        ("VXLAN on another port", 0x0800, ipv4(0, 0, 17, &ports(1, 5000))),
        ("VXLAN-GPE by IPv6", 0x86dd, ipv6(17, &ports(1, 4790))),
        ("GENEVE by IPv6", 0x86dd, ipv6(17, &ports(1, 6081))),
        ("GUE", 0x0800, ipv4(0, 0, 17, &ports(1, 6080))),
        ("MPLS in UDP", 0x0800, ipv4(0, 0, 17, &ports(1, 6635))),
        ("GRE in UDP", 0x0800, ipv4(0, 0, 17, &ports(1, 4754))),
        ("EtherIP", 0x0800, ipv4(0, 0, 97, &[0; 30])),
        ("Ethernet in IPv6", 0x86dd, ipv6(143, &[0; 30])),
        ("a time stamp of Arista", 0xd28b, vec![0; 30]),
        ("NSH", 0x894f, vec![0; 30]),
        ("GRE", 0x0800, ipv4(0, 0, 47, &[0; 30])),
        ("IP in IP", 0x0800, ipv4(0, 0, 4, &[0; 30])),
        ("MPLS", 0x8847, vec![0; 30]),
        ("PPPoE", 0x8864, vec![0; 30]),
    ] {
        let frame = frame(&[0x8100, 0x8100], ethertype, &payload);
        assert_eq!(run(&program, &frame, most), 96, "{case}");
        assert_eq!(run(&program, &frame, most + 1), 0, "{case} on an unnamed interface");
    }
    assert_eq!(run(&program, &frame(&[], 0x0800, &ipv4(0, 0, 17, &roce())), 1), 0, "the usual port");
    // Every jump must stay within the program, or the kernel refuses it.
    for (at, one) in program.iter().enumerate() {
        let farthest =
            if one.code == EQUAL || one.code == ANY_BIT { one.jump_true.max(one.jump_false) } else { 0 };
        assert!(at + 1 + usize::from(farthest) < program.len() || one.code == RETURN, "{at}: {one:?}");
    }
}

#[test]
fn packets_have_to_pass_both_programs() {
    let first = program(&Wanted::default(), 200);
    let roce = frame(&[], 0x0800, &ipv4(0, 0, 17, &[0, 1, 0x12, 0xb7, 0, 0, 0, 0]));
    let other = frame(&[], 0x0800, &ipv4(0, 0, 17, &[0, 1, 0, 53, 0, 0, 0, 0]));
    // The programs that libpcap compiles from `ether[0] = 2` and `ether[0] = 3`.
    for (value, bytes) in [(2, 200), (3, 0)] {
        let one = |code, jump_true, jump_false, value| Instruction { code, jump_true, jump_false, value };
        let second = [
            one(LOAD_BYTE, 0, 0, 0),
            one(EQUAL, 0, 1, value),
            one(RETURN, 0, 0, 262_144),
            one(RETURN, 0, 0, 0),
        ];
        let both = both(first.clone(), &second, 200);
        assert_eq!(run(&both, &roce, 0), bytes);
        assert_eq!(run(&both, &other, 0), 0);
    }
}

#[test]
fn sieve_keeps_the_packets_that_the_kernel_would() {
    let wanted = Wanted { interfaces: vec![7], ..Wanted::default() };
    let sieve = Sieve::new(&wanted, 40);
    let packet = frame(&[], 0x0800, &ipv4(0, 0x4000, 17, &roce()));
    assert_eq!(sieve.keep(&packet), Some(&packet[..40]), "truncated, on any interface");
    assert_eq!(Sieve::new(&wanted, 262_144).keep(&packet), Some(&packet[..]));
    assert_eq!(sieve.keep(&frame(&[], 0x0800, &ipv4(0, 0, 17, &ports(1, 53)))), None);
    assert_eq!(sieve.keep(&[]), None);
    let unknown = Sieve(vec![Instruction { code: 0xffff, jump_true: 0, jump_false: 0, value: 0 }]);
    assert_eq!((unknown.keep(&packet), Sieve(Vec::new()).keep(&packet)), (None, None));
}
