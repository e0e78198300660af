//! `peer serve --from`: answers as the responder of a capture did.

use super::TOO_LONG;
use crate::input::Input;
use crate::output::{Out, Status};
use crate::peer::recording::{self, Read};
use rdmascope_analysis::filter::TransactionFilter;
use rdmascope_dissector::frame;
use rdmascope_peer::peer::{self, Event, Peer};
use rdmascope_peer::replay::{Answer, Answered, How, Recording, Responder};
use rdmascope_wire::Layer;
use rdmascope_wire::rpc;
use rdmascope_wire::xdr::Reader;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A capture that answers calls.
pub(super) struct Recorded {
    recording: Arc<Recording>,
    responder: Responder,
}

impl Recorded {
    /// Reads the capture. `Err`: the reason was printed. The outer error comes from standard
    /// output.
    pub(super) fn read(path: &Path, most: u64, out: &mut Out) -> io::Result<Result<Recorded, Status>> {
        let input = Input::file(path.to_owned(), frame::Config::default().port);
        let all = TransactionFilter::default();
        let read = recording::load(&input, &all, most, recording::Use::Answers, out)?;
        Ok(read.map(|Read { recording, .. }| Recorded {
            responder: Responder::new(Arc::clone(&recording)),
            recording,
        }))
    }

    /// Returns the configuration of the peer that answers.
    pub(super) fn config(&self) -> peer::Config {
        peer::Config { session: self.recording.responder(), accept_by_hand: true, ..peer::Config::default() }
    }

    /// Returns the number of calls with a recorded answer.
    pub(super) fn calls(&self) -> usize {
        self.recording.calls.iter().filter(|call| !call.backward).count()
    }

    /// Handles an event of the peer, and answers calls.
    pub(super) fn handle(&mut self, peer: &mut Peer, event: &Event) -> Vec<Answered> {
        self.responder.handle(peer, event)
    }

    /// Describes an answer: the RPC status, or why there is no reply.
    pub(super) fn status(&self, answered: &Answered) -> Result<String, String> {
        match &answered.how {
            How::AsRecorded | How::Again => {
                let call = answered.call.and_then(|call| self.recording.calls.get(call));
                match call.map(|call| &call.answer) {
                    Some(Answer::Reply { stream, .. }) => {
                        match rpc::Reply::parse(&mut Reader::new(stream, Layer::Rpc)) {
                            Ok(reply) => Ok(reply.status.to_string()),
                            Err(stop) => Err(format!("unreadable recorded reply: {stop}")),
                        }
                    }
                    Some(Answer::Error { error, .. }) => Err(format!("as recorded: {error}")),
                    _ => Err("not answered".to_owned()),
                }
            }
            How::NotAnswered => Err("not answered: the reply is incomplete in the capture".to_owned()),
            How::TooLong => Err(TOO_LONG.to_owned()),
            How::Unknown => Err("SYSTEM_ERR: no such call in the capture".to_owned()),
            How::Failed => Err("could not send a reply".to_owned()),
            How::Backward(comparison) => match comparison.differences.first() {
                None => Ok("SUCCESS".to_owned()),
                Some(difference) => Err(format!(
                    "the reply to a callback differs from the recorded one: {} {}, recorded {}",
                    difference.field, difference.live, difference.recorded
                )),
            },
        }
    }
}
