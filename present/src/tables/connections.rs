//! Properties of connections, in words.

use core::fmt;
use rdmascope_analysis::units::Counted;
use rdmascope_dissector::connection::{CapturePoint, Connection, Origin};

/// How a connection was found.
pub struct Known<'a>(pub &'a Connection);

impl fmt::Display for Known<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let evidence = match self.0.origin {
            Origin::Cm if self.0.is_iwarp => {
                let has_start = [&self.0.requester, &self.0.responder].map(|end| end.start.is_some());
                let how = if has_start == [false; 2] { "its SYN" } else { "its MPA start frames" };
                return f.write_str(how);
            }
            Origin::Inferred(_) if self.0.is_iwarp => {
                return f.write_str("its traffic: it was open before the capture");
            }
            Origin::Cm => return f.write_str("the CM exchange"),
            Origin::Kernel => return f.write_str("the kernel of a host"),
            Origin::Snoop => {
                return f.write_str("the NFS/RDMA transport of a host's kernel, without packets");
            }
            Origin::Inferred(evidence) => evidence,
        };
        f.write_str("its traffic: ")?;
        let mut separator = "";
        for (is_present, name) in [
            (evidence.acknowledged_psn, "acknowledged PSNs"),
            (evidence.xid, "XIDs"),
            (evidence.rkey, "advertised memory"),
        ] {
            if is_present {
                write!(f, "{separator}{name}")?;
                separator = " and ";
            }
        }
        f.write_str(if separator.is_empty() { "one direction only" } else { " agree" })
    }
}

/// The capture point of a connection, to follow "capture point", or as a value.
pub struct CapturedAt<'a>(pub &'a Connection);

impl fmt::Display for CapturedAt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match self.0.capture_point() {
            Some(CapturePoint::Requester) => "near the requester",
            Some(CapturePoint::Between) => "between requester and responder",
            Some(CapturePoint::Responder) => "near the responder",
            None => return f.write_str("unknown (ACK times inconclusive)"),
        };
        write!(f, "{place} (estimated from ACK times)")
    }
}

/// The protocol of a connection that does not carry RPC-over-RDMA.
pub fn carried_else(connection: &Connection) -> Option<String> {
    let Connection { protocol, requester, responder, .. } = connection;
    connection.is_foreign.then(|| match protocol {
        Some(protocol) => protocol.name().to_owned(),
        None => {
            let sends = Counted(requester.sent.sends + responder.sent.sends, "Send");
            format!("something other than RPC-over-RDMA: none of {sends} is an RPC-over-RDMA message")
        }
    })
}
