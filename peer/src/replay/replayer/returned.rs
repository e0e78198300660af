//! Returns delegations that the target grants and the recorded server did not.
//!
//! No recorded call returns them, and a target refuses to destroy the client ID while one is held
//! (NFS4ERR_CLIENTID_BUSY; RFC 8881, section 18.50.3). So they are returned at once.

use super::{Link, Replayer};
use crate::peer::Peer;
use crate::replay::fields::{self, Field, Fields, Kind};
use crate::replay::recording::Call;
use crate::replay::slots::{Sequence, Taken};
use crate::rpcrdma;
use crate::time::Instant;
use alloc::vec::Vec;
use rdmascope_wire::Xid;
use rdmascope_wire::nfs::nfs_opnum4::{DELEGRETURN, PUTFH, SEQUENCE};
use rdmascope_wire::xdr::{put_opaque, put_u32};

/// The claim of an OPEN of the current filehandle (RFC 8881, section 18.16.1).
const CLAIM_FH: u32 = 4;

/// A DELEGRETURN that is to be made or is outstanding.
#[derive(Clone, Debug)]
pub(super) struct Return {
    connection: usize,
    message: Vec<u8>,
    taken: Taken,
    /// Its XID, and the time at which it is given up.
    made: Option<(Xid, Instant)>,
}

impl Replayer {
    /// Returns the delegation of this reply, unless the recorded reply has one too.
    pub(super) fn return_delegation(
        &mut self,
        call: &Call,
        recorded: &Fields,
        live: &Fields,
        streams: [&[u8]; 2],
    ) {
        let Some(stateid) = delegation(live, streams[1]) else { return };
        if delegation(recorded, streams[0]).is_some() {
            return;
        }
        let handle = live.list.iter().rfind(|field| field.kind == Kind::Handle);
        let handle = handle.map(|field| field.bytes(streams[1], &[]).to_vec());
        if let Some(handle) = handle.or_else(|| self.opened_by_handle(call)) {
            let made = self.delegreturn(call, &handle, &stateid);
            self.returns.extend(made);
        }
    }

    /// The target's handle of the file that an OPEN with CLAIM_FH opens. No GETFH follows it: the
    /// call has the handle.
    fn opened_by_handle(&self, call: &Call) -> Option<Vec<u8>> {
        let (call_fields, _) = fields::of_call(&call.message);
        let is_open = |field: &Field| field.operation.is_some_and(|(_, name)| name == "OPEN");
        let first = call_fields.list.iter().position(is_open)?;
        let claim = call_fields.list.iter().find(|field| is_open(field) && field.name == "claim")?;
        (claim.bytes(&call.message, &[]) == CLAIM_FH.to_be_bytes()).then_some(())?;
        let handle = call_fields.list[..first].iter().rfind(|field| field.kind == Kind::Handle)?;
        self.names.live(Kind::Handle, handle.bytes(&call.message, &[])).map(<[u8]>::to_vec)
    }

    fn delegreturn(&mut self, call: &Call, handle: &[u8], stateid: &[u8]) -> Option<Return> {
        let (call_fields, _) = fields::of_call(&call.message);
        let bytes = |name| {
            let field = call_fields.list.iter().find(|field| field.name == name)?;
            Some(field.bytes(&call.message, &[]))
        };
        let sequence = Sequence::of(&call_fields, &call.message)?;
        let session = self.names.live(Kind::Session, &sequence.session)?.to_vec();
        let mut message = alloc::vec![0; 4];
        message.extend_from_slice(bytes(fields::HEADER)?);
        put_opaque(&mut message, &[]);
        message.extend_from_slice(bytes("minorversion")?);
        let taken = self.slots.take_more(&sequence)?;
        let (number, slot) = taken.live;
        put_u32(&mut message, 3);
        put_u32(&mut message, SEQUENCE);
        message.extend_from_slice(&session);
        [number, slot, taken.highest, 0].into_iter().for_each(|word| put_u32(&mut message, word));
        put_u32(&mut message, PUTFH);
        put_opaque(&mut message, handle);
        put_u32(&mut message, DELEGRETURN);
        message.extend_from_slice(stateid);
        Some(Return { connection: call.connection, message, taken, made: None })
    }

    /// Makes the calls that were not made yet, and gives up those whose reply is late. Returns
    /// whether none is left.
    pub(super) fn all_returned(&mut self, peer: &mut Peer, now: Instant) -> bool {
        let mut returns = core::mem::take(&mut self.returns);
        returns.retain_mut(|one| {
            let is_out = match one.made {
                Some((_, until)) => now < until,
                None => self.make(peer, now, one),
            };
            if let (false, Some((xid, _))) = (is_out, one.made) {
                self.cancel(peer, one.connection, xid);
            }
            if !is_out {
                self.slots.end(&one.taken, [true, false], None);
            }
            is_out
        });
        self.returns = returns;
        self.returns.is_empty()
    }

    fn make(&mut self, peer: &mut Peer, now: Instant, one: &mut Return) -> bool {
        let Link::Open(id) = self.links[one.connection] else { return false };
        // The XIDs after those of the recorded calls.
        let xid = self.options.first_xid.0.wrapping_add(self.recording.calls.len() as u32 + self.returned);
        self.returned = self.returned.wrapping_add(1);
        super::set_xid(&mut one.message, Xid(xid));
        one.made = Some((Xid(xid), now.plus(self.options.timeout)));
        let made = rpcrdma::Call { message: core::mem::take(&mut one.message), ..rpcrdma::Call::default() };
        peer.call(id, made).is_ok()
    }

    /// Whether a reply, or another event that ends a call, belongs to one of these calls. `reply`
    /// is the Payload stream.
    pub(super) fn is_returned(&mut self, connection: usize, xid: Xid, reply: Option<&[u8]>) -> bool {
        let is_it =
            |one: &Return| one.connection == connection && one.made.is_some_and(|(made, _)| made == xid);
        let Some(at) = self.returns.iter().position(is_it) else { return false };
        let one = self.returns.remove(at);
        let compound = (rdmascope_wire::rpc::program::NFS, 4, 1);
        let sequence =
            reply.and_then(|stream| Sequence::of(&fields::of_reply(Some(compound), stream, &[]), stream));
        self.slots.end(&one.taken, [true, sequence.is_some()], sequence.as_ref());
        true
    }

    /// The time at which the first one is given up.
    pub(super) fn returns_until(&self) -> Option<Instant> {
        self.returns.iter().filter_map(|one| one.made.map(|(_, until)| until)).min()
    }
}

/// The stateid of the delegation that the reply to an OPEN grants, with its seqid.
fn delegation(fields: &Fields, stream: &[u8]) -> Option<Vec<u8>> {
    let is_of = |field: &&Field| {
        field.part == fields::Part::Grant && field.operation.is_some_and(|(_, name)| name == "OPEN")
    };
    let mut granted = fields.list.iter().filter(is_of);
    let kind = granted.next()?.bytes(stream, &[]);
    // OPEN_DELEGATE_READ, _WRITE, and those with times (RFC 9754).
    matches!(kind, [0, 0, 0, 1 | 2 | 4 | 5]).then_some(())?;
    let (seqid, other) = (granted.next()?, granted.next()?);
    Some([seqid.bytes(stream, &[]), other.bytes(stream, &[])].concat())
}
