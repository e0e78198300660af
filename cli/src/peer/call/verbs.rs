//! `peer call --verbs`: the calls over a queue pair of an RDMA device.

use super::{Call, Caller, Connection, End, Line, Waits, lines};
use crate::output::{self, Out, Status};
use crate::peer::device::Device;
use crate::peer::live::PATIENCE;
use anyhow::{Result, anyhow};
use core::ops::ControlFlow;
use rdmascope_peer::cm::Closed;
use rdmascope_peer::driver::Ended;
use rdmascope_peer::endpoint::{Connect, Event};
use rdmascope_peer::provider::Provider as _;
use rdmascope_peer::rc::{Operation, QueueEvent, Send};
use rdmascope_peer::rpcrdma::{Conveyance, Replied};
use rdmascope_peer::time::Instant;
use rdmascope_present::text::Style;
use rdmascope_wire::Xid;
use rdmascope_wire::private_data::{self, Negotiated};
use rdmascope_wire::rpcrdma::{Builder, Header, Procedure, VERSION};
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::time::Duration;

/// Number of posted receive buffers. This side advertises an inline threshold of `RECEIVE_LENGTH`.
const RECEIVES: usize = 16;
const RECEIVE_LENGTH: usize = 4096;
/// Credits requested in each call.
const CREDITS: u32 = 8;

/// Runs the command on `device`.
pub(super) fn run(command: &Call, device: &str, style: Style, out: &mut Out) -> io::Result<Status> {
    let to = command.to;
    if command.jobs.is_requested() || command.faults.is_requested() || command.reliable_reply {
        let error =
            anyhow!("--verbs supports neither --reliable-reply, an export, nor network faults: omit --verbs");
        return output::complain(&error, out);
    }
    let mut opened = match Device::open(device, command.from, to.ip()) {
        Ok(opened) => opened,
        Err(error) => return output::complain(&error, out),
    };
    let mut caller = Caller::new(command, style);
    let sockets = lines::Sockets {
        sockets: "verbs",
        device: Some(device.to_owned()),
        raw_refused: false,
        local: vec![opened.local],
        target: Some(to),
        port: to.port(),
        serves: None,
    };
    caller.print(&Line::Sockets(sockets), out)?;
    if let Err(error) = caller.run_over_verbs(&mut opened, out)? {
        return output::complain(&error, out);
    }
    let end = End { calls: caller.calls, answered: caller.answered, counts: None, faults: None };
    caller.print(&Line::End(end), out)?;
    Ok(caller.status())
}

/// Returns the answer in `bytes` to the call with this XID.
fn answer(bytes: &[u8], xid: Xid) -> Option<Result<Replied, String>> {
    let header = Header::parse(bytes).ok().filter(|header| header.xid == xid)?;
    if let Some(error) = header.error {
        return Some(Err(error.to_string()));
    }
    if header.procedure != Procedure::Msg || header.version != VERSION || header.stop.is_some() {
        return Some(Err(format!(
            "the reply was discarded: {} of version {}",
            header.procedure, header.version
        )));
    }
    let (message, credits) = (bytes[header.length..].to_vec(), header.credits);
    Some(Ok(Replied { xid, message, items: vec![], conveyance: Conveyance::default(), credits }))
}

impl Caller<'_> {
    /// Connects, calls and disconnects. The outer error comes from standard output.
    fn run_over_verbs(&mut self, device: &mut Device, out: &mut Out) -> io::Result<Result<()>> {
        let Call { to, timeout, interval, .. } = *self.command;
        let timeout = Duration::from_nanos(timeout);
        // R is clear: a remote side cannot invalidate memory that a program registers with a
        // device.
        let ours =
            private_data::PrivateData { send_size: 3, receive_size: 3, ..private_data::PrivateData::DEFAULT };
        let mut our_data = Vec::new();
        ours.build(&mut our_data);
        let verbs = &mut device.verbs;
        self.started = verbs.now();
        let connect = Connect { private_data: our_data, ..Connect::new(device.local, to.ip(), to.port()) };
        let connection = match verbs.connect(connect) {
            Ok(connection) => connection,
            Err(error) => return Ok(Err(error.into())),
        };
        let first_xid = RandomState::new().hash_one(1) as u32;
        let (mut their_data, mut waits, mut deadline) =
            (Vec::new(), Waits::Connection, self.started.plus(timeout));
        let mut closing = false;
        loop {
            let mut happened: Vec<(Instant, Event)> = Vec::new();
            let ended = verbs.run(Some(deadline), |verbs, now| {
                happened.extend(core::iter::from_fn(|| verbs.poll_event()).map(|event| (now, event)));
                if happened.is_empty() { ControlFlow::Continue(None) } else { ControlFlow::Break(()) }
            });
            let ended = match ended {
                Ok(ended) => ended,
                Err(error) => return Ok(Err(error.into())),
            };
            let mut call_now = ended == Ended::Deadline && matches!(waits, Waits::NextCall) && !closing;
            for (now, event) in happened {
                match event {
                    Event::Replied { private_data, .. } => their_data = private_data,
                    Event::Connected { .. } => {
                        for _ in 0..RECEIVES {
                            if let Err(error) = verbs.post_receive(connection, RECEIVE_LENGTH) {
                                return Ok(Err(error.into()));
                            }
                        }
                        let theirs = private_data::find(&their_data).and_then(|found| found.valid());
                        let line = Connection {
                            elapsed_ns: Some(super::nanoseconds(now.since(self.started))),
                            negotiated: Some(Negotiated::new(Some(ours), theirs)),
                            ..Connection::established(to.ip(), &their_data)
                        };
                        self.print(&Line::Connection(line), out)?;
                        call_now = true;
                    }
                    Event::Closed { why, .. } => {
                        if let (Waits::Reply(line, _), false) = (&waits, closing) {
                            self.ended(line.clone(), None, None, out)?;
                        }
                        self.print(&Line::Connection(Connection::closed(why, to.ip())), out)?;
                        return Ok(Ok(()));
                    }
                    Event::Queue { event: QueueEvent::Received(received), .. } => {
                        // If the connection is closed, its own event reports that.
                        let _ = verbs.post_receive(connection, RECEIVE_LENGTH);
                        let Waits::Reply(line, sent) = &waits else { continue };
                        let Some(answer) = answer(&received.bytes, line.xid) else { continue };
                        let latency = Some(super::nanoseconds(now.since(*sent)));
                        deadline = sent.plus(Duration::from_nanos(interval));
                        self.ended(line.clone(), Some(answer.as_ref().map_err(Clone::clone)), latency, out)?;
                        waits = Waits::NextCall;
                        closing |= self.calls == self.command.count;
                        if closing {
                            deadline = now.plus(PATIENCE);
                            let _ = verbs.disconnect(connection);
                        }
                    }
                    _ => {}
                }
            }
            if closing && ended == Ended::Deadline {
                let line = Connection::closed(Closed::LocalUnanswered, to.ip());
                self.print(&Line::Connection(line), out)?;
                return Ok(Ok(()));
            }
            if ended == Ended::Woken || ended == Ended::Deadline && !call_now && !closing {
                match core::mem::replace(&mut waits, Waits::NextCall) {
                    Waits::Reply(line, _) => self.ended(line, None, None, out)?,
                    Waits::Connection => {
                        let is_given_up = ended == Ended::Woken;
                        let why = if is_given_up { Closed::LocalReject } else { Closed::NoAnswer };
                        self.print(&Line::Connection(Connection::closed(why, to.ip())), out)?;
                        return Ok(Ok(()));
                    }
                    Waits::NextCall => {}
                }
                closing = true;
                deadline = verbs.now().plus(PATIENCE);
                let _ = verbs.disconnect(connection);
            } else if call_now {
                let xid = Xid(first_xid.wrapping_add(self.calls as u32));
                let sent = verbs.now();
                self.calls += 1;
                let (mut bytes, message) = (Vec::new(), self.command.message(xid));
                let mut line = lines::Call::new(to.ip(), self.calls, xid);
                let parsed = line.called(&message);
                debug_assert!(parsed.is_ok(), "a call of this side can be read");
                Builder::new(xid, CREDITS, Procedure::Msg).build(&mut bytes);
                bytes.extend(message);
                let send = Operation::Send(Send { bytes, ..Send::default() });
                if let Err(error) = verbs.post(connection, send) {
                    return Ok(Err(error.into()));
                }
                (waits, deadline) = (Waits::Reply(line, sent), sent.plus(timeout));
            }
        }
    }
}
