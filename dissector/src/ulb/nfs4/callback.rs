//! `nfs_cb_argop4` and `nfs_cb_resop4`: callback operations. None has a DDP-eligible item (RFC 8267, section 6.5).

use super::super::Outcome;
use super::super::walk::Walk;
use super::parts::{SESSIONID, STATEID};
use super::{ILLEGAL, unknown};

/// Walks the arguments of callback operation `code`.
pub(super) fn arguments(code: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    match code {
        // CB_GETATTR.
        3 => {
            walk.file_handle()?;
            walk.bitmap()
        }
        // CB_RECALL.
        4 => {
            walk.skip(STATEID + 4)?;
            walk.file_handle()
        }
        // CB_LAYOUTRECALL.
        5 => {
            walk.skip(3 * 4)?;
            match walk.u32()? {
                // LAYOUTRECALL4_FILE.
                1 => {
                    walk.file_handle()?;
                    walk.range()?;
                    walk.skip(STATEID)
                }
                // LAYOUTRECALL4_FSID.
                2 => walk.skip(2 * 8),
                // LAYOUTRECALL4_ALL.
                3 => Ok(()),
                _ => Err(walk.no_such_arm()),
            }
        }
        // CB_NOTIFY.
        6 => {
            walk.skip(STATEID)?;
            walk.file_handle()?;
            walk.each(Walk::attributes)
        }
        // CB_PUSH_DELEG.
        7 => {
            walk.file_handle()?;
            walk.delegation()
        }
        // CB_RECALL_ANY, CB_RECALLABLE_OBJ_AVAIL.
        8 | 9 => {
            walk.skip(4)?;
            walk.bitmap()
        }
        // CB_RECALL_SLOT.
        10 => walk.skip(4),
        // CB_SEQUENCE.
        11 => {
            walk.skip(SESSIONID + 4 * 4)?;
            walk.each(|walk| {
                walk.skip(SESSIONID)?;
                walk.array(2 * 4)
            })
        }
        // CB_WANTS_CANCELLED.
        12 => walk.skip(2 * 4),
        // CB_NOTIFY_LOCK.
        13 => {
            walk.file_handle()?;
            walk.owner()
        }
        // CB_NOTIFY_DEVICEID: `notify4` is laid out as `fattr4` is.
        14 => walk.each(Walk::attributes),
        // CB_OFFLOAD.
        15 => {
            walk.file_handle()?;
            walk.skip(STATEID)?;
            if walk.u32()? == 0 {
                walk.operation.count = Some(walk.write_response()?);
                Ok(())
            } else {
                walk.length()
            }
        }
        ILLEGAL => Ok(()),
        _ => Err(walk.no_such_arm()),
    }
}

/// Walks the result of callback operation `code`.
pub(super) fn results(code: u32, walk: &mut Walk<'_, '_>) -> Outcome {
    if !matches!(code, 3..=15 | ILLEGAL) {
        return unknown(walk);
    }
    match (code, walk.status()?) {
        // CB_GETATTR.
        (3, true) => walk.attributes(),
        // CB_SEQUENCE.
        (11, true) => walk.skip(SESSIONID + 4 * 4),
        _ => Ok(()),
    }
}
