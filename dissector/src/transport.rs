//! Transport headers of a captured record, as far as the record alone shows them.
//!
//! This depends only on the record, so a caller may run it ahead on another thread.

use crate::event::{Content, Headers};
use crate::frame::{self, Frame, Other};
use crate::record::Record;
use rdmascope_wire::bth::{Bth, Extensions, Opcode, Operation};
use rdmascope_wire::mad::ManagementClass;
use rdmascope_wire::{Layer, Qpn, Stop, cm, rpcrdma};

/// A record and its headers, as far as the record alone shows them.
#[derive(Clone, Copy, Debug)]
pub struct Dissected<'a> {
    /// The transport packet, or the reason why the record has none.
    pub frame: Result<Frame<'a>, Other<'a>>,
    /// Its headers, or the place where parsing stopped. `None` if the record has no transport
    /// packet.
    pub transport: Option<Result<Transport<'a>, Stop>>,
}

impl<'a> Dissected<'a> {
    /// Parses the headers of a record.
    #[inline]
    pub fn new(record: &Record<'a>, config: &frame::Config) -> Dissected<'a> {
        let frame = frame::dissect(record, config);
        let transport = frame.as_ref().ok().map(|frame| Transport::parse(frame, record));
        Dissected { frame, transport }
    }
}

/// The transport headers of a packet, and its payload.
#[derive(Clone, Copy, Debug)]
pub struct Transport<'a> {
    /// The base transport header.
    pub bth: Bth,
    /// The bytes of the extension headers: exactly those that the opcode requires.
    pub extensions: &'a [u8],
    /// The captured bytes of the payload, without padding.
    pub payload: &'a [u8],
    /// The length of the payload on the wire, in bytes, without padding.
    pub payload_length: u32,
}

impl<'a> Transport<'a> {
    /// The queue pair of the general services interface, to which CM messages are sent.
    const GENERAL_SERVICES_QP: Qpn = Qpn(1);

    /// Parses the transport headers of a frame.
    #[inline(always)] // Otherwise the result goes through memory for each packet.
    fn parse(frame: &Frame<'a>, record: &Record<'_>) -> Result<Transport<'a>, Stop> {
        let located = |stop: Stop| {
            let cut = record.data.len() < record.original_length as usize;
            if cut { stop.in_cut_capture() } else { stop }
        };
        let bth = Bth::parse(frame.transport).map_err(located)?;
        let length = Extensions::length(bth.opcode);
        let rest = &frame.transport[Bth::LENGTH..];
        let (extensions, rest) = rest
            .split_at_checked(length)
            .ok_or_else(|| located(Stop::short(Layer::Bth, Bth::LENGTH, length, frame.transport.len())))?;
        let headers_length = (Bth::LENGTH + length) as u32;
        let payload_length = frame
            .transport_length
            .checked_sub(headers_length + u32::from(bth.pad_count))
            .ok_or(Stop::malformed(Layer::Bth, 1))?;
        let payload = &rest[..rest.len().min(payload_length as usize)];
        Ok(Transport { bth, extensions, payload, payload_length })
    }

    /// Whether it is an RDMA Write or an RDMA Read response that was captured without its payload.
    #[cold]
    pub(crate) fn lacks_payload(&self) -> bool {
        let moves = |operation: Operation| operation.is_write() || operation.is_read_response();
        self.payload.is_empty() && self.payload_length > 0 && self.bth.opcode.operation().is_some_and(moves)
    }

    /// The CM message in the packet. Other MADs, such as those of subnet administration, use the
    /// same queue pair.
    #[inline]
    pub fn cm_message(&self) -> Option<cm::Message<'a>> {
        let is_mad = self.bth.destination_qp == Transport::GENERAL_SERVICES_QP
            && self.bth.opcode == Opcode::UD_SEND_ONLY;
        if !is_mad {
            return None;
        }
        let (header, message) = cm::Message::parse(self.payload).ok()?;
        (header.management_class == ManagementClass::COMMUNICATION_MANAGEMENT).then_some(message)
    }

    /// The headers that an event reports.
    pub(crate) fn headers(self, speaks_rpc: bool) -> Result<Headers<'a>, Stop> {
        let Transport { bth, payload, payload_length, .. } = self;
        let (extensions, _) = Extensions::parse(bth.opcode, self.extensions)?;
        let begins =
            bth.opcode.operation().is_some_and(|operation| operation.is_send() && operation.begins_message());
        let content = if let Some(message) = self.cm_message() {
            Content::Cm(message)
        } else if speaks_rpc
            && begins
            && let Ok(header) = rpcrdma::Header::parse(payload)
        {
            Content::RpcRdma(header)
        } else {
            Content::Other
        };
        Ok(Headers { bth, extensions, payload, payload_length, content })
    }
}
