//! Kernel traces compared with the captures of the same sessions. The expected values come from
//! mountstats, from trace lines evaluated by hand, and from traces with known alterations.

use rdmascope_analysis::kernel::{About, Call, Joining, KernelTrace, Point, Role, TraceResults};
use rdmascope_analysis::observer::Observer;
use rdmascope_capture_agent::trace::Trace;
use rdmascope_capture_agent::{Capture, Files, Next, NoteKind, PcapngWriter, Source as _};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_present::{page, words};
use rdmascope_tests::{samples, session};

fn read(text: &str) -> KernelTrace {
    let mut trace = Trace::new("trace".into(), text.as_bytes()).expect("it is text");
    KernelTrace::read(&mut trace).expect("it has lines of a trace")
}

/// The trace `text` joined with the capture of a sample.
fn joined(sample: &str, text: &str) -> TraceResults {
    let capture = samples::capture(sample);
    let mut joining = Joining::default();
    let mut engine = Engine::new(Config::default());
    let mut handle = |event: Event<'_>| joining.handle(&event);
    for record in session::records(&capture) {
        engine.handle(&record, &mut handle);
    }
    engine.finish(&mut handle);
    let span = engine.totals().span;
    joining.join(read(text), span, false)
}

#[test]
fn every_traced_call_is_joined_without_disagreement() {
    for sample in samples::MOUNTS {
        for (side, role) in [("client.trace", Role::Caller), ("server.trace", Role::Answerer)] {
            let text = samples::text(sample, side);
            let results = joined(sample, &text);
            let label = format!("{sample}.{side}");
            assert_eq!(results.trace.unread.first, None, "{label}");
            let word = if role == Role::Caller { "xprtrdma_marshal:" } else { "svcrdma_decode_rqst:" };
            let callbacks = text.matches("xprtrdma_cb_call:").count();
            assert_eq!(results.joined.joined as usize, text.matches(word).count() + callbacks, "{label}");
            assert_eq!(results.disagreements, [], "{label}");
            assert_eq!((results.joined.ambiguous, results.joined.outside), (0, 0), "{label}");
            assert_eq!(results.backward_steps, 0, "{label}");
            assert!(!results.clock.windows.is_empty(), "{label}");
        }
    }
}

/// The clocks of guest and host drift, so that a long session has several parts. Within each part
/// the offset is precise: the shortest transits to and from the bridge between the guests take less
/// than a millisecond.
#[test]
fn the_clocks_are_tied_within_a_millisecond() {
    for sample in samples::MOUNTS {
        for side in ["client.trace", "server.trace"] {
            let results = joined(sample, &samples::text(sample, side));
            let uncertainty =
                results.clock.uncertainty().expect("calls and replies bound it from both sides");
            assert!(uncertainty < 1_000_000, "{sample}.{side}: {uncertainty} ns");
            assert_eq!(results.clock.untied, 0, "{sample}.{side}");
        }
    }
}

/// Evaluated by hand in nfs3-basic.client.trace:
///
/// ```text
/// 40.325893: xprtrdma_marshal: task:0000000c@00000001 xid=0x1b396a62 hdr=76 xdr=108/262144/0 read list/inline
/// 40.349329: xprtrdma_reply: task:0000000c@00000001 xid=0x1b396a62 credits=64
/// ```
#[test]
fn a_call_matches_its_evaluation_by_hand() {
    let trace = read(&samples::text("nfs3-basic", "client.trace"));
    let call: &Call = trace.calls.iter().find(|call| call.xid == 0x1b39_6a62).unwrap();
    assert_eq!(call.time(Point::Marshalled), Some(40_325_893_000));
    assert_eq!(call.time(Point::ReplyMatched), Some(40_349_329_000));
    assert_eq!(call.latency(), Some(23_436_000));
    assert_eq!((call.header_length, call.message_length, call.credits), (Some(76), Some(262_252), Some(64)));
    let chunks = call.chunks.as_ref().unwrap();
    let reads: Vec<_> =
        chunks.reads.iter().map(|(at, one)| (*at, one.length, one.offset, one.handle)).collect();
    assert_eq!(
        reads,
        [(108, 131_072, 0x1b39_6a62_0469_4000, 0xc43), (108, 131_072, 0x1b39_6a62_046b_4000, 0xbc4)]
    );
    assert!(chunks.writes.is_empty() && chunks.reply.is_empty());
}

/// A client measures the round-trip time of an operation from just after the marshalling event to
/// the reply, and sums it up in milliseconds. NULL is excluded: in nfs3-basic its events are 9.5 ms
/// apart, but the client counted 6, for an unknown reason.
#[test]
fn client_steps_add_up_to_mountstats() {
    for sample in ["nfs3-basic"] {
        let truth = samples::text(sample, "truth.txt");
        let results = joined(sample, &samples::text(sample, "client.trace"));
        let mut compared = 0;
        for line in truth.split_once("per-op statistics\n").unwrap().1.lines() {
            let Some((name, numbers)) = line.trim().split_once(": ") else { continue };
            let numbers: Vec<u64> = numbers.split(' ').filter_map(|number| number.parse().ok()).collect();
            let [operations, .., round_trips, _, _] = numbers[..] else { continue };
            let mut steps =
                results.steps.iter().filter(|step| results.operation(step) == format!("NFSv3 {name}"));
            let count = steps.clone().map(|step| step.count()).max().unwrap_or(0);
            // Later calls are in the trace but not in the statistics.
            if operations == 0 || count != operations || name == "NULL" {
                continue;
            }
            assert!(steps.clone().all(|step| step.role == Role::Caller), "{name}");
            let sum: u64 = steps.by_ref().map(|step| step.total()).sum::<u64>() / 1_000_000;
            let after_marshalling = 2 + operations / 16;
            assert!(
                (round_trips..=round_trips + after_marshalling).contains(&sum),
                "{sample} {name}: {sum} ms, counted {round_trips} ms"
            );
            compared += 1;
        }
        assert!(compared >= 8, "{sample}: {compared} operations compared");
    }
}

/// The steps of each call are contiguous: their sum is the time between its first and its last
/// point.
#[test]
fn server_steps_are_contiguous() {
    let results = joined("nfs3-basic", &samples::text("nfs3-basic", "server.trace"));
    let null: Vec<_> =
        results.steps.iter().filter(|step| results.operation(step) == "NFSv3 GETATTR").collect();
    let words: Vec<_> = null.iter().map(|step| (step.from.word(), step.to.word())).collect();
    assert_eq!(words, [("call-arrived", "decoded"), ("decoded", "reply-sent")]);
    assert_eq!(null[0].holds(), "NIC to kernel, queue");
    assert_eq!(null[1].holds(), "dispatch, handler, marshal, kernel to NIC");
}

/// An alteration of a trace is found, with the line and the packet.
#[test]
fn altered_values_are_disagreements() {
    let text = samples::text("nfs3-basic", "client.trace");
    let line_of = |part: &str| text.lines().position(|line| line.contains(part)).unwrap() as u64 + 1;
    let planted = text
        .replace("xid=0x0d396a62 hdr=28 xdr=80/0/0", "xid=0x0d396a62 hdr=32 xdr=84/0/0")
        .replace("xid=0x0e396a62 credits=64", "xid=0x0e396a62 credits=63")
        .replace("131072@0x1b396a62046b4000:0x00000bc4 (last)", "131072@0x1b396a62046b4000:0x00000bc5 (last)")
        .replace("28672@0x14396a6207fa4000:0x00000bc2 (more)", "28671@0x14396a6207fa4000:0x00000bc2 (more)");
    let results = joined("nfs3-basic", &planted);
    let found: Vec<_> = results
        .disagreements
        .iter()
        .map(|one| (one.difference.about, one.xid, one.line.unwrap(), one.difference.of_reply))
        .collect();
    assert_eq!(
        found,
        [
            (
                About::HeaderLength,
                0x0d39_6a62,
                line_of("xprtrdma_marshal: task:00000001@00000001 xid=0x0d396a62"),
                false
            ),
            (
                About::CallLength,
                0x0d39_6a62,
                line_of("xprtrdma_marshal: task:00000001@00000001 xid=0x0d396a62"),
                false
            ),
            (
                About::Credits,
                0x0e39_6a62,
                line_of("xprtrdma_marshal: task:00000002@00000001 xid=0x0e396a62"),
                true
            ),
            (
                About::ReadList,
                0x1b39_6a62,
                line_of("xprtrdma_marshal: task:0000000c@00000001 xid=0x1b396a62"),
                false
            ),
            (
                About::ReplyChunk,
                0x1439_6a62,
                line_of("xprtrdma_marshal: task:00000002@00000002 xid=0x14396a62"),
                false
            ),
        ]
    );
    let credits = &results.disagreements[2];
    assert_eq!((credits.difference.kernel.as_str(), credits.difference.wire.as_str()), ("63", "64"));
    assert!(results.disagreements.iter().all(|one| one.frame.is_some() && one.connection == Some(1)));
}

/// Without the events of some segments, the chunk lists of a call are not compared, and the calls are
/// counted. The other values are still compared.
#[test]
fn chunk_lists_with_untraced_segments_are_not_compared() {
    let without = |side: &str, events: &[&str]| {
        let text = samples::text("nfs3-basic", side);
        text.lines()
            .filter(|line| !events.iter().any(|event| line.contains(event)))
            .flat_map(|line| [line, "\n"])
            .collect::<String>()
    };
    let client = samples::text("nfs3-basic", "client.trace");
    let one_segment = without("client.trace", &["131072@0x1b396a62046b4000"]);
    let marshalled = |part: &str| client.lines().filter(|line| line.contains(part)).count() as u64;
    for (text, lacking) in [
        (client.clone(), 0),
        (one_segment.clone(), 1),
        (without("client.trace", &["xprtrdma_chunk_read:"]), marshalled("read list/")),
        (without("client.trace", &["xprtrdma_chunk_write:"]), marshalled("write list")),
        (without("client.trace", &["xprtrdma_chunk_reply:"]), marshalled("reply chunk")),
    ] {
        let results = joined("nfs3-basic", &text);
        assert_eq!((results.disagreements.len(), results.joined.without_segments), (0, lacking));
    }
    // A READ whose length is no multiple of four has a segment for the padding, with its own event.
    let text = samples::text("nfs3-odd-direct", "client.trace");
    let lines: Vec<&str> = text.lines().filter(|line| !line.contains("xprtrdma_chunk_wp:")).collect();
    let padded = (text.lines().count() - lines.len()) as u64;
    for (text, lacking) in [(text.clone(), 0), (lines.join("\n") + "\n", padded)] {
        let results = joined("nfs3-odd-direct", &text);
        assert_eq!((results.disagreements.len(), results.joined.without_segments), (0, lacking));
    }
    for events in [&["svcrdma_decode_rseg:"][..], &["svcrdma_decode_wseg:"]] {
        let results = joined("nfs3-basic", &without("server.trace", events));
        assert_eq!(results.disagreements, []);
        assert!(results.joined.without_segments > 0);
    }
    let planted = one_segment.replace("xdr=108/262144/0 read list", "xdr=112/262144/0 read list");
    let results = joined("nfs3-basic", &planted);
    let found: Vec<_> = results.disagreements.iter().map(|one| (one.difference.about, one.xid)).collect();
    assert_eq!(found, [(About::CallLength, 0x1b39_6a62)]);
    let mut text = Vec::new();
    page::kernel::Text(&results).write(Default::default(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(
        text.contains("chunk lists of 1 transaction: the trace lacks events of their segments"),
        "{text}"
    );
}

#[test]
fn calls_missing_on_one_side_are_reported() {
    let text = samples::text("nfs3-basic", "client.trace");
    // The kernel reports a call with a different XID from the wire's.
    let planted = text.replace("xid=0x1d396a62", "xid=0x1d396aff");
    let results = joined("nfs3-basic", &planted);
    let found: Vec<_> = results.disagreements.iter().map(|one| (one.difference.about, one.xid)).collect();
    assert_eq!(found, [(About::OnlyInTrace, 0x1d39_6aff), (About::OnlyInCapture, 0x1d39_6a62)]);
    assert!(results.disagreements[0].line.is_some() && results.disagreements[1].frame.is_some());
    assert_eq!((results.joined.only_in_trace, results.joined.only_in_capture), (1, 1));

    // A trace of another session has nothing in common with the capture, so no disagreement is
    // reported.
    let other = joined("nfs3-basic", &samples::text("nfs4.1-basic", "client.trace"));
    assert_eq!((other.joined.joined, other.disagreements.len()), (0, 0));
    assert!(other.clock.windows.is_empty());
}

/// A trace that lost events may lack calls and segments.
#[test]
fn what_a_trace_lost_is_no_disagreement() {
    let client = samples::text("nfs3-basic", "client.trace");
    let without_call: String = client
        .lines()
        .filter(|line| !line.contains("xid=0x1d396a62"))
        .fold(String::new(), |text, line| text + line + "\n");
    let server = samples::text("iwarp-crc-lossy", "server.trace");
    let segment =
        server.lines().find(|line| line.contains("svcrdma_encode_wseg") && line.contains("segno=1"));
    let without_segment = server.replace(&format!("{}\n", segment.unwrap()), "");
    for (sample, trace, about) in [
        ("nfs3-basic", without_call, About::OnlyInCapture),
        ("iwarp-crc-lossy", without_segment, About::Returned),
    ] {
        let found = |text: &str| {
            joined(sample, text).disagreements.iter().map(|one| one.difference.about).collect::<Vec<_>>()
        };
        assert_eq!(found(&trace), [about]);
        let with_loss = format!("{trace}CPU:0 [LOST 23 EVENTS]\n");
        assert_eq!(found(&with_loss), []);
    }
}

/// A trace with a shifted clock has another offset, but the same steps.
#[test]
fn a_shifted_clock_changes_only_the_offset() {
    let text = samples::text("nfs4.1-basic", "client.trace");
    let shifted: String = text
        .lines()
        .map(|line| {
            let (before, time) = line.split_once("..... ").or_else(|| line.split_once(".N... ")).unwrap();
            let (time, rest) = time.trim_start().split_once(": ").unwrap();
            let (seconds, micros) = time.split_once('.').unwrap();
            let seconds: u64 = seconds.parse().unwrap();
            format!("{before}..... {}.{micros}: {rest}\n", seconds + 1_234_567)
        })
        .collect();
    let (one, other) = (joined("nfs4.1-basic", &text), joined("nfs4.1-basic", &shifted));
    assert_eq!(one.steps, other.steps);
    let by = |results: &TraceResults| results.clock.windows[0].offset;
    assert_eq!(by(&one) - by(&other), 1_234_567_000_000_000);
}

/// With tracepoints that the samples lack, the server's time is split further. The times are those
/// of the capture's packets plus the values given here.
#[test]
fn more_tracepoints_split_the_time_further() {
    let capture = samples::capture("nfs3-basic");
    let session = session::run(&capture);
    let mut text = String::new();
    let at = |time: i64, micros: i64| {
        let time = time / 1000 + micros;
        format!("{}.{:06}", time / 1_000_000, time % 1_000_000)
    };
    for transaction in
        session.transactions.iter().filter(|one| one.call.as_ref().unwrap().read_chunks.is_empty())
    {
        let (call, reply) = (transaction.call.as_ref().unwrap(), transaction.reply.as_ref().unwrap());
        let (arrived, xid) = (call.seen.time.0, transaction.xid.0);
        let line =
            |micros: i64, event: String| format!("nfsd-7 [000] ..... {}: {event}\n", at(arrived, micros));
        text += &line(2, format!("svcrdma_wc_recv: cq.id=2 cid=5 received={}", call.send_length));
        text += &line(
            5,
            format!(
                "svcrdma_decode_rqst: cq.id=2 cid=5 xid=0x{xid:08x} vers=1 credits={} proc=RDMA_MSG hdrlen={}",
                call.credits, call.header_length
            ),
        );
        text += &line(9, format!("svc_process: addr=10.77.0.2 xid=0x{xid:08x} service=nfsd vers=3 proc=X"));
        let posted = (reply.first.time.0 - arrived) / 1000 - 1;
        text += &line(posted.max(9), "svcrdma_post_send: cq.id=1 cid=9 num_sge=1 inv_rkey=0x00000000".into());
    }
    // In the order of time, as in a trace.
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_by_key(|line| line.split(' ').nth(3).unwrap().len());
    let results = joined("nfs3-basic", &text);
    assert!(results.joined.joined > 200);
    let steps: Vec<_> =
        results.steps.iter().filter(|step| results.operation(step) == "NFSv3 LOOKUP").collect();
    let found: Vec<_> = steps.iter().map(|step| (step.from, step.holds())).collect();
    assert_eq!(
        found,
        [
            (Point::CallArrived, "NIC to kernel".to_owned()),
            (Point::CallReceived, "queue".to_owned()),
            (Point::Decoded, "dispatch".to_owned()),
            (Point::Processed, "handler, marshal".to_owned()),
            (Point::ReplyPosted, "kernel to NIC".to_owned()),
        ]
    );
    let queue = steps[1];
    assert_eq!((queue.minimum(), queue.percentile(50), queue.maximum()), (3_000, 3_000, 3_000));
    let dispatch = steps[2];
    assert_eq!((dispatch.minimum(), dispatch.maximum()), (4_000, 4_000));
    // 2 us to the kernel, within the uncertainty of the clocks.
    let uncertainty = results.clock.uncertainty().unwrap();
    assert!(uncertainty <= 3_000, "{uncertainty}");
    assert!(steps[0].percentile(50).abs_diff(2_000) <= uncertainty + 1_000);
}

#[test]
fn a_trace_without_a_capture_has_calls_and_latencies() {
    let text = samples::text("nfs3-basic", "client.trace")
        + "x-1 [000] ..... 40.349893: rpc_stats_latency: task:0000000c@00000001 xid=0x1b396a62 nfsv3 WRITE backlog=5000 rtt=24000 execute=29000\n";
    let results = TraceResults::alone(read(&text));
    assert!(!results.has_capture);
    let trace = &results.trace;
    let write = trace.calls.iter().find(|call| trace.name_of(call) == Some("nfsv3 WRITE")).unwrap();
    assert_eq!((write.xid, write.latency()), (0x1b39_6a62, Some(23_436_000)));
    // The task began 29 ms before its end, and 5 ms before xprtrdma_marshal.
    let steps = results.steps.iter().filter(|step| results.operation(step) == "nfsv3 WRITE");
    let found: Vec<_> = steps.map(|step| (step.from, step.count(), step.total())).collect();
    assert_eq!(found, [(Point::Begun, 1, 5_000_000), (Point::Marshalled, 1, 23_436_000)]);
    let marshalled = text.matches("xprtrdma_marshal:").count();
    assert_eq!(trace.calls.len(), marshalled);
    // Callbacks are included.
    let recall = read(&samples::text("nfs4.1-backchannel-recall", "client.trace"));
    assert!(recall.calls.iter().any(|call| call.backward && call.xid == 0x9822_c050));
}

/// Truncated, swapped and altered lines never stop the parser, and the result can be joined and
/// shown.
#[test]
fn altered_traces_are_read() {
    let mut state = 7u64;
    let mut dice = |sides: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % sides.max(1)
    };
    for side in ["client.trace", "server.trace"] {
        let text = samples::text("nfs4.1-backchannel-recall", side);
        for _ in 0..20 {
            let mut lines: Vec<Vec<u8>> = text.lines().map(|line| line.as_bytes().to_vec()).collect();
            for _ in 0..30 {
                let (one, other) = (dice(lines.len()), dice(lines.len()));
                lines.swap(one, other);
                let line = &mut lines[one];
                let (at, byte) = (dice(line.len()), dice(256) as u8);
                if let Some(place) = line.get_mut(at) {
                    *place = byte;
                }
            }
            let bytes = lines.join(&b'\n');
            let mut trace = Trace::new("trace".into(), bytes.as_slice()).unwrap();
            let Ok(read) = KernelTrace::read(&mut trace) else { continue };
            let mut joining = Joining::default();
            let mut engine = Engine::new(Config::default());
            for record in session::records(&samples::capture("nfs4.1-backchannel-recall")) {
                engine.handle(&record, &mut |event| joining.handle(&event));
            }
            engine.finish(&mut |event| joining.handle(&event));
            let results = joining.join(read, engine.totals().span, false);
            page::kernel::Text(&results).write(Default::default(), &mut Vec::new()).unwrap();
            rdmascope_present::json::write_witness(&results, &mut Vec::new()).unwrap();
        }
    }
}

/// A sample as `rdmascope capture --kernel` would have written it, started after the CM exchange:
/// the inventory of the queue pairs, the trace in two parts, and the packets.
fn captured(queue_pairs: [u32; 2]) -> Vec<u8> {
    let capture = samples::capture("nfs3-basic");
    let [client, server] = queue_pairs;
    let inventory = format!(
        "device=rxe0 local-qp={client} remote-qp={server} source=10.77.0.2:40000 destination=10.77.0.1:20049 owner=rpcrdma\n"
    );
    let trace = samples::text("nfs3-basic", "client.trace");
    let half = trace[..trace.len() / 2].rfind('\n').unwrap() + 1;
    let mut writer = PcapngWriter::new(Vec::new(), "test").unwrap();
    writer.note(NoteKind::Inventory, inventory.as_bytes()).unwrap();
    // The clocks are aligned to a microsecond.
    let mark = "rdmascope-1 [000] ..... 39.000000: tracing_mark_write: rdmascope-mark=1\n\
        rdmascope-1 [000] ..... 39.000010: tracing_mark_write: rdmascope-mark=1 realtime=1795253807007180000..1795253807007181000\n";
    writer.note(NoteKind::Trace, mark.as_bytes()).unwrap();
    writer.note(NoteKind::Trace, &trace.as_bytes()[..half]).unwrap();
    let is_cm = |data: &[u8]| data[42] == 0x64;
    for (index, record) in session::records(&capture).filter(|record| !is_cm(record.data)).enumerate() {
        writer.packet(&record, "").unwrap();
        if index == 10 {
            writer.note(NoteKind::Trace, &trace.as_bytes()[half..]).unwrap();
        }
    }
    writer.finish().unwrap()
}

#[test]
fn kernel_notes_of_a_capture_are_read_back() {
    let sample = session::run(&samples::capture("nfs3-basic"));
    let connection = &sample.connections[0];
    let right = [connection.requester.qpn.unwrap().0, connection.responder.qpn.unwrap().0];
    for (queue_pairs, origin) in [(right, "kernel"), ([right[0], 0x77], "inferred")] {
        let bytes = captured(queue_pairs);
        let mut files =
            Files::of(vec![Capture::from_reader("captured", std::io::Cursor::new(bytes)).unwrap()]);
        let mut engine = Engine::new(Config::default());
        let (mut joining, mut traced, mut origins) = (Joining::default(), Vec::new(), Vec::new());
        let mut handle = |event: Event<'_>| {
            joining.handle(&event);
            if let Event::Connection(connection) = event {
                origins.push(words::origin(connection.origin));
            }
        };
        loop {
            match files.next().unwrap() {
                Next::Record(record) => engine.handle(&record, &mut handle),
                Next::Note(note) if note.kind == NoteKind::Trace => traced.extend(note.bytes),
                Next::Note(note) => note.pass_to(&mut engine),
                Next::End => break,
                _ => {}
            }
        }
        engine.finish(&mut handle);
        assert_eq!(origins, [origin]);
        let results = joining.join(read(std::str::from_utf8(&traced).unwrap()), engine.totals().span, true);
        assert_eq!(results.joined.joined as usize, sample.transactions.len());
        assert_eq!(results.disagreements, []);
        // The mark is more precise than transactions: a microsecond, plus the last digit of the
        // trace's times.
        assert!(results.clock.uncertainty().unwrap() <= 1_000, "{:?}", results.clock);
    }
}
