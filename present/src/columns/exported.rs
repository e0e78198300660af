//! `exported`: a capture of a dataset, with what was read of it and what became of it.

use crate::column::Read::{Text, Texts, Time, U32, U64};
use crate::column::{Column, Columns, Role, Subject, lend};
use rdmascope_analysis::ending::Ending;

/// A capture whose tables were written.
#[derive(Clone, Copy, Debug)]
pub struct Exported<'a> {
    /// How its reading ended; of what could not be read at all, nothing.
    pub ending: Option<&'a Ending>,
    /// The names of its files, without folders, in the order in which they were read.
    pub files: &'a [String],
    /// Bytes of its files, if that is known.
    pub size: Option<u64>,
    /// Rows in its other tables.
    pub rows: u64,
    /// Why it could not be read, or not to its end.
    pub error: Option<&'a str>,
    /// The version of the program that wrote the tables.
    pub version: &'a str,
    /// The version of their schema.
    pub schema: u32,
}

impl Subject for Exported<'static> {
    type Of<'a> = Exported<'a>;
}

impl<'a> Exported<'a> {
    fn total(&self, count: impl FnOnce(&'a Ending) -> u64) -> Option<u64> {
        self.ending.map(count)
    }
}

/// A capture of a dataset.
pub static EXPORTED: Columns<Exported<'static>> = {
    type C = Column<Exported<'static>>;
    Columns {
        name: "exported",
        role: Role::Line,
        columns: &[
            C::new(
                "files",
                Texts(|it, see| it.files.iter().for_each(|name| see(name))),
                "The names of its files, without folders, in the order in which they were read.",
            ),
            C::new("size", U64(|it| it.size), "Bytes of its files.").or_null(),
            C::new("records", U64(|it| it.total(|ending| ending.totals.records)), "Packets in the files.").or_null(),
            C::new("bytes", U64(|it| it.total(|ending| ending.totals.bytes)), "Their bytes on the wire.").or_null(),
            C::new(
                "first",
                Time(|it| it.ending.and_then(|ending| ending.totals.span).map(|(first, _)| first)),
                "The time of the first packet. `day` is its day, UTC.",
            )
            .or_null(),
            C::new(
                "last",
                Time(|it| it.ending.and_then(|ending| ending.totals.span).map(|(_, last)| last)),
                "The latest time of all packets.",
            )
            .or_null(),
            C::new("packets", U64(|it| it.total(|ending| ending.totals.packets)), "InfiniBand transport packets.").or_null(),
            C::new(
                "iwarp_segments",
                U64(|it| it.total(|ending| ending.totals.segments)),
                "TCP segments of iWARP connections.",
            )
            .or_null(),
            C::new("others", U64(|it| it.total(|ending| ending.totals.others)), "Packets of other kinds.").or_null(),
            C::new(
                "copies",
                U64(|it| it.total(|ending| ending.totals.copies)),
                "Packets that the capture shows a second time. They are left out of everything else.",
            )
            .or_null(),
            C::new(
                "bad_icrc",
                U64(|it| it.total(|ending| ending.totals.icrc[1])),
                "Packets whose ICRC is wrong.",
            )
            .or_null(),
            C::new(
                "snapped",
                U64(|it| it.total(|ending| ending.totals.cut_records)),
                "Packets that a snap length cut.",
            )
            .or_null(),
            C::new(
                "dropped",
                U64(|it| it.total(Ending::dropped)),
                "Packets that the files say were dropped while they were captured.",
            )
            .or_null(),
            C::new(
                "connections",
                U64(|it| it.total(|ending| ending.totals.connections)),
                "Connections that were seen.",
            )
            .or_null(),
            C::new(
                "transactions",
                U64(|it| it.total(|ending| ending.totals.transactions.iter().sum())),
                "RPC calls that were seen, with or without their replies.",
            )
            .or_null(),
            C::new(
                "evictions",
                U64(|it| it.total(|ending| ending.totals.evictions)),
                "Entries that were given up because a table was full.",
            )
            .or_null(),
            C::new(
                "cut_short",
                U64(|it| it.total(|ending| ending.files.iter().filter(|file| file.cut.is_some()).count() as u64)),
                "Files that end in the middle of a packet.",
            )
            .or_null(),
            C::new(
                "error",
                Text(|it, see| lend(it.error, see)),
                "Why the capture, or one of its files, could not be read, or not to its end. The rows of the other tables are of what could be read.",
            )
            .or_null(),
            C::new(
                "operating_system",
                Text(|it, see| {
                    let interfaces = it.ending.iter().flat_map(|ending| &ending.files).flat_map(|file| &file.interfaces);
                    lend(interfaces.filter_map(|interface| interface.operating_system.as_deref()).next(), see);
                }),
                "The system on which it was captured, where a pcapng file says so (if_os, shb_os). `rdmascope capture` and dumpcap name the kernel there.",
            )
            .or_null(),
            C::new("rows", U64(|it| Some(it.rows)), "Rows in the other tables."),
            C::new(
                "version",
                Text(|it, see| see(it.version)),
                "The version of the program that wrote the tables.",
            ),
            C::new("schema", U32(|it| Some(it.schema)), "The version of the schema."),
        ],
    }
};
