//! Facts about a capture, derived from the events of the dissector and the findings of the judge:
//! connection events, NFSv4 state, file paths, report figures, differences between captures, and
//! the state of a session at any time.
//!
//! This crate lays out no output; `rdmascope-present` does.
//!
//! Listing the events of a capture:
//!
//! ```
//! use rdmascope_analysis::events::{Events, Kind};
//! use rdmascope_analysis::observer::Observer as _;
//! use rdmascope_capture_agent::Capture;
//! use rdmascope_dissector::engine::{Config, Engine};
//! use rdmascope_dissector::observation::Observe;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut capture = Capture::open("../samples/nfs3-basic.pcap".as_ref())?;
//! let mut engine = Engine::new(Config { observe: Observe::Events, ..Config::default() });
//! let mut events = Events::default();
//! while let Some(record) = capture.next()? {
//!     engine.handle(&record, &mut |event| events.handle(&event));
//! }
//! engine.finish(&mut |event| events.handle(&event));
//!
//! let last = engine.totals().span.map(|(_, last)| last);
//! assert_eq!(events.list(last)[0].kind, Kind::Connected);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod carriers;
pub mod charts;
pub mod cm_fields;
pub mod course;
pub mod diff;
pub mod ending;
pub mod events;
pub mod extract;
pub mod filter;
pub mod findings;
pub mod kernel;
pub mod live;
pub mod message;
pub mod names;
pub mod observer;
pub mod owner;
pub mod paths;
pub mod phases;
pub mod places;
pub mod policy;
pub mod replies;
pub mod report;
pub mod state;
pub mod tally;
pub mod time;
pub mod timeline;
pub mod together;
pub mod units;
