//! `rdmascope capture --doctor`: which captures work on this host.

use rdmascope_analysis::units::Plain;
use rdmascope_capture_agent::confine::may_capture;
use rdmascope_capture_agent::live::{Fabric, RdmaDevice, rdma_device_list, tracefs};
use rdmascope_capture_agent::{Host, snoop};
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes the report.
pub(super) fn write(out: &mut dyn Write) -> io::Result<()> {
    let facts = Facts {
        system: Host::this().system,
        devices: rdma_device_list(),
        transport: Path::new("/sys/module/rpcrdma").exists(),
        types: Path::new("/sys/kernel/btf/vmlinux").exists(),
        tracefs: tracefs::instances().and_then(|folder| Some(folder.parent()?.to_owned())),
        may_capture: may_capture(),
        snoop: snoop::check().map_err(|error| error.to_string()),
    };
    write!(out, "{facts}")
}

/// The facts about a host that decide which captures work.
struct Facts {
    system: String,
    devices: Vec<RdmaDevice>,
    /// The kernel's NFS/RDMA transport is loaded.
    transport: bool,
    /// The kernel has type information.
    types: bool,
    /// Where this process finds tracefs.
    tracefs: Option<PathBuf>,
    /// This process has CAP_NET_RAW.
    may_capture: bool,
    /// Whether --snoop works, or the reason why not.
    snoop: Result<(), String>,
}

impl fmt::Display for Facts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut row = |name: &str, text: &str| writeln!(f, "{name:<12} {text}");
        row("system", &self.system)?;
        for device in &self.devices {
            row(&Plain(&device.name).to_string(), &described(device))?;
        }
        if self.devices.is_empty() {
            row("devices", "none: only packets that a switch mirrors to this host can be captured")?;
        }
        row("NFS/RDMA", if self.transport { "rpcrdma is loaded" } else { "not loaded: modprobe rpcrdma" })?;
        row("types (BTF)", if self.types { "yes" } else { "none" })?;
        let place = self.tracefs.as_ref().map(|place| place.display().to_string());
        row("tracefs", &place.unwrap_or_else(|| "not mounted, or not readable for this user".to_owned()))?;
        row("packets", if self.may_capture { "permitted" } else { "not permitted: CAP_NET_RAW is missing" })?;
        match &self.snoop {
            Ok(()) => row("messages", "permitted (--snoop, --kernel)")?,
            Err(reason) => row("messages", &format!("no --snoop: {reason}"))?,
        }
        for (index, command) in self.commands().iter().enumerate() {
            row(if index == 0 { "run" } else { "" }, command)?;
        }
        Ok(())
    }
}

fn described(device: &RdmaDevice) -> String {
    let (kind, fabric) = (if device.is_hardware { "hardware" } else { "software" }, device.fabric);
    let fabric = match fabric {
        Fabric::Roce => "RoCE",
        Fabric::InfiniBand => "InfiniBand",
        Fabric::Iwarp => "iWARP",
    };
    let interfaces = Plain(device.interfaces.join(", ")).to_string();
    let seen = match (device.is_hardware, device.fabric) {
        (false, _) => format!("its packets pass {interfaces}"),
        (true, Fabric::Roce) => {
            format!(
                "its packets do not reach the network stack, unless the adapter mirrors them to {interfaces}"
            )
        }
        (true, _) => "its packets do not reach the network stack".to_owned(),
    };
    format!("{kind}, {fabric}: {seen}")
}

impl Facts {
    /// The commands that capture the traffic of the devices.
    fn commands(&self) -> Vec<String> {
        let mut commands = Vec::new();
        for device in self.devices.iter().filter(|device| !device.is_hardware) {
            let iwarp = if device.fabric == Fabric::Iwarp { " --iwarp" } else { "" };
            let of = |name: &String| format!("rdmascope capture -i {}{iwarp} -w FILE", Plain(name));
            commands.extend(device.interfaces.iter().map(of));
        }
        if self.devices.iter().any(|device| device.is_hardware) {
            commands.push("rdmascope capture --snoop -w FILE".to_owned());
        }
        if self.devices.is_empty() {
            commands.push("rdmascope capture -i INTERFACE --tunnels --promiscuous -w FILE".to_owned());
        }
        commands
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(devices: &[(&str, bool, Fabric, &str)]) -> Facts {
        let device = |(name, is_hardware, fabric, interface): &(&str, bool, Fabric, &str)| RdmaDevice {
            name: (*name).to_owned(),
            is_hardware: *is_hardware,
            fabric: *fabric,
            interfaces: vec![(*interface).to_owned()],
        };
        Facts {
            system: "Linux 6.12 x86_64".to_owned(),
            devices: devices.iter().map(device).collect(),
            transport: true,
            types: true,
            tracefs: Some(PathBuf::from("/sys/kernel/tracing")),
            may_capture: true,
            snoop: Ok(()),
        }
    }

    #[test]
    fn report_for_soft_roce_host() {
        assert_eq!(
            facts(&[("rxe0", false, Fabric::Roce, "eth0")]).to_string(),
            "system       Linux 6.12 x86_64\n\
             rxe0         software, RoCE: its packets pass eth0\n\
             NFS/RDMA     rpcrdma is loaded\n\
             types (BTF)  yes\n\
             tracefs      /sys/kernel/tracing\n\
             packets      permitted\n\
             messages     permitted (--snoop, --kernel)\n\
             run          rdmascope capture -i eth0 -w FILE\n"
        );
    }

    #[test]
    fn report_ends_with_command_for_fabric() {
        let mirror = "rdmascope capture -i INTERFACE --tunnels --promiscuous -w FILE";
        let snoop = "rdmascope capture --snoop -w FILE";
        for (device, seen, command) in [
            (None, "only packets that a switch mirrors", mirror),
            (Some(("mlx5_0", true, Fabric::Roce, "eth1")), "unless the adapter mirrors them to eth1", snoop),
            (
                Some(("mlx5_1", true, Fabric::InfiniBand, "ib0")),
                "hardware, InfiniBand: its packets do not",
                snoop,
            ),
            (Some(("irdma0", true, Fabric::Iwarp, "eth3")), "hardware, iWARP: its packets do not", snoop),
            (
                Some(("siw0", false, Fabric::Iwarp, "eth0")),
                "iWARP: its packets pass eth0",
                "-i eth0 --iwarp -w FILE",
            ),
        ] {
            let report = facts(device.as_slice()).to_string();
            assert!(report.contains(seen) && report.ends_with(&format!("{command}\n")), "{report}");
        }
    }

    #[test]
    fn report_lists_missing_requirements() {
        let report = Facts {
            transport: false,
            types: false,
            tracefs: None,
            may_capture: false,
            snoop: Err("probes need a reason".to_owned()),
            ..facts(&[])
        };
        let report = report.to_string();
        for text in
            ["modprobe rpcrdma", "none\n", "not mounted", "CAP_NET_RAW", "no --snoop: probes need a reason"]
        {
            assert!(report.contains(text), "{report}");
        }
    }
}
