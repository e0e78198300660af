//! Memory regions that the remote side may access, with R_Key, address, length and access rights.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use rdmascope_wire::Rkey;

/// The access of the remote side to a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// RDMA READ.
    pub remote_read: bool,
    /// RDMA WRITE.
    pub remote_write: bool,
}

impl Access {
    /// The access to a source of data, such as a Read chunk.
    pub const READ: Access = Access { remote_read: true, remote_write: false };
    /// The access to a sink of data, such as a Write chunk or Reply chunk.
    pub const WRITE: Access = Access { remote_read: false, remote_write: true };
}

/// A memory region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Region {
    /// The virtual address of its first byte.
    pub address: u64,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The access of the remote side.
    pub access: Access,
}

/// Why memory is not accessible. The remote side gets a remote access error (IBTA volume 1, section
/// 9.7.4.1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No region has the R_Key.
    #[error("no region has the R_Key")]
    UnknownKey,
    /// The bytes are not completely inside the region.
    #[error("out of the bounds of the region")]
    Bounds,
    /// The region does not allow this access.
    #[error("the region does not allow it")]
    Rights,
}

/// Why memory cannot be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RegisterError {
    /// The R_Key is in use.
    #[error("the R_Key is in use")]
    KeyInUse,
    /// [`Memory::MOST_REGIONS`] regions or [`Memory::MOST_BYTES`] bytes are registered.
    #[error("too much memory is registered")]
    TooMuch,
    /// The connection has no queue pair.
    #[error("the connection is not ready")]
    NotReady,
    /// The region would extend past the last address.
    #[error("the region extends past the last address")]
    Address,
}

/// The regions of a connection.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    regions: BTreeMap<Rkey, Region>,
    /// The regions that the remote side invalidated. They stay until the local side takes them.
    revoked: BTreeSet<Rkey>,
    /// The handles of recently ended registrations, oldest first.
    retired: VecDeque<Rkey>,
    bytes: usize,
    counts: Counts,
}

/// Counters over the life of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Number of regions registered.
    pub registered: u64,
    /// Number of regions that the remote side invalidated.
    pub revoked: u64,
}

impl Memory {
    /// Most regions of a connection.
    pub const MOST_REGIONS: usize = 4096;
    /// Most bytes of all regions of a connection.
    pub const MOST_BYTES: usize = 256 << 20;
    /// Number of registrations that must end before a handle is reused (RFC 8166, section 8.1).
    pub const MOST_RETIRED: usize = 1024;

    /// Registers `region` under `rkey`.
    pub fn register(&mut self, rkey: Rkey, region: Region) -> Result<(), RegisterError> {
        if self.regions.contains_key(&rkey) {
            return Err(RegisterError::KeyInUse);
        }
        if region.address.checked_add(region.bytes.len() as u64).is_none() {
            return Err(RegisterError::Address);
        }
        if self.regions.len() >= Memory::MOST_REGIONS || self.bytes + region.bytes.len() > Memory::MOST_BYTES
        {
            return Err(RegisterError::TooMuch);
        }
        self.bytes += region.bytes.len();
        self.counts.registered += 1;
        self.regions.insert(rkey, region);
        Ok(())
    }

    /// Ends a registration. Returns the region, or `None` if it does not exist.
    pub fn invalidate(&mut self, rkey: Rkey) -> Option<Region> {
        let region = self.regions.remove(&rkey)?;
        self.bytes -= region.bytes.len();
        self.revoked.remove(&rkey);
        if self.retired.len() == Memory::MOST_RETIRED {
            self.retired.pop_front();
        }
        self.retired.push_back(rkey);
        Some(region)
    }

    /// Returns whether a new region may use this handle.
    pub fn is_fresh(&self, rkey: Rkey) -> bool {
        !self.regions.contains_key(&rkey) && !self.retired.contains(&rkey)
    }

    /// Invalidates a region for the remote side; the local side keeps its contents. Returns false
    /// if the region does not exist or was invalidated before.
    pub fn revoke(&mut self, rkey: Rkey) -> bool {
        let is_first = self.regions.contains_key(&rkey) && self.revoked.insert(rkey);
        self.counts.revoked += u64::from(is_first);
        is_first
    }

    /// Returns the counts of registrations and remote invalidations.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the region of `rkey`.
    pub fn region(&self, rkey: Rkey) -> Option<&Region> {
        self.regions.get(&rkey)
    }

    /// Returns the bytes of the region of `rkey` for local changes.
    pub fn bytes_mut(&mut self, rkey: Rkey) -> Option<&mut [u8]> {
        self.regions.get_mut(&rkey).map(|region| &mut region.bytes[..])
    }

    /// Returns all regions by R_Key.
    pub fn regions(&self) -> impl Iterator<Item = (Rkey, &Region)> {
        self.regions.iter().map(|(rkey, region)| (*rkey, region))
    }

    /// Returns the number of regions.
    pub fn len(&self) -> usize {
        self.regions.len()
    }

    /// Returns whether no region is registered.
    pub fn is_empty(&self) -> bool {
        self.regions.is_empty()
    }

    /// Returns the bytes that the remote side reads. A read of zero bytes succeeds with any R_Key.
    pub fn read(&self, rkey: Rkey, address: u64, length: u32) -> Result<&[u8], Refusal> {
        if length == 0 {
            return Ok(&[]);
        }
        let region = self.regions.get(&rkey).filter(|_| !self.revoked.contains(&rkey));
        let region = region.ok_or(Refusal::UnknownKey)?;
        let range = within(region, address, length)?;
        if region.access.remote_read { Ok(&region.bytes[range]) } else { Err(Refusal::Rights) }
    }

    /// Returns the bytes that the remote side writes. A write of zero bytes succeeds with any
    /// R_Key.
    pub fn write(&mut self, rkey: Rkey, address: u64, length: u32) -> Result<&mut [u8], Refusal> {
        if length == 0 {
            return Ok(&mut []);
        }
        let region = self.regions.get_mut(&rkey).filter(|_| !self.revoked.contains(&rkey));
        let region = region.ok_or(Refusal::UnknownKey)?;
        let range = within(region, address, length)?;
        if region.access.remote_write { Ok(&mut region.bytes[range]) } else { Err(Refusal::Rights) }
    }
}

fn within(region: &Region, address: u64, length: u32) -> Result<core::ops::Range<usize>, Refusal> {
    let start = address.checked_sub(region.address).ok_or(Refusal::Bounds)?;
    let end = start.checked_add(u64::from(length)).ok_or(Refusal::Bounds)?;
    if end > region.bytes.len() as u64 {
        return Err(Refusal::Bounds);
    }
    Ok(start as usize..end as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn accesses_are_checked_for_key_bounds_and_rights() {
        let mut memory = Memory::default();
        let key = Rkey(7);
        memory.register(key, Region { address: 100, bytes: vec![1, 2, 3, 4], access: Access::READ }).unwrap();
        assert_eq!(memory.read(key, 101, 3), Ok(&[2, 3, 4][..]));
        assert_eq!(memory.read(key, 101, 4), Err(Refusal::Bounds));
        assert_eq!(memory.read(key, 99, 1), Err(Refusal::Bounds));
        assert_eq!(memory.read(key, u64::MAX, 2), Err(Refusal::Bounds));
        assert_eq!(memory.read(Rkey(8), 100, 1), Err(Refusal::UnknownKey));
        assert_eq!(memory.write(key, 100, 1), Err(Refusal::Rights));
        assert_eq!(memory.read(Rkey(8), 5, 0), Ok(&[][..]));
        assert!(memory.revoke(key) && !memory.revoke(key) && !memory.revoke(Rkey(8)));
        assert_eq!(memory.read(key, 101, 3), Err(Refusal::UnknownKey));
        assert_eq!(memory.invalidate(key).map(|region| region.bytes), Some(vec![1, 2, 3, 4]));
        assert_eq!(memory.read(key, 100, 1), Err(Refusal::UnknownKey));
        assert_eq!((memory.bytes, memory.is_empty()), (0, true));
        assert_eq!(memory.counts(), Counts { registered: 1, revoked: 1 });
    }

    #[test]
    fn invalidated_handles_are_not_fresh() {
        let mut memory = Memory::default();
        for key in 0..=Memory::MOST_RETIRED as u32 {
            assert!(memory.is_fresh(Rkey(key)));
            memory.register(Rkey(key), Region { address: 0, bytes: vec![1], access: Access::READ }).unwrap();
            assert!(!memory.is_fresh(Rkey(key)));
            memory.invalidate(Rkey(key)).unwrap();
        }
        assert!(memory.is_fresh(Rkey(0)) && !memory.is_fresh(Rkey(1)));
    }

    #[test]
    fn registrations_are_bounded() {
        let mut memory = Memory::default();
        let region = |address, length| Region { address, bytes: vec![0; length], access: Access::READ };
        assert_eq!(memory.register(Rkey(1), region(u64::MAX, 1)), Err(RegisterError::Address));
        for key in 0..Memory::MOST_REGIONS as u32 {
            memory.register(Rkey(key), region(0, 1)).unwrap();
        }
        assert_eq!(memory.register(Rkey(1), region(0, 1)), Err(RegisterError::KeyInUse));
        assert_eq!(memory.register(Rkey(u32::MAX), region(0, 1)), Err(RegisterError::TooMuch));
    }
}
