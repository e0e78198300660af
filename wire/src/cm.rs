//! Messages of communication management (IBTA volume 1, section 12.6), each the data of a
//! [MAD](crate::mad).
//!
//! ```text
//! active side          passive side
//!   REQ  ------------------>          ConnectRequest: the queue pair of the active side
//!        <------------------  REP     ConnectReply: that of the passive side (or REJ, or MRA)
//!   RTU  ------------------>          ReadyToUse
//!   ...                               either side:
//!   DREQ <----------------->  DREP    DisconnectRequest, DisconnectReply
//!   LAP  ------------------>  APR     LoadAlternatePath, AlternatePathResponse
//!   SIDR_REQ -------------->  SIDR_REP    ServiceIDResReq, ServiceIDResReqResp (datagrams)
//! ```
//!
//! Field names use "local" for the sender of the message and "remote" for its receiver. Offsets in
//! layouts and in the [`Stop`]s of [`Layer::Cm`] count from the first byte after the MAD header.
//!
//! A capture may cut a message. The fields before the cut are still read; the private data and
//! other opaque fields are then shorter than specified, and [`Message::is_cut`] returns true.

mod alternate_path;
mod connect;
mod disconnect;
mod reject;
mod service_id;

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};
use core::time::Duration;

pub use alternate_path::{AlternatePathResponse, LoadAlternatePath, Path, alternate_path_status_name};
pub use connect::{ReadyToUse, Reply, Request, TransportServiceType, mtu_bytes, mtu_encoding};
pub use disconnect::{DisconnectReply, DisconnectRequest};
pub use reject::{
    Acknowledged, MessageReceiptAcknowledgement, Reject, Rejected, consumer_reason_name, reject_reason_name,
};
pub use service_id::{
    ServiceId, ServiceIdResolutionReply, ServiceIdResolutionRequest, service_id_resolution_status_name,
};

use crate::layout::Layout;
use crate::mad::{self, ManagementClass};
use crate::{Layer, Stop};

crate::newtype! {
    /// A communication ID: the number by which one side refers to a connection in all its messages
    /// (section 12.7).
    CommunicationId, u32, 8
}
crate::table::wrappers! { CommunicationId, ServiceId, Gid }

/// A CM message, in the order of the attribute IDs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// REQ, 0x0010.
    Request(Request<'a>),
    /// MRA, 0x0011.
    MessageReceiptAcknowledgement(MessageReceiptAcknowledgement<'a>),
    /// REJ, 0x0012.
    Reject(Reject<'a>),
    /// REP, 0x0013.
    Reply(Reply<'a>),
    /// RTU, 0x0014.
    ReadyToUse(ReadyToUse<'a>),
    /// DREQ, 0x0015.
    DisconnectRequest(DisconnectRequest<'a>),
    /// DREP, 0x0016.
    DisconnectReply(DisconnectReply<'a>),
    /// SIDR_REQ, 0x0017.
    ServiceIdResolutionRequest(ServiceIdResolutionRequest<'a>),
    /// SIDR_REP, 0x0018.
    ServiceIdResolutionReply(ServiceIdResolutionReply<'a>),
    /// LAP, 0x0019.
    LoadAlternatePath(LoadAlternatePath<'a>),
    /// APR, 0x001a.
    AlternatePathResponse(AlternatePathResponse<'a>),
    /// A MAD of another class, or an attribute that is none of the above.
    Unknown {
        /// The management class in the MAD header.
        management_class: ManagementClass,
        /// The attribute ID in the MAD header.
        attribute: u16,
        /// The data, at most [`mad::DATA_LENGTH`] bytes.
        data: &'a [u8],
    },
}

impl<'a> Message<'a> {
    /// Parses a MAD from its first byte. Bytes after [`mad::LENGTH`] are ignored.
    ///
    /// Returns an error if the MAD header ([`Layer::Mad`]) or the fields before the opaque ones
    /// ([`Layer::Cm`]) are incomplete. Class version and method are not checked; the caller finds
    /// them in the returned header.
    pub fn parse(mad: &'a [u8]) -> Result<(mad::Header, Message<'a>), Stop> {
        let header = mad::Header::parse(mad)?;
        let data = &mad[mad::Header::LENGTH..mad.len().min(mad::LENGTH)];
        Ok((header, Message::parse_data(header.management_class, header.attribute, data)?))
    }

    fn parse_data(
        management_class: ManagementClass,
        attribute: u16,
        data: &'a [u8],
    ) -> Result<Message<'a>, Stop> {
        if management_class != ManagementClass::COMMUNICATION_MANAGEMENT {
            return Ok(Message::Unknown { management_class, attribute, data });
        }
        let mut fields = Fields { bytes: data, at: 0 };
        let fields = &mut fields;
        Ok(match attribute {
            Request::ATTRIBUTE => Message::Request(Request::parse(fields)?),
            MessageReceiptAcknowledgement::ATTRIBUTE => {
                Message::MessageReceiptAcknowledgement(MessageReceiptAcknowledgement::parse(fields)?)
            }
            Reject::ATTRIBUTE => Message::Reject(Reject::parse(fields)?),
            Reply::ATTRIBUTE => Message::Reply(Reply::parse(fields)?),
            ReadyToUse::ATTRIBUTE => Message::ReadyToUse(ReadyToUse::parse(fields)?),
            DisconnectRequest::ATTRIBUTE => Message::DisconnectRequest(DisconnectRequest::parse(fields)?),
            DisconnectReply::ATTRIBUTE => Message::DisconnectReply(DisconnectReply::parse(fields)?),
            ServiceIdResolutionRequest::ATTRIBUTE => {
                Message::ServiceIdResolutionRequest(ServiceIdResolutionRequest::parse(fields)?)
            }
            ServiceIdResolutionReply::ATTRIBUTE => {
                Message::ServiceIdResolutionReply(ServiceIdResolutionReply::parse(fields)?)
            }
            LoadAlternatePath::ATTRIBUTE => Message::LoadAlternatePath(LoadAlternatePath::parse(fields)?),
            AlternatePathResponse::ATTRIBUTE => {
                Message::AlternatePathResponse(AlternatePathResponse::parse(fields)?)
            }
            _ => Message::Unknown { management_class, attribute, data },
        })
    }

    /// Appends a whole MAD of [`mad::LENGTH`] bytes: `header` unchanged, the message, and zeros
    /// after its private data.
    ///
    /// [`Message::header`] creates the matching header. Reserved bits are zero; bits that do not
    /// fit a field are dropped.
    ///
    /// # Panics
    /// Panics if the private data or another opaque field is longer than specified
    /// (`PRIVATE_DATA_LENGTH` of each message).
    pub fn build(&self, header: &mad::Header, out: &mut Vec<u8>) {
        let start = out.len();
        header.build(out);
        match self {
            Message::Request(message) => message.build(out),
            Message::MessageReceiptAcknowledgement(message) => message.build(out),
            Message::Reject(message) => message.build(out),
            Message::Reply(message) => message.build(out),
            Message::ReadyToUse(message) => message.build(out),
            Message::DisconnectRequest(message) => message.build(out),
            Message::DisconnectReply(message) => message.build(out),
            Message::ServiceIdResolutionRequest(message) => message.build(out),
            Message::ServiceIdResolutionReply(message) => message.build(out),
            Message::LoadAlternatePath(message) => message.build(out),
            Message::AlternatePathResponse(message) => message.build(out),
            Message::Unknown { data, .. } => put_padded(out, data, mad::DATA_LENGTH),
        }
        debug_assert_eq!(out.len() - start, mad::LENGTH);
    }

    /// Creates the MAD header for this message.
    pub const fn header(&self, transaction_id: u64) -> mad::Header {
        let header = mad::Header::communication_management(self.attribute(), transaction_id);
        match self {
            Message::Unknown { management_class, .. } => {
                mad::Header { management_class: *management_class, ..header }
            }
            _ => header,
        }
    }

    /// Returns the attribute ID.
    pub const fn attribute(&self) -> u16 {
        match self {
            Message::Request(_) => Request::ATTRIBUTE,
            Message::MessageReceiptAcknowledgement(_) => MessageReceiptAcknowledgement::ATTRIBUTE,
            Message::Reject(_) => Reject::ATTRIBUTE,
            Message::Reply(_) => Reply::ATTRIBUTE,
            Message::ReadyToUse(_) => ReadyToUse::ATTRIBUTE,
            Message::DisconnectRequest(_) => DisconnectRequest::ATTRIBUTE,
            Message::DisconnectReply(_) => DisconnectReply::ATTRIBUTE,
            Message::ServiceIdResolutionRequest(_) => ServiceIdResolutionRequest::ATTRIBUTE,
            Message::ServiceIdResolutionReply(_) => ServiceIdResolutionReply::ATTRIBUTE,
            Message::LoadAlternatePath(_) => LoadAlternatePath::ATTRIBUTE,
            Message::AlternatePathResponse(_) => AlternatePathResponse::ATTRIBUTE,
            Message::Unknown { attribute, .. } => *attribute,
        }
    }

    /// Returns the specification's name of the message: `ConnectRequest`, `ConnectReply` …
    pub const fn name(&self) -> &'static str {
        match self {
            Message::Request(_) => "ConnectRequest",
            Message::MessageReceiptAcknowledgement(_) => "MsgRcptAck",
            Message::Reject(_) => "ConnectReject",
            Message::Reply(_) => "ConnectReply",
            Message::ReadyToUse(_) => "ReadyToUse",
            Message::DisconnectRequest(_) => "DisconnectRequest",
            Message::DisconnectReply(_) => "DisconnectReply",
            Message::ServiceIdResolutionRequest(_) => "ServiceIDResReq",
            Message::ServiceIdResolutionReply(_) => "ServiceIDResReqResp",
            Message::LoadAlternatePath(_) => "LoadAlternatePath",
            Message::AlternatePathResponse(_) => "AlternatePathResponse",
            Message::Unknown { .. } => "Unknown",
        }
    }

    /// Returns the sender's communication ID, if the message has one.
    pub const fn local_communication_id(&self) -> Option<CommunicationId> {
        Some(match self {
            Message::Request(message) => message.local_communication_id,
            Message::MessageReceiptAcknowledgement(message) => message.local_communication_id,
            Message::Reject(message) => message.local_communication_id,
            Message::Reply(message) => message.local_communication_id,
            Message::ReadyToUse(message) => message.local_communication_id,
            Message::DisconnectRequest(message) => message.local_communication_id,
            Message::DisconnectReply(message) => message.local_communication_id,
            Message::LoadAlternatePath(message) => message.local_communication_id,
            Message::AlternatePathResponse(message) => message.local_communication_id,
            _ => return None,
        })
    }

    /// Returns the receiver's communication ID, if the message has one. Of the messages of a
    /// connection, only ConnectRequest has none.
    pub const fn remote_communication_id(&self) -> Option<CommunicationId> {
        Some(match self {
            Message::MessageReceiptAcknowledgement(message) => message.remote_communication_id,
            Message::Reject(message) => message.remote_communication_id,
            Message::Reply(message) => message.remote_communication_id,
            Message::ReadyToUse(message) => message.remote_communication_id,
            Message::DisconnectRequest(message) => message.remote_communication_id,
            Message::DisconnectReply(message) => message.remote_communication_id,
            Message::LoadAlternatePath(message) => message.remote_communication_id,
            Message::AlternatePathResponse(message) => message.remote_communication_id,
            _ => return None,
        })
    }

    /// Returns the private data including its padding, as far as it was captured.
    ///
    /// The private data of a [`Request`] may begin with the header of the RDMA connection manager:
    /// [`Request::consumer_private_data`] skips it.
    pub const fn private_data(&self) -> &'a [u8] {
        self.opaque().0
    }

    /// Returns true if bytes are missing at the end of the message.
    ///
    /// Also true for a message that was not parsed, if its private data is shorter than specified.
    pub const fn is_cut(&self) -> bool {
        let (bytes, length) = self.opaque();
        bytes.len() < length
    }

    /// The last field and its specified length.
    const fn opaque(&self) -> (&'a [u8], usize) {
        match self {
            Message::Request(message) => (message.private_data, Request::PRIVATE_DATA_LENGTH),
            Message::MessageReceiptAcknowledgement(message) => {
                (message.private_data, MessageReceiptAcknowledgement::PRIVATE_DATA_LENGTH)
            }
            Message::Reject(message) => (message.private_data, Reject::PRIVATE_DATA_LENGTH),
            Message::Reply(message) => (message.private_data, Reply::PRIVATE_DATA_LENGTH),
            Message::ReadyToUse(message) => (message.private_data, ReadyToUse::PRIVATE_DATA_LENGTH),
            Message::DisconnectRequest(message) => {
                (message.private_data, DisconnectRequest::PRIVATE_DATA_LENGTH)
            }
            Message::DisconnectReply(message) => (message.private_data, DisconnectReply::PRIVATE_DATA_LENGTH),
            Message::ServiceIdResolutionRequest(message) => {
                (message.private_data, ServiceIdResolutionRequest::PRIVATE_DATA_LENGTH)
            }
            Message::ServiceIdResolutionReply(message) => {
                (message.private_data, ServiceIdResolutionReply::PRIVATE_DATA_LENGTH)
            }
            Message::LoadAlternatePath(message) => {
                (message.private_data, LoadAlternatePath::PRIVATE_DATA_LENGTH)
            }
            Message::AlternatePathResponse(message) => {
                (message.private_data, AlternatePathResponse::PRIVATE_DATA_LENGTH)
            }
            Message::Unknown { data, .. } => (data, mad::DATA_LENGTH),
        }
    }
}

/// Returns the fields after the MAD header of the message with this attribute ID. `None` if it is
/// no CM attribute.
pub const fn layout(attribute: u16) -> Option<Layout> {
    Some(match attribute {
        Request::ATTRIBUTE => Request::LAYOUT,
        MessageReceiptAcknowledgement::ATTRIBUTE => MessageReceiptAcknowledgement::LAYOUT,
        Reject::ATTRIBUTE => Reject::LAYOUT,
        Reply::ATTRIBUTE => Reply::LAYOUT,
        ReadyToUse::ATTRIBUTE => ReadyToUse::LAYOUT,
        DisconnectRequest::ATTRIBUTE => DisconnectRequest::LAYOUT,
        DisconnectReply::ATTRIBUTE => DisconnectReply::LAYOUT,
        ServiceIdResolutionRequest::ATTRIBUTE => ServiceIdResolutionRequest::LAYOUT,
        ServiceIdResolutionReply::ATTRIBUTE => ServiceIdResolutionReply::LAYOUT,
        LoadAlternatePath::ATTRIBUTE => LoadAlternatePath::LAYOUT,
        AlternatePathResponse::ATTRIBUTE => AlternatePathResponse::LAYOUT,
        _ => return None,
    })
}

/// A global identifier of a port, 128 bits. On RoCEv2 it is an IP address; IPv4 addresses are
/// mapped into IPv6 (annex A17).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// Returns the IP address that the identifier represents on RoCEv2.
    #[inline]
    pub fn ip(self) -> IpAddr {
        Ipv6Addr::from(self.0).to_canonical()
    }
}

impl From<IpAddr> for Gid {
    #[inline]
    fn from(address: IpAddr) -> Gid {
        Gid(match address {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        })
    }
}

impl core::fmt::Display for Gid {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(&Ipv6Addr::from(self.0), f)
    }
}

impl core::fmt::Debug for Gid {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Gid({self})")
    }
}

/// Decodes a CM response timeout, a service timeout, a Target ACK Delay or a local ACK timeout:
/// 4.096 microseconds times two to the power of `encoded`, 5 bits. A local ACK timeout of 0 means
/// no timeout (section 12.7).
pub const fn timeout(encoded: u8) -> Duration {
    Duration::from_nanos(4096 << (encoded & 0x1f))
}

pub(crate) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    #[inline]
    pub(crate) fn take<const N: usize>(&mut self) -> Result<[u8; N], Stop> {
        match self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<N>()) {
            Some(chunk) => {
                self.at += N;
                Ok(*chunk)
            }
            None => Err(Stop::short(Layer::Cm, self.at, N, self.bytes.len())),
        }
    }

    /// Reads the bytes of an opaque field that are present.
    fn opaque(&mut self, length: usize) -> &'a [u8] {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let present = &rest[..length.min(rest.len())];
        self.at += present.len();
        present
    }
}

/// Implements a message from its table and the opaque fields after it: `LAYOUT`, `parse`, `build`.
macro_rules! message {
    ($name:ident { $($rows:tt)+ } $($label:literal $field:ident: $length:ident;)+) => {
        $crate::table::rows! {
            pub const LAYOUT for $name<'_> { $($rows)+ }
            $($label: $name::$length;)+
        }

        impl<'a> $name<'a> {
            pub(super) fn parse(fields: &mut $crate::cm::Fields<'a>) -> Result<$name<'a>, $crate::Stop> {
                let mut message = $name::default();
                message.read(fields)?;
                $(message.$field = fields.opaque($name::$length);)+
                Ok(message)
            }

            pub(super) fn build(&self, out: &mut ::alloc::vec::Vec<u8>) {
                self.write(out);
                $($crate::cm::put_padded(out, self.$field, $name::$length);)+
            }
        }
    };
}
use message;

/// Appends `data` as an opaque field of `length` bytes, padded with zeros.
///
/// # Panics
/// Panics if `data` is longer than `length`.
fn put_padded(out: &mut Vec<u8>, data: &[u8], length: usize) {
    assert!(data.len() <= length, "{} bytes for a field of {length}", data.len());
    out.extend_from_slice(data);
    out.resize(out.len() + length - data.len(), 0);
}

#[cfg(test)]
mod tests;
