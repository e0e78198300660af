//! Each kind of event, in a session that was altered to have it. Unaltered sessions have only
//! events of connections that are made and closed.

use rdmascope_analysis::events::{EventFilter, Events, Kind, SessionEvent};
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::report::{Report, Statement};
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::record::Time;
use rdmascope_present::page::report::Text;
use rdmascope_tests::mutate::{self, CLIENT, SERVER, attribute, opcode};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::segments::made_and_closed;
use rdmascope_tests::{samples, session};

const SECOND: i64 = 1_000_000_000;

/// The events of a capture.
fn events(capture: &Capture) -> Vec<SessionEvent> {
    let mut engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
    let mut events = Events::default();
    session::records(capture).for_each(|record| engine.handle(&record, &mut |event| events.handle(&event)));
    engine.finish(&mut |event| events.handle(&event));
    let found = events.list(engine.totals().span.map(|(_, last)| last));
    assert!(found.is_sorted_by_key(|event| event.time), "{found:#?}");
    found
}

fn of_kind(capture: &Capture, kind: Kind) -> Vec<SessionEvent> {
    events(capture).into_iter().filter(|event| event.kind == kind).collect()
}

/// The only event of this kind.
#[track_caller]
fn only(capture: &Capture, kind: Kind) -> SessionEvent {
    let all = events(capture);
    let mut found = all.iter().filter(|event| event.kind == kind);
    let first = found.next().unwrap_or_else(|| panic!("no {kind:?} in {all:#?}"));
    assert!(found.next().is_none(), "{all:#?}");
    first.clone()
}

/// Checks that the only events are connections that are made and closed.
#[track_caller]
fn assert_no_problems(label: &str, capture: &Capture) {
    let other: Vec<_> = events(capture)
        .into_iter()
        .filter(|event| !matches!(event.kind, Kind::Connected | Kind::Disconnected))
        .collect();
    assert!(other.is_empty(), "{label}: {other:#?}");
}

fn basic() -> Capture {
    samples::capture("nfs4.1-basic")
}

fn index_of(capture: &Capture, wanted: impl Fn(&Packet) -> bool) -> usize {
    capture.packets.iter().position(wanted).expect("the session has such a packet")
}

fn is_message(packet: &Packet, attribute: u16) -> bool {
    packet.cm_attribute() == Some(attribute)
}

/// Delays everything from the packet at `index` on by `by` nanoseconds.
fn pause(capture: &mut Capture, index: usize, by: i64) {
    capture.packets[index..].iter_mut().for_each(|packet| packet.time += by);
}

/// The same session on another connection between the same ends, `pause` nanoseconds after the end
/// of the first.
fn again(capture: &Capture, pause: i64) -> Capture {
    let mut later = capture.clone();
    mutate::change_communication_ids(&mut later, 0x0101_0000);
    mutate::renumber_qp(&mut later, CLIENT, 0x77);
    mutate::renumber_qp(&mut later, SERVER, 0x88);
    let first = later.packets[0].time;
    let last = capture.packets.last().expect("it has packets").time;
    later.packets.iter_mut().for_each(|packet| packet.time += last + pause - first);
    later
}

/// The session up to the client's DREQ, which the server sends instead; then the session again.
fn reconnected(pause: i64) -> Capture {
    let mut first = basic();
    let request = index_of(&first, |packet| is_message(packet, attribute::DREQ));
    first.packets.truncate(request);
    let mut request = basic().packets[request].clone();
    let mut reply = basic().packets.iter().find(|packet| is_message(packet, attribute::DREP)).cloned();
    // The server's DREP becomes a DREQ: it has the communication IDs of a DREQ from the server.
    let server = reply.as_mut().expect("the session has a DREP");
    server.time = request.time;
    server.set_cm_attribute(attribute::DREQ);
    server.seal();
    request.set_cm_attribute(attribute::DREP);
    first.packets.extend(reply);
    first.renumber();
    mutate::merge(&first, &again(&basic(), pause))
}

/// The same for a client with work, which asks for a connection at once, and is answered after the
/// pause.
fn out_of_service(pause: i64) -> Capture {
    let mut capture = reconnected(pause);
    let closed = index_of(&capture, |packet| is_message(packet, attribute::DREQ));
    let request = capture.packets.iter().rposition(|packet| is_message(packet, attribute::REQ));
    let request = capture.packets[request.expect("it is connected again")].clone();
    let since = capture.packets[closed].time;
    for (index, time) in (since + SECOND / 5..request.time).step_by(SECOND as usize).enumerate() {
        let mut earlier = request.clone();
        earlier.time = time;
        capture.packets.insert(closed + 1 + index, earlier);
    }
    capture.renumber();
    capture
}

#[test]
fn unaltered_sessions_have_no_problem_events() {
    for sample in samples::MOUNTS.into_iter().filter(|sample| *sample != "nfs3-lossy") {
        let capture = samples::capture(sample);
        assert_no_problems(sample, &capture);
        let found = events(&capture);
        assert_eq!(
            found.iter().filter(|event| event.kind == Kind::Connected).count(),
            1,
            "{sample}: {found:#?}"
        );
    }
}

#[test]
fn a_connection_is_made_and_closed() {
    let capture = basic();
    let time = |attribute| capture.packets[index_of(&capture, |packet| is_message(packet, attribute))].time;
    let made = only(&capture, Kind::Connected);
    assert_eq!((made.time, made.other, made.by_requester), (Time(time(attribute::REQ)), None, Some(true)));
    assert_eq!(made.duration, Some((time(attribute::RTU) - time(attribute::REQ)) as u64));
    let closed = only(&capture, Kind::Disconnected);
    assert_eq!((closed.time, closed.by_requester), (Time(time(attribute::DREQ)), Some(true)));
    assert_eq!(closed.text, "client closed the connection (DREQ)");
}

#[test]
fn a_rejection_has_its_reason() {
    // tshark, infiniband.mad, of the sample: REQ, REJ with reason 8, twice.
    let found = of_kind(&samples::capture(samples::REJECTED), Kind::Rejected);
    let frames: Vec<_> = found.iter().map(|event| event.frames).collect();
    assert_eq!(frames, [[Some(1), Some(2)], [Some(3), Some(4)]]);
    for event in found {
        assert_eq!(event.text, "server rejected the connection, reason 8: invalid service ID");
        assert_eq!(event.by_requester, Some(false));
    }
}

#[test]
fn a_repeated_request_is_reported() {
    let mut capture = basic();
    pause(&mut capture, 1, 4_700_000_000);
    let mut second = capture.packets[0].clone();
    second.time = capture.packets[1].time - 100_000;
    capture.packets.insert(1, second);
    capture.renumber();
    let event = only(&capture, Kind::RequestRepeated);
    assert_eq!((event.count, event.frames), (2, [Some(1), Some(2)]));
    assert!(event.text.contains("2 times in 4.7") && event.text.ends_with("then answered"), "{}", event.text);
    // A packet captured twice was not sent twice.
    assert_no_problems("doubled", &mutate::repeat(&basic(), |packet| is_message(packet, attribute::REQ)));
}

#[test]
fn unanswered_requests_need_packets_of_the_server() {
    let mut capture = basic();
    let mut asking = again(&capture, SECOND);
    asking.packets.truncate(1);
    let mut second = asking.packets[0].clone();
    second.time += SECOND;
    asking.packets.push(second);
    capture = mutate::merge(&capture, &asking);
    let event = only(&capture, Kind::RequestUnanswered);
    let first = capture.packets.len() as u64 - 1;
    assert_eq!((event.count, event.duration), (2, Some(SECOND as u64)));
    assert_eq!(event.frames, [Some(first), Some(first + 1)]);
    let half = mutate::keep(&capture, |packet| packet.source() == CLIENT);
    assert!(events(&half).iter().all(|event| event.kind != Kind::RequestUnanswered), "one-sided");
}

/// Over iWARP, MPA start frames open a connection, and FINs close it.
#[test]
fn connections_over_tcp() {
    let capture = samples::capture("iwarp-nfs3");
    let made = only(&capture, Kind::Connected);
    assert_eq!((made.frames, &made.text[..]), ([Some(4), Some(6)], "connected, in 47.8ms"));
    let closed = only(&capture, Kind::Disconnected);
    assert_eq!((closed.frames, closed.by_requester), ([Some(1740); 2], Some(true)));
    assert_eq!(closed.text, "client closed the connection (FIN)");
    // According to the truth file: 83 attempts.
    let rejected = of_kind(&samples::capture("iwarp-rejected"), Kind::Rejected);
    assert_eq!(rejected.len(), 83);
    for event in &rejected {
        assert_eq!(event.text, "server rejected the connection, the MPA Reply has R set");
        assert_eq!(event.by_requester, Some(false));
    }
    assert_no_problems("answered", &made_and_closed(&capture, true));
    let closed = made_and_closed(&capture, false);
    let event = only(&closed, Kind::RequestUnanswered);
    assert_eq!((event.count, event.frames), (1, [Some(4), Some(4)]));
    assert_eq!(event.text, "client sent its MPA Request once, never answered");
    // The reply is lost, but the answer to the first call implies it.
    let lost = mutate::keep(&capture, |packet| packet.number != 6);
    assert!(events(&lost).iter().all(|event| event.kind != Kind::RequestUnanswered));
    assert_eq!(only(&lost, Kind::Disconnected).text, "client closed the connection (FIN)");
    // Only the sequence numbers of TCP imply the reply.
    let mut lost = made_and_closed(&capture, true);
    lost.packets.retain(|packet| packet.number != 6);
    assert!(events(&lost).iter().all(|event| event.kind != Kind::RequestUnanswered));
}

#[test]
fn service_is_lost_between_connections() {
    let capture = out_of_service(4_900_000_000);
    let found = events(&capture);
    let made: Vec<_> = found.iter().filter(|event| event.kind == Kind::Connected).collect();
    assert_eq!(made.len(), 2, "{found:#?}");
    assert_eq!(made[1].other, Some(made[0].connection));
    let lost = only(&capture, Kind::ServiceLost);
    assert_eq!((lost.connection, lost.other), (made[0].connection, Some(made[1].connection)));
    let duration = lost.duration.expect("it is known");
    assert!((4_900_000_000..5_000_000_000).contains(&duration), "{duration}");
    assert!(lost.text.contains("connection 1 was closed by the server"), "{}", lost.text);
    let closed = found.iter().find(|event| event.kind == Kind::Disconnected).expect("it was closed");
    assert_eq!(closed.by_requester, Some(false));
    // An idle client that closes its connection loses no service.
    let idle = mutate::merge(&basic(), &again(&basic(), 4_900_000_000));
    assert!(of_kind(&idle, Kind::ServiceLost).is_empty());
    assert!(of_kind(&reconnected(4_900_000_000), Kind::ServiceLost).is_empty(), "it had no work");
    // The pause is too short for a loss of service.
    assert!(of_kind(&reconnected(SECOND / 2), Kind::ServiceLost).is_empty());
}

/// The server's packets in the first two seconds of the next connection are missing from the
/// capture: they may contain replies.
#[test]
fn replies_missing_from_the_capture_are_no_outage() {
    let capture = reconnected(SECOND / 2);
    let at = capture
        .packets
        .iter()
        .rposition(|packet| is_message(packet, attribute::RTU))
        .expect("it is connected again");
    let ready = capture.packets[at].time;
    let lacks = |packet: &Packet| {
        packet.is_rc() && packet.source() == SERVER && (ready..ready + 2 * SECOND).contains(&packet.time)
    };
    let lacking = mutate::keep(&capture, |packet| !lacks(packet));
    assert!(lacking.packets.len() < capture.packets.len() - 100);
    assert_eq!(of_kind(&lacking, Kind::ServiceLost), []);
}

#[test]
fn a_waiting_call_is_a_loss_of_service() {
    let original = basic();
    let call = index_of(&original, |packet| packet.source() == CLIENT && packet.xid().is_some());
    let xid = original.packets[call].xid();
    let is_reply = |packet: &Packet| packet.source() == SERVER && packet.xid() == xid;
    let mut capture = original.clone();
    // The second call, so that there is a reply before it.
    let later = index_of(&original, |packet| {
        packet.source() == CLIENT
            && packet.xid().is_some()
            && packet.number > original.packets[index_of(&original, is_reply)].number
    });
    let xid = original.packets[later].xid();
    let reply = index_of(&original, |packet| packet.source() == SERVER && packet.xid() == xid);
    pause(&mut capture, reply, 3 * SECOND);
    let lost = only(&capture, Kind::ServiceLost);
    assert_eq!((lost.count, lost.frames[1]), (1, Some(capture.packets[reply].number)));
    assert_eq!(lost.time, Time(capture.packets[later].time));
    // The same pause before the call: no call is waiting.
    let mut idle = original.clone();
    pause(&mut idle, later, 3 * SECOND);
    assert_no_problems("idle", &idle);
    // No loss is reported if the call was not captured.
    let blind = mutate::keep(&capture, |packet| packet.number != later as u64 + 1);
    assert!(of_kind(&blind, Kind::ServiceLost).is_empty());
}

/// An RDMA Read is described with the bytes that it requests.
#[test]
fn an_unanswered_rdma_read_exhausts_its_retries() {
    let original = basic();
    let at = index_of(&original, |packet| packet.is_rc() && packet.opcode() == opcode::READ_REQUEST);
    let mut capture = original.clone();
    capture.packets.truncate(at + 1);
    let request = capture.packets[at].clone();
    assert_eq!(request.reth().map(|(_, _, length)| length), Some(20 << 10));
    for nth in 1..7 {
        let mut packet = request.clone();
        packet.time += nth * 500_000_000;
        capture.packets.push(packet);
    }
    let is_over = |packet: &&Packet| is_message(packet, attribute::DREQ);
    let mut over = original.packets.iter().find(is_over).expect("it has one").clone();
    over.time = request.time + 4 * SECOND;
    capture.packets.push(over);
    capture.renumber();
    let event = only(&capture, Kind::RetriesExhausted);
    assert_eq!(event.text, "server's RDMA Read of 20 KiB sent 7 times in 3s, never answered; then DREQ");
}

/// The session up to its last call but one, which the server's host does not even acknowledge. The
/// caller adds later packets.
fn stuck() -> (Capture, usize) {
    stuck_at(|calls| calls - 2)
}

/// The same, up to a call that is chosen by the number of calls.
fn stuck_at(nth: impl Fn(usize) -> usize) -> (Capture, usize) {
    let mut capture = basic();
    let calls: Vec<usize> = (0..capture.packets.len())
        .filter(|at| {
            let packet = &capture.packets[*at];
            packet.source() == CLIENT && packet.xid().is_some() && packet.opcode() == opcode::SEND_ONLY
        })
        .collect();
    let last = calls[nth(calls.len())];
    capture.packets.truncate(last + 1);
    (capture, last)
}

#[test]
fn retries_are_exhausted() {
    let (mut capture, call) = stuck();
    let sent = capture.packets[call].clone();
    for nth in 1..7 {
        let mut packet = sent.clone();
        packet.time += nth * 500_000_000;
        capture.packets.push(packet);
    }
    capture.renumber();
    let mut server =
        basic().packets.into_iter().find(|packet| is_message(packet, attribute::DREQ)).expect("it has one");
    server.time = sent.time + 4 * SECOND;
    capture.packets.push(server);
    capture.renumber();
    let event = only(&capture, Kind::RetriesExhausted);
    assert_eq!((event.count, event.duration, event.by_requester), (7, Some(3 * SECOND as u64), Some(true)));
    assert_eq!(event.frames, [Some(call as u64 + 1), Some(call as u64 + 7)]);
    assert_eq!(event.text, "client's Send sent 7 times in 3s, never answered; then DREQ");
    // The call waits until the capture ends.
    let lost = only(&capture, Kind::ServiceLost);
    assert_eq!(lost.duration, Some(4 * SECOND as u64));
    // With one direction only, replies are unknown.
    let half = mutate::keep(&capture, |packet| packet.source() == CLIENT);
    assert!(events(&half).iter().all(|event| !event.kind.is_loss()), "one-sided");
}

#[test]
fn calls_are_replayed_and_recovery_follows() {
    let (first, call) = stuck_at(|_| 10);
    let xid = first.packets[call].xid().expect("it is a call");
    let mut first = first;
    let mut request =
        basic().packets.into_iter().find(|packet| is_message(packet, attribute::DREQ)).expect("it has one");
    request.time = first.packets[call].time + 1000;
    first.packets.push(request);
    first.renumber();
    // The next connection repeats the call that waited.
    let later = again(&basic(), 2 * SECOND);
    let capture = mutate::merge(&first, &later);
    let replayed = only(&capture, Kind::CallsReplayed);
    assert_eq!((replayed.count, replayed.by_requester), (1, Some(true)));
    let frame = replayed.frames[0].expect("it has a frame") as usize;
    assert_eq!(capture.packets[frame - 1].xid(), Some(xid));
    assert!(frame > first.packets.len());
    let recovery = only(&capture, Kind::Recovery);
    assert!(
        recovery.text.contains("EXCHANGE_ID") && recovery.text.contains("1 RECLAIM_COMPLETE"),
        "{}",
        recovery.text
    );
    let lost = only(&capture, Kind::ServiceLost);
    assert!(lost.duration.expect("it is known") >= 2 * SECOND as u64);
}

#[test]
fn naks_are_reported_as_bursts() {
    // tshark, infiniband.aeth.syndrome, of the sample: one NAK.
    let lossy = samples::capture("nfs3-lossy");
    let nak = only(&lossy, Kind::Nak);
    assert_eq!(nak.count, 1);
    // Three RNR NAKs before an acknowledgement.
    let mut capture = basic();
    let ack = index_of(&capture, |packet| packet.is_rc() && packet.opcode() == opcode::ACKNOWLEDGE);
    let by_requester = capture.packets[ack].source() == CLIENT;
    let original = capture.packets[ack].clone();
    for nth in 0..3 {
        let mut packet = original.clone();
        packet.data[mutate::EXTENSION] = 0x2f;
        // A different IP packet each time: an identical one would be a packet captured twice.
        packet.data[19] = packet.data[19].wrapping_add(nth as u8);
        packet.seal();
        packet.time += nth * 1000;
        capture.packets.insert(ack + nth as usize, packet);
    }
    capture.renumber();
    let event = only(&capture, Kind::RnrNak);
    assert_eq!((event.count, event.by_requester), (3, Some(by_requester)));
    // An RDMA operation may be refused so as well, which needs no Receive.
    assert!(event.text.contains("not ready (no Receive posted, or memory paged out)"), "{}", event.text);
    assert_eq!(event.frames, [Some(ack as u64 + 1), Some(ack as u64 + 3)]);
}

#[test]
fn credits_are_used_up() {
    // Every reply of the server grants two calls, and a second call is in progress with the first.
    let mut capture = samples::capture("nfs4.2-mtu4096-large-io");
    mutate::each(&mut capture, |packet| {
        if packet.source() == SERVER && packet.xid().is_some() {
            let at = packet.payload().start + 8;
            packet.set_u32(at, 2);
        }
    });
    let found = of_kind(&capture, Kind::CreditsExhausted);
    assert!(!found.is_empty(), "{:#?}", events(&capture));
    assert!(found.iter().all(|event| event.text.starts_with("all 2 credits in use")), "{found:#?}");
}

/// Packets that are missing from the capture, or captured twice, cause no outage.
#[test]
fn capture_losses_are_no_outages() {
    let original = basic();
    for at in (0..original.packets.len()).step_by(7) {
        let lacking = mutate::keep(&original, |packet| packet.number != at as u64 + 1);
        let loss: Vec<_> = events(&lacking).into_iter().filter(|event| event.kind.is_loss()).collect();
        assert!(loss.is_empty(), "without frame {}: {loss:#?}", at + 1);
    }
    for source in [CLIENT, SERVER] {
        let half = mutate::keep(&original, |packet| packet.source() == source);
        let loss: Vec<_> = events(&half).into_iter().filter(|event| event.kind.is_loss()).collect();
        assert!(loss.is_empty(), "only {source}: {loss:#?}");
    }
    let twice = mutate::repeat(&original, |_| true);
    assert!(events(&twice).iter().all(|event| !event.kind.is_loss()), "captured twice");
}

#[test]
fn an_outage_is_listed_as_a_problem() {
    let capture = out_of_service(4_900_000_000);
    let mut engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
    let mut report = Report::default();
    session::records(&capture).for_each(|record| engine.handle(&record, &mut |event| report.handle(&event)));
    engine.finish(&mut |event| report.handle(&event));
    let file = rdmascope_analysis::ending::FileEnding { name: "session.pcap".into(), ..Default::default() };
    let ending = rdmascope_analysis::ending::Ending {
        totals: *engine.totals(),
        files: vec![file],
        port: 4791,
        input: Some("session.pcap".into()),
        ..Default::default()
    };
    assert_eq!(report.nothing_wrong(&ending, &report.verdict(&ending, 0)), None);
    let mut text = Vec::new();
    Text { report: &report, ending: &ending, style: Default::default() }
        .write(&mut text)
        .expect("in-memory write");
    let text = String::from_utf8(text).expect("it is text");
    let wrong = text.split("\nProblems\n").nth(1).expect("it has this part");
    assert!(wrong.contains("  Service\n") && wrong.contains("; the server closed it"), "{wrong}");
    assert!(wrong.ends_with("Next: rdmascope events session.pcap\n"), "{wrong}");
}

/// The second inline reply becomes one with GARBAGE_ARGS (RFC 5531, section 9).
fn refused(mut capture: Capture) -> Capture {
    let at = second_reply(&capture);
    // After the header without chunks: XID, REPLY, MSG_ACCEPTED, a verifier without a body,
    // accept_stat.
    let status = capture.packets[at].payload().start + 28 + 20;
    capture.packets[at].set_u32(status, 4);
    capture.packets[at].seal();
    capture
}

/// The same reply becomes RDMA_ERROR with ERR_CHUNK (RFC 8166, section 4.5.3).
fn without_room(mut capture: Capture) -> Capture {
    let at = second_reply(&capture);
    let packet = &mut capture.packets[at];
    let (start, xid) = (packet.payload().start, packet.xid().expect("it is a message"));
    let words = [xid, 1, packet.u32(start + 8), 4, 2, 0, 0];
    packet.set_after_bth(&words.map(u32::to_be_bytes).concat());
    capture
}

/// The index of the second inline reply.
fn second_reply(capture: &Capture) -> usize {
    let is_inline = |packet: &Packet| {
        // RDMA_MSG follows XID, version and credits.
        packet.source() == SERVER && packet.xid().is_some() && packet.u32(packet.payload().start + 12) == 0
    };
    let mut replies = (0..capture.packets.len()).filter(|at| is_inline(&capture.packets[*at]));
    replies.nth(1).expect("there are replies")
}

#[test]
fn a_call_that_fails_on_every_connection_is_one_event() {
    let first = refused(reconnected(SECOND / 2));
    let begin =
        first.packets.iter().position(|packet| is_message(packet, attribute::RTU)).expect("it is made");
    let anew = first.packets[begin + 1..].iter().position(|packet| is_message(packet, attribute::REQ));
    let (one, two) = first.packets.split_at(begin + 1 + anew.expect("it is made again"));
    let part = |packets: &[Packet]| Capture { packets: packets.to_vec(), ..first.clone() };
    // On one connection only, it is an ordinary error.
    assert_eq!(of_kind(&first, Kind::CallFailsAgain), []);
    let both = mutate::merge(&part(one), &refused(part(two)));
    let event = only(&both, Kind::CallFailsAgain);
    assert_eq!((event.count, event.by_requester), (2, Some(true)));
    assert_eq!((event.connection.0, event.other.map(|id| id.0)), (1, Some(2)));
    let frames = event.frames.map(|frame| frame.expect("it is known") as usize);
    assert_eq!(both.packets[frames[0] - 1].source(), CLIENT);
    assert_eq!(both.packets[frames[1] - 1].source(), SERVER);
    assert!(
        event.text.starts_with("client sent NFS") && event.text.contains(" 2 times in "),
        "{}",
        event.text
    );
    assert!(
        event.text.ends_with("each time answered with GARBAGE_ARGS; on connections 1, 2"),
        "{}",
        event.text
    );
    // An error of the procedure is the application's concern.
    assert_eq!(of_kind(&mutate::merge(&basic(), &again(&basic(), SECOND / 2)), Kind::CallFailsAgain), []);
}

#[test]
fn err_chunk_on_every_connection_names_them_all() {
    let both = reconnected(SECOND / 2);
    let begin =
        both.packets.iter().position(|packet| is_message(packet, attribute::RTU)).expect("it is made");
    let anew = both.packets[begin + 1..].iter().position(|packet| is_message(packet, attribute::REQ));
    let (one, two) = both.packets.split_at(begin + 1 + anew.expect("it is made again"));
    let part = |packets: &[Packet]| Capture { packets: packets.to_vec(), ..both.clone() };
    let mut three = part(two);
    mutate::change_communication_ids(&mut three, 0x0303_0000);
    mutate::renumber_qp(&mut three, CLIENT, 0x99);
    mutate::renumber_qp(&mut three, SERVER, 0xaa);
    let length = two.last().expect("it has packets").time - two[0].time + SECOND;
    three.packets.iter_mut().for_each(|packet| packet.time += length);
    let join = |fails: fn(Capture) -> Capture, how: [bool; 3]| {
        let parts = [part(one), part(two), three.clone()];
        let parts = parts.into_iter().zip(how).map(|(part, does)| if does { fails(part) } else { part });
        parts.reduce(|first, second| mutate::merge(&first, &second)).expect("there are three")
    };
    let all = join(without_room, [true; 3]);
    let event = only(&all, Kind::CallFailsAgain);
    assert_eq!((event.count, event.by_requester), (3, Some(true)));
    assert_eq!((event.connection.0, event.other.map(|id| id.0)), (1, Some(3)));
    let end = "each time answered with RDMA_ERROR ERR_CHUNK; on connections 1, 2, 3";
    assert!(event.text.ends_with(end), "{}", event.text);
    // The event matches each of the connections, including the middle one.
    for connection in 1..=4 {
        let filter = EventFilter { connections: vec![ConnectionId(connection)], ..EventFilter::default() };
        assert_eq!(filter.matches(&event, Time::default()), connection <= 3, "{connection}");
    }
    // If the call got its reply on one of the connections, the others are named.
    let event = only(&join(without_room, [true, false, true]), Kind::CallFailsAgain);
    assert!(event.text.ends_with("on connections 1, 3"), "{}", event.text);
    // On one connection only, it is an ordinary error.
    assert_eq!(of_kind(&join(without_room, [false, true, false]), Kind::CallFailsAgain), []);
    assert_eq!(of_kind(&join(without_room, [false; 3]), Kind::CallFailsAgain), []);
}

/// Identical events are reported once, with their number.
#[test]
fn repeated_rejections_are_one_statement() {
    let report = |capture: &Capture| {
        let mut engine = Engine::new(Config { observe: Observe::All, ..Config::default() });
        let mut report = Report::default();
        session::records(capture)
            .for_each(|record| engine.handle(&record, &mut |event| report.handle(&event)));
        engine.finish(&mut |event| report.handle(&event));
        let ending = rdmascope_analysis::ending::Ending { totals: *engine.totals(), ..Default::default() };
        let verdict = report.verdict(&ending, 0);
        let leading = Statement::leading(&verdict);
        leading.iter().map(|statement| statement.text.clone()).collect::<Vec<_>>()
    };
    let rejected = samples::capture(samples::REJECTED);
    let text =
        "1.1 s without service on 2 connections, from 0.000 until the capture ends; the server rejected them";
    assert_eq!(report(&rejected), [text]);
    // Another reason does not change that.
    let mut other = rejected.clone();
    let at =
        other.packets.iter().rposition(|packet| is_message(packet, attribute::REJ)).expect("there are two");
    // After the communication IDs and the lengths (IBTA volume 1, section 12.6.7).
    other.packets[at].cm_body()[10..12].copy_from_slice(&28u16.to_be_bytes());
    other.packets[at].seal();
    assert_eq!(report(&other), [text]);
}
