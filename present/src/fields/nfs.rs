//! Every field of NFS: arguments and results of version 3 with NFSACL, and of version 4 with its callbacks.
//!
//! What there is stands in the XDR language, as in the RFCs: `nfs3.x`, and `nfs4.x`, which is the code of RFC 7863 with what later ones add. It is parsed once, when it is
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

static VERSION_3: LazyLock<Language> =
    LazyLock::new(|| Language::known(include_str!("nfs/nfs3.x"), naming::VERSION_3));
static VERSION_4: LazyLock<Language> =
    LazyLock::new(|| Language::known(include_str!("nfs/nfs4.x"), naming::VERSION_4));

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

/// The fields of the arguments, or of the results, that begin at byte `at` of the call or the reply; `None` where they are those of another program, or encrypted or
/// protected by RPCSEC_GSS.
pub(super) fn fields(
    transaction: &Transaction,
    of_reply: bool,
    whole: Whole<'_>,
    at: usize,
) -> Option<Vec<Field>> {
    if !matches!(transaction.security, Some(Security::None | Security::Sys | Security::Gss)) {
        return None;
    }
    let called = transaction.procedure?;
    let (language, number) = match (called.program, called.version) {
        (program::NFS | program::NFSACL, 3) => (&*VERSION_3, called.program),
        (program::NFS, 4) => (&*VERSION_4, called.program),
        (program, 1) if program::is_callback(program) => (&*VERSION_4, CALLBACK),
        _ => return None,
    };
    let procedure = language.procedure(number, called.version, called.number)?;
    let of = if of_reply { &procedure.results } else { &procedure.arguments };
    Some(walk(language, of, whole, at))
}

/// The program number of callbacks in RFC 7863: clients choose others.
const CALLBACK: u32 = 0x4000_0000;

fn walk(language: &'static Language, of: &'static Type, whole: Whole<'_>, at: usize) -> Vec<Field> {
    let mut walk = Walk::new(language, whole, at);
    walk.all(of);
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
