//! A recorded session as plain data.

use super::fields::{self, Kind};
use crate::rpcrdma::{self, Conveyance, Shape};
use alloc::string::{String, ToString as _};
use alloc::vec::Vec;
use core::ops::Range;
use rdmascope_wire::Xid;
use rdmascope_wire::private_data::{Negotiated, PrivateData};
use rdmascope_wire::rpc::program;
use rdmascope_wire::rpcrdma::Error;

/// The connections of a session and the calls made on them.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// In the order in which they were opened.
    pub connections: Vec<Connection>,
    /// The calls of both directions on all connections, in the order in which their Sends were
    /// completed.
    pub calls: Vec<Call>,
}

/// The reason why a replay cannot start at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoStart {
    /// The recording has no call of this number.
    #[error("the recording has no call of transaction {0}")]
    Unknown(u64),
    /// The NFSv4 call of this number depends on state that earlier calls established.
    #[error(
        "transaction {0} is an NFSv4 call, and calls before the start established its state; \
         replay the whole session"
    )]
    State(u64),
}

/// A connection.
#[derive(Clone, Debug, Default)]
pub struct Connection {
    /// Its number in the recording.
    pub number: u32,
    /// The private data of its Requester and of its Responder (RFC 8797).
    pub private_data: [Option<PrivateData>; 2],
    /// The most credits that a forward call requests, and the most that a reply grants. 0 if
    /// unknown.
    pub credits: [u32; 2],
    /// The reason of the REJ, if the Responder rejected the connection.
    pub rejected: Option<u16>,
}

/// A call and its answer.
#[derive(Clone, Debug)]
pub struct Call {
    /// Its connection, as an index of [`Recording::connections`].
    pub connection: usize,
    /// Whether the Responder of the connection makes the call (RFC 8167).
    pub backward: bool,
    /// Its number in the recording.
    pub number: u64,
    /// Its recorded XID.
    pub xid: Xid,
    /// The position of its completed Send among all calls and replies of the recording.
    pub order: u64,
    /// The time at which its Send was completed, in nanoseconds since an arbitrary epoch.
    pub time: u64,
    /// The complete RPC call, with the contents of its Read chunks inserted.
    pub message: Vec<u8>,
    /// The ranges of those contents in it, without padding, in ascending order.
    pub items: Vec<Range<usize>>,
    /// Whether the Payload stream was in a Position Zero Read chunk.
    pub long: bool,
    /// The lengths of the segments of its chunks.
    pub shape: Shape,
    /// Its answer.
    pub answer: Answer,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// A reply.
    Reply {
        /// The position of its completed Send, as in [`Call::order`].
        order: u64,
        /// The Payload stream: the RPC reply without the items in Write chunks.
        stream: Vec<u8>,
        /// The contents of each Write chunk of the call, in order.
        items: Vec<Vec<u8>>,
        /// How it was conveyed.
        conveyance: Conveyance,
    },
    /// An RDMA_ERROR.
    Error {
        /// The position of its completed Send, as in [`Call::order`].
        order: u64,
        /// The error.
        error: Error,
    },
    /// No answer before the end of the connection or of the recording.
    Nothing,
    /// A reply that the recording lacks, in whole or in part.
    Unknown {
        /// The position of its completed Send, as in [`Call::order`], if known.
        order: Option<u64>,
    },
}

impl Answer {
    /// A short description of the answer, or its error.
    pub(super) fn name(&self) -> String {
        match self {
            Answer::Reply { .. } => "a reply".to_string(),
            Answer::Error { error, .. } => error.to_string(),
            Answer::Nothing => "no reply".to_string(),
            Answer::Unknown { .. } => "not known".to_string(),
        }
    }

    /// The position of the answer, as in [`Call::order`].
    pub const fn order(&self) -> Option<u64> {
        match self {
            Answer::Reply { order, .. } | Answer::Error { order, .. } => Some(*order),
            Answer::Unknown { order } => *order,
            Answer::Nothing => None,
        }
    }
}

impl Recording {
    /// The session configuration of a Requester: the known private data and credits of the first
    /// connection.
    pub fn requester(&self) -> rpcrdma::Config {
        self.session(0)
    }

    /// The session configuration of a Responder.
    pub fn responder(&self) -> rpcrdma::Config {
        self.session(1)
    }

    /// The first file handle in an NFSv3 call: the root's, which MOUNT returned.
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

    /// Returns the recording from the forward call with this [`Call::number`] on, including later
    /// calls of the Responder.
    ///
    /// Fails if no such call exists, or if an NFSv4 call would be replayed without the earlier
    /// calls that established its state: a server refuses sequence IDs of another client ID or
    /// session.
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
    /// The inline threshold of replies to forward calls, in bytes (RFC 8797, section 4.2). `None`
    /// if the private data of an end is unknown.
    pub fn reply_inline_threshold(&self) -> Option<u32> {
        let [requester, responder] = self.private_data;
        Some(Negotiated::new(Some(requester?), Some(responder?)).reply_inline_threshold)
    }
}

impl Call {
    /// The number of bytes in its messages and items.
    pub fn size(&self) -> usize {
        let answer = match &self.answer {
            Answer::Reply { stream, items, .. } => stream.len() + items.iter().map(Vec::len).sum::<usize>(),
            _ => 0,
        };
        self.message.len() + answer
    }
}
