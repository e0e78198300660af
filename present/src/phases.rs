//! Where the time of a transaction went.

use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::Transaction;

/// Nanoseconds: the call on the wire, RDMA Reads, the server, RDMA Writes, the reply on the wire.
///
/// The call's Send lasts from its first to its last packet and comes before the latency. RDMA Reads and Writes count from the
/// first to the last packet of their kind, the reply's Send from its first to its last. What of the latency is none of
/// these is the server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases(pub [u64; 5]);

impl Phases {
    /// What the phases are called in headings.
    pub const NAMES: [&str; 5] = ["call", "reads", "server", "writes", "reply"];

    /// The phases of a transaction of which both call and reply are there.
    pub fn of(transaction: &Transaction) -> Option<Phases> {
        let (call, reply) = (transaction.call.as_ref()?, transaction.reply.as_ref()?);
        let length = |span: Option<(Time, Time)>| span.map_or(0, |(first, last)| last.since(first));
        let call_wire = call.seen.time.since(call.first.time);
        let reads = length(transaction.timing.reads);
        let writes = length(transaction.timing.writes);
        let reply_wire = reply.seen.time.since(reply.first.time);
        let others = reads.saturating_add(writes).saturating_add(reply_wire);
        let server = transaction.latency()?.saturating_sub(others);
        Some(Phases([call_wire, reads, server, writes, reply_wire]))
    }
}
