//! The fuzz targets as plain functions. libfuzzer calls them in `fuzz/`, and the test `fuzz_corpus`
//! calls them with the corpora and the samples, on any toolchain.
//!
//! A target accepts any bytes, and panics if an invariant is broken.
#![forbid(unsafe_code)]

mod anonymize;
mod bytes;
mod capture_engine;
mod capture_points;
mod driver;
mod engine;
mod frame;
mod framing;
mod headers;
mod iwarp;
mod judge;
mod kernel;
mod peer;
mod upper_layer;

pub use anonymize::anonymize;
pub use capture_engine::{capture_engine, records};
pub use capture_points::places;
pub use engine::{Frame, engine, frames};
pub use frame::frame;
pub use framing::{ReferenceFramer, framing};
pub use headers::headers;
pub use iwarp::iwarp;
pub use kernel::{inventory, trace};
pub use peer::peer;
pub use upper_layer::upper_layer;

/// A target.
pub type Target = fn(&[u8]);

/// Every target with its name, which is also the name of its corpus.
pub const TARGETS: [(&str, Target); 12] = [
    ("framing", framing),
    ("headers", headers),
    ("frame", frame),
    ("upper_layer", upper_layer),
    ("engine", engine),
    ("iwarp", iwarp),
    ("capture_engine", capture_engine),
    ("peer", peer),
    ("places", places),
    ("trace", trace),
    ("inventory", inventory),
    ("anonymize", anonymize),
];
