//! A device instead of sockets: packets are its own affair, and nothing of them is saved.

use super::live::local_address;
use crate::interrupt;
use anyhow::Result;
use clap::Args;
use rdmascope_peer::verbs::Verbs;
use std::net::IpAddr;

#[derive(Args, Debug, Default)]
pub(super) struct DeviceArguments {
    /// Use this RDMA device by verbs instead of sockets, such as rxe0; `rdma link` lists them
    ///
    /// The kernel makes connections and packets. Scenarios that need a packet which no device sends are not applicable, and say why.
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["socket", "save"])]
    pub(super) verbs: Option<String>,
}

/// The device.
pub(super) struct Device {
    pub(super) verbs: Verbs,
    pub(super) local: IpAddr,
}

impl Device {
    /// Opens the connection manager. From now on Ctrl-C wakes it.
    pub(super) fn open(name: &str, from: Option<IpAddr>, to: IpAddr) -> Result<Device> {
        let verbs = Verbs::open(name)?;
        interrupt::wake_once(verbs.waker());
        Ok(Device { verbs, local: local_address(from, to)? })
    }
}
