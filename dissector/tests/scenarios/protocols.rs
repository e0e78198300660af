//! Protocols other than NFS over RDMA: named, counted by operation, and not mistaken for NFS.

use crate::report::*;
use rdmascope_dissector::protocol::Protocol;
use rdmascope_testkit::messages::*;
use rdmascope_testkit::world::*;
use rdmascope_wire::cm::{self, ServiceId};
use rdmascope_wire::mad::ManagementClass;
use rdmascope_wire::rdma_cm_ip::PortSpace;

/// Memory that no RPC-over-RDMA header advertises.
const MEMORY: (u32, u64) = (0x1234, 0x7000);

/// A Send, an RDMA Write of four packets, an RDMA Read.
fn operations(world: &mut World, message: &[u8]) {
    let (handle, offset) = MEMORY;
    world.send(CLIENT, message);
    world.ack(SERVER);
    world.write(SERVER, segment(handle, 1000, offset), &data(1000));
    world.ack(CLIENT);
    world.read(SERVER, segment(handle, 100, offset), &data(100));
    world.send(SERVER, message);
    world.ack(CLIENT);
}

#[test]
fn service_id_of_req_identifies_protocol() {
    for (service, protocol) in [
        (ServiceId::rdma_cm(PortSpace::Tcp, 445), Protocol::SmbDirect),
        (ServiceId::rdma_cm(PortSpace::Tcp, 4420), Protocol::NvmeOf),
        (ServiceId::rdma_cm(PortSpace::Tcp, 3260), Protocol::Iser),
        (ServiceId::rdma_cm(PortSpace::Tcp, 18515), Protocol::Perftest),
        (ServiceId(0x1000_0000_0000_004a), Protocol::IpoibCm),
    ] {
        let mut world = World::new();
        world.service = service;
        world.private_data = [Vec::new(), Vec::new()];
        world.connect();
        // The bytes look like an RPC call, but the port belongs to another protocol.
        operations(&mut world, &getattr(1).0);
        let report = world.run();
        let [connection] = &report.connections[..] else { panic!("one connection: {report:?}") };
        assert_eq!(connection.protocol, Some(protocol));
        assert_eq!((connection.call_inline_threshold, connection.reply_inline_threshold), (None, None));
        assert!(report.transactions.is_empty());
        let (client, server) = (&connection.requester.sent, &connection.responder.sent);
        assert_eq!((client.sends, server.sends, server.writes, server.read_requests), (1, 1, 1, 1));
        assert_eq!((client.unmatched_placements, server.unmatched_placements), (0, 0));
    }
}

/// CONFIRM LINK of SMC-R (RFC 7609, appendix A.3), on queue pairs without CM messages.
#[test]
fn first_send_identifies_protocol() {
    let mut message = vec![0; 44];
    (message[0], message[1]) = (1, 44);
    let mut world = World::new();
    operations(&mut world, &message);
    let report = world.run();
    assert!(!report.connections.is_empty() && report.transactions.is_empty());
    for connection in &report.connections {
        assert_eq!(connection.protocol, Some(Protocol::SmcR));
        assert_eq!(connection.requester.sent.unmatched_placements, 0);
        assert_eq!(connection.responder.sent.unmatched_placements, 0);
    }
}

/// A port without a name and unknown Sends: no property of RPC is reported.
#[test]
fn unknown_protocol_is_foreign() {
    let mut world = World::new();
    world.service = ServiceId::rdma_cm(PortSpace::Tcp, 7777);
    world.private_data = [Vec::new(), Vec::new()];
    world.connect();
    operations(&mut world, b"hello, this is no RPC message");
    let report = world.run();
    let connection = &report.connections[0];
    assert_eq!((connection.protocol, connection.call_inline_threshold), (None, None));
    assert_eq!(connection.responder.sent.unmatched_placements, 0);
    assert!(connection.is_foreign);
}

/// NFS on the same ports is recognized by its private data or its port, and its unmatched
/// operations are counted.
#[test]
fn nfs_is_recognized_on_any_port() {
    for port in [20049, 4420] {
        let mut world = World::new();
        world.service = ServiceId::rdma_cm(PortSpace::Tcp, port);
        world.connect();
        let (call, answer) = getattr(1);
        world.send(CLIENT, &call);
        world.write(SERVER, segment(MEMORY.0, 100, MEMORY.1), &data(100));
        world.send(SERVER, &answer);
        world.ack(CLIENT);
        let report = world.run();
        let connection = &report.connections[0];
        assert_eq!((connection.protocol, connection.call_inline_threshold), (None, Some(4096)));
        assert_eq!(connection.responder.sent.unmatched_placements, 1);
        assert_eq!(report.transactions.len(), 1);
    }
}

/// Queries of subnet administration, class 3, use the queue pair of CM messages (IBTA volume 1,
/// section 13.4.4).
#[test]
fn subnet_administration_is_not_cm() {
    let mut world = World::new();
    let query = cm::Message::Unknown {
        management_class: ManagementClass::SUBNET_ADMINISTRATION,
        // PathRecord.
        attribute: 0x0035,
        data: &[0; 232],
    };
    world.cm(CLIENT, &query);
    world.connect();
    let report = world.run();
    assert_eq!((report.totals.cm_messages, report.totals.other_transports), (3, 1));
}

/// A connection is not called foreign if the capture cut its Sends before the end of the shortest
/// header, or if the CM exchange identifies it as RPC-over-RDMA.
#[test]
fn possible_rpc_over_rdma_is_not_foreign() {
    let other = b"hello, this is no RPC message";
    let mut world = World::new();
    operations(&mut world, other);
    assert!(world.run().connections[0].is_foreign);
    assert!(!run_cut(&world.frames, 66).connections[0].is_foreign, "each Send is cut to 12 bytes");
    let mut world = World::connected();
    operations(&mut world, other);
    assert!(!world.run().connections[0].is_foreign, "the private data identifies RPC-over-RDMA");
}
