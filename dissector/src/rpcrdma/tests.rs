mod layer;

use super::*;
use alloc::vec;
use rdmascope_wire::Rkey;
use rdmascope_wire::rpcrdma::{Builder, Error, ReadSegment, Segment};

const CALL: [u32; 2] = [7, 0];
const REPLY: [u32; 2] = [7, 1];

/// The fields of a Send with XID 7.
struct Fields {
    version: u32,
    procedure: Procedure,
    has_reads: bool,
    has_reply_chunk: bool,
    error: Option<Error>,
    /// XID and message type after the header.
    payload: Option<[u32; 2]>,
}

const MSG: Fields = Fields {
    version: 1,
    procedure: Procedure::Msg,
    has_reads: false,
    has_reply_chunk: false,
    error: None,
    payload: Some(CALL),
};
const NOMSG: Fields = Fields { procedure: Procedure::Nomsg, payload: None, ..MSG };

impl Fields {
    fn bytes(&self) -> Vec<u8> {
        let segment = Segment { handle: Rkey(1), length: 100, offset: 0 };
        let mut bytes = Vec::new();
        Builder {
            version: self.version,
            reads: self
                .has_reads
                .then_some(ReadSegment { position: 0, target: segment })
                .into_iter()
                .collect(),
            reply: self.has_reply_chunk.then(|| vec![segment]),
            error: self.error,
            ..Builder::new(Xid(7), 1, self.procedure)
        }
        .build(&mut bytes);
        bytes.extend(self.payload.into_iter().flatten().flat_map(u32::to_be_bytes));
        bytes
    }
}

/// The kind that each Send shows, whether it identifies RPC-over-RDMA, and whether it may be a
/// reply (RFC 8166, section 4).
#[test]
fn send_shows_kind_of_message() {
    let cases = [
        ("a call", MSG, Some(Kind::Call), true, false),
        ("a reply", Fields { payload: Some(REPLY), ..MSG }, Some(Kind::Reply), true, true),
        (
            "another XID after the header",
            Fields { payload: Some([8, 1]), ..MSG },
            Some(Kind::Reply),
            false,
            true,
        ),
        ("no message type", Fields { payload: Some([7, 2]), ..MSG }, None, false, true),
        ("no bytes after the header", Fields { payload: None, ..MSG }, None, false, true),
        ("another version", Fields { version: 2, payload: Some(REPLY), ..MSG }, None, false, false),
        ("RDMA_NOMSG alone", NOMSG, None, false, true),
        ("with a Reply chunk", Fields { has_reply_chunk: true, ..NOMSG }, Some(Kind::Reply), true, true),
        ("with Read chunks", Fields { has_reads: true, ..NOMSG }, None, true, true),
        ("with both", Fields { has_reads: true, has_reply_chunk: true, ..NOMSG }, None, true, true),
        (
            "a Long Reply of another version",
            Fields { version: 2, has_reply_chunk: true, ..NOMSG },
            None,
            false,
            false,
        ),
        (
            "an error",
            Fields { procedure: Procedure::Error, error: Some(Error::Chunk), ..NOMSG },
            Some(Kind::Error),
            true,
            true,
        ),
        (
            "an error of another version",
            Fields { version: 2, procedure: Procedure::Error, error: Some(Error::Chunk), ..NOMSG },
            Some(Kind::Error),
            false,
            false,
        ),
        (
            "an error without a code",
            Fields { procedure: Procedure::Error, ..NOMSG },
            Some(Kind::Error),
            false,
            true,
        ),
        ("RDMA_DONE", Fields { procedure: Procedure::Done, ..NOMSG }, Some(Kind::Done), false, false),
        (
            "3 of another version",
            Fields { version: 2, procedure: Procedure::Done, ..NOMSG },
            None,
            false,
            false,
        ),
        ("an unknown procedure", Fields { procedure: Procedure::Unknown(9), ..NOMSG }, None, false, false),
    ];
    for (name, fields, kind, is_plausible, may_be_a_reply) in cases {
        let bytes = fields.bytes();
        let header = Header::parse(&bytes).unwrap();
        let payload = payload_of(&header, &bytes);
        assert_eq!(certain_kind(&header, payload), kind, "{name}");
        assert_eq!(plausible(&header, payload), is_plausible, "{name}");
        assert_eq!(reply_xid(&bytes), may_be_a_reply.then_some(Xid(7)), "{name}");
    }
    // If it is cut within its chunk lists, it has no Payload stream.
    let bytes = MSG.bytes();
    let header = Header::parse(&bytes[..20]).unwrap();
    assert_eq!((payload_of(&header, &bytes[..20]), plausible(&header, None)), (None, false));
}
