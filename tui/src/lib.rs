//! A terminal UI: replays a captured session, watches a live one, and shows each transaction down
//! to its bytes.
//!
//! The state is plain data ([`state::State`]). [`update::update`] applies a message to it and
//! returns effects, such as requests to the analysis; [`view::render`] draws it. Neither reads a
//! clock or a file. The analysis ([`analysis`]) holds the engine, the judge and the records.
//! [`run`] puts it on a thread of its own, so that a large capture can be viewed while it is still
//! being read.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod chart;
pub mod clock;
pub mod compare;
mod complete;
pub mod filter;
pub mod inject;
pub mod keys;
pub mod known;
pub mod layout;
pub mod marks;
pub mod overview;
pub mod packets;
pub mod ring;
pub mod rows;
pub mod session;
pub mod show;
pub mod source;
pub mod state;
pub mod store;
mod terminal;
pub mod theme;
mod threads;
pub mod update;
pub mod view;

pub use source::{Confine, Export, LiveCapture, Options, Source};
pub use terminal::{Error, choose, run};
