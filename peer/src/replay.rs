//! Replays a recorded session: its calls to a live server, or its replies to a live client.
//!
//! A [`Recording`] is plain data. A [`Replayer`] makes its calls again on a
//! [`Peer`](crate::peer::Peer), in order, and compares each reply with the recorded one. A
//! [`Responder`] sends the recorded replies. Both take events and the time as arguments and do no
//! I/O.

mod compare;
mod conveyance;
mod directory;
mod fault;
mod fields;
mod outcome;
mod recording;
mod replayer;
mod responder;
mod slots;
mod substitute;

pub use compare::{Comparison, Difference, MOST_DIFFERENCES};
pub use conveyance::{Aspect, Conveyed};
pub use fault::Fault;
pub use fields::{Called, Kind, procedure_name};
pub use outcome::{Outcome, Subject, Verdict};
pub use recording::{Answer, Call, Connection, NoStart, Recording};
pub use replayer::{MOST_CALLS_WAITING, Options, Replayer, Timing};
pub use responder::{Answered, How, Responder};
pub use substitute::MOST_MAPPED;
