//! Data types that arguments and results of several operations share.

use super::super::ChannelAttributes;
use super::super::Outcome;
use super::super::state::Said;
use super::super::walk::Walk;
use rdmascope_wire::xdr::Reader;
use rdmascope_wire::{Layer, Stop};

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
/// Bytes of a `change_info4`.
pub(super) const CHANGE_INFO: u32 = 4 + 8 + 8;

/// The number of the attribute filehandle (RFC 8881, section 5.8.1).
const FILE_HANDLE: u32 = 19;

/// The lengths of the attributes before filehandle, by number (RFC 8881, sections 5.8.1 and 5.8.2).
/// `None`: variable, with a length or count in the attribute.
const BEFORE_FILE_HANDLE: [Option<u32>; FILE_HANDLE as usize] = [
    None,     // supported_attrs: a bitmap
    Some(4),  // type
    Some(4),  // fh_expire_type
    Some(8),  // change
    Some(8),  // size
    Some(4),  // link_support
    Some(4),  // symlink_support
    Some(4),  // named_attr
    Some(16), // fsid
    Some(4),  // unique_handles
    Some(4),  // lease_time
    Some(4),  // rdattr_error
    None,     // acl: entries of three words and a string
    Some(4),  // aclsupport
    Some(4),  // archive
    Some(4),  // cansettime
    Some(4),  // case_insensitive
    Some(4),  // case_preserving
    Some(4),  // chown_restricted
];

/// Finds the attribute filehandle among the values of the attributes in `mask`.
fn file_handle_among(values: &[u8], mask: u32) -> Result<&[u8], Stop> {
    let mut reader = Reader::new(values, Layer::UpperLayer);
    for (number, bytes) in BEFORE_FILE_HANDLE.into_iter().enumerate() {
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

pub(super) fn tested(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.tested()
}

pub(super) fn opaque(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.opaque().map(|_| ())
}

/// Walks a stateid of the arguments.
pub(super) fn named(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.names()
}

/// Walks a stateid of the results.
pub(super) fn given(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.gives()
}

/// OFFLOAD_CANCEL and OFFLOAD_STATUS: the stateid of the offloaded operation.
pub(super) fn offloaded(walk: &mut Walk<'_, '_>) -> Outcome {
    let id = walk.sixteen()?;
    walk.session.offload = Some(id);
    walk.facts.add(Said::Names(id));
    Ok(())
}

pub(super) fn stateids(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.names_each()
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
            self.facts.add(Said::GoesOn(id));
        }
        let count = self.payload.u64()?;
        self.skip(4 + VERIFIER)?;
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
                self.facts.add(Said::Delegates { id, writes: false });
                self.skip(4)?;
                self.access_control_entry()
            }
            // OPEN_DELEGATE_WRITE and OPEN_DELEGATE_WRITE_ATTRS_DELEG.
            2 | 5 => {
                let id = self.sixteen()?;
                self.facts.add(Said::Delegates { id, writes: true });
                self.skip(4)?;
                match self.u32()? {
                    // NFS_LIMIT_SIZE: a hyper. NFS_LIMIT_BLOCKS: two words.
                    1 | 2 => self.skip(8)?,
                    _ => return Err(self.no_such_arm()),
                }
                self.access_control_entry()
            }
            // OPEN_DELEGATE_NONE_EXT, with a boolean after WND4_CONTENTION and WND4_RESOURCE.
            3 => match self.u32()? {
                1 | 2 => self.skip(4),
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
