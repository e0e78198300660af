//! `peer serve --scenario` with `peer call` as the client, over the loopback interface.
#![cfg(target_os = "linux")]

mod binary;
mod live;

use binary::{command, folder, run, start, text};
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
use std::time::{Duration, Instant};

/// A server with these scenarios that ends when all have a verdict. Returns `None`, and reports
/// that, if the port is taken.
fn serving(at: &str, more: &[&str]) -> Option<Server> {
    let given = ["--bind", at, "--socket", "udp", "--until-judged", "--scenario"];
    Server::start(&[&given[..], more].concat())
}

/// Its lines and its exit status, once it has ended by itself.
fn ended(mut server: Server) -> (Vec<Value>, Option<i32>) {
    let mut rest = std::mem::take(&mut server.first);
    server.stdout.take().expect("it was not taken").read_to_string(&mut rest).expect("it can be read");
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
fn conforming_client_is_status_0() {
    let folder = folder();
    // The scenario, the exit status of `peer call`, for which an RDMA_ERROR is not SUCCESS, and a
    // rule that finds it in the capture.
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
        let mut judged = verdicts(&lines);
        judged.sort();
        let mut expected =
            [(name, Some("conforms"), Some("on-this-connection")), ("reply-chunk-longer", None, None)];
        expected.sort();
        assert_eq!(judged, expected);
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

/// Calls NULL, and answers replies that it does not accept with RDMA_ERROR.
fn wrong_client(at: &str, from: &str) {
    wrong_client_reaches(at, from);
}

/// As [`wrong_client`]. Returns whether it was connected.
fn wrong_client_reaches(at: &str, from: &str) -> bool {
    let [local, remote] = [from, at].map(|address| address.parse().expect("it is an address"));
    let mut driver = Driver::open(Kind::Udp, &[local], Reach::Only(vec![remote])).expect("there is a socket");
    let mut client = Peer::new(Config::default(), 1);
    client.connect(local, remote, 20049).expect("there is room");
    let (mut xid, mut reached) = (0x100, false);
    let ended = driver.run(&mut client, None, |client, _| {
        while let Some(event) = client.poll_event() {
            let connection = match event {
                Event::Endpoint(endpoint::Event::Connected { connection }) => {
                    reached = true;
                    connection
                }
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
    reached
}

#[test]
fn violating_client_is_status_1() {
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

/// The report of a server whose scenarios meet a faulty client, in this format, and its exit
/// status.
fn report(format: &str, at: &str, from: &str) -> Option<(String, Option<i32>)> {
    let folder = folder();
    let saved = folder.path().join("crossed.pcapng");
    let given = ["--bind", at, "--socket", "udp", "--until-judged", "--format", format];
    let scenarios =
        ["--scenario", "reply-procedure-5", "reply-chunk-longer", "--save", saved.to_str().expect("UTF-8")];
    let mut child = start(&mut command(&[&["peer", "serve"], &given[..], &scenarios].concat()));
    // It prints nothing before its end, so there is no first line to wait for.
    let patience = Instant::now() + Duration::from_secs(20);
    while !wrong_client_reaches(at, from) {
        if child.try_wait().expect("it is a child").is_some() || Instant::now() > patience {
            let _ = child.kill();
            let output = child.wait_with_output().expect("it ends");
            let complaint = text(&output.stderr);
            assert!(complaint.contains("is in use"), "{complaint}");
            eprintln!("SKIPPED: {complaint}");
            return None;
        }
    }
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(text(&output.stderr), "");
    Some((text(&output.stdout).to_owned(), output.status.code()))
}

#[test]
fn verdicts_as_junit_xml() {
    let (at, from) = (address(), address());
    let Some((junit, status)) = report("junit", &at, &from) else { return };
    assert_eq!(status, Some(1), "{junit}");
    // One document and nothing else.
    assert!(junit.starts_with("<?xml ") && junit.trim_end().ends_with("</testsuites>"), "{junit}");
    for part in [
        "<testsuites name=\"rdmascope peer serve\">".to_owned(),
        "tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"1\">".to_owned(),
        format!("name=\"reply-procedure-5 at {from}\">"),
        "<failure message=".to_owned(),
        "name=\"reply-chunk-longer\">".to_owned(),
        "<skipped message=\"destructive\"/>".to_owned(),
    ] {
        assert!(junit.contains(&part), "{part}: {junit}");
    }
}

#[test]
fn verdicts_as_an_html_page() {
    let (at, from) = (address(), address());
    let Some((html, status)) = report("html", &at, &from) else { return };
    assert_eq!(status, Some(1), "{html}");
    assert!(html.starts_with("<!DOCTYPE html>") && html.trim_end().ends_with("</html>"), "{html}");
    for run in ["run-1-1", "run-1-2"] {
        assert!(
            html.contains(&format!("href=\"#{run}\"")) && html.contains(&format!("id=\"{run}\"")),
            "{run}"
        );
    }
    // The client heads the column, and the ladder with the call, its faulty reply, and the client's
    // reaction.
    for part in [
        format!("<th>{from}</th>"),
        format!("<th class=\"remote\">{from}</th>"),
        "Behavior of NFS over RDMA clients".to_owned(),
        "to the client".to_owned(),
        "from the client".to_owned(),
        "violates".to_owned(),
        "withheld".to_owned(),
        "RDMA_ERROR".to_owned(),
        "No packets crossed.".to_owned(),
    ] {
        assert!(html.contains(&part), "{part}: {html}");
    }
}

#[test]
fn report_without_scenarios_is_refused() {
    for format in ["junit", "html"] {
        let refused = run(&["peer", "serve", "--bind", &address(), "--format", format]);
        assert_eq!((refused.status.code(), text(&refused.stdout)), (Some(2), ""), "{format}");
        assert!(text(&refused.stderr).contains("--scenario"), "{}", text(&refused.stderr));
    }
}

#[test]
fn scenario_without_a_call_is_not_applicable() {
    let at = address();
    let given = ["--bind", &at, "--socket", "udp", "--scenario", "reply-lost", "write-beyond-reply-chunk"];
    let Some(server) = Server::start(&[&given[..], &["--allow-destructive"]].concat()) else { return };
    let lines = server.stop();
    let expected = ["reply-lost", "write-beyond-reply-chunk"];
    assert_eq!(verdicts(&lines), expected.map(|name| (name, Some("not-applicable"), Some("not-asked"))));
    assert!(of_type(&lines, "peer_scenario").iter().all(|line| line["target"].is_null()));
}

#[test]
fn scenario_of_the_other_side_names_its_command() {
    let at = address();
    let inject = run(&["peer", "inject", "--to", &at, "reply-twice"]);
    let serve = run(&["peer", "serve", "--bind", &at, "--scenario", "version-9"]);
    let unknown = run(&["peer", "serve", "--bind", &at, "--scenario", "reply-twise"]);
    for (output, why) in [
        (&inject, "`rdmascope peer serve --scenario reply-twice` runs it"),
        (&serve, "`rdmascope peer inject --to ADDR version-9` runs it"),
        (&unknown, "did you mean reply-twice?"),
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
