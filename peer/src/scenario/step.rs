//! The vocabulary of steps. docs/scenarios.md describes it for authors of scenarios.

use super::pattern::Pattern;
use super::response::{Awaited, Response, Side, WriteBeyond};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use serde::Deserialize;

/// A step of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Connects and waits. With `observe` the reaction is judged; otherwise the scenario does not
    /// apply without a connection.
    Connect(Connect),
    /// Registers memory for the target to read or write.
    Register(Register),
    /// Sends an RPC-over-RDMA message.
    Send(Box<Send>),
    /// Sends arbitrary bytes in one SEND.
    SendRaw(SendRaw),
    /// RDMA WRITE into memory of the target.
    Write(Write),
    /// RDMA READ of memory of the target.
    Read(Read),
    /// RDMA READ of the Read chunk of the last reply that has one.
    Pull(Pull),
    /// Continues on the connection of an earlier `connect` step, counted from 1.
    Connection(usize),
    /// Ends the registration of named memory.
    Invalidate(String),
    /// Sets the rules for datagrams from now on; an empty list removes them.
    Rules(Vec<Rule>),
    /// Skips this many PSNs before the next packet.
    SkipPsn(u32),
    /// Waits for this many milliseconds.
    Wait(u32),
    /// Waits for a reaction without which the scenario does not apply.
    Expect(Expect),
    /// Waits for the reaction that is judged.
    Observe(Observe),
    /// Sends a DREQ.
    Disconnect(Nothing),
    /// Drops the connection without notifying the target, like a host that crashes.
    Abandon(Nothing),
    /// Calls NULL on this connection and waits for its reply, without which the scenario does not
    /// apply.
    Probe(Nothing),
    /// Creates an NFSv4.1 session on this connection. If that fails, the scenario does not apply.
    Session(Session),
    /// In this session creates a file, opens it for a delegation, and removes it by a call outside
    /// the session, so that the target has to recall the delegation. The callback is a reaction.
    Recall(Nothing),
    /// Responder: waits for the call that the scenario acts on. Always the first step, and only
    /// there.
    Call(Awaited),
    /// Responder: sends the reply to that call, correct or modified.
    Reply(Box<Response>),
    /// Responder: RDMA WRITE past the end of the memory that the call provides.
    WriteBeyond(WriteBeyond),
}

impl Step {
    /// Returns whether a scenario of this side may have the step.
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
    /// Private data by field. Without this and `raw`: version 1, R set, 4096 bytes each way.
    pub private_data: Option<PrivateDataFields>,
    /// Private data as hex digits; empty: none.
    pub raw: Option<String>,
    /// A port other than the target's.
    pub port: Option<u16>,
    /// Milliseconds without an answer that count as no answer.
    pub within: Option<u32>,
    /// Whether the reaction to the REQ is judged.
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
    /// The R flag: remote invalidation is supported.
    pub remote_invalidation: bool,
    /// Send Size in bytes.
    pub send_size: u32,
    /// Receive Size in bytes.
    pub receive_size: u32,
    /// Zero bytes before the private data.
    pub offset: usize,
    /// Number of its 8 bytes that are sent.
    pub length: usize,
    /// How many copies are sent, one after the other.
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
    /// The name by which steps refer to the memory.
    pub name: String,
    /// Bytes.
    pub length: u32,
    /// The access that the target gets.
    pub access: Rights,
    /// The initial contents.
    #[serde(default)]
    pub fill: Fill,
}

/// The access of the target to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rights {
    /// RDMA READ: for Read chunks.
    Read,
    /// RDMA WRITE: for Write chunks and Reply chunks.
    Write,
}

/// The initial contents of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fill {
    /// Zeros.
    #[default]
    Zero,
    /// 0, 1, 2 … 250, 0, 1 …
    Count,
}

/// A number in a scenario, relative to the run or absolute.
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
    /// A defined procedure.
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

/// A segment: a part of registered memory, or one with a wrong handle or address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Segment {
    /// Registered memory.
    pub memory: Option<String>,
    /// Offset of the segment in the memory, in bytes.
    pub at: u64,
    /// Its length; by default up to the end of the memory.
    pub length: Option<u32>,
    /// A handle other than that of the memory.
    pub handle: Option<u32>,
    /// An address other than that of the memory.
    pub address: Option<u64>,
    /// Number of such segments, one after the other.
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

/// The contents of a message after its header.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Payload {
    /// Nothing.
    None,
    /// A call of procedure NULL of NFS version 3.
    #[default]
    Null,
    /// The same call, truncated after the XID and the msg_type CALL.
    Short,
    /// NFSv3 READ with a file handle that no server has.
    Read(ReadArguments),
    /// NFSv3 WRITE with a file handle that no server has.
    Write(WriteArguments),
    /// NFSv4.0 COMPOUND with PUTROOTFH and this many GETATTRs. The reply has a few hundred bytes
    /// for each, and needs no state.
    Getattrs(u32),
    /// An RPC reply with SUCCESS.
    Reply,
    /// The reply to the last callback, with success for each operation.
    CallbackReply,
    /// Hex digits. `xid` is replaced by the four bytes of the XID.
    Hex(String),
}

/// The arguments of NFSv3 READ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ReadArguments {
    /// The count.
    pub count: u32,
}

/// The arguments of NFSv3 WRITE.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct WriteArguments {
    /// Bytes of data.
    pub length: u32,
    /// The memory for the reduced data. By default the data are in the Payload stream.
    #[serde(default)]
    pub into: Option<String>,
}

/// A replacement of bytes, such as `at = 4, bytes = "…"`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Fraction {
    /// Offset in the message.
    pub at: usize,
    /// Hex digits that replace the bytes there.
    pub bytes: String,
}

/// See [`Step::Send`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Send {
    /// The XID, relative to the first one of the run; by default the next unused one.
    pub xid: Option<Number>,
    /// Whether the message answers the last callback, whose XID is then the default.
    pub callback: bool,
    /// rdma_vers; by default 1.
    pub vers: Option<u32>,
    /// rdma_credit; by default 32.
    pub credits: Option<u32>,
    /// rdma_proc; by default RDMA_MSG.
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
    /// The XID in the Payload stream, relative as `xid` is; by default that of the header.
    pub payload_xid: Option<Number>,
    /// Memory for the Payload stream, which is then absent from the SEND.
    pub into: Option<String>,
    /// Replacements in the message.
    pub patch: Vec<Fraction>,
    /// Number of bytes of the message that are sent.
    pub truncate: Option<usize>,
    /// Hex digits appended to the message.
    pub append: Option<String>,
    /// Length up to which zeros are appended.
    pub pad_to: Option<usize>,
    /// The remote handle that the SEND invalidates.
    pub invalidate: Option<Handle>,
    /// How often the message is sent, each time with the next XID.
    pub times: Option<u32>,
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
    /// Number of zeros to write.
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
    /// Number of bytes to read.
    pub length: u32,
}

/// See [`Step::Pull`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Pull {
    /// Bytes to read past the end of the chunk.
    #[serde(default)]
    pub beyond: u32,
}

/// A handle of the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Handle {
    /// By number.
    Number(u32),
    /// From a reply.
    Offered(Offered),
}

/// The first handle of a reply's Read chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Offered {
    /// The last reply with a Read chunk.
    Offered,
    /// The reply with a Read chunk before that.
    Earlier,
}

/// See [`Step::Rules`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Rule {
    /// The direction of the datagrams.
    pub direction: Direction,
    /// The opcode of the BTH.
    #[serde(default)]
    pub opcode: Option<u8>,
    /// The attribute ID of a CM message: 0x10 REQ, 0x11 MRA, 0x12 REJ, 0x13 REP, 0x14 RTU, 0x15
    /// DREQ, 0x16 DREP.
    #[serde(default)]
    pub cm: Option<u16>,
    /// Number of matching datagrams to pass first.
    #[serde(default)]
    pub skip: u32,
    /// Number of datagrams to act on after those; by default all.
    #[serde(default)]
    pub count: Option<u32>,
    /// How many of a thousand are affected at random.
    #[serde(default)]
    pub per_mille: Option<u32>,
    /// The effect on these datagrams.
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
            write!(f, ", except the first {}", self.skip)?;
        }
        if let Some(per_mille) = self.per_mille {
            write!(f, ", {per_mille} in 1000")?;
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

/// The direction of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To the target.
    Out,
    /// From the target.
    In,
}

/// The effect on a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// The datagram is lost.
    Drop,
    /// The datagram is sent twice.
    Duplicate,
    /// The datagram is delayed by this many milliseconds.
    Delay(u32),
    /// The datagram gets a bad ICRC.
    BadIcrc,
    /// The datagram gets this P_Key.
    PartitionKey(u16),
    /// The datagram goes to another queue pair: these bits of its number are inverted.
    QueuePair(u32),
}

/// See [`Step::Expect`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Expect {
    /// The required reaction.
    pub reaction: Pattern,
    /// Longest wait in milliseconds.
    pub within: u32,
}

/// See [`Step::Observe`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Observe {
    /// Milliseconds after which the reaction is silence.
    pub within: u32,
    /// The end of the observation.
    #[serde(default)]
    pub until: Until,
}

/// The end of an observation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Until {
    /// The first reaction.
    #[default]
    First,
    /// The end of the time or of the connection.
    End,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString as _;

    #[test]
    fn rules_are_displayed_as_text() {
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
        assert_eq!(every.to_string(), "each packet from the target, except the first 2: lost");
        let some = Rule { per_mille: Some(50), skip: 0, cm: Some(0x14), effect: Effect::Delay(3), ..every };
        assert_eq!(
            some.to_string(),
            "each packet from the target with CM attribute 0x0014, 50 in 1000: 3 ms later"
        );
    }
}
