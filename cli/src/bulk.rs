//! `--cut-bulk`: captures without the payload of RDMA Writes and RDMA Read responses.

use rdmascope_dissector::bulk::BulkCut;
use rdmascope_dissector::record::Record;

/// The comment in a capture written with --cut-bulk.
pub(crate) const COMMENT: &str = "written by rdmascope --cut-bulk: the payload of RDMA Writes and RDMA Reads is omitted. Headers, Sends, \
messages in chunks, and original lengths are kept. The ICRCs of shortened packets cannot be verified.";

/// The record to write, shortened with --cut-bulk.
pub(crate) fn cut<'a>(bulk: &mut Option<BulkCut>, record: &Record<'a>) -> Record<'a> {
    let kept = bulk.as_mut().map_or(record.data.len(), |bulk| bulk.kept(record));
    Record { data: &record.data[..kept], ..*record }
}
