//! RPC-over-RDMA messages of a peer, compared word by word with RFC 8166, section 4.7.

#![allow(clippy::single_range_in_vec_init, reason = "a list of one range is meant")]

use super::{Session, bytes, config, words};
use rdmascope_peer::endpoint::ConnectionId;
use rdmascope_peer::pair::{End, Pair};
use rdmascope_peer::peer::{Event, Peer};
use rdmascope_peer::rpcrdma::{self, Call, Mechanism, Reply};

const XID: u32 = 0xdead_beef;

/// Two peers with this remote invalidation.
fn session(remote_invalidation: bool) -> Session {
    Session::new(config(remote_invalidation), config(remote_invalidation))
}

/// Takes the next packets of one side.
fn packets(peer: &mut Peer, pair_now: rdmascope_peer::time::Instant) -> Vec<Vec<u8>> {
    std::iter::from_fn(|| peer.poll_transmit(pair_now)).map(|datagram| datagram.transport).collect()
}

/// The registered memory of `a`: handle, length, and the two words of the offset, in the order of
/// the given lengths.
fn segments(pair: &Pair<Peer>, a: ConnectionId) -> Vec<[u32; 4]> {
    let memory = pair.a.endpoint().memory(a).unwrap();
    let regions = memory.regions();
    regions
        .map(|(rkey, region)| {
            [rkey.0, region.bytes.len() as u32, (region.address >> 32) as u32, region.address as u32]
        })
        .collect()
}

#[test]
fn call_with_all_kinds_of_chunks_has_the_expected_words() {
    let Session { mut pair, a, b } = session(true);
    // Ten words, an item of 1002 bytes with its padding, and a word.
    let mut message = bytes(&[XID, 0, 2, 100_003, 3, 7, 0, 0, 0, 0]);
    message.extend((0..1002u32).map(|byte| byte as u8));
    message.extend([0, 0]);
    message.extend(bytes(&[0x0102_0304]));
    let call = Call {
        message: message.clone(),
        reduce: [40..1042].to_vec(),
        write_chunks: vec![8, 0],
        most_reply: 990,
        ..Call::default()
    };
    pair.a.call(a, call).unwrap();
    let memory = segments(&pair, a);
    let of_length = |length: u32| memory.iter().find(|segment| segment[1] == length).unwrap();
    let [sent] = &packets(&mut pair.a, pair.now)[..] else { panic!() };
    let mut expected = vec![XID, 1, 32, 0];
    // PHLOO PHLOO: one Read chunk at 40 in two segments.
    expected.extend([1, 40]);
    expected.extend(of_length(1000));
    expected.extend([1, 40]);
    expected.extend(of_length(2));
    // A Write chunk of one segment, an empty one, and a Reply chunk of one segment.
    expected.extend([0, 1, 1]);
    expected.extend(of_length(8));
    expected.extend([1, 0, 0, 1, 1]);
    expected.extend(of_length(990));
    // The reduced call: the item and its padding are removed.
    expected.extend([XID, 0, 2, 100_003, 3, 7, 0, 0, 0, 0, 0x0102_0304]);
    assert_eq!(sent[0], 0x04);
    assert_eq!(sent[12..], bytes(&expected));

    // The other side reads two segments and restores the call.
    let to_b = pair.a.endpoint().datagram(a, sent.clone()).unwrap();
    pair.b.handle(pair.now, &to_b);
    pair.run();
    let called = std::iter::from_fn(|| pair.b.poll_event()).find_map(|event| match event {
        Event::Rpc { event: rpcrdma::Event::Called(called), .. } => Some(called),
        _ => None,
    });
    let called = called.unwrap();
    assert_eq!((called.message, called.items), (message, [40..1042].to_vec()));
    assert_eq!((called.write_chunks, called.reply_chunk), (vec![8, 0], Some(990)));
    while packets(&mut pair.a, pair.now).len() + packets(&mut pair.b, pair.now).len() > 0 {}

    // A reply of seven words and an item of 5 bytes: RDMA WRITE, then SEND with Invalidate of a
    // handle in the call.
    let mut reply = bytes(&[XID, 1, 0, 0, 0, 0, 5]);
    reply.extend(b"hello\0\0\0");
    pair.b.reply(b, called.xid, Reply { message: reply, reduce: [28..33].to_vec(), edit: None }).unwrap();
    let sent = packets(&mut pair.b, pair.now);
    let sink = of_length(8);
    assert_eq!((sent.len(), sent[0][0], sent[1][0]), (2, 0x0a, 0x17));
    assert_eq!(sent[0][12..28], bytes(&[sink[2], sink[3], sink[0], 5]));
    assert_eq!(sent[0][28..], *b"hello\0\0\0");
    assert!(memory.iter().any(|segment| segment[0].to_be_bytes() == sent[1][12..16]));
    // The Write chunk has 5 bytes, the empty one is empty, and the Reply chunk is unused.
    let reply_chunk = of_length(990);
    let mut expected = vec![XID, 1, 32, 0, 0, 1, 1, sink[0], 5, sink[2], sink[3], 1, 0, 0];
    expected.extend([1, 1, reply_chunk[0], 0, reply_chunk[2], reply_chunk[3]]);
    expected.extend([XID, 1, 0, 0, 0, 0, 5]);
    assert_eq!(sent[1][16..], bytes(&expected));
}

#[test]
fn long_call_and_long_reply_have_the_expected_words() {
    let Session { mut pair, a, b } = session(false);
    let mut message = bytes(&[XID, 0, 2, 100_003, 3, 1]);
    message.resize(1400, 9);
    pair.a.call(a, Call { message: message.clone(), most_reply: 1500, ..Call::default() }).unwrap();
    let memory = segments(&pair, a);
    let [sent] = &packets(&mut pair.a, pair.now)[..] else { panic!() };
    let call = words(&sent[12..]);
    // RDMA_NOMSG, two segments at Position 0, no Write list, a Reply chunk of two segments, and no
    // Payload stream.
    assert_eq!(call[..6], [XID, 1, 32, 1, 1, 0]);
    assert_eq!((call[7], call[10], call[11], call[13]), (1000, 1, 0, 400));
    assert_eq!((&call[16..20], call[21], call[25]), (&[0, 0, 1, 2][..], 1000, 500));
    assert_eq!((call.len(), memory.len()), (28, 4));
    let to_b = pair.a.endpoint().datagram(a, sent.clone()).unwrap();
    pair.b.handle(pair.now, &to_b);
    pair.run();
    let is_complete = std::iter::from_fn(|| pair.b.poll_event()).any(|event| {
        matches!(&event, Event::Rpc { event: rpcrdma::Event::Called(called), .. }
            if called.is_long && called.message == message)
    });
    assert!(is_complete);
    let mut reply = bytes(&[XID, 1, 0, 0, 0, 0]);
    reply.resize(1200, 8);
    pair.b.reply(b, rdmascope_wire::Xid(XID), Reply::inline(reply.clone())).unwrap();
    // Two WRITEs, the second of 200 bytes; then an ordinary SEND, because remote invalidation is
    // off.
    let sent = packets(&mut pair.b, pair.now);
    assert_eq!(sent.iter().map(|packet| packet[0]).collect::<Vec<_>>(), [0x0a, 0x0a, 0x04]);
    let answer = words(&sent[2][12..]);
    assert_eq!((&answer[..8], answer[9], answer[13]), (&[XID, 1, 32, 1, 0, 0, 1, 2][..], 1000, 200));
    assert_eq!(answer.len(), 16);
    for packet in sent {
        let to_a = pair.b.endpoint().datagram(b, packet).unwrap();
        pair.a.handle(pair.now, &to_a);
    }
    let replied = std::iter::from_fn(|| pair.a.poll_event()).find_map(|event| match event {
        Event::Rpc { event: rpcrdma::Event::Replied(replied), .. } => Some(replied),
        _ => None,
    });
    let replied = replied.unwrap();
    assert_eq!((replied.message, replied.conveyance.mechanism), (reply, Mechanism::ReplyChunk));
}

#[test]
fn read_of_a_dropped_call_does_not_affect_a_reused_xid() {
    let Session { mut pair, a, b } = session(true);
    let mut message = bytes(&[XID, 0, 2, 100_003, 3, 7, 0, 0, 0, 0]);
    message.extend([7; 1000]);
    pair.a.call(a, Call { message, reduce: [40..1040].to_vec(), ..Call::default() }).unwrap();
    let [sent] = &packets(&mut pair.a, pair.now)[..] else { panic!() };
    let to_b = pair.a.endpoint().datagram(a, sent.clone()).unwrap();
    pair.b.handle(pair.now, &to_b);
    // The READ is in progress, and its call is dropped.
    pair.b.session_mut(b).unwrap().0.forget(rdmascope_wire::Xid(XID));
    let header = [XID, 1, 32, 0, 0, 0, 0];
    let rpc = [XID, 0, 2, 100_003, 3, 0, 0, 0, 0, 0];
    pair.a.send_raw(a, bytes(&[&header[..], &rpc].concat())).unwrap();
    pair.run();
    let events: Vec<Event> = std::iter::from_fn(|| pair.b.poll_event())
        .filter(|event| matches!(event, Event::Rpc { .. }))
        .collect();
    let [Event::Rpc { event: rpcrdma::Event::Called(called), .. }] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!(called.message, bytes(&rpc));
    pair.b.reply(b, called.xid, Reply::inline(bytes(&[XID, 1, 0, 0, 0, 0]))).unwrap();
}
