//! Comparison of calls: a retransmission, or another call with the same XID.

use super::{CallIdentity, payload_of};
use crate::rdma::Send;
use crate::ulb::Procedure;
use core::hash::BuildHasher as _;
use rdmascope_wire::rpc::{self, flavor};
use rdmascope_wire::rpcrdma::Header;
use rdmascope_wire::xdr::padded;

impl CallIdentity {
    /// Computes the identity of the call in a Send.
    ///
    /// For a call in a chunk, only a repetition of the same Send can be recognized.
    pub fn of(header: &Header<'_>, send: &Send<'_>) -> CallIdentity {
        let Some(payload) = payload_of(header, send.bytes) else {
            return CallIdentity { send: hash_of(send), ..CallIdentity::default() };
        };
        let procedure = rpc::called(payload).ok();
        let procedure = procedure.map(|(program, version, number)| Procedure { program, version, number });
        CallIdentity::of_payload(procedure, payload, header, send)
    }

    /// The same for a known procedure and payload.
    #[inline]
    pub(super) fn of_payload(
        procedure: Option<Procedure>,
        payload: &[u8],
        header: &Header<'_>,
        send: &Send<'_>,
    ) -> CallIdentity {
        let is_complete = send.length == Some(send.bytes.len() as u32);
        let arguments = if is_complete { arguments(payload) } else { None };
        let arguments = arguments.map(hash);
        let is_reduced = !header.reads.is_empty();
        let reduced = is_reduced.then(|| {
            let positions = header.reads.map(|read| read.position);
            positions.fold(0, |all, position| super::BuildHasher::default().hash_one((all, position)))
        });
        let send = if is_reduced || arguments.is_none() { hash_of(send) } else { None };
        CallIdentity { procedure, arguments, reduced, send }
    }

    /// Whether it is the same call as another; `None` if unknown.
    ///
    /// Calls with equal arguments in the Send may differ in their chunks, and a call that is
    /// reduced in another way may be the same.
    pub fn is_same(&self, other: &CallIdentity) -> Option<bool> {
        if self.send.is_some() && self.send == other.send {
            return Some(true);
        }
        if self.procedure? != other.procedure? {
            return Some(false);
        }
        let is_same = self.arguments? == other.arguments?;
        match (self.reduced, other.reduced) {
            (None, None) => Some(is_same),
            (one, other) if one == other && !is_same => Some(false),
            _ => None,
        }
    }
}

pub(super) fn hash(bytes: &[u8]) -> u64 {
    super::BuildHasher::default().hash_one(bytes)
}

/// A hash of a Send, if all of it was captured.
fn hash_of(send: &Send<'_>) -> Option<u64> {
    (send.length == Some(send.bytes.len() as u32)).then(|| hash(send.bytes))
}

/// The arguments of the call in a Payload stream.
///
/// RPCSEC_GSS makes each transmission of a call different (RFC 2203, section 5.3.3.1), so the
/// result is `None` for such a call.
///
/// ```text
///  0 XID  4 CALL  8 rpcvers  12 prog  16 vers  20 proc  24 flavor  28 length  32 credential
///  then: flavor  length  verifier  arguments
/// ```
fn arguments(payload: &[u8]) -> Option<&[u8]> {
    let word = |at: usize| Some(u32::from_be_bytes(*payload.get(at..)?.first_chunk()?));
    if word(24)? == flavor::RPCSEC_GSS {
        return None;
    }
    let skip = |at: usize| at.checked_add(4)?.checked_add(usize::try_from(padded(word(at)?)).ok()?);
    payload.get(skip(skip(28)?.checked_add(4)?)?..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rdma::Position;
    use crate::record::{Seen, Time};
    use rdmascope_wire::rpc::{self, Auth};
    use rdmascope_wire::rpcrdma::{self, Builder, ReadSegment, Segment};
    use rdmascope_wire::{Rkey, Xid};

    /// A call. `reads` has the handle and Position of each Read chunk.
    fn call(procedure: u32, flavor: u32, reads: &[(u32, u32)], arguments: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        let read = |(handle, position): &(u32, u32)| ReadSegment {
            position: *position,
            target: Segment { handle: Rkey(*handle), length: 100, offset: 0 },
        };
        let reads = reads.iter().map(read).collect();
        Builder { reads, ..Builder::new(Xid(7), 1, rpcrdma::Procedure::Msg) }.build(&mut bytes);
        let (credential, verifier) =
            (Auth { flavor, body: b"five." }, Auth { flavor: flavor::NONE, body: &[] });
        let (program, version) = (100_003, 3);
        rpc::Call { xid: Xid(7), rpc_version: 2, program, version, procedure, credential, verifier }
            .build(&mut bytes);
        bytes.extend(arguments);
        bytes
    }

    /// Its identity. `length` is its length on the wire.
    fn identity(bytes: &[u8], length: Option<u32>) -> CallIdentity {
        let seen = Seen { frame: 1, time: Time(0) };
        let position = Position::default();
        let send =
            Send { first: seen, seen, position, extent: 1, bytes, length, missing: None, invalidated: None };
        let header = Header::parse(bytes).unwrap();
        CallIdentity::of(&header, &send)
    }

    fn complete(bytes: &[u8]) -> CallIdentity {
        identity(bytes, Some(bytes.len() as u32))
    }

    fn is_same(one: &[u8], other: &[u8]) -> Option<bool> {
        complete(one).is_same(&complete(other))
    }

    #[test]
    fn identity_compares_procedure_and_arguments() {
        let plain = call(7, flavor::NONE, &[], b"args");
        assert_eq!(is_same(&plain, &plain), Some(true));
        assert_eq!(is_same(&plain, &call(7, flavor::NONE, &[], b"else")), Some(false));
        assert_eq!(is_same(&plain, &call(6, flavor::NONE, &[], b"args")), Some(false));
        // The credential may differ.
        assert_eq!(is_same(&plain, &call(7, flavor::SYS, &[], b"args")), Some(true));
        // Data in chunks may differ, unless the complete Send is the same.
        let reduced = call(7, flavor::NONE, &[(1, 60)], b"args");
        assert_eq!(is_same(&reduced, &reduced), Some(true));
        assert_eq!(is_same(&reduced, &call(7, flavor::NONE, &[(2, 60)], b"args")), None);
        assert_eq!(is_same(&reduced, &call(7, flavor::NONE, &[(2, 60)], b"else")), Some(false));
        // If they are reduced in different ways, the rest in the Send is not comparable.
        assert_eq!(is_same(&reduced, &call(7, flavor::NONE, &[(2, 64)], b"else")), None);
        assert_eq!(is_same(&reduced, &call(7, flavor::NONE, &[(2, 60), (3, 80)], b"else")), None);
        assert_eq!(is_same(&reduced, &plain), None);
        assert_eq!(is_same(&reduced, &call(6, flavor::NONE, &[], b"args")), Some(false));
    }

    #[test]
    fn protected_or_truncated_calls_may_be_undecided() {
        let gss = call(7, flavor::RPCSEC_GSS, &[], b"args");
        assert_eq!(is_same(&gss, &gss), Some(true));
        assert_eq!(is_same(&gss, &call(7, flavor::RPCSEC_GSS, &[], b"else")), None);
        assert_eq!(is_same(&gss, &call(6, flavor::RPCSEC_GSS, &[], b"args")), Some(false));
        // The capture lacks a part of the Send, or its end.
        for bytes in [call(7, flavor::NONE, &[], b"args"), gss] {
            for length in [Some(bytes.len() as u32 + 4), None] {
                let cut = identity(&bytes, length);
                assert_eq!((cut.is_same(&cut), cut.is_same(&complete(&bytes))), (None, None));
            }
        }
    }
}
