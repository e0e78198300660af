//! Facts about a capture, derived from the events of the dissector and the findings of the judge:
//! connection events, NFSv4 state, file paths, report figures, differences between captures, and
//! the state of a session at any time.
//!
//! This crate lays out no output; `rdmascope-present` does.
#![forbid(unsafe_code)]

pub mod capture_points;
pub mod carriers;
pub mod charts;
pub mod cm_fields;
pub mod diff;
pub mod ending;
pub mod events;
pub mod extract;
pub mod filter;
pub mod findings;
pub mod flows;
pub mod intervals;
pub mod kernel;
pub mod live;
pub mod message;
pub mod names;
pub mod observer;
pub mod one_capture;
pub mod owner;
pub mod paths;
pub mod policy;
pub mod replies;
pub mod report;
pub mod state;
pub mod tally;
pub mod time;
pub mod timeline;
pub mod units;
