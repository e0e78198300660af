//! Performs the steps of a requester's scenario.

use super::{FirstReply, Runner, Waiting};
use crate::endpoint;
use crate::interceptor::{self, Matches, Rules};
use crate::memory::Access;
use crate::provider::Provider;
use crate::rc::{self, Operation, PostError};
use crate::scenario::message::{self, Message, Registered};
use crate::scenario::nfs41::{self, Nfs41};
use crate::scenario::outcome::Verdict;
use crate::scenario::payload::{from_digits, shown};
use crate::scenario::step::{
    Connect, Direction, Effect, Fill, Handle, Offered, PrivateDataFields, Register, Rights, Rule, Send, Step,
};
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::format;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use rdmascope_wire::Rkey;
use rdmascope_wire::bth::Opcode;
use rdmascope_wire::private_data::{PrivateData, encode_size};
use rdmascope_wire::rpcrdma::Procedure;

/// Encodes private data.
pub(super) fn private_data(fields: &PrivateDataFields) -> Vec<u8> {
    let data = PrivateData {
        version: fields.version,
        reserved: fields.reserved,
        remote_invalidation: fields.remote_invalidation,
        send_size: encode_size(fields.send_size).unwrap_or_default(),
        receive_size: encode_size(fields.receive_size).unwrap_or_default(),
    };
    let mut one = Vec::new();
    data.build(&mut one);
    one.truncate(fields.length);
    let mut out = vec![0; fields.offset];
    (0..fields.copies).for_each(|_| out.extend(&one));
    out
}

/// Clears R for a provider that cannot handle remote invalidation.
pub(super) fn supported(endpoint: &dyn Provider, fields: PrivateDataFields) -> PrivateDataFields {
    let remote_invalidation = fields.remote_invalidation && endpoint.makes_packets();
    PrivateDataFields { remote_invalidation, ..fields }
}

fn milliseconds(number: u32) -> Duration {
    Duration::from_millis(u64::from(number))
}

impl Runner {
    pub(super) fn perform(&mut self, now: Instant, endpoint: &mut dyn Provider, step: &Step) {
        match step {
            Step::Connect(connect) => self.connect(now, endpoint, connect),
            Step::Register(register) => self.register(endpoint, register),
            Step::Send(send) => self.send(endpoint, send),
            Step::SendRaw(send) => {
                let xid = send.bytes.contains("xid").then(|| self.take_xid(None));
                let digits =
                    send.bytes.replace("xid", &xid.map(|xid| format!("{xid:08x}")).unwrap_or_default());
                let bytes = from_digits(&digits).unwrap_or_default();
                if let Some(xid) = xid {
                    let vers = message::version(&bytes);
                    self.remember(Message { xid, vers, ..Message::default() });
                }
                self.post_send(endpoint, bytes, send.invalidate.map(Rkey), "SEND".to_string());
            }
            Step::Write(write) => {
                self.record.note(format!("WRITE of {} bytes to handle 0x{:08x}", write.length, write.handle));
                if let Some(connection) = self.connection {
                    let bytes = vec![0; write.length as usize];
                    let (rkey, address) = (Rkey(write.handle), write.address);
                    let write = Operation::Write { rkey, address, bytes, immediate: None };
                    let posted = endpoint.post(connection, write);
                    self.operations.extend(posted);
                }
            }
            Step::Read(read) => {
                self.record.note(format!("READ of {} bytes from handle 0x{:08x}", read.length, read.handle));
                if let Some(connection) = self.connection {
                    let (rkey, address, length) = (Rkey(read.handle), read.address, read.length);
                    match endpoint.post(connection, Operation::Read { rkey, address, length }) {
                        Err(error @ PostError::NoReads) => {
                            self.stop(Verdict::NotApplicable, error.to_string())
                        }
                        posted => self.operations.extend(posted),
                    }
                }
            }
            Step::Pull(pull) => self.pull(endpoint, pull.beyond),
            Step::Connection(number) => self.go_back(*number),
            Step::Invalidate(name) => {
                self.record.note(format!("memory {name} invalidated"));
                if let (Some(connection), Some(registered)) = (self.connection, self.memory.get(name)) {
                    endpoint.invalidate(connection, registered.rkey);
                }
            }
            Step::Rules(rules) => {
                self.record.sent.extend(rules.iter().map(|rule| format!("from now on: {rule}")));
                let rules: Vec<interceptor::Rule> = rules.iter().map(rule).collect();
                let seed = u64::from(self.target.first_xid);
                endpoint.intercept((!rules.is_empty()).then(|| Box::new(Rules::new(rules, seed)) as _));
            }
            Step::SkipPsn(packets) => {
                self.record.note(format!("{packets} PSNs skipped"));
                if let Some(connection) = self.connection {
                    endpoint.skip_psn(connection, *packets);
                }
            }
            Step::Wait(time) => {
                self.wait_until(now.plus(milliseconds(*time)), Waiting::Time);
            }
            Step::Expect(expect) => {
                let until = now.plus(milliseconds(expect.within));
                self.wait_until(until, Waiting::Expect(expect.reaction.clone()));
            }
            Step::Observe(observe) => {
                self.wait_until(now.plus(milliseconds(observe.within)), Waiting::Observe(observe.until));
            }
            Step::Disconnect(_) => {
                self.record.note("DREQ");
                if let Some(connection) = self.connection {
                    // An error means that the connection is already closed.
                    let _ = endpoint.disconnect(connection);
                }
            }
            Step::Abandon(_) => {
                self.record.note("connection abandoned without a DREQ");
                if let Some(connection) = self.connection.take() {
                    self.lost.insert(connection);
                    endpoint.abandon(connection);
                }
                self.usable = false;
                self.record.pending.clear();
            }
            Step::Session(session) => {
                let nfs41 = self.nfs41.insert(Nfs41::new(self.target.first_xid, session.backchannel));
                self.record.note(format!("NFSv4.1: {:?}", nfs41.plan));
                self.send_planned(now, endpoint);
            }
            Step::Recall(_) => {
                if let Some(nfs41) = &mut self.nfs41 {
                    nfs41.plan_recall();
                    self.record.note(format!("NFSv4.1: {:?}", nfs41.plan));
                }
                self.send_planned(now, endpoint);
            }
            Step::Probe(_) => {
                let xid = self.send_null(endpoint);
                self.wait(now, Waiting::Probe(xid));
            }
            // The parser rejects these steps in a requester's scenario.
            Step::Call(_) | Step::Reply(_) | Step::WriteBeyond(_) => {
                self.stop(Verdict::NotApplicable, "a step of the responder's side".to_string());
            }
        }
    }

    fn connect(&mut self, now: Instant, endpoint: &mut dyn Provider, connect: &Connect) {
        let fields = supported(endpoint, connect.private_data.unwrap_or_default());
        let private_data = match &connect.raw {
            Some(digits) => from_digits(digits).unwrap_or_default(),
            None => private_data(&fields),
        };
        let data = if private_data.is_empty() { "none".into() } else { hex::encode(&private_data) };
        self.record.note(format!("REQ, private data {data}"));
        let port = connect.port.unwrap_or(self.target.port);
        let request = endpoint::Connect {
            private_data,
            ..endpoint::Connect::new(self.target.local, self.target.remote, port)
        };
        self.memory.clear();
        self.written.clear();
        self.record.pending.clear();
        self.usable = false;
        self.first_reply = FirstReply::NotCalled;
        match endpoint.connect(request) {
            Ok(connection) => {
                self.connection = Some(connection);
                self.connections.push(connection);
                let patience = connect.within.map_or(self.target.patience, milliseconds);
                self.wait_until(now.plus(patience), Waiting::Connection { observe: connect.observe });
            }
            Err(error) => self.stop(Verdict::NotApplicable, format!("no REQ: {error}")),
        }
    }

    /// Reads the Read chunk of the last reply that has one, and `beyond` bytes past its end.
    fn pull(&mut self, endpoint: &mut dyn Provider, beyond: u32) {
        let segments = self.offer(Offered::Offered).unwrap_or_default().to_vec();
        let (Some(connection), Some(last)) = (self.connection, segments.len().checked_sub(1)) else {
            return self.stop(Verdict::NotApplicable, "the target offered no Read chunk".to_string());
        };
        for (at, segment) in segments.iter().enumerate() {
            let more = if at == last { beyond } else { 0 };
            let length = segment.length.saturating_add(more);
            self.record.note(format!("READ of {length} bytes from handle 0x{:08x}", segment.handle.0));
            let read = Operation::Read { rkey: segment.handle, address: segment.offset, length };
            match endpoint.post(connection, read) {
                Err(error @ PostError::NoReads) => self.stop(Verdict::NotApplicable, error.to_string()),
                posted => self.pulled.extend(posted),
            }
        }
    }

    /// Continues on an earlier connection.
    fn go_back(&mut self, number: usize) {
        self.record.note(format!("from now on: connection {number}"));
        self.connection = number.checked_sub(1).and_then(|at| self.connections.get(at)).copied();
        self.usable = self.connection.is_some_and(|connection| !self.lost.contains(&connection));
        self.first_reply = FirstReply::Arrived;
        self.record.pending.clear();
        if !self.usable {
            self.stop(Verdict::NotApplicable, format!("connection {number} was lost"));
        }
    }

    /// Returns the handle that a SEND invalidates.
    fn handle_of(&self, handle: Handle) -> Option<Rkey> {
        match handle {
            Handle::Number(number) => Some(Rkey(number)),
            Handle::Offered(which) => self.offer(which)?.first().map(|segment| segment.handle),
        }
    }

    fn register(&mut self, endpoint: &mut dyn Provider, register: &Register) {
        let bytes = match register.fill {
            Fill::Zero => vec![0; register.length as usize],
            Fill::Count => (0..register.length).map(|at| (at % 251) as u8).collect(),
        };
        let access = match register.access {
            Rights::Read => Access::READ,
            Rights::Write => Access::WRITE,
        };
        let registered = self.connection.map(|connection| endpoint.register(connection, bytes, access));
        if let Some(Ok((rkey, address))) = registered {
            let registered = Registered { rkey, address, length: register.length };
            self.memory.insert(register.name.clone(), registered);
        }
    }

    fn send(&mut self, endpoint: &mut dyn Provider, send: &Send) {
        let times = send.times.unwrap_or(1);
        for number in 0..times {
            let callback = self.callback.clone().filter(|_| send.callback);
            let xid = match (&callback, send.xid) {
                (Some((xid, _)), None) => *xid,
                _ => self.take_xid(send.xid.map(|xid| xid.wrapping_add(number))),
            };
            let payload_xid = send.payload_xid.map_or(xid, |xid| self.target.first_xid.wrapping_add(xid));
            let results = callback.as_ref().map(|(_, message)| nfs41::results(message)).unwrap_or_default();
            let (message, bytes, stores) = message::build(send, xid, payload_xid, &results, &self.memory);
            for (name, bytes) in stores {
                if let (Some(connection), Some(registered)) = (self.connection, self.memory.get(&name)) {
                    endpoint.fill(connection, registered.rkey, &bytes);
                }
            }
            let vers = message.vers.map(|vers| format!(", rdma_vers {vers}")).unwrap_or_default();
            let description = format!("SEND of XID 0x{xid:08x}{vers}");
            self.remember(message);
            let invalidate = send.invalidate.and_then(|handle| self.handle_of(handle));
            self.post_send(endpoint, bytes, invalidate, description);
        }
    }

    /// Assigns later answers with this XID to this message.
    fn remember(&mut self, message: Message) {
        self.answered.remove(&message.xid);
        self.messages.insert(message.xid, message);
    }

    fn post_send(
        &mut self,
        endpoint: &mut dyn Provider,
        bytes: Vec<u8>,
        invalidate: Option<Rkey>,
        description: alloc::string::String,
    ) {
        let shown = shown(&bytes);
        let length = bytes.len();
        let with =
            invalidate.map(|handle| format!(", with invalidate of 0x{:08x}", handle.0)).unwrap_or_default();
        if self.first_reply == FirstReply::NotCalled && may_be_call(&bytes) {
            self.first_reply = FirstReply::Awaited;
        }
        let send = rc::Send { bytes, invalidate, ..rc::Send::default() };
        let posted = self.connection.map(|connection| endpoint.post(connection, Operation::Send(send)));
        let note = match posted {
            Some(Ok(_)) => "",
            _ => "; not sent: the connection is closed",
        };
        self.retransmitted = false;
        self.record.note(format!("{description}{with}, {length} bytes: {shown}{note}"));
    }
}

/// Returns whether a target may take a message for a call: not if it is shorter than any header, an
/// RDMA_DONE or an RDMA_ERROR (RFC 8166, section 4.2.4).
fn may_be_call(message: &[u8]) -> bool {
    let word = message.get(12..16).and_then(<[u8]>::first_chunk);
    let procedure = word.map(|word| Procedure::from(u32::from_be_bytes(*word)));
    message.len() >= 28 && !matches!(procedure, Some(Procedure::Done | Procedure::Error))
}

fn rule(rule: &Rule) -> interceptor::Rule {
    let matches = Matches {
        direction: Some(match rule.direction {
            Direction::Out => interceptor::Direction::Transmit,
            Direction::In => interceptor::Direction::Receive,
        }),
        opcode: rule.opcode.map(Opcode),
        cm_attribute: rule.cm,
        skip: rule.skip,
        count: rule.count,
        per_mille: rule.per_mille,
    };
    let effect = match rule.effect {
        Effect::Drop => interceptor::Effect::Drop,
        Effect::Duplicate => interceptor::Effect::Duplicate(Duration::ZERO),
        Effect::Delay(time) => interceptor::Effect::Delay(milliseconds(time)),
        Effect::BadIcrc => interceptor::Effect::BadIcrc,
        // BTH: opcode, flags, P_Key (2 bytes), reserved, destination queue pair (3 bytes).
        Effect::PartitionKey(key) => interceptor::Effect::Change(Box::new(move |bytes: &mut Vec<u8>| {
            if let Some(place) = bytes.get_mut(2..4) {
                place.copy_from_slice(&key.to_be_bytes());
            }
        })),
        Effect::QueuePair(bits) => interceptor::Effect::Change(Box::new(move |bytes: &mut Vec<u8>| {
            let bits = bits.to_be_bytes();
            bytes.iter_mut().skip(5).zip(&bits[1..]).for_each(|(byte, bits)| *byte ^= bits);
        })),
    };
    interceptor::Rule::new(matches, effect)
}
