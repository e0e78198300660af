//! How interfaces are captured from: what `capture`, `live` and `tui` have in common.

#[cfg(unix)]
use crate::output::tell;
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

/// How the right to capture is had.
pub(crate) const PERMISSION: &str = if cfg!(target_os = "linux") {
    ": run it as root, or give the program that capability: setcap cap_net_raw+ep rdmascope"
} else {
    ": run it as root"
};

/// How interfaces are captured from.
#[derive(Args, Debug)]
pub(crate) struct Mirror {
    /// Receive what is not for this host too
    #[arg(short, long)]
    pub(crate) promiscuous: bool,
    /// Leave out what this host sends
    #[arg(long)]
    pub(crate) incoming_only: bool,
    /// Capture tunnels too: VXLAN, GENEVE, GRE, IP in IP, MPLS, PPPoE, whatever is in them
    #[arg(long)]
    tunnels: bool,
    /// Capture TCP of this port too, as iWARP uses it
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "20049")]
    iwarp: Option<u16>,
    /// Memory in which the kernel keeps packets that were not looked at yet, in MiB
    #[arg(long, value_name = "SIZE", default_value_t = 64, value_parser = clap::value_parser!(u64).range(1..=4096))]
    buffer: u64,
    /// Read packets with so many threads, each from a ring of its own
    ///
    /// The kernel spreads flows over the rings by their addresses and ports, and packets are put in the order of their time stamps again. The rings share
    /// the memory of --buffer, and each takes 8 MiB more. For rates that one thread does not keep up with, on hosts with processors to spare.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=16))]
    pub(crate) threads: u64,
    /// Capture only what passes this filter too, in the syntax of pcap-filter(7)
    ///
    /// libpcap compiles it, where it is installed. It cannot ask for `vlan`: the kernel takes the outer tag out before it asks.
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// Become this user once the interfaces are open; takes root
    ///
    /// Files are made as this user, and belong to it.
    #[arg(long, value_name = "NAME")]
    pub(crate) user: Option<String>,
}

impl Mirror {
    /// The names of these arguments.
    const ALL: [&str; 8] =
        ["promiscuous", "incoming_only", "tunnels", "iwarp", "buffer", "threads", "filter", "user"];

    /// Changes the arguments of `live` and `tui`, which may read a capture instead and have no use for these then. `requires("interfaces")` would say nothing: clap does not
    /// require what conflicts with an argument that is there.
    pub(crate) fn of_interfaces(argument: Arg) -> Arg {
        match Mirror::ALL.contains(&argument.get_id().as_str()) {
            true => argument.conflicts_with("files"),
            false => argument,
        }
    }
}

#[cfg(unix)]
impl Mirror {
    /// What is captured, RoCEv2 at this port.
    pub(crate) fn wanted(&self, port: u16) -> Wanted {
        Wanted { port, encapsulated: self.tunnels, iwarp: self.iwarp, ..Wanted::default() }
    }

    /// Bytes that `--buffer` stands for.
    pub(crate) fn buffer(&self) -> usize {
        usize::try_from(self.buffer << 20).unwrap_or(usize::MAX)
    }

    /// Options that the kernel's ring alone has are refused elsewhere, not passed over.
    #[cfg(any(feature = "pnet", feature = "verbs", not(target_os = "linux")))]
    pub(crate) fn refuse(&self, of: &str, promiscuous: bool) -> Result<()> {
        for (is_given, option) in [
            (self.filter.is_some(), "--filter"),
            (self.incoming_only, "--incoming-only"),
            (self.threads > 1, "--threads"),
            (promiscuous && self.promiscuous, "--promiscuous"),
            (cfg!(not(target_os = "linux")) && self.user.is_some(), "--user"),
        ] {
            if is_given {
                anyhow::bail!("{option} cannot be had with {of}");
            }
        }
        Ok(())
    }
}

/// These interfaces, with `any` replaced.
pub(crate) fn named(interfaces: &[String]) -> Vec<String> {
    #[cfg(target_os = "linux")]
    return expand(interfaces);
    #[cfg(not(target_os = "linux"))]
    interfaces.to_vec()
}

#[cfg(target_os = "linux")]
impl Mirror {
    /// Captures from these interfaces, RoCEv2 at this port.
    pub(crate) fn config(&self, interfaces: &[String], port: u16) -> LiveConfig {
        LiveConfig {
            interfaces: expand(interfaces),
            wanted: self.wanted(port),
            buffer: self.buffer(),
            threads: usize::try_from(self.threads).unwrap_or(usize::MAX),
            promiscuous: self.promiscuous,
            incoming_only: self.incoming_only,
            filter: self.filter.clone(),
            ..LiveConfig::default()
        }
    }

    /// Becomes the user that was named, for good.
    pub(crate) fn become_user(&self) -> Result<()> {
        let Some(user) = &self.user else { return Ok(()) };
        become_user(user).with_context(|| format!("--user {user}"))
    }
}

/// Says how many packets are missing, where some are, and what `helps`.
#[cfg(unix)]
pub(crate) fn warn_of_drops(dropped: u64, helps: &str) {
    if dropped > 0 {
        tell(format_args!(
            "warning: {dropped} packets are missing: the kernel had no room for them; {helps}"
        ));
    }
}
