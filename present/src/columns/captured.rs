//! `captured`: a file that a triggered capture wrote.

use crate::column::Read::{Boolean, Text, Time, U64};
use crate::column::{Column, Columns, Role, Subject, lend};
use rdmascope_analysis::live::Captured;

impl Subject for Captured {
    type Of<'a> = &'a Captured;
}

/// A file that a triggered capture wrote.
pub static CAPTURED: Columns<Captured> = {
    type C = Column<Captured>;
    Columns {
        name: "captured",
        role: Role::Line,
        columns: &[
            C::new("time", Time(|captured| Some(captured.time)), "The time of the first trigger."),
            C::new(
                "reason",
                Text(|captured, see| see(&captured.reason)),
                "Why the file was written, in words for people. The wording may change.",
            ),
            C::new(
                "further",
                U64(|captured| Some(captured.further)),
                "The number of further triggers in the file.",
            ),
            C::new("file", Text(|captured, see| see(&captured.file)), "The name of the file."),
            C::new("packets", U64(|captured| Some(captured.packets)), "Packets in the file."),
            C::new(
                "cut",
                Boolean(|captured| Some(captured.is_cut)),
                "Whether the file begins later than requested because memory was short.",
            ),
            C::new(
                "trouble",
                Text(|captured, see| lend(captured.trouble.as_deref(), &mut *see)),
                "Why the file could not be written. It is null if it was written.",
            )
            .or_null(),
            C::new(
                "last",
                Boolean(|captured| Some(captured.is_last)),
                "Whether this is the last file: the limit of `--trigger-files` is reached.",
            ),
        ],
    }
};
