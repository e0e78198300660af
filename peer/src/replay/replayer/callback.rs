//! Answers calls of the target with the recorded replies, or with a generic reply if it was not
//! recorded.

use super::{Replayer, Subject, Verdict, set_xid};
use crate::endpoint::ConnectionId;
use crate::peer::Peer;
use crate::replay::compare::{self, Comparison};
use crate::replay::fields::{self, Field, Place};
use crate::replay::recording::Answer;
use crate::replay::slots::Sequence;
use crate::rpcrdma::{Called, RecordedReply};
use alloc::sync::Arc;
use alloc::vec::Vec;
use rdmascope_wire::nfs::nfs_cb_opnum4::{CB_GETATTR, CB_LAYOUTRECALL, CB_PUSH_DELEG, CB_SEQUENCE};
use rdmascope_wire::nfs::nfsstat4;
use rdmascope_wire::rpc;
use rdmascope_wire::xdr::{put_opaque, put_u32};

impl Replayer {
    pub(super) fn called(&mut self, peer: &mut Peer, index: usize, id: ConnectionId, called: &Called) {
        let recording = Arc::clone(&self.recording);
        let found = self
            .expected(index)
            .map(|number| (number, &recording.calls[number]))
            .map(|(number, call)| (number, call, compare::calls(&call.message, &called.message)))
            .find(|(.., comparison)| comparison.differences.is_empty());
        let Some((number, call, comparison)) = found else {
            let procedure = fields::of_call(&called.message).1;
            self.record(
                Subject::Extra(index, procedure),
                Verdict::NotCompared("the recording has no such call"),
            );
            let stream = generic(called);
            return answer(peer, id, called, Some(RecordedReply { stream, ..RecordedReply::default() }));
        };
        self.done[number] = true;
        self.record(
            Subject::Call(number),
            Verdict::Agrees(Comparison { differences: Vec::new(), ..comparison }),
        );
        match &call.answer {
            Answer::Reply { stream, items, conveyance, .. } => {
                let procedure = fields::of_call(&call.message).1;
                let named = fields::of_reply(procedure, stream, items);
                let slot = Sequence::of(&named, stream);
                let mut stream = self.names.substitute(stream, &[], &named).message;
                set_xid(&mut stream, called.xid);
                let sequence = Sequence::of(&fields::of_call(&called.message).0, &called.message);
                if let (Some(slot), Some(sequence)) = (slot, sequence) {
                    // The target may call on another slot; the reply must name the slot of the
                    // call.
                    slot.put(&[sequence.turn.0, sequence.turn.1], &mut stream);
                }
                let reply = RecordedReply { stream, items: items.clone(), conveyance: conveyance.clone() };
                answer(peer, id, called, Some(reply));
            }
            Answer::Error { .. } => {
                if let Some((session, endpoint)) = peer.session_mut(id) {
                    // The connection may be closed by now.
                    let _ = session.reply_error(endpoint, called.xid);
                }
            }
            Answer::Nothing | Answer::Unknown { .. } => answer(peer, id, called, None),
        }
    }
}

/// Sends a reply, or drops the call if there is none.
fn answer(peer: &mut Peer, id: ConnectionId, called: &Called, reply: Option<RecordedReply>) {
    let Some((session, endpoint)) = peer.session_mut(id) else { return };
    match reply {
        // The connection may be closed by now.
        Some(reply) => drop(session.reply_recorded(endpoint, called.xid, reply)),
        None => session.forget(called.xid),
    }
}

/// The status of an operation in a callback that was not recorded. This end has no files and no
/// layouts, and wants no delegations.
fn status_of(operation: u32) -> u32 {
    match operation {
        CB_GETATTR => nfsstat4::BADHANDLE,
        CB_LAYOUTRECALL => nfsstat4::NOMATCHING_LAYOUT,
        CB_PUSH_DELEG => nfsstat4::REJECT_DELEG,
        _ => nfsstat4::OK,
    }
}

/// The reply to a callback that was not recorded.
fn generic(called: &Called) -> Vec<u8> {
    let (fields, procedure) = fields::of_call(&called.message);
    let mut stream = Vec::new();
    let status = match procedure {
        Some((.., 0)) => rpc::Status::Success,
        Some((.., 1)) if fields.understood => rpc::Status::Success,
        _ => rpc::Status::ProcedureUnavailable,
    };
    rpc::Reply { xid: called.xid, status, verifier: None }.build(&mut stream);
    if status != rpc::Status::Success || !matches!(procedure, Some((.., 1))) {
        return stream;
    }
    let bytes = |field: &Field| field.bytes(&called.message, &[]);
    let mut results = Vec::new();
    let (mut count, mut last) = (0, 0);
    let operations = fields.list.iter().enumerate().filter(|(_, field)| field.name == "argop");
    for (at, field) in operations {
        let Some(code) = bytes(field).first_chunk().map(|word| u32::from_be_bytes(*word)) else { break };
        last = status_of(code);
        put_u32(&mut results, code);
        put_u32(&mut results, last);
        count += 1;
        if code == CB_SEQUENCE {
            // Session ID, sequence ID, slot ID and highest slot ID are those of the call; the
            // target highest slot ID is the highest slot ID.
            let arguments = fields.list.iter().skip(at + 1).take(4);
            arguments.for_each(|field| results.extend_from_slice(bytes(field)));
            let highest = fields.list.get(at + 4).map_or(&[0; 4][..], bytes);
            results.extend_from_slice(highest);
        }
        if last != 0 {
            break;
        }
    }
    let tag = fields.list.iter().find(|field| field.name == "tag" && matches!(field.place, Place::Stream(_)));
    put_u32(&mut stream, last);
    put_opaque(&mut stream, tag.map_or(&[], bytes));
    put_u32(&mut stream, count);
    stream.extend(results);
    stream
}
