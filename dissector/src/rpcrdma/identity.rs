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
        let arguments = arguments.map(|arguments| hash_of_arguments(procedure, arguments));
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

/// A hash of the arguments of a call. It leaves out the highest slot ID of a COMPOUND, to which a
/// client that sends the call again may give its present value.
fn hash_of_arguments(procedure: Option<Procedure>, arguments: &[u8]) -> u64 {
    let at = procedure.and_then(|procedure| highest_slot(procedure, arguments));
    match at.and_then(|at| Some((arguments.get(..at)?, arguments.get(at + 4..)?))) {
        Some((before, after)) => hash(before) ^ hash(after).rotate_left(1),
        None => hash(arguments),
    }
}

/// The offset of the highest slot ID in the arguments of a COMPOUND that begins with SEQUENCE, or of
/// a CB_COMPOUND that begins with CB_SEQUENCE (RFC 8881, sections 18.46 and 20.9).
///
/// ```text
///  COMPOUND:    tag  minor version  count  SEQUENCE
///  CB_COMPOUND: tag  minor version  callback_ident  count  CB_SEQUENCE
///  then: session ID (16 bytes)  sequence ID  slot ID  highest slot ID
/// ```
fn highest_slot(procedure: Procedure, arguments: &[u8]) -> Option<usize> {
    const SEQUENCE: u32 = 53;
    const CB_SEQUENCE: u32 = 11;
    if !procedure.is_compound() {
        return None;
    }
    let (words, first) = if procedure.is_nfs4() { (2, SEQUENCE) } else { (3, CB_SEQUENCE) };
    let operation = skip(arguments, 0)?.checked_add(4 * words)?;
    (word(arguments, operation)? == first).then_some(operation + 4 + 16 + 8)
}

/// The word at an offset.
fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// The offset after the opaque at an offset.
fn skip(bytes: &[u8], at: usize) -> Option<usize> {
    at.checked_add(4)?.checked_add(usize::try_from(padded(word(bytes, at)?)).ok()?)
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
    if word(payload, 24)? == flavor::RPCSEC_GSS {
        return None;
    }
    payload.get(skip(payload, skip(payload, 28)?.checked_add(4)?)?..)
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

    /// A client that sends a call again may use more slots than before.
    #[test]
    fn highest_slot_does_not_change_the_identity() {
        let words = |words: &[u32]| words.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
        let session = [1, 2, 3, 4];
        let fore = |sequence, highest, handle| {
            words(&[&[0, 1, 2, 53][..], &session, &[sequence, 0, highest, 0, 22, 4, handle]].concat())
        };
        let back = |sequence, highest| {
            words(&[&[4, 0x7461_6773, 1, 9, 2, 11][..], &session, &[sequence, 0, highest, 0, 0]].concat())
        };
        let identity = |program, version, arguments: &[u8]| {
            hash_of_arguments(Some(Procedure { program, version, number: 1 }), arguments)
        };
        let compound = |arguments: Vec<u8>| identity(100_003, 4, &arguments);
        assert_eq!(compound(fore(7, 2, 5)), compound(fore(7, 3, 5)));
        assert_ne!(compound(fore(7, 2, 5)), compound(fore(8, 2, 5)));
        assert_ne!(compound(fore(7, 2, 5)), compound(fore(7, 2, 6)));
        let callback = |arguments: Vec<u8>| identity(0x4000_0000, 1, &arguments);
        assert_eq!(callback(back(7, 2)), callback(back(7, 3)));
        assert_ne!(callback(back(7, 2)), callback(back(8, 2)));
        assert_ne!(identity(100_003, 3, &fore(7, 2, 5)), identity(100_003, 3, &fore(7, 3, 5)));
        // The arguments may end anywhere.
        let cut: Vec<u64> = (0..48).map(|length| compound(fore(7, 2, 5)[..length].to_vec())).collect();
        assert_ne!(cut[46], cut[47]);
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
