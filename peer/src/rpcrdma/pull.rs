//! A message whose Read chunks are being read by RDMA Reads.

use super::{RestoreError, restore};
use crate::endpoint::{ConnectionId, Endpoint};
use crate::rc::{PostError, WorkId};
use alloc::vec::Vec;
use core::ops::Range;
use rdmascope_wire::Rkey;
use rdmascope_wire::rpcrdma::{Header, Procedure, ReadSegment};

/// The segments of a Read list, and their bytes read so far.
#[derive(Clone, Debug)]
pub(super) struct Pull {
    segments: Vec<(ReadSegment, Option<WorkId>, Vec<u8>)>,
    /// The inline part of the Payload stream; empty for RDMA_NOMSG.
    inline: Vec<u8>,
    is_long: bool,
    /// Number of RDMA Reads that have not completed.
    open: usize,
}

impl Pull {
    /// Posts an RDMA Read for each nonempty segment. The queue pair limits how many are
    /// outstanding.
    pub(super) fn start(
        endpoint: &mut Endpoint,
        connection: ConnectionId,
        header: &Header<'_>,
        inline: &[u8],
    ) -> Result<Pull, PostError> {
        let mut segments = Vec::new();
        for read in header.reads {
            let target = read.target;
            let work = match target.length {
                0 => None,
                length => Some(endpoint.read(connection, target.handle, target.offset, length)?),
            };
            segments.push((read, work, Vec::new()));
        }
        let open = segments.iter().filter(|(_, work, _)| work.is_some()).count();
        let is_long = header.procedure == Procedure::Nomsg;
        Ok(Pull { segments, inline: inline.to_vec(), is_long, open })
    }

    /// Returns the posted RDMA Reads.
    pub(super) fn works(&self) -> impl Iterator<Item = WorkId> {
        self.segments.iter().filter_map(|(_, work, _)| *work)
    }

    /// Returns the handles by Read chunk. Segments with the same Position form one chunk.
    pub(super) fn handles(&self) -> Vec<Vec<Rkey>> {
        let chunks = self.segments.chunk_by(|(one, ..), (next, ..)| one.position == next.position);
        chunks.map(|chunk| chunk.iter().map(|(read, ..)| read.target.handle).collect()).collect()
    }

    /// Returns whether all RDMA Reads have completed.
    pub(super) const fn is_complete(&self) -> bool {
        self.open == 0
    }

    /// Adds the bytes of an RDMA Read if it belongs to this message.
    pub(super) fn take(&mut self, work: WorkId, bytes: &[u8]) {
        let segment = self.segments.iter_mut().find(|(_, id, _)| *id == Some(work));
        if let Some((_, id, place)) = segment {
            *id = None;
            place.extend_from_slice(bytes);
            self.open -= 1;
        }
    }

    /// Returns the complete RPC message, and the ranges of the chunks at nonzero Positions.
    pub(super) fn message(self) -> Result<(Vec<u8>, Vec<Range<usize>>), RestoreError> {
        let mut stream = self.inline;
        let mut items: Vec<(u32, Vec<u8>)> = Vec::new();
        for (read, _, bytes) in self.segments {
            if self.is_long && read.position == 0 {
                stream.extend_from_slice(&bytes);
                continue;
            }
            match items.iter_mut().find(|(position, _)| *position == read.position) {
                Some((_, item)) => item.extend_from_slice(&bytes),
                None => items.push((read.position, bytes)),
            }
        }
        items.sort_by_key(|(position, _)| *position);
        restore(&stream, &items)
    }
}
