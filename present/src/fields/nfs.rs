//! Every field of NFS: arguments and results of version 2, of version 3 with NFSACL, and of version 4 with its callbacks; and of MOUNT and the port mapper, where they come by.
//!
//! `rdmascope-xdr` describes the messages in the XDR language, and names the constants that are the
//! flags of a field. `walk` follows that description through a message, and makes a field of each value.

mod leaves;
mod walk;

use crate::fields::Field;
use core::ops::Range;
use leaves::Leaves;
pub(crate) use leaves::{Leaf, LeafForm};
use rdmascope_dissector::interval::Intervals;
use rdmascope_dissector::transaction::{Security, Transaction};
use rdmascope_wire::rpc::program;
use rdmascope_xdr::language::{Language, Type};
use rdmascope_xdr::{CALLBACK, MOUNT, NFS2, NFS3, NFS4, PORT_MAPPER};
use walk::Walk;

/// A message as it was before reduction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Whole<'a> {
    /// Its bytes, up to the last one that was captured.
    pub(crate) bytes: &'a [u8],
    /// How many there were.
    pub(crate) length: u64,
    /// Which of them were captured.
    pub(crate) captured: &'a Intervals,
}

/// The fields of the arguments, or of the results, that begin at byte `at` of the call or the reply; `None` where they are those of another program, or not those that the
/// procedure has by itself.
pub(super) fn fields(
    transaction: &Transaction,
    of_reply: bool,
    whole: Whole<'_>,
    at: usize,
) -> Option<Vec<Field>> {
    let protection = match transaction.security? {
        Security::None | Security::Sys | Security::Gss => Protection::None,
        Security::GssIntegrity => Protection::Integrity,
        Security::GssPrivacy => return Some(encrypted(whole, at)),
        // What sets up a context is no argument of the procedure.
        Security::GssControl | Security::Other(_) => return None,
    };
    let (language, of) = described(transaction, of_reply)?;
    Some(walk(language, of, protection, whole, at))
}

/// Tells of every value of the arguments, or of the results, that begin at byte `at` of the call or the reply, where it stands, as far as they can be read and are not
/// encrypted.
pub(crate) fn leaves(
    transaction: &Transaction,
    of_reply: bool,
    whole: Whole<'_>,
    at: usize,
    tell: impl FnMut(Leaf<'_>, Range<usize>),
) {
    if let Some((language, of)) = described(transaction, of_reply) {
        Leaves::new(language, whole, at, tell).all(of);
    }
}

/// The type of the arguments or the results; `None` of another program.
fn described(transaction: &Transaction, of_reply: bool) -> Option<(&'static Language, &'static Type)> {
    let called = transaction.procedure?;
    let (language, number): (&'static Language, u32) = match (called.program, called.version) {
        (program::NFS, 2) => (&NFS2, called.program),
        (program::NFS | program::NFSACL, 3) => (&NFS3, called.program),
        (program::NFS, 4) => (&NFS4, called.program),
        (program::MOUNT, _) => (&MOUNT, called.program),
        (program::PORTMAPPER, _) => (&PORT_MAPPER, called.program),
        (program, 1) if program::is_callback(program) => (&NFS4, CALLBACK),
        _ => return None,
    };
    let procedure = language.procedure(number, called.version, called.number)?;
    Some((language, if of_reply { &procedure.results } else { &procedure.arguments }))
}

/// What RPCSEC_GSS puts around arguments and results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protection {
    None,
    Integrity,
}

fn walk(
    language: &'static Language,
    of: &'static Type,
    protection: Protection,
    whole: Whole<'_>,
    at: usize,
) -> Vec<Field> {
    let mut walk = Walk::new(language, whole, at);
    match protection {
        Protection::None => walk.all(of),
        Protection::Integrity => walk.integrity(of),
    }
    walk.into_fields()
}

fn encrypted(whole: Whole<'_>, at: usize) -> Vec<Field> {
    // No type of a text is asked for.
    let mut walk = Walk::new(&NFS4, whole, at);
    walk.privacy();
    walk.into_fields()
}

/// Gives all fields other places: `place` says where the bytes of a range stand; nowhere is `None`.
pub(super) fn moved(fields: Vec<Field>, place: &impl Fn(Range<usize>) -> Option<Range<usize>>) -> Vec<Field> {
    let one = |field: Field| Field {
        range: field.range.and_then(place),
        children: moved(field.children, place),
        ..field
    };
    fields.into_iter().map(one).collect()
}

#[cfg(test)]
mod tests;
