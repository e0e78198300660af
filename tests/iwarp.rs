//! Sessions over iWARP against what the kernels at both ends recorded, where that is another question than over RoCE: `oracle.rs` has the
//! others.

use rdmascope_dissector::connection::{Connection, Origin, State};
use rdmascope_dissector::transaction::{Direction, Outcome};
use rdmascope_tests::session::{self, Session};
use rdmascope_tests::{Differences, samples};
use std::collections::BTreeSet;

fn run(sample: &str) -> Session {
    session::run(&samples::capture(sample))
}

/// The TCP port of the server stands in each sample, and both start frames where the capture has the connect.
#[test]
fn connections_as_their_start_frames_say() {
    for (sample, connections, revision, crc) in
        [("iwarp-nfs3", 1, 2, false), ("iwarp-crc-lossy", 1, 2, true), ("iwarp-nfs4.2-nconnect", 3, 2, false)]
    {
        let session = run(sample);
        assert_eq!(session.connections.len(), connections, "{sample}");
        let thresholds = samples::client_trace(sample).thresholds;
        for (connection, (send, receive)) in session.connections.iter().zip(thresholds) {
            assert!(connection.is_iwarp, "{sample}");
            assert_eq!((connection.origin, connection.state), (Origin::Cm, State::Closed), "{sample}");
            assert_eq!(connection.call_inline_threshold, Some(send), "{sample}");
            assert_eq!(connection.reply_inline_threshold, Some(receive), "{sample}");
            assert_eq!(connection.has_crc, Some(crc), "{sample}");
            assert_eq!((connection.port, connection.responder.tcp_port), (Some(20_049), Some(20_049)));
            let [request, reply] = [&connection.requester, &connection.responder]
                .map(|end| end.start.unwrap_or_else(|| panic!("{sample}: a start frame of each end")));
            assert!(request.frame.is_request() && !reply.frame.is_request(), "{sample}");
            assert_eq!((request.frame.revision, reply.frame.revision), (revision, revision), "{sample}");
            assert!(request.depths.is_some() && reply.depths.is_some(), "{sample}");
        }
    }
}

/// The traces of these have what was before the capture, too. From the first call on that the capture shows, none is missing.
#[test]
fn a_capture_that_begins_in_the_middle_lacks_nothing_behind_its_beginning() {
    for sample in samples::IWARP_MIDSTREAM {
        let (session, trace) = (run(sample), samples::client_trace(sample));
        let reported: Vec<u32> =
            session.of(Direction::Forward).iter().map(|transaction| transaction.xid.0).collect();
        let first = trace.marshals.iter().position(|marshal| Some(&marshal.xid) == reported.first());
        let first = first.unwrap_or_else(|| panic!("{sample}: the first call reported was marshalled"));
        // A call that was marshalled and not sent, for want of a connection, is marshalled again.
        let sent: BTreeSet<u32> = trace.marshals[first..].iter().map(|marshal| marshal.xid).collect();
        assert_eq!(reported.iter().copied().collect::<BTreeSet<_>>(), sent, "{sample}");
        let mut differences = Differences::of(sample);
        for (xid, credits) in trace.replies.iter().filter(|(xid, _)| sent.contains(xid)) {
            let found = session.find(Direction::Forward, *xid).map(|transaction| {
                (transaction.outcome, transaction.reply.as_ref().map(|reply| reply.credits))
            });
            differences.equal(
                format!("xid 0x{xid:08x}"),
                Ok((Outcome::Completed, Some(*credits))),
                found.map_err(|problem| problem.to_string()),
            );
        }
        for xid in &trace.callbacks {
            let outcome = session.find(Direction::Backward, *xid).map(|transaction| transaction.outcome);
            differences.equal(
                format!("callback 0x{xid:08x}"),
                Ok(Outcome::Completed),
                outcome.map_err(|problem| problem.to_string()),
            );
        }
        differences.end();
    }
}

/// The server rejects each MPA request of revision 1, which has no ORD (RFC 5044, section 7.1.1).
#[test]
fn rejected_requests() {
    let session = run("iwarp-rejected");
    let is_rejected = |connection: &Connection| {
        let reply = connection.responder.start.map(|start| (start.frame.rejected, start.frame.revision));
        connection.state == State::Refused && reply == Some((true, 1))
    };
    assert_eq!(session.connections.len(), 83);
    assert!(session.connections.iter().all(is_rejected));
    assert_eq!(session.transactions.len(), 0);
}

/// What the script sent and what the server answered, as the script's log has it.
#[test]
fn a_scripted_peer() {
    let session = run("iwarp-scripted");
    let log = samples::text("iwarp-scripted", "truth.txt");
    // FPDUs of opcode 3 that the server sent are replies; what they say begins with the XID.
    let replies = log.lines().filter(|line| line.contains(" op 3 ")).count();
    let answered = session.of(Direction::Forward).iter().filter(|it| it.reply.is_some()).count();
    assert_eq!(answered, replies);
    let terminates = log.lines().filter(|line| line.contains(" op 7 ")).count() as u64;
    let sent: u64 = session.connections.iter().map(|connection| connection.responder.sent.fatal_naks).sum();
    assert_eq!((sent, terminates), (7, 7));
}
