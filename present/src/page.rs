//! Sections of text output, each about one kind of facts from `rdmascope-analysis`.

pub mod capture_points;
pub mod diff;
mod histogram;
pub mod kernel;
pub mod policy;
pub mod report;
