//! `nfs_argop4`: the arguments of each operation.

use super::super::Outcome;
use super::super::state::FactKind;
use super::super::walk::Walk;
use super::parts::{BACK, CONN_BACK_CHAN, DEVICEID, FHSIZE, TIME, VERIFIER, longest_attributes, two_flags};
use core::num::NonZeroU16;
use rdmascope_wire::nfs::open_claim_type4;

pub(super) fn close(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(4)?;
    walk.argument_stateid()
}

pub(super) fn commit(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.offset()?;
    walk.count()
}

pub(super) fn create(walk: &mut Walk<'_, '_>) -> Outcome {
    // An nfs_ftype4.
    match walk.constant(1..=9)? {
        // NF4LNK.
        5 => walk.argument_link()?,
        // NF4BLK and NF4CHR.
        3 | 4 => walk.skip(8)?,
        _ => {}
    }
    walk.file_name()?;
    walk.attributes()
}

pub(super) fn getattr(walk: &mut Walk<'_, '_>) -> Outcome {
    let mut ahead = *walk.payload;
    walk.bitmap()?;
    let longest = longest_attributes(&mut ahead)?;
    walk.operation.longest_result =
        longest.and_then(|bytes| u16::try_from(bytes).ok()).and_then(NonZeroU16::new);
    Ok(())
}

pub(super) fn lock(walk: &mut Walk<'_, '_>) -> Outcome {
    let kind = walk.lock_type()?;
    let reclaims = walk.flag()?;
    walk.range()?;
    let owner = if walk.bool()? {
        walk.skip(4)?;
        walk.argument_stateid()?;
        walk.skip(4)?;
        Some(walk.lock_owner()?)
    } else {
        walk.argument_stateid()?;
        walk.skip(4)?;
        None
    };
    walk.facts.add(FactKind::Lock { kind, owner, reclaims });
    Ok(())
}

pub(super) fn lockt(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.lock_type()?;
    walk.range()?;
    walk.owner()
}

pub(super) fn locku(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.lock_type()?;
    walk.skip(4)?;
    walk.argument_stateid()?;
    walk.range()
}

pub(super) fn open(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(4)?;
    walk.shares()?;
    let client = walk.state_owner()?;
    // OPEN4_CREATE.
    if walk.constant(0..=1)? == 1 {
        match walk.u32()? {
            // UNCHECKED4 and GUARDED4.
            0 | 1 => walk.settable_attributes()?,
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
    let claim = walk.u32()?;
    walk.facts.add(FactKind::Open { client, claim });
    match claim {
        open_claim_type4::NULL | open_claim_type4::DELEGATE_PREV => walk.file_name(),
        // An open_delegation_type4, with those of RFC 9754.
        open_claim_type4::PREVIOUS => walk.constant(0..=5).map(|_| ()),
        open_claim_type4::DELEGATE_CUR => {
            walk.argument_stateid()?;
            walk.file_name()
        }
        open_claim_type4::FH | open_claim_type4::DELEG_PREV_FH => Ok(()),
        open_claim_type4::DELEG_CUR_FH => walk.argument_stateid(),
        _ => Err(walk.no_such_arm()),
    }
}

pub(super) fn open_confirm(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.argument_stateid()?;
    walk.skip(4)
}

pub(super) fn open_downgrade(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.argument_stateid()?;
    walk.skip(4)?;
    walk.shares()
}

pub(super) fn putfh(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle(FHSIZE)
}

/// READ and READ_PLUS.
pub(super) fn read(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.argument_stateid()?;
    walk.offset()?;
    walk.count()
}

pub(super) fn readdir(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(8 + VERIFIER + 4)?;
    walk.count()?;
    walk.bitmap()
}

pub(super) fn rename(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_name()?;
    walk.other_name()
}

pub(super) fn setattr(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.argument_stateid()?;
    walk.settable_attributes()
}

pub(super) fn setclientid(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.client_owner()?;
    walk.skip(4)?;
    walk.network_address()?;
    walk.skip(4)
}

pub(super) fn write(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.argument_stateid()?;
    walk.offset()?;
    walk.operation.stable[0] = walk.stable()?;
    walk.operation.count = Some(walk.argument_item()?.into());
    Ok(())
}

pub(super) fn backchannel_ctl(walk: &mut Walk<'_, '_>) -> Outcome {
    let program = walk.u32()?;
    walk.backchannel().program = Some(program);
    walk.each(callback_security)
}

pub(super) fn bind_conn_to_session(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.session_id()?;
    let direction = walk.u32()?;
    walk.backchannel().offered = Some(direction & BACK != 0);
    // CDFC4_FORE, CDFC4_BACK, CDFC4_FORE_OR_BOTH and CDFC4_BACK_OR_BOTH.
    walk.payload.allow(matches!(direction, 1 | 2 | 3 | 7));
    walk.flag().map(|_| ())
}

pub(super) fn exchange_id(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.client_owner()?;
    walk.skip(4)?;
    state_protection(walk)?;
    walk.each(Walk::implementation)
}

pub(super) fn create_session(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.client()?;
    walk.session.create_sequence = Some(walk.u32()?);
    let flags = walk.u32()?;
    walk.backchannel().offered = Some(flags & CONN_BACK_CHAN != 0);
    walk.channel_attributes()?;
    let requested = walk.channel_attributes()?;
    let program = walk.u32()?;
    let backchannel = walk.backchannel();
    (backchannel.requested, backchannel.program) = (Some(requested), Some(program));
    walk.each(callback_security)
}

pub(super) fn get_dir_delegation(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.flag()?;
    walk.bitmap()?;
    walk.skip(2 * TIME)?;
    walk.bitmap()?;
    walk.bitmap()
}

pub(super) fn getdeviceinfo(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(DEVICEID + 4)?;
    walk.count()?;
    walk.bitmap()
}

pub(super) fn getdevicelist(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(2 * 4 + 8 + VERIFIER)
}

pub(super) fn layoutcommit(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.range()?;
    walk.flag()?;
    walk.argument_stateid()?;
    walk.optional(8)?;
    walk.optional(TIME)?;
    walk.typed_body()
}

pub(super) fn layoutget(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.flag()?;
    walk.skip(4)?;
    let mode = walk.layout_mode()?;
    walk.facts.add(FactKind::Layout { mode, extent: 1 });
    walk.range()?;
    walk.skip(8)?;
    walk.argument_stateid()?;
    walk.skip(4)
}

pub(super) fn layoutreturn(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.flag()?;
    walk.skip(4)?;
    let (mode, extent) = (walk.layout_mode()?, walk.constant(1..=3)?);
    walk.facts.add(FactKind::Layout { mode, extent });
    // LAYOUTRETURN4_FILE.
    if extent == 1 {
        walk.range()?;
        walk.argument_stateid()?;
        walk.opaque()?;
    }
    Ok(())
}

pub(super) fn secinfo_no_name(walk: &mut Walk<'_, '_>) -> Outcome {
    // A secinfo_style4.
    walk.constant(0..=1).map(|_| ())
}

pub(super) fn sequence(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.sequence()
}

pub(super) fn set_ssv(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.opaque()?;
    walk.opaque().map(|_| ())
}

pub(super) fn want_delegation(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(4)?;
    match walk.u32()? {
        open_claim_type4::FH | open_claim_type4::DELEG_PREV_FH => Ok(()),
        open_claim_type4::PREVIOUS => walk.constant(0..=5).map(|_| ()),
        _ => Err(walk.no_such_arm()),
    }
}

/// ALLOCATE and DEALLOCATE.
pub(super) fn allocate(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.argument_stateid()?;
    walk.range()
}

/// COPY. The stored range is that in the destination, the current file handle.
pub(super) fn copy(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.argument_stateid()?;
    walk.argument_stateid()?;
    copied_range(walk)?;
    two_flags(walk)?;
    walk.each(Walk::network_location)
}

pub(super) fn copy_notify(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.argument_stateid()?;
    walk.network_location()
}

pub(super) fn io_advise(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.argument_stateid()?;
    walk.range()?;
    walk.bitmap()
}

pub(super) fn layouterror(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.range()?;
    walk.argument_stateid()?;
    walk.array(DEVICEID + 2 * 4)
}

pub(super) fn layoutstats(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.range()?;
    walk.argument_stateid()?;
    walk.skip(2 * 16 + DEVICEID)?;
    walk.typed_body()
}

pub(super) fn seek(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.argument_stateid()?;
    walk.offset()?;
    // A data_content4.
    walk.constant(0..=1).map(|_| ())
}

pub(super) fn write_same(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.argument_stateid()?;
    walk.stable()?;
    walk.offset()?;
    let size = walk.payload.u64()?;
    let blocks = walk.payload.u64()?;
    walk.operation.count = size.checked_mul(blocks);
    walk.skip(8 + 4 + 8)?;
    walk.opaque().map(|_| ())
}

pub(super) fn clone(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.argument_stateid()?;
    walk.argument_stateid()?;
    copied_range(walk)
}

/// Walks the offsets in the source and in the destination, and the count.
fn copied_range(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.offset()?;
    walk.skip(8)?;
    walk.length()
}

pub(super) fn setxattr(walk: &mut Walk<'_, '_>) -> Outcome {
    // A setxattr_option4.
    walk.constant(0..=2)?;
    walk.file_name()?;
    walk.operation.count = Some(walk.opaque()?.into());
    Ok(())
}

pub(super) fn listxattrs(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(8)?;
    walk.count()
}

/// Walks a `callback_sec_parms4`.
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
            walk.gss_service()?;
            walk.opaque()?;
            walk.opaque().map(|_| ())
        }
        _ => Err(walk.no_such_arm()),
    }
}

/// Walks a `state_protect4_a`.
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

pub(super) fn release_lockowner(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.owner()
}

pub(super) fn reclaim_complete(walk: &mut Walk<'_, '_>) -> Outcome {
    let one_fs = walk.flag()?;
    walk.facts.add(FactKind::ReclaimComplete { one_fs });
    Ok(())
}

pub(super) fn setclientid_confirm(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.client()?;
    walk.skip(VERIFIER)
}
