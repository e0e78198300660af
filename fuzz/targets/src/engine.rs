//! Plausible sessions: the bytes select packets of a few connections, so that deep states are
//! reached.

use crate::bytes::Bytes;
use crate::judge::judge;
use core::net::Ipv4Addr;
use rdmascope_dissector::record::{LinkType, Record, Time};
use rdmascope_wire::bth::{Aeth, AtomicEth, Bth, Extensions, Opcode, Operation, Reth, Syndrome};
use rdmascope_wire::cm::{CommunicationId, Message, TransportServiceType};
use rdmascope_wire::psn::Psn;
use rdmascope_wire::rpc::{Auth, Call, Reply, Status};
use rdmascope_wire::rpcrdma::{Builder, Error, Procedure, ReadSegment, Segment};
use rdmascope_wire::{Qpn, Rkey, Xid, cm, compose, mad, rdma_cm_ip};

/// Reads the bytes as choices: every few bytes make a packet.
pub fn engine(data: &[u8]) {
    let frames = frames(data);
    judge((1..).zip(&frames).map(|(number, frame)| frame.record(number)));
}

/// The frames that the bytes select.
pub fn frames(data: &[u8]) -> Vec<Frame> {
    let mut session = Session { bytes: Bytes(data), time: 0, next: [[1000; 4]; 4], frames: Vec::new() };
    while !session.bytes.is_empty() && session.frames.len() < 4096 {
        session.packet();
    }
    session.frames
}

/// An Ethernet frame of a session.
#[derive(Clone, Debug)]
pub struct Frame {
    time: i64,
    data: Vec<u8>,
    /// Bytes removed by a snap length.
    cut: u32,
}

impl Frame {
    /// The record of the frame in a capture.
    pub fn record(&self, number: u64) -> Record<'_> {
        Record {
            number,
            time: Time(self.time),
            link: LinkType::ETHERNET,
            original_length: self.data.len() as u32 + self.cut,
            dropped: 0,
            tap: Default::default(),
            data: &self.data,
        }
    }
}

struct Session<'a> {
    bytes: Bytes<'a>,
    time: i64,
    /// The PSN after the last request, by way and connection.
    next: [[u32; 4]; 4],
    frames: Vec<Frame>,
}

/// Source and destination: two hosts, and a third that communicates with the first. A way and its
/// reverse are adjacent.
const WAYS: [(u8, u8); 4] = [(1, 2), (2, 1), (1, 3), (3, 1)];
/// Nanoseconds between packets.
const STEPS: [i64; 8] = [0, 1_000, 1_000, 100_000, 3_000_000, 600_000_000, 5_000_000_000, -1_000_000];
/// Lengths of payloads, of memory and of RDMA operations.
const LENGTHS: [u32; 8] = [0, 1, 4, 256, 600, 1024, 4096, u32::MAX];

impl Session<'_> {
    fn packet(&mut self) {
        let first = self.bytes.u8();
        let (way, connection) = (usize::from(first & 3), usize::from(first >> 2 & 3));
        self.time += STEPS[usize::from(first >> 5)];
        let kind = self.bytes.u8();
        match kind {
            0..=0xbf => self.reliable(way, connection, Opcode(kind % 0x18), first & 0x10 != 0),
            0xc0..=0xdf => self.send(way, connection, Opcode::RC_SEND_ONLY, 0, true),
            0xe0..=0xef => self.connection_management(way, connection, kind & 0x0f),
            0xf0..=0xf7 => {
                let opcode = Opcode(self.bytes.u8());
                self.reliable(way, connection, opcode, true);
            }
            0xf8..=0xfb => {
                let length = usize::from(self.bytes.u8());
                let data = self.bytes.take(length).to_vec();
                self.frames.push(Frame { time: self.time, data, cut: 0 });
            }
            _ => self.spoil(kind),
        }
    }

    /// Repeats a packet, truncates the last one, or breaks its ICRC.
    fn spoil(&mut self, how: u8) {
        let which = usize::from(self.bytes.u8());
        let Some(last) = self.frames.last_mut() else { return };
        match how & 3 {
            0 => {
                let keep = last.data.len().min(42 + which);
                last.cut += (last.data.len() - keep) as u32;
                last.data.truncate(keep);
            }
            1 => last.data.iter_mut().rev().take(1).for_each(|byte| *byte ^= 0xff),
            _ => {
                let again = &self.frames[self.frames.len().saturating_sub(1 + which % 32)];
                let again = Frame { time: self.time, data: again.data.clone(), cut: again.cut };
                self.frames.push(again);
            }
        }
    }

    /// A packet of a reliable connection, or of another transport with the same headers.
    fn reliable(&mut self, way: usize, connection: usize, opcode: Opcode, surprising: bool) {
        let delta = if surprising { i32::from(self.bytes.u8() as i8) } else { 0 };
        let Some(operation) = opcode.operation() else {
            let payload = self.payload();
            return self.push(way, connection, opcode, 0, Extensions::default(), &payload);
        };
        if operation.is_send() {
            return self.send(way, connection, opcode, delta, true);
        }
        let mut extensions = self.extensions(operation);
        let payload = match operation {
            Operation::ReadRequest | Operation::Acknowledge => Vec::new(),
            _ => self.payload(),
        };
        if operation.is_response() {
            // It answers a request of the other way, usually the last one.
            let psn = self.next[way ^ 1][connection].wrapping_add_signed(delta - 1);
            return self.push(way, connection, opcode, psn, extensions, &payload);
        }
        let mut packets = 1;
        if let Some(reth) = &mut extensions.reth {
            match operation {
                Operation::ReadRequest => packets = reth.dma_length.div_ceil(1024).clamp(1, 64),
                Operation::WriteOnly | Operation::WriteOnlyWithImmediate if !surprising => {
                    reth.dma_length = payload.len() as u32;
                }
                _ => {}
            }
        }
        let psn = self.advance(way, connection, delta, packets);
        self.push(way, connection, opcode, psn, extensions, &payload);
    }

    /// A SEND with an RPC-over-RDMA message, or with the middle of one.
    fn send(&mut self, way: usize, connection: usize, opcode: Opcode, delta: i32, advance: bool) {
        let operation = opcode.operation().unwrap_or(Operation::SendOnly);
        let extensions = self.extensions(operation);
        let begins = matches!(
            operation,
            Operation::SendFirst | Operation::SendOnly | Operation::SendOnlyWithInvalidate
        );
        let payload = if begins { self.message() } else { self.payload() };
        let psn = self.advance(way, connection, delta, u32::from(advance));
        self.push(way, connection, opcode, psn, extensions, &payload);
    }

    fn advance(&mut self, way: usize, connection: usize, delta: i32, packets: u32) -> u32 {
        let next = &mut self.next[way][connection];
        // One far jump represents the reuse of a queue pair.
        let delta = if delta == -128 { 1 << 20 } else { delta };
        let psn = next.wrapping_add_signed(delta);
        if delta >= 0 {
            *next = psn.wrapping_add(packets);
        }
        psn
    }

    fn extensions(&mut self, operation: Operation) -> Extensions {
        use Operation::*;
        let mut extensions = Extensions::default();
        match operation {
            WriteFirst | WriteOnly | ReadRequest | WriteOnlyWithImmediate => {
                let target = self.segment();
                let virtual_address = target.offset.wrapping_add(u64::from(self.bytes.u8()) * 64);
                extensions.reth =
                    Some(Reth { virtual_address, rkey: target.handle, dma_length: target.length });
            }
            CompareSwap | FetchAdd => {
                extensions.atomic_eth =
                    Some(AtomicEth { virtual_address: 0x1000, rkey: Rkey(1), swap_or_add: 1, compare: 0 });
            }
            ReadResponseFirst | ReadResponseLast | ReadResponseOnly | Acknowledge | AtomicAcknowledge => {
                let syndrome = Syndrome(self.bytes.choose(&[0, 0x1f, 0x20, 0x60, 0x62, 0x40]));
                extensions.aeth = Some(Aeth { syndrome, message_sequence_number: 1 });
            }
            SendLastWithInvalidate | SendOnlyWithInvalidate => extensions.ieth = Some(self.rkey()),
            _ => {}
        }
        if operation == AtomicAcknowledge {
            extensions.atomic_ack_eth = Some(0);
        }
        if matches!(
            operation,
            SendLastWithImmediate | SendOnlyWithImmediate | WriteLastWithImmediate | WriteOnlyWithImmediate
        ) {
            extensions.immediate = Some(0);
        }
        extensions
    }

    /// An RPC-over-RDMA message with chunks from a small range of memory, so that operations match
    /// them.
    fn message(&mut self) -> Vec<u8> {
        let (first, chunks) = (self.bytes.u8(), self.bytes.u8());
        let xid = Xid(u32::from(first >> 4 & 7));
        let procedure = match first & 7 {
            0..=2 => Procedure::Msg,
            3 | 4 => Procedure::Nomsg,
            5 => self.bytes.choose(&[Procedure::Done, Procedure::Msgp, Procedure::Unknown(9)]),
            6 => Procedure::Error,
            _ => return self.payload(),
        };
        let mut header = Builder::new(xid, 16, procedure);
        header.reads = (0..chunks & 3)
            .map(|_| {
                let position = self.bytes.choose(&[0, 0, 44, 100, 108, 148]);
                ReadSegment { position, target: self.segment() }
            })
            .collect();
        header.writes = (0..chunks >> 2 & 3).map(|_| self.chunk()).collect();
        header.reply = (chunks & 0x10 != 0).then(|| self.chunk());
        header.padding = (procedure == Procedure::Msgp).then_some((4, 1024));
        header.version = if chunks & 0xe0 == 0xe0 { 2 } else { 1 };
        header.error =
            Some(Error::Version { low: 1, high: 1 }).filter(|_| chunks & 1 == 0).or(Some(Error::Chunk));
        let mut out = Vec::new();
        header.build(&mut out);
        if matches!(procedure, Procedure::Msg | Procedure::Msgp) {
            self.rpc(xid, first & 0x08 != 0, &mut out);
        }
        out
    }

    fn rpc(&mut self, xid: Xid, is_reply: bool, out: &mut Vec<u8>) {
        let none = Auth { flavor: 0, body: &[] };
        if is_reply {
            let status = self.bytes.choose(&[Status::Success, Status::Success, Status::SystemError]);
            Reply { xid, status, verifier: Some(none) }.build(out);
        } else {
            let which = self.bytes.u8();
            let (program, version) =
                [(100_003, 3), (100_003, 4), (100_003, 4), (0x4000_0000, 1)][usize::from(which & 3)];
            let gss = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0];
            let credential = if which & 4 == 0 { none } else { Auth { flavor: 6, body: &gss } };
            let procedure = if version == 3 { u32::from(which >> 3) } else { 1 };
            Call { xid, rpc_version: 2, program, version, procedure, credential, verifier: none }.build(out);
        }
        out.extend(self.payload());
    }

    fn chunk(&mut self) -> Vec<Segment> {
        (0..self.bytes.u8() & 3).map(|_| self.segment()).collect()
    }

    fn segment(&mut self) -> Segment {
        let which = self.bytes.u8();
        Segment {
            handle: Rkey(u32::from(which & 3)),
            length: LENGTHS[usize::from(which >> 2 & 7)],
            offset: [0x1000, 0x1100, 0x2000, 0, u64::MAX - 0x7f, 0x1400, 0x1258, 0x1800]
                [usize::from(which >> 5)],
        }
    }

    fn rkey(&mut self) -> Rkey {
        Rkey(u32::from(self.bytes.u8() & 3))
    }

    /// Bytes of the input, or many zeros.
    fn payload(&mut self) -> Vec<u8> {
        match self.bytes.u8() {
            length @ 0..=0xef => self.bytes.take(usize::from(length)).to_vec(),
            long => vec![0; LENGTHS[usize::from(long % 7)] as usize],
        }
    }

    /// A CM message of one connection.
    fn connection_management(&mut self, way: usize, connection: usize, which: u8) {
        const ATTRIBUTES: [u16; 16] =
            [0x10, 0x13, 0x14, 0x15, 0x16, 0x12, 0x11, 0x10, 0x13, 0x10, 0x13, 0x17, 0x18, 0x19, 0x1a, 0x99];
        let mut zeros = Vec::new();
        mad::Header::communication_management(ATTRIBUTES[usize::from(which)], 1).build(&mut zeros);
        zeros.resize(mad::LENGTH, 0);
        let Ok((header, mut message)) = Message::parse(&zeros) else { return };
        let (from, to) = WAYS[way];
        let choices = self.bytes.u8();
        let id = |host: u8| CommunicationId(u32::from(host) << 8 | connection as u32);
        let psn = |way: usize| Psn::new(self.next[way][connection]);
        let mut consumer = Vec::new();
        rdma_cm_ip::Header::ipv4(host(from), 1000, host(to)).build(&mut consumer);
        consumer.extend([0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3]);
        match &mut message {
            Message::Request(request) => {
                request.local_communication_id = id(from);
                request.local_qpn = qpn(way ^ 1, connection);
                request.starting_psn = psn(way ^ 1);
                request.path_packet_payload_mtu = choices & 7;
                request.service_id = cm::ServiceId(if choices & 8 == 0 { 0x0106_4e51 } else { 0x0106_0001 });
                request.transport_service_type = TransportServiceType::ReliableConnection;
                request.private_data = if choices & 0x10 == 0 { &consumer } else { &[] };
            }
            Message::Reply(reply) => {
                reply.local_communication_id = id(from);
                reply.remote_communication_id = id(to);
                reply.local_qpn = qpn(way ^ 1, connection);
                reply.starting_psn = psn(way ^ 1);
                reply.private_data = if choices & 0x10 == 0 { &consumer[36..] } else { &[] };
            }
            Message::Reject(reject) => reject.remote_communication_id = id(to),
            Message::ReadyToUse(ready) => ready.remote_communication_id = id(to),
            Message::DisconnectRequest(request) => {
                request.local_communication_id = id(from);
                request.remote_communication_id = id(to);
                request.remote_qpn = qpn(way, connection);
            }
            Message::DisconnectReply(reply) => reply.remote_communication_id = id(to),
            _ => {}
        }
        let mut payload = Vec::new();
        message.build(&header, &mut payload);
        let deth = Some(rdmascope_wire::bth::Deth { queue_key: 0x8001_0000, source_qp: Qpn(1) });
        let extensions = Extensions { deth, ..Extensions::default() };
        let frame = frame(way, Qpn(1), Opcode::UD_SEND_ONLY, 0, &extensions, &payload);
        self.frames.push(Frame { time: self.time, data: frame, cut: 0 });
    }

    fn push(
        &mut self,
        way: usize,
        connection: usize,
        opcode: Opcode,
        psn: u32,
        extensions: Extensions,
        payload: &[u8],
    ) {
        let data = frame(way, qpn(way, connection), opcode, psn, &extensions, payload);
        self.frames.push(Frame { time: self.time, data, cut: 0 });
    }
}

/// The destination queue pair of packets of this way.
fn qpn(way: usize, connection: usize) -> Qpn {
    Qpn(0x100 * (way as u32 + 1) + connection as u32)
}

fn host(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, number)
}

/// A frame of this way, with correct values in all derived fields.
fn frame(
    way: usize,
    destination_qp: Qpn,
    opcode: Opcode,
    psn: u32,
    extensions: &Extensions,
    payload: &[u8],
) -> Vec<u8> {
    let (from, to) = WAYS[way];
    let station = |host: u8| [2, 0, 0, 0, 0, host];
    let ip = compose::Ipv4::new(host(from), host(to));
    let frame = compose::Frame {
        ethernet: Some(compose::Ethernet { destination: station(to), source: station(from), vlan: None }),
        carrier: compose::Carrier::Ipv4(ip, compose::Udp::default()),
        bth: Bth {
            opcode,
            migration_request: true,
            partition_key: 0xffff,
            destination_qp,
            acknowledge_request: true,
            psn: Psn::new(psn),
            ..Bth::default()
        },
        extensions: *extensions,
        payload,
    };
    frame.to_vec().expect("no payload is longer than a packet can be")
}
