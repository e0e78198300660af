//! Sections of text output, each about one kind of facts from `rdmascope-analysis`.

pub mod diff;
mod histogram;
pub mod kernel;
mod outages;
pub mod places;
pub mod policy;
pub mod report;
