//! An NFSv4.1 session for callbacks: a read delegation, and a conflicting call of another client
//! (RFC 8881, sections 2.10 and 10.4). It implements only the needs of scenarios, and removes the
//! file that it creates.

use super::payload::compound;
use alloc::collections::VecDeque;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use rdmascope_wire::nfs::nfs_cb_opnum4::{CB_RECALL, CB_SEQUENCE};
use rdmascope_wire::nfs::nfs_opnum4::{
    CREATE_SESSION, DELEGRETURN, EXCHANGE_ID, LOOKUP, OPEN, PUTROOTFH, RECLAIM_COMPLETE, REMOVE, SEQUENCE,
};
use rdmascope_wire::nfs::nfsstat4;
use rdmascope_wire::rpc::{self, Reply, Status};
use rdmascope_wire::xdr::{Reader, put_opaque, put_u32, put_u64};
use rdmascope_wire::{Layer, Stop};

/// CREATE_SESSION4_FLAG_CONN_BACK_CHAN.
const BACKCHANNEL: u32 = 2;
/// OPEN4_SHARE_ACCESS_READ, with OPEN4_SHARE_ACCESS_WANT_READ_DELEG or
/// OPEN4_SHARE_ACCESS_WANT_NO_DELEG.
const READ_WITH_DELEGATION: u32 = 0x101;
const READ_WITHOUT_DELEGATION: u32 = 0x401;
/// A callback program in the transient range (RFC 5531, section 13.1).
const CALLBACK_PROGRAM: u32 = 0x4000_0000;
/// OPEN_DELEGATE_READ. An OPEN_DELEGATE_WRITE is returned as well.
const DELEGATE_READ: u32 = 1;
const DELEGATE_WRITE: u32 = 2;

/// A call of the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Request {
    ExchangeId,
    CreateSession,
    ReclaimComplete,
    /// Creates the file.
    Create,
    /// Opens the file again, for the delegation.
    Open,
    /// Removes the file outside the session, so that the server recalls the delegation. The runner
    /// does not wait for the reply.
    Remove,
    ReturnDelegation,
    /// Removes the file once no delegation prevents it.
    RemoveAtLast,
}

/// A session and its state.
#[derive(Clone, Debug, Default)]
pub(super) struct Nfs41 {
    backchannel: bool,
    /// The next calls.
    pub(super) plan: VecDeque<Request>,
    owner: Vec<u8>,
    client: u64,
    sequence: u32,
    session: Vec<u8>,
    /// The sequence ID of the only slot.
    slot: u32,
    /// Type and stateid of the delegation.
    delegation: Option<(u32, Vec<u8>)>,
    /// Whether the file exists, or may exist.
    file: bool,
}

impl Nfs41 {
    /// Creates a session. The client's owner contains `number`.
    pub(super) fn new(number: u32, backchannel: bool) -> Nfs41 {
        let plan = [Request::ExchangeId, Request::CreateSession, Request::ReclaimComplete].into();
        Nfs41 { backchannel, plan, owner: format!("rdmascope-{number:08x}").into(), ..Nfs41::default() }
    }

    /// Plans the calls that cause a callback.
    pub(super) fn plan_recall(&mut self) {
        self.plan = [Request::Create, Request::Open, Request::Remove].into();
    }

    /// Plans the calls that remove all state. Returns whether there are any.
    pub(super) fn plan_end(&mut self) -> bool {
        self.plan.clear();
        if self.file {
            self.plan.extend(self.delegation.is_some().then_some(Request::ReturnDelegation));
            self.plan.push_back(Request::RemoveAtLast);
        }
        !self.plan.is_empty()
    }

    /// Returns the name of the file that may be left on the target.
    pub(super) fn left(&self) -> Option<String> {
        self.file.then(|| String::from_utf8_lossy(&self.owner).into_owned())
    }

    /// Builds a call with this XID.
    pub(super) fn call(&mut self, request: Request, xid: u32) -> Vec<u8> {
        let outside = |count| compound(xid, 1, count);
        let mut out = match request {
            Request::ExchangeId | Request::CreateSession => outside(1),
            Request::Remove | Request::RemoveAtLast => compound(xid, 0, 2),
            Request::ReclaimComplete => self.inside(xid, 1),
            Request::Create | Request::Open => self.inside(xid, 2),
            Request::ReturnDelegation => self.inside(xid, 3),
        };
        let out_ref = &mut out;
        match request {
            Request::ExchangeId => {
                put_u32(out_ref, EXCHANGE_ID);
                // The verifier, constant for the client; no flags, SP4_NONE, no implementation ID.
                put_u64(out_ref, 1);
                put_opaque(out_ref, &self.owner);
                (0..3).for_each(|_| put_u32(out_ref, 0));
            }
            Request::CreateSession => {
                put_u32(out_ref, CREATE_SESSION);
                put_u64(out_ref, self.client);
                put_u32(out_ref, self.sequence);
                put_u32(out_ref, if self.backchannel { BACKCHANNEL } else { 0 });
                // Fore and back channel: header padding, sizes of requests, replies and cached
                // replies, operations, requests, no rdma_ird.
                for word in [0, 65536, 65536, 4096, 8, 1, 0, 0, 4096, 4096, 0, 2, 1, 0] {
                    put_u32(out_ref, word);
                }
                // AUTH_NONE for callbacks.
                [CALLBACK_PROGRAM, 1, 0].iter().for_each(|word| put_u32(out_ref, *word));
            }
            Request::ReclaimComplete => [RECLAIM_COMPLETE, 0].iter().for_each(|word| put_u32(out_ref, *word)),
            Request::Create | Request::Open => {
                let creates = request == Request::Create;
                self.file |= creates;
                let access = if creates { READ_WITHOUT_DELEGATION } else { READ_WITH_DELEGATION };
                // seqid, access, deny none
                [PUTROOTFH, OPEN, 0, access, 0].iter().for_each(|word| put_u32(out_ref, *word));
                put_u64(out_ref, self.client);
                put_opaque(out_ref, &self.owner);
                if creates {
                    // OPEN4_CREATE, UNCHECKED4, the attribute mode (33) with rw-r--r--.
                    [1, 0, 2, 0, 2, 4, 0o644].iter().for_each(|word| put_u32(out_ref, *word));
                } else {
                    put_u32(out_ref, 0);
                }
                // CLAIM_NULL
                put_u32(out_ref, 0);
                put_opaque(out_ref, &self.owner);
            }
            Request::Remove | Request::RemoveAtLast => {
                [PUTROOTFH, REMOVE].iter().for_each(|word| put_u32(out_ref, *word));
                put_opaque(out_ref, &self.owner);
            }
            Request::ReturnDelegation => {
                // DELEGRETURN needs the file as current filehandle.
                [PUTROOTFH, LOOKUP].iter().for_each(|word| put_u32(out_ref, *word));
                put_opaque(out_ref, &self.owner);
                put_u32(out_ref, DELEGRETURN);
                out_ref.extend(self.delegation.take().map(|(_, stateid)| stateid).unwrap_or_default());
            }
        }
        out
    }

    /// Builds a COMPOUND of `count` operations after SEQUENCE.
    fn inside(&mut self, xid: u32, count: u32) -> Vec<u8> {
        self.slot += 1;
        let mut out = compound(xid, 1, count + 1);
        put_u32(&mut out, SEQUENCE);
        out.extend(&self.session);
        // Slot 0, highest slot 0; the reply need not be cached.
        [self.slot, 0, 0, 0].iter().for_each(|word| put_u32(&mut out, *word));
        out
    }

    /// Handles the reply to a call, from the XID on. The error describes the unsuitable reply.
    pub(super) fn answered(&mut self, request: Request, message: &[u8]) -> Result<(), String> {
        let named = |reason| format!("{request:?}: {reason}");
        let mut reader = Reader::new(message, Layer::Rpc);
        let reply = Reply::parse(&mut reader).map_err(|stop| named(format!("{stop}")))?;
        if reply.status != Status::Success {
            self.file &= request != Request::Create;
            return Err(named(format!("{}", reply.status)));
        }
        let mut reader = Reader::new(reader.rest(), Layer::Rpc);
        let status = reader.u32().map_err(|stop| named(format!("{stop}")))?;
        match (request, status) {
            (_, 0) => {
                self.take(request, &mut reader).map_err(|stop| named(format!("{stop}")))?;
                let granted = self.delegation.as_ref().is_some_and(|(kind, _)| *kind == DELEGATE_READ);
                // Without a backchannel no delegation is expected.
                match request == Request::Open && self.backchannel && !granted {
                    true => Err("no read delegation was granted".into()),
                    false => Ok(()),
                }
            }
            (Request::Remove, nfsstat4::DELAY) => Ok(()),
            (Request::Remove | Request::RemoveAtLast, nfsstat4::NOENT) => {
                self.file = false;
                Ok(())
            }
            _ => {
                self.file &= request != Request::Create;
                Err(named(format!("NFS status {status}")))
            }
        }
    }

    fn take(&mut self, request: Request, reader: &mut Reader<'_>) -> Result<(), Stop> {
        // tag, number of results, operation and status of the first.
        reader.opaque()?;
        reader.fixed(12)?;
        match request {
            Request::ExchangeId => (self.client, self.sequence) = (reader.u64()?, reader.u32()?),
            Request::CreateSession => self.session = reader.fixed(16)?.to_vec(),
            Request::Open => {
                // SEQUENCE: session, five numbers; PUTROOTFH; OPEN: stateid, change, flags,
                // attributes set.
                reader.fixed(16 + 20 + 8 + 8 + 16 + 20 + 4)?;
                let words = reader.u32()?;
                reader.fixed(words.saturating_mul(4))?;
                let kind = reader.u32()?;
                if matches!(kind, DELEGATE_READ | DELEGATE_WRITE) {
                    self.delegation = Some((kind, reader.fixed(16)?.to_vec()));
                }
            }
            Request::ReclaimComplete | Request::Create | Request::ReturnDelegation => {}
            // No delegation prevented the removal.
            Request::Remove | Request::RemoveAtLast => self.file = false,
        }
        Ok(())
    }
}

/// Returns the results for a callback's message: NFS4_OK for each operation that scenarios cause,
/// and nothing for other messages (CB_NULL has no results).
pub(super) fn results(message: &[u8]) -> Vec<u8> {
    let read = || -> Result<Vec<u8>, Stop> {
        let mut reader = Reader::new(message, Layer::Rpc);
        rpc::Call::parse(&mut reader)?;
        let mut reader = Reader::new(reader.rest(), Layer::Rpc);
        // tag, minor version, callback_ident
        reader.opaque()?;
        reader.fixed(8)?;
        let count = reader.u32()?;
        let mut out = Vec::new();
        // NFS4_OK, no tag.
        [0, 0, count.min(2)].iter().for_each(|word| put_u32(&mut out, *word));
        if reader.u32()? == CB_SEQUENCE {
            let session = reader.fixed(16)?;
            let numbers = [reader.u32()?, reader.u32()?, reader.u32()?];
            put_u32(&mut out, CB_SEQUENCE);
            put_u32(&mut out, 0);
            out.extend(session);
            // Sequence ID, slot, highest slot, and target highest slot.
            numbers.iter().chain(&numbers[2..]).for_each(|number| put_u32(&mut out, *number));
            if count > 1 {
                [CB_RECALL, 0].iter().for_each(|word| put_u32(&mut out, *word));
            }
        }
        Ok(out)
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::payload::from_digits;

    // RFC 5662: COMPOUND4args, CREATE_SESSION4args with both channels and callback_sec_parms4.
    #[test]
    fn create_session_arguments() {
        let mut session = Nfs41::new(7, true);
        (session.client, session.sequence) = (0x0102_0304_0506_0708, 9);
        let arguments = from_digits(
            "00000000 00000001 00000001 0000002b 0102030405060708 00000009 00000002
            00000000 00010000 00010000 00001000 00000008 00000001 00000000
            00000000 00001000 00001000 00000000 00000002 00000001 00000000
            40000000 00000001 00000000",
        )
        .unwrap();
        assert!(session.call(Request::CreateSession, 5).ends_with(&arguments));
        session.backchannel = false;
        assert!(!session.call(Request::CreateSession, 5).ends_with(&arguments));
    }

    // RFC 5662: CB_COMPOUND4args of CB_SEQUENCE and CB_RECALL, and their results.
    #[test]
    fn recall_results() {
        let call = from_digits(
            "00000009 00000000 00000002 40000000 00000001 00000001 00000000 00000000 00000000 00000000
            00000000 00000001 00000000 00000002
            0000000b 000102030405060708090a0b0c0d0e0f 00000001 00000000 00000003 00000000 00000000
            00000004 101112131415161718191a1b1c1d1e1f 00000000 00000004 cafecafe",
        )
        .unwrap();
        let expected = from_digits(
            "00000000 00000000 00000002 0000000b 00000000 000102030405060708090a0b0c0d0e0f
            00000001 00000000 00000003 00000003 00000004 00000000",
        )
        .unwrap();
        assert_eq!(results(&call), expected);
        for length in 0..call.len() {
            // A truncated message must not panic.
            results(&call[..length]);
        }
    }

    // RFC 5662: OPEN4resok with a read delegation, after SEQUENCE and PUTROOTFH.
    #[test]
    fn open_with_a_delegation() {
        let mut session = Nfs41::new(7, true);
        let reply = from_digits("00000009 00000001 00000000 00000000 00000000 00000000
            00000000 00000000 00000003
            00000035 00000000 000102030405060708090a0b0c0d0e0f 00000002 00000000 00000000 00000000 00000000
            00000018 00000000
            00000012 00000000 202122232425262728292a2b2c2d2e2f 00000001 0000000000000001 0000000000000002 00000004
            00000001 00000000
            00000001 303132333435363738393a3b3c3d3e3f 00000000 00000000 00000000 00000000 00000000")
        .unwrap();
        assert_eq!(session.answered(Request::Open, &reply), Ok(()));
        let stateid = from_digits("303132333435363738393a3b3c3d3e3f").unwrap();
        assert_eq!(session.delegation, Some((DELEGATE_READ, stateid.clone())));
        // OPEN_DELEGATE_WRITE is returned at the end, but is not the requested delegation.
        // OPEN_DELEGATE_NONE_EXT is none.
        let none = || Err("no read delegation was granted".into());
        let kind = reply.len() - 40;
        let mut other = reply.clone();
        other[kind + 3] = 2;
        assert_eq!(session.answered(Request::Open, &other), none());
        assert_eq!(session.delegation, Some((DELEGATE_WRITE, stateid)));
        (other[kind + 3], session.delegation) = (3, None);
        assert_eq!(session.answered(Request::Open, &other), none());
        session.backchannel = false;
        assert_eq!((session.answered(Request::Open, &other), session.delegation.take()), (Ok(()), None));
        for length in 0..130 {
            assert!(session.answered(Request::Open, &reply[..length]).is_err(), "{length}");
        }
        let delay =
            from_digits("00000009 00000001 00000000 00000000 00000000 00000000 00002718 00000000 00000000")
                .unwrap();
        assert_eq!(session.answered(Request::Open, &delay), Err("Open: NFS status 10008".into()));
        assert_eq!(session.answered(Request::Remove, &delay), Ok(()));
    }
}
