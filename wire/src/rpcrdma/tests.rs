use super::*;
use crate::Cause;
use proptest::prelude::*;

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

fn segment(handle: u32, length: u32, offset: u64) -> Segment {
    Segment { handle: Rkey(handle), length, offset }
}

/// The chunk lists of RFC 8166, section 4.7, in one header: Read list `1 PHLOO 1 PHLOO 0`, Write
/// list `1 2 HLOO HLOO 1 0 0` (the second chunk is empty), Reply chunk `1 1 HLOO`.
fn every_list() -> Vec<u8> {
    words(&[
        0x1b39_6a62,
        1,
        128,
        0, // rdma_xid, rdma_vers, rdma_credit, rdma_proc = RDMA_MSG
        1,
        108,
        0xc43,
        131_072,
        0x1b39_6a62,
        0x0469_4000, // read segment at position 108
        1,
        108,
        0xbc4,
        131_071,
        0x1b39_6a62,
        0x046b_4000,
        0, // another read segment, end of the Read list
        1,
        2,
        0x10,
        4096,
        0,
        0x1000,
        0x11,
        100,
        1,
        0, // a Write chunk of two segments
        1,
        0,
        0, // an empty Write chunk, end of the Write list
        1,
        1,
        0x20,
        65_536,
        0,
        0, // Reply chunk
        0x1b39_6a62,
        0, // the Payload stream begins with its own XID
    ])
}

/// RDMA_DONE has four words (draft, section 4.3), even if lists are given.
#[test]
fn rdma_done_has_four_words() {
    let mut built = Vec::new();
    let reply = Some(vec![segment(1, 2, 3)]);
    Builder { reply, ..Builder::new(Xid(7), 3, Procedure::Done) }.build(&mut built);
    assert_eq!(built, words(&[7, 1, 3, 3]));
}

#[test]
fn chunk_list_examples_of_rfc_8166_are_parsed() {
    let message = every_list();
    let header = Header::parse(&message).unwrap();
    assert_eq!(header.stop, None);
    assert_eq!(header.length, message.len() - 8);
    assert_eq!(header.xid, Xid(0x1b39_6a62));
    assert_eq!((header.version, header.credits, header.procedure), (1, 128, Procedure::Msg));
    let reads: Vec<_> = header.reads.collect();
    assert_eq!(reads.len(), 2);
    assert_eq!(
        reads[1],
        ReadSegment { position: 108, target: segment(0xbc4, 131_071, 0x1b39_6a62_046b_4000) }
    );
    let writes: Vec<Vec<_>> = header.writes.map(|chunk| chunk.segments().collect()).collect();
    assert_eq!(writes, [vec![segment(0x10, 4096, 0x1000), segment(0x11, 100, 1 << 32)], vec![]]);
    let counts = header.writes.map(|chunk| chunk.segment_count());
    assert_eq!(counts.collect::<Vec<_>>(), [2, 0]);
    let mut writes = header.writes;
    assert!(!writes.is_empty());
    writes.by_ref().for_each(drop);
    assert!(writes.is_empty());
    assert_eq!(header.reply.unwrap().length(), 65_536);
}

#[test]
fn truncated_header_keeps_the_segments_before_the_cut() {
    let message = every_list();
    let header_length = Header::parse(&message).unwrap().length;
    for length in 0..header_length {
        match Header::parse(&message[..length]) {
            Err(stop) => {
                assert!(length < 16, "the fixed fields are present");
                assert_eq!(stop.offset + stop.available, length);
            }
            Ok(header) => {
                let stop = header.stop.expect("the header is incomplete");
                assert_eq!(stop.cause, Cause::TruncatedPacket);
                assert_eq!(stop.offset + stop.available, length);
                assert!(stop.needed > stop.available);
                assert_eq!(header.reads.count(), (length.saturating_sub(16) / 24).min(2));
            }
        }
    }
}

#[test]
fn discriminator_other_than_zero_or_one_is_malformed() {
    let message = words(&[7, 1, 1, 0, 2, 0, 0]);
    let header = Header::parse(&message).unwrap();
    assert_eq!(header.stop, Some(Stop::malformed(Layer::RpcRdma, 16)));
}

#[test]
fn segment_count_beyond_the_message_stops_the_parser() {
    let message = words(&[7, 1, 1, 0, 0, 1, 0xffff_ffff, 0, 0]);
    let stop = Header::parse(&message).unwrap().stop.unwrap();
    assert_eq!((stop.offset, stop.available), (28, 8));
    assert!(stop.needed > 8);
}

#[test]
fn errors() {
    // The answer of Linux 6.1 to a header of version 9: it echoes the version and offers versions 1
    // to 1.
    let message = words(&[0x1122_3345, 9, 64, 4, 1, 1, 1]);
    let header = Header::parse(&message).unwrap();
    assert_eq!(header.error, Some(Error::Version { low: 1, high: 1 }));
    assert_eq!((header.length, header.stop), (28, None));
    let message = words(&[1, 1, 64, 4, 2]);
    assert_eq!(Header::parse(&message).unwrap().error, Some(Error::Chunk));
    let message = words(&[1, 1, 64, 4, 1, 1]);
    assert_eq!(Header::parse(&message).unwrap().stop, Some(Stop::short(Layer::RpcRdma, 24, 4, 24)));
}

#[test]
fn obsolete_and_unknown_procedures() {
    let message = words(&[1, 1, 1, 2, 4096, 0, 0, 0, 0]);
    let header = Header::parse(&message).unwrap();
    assert_eq!((header.procedure, header.padding, header.length), (Procedure::Msgp, Some((4096, 0)), 36));
    let message = words(&[1, 1, 1, 3]);
    let header = Header::parse(&message).unwrap();
    assert_eq!((header.procedure, header.length, header.stop), (Procedure::Done, 16, None));
    let message = words(&[1, 1, 1, 77, 0, 0, 0]);
    let header = Header::parse(&message).unwrap();
    assert_eq!(header.procedure, Procedure::Unknown(77));
    assert_eq!(header.stop, Some(Stop::malformed(Layer::RpcRdma, 12)));
}

#[test]
fn other_versions_are_parsed_up_to_the_fixed_fields() {
    let message = words(&[1, 9, 32, 0, 1, 1, 1]);
    let header = Header::parse(&message).unwrap();
    assert_eq!((header.version, header.length, header.stop), (9, 16, None));
    assert!(header.reads.is_empty());
}

fn any_segment() -> impl Strategy<Value = Segment> {
    any::<(u32, u32, u64)>().prop_map(|(handle, length, offset)| segment(handle, length, offset))
}

fn any_chunk() -> impl Strategy<Value = Vec<Segment>> {
    proptest::collection::vec(any_segment(), 0..4)
}

proptest! {
    #[test]
    fn headers_round_trip(
        fixed: (u32, u32),
        nomsg: bool,
        reads in proptest::collection::vec((any::<u32>(), any_segment()), 0..4),
        writes in proptest::collection::vec(any_chunk(), 0..4),
        reply in proptest::option::of(any_chunk()),
        payload in proptest::collection::vec(any::<u8>(), 0..16),
    ) {
        let procedure = if nomsg { Procedure::Nomsg } else { Procedure::Msg };
        let mut builder = Builder::new(Xid(fixed.0), fixed.1, procedure);
        builder.reads = reads.into_iter().map(|(position, target)| ReadSegment { position, target }).collect();
        builder.writes = writes;
        builder.reply = reply;
        let mut message = Vec::new();
        builder.build(&mut message);
        let length = message.len();
        message.extend_from_slice(&payload);
        let header = Header::parse(&message).unwrap();
        prop_assert_eq!((header.length, header.stop), (length, None));
        let parsed = Builder {
            xid: header.xid,
            version: header.version,
            credits: header.credits,
            procedure: header.procedure,
            padding: header.padding,
            reads: header.reads.collect(),
            writes: header.writes.map(|chunk| chunk.segments().collect()).collect(),
            reply: header.reply.map(|chunk| chunk.segments().collect()),
            error: header.error,
        };
        prop_assert_eq!(parsed, builder);
    }

    #[test]
    fn arbitrary_bytes_parse_or_stop_within_bounds(message in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Ok(header) = Header::parse(&message) {
            prop_assert!(header.length <= message.len());
            if let Some(stop) = header.stop {
                prop_assert!(stop.offset <= message.len());
            }
        }
    }
}
