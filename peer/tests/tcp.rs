//! MOUNT and the port mapper on TCP of this host.

#![cfg(all(feature = "std", target_os = "linux"))]

use rdmascope_peer::nfs3::mount::{MOST_MESSAGE, MountError, MountStatus, Services, marked};
use rdmascope_peer::nfs3::{Caller, Export, Handle, Limits, Time};
use rdmascope_peer::tcp::{Error, MOST_CONNECTIONS, Server, root};
use rdmascope_wire::Xid;
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const PATIENCE: Duration = Duration::from_secs(20);

fn server() -> (Server, Handle) {
    let listener = TcpListener::bind((HERE, 0)).unwrap();
    let handle = Export::new(Limits::default(), 9, Time::default()).root();
    let mount_port = listener.local_addr().unwrap().port();
    let services =
        Services { path: b"/e".to_vec(), root: handle.clone(), address: HERE, mount_port, nfs_port: 20049 };
    (Server::start(listener, services).unwrap(), handle)
}

#[test]
fn mount_returns_the_root_handle() {
    let (server, handle) = server();
    let (port, mut caller) = (server.address().port(), Caller::new(Xid(1), 0, 0));
    let mut mount = |path: &[u8]| root(HERE, Some(port), path, (&mut caller, PATIENCE));
    assert_eq!(mount(b"/e").unwrap(), handle);
    let refused = mount(b"/other").unwrap_err();
    assert!(
        matches!(refused, Error::Mount { reason: MountError::Status(MountStatus::NoEnt), .. }),
        "{refused}"
    );
    drop(server);
    assert!(matches!(mount(b"/e").unwrap_err(), Error::Io { .. }));
}

#[test]
fn oversized_record_closes_only_its_connection() {
    let (server, _) = server();
    let mut wrong = TcpStream::connect(server.address()).unwrap();
    wrong.set_read_timeout(Some(PATIENCE)).unwrap();
    wrong.write_all(&(MOST_MESSAGE as u32 + 1).to_be_bytes()).unwrap();
    assert_eq!(wrong.read(&mut [0; 4]).unwrap(), 0);
    let mut right = TcpStream::connect(server.address()).unwrap();
    right.set_read_timeout(Some(PATIENCE)).unwrap();
    // No RPC header: no reply. Then a call in two pieces, followed by another call.
    right.write_all(&marked(b"nothing")).unwrap();
    let (xid, call) = Caller::new(Xid(5), 0, 0).mount(b"/e");
    let stream = [marked(&call), marked(&call)].concat();
    right.write_all(&stream[..10]).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    right.write_all(&stream[10..]).unwrap();
    for _ in 0..2 {
        let mut front = [0; 8];
        right.read_exact(&mut front).unwrap();
        assert_eq!(front[4..], xid.0.to_be_bytes());
        let length = u32::from_be_bytes(front[..4].try_into().unwrap()) & 0x7fff_ffff;
        right.read_exact(&mut vec![0; length as usize - 4]).unwrap();
    }
}

#[test]
fn connections_are_bounded() {
    let (server, _) = server();
    let open: Vec<TcpStream> =
        (0..MOST_CONNECTIONS).map(|_| TcpStream::connect(server.address()).unwrap()).collect();
    let mut beyond = TcpStream::connect(server.address()).unwrap();
    beyond.set_read_timeout(Some(PATIENCE)).unwrap();
    match beyond.read(&mut [0; 1]) {
        Ok(0) => {}
        Err(error) => assert_eq!(error.kind(), ErrorKind::ConnectionReset),
        Ok(_) => panic!("unsolicited bytes"),
    }
    drop(open);
}
