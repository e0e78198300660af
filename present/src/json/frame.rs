//! Frames, whole: their fields and bytes.

use super::{Shown, time};
use crate::columns::STOP;
use crate::fields::Field;
use crate::text::HexBytes;
use rdmascope_dissector::event::Packet;
use rdmascope_dissector::record::Time;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// `"type":"frame"`.
#[derive(Serialize)]
pub struct FrameLine<'a> {
    r#type: &'static str,
    frame: u64,
    #[serde(serialize_with = "time")]
    time: Time,
    length: u32,
    captured_length: usize,
    connection: Option<u32>,
    transaction: Option<u64>,
    fields: Fields<'a>,
    bytes: Shown<HexBytes<'a>>,
}

impl<'a> FrameLine<'a> {
    /// The line of a packet. `transaction`: the number of the transaction that it belongs to; `fields`: all of its fields.
    pub fn new(packet: &Packet<'a>, transaction: Option<u64>, fields: &'a [Field]) -> FrameLine<'a> {
        let bytes = packet.record.data;
        FrameLine {
            r#type: "frame",
            frame: packet.record.number,
            time: packet.record.time,
            length: packet.record.original_length,
            captured_length: bytes.len(),
            connection: packet.connection.map(|id| id.0),
            transaction,
            fields: Fields { fields, bytes },
            bytes: Shown(HexBytes(bytes)),
        }
    }
}

/// Fields of some bytes.
pub(super) struct Fields<'a> {
    pub(super) fields: &'a [Field],
    pub(super) bytes: &'a [u8],
}

impl Serialize for Fields<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let bytes = self.bytes;
        serializer.collect_seq(self.fields.iter().map(|field| FieldView { field, bytes }))
    }
}

/// A field. What it has not is left out.
struct FieldView<'a> {
    field: &'a Field,
    bytes: &'a [u8],
}

impl Serialize for FieldView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let FieldView { field, bytes } = *self;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &field.name)?;
        map.serialize_entry("value", &field.value)?;
        if let Some(range) = &field.range {
            map.serialize_entry("offset", &range.start)?;
            map.serialize_entry("length", &range.len())?;
            if field.children.is_empty() && field.stop.is_none() {
                let there = bytes.get(range.clone()).unwrap_or_default();
                map.serialize_entry("bytes", &Shown(HexBytes(there)))?;
            }
        }
        if let Some(mask) = field.mask {
            map.serialize_entry("mask", &Shown(format_args!("0x{mask:x}")))?;
        }
        if let Some(stop) = field.stop {
            map.serialize_entry("stop", &STOP.of(stop))?;
        }
        if !field.children.is_empty() {
            map.serialize_entry("fields", &Fields { fields: &field.children, bytes })?;
        }
        map.end()
    }
}
