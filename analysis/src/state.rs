//! State as lifetimes: client IDs, sessions, opens, locks, delegations, layouts and copies of NFSv4, from when they began to how they ended.
//!
//! Here: what a lifetime is. `table` keeps them within bounds, [`States`] follows them over transactions, [`Summary`] counts them.
//!
//! Nothing is guessed. An operation that failed changes nothing. Where a call that would end something has no reply that could be read, its end is
//! [`End::Unknown`], unless it is used successfully later. What began before the capture is known by its first use.

mod clients;
mod follow;
mod living;
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

/// What lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A client ID.
    Client,
    /// A session.
    Session,
    /// What OPEN opened: a file for one open-owner.
    Open,
    /// The byte ranges of a file that a lock-owner has locked.
    Lock,
    /// A delegation.
    Delegation,
    /// The layouts of a file.
    Layout,
    /// An asynchronous COPY or WRITE_SAME.
    Copy,
    /// An open, a lock or a delegation from before the capture, which only operations named that all three may.
    Stateid,
}

impl Kind {
    /// All of them.
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

    /// Its name for programs.
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

    /// What people call one of them.
    pub const fn noun(self) -> &'static str {
        match self {
            Kind::Client => "client ID",
            Kind::Copy => "asynchronous copy",
            _ => self.word(),
        }
    }

    /// Several of them.
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

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// It had not ended when the capture did.
    Open,
    /// By CLOSE.
    Closed,
    /// By LOCKU: no range was left.
    Unlocked,
    /// By DELEGRETURN or LAYOUTRETURN.
    Returned,
    /// By FREE_STATEID.
    Freed,
    /// By DESTROY_SESSION or DESTROY_CLIENTID.
    Destroyed,
    /// By a CB_OFFLOAD of success, or an OFFLOAD_STATUS that says so.
    Completed,
    /// By a CB_OFFLOAD of failure.
    Failed,
    /// By OFFLOAD_CANCEL.
    Cancelled,
    /// The server revoked it, or its lease expired.
    Revoked,
    /// Of a client ID without a session: EXCHANGE_ID gave the same client another one.
    Replaced,
    /// The server did not know it any more, or its client ID was replaced.
    Lost,
    /// Its client ID was destroyed, and it had not been given back.
    Abandoned,
    /// A call that would end it has no reply that could be read.
    Unknown,
    /// The table was full, and it was not followed to its end.
    NotFollowed,
}

impl End {
    /// All of them.
    pub const ALL: [End; 15] = [
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
        End::Unknown,
        End::NotFollowed,
    ];

    /// Its name for programs.
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
            End::Unknown => "unknown",
            End::NotFollowed => "not-followed",
        }
    }

    /// Whether nobody gave it back in order.
    pub const fn is_broken(self) -> bool {
        matches!(self, End::Failed | End::Revoked | End::Lost | End::Abandoned)
    }
}

/// Where the capture shows something: a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    /// When its last packet came.
    pub time: Time,
    /// The number of that packet.
    pub frame: u64,
    /// The number of the transaction.
    pub transaction: u64,
}

/// What a lifetime is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Identity {
    /// A client ID.
    Client(u64),
    /// A session ID.
    Session([u8; 16]),
    /// The twelve bytes of a stateid that stay when its sequence number changes.
    Stateid([u8; 12]),
}

impl Identity {
    /// The identity that is in a stateid; `None` of those that stand for no state (RFC 8881, section 8.2.3; RFC 7530, section 9.1.4.3).
    pub fn of_stateid(id: &StateId) -> Option<Identity> {
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

/// Reading and writing, as bits: those of OPEN4_SHARE_ACCESS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access(u8);

impl Access {
    /// Reading.
    pub const READ: Access = Access(1);
    /// Reading and writing.
    pub const BOTH: Access = Access(3);

    /// The lowest two bits of share_access or share_deny.
    pub const fn of_share(bits: u32) -> Access {
        Access((bits & 3) as u8)
    }

    /// Writing beside reading, or not.
    pub const fn writing(writes: bool) -> Access {
        if writes { Access::BOTH } else { Access::READ }
    }

    /// Both together.
    #[must_use]
    pub const fn with(self, other: Access) -> Access {
        Access(self.0 | other.0)
    }

    /// Its name for programs, where there is any.
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
    /// The last reply with one of them.
    pub last: At,
    /// Replies with one of them.
    pub replies: u64,
    /// The first reply without any of them, or the end of the session.
    pub gone: Option<At>,
}

/// How far the capture shows how a lifetime began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// It has the operation that made it.
    Captured,
    /// Its client ID was made in the capture, and calls for that are encrypted (krb5p).
    Encrypted,
    /// It was there before the capture, or began where that lacks packets.
    Before,
    /// Either.
    Unclear,
}

impl Beginning {
    /// All of them.
    pub const ALL: [Beginning; 4] =
        [Beginning::Captured, Beginning::Encrypted, Beginning::Before, Beginning::Unclear];

    /// Its name.
    pub const fn word(self) -> &'static str {
        match self {
            Beginning::Captured => "captured",
            Beginning::Encrypted => "encrypted",
            Beginning::Before => "before",
            Beginning::Unclear => "before-or-encrypted",
        }
    }
}

/// Something that lived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifetime {
    /// Its number, in the order in which the capture showed them first, from 1.
    pub number: u64,
    /// What it is.
    pub kind: Kind,
    /// What names it.
    pub id: Identity,
    /// The minor version of NFSv4.
    pub minor_version: u32,
    /// The number of the client ID's lifetime, or where that is not known of the session's, that it belongs to; 0 in minor version 0.
    pub(crate) scope: u64,
    /// The client ID, where it is known.
    pub client: Option<u64>,
    /// The address of the client, where it is seen first.
    pub client_address: Option<Address>,
    /// That of the server.
    pub server_address: Option<Address>,
    /// Of a lock: the number of the open.
    pub open: Option<u64>,
    /// The connection on which it was seen first.
    pub connection: ConnectionId,
    /// The connection on which it was seen last.
    pub last_connection: ConnectionId,
    /// The file handle, where it is known.
    pub file_handle: Vec<u8>,
    /// The name that OPEN used.
    pub file_name: Vec<u8>,
    /// The path of the file, where somebody follows paths: see [`Lifetime::take_path`].
    pub path: Vec<u8>,
    /// What it allows.
    pub access: Option<Access>,
    /// What it denies others.
    pub deny: Option<Access>,
    /// Of a lock: what is locked.
    pub ranges: Ranges,
    /// How far the capture shows how it began.
    pub beginning: Beginning,
    /// Of a client ID: some of its calls were encrypted, so opens may have begun unseen.
    pub(crate) is_sealed: bool,
    /// Whether a client that the server had forgotten reclaimed it.
    pub reclaimed: bool,
    /// The reply that shows it first.
    pub first: At,
    /// The message that shows it last.
    pub last: At,
    /// The message that ended it.
    pub ended: Option<At>,
    /// How it ended.
    pub end: End,
    /// The callback that recalled it first.
    pub recalled: Option<At>,
    /// How often it was named and not refused: of a session, requests.
    pub uses: u64,
    /// Of these, READs.
    pub reads: u64,
    /// Of these, WRITEs.
    pub writes: u64,
    /// Of a session: the highest slot that a request used.
    pub highest_slot: Option<u32>,
    /// Of a session: the slots that the server granted, at most.
    pub slots: Option<u32>,
    /// Of a session: all flags of sr_status_flags that a reply had.
    pub flags: u32,
    /// Of a session: those of the last reply.
    pub(crate) flags_now: u32,
    /// A call that would end it has no reply that could be read.
    pub(crate) unsure: Option<At>,
    /// Locks of this open.
    pub(crate) locks: u32,
    /// Of a client ID: a hash of who it is of, and of the server.
    pub(crate) owner: Option<(u64, u64)>,
    /// Whether packets or calls that could have ended it are missing behind [`Lifetime::last`].
    pub capture_gap: bool,
}

impl Lifetime {
    /// Nanoseconds from the reply that began it to what ended it, where the capture shows both.
    pub fn duration(&self) -> Option<u64> {
        let ended =
            self.ended.filter(|_| self.is_begun() && !matches!(self.end, End::Unknown | End::NotFollowed))?;
        Some(ended.time.since(self.first.time))
    }

    /// Whether the operation that made it was captured.
    pub fn is_begun(&self) -> bool {
        self.beginning == Beginning::Captured
    }

    /// Takes the path that its file has now.
    pub fn take_path(&mut self, paths: &Paths) {
        if let Some(server) = self.server_address {
            paths.of_handle(server, &self.file_handle, &mut self.path);
        }
    }

    /// What people call its file: the path, where it is known, else the name that OPEN used; empty where there is neither.
    pub fn file(&self) -> &[u8] {
        if self.path.is_empty() { &self.file_name } else { &self.path }
    }

    /// What is locked, as first and last bytes; `None` of what is no lock, or where nothing is.
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

    /// Whether the server asked for it and nobody gave it back.
    pub fn is_owed(&self) -> bool {
        self.recalled.is_some() && !matches!(self.end, End::Returned | End::Unknown | End::NotFollowed)
    }
}

/// The names of sr_status_flags that are set, without SEQ4_STATUS_.
pub fn status_flags(flags: u32) -> impl Iterator<Item = &'static str> {
    let unknown = (flags >> STATUS_FLAGS.len() != 0).then_some("unknown");
    let known = STATUS_FLAGS.iter().enumerate().filter(move |(bit, _)| flags & (1 << bit) != 0);
    known.map(|(_, name)| *name).chain(unknown)
}

/// Which lifetimes are wanted.
#[derive(Clone, Debug, Default)]
pub struct StateFilter {
    /// Those that began or were seen last on connections of these numbers.
    pub connections: Vec<ConnectionId>,
    /// Those of these kinds.
    pub kinds: Vec<Kind>,
    /// Those that ended so.
    pub ends: Vec<End>,
    /// Whether only those that were recalled are wanted.
    pub recalled: bool,
    /// Those that reach into this span.
    pub span: Span,
}

impl StateFilter {
    /// Whether `lifetime` is wanted, in a capture that starts at `start`.
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
