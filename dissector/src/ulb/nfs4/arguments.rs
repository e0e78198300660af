//! `nfs_argop4`: the arguments of each operation.

use super::super::Outcome;
use super::super::walk::Walk;
use super::ILLEGAL;
use super::parts::{BACK, CLIENTID, CONN_BACK_CHAN, DEVICEID, SESSIONID, STATEID, TIME, VERIFIER};

/// Walks the arguments of operation `code`.
#[inline]
pub(super) fn arguments(code: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    match code {
        // ACCESS, OPENATTR, SECINFO_NO_NAME, RECLAIM_COMPLETE: one word.
        3 | 19 | 52 | 58 => walk.skip(4),
        // CLOSE, OPEN_CONFIRM.
        4 | 20 => walk.skip(4 + STATEID),
        // COMMIT.
        5 => {
            walk.offset()?;
            walk.count()
        }
        6 => create(walk),
        // DELEGPURGE, RENEW, DESTROY_CLIENTID.
        7 | 30 | 57 => walk.skip(CLIENTID),
        // DELEGRETURN, FREE_STATEID, OFFLOAD_CANCEL, OFFLOAD_STATUS.
        8 | 45 | 66 | 67 => walk.skip(STATEID),
        // GETATTR.
        9 => walk.bitmap(),
        // GETFH, LOOKUPP, PUTPUBFH, PUTROOTFH, READLINK, RESTOREFH, SAVEFH.
        10 | 16 | 23 | 24 | 27 | 31 | 32 | ILLEGAL => Ok(()),
        // LINK, LOOKUP, REMOVE, SECINFO, GETXATTR, REMOVEXATTR.
        11 | 15 | 28 | 33 | 72 | 75 => walk.file_name(),
        12 => lock(walk),
        // LOCKT.
        13 => {
            walk.skip(4)?;
            walk.range()?;
            walk.owner()
        }
        // LOCKU.
        14 => {
            walk.skip(4 + 4 + STATEID)?;
            walk.range()
        }
        // NVERIFY, VERIFY.
        17 | 37 => walk.attributes(),
        18 => open(walk),
        // OPEN_DOWNGRADE.
        21 => walk.skip(STATEID + 3 * 4),
        // PUTFH.
        22 => walk.file_handle(),
        // READ, READ_PLUS.
        25 | 68 => {
            walk.skip(STATEID)?;
            walk.offset()?;
            walk.count()
        }
        // READDIR.
        26 => {
            walk.skip(8 + VERIFIER + 4)?;
            walk.count()?;
            walk.bitmap()
        }
        // RENAME.
        29 => {
            walk.file_name()?;
            walk.other_name()
        }
        // SETATTR.
        34 => {
            walk.skip(STATEID)?;
            walk.attributes()
        }
        // SETCLIENTID.
        35 => {
            walk.skip(VERIFIER)?;
            walk.opaque()?;
            walk.skip(4)?;
            walk.network_address()?;
            walk.skip(4)
        }
        // SETCLIENTID_CONFIRM.
        36 => walk.skip(CLIENTID + VERIFIER),
        // WRITE.
        38 => {
            walk.skip(STATEID)?;
            walk.offset()?;
            walk.skip(4)?;
            walk.operation.count = Some(walk.argument_item()?.into());
            Ok(())
        }
        // RELEASE_LOCKOWNER.
        39 => walk.owner(),
        // SEQUENCE: before the rest, since it leads every COMPOUND of a session.
        53 => walk.skip(SESSIONID + 4 * 4),
        40..=58 => of_minor_version_1(code, walk),
        59..=75 => of_minor_version_2(code, walk),
        _ => Err(walk.no_such_arm()),
    }
}

/// Operations that RFC 5662 added, but those above.
fn of_minor_version_1(code: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    match code {
        // BACKCHANNEL_CTL.
        40 => {
            let program = walk.u32()?;
            walk.backchannel().program = Some(program);
            walk.each(callback_security)
        }
        // BIND_CONN_TO_SESSION.
        41 => {
            walk.skip(SESSIONID)?;
            let direction = walk.u32()?;
            walk.backchannel().offered = Some(direction & BACK != 0);
            walk.skip(4)
        }
        // EXCHANGE_ID.
        42 => {
            walk.skip(VERIFIER)?;
            walk.opaque()?;
            walk.skip(4)?;
            state_protection(walk)?;
            walk.each(Walk::implementation)
        }
        // CREATE_SESSION.
        43 => {
            walk.skip(CLIENTID + 4)?;
            let flags = walk.u32()?;
            walk.backchannel().offered = Some(flags & CONN_BACK_CHAN != 0);
            walk.channel_attributes()?;
            let asked = walk.channel_attributes()?;
            let program = walk.u32()?;
            let backchannel = walk.backchannel();
            (backchannel.asked, backchannel.program) = (Some(asked), Some(program));
            walk.each(callback_security)
        }
        // DESTROY_SESSION.
        44 => walk.skip(SESSIONID),
        // GET_DIR_DELEGATION.
        46 => {
            walk.skip(4)?;
            walk.bitmap()?;
            walk.skip(2 * TIME)?;
            walk.bitmap()?;
            walk.bitmap()
        }
        // GETDEVICEINFO.
        47 => {
            walk.skip(DEVICEID + 4)?;
            walk.count()?;
            walk.bitmap()
        }
        // GETDEVICELIST.
        48 => walk.skip(2 * 4 + 8 + VERIFIER),
        // LAYOUTCOMMIT.
        49 => {
            walk.range()?;
            walk.skip(4 + STATEID)?;
            walk.optional(8)?;
            walk.optional(TIME)?;
            walk.typed_body()
        }
        // LAYOUTGET.
        50 => {
            walk.skip(3 * 4)?;
            walk.range()?;
            walk.skip(8 + STATEID + 4)
        }
        // LAYOUTRETURN.
        51 => {
            walk.skip(3 * 4)?;
            // LAYOUTRETURN4_FILE.
            if walk.u32()? == 1 {
                walk.range()?;
                walk.skip(STATEID)?;
                walk.opaque()?;
            }
            Ok(())
        }
        // SET_SSV.
        54 => {
            walk.opaque()?;
            walk.opaque().map(|_| ())
        }
        // TEST_STATEID.
        55 => walk.array(STATEID),
        // WANT_DELEGATION.
        56 => {
            walk.skip(4)?;
            match walk.u32()? {
                // CLAIM_FH and CLAIM_DELEG_PREV_FH.
                4 | 6 => Ok(()),
                // CLAIM_PREVIOUS.
                1 => walk.skip(4),
                _ => Err(walk.no_such_arm()),
            }
        }
        _ => Err(walk.no_such_arm()),
    }
}

/// Operations that RFC 7863 and RFC 8276 added, but those above.
fn of_minor_version_2(code: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    match code {
        // ALLOCATE, DEALLOCATE.
        59 | 62 => {
            walk.skip(STATEID)?;
            walk.range()
        }
        // COPY. The offset that counts is that in the destination, which is the current file handle.
        60 => {
            walk.skip(2 * STATEID + 8)?;
            walk.range()?;
            walk.skip(2 * 4)?;
            walk.each(Walk::network_location)
        }
        // COPY_NOTIFY.
        61 => {
            walk.skip(STATEID)?;
            walk.network_location()
        }
        // IO_ADVISE.
        63 => {
            walk.skip(STATEID)?;
            walk.range()?;
            walk.bitmap()
        }
        // LAYOUTERROR.
        64 => {
            walk.range()?;
            walk.skip(STATEID)?;
            walk.array(DEVICEID + 2 * 4)
        }
        // LAYOUTSTATS.
        65 => {
            walk.range()?;
            walk.skip(STATEID + 2 * 16 + DEVICEID)?;
            walk.typed_body()
        }
        // SEEK.
        69 => {
            walk.skip(STATEID)?;
            walk.offset()?;
            walk.skip(4)
        }
        // WRITE_SAME.
        70 => {
            walk.skip(STATEID + 4)?;
            walk.offset()?;
            let size = walk.payload.u64()?;
            let blocks = walk.payload.u64()?;
            walk.operation.count = size.checked_mul(blocks);
            walk.skip(8 + 4 + 8)?;
            walk.opaque().map(|_| ())
        }
        // CLONE.
        71 => {
            walk.skip(2 * STATEID + 8)?;
            walk.range()
        }
        // SETXATTR.
        73 => {
            walk.skip(4)?;
            walk.file_name()?;
            walk.operation.count = Some(walk.opaque()?.into());
            Ok(())
        }
        // LISTXATTRS.
        74 => {
            walk.skip(8)?;
            walk.count()
        }
        _ => Err(walk.no_such_arm()),
    }
}

fn create(walk: &mut Walk<'_, '_>) -> Outcome {
    match walk.u32()? {
        // NF4LNK.
        5 => walk.argument_link()?,
        // NF4BLK and NF4CHR.
        3 | 4 => walk.skip(8)?,
        _ => {}
    }
    walk.file_name()?;
    walk.attributes()
}

fn lock(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(2 * 4)?;
    walk.range()?;
    if walk.bool()? {
        walk.skip(4 + STATEID + 4)?;
        walk.owner()
    } else {
        walk.skip(STATEID + 4)
    }
}

fn open(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(3 * 4)?;
    walk.owner()?;
    // OPEN4_CREATE.
    if walk.u32()? == 1 {
        match walk.u32()? {
            // UNCHECKED4 and GUARDED4.
            0 | 1 => walk.attributes()?,
            // EXCLUSIVE4.
            2 => walk.skip(VERIFIER)?,
            // EXCLUSIVE4_1.
            3 => {
                walk.skip(VERIFIER)?;
                walk.attributes()?;
            }
            _ => return Err(walk.no_such_arm()),
        }
    }
    match walk.u32()? {
        // CLAIM_NULL and CLAIM_DELEGATE_PREV.
        0 | 3 => walk.file_name(),
        // CLAIM_PREVIOUS.
        1 => walk.skip(4),
        // CLAIM_DELEGATE_CUR.
        2 => {
            walk.skip(STATEID)?;
            walk.file_name()
        }
        // CLAIM_FH and CLAIM_DELEG_PREV_FH.
        4 | 6 => Ok(()),
        // CLAIM_DELEG_CUR_FH.
        5 => walk.skip(STATEID),
        _ => Err(walk.no_such_arm()),
    }
}

/// A `callback_sec_parms4`.
fn callback_security(walk: &mut Walk<'_, '_>) -> Outcome {
    match walk.u32()? {
        // AUTH_NONE.
        0 => Ok(()),
        // AUTH_SYS: authsys_parms (RFC 5531, appendix A).
        1 => {
            walk.skip(4)?;
            walk.opaque()?;
            walk.skip(2 * 4)?;
            walk.array(4)
        }
        // RPCSEC_GSS.
        6 => {
            walk.skip(4)?;
            walk.opaque()?;
            walk.opaque().map(|_| ())
        }
        _ => Err(walk.no_such_arm()),
    }
}

/// A `state_protect4_a`.
fn state_protection(walk: &mut Walk<'_, '_>) -> Outcome {
    match walk.u32()? {
        // SP4_NONE.
        0 => Ok(()),
        // SP4_MACH_CRED.
        1 => walk.protected_operations(),
        // SP4_SSV.
        2 => {
            walk.protected_operations()?;
            for _ in 0..2 {
                walk.each(|walk| walk.opaque().map(|_| ()))?;
            }
            walk.skip(2 * 4)
        }
        _ => Err(walk.no_such_arm()),
    }
}
