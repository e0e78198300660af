//! `state`: NFSv4 state that outlives the call that created it.

use crate::column::Align::{Left, Right};
use crate::column::Read::{Boolean, Bytes, Frame, Lossy, Shown, Text, Texts, Time, U32, U64, Word as OneOf};
use crate::column::{Cell, Column, Columns, Role, Subject, Tint, Word, Words, explained, lend, word};
use crate::text::HexBytes;
use rdmascope_analysis::names::Quoted;
use rdmascope_analysis::state::{End, Lifetime, status_flags};
use rdmascope_analysis::units::{Duration, Number};

impl Subject for Lifetime {
    type Of<'a> = &'a Lifetime;
}

static KINDS: Words = &[
    explained("client", "a client ID"),
    word("session"),
    explained("open", "a file that an open-owner has open"),
    explained("lock", "the byte ranges of a file that a lock-owner has locked"),
    word("delegation"),
    explained("layout", "the layouts of a file"),
    explained("copy", "an asynchronous COPY or WRITE_SAME"),
    explained("stateid", "an open, a lock or a delegation from before the capture, of unknown type"),
];

static ENDS: Words = &[
    explained("open", "not ended when the capture ended"),
    explained("closed", "by CLOSE; for a lock, by the CLOSE of its open"),
    explained("unlocked", "by a LOCKU that left no locked range"),
    explained("returned", "by DELEGRETURN or LAYOUTRETURN"),
    explained("freed", "by FREE_STATEID"),
    explained("destroyed", "by DESTROY_SESSION or DESTROY_CLIENTID"),
    explained("completed", "CB_OFFLOAD or OFFLOAD_STATUS reported completion"),
    explained("failed", "CB_OFFLOAD reported an error"),
    explained("cancelled", "by OFFLOAD_CANCEL"),
    explained("revoked", "the server rejected it as revoked or expired"),
    explained("replaced", "for a client ID without a session: EXCHANGE_ID gave the same client a new one"),
    explained(
        "lost",
        "the server rejected it as unknown, or the client created a new client ID and this state was lost with the old one",
    ),
    explained("abandoned", "its client ID was destroyed before it was returned"),
    explained("restarted", "the client restarted before it was returned"),
    explained(
        "taken-over",
        "another host asked for a client ID with the same client owner and another verifier",
    ),
    explained(
        "unknown",
        "a call that would end it has no readable reply, or packets that may have ended it are missing",
    ),
    explained("not-followed", "discarded because of too much state"),
];

static BEGINNINGS: Words = &[
    explained("captured", "the capture has the operation that created it: `begun`"),
    explained(
        "encrypted",
        "its client ID was created in the capture, and calls are encrypted (krb5p): one of these created it, unless packets are missing",
    ),
    explained("before", "created before the capture, or while packets were missing"),
    explained("before-or-encrypted", "calls are encrypted, and its client ID may be from before the capture"),
];

static ACCESS: &[Word] = &[word("read"), word("write"), word("read-write")];

/// The lifetime of one piece of state.
pub static STATE: Columns<Lifetime> = {
    type C = Column<Lifetime>;
    Columns {
        name: "state",
        role: Role::Line,
        columns: &[
            C::new(
                "number",
                U64(|state| Some(state.number)),
                "The number of the state, from 1 in the order of first appearance. Filters do not change it.",
            )
            .text(0, "no", Right(5)),
            C::new("kind", OneOf(KINDS, |state| Some(state.kind.word())), "The kind of state.").text(3, "kind", Left(10)),
            C::new(
                "end",
                OneOf(ENDS, |state| Some(state.end.word())),
                "How the state ended. A failed operation ends nothing.",
            )
            .cell(
                4,
                "end",
                Left(20),
                Cell::Shown(|state, _, see| match (state.recalled.is_some(), state.end) {
                    (true, End::Returned) => see(&"recalled, returned"),
                    (true, _) => see(&format_args!("recalled, {}", state.end.word())),
                    (false, _) => see(&state.end.word()),
                }),
            )
            .tint(|state| match () {
                () if state.end.is_broken() => Tint::Red,
                () if state.is_owed() || state.end == End::Unknown => Tint::Yellow,
                () => Tint::Plain,
            }),
            C::new("minor_version", U32(|state| Some(state.minor_version)), "The minor version of NFSv4."),
            C::new(
                "id",
                Bytes(|state, see| state.id.bytes(see)),
                "The identifier: the client ID (8 bytes), the session ID (16 bytes), or the 12 bytes of the stateid after its sequence number.",
            )
            .cell(
                8,
                "id",
                Left(24),
                Cell::Shown(|state, _, see| state.id.bytes(&mut |bytes| see(&HexBytes(bytes)))),
            ),
            C::new(
                "client_id",
                Shown(|state, see| lend(state.client, |client| see(&format_args!("{client:016x}")))),
                "The client ID that owns the state. It is null if the capture does not show it.",
            )
            .or_null(),
            C::new(
                "client",
                Shown(|state, see| lend(state.client_address, |address| see(&address))),
                "The address of the NFS client, on the connection of the first appearance.",
            )
            .or_null(),
            C::new(
                "server",
                Shown(|state, see| lend(state.server_address, |address| see(&address))),
                "The address of the NFS server, on the same connection.",
            )
            .or_null(),
            C::new(
                "connection",
                U32(|state| Some(state.connection.0)),
                "The number of the connection of the first appearance.",
            )
            .text(5, "conn", Right(4)),
            C::new(
                "last_connection",
                U32(|state| Some(state.last_connection.0)),
                "The number of the connection of the last appearance.",
            ),
            C::new(
                "begun",
                Boolean(|state| Some(state.is_begun())),
                "Whether the operation that created the state was captured. If not, the state was created before the capture or while packets were missing.",
            ),
            C::new(
                "beginning",
                OneOf(BEGINNINGS, |state| Some(state.beginning.word())),
                "How much the capture shows of the creation.",
            ),
            C::new("first", Time(|state| Some(state.first.time)), "The time of the first reply that shows the state.").cell(
                1,
                "seconds",
                Right(11),
                Cell::Instant(|state| Some(state.first.time)),
            ),
            C::new("first_frame", Frame(|state| Some(state.first.frame)), "The packet that completed that reply."),
            C::new(
                "first_transaction",
                U64(|state| Some(state.first.transaction)),
                "The number of the first transaction that shows the state.",
            ),
            C::new("last", Time(|state| Some(state.last.time)), "The time of the last message that shows the state."),
            C::new("last_frame", Frame(|state| Some(state.last.frame)), "The packet that completed that message."),
            C::new(
                "last_transaction",
                U64(|state| Some(state.last.transaction)),
                "The number of the last transaction that shows the state.",
            ),
            C::new(
                "ended",
                Time(|state| state.ended.map(|at| at.time)),
                "When the state ended: the time of the reply that ended it, or of the call if `end` is `unknown`. It is null if the state did not end.",
            )
            .or_null(),
            C::new(
                "duration_ns",
                crate::column::Read::Nanoseconds(|state| state.duration()),
                "From `first` to `ended`. It is null if the beginning or the end was not captured.",
            )
            .or_null()
            .cell(
                2,
                "lasted",
                Right(9),
                Cell::Shown(|state, _, see| match state.duration() {
                    Some(duration) => see(&Duration(duration)),
                    None => see(&"-"),
                }),
            ),
            C::new(
                "recalled",
                Time(|state| state.recalled.map(|at| at.time)),
                "When the server first recalled the state by CB_RECALL or CB_LAYOUTRECALL. It is null if it did not.",
            )
            .or_null(),
            C::new(
                "recalled_frame",
                Frame(|state| state.recalled.map(|at| at.frame)),
                "The packet that completed that callback.",
            )
            .or_null(),
            C::new(
                "capture_gap",
                Boolean(|state| Some(state.capture_gap)),
                "Whether the state is open at the end, but packets or calls that could have ended it are missing after `last`.",
            ),
            C::new(
                "uses",
                U64(|state| Some(state.uses)),
                "The number of successful uses: requests of a session; operations that used a stateid and did not end it.",
            )
            .cell(6, "uses", Right(7), Cell::Shown(|state, _, see| see(&Number(state.uses)))),
            C::new("reads", U64(|state| Some(state.reads)), "READs among these uses."),
            C::new("writes", U64(|state| Some(state.writes)), "WRITEs among these uses."),
            C::new(
                "access",
                OneOf(ACCESS, |state| state.access?.word()),
                "The access granted: share_access of all OPENs combined, or of the last OPEN_DOWNGRADE; the type of locks, delegation or layout.",
            )
            .or_null()
            .cell(
                7,
                "allows",
                Left(10),
                Cell::Shown(|state, _, see| match (state.slots, state.access.and_then(|access| access.word())) {
                    (Some(slots), _) => see(&format_args!("{slots} slots")),
                    (None, Some(access)) => see(&access),
                    (None, None) => see(&"-"),
                }),
            ),
            C::new(
                "deny",
                OneOf(ACCESS, |state| state.deny?.word()),
                "For an open, the access denied to others. It is null if none is denied.",
            )
            .or_null(),
            C::new(
                "reclaimed",
                Boolean(|state| Some(state.reclaimed)),
                "Whether the state was reclaimed after a server restart: OPEN with CLAIM_PREVIOUS.",
            ),
            C::new(
                "file_handle",
                Bytes(|state, see| lend(Some(&state.file_handle[..]).filter(|handle| !handle.is_empty()), see)),
                "The file handle. It is null if the capture does not show it.",
            )
            .or_null(),
            C::new(
                "file",
                Lossy(|state, see| lend(Some(state.path.as_slice()).filter(|path| !path.is_empty()), see)),
                "The path of the file when the state was reported, as in a transaction. It is null if the capture does not show it.",
            )
            .or_null()
            .cell(
                9,
                "file",
                Left(0),
                Cell::Shown(|state, _, see| match state.file() {
                    [] => see(&"-"),
                    file => see(&Quoted(file)),
                }),
            ),
            C::new(
                "file_name",
                Lossy(|state, see| lend(Some(&state.file_name[..]).filter(|name| !name.is_empty()), see)),
                "The name in the OPEN. Bytes that are not UTF-8 are replaced by U+FFFD.",
            )
            .or_null(),
            C::new(
                "open_number",
                U64(|state| state.open),
                "For a lock, the `number` of its open.",
            )
            .optional(),
            C::new(
                "ranges",
                Text(|state, see| lend(state.ranges_text(), |text| see(&text))),
                "For a lock, the byte ranges locked at its end: `0-99` with first and last byte, separated by commas; `0-` extends to the end of the file.",
            )
            .optional(),
            C::new(
                "slots",
                U32(|state| state.slots),
                "For a session, the largest number of slots that the server granted: ca_maxrequests of CREATE_SESSION, or sr_highest_slotid of SEQUENCE plus 1.",
            )
            .optional(),
            C::new(
                "highest_slot",
                U32(|state| state.highest_slot),
                "For a session, the highest slot that a request used, from 0.",
            )
            .optional(),
            C::new(
                "status_flags",
                Texts(|state, see| status_flags(state.flags).for_each(see)),
                "For a session, each flag of sr_status_flags that a reply had set, without SEQ4_STATUS_.",
            )
            .optional(),
        ],
    }
};
