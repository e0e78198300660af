//! The ports at which RDMA is found.

use clap::Args;
use rdmascope_dissector::frame;

/// The UDP destination ports of RoCEv2 and VXLAN.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Ports {
    /// UDP destination port of RoCEv2
    #[arg(long, value_name = "PORT", default_value_t = frame::Config::default().port)]
    pub(crate) port: u16,
    /// UDP destination port of VXLAN, in addition to 4789, 4790 and 8472
    #[arg(long, value_name = "PORT")]
    pub(crate) vxlan_port: Option<u16>,
}

impl Ports {
    /// The configuration of the dissection of frames.
    pub(crate) fn frame(self) -> frame::Config {
        frame::Config { port: self.port, vxlan_port: self.vxlan_port, ..frame::Config::default() }
    }
}
