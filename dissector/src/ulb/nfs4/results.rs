//! `nfs_resop4`: the result of each operation, after its status.

use super::super::Outcome;
use super::super::state::FactKind;
use super::super::walk::Walk;
use super::parts::{BACK, CONN_BACK_CHAN, DEVICEID, FHSIZE, SESSIONID, TIME, VERIFIER, two_flags};
use rdmascope_wire::nfs::nfsstat4;

pub(super) fn verifier(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(VERIFIER)
}

pub(super) fn change_info(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.change_info()
}

pub(super) fn created(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.change_info()?;
    walk.bitmap()
}

pub(super) fn file_handle(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.result_file_handle(FHSIZE)
}

/// LOCK and LOCKT: the owner of the conflicting lock.
pub(super) fn denied(walk: &mut Walk<'_, '_>) -> Outcome {
    if walk.operation.status == Some(nfsstat4::DENIED) {
        walk.skip(8 + 8)?;
        walk.lock_type()?;
        walk.owner()?;
    }
    Ok(())
}

pub(super) fn opened(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.result_stateid()?;
    walk.change_info()?;
    walk.skip(4)?;
    walk.bitmap()?;
    walk.delegation()
}

pub(super) fn read_data(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.end_of_file()?;
    walk.operation.result_count = Some(walk.result_item()?.into());
    Ok(())
}

pub(super) fn entries(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(VERIFIER)?;
    let begin = walk.payload.reader().position();
    walk.entries(|walk| {
        walk.skip(8)?;
        Ok((walk.payload.opaque()?, walk.file_handle_attribute()?))
    })?;
    walk.end_of_entries(begin)
}

pub(super) fn link_text(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.result_link()
}

/// The two directories that RENAME changed.
pub(super) fn both_changed(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.change_info()?;
    walk.change_info()
}

/// SECINFO and SECINFO_NO_NAME.
pub(super) fn flavors(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.each(|walk| {
        // RPCSEC_GSS.
        if walk.u32()? == 6 {
            walk.opaque()?;
            walk.skip(4)?;
            walk.gss_service()?;
        }
        Ok(())
    })
}

/// SETCLIENTID: the client that uses the name.
pub(super) fn in_use(walk: &mut Walk<'_, '_>) -> Outcome {
    match walk.operation.status {
        Some(nfsstat4::CLID_INUSE) => walk.network_address(),
        _ => Ok(()),
    }
}

pub(super) fn written(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.result_count()?;
    walk.operation.stable[1] = walk.stable()?;
    walk.skip(VERIFIER)
}

pub(super) fn bound(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(SESSIONID)?;
    // CDFS4_FORE, CDFS4_BACK and CDFS4_BOTH.
    let direction = walk.constant(1..=3)?;
    walk.backchannel().taken = Some(direction & BACK != 0);
    walk.flag().map(|_| ())
}

pub(super) fn exchanged(walk: &mut Walk<'_, '_>) -> Outcome {
    let client = walk.payload.u64()?;
    walk.skip(4)?;
    let flags = walk.u32()?;
    walk.facts.add(FactKind::ResultClient { client, flags });
    state_protection(walk)?;
    // so_minor_id. It does not identify servers, but connections that a session may be bound to.
    walk.skip(8)?;
    walk.server()?;
    walk.each(Walk::implementation)
}

pub(super) fn session_created(walk: &mut Walk<'_, '_>) -> Outcome {
    let session = walk.sixteen()?;
    walk.session.created_sequence = Some(walk.u32()?);
    let flags = walk.u32()?;
    walk.backchannel().taken = Some(flags & CONN_BACK_CHAN != 0);
    let fore = walk.channel_attributes()?;
    walk.session.created = Some((session, fore));
    let granted = walk.channel_attributes()?;
    walk.backchannel().granted = Some(granted);
    Ok(())
}

pub(super) fn directory_delegation(walk: &mut Walk<'_, '_>) -> Outcome {
    match walk.u32()? {
        // GDD4_OK.
        0 => {
            walk.skip(VERIFIER)?;
            let id = walk.sixteen()?;
            walk.facts.add(FactKind::Delegation { id, writes: false });
            walk.bitmap()?;
            walk.bitmap()?;
            walk.bitmap()
        }
        // GDD4_UNAVAIL.
        1 => walk.flag().map(|_| ()),
        _ => Err(walk.no_such_arm()),
    }
}

pub(super) fn device(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.typed_body()?;
    walk.bitmap()
}

/// GETDEVICEINFO: gdir_mincount.
pub(super) fn too_small(walk: &mut Walk<'_, '_>) -> Outcome {
    if_status(walk, nfsstat4::TOOSMALL, 4)
}

pub(super) fn devices(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(8 + VERIFIER)?;
    walk.array(DEVICEID)?;
    walk.end_of_file()
}

pub(super) fn new_size(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.optional(8)
}

pub(super) fn layouts(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.flag()?;
    walk.result_stateid()?;
    walk.each(|walk| {
        walk.skip(8 + 8)?;
        walk.layout_mode()?;
        walk.typed_body()
    })
}

/// LAYOUTGET: logr_will_signal_layout_avail.
pub(super) fn try_later(walk: &mut Walk<'_, '_>) -> Outcome {
    match walk.operation.status {
        Some(nfsstat4::LAYOUTTRYLATER) => walk.flag().map(|_| ()),
        _ => Ok(()),
    }
}

/// LAYOUTRETURN: the stateid, if layouts of the file are left.
pub(super) fn layouts_left(walk: &mut Walk<'_, '_>) -> Outcome {
    if walk.bool()? {
        return walk.result_stateid();
    }
    walk.facts.add(FactKind::NoLayoutLeft);
    Ok(())
}

pub(super) fn sequenced(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.sequenced(true)
}

pub(super) fn delegation(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.delegation()
}

pub(super) fn copied(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.operation.result_count = Some(walk.write_response()?);
    two_flags(walk)
}

/// COPY: the requirements that the server can meet instead.
pub(super) fn no_requirements(walk: &mut Walk<'_, '_>) -> Outcome {
    match walk.operation.status {
        Some(nfsstat4::OFFLOAD_NO_REQS) => two_flags(walk),
        _ => Ok(()),
    }
}

pub(super) fn copy_allowed(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(TIME)?;
    walk.result_stateid()?;
    walk.each(Walk::network_location)
}

pub(super) fn offload_status(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.result_length()?;
    // osr_complete: the status, if the operation has ended.
    walk.session.offload_ended = walk.payload.array(4)? > 0;
    Ok(())
}

/// READ_PLUS. Its data is not DDP-eligible: RFC 8267, section 6.1, lists four items.
pub(super) fn read_plus_data(walk: &mut Walk<'_, '_>) -> Outcome {
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

pub(super) fn sought(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.end_of_file()?;
    walk.skip(8)
}

pub(super) fn same_written(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.operation.result_count = Some(walk.write_response()?);
    Ok(())
}

pub(super) fn value(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.operation.result_count = Some(walk.opaque()?.into());
    Ok(())
}

pub(super) fn names(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(8)?;
    walk.each(|walk| walk.opaque().map(|_| ()))?;
    walk.end_of_file()
}

/// Skips `bytes` that follow this status.
fn if_status(walk: &mut Walk<'_, '_>, status: u32, bytes: u32) -> Outcome {
    match walk.operation.status == Some(status) {
        true => walk.skip(bytes),
        false => Ok(()),
    }
}

/// Walks a `state_protect4_r`.
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

/// SETCLIENTID.
pub(super) fn client_given(walk: &mut Walk<'_, '_>) -> Outcome {
    let client = walk.payload.u64()?;
    walk.facts.add(FactKind::ResultClient { client, flags: 0 });
    walk.skip(VERIFIER)
}
