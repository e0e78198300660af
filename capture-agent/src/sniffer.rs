//! Captures from an RDMA device on Linux, for hardware whose RoCE packets bypass the network stack
//! (cargo feature `verbs`).
//!
//! The device copies the packets that it sends and receives to a raw packet queue pair. This module
//! manages a ring of receive buffers; `sys` makes the calls of libibverbs. A device reports neither
//! arrival times nor drops: packets get the time of this host when they are read, and drops are not
//! counted.

mod ring;
#[cfg(feature = "verbs")]
#[allow(unsafe_code)]
mod sys;
#[cfg(test)]
mod tests;

use crate::filter::Wanted;
use core::time::Duration;
use std::io;

/// Options of a capture.
#[derive(Clone, Debug)]
pub struct SnifferConfig {
    /// Name of a device, such as `mlx5_0`, or of a port, such as `mlx5_0/2`. Without a port, the
    /// first one is used.
    pub device: String,
    /// Selects the packets to keep. Its interfaces are ignored.
    pub wanted: Wanted,
    /// Maximum number of bytes to keep of a packet.
    pub snap_length: u32,
    /// Total size of the receive buffers in bytes. The device may limit it.
    pub buffer: usize,
    /// Interval at which an idle source returns and checks whether it should end.
    pub interval: Duration,
}

/// The reason why a device cannot be captured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnifferError {
    /// The RDMA devices cannot be listed.
    #[error(
        "RDMA devices cannot be used: {0}; this requires libibverbs, the kernel module ib_uverbs, and access to /dev/infiniband"
    )]
    NoVerbs(io::Error),
    /// No device has this name.
    #[error("there is no RDMA device {name}; {}", existing_devices(found))]
    NoDevice {
        /// Name of the requested device.
        name: String,
        /// Names of the existing devices.
        found: Vec<String>,
    },
    /// The port is not a valid number.
    #[error("{0}: invalid port; expected a number from 1 after the name of the RDMA device")]
    NoPort(String),
    /// The port is not an Ethernet port.
    #[error("{0} is an InfiniBand port; only Ethernet ports can be captured")]
    NotEthernet(String),
    /// The process lacks CAP_NET_RAW.
    #[error("capturing requires the capability CAP_NET_RAW")]
    NotPermitted,
    /// The memory for the buffers cannot be locked.
    #[error("{} MiB of receive buffers cannot be locked in memory (ulimit -l): {error}", bytes >> 20)]
    Memory {
        /// Size of the buffers in bytes.
        bytes: usize,
        /// The system's error.
        error: io::Error,
    },
    /// The device or its driver does not support it.
    #[error("{device} cannot be snooped on ({step}: {error}): {}", instead(*.is_hardware, interface.as_deref()))]
    Refused {
        /// Name of the device.
        device: String,
        /// True for hardware, false for a software device.
        is_hardware: bool,
        /// The network interface of the device.
        interface: Option<String>,
        /// The operation that failed.
        step: &'static str,
        /// The system's error.
        error: io::Error,
    },
}

fn existing_devices(found: &[String]) -> String {
    match found {
        [] => "this host has none".to_owned(),
        names => format!("there are {}", names.join(", ")),
    }
}

/// Suggests an alternative to an unsupported device.
fn instead(is_hardware: bool, interface: Option<&str>) -> String {
    match (is_hardware, interface) {
        (false, Some(name)) => {
            format!("it is software, and its packets pass the network interface {name}: use -i {name}")
        }
        (true, Some(name)) => {
            format!("if it mirrors its packets to the network interface {name}, use -i {name}")
        }
        (_, None) => {
            "use -i with the network interface below it; `rdmascope capture --list` lists them".to_owned()
        }
    }
}

/// Splits a name into device and port number.
fn device_and_port(text: &str) -> Result<(&str, u8), SnifferError> {
    let Some((name, port)) = text.split_once('/') else { return Ok((text, 1)) };
    match port.parse() {
        Ok(port) if port > 0 => Ok((name, port)),
        _ => Err(SnifferError::NoPort(text.to_owned())),
    }
}

#[cfg(feature = "verbs")]
pub use opening::open;

#[cfg(feature = "verbs")]
mod opening {
    use super::ring::{Options, Ring};
    use super::sys::{Failure, Sniffer};
    use super::{SnifferConfig, SnifferError, device_and_port};
    use crate::filter::Sieve;
    use crate::live::network_interfaces;
    use crate::live_source::LiveSource;
    use std::io::ErrorKind;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// Starts a capture. Setting `end` ends it, after the packets in the buffers were delivered.
    pub fn open(config: &SnifferConfig, end: Arc<AtomicBool>) -> Result<Box<dyn LiveSource>, SnifferError> {
        let (name, port) = device_and_port(&config.device)?;
        let sniffer =
            Sniffer::open(name, port, config.buffer).map_err(|failure| explained(failure, config))?;
        let options = Options {
            name: config.device.clone(),
            sieve: Sieve::new(&config.wanted, config.snap_length),
            interval: config.interval,
            end,
        };
        let refused = |step| move |error| explained(Failure::Step { step, error }, config);
        let mut ring = Ring::new(sniffer, options).map_err(refused("receive buffers"))?;
        // Start last: packets that arrive before buffers are posted are lost.
        ring.device().begin().map_err(refused("sniffer flow"))?;
        Ok(Box::new(ring))
    }

    fn explained(failure: Failure, config: &SnifferConfig) -> SnifferError {
        let name = config.device.split('/').next().unwrap_or_default();
        match failure {
            Failure::NoList(error) => SnifferError::NoVerbs(error),
            Failure::NoDevice(found) => SnifferError::NoDevice { name: name.to_owned(), found },
            Failure::NotEthernet => SnifferError::NotEthernet(config.device.clone()),
            Failure::Memory { bytes, error } => SnifferError::Memory { bytes, error },
            Failure::Step { step, error } => {
                let below = network_interfaces().into_iter().find_map(|interface| {
                    let (_, is_hardware) = interface.rdma.iter().find(|(device, _)| device == name)?;
                    Some((interface.name.clone(), *is_hardware))
                });
                let is_hardware = below.as_ref().is_none_or(|(_, is_hardware)| *is_hardware);
                // Software devices lack support even with the capability.
                if error.kind() == ErrorKind::PermissionDenied && is_hardware {
                    return SnifferError::NotPermitted;
                }
                let interface = below.map(|(interface, _)| interface);
                SnifferError::Refused { device: name.to_owned(), is_hardware, interface, step, error }
            }
        }
    }
}
