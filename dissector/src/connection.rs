//! Connections as the engine reports them: plain data.

mod contexts;
mod host_pairs;

pub use contexts::{Contexts, Networks};
pub use host_pairs::HostPairs;

use crate::frame::Address;
use crate::protocol::Protocol;
use crate::record::Time;
use core::net::IpAddr;
use rdmascope_wire::mpa::{ReadDepths, StartFrame};
use rdmascope_wire::psn::Psn;
use rdmascope_wire::{Qpn, private_data};

/// The number of a connection, from 1.
///
/// A connection receives its number with the first event about it other than
/// [packets](crate::event::Event::Packet): a CM message, an operation of a half-flow (unless it
/// waits for the message that it answers), or the pairing of its half-flows. A half-flow receives a
/// number with its 1025th packet at the latest, or with its 65th if no half-flow of the other
/// direction waits to be paired. So two half-flows of one connection usually share one number. If
/// both had a number, the connection keeps the first, and the other number is retired. The engine's
/// reporting options do not change the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u32);

/// The two hosts of a packet or transaction, in order. In transactions they are the IP addresses
/// from the REQ, if it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Route {
    /// The sender.
    pub source: Address,
    /// The receiver.
    pub destination: Address,
}

impl Route {
    /// Replaces the addresses with the IP addresses that are known.
    pub(crate) fn with_ips(self, source: Option<IpAddr>, destination: Option<IpAddr>) -> Route {
        Route {
            source: source.map_or(self.source, Address::from),
            destination: destination.map_or(self.destination, Address::from),
        }
    }
}

/// The key of a half-flow. A BTH names only the destination queue pair, so both addresses are part
/// of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// The sender.
    pub source: Address,
    /// The receiver.
    pub destination: Address,
    /// The receiver's queue pair; its TCP port for iWARP.
    pub destination_qp: Qpn,
}

/// The reason to treat two half-flows as one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The capture has the setup of the connection: CM messages, or MPA start frames for iWARP.
    Cm,
    /// The CM exchange was not captured, but the kernel of one host reported the connection: see
    /// [`KnownConnection`].
    Kernel,
    /// The messages come from the transport of a host's kernel, in frames that were composed for
    /// them. So the capture has its Sends only: no acknowledgement, repetition or RDMA operation, and
    /// nothing about path MTU and ICRC.
    Snoop,
    /// The CM exchange was not captured. The addresses match, and the traffic gives further
    /// [`Evidence`].
    Inferred(Evidence),
}

/// A connection reported by the kernel of one of its hosts, possibly before any of its packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownConnection {
    /// The end on the host that reported the connection.
    pub local: KnownEnd,
    /// The other end.
    pub remote: KnownEnd,
    /// Whether the local end opened the connection, if known.
    pub local_is_requester: Option<bool>,
    /// The port of the service, if known.
    pub port: Option<u16>,
    /// Whether it carries RPC-over-RDMA, according to the name of its owner.
    pub speaks_rpc: bool,
    /// Whether the capture has its messages from the kernel's transport: see [`Origin::Snoop`].
    pub is_snooped: bool,
}

/// One end of a [`KnownConnection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownEnd {
    /// Its address.
    pub address: Address,
    /// Its queue pair.
    pub qpn: Qpn,
    /// The PSN of its next request.
    pub next_psn: Option<Psn>,
}

/// The evidence that two half-flows are one connection although no CM exchange was captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Evidence {
    /// One acknowledged a PSN that a request of the other used.
    pub acknowledged_psn: bool,
    /// One replied with the XID of a call of the other.
    pub xid: bool,
    /// One accessed memory that the other had advertised.
    pub rkey: bool,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// A REQ or an MPA request was seen, but no answer.
    Requested,
    /// A REP, an MPA reply or traffic was seen.
    Open,
    /// A REJ with this reason answered the REQ (IBTA volume 1, section 12.6.7.2).
    Rejected(u16),
    /// An MPA reply with the R bit rejected the request (RFC 5044, section 7.1.1), or a RST the SYN.
    /// Neither gives a reason.
    Refused,
    /// A DREQ was seen, or a new connection uses the queue pair. For iWARP: both ends closed their
    /// streams, or one sent a reset.
    Closed,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its address.
    pub address: Address,
    /// The IP address that the REQ gives, if it differs from `address`: packets carry a LID or a
    /// GID (IBTA volume 1, annex A11).
    pub ip: Option<IpAddr>,
    /// Its queue pair. `None` for iWARP, and if only packets *from* this end were captured.
    pub qpn: Option<Qpn>,
    /// Its TCP port, for iWARP.
    pub tcp_port: Option<u16>,
    /// The contexts of its packets. Ends in different networks may have equal addresses.
    pub contexts: Contexts,
    /// The start frame that it sent, for iWARP.
    pub start: Option<Start>,
    /// The private data that it sent (RFC 8797).
    pub private_data: Option<PrivateData>,
    /// Counts of its packets and operations.
    pub sent: Counts,
    /// The first packets of several kinds.
    pub first_frames: FirstFrames,
    /// Times from its Sends to their ACKs. `None` if no Send had an ACK of its own.
    pub round_trips: Option<RoundTrips>,
}

impl Endpoint {
    /// Whether the capture has no packet from this end. CM messages count as packets, unless
    /// `other` acknowledged packets of this end.
    pub fn is_absent(&self, other: &Endpoint) -> bool {
        self.sent.packets + self.sent.bad_icrc == 0
            && (self.first_frames.cm_message.is_none() || other.sent.has_answered())
    }
}

/// The MPA start frame of an end (RFC 5044, section 7.1.1; RFC 6581).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The number of the packet with its first byte.
    pub frame_number: u64,
    /// The frame.
    pub frame: StartFrame,
    /// IRD and ORD, if present.
    pub depths: Option<ReadDepths>,
}

/// Times from the last packet of a Send to its own ACK, measured at the capture point: the way to
/// the receiver, its queue pair, and the way back. Sends during retransmissions are excluded,
/// because their ACK may answer either transmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrips {
    /// The number of Sends measured.
    pub count: u64,
    /// The minimum, in nanoseconds.
    pub minimum: u64,
    /// The median in nanoseconds, with an error of at most 1/16.
    pub median: u64,
}

/// The capture point of a connection, relative to its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CapturePoint {
    /// At the requester, or near it.
    Requester,
    /// Between the two.
    Between,
    /// At the responder, or near it.
    Responder,
}

/// The RPC-over-RDMA private data of a CM message (RFC 8797, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivateData {
    /// Bytes before the format identifier.
    pub offset: u8,
    /// Version of the format, 1.
    pub version: u8,
    /// The reserved bits of the flags byte, 0.
    pub reserved: u8,
    /// R: the sender supports remote invalidation.
    pub remote_invalidation: bool,
    /// Send Size, decoded: bytes.
    pub send_size: u32,
    /// Receive Size, decoded: bytes.
    pub receive_size: u32,
}

impl PrivateData {
    /// Finds complete RPC-over-RDMA private data in the private data of a CM message.
    pub fn find(bytes: &[u8]) -> Option<PrivateData> {
        let found = private_data::find(bytes)?;
        Some(PrivateData::new(found.offset, &found.fields.ok()?))
    }

    /// Creates it from decoded fields that were found `offset` bytes into the private data.
    pub fn new(offset: usize, data: &private_data::PrivateData) -> PrivateData {
        PrivateData {
            offset: u8::try_from(offset).unwrap_or(u8::MAX),
            version: data.version,
            reserved: data.reserved,
            remote_invalidation: data.remote_invalidation,
            send_size: data.send_bytes(),
            receive_size: data.receive_bytes(),
        }
    }
}

/// A connection: two half-flows, or one if the capture has only one direction.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Its number.
    pub id: ConnectionId,
    /// How its half-flows were paired.
    pub origin: Origin,
    /// Its state when it was last seen.
    pub state: State,
    /// Whether the end that opened it is known. Otherwise the end that called first counts as the
    /// requester.
    pub roles_known: bool,
    /// The end that opened it: the Requester of the forward direction.
    pub requester: Endpoint,
    /// The end that accepted it.
    pub responder: Endpoint,
    /// The protocol that it carries, if that is known not to be RPC-over-RDMA.
    pub protocol: Option<Protocol>,
    /// Whether it carries something other than RPC-over-RDMA, as far as the capture shows: a known
    /// protocol, or only Sends that are not RPC-over-RDMA messages.
    pub is_foreign: bool,
    /// Whether it is an iWARP connection (RDMA over TCP).
    pub is_iwarp: bool,
    /// Whether FPDUs have CRCs, for iWARP, if known.
    pub has_crc: Option<bool>,
    /// The port in the TCP port space that the REQ names, 20049 for NFS/RDMA. For iWARP: the TCP
    /// port of the end that accepted.
    pub port: Option<u16>,
    /// The path MTU in bytes, from CM, or else the largest payload of a packet that is not the last
    /// of its message.
    pub path_mtu: Option<u16>,
    /// The largest Send to the responder in bytes: negotiated (RFC 8797), or 1024 by default (RFC
    /// 8166, section 3.3.3). `None` if the CM exchange was not captured or the capture cut its
    /// private data.
    pub call_inline_threshold: Option<u32>,
    /// The largest Send to the requester, likewise.
    pub reply_inline_threshold: Option<u32>,
    /// Whether both ends set the R flag. `None` if the CM exchange was not captured.
    pub remote_invalidation: Option<bool>,
    /// The time of the first packet.
    pub first: Time,
    /// The time of the last packet.
    pub last: Time,
    /// Transactions reported, by direction: forward, backward.
    pub transactions: [u64; 2],
    /// The files of the capture that have packets of it.
    pub files: Files,
}

/// A set of files of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Files(u64);

impl Files {
    /// The number of files that a set distinguishes. The last of them also represents every later
    /// file.
    pub const MOST: u32 = u64::BITS;

    /// Adds a file by its number, from 0.
    #[inline]
    pub fn add(&mut self, file: u32) {
        self.0 |= 1 << file.min(Files::MOST - 1);
    }

    /// Adds all files of another set.
    pub fn add_all(&mut self, others: Files) {
        self.0 |= others.0;
    }

    /// Whether the set contains the file with this number.
    pub fn has(self, file: u32) -> bool {
        self.0 & 1 << file.min(Files::MOST - 1) != 0
    }

    /// Whether the sets have a file in common.
    pub fn meet(self, others: Files) -> bool {
        self.0 & others.0 != 0
    }
}

impl Connection {
    /// The contexts of both ends, requester first.
    pub fn contexts(&self) -> [Contexts; 2] {
        [self.requester.contexts, self.responder.contexts]
    }

    /// The only end whose packets the capture has, if it acknowledged packets of the other end:
    /// `true` for the requester. Calls on such a connection have no replies, or replies no calls.
    pub fn one_direction(&self) -> Option<bool> {
        let Connection { requester, responder, .. } = self;
        let is_alone = |end: &Endpoint, other: &Endpoint| end.sent.has_answered() && other.is_absent(end);
        match (is_alone(requester, responder), is_alone(responder, requester)) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            (false, false) => None,
        }
    }

    /// Estimates the capture point: the nearer end's ACKs arrive sooner. `None` if too few Sends
    /// have an ACK of their own, if packets were retransmitted, or if the times are inconclusive.
    pub fn capture_point(&self) -> Option<CapturePoint> {
        /// Minimum number of Sends of each end with an ACK of their own.
        const FEWEST: u64 = 32;
        /// At most one packet in this many may be a retransmission: overflowing queues delay
        /// packets and ACKs.
        const REPEATED: u64 = 100;
        let ends = [&self.requester, &self.responder];
        let repeated: u64 = ends.iter().map(|end| end.sent.repeated_packets).sum();
        let packets: u64 = ends.iter().map(|end| end.sent.packets).sum();
        let [to_responder, to_requester] = [self.requester.round_trips?, self.responder.round_trips?];
        if to_responder.count.min(to_requester.count) < FEWEST || repeated > packets / REPEATED {
            return None;
        }
        // The minimum shows the path delay. The median also includes the load of the ends, so a
        // smaller ratio is enough for it.
        let by_minimum = nearer(to_requester.minimum, to_responder.minimum, 4);
        let by_median = nearer(to_requester.median, to_responder.median, 2);
        by_minimum.filter(|point| by_median == Some(*point))
    }
}

/// Estimates the capture point from the times to each end and back, in nanoseconds: at the end
/// whose time is shorter by at least the factor `ratio`.
fn nearer(to_requester: u64, to_responder: u64, ratio: u64) -> Option<CapturePoint> {
    /// Smaller differences are inconclusive: time stamps may have a resolution of microseconds.
    const LEAST: u64 = 2_000;
    /// The ends count as equally far if the longer time is at least this, and at most 1.5 times the
    /// shorter. A queue pair of an adapter takes less time than this to acknowledge, so the time is
    /// not all spent there.
    const FAR: u64 = 10_000;
    let (near, far) = (to_requester.min(to_responder), to_requester.max(to_responder));
    if far / ratio >= near && far - near >= LEAST {
        let is_requester = to_requester < to_responder;
        Some(if is_requester { CapturePoint::Requester } else { CapturePoint::Responder })
    } else {
        (far >= FAR && far - far / 3 <= near).then_some(CapturePoint::Between)
    }
}

/// The packet numbers of the first packets of each kind that an end sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstFrames {
    /// CM message.
    pub cm_message: Option<u64>,
    /// REJ.
    pub reject: Option<u64>,
    /// NAK for a PSN sequence error.
    pub sequence_nak: Option<u64>,
    /// NAK that ends the connection.
    pub fatal_nak: Option<u64>,
    /// RNR NAK.
    pub rnr_nak: Option<u64>,
    /// See [`Counts::repeated_packets`].
    pub repeated_packet: Option<u64>,
    /// See [`Counts::reordered_packets`].
    pub reordered_packet: Option<u64>,
    /// See [`Counts::bad_icrc`].
    pub bad_icrc: Option<u64>,
    /// Packet that is no CM message and has no bad ICRC.
    pub sound: Option<u64>,
}

/// Counts of the packets and operations that one end sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Payload bytes on the wire, without transport headers.
    pub bytes: u64,
    /// Complete Sends.
    pub sends: u64,
    /// Sends with Invalidate, which `sends` includes.
    pub invalidations: u64,
    /// RDMA Read requests, without repetitions.
    pub read_requests: u64,
    /// RDMA Writes, each counted once however many packets it takes.
    pub writes: u64,
    /// Payload bytes of RDMA Writes, without repeated PSNs.
    pub written_bytes: u64,
    /// Bytes of RDMA Read responses, without repetitions.
    pub read_response_bytes: u64,
    /// Acknowledgements.
    pub acknowledgements: u64,
    /// NAKs for PSN sequence errors.
    pub sequence_naks: u64,
    /// NAKs that end the connection.
    pub fatal_naks: u64,
    /// RNR NAKs.
    pub rnr_naks: u64,
    /// Repeated packets: request packets with a PSN that was seen before, and repeated RDMA Read
    /// responses.
    pub repeated_packets: u64,
    /// Request packets that filled a gap after later packets: reordered in the capture, or lost
    /// before the capture point and retransmitted.
    pub reordered_packets: u64,
    /// Request packets missing from the capture.
    pub missing_packets: u64,
    /// Response packets that match no RDMA Read request in the capture.
    pub unmatched_responses: u64,
    /// RDMA Writes and Reads of memory that no open transaction advertised.
    pub unmatched_placements: u64,
    /// Sends that are not RPC-over-RDMA messages.
    pub other_sends: u64,
    /// Packets with a bad ICRC, or TCP segments of iWARP with a bad checksum, which no other count
    /// includes; and FPDUs of iWARP with a bad CRC.
    pub bad_icrc: u64,
    /// Packets with FECN, BECN or the ECN mark "congestion experienced".
    pub congestion_marks: u64,
}

impl Counts {
    /// Whether both ends together sent fewer than eight packets. Such connections are evicted
    /// before others.
    pub fn are_few(ends: [&Counts; 2]) -> bool {
        ends.iter().map(|counts| counts.packets).sum::<u64>() < 8
    }
}

impl Counts {
    /// Whether the counts include an answer to a request: an acknowledgement, a NAK or an RDMA Read
    /// response. It proves that the other end sent something (IBTA volume 1, section 9.7.5).
    pub fn has_answered(&self) -> bool {
        let naks = self.sequence_naks + self.fatal_naks + self.rnr_naks;
        self.acknowledgements + naks + self.read_response_bytes > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A set distinguishes 64 files, and the last also represents every later file.
    #[test]
    fn file_set_distinguishes_64_files() {
        let of = |numbers: &[u32]| {
            let mut files = Files::default();
            numbers.iter().for_each(|number| files.add(*number));
            (0..80).filter(|number| files.has(*number)).collect::<Vec<_>>()
        };
        assert_eq!(of(&[]), []);
        assert_eq!(of(&[0, 3, 3, 62]), [0, 3, 62]);
        assert_eq!(of(&[70]), (63..80).collect::<Vec<_>>());
        let [mut one, mut other, mut third] = [Files::default(); 3];
        one.add(1);
        other.add(2);
        (1..=3).for_each(|number| third.add(number));
        assert!(!one.meet(other) && one.meet(third) && third.meet(other) && !one.meet(Files::default()));
        one.add_all(third);
        assert!(one.has(1) && one.has(3) && one.meet(other));
    }

    #[test]
    fn acks_naks_and_read_responses_count_as_answers() {
        let none = Counts::default();
        assert!(!none.has_answered());
        for counts in [
            Counts { acknowledgements: 1, ..none },
            Counts { sequence_naks: 1, ..none },
            Counts { fatal_naks: 1, ..none },
            Counts { rnr_naks: 1, ..none },
            Counts { read_response_bytes: 1, ..none },
            Counts {
                acknowledgements: 2,
                sequence_naks: 1,
                fatal_naks: 2,
                rnr_naks: 3,
                read_response_bytes: 5,
                ..none
            },
        ] {
            assert!(counts.has_answered(), "{counts:?}");
        }
        let sends = Counts { packets: 9, sends: 9, missing_packets: 1, unmatched_responses: 1, ..none };
        assert!(!sends.has_answered());
    }

    /// The nearer end is nearer by the ratio and by at least 2 us. The ends are equally far from 10
    /// us on, if the longer time is at most 1.5 times the shorter.
    #[test]
    fn capture_point_follows_ratio_of_times() {
        use CapturePoint::{Between, Requester, Responder};
        for (to_requester, to_responder, ratio, point) in [
            (1_000, 4_000, 4, Some(Requester)),
            (4_000, 1_000, 4, Some(Responder)),
            (1_000, 3_999, 4, None),
            (600, 2_599, 4, None),
            (600, 2_600, 4, Some(Requester)),
            (20_000, 80_000, 2, Some(Requester)),
            (10_000, 10_000, 4, Some(Between)),
            (9_999, 9_999, 4, None),
            (10_000, 15_000, 4, Some(Between)),
            (10_000, 15_003, 4, None),
            (15_000, 10_000, 2, Some(Between)),
        ] {
            assert_eq!(nearer(to_requester, to_responder, ratio), point, "{to_requester} {to_responder}");
        }
    }
}
