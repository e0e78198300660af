//! `tcp` of a packet: a TCP segment, and the iWARP FPDUs in it.

use crate::column::Read::{Boolean, Key, Objects, Offset, U32, Word};
use crate::column::{Column, Columns, Role, Subject, Within, word};
use crate::words;
use rdmascope_dissector::event::Packet;
use rdmascope_dissector::frame::Segment;
use rdmascope_dissector::iwarp::{Fpdu, Part};
use rdmascope_wire::ddp::{self, Tagged, Untagged};

/// A TCP segment, with its packet.
#[derive(Clone, Copy)]
pub(super) struct InSegment<'a>(pub(super) &'a Packet<'a>, pub(super) &'a Segment<'a>);

impl Subject for InSegment<'static> {
    type Of<'a> = InSegment<'a>;
}

pub(super) static TCP: Columns<InSegment<'static>> = {
    type C = Column<InSegment<'static>>;
    type O<U> = Within<InSegment<'static>, U>;
    Columns {
        name: "tcp",
        role: Role::Inner,
        columns: &[
            C::new("sequence", U32(|it| Some(it.1.sequence)), "The sequence number."),
            C::new(
                "acknowledgement",
                U32(|it| it.1.acknowledgement),
                "The sequence number that its sender expects next.",
            )
            .or_null(),
            C::new("syn", Boolean(|it| Some(it.1.syn)), "SYN."),
            C::new("fin", Boolean(|it| Some(it.1.fin)), "FIN."),
            C::new("rst", Boolean(|it| Some(it.1.rst)), "RST."),
            C::new(
                "checksum",
                Word(&[word("good"), word("unfinished"), word("bad"), word("unverifiable")], |it| {
                    Some(words::checksum(it.1.checksum()))
                }),
                "The verdict on the checksum. `unfinished`: the host left it to the network adapter.",
            ),
            C::new(
                "fpdus",
                Objects(&O {
                    columns: &FPDU,
                    lend: |it, see| {
                        for part in it.0.parts() {
                            if let Part::Fpdu(fpdu) = part {
                                see(fpdu);
                            }
                        }
                    },
                }),
                "The iWARP FPDUs in the segment, complete or in part.",
            )
            .json_only(),
        ],
    }
};

impl Subject for Fpdu {
    type Of<'a> = &'a Fpdu;
}

static FPDU: Columns<Fpdu> = {
    type C = Column<Fpdu>;
    const fn tagged(fpdu: &Fpdu) -> Option<&Tagged> {
        if let ddp::Header::Tagged(header) = &fpdu.header { Some(header) } else { None }
    }
    const fn untagged(fpdu: &Fpdu) -> Option<&Untagged> {
        if let ddp::Header::Untagged(header) = &fpdu.header { Some(header) } else { None }
    }
    Columns {
        name: "fpdu",
        role: Role::Inner,
        columns: &[
            C::new(
                "opcode",
                Word(&[], |fpdu| Some(fpdu.header.control().opcode.name())),
                "The RDMAP opcode: `RDMA Write`.",
            ),
            C::new(
                "last",
                Boolean(|fpdu| Some(fpdu.header.control().last)),
                "Whether the FPDU ends its message.",
            ),
            C::new("length", U32(|fpdu| Some(fpdu.length)), "Bytes of data after the header."),
            C::new(
                "data_offset",
                U32(|fpdu| Some(fpdu.data_offset)),
                "Bytes of the data in earlier segments.",
            ),
            C::new("begins", Boolean(|fpdu| Some(fpdu.begins)), "Whether the FPDU begins in this segment."),
            C::new(
                "inferred",
                Boolean(|fpdu| Some(fpdu.is_inferred)),
                "Whether the start of the FPDU was inferred from its headers, its length and its CRC.",
            ),
            C::new("handle", Key(|fpdu| Some(tagged(fpdu)?.stag.0)), "The STag of a tagged segment.")
                .optional(),
            C::new("offset", Offset(|fpdu| Some(tagged(fpdu)?.offset)), "The tagged offset.").optional(),
            C::new("queue", U32(|fpdu| Some(untagged(fpdu)?.queue)), "The queue of an untagged segment.")
                .optional(),
            C::new(
                "message_number",
                U32(|fpdu| Some(untagged(fpdu)?.message_number)),
                "The number of the message in that queue.",
            )
            .optional(),
            C::new(
                "message_offset",
                U32(|fpdu| Some(untagged(fpdu)?.message_offset)),
                "The offset of the data in the message.",
            )
            .optional(),
            C::new(
                "crc",
                Word(&[word("good"), word("bad"), word("unused"), word("unverifiable")], |fpdu| {
                    Some(words::crc(fpdu.crc?))
                }),
                "The verdict on the CRC, if the FPDU ends in this segment.",
            )
            .optional(),
        ],
    }
};
