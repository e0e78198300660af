//! How replies were conveyed, how long pulled replies took, and which Reply chunks were needed.

use rdmascope_conformance::inline_length;
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::transaction::{Chunk, Message, Transaction};
use rdmascope_wire::rpcrdma::{Procedure, Segment};
use std::collections::BTreeMap;

/// How the Payload stream of a reply was conveyed (RFC 8166, section 3.5; reliable-reply draft,
/// section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// Inline, without chunks that contain anything.
    Send,
    /// Inline, with items in Write chunks.
    WriteChunk,
    /// In the Reply chunk of the call.
    ReplyChunk,
    /// In a Position Zero Read chunk of the responder.
    ReadChunk,
}

impl Mechanism {
    /// All mechanisms.
    pub const ALL: [Mechanism; 4] =
        [Mechanism::Send, Mechanism::WriteChunk, Mechanism::ReplyChunk, Mechanism::ReadChunk];

    /// The mechanism of a reply; `None` for an RDMA_ERROR, and without a reply.
    pub fn of(transaction: &Transaction) -> Option<Mechanism> {
        let reply = transaction.reply.as_ref()?;
        let is_used = |chunk: &Chunk| chunk_bytes(chunk) > 0;
        Some(match reply.procedure {
            Procedure::Msg if reply.write_chunks.iter().any(is_used) => Mechanism::WriteChunk,
            Procedure::Msg => Mechanism::Send,
            Procedure::Nomsg if reply.read_chunks.is_empty() => Mechanism::ReplyChunk,
            Procedure::Nomsg => Mechanism::ReadChunk,
            _ => return None,
        })
    }

    /// Its name in machine-readable output.
    pub const fn name(self) -> &'static str {
        match self {
            Mechanism::Send => "send",
            Mechanism::WriteChunk => "write-chunk",
            Mechanism::ReplyChunk => "reply-chunk",
            Mechanism::ReadChunk => "read-chunk",
        }
    }

    /// Its name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Mechanism::Send => "inline",
            Mechanism::WriteChunk => "by Write chunk",
            Mechanism::ReplyChunk => "in the Reply chunk",
            Mechanism::ReadChunk => "in a Read chunk of the responder",
        }
    }
}

fn chunk_bytes(chunk: &Chunk) -> u64 {
    Segment::total(&chunk.segments)
}

/// The time after a reply in a Read chunk of the responder, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    /// From the reply's Send to the last RDMA Read response.
    pub pulled: u64,
    /// From the last response to RDMA_DONE; `None` if the capture has no RDMA_DONE.
    pub done: Option<u64>,
}

impl Pull {
    /// The times of a reply that was pulled.
    pub fn of(transaction: &Transaction) -> Option<Pull> {
        let reply = transaction.reply.as_ref()?;
        let (_, last) = transaction.timing.reads?;
        let is_pulled = Mechanism::of(transaction) == Some(Mechanism::ReadChunk) && last >= reply.seen.time;
        let done = transaction.done.map(|seen| seen.time.since(last));
        is_pulled.then(|| Pull { pulled: last.since(reply.seen.time), done })
    }
}

/// Counts of replies and Reply chunks.
///
/// A Reply chunk was not needed if the reply fits inline. Every inline threshold is at least 1024
/// bytes (RFC 8797, section 4.1). Longer replies are decided when the connection ends, because the
/// threshold is known by then if the capture has it. A call without a reply is not counted.
#[derive(Clone, Debug, Default)]
pub struct Replies {
    counts: [u64; 4],
    /// Reply chunks of calls with a reply, and their bytes.
    offered: (u64, u64),
    /// Reply chunks that the reply did not need, and their bytes.
    in_vain: (u64, u64),
    open: BTreeMap<ConnectionId, Sizes>,
}

/// Reply chunks and their bytes, by the least inline threshold that the reply would need, in KiB.
type Sizes = BTreeMap<u16, (u64, u64)>;

impl Replies {
    /// Counts a transaction.
    pub(crate) fn count(&mut self, transaction: &Transaction) {
        if let Some(mechanism) = Mechanism::of(transaction) {
            self.counts[mechanism as usize] += 1;
        }
        let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply) else { return };
        let Some(chunk) = &call.reply_chunk else { return };
        let counted = (1, chunk_bytes(chunk));
        add(&mut self.offered, counted);
        match kibibytes(reply) {
            0 | 1 => add(&mut self.in_vain, counted),
            size => {
                let open = self.open.entry(transaction.connection).or_default();
                add(open.entry(size).or_default(), counted);
            }
        }
    }

    /// Decides about the Reply chunks of a connection that ended.
    pub(crate) fn end(&mut self, connection: &Connection) {
        let sizes = self.open.remove(&connection.id).unwrap_or_default();
        let threshold = connection.reply_inline_threshold.unwrap_or_default();
        for (_, counted) in sizes.into_iter().filter(|(size, _)| u32::from(*size) * 1024 <= threshold) {
            add(&mut self.in_vain, counted);
        }
    }

    /// The number of replies conveyed by this mechanism.
    pub const fn conveyed(&self, mechanism: Mechanism) -> u64 {
        self.counts[mechanism as usize]
    }

    /// Reply chunks of calls with a reply, and their bytes.
    pub const fn offered(&self) -> (u64, u64) {
        self.offered
    }

    /// Reply chunks that were not used, or whose reply fits inline, and their bytes.
    pub const fn in_vain(&self) -> (u64, u64) {
        self.in_vain
    }
}

fn add(sum: &mut (u64, u64), (count, bytes): (u64, u64)) {
    sum.0 += count;
    sum.1 += bytes;
}

/// The least inline threshold that a reply needs without its Reply chunk, in KiB; 0 if it does not
/// use the chunk.
fn kibibytes(reply: &Message) -> u16 {
    let length = inline_length(reply).unwrap_or_default();
    u16::try_from(length.div_ceil(1024)).unwrap_or(MOST_KIBIBYTES).min(MOST_KIBIBYTES)
}

/// One more than the largest inline threshold, 256 KiB.
const MOST_KIBIBYTES: u16 = 257;

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_dissector::record::Time;
    use rdmascope_dissector::transaction::{ReadChunk, Seen};
    use rdmascope_dissector::ulb;
    use rdmascope_tests::values;

    /// A READDIR whose call offers a Reply chunk of 8000 bytes.
    fn readdir() -> Transaction {
        let readdir = ulb::Procedure { program: 100_003, version: 3, number: 16 };
        let mut transaction = values::transaction(readdir, 10, 1_000);
        transaction.call.as_mut().unwrap().reply_chunk = Some(chunk(8000));
        transaction
    }

    fn chunk(length: u32) -> Chunk {
        Chunk { segments: vec![values::segment(7, length, 0)] }
    }

    /// A READDIR with a reply of these bytes in the Reply chunk.
    fn long(length: u32) -> Transaction {
        let mut transaction = readdir();
        let reply = transaction.reply.as_mut().unwrap();
        (reply.procedure, reply.header_length) = (Procedure::Nomsg, 48);
        reply.reply_chunk = Some(chunk(length));
        transaction
    }

    /// A READDIR with a reply in a Read chunk of the responder.
    fn provided() -> Transaction {
        let mut transaction = readdir();
        let reply = transaction.reply.as_mut().unwrap();
        reply.procedure = Procedure::Nomsg;
        reply.read_chunks.push(ReadChunk { position: 0, segments: chunk(9000).segments });
        transaction
    }

    #[test]
    fn each_mechanism_has_its_name() {
        let name = |transaction: &Transaction| Mechanism::of(transaction).map(Mechanism::name);
        assert_eq!(name(&readdir()), Some("send"));
        assert_eq!(name(&values::read(10, 1_000)), Some("write-chunk"));
        assert_eq!(name(&long(3000)), Some("reply-chunk"));
        assert_eq!(name(&provided()), Some("read-chunk"));
        let mut none = readdir();
        none.reply.as_mut().unwrap().procedure = Procedure::Error;
        assert_eq!(name(&none), None);
        none.reply = None;
        assert_eq!(name(&none), None);
    }

    #[test]
    fn a_reply_chunk_is_needed_beyond_the_inline_threshold() {
        let mut connection = values::connection();
        connection.id = readdir().connection;
        let mut unanswered = readdir();
        unanswered.reply = None;
        for (threshold, needed) in [(None, 3), (Some(1024), 3), (Some(4096), 1), (Some(8192), 0)] {
            let mut replies = Replies::default();
            // With a header of 28 bytes, the replies are 4096 bytes and 4097 bytes long.
            for transaction in [readdir(), long(4068), long(1500), long(4069), provided()] {
                replies.count(&transaction);
            }
            replies.count(&unanswered);
            assert_eq!(replies.in_vain(), (2, 16_000), "the threshold is not known yet");
            connection.reply_inline_threshold = threshold;
            replies.end(&connection);
            assert_eq!(replies.in_vain(), (5 - needed, 8_000 * (5 - needed)), "{threshold:?}");
            assert_eq!(replies.offered(), (5, 40_000));
            assert_eq!(Mechanism::ALL.map(|mechanism| replies.conveyed(mechanism)), [1, 0, 3, 1]);
            assert!(replies.open.is_empty());
        }
    }

    #[test]
    fn a_pull_comes_after_the_reply() {
        let mut transaction = provided();
        let sent = transaction.reply.as_ref().unwrap().seen.time;
        assert_eq!(Pull::of(&transaction), None);
        transaction.timing.reads = Some((Time(sent.0 + 10), Time(sent.0 + 70)));
        assert_eq!(Pull::of(&transaction), Some(Pull { pulled: 70, done: None }));
        transaction.done = Some(Seen { frame: 99, time: Time(sent.0 + 75) });
        assert_eq!(Pull::of(&transaction), Some(Pull { pulled: 70, done: Some(5) }));
        // Reads of the call's own chunks come before the reply.
        transaction.timing.reads = Some((Time(sent.0 - 70), Time(sent.0 - 10)));
        assert_eq!(Pull::of(&transaction), None);
    }
}
