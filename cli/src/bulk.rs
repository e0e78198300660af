//! `--cut-bulk`: captures without the data that RDMA Writes and RDMA Read responses move.

use rdmascope_dissector::bulk::BulkCut;
use rdmascope_dissector::record::Record;

/// What the comment on such a capture says.
pub(crate) const COMMENT: &str = "written by rdmascope --cut-bulk: the data that RDMA Writes and RDMA Reads moved is left out. Headers, Sends, \
messages that stand in chunks, and original lengths are kept. The ICRCs of shortened packets cannot be verified.";

/// The record as it is written: shortened where somebody cuts.
pub(crate) fn cut<'a>(bulk: &mut Option<BulkCut>, record: &Record<'a>) -> Record<'a> {
    let kept = bulk.as_mut().map_or(record.data.len(), |bulk| bulk.kept(record));
    Record { data: &record.data[..kept], ..*record }
}
