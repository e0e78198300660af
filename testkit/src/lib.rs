//! Builders of messages, packets and sessions for the tests of several crates.
#![forbid(unsafe_code)]

pub mod messages;
pub mod world;
