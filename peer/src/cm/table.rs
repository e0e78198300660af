//! The state table of connection management.

/// The states (IBTA volume 1, section 12.9.7, figures 134 and 135). The queue pair is ready to
/// receive from `ReplySent` on the passive side and from `ReplyReceived` on the active side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Nothing was sent.
    Idle,
    /// Active: REQ sent.
    RequestSent,
    /// Active: the passive side sent an MRA for the REQ.
    RequestAcknowledged,
    /// Active: REP received, RTU not sent.
    ReplyReceived,
    /// Active: MRA for the REP sent.
    ReplyAcknowledging,
    /// Passive: REQ received.
    RequestReceived,
    /// Passive: MRA for the REQ sent.
    RequestAcknowledging,
    /// Passive: REP sent.
    ReplySent,
    /// Passive: the active side sent an MRA for the REP.
    ReplyAcknowledged,
    /// Both sides may send.
    Established,
    /// DREQ sent.
    DisconnectSent,
    /// The connection ended; its identifiers are kept for late messages.
    TimeWait,
    /// The connection is forgotten.
    Closed,
}

impl State {
    /// All states.
    pub const ALL: [State; 13] = [
        State::Idle,
        State::RequestSent,
        State::RequestAcknowledged,
        State::ReplyReceived,
        State::ReplyAcknowledging,
        State::RequestReceived,
        State::RequestAcknowledging,
        State::ReplySent,
        State::ReplyAcknowledged,
        State::Established,
        State::DisconnectSent,
        State::TimeWait,
        State::Closed,
    ];
}

/// An input to a connection: a command of this side, a message of the remote side, or the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Input {
    /// Command: request the connection.
    Connect,
    /// Command: accept it.
    Accept,
    /// Command: request time by an MRA.
    Acknowledge,
    /// Command: the queue pair is ready.
    Confirm,
    /// Command: reject it.
    Refuse,
    /// Command: end it.
    Disconnect,
    /// REQ.
    Request,
    /// MRA for a REQ.
    AcknowledgedRequest,
    /// MRA for a REP.
    AcknowledgedReply,
    /// REJ.
    Reject,
    /// REP.
    Reply,
    /// RTU.
    ReadyToUse,
    /// DREQ.
    DisconnectRequest,
    /// DREP.
    DisconnectReply,
    /// The first packet for the queue pair.
    Packet,
    /// No answer in time.
    Timeout,
    /// No answer in time, and no retries left.
    Exhausted,
}

impl Input {
    /// All inputs.
    pub const ALL: [Input; 17] = [
        Input::Connect,
        Input::Accept,
        Input::Acknowledge,
        Input::Confirm,
        Input::Refuse,
        Input::Disconnect,
        Input::Request,
        Input::AcknowledgedRequest,
        Input::AcknowledgedReply,
        Input::Reject,
        Input::Reply,
        Input::ReadyToUse,
        Input::DisconnectRequest,
        Input::DisconnectReply,
        Input::Packet,
        Input::Timeout,
        Input::Exhausted,
    ];
}

/// The action of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// None: a duplicate that needs no answer.
    Nothing,
    /// Sends the REQ and waits for an answer.
    SendRequest,
    /// Sends an MRA.
    SendAcknowledgement,
    /// Sends the REP and waits for an answer.
    SendReply,
    /// Processes the REP.
    TakeReply,
    /// Sends the RTU; the connection is established.
    SendReadyToUse,
    /// The remote side is ready; the connection is established.
    Establish,
    /// Sends a REJ; the connection is not established.
    SendReject,
    /// Sends a REJ because of a timeout; the connection is not established.
    GiveUp,
    /// Processes the REJ of the remote side.
    TakeReject,
    /// Sends the DREQ and waits for an answer.
    SendDisconnectRequest,
    /// Sends a DREP; the remote side ended the connection.
    SendDisconnectReply,
    /// Processes the DREP of the remote side.
    TakeDisconnectReply,
    /// Ends the connection without a DREP.
    DisconnectUnanswered,
    /// Extends the wait, as an MRA requests.
    WaitLonger,
    /// Retransmits the last message.
    Repeat,
    /// Forgets the connection.
    Forget,
}

/// Rows of state, input, action, next state. All other pairs are refused.
#[rustfmt::skip]
pub const TABLE: &[(State, Input, Action, State)] = &[
    // Active side.
    (State::Idle, Input::Connect, Action::SendRequest, State::RequestSent),
    (State::RequestSent, Input::Timeout, Action::Repeat, State::RequestSent),
    (State::RequestSent, Input::Exhausted, Action::GiveUp, State::TimeWait),
    (State::RequestSent, Input::AcknowledgedRequest, Action::WaitLonger, State::RequestAcknowledged),
    (State::RequestSent, Input::Reject, Action::TakeReject, State::TimeWait),
    (State::RequestSent, Input::Reply, Action::TakeReply, State::ReplyReceived),
    (State::RequestSent, Input::Disconnect, Action::SendReject, State::TimeWait),
    // There is one MRA for each transmission of a REQ or REP: further ones do not extend the wait.
    (State::RequestAcknowledged, Input::AcknowledgedRequest, Action::Nothing, State::RequestAcknowledged),
    (State::RequestAcknowledged, Input::Timeout, Action::Repeat, State::RequestSent),
    (State::RequestAcknowledged, Input::Exhausted, Action::GiveUp, State::TimeWait),
    (State::RequestAcknowledged, Input::Reject, Action::TakeReject, State::TimeWait),
    (State::RequestAcknowledged, Input::Reply, Action::TakeReply, State::ReplyReceived),
    (State::RequestAcknowledged, Input::Disconnect, Action::SendReject, State::TimeWait),
    (State::ReplyReceived, Input::Confirm, Action::SendReadyToUse, State::Established),
    (State::ReplyReceived, Input::Acknowledge, Action::SendAcknowledgement, State::ReplyAcknowledging),
    (State::ReplyReceived, Input::Refuse, Action::SendReject, State::TimeWait),
    (State::ReplyReceived, Input::Disconnect, Action::SendReject, State::TimeWait),
    (State::ReplyReceived, Input::Reply, Action::Nothing, State::ReplyReceived),
    (State::ReplyReceived, Input::Reject, Action::TakeReject, State::TimeWait),
    (State::ReplyReceived, Input::DisconnectRequest, Action::SendDisconnectReply, State::TimeWait),
    (State::ReplyAcknowledging, Input::Confirm, Action::SendReadyToUse, State::Established),
    (State::ReplyAcknowledging, Input::Refuse, Action::SendReject, State::TimeWait),
    (State::ReplyAcknowledging, Input::Disconnect, Action::SendReject, State::TimeWait),
    (State::ReplyAcknowledging, Input::Reply, Action::Repeat, State::ReplyAcknowledging),
    (State::ReplyAcknowledging, Input::Reject, Action::TakeReject, State::TimeWait),
    (State::ReplyAcknowledging, Input::DisconnectRequest, Action::SendDisconnectReply, State::TimeWait),
    // Passive side.
    (State::RequestReceived, Input::Accept, Action::SendReply, State::ReplySent),
    (State::RequestReceived, Input::Acknowledge, Action::SendAcknowledgement, State::RequestAcknowledging),
    (State::RequestReceived, Input::Refuse, Action::SendReject, State::TimeWait),
    (State::RequestReceived, Input::Disconnect, Action::SendReject, State::TimeWait),
    (State::RequestReceived, Input::Request, Action::Nothing, State::RequestReceived),
    (State::RequestReceived, Input::Reject, Action::TakeReject, State::TimeWait),
    (State::RequestAcknowledging, Input::Accept, Action::SendReply, State::ReplySent),
    (State::RequestAcknowledging, Input::Refuse, Action::SendReject, State::TimeWait),
    (State::RequestAcknowledging, Input::Disconnect, Action::SendReject, State::TimeWait),
    (State::RequestAcknowledging, Input::Request, Action::Repeat, State::RequestAcknowledging),
    (State::RequestAcknowledging, Input::Reject, Action::TakeReject, State::TimeWait),
    (State::ReplySent, Input::Timeout, Action::Repeat, State::ReplySent),
    (State::ReplySent, Input::Exhausted, Action::GiveUp, State::TimeWait),
    (State::ReplySent, Input::Request, Action::Repeat, State::ReplySent),
    (State::ReplySent, Input::AcknowledgedReply, Action::WaitLonger, State::ReplyAcknowledged),
    (State::ReplySent, Input::ReadyToUse, Action::Establish, State::Established),
    (State::ReplySent, Input::Packet, Action::Establish, State::Established),
    (State::ReplySent, Input::Reject, Action::TakeReject, State::TimeWait),
    (State::ReplySent, Input::Disconnect, Action::SendDisconnectRequest, State::DisconnectSent),
    (State::ReplySent, Input::DisconnectRequest, Action::SendDisconnectReply, State::TimeWait),
    (State::ReplyAcknowledged, Input::AcknowledgedReply, Action::Nothing, State::ReplyAcknowledged),
    (State::ReplyAcknowledged, Input::Timeout, Action::Repeat, State::ReplySent),
    (State::ReplyAcknowledged, Input::Exhausted, Action::GiveUp, State::TimeWait),
    (State::ReplyAcknowledged, Input::Request, Action::Repeat, State::ReplyAcknowledged),
    (State::ReplyAcknowledged, Input::ReadyToUse, Action::Establish, State::Established),
    (State::ReplyAcknowledged, Input::Packet, Action::Establish, State::Established),
    (State::ReplyAcknowledged, Input::Reject, Action::TakeReject, State::TimeWait),
    (State::ReplyAcknowledged, Input::Disconnect, Action::SendDisconnectRequest, State::DisconnectSent),
    (State::ReplyAcknowledged, Input::DisconnectRequest, Action::SendDisconnectReply, State::TimeWait),
    // Both sides. A duplicate REP means a lost RTU. A duplicate REQ, MRA or RTU is late.
    (State::Established, Input::Reply, Action::Repeat, State::Established),
    (State::Established, Input::Request, Action::Nothing, State::Established),
    (State::Established, Input::AcknowledgedRequest, Action::Nothing, State::Established),
    (State::Established, Input::AcknowledgedReply, Action::Nothing, State::Established),
    (State::Established, Input::ReadyToUse, Action::Nothing, State::Established),
    (State::Established, Input::Packet, Action::Nothing, State::Established),
    (State::Established, Input::Disconnect, Action::SendDisconnectRequest, State::DisconnectSent),
    (State::Established, Input::DisconnectRequest, Action::SendDisconnectReply, State::TimeWait),
    (State::Established, Input::Reject, Action::TakeReject, State::TimeWait),
    (State::DisconnectSent, Input::DisconnectReply, Action::TakeDisconnectReply, State::TimeWait),
    (State::DisconnectSent, Input::DisconnectRequest, Action::SendDisconnectReply, State::TimeWait),
    (State::DisconnectSent, Input::Timeout, Action::Repeat, State::DisconnectSent),
    (State::DisconnectSent, Input::Exhausted, Action::DisconnectUnanswered, State::TimeWait),
    (State::DisconnectSent, Input::Reject, Action::TakeReject, State::TimeWait),
    (State::DisconnectSent, Input::Reply, Action::Nothing, State::DisconnectSent),
    (State::DisconnectSent, Input::Request, Action::Nothing, State::DisconnectSent),
    (State::DisconnectSent, Input::ReadyToUse, Action::Nothing, State::DisconnectSent),
    (State::DisconnectSent, Input::Packet, Action::Nothing, State::DisconnectSent),
    (State::DisconnectSent, Input::Disconnect, Action::Nothing, State::DisconnectSent),
    (State::TimeWait, Input::DisconnectRequest, Action::Repeat, State::TimeWait),
    (State::TimeWait, Input::Request, Action::Repeat, State::TimeWait),
    (State::TimeWait, Input::Reply, Action::Repeat, State::TimeWait),
    (State::TimeWait, Input::ReadyToUse, Action::Nothing, State::TimeWait),
    (State::TimeWait, Input::Reject, Action::Nothing, State::TimeWait),
    (State::TimeWait, Input::DisconnectReply, Action::Nothing, State::TimeWait),
    (State::TimeWait, Input::Packet, Action::Nothing, State::TimeWait),
    (State::TimeWait, Input::Disconnect, Action::Nothing, State::TimeWait),
    (State::TimeWait, Input::Timeout, Action::Forget, State::Closed),
    (State::TimeWait, Input::Exhausted, Action::Forget, State::Closed),
];

/// Returns the action and the next state, or `None` if the state does not allow the input.
pub fn transition(state: State, input: Input) -> Option<(Action, State)> {
    let row = TABLE.iter().find(|(from, cause, ..)| (*from, *cause) == (state, input));
    row.map(|(_, _, action, next)| (*action, *next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_state_and_input_has_at_most_one_row() {
        let mut seen = BTreeSet::new();
        for (state, input, ..) in TABLE {
            assert!(seen.insert((*state, *input)), "{state:?} and {input:?} twice");
        }
        // Each pair has a row or is refused.
        let legal = State::ALL
            .into_iter()
            .flat_map(|state| Input::ALL.map(|input| (state, input)))
            .filter(|(state, input)| transition(*state, *input).is_some())
            .count();
        assert_eq!((legal, seen.len()), (TABLE.len(), TABLE.len()));
    }

    #[test]
    fn every_state_is_reachable_and_has_an_exit() {
        let mut reached = BTreeSet::from([State::Idle, State::RequestReceived]);
        loop {
            let more: Vec<State> = TABLE
                .iter()
                .filter(|(from, ..)| reached.contains(from))
                .map(|(.., to)| *to)
                .filter(|to| !reached.contains(to))
                .collect();
            if more.is_empty() {
                break;
            }
            reached.extend(more);
        }
        assert_eq!(reached.len(), State::ALL.len());
        for state in State::ALL.into_iter().filter(|state| *state != State::Closed) {
            assert!(TABLE.iter().any(|(from, _, _, to)| *from == state && *to != state), "{state:?}");
        }
    }

    /// Transitions that the figures of section 12.9.7 exclude.
    #[test]
    fn transitions_outside_the_table_are_refused() {
        for (state, input) in [
            (State::Idle, Input::Reply),
            (State::Idle, Input::Accept),
            (State::RequestSent, Input::ReadyToUse),
            (State::RequestSent, Input::Confirm),
            (State::RequestSent, Input::DisconnectRequest),
            (State::RequestReceived, Input::Reply),
            (State::RequestReceived, Input::Confirm),
            (State::ReplySent, Input::Reply),
            (State::ReplySent, Input::DisconnectReply),
            (State::Established, Input::Connect),
            (State::Established, Input::Accept),
            (State::Established, Input::DisconnectReply),
            (State::TimeWait, Input::Connect),
            (State::Closed, Input::Request),
        ] {
            assert_eq!(transition(state, input), None, "{state:?} {input:?}");
        }
    }

    /// Every wait ends: each state with a timeout ends when the retries are exhausted.
    #[test]
    fn states_with_a_timeout_end_after_the_retries() {
        for state in State::ALL {
            let timeout = transition(state, Input::Timeout).is_some();
            let exhausted = transition(state, Input::Exhausted);
            assert_eq!(timeout, exhausted.is_some(), "{state:?}");
            assert!(exhausted.is_none_or(|(_, next)| next != state));
        }
    }
}
