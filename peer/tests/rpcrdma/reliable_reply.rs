//! Replies in Read chunks of the Responder (reliable-reply draft): bytes written by hand from the
//! draft and RFC 8166, section 4.7, limits, aborted calls, and credits.

mod seeded;

use super::{Session, bytes, words};
use rdmascope_peer::endpoint;
use rdmascope_peer::memory::{Access, Refusal};
use rdmascope_peer::pair::End;
use rdmascope_peer::peer::{Event, Peer};
use rdmascope_peer::rc::{Failure, Fault, QueueEvent};
use rdmascope_peer::rpcrdma::{
    self, Call, Called, Discard, Edit, Freed, Mechanism, OfferLimits, Replied, Reply, Sent,
};
use rdmascope_wire::Xid;
use rdmascope_wire::bth::NakCode;
use rdmascope_wire::rpcrdma::{Procedure, ReadSegment, Segment};

const XID: u32 = 0x1122_3344;

/// Inline thresholds of 1024 bytes, segments of 1000 bytes, and replies in Read chunks.
fn config(remote_invalidation: bool) -> rpcrdma::Config {
    rpcrdma::Config { reliable_reply: Some(OfferLimits::default()), ..super::config(remote_invalidation) }
}

impl Session {
    fn with(remote_invalidation: bool) -> Session {
        Session::new(config(remote_invalidation), config(remote_invalidation))
    }

    fn call(&mut self, xid: u32) {
        self.pair.a.call(self.a, Call::inline(call(xid))).unwrap();
    }

    /// Runs until the call arrives.
    fn called(&mut self) -> Called {
        self.pair.run();
        let called = std::iter::from_fn(|| self.pair.b.poll_event()).find_map(|event| match event {
            Event::Rpc { event: rpcrdma::Event::Called(called), .. } => Some(called),
            _ => None,
        });
        called.expect("a call")
    }

    fn reply(&mut self, xid: u32, length: usize) -> Sent {
        self.pair.b.reply(self.b, Xid(xid), Reply::inline(reply(xid, length))).unwrap()
    }

    fn reply_with(&mut self, xid: u32, length: usize, edit: Edit) {
        let reply = Reply { edit: Some(edit), ..Reply::inline(reply(xid, length)) };
        self.pair.b.reply(self.b, Xid(xid), reply).unwrap();
    }

    /// Takes the new events of both sessions.
    fn events(&mut self) -> (Vec<rpcrdma::Event>, Vec<rpcrdma::Event>) {
        let rpc = |peer: &mut Peer| {
            let events = std::iter::from_fn(|| peer.poll_event());
            let of_rpc = events.filter_map(|event| match event {
                Event::Rpc { event, .. } => Some(event),
                Event::Endpoint(_) => None,
            });
            of_rpc.collect::<Vec<_>>()
        };
        self.pair.run();
        (rpc(&mut self.pair.a), rpc(&mut self.pair.b))
    }

    /// Takes the next packets of one side, from the BTH on.
    fn packets(&mut self, of_b: bool) -> Vec<Vec<u8>> {
        let now = self.pair.now;
        let peer = if of_b { &mut self.pair.b } else { &mut self.pair.a };
        std::iter::from_fn(|| peer.poll_transmit(now)).map(|datagram| datagram.transport).collect()
    }

    fn deliver(&mut self, to_b: bool, packets: Vec<Vec<u8>>) {
        let now = self.pair.now;
        for packet in packets {
            let (from, connection) = if to_b { (&self.pair.a, self.a) } else { (&self.pair.b, self.b) };
            let datagram = from.endpoint().datagram(connection, packet).unwrap();
            if to_b { self.pair.b.handle(now, &datagram) } else { self.pair.a.handle(now, &datagram) }
        }
    }

    fn offered(&self) -> (usize, u64) {
        let offered = self.pair.b.session(self.b).unwrap().offered();
        let memory = self.pair.b.endpoint().memory(self.b).unwrap();
        assert_eq!(offered.0 == 0, memory.is_empty());
        offered
    }
}

fn call(xid: u32) -> Vec<u8> {
    bytes(&[xid, 0, 2, 100_003, 3, 16, 0, 0, 0, 0])
}

fn reply(xid: u32, length: usize) -> Vec<u8> {
    let mut reply = bytes(&[xid, 1, 0, 0, 0, 0]);
    reply.extend((reply.len()..length).map(|at| (at % 251) as u8));
    reply
}

fn replied(event: &rpcrdma::Event) -> Option<&Replied> {
    match event {
        rpcrdma::Event::Replied(replied) => Some(replied),
        _ => None,
    }
}

fn freed(events: &[rpcrdma::Event]) -> Vec<(u32, Freed)> {
    let of = |event: &rpcrdma::Event| match event {
        rpcrdma::Event::Freed { xid, why, .. } => Some((xid.0, *why)),
        _ => None,
    };
    events.iter().filter_map(of).collect()
}

/// The complete exchange packet by packet, with and without remote invalidation.
#[test]
fn offered_reply_is_read_and_freed_by_done() {
    for invalidates in [true, false] {
        let mut session = Session::with(invalidates);
        session.call(XID);
        // The call has no Reply chunk although its reply may be long.
        let [sent] = &session.packets(false)[..] else { panic!() };
        assert_eq!(words(&sent[12..40]), [XID, 1, 32, 0, 0, 0, 0]);
        let sent = sent.clone();
        session.deliver(true, vec![sent]);
        session.packets(true);
        assert_eq!(session.reply(XID, 1200), Sent::Reply(Mechanism::ReadChunk));
        assert_eq!(session.offered(), (1, 1200));
        // One Send (SEND_ONLY): RDMA_NOMSG, two segments at Position zero, no Write list, no Reply
        // chunk, no Payload stream.
        let offer = session.packets(true);
        let [sent] = &offer[..] else { panic!() };
        let header = words(&sent[12..]);
        assert_eq!((sent[0], &header[..6], header.len()), (0x04, &[XID, 1, 32, 1, 1, 0][..], 19));
        assert_eq!((header[7], &header[10..12], header[13]), (1000, &[1, 0][..], 200));
        assert_eq!(header[16..], [0, 0, 0]);
        let handles = [header[6], header[12]];
        session.deliver(false, offer);
        // Two RDMA Read requests with the advertised handles and lengths.
        let reads = session.packets(false);
        let reads: Vec<_> = reads.into_iter().filter(|packet| packet[0] == 0x0c).collect();
        assert_eq!(
            reads.iter().map(|read| words(&read[20..28])).collect::<Vec<_>>(),
            [[handles[0], 1000], [handles[1], 200]]
        );
        session.deliver(true, reads);
        let responses = session.packets(true);
        session.deliver(false, responses);
        let done = session.packets(false);
        let done: Vec<_> = done.into_iter().filter(|packet| packet[0] != 0x11).collect();
        let [sent] = &done[..] else { panic!("{done:?}") };
        // RDMA_DONE with the XID in 16 bytes. The IETH holds the first handle.
        let expected = [XID, 1, 32, 3];
        match invalidates {
            true => assert_eq!((sent[0], words(&sent[12..])), (0x17, [&handles[..1], &expected].concat())),
            false => assert_eq!((sent[0], words(&sent[12..])), (0x04, expected.to_vec())),
        }
        session.deliver(true, done);
        assert_eq!(session.offered(), (0, 0));
        let (ours, theirs) = session.events();
        let replied = ours.iter().find_map(replied).unwrap();
        assert_eq!(replied.message, reply(XID, 1200));
        assert_eq!(replied.conveyance.mechanism, Mechanism::ReadChunk);
        let why = if invalidates { Freed::Invalidated } else { Freed::Done };
        assert_eq!(freed(&theirs), [(XID, why)]);
    }
}

#[test]
fn responder_selects_the_reply_mechanism_of_the_draft() {
    use Mechanism::{ReadChunk, ReplyChunk, Send};
    // Bytes of the Reply chunk, bytes of the reply, and the mechanism for each choice: auto, send,
    // reply-chunk, read-chunk.
    let cases = [
        (0, 300, [Some(Send), Some(Send), Some(Send), Some(ReadChunk)]),
        (0, 3000, [Some(ReadChunk), None, Some(ReadChunk), Some(ReadChunk)]),
        (4000, 300, [Some(Send), Some(Send), Some(ReplyChunk), Some(ReadChunk)]),
        (4000, 3000, [Some(ReplyChunk), None, Some(ReplyChunk), Some(ReadChunk)]),
        (2000, 3000, [Some(ReadChunk), None, Some(ReadChunk), Some(ReadChunk)]),
    ];
    for (chunk, length, expected) in cases {
        for (choice, expected) in
            [None, Some(Send), Some(ReplyChunk), Some(ReadChunk)].into_iter().zip(expected)
        {
            let responder = rpcrdma::Config { reply_mechanism: choice, ..config(true) };
            let mut session = Session::new(config(true), responder);
            let call = Call { message: call(XID), most_reply: chunk, least_reply: chunk, ..Call::default() };
            session.pair.a.call(session.a, call).unwrap();
            assert_eq!(session.called().reply_chunk, (chunk > 0).then_some(u64::from(chunk)));
            let sent = session.reply(XID, length);
            assert_eq!(sent, expected.map_or(Sent::ErrorChunk, Sent::Reply), "{chunk} {length} {choice:?}");
            let (ours, _) = session.events();
            match expected {
                Some(mechanism) => {
                    let replied = ours.iter().find_map(replied).unwrap();
                    assert_eq!((replied.message.len(), replied.conveyance.mechanism), (length, mechanism));
                }
                None => assert!(matches!(ours[..], [rpcrdma::Event::Error { .. }])),
            }
            assert_eq!(session.offered(), (0, 0));
            assert!(session.pair.a.endpoint().memory(session.a).unwrap().is_empty());
        }
    }
}

#[test]
fn write_chunks_are_used_together_with_the_read_chunk() {
    let mut session = Session::with(true);
    let call = Call { message: call(XID), write_chunks: vec![500], ..Call::default() };
    session.pair.a.call(session.a, call).unwrap();
    session.called();
    let reply = Reply { reduce: core::iter::once(24..424).collect(), ..Reply::inline(reply(XID, 3000)) };
    session.pair.b.reply(session.b, Xid(XID), reply).unwrap();
    let (ours, _) = session.events();
    let replied = ours.iter().find_map(replied).unwrap();
    assert_eq!((replied.items.len(), replied.items[0].len(), replied.message.len()), (1, 400, 2600));
    assert_eq!(session.offered(), (0, 0));
}

#[test]
fn both_ends_follow_rfc_8166_without_the_option() {
    let plain = || rpcrdma::Config { reliable_reply: None, ..config(true) };
    let mut session = Session::new(plain(), plain());
    session.call(XID);
    session.called();
    assert_eq!(session.reply(XID, 1200), Sent::ErrorChunk);
    assert!(matches!(session.events().0[..], [rpcrdma::Event::Error { .. }]));
    // A Requester without the draft answers nothing, and reads only calls.
    let mut session = Session::new(plain(), config(true));
    session.call(XID);
    session.called();
    assert_eq!(session.reply(XID, 1200), Sent::Reply(Mechanism::ReadChunk));
    session.events();
    assert_eq!(session.offered(), (1, 1200));
}

/// After its time a chunk is freed, and an RDMA Read of it ends the connection.
#[test]
fn unread_chunk_is_freed_after_its_time_limit() {
    // A Requester without the draft does not read the chunk.
    let mut session = Session::new(rpcrdma::Config { reliable_reply: None, ..config(false) }, config(false));
    session.call(XID);
    session.called();
    session.reply(XID, 1200);
    let (handle, address) = {
        let memory = session.pair.b.endpoint().memory(session.b).unwrap();
        let (handle, region) = memory.regions().next().unwrap();
        (handle, region.address)
    };
    session.pair.run_to_end();
    assert_eq!(session.offered(), (0, 0));
    let (_, theirs) = session.events();
    let waited = theirs.iter().find_map(|event| match event {
        rpcrdma::Event::Freed { offered_for, why: Freed::Time, .. } => Some(*offered_for),
        _ => None,
    });
    assert_eq!(waited, Some(OfferLimits::default().time));
    session.pair.a.endpoint_mut().read(session.a, handle, address, 100).unwrap();
    session.pair.run();
    let is_refused = std::iter::from_fn(|| session.pair.b.poll_event()).any(|event| {
        matches!(
            event,
            Event::Endpoint(endpoint::Event::Queue {
                event: QueueEvent::Fault(Fault::Access { refusal: Refusal::UnknownKey, .. }),
                ..
            })
        )
    });
    let is_failed = std::iter::from_fn(|| session.pair.a.poll_event()).any(|event| {
        matches!(
            event,
            Event::Endpoint(endpoint::Event::Queue {
                event: QueueEvent::Failed(Failure::Refused(NakCode::RemoteAccessError)),
                ..
            })
        )
    });
    assert!(is_refused && is_failed);
}

#[test]
fn oldest_chunk_is_evicted_for_a_new_one() {
    let limits = OfferLimits { bytes: 5000, ..OfferLimits::default() };
    let responder = rpcrdma::Config { reliable_reply: Some(limits), ..config(false) };
    let mut session = Session::new(rpcrdma::Config { reliable_reply: None, ..config(false) }, responder);
    let mut theirs = Vec::new();
    for (xid, length) in [(1, 2000), (2, 2500), (3, 1500), (3, 1100), (4, 5001), (5, 5000)] {
        session.pair.a.session_mut(session.a).unwrap().0.expect(Xid(xid));
        let header = [xid, 1, 32, 0, 0, 0, 0];
        session.pair.a.send_raw(session.a, [bytes(&header), call(xid)].concat()).unwrap();
        session.called();
        let sent = session.reply(xid, length);
        assert_eq!(sent == Sent::ErrorChunk, xid == 4);
        theirs.extend(session.events().1);
    }
    use Freed::{Reused, Room};
    assert_eq!(freed(&theirs), [(1, Room), (3, Reused), (2, Room), (3, Room)]);
    assert_eq!(session.offered(), (1, 5000));
    session.pair.b.disconnect(session.b).unwrap();
    let (_, theirs) = session.events();
    assert_eq!(freed(&theirs), [(5, Freed::Lost)]);
}

/// RDMA_DONE that matches no chunk is silently dropped: a duplicate, and one with an unknown XID.
#[test]
fn done_without_a_chunk_is_dropped() {
    let mut session = Session::with(true);
    session.call(XID);
    session.called();
    session.reply(XID, 1200);
    session.events();
    for xid in [XID, 77] {
        session.pair.a.send_raw(session.a, bytes(&[xid, 1, 32, 3])).unwrap();
    }
    assert_eq!(session.events(), (vec![], vec![]));
    session.call(XID + 1);
    session.called();
    session.reply(XID + 1, 100);
    assert!(session.events().0.iter().any(|event| replied(event).is_some()));
}

/// Calls that are aborted before the reply arrives, and while it is being read.
#[test]
fn done_is_sent_for_aborted_calls() {
    for while_pulled in [false, true] {
        let mut session = Session::with(true);
        session.call(XID);
        session.called();
        session.reply(XID, 1200);
        if while_pulled {
            let offer = session.packets(true);
            session.deliver(false, offer);
        }
        let (requester, endpoint) = session.pair.a.session_mut(session.a).unwrap();
        requester.cancel(endpoint, Xid(XID));
        let (ours, theirs) = session.events();
        assert!(!ours.iter().any(|event| replied(event).is_some()), "{ours:?}");
        assert_eq!(freed(&theirs), [(XID, Freed::Invalidated)]);
        assert_eq!(session.offered(), (0, 0));
    }
}

/// Unacceptable Read chunks: the transaction ends with an error, and RDMA_DONE is sent.
#[test]
fn done_is_sent_for_refused_replies() {
    let cases: Vec<(usize, Edit, Discard)> = vec![
        (1200, Box::new(|header, _| header.reads[1].position = 4), Discard::Chunks),
        (1200, Box::new(|header, _| header.reads[0].target.length = u32::MAX), Discard::TooMuch),
        (
            1200,
            Box::new(|header, payload| {
                header.procedure = Procedure::Msg;
                *payload = reply(XID, 40);
            }),
            Discard::Chunks,
        ),
        // One byte less than an RPC header.
        (
            1200,
            Box::new(|header, _| {
                header.reads.truncate(1);
                header.reads[0].target.length = 7;
            }),
            Discard::Malformed(rdmascope_wire::Stop::short(rdmascope_wire::Layer::Rpc, 4, 4, 7)),
        ),
    ];
    for (length, edit, why) in cases {
        let mut session = Session::with(false);
        session.call(XID);
        session.called();
        session.reply_with(XID, length, edit);
        let (ours, theirs) = session.events();
        let discarded = ours.iter().find_map(|event| match event {
            rpcrdma::Event::Discarded { xid: Some(Xid(XID)), why, .. } => Some(*why),
            _ => None,
        });
        assert_eq!(discarded, Some(why), "{ours:?}");
        assert_eq!(freed(&theirs), [(XID, Freed::Done)]);
        assert_eq!(session.pair.a.session(session.a).unwrap().outstanding(), (0, 0));
    }
}

/// A long call of the other direction may have the XID of an outstanding call.
#[test]
fn long_call_with_the_xid_of_an_open_call_is_not_a_reply() {
    let mut session = Session::with(true);
    session.call(XID);
    session.called();
    let message = [call(XID), vec![0; 2000]].concat();
    session.pair.b.call(session.b, Call::inline(message.clone())).unwrap();
    let (ours, _) = session.events();
    let called = ours.iter().find_map(|event| match event {
        rpcrdma::Event::Called(called) => Some(called.message.clone()),
        _ => None,
    });
    assert_eq!(called, Some(message));
    session.reply(XID, 1200);
    let (ours, _) = session.events();
    assert_eq!(ours.iter().find_map(replied).map(|replied| replied.message.len()), Some(1200));
}

/// RDMA_DONE uses a credit that no message returns. Sessions with only long replies proceed.
#[test]
fn sessions_of_long_replies_do_not_stall() {
    for grant in [1, 2, 64] {
        let responder = rpcrdma::Config { credits: grant, receives: Some(grant as usize), ..config(true) };
        let mut session = Session::new(rpcrdma::Config { credits: 64, ..config(true) }, responder);
        for xid in 0..200 {
            session.call(xid);
        }
        let (mut answered, mut most) = (0, 0);
        while answered < 200 {
            assert!(session.pair.step(), "grant {grant}: {answered} answered");
            while let Some(event) = session.pair.b.poll_event() {
                if let Event::Rpc { event: rpcrdma::Event::Called(called), .. } = event {
                    most = most.max(session.pair.b.session(session.b).unwrap().unanswered().count());
                    session.reply(called.xid.0, 1200);
                }
            }
            while let Some(event) = session.pair.a.poll_event() {
                if let Event::Rpc { event, .. } = event {
                    answered += u32::from(replied(&event).is_some());
                }
            }
        }
        session.events();
        assert_eq!(session.offered(), (0, 0));
        assert!(most <= grant as usize, "{most} calls at a grant of {grant}");
    }
}

#[test]
fn read_chunk_past_its_memory_ends_the_connection() {
    let mut session = Session::with(true);
    session.call(XID);
    session.called();
    session.reply_with(
        XID,
        1200,
        Box::new(|header, _| {
            let last = header.reads[1].target;
            let target = Segment { length: last.length + 1, ..last };
            header.reads[1] = ReadSegment { position: 0, target };
        }),
    );
    let (ours, theirs) = session.events();
    assert!(ours.iter().any(|event| matches!(event, rpcrdma::Event::Lost { xid: Xid(XID) })), "{ours:?}");
    assert_eq!(freed(&theirs), [(XID, Freed::Lost)]);
}

/// Replies without a call while no credit is available: RDMA_DONE waits, in a bounded queue.
#[test]
fn queued_done_messages_are_bounded() {
    let plain = rpcrdma::Config { reliable_reply: None, credits: 1, ..config(false) };
    let mut session = Session::new(config(false), plain);
    session.call(XID);
    session.called();
    let unknown = reply(XID + 1, 40);
    let endpoint = session.pair.b.endpoint_mut();
    let (handle, address) = endpoint.register(session.b, unknown, Access::READ).unwrap();
    for xid in 0..1100 {
        let read = [1, 0, handle.0, 40, (address >> 32) as u32, address as u32];
        let header = [&[xid, 1, 1, 1][..], &read, &[0, 0, 0]].concat();
        session.pair.b.send_raw(session.b, bytes(&header)).unwrap();
        session.pair.run();
    }
    // A Responder without the draft drops the 16 bytes of RDMA_DONE.
    let is_done =
        |event: &rpcrdma::Event| matches!(event, rpcrdma::Event::Discarded { why: Discard::Short(16), .. });
    assert_eq!(session.events().1.iter().filter(|event| is_done(event)).count(), 0);
    session.reply(XID, 40);
    assert_eq!(session.events().1.iter().filter(|event| is_done(event)).count(), 1024);
}
