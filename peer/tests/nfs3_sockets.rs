//! A client that asks MOUNT on TCP for the root handle, and works on the export over sockets of
//! this host.
#![cfg(all(feature = "std", target_os = "linux"))]

use core::time::Duration;
use md5::{Digest, Md5};
use rdmascope_peer::driver::{Driver, Ended, Error, Kind, Reach};
use rdmascope_peer::endpoint;
use rdmascope_peer::nfs3::mount::Services;
use rdmascope_peer::nfs3::{Caller, Export, Job, Limits, Outcome, Task, Time};
use rdmascope_peer::peer::{Config, Event, Peer};
use rdmascope_peer::rpcrdma;
use rdmascope_peer::tcp::{self, Server};
use rdmascope_wire::Xid;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::thread;

const PORT: u16 = 20049;
const PATIENCE: Duration = Duration::from_secs(60);

/// Addresses that no test of another process uses.
fn addresses() -> [IpAddr; 2] {
    let [.., high, low] = std::process::id().to_be_bytes();
    [90, 91].map(|third| Ipv4Addr::new(127, third, high, low.clamp(1, 254)).into())
}

fn open(local: IpAddr, reach: Reach) -> Option<Driver> {
    match Driver::open(Kind::Udp, &[local], reach) {
        Ok(driver) => Some(driver),
        Err(error @ (Error::NotPermitted { .. } | Error::PortTaken { .. } | Error::NotLocal { .. })) => {
            eprintln!("SKIPPED: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Answers calls until the connection is closed.
fn serve(mut driver: Driver, mut export: Export) -> Export {
    let mut peer = Peer::new(Config::default(), 1);
    peer.listen(PORT);
    let until = driver.now().plus(PATIENCE);
    let ended = driver.run(&mut peer, Some(until), |peer, _| {
        while let Some(event) = peer.poll_event() {
            match event {
                Event::Rpc { connection, event: rpcrdma::Event::Called(called) } => {
                    let answer = export.call(&called.message, Time::default()).unwrap();
                    peer.reply(connection, called.xid, answer.into()).unwrap();
                }
                Event::Endpoint(endpoint::Event::Closed { .. }) => return true,
                _ => {}
            }
        }
        false
    });
    assert_eq!(ended.unwrap(), Ended::Done);
    export
}

/// Connects, runs the jobs, and disconnects.
fn work(mut driver: Driver, [local, to]: [IpAddr; 2], mount_port: u16, mut jobs: Vec<Job>) -> Vec<Outcome> {
    let mut caller = Caller::new(Xid(0x5151), 1000, 1000);
    let root = tcp::root(to, Some(mount_port), b"/export", (&mut caller, PATIENCE)).unwrap();
    let mut peer = Peer::new(Config::default(), 2);
    let connection = peer.connect(local, to, PORT).unwrap();
    let until = driver.now().plus(PATIENCE);
    let (mut outcomes, mut task): (Vec<Outcome>, Option<Task>) = (Vec::new(), None);
    let mut connected = false;
    let ended = driver.run(&mut peer, Some(until), |peer, _| {
        while let Some(event) = peer.poll_event() {
            match event {
                Event::Endpoint(endpoint::Event::Connected { .. }) => connected = true,
                Event::Endpoint(endpoint::Event::Closed { .. }) => return true,
                Event::Rpc { event, .. } => task.iter_mut().for_each(|task| task.handle(&event)),
                _ => {}
            }
        }
        if let Some(done) = task.take_if(|task| task.outcome().is_some()) {
            outcomes.push(done.finish().unwrap().0.unwrap());
            if jobs.is_empty() {
                peer.disconnect(connection).unwrap();
            }
        }
        if connected && task.is_none() && !jobs.is_empty() {
            // The XIDs of the tasks differ.
            let caller = Caller::new(Xid(jobs.len() as u32 * 0x1_0000), 1000, 1000);
            task = Some(Task::new(caller, root.clone(), jobs.remove(0), 100_000));
        }
        if let Some(call) = task.as_mut().and_then(Task::poll) {
            peer.call(connection, call).unwrap();
        }
        false
    });
    assert_eq!(ended.unwrap(), Ended::Done);
    outcomes
}

#[test]
fn file_round_trips_over_sockets() {
    let [local, to] = addresses();
    let Some(server) = open(to, Reach::Senders) else { return };
    let Some(client) = open(local, Reach::Only(vec![to])) else { return };
    let export = Export::new(Limits::default(), 77, Time::default());
    let listener = TcpListener::bind((to, 0)).unwrap();
    let mount_port = listener.local_addr().unwrap().port();
    let root = export.root();
    let services = Services { path: b"/export".to_vec(), root, address: to, mount_port, nfs_port: PORT };
    let _mount = Server::start(listener, services).unwrap();
    let bytes: Vec<u8> = (0..1u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    let path = b"big".to_vec();
    let jobs = vec![
        Job::Write { path: path.clone(), bytes: bytes.clone() },
        Job::Read { path: path.clone() },
        Job::List { path: vec![] },
    ];
    let (export, outcomes) = thread::scope(|scope| {
        let serving = scope.spawn(|| serve(server, export));
        let outcomes = work(client, [local, to], mount_port, jobs);
        (serving.join().unwrap(), outcomes)
    });
    let digest = Md5::digest(&bytes);
    assert_eq!(Md5::digest(export.bytes(&path).unwrap()), digest);
    let [Outcome::Written, Outcome::Read(read), Outcome::Listed(names)] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!(Md5::digest(read), digest);
    assert_eq!(names.last().unwrap().name, path);
}
