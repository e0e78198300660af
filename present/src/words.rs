//! The words that stand for the dissector's enumerations in every format for programs: docs/json.md lists them.

use rdmascope_conformance::{Level, Verdict};
use rdmascope_dissector::connection::{CapturePoint, Origin, State};
use rdmascope_dissector::engine::Totals;
use rdmascope_dissector::frame::{Carrier, Checksum, IcrcVerdict, Other};
use rdmascope_dissector::iwarp::CrcVerdict;
use rdmascope_dissector::transaction::Part;
use rdmascope_dissector::ulb::Place;
use rdmascope_wire::Cause;
use rdmascope_wire::bth::Acknowledgement;

/// How a connection is known.
pub const fn origin(origin: Origin) -> &'static str {
    match origin {
        Origin::Cm => "cm",
        Origin::Kernel => "kernel",
        Origin::Inferred(_) => "inferred",
    }
}

/// Where a connection was captured.
pub const fn capture_point(point: CapturePoint) -> &'static str {
    match point {
        CapturePoint::Requester => "requester",
        CapturePoint::Between => "between",
        CapturePoint::Responder => "responder",
    }
}

/// How far a connection got.
pub const fn state(state: State) -> &'static str {
    match state {
        State::Requested => "requested",
        State::Open => "open",
        State::Rejected(_) | State::Refused => "rejected",
        State::Closed => "closed",
    }
}

/// What carried a packet.
pub const fn carrier(carrier: Carrier) -> &'static str {
    match carrier {
        Carrier::RoceV2 { .. } => "rocev2",
        Carrier::RoceV1 => "rocev1",
        Carrier::InfiniBand => "infiniband",
    }
}

/// What the packets of a capture are called.
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

/// Why a record holds no transport packet.
pub const fn other(other: Other<'_>) -> &'static str {
    match other {
        Other::Tcp(_) => "tcp",
        Other::NotInfiniBand | Other::Traffic(_) => "not-infiniband",
        Other::UnknownLinkType => "unknown-link-type",
        Other::Fragment => "fragment",
        Other::Stop(_) => "stop",
    }
}

/// What an AETH says.
pub const fn acknowledgement(kind: Acknowledgement) -> &'static str {
    match kind {
        Acknowledgement::Ack { .. } => "ack",
        Acknowledgement::RnrNak { .. } => "rnr-nak",
        Acknowledgement::Nak(_) => "nak",
        Acknowledgement::Reserved(_) => "reserved",
    }
}

/// Why bytes could not be read on.
pub const fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::TruncatedCapture => "truncated-capture",
        Cause::TruncatedPacket => "truncated-packet",
        Cause::Malformed => "malformed",
    }
}

/// A part of a message, and which of its kind it is.
pub const fn part(part: Part) -> (&'static str, Option<u16>) {
    match part {
        Part::Send => ("send", None),
        Part::ReadChunk(index) => ("read-chunk", Some(index)),
        Part::WriteChunk(index) => ("write-chunk", Some(index)),
        Part::ReplyChunk => ("reply-chunk", None),
    }
}

/// Where an item is, and which of its kind.
pub const fn place(place: Place) -> (&'static str, Option<u16>) {
    match place {
        Place::Inline(_) => ("inline", None),
        Place::ReadChunk(index) => ("read-chunk", Some(index)),
        Place::WriteChunk(index) => ("write-chunk", Some(index)),
    }
}

/// How much a rule weighs.
pub const fn level(level: Level) -> &'static str {
    match level {
        Level::Violation => "violation",
        Level::Warning => "warning",
        Level::Advice => "advice",
    }
}

/// Whether a finding stands.
pub const fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Stands => "stands",
        Verdict::Inconclusive => "inconclusive",
    }
}

/// An end of a connection, by whether it opened it.
pub const fn end(requester: bool) -> &'static str {
    if requester { "requester" } else { "responder" }
}
