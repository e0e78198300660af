//! The names of the dissector's enumeration values in machine-readable output, as listed in
//! docs/json.md.

use rdmascope_conformance::{Level, Verdict};
use rdmascope_dissector::connection::{CapturePoint, Origin, State};
use rdmascope_dissector::engine::Totals;
use rdmascope_dissector::frame::{Carrier, Checksum, IcrcVerdict, Other};
use rdmascope_dissector::iwarp::CrcVerdict;
use rdmascope_dissector::transaction::Part;
use rdmascope_dissector::ulb::Place;
use rdmascope_wire::Cause;
use rdmascope_wire::bth::Acknowledgement;

/// How a connection was found.
pub const fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Cm => "cm",
        Origin::Kernel => "kernel",
        Origin::Snoop => "snoop",
        Origin::Inferred(_) => "inferred",
    }
}

/// The capture point of a connection.
pub const fn capture_point(point: CapturePoint) -> &'static str {
    match point {
        CapturePoint::Requester => "requester",
        CapturePoint::Between => "between",
        CapturePoint::Responder => "responder",
    }
}

/// The state of a connection.
pub const fn state(state: State) -> &'static str {
    match state {
        State::Requested => "requested",
        State::Open => "open",
        State::Rejected(_) | State::Refused => "rejected",
        State::Closed => "closed",
    }
}

/// The protocol that carries a packet.
pub const fn carrier(carrier: Carrier) -> &'static str {
    match carrier {
        Carrier::RoceV2 { .. } => "rocev2",
        Carrier::RoceV1 => "rocev1",
        Carrier::InfiniBand => "infiniband",
    }
}

/// The name of the fabric of a capture's packets.
pub const fn fabric(totals: &Totals) -> &'static str {
    match totals.native_packets {
        0 => "RoCE",
        native if native == totals.packets => "InfiniBand",
        _ => "RDMA",
    }
}

/// The verdict on an ICRC.
pub const fn icrc(verdict: IcrcVerdict) -> &'static str {
    match verdict {
        IcrcVerdict::Good => "good",
        IcrcVerdict::Bad => "bad",
        IcrcVerdict::Unverifiable => "unverifiable",
    }
}

/// The verdict on the checksum of a TCP segment.
pub const fn checksum(verdict: Checksum) -> &'static str {
    match verdict {
        Checksum::Good => "good",
        Checksum::Unfinished => "unfinished",
        Checksum::Bad => "bad",
        Checksum::Unverifiable => "unverifiable",
    }
}

/// The verdict on the CRC of an FPDU.
pub const fn crc(verdict: CrcVerdict) -> &'static str {
    match verdict {
        CrcVerdict::Good => "good",
        CrcVerdict::Bad => "bad",
        CrcVerdict::Unused => "unused",
        CrcVerdict::Unverifiable => "unverifiable",
    }
}

/// Why a record has no transport packet.
pub const fn other(other: Other<'_>) -> &'static str {
    match other {
        Other::Tcp(_) => "tcp",
        Other::Traffic(_) => "not-infiniband",
        Other::UnknownLinkType => "unknown-link-type",
        Other::Fragment => "fragment",
        Other::Stop(_) => "stop",
    }
}

/// The kind of acknowledgement in an AETH.
pub const fn acknowledgement(kind: Acknowledgement) -> &'static str {
    match kind {
        Acknowledgement::Ack { .. } => "ack",
        Acknowledgement::RnrNak { .. } => "rnr-nak",
        Acknowledgement::Nak(_) => "nak",
        Acknowledgement::Reserved(_) => "reserved",
    }
}

/// Why parsing stopped.
pub const fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::TruncatedCapture => "truncated-capture",
        Cause::TruncatedPacket => "truncated-packet",
        Cause::Malformed => "malformed",
    }
}

/// The part of a message, and the index of the chunk.
pub const fn part(part: Part) -> (&'static str, Option<u16>) {
    match part {
        Part::Send => ("send", None),
        Part::ReadChunk(index) => ("read-chunk", Some(index)),
        Part::WriteChunk(index) => ("write-chunk", Some(index)),
        Part::ReplyChunk => ("reply-chunk", None),
    }
}

/// Where an item was conveyed, and the index of the chunk.
pub const fn place(place: Place) -> (&'static str, Option<u16>) {
    match place {
        Place::Inline(_) => ("inline", None),
        Place::ReadChunk(index) => ("read-chunk", Some(index)),
        Place::WriteChunk(index) => ("write-chunk", Some(index)),
    }
}

/// The level of a rule.
pub const fn level(level: Level) -> &'static str {
    match level {
        Level::Violation => "violation",
        Level::Warning => "warning",
        Level::Advice => "advice",
    }
}

/// The verdict of a finding.
pub const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Certain => "stands",
        Verdict::Inconclusive => "inconclusive",
    }
}

/// The role of an end: whether it opened the connection.
pub const fn end(requester: bool) -> &'static str {
    if requester { "requester" } else { "responder" }
}
