//! The phases of a transaction's time.

use rdmascope_dissector::record::Time;
use rdmascope_dissector::transaction::Transaction;

/// The nanoseconds of each phase: the call's Send, the wait for its ACK, the server before its
/// first RDMA operation, RDMA Reads, the server between and after, RDMA Writes, the reply's Send.
///
/// The call's Send lasts from its first to its last packet and comes before the latency; the other
/// phases add up to the latency.
///
/// The wait from the last packet of the call to its ACK is a round trip from the capture point
/// through the network and the responder's queue pair. A queue pair that acknowledges late, as
/// software on a busy host does, hides server time in this phase. One ACK may acknowledge several
/// Sends, so the phase ends at the latest with the first RDMA operation on the call's memory, or
/// with the first packet of the reply.
///
/// RDMA Reads and Writes last from the first to the last packet of their kind, up to the reply.
/// Where they overlap, the time counts as Reads. The reply's Send lasts from its first to its last
/// packet. The rest is server time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// The lengths in the order of [`Phases::NAMES`].
    pub times: [u64; Phases::COUNT],
    /// Whether the ACK of the call was seen before the transaction ended. If not, its phase is 0,
    /// and that time counts as server time.
    pub acknowledged: bool,
}

impl Phases {
    /// The number of phases.
    pub const COUNT: usize = 7;

    /// The headings of the phases.
    pub const NAMES: [&str; Phases::COUNT] =
        ["call", "until ACK", "server before", "reads", "server after", "writes", "reply"];

    /// The headings of the phase groups, for output with less room.
    pub const GROUPS: [&str; 5] = ["call", "reads", "server", "writes", "reply"];

    /// The phases of a transaction; `None` if its call or reply is missing.
    pub fn of(transaction: &Transaction) -> Option<Phases> {
        let (call, reply) = (transaction.call.as_ref()?, transaction.reply.as_ref()?);
        let timing = &transaction.timing;
        let sent = call.seen.time;
        let whole = transaction.latency()?;
        // Nanoseconds after the call. Time stamps in captures can step back.
        let reply_start = reply.first.time.since(sent).min(whole);
        let within = |time: Time| time.since(sent).min(reply_start);
        let span = |span: Option<(Time, Time)>| span.map(|(first, last)| (within(first), within(last)));
        let (reads, writes) = (span(timing.reads), span(timing.writes));
        let starts = [reads, writes].into_iter().flatten().map(|(start, _)| start);
        let first = starts.min().unwrap_or(reply_start);
        let acknowledged = timing.acknowledged.map_or(0, |seen| within(seen.time).min(first));
        let length = |span: Option<(u64, u64)>| span.map_or(0, |(start, end)| end.saturating_sub(start));
        let both = reads.zip(writes).map(|(a, b)| (a.0.max(b.0), a.1.min(b.1)));
        let (read, written) = (length(reads), length(writes) - length(both));
        let after = reply_start.saturating_sub(first + read + written);
        let times = [
            sent.since(call.first.time),
            acknowledged,
            first - acknowledged,
            read,
            after,
            written,
            whole - reply_start,
        ];
        Some(Phases { times, acknowledged: timing.acknowledged.is_some() })
    }
}

/// Adds up the phases of each of [`Phases::GROUPS`]. The wait for the ACK belongs to the call.
pub fn grouped<T: Copy + core::ops::Add<Output = T>>(phases: [T; Phases::COUNT]) -> [T; 5] {
    let [call, acknowledged, before, reads, after, writes, reply] = phases;
    [call + acknowledged, reads, before + after, writes, reply]
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_dissector::transaction::Seen;
    use rdmascope_dissector::ulb::Procedure;
    use rdmascope_tests::values;

    const READ: Procedure = Procedure { program: 100_003, version: 3, number: 6 };

    /// A transaction whose reply comes 1 ms after the call and is 100 us long. Times are in
    /// microseconds after the call.
    fn transaction(
        acknowledged: Option<i64>,
        reads: Option<(i64, i64)>,
        writes: Option<(i64, i64)>,
    ) -> Transaction {
        let mut transaction = values::transaction(READ, 10, 1_000);
        let start = transaction.call.as_ref().unwrap().seen.time;
        let at = |micros: i64| Time(start.0 + micros * 1_000);
        transaction.call.as_mut().unwrap().first.time = at(-20);
        transaction.reply.as_mut().unwrap().first.time = at(900);
        transaction.timing.acknowledged = acknowledged.map(|micros| Seen { frame: 11, time: at(micros) });
        transaction.timing.reads = reads.map(|(first, last)| (at(first), at(last)));
        transaction.timing.writes = writes.map(|(first, last)| (at(first), at(last)));
        transaction
    }

    /// The phases in microseconds.
    #[track_caller]
    fn phases(transaction: &Transaction) -> [u64; Phases::COUNT] {
        let phases = Phases::of(transaction).unwrap();
        assert_eq!(phases.times[1..].iter().sum::<u64>(), transaction.latency().unwrap());
        assert_eq!(phases.acknowledged, transaction.timing.acknowledged.is_some());
        phases.times.map(|time| time / 1_000)
    }

    #[test]
    fn each_phase_has_its_time() {
        let all = transaction(Some(30), Some((100, 300)), Some((450, 850)));
        assert_eq!(phases(&all), [20, 30, 70, 200, 200, 400, 100]);
        let inline = transaction(Some(30), None, None);
        assert_eq!(phases(&inline), [20, 30, 870, 0, 0, 0, 100]);
        let unknown = transaction(None, None, Some((450, 850)));
        assert_eq!(phases(&unknown), [20, 0, 450, 0, 50, 400, 100]);
    }

    #[test]
    fn an_acknowledgement_comes_before_what_the_server_does() {
        // An ACK for several Sends may be later than other signs that the call arrived.
        assert_eq!(phases(&transaction(Some(150), Some((100, 300)), None)), [20, 100, 0, 200, 600, 0, 100]);
        assert_eq!(phases(&transaction(Some(950), None, None)), [20, 900, 0, 0, 0, 0, 100]);
        // The capture shows the ACK before the call, out of order.
        assert_eq!(phases(&transaction(Some(-5), None, None)), [20, 0, 900, 0, 0, 0, 100]);
    }

    #[test]
    fn the_same_time_counts_once_and_within_the_latency() {
        assert_eq!(
            phases(&transaction(None, Some((100, 500)), Some((400, 600)))),
            [20, 0, 100, 400, 300, 100, 100]
        );
        assert_eq!(
            phases(&transaction(None, Some((100, 500)), Some((200, 400)))),
            [20, 0, 100, 400, 400, 0, 100]
        );
        // The requester pulls a reply with RDMA Reads after it. The capture shows a Write after the
        // reply that was sent before it.
        assert_eq!(phases(&transaction(None, Some((1_100, 1_500)), None)), [20, 0, 900, 0, 0, 0, 100]);
        assert_eq!(phases(&transaction(None, None, Some((850, 950)))), [20, 0, 850, 0, 0, 50, 100]);
        assert_eq!(phases(&transaction(None, Some((-50, 50)), None)), [20, 0, 0, 50, 850, 0, 100]);
    }

    #[test]
    fn groups_are_sums() {
        assert_eq!(grouped([1, 2, 4, 8, 16, 32, 64]), [3, 8, 20, 32, 64]);
    }
}
