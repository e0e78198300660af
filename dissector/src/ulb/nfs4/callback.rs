//! Callback operations: `nfs_cb_argop4` and `nfs_cb_resop4`. None has a DDP-eligible item (RFC
//! 8267, section 6.5).

use super::super::Outcome;
use super::super::rows::{nothing, operations, status, success};
use super::super::state::FactKind;
use super::super::walk::Walk;
use super::parts::{FHSIZE, SESSIONID, attributes, two_flags, word};

operations! {
    /// Operations of a CB_COMPOUND, `nfs_cb_opnum4`, of all minor versions.
    pub enum Callback {
        from "RFC 7531", Some(0) => {
                3 Getattr            "CB_GETATTR"              principal Nothing, getattr,          success(attributes);
                4 Recall             "CB_RECALL"               principal Nothing, recall,           status();
            10044 Illegal            "CB_ILLEGAL"              principal Nothing, nothing,          status();
        }
        from "RFC 5662", Some(1) => {
                5 Layoutrecall       "CB_LAYOUTRECALL"         principal Nothing, layoutrecall,     status();
                6 Notify             "CB_NOTIFY"               principal Nothing, notify,           status();
                7 PushDeleg          "CB_PUSH_DELEG"           principal Nothing, push_deleg,       status();
                8 RecallAny          "CB_RECALL_ANY"           principal Nothing, word_and_bitmap,  status();
                9 RecallableObjAvail "CB_RECALLABLE_OBJ_AVAIL" principal Nothing, word_and_bitmap,  status();
               10 RecallSlot         "CB_RECALL_SLOT"          principal Nothing, word,      status();
               11 Sequence           "CB_SEQUENCE"             auxiliary Nothing, sequence,         success(sequenced);
               12 WantsCancelled     "CB_WANTS_CANCELLED"      principal Nothing, two_flags, status();
               13 NotifyLock         "CB_NOTIFY_LOCK"          principal Nothing, notify_lock,      status();
               14 NotifyDeviceid     "CB_NOTIFY_DEVICEID"      principal Nothing, notify_deviceid,  status();
        }
        from "RFC 7863", Some(2) => {
               15 Offload            "CB_OFFLOAD"              principal Nothing, offload,          status();
        }
    }
}

fn getattr(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle(FHSIZE)?;
    walk.bitmap()
}

fn recall(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.argument_stateid()?;
    walk.flag()?;
    walk.file_handle(FHSIZE)
}

fn layoutrecall(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(4)?;
    let mode = walk.layout_mode()?;
    walk.flag()?;
    let extent = walk.u32()?;
    walk.facts.add(FactKind::Layout { mode, extent });
    match extent {
        // LAYOUTRECALL4_FILE.
        1 => {
            walk.file_handle(FHSIZE)?;
            walk.range()?;
            walk.argument_stateid()
        }
        // LAYOUTRECALL4_FSID.
        2 => walk.skip(2 * 8),
        // LAYOUTRECALL4_ALL.
        3 => Ok(()),
        _ => Err(walk.no_such_arm()),
    }
}

fn notify(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.argument_stateid()?;
    walk.file_handle(FHSIZE)?;
    walk.each(Walk::attributes)
}

fn push_deleg(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle(FHSIZE)?;
    walk.delegation()
}

/// CB_RECALL_ANY and CB_RECALLABLE_OBJ_AVAIL.
fn word_and_bitmap(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.skip(4)?;
    walk.bitmap()
}

fn sequence(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.sequence()?;
    walk.each(|walk| {
        walk.skip(SESSIONID)?;
        walk.array(2 * 4)
    })
}

fn notify_lock(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle(FHSIZE)?;
    walk.owner()
}

/// CB_NOTIFY_DEVICEID. A `notify4` has the layout of a `fattr4`.
fn notify_deviceid(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.each(Walk::attributes)
}

fn offload(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.file_handle(FHSIZE)?;
    let id = walk.sixteen()?;
    walk.session.offload = Some(id);
    walk.facts.add(FactKind::ArgumentStateId(id));
    let status = walk.u32()?;
    walk.facts.add(FactKind::OffloadStatus(status));
    if status == 0 {
        walk.operation.count = Some(walk.write_response()?);
        Ok(())
    } else {
        walk.length()
    }
}

fn sequenced(walk: &mut Walk<'_, '_>) -> Outcome {
    walk.sequenced(false)
}
