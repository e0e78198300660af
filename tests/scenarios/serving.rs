//! `rdmascope check` finds the fault that a responder-side scenario injects into a session with a
//! client, and nothing else.

#[path = "../../peer/tests/serving/client.rs"]
mod client;

use super::{RAW, rules};
use client::{Wrong, run};
use rdmascope_peer::frame::enclose;
use rdmascope_peer::scenario::{Side, builtin_of};
use rdmascope_tests::judged;
use rdmascope_tests::pcap::{Capture, Packet};
use std::collections::BTreeSet;

#[test]
fn check_reports_exactly_the_fault_injected_into_a_client() {
    let mut wrong = Vec::new();
    for scenario in builtin_of(Side::Responder) {
        let (_, crossed) = run(&scenario, Wrong::Nothing);
        let packets = crossed.into_iter().zip(1..).map(|((now, datagram), number)| {
            let data = enclose(&datagram).expect("the datagram fits a packet");
            let original_length = data.len() as u32;
            let time = 1_700_000_000_000_000_000 + now.0 as i64;
            Packet { number, time, original_length, data }
        });
        let findings = judged::findings(&Capture { link: RAW, packets: packets.collect() });
        // Call durations in virtual time are no fault.
        let mut found = rules(&findings);
        found.remove("advice-slow-server");
        let expected: BTreeSet<&str> = scenario.check.iter().map(String::as_str).collect();
        if found != expected {
            let lines: Vec<String> = findings.iter().map(judged::line).collect();
            wrong.push(format!("{} {expected:?}:\n    {}", scenario.name, lines.join("\n    ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
