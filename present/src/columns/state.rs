//! `state`: something of NFSv4 that lived on behind the call that made it.

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
    explained("stateid", "an open, a lock or a delegation from before the capture: nothing shows which"),
];

static ENDS: Words = &[
    explained("open", "it had not ended when the capture did"),
    explained("closed", "by CLOSE; of a lock, by that of its open"),
    explained("unlocked", "by LOCKU, which left no range"),
    explained("returned", "by DELEGRETURN or LAYOUTRETURN"),
    explained("freed", "by FREE_STATEID"),
    explained("destroyed", "by DESTROY_SESSION or DESTROY_CLIENTID"),
    explained("completed", "CB_OFFLOAD or OFFLOAD_STATUS reported the end"),
    explained("failed", "CB_OFFLOAD reported an error"),
    explained("cancelled", "by OFFLOAD_CANCEL"),
    explained("revoked", "the server refused it as revoked or expired"),
    explained("replaced", "of a client ID without a session: EXCHANGE_ID gave the same client another one"),
    explained(
        "lost",
        "the server refused it as unknown, or the client made a new client ID and this one is gone with the old one",
    ),
    explained("abandoned", "its client ID was destroyed before it was given back"),
    explained("unknown", "a call that would end it has no reply that could be read"),
    explained("not-followed", "there was too much state to follow"),
];

static BEGINNINGS: Words = &[
    explained("captured", "the capture has the operation that made it: `begun`"),
    explained(
        "encrypted",
        "its client ID was made in the capture, and calls for that are encrypted (krb5p): one of these made it, unless the capture lacks packets",
    ),
    explained("before", "it was there before the capture, or was made where that lacks packets"),
    explained("before-or-encrypted", "calls are encrypted, and its client ID may be from before the capture"),
];

static ACCESS: &[Word] = &[word("read"), word("write"), word("read-write")];

/// Something that lived.
pub static STATE: Columns<Lifetime> = {
    type C = Column<Lifetime>;
    Columns {
        name: "state",
        role: Role::Line,
        columns: &[
            C::new(
                "number",
                U64(|state| Some(state.number)),
                "Its number, in the order in which the capture shows it first, from 1. Filters do not change it.",
            )
            .text(0, "no", Right(5)),
            C::new("kind", OneOf(KINDS, |state| Some(state.kind.word())), "What it is.").text(3, "kind", Left(10)),
            C::new(
                "end",
                OneOf(ENDS, |state| Some(state.end.word())),
                "How it ended. An operation that failed ends nothing.",
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
                "What names it: the client ID (8 bytes), the session ID (16 bytes), or the 12 bytes of the stateid that stay when its sequence number changes.",
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
                "The client ID that it belongs to. It is null where the capture does not show it.",
            )
            .or_null(),
            C::new(
                "client",
                Shown(|state, see| lend(state.client_address, |address| see(&address))),
                "The address of the NFS client, on the connection on which it is seen first.",
            )
            .or_null(),
            C::new(
                "server",
                Shown(|state, see| lend(state.server_address, |address| see(&address))),
                "The address of the NFS server, likewise.",
            )
            .or_null(),
            C::new(
                "connection",
                U32(|state| Some(state.connection.0)),
                "The number of the connection on which it is seen first.",
            )
            .text(5, "conn", Right(4)),
            C::new(
                "last_connection",
                U32(|state| Some(state.last_connection.0)),
                "The number of the connection on which it is seen last.",
            ),
            C::new(
                "begun",
                Boolean(|state| Some(state.is_begun())),
                "Whether the operation that made it was captured; else it was there before, or was made where the capture lacks packets.",
            ),
            C::new(
                "beginning",
                OneOf(BEGINNINGS, |state| Some(state.beginning.word())),
                "How far the capture shows how it began.",
            ),
            C::new("first", Time(|state| Some(state.first.time)), "When the reply came that shows it first.").cell(
                1,
                "seconds",
                Right(11),
                Cell::Instant(|state| Some(state.first.time)),
            ),
            C::new("first_frame", Frame(|state| Some(state.first.frame)), "The packet that completed it."),
            C::new(
                "first_transaction",
                U64(|state| Some(state.first.transaction)),
                "The number of the transaction that shows it first.",
            ),
            C::new("last", Time(|state| Some(state.last.time)), "When the message came that shows it last."),
            C::new("last_frame", Frame(|state| Some(state.last.frame)), "The packet that completed it."),
            C::new(
                "last_transaction",
                U64(|state| Some(state.last.transaction)),
                "The number of the transaction that shows it last.",
            ),
            C::new(
                "ended",
                Time(|state| state.ended.map(|at| at.time)),
                "When it ended: the reply of the operation that ended it; where `end` is `unknown`, the call. It is null where it had not ended.",
            )
            .or_null(),
            C::new(
                "duration_ns",
                crate::column::Read::Nanoseconds(|state| state.duration()),
                "From `first` to `ended`. It is null where one of them does not show when it began or ended.",
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
                "When the server recalled it first: CB_RECALL or CB_LAYOUTRECALL. It is null where it did not.",
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
                "Whether it is open at the end, but the capture lacks packets or calls behind `last` that could have ended it.",
            ),
            C::new(
                "uses",
                U64(|state| Some(state.uses)),
                "How often it was used and not refused: of a session, requests; of a stateid, operations that named it and did not end it.",
            )
            .cell(6, "uses", Right(7), Cell::Shown(|state, _, see| see(&Number(state.uses)))),
            C::new("reads", U64(|state| Some(state.reads)), "Of these, READs."),
            C::new("writes", U64(|state| Some(state.writes)), "Of these, WRITEs."),
            C::new(
                "access",
                OneOf(ACCESS, |state| state.access?.word()),
                "What it allows: share_access of all OPENs together, or of the last OPEN_DOWNGRADE; the type of locks, delegation or layout.",
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
                "Of an open: what it denies others. It is null where that is nothing.",
            )
            .or_null(),
            C::new(
                "reclaimed",
                Boolean(|state| Some(state.reclaimed)),
                "Whether it was reclaimed after a restart of the server: OPEN with CLAIM_PREVIOUS.",
            ),
            C::new(
                "file_handle",
                Bytes(|state, see| lend(Some(&state.file_handle[..]).filter(|handle| !handle.is_empty()), see)),
                "The file handle. It is null where the capture does not show it.",
            )
            .or_null(),
            C::new(
                "file",
                Lossy(|state, see| lend(Some(state.path.as_slice()).filter(|path| !path.is_empty()), see)),
                "The path of the file when the line was made, as in a transaction. It is null where the capture does not show it.",
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
                "The name that OPEN used. Bytes that are not UTF-8 are replaced by U+FFFD.",
            )
            .or_null(),
            C::new(
                "open_number",
                U64(|state| state.open),
                "Of a lock: the `number` of its open.",
            )
            .optional(),
            C::new(
                "ranges",
                Text(|state, see| lend(state.ranges_text(), |text| see(&text))),
                "Of a lock: the bytes that were locked at the end, as `0-99` with first and last byte, several with a comma between; `0-` reaches \
                 to the end of the file.",
            )
            .optional(),
            C::new(
                "slots",
                U32(|state| state.slots),
                "Of a session: how many slots the server granted at most: ca_maxrequests of CREATE_SESSION, or sr_highest_slotid of SEQUENCE and 1.",
            )
            .optional(),
            C::new(
                "highest_slot",
                U32(|state| state.highest_slot),
                "Of a session: the highest slot that a request used, from 0.",
            )
            .optional(),
            C::new(
                "status_flags",
                Texts(|state, see| status_flags(state.flags).for_each(see)),
                "Of a session: each flag of sr_status_flags that a reply had, without SEQ4_STATUS_.",
            )
            .optional(),
        ],
    }
};
