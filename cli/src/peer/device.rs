//! An RDMA device in place of sockets. The kernel makes the packets, so none are saved.

use super::live::local_address;
use crate::interrupt;
use anyhow::Result;
use clap::Args;
use rdmascope_peer::verbs::Verbs;
use std::net::IpAddr;

#[derive(Args, Debug, Default)]
pub(super) struct DeviceArguments {
    /// RDMA device to use by verbs instead of sockets, such as rxe0; `rdma link` lists the devices
    ///
    /// The kernel makes the connections and packets. Scenarios that need a packet that no device
    /// can send are reported as not applicable, with the reason.
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["socket", "save"])]
    pub(super) verbs: Option<String>,
}

/// An open device and its local address.
pub(super) struct Device {
    pub(super) verbs: Verbs,
    pub(super) local: IpAddr,
}

impl Device {
    /// Opens the connection manager. Ctrl-C wakes the device from here on.
    pub(super) fn open(name: &str, from: Option<IpAddr>, to: IpAddr) -> Result<Device> {
        let verbs = Verbs::open(name)?;
        interrupt::wake_once(verbs.waker());
        Ok(Device { verbs, local: local_address(from, to)? })
    }
}
