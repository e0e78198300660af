//! Capturing from an RDMA device, common to `capture` and `live`.

use crate::interrupt;
use crate::mirror::{Mirror, PERMISSION};
use anyhow::{Result, anyhow};
use clap::Args;
use rdmascope_capture_agent::LiveSource;
use rdmascope_capture_agent::filter::Wanted;
use rdmascope_capture_agent::sniffer::{self, SnifferConfig, SnifferError};
use std::time::Duration;

/// The option for an RDMA device as the packet source.
#[derive(Args, Debug)]
pub(crate) struct Device {
    /// RDMA device to capture from instead, such as mlx5_0, or its second port, mlx5_0/2
    ///
    /// Use it for hardware whose RoCE packets never reach the network stack: the device copies its
    /// traffic to a raw packet queue pair (libibverbs). Time stamps are from the moment this host
    /// received the packets, and drops are not counted.
    #[arg(long, value_name = "DEVICE", conflicts_with = "interfaces")]
    pub(crate) verbs: Option<String>,
}

/// The name of this source in messages about unsupported options.
pub(crate) const DEVICE: &str = "--verbs";

/// Opens the device with this name. From then on, Ctrl-C ends the capture.
pub(crate) fn open(
    device: &str,
    mirror: &Mirror,
    wanted: &Wanted,
    snap_length: u32,
) -> Result<Box<dyn LiveSource>> {
    mirror.refuse(DEVICE, true)?;
    let config = SnifferConfig {
        device: device.to_owned(),
        wanted: wanted.clone(),
        snap_length,
        buffer: mirror.buffer(),
        interval: Duration::from_millis(100),
    };
    sniffer::open(&config, interrupt::end_once()).map_err(|error| {
        let remedy = match &error {
            SnifferError::NoDevice { .. } => {
                "; `rdmascope capture --list` lists the devices of each interface"
            }
            SnifferError::NotPermitted => PERMISSION,
            SnifferError::Memory { .. } => "; use a smaller --buffer",
            _ => "",
        };
        anyhow!("{error}{remedy}")
    })
}
