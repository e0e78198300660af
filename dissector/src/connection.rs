//! Connections as the engine reports them: plain data.

use crate::frame::Address;
use crate::protocol::Protocol;
use crate::record::Time;
use core::net::IpAddr;
use rdmascope_wire::mpa::{ReadDepths, StartFrame};
use rdmascope_wire::psn::Psn;
use rdmascope_wire::{Qpn, private_data};

/// Number of a connection, from 1.
///
/// A connection gets it when something may first be told of it beside its [packets](crate::event::Event::Packet): a CM message, what a half-flow
/// did that does not wait for what it answers, or that its half-flows were joined. A half-flow gets one with its 1025th packet at the latest, and
/// with its 65th where no half-flow in the other direction waits to be joined. So two half-flows that become one connection mostly have one
/// number between them. Where each had one, that of the first stays, and the other one is the number of no connection.
/// What the engine is asked to report changes no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnectionId(pub u32);

/// From which host to which. Of transactions: by the IP addresses that the REQ gives them, where it was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Route {
    /// Who sends.
    pub source: Address,
    /// Who receives.
    pub destination: Address,
}

impl Route {
    /// The same between IP addresses, where they are known.
    pub(crate) fn with_ips(self, source: Option<IpAddr>, destination: Option<IpAddr>) -> Route {
        Route {
            source: source.map_or(self.source, Address::from),
            destination: destination.map_or(self.destination, Address::from),
        }
    }
}

/// The key of a half-flow. A BTH names only the destination queue pair, so source and destination address are part of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowKey {
    /// Who sends.
    pub source: Address,
    /// Who receives.
    pub destination: Address,
    /// The receiver's queue pair; for iWARP its TCP port.
    pub destination_qp: Qpn,
}

/// How it is known that two half-flows are one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// The exchange by which it was established was captured: of CM, or for iWARP of MPA start frames.
    Cm,
    /// The CM exchange was not captured. The kernel of one of the hosts told of the connection: see [`KnownConnection`].
    Kernel,
    /// The CM exchange was not captured. The addresses match, and the traffic shows the rest: see [`Evidence`].
    Inferred(Evidence),
}

/// A connection that is known before any of its packets, because the kernel of one of the two hosts tells of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownConnection {
    /// The end that the kernel has.
    pub local: KnownEnd,
    /// The other one.
    pub remote: KnownEnd,
    /// Whether the local end opened the connection, where that is known.
    pub local_is_requester: Option<bool>,
    /// The port of the service that was connected to, where it is known.
    pub port: Option<u16>,
    /// It carries RPC-over-RDMA, by the name of its owner.
    pub speaks_rpc: bool,
}

/// One end of a [`KnownConnection`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownEnd {
    /// Its address.
    pub address: Address,
    /// Its queue pair.
    pub qpn: Qpn,
    /// The PSN of the request that it sends next.
    pub next_psn: Option<Psn>,
}

/// What shows that two half-flows are one connection where no CM exchange was captured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Evidence {
    /// A response of one carried the PSN of a request of the other.
    pub acknowledged_psn: bool,
    /// A reply of one carried the XID of a call of the other.
    pub xid: bool,
    /// An RDMA operation of one named memory that the other had advertised.
    pub rkey: bool,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// A REQ was seen, or an MPA request, and no answer.
    Requested,
    /// A REP, an MPA reply or traffic was seen.
    Open,
    /// A REJ with this reason (IBTA volume 1, section 12.6.7.2) answered the REQ.
    Rejected(u16),
    /// An MPA reply with R answered the request (RFC 5044, section 7.1.1), which gives no reason.
    Refused,
    /// A DREQ was seen, or the queue pair was used for a new connection; for iWARP both ends ended their streams, or one reset the
    /// connection.
    Closed,
}

/// One end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its address.
    pub address: Address,
    /// The IP address that the REQ gives it, where that is another one: packets carry a LID or a GID (IBTA volume 1, annex A11).
    pub ip: Option<IpAddr>,
    /// Its queue pair; `None` where only packets *from* it were captured, and for iWARP.
    pub qpn: Option<Qpn>,
    /// For iWARP its TCP port.
    pub tcp_port: Option<u16>,
    /// For iWARP the start frame that it sent.
    pub start: Option<Start>,
    /// The RFC 8797 private data that it sent.
    pub private_data: Option<PrivateData>,
    /// What it sent.
    pub sent: Counts,
    /// Where some of it was seen first.
    pub first_frames: FirstFrames,
    /// How long its Sends waited for their ACKs; `None` where no Send was seen with an ACK of its own.
    pub round_trips: Option<RoundTrips>,
}

impl Endpoint {
    /// Whether the capture shows nothing that it sent to `other`: no packet and no CM message; or no packet though `other` answered some.
    pub fn is_absent(&self, other: &Endpoint) -> bool {
        self.sent.packets + self.sent.bad_icrc == 0
            && (self.first_frames.cm_message.is_none() || other.sent.has_answered())
    }
}

/// The MPA start frame of an end (RFC 5044, section 7.1.1; RFC 6581).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The packet that has its first byte, by its number in the capture.
    pub frame_number: u64,
    /// What it says.
    pub frame: StartFrame,
    /// IRD and ORD, where it has them.
    pub depths: Option<ReadDepths>,
}

/// Times from the last packet of a Send to the ACK that names it, seen from where the capture was made: to the receiver, its queue pair, and
/// back. Without Sends while packets were sent again: it is not known which transmission their ACKs answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundTrips {
    /// How many there are.
    pub count: u64,
    /// The shortest, in nanoseconds.
    pub minimum: u64,
    /// Their median in nanoseconds, to within 1 part in 16.
    pub median: u64,
}

/// Where on the way between its ends a connection was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CapturePoint {
    /// At the requester, or near it.
    Requester,
    /// Between the two.
    Between,
    /// At the responder, or near it.
    Responder,
}

/// RPC-over-RDMA private data (RFC 8797, section 4) as it stood in a CM message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrivateData {
    /// Bytes in front of the format identifier.
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
    /// The private data among what a CM message carries for its consumer, where there is any that is whole.
    pub fn find(bytes: &[u8]) -> Option<PrivateData> {
        let found = private_data::find(bytes)?;
        Some(PrivateData::new(found.offset, &found.fields.ok()?))
    }

    /// What stood behind `offset` bytes of something else.
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

/// A connection: two half-flows, or one where the capture holds no more.
#[derive(Clone, Debug)]
pub struct Connection {
    /// Its number.
    pub id: ConnectionId,
    /// How it is known.
    pub origin: Origin,
    /// How far its life is known.
    pub state: State,
    /// Whether it is known which end opened it. If not, the end that was first seen to call counts as the requester.
    pub roles_known: bool,
    /// The end that opened it: the Requester of the forward direction.
    pub requester: Endpoint,
    /// The end that accepted it.
    pub responder: Endpoint,
    /// What it carries, where that is known to be another protocol than RPC-over-RDMA.
    pub protocol: Option<Protocol>,
    /// Whether it carries something else than RPC-over-RDMA, as far as the capture shows: that protocol, or Sends of which none is an RPC-over-RDMA
    /// message.
    pub is_foreign: bool,
    /// Whether it is iWARP: RDMA over TCP.
    pub is_iwarp: bool,
    /// For iWARP whether FPDUs have CRCs, where that is known.
    pub has_crc: Option<bool>,
    /// The TCP port space port that the REQ names, for NFS/RDMA 20049; for iWARP the TCP port of the end that accepted.
    pub port: Option<u16>,
    /// Path MTU in bytes: from CM, else the largest payload seen in a packet that others follow.
    pub path_mtu: Option<u16>,
    /// Bytes that a Send towards the responder may have: as negotiated (RFC 8797), or 1024 by default (RFC 8166, section 3.3.3);
    /// `None` where the CM exchange was not captured, or the capture cut off its private data.
    pub call_inline_threshold: Option<u32>,
    /// The same towards the requester.
    pub reply_inline_threshold: Option<u32>,
    /// Whether both ends set R; `None` where the CM exchange was not captured.
    pub remote_invalidation: Option<bool>,
    /// When the first packet was seen.
    pub first: Time,
    /// When the last packet was seen.
    pub last: Time,
    /// Transactions reported, in each direction: forward, backward.
    pub transactions: [u64; 2],
    /// Which files of the capture show it.
    pub files: Files,
}

/// Some of the files of a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Files(u64);

impl Files {
    /// Files that are told apart: the last of these stands for all behind it.
    pub const MOST: u32 = u64::BITS;

    /// Adds the file with this number, from 0.
    #[inline]
    pub fn add(&mut self, file: u32) {
        self.0 |= 1 << file.min(Files::MOST - 1);
    }

    /// Adds all of `others`.
    pub fn add_all(&mut self, others: Files) {
        self.0 |= others.0;
    }

    /// Whether the file with this number is among them.
    pub fn has(self, file: u32) -> bool {
        self.0 & 1 << file.min(Files::MOST - 1) != 0
    }

    /// Whether some file is among both.
    pub fn meet(self, others: Files) -> bool {
        self.0 & others.0 != 0
    }
}

impl Connection {
    /// The only end whose packets the capture holds, if it acknowledged packets of the other end:
    /// `true` for the requester. Calls have no replies on such a connection, or replies no calls.
    pub fn one_direction(&self) -> Option<bool> {
        let Connection { requester, responder, .. } = self;
        let is_alone = |end: &Endpoint, other: &Endpoint| end.sent.has_answered() && other.is_absent(end);
        match (is_alone(requester, responder), is_alone(responder, requester)) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            (false, false) => None,
        }
    }

    /// Where it was captured, as an estimate: the ACKs of the end that is near come back at once. `None` where that is not known: Sends with
    /// an ACK of their own are few, packets were sent again, or the times do not tell.
    pub fn capture_point(&self) -> Option<CapturePoint> {
        /// Sends of each end with an ACK of their own.
        const FEWEST: u64 = 32;
        /// One packet in so many may have been sent again: queues that overflow delay both packets and ACKs.
        const REPEATED: u64 = 100;
        let ends = [&self.requester, &self.responder];
        let repeated: u64 = ends.iter().map(|end| end.sent.repeated_packets).sum();
        let packets: u64 = ends.iter().map(|end| end.sent.packets).sum();
        let [to_responder, to_requester] = [self.requester.round_trips?, self.responder.round_trips?];
        if to_responder.count.min(to_requester.count) < FEWEST || repeated > packets / REPEATED {
            return None;
        }
        // The shortest times are those of the way. The others hold what an end was busy with, so they have to agree less clearly.
        let by_minimum = nearer(to_requester.minimum, to_responder.minimum, 4);
        let by_median = nearer(to_requester.median, to_responder.median, 2);
        by_minimum.filter(|point| by_median == Some(*point))
    }
}

/// Where the capture was made by the times that it takes to each end and back, in nanoseconds: at the end that is `ratio` times as near.
fn nearer(to_requester: u64, to_responder: u64, ratio: u64) -> Option<CapturePoint> {
    /// Smaller differences say nothing: time stamps may be in microseconds.
    const LEAST: u64 = 2_000;
    /// Both ends count as equally far where the way to the farther one takes this long, and half as long again as to the other at most. What
    /// a queue pair itself takes to acknowledge is less on adapters, so that it cannot be all of it.
    const FAR: u64 = 10_000;
    let (near, far) = (to_requester.min(to_responder), to_requester.max(to_responder));
    if far / ratio >= near && far - near >= LEAST {
        let is_requester = to_requester < to_responder;
        Some(if is_requester { CapturePoint::Requester } else { CapturePoint::Responder })
    } else {
        (far >= FAR && far - far / 3 <= near).then_some(CapturePoint::Between)
    }
}

/// Packets that an end sent, by their numbers in the capture: the first of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FirstFrames {
    /// A CM message.
    pub cm_message: Option<u64>,
    /// The REJ.
    pub reject: Option<u64>,
    /// A NAK for a PSN sequence error.
    pub sequence_nak: Option<u64>,
    /// A NAK that ends a connection.
    pub fatal_nak: Option<u64>,
    /// An RNR NAK.
    pub rnr_nak: Option<u64>,
    /// See [`Counts::repeated_packets`].
    pub repeated_packet: Option<u64>,
    /// See [`Counts::reordered_packets`].
    pub reordered_packet: Option<u64>,
    /// A packet with a bad ICRC.
    pub bad_icrc: Option<u64>,
    /// A packet other than a CM message whose ICRC is not bad.
    pub sound: Option<u64>,
}

/// What one end of a connection sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets.
    pub packets: u64,
    /// Payload bytes behind the transport headers, on the wire.
    pub bytes: u64,
    /// Sends completed.
    pub sends: u64,
    /// Those of them that invalidate memory of the other end: SEND with Invalidate.
    pub invalidations: u64,
    /// RDMA READ requests, without repetitions.
    pub read_requests: u64,
    /// RDMA Writes, however many packets each takes.
    pub writes: u64,
    /// Bytes of RDMA WRITE payload, without repetitions of PSNs.
    pub written_bytes: u64,
    /// Bytes of RDMA READ responses, without those that came again.
    pub read_response_bytes: u64,
    /// Acknowledgements.
    pub acknowledgements: u64,
    /// NAKs by cause: PSN sequence error, and every other.
    pub sequence_naks: u64,
    /// NAKs that end a connection.
    pub fatal_naks: u64,
    /// RNR NAKs.
    pub rnr_naks: u64,
    /// Request packets whose PSN was seen before, and RDMA READ responses that came again.
    pub repeated_packets: u64,
    /// Request packets that filled a gap before packets seen earlier: the capture shows them out of order, or they were lost before it and
    /// sent again.
    pub reordered_packets: u64,
    /// Request packets that the capture lacks.
    pub missing_packets: u64,
    /// Response packets that belong to no RDMA READ seen.
    pub unmatched_responses: u64,
    /// RDMA Writes and Reads of memory that no open transaction advertised.
    pub unmatched_placements: u64,
    /// Sends that are no RPC-over-RDMA message.
    pub other_sends: u64,
    /// Packets with a bad ICRC, and of iWARP segments with a wrong TCP checksum: left out of everything else.
    pub bad_icrc: u64,
    /// Packets with the FECN or BECN bit, or ECN "congestion experienced".
    pub congestion_marks: u64,
}

impl Counts {
    /// Whether both ends of a connection together sent fewer than eight packets. Such a connection is
    /// given up before others.
    pub fn are_few(ends: [&Counts; 2]) -> bool {
        ends.iter().map(|counts| counts.packets).sum::<u64>() < 8
    }
}

impl Counts {
    /// Whether there is an answer to a request packet among them: an acknowledgement, a NAK, an RDMA READ response. It shows that the other
    /// end sent something (IBTA volume 1, section 9.7.5).
    pub fn has_answered(&self) -> bool {
        let naks = self.sequence_naks + self.fatal_naks + self.rnr_naks;
        self.acknowledgements + naks + self.read_response_bytes > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 files are told apart, and the last of these stands for all behind it.
    #[test]
    fn files_of_a_capture() {
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
    fn what_answers() {
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

    /// The end is near that is so many times as near, and 2 us at least; both are equally far at 10 us and more, where one takes half as long
    /// again at most.
    #[test]
    fn which_end_is_nearer() {
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
