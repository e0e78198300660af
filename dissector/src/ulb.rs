//! Upper-layer bindings, which parse RPC arguments and results from the reduced Payload stream.
//!
//! A binding walks arguments or results in XDR order. It *pulls* each DDP-eligible item (RFC 8267,
//! sections 4 and 6.1) from the [`Payload`], which knows whether the item is in the stream or in a
//! chunk. So the layers below need no knowledge of the upper-layer protocol.

mod auxiliary;
mod nfs2;
mod nfs3;
mod nfs4;
mod nfsacl;
mod payload;
mod rows;
mod state;
#[cfg(test)]
mod tests;
mod walk;

use crate::reuse::clone_in_place;
use alloc::vec::Vec;
use core::num::NonZeroU16;
pub use nfs2::Nfs2;
pub use nfs3::Nfs3;
pub use nfs4::{Callback, CallbackProcedure, Nfs4, Nfs4Procedure};
pub use nfsacl::{NfsAcl2, NfsAcl3};
pub use payload::{Chunks, Item, Payload, Place};
pub use rows::{DdpEligible, OperationKind};
pub use state::{FactKind, STATUS_FLAGS, StateFact};

use rdmascope_wire::Stop;
use rdmascope_wire::nfs::{nfsstat3, nfsstat4, stat};
use rdmascope_wire::rpc::program;
use rows::Operations;
use state::Facts;
use walk::Walk;

/// The result of parsing a message, besides the [`Details`].
pub type Outcome = Result<(), Stop>;

/// The RPC procedure that a message calls or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Procedure {
    /// RPC program number.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure.
    pub number: u32,
}

impl Procedure {
    /// The name of a status in its results: [`status_name`].
    pub fn status_name(self, status: u32) -> Option<&'static str> {
        status_name(self.program, self.version, status)
    }

    /// Whether it belongs to NFS version 4.
    #[inline]
    pub fn is_nfs4(self) -> bool {
        (self.program, self.version) == (program::NFS, 4)
    }

    /// Whether its program number is in the range that clients use for NFSv4 callbacks.
    #[inline]
    pub fn is_callback(self) -> bool {
        program::is_callback(self.program)
    }

    /// Whether it is COMPOUND of NFS version 4, or CB_COMPOUND.
    #[inline]
    pub fn is_compound(self) -> bool {
        self.number == COMPOUND && (self.is_nfs4() || self.is_callback())
    }
}

/// The number of COMPOUND and of CB_COMPOUND (RFC 7531).
const COMPOUND: u32 = 1;

/// Parses the arguments at the cursor of `payload` into `details`. After a [`Stop`], `details` has
/// everything before it.
///
/// A program without a binding changes neither.
pub fn call(procedure: Procedure, payload: &mut Payload<'_>, details: &mut Details) -> Outcome {
    match Protocol::of(procedure.program, procedure.version) {
        Some(Protocol::Nfs2) => arguments::<Nfs2>(procedure, payload, details),
        Some(Protocol::Nfs3) => arguments::<Nfs3>(procedure, payload, details),
        Some(Protocol::Nfs4) if procedure.is_compound() => nfs4::call(payload, details),
        Some(Protocol::Nfs4) => arguments::<Nfs4Procedure>(procedure, payload, details),
        Some(Protocol::Callback) if procedure.is_compound() => nfs4::callback_call(payload, details),
        Some(Protocol::Callback) => arguments::<CallbackProcedure>(procedure, payload, details),
        Some(Protocol::NfsAcl2) => arguments::<NfsAcl2>(procedure, payload, details),
        Some(Protocol::NfsAcl3) => arguments::<NfsAcl3>(procedure, payload, details),
        None => Ok(()),
    }
}

/// Parses the arguments of a plain procedure. A procedure without a row is noted as unknown, and
/// its arguments are not parsed.
#[inline]
fn arguments<O: Operations>(
    procedure: Procedure,
    payload: &mut Payload<'_>,
    details: &mut Details,
) -> Outcome {
    let found = O::of(procedure.number);
    let kind = found.map_or(OperationKind::UnknownProcedure(procedure.number), Into::into);
    let mut unkept = None;
    let Details { operations, arena, backchannel, session, entries, states, .. } = details;
    let (operation, place) = add(operations, &mut unkept, kind);
    let mut walk =
        Walk::new(payload, operation, arena, backchannel, session, entries, Facts::new(states, place));
    found.map_or(Ok(()), |found| (found.row().arguments)(&mut walk))
}

/// Parses the results at the cursor of `payload` and returns the status of the whole procedure: the
/// status of the COMPOUND, or the nfsstat3 of a procedure of NFS version 3.
///
/// `details` has the fields from [`call`], or none if the call was not captured. After a [`Stop`]
/// it has everything before it, including [`Details::status`].
pub fn reply(
    procedure: Procedure,
    payload: &mut Payload<'_>,
    details: &mut Details,
) -> Result<Option<u32>, Stop> {
    match Protocol::of(procedure.program, procedure.version) {
        Some(Protocol::Nfs2) => results::<Nfs2>(procedure, payload, details)?,
        Some(Protocol::Nfs3) => results::<Nfs3>(procedure, payload, details)?,
        Some(Protocol::Nfs4) if procedure.is_compound() => nfs4::reply(payload, details)?,
        Some(Protocol::Nfs4) => results::<Nfs4Procedure>(procedure, payload, details)?,
        Some(Protocol::Callback) if procedure.is_compound() => nfs4::callback_reply(payload, details)?,
        Some(Protocol::Callback) => results::<CallbackProcedure>(procedure, payload, details)?,
        Some(Protocol::NfsAcl2) => results::<NfsAcl2>(procedure, payload, details)?,
        Some(Protocol::NfsAcl3) => results::<NfsAcl3>(procedure, payload, details)?,
        None => return Ok(None),
    }
    Ok(details.status)
}

/// Parses the results of a plain procedure. Its status is that of the whole.
#[inline]
fn results<O: Operations>(procedure: Procedure, payload: &mut Payload<'_>, details: &mut Details) -> Outcome {
    let found = O::of(procedure.number);
    let kind = found.map_or(OperationKind::UnknownProcedure(procedure.number), Into::into);
    if details.operations.first().is_none_or(|operation| operation.kind != kind) {
        details.operations.insert(0, Operation::new(kind));
    }
    let Details { operations, arena, backchannel, session, entries, states, .. } = details;
    let facts = Facts::new(states, Some(0));
    let mut walk = Walk::new(payload, &mut operations[0], arena, backchannel, session, entries, facts);
    let outcome = found.map_or(Ok(()), |found| found.row().results(&mut walk));
    details.status = details.operations[0].status;
    outcome
}

/// Whether a binding parses the arguments and results of this program.
pub fn has_binding(program: u32, version: u32) -> bool {
    Protocol::of(program, version).is_some()
}

/// The name of an RPC program related to NFS.
pub fn program_name(number: u32) -> Option<&'static str> {
    Some(match number {
        program::PORTMAPPER => "portmapper",
        program::NFS => "NFS",
        program::MOUNT => "MOUNT",
        program::NLM => "NLM",
        program::NSM => "NSM",
        program::NFSACL => "NFSACL",
        number if program::is_callback(number) => "NFS callback",
        _ => return None,
    })
}

/// The name of a procedure without the prefix of its specification: `NULL`, `WRITE`, `COMPOUND`,
/// `CB_COMPOUND`.
pub fn procedure_name(procedure: Procedure) -> Option<&'static str> {
    let Procedure { program, version, number } = procedure;
    match Protocol::of(program, version) {
        Some(Protocol::Nfs2) => Nfs2::name_of(number),
        Some(Protocol::Nfs3) => Nfs3::name_of(number),
        Some(Protocol::Nfs4) if number == COMPOUND => Some("COMPOUND"),
        Some(Protocol::Nfs4) => Nfs4Procedure::name_of(number),
        Some(Protocol::Callback) if number == COMPOUND => Some("CB_COMPOUND"),
        Some(Protocol::Callback) => CallbackProcedure::name_of(number),
        Some(Protocol::NfsAcl2) => NfsAcl2::name_of(number),
        Some(Protocol::NfsAcl3) => NfsAcl3::name_of(number),
        None => auxiliary::procedure_name(program, version, number),
    }
}

/// The name of a status in the specification's spelling: `NFS3ERR_NOENT`, `NFS4ERR_DELAY`,
/// `NFS4_OK`.
pub fn status_name(program: u32, version: u32, status: u32) -> Option<&'static str> {
    match Protocol::of(program, version)? {
        Protocol::Nfs2 | Protocol::NfsAcl2 => stat::name(status),
        Protocol::Nfs3 | Protocol::NfsAcl3 => nfsstat3::name(status),
        Protocol::Nfs4 | Protocol::Callback => nfsstat4::name(status),
    }
}

/// The principal operation of a COMPOUND: the first that is not auxiliary, or else a GETATTR, or
/// else the last.
pub fn principal_operation(details: &Details) -> Option<&Operation> {
    let operations = &details.operations;
    operations
        .iter()
        .find(|operation| !operation.kind.is_auxiliary())
        .or_else(|| operations.iter().find(|operation| operation.kind == OperationKind::Nfs4(Nfs4::Getattr)))
        .or(operations.last())
}

/// A program and version with a binding.
#[derive(Clone, Copy)]
enum Protocol {
    Nfs2,
    Nfs3,
    Nfs4,
    Callback,
    NfsAcl2,
    NfsAcl3,
}

impl Protocol {
    #[inline]
    fn of(number: u32, version: u32) -> Option<Protocol> {
        Some(match (number, version) {
            (program::NFS, 2) => Protocol::Nfs2,
            (program::NFS, 3) => Protocol::Nfs3,
            (program::NFS, 4) => Protocol::Nfs4,
            (program::NFSACL, 2) => Protocol::NfsAcl2,
            (program::NFSACL, 3) => Protocol::NfsAcl3,
            // The specifications require version 1, but some servers call version 4.
            (number, 1 | 4) if program::is_callback(number) => Protocol::Callback,
            _ => return None,
        })
    }
}

/// The fields that a binding found in a call and its reply.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The operations in the order of the call: one for a plain procedure, several for a COMPOUND.
    pub operations: Vec<Operation>,
    /// The number of operations that the call of a COMPOUND announces. `None` for anything else,
    /// and if the call was not captured.
    pub called: Option<u32>,
    /// The minor version of a COMPOUND. `None` for anything else, and if the call was not captured.
    pub minor_version: Option<u32>,
    /// The tag of a COMPOUND, usually empty: that of the call, or that of the reply if the call has
    /// none or was not captured.
    pub tag: Text,
    /// The number of results that the reply to a COMPOUND announces. `None` for anything else.
    pub answered: Option<u32>,
    /// Whether the reply to a COMPOUND has the tag of its call. `None` unless both were captured.
    pub returns_tag: Option<bool>,
    /// The first result of a COMPOUND that belongs to another operation than that of the call at its
    /// place, which it is not stored with: its index, and its own operation. OP_ILLEGAL answers any
    /// operation.
    pub other_result: Option<(u32, OperationKind)>,
    /// The status of the procedure as a whole, from the reply.
    pub status: Option<u32>,
    /// The backchannel fields of all operations. `None` if there are none.
    pub backchannel: Option<Backchannel>,
    /// The session fields of all operations.
    pub session: Session,
    /// The directory entries that READDIRPLUS or READDIR returned with file handles. For a
    /// COMPOUND, those of its first READDIR.
    pub entries: Vec<Entry>,
    /// Facts about state that outlives the COMPOUND, in the order of their operations, those of the
    /// arguments of an operation first: at most [`StateFact::MOST`].
    pub states: Vec<StateFact>,
    /// The bytes of names and file handles, which [`Text`] refers to.
    pub arena: Vec<u8>,
}

clone_in_place!(Details {
    operations,
    called,
    minor_version,
    tag,
    answered,
    returns_tag,
    other_result,
    status,
    backchannel,
    session,
    entries,
    states,
    arena
});

impl Details {
    /// Empties the details but keeps their memory.
    pub fn clear(&mut self) {
        self.operations.clear();
        self.called = None;
        self.minor_version = None;
        self.tag = Text::default();
        self.answered = None;
        self.returns_tag = None;
        self.other_result = None;
        self.status = None;
        self.backchannel = None;
        self.session = Session::default();
        self.entries.clear();
        self.states.clear();
        self.arena.clear();
    }

    /// Bytes of memory on the heap.
    pub(crate) fn footprint(&self) -> usize {
        self.operations.capacity() * size_of::<Operation>()
            + self.entries.capacity() * size_of::<Entry>()
            + self.states.capacity() * size_of::<StateFact>()
            + self.arena.capacity()
    }

    /// Stores a copy of `bytes` in the arena, truncated to [`Text::LONGEST`].
    pub fn keep(&mut self, bytes: &[u8]) -> Text {
        keep(&mut self.arena, bytes)
    }

    /// The bytes of a [`Text`] of these details.
    pub fn bytes(&self, text: Text) -> &[u8] {
        let start = text.start as usize;
        self.arena.get(start..start + usize::from(text.length)).unwrap_or(&[])
    }

    /// Maximum bytes of names and file handles of one transaction. A large READDIR has more.
    const LARGEST_ARENA: usize = 1 << 18;
    /// The part of these that directory entries leave to other operations.
    const RESERVED: usize = 1 << 14;
    /// Maximum number of operations of one transaction. A longer COMPOUND is parsed to its end, but
    /// the rest is not stored.
    pub const MOST_OPERATIONS: usize = 1024;
}

/// A directory entry with its file handle (RFC 1813, section 3.3.17; RFC 8881, section 18.23).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name in the directory.
    pub name: Text,
    /// The file handle of the object.
    pub file_handle: Text,
}

/// The fields of CREATE_SESSION, BIND_CONN_TO_SESSION and BACKCHANNEL_CTL about callbacks on their
/// connection (RFC 8881, sections 18.33, 18.34 and 18.36).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Backchannel {
    /// Whether the call offers its connection for callbacks. `None` if the call was not captured,
    /// or if the operation has no such field.
    pub offered: Option<bool>,
    /// Whether the result accepts the offer. `None` without a result.
    pub taken: Option<bool>,
    /// The program number for callbacks.
    pub program: Option<u32>,
    /// csa_back_chan_attrs: the attributes that the client requests.
    pub requested: Option<ChannelAttributes>,
    /// csr_back_chan_attrs: the attributes that the server grants.
    pub granted: Option<ChannelAttributes>,
}

/// The session fields of a COMPOUND or CB_COMPOUND (RFC 8881, sections 2.10.6, 18.36, 18.46 and
/// 20.9), and the fields of an operation that continues after its reply (RFC 7862, sections 15.2
/// and 16.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// The arguments of SEQUENCE or CB_SEQUENCE.
    pub sequence: Option<Sequence>,
    /// The results of SEQUENCE or CB_SEQUENCE.
    pub sequenced: Option<Sequenced>,
    /// csr_sessionid and csr_fore_chan_attrs of CREATE_SESSION.
    pub created: Option<(SessionId, ChannelAttributes)>,
    /// csa_sequence of CREATE_SESSION.
    pub create_sequence: Option<u32>,
    /// csr_sequence of its result.
    pub created_sequence: Option<u32>,
    /// wr_callback_id of an asynchronous COPY or WRITE_SAME, coa_stateid of CB_OFFLOAD, or the
    /// stateid of OFFLOAD_CANCEL or OFFLOAD_STATUS.
    pub offload: Option<StateId>,
    /// Whether the result of OFFLOAD_STATUS reports that the operation has ended.
    pub offload_ended: bool,
}

/// A `sessionid4`.
pub type SessionId = [u8; 16];
/// A `stateid4`.
pub type StateId = [u8; 16];

/// The arguments of SEQUENCE or CB_SEQUENCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// sa_sessionid.
    pub session: SessionId,
    /// sa_sequenceid.
    pub number: u32,
    /// sa_slotid, from 0.
    pub slot: u32,
}

/// The results of SEQUENCE or CB_SEQUENCE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequenced {
    /// sr_sessionid, sr_sequenceid and sr_slotid, equal to those of the arguments.
    pub of: Sequence,
    /// sr_highest_slotid: the highest slot that the replier accepts.
    pub highest: u32,
    /// sr_target_highest_slotid: the highest slot that the replier prefers.
    pub target: u32,
    /// sr_status_flags; 0 for CB_SEQUENCE, which has none.
    pub flags: u32,
}

/// The fields of a `channel_attrs4` that limit the messages of the channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelAttributes {
    /// ca_maxrequestsize: maximum bytes of a call, from its RPC header on.
    pub largest_request: u32,
    /// ca_maxresponsesize: maximum bytes of a reply.
    pub largest_response: u32,
    /// ca_maxoperations: maximum operations of one COMPOUND.
    pub most_operations: u32,
    /// ca_maxrequests: maximum outstanding calls.
    pub most_requests: u32,
}

/// Appends at most [`Text::LONGEST`] of `bytes` to the arena. If the arena is full, the text is
/// empty.
#[inline]
fn keep(arena: &mut Vec<u8>, bytes: &[u8]) -> Text {
    let bytes = &bytes[..bytes.len().min(Text::LONGEST)];
    let start = arena.len();
    if start + bytes.len() > Details::LARGEST_ARENA {
        return Text::default();
    }
    arena.extend_from_slice(bytes);
    Text { start: start as u32, length: bytes.len() as u16 }
}

/// Adds an operation with only its kind, and returns it with its index. Beyond
/// [`Details::MOST_OPERATIONS`], the operation is stored in `unkept` and has no index.
#[inline]
fn add<'o>(
    operations: &'o mut Vec<Operation>,
    unkept: &'o mut Option<Operation>,
    kind: OperationKind,
) -> (&'o mut Operation, Option<usize>) {
    let (operation, place) = (Operation::new(kind), operations.len());
    if place < Details::MOST_OPERATIONS {
        operations.push(operation);
        (&mut operations[place], Some(place))
    } else {
        (unkept.insert(operation), None)
    }
}

/// A range of [`Details::arena`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text {
    start: u32,
    length: u16,
}

impl Text {
    /// Maximum bytes of one name or file handle.
    pub const LONGEST: usize = 1024;

    /// Whether it has no bytes.
    pub fn is_empty(self) -> bool {
        self.length == 0
    }
}

/// One operation, with the arguments and results that explain the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The kind of operation.
    pub kind: OperationKind,
    /// Its status, from the reply.
    pub status: Option<u32>,
    /// The file handle that it names or, for PUTFH, sets.
    pub file_handle: Option<Text>,
    /// A second file handle: the directory of the new name for RENAME, or of the link for LINK. NFS
    /// version 4 uses the current file handle instead.
    pub other_file_handle: Option<Text>,
    /// The file handle that its result returned (GETFH, LOOKUP, CREATE …).
    pub result_file_handle: Option<Text>,
    /// The name of the directory entry that it uses.
    pub file_name: Option<Text>,
    /// A second name: the new name of RENAME, or the text of a symbolic link if it is inline.
    pub other_name: Option<Text>,
    /// Byte offset in the file; in the source for COPY and CLONE.
    pub offset: Option<u64>,
    /// Bytes requested or sent; maxcount for READDIR.
    pub count: Option<u64>,
    /// For a WRITE: the stable_how of its arguments and that of its result, at which the data is
    /// stable. Each is 0 (UNSTABLE) to 2 (FILE_SYNC).
    pub stable: [Option<u8>; 2],
    /// Bytes moved, from the result.
    pub result_count: Option<u64>,
    /// Bytes of the directory entries in the result of a READDIR or READDIRPLUS, with the mark of
    /// the end.
    pub entry_bytes: Option<u32>,
    /// The size that it sets: for SETATTR, and for a CREATE or OPEN that may create or truncate a
    /// file.
    pub size: Option<u64>,
    /// The most bytes that its result can have, if the arguments limit it: for a GETATTR of
    /// attributes with fixed lengths.
    pub longest_result: Option<NonZeroU16>,
    /// Whether the result reached the end of the file, the directory or the list.
    pub end_of_file: Option<bool>,
    /// The DDP-eligible item of the arguments.
    pub argument_item: Option<Item>,
    /// The DDP-eligible item of the results.
    pub result_item: Option<Item>,
}

impl Operation {
    /// Creates an operation with only its kind.
    #[inline]
    pub fn new(kind: OperationKind) -> Operation {
        Operation {
            kind,
            status: None,
            file_handle: None,
            other_file_handle: None,
            result_file_handle: None,
            file_name: None,
            other_name: None,
            offset: None,
            count: None,
            stable: [None; 2],
            result_count: None,
            entry_bytes: None,
            size: None,
            longest_result: None,
            end_of_file: None,
            argument_item: None,
            result_item: None,
        }
    }

    /// The number of the procedure or operation.
    pub fn code(&self) -> u32 {
        self.kind.code()
    }

    /// Its name in the specification's spelling: see [`OperationKind::name`].
    pub fn name(&self) -> &'static str {
        self.kind.name()
    }
}
