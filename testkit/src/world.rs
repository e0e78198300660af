//! A scripted world: two hosts, reliable connections between them, and the capture of their
//! packets.

use crate::messages::{getattr, private_data};
use rdmascope_wire::bth::{Aeth, Bth, Deth, Extensions, Opcode, Reth, Syndrome};
use rdmascope_wire::cm::{self, CommunicationId, ServiceId, TransportServiceType};
use rdmascope_wire::psn::Psn;
use rdmascope_wire::rdma_cm_ip::{self, PortSpace};
use rdmascope_wire::rpcrdma::Segment;
use rdmascope_wire::{Qpn, Rkey, compose, icrc};
use std::net::Ipv4Addr;
use std::ops::Range;

/// The end that opens the connections.
pub const CLIENT: usize = 0;
/// The end that accepts them.
pub const SERVER: usize = 1;
/// The path MTU, small so that short messages have many packets.
pub const MTU: usize = 256;
/// Credits in every header.
pub const CREDITS: u32 = 32;

/// A captured frame.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Nanoseconds since 1970.
    pub time: i64,
    /// From the Ethernet header to the ICRC.
    pub data: Vec<u8>,
    /// The end that sent it.
    pub from: usize,
}

impl Frame {
    /// A retransmission of the packet, with another Identification.
    pub fn sent_again(&self, time: i64) -> Frame {
        let [first, second] = [self.data[18] ^ 0x80, self.data[19]];
        self.numbered(u16::from_be_bytes([first, second]), time)
    }

    /// The packet with this Identification, captured at this time.
    ///
    /// # Panics
    /// If the frame is shorter than its headers.
    pub fn numbered(&self, identification: u16, time: i64) -> Frame {
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
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// The address of its host.
    pub address: Ipv4Addr,
    /// The number of its queue pair.
    pub qpn: Qpn,
    /// The PSN of its next request.
    pub psn: Psn,
    /// Its local communication ID.
    pub communication_id: CommunicationId,
}

/// Two hosts, their connections, and the capture.
#[derive(Clone, Debug)]
pub struct World {
    /// The capture.
    pub frames: Vec<Frame>,
    /// The time of the last frame, in nanoseconds since 1970.
    pub now: i64,
    /// The connections.
    pub connections: Vec<[End; 2]>,
    /// The index of the connection that new packets use.
    pub on: usize,
    /// Private data of REQ and REP.
    pub private_data: [Vec<u8>; 2],
    /// The service ID of the REQ.
    pub service: ServiceId,
    /// The IP addresses that the REQ names, if they differ from those of the packets.
    pub named: Option<[Ipv4Addr; 2]>,
}

impl Default for World {
    fn default() -> World {
        World::new()
    }
}

impl World {
    /// Two hosts with a connection whose setup is not captured.
    pub fn new() -> World {
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
    pub fn connected() -> World {
        let mut world = World::new();
        world.connect();
        world
    }

    /// Adds a connection and selects it.
    pub fn add(&mut self, qpns: [u32; 2], psns: [u32; 2]) {
        self.on = self.connections.len();
        let end = |side: usize| End {
            address: Ipv4Addr::new(192, 0, 2, 1 + side as u8),
            qpn: Qpn(qpns[side]),
            psn: Psn::new(psns[side]),
            communication_id: CommunicationId(0x1000 * (self.on as u32 + 1) + side as u32),
        };
        self.connections.push([end(CLIENT), end(SERVER)]);
    }

    /// One end of the selected connection.
    pub fn end(&mut self, side: usize) -> &mut End {
        &mut self.connections[self.on][side]
    }

    /// Lets time pass before the next frame.
    pub fn wait(&mut self, nanoseconds: i64) {
        self.now += nanoseconds;
    }

    /// REQ, REP, RTU.
    pub fn connect(&mut self) {
        self.req();
        self.rep();
        self.rtu();
    }

    /// A REQ of the client.
    pub fn req(&mut self) {
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

    /// The REP of the server.
    pub fn rep(&mut self) {
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

    /// The RTU of the client.
    pub fn rtu(&mut self) {
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

    /// A REJ of the server instead of a REP.
    pub fn rej(&mut self, reason: u16) {
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
    pub fn disconnect(&mut self, from: usize) {
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

    /// A CM message in a UD SEND Only between the QPs 1.
    pub fn cm(&mut self, from: usize, message: &cm::Message<'_>) {
        let mut mad = Vec::new();
        message.build(&message.header(1), &mut mad);
        let deth = Some(Deth { queue_key: 0x8001_0000, source_qp: Qpn(1) });
        let extensions = Extensions { deth, ..Extensions::default() };
        self.put(from, Opcode::UD_SEND_ONLY.0, Qpn(1), Psn::new(0), extensions, &mad);
    }

    /// One packet of the connection.
    pub fn packet(&mut self, from: usize, opcode: u8, psn: Psn, extensions: Extensions, payload: &[u8]) {
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
        let bth = Bth {
            opcode: Opcode(opcode),
            migration_request: true,
            partition_key: 0xffff,
            destination_qp,
            acknowledge_request: true,
            psn,
            ..Bth::default()
        };
        let data = ethernet_frame(ip, bth, extensions, payload);
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
    pub fn send(&mut self, from: usize, message: &[u8]) -> Range<usize> {
        let psn = self.advance(from, message.len());
        self.split(from, [0x00, 0x01, 0x02, 0x04], psn, message, |_, _| Extensions::default())
    }

    /// GETATTR of NFS version 3: a call and its reply, both acknowledged.
    pub fn getattr(&mut self, xid: u32) {
        let (call, reply) = getattr(xid);
        self.send(CLIENT, &call);
        self.ack(SERVER);
        self.send(SERVER, &reply);
        self.ack(CLIENT);
    }

    /// The same without ACKs.
    pub fn getattr_without_acks(&mut self, xid: u32) {
        let (call, reply) = getattr(xid);
        self.send(CLIENT, &call);
        self.send(SERVER, &reply);
    }

    /// SEND with Invalidate.
    pub fn send_invalidate(&mut self, from: usize, message: &[u8], rkey: u32) -> Range<usize> {
        let psn = self.advance(from, message.len());
        self.split(from, [0x00, 0x01, 0x16, 0x17], psn, message, |_, last| Extensions {
            ieth: last.then_some(Rkey(rkey)),
            ..Extensions::default()
        })
    }

    /// RDMA WRITE of `data` to the start of `segment`.
    pub fn write(&mut self, from: usize, segment: Segment, data: &[u8]) -> Range<usize> {
        let psn = self.advance(from, data.len());
        let reth = reth(segment, data.len());
        self.split(from, [0x06, 0x07, 0x08, 0x0a], psn, data, |first, _| Extensions {
            reth: first.then_some(reth),
            ..Extensions::default()
        })
    }

    /// RDMA READ request for the first `length` bytes of `segment`. Returns its PSN.
    pub fn read_request(&mut self, from: usize, segment: Segment, length: usize) -> Psn {
        let psn = self.advance(from, length);
        self.ask_again(from, psn, segment, length);
        psn
    }

    /// An RDMA READ request with a PSN that was used before.
    pub fn ask_again(&mut self, from: usize, psn: Psn, segment: Segment, length: usize) {
        let reth = Some(reth(segment, length));
        self.packet(from, 0x0c, psn, Extensions { reth, ..Extensions::default() }, &[]);
    }

    /// RDMA READ responses of end `from`.
    pub fn read_response(&mut self, from: usize, psn: Psn, data: &[u8]) -> Range<usize> {
        self.split(from, [0x0d, 0x0e, 0x0f, 0x10], psn, data, |first, last| Extensions {
            aeth: (first || last).then_some(aeth(0x1f)),
            ..Extensions::default()
        })
    }

    /// A complete RDMA READ by end `from`. Returns the frames of the responses.
    pub fn read(&mut self, from: usize, segment: Segment, data: &[u8]) -> Range<usize> {
        let psn = self.read_request(from, segment, data.len());
        self.read_response(1 - from, psn, data)
    }

    /// An ACK from end `from` for everything that the other end sent.
    pub fn ack(&mut self, from: usize) {
        let psn = self.end(1 - from).psn.minus(1);
        self.respond(from, psn, 0x1f);
    }

    /// NAK: PSN sequence error at `psn`.
    pub fn nak(&mut self, from: usize, psn: Psn) {
        self.respond(from, psn, 0x60);
    }

    /// RNR NAK at `psn`.
    pub fn rnr_nak(&mut self, from: usize, psn: Psn) {
        self.respond(from, psn, 0x20 | 12);
    }

    /// An Acknowledge at `psn` with this syndrome.
    pub fn respond(&mut self, from: usize, psn: Psn, syndrome: u8) {
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
    pub fn again(&mut self, frames: Range<usize>) {
        for index in frames {
            self.now += 1_000;
            let frame = self.frames[index].sent_again(self.now);
            self.frames.push(frame);
        }
    }
}

/// An Ethernet frame with a RoCEv2 packet.
///
/// # Panics
/// If the payload does not fit a packet.
pub fn ethernet_frame(ip: compose::Ipv4, bth: Bth, extensions: Extensions, payload: &[u8]) -> Vec<u8> {
    let ethernet =
        compose::Ethernet { destination: [2, 0, 0, 0, 0, 2], source: [2, 0, 0, 0, 0, 1], vlan: None };
    let carrier = compose::Carrier::Ipv4(ip, compose::Udp::from_port(50_000));
    let frame = compose::Frame { ethernet: Some(ethernet), carrier, bth, extensions, payload };
    frame.to_vec().expect("it fits a packet")
}

fn reth(segment: Segment, length: usize) -> Reth {
    Reth { virtual_address: segment.offset, rkey: segment.handle, dma_length: length as u32 }
}

fn aeth(syndrome: u8) -> Aeth {
    Aeth { syndrome: Syndrome(syndrome), message_sequence_number: 0 }
}
