//! An interpreter for the filter programs.

use super::{
    ANY_BIT, EQUAL, INDEX_OF_HEADER, INTERFACE, Instruction, JUMP, LOAD_BYTE, LOAD_HALF, LOAD_HALF_INDEXED,
    LOAD_WORD, RETURN, Wanted, program,
};

/// Filters packets in this process if the kernel does not: outside Linux, and for RDMA devices.
#[derive(Clone, Debug)]
pub(crate) struct Sieve(pub(super) Vec<Instruction>);

impl Sieve {
    /// Accepts the wanted packets of any interface, at most `snap_length` bytes of each.
    pub(crate) fn new(wanted: &Wanted, snap_length: u32) -> Sieve {
        Sieve(program(&Wanted { interfaces: Vec::new(), ..wanted.clone() }, snap_length))
    }

    /// Returns the bytes to keep of a packet, or `None` if it is not wanted.
    pub(crate) fn keep<'a>(&self, packet: &'a [u8]) -> Option<&'a [u8]> {
        let kept = run(&self.0, packet, 0).unwrap_or(0) as usize;
        (kept > 0).then(|| &packet[..kept.min(packet.len())])
    }
}

/// Runs a program as the kernel does and returns the number of bytes to keep. `None` means that an
/// instruction is not supported, which does not occur in programs of this module.
pub(super) fn run(program: &[Instruction], packet: &[u8], interface: u32) -> Option<u32> {
    let (mut accumulator, mut index, mut at) = (0u32, 0u32, 0usize);
    let byte = |at: u32| packet.get(at as usize).copied().map(u32::from);
    let half = |at: u32| Some(byte(at)? << 8 | byte(at + 1)?);
    loop {
        let Instruction { code, jump_true, jump_false, value } = *program.get(at)?;
        at += 1;
        // A load beyond the end of the packet ends the program with 0.
        let loaded = match code {
            LOAD_WORD if value == INTERFACE => Some(interface),
            LOAD_HALF => half(value),
            LOAD_BYTE => byte(value),
            LOAD_HALF_INDEXED => half(value + index),
            INDEX_OF_HEADER => byte(value).map(|byte| 4 * (byte & 15)),
            RETURN => return Some(value),
            JUMP => {
                at += value as usize;
                continue;
            }
            EQUAL | ANY_BIT => {
                let holds = if code == EQUAL { accumulator == value } else { accumulator & value != 0 };
                at += usize::from(if holds { jump_true } else { jump_false });
                continue;
            }
            _ => return None,
        };
        match loaded {
            None => return Some(0),
            Some(value) if code == INDEX_OF_HEADER => index = value,
            Some(value) => accumulator = value,
        }
    }
}
