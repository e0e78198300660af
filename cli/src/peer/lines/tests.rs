//! Lines of each kind, as JSON.

use super::*;
use core::net::Ipv4Addr;
use rdmascope_peer::nfs3::Entry;
use rdmascope_wire::Qpn;
use rdmascope_wire::psn::Psn;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

fn json(line: &Line) -> String {
    let mut out = Vec::new();
    print(line, Format::Jsonl, Style::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap().trim_end().to_owned()
}

fn end(counts: Option<Counts>, faults: Option<Faults>) -> Line {
    Line::End(End { calls: 5, answered: 4, counts, faults })
}

fn entry(name: &[u8], fileid: u64) -> Entry {
    Entry { fileid, name: name.to_vec(), cookie: 0, attributes: None, handle: None }
}

#[test]
fn lines_with_all_fields() {
    let sockets = Sockets {
        sockets: "raw",
        device: Some("rxe0".to_owned()),
        raw_refused: false,
        local: vec![HERE, "2001:db8::1".parse().unwrap()],
        target: Some("[2001:db8::2]:20049".parse().unwrap()),
        port: 20049,
        serves: Some("not in JSON".to_owned()),
    };
    let rep = Reply {
        local_qpn: Qpn(0x7f_0c1d),
        starting_psn: Psn::new(3_373_107),
        responder_resources: 128,
        initiator_depth: 16,
        rnr_retry_count: 7,
        target_ack_delay: 15,
        end_to_end_flow_control: true,
        ..Reply::default()
    };
    let private_data =
        PrivateData { remote_invalidation: true, send_size: 3, receive_size: 0, ..PrivateData::DEFAULT };
    let connection = Connection {
        elapsed_ns: Some(1_060_000),
        closed: Some(Closed::Rejected { reason: 28, private_data: Vec::new() }),
        rep: Some(rep),
        private_data: Some(private_data),
        negotiated: Some(Negotiated {
            call_inline_threshold: 4096,
            reply_inline_threshold: 1024,
            remote_invalidation: false,
        }),
        ..Connection::established(HERE, &[])
    };
    let call = Call {
        called: Some((100_003, 3, 1)),
        rpc_status: Some("SUCCESS".to_owned()),
        nfs_status: Some("NFS3_OK".to_owned()),
        error: Some("a \"text\"".to_owned()),
        latency_ns: Some(365_000),
        credits: Some(32),
        mechanism: Some(Mechanism::ReadChunk),
        ..Call::new(HERE, 7, Xid(0x1a2b))
    };
    let chunk = Chunk { remote: HERE, xid: Xid(0x1a2b), bytes: 5000, offered_ns: 14, freed: Freed::Time };
    let export = Export {
        path: "/export".to_owned(),
        files: 3,
        bytes: 4,
        left_out: 1,
        mount_port: 20048,
        port_mapper: true,
        at: (HERE, 20049),
    };
    let time = nfs3::Time { seconds: 0, nanoseconds: 0 };
    let attributes = nfs3::Attributes {
        kind: nfs3::FileType::Regular,
        mode: 0o10_0644,
        links: 1,
        uid: 0,
        gid: 0,
        size: 9,
        used: 9,
        device: (0, 0),
        fsid: 0,
        fileid: 12,
        accessed: time,
        modified: time,
        changed: time,
    };
    let entry = Entry { attributes: Some(attributes), ..entry(b"a\xff", 12) };
    let job = Job {
        job: "read",
        path: b"\xc3\x28".to_vec(),
        bytes: Some(10),
        md5: Some(digest(b"")),
        entries: Some(2),
        calls: 11,
        elapsed_ns: 12,
        error: Some("it failed".to_owned()),
    };
    let file = File { path: b"\xff".to_vec(), bytes: 13, md5: digest(b""), is_new: true };
    let counts = Counts { sent: 6, good: 7, bad: 8, unverified: 9, ..Counts::default() };
    let faults = Faults { lost: 1, repeated: 2, delayed: 3 };
    for (line, expected) in [
        (
            Line::Sockets(sockets),
            r#"{"type":"peer_sockets","sockets":"raw","device":"rxe0","raw_refused":false,"local":["192.0.2.1","2001:db8::1"],"target":"[2001:db8::2]:20049","port":20049}"#,
        ),
        (
            Line::Connection(connection),
            r#"{"type":"peer_connection","state":"rejected","remote":"192.0.2.1","elapsed_ns":1060000,"reject_reason":28,"reject_name":"consumer reject","rep":{"qpn":"0x7f0c1d","starting_psn":3373107,"responder_resources":128,"initiator_depth":16,"rnr_retry_count":7,"target_ack_delay_ns":134217728,"end_to_end_flow_control":true},"private_data":{"version":1,"remote_invalidation":true,"send_size":4096,"receive_size":1024},"call_inline_threshold":4096,"reply_inline_threshold":1024,"remote_invalidation":false}"#,
        ),
        (
            Line::Call(call),
            r#"{"type":"peer_call","remote":"192.0.2.1","number":7,"xid":"0x00001a2b","program":100003,"version":3,"procedure":1,"rpc_status":"SUCCESS","nfs_status":"NFS3_OK","error":"a \"text\"","latency_ns":365000,"credits":32,"mechanism":"read-chunk"}"#,
        ),
        (
            Line::Chunk(chunk),
            r#"{"type":"peer_chunk","remote":"192.0.2.1","xid":"0x00001a2b","bytes":5000,"offered_ns":14,"freed":"time"}"#,
        ),
        (
            Line::Export(export),
            r#"{"type":"peer_export","path":"/export","files":3,"bytes":4,"left_out":1,"mount_port":20048,"port_mapper":true}"#,
        ),
        (
            Line::Entry(entry),
            r#"{"type":"peer_entry","path":"a�","path_hex":"61ff","fileid":12,"kind":"NF3REG","mode":420,"size":9}"#,
        ),
        (
            Line::Job(job),
            r#"{"type":"peer_job","job":"read","path":"�(","path_hex":"c328","bytes":10,"md5":"d41d8cd98f00b204e9800998ecf8427e","entries":2,"calls":11,"elapsed_ns":12,"error":"it failed"}"#,
        ),
        (
            Line::File(file),
            r#"{"type":"peer_file","path":"�","path_hex":"ff","bytes":13,"md5":"d41d8cd98f00b204e9800998ecf8427e","is_new":true}"#,
        ),
        (
            end(Some(counts), Some(faults)),
            r#"{"type":"peer_end","calls":5,"answered":4,"sent":6,"icrc_good":7,"icrc_bad":8,"icrc_unverified":9,"faults":{"lost":1,"repeated":2,"delayed":3}}"#,
        ),
    ] {
        assert_eq!(json(&line), expected);
    }
}

#[test]
fn lines_with_required_fields_only() {
    let sockets = Sockets {
        sockets: "udp",
        device: None,
        raw_refused: true,
        local: Vec::new(),
        target: None,
        port: 1,
        serves: None,
    };
    let job = Job {
        job: "list",
        path: b"/".to_vec(),
        bytes: None,
        md5: None,
        entries: None,
        calls: 1,
        elapsed_ns: 2,
        error: None,
    };
    for (line, expected) in [
        (
            Line::Sockets(sockets),
            r#"{"type":"peer_sockets","sockets":"udp","device":null,"raw_refused":true,"local":[],"target":null,"port":1}"#,
        ),
        (
            Line::Connection(Connection::closed(Closed::LocalReject, HERE)),
            r#"{"type":"peer_connection","state":"given-up","remote":"192.0.2.1","elapsed_ns":null,"reject_reason":null,"reject_name":null,"rep":null,"private_data":null,"call_inline_threshold":null,"reply_inline_threshold":null,"remote_invalidation":null}"#,
        ),
        (
            Line::Connection(Connection::closed(Closed::Remote, HERE)),
            r#"{"type":"peer_connection","state":"closed-by-remote","remote":"192.0.2.1","elapsed_ns":null,"reject_reason":null,"reject_name":null,"rep":null,"private_data":null,"call_inline_threshold":null,"reply_inline_threshold":null,"remote_invalidation":null}"#,
        ),
        (
            Line::Call(Call::new(HERE, 1, Xid(2))),
            r#"{"type":"peer_call","remote":"192.0.2.1","number":1,"xid":"0x00000002","program":null,"version":null,"procedure":null,"rpc_status":null,"nfs_status":null,"error":null,"latency_ns":null,"credits":null,"mechanism":null}"#,
        ),
        (
            Line::Entry(entry(b"b", 0)),
            r#"{"type":"peer_entry","path":"b","fileid":0,"kind":null,"mode":null,"size":null}"#,
        ),
        (
            Line::Job(job),
            r#"{"type":"peer_job","job":"list","path":"/","bytes":null,"md5":null,"entries":null,"calls":1,"elapsed_ns":2,"error":null}"#,
        ),
        (
            end(None, None),
            r#"{"type":"peer_end","calls":5,"answered":4,"sent":null,"icrc_good":null,"icrc_bad":null,"icrc_unverified":null,"faults":null}"#,
        ),
    ] {
        assert_eq!(json(&line), expected);
    }
}

/// Control characters and invisible characters are escaped, as docs/json.md describes for all
/// commands.
#[test]
fn hidden_characters_are_escaped() {
    let entry = entry("a\u{202e}\u{9b}".as_bytes(), 1);
    assert!(json(&Line::Entry(entry)).contains(r#""path":"a\u202e\u009b""#));
}
