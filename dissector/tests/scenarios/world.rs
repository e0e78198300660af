//! A scripted world: two hosts, reliable connections between them, and the capture of their
//! packets.

use crate::speech::private_data;
use rdmascope_dissector::connection::{Connection, KnownConnection};
use rdmascope_dissector::engine::{Config, Engine, Totals};
use rdmascope_dissector::event::{Event, Eviction};
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::record::{LinkType, Record, Time};
use rdmascope_dissector::transaction::Transaction;
use rdmascope_wire::bth::{Aeth, Bth, Deth, Extensions, Opcode, Reth, Syndrome};
use rdmascope_wire::cm::{self, CommunicationId, ServiceId, TransportServiceType};

use rdmascope_wire::psn::Psn;
use rdmascope_wire::rdma_cm_ip::{self, PortSpace};
use rdmascope_wire::rpcrdma::Segment;
use rdmascope_wire::{Qpn, Rkey, Xid, compose, icrc};
use std::net::Ipv4Addr;
use std::ops::Range;

/// The end that opens the connections.
pub(crate) const CLIENT: usize = 0;
/// The end that accepts them.
pub(crate) const SERVER: usize = 1;
/// The path MTU, small so that short messages have many packets.
pub(crate) const MTU: usize = 256;
/// Credits in every header.
pub(crate) const CREDITS: u32 = 32;

/// A captured frame.
#[derive(Clone)]
pub(crate) struct Frame {
    pub(crate) time: i64,
    pub(crate) data: Vec<u8>,
    /// The end that sent it.
    pub(crate) from: usize,
}

impl Frame {
    /// The record of the frame in a capture.
    pub(crate) fn record(&self, number: u64) -> Record<'_> {
        Record {
            number,
            time: Time(self.time),
            link: LinkType::ETHERNET,
            original_length: self.data.len() as u32,
            dropped: 0,
            tap: Default::default(),
            data: &self.data,
        }
    }

    /// A retransmission of the packet, with another Identification.
    pub(crate) fn sent_again(&self, time: i64) -> Frame {
        let [first, second] = [self.data[18] ^ 0x80, self.data[19]];
        self.numbered(u16::from_be_bytes([first, second]), time)
    }

    /// The packet with this Identification, captured at this time.
    pub(crate) fn numbered(&self, identification: u16, time: i64) -> Frame {
        let mut data = self.data.clone();
        data[18..20].copy_from_slice(&identification.to_be_bytes());
        let end = data.len() - icrc::LENGTH;
        let udp = data[34..42].try_into().expect("eight bytes");
        let icrc = icrc::roce_v2(&data[14..34], udp, &data[42..end]).expect("an IPv4 header without options");
        data[end..].copy_from_slice(&icrc.to_le_bytes());
        Frame { time, data, from: self.from }
    }
}

/// One end of a connection.
#[derive(Clone, Copy)]
pub(crate) struct End {
    pub(crate) address: Ipv4Addr,
    pub(crate) qpn: Qpn,
    /// The PSN of its next request.
    pub(crate) psn: Psn,
    pub(crate) communication_id: CommunicationId,
}

/// Two hosts, their connections, and the capture.
pub(crate) struct World {
    pub(crate) frames: Vec<Frame>,
    pub(crate) now: i64,
    /// The connections; new packets use the one at [`World::on`].
    pub(crate) connections: Vec<[End; 2]>,
    pub(crate) on: usize,
    /// Private data of REQ and REP.
    pub(crate) private_data: [Vec<u8>; 2],
    /// The service ID of the REQ.
    pub(crate) service: ServiceId,
    /// The IP addresses that the REQ names, if they differ from those of the packets.
    pub(crate) named: Option<[Ipv4Addr; 2]>,
}

/// The events of the engine for a capture.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) transactions: Vec<Transaction>,
    pub(crate) connections: Vec<Connection>,
    pub(crate) evictions: Vec<Eviction>,
    pub(crate) totals: Totals,
}

impl World {
    /// Two hosts with a connection whose setup is not captured.
    pub(crate) fn new() -> World {
        let mut world = World {
            frames: Vec::new(),
            now: 1_700_000_000_000_000_000,
            connections: Vec::new(),
            on: 0,
            private_data: [private_data(4096, 4096), private_data(4096, 4096)],
            service: ServiceId::rdma_cm(PortSpace::Tcp, 20049),
            named: None,
        };
        world.add([0x11, 0x22], [1_000, 500_000]);
        world
    }

    /// Two hosts with a connection whose setup is captured.
    pub(crate) fn connected() -> World {
        let mut world = World::new();
        world.connect();
        world
    }

    /// Adds a connection and selects it.
    pub(crate) fn add(&mut self, qpns: [u32; 2], psns: [u32; 2]) {
        self.on = self.connections.len();
        let end = |side: usize| End {
            address: Ipv4Addr::new(192, 0, 2, 1 + side as u8),
            qpn: Qpn(qpns[side]),
            psn: Psn::new(psns[side]),
            communication_id: CommunicationId(0x1000 * (self.on as u32 + 1) + side as u32),
        };
        self.connections.push([end(CLIENT), end(SERVER)]);
    }

    pub(crate) fn end(&mut self, side: usize) -> &mut End {
        &mut self.connections[self.on][side]
    }

    pub(crate) fn wait(&mut self, nanoseconds: i64) {
        self.now += nanoseconds;
    }

    /// REQ, REP, RTU.
    pub(crate) fn connect(&mut self) {
        self.req();
        self.rep();
        self.rtu();
    }

    pub(crate) fn req(&mut self) {
        let [client, server] = self.connections[self.on];
        let mut data = Vec::new();
        let [source, destination] = self.named.unwrap_or([client.address, server.address]);
        rdma_cm_ip::Header::ipv4(source, 700, destination).build(&mut data);
        data.extend_from_slice(&self.private_data[CLIENT]);
        self.cm(
            CLIENT,
            &cm::Message::Request(cm::Request {
                local_communication_id: client.communication_id,
                vendor_id: 0,
                service_id: self.service,
                local_ca_guid: 1,
                local_queue_key: 0,
                local_qpn: client.qpn,
                responder_resources: 4,
                local_eecn: 0,
                initiator_depth: 4,
                remote_eecn: 0,
                remote_cm_response_timeout: 20,
                transport_service_type: TransportServiceType::ReliableConnection,
                end_to_end_flow_control: false,
                // The PSN that the sender expects first.
                starting_psn: server.psn,
                local_cm_response_timeout: 20,
                retry_count: 7,
                partition_key: 0xffff,
                path_packet_payload_mtu: cm::mtu_encoding(MTU as u16).unwrap(),
                rdc_exists: false,
                rnr_retry_count: 7,
                max_cm_retries: 15,
                srq: false,
                extended_transport_type: 0,
                primary_path: None,
                alternate_path: None,
                sap_supported: false,
                private_data: &data,
            }),
        );
    }

    pub(crate) fn rep(&mut self) {
        let [client, server] = self.connections[self.on];
        let data = self.private_data[SERVER].clone();
        self.cm(
            SERVER,
            &cm::Message::Reply(cm::Reply {
                local_communication_id: server.communication_id,
                remote_communication_id: client.communication_id,
                local_queue_key: 0,
                local_qpn: server.qpn,
                local_eecn: 0,
                starting_psn: client.psn,
                vendor_id: 0,
                responder_resources: 4,
                initiator_depth: 4,
                target_ack_delay: 15,
                failover_accepted: 0,
                end_to_end_flow_control: false,
                rnr_retry_count: 7,
                srq: false,
                local_ca_guid: 2,
                private_data: &data,
            }),
        );
    }

    pub(crate) fn rtu(&mut self) {
        let [client, server] = self.connections[self.on];
        self.cm(
            CLIENT,
            &cm::Message::ReadyToUse(cm::ReadyToUse {
                local_communication_id: client.communication_id,
                remote_communication_id: server.communication_id,
                private_data: &[],
            }),
        );
    }

    pub(crate) fn rej(&mut self, reason: u16) {
        let client = self.connections[self.on][CLIENT];
        self.cm(
            SERVER,
            &cm::Message::Reject(cm::Reject {
                local_communication_id: CommunicationId(0),
                remote_communication_id: client.communication_id,
                message_rejected: cm::Rejected::Request,
                reject_info_length: 0,
                reason,
                additional_information: &[],
                private_data: &[],
            }),
        );
    }

    /// DREQ, DREP.
    pub(crate) fn disconnect(&mut self, from: usize) {
        let ends = self.connections[self.on];
        let (local, remote) = (ends[from], ends[1 - from]);
        self.cm(
            from,
            &cm::Message::DisconnectRequest(cm::DisconnectRequest {
                local_communication_id: local.communication_id,
                remote_communication_id: remote.communication_id,
                remote_qpn: remote.qpn,
                private_data: &[],
            }),
        );
        self.cm(
            1 - from,
            &cm::Message::DisconnectReply(cm::DisconnectReply {
                local_communication_id: remote.communication_id,
                remote_communication_id: local.communication_id,
                private_data: &[],
            }),
        );
    }

    pub(crate) fn cm(&mut self, from: usize, message: &cm::Message<'_>) {
        let mut mad = Vec::new();
        message.build(&message.header(1), &mut mad);
        let deth = Some(Deth { queue_key: 0x8001_0000, source_qp: Qpn(1) });
        let extensions = Extensions { deth, ..Extensions::default() };
        self.put(from, Opcode::UD_SEND_ONLY.0, Qpn(1), Psn::new(0), extensions, &mad);
    }

    /// One packet of the connection.
    pub(crate) fn packet(
        &mut self,
        from: usize,
        opcode: u8,
        psn: Psn,
        extensions: Extensions,
        payload: &[u8],
    ) {
        let qpn = self.connections[self.on][1 - from].qpn;
        self.put(from, opcode, qpn, psn, extensions, payload);
    }

    fn put(
        &mut self,
        from: usize,
        opcode: u8,
        destination_qp: Qpn,
        psn: Psn,
        extensions: Extensions,
        payload: &[u8],
    ) {
        let ends = self.connections[self.on];
        let ip = compose::Ipv4 {
            identification: (self.frames.len() as u16).wrapping_add(1),
            ..compose::Ipv4::new(ends[from].address, ends[1 - from].address)
        };
        let data = compose::Frame {
            ethernet: Some(compose::Ethernet {
                destination: [2, 0, 0, 0, 0, 2],
                source: [2, 0, 0, 0, 0, 1],
                vlan: None,
            }),
            carrier: compose::Carrier::Ipv4(ip, compose::Udp::from_port(50_000)),
            bth: Bth {
                opcode: Opcode(opcode),
                migration_request: true,
                partition_key: 0xffff,
                destination_qp,
                acknowledge_request: true,
                psn,
                ..Bth::default()
            },
            extensions,
            payload,
        }
        .to_vec()
        .unwrap();
        self.now += 1_000;
        self.frames.push(Frame { time: self.now, data, from });
    }

    /// A message of one operation, split by the path MTU. `opcodes` are First, Middle, Last, Only.
    fn split(
        &mut self,
        from: usize,
        opcodes: [u8; 4],
        first: Psn,
        data: &[u8],
        mut extensions: impl FnMut(bool, bool) -> Extensions,
    ) -> Range<usize> {
        let start = self.frames.len();
        let count = data.len().div_ceil(MTU).max(1);
        for index in 0..count {
            let payload = &data[index * MTU..data.len().min((index + 1) * MTU)];
            let (is_first, is_last) = (index == 0, index + 1 == count);
            let opcode = opcodes[match (is_first, is_last) {
                (true, true) => 3,
                (true, false) => 0,
                (false, false) => 1,
                (false, true) => 2,
            }];
            self.packet(from, opcode, first.plus(index as u32), extensions(is_first, is_last), payload);
        }
        start..self.frames.len()
    }

    /// SEND. Returns its frames.
    pub(crate) fn send(&mut self, from: usize, message: &[u8]) -> Range<usize> {
        let psn = self.advance(from, message.len());
        self.split(from, [0x00, 0x01, 0x02, 0x04], psn, message, |_, _| Extensions::default())
    }

    /// SEND with Invalidate.
    pub(crate) fn send_invalidate(&mut self, from: usize, message: &[u8], rkey: u32) -> Range<usize> {
        let psn = self.advance(from, message.len());
        self.split(from, [0x00, 0x01, 0x16, 0x17], psn, message, |_, last| Extensions {
            ieth: last.then_some(Rkey(rkey)),
            ..Extensions::default()
        })
    }

    /// RDMA WRITE of `data` to the start of `segment`.
    pub(crate) fn write(&mut self, from: usize, segment: Segment, data: &[u8]) -> Range<usize> {
        let psn = self.advance(from, data.len());
        let reth = reth(segment, data.len());
        self.split(from, [0x06, 0x07, 0x08, 0x0a], psn, data, |first, _| Extensions {
            reth: first.then_some(reth),
            ..Extensions::default()
        })
    }

    /// RDMA READ request for the first `length` bytes of `segment`. Returns its PSN.
    pub(crate) fn read_request(&mut self, from: usize, segment: Segment, length: usize) -> Psn {
        let psn = self.advance(from, length);
        self.ask_again(from, psn, segment, length);
        psn
    }

    /// An RDMA READ request with a PSN that was used before.
    pub(crate) fn ask_again(&mut self, from: usize, psn: Psn, segment: Segment, length: usize) {
        let reth = Some(reth(segment, length));
        self.packet(from, 0x0c, psn, Extensions { reth, ..Extensions::default() }, &[]);
    }

    /// RDMA READ responses of end `from`.
    pub(crate) fn read_response(&mut self, from: usize, psn: Psn, data: &[u8]) -> Range<usize> {
        self.split(from, [0x0d, 0x0e, 0x0f, 0x10], psn, data, |first, last| Extensions {
            aeth: (first || last).then_some(aeth(0x1f)),
            ..Extensions::default()
        })
    }

    /// A complete RDMA READ by end `from`. Returns the frames of the responses.
    pub(crate) fn read(&mut self, from: usize, segment: Segment, data: &[u8]) -> Range<usize> {
        let psn = self.read_request(from, segment, data.len());
        self.read_response(1 - from, psn, data)
    }

    /// An ACK from end `from` for everything that the other end sent.
    pub(crate) fn ack(&mut self, from: usize) {
        let psn = self.end(1 - from).psn.minus(1);
        self.respond(from, psn, 0x1f);
    }

    /// NAK: PSN sequence error at `psn`.
    pub(crate) fn nak(&mut self, from: usize, psn: Psn) {
        self.respond(from, psn, 0x60);
    }

    /// RNR NAK at `psn`.
    pub(crate) fn rnr_nak(&mut self, from: usize, psn: Psn) {
        self.respond(from, psn, 0x20 | 12);
    }

    fn respond(&mut self, from: usize, psn: Psn, syndrome: u8) {
        let aeth = Some(aeth(syndrome));
        self.packet(from, 0x11, psn, Extensions { aeth, ..Extensions::default() }, &[]);
    }

    /// Reserves the PSNs of a request of `length` bytes and returns the first.
    fn advance(&mut self, from: usize, length: usize) -> Psn {
        let end = self.end(from);
        let psn = end.psn;
        end.psn = psn.plus(length.div_ceil(MTU).max(1) as u32);
        psn
    }

    /// Retransmits frames at the end of the capture.
    pub(crate) fn again(&mut self, frames: Range<usize>) {
        for index in frames {
            self.now += 1_000;
            let frame = self.frames[index].sent_again(self.now);
            self.frames.push(frame);
        }
    }

    /// Runs the capture through the engine.
    pub(crate) fn run(&self) -> Report {
        run(&self.frames)
    }

    /// Runs the capture with all steps and contents kept.
    pub(crate) fn run_with_details(&self) -> Report {
        run_with(&self.frames, usize::MAX, EVERYTHING)
    }

    /// Runs the capture without these frames.
    pub(crate) fn run_without(&self, frames: impl IntoIterator<Item = usize>) -> Report {
        let lost: Vec<usize> = frames.into_iter().collect();
        let kept = self.frames.iter().enumerate().filter(|(index, _)| !lost.contains(index));
        run(&kept.map(|(_, frame)| frame.clone()).collect::<Vec<_>>())
    }

    /// Runs the capture with the packets of one end only.
    pub(crate) fn run_only(&self, from: usize) -> Report {
        run(&self.frames.iter().filter(|frame| frame.from == from).cloned().collect::<Vec<_>>())
    }
}

pub(crate) fn run(frames: &[Frame]) -> Report {
    run_cut(frames, usize::MAX)
}

/// Runs a capture with a snap length. Checks that keeping details does not change other results.
pub(crate) fn run_cut(frames: &[Frame], snap: usize) -> Report {
    let report = run_with(frames, snap, Keep::default());
    let mut kept = run_with(frames, snap, EVERYTHING);
    for transaction in &mut kept.transactions {
        assert!(transaction.exchange.take().is_some());
    }
    assert_eq!(format!("{:?}", report.transactions), format!("{:?}", kept.transactions));
    assert_eq!(format!("{:?}", report.connections), format!("{:?}", kept.connections));
    report
}

const EVERYTHING: Keep = Keep { steps: true, contents: true };

/// Runs a capture with a snap length, keeping the requested details.
pub(crate) fn run_with(frames: &[Frame], snap: usize, keep: Keep) -> Report {
    run_engine(Engine::new(Config { keep, ..Config::default() }), frames, &|_| snap)
}

/// Runs a capture for which a host's kernel reported these connections.
pub(crate) fn run_knowing(frames: &[Frame], known: &[KnownConnection]) -> Report {
    let mut engine = Engine::new(Config::default());
    known.iter().for_each(|known| engine.know(*known));
    run_engine(engine, frames, &|_| usize::MAX)
}

/// Runs a capture in which one frame is cut to this length.
pub(crate) fn run_cutting(frames: &[Frame], cut: usize, length: usize) -> Report {
    let snap = |index| if index == cut { length } else { usize::MAX };
    run_engine(Engine::new(Config::default()), frames, &snap)
}

fn run_engine(mut engine: Engine, frames: &[Frame], snap: &dyn Fn(usize) -> usize) -> Report {
    let (mut transactions, mut connections, mut evictions) = (Vec::new(), Vec::new(), Vec::new());
    let mut report = |event: Event<'_>| match event {
        Event::Transaction(transaction) => transactions.push(transaction.clone()),
        Event::Connection(connection) => connections.push(connection.clone()),
        Event::Eviction(eviction) => evictions.push(eviction),
        event => panic!("unexpected event {event:?}"),
    };
    for (index, frame) in frames.iter().enumerate() {
        let data = &frame.data[..frame.data.len().min(snap(index))];
        let record = Record { data, ..frame.record(index as u64 + 1) };
        engine.handle(&record, &mut report);
    }
    engine.finish(&mut report);
    let totals = *engine.totals();
    Report { transactions, connections, evictions, totals }
}

impl Report {
    /// The only transaction.
    #[track_caller]
    pub(crate) fn one(&self) -> &Transaction {
        assert_eq!(self.transactions.len(), 1, "{:#?}", self.transactions);
        &self.transactions[0]
    }

    /// The only transaction with this XID.
    #[track_caller]
    pub(crate) fn xid(&self, xid: u32) -> &Transaction {
        let mut found = self.transactions.iter().filter(|transaction| transaction.xid == Xid(xid));
        let first = found.next().expect("a transaction has this XID");
        assert!(found.next().is_none(), "only one transaction has this XID");
        first
    }
}

fn reth(segment: Segment, length: usize) -> Reth {
    Reth { virtual_address: segment.offset, rkey: segment.handle, dma_length: length as u32 }
}

fn aeth(syndrome: u8) -> Aeth {
    Aeth { syndrome: Syndrome(syndrome), message_sequence_number: 0 }
}
