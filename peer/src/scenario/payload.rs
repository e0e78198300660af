//! The RPC messages that scenarios send.

use super::step::Payload;
use crate::nfs3::Procedure;
use alloc::string::String;
use alloc::vec::Vec;
use rdmascope_wire::nfs::nfs_opnum4::{GETATTR, PUTROOTFH};
use rdmascope_wire::rpc::{Auth, Call, Reply, Status, flavor, program};
use rdmascope_wire::xdr::{put_opaque, put_u32, put_u64};
use rdmascope_wire::{Xid, rpc};

/// A file handle that no server has.
const NO_FILE: [u8; 4] = [0xff; 4];
/// The NFSv4 procedure (RFC 7530, section 16.2).
const COMPOUND: u32 = 1;

/// A Payload stream and its reduced data item.
pub(super) struct Built {
    /// The Payload stream without the reduced item.
    pub(super) stream: Vec<u8>,
    /// The reduced item.
    pub(super) item: Option<Vec<u8>>,
}

/// Builds an NFS call with an AUTH_SYS credential; NULL gets AUTH_NONE.
fn call(xid: u32, version: u32, procedure: u32) -> Vec<u8> {
    let mut body = Vec::new();
    // authsys_parms (RFC 5531, appendix A): stamp, machine name, uid, gid, gids.
    put_u32(&mut body, 0);
    put_opaque(&mut body, b"rdmascope");
    [65534, 65534, 0].iter().for_each(|word| put_u32(&mut body, *word));
    let none = Auth { flavor: flavor::NONE, body: &[] };
    let credential = if procedure == 0 { none } else { Auth { flavor: flavor::SYS, body: &body } };
    let call = Call {
        xid: Xid(xid),
        rpc_version: rpc::VERSION,
        program: program::NFS,
        version,
        procedure,
        credential,
        verifier: none,
    };
    let mut out = Vec::new();
    call.build(&mut out);
    out
}

/// Builds a COMPOUND call up to the number of its operations.
pub(super) fn compound(xid: u32, minor: u32, operations: u32) -> Vec<u8> {
    let mut out = call(xid, 4, COMPOUND);
    put_opaque(&mut out, b"");
    [minor, operations].iter().for_each(|word| put_u32(&mut out, *word));
    out
}

/// Builds a NULL call of NFS version 3.
pub(super) fn null(xid: u32) -> Vec<u8> {
    call(xid, 3, 0)
}

/// Builds the Payload stream with this XID. `results` belong to the callback that it answers.
pub(super) fn build(payload: &Payload, xid: u32, results: &[u8]) -> Built {
    let mut item = None;
    let stream = match payload {
        Payload::None => Vec::new(),
        Payload::Null => null(xid),
        Payload::Short => null(xid)[..8].to_vec(),
        Payload::Read(arguments) => {
            let mut out = call(xid, 3, Procedure::Read.number());
            put_opaque(&mut out, &NO_FILE);
            put_u64(&mut out, 0);
            put_u32(&mut out, arguments.count);
            out
        }
        Payload::Write(arguments) => {
            let mut out = call(xid, 3, Procedure::Write.number());
            put_opaque(&mut out, &NO_FILE);
            put_u64(&mut out, 0);
            // count, FILE_SYNC, and the length of the data.
            [arguments.length, 2, arguments.length].iter().for_each(|word| put_u32(&mut out, *word));
            let data: Vec<u8> = (0..arguments.length).map(|at| (at % 251) as u8).collect();
            if arguments.into.is_some() {
                item = Some(data);
            } else {
                out.extend(data);
                out.resize(out.len().next_multiple_of(4), 0);
            }
            out
        }
        Payload::Getattrs(count) => {
            let mut out = compound(xid, 0, count.saturating_add(1));
            put_u32(&mut out, PUTROOTFH);
            for _ in 0..*count {
                // Attributes that every server has: supported_attrs to lease_time, filehandle,
                // fileid, owner, times.
                [GETATTR, 2, 0x0018_07ff, 0x0030_a03a].iter().for_each(|word| put_u32(&mut out, *word));
            }
            out
        }
        Payload::Reply | Payload::CallbackReply => {
            let verifier = Some(Auth { flavor: flavor::NONE, body: &[] });
            let mut out = Vec::new();
            Reply { xid: Xid(xid), status: Status::Success, verifier }.build(&mut out);
            if *payload == Payload::CallbackReply {
                out.extend(results);
            }
            out
        }
        Payload::Hex(digits) => {
            from_digits(&digits.replace("xid", &alloc::format!("{xid:08x}"))).unwrap_or_default()
        }
    };
    Built { stream, item }
}

/// Parses hex digits with optional white space. `None`: invalid digits, or an odd number of them.
pub(super) fn from_digits(digits: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = digits.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    hex::decode(digits).ok()
}

/// Returns the first 64 bytes as hex digits, with an ellipsis if the message is longer.
pub(super) fn shown(bytes: &[u8]) -> String {
    let (first, more) = bytes.split_at_checked(64).unwrap_or((bytes, &[]));
    hex::encode(first) + if more.is_empty() { "" } else { "…" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_digits() {
        assert_eq!(from_digits("0a ff\n 10"), Some(alloc::vec![10, 255, 16]));
        assert_eq!(from_digits("0a f"), None);
        assert_eq!(from_digits("0x"), None);
    }

    // RFC 5531, section 9: xid, CALL, rpcvers 2, prog, vers, proc, cred and verf with AUTH_NONE and
    // length 0.
    #[test]
    fn null_call() {
        let expected = from_digits(
            "00000007 00000000 00000002 000186a3 00000003 00000000 00000000 00000000 00000000 00000000",
        );
        assert_eq!(Some(null(7)), expected);
    }

    // RFC 1813, section 3.3.7: file, offset, count, stable, and of the opaque data only the length.
    #[test]
    fn reduced_write() {
        let payload =
            Payload::Write(super::super::step::WriteArguments { length: 3, into: Some("m".into()) });
        let built = build(&payload, 7, &[]);
        let expected = from_digits("00000004 ffffffff 0000000000000000 00000003 00000002 00000003").unwrap();
        assert!(built.stream.ends_with(&expected));
        assert_eq!(built.item, Some(alloc::vec![0, 1, 2]));
        // Six words, flavor and length of the credential, its body, the verifier, and the
        // arguments.
        assert_eq!(built.stream.len(), 24 + 8 + 32 + 8 + expected.len());
    }
}
