//! Data types that arguments and results of several operations share.

use super::super::ChannelAttributes;
use super::super::Outcome;
use super::super::payload::Payload;
use super::super::state::FactKind;
use super::super::walk::Walk;
use rdmascope_wire::xdr::Reader;
use rdmascope_wire::{Layer, Stop};

/// The most bytes of an `nfs_fh4`.
pub(super) const FHSIZE: usize = 128;
/// Bytes of a `stateid4`.
pub(super) const STATEID: u32 = 16;
/// Bytes of a `sessionid4`.
pub(super) const SESSIONID: u32 = 16;
/// Bytes of a `deviceid4`.
pub(super) const DEVICEID: u32 = 16;
/// Bytes of a `verifier4`.
pub(super) const VERIFIER: u32 = 8;
/// Bytes of a `clientid4`.
pub(super) const CLIENTID: u32 = 8;
/// Bytes of an `nfstime4`.
pub(super) const TIME: u32 = 12;
/// CREATE_SESSION4_FLAG_CONN_BACK_CHAN.
pub(super) const CONN_BACK_CHAN: u32 = 2;
/// The bit for the backchannel in channel_dir_from_client4 and channel_dir_from_server4.
pub(super) const BACK: u32 = 2;

/// The number of the attribute filehandle (RFC 8881, section 5.8.1).
const FILE_HANDLE: u32 = 19;

/// The lengths of the attributes by number (RFC 8881, section 5.8; RFC 7862, section 12.2; RFC 8276,
/// section 8.2). `None`: variable, or only to be set.
const ATTRIBUTES: [Option<u32>; 83] = {
    let mut lengths = [None; 83];
    let mut at = 0;
    while at < WORDS.len() {
        lengths[WORDS[at] as usize] = Some(4);
        at += 1;
    }
    at = 0;
    while at < HYPERS.len() {
        lengths[HYPERS[at] as usize] = Some(8);
        at += 1;
    }
    at = 0;
    while at < TIMES.len() {
        lengths[TIMES[at] as usize] = Some(TIME);
        at += 1;
    }
    // fsid and change_policy.
    (lengths[8], lengths[60]) = (Some(16), Some(16));
    lengths
};
/// type, fh_expire_type, link_support, symlink_support, named_attr, unique_handles, lease_time,
/// rdattr_error, aclsupport, archive, cansettime, case_insensitive, case_preserving,
/// chown_restricted; hidden, homogeneous, maxlink, maxname, mode, no_trunc, numlinks, system,
/// layout_blksize, layout_alignment; clone_blksize, change_attr_type, xattr_support.
const WORDS: [u8; 27] =
    [1, 2, 5, 6, 7, 9, 10, 11, 13, 14, 15, 16, 17, 18, 25, 26, 28, 29, 33, 34, 35, 46, 65, 66, 77, 79, 82];
/// change, size; fileid, files_avail, files_free, files_total, maxfilesize, maxread, maxwrite,
/// quota_avail_hard, quota_avail_soft, quota_used, rawdev, space_avail, space_free, space_total,
/// space_used, mounted_on_fileid; space_freed.
const HYPERS: [u8; 19] = [3, 4, 20, 21, 22, 23, 27, 30, 31, 38, 39, 40, 41, 42, 43, 44, 45, 55, 78];
/// time_access, time_backup, time_create, time_delta, time_metadata, time_modify, dir_notif_delay,
/// dirent_notif_delay.
const TIMES: [u8; 8] = [47, 49, 50, 51, 52, 53, 56, 57];

/// The most bytes of the result of a GETATTR with this bitmap: number, status, the same bitmap, and
/// the values. `None` if an attribute has no fixed length.
pub(super) fn longest_attributes(bitmap: &mut Payload<'_>) -> Result<Option<u32>, Stop> {
    let count = bitmap.u32()?;
    let mut bytes = 4u32 + 4 + 4 + 4;
    for word in 0..count {
        let mask = bitmap.u32()?;
        bytes = bytes.saturating_add(4);
        for bit in (0..32).filter(|bit| mask & 1 << bit != 0) {
            let length = ATTRIBUTES.get(word as usize * 32 + bit).copied().flatten();
            let Some(length) = length else { return Ok(None) };
            bytes = bytes.saturating_add(length);
        }
    }
    Ok(Some(bytes))
}

/// Finds the attribute filehandle among the values of the attributes in `mask`.
fn file_handle_among(values: &[u8], mask: u32) -> Result<&[u8], Stop> {
    let mut reader = Reader::new(values, Layer::UpperLayer);
    for (number, bytes) in ATTRIBUTES[..FILE_HANDLE as usize].iter().copied().enumerate() {
        if mask & 1 << number == 0 {
            continue;
        }
        match (bytes, number) {
            (Some(bytes), _) => reader.skip(bytes)?,
            (None, 0) => {
                for _ in 0..reader.u32()? {
                    reader.skip(4)?;
                }
            }
            (None, _) => {
                for _ in 0..reader.u32()? {
                    reader.skip(3 * 4)?;
                    reader.opaque()?;
                }
            }
        }
    }
    reader.opaque()
}

// Walks that several operations share.

pub(super) fn word(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(4)
}

pub(super) fn two_words(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(2 * 4)
}

pub(super) fn flag(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.flag().map(|_| ())
}

pub(super) fn two_flags(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.flag()?;
    walk.flag().map(|_| ())
}

pub(super) fn tested(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.tested()
}

pub(super) fn opaque(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.opaque().map(|_| ())
}

/// Walks a stateid of the arguments.
pub(super) fn named(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.argument_stateid()
}

/// Walks a stateid of the results.
pub(super) fn given(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.result_stateid()
}

/// OFFLOAD_CANCEL and OFFLOAD_STATUS: the stateid of the offloaded operation.
pub(super) fn offloaded(walk: &mut Walk<'_, '_>) -> Outcome {
    let id = walk.sixteen()?;
    walk.session.offload = Some(id);
    walk.facts.add(FactKind::ArgumentStateId(id));
    Ok(())
}

pub(super) fn stateids(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.argument_stateids()
}

pub(super) fn sessionid(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.session_id()
}

pub(super) fn clientid(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.client()
}

pub(super) fn bitmap(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.bitmap()
}

pub(super) fn attributes(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.attributes()
}

pub(super) fn file_name(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_name()
}

impl<'a> Walk<'_, 'a> {
    /// Walks a `bitmap4`.
    #[inline]
    pub(super) fn bitmap(&mut self) -> Outcome {
        self.array(4)
    }

    /// Walks a `fattr4`.
    #[inline]
    pub(super) fn attributes(&mut self) -> Outcome {
        self.bitmap()?;
        self.opaque().map(|_| ())
    }

    /// Walks a `fattr4` to be set. Attributes before size (4) cannot be set, so size comes first
    /// (RFC 8881, section 5.8).
    pub(super) fn settable_attributes(&mut self) -> Outcome {
        let mut ahead = *self.payload;
        let first = ahead.u32().and_then(|words| if words == 0 { Ok(0) } else { ahead.u32() });
        self.bitmap()?;
        let values = self.payload.opaque()?;
        if first.is_ok_and(|mask| mask & 0x1f == 1 << 4)
            && let Some(size) = values.first_chunk()
        {
            self.operation.size = Some(u64::from_be_bytes(*size));
        }
        Ok(())
    }

    /// Walks a `fattr4` and returns the file handle in it, or an empty slice. The values are in the
    /// order of the attribute numbers (RFC 8881, section 3.3.7).
    pub(super) fn file_handle_attribute(&mut self) -> Result<&'a [u8], Stop> {
        let mut ahead = *self.payload;
        let first = ahead.u32().and_then(|words| if words == 0 { Ok(0) } else { ahead.u32() });
        self.bitmap()?;
        let values = self.payload.opaque()?;
        let mask = first.unwrap_or(0);
        if mask & 1 << FILE_HANDLE == 0 {
            return Ok(&[]);
        }
        // The length of all values is known, so an attribute that cannot be parsed does not end the
        // walk.
        Ok(file_handle_among(values, mask).unwrap_or(&[]))
    }

    /// Walks a `change_info4`.
    #[inline]
    pub(super) fn change_info(&mut self) -> Outcome {
        self.flag()?;
        self.skip(8 + 8)
    }

    /// Walks an `rpc_gss_svc_t`.
    #[inline]
    pub(super) fn gss_service(&mut self) -> Result<u32, Stop> {
        self.constant(1..=3)
    }

    /// Walks an `nfs_lock_type4`.
    #[inline]
    pub(super) fn lock_type(&mut self) -> Result<u32, Stop> {
        self.constant(1..=4)
    }

    /// Walks a `layoutiomode4`.
    #[inline]
    pub(super) fn layout_mode(&mut self) -> Result<u32, Stop> {
        self.constant(1..=3)
    }

    /// Walks a `state_owner4`.
    #[inline]
    pub(super) fn owner(&mut self) -> Outcome {
        self.skip(CLIENTID)?;
        self.opaque().map(|_| ())
    }

    /// Walks a type or number of one word, and an opaque body: `layout_content4`, `device_addr4`,
    /// `layoutupdate4`.
    #[inline]
    pub(super) fn typed_body(&mut self) -> Outcome {
        self.skip(4)?;
        self.opaque().map(|_| ())
    }

    /// Walks a `netaddr4`.
    pub(super) fn network_address(&mut self) -> Outcome {
        self.opaque()?;
        self.opaque().map(|_| ())
    }

    /// Walks a `netloc4` (RFC 7863).
    pub(super) fn network_location(&mut self) -> Outcome {
        match self.u32()? {
            // NL4_NAME and NL4_URL.
            1 | 2 => self.opaque().map(|_| ()),
            3 => self.network_address(),
            _ => Err(self.no_such_arm()),
        }
    }

    /// Walks an `nfs_impl_id4`.
    pub(super) fn implementation(&mut self) -> Outcome {
        self.opaque()?;
        self.opaque()?;
        self.skip(TIME)
    }

    /// Walks a `state_protect_ops4`.
    pub(super) fn protected_operations(&mut self) -> Outcome {
        self.bitmap()?;
        self.bitmap()
    }

    /// Walks a `channel_attrs4`.
    pub(super) fn channel_attributes(&mut self) -> Result<ChannelAttributes, Stop> {
        // ca_headerpadsize.
        self.skip(4)?;
        let (largest_request, largest_response) = (self.u32()?, self.u32()?);
        // ca_maxresponsesize_cached.
        self.skip(4)?;
        let (most_operations, most_requests) = (self.u32()?, self.u32()?);
        self.array(4)?;
        Ok(ChannelAttributes { largest_request, largest_response, most_operations, most_requests })
    }

    /// Walks a `write_response4` and returns its count.
    pub(super) fn write_response(&mut self) -> Result<u64, Stop> {
        // wr_callback_id: none, or the stateid that CB_OFFLOAD will name.
        let mut ahead = *self.payload;
        if self.payload.array(STATEID)? > 0 {
            ahead.u32()?;
            let id = *ahead.fixed(STATEID)?.first_chunk().expect("fixed() returns this many bytes");
            self.session.offload.get_or_insert(id);
            self.facts.add(FactKind::OffloadStateId(id));
        }
        let count = self.payload.u64()?;
        self.stable()?;
        self.skip(VERIFIER)?;
        Ok(count)
    }

    /// Walks an `open_delegation4`, including the arms of RFC 9754.
    pub(super) fn delegation(&mut self) -> Outcome {
        match self.u32()? {
            // OPEN_DELEGATE_NONE.
            0 => Ok(()),
            // OPEN_DELEGATE_READ and OPEN_DELEGATE_READ_ATTRS_DELEG.
            1 | 4 => {
                let id = self.sixteen()?;
                self.facts.add(FactKind::Delegation { id, writes: false });
                self.flag()?;
                self.access_control_entry()
            }
            // OPEN_DELEGATE_WRITE and OPEN_DELEGATE_WRITE_ATTRS_DELEG.
            2 | 5 => {
                let id = self.sixteen()?;
                self.facts.add(FactKind::Delegation { id, writes: true });
                self.flag()?;
                match self.u32()? {
                    // NFS_LIMIT_SIZE: a hyper. NFS_LIMIT_BLOCKS: two words.
                    1 | 2 => self.skip(8)?,
                    _ => return Err(self.no_such_arm()),
                }
                self.access_control_entry()
            }
            // OPEN_DELEGATE_NONE_EXT, with a boolean after WND4_CONTENTION and WND4_RESOURCE.
            3 => match self.constant(0..=8)? {
                1 | 2 => self.flag().map(|_| ()),
                _ => Ok(()),
            },
            _ => Err(self.no_such_arm()),
        }
    }

    /// Walks an `nfsace4`.
    fn access_control_entry(&mut self) -> Outcome {
        self.skip(3 * 4)?;
        self.opaque().map(|_| ())
    }
}
