//! The permitted bytes of a transaction, value by value. All bytes outside of known values are
//! omitted.

use super::values::Values;
use crate::fields::nfs::{Unreduced, leaves};
use crate::fields::rpc::send_bytes;
use core::ops::Range;
use rdmascope_dissector::layout::Source;
use rdmascope_dissector::transaction::{Part, Security, Transaction};
use rdmascope_wire::rpc::{flavor, program};
use rdmascope_wire::rpcrdma::Procedure;
use rdmascope_wire::xdr::Reader;
use rdmascope_wire::{Layer, Stop};
use rdmascope_xdr::visit::{Leaf, Value};
use std::collections::BTreeMap;

/// Bytes at increasing offsets, with zeros between them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Runs(Vec<(u64, Vec<u8>)>);

impl Runs {
    /// Adds bytes. Bytes before the end of those already added are ignored.
    pub(super) fn put(&mut self, at: u64, bytes: &[u8]) {
        let end = self.0.last().map_or(0, |(start, bytes)| start + bytes.len() as u64);
        match self.0.last_mut() {
            _ if bytes.is_empty() || at < end => {}
            Some((_, last)) if at == end => last.extend_from_slice(bytes),
            _ => self.0.push((at, bytes.to_vec())),
        }
    }

    /// Copies the bytes from offset `at` on into `to`.
    pub(super) fn copy(&self, at: u64, to: &mut [u8]) {
        let end = at.saturating_add(to.len() as u64);
        let first = self.0.partition_point(|(start, bytes)| start + bytes.len() as u64 <= at);
        for (start, bytes) in self.0[first..].iter().take_while(|(start, _)| *start < end) {
            let (from, until) = (at.max(*start), end.min(start + bytes.len() as u64));
            let bytes = &bytes[(from - start) as usize..(until - start) as usize];
            to[(from - at) as usize..(until - at) as usize].copy_from_slice(bytes);
        }
    }

    /// The bytes within a range, with their offsets.
    fn within(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &[u8])> {
        self.0.iter().filter_map(move |(start, bytes)| {
            let (from, until) = (range.start.max(*start), range.end.min(start + bytes.len() as u64));
            (from < until).then(|| (from, &bytes[(from - start) as usize..(until - start) as usize]))
        })
    }

    fn shrink(mut self) -> Runs {
        self.0.iter_mut().for_each(|(_, bytes)| bytes.shrink_to_fit());
        self.0.shrink_to_fit();
        self
    }
}

/// The permitted bytes of each part of the call and the reply: Sends and chunks.
pub(super) fn parts(values: &mut Values, transaction: &Transaction) -> BTreeMap<(bool, Part), Runs> {
    let mut parts: BTreeMap<(bool, Part), Runs> = BTreeMap::new();
    for of_reply in [false, true] {
        let header = if of_reply { &transaction.reply } else { &transaction.call };
        let Some(header) = header else { continue };
        let send = send_bytes(transaction, of_reply);
        if !begins_message(send) {
            continue;
        }
        let length = match header.stop {
            // Up to and including the invalid word.
            Some(stop) if stop.layer == Layer::RpcRdma => stop.offset.saturating_add(4),
            _ => header.header_length as usize,
        };
        parts.entry((of_reply, Part::Send)).or_default().put(0, &send[..length.min(send.len())]);
        let Some(piece) = transaction.message(of_reply) else { continue };
        if matches!(header.procedure, Procedure::Error | Procedure::Done) {
            continue;
        }
        let unreduced = Unreduced { bytes: &piece.bytes, length: piece.length, captured: &piece.captured };
        let mut message = Runs::default();
        if let Some(at) = rpc(values, front(unreduced), &mut message) {
            body(values, transaction, of_reply, unreduced, at, &mut message);
        }
        for extent in transaction.layout(of_reply) {
            let Source::Part(part, offset) = extent.source else { continue };
            for (at, bytes) in message.within(extent.start..extent.end()) {
                parts.entry((of_reply, part)).or_default().put(offset + (at - extent.start), bytes);
            }
        }
    }
    parts.into_iter().map(|(part, runs)| (part, runs.shrink())).collect()
}

/// Whether a Send may be an RPC-over-RDMA message: version and procedure are small numbers. Other
/// protocols may have text there.
pub(super) fn begins_message(send: &[u8]) -> bool {
    const LARGEST: u32 = 15;
    let is_small = |at: usize| {
        let word = send.get(at..).and_then(|bytes| bytes.first_chunk().copied());
        word.is_some_and(|word| u32::from_be_bytes(word) <= LARGEST)
    };
    is_small(4) && is_small(12)
}

/// The bytes before the first one that is missing from the capture.
fn front(unreduced: Unreduced<'_>) -> &[u8] {
    let held = usize::try_from(unreduced.captured.front()).unwrap_or(usize::MAX);
    &unreduced.bytes[..held.min(unreduced.bytes.len())]
}

/// Copies the header of an RPC message (RFC 5531, section 9). Returns its end, or `None` if it
/// cannot be parsed completely.
pub(super) fn rpc(values: &mut Values, message: &[u8], out: &mut Runs) -> Option<usize> {
    let mut reader = Reader::new(message, Layer::Rpc);
    rpc_header(values, message, &mut reader, out).ok()?;
    Some(reader.position())
}

fn rpc_header(
    values: &mut Values,
    message: &[u8],
    reader: &mut Reader<'_>,
    out: &mut Runs,
) -> Result<(), Stop> {
    const CALL: u32 = 0;
    const REPLY: u32 = 1;
    let word = |reader: &mut Reader<'_>, out: &mut Runs| {
        let at = reader.position();
        let word = reader.u32()?;
        out.put(at as u64, &message[at..at + 4]);
        Ok::<u32, Stop>(word)
    };
    word(reader, out)?;
    let kind = word(reader, out)?;
    match kind {
        CALL => {
            for _ in 0..4 {
                word(reader, out)?;
            }
            authentication(values, true, reader, out)?;
            authentication(values, false, reader, out)
        }
        REPLY => {
            let denied = word(reader, out)? != 0;
            if !denied {
                authentication(values, false, reader, out)?;
            }
            let status = word(reader, out)?;
            // PROG_MISMATCH and RPC_MISMATCH are followed by the supported versions, and AUTH_ERROR
            // by the reason.
            let words = match (denied, status) {
                (false, 2) | (true, 0) => 2,
                (true, 1) => 1,
                _ => 0,
            };
            for _ in 0..words {
                word(reader, out)?;
            }
            Ok(())
        }
        _ => Err(Stop::malformed(Layer::Rpc, 4)),
    }
}

/// Copies an opaque_auth. Its body is omitted, except for an AUTH_SYS credential, which is
/// replaced, and the numbers and the handle of RPCSEC_GSS.
fn authentication(
    values: &mut Values,
    is_credential: bool,
    reader: &mut Reader<'_>,
    out: &mut Runs,
) -> Result<(), Stop> {
    let at = reader.position();
    let flavor = reader.u32()?;
    let body = reader.opaque()?;
    out.put(at as u64, &flavor.to_be_bytes());
    out.put(at as u64 + 4, &(body.len() as u32).to_be_bytes());
    let replaced = match flavor {
        flavor::SYS => sys(values, body).ok(),
        flavor::RPCSEC_GSS if is_credential => gss(body).ok(),
        _ => None,
    };
    out.put(at as u64 + 8, &replaced.unwrap_or_default());
    Ok(())
}

/// Replaces an authsys_parms (RFC 5531, appendix A) that fills the whole body.
fn sys(values: &mut Values, body: &[u8]) -> Result<Vec<u8>, Stop> {
    let mut reader = Reader::new(body, Layer::Rpc);
    let mut replaced = reader.u32()?.to_be_bytes().to_vec();
    let name = reader.opaque()?;
    replaced.extend((name.len() as u32).to_be_bytes());
    replaced.extend_from_slice(&values.text(name));
    replaced.resize(reader.position(), 0);
    for _ in 0..2 {
        replaced.extend(values.user(reader.u32()?).to_be_bytes());
    }
    let count = reader.u32()?;
    if reader.rest().len() as u64 != u64::from(count) * 4 {
        // The numbers that were read may be something else.
        return Err(Stop::malformed(Layer::Rpc, reader.position()));
    }
    replaced.extend(count.to_be_bytes());
    while !reader.rest().is_empty() {
        replaced.extend(values.user(reader.u32()?).to_be_bytes());
    }
    Ok(replaced)
}

/// An rpc_gss_cred_vers_1_t (RFC 2203, section 5): four numbers, and the handle of the context.
fn gss(body: &[u8]) -> Result<Vec<u8>, Stop> {
    let mut reader = Reader::new(body, Layer::Rpc);
    for _ in 0..4 {
        reader.u32()?;
    }
    reader.opaque()?;
    Ok(body[..reader.position()].to_vec())
}

/// Copies the permitted bytes of arguments or results that begin at byte `at`.
pub(super) fn body(
    values: &mut Values,
    transaction: &Transaction,
    of_reply: bool,
    unreduced: Unreduced<'_>,
    at: usize,
    out: &mut Runs,
) {
    if !are_types_known(transaction) {
        return;
    }
    let word = |at: usize| front(unreduced).get(at..)?.first_chunk::<4>().copied();
    let keep_word = |at: usize, out: &mut Runs| {
        let word = word(at)?;
        out.put(at as u64, &word);
        Some(u32::from_be_bytes(word))
    };
    match transaction.security {
        Some(Security::GssUnknown) => {}
        Some(Security::GssPrivacy) => {
            keep_word(at, out);
        }
        Some(Security::GssControl(_)) => {
            // Establishing a context (RFC 2203, section 5.2): the argument is a token; the results
            // are a handle, three numbers and a token.
            if of_reply && let Ok(end) = context(front(unreduced), at) {
                out.put(at as u64, &front(unreduced)[at..end]);
                keep_word(end, out);
            } else if !of_reply {
                keep_word(at, out);
            }
        }
        Some(Security::GssIntegrity) => {
            let Some(length) = keep_word(at, out) else { return };
            keep_word(at + 4, out);
            let end = unreduced.length.min(at as u64 + 4 + u64::from(length));
            let inside = Unreduced { length: end, ..unreduced };
            leaves(transaction, of_reply, inside, at + 8, |value, leaf, range| {
                replace(values, (value, leaf), range, unreduced, out);
            });
            // The length of the checksum.
            if let Ok(end) = usize::try_from(end.next_multiple_of(4)) {
                keep_word(end, out);
            }
        }
        _ => leaves(transaction, of_reply, unreduced, at, |value, leaf, range| {
            replace(values, (value, leaf), range, unreduced, out);
        }),
    }
}

/// Whether [`Treatment`] knows the types of the arguments and results. Other programs may have uids
/// and names in types with other names, so their bodies are omitted.
fn are_types_known(transaction: &Transaction) -> bool {
    transaction.procedure.is_some_and(|called| match (called.program, called.version) {
        (program::NFS, version) => matches!(version, 2..=4),
        (program::NFSACL, version) => matches!(version, 2 | 3),
        (number, _) => program::is_callback(number),
    })
}

/// The offset of the token in an rpc_gss_init_res.
fn context(message: &[u8], at: usize) -> Result<usize, Stop> {
    let mut reader = Reader::new(message.get(at..).unwrap_or_default(), Layer::Rpc);
    reader.opaque()?;
    for _ in 0..3 {
        reader.u32()?;
    }
    Ok(at + reader.position())
}

/// Adds a value, or its replacement.
fn replace(
    values: &mut Values,
    (value, leaf): (&Value<'_>, Leaf),
    range: Range<usize>,
    unreduced: Unreduced<'_>,
    out: &mut Runs,
) {
    let Some(bytes) = unreduced.bytes.get(range.clone()).filter(|_| unreduced.holds(&range)) else { return };
    let at = range.start as u64;
    match Treatment::of(value, leaf, bytes) {
        Treatment::Keep => out.put(at, bytes),
        Treatment::User => {
            if let Ok(user) = bytes.try_into() {
                out.put(at, &values.user(u32::from_be_bytes(user)).to_be_bytes());
            }
        }
        Treatment::Text => out.put(at, &values.text(bytes)),
        Treatment::Clear => {}
    }
}

/// The treatment of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    Keep,
    /// Replaces a uid or gid.
    User,
    /// Replaces a name.
    Text,
    /// Leaves zeros.
    Clear,
}

/// Types whose bytes stay: identifiers that the server or the client generated.
const HANDLES: [&str; 12] = [
    "fhandle",
    "nfscookie",
    "nfs_fh4",
    "sessionid4",
    "verifier4",
    "deviceid4",
    "sec_oid4",
    "gsshandle4_t",
    "cookieverf3",
    "createverf3",
    "writeverf3",
    "fattr4_filehandle",
];
/// The same, by the enclosing type and the name of the field.
const HANDLE_PLACES: [(&str, &str); 2] = [("nfs_fh3", "data"), ("stateid4", "other")];
/// Types that are text, and other names that are compared.
const TEXTS: [&str; 6] = ["filename", "path", "filename3", "nfspath3", "utf8string", "linktext4"];
const TEXT_PLACES: [(&str, &str); 8] = [
    ("authsys_parms", "machinename"),
    ("client_owner4", "co_ownerid"),
    ("nfs_client_id4", "id"),
    ("server_owner4", "so_major_id"),
    ("EXCHANGE_ID4resok", "eir_server_scope"),
    ("state_owner4", "owner"),
    ("netaddr4", "na_r_addr"),
    ("netaddr4", "na_r_netid"),
];
const USERS: [&str; 2] = ["uid3", "gid3"];
const USER_PLACES: [(&str, &str); 7] = [
    ("authsys_parms", "uid"),
    ("authsys_parms", "gid"),
    ("authsys_parms", "gids"),
    ("fattr", "uid"),
    ("fattr", "gid"),
    ("sattr", "uid"),
    ("sattr", "gid"),
];
/// A uid or gid that is not to be set (RFC 1094, section 2.3.6).
const NOT_SET: [u8; 4] = [0xff; 4];
/// The usual values of an r_netid (RFC 5665, section 5.2), which identify no one.
const NETIDS: [&[u8]; 6] = [b"tcp", b"tcp6", b"udp", b"udp6", b"rdma", b"rdma6"];

impl Treatment {
    /// Numbers stay except for uids and gids. Bytes are omitted except for listed types.
    pub(super) fn of(value: &Value<'_>, leaf: Leaf, bytes: &[u8]) -> Treatment {
        let place = (value.place.of, value.place.name);
        let is_one = |types: &[&str], places: &[(&str, &str)]| {
            value.types.iter().any(|name| types.contains(name)) || places.contains(&place)
        };
        match leaf {
            Leaf::Number(_) if bytes != NOT_SET && is_one(&USERS, &USER_PLACES) => Treatment::User,
            Leaf::Number(_) | Leaf::Length(_) | Leaf::Flag(_) => Treatment::Keep,
            Leaf::Bytes if is_one(&HANDLES, &HANDLE_PLACES) => Treatment::Keep,
            Leaf::Bytes if NETIDS.contains(&bytes) && place.0 == "netaddr4" => Treatment::Keep,
            Leaf::Bytes if is_one(&TEXTS, &TEXT_PLACES) => Treatment::Text,
            Leaf::Bytes => Treatment::Clear,
        }
    }
}
