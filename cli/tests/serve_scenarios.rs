//! `peer serve --scenario` with `peer call` as the client, over the loopback interface.
#![cfg(target_os = "linux")]

mod binary;
mod live;

use binary::{run, text};
use live::{Server, address, described, of_type, parsed};
use rdmascope_peer::driver::{Driver, Kind, Reach};
use rdmascope_peer::endpoint;
use rdmascope_peer::peer::{Config, Event, Peer};
use rdmascope_peer::rpcrdma::{self, Call};
use rdmascope_wire::Xid;
use rdmascope_wire::rpc;
use rdmascope_wire::rpcrdma::{Builder, Error, Procedure};
use serde_json::Value;
use std::io::Read as _;
use tempfile::TempDir;

/// A server with these scenarios that ends when all are judged. `None` where the port is taken, which is told.
fn serving(at: &str, more: &[&str]) -> Option<Server> {
    let given = ["--bind", at, "--socket", "udp", "--until-judged", "--scenario"];
    Server::start(&[&given[..], more].concat())
}

/// Its lines and its status, when it has ended by itself.
fn ended(mut server: Server) -> (Vec<Value>, Option<i32>) {
    let mut rest = std::mem::take(&mut server.first);
    server.stdout.take().expect("nobody took it").read_to_string(&mut rest).expect("it can be read");
    let status = server.child.wait().expect("it ends");
    (parsed(&rest), status.code())
}

fn verdicts(lines: &[Value]) -> Vec<(&str, Option<&str>, Option<&str>)> {
    let scenarios = of_type(lines, "peer_scenario").into_iter();
    scenarios
        .map(|line| {
            (
                line["scenario"].as_str().expect("it has a name"),
                line["verdict"].as_str(),
                line["alive"].as_str(),
            )
        })
        .collect()
}

#[test]
fn a_client_that_conforms() {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder can be made");
    // The scenario, the status of `peer call`, for which an RDMA_ERROR is no SUCCESS, and a rule that finds it in the capture.
    for (name, called, rule) in [
        ("reply-twice", 0, "rpc-reply-without-call"),
        ("reply-error-chunk", 1, "0 violations"),
        ("reply-credits-zero", 0, "credit-grant-zero"),
    ] {
        let saved = folder.path().join(format!("{name}.pcapng"));
        let saved = saved.to_str().expect("it is UTF-8");
        let (at, from) = (address(), address());
        let Some(server) = serving(&at, &[name, "reply-chunk-longer", "--save", saved]) else { return };
        let given = ["peer", "call", "--to", &at, "--from", &from, "--socket", "udp"];
        let call = run(&[&given[..], &["--count", "4", "--timeout", "60s"]].concat());
        assert_eq!((call.status.code(), text(&call.stderr)), (Some(called), ""), "{}", text(&call.stdout));
        let (lines, status) = ended(server);
        assert_eq!(status, Some(0), "{lines:?}");
        let mut told = verdicts(&lines);
        told.sort();
        let mut expected =
            [(name, Some("conforms"), Some("on-this-connection")), ("reply-chunk-longer", None, None)];
        expected.sort();
        assert_eq!(told, expected);
        let own = of_type(&lines, "peer_scenario").into_iter().find(|line| line["scenario"] == name);
        assert_eq!(own.expect("it ran")["target"], *from);
        let [end] = of_type(&lines, "peer_injected")[..] else { panic!("{lines:?}") };
        let counts = &end["counts"];
        assert_eq!(
            (&end["scenarios"], &counts["conforms"], &counts["withheld"]),
            (&2.into(), &1.into(), &1.into())
        );
        described(&lines.iter().filter(|line| line["type"] != "peer_injected").cloned().collect::<Vec<_>>());
        let checked = run(&["check", saved]);
        assert!(text(&checked.stdout).contains(rule), "{name}: {}", text(&checked.stdout));
    }
}

/// Calls NULL, and answers what it does not take with RDMA_ERROR.
fn wrong_client(at: &str, from: &str) {
    let [local, remote] = [from, at].map(|address| address.parse().expect("it is an address"));
    let mut driver = Driver::open(Kind::Udp, &[local], Reach::Only(vec![remote])).expect("there is a socket");
    let mut client = Peer::new(Config::default(), 1);
    client.connect(local, remote, 20049).expect("there is room");
    let mut xid = 0x100;
    let ended = driver.run(&mut client, None, |client, _| {
        while let Some(event) = client.poll_event() {
            let connection = match event {
                Event::Endpoint(endpoint::Event::Connected { connection }) => connection,
                Event::Rpc { connection, event: rpcrdma::Event::Replied(_) } if xid < 0x102 => connection,
                Event::Rpc { connection, event: rpcrdma::Event::Replied(_) } => {
                    client.disconnect(connection).expect("it is there");
                    continue;
                }
                Event::Endpoint(endpoint::Event::Closed { .. }) => return true,
                Event::Rpc { connection, event: rpcrdma::Event::Discarded { xid: Some(xid), .. } } => {
                    let mut bytes = Vec::new();
                    let mut header = Builder::new(xid, 32, Procedure::Error);
                    header.error = Some(Error::Chunk);
                    header.build(&mut bytes);
                    client.send_raw(connection, bytes).expect("it is there");
                    continue;
                }
                _ => continue,
            };
            xid += 1;
            let mut message = Vec::new();
            rpc::Call::null(Xid(xid), 100_003, 3).build(&mut message);
            client.call(connection, Call { message, ..Call::default() }).expect("it is there");
        }
        false
    });
    ended.expect("the sockets work");
}

#[test]
fn a_client_that_breaks_the_rule_is_status_1() {
    let (at, from) = (address(), address());
    let Some(server) = serving(&at, &["reply-procedure-5"]) else { return };
    wrong_client(&at, &from);
    let (lines, status) = ended(server);
    assert_eq!(
        verdicts(&lines),
        [("reply-procedure-5", Some("violates"), Some("on-this-connection"))],
        "{lines:?}"
    );
    assert_eq!(status, Some(1));
}

#[test]
fn a_scenario_without_a_call_is_not_applicable() {
    let at = address();
    let given = ["--bind", &at, "--socket", "udp", "--scenario", "reply-lost", "write-beyond-reply-chunk"];
    let Some(server) = Server::start(&[&given[..], &["--allow-destructive"]].concat()) else { return };
    let lines = server.stop();
    let expected = ["reply-lost", "write-beyond-reply-chunk"];
    assert_eq!(verdicts(&lines), expected.map(|name| (name, Some("not-applicable"), Some("not-asked"))));
    assert!(of_type(&lines, "peer_scenario").iter().all(|line| line["target"].is_null()));
}

#[test]
fn a_scenario_of_the_other_side_is_refused_with_the_command_that_runs_it() {
    let at = address();
    let inject = run(&["peer", "inject", "--to", &at, "reply-twice"]);
    let serve = run(&["peer", "serve", "--bind", &at, "--scenario", "version-9"]);
    let unknown = run(&["peer", "serve", "--bind", &at, "--scenario", "reply-twise"]);
    for (output, why) in [
        (&inject, "`rdmascope peer serve --scenario reply-twice` runs it"),
        (&serve, "`rdmascope peer inject --to ADDR version-9` runs it"),
        (&unknown, "perhaps reply-twice"),
    ] {
        let complaint = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{complaint}");
        assert!(complaint.contains(why), "{complaint}");
    }
    let list = run(&["peer", "inject", "--list"]);
    let line = |name: &str| text(&list.stdout).lines().find(|line| line.starts_with(name)).map(str::to_owned);
    assert!(line("reply-twice ").expect("it is listed").ends_with(" (peer serve)"));
    assert!(line("reply-chunk-longer ").expect("it is listed").ends_with(" (peer serve) (destructive)"));
    assert!(!line("version-9 ").expect("it is listed").contains("(peer serve)"));
    let explained = run(&["peer", "inject", "--explain", "reply-twice"]);
    let shown = text(&explained.stdout);
    for part in ["rdmascope peer serve --scenario", "MUST rfc8166/4.2.4", "call = {}", "reply.times = 2"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}
