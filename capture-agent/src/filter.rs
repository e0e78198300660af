//! The program with which the kernel chooses packets, or this process where no kernel does: classic BPF (Linux, Documentation/networking/filter.rst). It lets through what may be of RoCE,
//! and decides by headers alone. What it lets through too much, such as fragments of other UDP datagrams, the dissector tells apart.

#[cfg(any(test, feature = "pnet", feature = "verbs", not(target_os = "linux")))]
mod sieve;

use core::fmt;
#[cfg(any(test, feature = "pnet", feature = "verbs", not(target_os = "linux")))]
pub(crate) use sieve::Sieve;

/// An instruction of classic BPF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// What it does.
    pub code: u16,
    /// Instructions that are skipped where its condition holds.
    pub jump_true: u8,
    /// And where it does not.
    pub jump_false: u8,
    /// Its operand.
    pub value: u32,
}

/// What is captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// UDP destination port of RoCEv2; usually 4791.
    pub port: u16,
    /// Encapsulations by UDP are let through too, whatever is in them: VXLAN (RFC 7348) and GENEVE (RFC 8926). GRE, IP in IP and MPLS as well.
    pub encapsulated: bool,
    /// TCP of this port, to or from: iWARP.
    pub iwarp: Option<u16>,
    /// Interfaces by index, [`Wanted::MOST_INTERFACES`] at most; none: all that the socket sees.
    pub interfaces: Vec<u32>,
}

impl fmt::Display for Wanted {
    /// In the syntax of libpcap, as if_filter of pcapng has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "udp dst port {} or (udp and ip[6:2] & 0x1fff != 0) or ether proto 0x8915", self.port)?;
        if let Some(port) = self.iwarp {
            write!(f, " or tcp port {port}")?;
        }
        f.write_str(if self.encapsulated { " or tunnels" } else { "" })
    }
}

impl Wanted {
    /// Interfaces that are captured at once.
    pub const MOST_INTERFACES: usize = 64;
}

impl Default for Wanted {
    fn default() -> Wanted {
        Wanted { port: 4791, encapsulated: false, iwarp: None, interfaces: Vec::new() }
    }
}

/// Lets nothing through.
#[cfg(target_os = "linux")]
pub(super) const NOTHING: [Instruction; 1] =
    [Instruction { code: RETURN, jump_true: 0, jump_false: 0, value: 0 }];

/// VLAN tags in front of the network header that are stepped over. The kernel takes the outer one out before it asks.
const TAGS: u32 = 2;

const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const LOAD_WORD: u16 = 0x20;
/// Relative to the index register.
const LOAD_HALF_INDEXED: u16 = 0x48;
/// The index register becomes four times the low half of a byte: the length of an IPv4 header.
const INDEX_OF_HEADER: u16 = 0xb1;
const EQUAL: u16 = 0x15;
const ANY_BIT: u16 = 0x45;
/// Always.
const JUMP: u16 = 0x05;
const RETURN: u16 = 0x06;
/// The index of the interface, in Linux's words: SKF_AD_OFF + SKF_AD_IFINDEX.
const INTERFACE: u32 = 0xffff_f008;

/// Where a condition leads.
#[derive(Clone, Copy)]
enum To {
    /// The next instruction.
    Next,
    Accept,
    Reject,
    /// So many instructions are skipped.
    Skip(u8),
}

/// A program with jumps to its two ends, which are known last.
#[derive(Default)]
struct Program(Vec<(u16, u32, To, To)>);

impl Program {
    fn load(&mut self, code: u16, value: u32) {
        self.0.push((code, value, To::Next, To::Next));
    }

    fn test(&mut self, code: u16, value: u32, yes: To, no: To) {
        self.0.push((code, value, yes, no));
    }

    /// Goes on behind the last test where one of the values is there; else as `otherwise` says.
    fn is_one_of(&mut self, values: &[u32], otherwise: To) {
        for (index, value) in values.iter().enumerate() {
            let behind = values.len() - index - 1;
            let no = if behind == 0 { otherwise } else { To::Next };
            self.test(EQUAL, *value, To::Skip(behind as u8), no);
        }
    }

    /// `whole`: the bytes of a packet that are captured.
    fn assemble(self, whole: u32) -> Vec<Instruction> {
        let length = self.0.len();
        // A jump reaches 255 instructions. A test asks for all that there may be.
        debug_assert!(length < 255, "a filter of {length} instructions");
        let mut out: Vec<Instruction> = self
            .0
            .iter()
            .enumerate()
            .map(|(at, (code, value, yes, no))| {
                let jump = |to: &To| match to {
                    To::Next => 0,
                    To::Skip(instructions) => *instructions,
                    To::Accept => (length - at - 1) as u8,
                    To::Reject => (length - at) as u8,
                };
                Instruction { code: *code, jump_true: jump(yes), jump_false: jump(no), value: *value }
            })
            .collect();
        let end = |value| Instruction { code: RETURN, jump_true: 0, jump_false: 0, value };
        out.extend([end(whole), end(0)]);
        out
    }
}

/// The program that lets through what is wanted, cut to `snap_length` bytes.
pub fn program(wanted: &Wanted, snap_length: u32) -> Vec<Instruction> {
    let mut program = Program::default();
    if !wanted.interfaces.is_empty() {
        program.load(LOAD_WORD, INTERFACE);
        program.is_one_of(&wanted.interfaces, To::Reject);
    }
    for tag in 0..=TAGS {
        network(&mut program, wanted, tag);
    }
    program.assemble(snap_length)
}

/// A program that lets through what both let through, cut to `snap_length`. The second is one of libpcap: it returns a number of bytes, or 0.
pub fn both(mut first: Vec<Instruction>, second: &[Instruction], snap_length: u32) -> Vec<Instruction> {
    // The first ends in its two ends. Where it lets a packet through, the second goes on.
    if let [.., accept, _reject] = &mut *first {
        *accept = Instruction { code: JUMP, jump_true: 0, jump_false: 0, value: 1 };
    }
    first.extend(second.iter().map(|one| match one.code {
        RETURN => Instruction { value: one.value.min(snap_length), ..*one },
        _ => *one,
    }));
    first
}

/// The headers behind so many VLAN tags. Where the Ethernet type is that of a further tag, what comes next decides.
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
        // MPLS (RFC 5332), PPPoE (RFC 2516).
        for carrier in [0x8847, 0x8848, 0x8864] {
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
        // 802.1Q, 802.1ad, and what was in use before it.
        program.is_one_of(&[0x8100, 0x88a8, 0x9100], To::Reject);
    }
}

/// Ends in one of the two ends of the program.
fn of_ipv4(program: &mut Program, wanted: &Wanted, ip: u32) {
    program.load(LOAD_BYTE, ip + 9);
    if wanted.encapsulated {
        // IP in IP, IPv6 in IPv4, GRE, MPLS.
        for carrier in [4, 41, 47, 137] {
            program.test(EQUAL, carrier, To::Accept, To::Next);
        }
    }
    let mut udp = Program::default();
    udp.load(LOAD_HALF, ip + 6);
    // A fragment behind the first: only the first has ports.
    udp.test(ANY_BIT, 0x1fff, To::Accept, To::Next);
    udp.load(INDEX_OF_HEADER, ip);
    udp.load(LOAD_HALF_INDEXED, ip + 2);
    udp_ports(&mut udp, wanted);
    program.test(EQUAL, 17, To::Next, To::Skip(udp.0.len() as u8));
    program.0.extend(udp.0);
    match wanted.iwarp {
        None => program.test(EQUAL, 0, To::Reject, To::Reject),
        Some(port) => {
            let port = u32::from(port);
            program.test(EQUAL, 6, To::Next, To::Reject);
            program.load(LOAD_HALF, ip + 6);
            program.test(ANY_BIT, 0x1fff, To::Accept, To::Next);
            program.load(INDEX_OF_HEADER, ip);
            program.load(LOAD_HALF_INDEXED, ip);
            program.test(EQUAL, port, To::Accept, To::Next);
            program.load(LOAD_HALF_INDEXED, ip + 2);
            program.test(EQUAL, port, To::Accept, To::Reject);
        }
    }
}

/// Likewise. The program does not walk along extension headers: a packet that has some is let through.
fn of_ipv6(program: &mut Program, wanted: &Wanted, ip: u32) {
    const FIXED: u32 = 40;
    program.load(LOAD_BYTE, ip + 6);
    // Hop-by-hop options, routing, fragment, destination options (RFC 8200, section 4).
    for extension in [0, 43, 44, 60] {
        program.test(EQUAL, extension, To::Accept, To::Next);
    }
    if wanted.encapsulated {
        for carrier in [4, 41, 47, 137] {
            program.test(EQUAL, carrier, To::Accept, To::Next);
        }
    }
    let mut udp = Program::default();
    udp.load(LOAD_HALF, ip + FIXED + 2);
    udp_ports(&mut udp, wanted);
    program.test(EQUAL, 17, To::Next, To::Skip(udp.0.len() as u8));
    program.0.extend(udp.0);
    match wanted.iwarp {
        None => program.test(EQUAL, 0, To::Reject, To::Reject),
        Some(port) => {
            let port = u32::from(port);
            program.test(EQUAL, 6, To::Next, To::Reject);
            program.load(LOAD_HALF, ip + FIXED);
            program.test(EQUAL, port, To::Accept, To::Next);
            program.load(LOAD_HALF, ip + FIXED + 2);
            program.test(EQUAL, port, To::Accept, To::Reject);
        }
    }
}

/// The destination port is loaded.
fn udp_ports(program: &mut Program, wanted: &Wanted) {
    if wanted.encapsulated {
        // VXLAN, and as Linux had it before; GENEVE.
        for carrier in [4789, 8472, 6081] {
            program.test(EQUAL, carrier, To::Accept, To::Next);
        }
    }
    program.test(EQUAL, u32::from(wanted.port), To::Accept, To::Reject);
}

#[cfg(test)]
mod tests;
