//! The optional contents of transactions on the samples: messages before reduction, and steps.

use rdmascope_dissector::connection::Counts;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::{Content, Event};
use rdmascope_dissector::exchange::{Exchange, Keep, StepKind};
use rdmascope_dissector::frame::IcrcVerdict;
use rdmascope_dissector::role::Role;
use rdmascope_dissector::transaction::{Direction, Outcome, Transaction};
use rdmascope_dissector::ulb::{Chunks, Details, Payload, Place, call, reply};
use rdmascope_tests::session::{ContentSeen, Session, records, run_with};
use rdmascope_tests::{Differences, samples};
use rdmascope_wire::bth::Operation;
use rdmascope_wire::rpc;
use std::collections::BTreeMap;

fn run(sample: &str) -> Session {
    let keep = Keep { steps: true, contents: true };
    run_with(&samples::capture(sample), Config { report_packets: true, keep, ..Config::default() })
}

/// The details with all items inline, as in the message before reduction.
fn unreduced(details: &Details) -> Details {
    let mut details = details.clone();
    for operation in &mut details.operations {
        for item in operation.argument_item.iter_mut().chain(&mut operation.result_item) {
            item.place = Place::Inline(item.position);
        }
    }
    details
}

#[test]
fn unreduced_messages_are_complete_and_parse_equally() {
    for sample in samples::MOUNTS {
        let mut differences = Differences::of(sample);
        for transaction in run(sample).transactions {
            let Transaction { xid, procedure: Some(procedure), .. } = transaction else { continue };
            let mut details = Details::default();
            for of_reply in [false, true] {
                let message = if of_reply { &transaction.reply } else { &transaction.call };
                let Some(message) = message else { continue };
                let Some(full) = transaction.message(of_reply) else {
                    differences.check(false, format!("{xid} {of_reply}: nothing"));
                    continue;
                };
                differences.check(
                    Some(full.length) == message.message_length,
                    format!("{xid} {of_reply}: {} bytes, not {:?}", full.length, message.message_length),
                );
                let missing: Vec<_> = full.missing().collect();
                if !missing.is_empty() {
                    let known = transaction.capture_gap || transaction.outcome != Outcome::Completed;
                    differences.check(known, format!("{xid} {of_reply}: {missing:?} missing"));
                    continue;
                }
                if of_reply {
                    let mut payload = Payload::new(&full.bytes, Chunks::Write(&[]));
                    rpc::Reply::parse(payload.reader()).expect("a reply");
                    if transaction.rpc_status == Some(rpc::Status::Success) {
                        reply(procedure, &mut payload, &mut details).expect("results");
                    }
                } else {
                    let mut payload = Payload::new(&full.bytes, Chunks::Read(&[]));
                    let header = rpc::Call::parse(payload.reader()).expect("a call");
                    // The machine name is recorded before the names in the arguments.
                    if header.credential.flavor == rpc::flavor::SYS {
                        let credential = rpc::SysCredential::parse(header.credential.body);
                        details.keep(credential.expect("a complete one").machine);
                    }
                    call(procedure, &mut payload, &mut details).expect("arguments");
                }
            }
            if transaction.outcome == Outcome::Completed && !transaction.capture_gap {
                // The target of a link is parsed only if it is inline.
                let same = |details: &Details| {
                    let mut details = unreduced(details);
                    details.operations.iter_mut().for_each(|operation| operation.other_name = None);
                    format!("{:?}", details.operations)
                };
                let (expected, actual) = (same(&transaction.details), same(&details));
                differences.check(expected == actual, format!("{xid}: {expected}\n  read again: {actual}"));
            }
        }
        differences.end();
    }
}

/// Compares the PSNs of steps with those in the packets, for each packet that names memory or
/// begins or ends a Send.
#[test]
fn steps_match_the_psns_of_their_packets() {
    for sample in samples::MOUNTS {
        let mut differences = Differences::of(sample);
        let session = run(sample);
        let mut begun: BTreeMap<u64, StepKind> = BTreeMap::new();
        for transaction in &session.transactions {
            let kept: &Exchange = transaction.exchange.as_ref().expect("asked for");
            differences.check(kept.steps_left_out == 0, format!("{}: steps left out", transaction.xid));
            for step in &kept.steps {
                let sender = kept.flows[usize::from(!step.from_caller)].expect("both half-flows are known");
                let frames = [step.first.frame, step.last.frame].map(|frame| session.packet(frame));
                let [Some(first), Some(last)] = frames else {
                    panic!("{}: no such packets", transaction.xid)
                };
                let headers = first.headers().expect("headers");
                differences.check(
                    headers.bth.destination_qp == sender.destination_qp
                        && step.covers(headers.bth.psn.into())
                        && step.covers(last.headers().expect("headers").bth.psn.into()),
                    format!("{} frame {}: {step:?}", transaction.xid, first.number),
                );
                begun.insert(step.first.frame, step.kind);
                // The end that calls forward has opened the connection.
                let forward = transaction.direction == Direction::Forward;
                let client = samples_client(first);
                differences.check(
                    client == (forward == step.from_caller),
                    format!("{} frame {}: sent by the other end", transaction.xid, first.number),
                );
            }
        }
        // If all packets are in order, every RPC-over-RDMA message, READ request and WRITE begins a
        // step.
        if sample != "nfs3-lossy" {
            for packet in &session.packets {
                let Some(headers) = packet.headers() else { continue };
                let expected = match (headers.bth.opcode.operation(), &headers.content) {
                    (_, ContentSeen::RpcRdma(_)) => true,
                    (Some(operation), _) => {
                        operation == Operation::ReadRequest || headers.extensions.reth.is_some()
                    }
                    _ => false,
                };
                differences.check(
                    !expected || begun.contains_key(&packet.number),
                    format!("frame {} begins no step", packet.number),
                );
            }
        }
        differences.end();
    }
}

/// Every packet of a session has a role in a transaction, and the roles match the counts of the
/// connections.
#[test]
fn every_packet_belongs_to_a_transaction() {
    for sample in samples::MOUNTS {
        let mut differences = Differences::of(sample);
        let session = run(sample);
        let mut roles = BTreeMap::new();
        let mut rest = Vec::new();
        let mut engine = Engine::new(Config { report_packets: true, attribute: true, ..Config::default() });
        let mut take = |event: Event<'_>| match event {
            Event::Attributed(attributed) => {
                roles.extend(attributed.role.map(|role| (attributed.seen.frame, role)));
            }
            Event::Packet(packet) => {
                let is_managing =
                    packet.readable_headers().is_none_or(|headers| matches!(headers.content, Content::Cm(_)));
                let bad = packet.frame.is_ok_and(|frame| frame.icrc == IcrcVerdict::Bad);
                if !is_managing {
                    rest.push((packet.record.number, bad));
                }
            }
            _ => {}
        };
        let capture = samples::capture(sample);
        records(&capture).for_each(|record| engine.handle(&record, &mut take));
        engine.finish(&mut take);
        let mut counted = [0u64; 5];
        for role in roles.values() {
            let kind = match role {
                Role::Part(_) => 0,
                Role::Repetition(_) => 1,
                Role::Acknowledgement(_) => 2,
                Role::Refusal(_) => 3,
                _ => panic!("a role without a count"),
            };
            counted[kind] += 1;
        }
        for (frame, bad) in rest.into_iter().filter(|(frame, _)| !roles.contains_key(frame)) {
            differences.check(bad, format!("frame {frame} has no role"));
            counted[4] += 1;
        }
        let sum = |count: fn(&Counts) -> u64| -> u64 {
            session
                .connections
                .iter()
                .map(|each| count(&each.requester.sent) + count(&each.responder.sent))
                .sum()
        };
        let expected = [
            (1, sum(|sent| sent.repeated_packets)),
            (2, sum(|sent| sent.acknowledgements)),
            (3, sum(|sent| sent.sequence_naks + sent.fatal_naks + sent.rnr_naks)),
            (4, sum(|sent| sent.bad_icrc)),
        ];
        for (index, expected) in expected {
            differences
                .check(counted[index] == expected, format!("{index}: {} of {expected}", counted[index]));
        }
        differences.end();
    }
}

/// Whether the client of the lab sent a packet.
fn samples_client(packet: &rdmascope_tests::session::PacketSeen) -> bool {
    packet.frame.is_ok_and(|frame| frame.source == rdmascope_tests::session::address(2))
}
