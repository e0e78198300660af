//! What is looked at, and how.

use crate::state::Look;
use rdmascope_analysis::policy::Allowances;
use rdmascope_capture_agent::Note;
use rdmascope_conformance::Level;
use rdmascope_dissector::frame;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is looked at.
pub enum Source {
    /// Files that are one capture. Where one of them is a pipe, or `-`, the latest records are kept in memory.
    Files(Vec<PathBuf>),
    /// Nothing: there is a live peer only.
    Nothing,
    /// One of these files, which is to be chosen.
    Choose(Vec<PathBuf>),
    /// Something that goes on.
    Live(LiveCapture),
}

/// A capture that goes on.
pub struct LiveCapture {
    /// What it is called.
    pub name: String,
    /// What a kernel says of its connections.
    pub notes: Vec<Note>,
    /// Where records come from.
    pub source: Box<dyn rdmascope_capture_agent::Source + Send>,
}

/// Confines the process.
pub type Confine = dyn FnOnce() -> Result<(), String>;

/// How it is looked at.
#[derive(Clone, Debug)]
pub struct Options {
    /// How frames are told apart.
    pub frame: frame::Config,
    /// Rules of at least this level are judged by.
    pub level: Level,
    /// Findings that are allowed.
    pub allowances: Allowances,
    /// How it looks.
    pub look: Look,
    /// Bytes of memory for what goes on: half of them for the latest records.
    pub memory: usize,
    /// The capture that files are compared with.
    pub compare: Option<PathBuf>,
    /// Writes the capture as a page; `None`: it is no file, so that it cannot be read a second time.
    pub export: Option<Export>,
}

/// Writes a capture as a page to a new file.
pub type WritePage = dyn Fn(&Path) -> Result<(), String> + Send + Sync;

/// Who does that, for any thread.
#[derive(Clone)]
pub struct Export(pub Arc<WritePage>);

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Export")
    }
}
