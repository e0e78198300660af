//! Packets of an RDMA device itself, on Linux: a raw packet queue pair to which the device copies what it sends and receives (the cargo feature `verbs`).
//! For hardware whose RoCE packets never reach the network stack.
//!
//! Here is what stands behind the calls of verbs: a ring of receive buffers, which packets fill and which are given back. `sys` makes the calls.
//! A device does not say when a packet came, so its time is that of this host when it was taken, and not how many it had no buffer for.

mod ring;
#[cfg(feature = "verbs")]
#[allow(unsafe_code)]
mod sys;
#[cfg(test)]
mod tests;

use crate::filter::Wanted;
use core::time::Duration;
use std::io;

/// What is captured, and how.
#[derive(Clone, Debug)]
pub struct SnoopConfig {
    /// The name of the device, such as `mlx5_0`, or of one of its ports, such as `mlx5_0/2`. The first port is meant where none is named.
    pub device: String,
    /// What is kept of what passes; its interfaces are not looked at.
    pub wanted: Wanted,
    /// Bytes that are kept of a packet at most.
    pub snap_length: u32,
    /// Bytes of receive buffers. A device may take fewer.
    pub buffer: usize,
    /// How often the source says that there is nothing, and asks whether it is to end.
    pub interval: Duration,
}

/// Why a device cannot be snooped on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnoopError {
    /// Nobody could tell which devices there are.
    #[error(
        "RDMA devices cannot be used: {0}; it takes libibverbs, the kernel's module ib_uverbs, and the right to open /dev/infiniband"
    )]
    NoVerbs(io::Error),
    /// There is none of this name.
    #[error("there is no RDMA device {name}; {}", there_are(found))]
    NoDevice {
        /// The name that was asked for.
        name: String,
        /// The names of those that there are.
        found: Vec<String>,
    },
    /// What follows the name is no number of a port.
    #[error("{0}: no port of an RDMA device, which is a number from 1 behind the name of the device")]
    NoPort(String),
    /// The port is none of Ethernet.
    #[error("{0} is a port of InfiniBand, not of Ethernet: its packets are not captured here")]
    NotEthernet(String),
    /// CAP_NET_RAW is missing.
    #[error("to capture takes the capability CAP_NET_RAW")]
    NotPermitted,
    /// The memory of the buffers cannot be had.
    #[error("{} MiB of receive buffers cannot be locked in memory (ulimit -l): {error}", bytes >> 20)]
    Memory {
        /// How much was asked for.
        bytes: usize,
        /// What the system said.
        error: io::Error,
    },
    /// The device or its driver does not do it.
    #[error("{device} cannot be snooped on ({step}: {error}): {}", instead(*.is_hardware, interface.as_deref()))]
    Refused {
        /// Its name.
        device: String,
        /// It is no device in software.
        is_hardware: bool,
        /// The network interface of the device.
        interface: Option<String>,
        /// What was tried.
        step: &'static str,
        /// What the system said.
        error: io::Error,
    },
}

fn there_are(found: &[String]) -> String {
    match found {
        [] => "this host has none".to_owned(),
        names => format!("there are {}", names.join(", ")),
    }
}

/// What to do where a device cannot.
fn instead(is_hardware: bool, interface: Option<&str>) -> String {
    match (is_hardware, interface) {
        (false, Some(name)) => {
            format!("it is software, and its packets pass the network interface {name}: use -i {name}")
        }
        (true, Some(name)) => {
            format!("where it mirrors its packets to the network interface {name}, use -i {name}")
        }
        (_, None) => {
            "use -i with the network interface below it; `rdmascope capture --list` lists them".to_owned()
        }
    }
}

/// The name of a device, and the number of its port.
fn device_and_port(text: &str) -> Result<(&str, u8), SnoopError> {
    let Some((name, port)) = text.split_once('/') else { return Ok((text, 1)) };
    match port.parse() {
        Ok(port) if port > 0 => Ok((name, port)),
        _ => Err(SnoopError::NoPort(text.to_owned())),
    }
}

#[cfg(feature = "verbs")]
pub use opening::open;

#[cfg(feature = "verbs")]
mod opening {
    use super::ring::{Options, Ring};
    use super::sys::{Failure, Sniffer};
    use super::{SnoopConfig, SnoopError, device_and_port};
    use crate::filter::Sieve;
    use crate::live::network_interfaces;
    use crate::live_source::LiveSource;
    use std::io::ErrorKind;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    /// Begins to snoop on a device. `end` ends it, once it is set: what the buffers hold by then is handed out.
    pub fn open(config: &SnoopConfig, end: Arc<AtomicBool>) -> Result<Box<dyn LiveSource>, SnoopError> {
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
        // Only now: what comes before there are buffers is lost.
        ring.device().begin().map_err(refused("sniffer flow"))?;
        Ok(Box::new(ring))
    }

    fn explained(failure: Failure, config: &SnoopConfig) -> SnoopError {
        let name = config.device.split('/').next().unwrap_or_default();
        match failure {
            Failure::NoList(error) => SnoopError::NoVerbs(error),
            Failure::NoDevice(found) => SnoopError::NoDevice { name: name.to_owned(), found },
            Failure::NotEthernet => SnoopError::NotEthernet(config.device.clone()),
            Failure::Memory { bytes, error } => SnoopError::Memory { bytes, error },
            Failure::Step { step, error } => {
                let below = network_interfaces().into_iter().find_map(|interface| {
                    let (_, is_hardware) = interface.rdma.iter().find(|(device, _)| device == name)?;
                    Some((interface.name.clone(), *is_hardware))
                });
                let is_hardware = below.as_ref().is_none_or(|(_, is_hardware)| *is_hardware);
                // A device in software cannot do it with the capability either.
                if error.kind() == ErrorKind::PermissionDenied && is_hardware {
                    return SnoopError::NotPermitted;
                }
                let interface = below.map(|(interface, _)| interface);
                SnoopError::Refused { device: name.to_owned(), is_hardware, interface, step, error }
            }
        }
    }
}
