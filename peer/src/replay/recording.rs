//! What was recorded: plain data.

use super::fields::{self, Kind};
use crate::rpcrdma::{self, Conveyance, Shape};
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::ops::Range;
use rdmascope_wire::Xid;
use rdmascope_wire::private_data::{Negotiated, PrivateData};
use rdmascope_wire::rpc::program;
use rdmascope_wire::rpcrdma::Error;

/// Connections, and what was called on them.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// In the order in which they began.
    pub connections: Vec<Connection>,
    /// The calls of both directions and of all connections, in the order in which their Sends were complete.
    pub calls: Vec<Call>,
}

/// Why a replay cannot start at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoStart {
    /// There is no such call.
    #[error("no call of transaction {0} is there to be made again")]
    Unknown(u64),
    /// The call of this number, of NFSv4, needs what earlier ones established.
    #[error(
        "transaction {0} is of NFSv4, and calls before the start established its state: only the whole session can be replayed"
    )]
    State(u64),
}

/// A connection.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// What names it in the recording.
    pub number: u32,
    /// What its Requester and its Responder told each other when it was made (RFC 8797).
    pub private_data: [Option<PrivateData>; 2],
    /// The most credits that a forward call asks for, and that a reply grants. 0: not known.
    pub credits: [u32; 2],
    /// The reason of the REJ with which the Responder answered.
    pub rejected: Option<u16>,
}

/// A call, and what answered it.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its connection, as an index of [`Recording::connections`].
    pub connection: usize,
    /// Whether the Responder of the connection calls (RFC 8167).
    pub backward: bool,
    /// What names it in the recording.
    pub number: u64,
    /// Its XID there.
    pub xid: Xid,
    /// When its Send was complete, among all calls and replies of the recording.
    pub order: u64,
    /// The same in nanoseconds, from any moment.
    pub time: u64,
    /// The whole RPC call, with what Read chunks carried put back.
    pub message: Vec<u8>,
    /// Where in it that is, without padding; ascending.
    pub items: Vec<Range<usize>>,
    /// Whether the Payload stream came in a Position Zero Read chunk.
    pub long: bool,
    /// The lengths of the segments of its chunks.
    pub shape: Shape,
    /// What answered it.
    pub answer: Answer,
}

/// What answered a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A reply.
    Reply {
        /// When its Send was complete, as [`Call::order`].
        order: u64,
        /// The Payload stream: the RPC reply without what Write chunks carried.
        stream: Vec<u8>,
        /// What each Write chunk of the call brought, in order.
        items: Vec<Vec<u8>>,
        /// How it was conveyed.
        conveyance: Conveyance,
    },
    /// An RDMA_ERROR.
    Error {
        /// When its Send was complete, as [`Call::order`].
        order: u64,
        /// What it says.
        error: Error,
    },
    /// Nothing, up to the end of the connection or of the recording.
    Nothing,
    /// A reply that the recording does not hold, or not all of.
    Unknown {
        /// When its Send was complete, where that is known.
        order: Option<u64>,
    },
}

impl Answer {
    /// It in a word or two, or the error.
    pub(super) fn name(&self) -> String {
        match self {
            Answer::Reply { .. } => "a reply".to_string(),
            Answer::Error { error, .. } => error.to_string(),
            Answer::Nothing => "no reply".to_string(),
            Answer::Unknown { .. } => "not known".to_string(),
        }
    }

    /// When it was there.
    pub const fn order(&self) -> Option<u64> {
        match self {
            Answer::Reply { order, .. } | Answer::Error { order, .. } => Some(*order),
            Answer::Unknown { order } => *order,
            Answer::Nothing => None,
        }
    }
}

impl Recording {
    /// The sessions of an end that makes its calls: the private data and the credits of its first connection, as far as they are known.
    pub fn requester(&self) -> rpcrdma::Config {
        self.session(0)
    }

    /// Those of an end that answers them.
    pub fn responder(&self) -> rpcrdma::Config {
        self.session(1)
    }

    /// The first file handle that an NFSv3 call names: that of the root, which MOUNT gave.
    pub fn first_handle(&self) -> Option<Vec<u8>> {
        let calls = self.calls.iter().filter(|call| !call.backward);
        calls
            .filter_map(|call| {
                let (fields, called) = fields::of_call(&call.message);
                let (program, version, _) = called?;
                let handle = fields.list.iter().find(|field| field.kind == Kind::Handle)?;
                let is_version_3 = matches!((program, version), (program::NFS | program::NFSACL, 3));
                is_version_3.then(|| handle.bytes(&call.message, &[]).to_vec())
            })
            .next()
    }

    /// The same from this forward call on, which is named as [`Call::number`] does; calls of the Responder that come later stay too. An error
    /// where there is no such call, or where one of NFSv4 would be made without the calls before it, which established its state: a server
    /// refuses the sequence IDs of another client ID or session.
    pub fn starting_at(&self, number: u64) -> Result<Recording, NoStart> {
        let is_it = |call: &&Call| call.number == number && !call.backward;
        let first = self.calls.iter().find(is_it).ok_or(NoStart::Unknown(number))?;
        let (before, calls): (Vec<&Call>, Vec<&Call>) =
            self.calls.iter().partition(|call| call.order < first.order);
        let is_version_4 =
            |call: &&&Call| matches!(fields::of_call(&call.message).1, Some((program::NFS, 4, 1..)));
        if let (Some(_), Some(call)) = (before.iter().find(is_version_4), calls.iter().find(is_version_4)) {
            return Err(NoStart::State(call.number));
        }
        let calls = calls.into_iter().cloned().collect();
        Ok(Recording { connections: self.connections.clone(), calls })
    }

    fn session(&self, end: usize) -> rpcrdma::Config {
        let mut config = rpcrdma::Config::default();
        if let Some(connection) = self.connections.iter().find(|connection| connection.rejected.is_none()) {
            config.private_data = connection.private_data[end].or(config.private_data);
            if connection.credits[end] > 0 {
                config.credits = connection.credits[end];
            }
        }
        let longest = self.calls.iter().map(|call| call.message.len()).max().unwrap_or(0);
        config.most_message = config.most_message.max(u32::try_from(longest).unwrap_or(u32::MAX));
        config
    }
}

impl Connection {
    /// The inline threshold of replies to forward calls, in bytes (RFC 8797, section 4.2). `None`: the private data of an end are not known.
    pub fn reply_inline_threshold(&self) -> Option<u32> {
        let [requester, responder] = self.private_data;
        Some(Negotiated::new(Some(requester?), Some(responder?)).reply_inline_threshold)
    }
}

impl Call {
    /// Bytes of messages and items that it holds.
    pub fn size(&self) -> usize {
        let answer = match &self.answer {
            Answer::Reply { stream, items, .. } => stream.len() + items.iter().map(Vec::len).sum::<usize>(),
            _ => 0,
        };
        self.message.len() + answer
    }
}
