//! The vocabulary of steps. docs/scenarios.md describes each for those who write scenarios.

use super::pattern::Pattern;
use super::response::{Awaited, Response, Side, WriteBeyond};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::Deserialize;

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Makes a connection and waits for it; what comes instead is judged if `observe` is said, else the scenario does not apply.
    Connect(Connect),
    /// Registers memory for the target to read or write.
    Register(Register),
    /// Sends an RPC-over-RDMA message.
    Send(Box<Send>),
    /// Sends any bytes in a SEND.
    SendRaw(SendRaw),
    /// RDMA WRITE into memory of the target.
    Write(Write),
    /// RDMA READ of memory of the target.
    Read(Read),
    /// RDMA READ of the Read chunk of the last reply that has one.
    Pull(Pull),
    /// Goes on with the connection of an earlier `connect` step, counted from 1.
    Connection(usize),
    /// Ends the registration of memory.
    Invalidate(String),
    /// Sets what happens to datagrams from now on; an empty list ends that.
    Rules(Vec<Rule>),
    /// Leaves out so many PSNs before what is sent next.
    SkipPsn(u32),
    /// Waits so many milliseconds.
    Wait(u32),
    /// Waits for a reaction that has to come for the scenario to apply.
    Expect(Expect),
    /// Waits for the reaction that is judged.
    Observe(Observe),
    /// Sends a DREQ.
    Disconnect(Nothing),
    /// Forgets the connection without a word to the target, as a host does that crashes.
    Abandon(Nothing),
    /// Calls NULL on this connection, and waits for its reply; without one the scenario does not apply.
    Probe(Nothing),
    /// Makes an NFSv4.1 session on this connection; where that fails the scenario does not apply.
    Session(Session),
    /// In this session makes a file, opens it for a delegation, and has it removed by a call without the session, for which the target has
    /// to recall the delegation. What it does about that is a reaction.
    Recall(Nothing),
    /// Responder: waits for the call that the scenario is about. The first step, and only there.
    Call(Awaited),
    /// Responder: sends the reply to it, right or not.
    Reply(Box<Response>),
    /// Responder: RDMA WRITE behind the memory that it offers.
    WriteBeyond(WriteBeyond),
}

impl Step {
    /// Whether a scenario of this side may have it.
    pub const fn is_of(&self, side: Side) -> bool {
        match self {
            Step::Call(_) | Step::Reply(_) | Step::WriteBeyond(_) => matches!(side, Side::Responder),
            Step::Send(_) | Step::Wait(_) | Step::Observe(_) | Step::Disconnect(_) => true,
            _ => matches!(side, Side::Requester),
        }
    }
}

/// A step without parameters: `{}`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nothing {}

/// See [`Step::Session`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Session {
    /// Whether the target may call back on this connection.
    pub backchannel: bool,
}

impl Default for Session {
    fn default() -> Session {
        Session { backchannel: true }
    }
}

/// See [`Step::Connect`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Connect {
    /// Private data from its fields; neither this nor `raw`: version 1, R set, 4096 bytes each way.
    pub private_data: Option<PrivateDataFields>,
    /// Private data as hex digits; empty: none.
    pub raw: Option<String>,
    /// Another port than the target's.
    pub port: Option<u16>,
    /// Milliseconds that nothing is answered before it counts as no answer.
    pub within: Option<u32>,
    /// Whether the reaction to the REQ is what is judged.
    pub observe: bool,
}

/// Private data by fields (RFC 8797, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct PrivateDataFields {
    /// Version.
    pub version: u8,
    /// The seven Reserved bits.
    pub reserved: u8,
    /// R: remote invalidation is supported.
    pub remote_invalidation: bool,
    /// Send Size in bytes.
    pub send_size: u32,
    /// Receive Size in bytes.
    pub receive_size: u32,
    /// Bytes of zero in front of it.
    pub offset: usize,
    /// Bytes of it that are sent, of 8.
    pub length: usize,
    /// How often it is sent, one behind the other.
    pub copies: usize,
}

impl Default for PrivateDataFields {
    fn default() -> PrivateDataFields {
        PrivateDataFields {
            version: 1,
            reserved: 0,
            remote_invalidation: true,
            send_size: 4096,
            receive_size: 4096,
            offset: 0,
            length: 8,
            copies: 1,
        }
    }
}

/// See [`Step::Register`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Register {
    /// What steps call it.
    pub name: String,
    /// Bytes.
    pub length: u32,
    /// What the target may do.
    pub access: Rights,
    /// What it holds.
    #[serde(default)]
    pub fill: Fill,
}

/// What the target may do with memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rights {
    /// RDMA READ: for Read chunks.
    Read,
    /// RDMA WRITE: for Write chunks and Reply chunks.
    Write,
}

/// What memory holds at first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fill {
    /// Zeros.
    #[default]
    Zero,
    /// 0, 1, 2 … 250, 0, 1 …
    Count,
}

/// A number as a scenario writes it: of the scenario, or raw.
pub type Number = u32;

/// `rdma_proc`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// RDMA_MSG.
    #[default]
    Msg,
    /// RDMA_NOMSG.
    Nomsg,
    /// RDMA_MSGP.
    Msgp,
    /// RDMA_DONE.
    Done,
    /// RDMA_ERROR.
    Error,
}

/// `rdma_proc` by name or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Procedure {
    /// One that the specification knows.
    Known(Kind),
    /// Any number.
    Number(u32),
}

/// An RDMA_ERROR to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ErrorFields {
    /// `vers`, `chunk` or a number.
    pub code: MessageError,
    /// rdma_vers_low.
    #[serde(default)]
    pub low: u32,
    /// rdma_vers_high.
    #[serde(default)]
    pub high: u32,
}

/// `rdma_err` by name or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum MessageError {
    /// By name.
    Named(NamedError),
    /// By number.
    Number(u32),
}

/// The names of `rdma_err`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NamedError {
    /// ERR_VERS.
    Vers,
    /// ERR_CHUNK.
    Chunk,
}

/// A segment: a part of registered memory, or a lie about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Segment {
    /// Registered memory.
    pub memory: Option<String>,
    /// Where in it the segment begins, in bytes.
    pub at: u64,
    /// Its length; that of the memory from `at` on where it is not said.
    pub length: Option<u32>,
    /// Another handle than that of the memory.
    pub handle: Option<u32>,
    /// Another address than that of the memory.
    pub address: Option<u64>,
    /// How many such segments, one behind the other.
    pub times: Option<u32>,
}

/// An entry of the Read list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ReadEntry {
    /// Its Position.
    pub position: u32,
    /// Its segment.
    pub segment: Segment,
}

/// A Write chunk or Reply chunk.
pub type ChunkList = Vec<Segment>;

/// What stands in a message behind its header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Payload {
    /// Nothing.
    None,
    /// A call of procedure NULL of NFS version 3.
    #[default]
    Null,
    /// The same call with a credential and arguments that are cut off: the XID and msg_type CALL only.
    Short,
    /// NFSv3 READ with a file handle that no server knows.
    Read(ReadArguments),
    /// NFSv3 WRITE with a file handle that no server knows.
    Write(WriteArguments),
    /// NFSv4.0 COMPOUND: PUTROOTFH and this many GETATTRs: the reply has some hundred bytes for each, without needing any state.
    Getattrs(u32),
    /// An RPC reply that says success.
    Reply,
    /// The reply to the last callback: success of each operation.
    CallbackReply,
    /// Hex digits. `xid` stands for the four bytes of the XID.
    Hex(String),
}

/// Of NFSv3 READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ReadArguments {
    /// The count.
    pub count: u32,
}

/// Of NFSv3 WRITE.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct WriteArguments {
    /// Bytes of data.
    pub length: u32,
    /// The data are reduced: they are put into this memory, and not into the Payload stream.
    #[serde(default)]
    pub into: Option<String>,
}

/// A part, as in `at = 4, bytes = "…"`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Fraction {
    /// Offset in the message.
    pub at: usize,
    /// Hex digits that replace what stands there.
    pub bytes: String,
}

/// See [`Step::Send`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Send {
    /// The XID, counted from one that the run chooses; the next unused one where it is not said.
    pub xid: Option<Number>,
    /// It answers the last callback: XIDs that are not said are those of the callback.
    pub callback: bool,
    /// rdma_vers: 1 where it is not said.
    pub vers: Option<u32>,
    /// rdma_credit: 32 where it is not said.
    pub credits: Option<u32>,
    /// rdma_proc: RDMA_MSG where it is not said.
    pub proc: Option<Procedure>,
    /// rdma_align of an RDMA_MSGP.
    pub align: Option<u32>,
    /// rdma_thresh of an RDMA_MSGP.
    pub threshold: Option<u32>,
    /// The error of an RDMA_ERROR.
    pub error: Option<ErrorFields>,
    /// The Read list.
    pub reads: Vec<ReadEntry>,
    /// The Write list.
    pub writes: Vec<ChunkList>,
    /// The Reply chunk.
    pub reply: Option<ChunkList>,
    /// The Payload stream.
    pub payload: Payload,
    /// The XID in the Payload stream, counted likewise; that of the header where it is not said.
    pub payload_xid: Option<Number>,
    /// Memory that holds the Payload stream; nothing of it is then in the SEND.
    pub into: Option<String>,
    /// Changes to the message.
    pub patch: Vec<Fraction>,
    /// Bytes of the message that are sent.
    pub truncate: Option<usize>,
    /// Hex digits that are put behind it.
    pub append: Option<String>,
    /// Zeros are put behind it up to this length.
    pub pad_to: Option<usize>,
    /// The remote handle that the SEND invalidates.
    pub invalidate: Option<Handle>,
    /// How often it is sent, each time with the next XID.
    pub times: Option<u32>,
}

/// A message, ready to be sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its XID.
    pub xid: u32,
    /// Its rdma_vers as it is sent; `None` where fewer than eight bytes are.
    pub vers: Option<u32>,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The memory that holds the Reply chunk, in order: handle, address, length.
    pub reply: Vec<(u32, u64, u32)>,
    /// Segments of each Write chunk.
    pub writes: Vec<usize>,
    /// Whether it has a Reply chunk.
    pub has_reply_chunk: bool,
}

/// See [`Step::SendRaw`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SendRaw {
    /// Hex digits.
    pub bytes: String,
    /// The remote handle that the SEND invalidates.
    #[serde(default)]
    pub invalidate: Option<u32>,
}

/// See [`Step::Write`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Write {
    /// The remote handle.
    pub handle: u32,
    /// The remote address.
    pub address: u64,
    /// Zeros to be written.
    pub length: u32,
}

/// See [`Step::Read`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Read {
    /// The remote handle.
    pub handle: u32,
    /// The remote address.
    pub address: u64,
    /// Bytes to be read.
    pub length: u32,
}

/// See [`Step::Pull`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Pull {
    /// Bytes that are read past the end of the chunk.
    #[serde(default)]
    pub beyond: u32,
}

/// A handle of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Handle {
    /// By number.
    Number(u32),
    /// Of a reply.
    Offered(Offered),
}

/// The first handle of a reply's Read chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offered {
    /// Of the last reply that has one.
    Offered,
    /// Of the reply with one before that.
    Earlier,
}

/// See [`Step::Rules`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Rule {
    /// Which way.
    pub direction: Direction,
    /// The opcode of the BTH.
    #[serde(default)]
    pub opcode: Option<u8>,
    /// The attribute ID of a CM message: 0x10 REQ, 0x11 MRA, 0x12 REJ, 0x13 REP, 0x14 RTU, 0x15 DREQ, 0x16 DREP.
    #[serde(default)]
    pub cm: Option<u16>,
    /// Of those, the first ones let by.
    #[serde(default)]
    pub skip: u32,
    /// Of those behind them, how many it takes; all where it is not said.
    #[serde(default)]
    pub count: Option<u32>,
    /// Of a thousand of them, how many it acts on.
    #[serde(default)]
    pub per_mille: Option<u32>,
    /// What happens to them.
    pub effect: Effect,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            None => f.write_str("each packet")?,
            Some(1) => f.write_str("one packet")?,
            Some(count) => write!(f, "{count} packets")?,
        }
        f.write_str(match self.direction {
            Direction::Out => " to the target",
            Direction::In => " from the target",
        })?;
        if let Some(opcode) = self.opcode {
            write!(f, " with opcode {opcode:#04x}")?;
        }
        if let Some(attribute) = self.cm {
            write!(f, " with CM attribute {attribute:#06x}")?;
        }
        if self.skip > 0 {
            write!(f, ", but for the first {}", self.skip)?;
        }
        if let Some(per_mille) = self.per_mille {
            write!(f, ", {per_mille} of a thousand")?;
        }
        match self.effect {
            Effect::Drop => f.write_str(": lost"),
            Effect::Duplicate => f.write_str(": sent twice"),
            Effect::Delay(milliseconds) => write!(f, ": {milliseconds} ms later"),
            Effect::BadIcrc => f.write_str(": with a wrong ICRC"),
            Effect::PartitionKey(key) => write!(f, ": with P_Key {key:#06x}"),
            Effect::QueuePair(bits) => write!(f, ": for another queue pair (number ^ {bits:#x})"),
        }
    }
}

/// Which way a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To the target.
    Out,
    /// From the target.
    In,
}

/// What happens to a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// It is lost.
    Drop,
    /// It goes on twice.
    Duplicate,
    /// It goes on so many milliseconds later.
    Delay(u32),
    /// Its ICRC is wrong.
    BadIcrc,
    /// It has this P_Key.
    PartitionKey(u16),
    /// It is for the queue pair whose number differs from the right one in these bits.
    QueuePair(u32),
}

/// See [`Step::Expect`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Expect {
    /// What has to come.
    pub reaction: Pattern,
    /// Milliseconds.
    pub within: u32,
}

/// See [`Step::Observe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Observe {
    /// Milliseconds after which silence is the reaction.
    pub within: u32,
    /// Until when.
    #[serde(default)]
    pub until: Until,
}

/// How long reactions are collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// Until the first one.
    #[default]
    First,
    /// Until the time is over, or the connection.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn a_rule_in_words() {
        let rule = Rule {
            direction: Direction::Out,
            opcode: Some(4),
            cm: None,
            skip: 0,
            count: Some(1),
            per_mille: None,
            effect: Effect::BadIcrc,
        };
        assert_eq!(rule.to_string(), "one packet to the target with opcode 0x04: with a wrong ICRC");
        let every = Rule {
            direction: Direction::In,
            opcode: None,
            count: None,
            skip: 2,
            effect: Effect::Drop,
            ..rule
        };
        assert_eq!(every.to_string(), "each packet from the target, but for the first 2: lost");
        let some = Rule { per_mille: Some(50), skip: 0, cm: Some(0x14), effect: Effect::Delay(3), ..every };
        assert_eq!(
            some.to_string(),
            "each packet from the target with CM attribute 0x0014, 50 of a thousand: 3 ms later"
        );
    }
}
