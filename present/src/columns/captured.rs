//! `captured`: a capture that was written around something.

use crate::column::Read::{Boolean, Text, Time, U64};
use crate::column::{Column, Columns, Role, Subject, lend};
use rdmascope_analysis::live::Captured;

impl Subject for Captured {
    type Of<'a> = &'a Captured;
}

/// A capture that was written around what a person wanted to be captured.
pub static CAPTURED: Columns<Captured> = {
    type C = Column<Captured>;
    Columns {
        name: "captured",
        role: Role::Line,
        columns: &[
            C::new(
                "time",
                Time(|captured| Some(captured.time)),
                "When the first of what it was written for came.",
            ),
            C::new(
                "reason",
                Text(|captured, see| see(&captured.reason)),
                "What it was written for, in words for people. They may change.",
            ),
            C::new(
                "further",
                U64(|captured| Some(captured.further)),
                "How much else of what was wanted is in it.",
            ),
            C::new("file", Text(|captured, see| see(&captured.file)), "The file."),
            C::new("packets", U64(|captured| Some(captured.packets)), "Packets in it."),
            C::new(
                "cut",
                Boolean(|captured| Some(captured.is_cut)),
                "Whether it begins later than wanted, because memory was short.",
            ),
            C::new(
                "trouble",
                Text(|captured, see| lend(captured.trouble.as_deref(), &mut *see)),
                "Why it could not be written. It is null where it was.",
            )
            .or_null(),
            C::new(
                "last",
                Boolean(|captured| Some(captured.is_last)),
                "Whether no further one is written: `--trigger-files` are used up.",
            ),
        ],
    }
};
