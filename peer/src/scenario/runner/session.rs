//! The NFSv4.1 session of a scenario.

use super::{Runner, Waiting};
use crate::provider::Provider;
use crate::rc::{self, Operation};
use crate::scenario::nfs41::Request;
use crate::scenario::outcome::Verdict;
use crate::scenario::reaction::Observed;
use crate::time::Instant;
use alloc::format;
use alloc::vec::Vec;
use rdmascope_wire::Xid;
use rdmascope_wire::rpcrdma::{Builder, Header, Procedure};

impl Runner {
    /// Sends the next planned call, or ends the step if none is left.
    pub(super) fn send_planned(&mut self, now: Instant, endpoint: &mut dyn Provider) {
        let next = self.nfs41.as_mut().and_then(|nfs41| nfs41.plan.pop_front());
        let Some(request) = next else { return self.over() };
        let xid = self.take_xid(None);
        let Some(nfs41) = &mut self.nfs41 else { return };
        let mut bytes = Vec::new();
        Builder::new(Xid(xid), 32, Procedure::Msg).build(&mut bytes);
        bytes.extend(nfs41.call(request, xid));
        if let Some(connection) = self.connection {
            // If it cannot be sent, the missing reply is reported.
            let send = rc::Send { bytes, ..rc::Send::default() };
            let _ = endpoint.post(connection, Operation::Send(send));
        }
        if request == Request::Remove {
            self.removal = Some(xid);
            return self.over();
        }
        self.wait(now, Waiting::Request(request, xid));
    }

    /// Ends the planned calls.
    fn over(&mut self) {
        self.go_on(if self.leaving { Waiting::End } else { Waiting::Nothing });
    }

    /// Handles a reply in the session. Returns whether the message is one.
    pub(super) fn answered_in_session(&mut self, bytes: &[u8]) -> bool {
        let Ok(header) = Header::parse(bytes) else { return false };
        let (request, expected) = match (&self.waiting, self.removal) {
            (_, Some(xid)) if header.xid.0 == xid => (Request::Remove, xid),
            (Waiting::Request(request, xid), _) if header.xid.0 == *xid => (*request, *xid),
            _ => return false,
        };
        // An RDMA_ERROR has no reply after its header.
        let answer = self.nfs41.as_mut().map(|nfs41| nfs41.answered(request, &bytes[header.length..]));
        if self.removal == Some(expected) {
            self.removal = None;
            return true;
        }
        match answer {
            Some(Err(reason)) if !self.leaving => self.stop(Verdict::NotApplicable, reason),
            // The next call is made when the endpoint is available.
            _ => self.go_on(Waiting::Planned),
        }
        true
    }

    /// Handles a call of the session without a reply.
    pub(super) fn unanswered(&mut self, request: Request) {
        match self.leaving {
            true => self.over(),
            false => self.stop(Verdict::NotApplicable, format!("{request:?} was not answered")),
        }
    }

    /// Removes the state on the target as far as possible.
    pub(super) fn leave(&mut self, now: Instant, endpoint: &mut dyn Provider) {
        self.leaving = true;
        // The rules of a stopped scenario do not apply to these calls.
        endpoint.intercept(None);
        match self.nfs41.as_mut().is_some_and(super::Nfs41::plan_end) {
            true => self.send_planned(now, endpoint),
            false => self.over(),
        }
    }

    /// Keeps a callback, so that a step can answer it.
    pub(super) fn remember_callback(&mut self, reaction: &Observed, bytes: &[u8]) {
        if let (Observed::Callback(_), Ok(header)) = (reaction, Header::parse(bytes)) {
            self.callback = Some((header.xid.0, bytes[header.length..].to_vec()));
        }
    }
}
