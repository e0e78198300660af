//! Tables of operations. The table of a version has a row for each operation: number, name, whether
//! it is auxiliary, DDP-eligible item, and the walks over its arguments and results.
//!
//! [`operations!`] generates the enum and the table of a version from one list, so an operation
//! without a row does not compile. A number without a row is [`OperationKind::Unknown`] or
//! [`OperationKind::UnknownProcedure`].

use super::walk::Walk;
use super::{Outcome, nfs2, nfs3, nfs4, nfsacl};

#[cfg(test)]
mod tests;

/// A walk over the arguments of an operation, or over the result after its status.
pub(super) type Step = fn(&mut Walk<'_, '_>) -> Outcome;

/// The DDP-eligible data item of an operation (RFC 8267, sections 4, 5.2 and 6.1). No operation has
/// more than one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DdpEligible {
    /// None: no part of it may be in a chunk.
    Nothing,
    /// One of the arguments, which may be in a Read chunk.
    Argument,
    /// One of the results, which may be in a Write chunk.
    Result,
}

/// The specification of an operation.
pub(super) struct Row {
    /// Its number in the XDR of its version.
    pub(super) code: u32,
    /// Its name there, without the prefix that all names of the version share.
    pub(super) name: &'static str,
    /// The minor version of NFSv4 that introduced it; `None` in the tables of other protocols.
    pub(super) minor_version: Option<u32>,
    /// Whether it only prepares or reports on other operations of its COMPOUND.
    pub(super) auxiliary: bool,
    /// Its DDP-eligible item.
    pub(super) eligible: DdpEligible,
    /// The walk over its arguments.
    pub(super) arguments: Step,
    /// Its results.
    pub(super) results: Results,
}

/// The results of an operation.
pub(super) enum Results {
    /// None, not even a status.
    Void,
    /// A union whose discriminant is the status.
    Union {
        /// The walk after success.
        success: Step,
        /// The walk after any other status.
        failure: Step,
    },
}

/// A status with nothing after it.
pub(super) const fn status() -> Results {
    Results::Union { success: nothing, failure: nothing }
}

/// A status, followed by a result on success only.
pub(super) const fn success(success: Step) -> Results {
    Results::Union { success, failure: nothing }
}

/// A status, followed by a result in either case.
pub(super) const fn either(success: Step, failure: Step) -> Results {
    Results::Union { success, failure }
}

/// The walk over nothing.
pub(super) fn nothing(_: &mut Walk<'_, '_>) -> Outcome {
    Ok(())
}

impl Row {
    /// Walks the results, from the status on.
    #[inline]
    pub(super) fn results(&self, walk: &mut Walk<'_, '_>) -> Outcome {
        match self.results {
            Results::Void => Ok(()),
            Results::Union { success, failure } => {
                if walk.status()? {
                    return success(walk);
                }
                if self.eligible == DdpEligible::Result {
                    walk.pass_chunk();
                }
                failure(walk)
            }
        }
    }
}

/// The enum of operations of a version, each with a row.
pub(super) trait Operations: Copy + Into<OperationKind> {
    /// The operation with this number.
    fn of(code: u32) -> Option<Self>;

    /// Its row.
    fn row(self) -> &'static Row;

    /// The name of the operation with this number.
    fn name_of(code: u32) -> Option<&'static str> {
        Self::of(code).map(|operation| operation.row().name)
    }
}

/// Generates an enum of operations and its table from one list, grouped by the document that
/// defines them, with the minor version. Each line has the number, the variant, the name,
/// `principal` or `auxiliary`, the DDP-eligible item, the walk over the arguments, and the
/// [`Results`].
macro_rules! operations {
    (
        $(#[$doc:meta])*
        pub enum $name:ident {
            $(
                from $document:literal, $minor:expr => {
                    $($code:literal $variant:ident $text:literal $role:ident $eligible:ident, $arguments:expr, $results:expr;)*
                }
            )*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum $name {
            $($(#[doc = concat!($text, ", ", $code, " (", $document, ").")] $variant,)*)*
        }

        impl $name {
            /// All operations, in the order of the table.
            pub const ALL: &[$name] = &[$($($name::$variant,)*)*];

            const ROWS: [$crate::ulb::rows::Row; $name::ALL.len()] = [$($(
                $crate::ulb::rows::Row {
                    code: $code,
                    name: $text,
                    minor_version: $minor,
                    auxiliary: $crate::ulb::rows::operations!(@is_auxiliary $role),
                    eligible: $crate::ulb::rows::DdpEligible::$eligible,
                    arguments: $arguments,
                    results: $results,
                },
            )*)*];
        }

        impl $crate::ulb::rows::Operations for $name {
            #[inline]
            fn of(code: u32) -> Option<$name> {
                match code {
                    $($($code => Some($name::$variant),)*)*
                    _ => None,
                }
            }

            #[inline]
            fn row(self) -> &'static $crate::ulb::rows::Row {
                static ROWS: [$crate::ulb::rows::Row; $name::ALL.len()] = $name::ROWS;
                &ROWS[self as usize]
            }
        }

        impl From<$name> for $crate::ulb::rows::OperationKind {
            #[inline]
            fn from(operation: $name) -> $crate::ulb::rows::OperationKind {
                $crate::ulb::rows::OperationKind::$name(operation)
            }
        }
    };
    (@is_auxiliary principal) => { false };
    (@is_auxiliary auxiliary) => { true };
}
pub(super) use operations;

/// The kind of an operation: its protocol and version, and its row there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OperationKind {
    /// A procedure of NFS version 2.
    Nfs2(nfs2::Nfs2),
    /// A procedure of NFS version 3.
    Nfs3(nfs3::Nfs3),
    /// A procedure of NFS version 4 other than COMPOUND.
    Nfs4Procedure(nfs4::Nfs4Procedure),
    /// An operation of a COMPOUND.
    Nfs4(nfs4::Nfs4),
    /// A procedure of the callback program other than CB_COMPOUND.
    CallbackProcedure(nfs4::CallbackProcedure),
    /// An operation of a CB_COMPOUND.
    Callback(nfs4::Callback),
    /// A procedure of NFSACL version 2.
    NfsAcl2(nfsacl::NfsAcl2),
    /// A procedure of NFSACL version 3.
    NfsAcl3(nfsacl::NfsAcl3),
    /// An operation of a COMPOUND or CB_COMPOUND with an unknown number.
    Unknown(u32),
    /// A procedure with an unknown number.
    UnknownProcedure(u32),
}

impl OperationKind {
    /// The number of the procedure or operation.
    pub fn code(self) -> u32 {
        self.row().map_or_else(|code| code, |row| row.code)
    }

    /// The name in the specification's spelling without prefix: `WRITE`, `OPEN`, `CB_RECALL`.
    /// `operation` or `procedure` if the number is unknown.
    pub fn name(self) -> &'static str {
        match (self, self.row()) {
            (_, Ok(row)) => row.name,
            (OperationKind::UnknownProcedure(_), Err(_)) => "procedure",
            (_, Err(_)) => "operation",
        }
    }

    /// Whether it only prepares or reports on other operations of its COMPOUND: SEQUENCE, PUTFH,
    /// GETFH and the like.
    pub fn is_auxiliary(self) -> bool {
        self.row().is_ok_and(|row| row.auxiliary)
    }

    /// Its DDP-eligible data item.
    pub fn ddp_eligible(self) -> DdpEligible {
        self.row().map_or(DdpEligible::Nothing, |row| row.eligible)
    }

    /// The minor version of NFSv4 that introduced it. `None` for unknown operations, and outside of
    /// a COMPOUND or CB_COMPOUND.
    pub fn minor_version(self) -> Option<u32> {
        self.row().ok()?.minor_version
    }

    /// Whether it is READ of any version.
    pub fn is_read(self) -> bool {
        use OperationKind::{Nfs2, Nfs3, Nfs4};
        matches!(self, Nfs2(nfs2::Nfs2::Read) | Nfs3(nfs3::Nfs3::Read) | Nfs4(nfs4::Nfs4::Read))
    }

    /// Whether it is WRITE of any version.
    pub fn is_write(self) -> bool {
        use OperationKind::{Nfs2, Nfs3, Nfs4};
        matches!(self, Nfs2(nfs2::Nfs2::Write) | Nfs3(nfs3::Nfs3::Write) | Nfs4(nfs4::Nfs4::Write))
    }

    /// Whether it is READDIR of any version, or READDIRPLUS.
    pub fn is_readdir(self) -> bool {
        use OperationKind::{Nfs2, Nfs3, Nfs4};
        matches!(
            self,
            Nfs2(nfs2::Nfs2::Readdir)
                | Nfs3(nfs3::Nfs3::Readdir | nfs3::Nfs3::Readdirplus)
                | Nfs4(nfs4::Nfs4::Readdir)
        )
    }

    /// The row, or the number if it has none.
    fn row(self) -> Result<&'static Row, u32> {
        Ok(match self {
            OperationKind::Nfs2(operation) => operation.row(),
            OperationKind::Nfs3(operation) => operation.row(),
            OperationKind::Nfs4Procedure(operation) => operation.row(),
            OperationKind::Nfs4(operation) => operation.row(),
            OperationKind::CallbackProcedure(operation) => operation.row(),
            OperationKind::Callback(operation) => operation.row(),
            OperationKind::NfsAcl2(operation) => operation.row(),
            OperationKind::NfsAcl3(operation) => operation.row(),
            OperationKind::Unknown(code) | OperationKind::UnknownProcedure(code) => return Err(code),
        })
    }
}
