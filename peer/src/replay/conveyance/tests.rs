//! Replies to one call, transferred in each way that RFC 8166 and RFC 8797 allow and in ways that
//! they forbid.

use super::*;
use crate::rpcrdma::Mechanism;
use alloc::vec;

/// The chunks of a READ of 3000 bytes: a Write chunk of two segments, and a Reply chunk.
fn offered() -> Shape {
    Shape { writes: vec![vec![2000, 2000]], reply: Some(vec![600, 600]), ..Shape::default() }
}

fn reply(write: &[u32], reply: &[u32], in_reply_chunk: bool) -> Conveyance {
    let chunks = Conveyance::of_chunks((1, true), [write.to_vec()], Some(reply.to_vec()));
    let mechanism = if in_reply_chunk { Mechanism::ReplyChunk } else { Mechanism::Send };
    Conveyance { mechanism, ..chunks }
}

fn inline() -> Conveyance {
    reply(&[2000, 1000], &[0, 0], false)
}

/// The fields of a reply: 3000 bytes of data, in the Write chunk or in the Payload stream.
fn data(place: Place) -> Fields {
    let operation = Some((0, "READ"));
    let field = super::super::fields::Field {
        operation,
        name: "data",
        kind: Equal,
        place,
        coding: super::super::fields::Coding::Counted,
        part: super::super::fields::Part::Message,
        entry: None,
    };
    Fields { list: vec![field], understood: true }
}

use super::super::fields::Kind::Equal;

const IN_CHUNK: Place = Place::Item(0, 3000);

struct Case {
    conveyances: [Conveyance; 2],
    places: [Place; 2],
    /// The length of both Payload streams, in bytes.
    length: usize,
    threshold: Option<u32>,
    agreed: bool,
}

impl Case {
    fn of(recorded: Conveyance, live: Conveyance) -> Case {
        let places = [IN_CHUNK, IN_CHUNK];
        Case { conveyances: [recorded, live], places, length: 100, threshold: Some(1024), agreed: true }
    }

    /// The aspects that differ, whether each counts, and the sections.
    fn found(&self) -> Vec<(String, bool, &'static str)> {
        let stream = vec![0; self.length];
        let fields = self.places.clone().map(data);
        let [recorded, live] = &self.conveyances;
        let offered = offered();
        let forms = Forms {
            offered: &offered,
            conveyances: [recorded, live],
            thresholds: [self.threshold; 2],
            agreed: self.agreed,
        };
        let messages: [Message<'_>; 2] = [(&stream, &[]), (&stream, &[])];
        let found = forms.compare(messages, [&fields[0], &fields[1]]);
        found.into_iter().map(|it| (it.aspect.to_string(), it.counts, it.section)).collect()
    }
}

fn one(aspect: &str, counts: bool, section: &'static str) -> Vec<(String, bool, &'static str)> {
    vec![(String::from(aspect), counts, section)]
}

#[test]
fn short_reply_is_inline_or_in_the_reply_chunk() {
    let long = || reply(&[2000, 1000], &[100, 0], true);
    assert_eq!(Case::of(inline(), inline()).found(), []);
    let note = one("rdma_proc", false, "rfc8166/4.3.3");
    assert_eq!(Case::of(inline(), long()).found(), note);
    assert_eq!(Case::of(long(), inline()).found(), note);
    // The header has 28 bytes of fixed fields, 40 of the Write chunk and 36 of the Reply chunk. One
    // reply is as long as the threshold, the other one byte longer.
    let long = || reply(&[2000, 1000], &[600, 320], true);
    let case = |threshold| Case { length: 920, threshold, ..Case::of(long(), inline()) };
    assert_eq!(case(Some(1024)).found(), note);
    let case = |threshold| Case { length: 921, threshold, ..Case::of(long(), inline()) };
    assert_eq!(case(Some(1024)).found(), one("rdma_proc", true, "rfc8166/3.5.3"));
    // An unknown threshold cannot be exceeded.
    assert_eq!(case(None).found(), note);
}

#[test]
fn chunks_are_filled_in_the_order_of_their_segments() {
    let counts = one("Write chunk 1", true, "rfc8166/3.4.6");
    for live in [&[1000, 2000][..], &[1500, 1500], &[2000], &[2000, 1000, 0]] {
        assert_eq!(Case::of(inline(), reply(live, &[0, 0], false)).found(), counts, "{live:?}");
        assert_eq!(Case::of(reply(live, &[0, 0], false), inline()).found(), counts, "{live:?}");
    }
    let absent = Conveyance::of_chunks((1, true), [], Some(vec![0, 0]));
    assert_eq!(Case::of(inline(), absent).found(), counts);
    // The item itself is shorter; the order of segments counts regardless.
    let case = |live: &[u32]| Case {
        places: [IN_CHUNK, Place::Item(0, 2500)],
        ..Case::of(inline(), reply(live, &[0, 0], false))
    };
    assert_eq!(case(&[2000, 500]).found(), []);
    assert_eq!(case(&[500, 2000]).found(), counts);
    // The data has the same length, but the chunk is longer.
    let padded = Case::of(inline(), reply(&[2000, 1003], &[0, 0], false));
    assert_eq!(padded.found(), one("Write chunk 1", true, "rfc8166/3.4.6.2"));
    // The Reply chunk is filled in the same way.
    let long = |lengths: &[u32]| reply(&[2000, 1000], lengths, true);
    let counts = one("Reply chunk", true, "rfc8166/4.3.3");
    assert_eq!(Case::of(long(&[600, 400]), long(&[400, 600])).found(), counts);
    assert_eq!(Case::of(long(&[600, 400]), long(&[600, 404])).found(), []);
    assert_eq!(Case::of(long(&[600, 400]), long(&[404, 600])).found(), counts);
}

#[test]
fn data_item_outside_its_write_chunk_is_a_difference() {
    let live = || reply(&[0, 0], &[0, 0], false);
    let places = [IN_CHUNK, Place::Stream(100..3100)];
    let moved = Case { places: places.clone(), ..Case::of(inline(), live()) };
    assert_eq!(moved.found(), one("data", true, "rfc8166/4.3.2"));
    let [chunk, stream] = places;
    let back = Case { places: [stream, chunk], ..Case::of(live(), inline()) };
    assert_eq!(back.found(), one("data", true, "rfc8166/4.3.2"));
    // An item without bytes is neither in the chunk nor in the stream.
    let none = [Place::Item(0, 0), Place::Stream(100..100)];
    assert_eq!(Case { places: none, ..Case::of(live(), live()) }.found(), []);
    let mut two = [live(), live()];
    two[0].writes.insert(0, Returned::Segments(vec![3000]));
    two[1].writes.push(Returned::Segments(vec![3000]));
    let next =
        Case { conveyances: two, places: [IN_CHUNK, Place::Item(1, 3000)], ..Case::of(live(), live()) };
    assert!(next.found().contains(&("data".into(), true, "rfc8166/4.3.2")), "{:?}", next.found());
}

#[test]
fn unused_reply_chunk_is_returned() {
    let counts = one("Reply chunk", true, "rfc8166/4.3.3");
    let absent = Conveyance::of_chunks((1, true), [vec![2000, 1000]], None);
    assert_eq!(Case::of(inline(), absent.clone()).found(), counts);
    assert_eq!(Case::of(absent.clone(), inline()).found(), counts);
    assert_eq!(Case::of(absent.clone(), absent).found(), []);
    assert_eq!(Case::of(inline(), reply(&[2000, 1000], &[100, 0], false)).found(), counts);
}

#[test]
fn any_handle_in_the_call_may_be_invalidated() {
    let with = |invalidated| Conveyance { invalidated, ..inline() };
    let (first, second) = (Some(Invalidated::Write(0, 0)), Some(Invalidated::Reply(1)));
    let found = |recorded, live, agreed| Case { agreed, ..Case::of(with(recorded), with(live)) }.found();
    let difference = |counts| one("invalidated handle", counts, "rfc8797/4.1");
    for (recorded, live) in [(first, second), (first, None), (None, first)] {
        assert_eq!(found(recorded, live, true), difference(false));
    }
    // Linux servers invalidate without setting the R flag themselves. If the recorded server did, a
    // target that invalidates another handle is not at fault.
    assert_eq!(found(first, second, false), difference(false));
    assert_eq!(found(first, first, false), []);
    assert_eq!(found(None, first, false), difference(true));
    assert_eq!(found(first, Some(Invalidated::Foreign), true), difference(true));
    assert_eq!(found(Some(Invalidated::Foreign), first, true), difference(false));
}

#[test]
fn error_instead_of_a_reply_counts() {
    let found = instead(Ok(&inline()), Err(Error::Chunk));
    assert_eq!((&found.recorded[..], &found.live[..]), ("RDMA_MSG", "RDMA_ERROR, ERR_CHUNK"));
    assert!(found.counts);
}
