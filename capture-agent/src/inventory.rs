//! The connected queue pairs of this host, as reported by its kernel.
//!
//! Rdma netlink reports queue pairs and CM IDs separately ([`netlink`]); they are joined by device
//! and queue pair number. With an inventory, a capture that starts in the middle of connections can
//! pair their half-flows. A pcapng file stores it as text ([`to_text`], [`from_text`]), one line
//! for each connection (wrapped here):
//!
//! ```text
//! device=rxe0 local-qp=17 remote-qp=17 send-psn=2624235 receive-psn=11400384
//!     source=10.77.0.2:60900 destination=10.77.0.1:20049 owner=rpcrdma
//! ```
//!
//! The word `snooped=yes` marks connections whose messages come from the kernel's transport.

pub mod netlink;
#[cfg(target_os = "linux")]
mod socket;
#[cfg(test)]
mod tests;

#[cfg(target_os = "linux")]
pub use socket::{Inventory, InventoryError, read};

use core::fmt::Write as _;
use core::net::{IpAddr, SocketAddr};
use netlink::{CmIdEntry, QpEntry};
use rdmascope_dissector::connection::{KnownConnection, KnownEnd};
use rdmascope_dissector::frame::Address;
use rdmascope_wire::Qpn;
use rdmascope_wire::psn::Psn;
use rdmascope_wire::rpcrdma::NFS_PORT;

/// A connected queue pair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connected {
    /// Name of the RDMA device.
    pub device: String,
    /// Number of the local queue pair.
    pub local_qp: u32,
    /// Number of the remote queue pair.
    pub remote_qp: u32,
    /// The next PSN to send; `None` if the device does not report it.
    pub send_psn: Option<u32>,
    /// The next PSN expected; `None` if the device does not report it.
    pub receive_psn: Option<u32>,
    /// Local address and port.
    pub source: SocketAddr,
    /// Remote address and port.
    pub destination: SocketAddr,
    /// Owner of the queue pair: a part of the kernel, such as `rpcrdma`, or `process-` and a PID.
    pub owner: Option<String>,
    /// Whether the capture has its messages from the kernel's transport, and no packets.
    pub is_snooped: bool,
}

/// Maximum number of connections in an inventory.
pub const MOST: usize = 65_536;

/// Joins the queue pairs and CM IDs of a device. Queue pairs of iWARP have no remote number, and are
/// left out.
pub fn connected(device: &str, queue_pairs: &[QpEntry], cm_ids: &[CmIdEntry]) -> Vec<Connected> {
    let mut found = joined(device, queue_pairs, cm_ids);
    found.retain(|one| one.remote_qp != 0);
    found
}

/// Joins the queue pairs and CM IDs of a device. A remote number of 0 is unknown.
pub(crate) fn joined(device: &str, queue_pairs: &[QpEntry], cm_ids: &[CmIdEntry]) -> Vec<Connected> {
    const RELIABLE_CONNECTION: u8 = 2;
    /// RTR, RTS and SQD. In these states the remote queue pair is known and the queue pair has no
    /// error.
    const CONNECTED: core::ops::RangeInclusive<u8> = 2..=4;
    /// The state that soft-iWARP of Linux 6.1 reports for the queue pairs of a client, with a remote
    /// number of 0. A CM ID with both addresses shows that they are connected.
    const RESET: u8 = 0;
    let mut found: Vec<Connected> = Vec::new();
    let by_qp: std::collections::HashMap<u32, &CmIdEntry> =
        cm_ids.iter().filter_map(|id| Some((id.local_qp?, id))).collect();
    for pair in queue_pairs {
        let has_no_state = pair.remote_qp == Some(0) && pair.state == Some(RESET);
        let is_connected = pair.kind == Some(RELIABLE_CONNECTION)
            && (has_no_state || pair.state.is_some_and(|state| CONNECTED.contains(&state)));
        let (Some(local_qp), Some(remote_qp)) = (pair.local_qp, pair.remote_qp) else { continue };
        let Some(id) = by_qp.get(&local_qp).filter(|_| is_connected) else { continue };
        let (Some(source), Some(destination)) = (id.source, id.destination) else { continue };
        let owner = id.owner.clone().or(pair.owner.clone());
        let process = id.process.or(pair.process).map(|process| format!("process-{process}"));
        // Devices that do not report PSNs have zero in both.
        let has_psns = (pair.send_psn, pair.receive_psn) != (Some(0), Some(0));
        let psns = [pair.send_psn, pair.receive_psn].map(|psn| psn.filter(|_| has_psns));
        found.push(Connected {
            device: device.to_owned(),
            local_qp,
            remote_qp,
            send_psn: psns[0],
            receive_psn: psns[1],
            source,
            destination,
            owner: owner.or(process),
            is_snooped: false,
        });
    }
    found
}

/// Formats connections as lines of text.
pub fn to_text(connections: &[Connected]) -> String {
    let mut text = String::new();
    for one in connections {
        let Connected { device, local_qp, remote_qp, source, destination, .. } = one;
        let _ = write!(text, "device={device} local-qp={local_qp} remote-qp={remote_qp}");
        for (name, psn) in [("send-psn", one.send_psn), ("receive-psn", one.receive_psn)] {
            let _ = psn.map_or(Ok(()), |psn| write!(text, " {name}={psn}"));
        }
        let _ = write!(text, " source={source} destination={destination}");
        let _ = one.owner.as_ref().map_or(Ok(()), |owner| write!(text, " owner={owner}"));
        text.push_str(if one.is_snooped { " snooped=yes" } else { "" });
        text.push('\n');
    }
    text
}

/// Parses lines of text. Unknown words and incomplete lines are ignored.
pub fn from_text(text: &str) -> Vec<Connected> {
    let line = |line: &str| {
        let word = |name: &str| {
            line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        let number = |name: &str| word(name)?.parse::<u32>().ok().filter(|number| *number < 1 << 24);
        Some(Connected {
            device: word("device")?.to_owned(),
            local_qp: number("local-qp")?,
            remote_qp: number("remote-qp")?,
            send_psn: number("send-psn"),
            receive_psn: number("receive-psn"),
            source: word("source")?.parse().ok()?,
            destination: word("destination")?.parse().ok()?,
            owner: word("owner").map(str::to_owned),
            is_snooped: word("snooped") == Some("yes"),
        })
    };
    text.lines().filter_map(line).take(MOST).collect()
}

impl Connected {
    /// Converts to the dissector's type.
    pub fn known(&self) -> KnownConnection {
        let end = |address: SocketAddr, qp, psn: Option<u32>| KnownEnd {
            address: match address.ip().to_canonical() {
                IpAddr::V4(address) => Address::V4(address),
                IpAddr::V6(address) => Address::V6(address),
            },
            qpn: Qpn(qp),
            next_psn: psn.map(Psn::new),
        };
        let is_port = |address: SocketAddr| address.port() == NFS_PORT;
        let local_is_requester = match (is_port(self.source), is_port(self.destination)) {
            (false, true) => Some(true),
            (true, false) => Some(false),
            _ => None,
        };
        KnownConnection {
            local: end(self.source, self.local_qp, self.send_psn),
            remote: end(self.destination, self.remote_qp, self.receive_psn),
            local_is_requester,
            port: local_is_requester.map(|_| NFS_PORT),
            speaks_rpc: self.owner.as_deref() == Some("rpcrdma"),
            is_snooped: self.is_snooped,
        }
    }
}
