//! Upper-layer bindings: what the RPC message says, read off its reduced Payload stream.
//!
//! A binding walks arguments or results in XDR order and *pulls* each DDP-eligible item (RFC 8267, sections 4 and 6.1) from
//! the [`Payload`], which knows whether that item stands in the stream or was moved by a chunk. So nothing below a
//! binding has to know what it decodes.

mod payload;

pub use payload::{Chunks, Item, Payload, Place};

use rdmascope_wire::Stop;

/// What a binding found in a call and its reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The operations in the order of the call: one for a plain procedure, several for a COMPOUND.
    pub operations: Vec<Operation>,
    /// The bytes that [`Text`] points into: names and file handles of all operations.
    pub arena: Vec<u8>,
}

impl Details {
    /// Empties it and keeps the memory.
    pub fn clear(&mut self) {
        self.operations.clear();
        self.arena.clear();
    }

    /// Keeps a copy of `bytes`, at most [`Text::LONGEST`] of them, for as long as these details live.
    pub fn keep(&mut self, bytes: &[u8]) -> Text {
        let bytes = &bytes[..bytes.len().min(Text::LONGEST)];
        let start = u32::try_from(self.arena.len()).unwrap_or(u32::MAX);
        if start as usize + bytes.len() > Details::LARGEST_ARENA {
            return Text { start: 0, length: 0 };
        }
        self.arena.extend_from_slice(bytes);
        Text { start, length: bytes.len() as u16 }
    }

    /// The bytes of a [`Text`] of these details.
    pub fn bytes(&self, text: Text) -> &[u8] {
        let start = text.start as usize;
        self.arena.get(start..start + usize::from(text.length)).unwrap_or(&[])
    }

    /// How many bytes of names and file handles one transaction keeps.
    const LARGEST_ARENA: usize = 1 << 16;
    /// How many operations one transaction keeps; a COMPOUND with more is read on, and the rest not kept.
    pub const MOST_OPERATIONS: usize = 1024;
}

/// A range of [`Details::arena`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Text {
    start: u32,
    length: u16,
}

impl Text {
    /// Bytes that one name or file handle keeps.
    pub const LONGEST: usize = 1024;

    /// Whether it holds nothing.
    pub fn is_empty(self) -> bool {
        self.length == 0
    }
}

/// One operation: its arguments and results as far as they help to understand the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The number of the procedure or operation.
    pub code: u32,
    /// Its name in the specification's spelling without prefix: `WRITE`, `OPEN`, `CB_RECALL`; `ILLEGAL` or
    /// `operation` where the number has none.
    pub name: &'static str,
    /// The status that the reply gave it.
    pub status: Option<u32>,
    /// The file handle that it names or, for PUTFH, sets.
    pub file_handle: Option<Text>,
    /// The file handle that its result returned (GETFH, LOOKUP, CREATE …).
    pub result_file_handle: Option<Text>,
    /// The name of a directory entry that it is about.
    pub file_name: Option<Text>,
    /// A second name: the target of RENAME and LINK, the text of a symbolic link.
    pub other_name: Option<Text>,
    /// Byte offset in the file.
    pub offset: Option<u64>,
    /// Bytes asked for or sent.
    pub count: Option<u64>,
    /// Bytes that the result says were moved.
    pub result_count: Option<u64>,
    /// Whether a READ result reached the end of the file.
    pub end_of_file: Option<bool>,
    /// The DDP-eligible item of the arguments.
    pub argument_item: Option<Item>,
    /// The DDP-eligible item of the results.
    pub result_item: Option<Item>,
}

impl Operation {
    /// An operation of which nothing but number and name is known.
    pub fn new(code: u32, name: &'static str) -> Operation {
        Operation {
            code,
            name,
            status: None,
            file_handle: None,
            result_file_handle: None,
            file_name: None,
            other_name: None,
            offset: None,
            count: None,
            result_count: None,
            end_of_file: None,
            argument_item: None,
            result_item: None,
        }
    }
}

/// The RPC procedure that a message calls or answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Procedure {
    /// RPC program number.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure.
    pub number: u32,
}

/// What reading a message came to, besides the [`Details`].
pub type Outcome = Result<(), Stop>;
