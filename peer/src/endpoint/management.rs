//! Connection management of an endpoint: performs the actions of the table in [`cm`](crate::cm).

use super::{
    Connect, ConnectionId, Endpoint, Event, Link, MANAGEMENT, MANAGEMENT_QUEUE_KEY, MOST_CONNECTIONS,
    MOST_DATAGRAMS,
};
use crate::cm::{self, Action, Closed, Input, State};
use crate::packet::{Datagram, Packet};
use crate::rc::{self, Failure, Fault, QueuePair};
use crate::time::Instant;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use rdmascope_wire::bth::Opcode;
use rdmascope_wire::cm::{
    Acknowledged, CommunicationId, DisconnectReply, DisconnectRequest, Gid, Message,
    MessageReceiptAcknowledgement, Path, ReadyToUse, Reject, Rejected, Reply, Request, ServiceId,
    mtu_encoding,
};
use rdmascope_wire::psn::Psn;
use rdmascope_wire::rdma_cm_ip::{self, PortSpace};
use rdmascope_wire::{Qpn, mad};

/// Bytes of private data in a REQ after the header of the RDMA connection manager.
pub(super) const MOST_REQUEST_DATA: usize = Request::PRIVATE_DATA_LENGTH - rdma_cm_ip::Header::LENGTH;

/// Reasons of a REJ (section 12.6.7.2).
mod reason {
    pub(super) const NO_RESOURCES: u16 = 3;
    pub(super) const TIMEOUT: u16 = 4;
    pub(super) const INVALID_SERVICE_ID: u16 = 8;
    pub(super) const INVALID_TRANSPORT_SERVICE_TYPE: u16 = 9;
    pub(super) const INVALID_PATH_MTU: u16 = 26;
    pub(super) const CONSUMER: u16 = 28;
}

/// The parameters of an input.
pub(super) enum Argument<'a> {
    Connect(&'a Connect),
    PrivateData(&'a [u8]),
    Reject(u16, &'a [u8]),
    /// A message of the remote side.
    Message(&'a Message<'a>),
}

/// The fields of a REQ that determine the REP and the queue pair.
#[derive(Clone, Debug)]
pub(super) struct Requested {
    remote_qpn: Qpn,
    starting_psn: Psn,
    initiator_depth: u8,
    responder_resources: u8,
    retry_count: u8,
    rnr_retry_count: u8,
    path_mtu: u16,
    local_ack_timeout: u8,
}

impl Endpoint {
    /// Handles a datagram for queue pair 1.
    pub(super) fn take_mad(&mut self, datagram: &Datagram, packet: &Packet<'_>) {
        let source = datagram.source;
        let (_, message) = match packet.extensions.deth {
            Some(deth)
                if packet.bth.opcode == Opcode::UD_SEND_ONLY && deth.queue_key == MANAGEMENT_QUEUE_KEY =>
            {
                match Message::parse(packet.payload) {
                    Ok(parsed) => parsed,
                    Err(stop) => {
                        return self.report(Event::Dropped { source, fault: Fault::Malformed(stop) });
                    }
                }
            }
            _ => {
                let fault = match packet.extensions.deth {
                    Some(_) => Fault::UnknownQueuePair(MANAGEMENT),
                    None => Fault::Opcode(packet.bth.opcode.0),
                };
                return self.report(Event::Dropped { source, fault });
            }
        };
        let transaction_id = mad::Header::parse(packet.payload).map_or(0, |header| header.transaction_id);
        let Some(input) = cm::input(&message) else {
            // SIDR, LAP, APR and unknown messages get no answer.
            return self.report(Event::Dropped { source, fault: Fault::Opcode(packet.bth.opcode.0) });
        };
        if let Message::Request(request) = &message {
            return self.take_request(datagram, request, transaction_id);
        }
        let mut id = message.remote_communication_id().unwrap_or_default().0;
        if id == 0 && input == Input::Reject {
            // A remote side that gives up an unanswered REQ does not know the local ID of this
            // side.
            let name = message.local_communication_id();
            let requested = self.links.iter().find(|(_, link)| {
                link.requested.is_some() && link.remote == source && Some(link.machine.remote) == name
            });
            id = requested.map_or(0, |(id, _)| *id);
        }
        let known = self.links.get(&id).filter(|link| {
            // A remote side without an ID cannot be compared: a REJ or an MRA for a REQ may arrive
            // before a REP.
            let named =
                link.machine.remote.0 == 0 || message.local_communication_id() == Some(link.machine.remote);
            let nameless = message.local_communication_id() == Some(CommunicationId(0));
            link.remote == source && (named || nameless)
        });
        if known.is_none() {
            // A DREQ for a forgotten connection is answered, so that the remote side can forget it
            // too.
            if let Message::DisconnectRequest(request) = &message {
                let reply = DisconnectReply {
                    local_communication_id: request.remote_communication_id,
                    remote_communication_id: request.local_communication_id,
                    private_data: &[],
                };
                self.answer(datagram, &Message::DisconnectReply(reply), transaction_id);
            }
            return self.report(Event::Unexpected { connection: None, input, state: State::Idle });
        }
        if let Some(link) = self.links.get_mut(&id) {
            link.last_received = self.now;
            if input == Input::DisconnectRequest {
                link.machine.transaction_id = transaction_id;
            }
        }
        self.advance(id, input, Some(Argument::Message(&message)));
    }

    /// Handles a REQ, which is new or a duplicate.
    fn take_request(&mut self, datagram: &Datagram, request: &Request<'_>, transaction_id: u64) {
        let (source, name) = (datagram.source, request.local_communication_id);
        let known = self.links.iter().find(|(_, link)| {
            link.requested.is_some() && link.remote == source && link.machine.remote == name
        });
        if let Some((id, _)) = known {
            let id = *id;
            return self.advance(id, Input::Request, None);
        }
        let (ip, consumer) = match request.rdma_cm_ip() {
            Some(Ok((ip, consumer))) => (Some(ip), consumer),
            Some(Err(stop)) => return self.report(Event::Dropped { source, fault: Fault::Malformed(stop) }),
            None => (None, request.private_data),
        };
        let port = request.service_id.rdma_cm_port().map(|(_, port)| port);
        let path_mtu = request.path_mtu_bytes();
        let why_not = if !self.listeners.contains(&request.service_id) || ip.is_none() {
            Some(reason::INVALID_SERVICE_ID)
        } else if request.transport_service_type
            != rdmascope_wire::cm::TransportServiceType::ReliableConnection
        {
            Some(reason::INVALID_TRANSPORT_SERVICE_TYPE)
        } else if path_mtu.is_none() {
            Some(reason::INVALID_PATH_MTU)
        } else if self.links.len() >= MOST_CONNECTIONS && !self.make_room(source) {
            Some(reason::NO_RESOURCES)
        } else {
            None
        };
        if let Some(reason) = why_not {
            let reject = Reject { remote_communication_id: name, reason, ..Reject::default() };
            return self.answer(datagram, &Message::Reject(reject), transaction_id);
        }
        let patience = self.config.cm.patience(request.local_cm_response_timeout);
        let id = self.new_link(datagram.destination, source, State::RequestReceived);
        let Some(link) = self.links.get_mut(&id) else { return };
        link.machine.remote = name;
        link.machine.transaction_id = transaction_id;
        link.machine.patience = patience;
        link.machine.most_retries = request.max_cm_retries;
        link.requested = Some(Requested {
            remote_qpn: request.local_qpn,
            starting_psn: request.starting_psn,
            initiator_depth: request.initiator_depth,
            responder_resources: request.responder_resources,
            retry_count: request.retry_count,
            rnr_retry_count: request.rnr_retry_count,
            path_mtu: path_mtu.unwrap_or(1024),
            local_ack_timeout: request.primary_path.unwrap_or_default().local_ack_timeout,
        });
        self.report(Event::Requested {
            connection: ConnectionId(id),
            remote: source,
            port: port.unwrap_or_default(),
            private_data: consumer.to_vec(),
        });
    }

    /// Answers a message that belongs to no connection.
    fn answer(&mut self, to: &Datagram, message: &Message<'_>, transaction_id: u64) {
        let mut bytes = Vec::with_capacity(mad::LENGTH);
        message.build(&message.header(transaction_id), &mut bytes);
        let datagram = self.management_datagram(to.destination, to.source, &bytes);
        self.transmit_raw(datagram);
    }

    /// Handles a deadline: retransmits, gives up, or forgets the connection.
    pub(super) fn management_time(&mut self, now: Instant, id: u32) {
        let Some(machine) = self.links.get_mut(&id).map(|link| &mut link.machine) else { return };
        if machine.deadline.is_none_or(|deadline| deadline > now) {
            return;
        }
        machine.deadline = None;
        let input = if machine.retries >= machine.most_retries { Input::Exhausted } else { Input::Timeout };
        machine.retries = machine.retries.saturating_add(1);
        machine.arm = Some(machine.patience);
        self.advance(id, input, None);
    }

    /// Moves a connection to its next state according to the table.
    pub(super) fn advance(&mut self, id: u32, input: Input, argument: Option<Argument<'_>>) {
        let connection = ConnectionId(id);
        let Some(link) = self.links.get_mut(&id) else { return };
        let state = link.machine.state;
        let Some((action, next)) = cm::transition(state, input) else {
            // A packet for a queue pair that does not exist yet is not a CM message.
            if input != Input::Packet {
                self.report(Event::Unexpected { connection: Some(connection), input, state });
            }
            return;
        };
        link.machine.state = next;
        let data = match argument {
            Some(Argument::PrivateData(data)) => data,
            _ => &[],
        };
        match action {
            Action::Nothing => {}
            Action::SendRequest => {
                if let Some(Argument::Connect(connect)) = argument {
                    self.send_request(id, connect);
                }
            }
            Action::SendAcknowledgement => {
                let service_timeout = self.config.cm.service_timeout;
                let active = state == State::ReplyReceived;
                self.emit(id, |link| {
                    Message::MessageReceiptAcknowledgement(MessageReceiptAcknowledgement {
                        local_communication_id: link.machine.local,
                        remote_communication_id: link.machine.remote,
                        message_acknowledged: if active {
                            Acknowledged::Reply
                        } else {
                            Acknowledged::Request
                        },
                        service_timeout,
                        private_data: &[],
                    })
                });
            }
            Action::SendReply => self.send_reply(id, data),
            Action::TakeReply => {
                if let Some(Argument::Message(Message::Reply(reply))) = argument {
                    self.take_reply(id, reply);
                }
            }
            Action::SendReadyToUse => {
                self.emit(id, |link| {
                    Message::ReadyToUse(ReadyToUse {
                        local_communication_id: link.machine.local,
                        remote_communication_id: link.machine.remote,
                        private_data: &[],
                    })
                });
                self.establish(id);
            }
            Action::Establish => {
                link.machine.stop_waiting();
                link.machine.last.clear();
                self.establish(id);
            }
            Action::SendReject | Action::GiveUp => {
                let (reason, data) = match argument {
                    Some(Argument::Reject(reason, data)) => (reason, data),
                    _ if action == Action::GiveUp || state == State::RequestSent => {
                        (reason::TIMEOUT, &[][..])
                    }
                    _ => (reason::CONSUMER, &[][..]),
                };
                let rejected = match state {
                    State::RequestReceived | State::RequestAcknowledging => Rejected::Request,
                    State::ReplyReceived | State::ReplyAcknowledging => Rejected::Reply,
                    _ => Rejected::Other,
                };
                // The additional information of a timeout is the GUID of the channel adapter
                // (section 12.6.7.2).
                let guid = self.config.guid.to_be_bytes();
                let information = if reason == reason::TIMEOUT { &guid[..] } else { &[] };
                self.emit(id, |link| {
                    Message::Reject(Reject {
                        local_communication_id: link.machine.local,
                        remote_communication_id: link.machine.remote,
                        message_rejected: rejected,
                        reject_info_length: information.len() as u8,
                        reason,
                        additional_information: information,
                        private_data: data,
                    })
                });
                self.close(id, if action == Action::GiveUp { Closed::NoAnswer } else { Closed::LocalReject });
            }
            Action::TakeReject => {
                link.machine.last.clear();
                let (reason, private_data) = match argument {
                    Some(Argument::Message(Message::Reject(reject))) => {
                        (reject.reason, reject.private_data.to_vec())
                    }
                    _ => (0, Vec::new()),
                };
                self.close(id, Closed::Rejected { reason, private_data });
            }
            Action::SendDisconnectRequest => {
                // Queued responses of the queue pair precede the DREQ.
                self.flush_responses(id);
                let Some(link) = self.links.get_mut(&id) else { return };
                link.machine.transaction_id = link.machine.transaction_id.wrapping_add(1 << 32);
                link.machine.wait_for_answer();
                let destination = link.queue.as_ref().map_or(Qpn(0), QueuePair::destination);
                self.emit(id, |link| {
                    Message::DisconnectRequest(DisconnectRequest {
                        local_communication_id: link.machine.local,
                        remote_communication_id: link.machine.remote,
                        remote_qpn: destination,
                        private_data: &[],
                    })
                });
                self.end_queue(id);
            }
            Action::SendDisconnectReply => {
                link.machine.stop_waiting();
                self.flush_responses(id);
                self.emit(id, |link| {
                    Message::DisconnectReply(DisconnectReply {
                        local_communication_id: link.machine.local,
                        remote_communication_id: link.machine.remote,
                        private_data: &[],
                    })
                });
                self.close(id, if state == State::DisconnectSent { Closed::Local } else { Closed::Remote });
            }
            Action::TakeDisconnectReply => {
                link.machine.last.clear();
                self.close(id, Closed::Local);
            }
            Action::DisconnectUnanswered => {
                link.machine.last.clear();
                self.close(id, Closed::LocalUnanswered);
            }
            Action::WaitLonger => {
                if let Some(Argument::Message(Message::MessageReceiptAcknowledgement(mra))) = argument {
                    let wait = self.config.cm.patience(mra.service_timeout) + link.machine.patience;
                    link.machine.arm = None;
                    link.machine.deadline = Some(self.now.plus(wait));
                }
            }
            Action::Repeat => self.repeat(id, input, state),
            Action::Forget => self.abandon(connection),
        }
    }

    /// Builds a message of a connection, stores it for retransmission, and queues it.
    fn emit<'m>(&mut self, id: u32, message: impl FnOnce(&Link) -> Message<'m>) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let message = message(link);
        let bytes = link.machine.mad(&message);
        let (local, remote) = (link.local, link.remote);
        let datagram = self.management_datagram(local, remote, &bytes);
        self.outgoing.push_back((Some(id), datagram));
    }

    /// Retransmits the last message if it answers the input.
    fn repeat(&mut self, id: u32, input: Input, state: State) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let attribute = match link.machine.last.get(16..18) {
            Some(&[high, low]) => u16::from_be_bytes([high, low]),
            _ => return,
        };
        let answers = match (state, input) {
            (State::TimeWait, Input::DisconnectRequest) => attribute == DisconnectReply::ATTRIBUTE,
            (State::TimeWait, _) => attribute == Reject::ATTRIBUTE,
            _ => true,
        };
        // Repeated messages of the remote side must not fill the memory. The timer retransmits one
        // message per connection.
        if answers && (input == Input::Timeout || self.outgoing.len() < MOST_DATAGRAMS) {
            let (local, remote, bytes) = (link.local, link.remote, link.machine.last.clone());
            let datagram = self.management_datagram(local, remote, &bytes);
            self.outgoing.push_back((Some(id), datagram));
        }
    }

    fn establish(&mut self, id: u32) {
        if let Some(link) = self.links.get_mut(&id) {
            if let Some(queue) = &mut link.queue {
                queue.state = rc::State::ReadyToSend;
            }
            self.report(Event::Connected { connection: ConnectionId(id) });
        }
    }

    /// Sends queued acknowledgements before the DREQ or DREP.
    fn flush_responses(&mut self, id: u32) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let mut bytes = Vec::new();
        if let Some(queue) = &mut link.queue {
            // READ responses are limited, because the remote side has given up those that it did
            // not wait for.
            while bytes.len() < 64
                && let Some(transport) = queue.next_response()
            {
                bytes.push(transport);
            }
            queue.responder.end_reads();
            bytes.extend(core::iter::from_fn(|| queue.next_response()));
        }
        for transport in bytes {
            if let Some(datagram) = self.datagram(ConnectionId(id), transport) {
                self.outgoing.push_back((None, datagram));
            }
        }
    }

    /// Ends the queue pair and flushes outstanding operations.
    fn end_queue(&mut self, id: u32) {
        let Some(queue) = self.links.get_mut(&id).and_then(|link| link.queue.as_mut()) else { return };
        queue.responder.end_reads();
        if queue.state != rc::State::Error {
            queue.fail(Failure::Flushed);
            // The end of a connection reports this already.
            queue.events.retain(|event| *event != rc::QueueEvent::Failed(Failure::Flushed));
            self.collect(id);
        }
    }

    /// Closes the connection. Its identifiers are kept during TimeWait.
    fn close(&mut self, id: u32, why: Closed) {
        self.end_queue(id);
        let time_wait = self.config.cm.time_wait;
        if let Some(link) = self.links.get_mut(&id) {
            link.machine.arm = None;
            link.machine.deadline = Some(self.now.plus(time_wait));
            self.report(Event::Closed { connection: ConnectionId(id), why });
        }
    }

    fn send_request(&mut self, id: u32, connect: &Connect) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.machine.wait_for_answer();
        let ip = match (connect.local, connect.remote) {
            (IpAddr::V4(local), IpAddr::V4(remote)) => {
                rdma_cm_ip::Header::ipv4(local, connect.local_port, remote)
            }
            (IpAddr::V6(local), IpAddr::V6(remote)) => {
                rdma_cm_ip::Header::ipv6(local, connect.local_port, remote)
            }
            // `connect` has checked this.
            _ => return,
        };
        let mut private_data = Vec::with_capacity(Request::PRIVATE_DATA_LENGTH);
        ip.build(&mut private_data);
        private_data.extend_from_slice(&connect.private_data);
        let (cm, guid) = (self.config.cm.clone(), self.config.guid);
        self.emit(id, |link| {
            let queue = &link.config;
            Message::Request(Request {
                local_communication_id: link.machine.local,
                service_id: ServiceId::rdma_cm(PortSpace::Tcp, connect.port),
                local_ca_guid: guid,
                local_qpn: link.qpn,
                responder_resources: queue.responder_resources,
                initiator_depth: queue.initiator_depth,
                remote_cm_response_timeout: cm.response_timeout,
                end_to_end_flow_control: queue.end_to_end_credits,
                starting_psn: link.starting_psn,
                local_cm_response_timeout: cm.response_timeout,
                retry_count: queue.retry_count,
                partition_key: queue.partition_key,
                path_packet_payload_mtu: mtu_encoding(queue.path_mtu).unwrap_or(3),
                rnr_retry_count: queue.rnr_retry_count,
                max_cm_retries: cm.most_retries,
                primary_path: Some(Path {
                    // Ethernet has no LIDs: use the permissive LID.
                    local_lid: 0xffff,
                    remote_lid: 0xffff,
                    local_gid: Gid::from(connect.local),
                    remote_gid: Gid::from(connect.remote),
                    hop_limit: 64,
                    local_ack_timeout: encode_timeout(queue.timeout),
                    ..Path::default()
                }),
                private_data: &private_data,
                ..Request::default()
            })
        });
    }

    fn send_reply(&mut self, id: u32, private_data: &[u8]) {
        let guid = self.config.guid;
        let Some(link) = self.links.get_mut(&id) else { return };
        let Some(requested) = link.requested.clone() else { return };
        let config = &mut link.config;
        // A REP has no field for another path MTU.
        config.path_mtu = requested.path_mtu;
        config.initiator_depth = config.initiator_depth.min(requested.responder_resources);
        config.retry_count = requested.retry_count;
        config.rnr_retry_count = requested.rnr_retry_count;
        config.timeout = decode_timeout(requested.local_ack_timeout);
        let mut queue =
            QueuePair::new(config.clone(), requested.remote_qpn, requested.starting_psn, link.starting_psn);
        queue.state = rc::State::ReadyToReceive;
        link.queue = Some(queue);
        link.machine.wait_for_answer();
        let rnr_retry_count = self.config.queue.rnr_retry_count;
        self.emit(id, |link| {
            let queue = &link.config;
            Message::Reply(Reply {
                local_communication_id: link.machine.local,
                remote_communication_id: link.machine.remote,
                local_qpn: link.qpn,
                starting_psn: link.starting_psn,
                responder_resources: queue.responder_resources.min(requested.initiator_depth),
                initiator_depth: queue.initiator_depth,
                target_ack_delay: 15,
                end_to_end_flow_control: queue.end_to_end_credits,
                rnr_retry_count,
                local_ca_guid: guid,
                private_data,
                ..Reply::default()
            })
        });
    }

    fn take_reply(&mut self, id: u32, reply: &Reply<'_>) {
        let by_hand = self.config.confirm_by_hand;
        let Some(link) = self.links.get_mut(&id) else { return };
        link.machine.stop_waiting();
        link.machine.remote = reply.local_communication_id;
        let config = &mut link.config;
        config.initiator_depth = config.initiator_depth.min(reply.responder_resources);
        config.rnr_retry_count = reply.rnr_retry_count;
        link.queue =
            Some(QueuePair::new(config.clone(), reply.local_qpn, reply.starting_psn, link.starting_psn));
        let private_data = reply.private_data.to_vec();
        let reply = Reply { private_data: &[], ..*reply };
        self.report(Event::Replied { connection: ConnectionId(id), reply: Some(reply), private_data });
        if !by_hand {
            self.advance(id, Input::Confirm, None);
        }
    }
}

/// Returns the encoding in 5 bits of the shortest time that is not shorter than `timeout`; 0: none.
fn encode_timeout(timeout: Option<Duration>) -> u8 {
    let Some(timeout) = timeout else { return 0 };
    (1..32).find(|encoded| rdmascope_wire::cm::timeout(*encoded) >= timeout).unwrap_or(31)
}

fn decode_timeout(encoded: u8) -> Option<Duration> {
    (encoded != 0).then(|| rdmascope_wire::cm::timeout(encoded))
}
