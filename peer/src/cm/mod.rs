//! Connection management: how a connection comes about and ends (IBTA volume 1, section 12.9).
//!
//! [`transition`] has the states as a table: what is not in it is refused.

mod table;

pub use table::{Action, Input, State, TABLE, transition};

use crate::time::Instant;
use alloc::vec::Vec;
use core::time::Duration;
use rdmascope_wire::cm::{self, CommunicationId, Message};

/// How connections are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Time for the remote side to answer, encoded in 5 bits: 4.096 microseconds times two to this power.
    pub response_timeout: u8,
    /// Times to send a message again that is not answered: 0 to 15.
    pub most_retries: u8,
    /// The time that an MRA of this side asks for, encoded in the same way.
    pub service_timeout: u8,
    /// The longest time that this side waits for a message, encoded in the same way, whatever a REQ or an MRA of the remote side asks for: 31 would be
    /// two hours and a half.
    pub most_timeout: u8,
    /// How long the identifiers of a closed connection are kept, so that what comes late is answered and not taken for new.
    pub time_wait: Duration,
    /// How long a connection must have been silent to give way where all places are taken
    /// ([`MOST_CONNECTIONS`](crate::endpoint::MOST_CONNECTIONS)).
    pub silence: Duration,
}

impl Default for Config {
    /// A response timeout of 4.3 s and 15 retries, as Linux says in its REQs; 68.7 s at most, as it says in its MRAs; a TimeWait of 2 s; a
    /// minute of silence.
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

/// Why a connection came to its end, or never came about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The remote side sent a DREQ.
    Remote,
    /// This side did, and the remote side answered.
    Local,
    /// This side did, and the remote side did not answer.
    LocalUnanswered,
    /// The remote side sent a REJ.
    Rejected {
        /// Its reason (section 12.6.7.2).
        reason: u16,
        /// Its private data.
        private_data: Vec<u8>,
    },
    /// This side sent a REJ, or gave up before there was a connection.
    Given,
    /// The remote side did not answer a REQ or a REP.
    NoAnswer,
    /// This side ended it, because all places were taken and another REQ came.
    GaveWay,
}

impl Config {
    /// The time that `encoded` says, as far as this side takes it on.
    pub(crate) fn patience(&self, encoded: u8) -> Duration {
        cm::timeout(encoded).min(cm::timeout(self.most_timeout))
    }
}

/// One connection's state in connection management.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) state: State,
    pub(crate) local: CommunicationId,
    pub(crate) remote: CommunicationId,
    /// What joins the messages of an exchange: that of the REQ, and another one for the DREQ.
    pub(crate) transaction_id: u64,
    /// The MAD that is sent again on time-out or when its cause comes again.
    pub(crate) last: Vec<u8>,
    pub(crate) deadline: Option<Instant>,
    /// The timer is to be started when the message goes out.
    pub(crate) arm: Option<Duration>,
    pub(crate) retries: u8,
    pub(crate) most_retries: u8,
    /// How long the remote side may take to answer.
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

    /// Builds the MAD of a message and keeps it to be sent again.
    pub(crate) fn mad(&mut self, message: &Message<'_>) -> Vec<u8> {
        let mut mad = Vec::with_capacity(rdmascope_wire::mad::LENGTH);
        message.build(&message.header(self.transaction_id), &mut mad);
        self.last.clone_from(&mad);
        mad
    }

    /// Starts the timer for an answer when the message goes out.
    pub(crate) fn wait_for_answer(&mut self) {
        self.arm = Some(self.patience);
        self.retries = 0;
        self.deadline = None;
    }

    /// No answer is waited for.
    pub(crate) fn wait_no_more(&mut self) {
        self.arm = None;
        self.deadline = None;
    }
}

/// What of `message` an input is.
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
