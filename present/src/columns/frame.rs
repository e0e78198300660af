//! `frame`: a frame with all of its fields and bytes.

use super::STOP;
use crate::column::Read::{Bytes, Frame, Object, Objects, Shown, Text, Time, U32, U64};
use crate::column::{Column, Columns, Role, Subject, Within, lend};
use crate::fields::Field;
use rdmascope_dissector::event::Packet;

/// A packet, its transaction, and all of its fields.
#[derive(Clone, Copy)]
pub struct FrameRow<'a> {
    /// The packet.
    pub packet: &'a Packet<'a>,
    /// The number of the packet's transaction.
    pub transaction: Option<u64>,
    /// The headers, in frame order.
    pub fields: &'a [Field],
}

impl Subject for FrameRow<'static> {
    type Of<'a> = FrameRow<'a>;
}

/// A frame with all of its fields and bytes.
pub static FRAME: Columns<FrameRow<'static>> = {
    type C = Column<FrameRow<'static>>;
    type O<U> = Within<FrameRow<'static>, U>;
    Columns {
        name: "frame",
        role: Role::Line,
        columns: &[
            C::new(
                "frame",
                Frame(|row| Some(row.packet.record.number)),
                "The number of the packet in the capture, from 1.",
            ),
            C::new("time", Time(|row| Some(row.packet.record.time)), "The capture time."),
            C::new("length", U32(|row| Some(row.packet.record.wire_length())), "Bytes on the wire."),
            C::new(
                "captured_length",
                U64(|row| Some(row.packet.record.captured_length().into())),
                "Bytes in the capture.",
            ),
            C::new(
                "connection",
                U32(|row| row.packet.connection.map(|connection| connection.0)),
                "The number of the connection that counts the packet, as in `packets`.",
            )
            .or_null(),
            C::new(
                "transaction",
                U64(|row| row.transaction),
                "The number of the transaction that the frame belongs to, as a part of a message or as an \
                 acknowledgement.",
            )
            .or_null(),
            C::new(
                "fields",
                Objects(&O {
                    columns: &FIELD,
                    lend: |row, see| each(row.fields, row.packet.record.data, see),
                }),
                "The headers, in frame order.",
            ),
            C::new("bytes", Bytes(|row, see| see(row.packet.record.data)), "The captured bytes."),
        ],
    }
};

/// A field, and the bytes that contain it.
#[derive(Clone, Copy)]
pub struct FieldRow<'a> {
    field: &'a Field,
    bytes: &'a [u8],
}

/// Lends each of the `fields` of `bytes` to `see`.
pub(super) fn each(fields: &[Field], bytes: &[u8], see: &mut dyn FnMut(FieldRow<'_>)) {
    fields.iter().for_each(|field| see(FieldRow { field, bytes }));
}

impl Subject for FieldRow<'static> {
    type Of<'a> = FieldRow<'a>;
}

/// A field of a frame or of a message, with its subfields.
pub static FIELD: Columns<FieldRow<'static>> = {
    type C = Column<FieldRow<'static>>;
    type O<U> = Within<FieldRow<'static>, U>;
    Columns {
        name: "field",
        role: Role::Shared,
        columns: &[
            C::new("name", Text(|row, see| see(&row.field.name)), "The name in the specification."),
            C::new(
                "value",
                Text(|row, see| see(&row.field.value)),
                "The value for people: a number, decimal or hexadecimal with `0x`, with its name if it has \
                 one. Programs should use `bytes` and `mask`.",
            ),
            C::new(
                "meaning",
                Text(|row, see| {
                    if !row.field.meaning.is_empty() {
                        see(&row.field.meaning);
                    }
                }),
                "The meaning of the value: the names of flags, of bits in a bitmap and of numbers, without \
                 their common prefix; unnamed bits as `0x40 unknown`; a mode as `ls` shows it; a time as a \
                 date. It is absent if `value` is self-explanatory.",
            )
            .optional(),
            C::new(
                "offset",
                U64(|row| row.field.range.as_ref().map(|range| range.start as u64)),
                "The offset of the first byte in the frame, the Send or the message. It is absent if the \
                 position of the value is unknown.",
            )
            .optional(),
            C::new(
                "length",
                U64(|row| row.field.range.as_ref().map(|range| range.len() as u64)),
                "The length in bytes.",
            )
            .optional(),
            C::new(
                "bytes",
                Bytes(|FieldRow { field, bytes }, see| {
                    if let Some(range) = &field.range
                        && field.children.is_empty()
                        && field.stop.is_none()
                    {
                        see(bytes.get(range.clone()).unwrap_or_default());
                    }
                }),
                "The bytes of the field. Only fields without subfields have them.",
            )
            .optional(),
            C::new(
                "mask",
                Shown(|row, see| lend(row.field.mask, |mask| see(&format_args!("0x{mask:x}")))),
                "The bits of the bytes that belong to the field: `0x` and hexadecimal digits. It is absent \
                 if all of them do.",
            )
            .optional(),
            C::new(
                "stop",
                Object(&O { columns: &STOP, lend: |row, see| lend(row.field.stop, see) }),
                "Where parsing stopped. This entry is then not a field, but the reason why no further \
                 fields follow.",
            )
            .optional(),
            C::new(
                "fields",
                Objects(&O { columns: &FIELD, lend: |row, see| each(&row.field.children, row.bytes, see) }),
                "The subfields.",
            )
            .optional(),
        ],
    }
};
