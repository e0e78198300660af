//! Notes: custom pcapng blocks that `rdmascope capture` writes.
//!
//! ```text
//! custom block (0bad):  Private Enterprise Number 4 | data
//! data (little-endian): "rdmascop" 8 | kind 4 | length 4 | bytes, padded to a multiple of 4
//! ```
//!
//! The block type permits programs to copy the block when they rewrite a capture. The enterprise
//! number is 32473, which RFC 5612 reserves for documentation, because this project has no number
//! of its own. The eight letters distinguish notes from other blocks with that number.

use crate::inventory::{self, Connected};
use rdmascope_dissector::connection::KnownConnection;
use rdmascope_dissector::engine::Engine;

/// The Private Enterprise Number.
pub(crate) const ENTERPRISE: u32 = 32_473;
/// The type of custom blocks that may be copied.
pub(crate) const CUSTOM: u32 = 0x0000_0bad;

const MARK: &[u8; 8] = b"rdmascop";
const HEAD: usize = 16;

/// The kind of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoteKind {
    /// The connections of the host: text of [`crate::inventory`].
    Inventory,
    /// Kernel trace events: text of [`crate::trace`].
    Trace,
}

/// A note in a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The kind of the contents.
    pub kind: NoteKind,
    /// The contents.
    pub bytes: Vec<u8>,
}

impl NoteKind {
    const fn number(self) -> u32 {
        match self {
            NoteKind::Inventory => 1,
            NoteKind::Trace => 2,
        }
    }
}

impl Note {
    /// Returns the connections in an inventory note. Empty for other notes.
    pub fn connections(&self) -> Vec<KnownConnection> {
        match self.kind {
            NoteKind::Inventory => {
                let text = String::from_utf8_lossy(&self.bytes);
                inventory::from_text(&text).iter().map(Connected::known).collect()
            }
            NoteKind::Trace => Vec::new(),
        }
    }

    /// Adds the connections of this note to an engine.
    pub fn pass_to(&self, engine: &mut Engine) {
        self.connections().into_iter().for_each(|connection| engine.know(connection));
    }

    /// Parses the data of a custom block after its Private Enterprise Number. `None` if it is no
    /// note, or a note of an unknown kind.
    pub(crate) fn read(data: &[u8]) -> Option<Note> {
        let head = data.first_chunk::<HEAD>()?;
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if !head.starts_with(MARK) {
            return None;
        }
        let kind =
            [NoteKind::Inventory, NoteKind::Trace].into_iter().find(|kind| kind.number() == word(8))?;
        let length = usize::try_from(word(12)).ok()?;
        let bytes = data.get(HEAD..HEAD.checked_add(length)?)?;
        Some(Note { kind, bytes: bytes.to_vec() })
    }

    /// Parses a note from a whole custom block, including type and lengths.
    pub(crate) fn of_block(block: &[u8]) -> Option<Note> {
        const TYPE_LENGTH_AND_NUMBER: usize = 12;
        Note::read(block.get(TYPE_LENGTH_AND_NUMBER..block.len().checked_sub(4)?)?)
    }

    /// Builds the bytes between the header of the block and the contents.
    pub(crate) fn head(kind: NoteKind, length: u32) -> [u8; 4 + HEAD] {
        let mut head = [0; 4 + HEAD];
        head[..4].copy_from_slice(&ENTERPRISE.to_le_bytes());
        head[4..12].copy_from_slice(MARK);
        head[12..16].copy_from_slice(&kind.number().to_le_bytes());
        head[16..].copy_from_slice(&length.to_le_bytes());
        head
    }
}
