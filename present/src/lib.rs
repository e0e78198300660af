//! Output about sessions: text tables, JSON lines, field trees, ladders and sections of reports.
//!
//! The crate reads no files, writes nothing to standard output, and has no command line.
//!
//! This example prints the transactions of a capture as rows of a table and as JSON lines:
//!
//! ```
//! use rdmascope_capture_agent::Capture;
//! use rdmascope_dissector::engine::{Config, Engine};
//! use rdmascope_dissector::event::Event;
//! use rdmascope_present::column::{Setting, TextTable};
//! use rdmascope_present::columns::TRANSACTION;
//! use rdmascope_present::json::write_line;
//! use rdmascope_present::text::Style;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut capture = Capture::open("../samples/nfs3-basic.pcap".as_ref())?;
//! let mut engine = Engine::new(Config::default());
//! let (mut rows, mut lines) = (Vec::new(), Vec::new());
//! let mut start = None;
//! let (table, style) = (TextTable::new(&TRANSACTION), Style::default());
//! table.write_heading(style, &mut rows)?;
//! while let Some(record) = capture.next()? {
//!     let start = *start.get_or_insert(record.time);
//!     engine.handle(&record, &mut |event| {
//!         if let Event::Transaction(transaction) = event {
//!             table.write_row(transaction.into(), Setting { start, style }, &mut rows).unwrap();
//!             write_line(&mut lines, &TRANSACTION.of(transaction.into())).unwrap();
//!         }
//!     });
//! }
//! engine.finish(&mut |_| {}); // Reports the transactions that are open at the end.
//!
//! let rows = String::from_utf8(rows)?;
//! assert!(rows.lines().nth(1).is_some_and(|row| row.contains("NFSv3")));
//! let line: serde_json::Value = serde_json::from_slice(lines.split(|byte| *byte == b'\n').next().unwrap())?;
//! assert_eq!(line["type"], "transaction");
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod anonymize;
pub mod axis;
pub mod check;
pub mod column;
pub mod columns;
pub mod did_you_mean;
pub mod expression;
pub mod fields;
pub mod fold;
pub mod glossary;
pub mod grid;
pub mod json;
pub mod ladder;
pub mod notes;
pub mod page;
pub mod regress;
pub mod screen;
mod serialized;
pub mod tables;
pub mod text;
pub mod words;
