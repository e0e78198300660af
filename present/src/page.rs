//! Sections of text output, each about one kind of facts from `rdmascope-analysis`.

pub mod diff;
mod histogram;
pub mod kernel;
pub mod places;
pub mod policy;
pub mod report;
