//! `operations`: a row for each operation of a transaction.

use crate::export::parquet::Table;
use crate::export::parquet::column::Leaf::{Boolean, Text, U16, U32, U64};
use crate::export::parquet::column::{Column, one};
use rdmascope_dissector::transaction::Transaction;
use rdmascope_dissector::ulb::{self, Item, Operation};
use rdmascope_present::names;
use rdmascope_present::text::HexBytes;
use rdmascope_present::words;
use std::borrow::Cow;

pub(in super::super) struct Operations;

/// One of the operations of a transaction.
pub(in super::super) struct OperationRow<'a> {
    pub(in super::super) transaction: &'a Transaction,
    /// Its place among them.
    pub(in super::super) index: usize,
    pub(in super::super) operation: &'a Operation,
}

/// The columns of the DDP-eligible item that `$find` finds in a row.
macro_rules! item_columns {
    ($prefix:literal, $find:path) => {
        &[
            one(concat!($prefix, "_length"), U32(|row, out| out.put($find(row).map(|item| item.length)))),
            one(concat!($prefix, "_position"), U32(|row, out| out.put($find(row).map(|item| item.position)))),
            one(
                concat!($prefix, "_place"),
                Text(|row, out| out.put($find(row).map(|item| words::place(item.place).0))),
            ),
            one(
                concat!($prefix, "_index"),
                U16(|row, out| out.put($find(row).and_then(|item| words::place(item.place).1))),
            ),
        ]
    };
}

impl Table for Operations {
    type Row<'a> = OperationRow<'a>;
    const NAME: &'static str = "operations";
    const COLUMNS: &'static [&'static [Column<Operations>]] = &[
        &[
            one("number", U64(|row, out| out.put(row.transaction.number))),
            one("connection", U32(|row, out| out.put(row.transaction.connection.0))),
            one("xid", U32(|row, out| out.put(row.transaction.xid.0))),
            one("index", U32(|row, out| out.put(row.index as u32))),
            one("code", U32(|row, out| out.put(row.operation.code()))),
            one("name", Text(|row, out| out.put(row.operation.name()))),
            one("status", U32(|row, out| out.put(row.operation.status))),
            one("status_name", Text(|row, out| out.put(status_name(row)))),
            one("file_handle", Text(|row, out| out.show(row.hex(row.operation.file_handle)))),
            one("result_file_handle", Text(|row, out| out.show(row.hex(row.operation.result_file_handle)))),
            one("file_name", Text(|row, out| out.show(row.text(row.operation.file_name)))),
            one("file_name_hex", Text(|row, out| out.show(row.odd(row.operation.file_name)))),
            one("other_name", Text(|row, out| out.show(row.text(row.operation.other_name)))),
            one("other_name_hex", Text(|row, out| out.show(row.odd(row.operation.other_name)))),
            one("offset", U64(|row, out| out.put(row.operation.offset))),
            one("count", U64(|row, out| out.put(row.operation.count))),
            one("result_count", U64(|row, out| out.put(row.operation.result_count))),
            one("end_of_file", Boolean(|row, out| out.put(row.operation.end_of_file))),
        ],
        item_columns!("argument_item", argument_item),
        item_columns!("result_item", result_item),
    ];
}

impl<'a> OperationRow<'a> {
    fn bytes(&self, text: Option<ulb::Text>) -> Option<&'a [u8]> {
        text.map(|text| self.transaction.details.bytes(text))
    }

    fn hex(&self, text: Option<ulb::Text>) -> Option<HexBytes<'a>> {
        self.bytes(text).map(HexBytes)
    }

    /// All bytes of a text of which [`OperationRow::text`] does not show all.
    fn odd(&self, text: Option<ulb::Text>) -> Option<HexBytes<'a>> {
        self.bytes(text).filter(|bytes| core::str::from_utf8(bytes).is_err()).map(HexBytes)
    }

    /// With U+FFFD for what is not UTF-8.
    fn text(&self, text: Option<ulb::Text>) -> Option<Cow<'a, str>> {
        self.bytes(text).map(String::from_utf8_lossy)
    }
}

fn status_name(row: &OperationRow<'_>) -> Option<&'static str> {
    let called = row.transaction.procedure?;
    names::status_name(called.program, called.version, row.operation.status?)
}

fn argument_item(row: &OperationRow<'_>) -> Option<Item> {
    row.operation.argument_item
}

fn result_item(row: &OperationRow<'_>) -> Option<Item> {
    row.operation.result_item
}
