//! `file` and `extraction`: the files that `extract` reassembles.

use super::shared::{RANGE, Range};
use crate::column::Align::{Left, Right};
use crate::column::Read::{Bytes, Lossy, Object, Objects, Shown, Text, U64};
use crate::column::{Cell, Column, Columns, Role, Subject, Tint, Within, lend};
use rdmascope_analysis::extract::{Extracted, LeftOut, Summary};
use rdmascope_analysis::units;

impl Subject for Extracted<'static> {
    type Of<'a> = &'a Extracted<'a>;
}

/// A file that READs and WRITEs moved.
pub static EXTRACTED: Columns<Extracted<'static>> = {
    type C = Column<Extracted<'static>>;
    type O<U> = Within<Extracted<'static>, U>;
    Columns {
        name: "file",
        role: Role::Line,
        columns: &[
            C::new(
                "name",
                Lossy(|file, see| lend(file.name, see)),
                "The name of the file in the last LOOKUP, OPEN or CREATE. It is null if none named it. \
                 Bytes that are not UTF-8 are replaced by U+FFFD.",
            )
            .or_null(),
            C::new(
                "name_hex",
                Bytes(|file, see| lend(file.name.filter(|name| core::str::from_utf8(name).is_err()), see)),
                "All bytes of `name`, if some are not UTF-8.",
            )
            .optional(),
            C::new(
                "path",
                Text(|file, see| lend(file.path.as_deref(), see)),
                "The path of the file in DIR: the sanitized name, or a name derived from the handle. It is \
                 null if the file was omitted because of the total size.",
            )
            .or_null()
            .cell(
                6,
                "file",
                Left(0),
                Cell::Shown(|file, _, see| see(&file.path.as_deref().unwrap_or("left out"))),
            )
            .gap(2)
            .tint(|file| if file.path.is_none() { Tint::Yellow } else { Tint::Plain }),
            C::new(
                "file_handle",
                Bytes(|file, see| see(&file.found.key.handle)),
                "The file handle. Equal handles from two servers are two files.",
            ),
            C::new("server", Shown(|file, see| see(&file.found.key.server)), "The address of the server."),
            C::new(
                "transactions",
                U64(|file| Some(file.found.transactions)),
                "READs and WRITEs that succeeded.",
            ),
            C::new(
                "bytes_written",
                U64(|file| Some(file.found.bytes_written)),
                "Bytes moved according to the replies to WRITEs, including repetitions.",
            )
            .cell(
                1,
                "written",
                Right(10),
                Cell::Shown(|file, _, see| see(&units::Bytes(file.found.bytes_written))),
            ),
            C::new(
                "bytes_read",
                U64(|file| Some(file.found.bytes_read)),
                "Bytes moved according to the replies to READs, including repetitions.",
            )
            .cell(
                2,
                "read",
                Right(10),
                Cell::Shown(|file, _, see| see(&units::Bytes(file.found.bytes_read))),
            ),
            C::new(
                "size",
                U64(|file| Some(file.found.contents.size())),
                "The size of the file: the end of the last byte moved, or the size that SETATTR set.",
            )
            .cell(
                0,
                "size",
                Right(10),
                Cell::Shown(|file, _, see| see(&units::Bytes(file.found.contents.size()))),
            ),
            C::new(
                "md5",
                Text(|file, see| lend(file.digests.as_ref(), |digests| see(&digests.md5))),
                "The MD5 digest of the file, in hexadecimal digits. It is null if bytes of the file are \
                 missing.",
            )
            .or_null(),
            C::new(
                "sha256",
                Text(|file, see| lend(file.digests.as_ref(), |digests| see(&digests.sha256))),
                "The SHA-256 digest of the file, likewise.",
            )
            .or_null(),
            C::new(
                "hole_bytes",
                U64(|file| Some(file.lacking.hole_bytes())),
                "Bytes that neither READ nor WRITE moved. They are holes in the extracted file.",
            )
            .cell(
                3,
                "holes",
                Right(10),
                Cell::Shown(|file, _, see| see(&units::Bytes(file.lacking.hole_bytes()))),
            ),
            C::new(
                "holes",
                Objects(&O { columns: &RANGE, lend: |file, see| first(&file.lacking.holes).for_each(see) }),
                "The first 1000 ranges of these bytes.",
            ),
            C::new(
                "missing_bytes",
                U64(|file| Some(file.lacking.missing_bytes())),
                "Bytes that were moved but are missing from the capture.",
            )
            .cell(
                4,
                "missing",
                Right(10),
                Cell::Shown(|file, _, see| see(&units::Bytes(file.lacking.missing_bytes()))),
            )
            .tint(|file| red_if(file.lacking.missing_bytes() > 0)),
            C::new(
                "missing",
                Objects(&O { columns: &RANGE, lend: |file, see| first(&file.lacking.missing).for_each(see) }),
                "The first 1000 ranges of these bytes.",
            ),
            C::new(
                "punched_bytes",
                U64(|file| Some(file.lacking.punched_bytes())),
                "Bytes that are zero because DEALLOCATE punched a hole, or because the file was truncated \
                 and extended again, with no later data.",
            ),
            C::new(
                "punched",
                Objects(&O { columns: &RANGE, lend: |file, see| first(&file.lacking.punched).for_each(see) }),
                "The first 1000 ranges of these bytes.",
            ),
            C::new(
                "cut_bytes",
                U64(|file| Some(file.lacking.cut_bytes())),
                "Bytes that were moved before SETATTR (or CREATE or OPEN with a size of 0) truncated the \
                 file, and not moved again.",
            ),
            C::new(
                "cut",
                Objects(&O { columns: &RANGE, lend: |file, see| first(&file.lacking.cut).for_each(see) }),
                "The first 1000 ranges of these bytes.",
            ),
            C::new(
                "conflicts",
                U64(|file| Some(file.found.conflicts)),
                "READs whose data differ from those written or read before. The new data replace the old if \
                 the READ was called after the last WRITE, DEALLOCATE or change of size of the file was \
                 answered; otherwise the old data are kept. Another client may have written the file; COPY \
                 and similar operations are not followed.",
            )
            .cell(
                5,
                "conflicts",
                Right(9),
                Cell::Shown(|file, _, see| see(&units::Number(file.found.conflicts))),
            )
            .tint(|file| red_if(file.found.conflicts > 0)),
            C::new(
                "left_out_bytes",
                U64(|file| Some(file.found.left_out)),
                "Bytes beyond the maximum file size (`--max-file-size`).",
            ),
        ],
    }
};

/// The first 1000 of the ranges.
fn first(ranges: &[(u64, u64)]) -> impl Iterator<Item = <Range as Subject>::Of<'static>> {
    const MOST: usize = 1000;
    ranges.iter().copied().take(MOST)
}

const fn red_if(is_red: bool) -> Tint {
    if is_red { Tint::Red } else { Tint::Plain }
}

impl Subject for Summary {
    type Of<'a> = &'a Summary;
}

/// The totals over all files.
pub static EXTRACTION: Columns<Summary> = {
    type C = Column<Summary>;
    type O<U> = Within<Summary, U>;
    Columns {
        name: "extraction",
        role: Role::Line,
        columns: &[
            C::new("files", U64(|it| Some(it.files)), "Files written."),
            C::new("bytes", U64(|it| Some(it.bytes)), "The sum of the file sizes."),
            C::new(
                "left_out",
                Object(&O { columns: &LEFT_OUT, lend: |it, see| see((it.left_out, it.files_beyond_total)) }),
                "Bytes, operations and files that were omitted.",
            ),
        ],
    }
};

/// A marker for the omitted bytes and operations, with the number of files omitted because of the
/// total size.
struct LeftOutRow;

impl Subject for LeftOutRow {
    type Of<'a> = (LeftOut, u64);
}

static LEFT_OUT: Columns<LeftOutRow> = {
    type C = Column<LeftOutRow>;
    Columns {
        name: "left_out",
        role: Role::Inner,
        columns: &[
            C::new(
                "bytes_beyond_size",
                U64(|(it, _)| Some(it.bytes_beyond_size)),
                "Bytes beyond the maximum file size (`--max-file-size`).",
            ),
            C::new(
                "of_further_files",
                U64(|(it, _)| Some(it.of_further_files)),
                "READs and WRITEs of files beyond the maximum number of files (`--max-files`).",
            ),
            C::new(
                "unclear",
                U64(|(it, _)| Some(it.unclear)),
                "READs and WRITEs whose file handle, offset or count is missing from the capture.",
            ),
            C::new(
                "scattered",
                U64(|(it, _)| Some(it.scattered)),
                "READs and WRITEs of files with too many ranges to track.",
            ),
            C::new(
                "read_plus",
                U64(|(it, _)| Some(it.read_plus)),
                "READ_PLUS results, whose data is not extracted.",
            ),
            C::new(
                "sealed",
                U64(|(it, _)| Some(it.sealed)),
                "NFS calls with encrypted arguments and results (krb5p).",
            ),
            C::new(
                "files_beyond_total",
                U64(|(_, files)| Some(files)),
                "Files beyond the maximum total size (`--max-total-size`).",
            ),
        ],
    }
};
