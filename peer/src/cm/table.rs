//! The states of a connection in connection management, as a table.

/// The states (IBTA volume 1, section 12.9.7, figures 134 and 135). The queue pair is ready to receive in those from `ReplySent`
/// on the passive side and `ReplyReceived` on the active side.
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
    /// Active: an MRA for the REP sent.
    ReplyAcknowledging,
    /// Passive: REQ received.
    RequestReceived,
    /// Passive: an MRA for the REQ sent.
    RequestAcknowledging,
    /// Passive: REP sent.
    ReplySent,
    /// Passive: the active side sent an MRA for the REP.
    ReplyAcknowledged,
    /// Both sides may send.
    Established,
    /// DREQ sent.
    DisconnectSent,
    /// The connection is over; its identifiers are kept for what comes late.
    TimeWait,
    /// Nothing is left of it.
    Closed,
}

impl State {
    /// All of them.
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

/// What happens to a connection: commands of this side, messages of the remote one, the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Input {
    /// Command: make the connection.
    Connect,
    /// Command: take it.
    Accept,
    /// Command: ask for time, by an MRA.
    Acknowledge,
    /// Command: the queue pair is ready.
    Confirm,
    /// Command: refuse it.
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
    /// All of them.
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

/// What is done on the way to the next state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Nothing: a repetition that needs no answer.
    Nothing,
    /// Send the REQ and wait for an answer.
    SendRequest,
    /// Send an MRA.
    SendAcknowledgement,
    /// Send the REP and wait for an answer.
    SendReply,
    /// Take what the REP says.
    TakeReply,
    /// Send the RTU; the connection is there.
    SendReadyToUse,
    /// The remote side is ready; the connection is there.
    Establish,
    /// Send a REJ; the connection is not to be.
    SendReject,
    /// Send a REJ because of a time-out; the connection is not to be.
    GiveUp,
    /// The remote side rejected it.
    TakeReject,
    /// Send the DREQ and wait for an answer.
    SendDisconnectRequest,
    /// Send a DREP; the remote side ended the connection.
    SendDisconnectReply,
    /// This side ended the connection, and the remote side answered.
    TakeDisconnectReply,
    /// This side ended the connection; the remote side does not answer.
    DisconnectUnanswered,
    /// Wait longer, as an MRA asks.
    WaitLonger,
    /// Send the last message again.
    Repeat,
    /// Forget it.
    Forget,
}

/// State, input, action, next state. What is not here is refused.
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
    // One MRA for each time that a REQ or a REP is sent: more of them do not make the wait longer.
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
    // Both sides. A REP again: the RTU is lost. A REQ, an MRA or an RTU again: late.
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

/// What to do and where to go, or `None` where the state does not allow the input.
pub fn transition(state: State, input: Input) -> Option<(Action, State)> {
    let row = TABLE.iter().find(|(from, what, ..)| (*from, *what) == (state, input));
    row.map(|(_, _, action, next)| (*action, *next))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_row_for_each_state_and_input_at_most() {
        let mut seen = BTreeSet::new();
        for (state, input, ..) in TABLE {
            assert!(seen.insert((*state, *input)), "{state:?} and {input:?} twice");
        }
        // Each pair is a row or is refused.
        let legal = State::ALL
            .into_iter()
            .flat_map(|state| Input::ALL.map(|input| (state, input)))
            .filter(|(state, input)| transition(*state, *input).is_some())
            .count();
        assert_eq!((legal, seen.len()), (TABLE.len(), TABLE.len()));
    }

    #[test]
    fn every_state_is_reached_and_left() {
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

    /// What must never be, from the figures of section 12.9.7.
    #[test]
    fn what_is_refused() {
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

    /// Whoever waits for an answer has an end: each state with a time-out ends when the retries do.
    #[test]
    fn waiting_ends() {
        for state in State::ALL {
            let timeout = transition(state, Input::Timeout).is_some();
            let exhausted = transition(state, Input::Exhausted);
            assert_eq!(timeout, exhausted.is_some(), "{state:?}");
            assert!(exhausted.is_none_or(|(_, next)| next != state));
        }
    }
}
