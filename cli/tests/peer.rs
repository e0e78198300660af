//! `peer call` and `peer serve`: two processes over the loopback interface, with UDP sockets, which
//! need no privileges.
#![cfg(target_os = "linux")]

mod binary;
mod live;

use binary::{command, folder, json_lines, run, start, text};
use live::{Server, address, described, of_type, parsed};
use rdmascope_peer::driver::{Driver, Ended, Kind, Reach};
use rdmascope_peer::peer::{self, Peer};
use rdmascope_peer::rpcrdma::{Event, Reply};
use serde_json::Value;
use std::io::BufRead as _;
use std::path::Path;
use std::process::Output;

fn call(arguments: &[&str]) -> Output {
    let arguments = [&["peer", "call", "--socket", "udp", "--interval", "1ms"], arguments].concat();
    run(&arguments)
}

/// Asserts that `check` finds nothing wrong with the saved session, and that every packet has a
/// good ICRC.
fn clean(saved: &Path, calls: usize) {
    let saved = saved.to_str().expect("it is UTF-8");
    let check = run(&["check", saved]);
    assert_eq!(check.status.code(), Some(0), "{}{}", text(&check.stdout), text(&check.stderr));
    let packets = json_lines(text(&run(&["packets", saved, "--format", "jsonl"]).stdout));
    assert!(packets.len() > 6 + calls);
    for packet in &packets {
        assert_eq!(packet["icrc"], "good", "{packet}");
    }
    let transactions = json_lines(text(&run(&["transactions", saved, "--format", "jsonl"]).stdout));
    assert_eq!(transactions.len(), calls);
    for transaction in &transactions {
        assert_eq!((&transaction["name"], &transaction["outcome"]), (&"NULL".into(), &"completed".into()));
    }
    let connections = json_lines(text(&run(&["connections", saved, "--format", "jsonl"]).stdout));
    assert_eq!(connections.len(), 1);
    assert_eq!((&connections[0]["origin"], &connections[0]["state"]), (&"cm".into(), &"closed".into()));
}

#[test]
fn null_calls_are_answered() {
    let (at, from) = (address(), address());
    let folder = folder();
    let [ours, theirs] = ["call.pcapng", "serve.pcapng"].map(|name| folder.path().join(name));
    let theirs_name = theirs.to_str().expect("it is UTF-8");
    let Some(server) = Server::start(&["--bind", &at, "--socket", "udp", "--save", theirs_name]) else {
        return;
    };
    let save = ours.to_str().expect("it is UTF-8");
    let arguments = ["--to", &at, "--from", &from, "--count", "20", "--save", save, "--format", "jsonl"];
    let output = call(&arguments);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    let lines = parsed(text(&output.stdout));
    described(&lines);

    let [sockets] = of_type(&lines, "peer_sockets")[..] else { panic!("{lines:?}") };
    assert_eq!((&sockets["sockets"], &sockets["target"]), (&"udp".into(), &format!("{at}:20049").into()));
    let [connected, closed] = of_type(&lines, "peer_connection")[..] else { panic!("{lines:?}") };
    assert_eq!((&connected["state"], &closed["state"]), (&"connected".into(), &"closed".into()));
    assert_eq!(connected["private_data"]["send_size"], 4096);
    assert_eq!(connected["private_data"]["remote_invalidation"], true);
    assert_eq!(connected["rep"]["responder_resources"], 128);
    let calls = of_type(&lines, "peer_call");
    assert_eq!(calls.len(), 20);
    for (index, call) in calls.iter().enumerate() {
        assert_eq!((&call["rpc_status"], &call["number"]), (&"SUCCESS".into(), &(index + 1).into()));
        assert_eq!(call["credits"], 32);
        assert!(call["latency_ns"].as_u64().is_some_and(|latency| latency > 0));
    }
    let [end] = of_type(&lines, "peer_end")[..] else { panic!("{lines:?}") };
    assert_eq!((&end["calls"], &end["answered"]), (&20.into(), &20.into()));
    assert_eq!((&end["icrc_bad"], &end["icrc_unverified"]), (&0.into(), &0.into()));

    let lines = server.stop();
    described(&lines);
    assert_eq!(of_type(&lines, "peer_call").len(), 20);
    let states: Vec<&Value> = of_type(&lines, "peer_connection").iter().map(|line| &line["state"]).collect();
    assert_eq!(states, ["connected", "closed-by-remote"]);
    clean(&ours, 20);
    clean(&theirs, 20);
}

#[test]
fn unsupported_calls_are_refused() {
    let (at, from) = (address(), address());
    let Some(server) = Server::start(&["--bind", &at, "--socket", "udp", "--port", "2049"]) else { return };
    let target = format!("{at}:2049");
    for (arguments, status) in [
        (["--program", "mount", "--version", "3"], "PROG_UNAVAIL"),
        (["--program", "nfs", "--version", "2"], "PROG_MISMATCH 3 to 4"),
        (["--program", "100003", "--version", "4"], "SUCCESS"),
    ] {
        let output = call(&[&["--to", &target, "--from", &from][..], &arguments].concat());
        let expected = if status == "SUCCESS" { 0 } else { 1 };
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(expected), ""));
        assert!(text(&output.stdout).contains(status), "{}", text(&output.stdout));
    }
    // The other port has no listener: REJ, reason 8.
    let output = call(&["--to", &at, "--from", &from, "--format", "jsonl"]);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), ""));
    let lines = parsed(text(&output.stdout));
    let [refused] = of_type(&lines, "peer_connection")[..] else { panic!("{lines:?}") };
    assert_eq!((&refused["state"], &refused["reject_reason"]), (&"rejected".into(), &8.into()));
    described(&lines);
    server.stop();
}

#[test]
fn discarded_reply_is_reported_at_once() {
    let (at, from) = (address(), address());
    let local = at.parse().expect("it is an address");
    let mut driver = match Driver::open(Kind::Udp, &[local], Reach::Senders) {
        Ok(driver) => driver,
        Err(error) => return eprintln!("SKIPPED: {error}"),
    };
    let waker = driver.waker();
    let serving = std::thread::spawn(move || {
        let mut server = Peer::new(peer::Config::default(), 1);
        server.listen(20049);
        driver.run(&mut server, None, |server, _| {
            while let Some(event) = server.poll_event() {
                let peer::Event::Rpc { connection, event: Event::Called(called) } = event else { continue };
                let mut reply = Reply::inline([called.message[..4].to_vec(), vec![0, 0, 0, 1]].concat());
                reply.message.resize(24, 0);
                reply.edit = Some(Box::new(|header, _| header.version = 9));
                server.reply(connection, called.xid, reply).expect("the connection is there");
            }
            false
        })
    });
    // Each call has the credit of the previous one.
    let arguments = ["--to", &at, "--from", &from, "--count", "3", "--timeout", "60s", "--format", "jsonl"];
    let output = call(&arguments);
    waker.wake();
    assert_eq!(serving.join().expect("it does not panic").expect("the sockets do"), Ended::Woken);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), ""));
    let lines = parsed(text(&output.stdout));
    let errors: Vec<&Value> = of_type(&lines, "peer_call").iter().map(|line| &line["error"]).collect();
    assert_eq!(errors, ["the reply was discarded: version 9"; 3]);
    described(&lines);
}

#[test]
fn ctrl_c_closes_the_connections_of_the_server() {
    let (at, from) = (address(), address());
    let Some(mut server) = Server::start(&["--bind", &at, "--socket", "udp"]) else { return };
    let arguments = [
        "peer",
        "call",
        "--socket",
        "udp",
        "--to",
        &at,
        "--from",
        &from,
        "--count",
        "2",
        "--interval",
        "60s",
    ];
    let client = start(&mut command(&arguments));
    // Wait until the first call was answered.
    let mut line = String::new();
    while !line.contains("peer_call") {
        line.clear();
        assert_ne!(
            server.stdout.as_mut().expect("it was not taken").read_line(&mut line).expect("it can be read"),
            0
        );
    }
    let lines = server.stop();
    let [closed] = of_type(&lines, "peer_connection")[..] else { panic!("{lines:?}") };
    assert_eq!(closed["state"], "closed");
    // One of two calls was made and answered: the client was notified, and does not wait for a
    // minute.
    let output = client.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
    assert!(text(&output.stdout).contains("closed the connection"), "{}", text(&output.stdout));
}

#[test]
fn missing_server_is_reported() {
    let (at, from) = (address(), address());
    let output = call(&["--to", &at, "--from", &from, "--timeout", "50ms"]);
    if text(&output.stderr).contains("is in use") {
        return eprintln!("SKIPPED: {}", text(&output.stderr));
    }
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(1), ""));
    assert!(text(&output.stdout).contains(&format!("{at} did not answer")), "{}", text(&output.stdout));
}

/// A missing feature of this host is reported in one line, with a remedy.
#[test]
fn unavailable_sockets_are_refused_with_a_remedy() {
    let refused = |wrapper: &[&str], arguments: &[&str], why: &str| {
        let wrapped = |program: &str| {
            let mut command = std::process::Command::new(wrapper[0]);
            command.args(&wrapper[1..]).arg(program);
            command
        };
        // Namespaces need root, and are not available in every container.
        if !wrapped("true").output().is_ok_and(|output| output.status.success()) {
            return eprintln!("SKIPPED: {wrapper:?} is not available");
        }
        let output = wrapped(env!("CARGO_BIN_EXE_rdmascope")).arg("peer").args(arguments).output();
        let output = output.expect("it can be started");
        let complaint = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{arguments:?}: {complaint}");
        assert!(complaint.contains(why) && complaint.lines().count() == 1, "{arguments:?}: {complaint}");
    };
    // A host without any network.
    let alone = ["unshare", "--net"];
    refused(&alone, &["call", "--to", "192.0.2.9"], "no route to 192.0.2.9: `ip route get 192.0.2.9`");
    refused(&alone, &["call", "--to", "2001:db8::9"], "no route to 2001:db8::9: `ip route get 2001:db8::9`");
    let section = ["inject", "--to", "192.0.2.9", "--section", "rfc8166/4.5.1"];
    refused(&alone, &section, "no route to 192.0.2.9: `ip route get 192.0.2.9`");
    refused(
        &alone,
        &["serve"],
        "add --bind ADDR, the address that clients connect to: this host has no address yet",
    );
    let without = ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-net_raw"];
    let (at, from) = (address(), address());
    let raw = ["call", "--to", &at, "--from", &from, "--socket", "raw"];
    refused(&without, &raw, "no permission for a raw socket");
    refused(&without, &["serve", "--bind", &at, "--socket", "raw"], "`setcap cap_net_raw+ep`");
}

#[test]
fn signals_end_the_server_with_a_summary() {
    for signal in ["-INT", "-TERM", "-HUP"] {
        let at = address();
        let Some(server) = Server::start(&["--bind", &at, "--socket", "udp"]) else { return };
        let lines = server.stop_by(signal);
        assert_eq!(of_type(&lines, "peer_end").len(), 1, "{signal}: {lines:?}");
    }
}

#[test]
fn server_is_confined_before_its_first_thread() {
    let at = address();
    let folder = folder();
    let saved = folder.path().join("saved.pcapng");
    let save = saved.to_str().expect("it is UTF-8");
    let arguments =
        ["--bind", &at, "--socket", "udp", "--export", "memory", "--mount-port", "0", "--save", save];
    let Some(server) = Server::start(&arguments) else { return };
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.child.id())).expect("it runs");
    let tasks: Vec<String> = tasks
        .map(|task| std::fs::read_to_string(task.expect("it runs").path().join("status")).expect("it runs"))
        .collect();
    assert!(tasks.len() > 2, "MOUNT and signals have threads of their own");
    for status in tasks {
        for line in ["CapPrm:\t0000000000000000\n", "CapEff:\t0000000000000000\n", "NoNewPrivs:\t1\n"] {
            assert!(status.contains(line), "{line}: {status}");
        }
        assert!(status.contains("Seccomp:\t2\n") || !status.contains("Seccomp:"), "{status}");
    }
    server.stop();
    assert!(saved.is_file());
}

#[test]
fn wrong_usage_is_refused() {
    let refused = |arguments: &[&str], why: &str| {
        let output = run(&[&["peer"], arguments].concat());
        let complaint = text(&output.stderr);
        assert_eq!((output.status.code(), text(&output.stdout)), (Some(2), ""), "{arguments:?}");
        assert!(complaint.contains(why), "{arguments:?}: {complaint}");
    };
    refused(&["call"], "--to");
    refused(&["call", "--to", "server.example"], "expected an IP address");
    refused(&["call", "--to", "server.example"], "`getent hosts NAME` prints the addresses of a name");
    refused(&["call", "--to", "fe80::2"], "use a global or unique local address");
    refused(&["call", "--to", "::2", "--from", "fe80::1"], "use a global or unique local address");
    refused(&["call", "--to", "fe80::2", "--from", "::1"], "use a global or unique local address");
    refused(&["serve", "--bind", "fe80::1"], "use a global or unique local address");
    for target in ["0.0.0.0", "255.255.255.255", "224.0.0.1", "::", "ff02::1"] {
        refused(&["call", "--to", target], "is not the address of one host");
        refused(&["serve", "--bind", target], "is not the address of one host");
    }
    refused(&["call", "--to", "127.0.0.2:port"], "expected an IP address");
    refused(&["call", "--to", "127.0.0.2", "--count", "0"], "0 is not in 1..");
    refused(&["call", "--to", "127.0.0.2", "--program", "nsf"], "nfs, mount");
    refused(&["call", "--to", "127.0.0.2", "--from", "::1"], "differ in IP version");
    refused(&["call", "--to", "127.0.0.1"], "set another local address with --from");
    refused(&["call", "--to", "127.0.0.2", "--timeout", "5"], "a unit");
    // No default: an address of this host is one that strangers may reach.
    refused(&["serve"], "add --bind ADDR, the address that clients connect to: this host has ");
    // RFC 5737: addresses of documentation.
    refused(&["serve", "--bind", "192.0.2.1"], "not an address of this host");
    refused(&["serve", "--bind", "server.example"], "invalid IP address");
    let at = address();
    let Some(server) = Server::start(&["--bind", &at, "--socket", "udp"]) else { return };
    refused(&["serve", "--bind", &at], "UDP port 4791");
    server.stop();
}
