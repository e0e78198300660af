use super::{
    ChunkKind, Completion, Event, Line, LineContent, LineError, Segment, Task, Trace, TraceError, read,
};

#[track_caller]
fn line(text: &str) -> Line<'_> {
    match read(text.as_bytes()) {
        Ok(LineContent::Event(line)) => line,
        other => panic!("{text}: {other:?}"),
    }
}

const MARSHAL: &str = "       mount.nfs-238     [000] .....    39.875957: xprtrdma_marshal: task:00000001@0000000a xid=0x0c396a62 hdr=28 xdr=40/4096/2 pullup/inline\n";

#[test]
fn tracefs_line_is_parsed() {
    assert_eq!(
        line(MARSHAL),
        Line {
            pid: 238,
            cpu: 0,
            time: 39_875_957_000,
            resolution: 1_000,
            event: Event::Marshal {
                task: Task { task: 1, client: 10 },
                xid: 0x0c39_6a62,
                header_length: 28,
                message: [40, 4096, 2],
            },
        }
    );
}

#[test]
fn lines_of_other_tools_give_the_same_event() {
    let expected = line(MARSHAL);
    let fields = "task:00000001@0000000a xid=0x0c396a62 hdr=28 xdr=40/4096/2 pullup/inline";
    for head in [
        // trace-cmd report: no flags, and the event name is padded.
        "       mount.nfs-238   [000]    39.875957: xprtrdma_marshal:     ",
        // With the thread group.
        "  mount.nfs-238  (    237) [000] .....    39.875957: xprtrdma_marshal: ",
        "  mount.nfs-238  (-------) [000] d..1.    39.875957: xprtrdma_marshal: ",
        // The name of a process may contain anything.
        "  a-1 [001] b: c-238  [000] .N...    39.875957: xprtrdma_marshal: ",
    ] {
        let text = format!("{head}{fields}");
        let found = line(&text);
        assert_eq!(found, expected, "{text}");
    }
    let fine = line("x-1 [003] 7.000000001: xprtrdma_other_one: a=b").to_owned();
    assert_eq!((fine.time, fine.resolution, fine.event), (7_000_000_001, 1, Event::Other));
}

#[test]
fn requester_events_are_parsed() {
    let event = |text: &'static str| line(Box::leak(format!("x-1 [000] 1.0: {text}").into_boxed_str())).event;
    let task = Task { task: 2, client: 2 };
    let segment = Segment { length: 256, offset: 0x1439_6a62_080e_f000, handle: 0xc41 };
    assert_eq!(
        event("xprtrdma_chunk_reply: task:00000002@00000002 256@0x14396a62080ef000:0x00000c41 (more)"),
        Event::ChunkSegment { task, kind: ChunkKind::Reply, segment }
    );
    assert_eq!(
        event("xprtrdma_chunk_read: task:00000002@00000002 pos=108 256@0x14396a62080ef000:0x00000c41 (last)"),
        Event::ChunkSegment { task, kind: ChunkKind::Read(108), segment }
    );
    // Linux 5.10: decimal numbers, a comma, and pointers.
    assert_eq!(
        event("xprtrdma_reply: task:2@2 xid=0x14396a62, 64 credits, rep=00000000f5 -> req=0000a"),
        Event::Reply { task, xid: 0x1439_6a62, credits: 64 }
    );
    assert_eq!(
        event("xprtrdma_marshal: task:2@2 xid=0x14396a62: hdr=80 xdr=84/0/0 pullup/reply chunk"),
        Event::Marshal { task, xid: 0x1439_6a62, header_length: 80, message: [84, 0, 0] }
    );
    assert_eq!(
        event("xprtrdma_wc_receive: cq.id=3 cid=5 status=SUCCESS (0/0x0) received=128"),
        Event::WcReceive { received: Some(128) }
    );
    assert_eq!(
        event("xprtrdma_wc_receive: cq.id=3 cid=5 status=WR_FLUSH_ERR (5/0xf9) received=0"),
        Event::WcReceive { received: None }
    );
    assert_eq!(
        event("xprtrdma_cb_call: peer=[10.77.0.1]:20049 xid=0x9822c050"),
        Event::CallbackCall { peer: "[10.77.0.1]:20049", xid: 0x9822_c050 }
    );
    assert_eq!(
        event(
            "rpc_stats_latency: task:00000002@00000002 xid=0x14396a62 nfsv3 READ backlog=5 rtt=2 execute=9 xprt_id=1"
        ),
        Event::RpcLatency { xid: 0x1439_6a62, program: "nfsv3", procedure: "READ", execute: Some(9) }
    );
}

#[test]
fn responder_events_are_parsed() {
    let event =
        |text: &'static str| line(Box::leak(format!("nfsd-1 [000] 1.0: {text}").into_boxed_str())).event;
    let completion = Completion { queue: 2, id: 56 };
    assert_eq!(
        event("svcrdma_wc_recv: cq.id=2 cid=56 received=112"),
        Event::SvcReceive { completion, received: Some(112) }
    );
    assert_eq!(
        event(
            "svcrdma_decode_rqst: cq.id=2 cid=56 xid=0x0c396a62 vers=1 credits=128 proc=RDMA_MSG hdrlen=28"
        ),
        Event::Decode { completion, xid: 0x0c39_6a62, credits: 128, header_length: 28 }
    );
    let segment = Segment { length: 136, offset: 0x1439_6a62_080e_f000, handle: 0xc41 };
    assert_eq!(
        event("svcrdma_decode_wseg: cq_id=2 cid=56 segno=0 136@0x14396a62080ef000:0x00000c41"),
        Event::DecodeSegment { completion, position: None, segment }
    );
    assert_eq!(
        event("svcrdma_decode_rseg: cq.id=2 cid=56 segno=0 position=108 136@0x14396a62080ef000:0x00000c41"),
        Event::DecodeSegment { completion, position: Some(108), segment }
    );
    assert_eq!(
        event("svc_process: addr=10.77.0.2 xid=0x0c396a62 service=nfsd vers=3 proc=READ"),
        Event::Process { xid: 0x0c39_6a62, service: "nfsd", version: 3, procedure: "READ" }
    );
}

#[test]
fn lost_events_are_reported() {
    assert_eq!(
        read(b"# entries-in-buffer/entries-written: 930/1030   #P:1"),
        Ok(LineContent::Lost(Some(100)))
    );
    assert_eq!(read(b"# entries-in-buffer/entries-written: 930/930   #P:1"), Ok(LineContent::Nothing));
    assert_eq!(read(b"CPU:0 [LOST 23 EVENTS]"), Ok(LineContent::Lost(Some(23))));
    assert_eq!(read(b"CPU:1 [LOST EVENTS]"), Ok(LineContent::Lost(None)));
    assert_eq!(read(b"CPU:1 [4 EVENTS DROPPED]"), Ok(LineContent::Lost(Some(4))));
    for heading in ["cpus=1", "version = 7", "CPU 0 is empty", "# tracer: nop", ""] {
        assert_eq!(read(heading.as_bytes()), Ok(LineContent::Nothing), "{heading}");
    }
}

#[test]
fn unreadable_lines_are_errors() {
    assert_eq!(read(b"hello"), Err(LineError::Task));
    assert_eq!(read(b"x-1 [000] 12345: sched_switch: a"), Err(LineError::Time));
    assert_eq!(read(b"x-1 [000] 1.5: nothing here"), Err(LineError::Event));
    assert_eq!(read(b"x-1 \xff"), Err(LineError::Encoding));
    assert_eq!(
        read(b"x-1 [000] 1.5: xprtrdma_reply: task:1@1 xid=0x1g credits=4"),
        Err(LineError::Field { event: "xprtrdma_reply", field: "xid=" })
    );
    // Any prefix of a line gives a result without panic.
    for length in 0..MARSHAL.len() {
        let _ = read(&MARSHAL.as_bytes()[..length]);
    }
}

#[test]
fn unreadable_lines_are_counted_and_other_files_rejected() {
    let count = |text: &[u8]| {
        let mut trace = Trace::new("t".into(), text)?;
        let mut events = 0;
        while trace.next(&mut |_, _| events += 1)? {}
        Ok::<_, TraceError>((events, trace.lines(), trace.unread()))
    };
    let text = format!("# tracer: nop\n{MARSHAL}garbage\n{}\n{MARSHAL}", "x".repeat(100_000));
    let (events, lines, unread) = count(text.as_bytes()).unwrap();
    assert_eq!((events, lines, unread.lines), (2, 5, 2));
    assert_eq!(unread.first, Some((3, LineError::Task)));
    let refused = count(b"\x17\x08\x44tracing6\0").unwrap_err().to_string();
    assert!(refused.contains("trace-cmd report -i t"), "{refused}");
    let refused = count(b"\nhello\n").unwrap_err().to_string();
    assert!(refused.contains("(line 2)"), "{refused}");
    assert_eq!(count(b"").unwrap(), (0, 0, Default::default()));
}
