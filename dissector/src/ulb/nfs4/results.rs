//! `nfs_resop4`: the result of each operation, from its status on.

use super::super::Outcome;
use super::super::walk::Walk;
use super::parts::{
    BACK, CHANGE_INFO, CLIENTID, CONN_BACK_CHAN, DEVICEID, SESSIONID, STATEID, TIME, VERIFIER,
};
use super::{
    ILLEGAL, NFS4ERR_CLID_INUSE, NFS4ERR_DENIED, NFS4ERR_LAYOUTTRYLATER, NFS4ERR_OFFLOAD_NO_REQS,
    NFS4ERR_TOOSMALL, unknown,
};

/// Walks the result of operation `code`.
#[inline]
pub(super) fn results(code: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    if !matches!(code, 3..=75 | ILLEGAL) {
        return unknown(walk);
    }
    if walk.status()? { success(code, walk) } else { failure(code, walk) }
}

#[inline]
fn success(code: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    match code {
        // ACCESS.
        3 => walk.skip(2 * 4),
        // CLOSE, LOCK, LOCKU, OPEN_CONFIRM, OPEN_DOWNGRADE.
        4 | 12 | 14 | 20 | 21 => walk.skip(STATEID),
        // COMMIT.
        5 => walk.skip(VERIFIER),
        // CREATE.
        6 => {
            walk.skip(CHANGE_INFO)?;
            walk.bitmap()
        }
        // GETATTR.
        9 => walk.attributes(),
        // GETFH.
        10 => walk.result_file_handle(),
        // LINK, REMOVE, SETXATTR, REMOVEXATTR.
        11 | 28 | 73 | 75 => walk.skip(CHANGE_INFO),
        // OPEN.
        18 => {
            walk.skip(STATEID + CHANGE_INFO + 4)?;
            walk.bitmap()?;
            walk.delegation()
        }
        // READ.
        25 => {
            walk.end_of_file()?;
            walk.operation.result_count = Some(walk.result_item()?.into());
            Ok(())
        }
        // READDIR.
        26 => {
            walk.skip(VERIFIER)?;
            walk.list(|walk| {
                walk.skip(8)?;
                walk.opaque()?;
                walk.attributes()
            })?;
            walk.end_of_file()
        }
        // READLINK.
        27 => walk.result_link(),
        // RENAME.
        29 => walk.skip(2 * CHANGE_INFO),
        // SECINFO, SECINFO_NO_NAME.
        33 | 52 => walk.each(|walk| {
            // RPCSEC_GSS.
            if walk.u32()? == 6 {
                walk.opaque()?;
                walk.skip(2 * 4)?;
            }
            Ok(())
        }),
        // SETATTR.
        34 => walk.bitmap(),
        // SETCLIENTID.
        35 => walk.skip(CLIENTID + VERIFIER),
        // WRITE.
        38 => {
            walk.result_count()?;
            walk.skip(4 + VERIFIER)
        }
        // SEQUENCE.
        53 => walk.skip(SESSIONID + 5 * 4),
        41..=56 => of_minor_version_1(code, walk),
        60..=74 => of_minor_version_2(code, walk),
        // All others have a status and nothing else.
        _ => Ok(()),
    }
}

/// Results that RFC 5662 added, but those above.
fn of_minor_version_1(code: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    match code {
        // BIND_CONN_TO_SESSION.
        41 => {
            walk.skip(SESSIONID)?;
            let direction = walk.u32()?;
            walk.backchannel().taken = Some(direction & BACK != 0);
            walk.skip(4)
        }
        // EXCHANGE_ID.
        42 => {
            walk.skip(CLIENTID + 2 * 4)?;
            state_protection(walk)?;
            // so_minor_id and so_major_id of the server owner, the server scope.
            walk.skip(8)?;
            walk.opaque()?;
            walk.opaque()?;
            walk.each(Walk::implementation)
        }
        // CREATE_SESSION.
        43 => {
            walk.skip(SESSIONID + 4)?;
            let flags = walk.u32()?;
            walk.backchannel().taken = Some(flags & CONN_BACK_CHAN != 0);
            walk.channel_attributes()?;
            let granted = walk.channel_attributes()?;
            walk.backchannel().granted = Some(granted);
            Ok(())
        }
        // GET_DIR_DELEGATION.
        46 => match walk.u32()? {
            // GDD4_OK.
            0 => {
                walk.skip(VERIFIER + STATEID)?;
                walk.bitmap()?;
                walk.bitmap()?;
                walk.bitmap()
            }
            // GDD4_UNAVAIL.
            1 => walk.skip(4),
            _ => Err(walk.no_such_arm()),
        },
        // GETDEVICEINFO.
        47 => {
            walk.typed_body()?;
            walk.bitmap()
        }
        // GETDEVICELIST.
        48 => {
            walk.skip(8 + VERIFIER)?;
            walk.array(DEVICEID)?;
            walk.end_of_file()
        }
        // LAYOUTCOMMIT.
        49 => walk.optional(8),
        // LAYOUTGET.
        50 => {
            walk.skip(4 + STATEID)?;
            walk.each(|walk| {
                walk.skip(8 + 8 + 4)?;
                walk.typed_body()
            })
        }
        // LAYOUTRETURN.
        51 => walk.optional(STATEID),
        // SET_SSV.
        54 => walk.opaque().map(|_| ()),
        // TEST_STATEID.
        55 => walk.array(4),
        // WANT_DELEGATION.
        56 => walk.delegation(),
        // DESTROY_SESSION, FREE_STATEID.
        _ => Ok(()),
    }
}

/// Results that RFC 7863 and RFC 8276 added, but those above.
fn of_minor_version_2(code: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    match code {
        // COPY.
        60 => {
            walk.operation.result_count = Some(walk.write_response()?);
            walk.skip(2 * 4)
        }
        // COPY_NOTIFY.
        61 => {
            walk.skip(TIME + STATEID)?;
            walk.each(Walk::network_location)
        }
        // IO_ADVISE.
        63 => walk.bitmap(),
        // OFFLOAD_STATUS.
        67 => {
            walk.result_length()?;
            walk.array(4)
        }
        // READ_PLUS. Its data are not DDP-eligible: RFC 8267, section 6.1 names four items.
        68 => {
            walk.end_of_file()?;
            let mut data = 0;
            walk.each(|walk| {
                match walk.u32()? {
                    // NFS4_CONTENT_DATA.
                    0 => {
                        walk.skip(8)?;
                        data += u64::from(walk.opaque()?);
                    }
                    // NFS4_CONTENT_HOLE.
                    1 => walk.skip(8 + 8)?,
                    _ => {}
                }
                Ok(())
            })?;
            walk.operation.result_count = Some(data);
            Ok(())
        }
        // SEEK.
        69 => {
            walk.end_of_file()?;
            walk.skip(8)
        }
        // WRITE_SAME.
        70 => {
            walk.operation.result_count = Some(walk.write_response()?);
            Ok(())
        }
        // GETXATTR.
        72 => {
            walk.operation.result_count = Some(walk.opaque()?.into());
            Ok(())
        }
        // LISTXATTRS.
        74 => {
            walk.skip(8)?;
            walk.each(|walk| walk.opaque().map(|_| ()))?;
            walk.end_of_file()
        }
        // DEALLOCATE, LAYOUTERROR, LAYOUTSTATS, OFFLOAD_CANCEL, CLONE.
        _ => Ok(()),
    }
}

/// What follows a status other than NFS4_OK: mostly nothing.
fn failure(code: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    match (code, walk.operation.status) {
        // READ and READLINK have a DDP-eligible result, and now none.
        (25 | 27, _) => {
            walk.pass_chunk();
            Ok(())
        }
        // SETATTR is a structure, not a union: what was set before it failed is always there.
        (34, _) => walk.bitmap(),
        // LOCK, LOCKT: who holds the lock.
        (12 | 13, Some(NFS4ERR_DENIED)) => {
            walk.skip(8 + 8 + 4)?;
            walk.owner()
        }
        // SETCLIENTID: who uses the name.
        (35, Some(NFS4ERR_CLID_INUSE)) => walk.network_address(),
        // GETDEVICEINFO: gdir_mincount.
        (47, Some(NFS4ERR_TOOSMALL)) => walk.skip(4),
        // LAYOUTGET: logr_will_signal_layout_avail.
        (50, Some(NFS4ERR_LAYOUTTRYLATER)) => walk.skip(4),
        // COPY: what the server could do instead.
        (60, Some(NFS4ERR_OFFLOAD_NO_REQS)) => walk.skip(2 * 4),
        _ => Ok(()),
    }
}

/// A `state_protect4_r`.
fn state_protection(walk: &mut Walk<'_, '_>) -> Outcome {
    match walk.u32()? {
        // SP4_NONE.
        0 => Ok(()),
        // SP4_MACH_CRED.
        1 => walk.protected_operations(),
        // SP4_SSV.
        2 => {
            walk.protected_operations()?;
            walk.skip(4 * 4)?;
            walk.each(|walk| walk.opaque().map(|_| ()))
        }
        _ => Err(walk.no_such_arm()),
    }
}
