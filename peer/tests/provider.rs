//! A scenario on another provider, such as a device: reports abilities that it lacks, and
//! advertises no memory that the remote side would invalidate.
#![cfg(feature = "scenario")]

use core::time::Duration;
use rdmascope_peer::endpoint::{CommandError, Connect, ConnectionId, Event};
use rdmascope_peer::interceptor::Interceptor;
use rdmascope_peer::memory::{Access, RegisterError};
use rdmascope_peer::provider::{Beyond, Provider};
use rdmascope_peer::rc::{Operation, PostError, WorkId};
use rdmascope_peer::scenario::{Runner, Scenario, Target, Verdict, builtin};
use rdmascope_peer::time::Instant;
use rdmascope_wire::Rkey;

/// Connects, answers nothing, and makes no packets itself.
#[derive(Default)]
struct Device {
    makes_packets: bool,
    connects: Vec<Connect>,
    posted: Vec<Operation>,
}

impl Provider for Device {
    fn makes_packets(&self) -> bool {
        self.makes_packets
    }

    fn connect(&mut self, connect: Connect) -> Result<ConnectionId, CommandError> {
        self.connects.push(connect);
        Ok(ConnectionId(1))
    }

    fn disconnect(&mut self, _: ConnectionId) -> Result<(), CommandError> {
        Err(CommandError::State)
    }

    fn post(&mut self, _: ConnectionId, operation: Operation) -> Result<WorkId, PostError> {
        if matches!(operation, Operation::Read { .. }) {
            return Err(PostError::NoReads);
        }
        self.posted.push(operation);
        Ok(WorkId(1))
    }

    fn post_receive(&mut self, _: ConnectionId, _: usize) -> Result<(), PostError> {
        Ok(())
    }

    fn register(&mut self, _: ConnectionId, _: Vec<u8>, _: Access) -> Result<(Rkey, u64), RegisterError> {
        Ok((Rkey(1), 0))
    }

    fn invalidate(&mut self, _: ConnectionId, _: Rkey) {}

    fn region(&self, _: ConnectionId, _: Rkey) -> Option<(u64, Vec<u8>)> {
        None
    }

    fn fill(&mut self, _: ConnectionId, _: Rkey, _: &[u8]) {}

    fn intercept(&mut self, interceptor: Option<Box<dyn Interceptor>>) {
        assert!(interceptor.is_none(), "a device does not intercept packets");
    }

    fn skip_psn(&mut self, _: ConnectionId, _: u32) {
        panic!("a device does not set PSNs");
    }

    fn abandon(&mut self, _: ConnectionId) {
        panic!("a device does not abandon connections");
    }
}

fn scenario(name: &str) -> Scenario {
    builtin().into_iter().find(|scenario| scenario.name == name).unwrap()
}

fn start(name: &str, device: &mut Device) -> Runner {
    let target = Target::new("192.0.2.1".parse().unwrap(), "192.0.2.2".parse().unwrap());
    let mut runner = Runner::new(scenario(name), target);
    runner.advance(Instant::default(), device);
    runner
}

#[test]
fn scenarios_beyond_verbs_are_not_applicable() {
    for (name, beyond) in [
        ("icrc-bad", Beyond::Packets),
        ("send-lost", Beyond::Packets),
        ("psn-skipped", Beyond::Psn),
        ("invalidate-own-r-clear", Beyond::RemoteInvalidation),
    ] {
        assert_eq!(scenario(name).beyond_verbs(), Some(beyond), "{name}");
        let mut device = Device::default();
        let outcome = start(name, &mut device).outcome().unwrap();
        assert_eq!(outcome.verdict, Verdict::NotApplicable, "{name}");
        assert_eq!(outcome.reason, format!("not possible by verbs: {beyond}"), "{name}");
        assert!(device.connects.is_empty() && outcome.sent.is_empty(), "{name}");
    }
    // An endpoint has all these abilities.
    let mut endpoint = Device { makes_packets: true, ..Device::default() };
    assert!(!start("icrc-bad", &mut endpoint).is_over());
    assert_eq!(endpoint.connects.len(), 1);
}

#[test]
fn header_faults_need_only_verbs() {
    for scenario in builtin().iter().filter(|scenario| scenario.is_of("rfc8166/4.5.1")) {
        assert_eq!(scenario.beyond_verbs(), None, "{}", scenario.name);
    }
}

#[test]
fn device_does_not_offer_remote_invalidation() {
    // The R bit is the last flag of RFC 8797 private data, after the Format Identifier and the
    // version.
    let r = |device: &Device| device.connects[0].private_data[5] & 1;
    let mut device = Device::default();
    start("version-9", &mut device);
    assert_eq!(r(&device), 0);
    let mut endpoint = Device { makes_packets: true, ..Device::default() };
    start("version-9", &mut endpoint);
    assert_eq!(r(&endpoint), 1);
}

#[test]
fn unsupported_read_makes_a_scenario_not_applicable() {
    let mut device = Device::default();
    let mut runner = start("read-of-target-memory", &mut device);
    runner.handle(&mut device, &Event::Connected { connection: ConnectionId(1) });
    let mut now = Instant::default();
    while !runner.is_over() {
        runner.advance(now, &mut device);
        now = now.plus(Duration::from_millis(100));
        assert!(now < Instant::default().plus(Duration::from_secs(60)));
    }
    let outcome = runner.outcome().unwrap();
    assert_eq!(outcome.verdict, Verdict::NotApplicable, "{outcome:?}");
    assert_eq!(outcome.reason, PostError::NoReads.to_string());
}
