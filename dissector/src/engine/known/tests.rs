use super::*;
use crate::connection::KnownEnd;
use crate::frame::Address;
use core::net::Ipv4Addr;
use rdmascope_wire::Qpn;

/// The connection between two queue pairs with this number.
fn connection(number: u32) -> KnownConnection {
    let end =
        |host: u32| KnownEnd { address: Address::V4(Ipv4Addr::from(host)), qpn: Qpn(number), next_psn: None };
    let (local, remote) = (end(1), end(2));
    KnownConnection {
        local,
        remote,
        local_is_requester: None,
        port: None,
        speaks_rpc: true,
        is_snooped: false,
    }
}

/// 65,536 connections are kept, each under both of its half-flows. Further ones are only counted.
#[test]
fn known_connections_are_bounded() {
    let mut known = KnownConnections::default();
    let most = KnownConnections::MOST as u32;
    (0..=most).for_each(|number| known.add(connection(number)));
    assert_eq!(known.hint, u64::from(most) + 1);
    let flow = |number| Hint { connection: connection(number), from_local: false }.flow();
    assert_eq!(known.take(&flow(most)), None, "the table is full");
    for number in [most - 1, 0] {
        assert_eq!(known.take(&flow(number)).map(|hint| hint.connection), Some(connection(number)));
        assert_eq!(known.take(&flow(number)), None, "already removed");
    }
    // A removed entry makes room.
    known.add(connection(most));
    assert!(known.take(&flow(most)).is_some());
}
