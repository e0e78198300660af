//! A terminal UI: replays a captured session, watches one that goes on, and shows each transaction down to its bytes.
//!
//! The state is plain data ([`state::State`]). [`update::update`] changes it by a message and says what is wanted from the analysis; [`view::render`] draws it.
//! Neither reads a clock or a file. The analysis ([`analysis`]) has the engine, the judge and the records; in [`run`] it is on a thread of its own,
//! so that a large capture fills in while it is looked at.
#![forbid(unsafe_code)]

pub mod analysis;
pub mod chart;
pub mod compare;
pub mod filter;
pub mod inject;
pub mod keys;
pub mod layout;
pub mod ring;
pub mod rows;
pub mod session;
pub mod show;
pub mod source;
pub mod state;
pub mod store;
pub mod terminal;
mod threads;
pub mod update;
pub mod view;

pub use source::{Confine, Export, LiveCapture, Options, Source};
pub use terminal::{Error, run};
