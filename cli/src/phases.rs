//! Where the time of a transaction went.

use rdmascope_dissector::transaction::Transaction;

/// Nanoseconds: the call on the wire, RDMA Reads, the server, RDMA Writes, the reply on the wire.
///
/// The call's Send lasts from its first to its last packet and comes before the latency. RDMA Reads and Writes count from the
/// first to the last packet of their kind, the reply's Send from its first to its last. What of the latency is none of
/// these is the server's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Phases(pub(crate) [u64; 5]);

impl Phases {
    /// What the phases are called in headings.
    pub(crate) const NAMES: [&str; 5] = ["call", "reads", "server", "writes", "reply"];

    /// The phases of a transaction of which both call and reply are there.
    pub(crate) fn of(transaction: &Transaction) -> Option<Phases> {
        let (call, reply) = (transaction.call.as_ref()?, transaction.reply.as_ref()?);
        let span = |span: Option<_>| span.map_or(0, |(first, last): (_, _)| since(last, first));
        let reads = span(transaction.timing.reads);
        let writes = span(transaction.timing.writes);
        let reply_time = since(reply.seen.time, reply.first.time);
        let server = transaction.latency()?.saturating_sub(reads).saturating_sub(writes);
        Some(Phases([
            since(call.seen.time, call.first.time),
            reads,
            server.saturating_sub(reply_time),
            writes,
            reply_time,
        ]))
    }
}

fn since(last: rdmascope_dissector::record::Time, first: rdmascope_dissector::record::Time) -> u64 {
    last.since(first)
}
