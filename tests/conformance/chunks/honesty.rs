//! Packets that a capture lacks are no evidence.

use super::{READ, READ_OF_SIX, basic, change_reply, found, is_conclusive, large, send_of};
use crate::samples::is_new_violation;
use rdmascope_tests::judged::{findings, line};
use rdmascope_tests::mutate::{self, CLIENT, SERVER};
use rdmascope_tests::pcap::Capture;

/// The triggers of all rules on chunks.
fn triggers() -> impl Iterator<Item = &'static crate::Trigger> {
    [
        super::read::TRIGGERS,
        super::write::TRIGGERS,
        super::reply::TRIGGERS,
        super::memory::TRIGGERS,
        super::binding::TRIGGERS,
    ]
    .into_iter()
    .flatten()
}

fn other_handle(capture: &mut Capture) {
    change_reply(capture, READ, |reply| reply.writes[0][0].handle ^= 1);
}

#[test]
fn reply_is_compared_with_its_call_only_without_loss() {
    let capture = large();
    let (call, reply) = (send_of(&capture, CLIENT, READ), send_of(&capture, SERVER, READ));
    assert!(is_conclusive(&found(large, other_handle, "returned-chunk-segments")));
    let mut lost = 0;
    for index in call + 1..reply {
        let number = capture.packets[index].number;
        if capture.packets[index].is_response() {
            continue;
        }
        lost += 1;
        let without = |capture: &mut Capture| {
            other_handle(capture);
            *capture = mutate::keep(capture, |packet| packet.number != number);
        };
        let finding = found(large, without, "returned-chunk-segments");
        assert!(!is_conclusive(&finding), "without frame {number}: {finding:?}");
    }
    assert!(lost > 10, "RDMA WRITEs are between call and reply");
}

#[test]
fn capture_that_ends_with_the_reply_gives_the_finding() {
    let ends = |capture: &mut Capture| {
        other_handle(capture);
        let reply = send_of(capture, SERVER, READ);
        capture.packets.truncate(reply + 1);
    };
    let finding = found(large, ends, "returned-chunk-segments");
    assert!(!finding.is_empty(), "the finding exists");
}

#[test]
fn snap_length_adds_no_violation() {
    for snap_length in [96, 128, 160, 200, 256] {
        for trigger in triggers() {
            let mut altered = (trigger.control)();
            (trigger.alter)(&mut altered);
            let cut = mutate::cut(&altered, snap_length);
            let allowed = |id: &str| id == trigger.rule || trigger.also.contains(&id);
            for finding in findings(&cut).iter().filter(|finding| is_new_violation(finding)) {
                let id = rdmascope_tests::judged::rule(finding).id;
                assert!(allowed(id), "{} at {snap_length}: {}", trigger.rule, line(finding));
            }
        }
    }
}

#[test]
fn reply_without_its_call_gives_no_violation() {
    for id in
        ["returned-chunk-segments", "write-chunk-count", "write-chunk-length", "reply-chunk-not-offered"]
    {
        let without = |capture: &mut Capture| {
            change_reply(capture, READ_OF_SIX, |reply| reply.writes[0][0].length = 5);
            let call = send_of(capture, CLIENT, READ_OF_SIX);
            let number = capture.packets[call].number;
            *capture = mutate::keep(capture, |packet| packet.number != number);
        };
        assert!(!is_conclusive(&found(basic, without, id)), "{id}");
    }
}
