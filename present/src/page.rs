//! Sections of text for people, each about one kind of facts of `rdmascope-analysis`.

pub mod diff;
mod histogram;
pub mod kernel;
mod outages;
pub mod places;
pub mod policy;
pub mod report;
