//! Filter programs that select possible RoCE and iWARP packets by their headers: classic BPF
//! (Linux, Documentation/networking/filter.rst).
//!
//! The kernel runs them, or this process if no kernel does. They may accept too much, such as
//! fragments of other UDP datagrams; the dissector recognizes these.

#[cfg(any(test, feature = "pnet", feature = "verbs", not(target_os = "linux")))]
mod sieve;

use core::fmt;
#[cfg(any(test, feature = "pnet", feature = "verbs", not(target_os = "linux")))]
pub(crate) use sieve::Sieve;

/// A classic BPF instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// The operation.
    pub code: u16,
    /// Instructions to skip if the condition holds.
    pub jump_true: u8,
    /// Instructions to skip if it does not.
    pub jump_false: u8,
    /// The operand.
    pub value: u32,
}

/// The packets to capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// UDP destination port of RoCEv2; usually 4791.
    pub port: u16,
    /// UDP destination port of VXLAN, in addition to the usual ones.
    pub vxlan_port: Option<u16>,
    /// Also accept tunnels, and tags before the EtherType, whatever they carry.
    pub encapsulated: bool,
    /// TCP port of iWARP, as source or destination.
    pub iwarp: Option<u16>,
    /// Interface indexes, at most [`Wanted::MOST_INTERFACES`]. Empty: all interfaces of the socket.
    pub interfaces: Vec<u32>,
}

impl fmt::Display for Wanted {
    /// Uses the syntax of libpcap, for the if_filter option of pcapng.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "udp dst port {} or (udp and ip[6:2] & 0x1fff != 0) or ether proto 0x8915", self.port)?;
        if let Some(port) = self.iwarp {
            write!(f, " or tcp port {port}")?;
        }
        f.write_str(if self.encapsulated { " or tunnels" } else { "" })
    }
}

impl Wanted {
    /// Maximum number of interfaces in one capture.
    pub const MOST_INTERFACES: usize = 64;
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted { port: 4791, vxlan_port: None, encapsulated: false, iwarp: None, interfaces: Vec::new() }
    }
}

/// A program that rejects all packets.
#[cfg(target_os = "linux")]
pub(super) const NOTHING: [Instruction; 1] =
    [Instruction { code: RETURN, jump_true: 0, jump_false: 0, value: 0 }];

/// Number of VLAN tags before the network header that are skipped. The kernel removes the outer tag
/// before it runs the filter.
const TAGS: u32 = 2;

const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_WORD: u16 = 0x20;
/// Relative to the index register.
const LOAD_HALF_INDEXED: u16 = 0x48;
/// Sets the index register to four times the low half of a byte: the length of an IPv4 header.
const INDEX_OF_HEADER: u16 = 0xb1;
const EQUAL: u16 = 0x15;
const ANY_BIT: u16 = 0x45;
/// Unconditional.
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;
/// The interface index, an extension of Linux: SKF_AD_OFF + SKF_AD_IFINDEX.
const INTERFACE: u32 = 0xffff_f008;

/// The target of a condition.
#[derive(Clone, Copy)]
enum To {
    /// The next instruction.
    Next,
    Accept,
    Reject,
    /// Skips this number of instructions.
    Skip(u8),
}

/// A program whose jumps to its two ends are resolved when it is complete.
#[derive(Clone, Default)]
struct Program(Vec<(u16, u32, To, To)>);

impl Program {
    fn load(&mut self, code: u16, value: u32) {
        self.0.push((code, value, To::Next, To::Next));
    }

    fn test(&mut self, code: u16, value: u32, yes: To, no: To) {
        self.0.push((code, value, yes, no));
    }

    /// Continues after the last test if the value is one of `values`; otherwise goes to
    /// `otherwise`.
    fn is_one_of(&mut self, values: &[u32], otherwise: To) {
        for (index, value) in values.iter().enumerate() {
            let remaining = values.len() - index - 1;
            let no = if remaining == 0 { otherwise } else { To::Next };
            self.test(EQUAL, *value, To::Skip(remaining as u8), no);
        }
    }

    /// Resolves the jumps. Accepted packets are cut to `snap_length` bytes.
    fn assemble(self, snap_length: u32) -> Vec<Instruction> {
        let length = self.0.len();
        // A jump reaches 255 instructions. A test builds the longest possible program.
        let far = |instructions: usize| {
            debug_assert!(instructions < 256, "a jump over {instructions} instructions");
            instructions as u8
        };
        let mut out: Vec<Instruction> = self
            .0
            .iter()
            .enumerate()
            .map(|(at, (code, value, yes, no))| {
                let jump = |to: &To| match to {
                    To::Next => 0,
                    To::Skip(instructions) => *instructions,
                    To::Accept => far(length - at - 1),
                    To::Reject => far(length - at),
                };
                Instruction { code: *code, jump_true: jump(yes), jump_false: jump(no), value: *value }
            })
            .collect();
        let end = |value| Instruction { code: RETURN, jump_true: 0, jump_false: 0, value };
        out.extend([end(snap_length), end(0)]);
        out
    }
}

/// Builds the program for `wanted`. Accepted packets are cut to `snap_length` bytes.
pub fn program(wanted: &Wanted, snap_length: u32) -> Vec<Instruction> {
    let mut program = Program::default();
    if !wanted.interfaces.is_empty() {
        program.load(LOAD_WORD, INTERFACE);
        // The end of the program is too far away for a jump.
        for (index, interface) in wanted.interfaces.iter().enumerate() {
            let remaining = wanted.interfaces.len() - index;
            program.test(EQUAL, *interface, To::Skip(remaining as u8), To::Next);
        }
        program.load(RETURN, 0);
    }
    for tag in 0..=TAGS {
        network(&mut program, wanted, tag);
    }
    program.assemble(snap_length)
}

/// Combines two programs: both must accept a packet, which is cut to `snap_length` bytes. The
/// second comes from libpcap and returns a number of bytes, or 0.
pub fn both(mut first: Vec<Instruction>, second: &[Instruction], snap_length: u32) -> Vec<Instruction> {
    // If the first program accepts a packet, it jumps to the second.
    if let [.., accept, _reject] = &mut *first {
        *accept = Instruction { code: JUMP, jump_true: 0, jump_false: 0, value: 1 };
    }
    first.extend(second.iter().map(|one| match one.code {
        RETURN => Instruction { value: one.value.min(snap_length), ..*one },
        _ => *one,
    }));
    first
}

/// Tests the headers after `tags` VLAN tags. If the EtherType is that of another tag, the program
/// continues with the next call's tests.
fn network(program: &mut Program, wanted: &Wanted, tags: u32) {
    let ethertype = 12 + 4 * tags;
    let ip = ethertype + 2;
    let mut ipv4 = Program::default();
    of_ipv4(&mut ipv4, wanted, ip);
    let mut ipv6 = Program::default();
    of_ipv6(&mut ipv6, wanted, ip);
    program.load(LOAD_HALF, ethertype);
    // RoCEv1.
    program.test(EQUAL, 0x8915, To::Accept, To::Next);
    if wanted.encapsulated {
        // MPLS (RFC 5332), PPPoE (RFC 2516), NSH (RFC 8300).
        for carrier in [0x8847, 0x8848, 0x8864, 0x894f] {
            program.test(EQUAL, carrier, To::Accept, To::Next);
        }
        // Other tags than VLAN tags, as in the dissector.
        for carrier in [0x22f3, 0x8903, 0x8909, 0x8926, 0x892f, 0x893f, 0x88e5, 0x88e7, 0xd28b, 0xf1c1] {
            program.test(EQUAL, carrier, To::Accept, To::Next);
        }
    }
    let [length4, length6] = [&ipv4, &ipv6].map(|part| part.0.len() as u8);
    program.test(EQUAL, 0x0800, To::Next, To::Skip(length4));
    program.0.extend(ipv4.0);
    program.test(EQUAL, 0x86dd, To::Next, To::Skip(length6));
    program.0.extend(ipv6.0);
    if tags == TAGS {
        program.test(EQUAL, 0, To::Reject, To::Reject);
    } else {
        // 802.1Q, 802.1ad, and its predecessor.
        program.is_one_of(&[0x8100, 0x88a8, 0x9100], To::Reject);
    }
}

/// The IP protocols of tunnels: IP in IP, IPv6 in IP, GRE, EtherIP, MPLS, Ethernet.
const IN_IP: [u32; 6] = [4, 41, 47, 97, 137, 143];

/// Tests an IPv4 packet. Accepts or rejects in every case.
fn of_ipv4(program: &mut Program, wanted: &Wanted, ip: u32) {
    program.load(LOAD_BYTE, ip + 9);
    let mut before = Program::default();
    before.load(LOAD_HALF, ip + 6);
    // A fragment other than the first, which alone has the ports.
    before.test(ANY_BIT, 0x1fff, To::Accept, To::Next);
    before.load(INDEX_OF_HEADER, ip);
    protocol(program, wanted, before, (LOAD_HALF_INDEXED, ip));
}

/// Tests an IPv6 packet. Accepts or rejects in every case. Packets with extension headers are
/// accepted without walking the headers.
fn of_ipv6(program: &mut Program, wanted: &Wanted, ip: u32) {
    const FIXED: u32 = 40;
    program.load(LOAD_BYTE, ip + 6);
    // Hop-by-hop options, routing, fragment, destination options (RFC 8200, section 4).
    for extension in [0, 43, 44, 60] {
        program.test(EQUAL, extension, To::Accept, To::Next);
    }
    protocol(program, wanted, Program::default(), (LOAD_HALF, ip + FIXED));
}

/// Tests the IP protocol, which is loaded, and the ports after it. `load` is the operation that
/// loads a port, `source` the offset of the source port, and `before` the instructions before the
/// first load. Accepts or rejects in every case.
fn protocol(program: &mut Program, wanted: &Wanted, before: Program, (load, source): (u16, u32)) {
    if wanted.encapsulated {
        for carrier in IN_IP {
            program.test(EQUAL, carrier, To::Accept, To::Next);
        }
    }
    let mut udp = before.clone();
    udp.load(load, source + 2);
    udp_ports(&mut udp, wanted);
    program.test(EQUAL, 17, To::Next, To::Skip(udp.0.len() as u8));
    program.0.extend(udp.0);
    match wanted.iwarp {
        None => program.test(EQUAL, 0, To::Reject, To::Reject),
        Some(port) => {
            let port = u32::from(port);
            program.test(EQUAL, 6, To::Next, To::Reject);
            program.0.extend(before.0);
            program.load(load, source);
            program.test(EQUAL, port, To::Accept, To::Next);
            program.load(load, source + 2);
            program.test(EQUAL, port, To::Accept, To::Reject);
        }
    }
}

/// Tests the UDP destination port, which is loaded.
fn udp_ports(program: &mut Program, wanted: &Wanted) {
    if wanted.encapsulated {
        // VXLAN, the earlier VXLAN port of Linux, VXLAN-GPE, GRE, GUE, GENEVE, MPLS.
        let usual = [4789, 8472, 4790, 4754, 6080, 6081, 6635];
        for carrier in usual.into_iter().chain(wanted.vxlan_port.map(u32::from)) {
            program.test(EQUAL, carrier, To::Accept, To::Next);
        }
    }
    program.test(EQUAL, u32::from(wanted.port), To::Accept, To::Reject);
}

#[cfg(test)]
mod tests;
