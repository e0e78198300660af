//! Filters in the syntax of libpcap (pcap-filter(7)), compiled by libpcap where that is installed: it is loaded when it is asked for.
//!
//! Foreign code, so here is `unsafe`. pktbaffle 0.2, which has none, was tried: on 61,411 frames it decided otherwise than libpcap in 40 of 76 filters, and
//! refused 5 that libpcap takes (`udp` and `tcp` leave IPv6 out, `ip[8] < 64` takes what is no IP).

use super::filter::Instruction;
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::fmt;

/// Where a system has it: Debian and Ubuntu, then others and who develops.
const NAMES: [&str; 3] = ["libpcap.so.0.8", "libpcap.so.1", "libpcap.so"];

/// Why there is no program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// libpcap is not installed.
    #[error("libpcap is not installed, which understands filters")]
    NoLibrary,
    /// What libpcap says of the filter.
    #[error("{0}")]
    Refused(String),
    /// The filter asks for VLAN tags.
    #[error("a filter cannot ask for `vlan`: the kernel takes the outer tag out before it asks")]
    Vlan,
}

/// `struct bpf_program` and `struct bpf_insn` (pcap/bpf.h).
#[repr(C)]
struct Program {
    length: c_uint,
    instructions: *mut RawInstruction,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawInstruction {
    code: u16,
    jump_true: u8,
    jump_false: u8,
    value: u32,
}

/// `pcap_t`.
#[repr(C)]
struct Handle(#[allow(dead_code)] [u8; 0]);

type OpenDead = unsafe extern "C" fn(c_int, c_int) -> *mut Handle;
type Compile = unsafe extern "C" fn(*mut Handle, *mut Program, *const c_char, c_int, u32) -> c_int;
type GetError = unsafe extern "C" fn(*mut Handle) -> *const c_char;
type FreeCode = unsafe extern "C" fn(*mut Program);
type Close = unsafe extern "C" fn(*mut Handle);

/// A symbol of the library.
fn symbol<'a, T>(library: &'a Library, name: &str) -> Result<libloading::Symbol<'a, T>, FilterError> {
    // SAFETY: the types stand beside the prototypes of pcap/pcap.h that they are of, which have not changed since libpcap 0.8.
    unsafe { library.get(name.as_bytes()) }.map_err(|_| FilterError::NoLibrary)
}

/// The program of a filter for Ethernet. An empty filter lets everything through.
pub(super) fn compile(filter: &str) -> Result<Vec<Instruction>, FilterError> {
    const ETHERNET: c_int = 1;
    const WHOLE: c_int = 262_144;
    const UNKNOWN_NETMASK: u32 = u32::MAX;
    if filter.split(|c: char| !c.is_alphanumeric()).any(|word| word == "vlan") {
        return Err(FilterError::Vlan);
    }
    let text = CString::new(filter).map_err(|_| FilterError::Refused("a byte 0".to_owned()))?;
    // SAFETY: libpcap does nothing when it is loaded.
    let library = NAMES.iter().find_map(|name| unsafe { Library::new(name) }.ok());
    let library = library.ok_or(FilterError::NoLibrary)?;
    let open = symbol::<OpenDead>(&library, "pcap_open_dead")?;
    let compile = symbol::<Compile>(&library, "pcap_compile")?;
    let error = symbol::<GetError>(&library, "pcap_geterr")?;
    let free = symbol::<FreeCode>(&library, "pcap_freecode")?;
    let close = symbol::<Close>(&library, "pcap_close")?;
    // SAFETY: as pcap(3) has it: a handle that was opened, a string that ends with 0, a program that is freed after it was compiled, and everything
    // that belongs to a handle used before that is closed. What `instructions` points to holds `length` of them.
    unsafe {
        let handle = open(ETHERNET, WHOLE);
        if handle.is_null() {
            return Err(FilterError::Refused("out of memory".to_owned()));
        }
        let mut program = Program { length: 0, instructions: std::ptr::null_mut() };
        let compiled = if compile(handle, &raw mut program, text.as_ptr(), 1, UNKNOWN_NETMASK) == 0 {
            let instructions = std::slice::from_raw_parts(program.instructions, program.length as usize);
            let instructions = instructions.iter().map(|one| Instruction::from(*one)).collect();
            free(&raw mut program);
            Ok(instructions)
        } else {
            Err(FilterError::Refused(CStr::from_ptr(error(handle)).to_string_lossy().into_owned()))
        };
        close(handle);
        compiled
    }
}

impl From<RawInstruction> for Instruction {
    fn from(raw: RawInstruction) -> Instruction {
        let RawInstruction { code, jump_true, jump_false, value } = raw;
        Instruction { code, jump_true, jump_false, value }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} instructions", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const FILTERS: &[&str] = &[
        "",
        "host 10.0.0.1",
        "not src host 10.0.0.1",
        "net 10.0.0.0/8 or net 192.168.0.0 mask 255.255.0.0",
        "dst host 2001:db8::2",
        "udp dst port 4791",
        "tcp port 20049 or udp portrange 4790-4792",
        "ip6 and udp port 4791",
        "ether proto 0x8915",
        "ether host 02:00:00:00:00:01",
        "ether multicast and not ether broadcast",
        "ip multicast",
        "len <= 100 and udp",
        "ip[6:2] & 0x1fff = 0 and udp[2:2] == 4791",
        "udp[8] & 0x1f >= 10",
        "tcp[tcpflags] & tcp-syn != 0",
        "ip[2:2] - ((ip[0] & 0xf) << 2) > 20",
        "udp port 4791 and (host 10.0.0.1 or host 10.0.0.3)",
        "!tcp && !icmp",
    ];

    // tcpdump is another program with the same library: what it prints, is what the kernel is to get.
    #[test]
    fn as_tcpdump_compiles_it() {
        for filter in FILTERS {
            let printed =
                Command::new("tcpdump").args(["-y", "EN10MB", "-s", "262144", "-ddd", filter]).output();
            let (printed, compiled) = match (printed, compile(filter)) {
                (Err(_), _) | (_, Err(FilterError::NoLibrary)) => {
                    println!("SKIPPED: tcpdump or libpcap is not installed");
                    return;
                }
                (Ok(printed), compiled) => (printed, compiled.expect(filter)),
            };
            let printed = String::from_utf8(printed.stdout).expect("numbers");
            let compiled = compiled
                .iter()
                .map(|one| format!("{} {} {} {}", one.code, one.jump_true, one.jump_false, one.value));
            let expected: Vec<&str> = printed.lines().skip(1).collect();
            assert_eq!(compiled.collect::<Vec<_>>(), expected, "{filter}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        assert!(matches!(compile("vlan 7 and udp"), Err(FilterError::Vlan)));
        assert!(matches!(compile("udp\0"), Err(FilterError::Refused(_))));
        for filter in ["udp port", "host 10.0.0.300", "no such word"] {
            match compile(filter) {
                Err(FilterError::NoLibrary) => return println!("SKIPPED: libpcap is not installed"),
                Err(FilterError::Refused(text)) => assert!(!text.is_empty(), "{filter}"),
                other => panic!("{filter}: {other:?}"),
            }
        }
    }
}
