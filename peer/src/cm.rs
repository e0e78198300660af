//! Connection management: establishing and ending connections (IBTA volume 1, section 12.9).
//!
//! [`transition`] is a table of states and inputs; pairs that are not in the table are refused.

mod table;

pub use table::{Action, Input, State, TABLE, transition};

use crate::time::Instant;
use alloc::vec::Vec;
use core::time::Duration;
use rdmascope_wire::cm::{self, CommunicationId, Message};

/// The configuration of connection management.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The time for the remote side to answer, encoded in 5 bits: 4.096 microseconds times 2 to
    /// this power.
    pub response_timeout: u8,
    /// Retransmissions of a message without answer: 0 to 15.
    pub most_retries: u8,
    /// The time that an MRA of this side requests, encoded like `response_timeout`.
    pub service_timeout: u8,
    /// The longest wait of this side, encoded like `response_timeout`, whatever a REQ or MRA
    /// requests. The value 31 means two and a half hours.
    pub most_timeout: u8,
    /// How long the identifiers of a closed connection are kept, so that late messages are
    /// recognized.
    pub time_wait: Duration,
    /// How long a connection must be silent before it may be replaced, when all places are taken
    /// ([`MOST_CONNECTIONS`](crate::endpoint::MOST_CONNECTIONS)).
    pub silence: Duration,
}

impl Default for Config {
    /// A response timeout of 4.3 s and 15 retries, as in the REQs of Linux; at most 68.7 s, as in
    /// its MRAs; 2 s of TimeWait; a minute of silence.
    fn default() -> Config {
        Config {
            response_timeout: 20,
            most_retries: 15,
            service_timeout: 24,
            most_timeout: 24,
            time_wait: Duration::from_secs(2),
            silence: Duration::from_secs(60),
        }
    }
}

/// Why a connection ended, or was never established.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The remote side sent a DREQ.
    Remote,
    /// This side sent a DREQ, and the remote side answered.
    Local,
    /// This side sent a DREQ, and the remote side did not answer.
    LocalUnanswered,
    /// The remote side sent a REJ.
    Rejected {
        /// Its reason (section 12.6.7.2).
        reason: u16,
        /// Its private data.
        private_data: Vec<u8>,
    },
    /// This side sent a REJ, or gave up before the connection was established.
    LocalReject,
    /// The remote side did not answer a REQ or a REP.
    NoAnswer,
    /// This side ended it to make room for another REQ.
    GaveWay,
}

impl Config {
    /// Decodes a time, limited to the longest wait of this side.
    pub(crate) fn patience(&self, encoded: u8) -> Duration {
        cm::timeout(encoded).min(cm::timeout(self.most_timeout))
    }
}

/// The state of one connection in connection management.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) state: State,
    pub(crate) local: CommunicationId,
    pub(crate) remote: CommunicationId,
    /// The transaction ID that links the messages of an exchange: that of the REQ, and another for
    /// the DREQ.
    pub(crate) transaction_id: u64,
    /// The last MAD, for retransmission on timeout or when its cause is repeated.
    pub(crate) last: Vec<u8>,
    pub(crate) deadline: Option<Instant>,
    /// The timer to start when the message is sent.
    pub(crate) arm: Option<Duration>,
    pub(crate) retries: u8,
    pub(crate) most_retries: u8,
    /// The time for the remote side to answer.
    pub(crate) patience: Duration,
}

impl Machine {
    pub(crate) fn new(state: State, local: CommunicationId, config: &Config) -> Machine {
        Machine {
            state,
            local,
            remote: CommunicationId::default(),
            transaction_id: 0,
            last: Vec::new(),
            deadline: None,
            arm: None,
            retries: 0,
            most_retries: config.most_retries,
            patience: cm::timeout(config.response_timeout),
        }
    }

    /// Builds the MAD of a message, and stores it for retransmission.
    pub(crate) fn mad(&mut self, message: &Message<'_>) -> Vec<u8> {
        let mut mad = Vec::with_capacity(rdmascope_wire::mad::LENGTH);
        message.build(&message.header(self.transaction_id), &mut mad);
        self.last.clone_from(&mad);
        mad
    }

    /// Starts the timer when the message is sent.
    pub(crate) fn wait_for_answer(&mut self) {
        self.arm = Some(self.patience);
        self.retries = 0;
        self.deadline = None;
    }

    /// Stops waiting for an answer.
    pub(crate) fn stop_waiting(&mut self) {
        self.arm = None;
        self.deadline = None;
    }
}

/// Returns the input of a message.
pub(crate) fn input(message: &Message<'_>) -> Option<Input> {
    Some(match message {
        Message::Request(_) => Input::Request,
        Message::MessageReceiptAcknowledgement(mra) => match mra.message_acknowledged {
            cm::Acknowledged::Request => Input::AcknowledgedRequest,
            cm::Acknowledged::Reply => Input::AcknowledgedReply,
            _ => return None,
        },
        Message::Reject(_) => Input::Reject,
        Message::Reply(_) => Input::Reply,
        Message::ReadyToUse(_) => Input::ReadyToUse,
        Message::DisconnectRequest(_) => Input::DisconnectRequest,
        Message::DisconnectReply(_) => Input::DisconnectReply,
        _ => return None,
    })
}
