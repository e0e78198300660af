//! Fields of a frame, from the link header to the ICRC.

use super::rpc::{self, SendBytes};
use super::{Field, Value, by_layout, carriers, iwarp, with_name, with_name_in};
use core::ops::Range;
use rdmascope_dissector::event::{Content, Headers, Packet};
use rdmascope_dissector::frame::{self, Header, IcrcVerdict, Other};
use rdmascope_dissector::transaction::Transaction;
use rdmascope_wire::bth::{self, Acknowledgement, Bth, ExtensionHeader, Opcode, Operation, Syndrome};
use rdmascope_wire::cm::{self, ServiceId};
use rdmascope_wire::mad::{self, ManagementClass};
use rdmascope_wire::private_data::{self, PrivateData};
use rdmascope_wire::{Layer, Qpn, Stop, rdma_cm_ip};

/// Returns all fields of the frame of `packet`. `transaction` is the transaction of the message in
/// it.
pub fn frame(packet: &Packet<'_>, config: &frame::Config, transaction: Option<&Transaction>) -> Vec<Field> {
    let bytes = packet.record.data;
    let mut found = Vec::new();
    let frame =
        frame::dissect_reporting(&packet.record, config, &mut |header, place| found.push((header, place)));
    let mut fields = Vec::new();
    for (header, place) in &found {
        match header {
            Header::Transport => transport(packet, bytes, place, transaction, &mut fields),
            Header::Icrc => fields.push(icrc(packet, bytes, place)),
            Header::VariantCrc => {
                let value = "link checksum, recomputed by every hop";
                fields.push(Field::new("VCRC", value, place.clone()));
            }
            _ => fields.push(carriers::carrier(*header, bytes, place)),
        }
    }
    let end = found.last().map_or(0, |(_, place)| place.end);
    match frame {
        Ok(_) if end < bytes.len() => {
            let value = format!("{} bytes after the last header", bytes.len() - end);
            fields.push(Field::new("behind", value, end..bytes.len()));
        }
        Ok(_) => {}
        Err(Other::Stop(stop)) => fields.push(Field::stop(stop, stop_base(&stop, &found))),
        Err(Other::Tcp(segment)) => iwarp::segment(packet, &segment, transaction, &mut fields),
        Err(Other::Traffic(traffic)) => fields.push(other(&traffic.to_string(), end, bytes)),
        Err(Other::UnknownLinkType) => {
            fields.push(other("of a link type that rdmascope does not support", end, bytes))
        }
        Err(Other::Fragment) => {
            fields.push(other("fragment of an IP packet, which RoCEv2 does not allow", end, bytes));
        }
    }
    fields
}

/// The start of the header in which `stop` occurred: see [`frame::dissect_reporting`].
fn stop_base(stop: &Stop, found: &[(Header, Range<usize>)]) -> usize {
    let extension = |header: &Header| matches!(header, Header::Ipv6Extension(_));
    match found.iter().rev().find(|(header, _)| !extension(header)) {
        Some((Header::Ipv6, place)) if stop.layer == Layer::Network => place.start,
        _ => found.last().map_or(0, |(_, place)| place.end),
    }
}

fn other(description: &str, end: usize, bytes: &[u8]) -> Field {
    Field::new(
        "payload",
        format!("{} bytes: {description}", bytes.len().saturating_sub(end)),
        end..bytes.len(),
    )
}

/// The BTH, its extension headers, and the payload.
fn transport(
    packet: &Packet<'_>,
    bytes: &[u8],
    place: &Range<usize>,
    transaction: Option<&Transaction>,
    fields: &mut Vec<Field>,
) {
    let at = place.start;
    let end = place.end.min(bytes.len());
    let bytes = &bytes[..end];
    let Some(headers) = &packet.headers else { return };
    if let Ok(bth) = Bth::parse(bytes.get(at..).unwrap_or_default()) {
        let children = by_layout(Bth::LAYOUT, bytes, at, bth_value);
        let header = Field::new("BTH", bth.opcode.to_string(), at..at + Bth::LENGTH);
        fields.push(header.with(children));
    }
    let headers = match headers {
        Ok(headers) => headers,
        Err(stop) => {
            fields.push(Field::stop(*stop, at));
            return;
        }
    };
    let payload_start = extensions(headers, bytes, at + Bth::LENGTH, fields);
    payload(packet, headers, bytes, payload_start, transaction, fields);
}

fn bth_value(name: &str, value: Value<'_>) -> Option<String> {
    let number = value.number?;
    Some(match name {
        "OpCode" => format!("{} (0x{number:02x})", Opcode(u8::try_from(number).ok()?)),
        "Partition Key" => format!("0x{number:04x}"),
        "Destination QP" => qpn(number),
        _ => return None,
    })
}

fn qpn(number: u64) -> String {
    format!("0x{number:06x}")
}

/// Adds the extension headers of the packet, in wire order. Returns the start of the payload.
fn extensions(headers: &Headers<'_>, bytes: &[u8], mut at: usize, fields: &mut Vec<Field>) -> usize {
    for header in ExtensionHeader::ALL.into_iter().filter(|header| header.is_of(headers.bth.opcode)) {
        let syndrome = headers.extensions.aeth.filter(|_| header == ExtensionHeader::Aeth);
        let value = syndrome.map(|aeth| explained(aeth.syndrome)).unwrap_or_default();
        let (layout, name) = (header.layout(), header.name());
        let children = by_layout(layout, bytes, at, extension_value);
        fields.push(Field::new(name, value, at..at + layout.length()).with(children));
        at += layout.length();
    }
    at
}

fn extension_value(name: &str, value: Value<'_>) -> Option<String> {
    let number = value.number?;
    Some(match name {
        "Virtual Address" | "Swap (or Add) Data" | "Compare Data" | "Original Remote Data" => {
            format!("0x{number:016x}")
        }
        "R_Key" | "Queue Key" | "Immediate Data" => format!("0x{number:08x}"),
        "Source QP" | "XRCSRQ" | "EE-Context" => qpn(number),
        "Syndrome" => {
            let syndrome = Syndrome(u8::try_from(number).ok()?);
            format!("{} (0x{number:02x})", explained(syndrome))
        }
        _ => return None,
    })
}

/// Describes the syndrome of an AETH (IBTA volume 1, section 9.7.5.2.1).
pub fn explained(syndrome: Syndrome) -> String {
    match syndrome.kind() {
        Acknowledgement::Ack { credits } => match bth::end_to_end_credits(credits) {
            Some(credits) => format!("ACK, {credits} end-to-end credits"),
            None => "ACK, no end-to-end flow control".to_owned(),
        },
        Acknowledgement::RnrNak { timer } => {
            let microseconds = bth::rnr_timer(timer).as_micros();
            format!("RNR NAK, try again after {}.{:02} ms", microseconds / 1000, microseconds % 1000 / 10)
        }
        Acknowledgement::Nak(code) => format!("NAK, {code}"),
        Acknowledgement::Reserved(detail) => format!("reserved, {detail}"),
    }
}

/// The payload after the transport headers, and the padding.
fn payload(
    packet: &Packet<'_>,
    headers: &Headers<'_>,
    bytes: &[u8],
    at: usize,
    transaction: Option<&Transaction>,
    fields: &mut Vec<Field>,
) {
    let length = headers.payload.len();
    let end = at + length;
    let cut = (length as u64) < u64::from(headers.payload_length);
    let is_mad = headers.bth.destination_qp == Qpn(1) && headers.bth.opcode == Opcode::UD_SEND_ONLY;
    if is_mad {
        fields.extend(management(&bytes[..end], at, cut));
    } else if let Content::RpcRdma(_) = headers.content {
        let operation = headers.bth.opcode.operation();
        let continues = operation.is_some_and(|operation| operation == Operation::SendFirst);
        let send = SendBytes { bytes: headers.payload, base: at, cut, continues };
        fields.extend(rpc::send(send, transaction));
    } else if length > 0 {
        fields.push(Field::new("payload", payload_description(packet, headers), at..end));
    }
    if cut {
        let missing = u64::from(headers.payload_length) - length as u64;
        fields.push(Field::known("cut", format!("{missing} more bytes were on the wire")));
    }
    if end < bytes.len() {
        let padding = format!("{} bytes", bytes.len() - end);
        fields.push(Field::new("padding", padding, end..bytes.len()));
    }
}

/// Describes the payload of a packet that begins no message.
fn payload_description(packet: &Packet<'_>, headers: &Headers<'_>) -> String {
    let length = headers.payload.len();
    let description = match headers.bth.opcode.operation() {
        Some(operation) if operation.is_send() => "of a Send",
        Some(operation) if operation.is_write() => "of an RDMA Write",
        Some(operation) if operation.is_read_response() => "of an RDMA Read response",
        _ if !packet.of_connection => "outside of any connection",
        _ => return format!("{length} bytes"),
    };
    format!("{length} bytes {description}")
}

/// A MAD, and the CM message in it.
fn management(bytes: &[u8], at: usize, cut: bool) -> Vec<Field> {
    let located = |stop: Stop| if cut { stop.in_cut_capture() } else { stop };
    let mad_bytes = &bytes[at..];
    let header = match mad::Header::parse(mad_bytes) {
        Ok(header) => header,
        Err(stop) => return vec![Field::stop(located(stop), at)],
    };
    let data = at + mad::Header::LENGTH;
    let end = bytes.len().min(at + mad::LENGTH);
    let mut fields =
        vec![Field::new("MAD", "", at..data).with(by_layout(mad::Header::LAYOUT, bytes, at, mad_value))];
    let layout = match header.management_class {
        ManagementClass::COMMUNICATION_MANAGEMENT => cm::layout(header.attribute),
        _ => None,
    };
    let Some(layout) = layout else {
        if data < end {
            fields.push(Field::new("data", format!("{} bytes", end - data), data..end));
        }
        return fields;
    };
    let message = cm::Message::parse(mad_bytes);
    let mut children = by_layout(layout, &bytes[..end], data, cm_value);
    let opaque = layout.field("Private Data").map(|field| data + field.bytes().start);
    if let (Ok((_, message)), Some(start)) = (&message, opaque)
        && let Some(field) = children.iter_mut().find(|field| field.name == "Private Data")
    {
        field.children = private_data_fields(message, bytes, start);
    }
    match &message {
        Err(stop) => children.push(Field::stop(located(*stop), data)),
        Ok((_, message)) if message.is_cut() => {
            let length = end - data;
            let stop =
                Stop::short(Layer::Cm, length, mad::DATA_LENGTH - length.min(mad::DATA_LENGTH), length);
            children.push(Field::stop(located(stop), data));
        }
        Ok(_) => {}
    }
    let mut value = message.map_or(String::new(), |(_, message)| message.name().to_owned());
    if value.is_empty() {
        value = format!("attribute 0x{:04x}", header.attribute);
    }
    fields.push(Field::new("CM", value, data..end).with(children));
    fields
}

fn mad_value(name: &str, value: Value<'_>) -> Option<String> {
    let number = value.number?;
    Some(match name {
        "MgmtClass" => {
            let name = match ManagementClass(u8::try_from(number).ok()?) {
                ManagementClass::COMMUNICATION_MANAGEMENT => Some("communication management"),
                ManagementClass::SUBNET_ADMINISTRATION => Some("subnet administration"),
                _ => None,
            };
            with_name(number, name)
        }
        "TransactionID" => format!("0x{number:016x}"),
        "AttributeID" => format!("0x{number:04x}"),
        "AttributeModifier" => format!("0x{number:08x}"),
        _ => return None,
    })
}

fn cm_value(name: &str, value: Value<'_>) -> Option<String> {
    if name.ends_with("GID") {
        let gid = cm::Gid(value.bytes.try_into().ok()?);
        return Some(gid.ip().to_string());
    }
    let number = value.number?;
    let small = u8::try_from(number);
    Some(match name {
        "Local Communication ID" | "Remote Communication ID" | "Local Q_Key" | "Q_Key" => {
            format!("0x{number:08x}")
        }
        "Service ID" => match ServiceId(number).rdma_cm_port() {
            Some((_, port)) => format!("0x{number:016x}, port {port}"),
            None => format!("0x{number:016x}"),
        },
        "Local CA GUID" => format!("0x{number:016x}"),
        "Local QPN" | "Remote QPN/EECN" | "QPN" => qpn(number),
        "Partition Key" => format!("0x{number:04x}"),
        "Path Packet Payload MTU" => match cm::mtu_bytes(small.ok()?) {
            Some(bytes) => format!("{bytes} bytes ({number})"),
            None => format!("reserved ({number})"),
        },
        "Transport Service Type" => with_name_in(number, &["RC", "UC", "RD", "extended"]),
        "Reason" => with_name(number, cm::reject_reason_name(u16::try_from(number).ok()?)),
        "Message REJected" => with_name_in(number, &["REQ", "REP", "no message or another one"]),
        "Message MRAed" => with_name_in(number, &["REQ", "REP", "LAP"]),
        "AP Status" => with_name(number, cm::alternate_path_status_name(small.ok()?)),
        "Status" => with_name(number, cm::service_id_resolution_status_name(small.ok()?)),
        _ if name.ends_with("ACK Timeout") && number == 0 => "none (0)".to_owned(),
        _ if name.ends_with("Timeout") || name == "Target ACK Delay" => {
            format!("{} ({number})", rdmascope_analysis::units::Duration(timeout(small.ok()?)))
        }
        _ => return None,
    })
}

/// The nanoseconds of an encoded time.
fn timeout(encoded: u8) -> u64 {
    u64::try_from(cm::timeout(encoded).as_nanos()).unwrap_or(u64::MAX)
}

/// The known fields of private data that begin at `start`: the header of the RDMA connection
/// manager, and RFC 8797.
fn private_data_fields(message: &cm::Message<'_>, bytes: &[u8], start: usize) -> Vec<Field> {
    let mut fields = Vec::new();
    let mut consumer = start;
    if let cm::Message::Request(request) = message
        && let Some(header) = request.rdma_cm_ip()
    {
        match header {
            Ok((header, _)) => {
                consumer = start + rdma_cm_ip::Header::LENGTH;
                let show = |name: &str, _: Value<'_>| match name {
                    "Source IP address" => header.source().map(|address| address.to_string()),
                    "Destination IP address" => header.destination().map(|address| address.to_string()),
                    _ => None,
                };
                let children = by_layout(rdma_cm_ip::Header::LAYOUT, bytes, start, show);
                fields.push(Field::new("RDMA IP CM", "", start..consumer).with(children));
            }
            Err(stop) => fields.push(Field::stop(stop, start)),
        }
    }
    fields.extend(consumer_data(bytes, consumer));
    fields
}

/// The known fields of the consumer's private data that begin at `start`: RFC 8797.
pub(super) fn consumer_data(bytes: &[u8], start: usize) -> Option<Field> {
    let found = private_data::find(bytes.get(start..).unwrap_or_default())?;
    let at = start + found.offset;
    let end = bytes.len().min(at + PrivateData::LENGTH);
    let show = |name: &str, value: Value<'_>| {
        let number = value.number?;
        match name {
            "Format Identifier" => Some(format!("0x{number:08x}")),
            "Send Size" | "Receive Size" => {
                let bytes = private_data::decode_size(u8::try_from(number).ok()?);
                Some(format!("{bytes} bytes ({number})"))
            }
            "R" => Some(with_name(
                number,
                Some(if number == 1 { "remote invalidation" } else { "no remote invalidation" }),
            )),
            _ => None,
        }
    };
    let mut children = by_layout(PrivateData::LAYOUT, bytes, at, show);
    if let Err(stop) = found.fields {
        children.push(Field::stop(stop, start));
    }
    Some(Field::new("RPC-over-RDMA version 1 private data", "RFC 8797", at..end).with(children))
}

fn icrc(packet: &Packet<'_>, bytes: &[u8], place: &Range<usize>) -> Field {
    let end = place.end.min(bytes.len());
    let verdict = match packet.frame {
        Ok(frame) => match frame.icrc {
            IcrcVerdict::Good => "good",
            IcrcVerdict::Bad => "bad: a receiver drops this packet",
            IcrcVerdict::Unverifiable => "not verifiable from what was captured",
        },
        Err(_) => "",
    };
    Field::new("ICRC", verdict, place.start.min(end)..end)
}
