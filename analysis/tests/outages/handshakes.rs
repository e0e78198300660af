//! SYNs of iWARP clients that the server refuses, or does not answer.

use super::{Cause, Kind, SECOND, assert_times, only};
use rdmascope_tests::pcap::{Capture, Packet};
use rdmascope_tests::samples;

/// The sample iwarp-reconnect: the server closes connection 1 (frame 71) and refuses a SYN (frames 76
/// and 77). The client asks again 3 s later. `change` changes the packets between the close and the
/// next connection.
fn refused_syn(change: impl Fn(&mut Vec<Packet>)) -> Capture {
    let mut capture = samples::capture("iwarp-reconnect");
    let later = capture.packets.split_off(77);
    let mut between = capture.packets.split_off(75);
    change(&mut between);
    capture.packets.extend(between);
    let time = capture.packets.last().expect("it has packets").time;
    let shift = (time - later[0].time + 3 * SECOND).max(0);
    capture.packets.extend(later.into_iter().map(|packet| Packet { time: packet.time + shift, ..packet }));
    capture
}

/// Adds a copy of a segment at the end, this long after the last one.
fn later(packets: &mut Vec<Packet>, index: usize, wait: i64) {
    let time = packets.last().expect("it has packets").time + wait;
    packets.push(Packet { time, ..packets[index].clone() });
}

/// A client whose TCP connections the server refuses has no service.
#[test]
fn refused_syns_are_an_outage() {
    let capture = refused_syn(|between| {
        for _ in 0..5 {
            later(between, 0, 3 * SECOND);
            later(between, 1, SECOND / 1000);
        }
    });
    let lost = only(&capture, Kind::ServiceLost);
    assert_times(&capture, &lost, (2.096, 18.275));
    assert_eq!(
        lost.text,
        "no reply for 18.3s: connection 1 was closed by the server, 6 requests rejected by the server, the next \
         reply came on connection 8"
    );
}

/// The same for one whose SYNs have no answer.
#[test]
fn unanswered_syns_are_an_outage() {
    let unanswered = |between: &mut Vec<Packet>| {
        between.truncate(1);
        [1, 2, 4, 8].into_iter().for_each(|wait| later(between, 0, wait * SECOND));
    };
    let capture = refused_syn(unanswered);
    let lost = only(&capture, Kind::ServiceLost);
    assert_eq!(
        lost.text,
        "no reply for 18.3s: connection 1 was closed by the server, 1 request never answered, the next reply came \
         on connection 3"
    );
    let unanswered_request = only(&capture, Kind::RequestUnanswered);
    assert_eq!(unanswered_request.text, "client sent its SYN 5 times in 15s, never answered");
    // The client is never served: its first connection is asked for in vain.
    let mut never = capture;
    never.packets.drain(..75);
    never.packets.truncate(5);
    let mut last = never.packets[0].clone();
    last.time = never.packets[4].time + 2 * SECOND;
    last.data.truncate(34);
    never.packets.push(last);
    let lost = only(&never, Kind::ServiceLost);
    assert_eq!(lost.text, "no connection for 17s, until the capture ends: 1 request never answered");
}

/// A client that asks long after the server closed its connection had no work.
#[test]
fn a_refused_syn_of_an_idle_client_is_an_outage_from_then_on() {
    let capture = refused_syn(|between| {
        for packet in between {
            packet.time += 20 * SECOND;
        }
    });
    let lost = only(&capture, Kind::ServiceLost);
    assert_times(&capture, &lost, (22.297, 3.069));
}

/// A capture may end with a SYN. The client has no connection at that time.
#[test]
fn a_capture_may_end_with_a_syn() {
    let mut capture = refused_syn(|between| {
        between.truncate(1);
        [1, 2].into_iter().for_each(|wait| later(between, 0, wait * SECOND));
    });
    capture.packets.drain(..75);
    capture.packets.truncate(3);
    let lost = only(&capture, Kind::ServiceLost);
    assert_eq!(lost.text, "no connection for 3s, until the capture ends: 1 request never answered");
}

/// The answers do not arrive, and the client sends its SYN again. The first connection is made late.
#[test]
fn a_late_answer_is_an_outage() {
    let mut capture = samples::capture("iwarp-reconnect");
    let first = capture.packets[77].time;
    // The SYN and its answer.
    let mut again: Vec<Packet> = capture.packets[77..79].to_vec();
    again.iter_mut().for_each(|packet| packet.time -= 3 * SECOND);
    capture.packets.drain(..77);
    capture.packets.splice(0..0, again);
    let lost = only(&capture, Kind::ServiceLost);
    assert_eq!(lost.time.0, first - 3 * SECOND);
    assert_eq!((lost.cause, lost.count), (Some(Cause::AnsweredLate), 0));
    assert!(
        lost.text.starts_with("no connection for 3.0")
            && lost.text.ends_with("s: SYN sent 2 times, the last of them answered in 32.0ms"),
        "{}",
        lost.text
    );
}

/// A client that asks every 3 s and stops has given up.
#[test]
fn a_client_that_stops_asking_has_given_up() {
    let capture = refused_syn(|between| {
        for _ in 0..5 {
            later(between, 0, 3 * SECOND);
            later(between, 1, SECOND / 1000);
        }
        later(between, 1, 60 * SECOND);
    });
    // The packets before, six attempts, and a later packet.
    let mut capture = capture;
    capture.packets.truncate(75 + 12 + 1);
    let lost = only(&capture, Kind::ServiceLost);
    assert_eq!(
        lost.text,
        "no reply for 15.2s, until the client stopped asking: connection 1 was closed by the server, 6 requests \
         rejected by the server"
    );
}

/// TCP sends the MPA Request again.
#[test]
fn a_repeated_mpa_request_counts() {
    let mut capture = samples::capture("iwarp-reconnect");
    // The MPA Request is frame 81, and the handshakes before it are frames 76 to 80.
    let mut after = capture.packets.split_off(81);
    capture.packets.drain(75..80);
    later(&mut capture.packets, 75, SECOND);
    after.iter_mut().for_each(|packet| packet.time += SECOND);
    capture.packets.extend(after);
    let repeated = only(&capture, Kind::RequestRepeated);
    assert_eq!(repeated.text, "client sent its MPA Request 2 times in 1s, then answered");
}
