//! Compares the dissector's results for each sample with the tracepoints and mountstats of the
//! kernels at both ends.

use rdmascope_dissector::connection::{Origin, State};
use rdmascope_dissector::transaction::{Chunk, Direction, Message, Outcome, ReadChunk, Transaction};
use rdmascope_tests::session::{self, Session, address};
use rdmascope_tests::{Differences, mountstats::Row, samples, trace};
use rdmascope_wire::rpcrdma::{self, Procedure};
use rdmascope_wire::{Rkey, Xid};
use std::collections::{BTreeMap, BTreeSet};

fn segment(segment: &trace::Segment) -> rpcrdma::Segment {
    rpcrdma::Segment { handle: Rkey(segment.handle), length: segment.length, offset: segment.offset }
}

/// Read segments as Read chunks: one chunk for each position.
fn read_chunks(reads: &[(u32, trace::Segment)]) -> Vec<ReadChunk> {
    reads
        .chunk_by(|first, second| first.0 == second.0)
        .map(|chunk| ReadChunk {
            position: chunk[0].0,
            segments: chunk.iter().map(|(_, target)| segment(target)).collect(),
        })
        .collect()
}

fn chunk(segments: &[trace::Segment]) -> Option<Chunk> {
    let segments: Vec<_> = segments.iter().map(segment).collect();
    (!segments.is_empty()).then_some(Chunk { segments })
}

/// Runs `judge` on the transaction of every XID in `expected`. A missing transaction is a
/// difference.
fn for_each<'a, T: 'a>(
    label: &str,
    session: &Session,
    direction: Direction,
    expected: impl IntoIterator<Item = (u32, T)>,
    mut judge: impl FnMut(&mut Differences, &str, T, &Transaction),
) {
    let mut differences = Differences::of(label);
    for (xid, expected) in expected {
        let place = format!("xid 0x{xid:08x}");
        match session.find(direction, xid) {
            Ok(transaction) => judge(&mut differences, &place, expected, transaction),
            Err(problem) => differences.check(false, format!("{place}: {problem}")),
        }
    }
    differences.end();
}

/// Returns the message, or notes that it is missing.
fn part<'a>(
    differences: &mut Differences,
    place: &str,
    which: &str,
    message: &'a Option<Message>,
) -> Option<&'a Message> {
    differences.check(message.is_some(), format!("{place}: no {which}"));
    message.as_ref()
}

#[test]
fn calls_match_the_client_trace() {
    for sample in samples::complete_sessions() {
        let session = session::run(&samples::capture(sample));
        let trace = samples::client_trace(sample);
        let expected = trace.marshals.iter().map(|marshal| (marshal.xid, marshal));
        for_each(
            sample,
            &session,
            Direction::Forward,
            expected,
            |differences, place, marshal, transaction| {
                let Some(call) = part(differences, place, "call", &transaction.call) else { return };
                differences.equal(format!("{place} header"), marshal.header_length, call.header_length);
                differences.equal(format!("{place} message"), Some(marshal.length()), call.message_length);
                differences.equal(format!("{place} version"), 1, call.version);
                differences.equal(format!("{place} missing"), &Vec::new(), &call.missing);
                differences.equal(format!("{place} stop"), None, call.stop);
                differences.equal(format!("{place} reads"), &read_chunks(&marshal.reads), &call.read_chunks);
                differences.equal(
                    format!("{place} writes"),
                    &chunk(&marshal.writes).into_iter().collect::<Vec<_>>(),
                    &call.write_chunks,
                );
                differences.equal(
                    format!("{place} reply chunk"),
                    &chunk(&marshal.reply_chunk),
                    &call.reply_chunk,
                );
                // The forms of a call (net/sunrpc/xprtrdma/rpc_rdma.c). "read list" with pages in
                // the middle is an RDMA_MSG with a Read chunk; no sample has a Position Zero Read
                // chunk.
                let way =
                    (call.read_chunks.is_empty(), call.write_chunks.is_empty(), call.reply_chunk.is_none());
                let expected_way = (
                    !marshal.call.contains("read"),
                    !marshal.reply.contains("write list"),
                    !marshal.reply.contains("reply chunk"),
                );
                differences.equal(format!("{place} way of marshalling, chunks absent"), expected_way, way);
                differences.equal(format!("{place} procedure"), Procedure::Msg, call.procedure);
                // Everything except the Read chunk's bytes and their XDR padding is in the Send. The
                // WRITEs of nfs3-odd-direct have padding, and those of Linux to nfs-ganesha.
                let reduced: u32 = marshal.reads.iter().map(|(_, segment)| segment.length).sum();
                let inline = marshal.length() as u32 - reduced.next_multiple_of(4);
                differences.equal(format!("{place} Send"), marshal.header_length + inline, call.send_length);
            },
        );
    }
}

#[test]
fn forward_transactions_are_the_marshalled_calls() {
    for sample in samples::MOUNTS {
        let session = session::run(&samples::capture(sample));
        let sent: Vec<Xid> =
            samples::client_trace(sample).marshals.iter().map(|marshal| Xid(marshal.xid)).collect();
        let reported: Vec<Xid> =
            session.of(Direction::Forward).iter().map(|transaction| transaction.xid).collect();
        let mut differences = Differences::of(format!("{sample}: XIDs in the order of the calls"));
        differences.equal("count", sent.len(), reported.len());
        for (index, (sent, reported)) in sent.iter().zip(&reported).enumerate() {
            differences.equal(format!("call {index}"), sent, reported);
        }
        differences.end();
    }
}

#[test]
fn replies_complete_with_the_traced_credits() {
    for sample in samples::complete_sessions() {
        let session = session::run(&samples::capture(sample));
        let trace = samples::client_trace(sample);
        for_each(
            sample,
            &session,
            Direction::Forward,
            trace.replies,
            |differences, place, credits, transaction| {
                differences.equal(format!("{place} outcome"), Outcome::Completed, transaction.outcome);
                let Some(reply) = part(differences, place, "reply", &transaction.reply) else { return };
                differences.equal(format!("{place} credits"), credits, reply.credits);
                differences.equal(format!("{place} missing"), &Vec::new(), &reply.missing);
                differences.equal(format!("{place} stop"), (None, None), (reply.stop, transaction.stop));
                differences.check(transaction.latency().is_some(), format!("{place}: no latency"));
            },
        );
    }
}

#[test]
fn callbacks_are_backward_transactions() {
    for sample in samples::complete_sessions() {
        let session = session::run(&samples::capture(sample));
        let trace = samples::client_trace(sample);
        let server = samples::server_trace(sample);
        assert_eq!(session.of(Direction::Backward).len(), trace.callbacks.len(), "{sample}");
        if trace.callbacks.is_empty() {
            continue;
        }
        let expected = trace.callbacks.iter().map(|xid| (*xid, *xid));
        for_each(sample, &session, Direction::Backward, expected, |differences, place, xid, transaction| {
            differences.equal(format!("{place} outcome"), Outcome::Completed, transaction.outcome);
            let program = transaction.procedure.map(|procedure| (procedure.program, procedure.number));
            // CREATE_SESSION names the callback program: 0x40000000 from Linux. Procedure 1 is
            // CB_COMPOUND.
            differences.equal(format!("{place} procedure"), Some((0x4000_0000, 1)), program);
            differences.equal(
                format!("{place} first operation"),
                Some("CB_SEQUENCE"),
                transaction.details.operations.first().map(|operation| operation.name()),
            );
            // The reply as the server received it.
            let received =
                server.requests.iter().find(|request| request.xid == xid).expect("the trace has it");
            let Some(reply) = part(differences, place, "reply", &transaction.reply) else { return };
            differences.equal(format!("{place} credits"), received.credits, reply.credits);
            differences.equal(format!("{place} header"), received.header_length, reply.header_length);
        });
    }
}

#[test]
fn calls_match_the_server_trace() {
    for sample in samples::complete_sessions() {
        let session = session::run(&samples::capture(sample));
        let callbacks = samples::client_trace(sample).callbacks;
        let server = samples::server_trace(sample);
        let calls = server.requests.iter().filter(|request| !callbacks.contains(&request.xid));
        let expected = calls.map(|request| (request.xid, request));
        for_each(
            sample,
            &session,
            Direction::Forward,
            expected,
            |differences, place, request, transaction| {
                let Some(call) = part(differences, place, "call", &transaction.call) else { return };
                differences.equal(format!("{place} version"), request.version, call.version);
                differences.equal(format!("{place} credits"), request.credits, call.credits);
                differences.equal(format!("{place} header"), request.header_length, call.header_length);
                differences.equal(
                    format!("{place} procedure"),
                    request.procedure.clone(),
                    call.procedure.to_string(),
                );
                differences.equal(format!("{place} reads"), &read_chunks(&request.reads), &call.read_chunks);
                let writes: Vec<_> = call
                    .write_chunks
                    .iter()
                    .chain(&call.reply_chunk)
                    .flat_map(|chunk| chunk.segments.iter().copied())
                    .collect();
                let expected: Vec<_> = request.writes.iter().map(segment).collect();
                differences.equal(format!("{place} writes"), expected, writes);
            },
        );
    }
}

#[test]
fn replies_return_the_segments_in_the_server_trace() {
    for sample in samples::complete_sessions() {
        let session = session::run(&samples::capture(sample));
        let mut expected: BTreeMap<u32, Vec<rpcrdma::Segment>> = BTreeMap::new();
        let calls: BTreeSet<u32> =
            samples::client_trace(sample).marshals.iter().map(|marshal| marshal.xid).collect();
        let mut xid = 0;
        for returned in &samples::server_trace(sample).returned {
            // The upper half of an offset is the XID (see witnesses.rs). A segment for padding is in
            // memory that all calls share, and follows the other segments of its reply.
            let upper = (returned.offset >> 32) as u32;
            if calls.contains(&upper) {
                xid = upper;
            }
            expected.entry(xid).or_default().push(segment(returned));
        }
        for_each(
            sample,
            &session,
            Direction::Forward,
            expected,
            |differences, place, segments, transaction| {
                let Some(reply) = part(differences, place, "reply", &transaction.reply) else { return };
                let returned: Vec<_> = reply
                    .write_chunks
                    .iter()
                    .chain(&reply.reply_chunk)
                    .flat_map(|chunk| chunk.segments.iter().copied())
                    .collect();
                let bytes: u64 = segments.iter().map(|segment| u64::from(segment.length)).sum();
                differences.equal(format!("{place} segments"), segments, returned);
                // All bytes that the reply reports were moved, and each is counted once.
                differences.equal(format!("{place} bytes written"), bytes, transaction.timing.written_bytes);
                // A Long Reply is an RDMA_NOMSG, and its complete message is in the Reply chunk.
                if reply.procedure == Procedure::Nomsg {
                    differences.equal(format!("{place} message"), Some(bytes), reply.message_length);
                }
            },
        );
    }
}

#[test]
fn bytes_of_read_chunks_are_counted_once() {
    for sample in samples::complete_sessions() {
        let trace = samples::client_trace(sample);
        let session = session::run(&samples::capture(sample));
        let mut differences = Differences::of(sample);
        for marshal in &trace.marshals {
            let bytes: u64 = marshal.reads.iter().map(|(_, segment)| u64::from(segment.length)).sum();
            let place = format!("xid 0x{:08x} bytes read", marshal.xid);
            let read = session.find(Direction::Forward, marshal.xid).map(|found| found.timing.read_bytes);
            differences.equal(place, Ok(bytes), read);
        }
        differences.end();
    }
}

#[test]
fn inline_thresholds_match_the_client_trace() {
    for sample in samples::MOUNTS {
        let session = session::run(&samples::capture(sample));
        let [(send, receive)] = samples::client_trace(sample).thresholds[..] else {
            panic!("{sample}: one connection, one xprtrdma_inline_thresh")
        };
        let [connection] = &session.connections[..] else {
            panic!("{sample}: one connection expected, {} reported", session.connections.len())
        };
        // "neg send/recv" of the client: the most that it sends and that it receives.
        assert_eq!(connection.call_inline_threshold, Some(send), "{sample}");
        assert_eq!(connection.reply_inline_threshold, Some(receive), "{sample}");
        assert_eq!(connection.origin, Origin::Cm, "{sample}");
        assert_eq!(connection.state, State::Closed, "{sample}: the capture ends after the DREQ");
        assert!(connection.roles_known, "{sample}");
        assert_eq!(connection.port, Some(20049), "{sample}");
        assert_eq!(connection.requester.address, address(2), "{sample}");
        assert_eq!(connection.responder.address, address(1), "{sample}");
        let trace = samples::client_trace(sample);
        let expected = [trace.marshals.len() as u64, trace.callbacks.len() as u64];
        assert_eq!(connection.transactions, expected, "{sample}");
    }
}

#[test]
fn two_connects_are_rejected() {
    let session = session::run(&samples::capture(samples::REJECTED));
    let refused = samples::client_trace(samples::REJECTED).refused;
    assert_eq!(refused, [-111, -111], "the client reports ECONNREFUSED twice");
    assert_eq!(session.connections.len(), refused.len());
    for connection in &session.connections {
        // Reason 8 is an invalid service ID (IBTA volume 1, section 12.6.7.2): the port has no
        // listener.
        assert_eq!(connection.state, State::Rejected(8));
        assert_eq!(connection.port, Some(20050));
        assert_eq!(connection.requester.address, address(2));
        assert_eq!(connection.transactions, [0, 0]);
    }
    assert_eq!(session.transactions.len(), 0);
}

/// Sums over rows, or over transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    operations: u64,
    call_bytes: u64,
    reply_bytes: u64,
    errors: u64,
}

/// Maps a row of an NFSv4 mount's statistics to an operation on the wire. Rows are the client's
/// procedures (fs/nfs/nfs4xdr.c), each a COMPOUND of a fixed form.
fn wire_operation(row: &str) -> &str {
    match row {
        // COMPOUNDs that only request attributes: of the server, of the file system, of a file.
        "FSINFO" | "PATHCONF" | "STATFS" | "SERVER_CAPS" | "GETATTR" => "GETATTR",
        // SEQUENCE PUTROOTFH GETFH GETATTR; the PUTROOTFH distinguishes it from GETATTR.
        "LOOKUP_ROOT" => "PUTROOTFH",
        // An OPEN without the attributes of the directory.
        "OPEN" | "OPEN_NOATTR" => "OPEN",
        // One operation creates both symbolic links and directories.
        "SYMLINK" | "CREATE" => "CREATE",
        other => other,
    }
}

/// The purpose of a COMPOUND, from its operations in wire order. The rules follow fs/nfs/nfs4xdr.c,
/// not `ulb::principal_operation`.
fn purpose(operations: &[&'static str]) -> &'static str {
    // Operations that prepare another one, or fetch attributes along with it.
    const AUXILIARY: [&str; 7] = ["SEQUENCE", "PUTFH", "SAVEFH", "RESTOREFH", "GETFH", "ACCESS", "GETATTR"];
    if let Some(name) = operations.iter().find(|name| !AUXILIARY.contains(name) && **name != "PUTROOTFH") {
        return name;
    }
    // LOOKUP_ROOT has GETFH. SECINFO_NO_NAME also begins with PUTROOTFH but matched above.
    if operations.contains(&"PUTROOTFH") {
        return "PUTROOTFH";
    }
    // SEQUENCE PUTFH ACCESS GETATTR.
    ["ACCESS", "GETATTR", "SEQUENCE"]
        .into_iter()
        .find(|name| operations.contains(name))
        .unwrap_or("no operation known")
}

fn compare_with_mountstats(
    sample: &str,
    row_key: impl Fn(&Row) -> String,
    transaction_key: impl Fn(&Transaction) -> Option<String>,
) {
    let session = session::run(&samples::capture(sample));
    let stats = samples::mountstats(sample);
    let mut expected: BTreeMap<String, Sums> = BTreeMap::new();
    for row in &stats.rows {
        let sums = expected.entry(row_key(row)).or_default();
        sums.operations += row.operations;
        sums.call_bytes += row.bytes_sent;
        sums.reply_bytes += row.bytes_received;
        sums.errors += row.errors;
        assert_eq!(row.operations, row.transmissions, "{sample}: no RPC was sent twice");
    }
    // The statistics were read while the mount was in use. They cover the calls answered until
    // then, which the transport counts as receives. Later calls (removal of the files, unmount) are
    // only in the capture.
    let mut actual: BTreeMap<String, Sums> = BTreeMap::new();
    for transaction in session.of(Direction::Forward).into_iter().take(stats.receives as usize) {
        let Some(key) = transaction_key(transaction) else { continue };
        let length = |message: &Option<Message>| message.as_ref().and_then(|message| message.message_length);
        let sums = actual.entry(key).or_default();
        sums.operations += 1;
        sums.call_bytes += length(&transaction.call).unwrap_or(0);
        sums.reply_bytes += length(&transaction.reply).unwrap_or(0);
        sums.errors += u64::from(transaction.status.is_some_and(|status| status != 0));
    }
    let mut differences = Differences::of(format!("{sample}: mountstats"));
    for key in expected.keys().chain(actual.keys().filter(|key| !expected.contains_key(*key))) {
        differences.equal(key, expected.get(key).copied(), actual.get(key).copied());
    }
    differences.end();
}

#[test]
fn nfs3_transactions_match_mountstats() {
    for sample in ["nfs3-basic", "nfs3-lossy"] {
        compare_with_mountstats(
            sample,
            |row| row.name.clone(),
            |transaction| {
                let Some(procedure) = transaction.procedure else { return Some("no procedure".into()) };
                // NFSACL (100227) has its own RPC client, which the mount's statistics leave out.
                if procedure.program == 100_227 {
                    return None;
                }
                match session::names(transaction)[..] {
                    [name] => Some(name.to_owned()),
                    _ if procedure.number == 0 => Some("NULL".into()),
                    ref other => Some(format!("procedure {} as {other:?}", procedure.number)),
                }
            },
        );
    }
}

#[test]
fn nfs4_transactions_match_mountstats() {
    for sample in samples::MOUNTS.into_iter().filter(|sample| sample.starts_with("nfs4")) {
        compare_with_mountstats(
            sample,
            |row| wire_operation(&row.name).to_owned(),
            |transaction| match transaction.procedure {
                Some(procedure) if procedure.number == 0 => Some("NULL".into()),
                Some(_) => Some(purpose(&session::names(transaction)).to_owned()),
                None => Some("no procedure".into()),
            },
        );
    }
}

#[test]
fn last_calls_are_those_of_the_unmount() {
    // The last calls of an NFSv4.1 mount, which no row covers.
    for sample in samples::MOUNTS.into_iter().filter(|sample| sample.starts_with("nfs4")) {
        let session = session::run(&samples::capture(sample));
        let calls = session.of(Direction::Forward);
        let last: Vec<_> =
            calls[calls.len().saturating_sub(2)..].iter().flat_map(|call| session::names(call)).collect();
        assert_eq!(last, ["DESTROY_SESSION", "DESTROY_CLIENTID"], "{sample}");
    }
}

#[test]
fn nfsacl_and_nfs3_share_the_connection() {
    // 265 calls were marshalled. tshark's two-pass mode lists 45 GETACL and one NULL of NFSACL; the
    // 213 receives minus the 167 operations in rows are the same 46.
    let session = session::run(&samples::capture("nfs3-basic"));
    let stats = samples::mountstats("nfs3-basic");
    let of_program = |number| {
        let calls = session.of(Direction::Forward).into_iter().take(stats.receives as usize);
        calls.filter(|call| call.procedure.is_some_and(|procedure| procedure.program == number)).count()
            as u64
    };
    assert_eq!(of_program(100_227), stats.receives - stats.total(|row| row.operations));
    assert_eq!(of_program(100_003), stats.total(|row| row.operations));
}

#[test]
fn reads_return_complete_files() {
    // Files were written and read back with equal md5 sums (truth.txt), so the READs returned complete
    // files.
    for (sample, bytes) in [
        ("nfs3-basic", 262_144),
        ("nfs4.1-basic", 262_144),
        ("nfs4.2-basic", 262_144),
        ("nfs3-lossy", 300_000),
    ] {
        let session = session::run(&samples::capture(sample));
        let mut ranges: Vec<(u64, u64)> = session
            .transactions
            .iter()
            .flat_map(|transaction| &transaction.details.operations)
            .filter(|operation| operation.name() == "READ")
            .filter_map(|operation| Some((operation.offset?, operation.result_count?)))
            .filter(|(_, count)| *count > 6) // skips the read of "hello\n"
            .collect();
        ranges.sort_unstable();
        let mut end = 0;
        for (offset, count) in &ranges {
            assert_eq!(*offset, end, "{sample}: {ranges:?}");
            end += count;
        }
        assert_eq!(end, bytes, "{sample}: {ranges:?}");
    }
}
