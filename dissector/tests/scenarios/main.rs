//! Scenarios of the complete engine: records in, events out.
//!
//! Each test scripts the packets of two hosts and states the events that the specifications
//! require. [`rdmascope_testkit`] builds the frames; the expectations come from RFC 8166, RFC 8167,
//! RFC 8267, RFC 8797 and the reliable-reply draft.

mod report;

mod acknowledged;
mod attribution;
mod bounds;
mod bulk;
mod chunks;
mod clock;
mod counts;
mod direction;
mod errors;
mod exchange;
mod flight;
mod handshakes;
mod iwarp;
mod joining;
mod known;
mod layout;
mod loss;
mod matching;
mod missing;
mod observing;
mod order;
mod pairing;
mod protocols;
mod reliable_reply;
