//! Every field of NFS: arguments and results of version 2, of version 3 with NFSACL, and of version 4 with its callbacks; and of MOUNT and the port mapper, where they come by.
//!
//! What there is stands in the XDR language, as in the RFCs: `nfs4.x` is the code of RFC 7863 with what later ones add. Each text is parsed once, when it is
//! first asked for (`language`). `naming` says which constants of it are the flags of which field. `walk` goes through a message by it, and makes a field of each value.

mod language;
mod naming;
mod walk;

use crate::fields::Field;
use core::ops::Range;
use language::{Language, Type};
use rdmascope_dissector::interval::Intervals;
use rdmascope_dissector::transaction::{Security, Transaction};
use rdmascope_wire::rpc::program;
use std::sync::LazyLock;
use walk::Walk;

static VERSION_2: LazyLock<Language> =
    LazyLock::new(|| Language::known(include_str!("nfs/nfs2.x"), naming::VERSION_2));
static VERSION_3: LazyLock<Language> =
    LazyLock::new(|| Language::known(include_str!("nfs/nfs3.x"), naming::VERSION_3));
static VERSION_4: LazyLock<Language> =
    LazyLock::new(|| Language::known(include_str!("nfs/nfs4.x"), naming::VERSION_4));
static MOUNT: LazyLock<Language> =
    LazyLock::new(|| Language::known(include_str!("nfs/mount.x"), naming::MOUNT));
static PORT_MAPPER: LazyLock<Language> =
    LazyLock::new(|| Language::known(include_str!("nfs/portmapper.x"), naming::PORT_MAPPER));

/// A message as it was before reduction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Whole<'a> {
    /// Its bytes, up to the last one that was captured.
    pub(super) bytes: &'a [u8],
    /// How many there were.
    pub(super) length: u64,
    /// Which of them were captured.
    pub(super) captured: &'a Intervals,
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
    let called = transaction.procedure?;
    let (language, number): (&'static Language, u32) = match (called.program, called.version) {
        (program::NFS, 2) => (&VERSION_2, called.program),
        (program::NFS | program::NFSACL, 3) => (&VERSION_3, called.program),
        (program::NFS, 4) => (&VERSION_4, called.program),
        (program::MOUNT, _) => (&MOUNT, called.program),
        (program::PORTMAPPER, _) => (&PORT_MAPPER, called.program),
        (program, 1) if program::is_callback(program) => (&VERSION_4, CALLBACK),
        _ => return None,
    };
    let procedure = language.procedure(number, called.version, called.number)?;
    let of = if of_reply { &procedure.results } else { &procedure.arguments };
    Some(walk(language, of, protection, whole, at))
}

/// The program number of callbacks in RFC 7863: clients choose others.
const CALLBACK: u32 = 0x4000_0000;

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
    let mut walk = Walk::new(&VERSION_4, whole, at);
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
