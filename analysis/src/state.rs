//! Lifetimes of NFSv4 state, from their beginning to their end: client IDs, sessions, opens, locks,
//! delegations, layouts and copies.
//!
//! This module defines a lifetime. `table` keeps lifetimes within bounds, [`States`] follows them
//! over transactions, and [`Summary`] counts them.
//!
//! Nothing is guessed. A failed operation changes nothing. If a call that would end a lifetime has
//! no readable reply, the end is [`End::Unknown`], unless the state is used successfully later.
//! State from before the capture is known from its first use.

mod clients;
mod follow;
mod index;
mod living;
mod operations;
mod ranges;
mod summary;
mod table;
#[cfg(test)]
pub(crate) mod tests;

pub use follow::States;
pub use ranges::Ranges;
pub(crate) use summary::Counts;
pub use summary::Summary;

use crate::filter::{Span, among};
use crate::paths::Paths;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::ulb::{STATUS_FLAGS, StateId};

/// The kinds of state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A client ID.
    Client,
    /// A session.
    Session,
    /// A file opened by one open-owner.
    Open,
    /// The byte ranges of a file that a lock-owner has locked.
    Lock,
    /// A delegation.
    Delegation,
    /// The layouts of a file.
    Layout,
    /// An asynchronous COPY or WRITE_SAME.
    Copy,
    /// An open, a lock or a delegation from before the capture. Its uses do not show which of these
    /// it is.
    Stateid,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 8] = [
        Kind::Client,
        Kind::Session,
        Kind::Open,
        Kind::Lock,
        Kind::Delegation,
        Kind::Layout,
        Kind::Copy,
        Kind::Stateid,
    ];

    /// Its name in machine-readable output.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Client => "client",
            Kind::Session => "session",
            Kind::Open => "open",
            Kind::Lock => "lock",
            Kind::Delegation => "delegation",
            Kind::Layout => "layout",
            Kind::Copy => "copy",
            Kind::Stateid => "stateid",
        }
    }

    /// Its name for people, in the singular.
    pub const fn noun(self) -> &'static str {
        match self {
            Kind::Client => "client ID",
            Kind::Copy => "asynchronous copy",
            _ => self.word(),
        }
    }

    /// Its name for people, in the plural.
    pub const fn plural(self) -> &'static str {
        match self {
            Kind::Client => "client IDs",
            Kind::Session => "sessions",
            Kind::Open => "opens",
            Kind::Lock => "locks",
            Kind::Delegation => "delegations",
            Kind::Layout => "layouts",
            Kind::Copy => "asynchronous copies",
            Kind::Stateid => "stateids",
        }
    }
}

/// The ways in which a lifetime ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// It was open when the capture ended.
    Open,
    /// By CLOSE.
    Closed,
    /// By LOCKU of its last range.
    Unlocked,
    /// By DELEGRETURN or LAYOUTRETURN.
    Returned,
    /// By FREE_STATEID.
    Freed,
    /// By DESTROY_SESSION or DESTROY_CLIENTID.
    Destroyed,
    /// By a CB_OFFLOAD or an OFFLOAD_STATUS that reports success.
    Completed,
    /// By a CB_OFFLOAD that reports failure.
    Failed,
    /// By OFFLOAD_CANCEL.
    Cancelled,
    /// The server revoked it, or its lease expired.
    Revoked,
    /// For a client ID without a session, or of a client that restarted: EXCHANGE_ID returned another
    /// one to the same client.
    Replaced,
    /// The server no longer knew it, or its client ID was replaced.
    Lost,
    /// Its client ID was destroyed before it was returned.
    Abandoned,
    /// The client restarted before it was returned.
    Restarted,
    /// Another host asked for a client ID with the same client owner, as a restarted client does.
    TakenOver,
    /// A call that would end it has no readable reply; or its client ID ended or the server no
    /// longer knew it, and a missing packet may have ended it before.
    Unknown,
    /// The table was full, so it was not followed to its end.
    NotFollowed,
}

impl End {
    /// All ends.
    pub const ALL: [End; 17] = [
        End::Open,
        End::Closed,
        End::Unlocked,
        End::Returned,
        End::Freed,
        End::Destroyed,
        End::Completed,
        End::Failed,
        End::Cancelled,
        End::Revoked,
        End::Replaced,
        End::Lost,
        End::Abandoned,
        End::Restarted,
        End::TakenOver,
        End::Unknown,
        End::NotFollowed,
    ];

    /// Its name in machine-readable output.
    pub const fn word(self) -> &'static str {
        match self {
            End::Open => "open",
            End::Closed => "closed",
            End::Unlocked => "unlocked",
            End::Returned => "returned",
            End::Freed => "freed",
            End::Destroyed => "destroyed",
            End::Completed => "completed",
            End::Failed => "failed",
            End::Cancelled => "cancelled",
            End::Revoked => "revoked",
            End::Replaced => "replaced",
            End::Lost => "lost",
            End::Abandoned => "abandoned",
            End::Restarted => "restarted",
            End::TakenOver => "taken-over",
            End::Unknown => "unknown",
            End::NotFollowed => "not-followed",
        }
    }

    /// Whether the lifetime did not end in order.
    pub const fn is_broken(self) -> bool {
        matches!(self, End::Failed | End::Revoked) || self.is_loss()
    }

    /// Whether it ended together with the state of its client, or because the server no longer knew it.
    pub(crate) const fn is_loss(self) -> bool {
        matches!(self, End::Lost | End::Abandoned | End::Restarted | End::TakenOver)
    }
}

/// A message in the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// The time of its last packet.
    pub time: Time,
    /// The number of that packet.
    pub frame: u64,
    /// The number of the transaction.
    pub transaction: u64,
}

/// The identity of a lifetime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// A client ID.
    Client(u64),
    /// A session ID.
    Session([u8; 16]),
    /// The twelve bytes of a stateid that stay the same when its sequence number changes.
    Stateid([u8; 12]),
}

impl Identity {
    /// The identity in a stateid; `None` for special stateids (RFC 8881, section 8.2.3; RFC 7530,
    /// section 9.1.4.3).
    pub(crate) fn of_stateid(id: &StateId) -> Option<Identity> {
        let other = *id.last_chunk().expect("a stateid has sixteen bytes");
        (other != [0; 12] && other != [0xff; 12]).then_some(Identity::Stateid(other))
    }

    /// Lends its bytes to `see`.
    pub fn bytes(&self, see: &mut dyn FnMut(&[u8])) {
        match self {
            Identity::Client(id) => see(&id.to_be_bytes()),
            Identity::Session(id) => see(id),
            Identity::Stateid(id) => see(id),
        }
    }
}

/// Reading and writing, as the bits of OPEN4_SHARE_ACCESS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(u8);

impl Access {
    /// Reading.
    pub const READ: Access = Access(1);
    /// Reading and writing.
    pub const BOTH: Access = Access(3);

    /// The lowest two bits of share_access or share_deny.
    pub(crate) const fn of_share(bits: u32) -> Access {
        Access((bits & 3) as u8)
    }

    /// Reading, and also writing if `writes` is set.
    pub const fn writing(writes: bool) -> Access {
        if writes { Access::BOTH } else { Access::READ }
    }

    /// The union of both.
    #[must_use]
    pub const fn with(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    /// Its name in machine-readable output; `None` for no access.
    pub const fn word(self) -> Option<&'static str> {
        match self.0 {
            1 => Some("read"),
            2 => Some("write"),
            3 => Some("read-write"),
            _ => None,
        }
    }
}

/// Flags of sr_status_flags that a server raised in one reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Raised {
    /// The session.
    session: (u64, Identity),
    /// The connection of the first reply.
    pub connection: ConnectionId,
    /// The flags.
    pub flags: u32,
    /// The first reply.
    pub first: At,
    /// The last reply with one of the flags.
    pub last: At,
    /// The number of replies with one of the flags.
    pub replies: u64,
    /// The first reply without any of the flags, or the end of the session.
    pub gone: Option<At>,
}

/// How much of a lifetime's beginning was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// The operation that created it was captured.
    Captured,
    /// Its client ID was created in the capture, and calls of that client are encrypted (krb5p).
    Encrypted,
    /// It existed before the capture, or began where packets are missing.
    Before,
    /// Encrypted or before the capture.
    Unclear,
}

impl Beginning {
    /// All beginnings.
    pub const ALL: [Beginning; 4] =
        [Beginning::Captured, Beginning::Encrypted, Beginning::Before, Beginning::Unclear];

    /// Its name in machine-readable output.
    pub const fn word(self) -> &'static str {
        match self {
            Beginning::Captured => "captured",
            Beginning::Encrypted => "encrypted",
            Beginning::Before => "before",
            Beginning::Unclear => "before-or-encrypted",
        }
    }
}

/// The lifetime of a piece of state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Its number, from 1, in the order of first appearance.
    pub number: u64,
    /// Its kind.
    pub kind: Kind,
    /// Its identity.
    pub id: Identity,
    /// The minor version of NFSv4.
    pub minor_version: u32,
    /// The number of the client ID's lifetime; if that is unknown, of the session's. It is 0 in
    /// minor version 0.
    pub(crate) scope: u64,
    /// The client ID, if known.
    pub client: Option<u64>,
    /// The address of the client at its first appearance.
    pub client_address: Option<Address>,
    /// The address of the server at its first appearance.
    pub server_address: Option<Address>,
    /// For a lock: the number of the open.
    pub open: Option<u64>,
    /// The connection of its first appearance.
    pub connection: ConnectionId,
    /// The connection of its last appearance.
    pub last_connection: ConnectionId,
    /// The file handle, if known.
    pub file_handle: Vec<u8>,
    /// The name in the OPEN.
    pub file_name: Vec<u8>,
    /// The path of the file, if paths are followed: see [`Lifetime::take_path`].
    pub path: Vec<u8>,
    /// The access that it allows.
    pub access: Option<Access>,
    /// The access that it denies to others.
    pub deny: Option<Access>,
    /// For a lock: the locked ranges.
    pub ranges: Ranges,
    /// How much of its beginning was captured.
    pub beginning: Beginning,
    /// For a client ID: whether some of its calls were encrypted, so that opens may have begun
    /// unseen.
    pub(crate) is_sealed: bool,
    /// Whether the client reclaimed it after the server lost it.
    pub reclaimed: bool,
    /// The reply of its first appearance.
    pub first: At,
    /// The message of its last appearance.
    pub last: At,
    /// The message that ended it.
    pub ended: Option<At>,
    /// Its end.
    pub end: End,
    /// The callback that recalled it first.
    pub recalled: Option<At>,
    /// The number of operations that named it and were not refused; for a session, requests.
    pub uses: u64,
    /// The number of READs among the uses.
    pub reads: u64,
    /// The number of WRITEs among the uses.
    pub writes: u64,
    /// For a session: the highest slot that a request used.
    pub highest_slot: Option<u32>,
    /// For a session: the most slots that the server granted.
    pub slots: Option<u32>,
    /// For a session: all flags of sr_status_flags in its replies.
    pub flags: u32,
    /// For a session: the flags of the last reply.
    pub(crate) flags_now: u32,
    /// The call that may have ended it, whose reply is not readable.
    pub(crate) unsure: Option<At>,
    /// For a client ID: hashes of the client owner and of the server.
    pub(crate) owner: Option<(u64, u64)>,
    /// Whether packets or calls after [`Lifetime::last`] that could have ended it are missing.
    pub capture_gap: bool,
}

impl Lifetime {
    /// Nanoseconds from the reply that began it to its end; `None` unless both were captured.
    pub fn duration(&self) -> Option<u64> {
        let ended =
            self.ended.filter(|_| self.is_begun() && !matches!(self.end, End::Unknown | End::NotFollowed))?;
        Some(ended.time.since(self.first.time))
    }

    /// Whether the operation that created it was captured.
    pub fn is_begun(&self) -> bool {
        self.beginning == Beginning::Captured
    }

    /// Stores the current path of its file.
    pub fn take_path(&mut self, paths: &Paths) {
        if let Some(server) = self.server_address {
            paths.of_handle(server, &self.file_handle, &mut self.path);
        }
    }

    /// The path of its file if known, or else the name in the OPEN; empty if there is neither.
    pub fn file(&self) -> &[u8] {
        if self.path.is_empty() { &self.file_name } else { &self.path }
    }

    /// The locked ranges as first and last bytes; `None` if nothing is locked.
    pub fn ranges_text(&self) -> Option<String> {
        let ranges = self.ranges.list();
        if ranges.is_empty() {
            return None;
        }
        let text = |range: &(u64, u64)| match *range {
            (first, u64::MAX) => format!("{first}-"),
            (first, last) => format!("{first}-{last}"),
        };
        Some(ranges.iter().map(text).collect::<Vec<_>>().join(","))
    }

    /// Whether the server recalled it and it was not returned.
    pub fn is_owed(&self) -> bool {
        self.recalled.is_some() && !matches!(self.end, End::Returned | End::Unknown | End::NotFollowed)
    }
}

/// The names of the flags set in sr_status_flags, without SEQ4_STATUS_.
pub fn status_flags(flags: u32) -> impl Iterator<Item = &'static str> {
    let unknown = (flags >> STATUS_FLAGS.len() != 0).then_some("unknown");
    let known = STATUS_FLAGS.iter().enumerate().filter(move |(bit, _)| flags & (1 << bit) != 0);
    known.map(|(_, name)| *name).chain(unknown)
}

/// A selection of lifetimes.
#[derive(Clone, Debug, Default)]
pub struct StateFilter {
    /// Lifetimes whose first or last connection has one of these numbers.
    pub connections: Vec<ConnectionId>,
    /// Lifetimes of these kinds.
    pub kinds: Vec<Kind>,
    /// Lifetimes with these ends.
    pub ends: Vec<End>,
    /// Whether to select only recalled lifetimes.
    pub recalled: bool,
    /// Lifetimes that overlap this span.
    pub span: Span,
}

impl StateFilter {
    /// Whether the filter selects `lifetime`, in a capture that starts at `start`.
    pub fn matches(&self, lifetime: &Lifetime, start: Time) -> bool {
        let first = if lifetime.is_begun() { lifetime.first.time } else { Time(i64::MIN) };
        let last = lifetime.ended.map_or(Time(i64::MAX), |at| at.time);
        among(&self.connections, |id| *id == lifetime.connection || *id == lifetime.last_connection)
            && among(&self.kinds, |kind| *kind == lifetime.kind)
            && among(&self.ends, |end| *end == lifetime.end)
            && (!self.recalled || lifetime.recalled.is_some())
            && self.span.overlaps(first, last, start)
    }
}
