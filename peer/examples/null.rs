//! Connects to an NFS/RDMA server, calls NULL of NFSv3 and prints the status of the reply. It needs
//! no RDMA device and no privileges:
//! `cargo run -p rdmascope-peer --example null -- 192.0.2.2`

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this example runs on Linux");
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let to = std::env::args().nth(1).ok_or("usage: null ADDRESS")?.parse()?;
    let local = rdmascope_peer::driver::route(to)?;
    println!("{}", linux::null(local, to)?);
    Ok(())
}

#[cfg(target_os = "linux")]
pub(crate) mod linux {
    use core::time::Duration;
    use rdmascope_peer::driver::{Driver, Error, Kind, Reach};
    use rdmascope_peer::peer::{Config, Event, Peer};
    use rdmascope_peer::rpcrdma::{self, Call};
    use rdmascope_peer::{cm, endpoint};
    use rdmascope_wire::rpc::{self, program};
    use rdmascope_wire::xdr::Reader;
    use rdmascope_wire::{Layer, Xid};
    use std::net::IpAddr;

    /// Calls NULL and returns the status of the reply, or the reason why none came.
    pub(crate) fn null(local: IpAddr, to: IpAddr) -> Result<String, Error> {
        // It sends to this address only.
        let mut driver = Driver::open(Kind::Udp, &[local], Reach::Only(vec![to]))?;
        // A program that other parties can attack uses a random seed.
        let mut peer = Peer::new(Config::default(), 1);
        let Ok(connection) = peer.connect(local, to, 20049) else { return Ok("not connected".to_owned()) };
        let mut result = "no reply within 5 s".to_owned();
        let until = driver.now().plus(Duration::from_secs(5));
        driver.run(&mut peer, Some(until), |peer, _| {
            while let Some(event) = peer.poll_event() {
                match event {
                    Event::Endpoint(endpoint::Event::Connected { .. }) => {
                        let call = Call { message: message(), ..Call::default() };
                        if let Err(error) = peer.call(connection, call) {
                            result = format!("not called: {error:?}");
                            return true;
                        }
                    }
                    Event::Rpc { event: rpcrdma::Event::Replied(reply), .. } => {
                        result = status(&reply.message);
                        // The server may have ended the connection already.
                        let _ = peer.disconnect(connection);
                    }
                    Event::Endpoint(endpoint::Event::Closed { why, .. }) => {
                        if why != cm::Closed::Local {
                            result = format!("closed: {why:?}");
                        }
                        return true;
                    }
                    _ => {}
                }
            }
            false
        })?;
        Ok(result)
    }

    fn message() -> Vec<u8> {
        let mut message = Vec::new();
        rpc::Call::null(Xid(1), program::NFS, 3).build(&mut message);
        message
    }

    fn status(reply: &[u8]) -> String {
        match rpc::Reply::parse(&mut Reader::new(reply, Layer::Rpc)) {
            Ok(reply) => format!("NULL: {}", reply.status),
            Err(stop) => format!("not an RPC reply: {stop}"),
        }
    }
}
