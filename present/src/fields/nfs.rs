//! All fields of NFS: arguments and results of versions 2 and 3 with NFSACL, and of version
//! 4 with its callbacks. Also those of MOUNT and the port mapper.
//!
//! `rdmascope-xdr` describes the messages in the XDR language, with the constants that are the
//! flags of a field. `walk` follows that description through a message, and creates a field for
//! each value.

mod walk;

use crate::fields::Field;
use core::ops::Range;
use rdmascope_dissector::interval::Intervals;
use rdmascope_dissector::transaction::{Security, Transaction};
use rdmascope_wire::rpc::program;
use rdmascope_xdr::language::{Language, Type};
use rdmascope_xdr::visit::{Extent, Leaf, Value, Visitor, Walk, Walked};
use rdmascope_xdr::{CALLBACK, MOUNT, NFS2, NFS3, NFS4, PORT_MAPPER};
use walk::Fields;

/// A message before reduction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unreduced<'a> {
    /// The bytes, up to the last captured one.
    pub(crate) bytes: &'a [u8],
    /// The length on the wire.
    pub(crate) length: u64,
    /// The captured ranges.
    pub(crate) captured: &'a Intervals,
}

impl Unreduced<'_> {
    /// Whether the whole range was captured.
    pub(crate) fn holds(&self, range: &Range<usize>) -> bool {
        let (from, to) = (range.start as u64, range.end as u64);
        self.captured.within(from, to).next() == Some((from, to))
    }
}

/// Returns the fields of the arguments or results that begin at byte `at` of the call or the reply.
/// `None` if they belong to another program, or do not have the procedure's own types.
pub(super) fn fields(
    transaction: &Transaction,
    of_reply: bool,
    unreduced: Unreduced<'_>,
    at: usize,
) -> Option<Vec<Field>> {
    let protection = match transaction.security? {
        Security::None | Security::Sys | Security::Gss => Protection::None,
        Security::GssIntegrity => Protection::Integrity,
        Security::GssPrivacy => return Some(encrypted(unreduced, at)),
        // The arguments that set up a context are not those of the procedure.
        Security::GssControl(_) | Security::GssUnknown | Security::Other(_) => return None,
    };
    let (language, of) = described(transaction, of_reply)?;
    Some(walk(language, of, protection, unreduced, at))
}

/// Reports every value of the arguments or results that begin at byte `at` of the call or the
/// reply, with its range, as far as they can be parsed and are not encrypted.
pub(crate) fn leaves(
    transaction: &Transaction,
    of_reply: bool,
    unreduced: Unreduced<'_>,
    at: usize,
    report: impl FnMut(&Value<'_>, Leaf, Range<usize>),
) {
    if let Some((language, of)) = described(transaction, of_reply) {
        let end = usize::try_from(unreduced.length).unwrap_or(usize::MAX);
        // The walk ends at the first value that cannot be parsed.
        let _ = Walk::new(language, unreduced.bytes, end, at, Leaves { unreduced, report }).root(of);
    }
}

/// The visitor of [`leaves`].
struct Leaves<'a, F> {
    unreduced: Unreduced<'a>,
    report: F,
}

impl<F: FnMut(&Value<'_>, Leaf, Range<usize>)> Visitor for Leaves<'_, F> {
    fn holds(&self, range: Range<usize>) -> bool {
        self.unreduced.holds(&range)
    }

    fn leaf(&mut self, value: &Value<'_>, leaf: Leaf, extent: &Extent) -> Walked {
        (self.report)(value, leaf, extent.value.clone());
        Ok(())
    }
}

/// The type of the arguments or the results. `None` for other programs.
fn described(transaction: &Transaction, of_reply: bool) -> Option<(&'static Language, &'static Type)> {
    let called = transaction.procedure?;
    let (language, number): (&'static Language, u32) = match (called.program, called.version) {
        (program::NFS | program::NFSACL, 2) => (&NFS2, called.program),
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

/// The wrapping of arguments and results by RPCSEC_GSS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protection {
    None,
    Integrity,
}

fn walk(
    language: &'static Language,
    of: &'static Type,
    protection: Protection,
    unreduced: Unreduced<'_>,
    at: usize,
) -> Vec<Field> {
    let mut walk = Fields::walk(language, unreduced, at);
    match protection {
        Protection::None => walk::all(&mut walk, of),
        Protection::Integrity => walk::integrity(&mut walk, of),
    }
    walk.visitor.into_fields()
}

fn encrypted(unreduced: Unreduced<'_>, at: usize) -> Vec<Field> {
    // The language is irrelevant, because no type is looked up.
    let mut walk = Fields::walk(&NFS4, unreduced, at);
    walk::privacy(&mut walk);
    walk.visitor.into_fields()
}

/// Relocates all fields: `place` maps the range of a field, or returns `None` if its bytes have no
/// position.
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
