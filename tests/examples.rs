//! The examples of the crates, run as their users run them. `live` needs privileges: it is only
//! built.

#[allow(dead_code)]
#[path = "../present/examples/fields.rs"]
mod fields;
#[allow(dead_code)]
#[path = "../conformance/examples/findings.rs"]
mod findings;
#[allow(dead_code)]
#[path = "../peer/examples/null.rs"]
mod null;
#[allow(dead_code)]
#[path = "../capture-agent/examples/transactions.rs"]
mod transactions;

use rdmascope_tests::samples;
use std::path::PathBuf;

fn sample(name: &str) -> PathBuf {
    samples::folder().join(name)
}

fn lines(run: impl FnOnce(&mut dyn FnMut(String))) -> Vec<String> {
    let mut lines = Vec::new();
    run(&mut |line| lines.push(line));
    lines
}

#[test]
fn transactions_example_lists_all_transactions() {
    let found = lines(|print| transactions::transactions(&[sample("nfs3-basic.pcap")], print).unwrap());
    let (ending, transactions) = found.split_last().unwrap();
    // The client's kernel matched each reply to a call.
    let trace = std::fs::read_to_string(sample("nfs3-basic.client.trace")).unwrap();
    assert_eq!(transactions.len(), trace.matches(" xprtrdma_reply:").count());
    assert!(transactions.iter().all(|line| line.contains("Completed in Some(")), "{transactions:?}");
    assert!(ending.ends_with("cut short: None; 0 packets dropped while capturing"), "{ending}");
}

#[test]
fn findings_example_reports_a_violation() {
    let found = lines(|print| findings::findings(&sample("nfs4.1-backchannel-recall.pcap"), print).unwrap());
    let [line] = &found[..] else { panic!("{found:?}") };
    assert!(line.starts_with("violation invalidation-sender-flag, stands, frames [11]: "), "{line}");
}

#[test]
fn fields_example_prints_call_and_reply() {
    let found = lines(|print| fields::fields(&sample("nfs3-basic.pcap"), 16, print).unwrap());
    assert_eq!(found[0], "call");
    assert!(found.contains(&"reply".to_owned()), "{found:?}");
    assert!(found.iter().any(|line| line.trim_start().starts_with("rdma_xid: 0x")), "{found:?}");
}

#[cfg(target_os = "linux")]
mod peer {
    use core::time::Duration;
    use rdmascope_peer::driver::{Driver, Error, Kind, Reach};
    use rdmascope_peer::endpoint;
    use rdmascope_peer::peer::{Config, Event, Peer};
    use rdmascope_peer::rpcrdma::{self, Reply};
    use rdmascope_wire::rpc;
    use std::net::{IpAddr, Ipv4Addr};
    use std::thread;

    /// Addresses that no test of another process uses.
    fn addresses() -> [IpAddr; 2] {
        let [.., high, low] = std::process::id().to_be_bytes();
        [80, 81].map(|second| Ipv4Addr::new(127, second, high, low.clamp(1, 254)).into())
    }

    /// Answers calls with SUCCESS and without results until the connection is closed.
    fn serve(mut driver: Driver) {
        let mut peer = Peer::new(Config::default(), 2);
        peer.listen(20049);
        let until = driver.now().plus(Duration::from_secs(20));
        let ended = driver.run(&mut peer, Some(until), |peer, _| {
            while let Some(event) = peer.poll_event() {
                match event {
                    Event::Rpc { connection, event: rpcrdma::Event::Called(called) } => {
                        let mut message = Vec::new();
                        let status = rpc::Status::Success;
                        rpc::Reply { xid: called.xid, status, verifier: None }.build(&mut message);
                        peer.reply(connection, called.xid, Reply::inline(message)).unwrap();
                    }
                    Event::Endpoint(endpoint::Event::Closed { .. }) => return true,
                    _ => {}
                }
            }
            false
        });
        ended.unwrap();
    }

    #[test]
    fn null_example_calls_a_peer() {
        let [local, to] = addresses();
        let server = match Driver::open(Kind::Udp, &[to], Reach::Senders) {
            Ok(driver) => driver,
            Err(error @ (Error::NotPermitted { .. } | Error::PortTaken { .. } | Error::NotLocal { .. })) => {
                return eprintln!("SKIPPED: {error}");
            }
            Err(error) => panic!("{error}"),
        };
        let serving = thread::spawn(|| serve(server));
        assert_eq!(super::null::linux::null(local, to).unwrap(), "NULL: SUCCESS");
        serving.join().unwrap();
    }
}
