//! Reads the inventory of this host over an rdma netlink socket. This requires no privileges.

use super::netlink::{self, Answered, Command, Device};
use super::{Connected, MOST, joined};
use core::time::Duration;
use rustix::net::netlink::RDMA;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::io;
use std::os::fd::OwnedFd;

/// Size of the receive buffer in bytes. The kernel sends at most 32 KiB.
const DATAGRAM: usize = 64 << 10;
/// Maximum number of datagrams in the answer to one request.
const DATAGRAMS: usize = 4096;
/// Maximum number of devices to query.
const DEVICES: usize = 256;
/// Maximum time to wait for a datagram.
const PATIENCE: Duration = Duration::from_secs(2);

/// The reason why there is no inventory.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// The kernel does not support RDMA.
    #[error("this kernel has no RDMA, or its module ib_core is not loaded")]
    NoRdma,
    /// The kernel refused or did not answer.
    #[error("rdma netlink: {0}")]
    System(#[from] io::Error),
    /// The answer exceeds the maximum number of datagrams.
    #[error("rdma netlink: the answer does not end")]
    Endless,
}

/// Returns the connected queue pairs of all devices of this host.
pub fn read() -> Result<Vec<Connected>, InventoryError> {
    Inventory::open()?.read()
}

/// An open socket, which a confined process can still use.
#[derive(Debug)]
pub struct Inventory {
    socket: OwnedFd,
}

impl Inventory {
    /// Opens a socket.
    pub fn open() -> Result<Inventory, InventoryError> {
        let flags = SocketFlags::CLOEXEC;
        let socket = net::socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(RDMA));
        let socket = socket.map_err(|error| match error {
            rustix::io::Errno::PROTONOSUPPORT | rustix::io::Errno::AFNOSUPPORT => InventoryError::NoRdma,
            error => InventoryError::System(error.into()),
        })?;
        let timeout = sockopt::Timeout::Recv;
        sockopt::set_socket_timeout(&socket, timeout, Some(PATIENCE)).map_err(io::Error::from)?;
        Ok(Inventory { socket })
    }

    /// Returns the connected queue pairs of all devices of this host.
    pub fn read(&self) -> Result<Vec<Connected>, InventoryError> {
        let mut found = Vec::new();
        for device in self.devices()? {
            found.extend(self.of_device(&device)?);
        }
        found.retain(|one| one.remote_qp != 0);
        found.truncate(MOST);
        Ok(found)
    }

    /// Returns the devices of this host.
    pub(crate) fn devices(&self) -> Result<Vec<Device>, InventoryError> {
        let mut devices = Vec::new();
        query(&self.socket, Command::Devices, None, |bytes| netlink::devices(bytes, &mut devices))?;
        devices.truncate(DEVICES);
        Ok(devices)
    }

    /// Returns the connected queue pairs of a device. A remote number of 0 is unknown.
    pub(crate) fn of_device(&self, device: &Device) -> Result<Vec<Connected>, InventoryError> {
        let (mut queue_pairs, mut cm_ids) = (Vec::new(), Vec::new());
        let index = Some(device.index);
        query(&self.socket, Command::QueuePairs, index, |bytes| {
            netlink::queue_pairs(bytes, &mut queue_pairs)
        })?;
        query(&self.socket, Command::CmIds, index, |bytes| netlink::cm_ids(bytes, &mut cm_ids))?;
        Ok(joined(&device.name, &queue_pairs, &cm_ids))
    }
}

fn query(
    socket: &OwnedFd,
    command: Command,
    device: Option<u32>,
    mut take: impl FnMut(&[u8]) -> Answered,
) -> Result<(), InventoryError> {
    let request = netlink::request(command, device, command as u32);
    net::send(socket, &request, SendFlags::empty()).map_err(io::Error::from)?;
    let mut buffer = vec![0; DATAGRAM];
    for _ in 0..DATAGRAMS {
        let (length, _) =
            net::recv(socket, buffer.as_mut_slice(), RecvFlags::empty()).map_err(io::Error::from)?;
        match take(&buffer[..length.min(DATAGRAM)]) {
            Answered::More => {}
            Answered::Done => return Ok(()),
            Answered::Refused(errno) => {
                return Err(InventoryError::System(io::Error::from_raw_os_error(errno)));
            }
        }
    }
    Err(InventoryError::Endless)
}
