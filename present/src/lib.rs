//! What a person or a program is shown of a session, whatever shows it: names and words, text tables, JSON lines, the tree of
//! fields, the ladder, phases, filters, findings, and the figures of a report.
//!
//! Nothing here reads a file, writes to standard output, or knows a command line.
#![forbid(unsafe_code)]

pub mod cm_fields;
pub mod column;
pub mod columns;
pub mod diff;
pub mod ending;
pub mod fields;
pub mod filter;
pub mod findings;
pub mod glossary;
pub mod json;
pub mod ladder;
pub mod message;
pub mod names;
pub mod phases;
pub mod report;
pub mod screen;
pub mod tables;
pub mod tally;
pub mod text;
pub mod time;
pub mod timeline;
pub mod words;
