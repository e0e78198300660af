//! `operation_details` of a transaction, and the rows of the table `operations`.

use crate::column::Read::{Boolean, Bytes, Lossy, Object, U16, U32, U64, Word};
use crate::column::{Column, Columns, Role, Subject, Within, lend, word};
use crate::words;
use rdmascope_analysis::names;
use rdmascope_analysis::paths::Paths;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_dissector::ulb::{self, Item, Operation};

/// An operation of a transaction.
#[derive(Clone, Copy)]
pub struct OperationRow<'a> {
    /// The transaction.
    pub transaction: &'a Transaction,
    /// The paths of files, if they are tracked.
    pub paths: Option<&'a Paths>,
    /// The index of the operation in the transaction.
    pub index: usize,
    /// The operation.
    pub operation: &'a Operation,
}

impl Subject for OperationRow<'static> {
    type Of<'a> = OperationRow<'a>;
}

/// An operation of a transaction.
pub static OPERATION: Columns<OperationRow<'static>> = {
    type C = Column<OperationRow<'static>>;
    type O<U> = Within<OperationRow<'static>, U>;
    Columns {
        name: "operation_details",
        role: Role::Shared,
        columns: &[
            C::new("number", U64(|row| Some(row.transaction.number)), "The number of the transaction.")
                .parquet_only(),
            C::connection(|row| Some(row.transaction.connection.0)).parquet_only(),
            C::xid(|row| Some(row.transaction.xid.0)).parquet_only(),
            C::new("index", U32(|row| Some(row.index as u32)), "The index of the operation in the COMPOUND, from 0.")
                .parquet_only(),
            C::new("code", U32(|row| Some(row.operation.code())), "The number of the operation or procedure."),
            C::new(
                "name",
                Word(&[], |row| Some(row.operation.name())),
                "The name of the operation or procedure. `operation` or `procedure`: the number has no name.",
            ),
            C::new("status", U32(|row| row.operation.status), "The status of the operation in the reply.").optional(),
            C::new("status_name", Word(&[], |row| names::status_of(row.transaction, row.operation.status?)), "The name of the status.").optional(),
            C::new(
                "file_handle",
                Bytes(|row, see| lend(row.bytes(row.operation.file_handle), see)),
                "The file handle that the operation uses, or that PUTFH sets.",
            )
            .optional(),
            C::new(
                "result_file_handle",
                Bytes(|row, see| lend(row.bytes(row.operation.result_file_handle), see)),
                "The file handle in the result.",
            )
            .optional(),
            C::new(
                "file_name",
                Lossy(|row, see| lend(row.bytes(row.operation.file_name), see)),
                "The name of the directory entry that the operation uses. Bytes that are not UTF-8 are \
                 replaced by U+FFFD.",
            )
            .optional(),
            C::new(
                "file_name_hex",
                Bytes(|row, see| lend(row.odd(row.operation.file_name), see)),
                "All bytes of `file_name`, if some are not UTF-8.",
            )
            .optional(),
            C::new(
                "other_name",
                Lossy(|row, see| lend(row.bytes(row.operation.other_name), see)),
                "A second name (RENAME, LINK) or the text of a symbolic link. Bytes that are not UTF-8 are replaced by U+FFFD.",
            )
            .optional(),
            C::new(
                "other_name_hex",
                Bytes(|row, see| lend(row.odd(row.operation.other_name), see)),
                "All bytes of `other_name`, if some are not UTF-8.",
            )
            .optional(),
            C::new(
                "file",
                Lossy(|row, see| row.path(Paths::file, see)),
                "The path of the file that the operation uses, as far as the capture shows it.",
            )
            .optional(),
            C::new(
                "other_file",
                Lossy(|row, see| row.path(Paths::other_file, see)),
                "The new path of RENAME and LINK, and the destination of COPY and CLONE.",
            )
            .optional(),
            C::new("offset", U64(|row| row.operation.offset), "The first byte in the file.").optional(),
            C::new("count", U64(|row| row.operation.count), "Bytes requested or sent.").optional(),
            C::new("result_count", U64(|row| row.operation.result_count), "Bytes moved according to the result.")
                .optional(),
            C::new("end_of_file", Boolean(|row| row.operation.end_of_file), "Whether a READ reached the end of the file.")
                .optional(),
            C::new(
                "argument_item",
                Object(&O { columns: &ITEM, lend: |row, see| lend(row.operation.argument_item, see) }),
                "The DDP-eligible item of the arguments (RFC 8267).",
            )
            .optional(),
            C::new(
                "result_item",
                Object(&O { columns: &ITEM, lend: |row, see| lend(row.operation.result_item, see) }),
                "The DDP-eligible item of the results (RFC 8267).",
            )
            .optional(),
        ],
    }
};

impl<'a> OperationRow<'a> {
    fn bytes(self, text: Option<ulb::Text>) -> Option<&'a [u8]> {
        text.map(|text| self.transaction.details.bytes(text))
    }

    fn path(self, of: fn(&Paths, &Transaction, usize, &mut Vec<u8>) -> bool, see: &mut dyn FnMut(&[u8])) {
        let mut path = Vec::new();
        if self.paths.is_some_and(|paths| of(paths, self.transaction, self.index, &mut path)) {
            see(&path);
        }
    }

    /// Returns all bytes of a text that is not UTF-8.
    fn odd(self, text: Option<ulb::Text>) -> Option<&'a [u8]> {
        self.bytes(text).filter(|bytes| core::str::from_utf8(bytes).is_err())
    }
}

impl Subject for Item {
    type Of<'a> = Item;
}

static ITEM: Columns<Item> = {
    type C = Column<Item>;
    Columns {
        name: "item",
        role: Role::Inner,
        columns: &[
            C::new("length", U32(|item| Some(item.length)), "The length without padding."),
            C::new(
                "position",
                U32(|item| Some(item.position)),
                "The offset of the first byte in the unreduced message.",
            ),
            C::new(
                "place",
                Word(&[word("inline"), word("read-chunk"), word("write-chunk")], |item| {
                    Some(words::place(item.place).0)
                }),
                "Where the item was conveyed.",
            ),
            C::new(
                "index",
                U16(|item| words::place(item.place).1),
                "The index in `read_chunks` or `write_chunks`, from 0.",
            )
            .or_null(),
        ],
    }
};
