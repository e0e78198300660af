//! The source of a session, and the options of its display.

use crate::state::Look;
use rdmascope_analysis::policy::Allowances;
use rdmascope_capture_agent::Note;
use rdmascope_conformance::Level;
use rdmascope_dissector::frame;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The source of a session.
pub enum Source {
    /// Files that form one capture. If one of them is a pipe, or `-`, the latest records are kept
    /// in memory.
    Files(Vec<PathBuf>),
    /// No capture, only a live peer.
    Nothing,
    /// A live capture.
    Live(LiveCapture),
}

/// A live capture.
pub struct LiveCapture {
    /// The name that is shown.
    pub name: String,
    /// The kernel's notes about its connections.
    pub notes: Vec<Note>,
    /// The source of records.
    pub source: Box<dyn rdmascope_capture_agent::Source + Send>,
    /// Setting it ends the source, which then removes its traces on the system.
    pub end: Arc<AtomicBool>,
}

/// Confines the process.
pub type Confine = dyn FnOnce() -> Result<(), String>;

/// The options of a session.
#[derive(Clone, Debug)]
pub struct Options {
    /// The configuration for the decoding of frames.
    pub frame: frame::Config,
    /// Rules of at least this level are checked.
    pub level: Level,
    /// Findings that are allowed.
    pub allowances: Allowances,
    /// Further arguments of commands that read the capture, each after a space: `--port 4792`.
    pub arguments: String,
    /// Characters and colours of the display.
    pub look: Look,
    /// Bytes of memory for a live capture: half of them for the latest records.
    pub memory: usize,
    /// The capture that files are compared with.
    pub compare: Option<PathBuf>,
    /// Writes the capture as a page; `None` if the source is not a file, which could be read a
    /// second time.
    pub export: Option<Export>,
}

/// Writes a capture as a page to a new file.
pub type WritePage = dyn Fn(&Path) -> Result<(), String> + Send + Sync;

/// A shared [`WritePage`] for any thread.
#[derive(Clone)]
pub struct Export(pub Arc<WritePage>);

impl fmt::Debug for Export {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Export")
    }
}
