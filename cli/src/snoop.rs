//! How an RDMA device is snooped on: what `capture` and `live` have in common.

use crate::interrupt;
use crate::mirror::{Mirror, PERMISSION};
use anyhow::{Result, anyhow};
use clap::Args;
use rdmascope_capture_agent::LiveSource;
use rdmascope_capture_agent::filter::Wanted;
use rdmascope_capture_agent::snoop::{self, SnoopConfig, SnoopError};
use std::time::Duration;

/// What packets come from, where they do not come from interfaces.
#[derive(Args, Debug)]
pub(crate) struct Device {
    /// Snoop on this RDMA device instead, such as mlx5_0, or on its second port, mlx5_0/2
    ///
    /// For hardware whose RoCE packets never reach the network stack: the device copies what it sends and receives to a raw packet queue pair (libibverbs). Packets have the
    /// time at which this host took them, and it is not known how many were dropped.
    #[arg(long, value_name = "DEVICE", conflicts_with = "interfaces")]
    pub(crate) verbs: Option<String>,
}

/// What options that it does not have are refused with.
pub(crate) const DEVICE: &str = "a device by verbs";

/// Opens the device of this name. From now on Ctrl-C ends it.
pub(crate) fn open(
    device: &str,
    mirror: &Mirror,
    wanted: &Wanted,
    snap_length: u32,
) -> Result<Box<dyn LiveSource>> {
    mirror.refuse(DEVICE, true)?;
    let config = SnoopConfig {
        device: device.to_owned(),
        wanted: wanted.clone(),
        snap_length,
        buffer: mirror.buffer(),
        interval: Duration::from_millis(100),
    };
    snoop::open(&config, interrupt::end_once()).map_err(|error| {
        let remedy = match &error {
            SnoopError::NoDevice { .. } => "; `rdmascope capture --list` lists those of each interface",
            SnoopError::NotPermitted => PERMISSION,
            SnoopError::Memory { .. } => ": --buffer takes less memory",
            _ => "",
        };
        anyhow!("{error}{remedy}")
    })
}
