//! The phases of a transaction's time.

use crate::record::Time;
use crate::transaction::Transaction;

/// The nanoseconds of each phase: the call's Send, the wait for its ACK, the time before the first
/// RDMA operation, RDMA Reads, the time between and after, RDMA Writes, the reply's Send.
///
/// The call's Send lasts from its first to its last packet and comes before the latency; the other
/// phases add up to the latency.
///
/// The wait from the last packet of the call to its ACK is a round trip from the capture point
/// through the network and the responder's queue pair. A queue pair that acknowledges late, as
/// software on a busy host does, hides server time in this phase. One ACK may acknowledge several
/// Sends, so the phase ends at the latest with the first RDMA operation on the call's memory, or
/// with the first packet of the reply. Without an ACK, and over TCP, which may wait before it
/// acknowledges, the shortest round trip of the connection so far is an estimate.
///
/// RDMA Reads and Writes last from the first to the last packet of their kind, up to the reply.
/// Where they overlap, the time counts as Reads. The reply's Send lasts from its first to its last
/// packet.
///
/// The rest has two parts, before and after the RDMA operations. In the first part, data of the
/// responder was in flight, mostly of other transactions, or data of the requester had to be sent
/// again. Then the reply may have waited for the network. In the second part, nothing on the wire
/// explains the wait, so it counts as server time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// The lengths in the order of [`Phases::NAMES`].
    pub times: [u64; Phases::COUNT],
    /// Whether the time until the ACK of the call is known or estimated. If not, its phase is 0, and
    /// that time is part of the next two.
    pub acknowledged: bool,
    /// Whether it is an estimate.
    pub estimated: bool,
}

/// TCP acknowledges within half a second (RFC 9293, section 3.8.6.3), in nanoseconds. If it takes longer,
/// the call was lost.
const LATEST_ACK: u64 = 500_000_000;

impl Phases {
    /// The number of phases.
    pub const COUNT: usize = 9;

    /// The headings of the phases.
    pub const NAMES: [&str; Phases::COUNT] = [
        "call",
        "until ACK",
        "sending before",
        "server before",
        "reads",
        "sending after",
        "server after",
        "writes",
        "reply",
    ];

    /// The headings of the phase groups, for output with less room.
    pub const GROUPS: [&str; 6] = ["call", "reads", "sending", "server", "writes", "reply"];

    /// The phases of a transaction; `None` if its call or reply is missing, or if the capture shows
    /// nothing between the two.
    pub fn of(transaction: &Transaction) -> Option<Phases> {
        if transaction.memory_unseen {
            return None;
        }
        let (call, reply) = (transaction.call.as_ref()?, transaction.reply.as_ref()?);
        let timing = &transaction.timing;
        let sent = call.seen.time;
        let total = transaction.latency()?;
        // Nanoseconds after the call. Time stamps in captures can step back.
        let reply_start = reply.first.time.since(sent).min(total);
        let within = |time: Time| time.since(sent).min(reply_start);
        let span = |span: Option<(Time, Time)>| span.map(|(first, last)| (within(first), within(last)));
        let (reads, writes) = (span(timing.reads), span(timing.writes));
        let starts = [reads, writes].into_iter().flatten().map(|(start, _)| start);
        let first = starts.min().unwrap_or(reply_start);
        let round_trip = Some(timing.round_trip).filter(|trip| *trip > 0);
        let seen = timing.acknowledged.map(|seen| within(seen.time));
        let arrived = match seen {
            Some(seen) if timing.acknowledges_late && seen < LATEST_ACK => {
                Some(round_trip.unwrap_or(seen).min(seen))
            }
            None if timing.acknowledges_late => {
                round_trip.map(|trip| trip.max(first.saturating_sub(LATEST_ACK)))
            }
            seen => seen.or(round_trip),
        };
        let acknowledged = arrived.unwrap_or(0).min(first);
        let length = |span: Option<(u64, u64)>| span.map_or(0, |(start, end)| end.saturating_sub(start));
        let both = reads.zip(writes).map(|(a, b)| (a.0.max(b.0), a.1.min(b.1)));
        let (read, written) = (length(reads), length(writes) - length(both));
        let before = first - acknowledged;
        let after = reply_start.saturating_sub(first + read + written);
        let sending = [timing.busy_before.min(before), timing.busy_after.min(after)];
        let times = [
            sent.since(call.first.time),
            acknowledged,
            sending[0],
            before - sending[0],
            read,
            sending[1],
            after - sending[1],
            written,
            total - reply_start,
        ];
        Some(Phases {
            times,
            acknowledged: arrived.is_some(),
            estimated: arrived.is_some() && arrived != seen,
        })
    }

    /// The time in which the reply may have waited for the network.
    pub fn sending(&self) -> u64 {
        self.times[2] + self.times[5]
    }

    /// The time in which data of the responder moved, or in which the reply may have waited for the
    /// network, without RDMA Reads.
    pub fn moving(&self) -> u64 {
        let [.., writes, reply] = self.times;
        self.sending() + writes + reply
    }

    /// The time of the server: nothing on the wire explains it.
    pub fn server(&self) -> u64 {
        self.times[3] + self.server_after()
    }

    /// The part of it between and after RDMA operations. Responses to RDMA Reads that wait in the
    /// network between the capture point and the server look the same.
    pub fn server_after(&self) -> u64 {
        self.times[6]
    }
}

/// Adds up the phases of each of [`Phases::GROUPS`]. The wait for the ACK belongs to the call.
pub fn grouped<T: Copy + core::ops::Add<Output = T>>(phases: [T; Phases::COUNT]) -> [T; 6] {
    let [call, acknowledged, sending, server, reads, sending_after, server_after, writes, reply] = phases;
    [call + acknowledged, reads, sending + sending_after, server + server_after, writes, reply]
}
