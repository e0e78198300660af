//! The options of interface captures, common to `capture`, `live` and `tui`.

#[cfg(unix)]
use crate::output::notify;
#[cfg(unix)]
use crate::ports::Ports;
#[cfg(target_os = "linux")]
use anyhow::Context as _;
#[cfg(unix)]
use anyhow::Result;
use clap::{Arg, Args};
#[cfg(target_os = "linux")]
use rdmascope_capture_agent::confine::become_user;
#[cfg(unix)]
use rdmascope_capture_agent::filter::Wanted;
#[cfg(target_os = "linux")]
use rdmascope_capture_agent::live::{LiveConfig, expand};

/// The remedy for missing capture privileges.
pub(crate) const PERMISSION: &str = if cfg!(target_os = "linux") {
    "; run it as root, or grant the capability: setcap cap_net_raw+ep rdmascope"
} else {
    "; run it as root"
};

/// The options of interface captures.
#[derive(Args, Debug)]
pub(crate) struct Mirror {
    /// Also receive packets for other hosts
    #[arg(short, long)]
    pub(crate) promiscuous: bool,
    /// Omit packets sent by this host
    #[arg(long)]
    pub(crate) incoming_only: bool,
    /// Also capture tunnels and tags between MAC addresses and EtherType, with any content
    #[arg(long)]
    tunnels: bool,
    /// Also capture TCP on this port, for iWARP; 20049 if PORT is omitted
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "20049")]
    iwarp: Option<u16>,
    /// Kernel buffer for packets that were not read yet, in MiB
    #[arg(long, value_name = "SIZE", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    buffer: u64,
    /// Number of threads that read packets, each from a separate ring
    ///
    /// The kernel distributes flows over the rings by addresses and ports, and packets are sorted
    /// by time stamp again. The rings share the memory of --buffer, and each takes 8 MiB more. Use
    /// it on hosts with idle processors, for rates that one thread cannot handle.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=16))]
    pub(crate) threads: u64,
    /// Capture only packets that match this filter, in the syntax of pcap-filter(7)
    ///
    /// Needs libpcap, which compiles the filter. The filter cannot use `vlan`, because the kernel
    /// removes the outer tag first.
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// User to become once the interfaces are open; needs root
    ///
    /// Files are created as this user.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
}

impl Mirror {
    /// The identifiers of these arguments.
    const ALL: [&str; 8] =
        ["promiscuous", "incoming_only", "tunnels", "iwarp", "buffer", "threads", "filter", "user"];

    /// Adapts the arguments for `live` and `tui`, which may read a capture instead and then have no
    /// use for them. `requires("interfaces")` would have no effect: clap does not require an
    /// argument that conflicts with a given one.
    pub(crate) fn of_interfaces(argument: Arg) -> Arg {
        match Mirror::ALL.contains(&argument.get_id().as_str()) {
            true => argument.conflicts_with("files"),
            false => argument,
        }
    }
}

#[cfg(unix)]
impl Mirror {
    /// The packets to capture, with RoCEv2 and VXLAN at these ports.
    pub(crate) fn wanted(&self, ports: Ports) -> Wanted {
        let Ports { port, vxlan_port } = ports;
        Wanted { port, vxlan_port, encapsulated: self.tunnels, iwarp: self.iwarp, ..Wanted::default() }
    }

    /// The size of `--buffer` in bytes.
    pub(crate) fn buffer(&self) -> usize {
        usize::try_from(self.buffer << 20).unwrap_or(usize::MAX)
    }

    /// Rejects options that only the kernel's ring supports.
    pub(crate) fn refuse(&self, of: &str, promiscuous: bool) -> Result<()> {
        for (is_given, option) in [
            (self.filter.is_some(), "--filter"),
            (self.incoming_only, "--incoming-only"),
            (self.threads > 1, "--threads"),
            (promiscuous && self.promiscuous, "--promiscuous"),
            (cfg!(not(target_os = "linux")) && self.user.is_some(), "--user"),
        ] {
            if is_given {
                anyhow::bail!("{option} is not supported with {of}");
            }
        }
        Ok(())
    }
}

/// The interfaces, with `any` replaced.
pub(crate) fn named(interfaces: &[String]) -> Vec<String> {
    #[cfg(target_os = "linux")]
    return expand(interfaces);
    #[cfg(not(target_os = "linux"))]
    interfaces.to_vec()
}

#[cfg(target_os = "linux")]
impl Mirror {
    /// The configuration for these interfaces, with RoCEv2 and VXLAN at these ports.
    pub(crate) fn config(&self, interfaces: &[String], ports: Ports) -> LiveConfig {
        LiveConfig {
            interfaces: expand(interfaces),
            wanted: self.wanted(ports),
            buffer: self.buffer(),
            threads: usize::try_from(self.threads).unwrap_or(usize::MAX),
            promiscuous: self.promiscuous,
            incoming_only: self.incoming_only,
            filter: self.filter.clone(),
            ..LiveConfig::default()
        }
    }

    /// Switches permanently to the user of `--user`.
    pub(crate) fn become_user(&self) -> Result<()> {
        let Some(user) = &self.user else { return Ok(()) };
        become_user(user).with_context(|| format!("--user {user}"))
    }
}

/// Reports the number of dropped packets, if any, with a remedy.
#[cfg(unix)]
pub(crate) fn warn_of_drops(dropped: u64, helps: &str) {
    if dropped > 0 {
        notify(format_args!(
            "warning: the kernel dropped {dropped} packets because its buffer was full; {helps}"
        ));
    }
}
