//! `exported`: a capture of a dataset, with its totals and the result of the export.

use crate::column::Read::{Text, Texts, Time, U32, U64};
use crate::column::{Column, Columns, Role, Subject, lend};
use rdmascope_analysis::ending::Ending;

/// A capture whose tables were written.
#[derive(Clone, Copy, Debug)]
pub struct Exported<'a> {
    /// The totals of the capture. `None` if it could not be read at all.
    pub ending: Option<&'a Ending>,
    /// The names of its files, without folders, in the order in which they were read.
    pub files: &'a [String],
    /// The size of its files in bytes, if known.
    pub size: Option<u64>,
    /// Rows in its other tables.
    pub rows: u64,
    /// Why it could not be read completely.
    pub error: Option<&'a str>,
    /// The version of the program that wrote the tables.
    pub version: &'a str,
    /// The version of the tables' schema.
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
                "The names of the files, without folders, in the order in which they were read.",
            ),
            C::new("size", U64(|it| it.size), "The size of the files in bytes.").or_null(),
            C::new("records", U64(|it| it.total(|ending| ending.totals.records)), "Packets in the files.").or_null(),
            C::new("bytes", U64(|it| it.total(|ending| ending.totals.bytes)), "Bytes of these packets on the wire.").or_null(),
            C::new(
                "first",
                Time(|it| it.ending.and_then(|ending| ending.totals.span).map(|(first, _)| first)),
                "The time of the first packet. `day` is its date in UTC.",
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
            C::new("others", U64(|it| it.total(|ending| ending.totals.others)), "Packets of other protocols.").or_null(),
            C::new(
                "copies",
                U64(|it| it.total(|ending| ending.totals.copies)),
                "Packets captured a second time. The analysis ignores them.",
            )
            .or_null(),
            C::new(
                "bad_icrc",
                U64(|it| it.total(|ending| ending.totals.icrc[1])),
                "Packets with a bad ICRC.",
            )
            .or_null(),
            C::snapped(|it| it.total(|ending| ending.totals.cut_records)).or_null(),
            C::new(
                "dropped",
                U64(|it| it.total(Ending::dropped)),
                "Packets dropped during the capture, as recorded in the files.",
            )
            .or_null(),
            C::new(
                "connections",
                U64(|it| it.total(|ending| ending.totals.connections)),
                "Connections in the capture.",
            )
            .or_null(),
            C::new(
                "transactions",
                U64(|it| it.total(|ending| ending.totals.transactions.iter().sum())),
                "RPC calls in the capture, with or without replies.",
            )
            .or_null(),
            C::evictions(|it| it.total(|ending| ending.totals.evictions)).or_null(),
            C::new(
                "cut_short",
                U64(|it| it.total(|ending| ending.files.iter().filter(|file| file.cut.is_some()).count() as u64)),
                "Files that end within a packet.",
            )
            .or_null(),
            C::new(
                "error",
                Text(|it, see| lend(it.error, see)),
                "Why the capture, or one of its files, could not be read completely. The other tables contain the readable part.",
            )
            .or_null(),
            C::new(
                "operating_system",
                Text(|it, see| {
                    let interfaces = it.ending.iter().flat_map(|ending| &ending.files).flat_map(|file| &file.interfaces);
                    lend(interfaces.filter_map(|interface| interface.operating_system.as_deref()).next(), see);
                }),
                "The operating system of the capturing host, if a pcapng file names it (if_os, shb_os). `rdmascope capture` and dumpcap store the kernel version there.",
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
