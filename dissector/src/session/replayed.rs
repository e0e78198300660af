//! Repeated RDMA Read responses, whose bytes were placed before.

use crate::rdma::Placement;

/// The repeated responses of one end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Replayed {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    /// The first frame.
    pub(super) first: Option<u64>,
}

impl Replayed {
    #[cold]
    pub(super) fn note(&mut self, placement: &Placement<'_>) {
        self.packets += 1;
        self.bytes += u64::from(placement.length);
        self.first.get_or_insert(placement.seen.frame);
    }
}
