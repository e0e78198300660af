//! The network interfaces of this host and their RDMA devices.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

/// A network interface of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NetworkInterface {
    /// Name of the interface.
    pub name: String,
    /// Index in the system.
    pub index: u32,
    /// True if it carries Ethernet frames and can therefore be captured.
    pub is_ethernet: bool,
    /// IP addresses.
    pub addresses: Vec<IpAddr>,
    /// Maximum size of an IP packet in bytes; `None` if unknown.
    pub mtu: Option<u32>,
    /// Operational state as reported by the system: `up`, `down`, `unknown` and so on (RFC 2863).
    pub state: String,
    /// Its RDMA devices, each with true for hardware. The RoCE packets of hardware bypass the
    /// network stack, so a capture on the interface misses them unless the device mirrors them.
    pub rdma: Vec<(String, bool)>,
}

/// Returns the interfaces of this host, ordered by index. Without sysfs, MTU, state and RDMA
/// devices are unknown.
pub fn network_interfaces() -> Vec<NetworkInterface> {
    let devices = rdma_devices(Path::new("/sys/class/infiniband"));
    let mut found: Vec<_> = listed()
        .into_iter()
        .map(|(name, listed)| {
            let folder = Path::new("/sys/class/net").join(&name);
            let read = |name| fs::read_to_string(folder.join(name)).ok().map(|text| text.trim().to_owned());
            NetworkInterface {
                index: listed.index,
                is_ethernet: is_ethernet(listed.kind),
                addresses: listed.addresses,
                mtu: read("mtu").and_then(|text| text.parse().ok()),
                state: read("operstate").unwrap_or_else(|| "unknown".to_owned()),
                rdma: devices.get(&name).cloned().unwrap_or_default(),
                name,
            }
        })
        .collect();
    found.sort_by_key(|interface| interface.index);
    found
}

/// An interface as listed by getifaddrs(3).
#[derive(Default)]
struct Listed {
    index: u32,
    /// ARPHRD_…
    kind: u32,
    is_up: bool,
    addresses: Vec<IpAddr>,
}

/// Lists the interfaces by name. Empty if the system fails to list them.
fn listed() -> BTreeMap<String, Listed> {
    let mut found: BTreeMap<String, Listed> = BTreeMap::new();
    for one in nix::ifaddrs::getifaddrs().into_iter().flatten() {
        // An address label has the form `eth0:label`; interface names contain no colon.
        let name = one.interface_name.split(':').next().unwrap_or_default().to_owned();
        let listed = found.entry(name).or_default();
        listed.is_up |= one.flags.contains(nix::net::if_::InterfaceFlags::IFF_UP);
        let Some(address) = one.address else { continue };
        if let Some(link) = address.as_link_addr() {
            (listed.index, listed.kind) = (link.ifindex() as u32, link.hatype().into());
        }
        listed.addresses.extend(address.as_sockaddr_in().map(|v4| IpAddr::from(v4.ip())));
        listed.addresses.extend(address.as_sockaddr_in6().map(|v6| IpAddr::from(v6.ip())));
    }
    found
}

/// The name of all interfaces that are up, as in tcpdump.
const ANY: &str = "any";

/// Replaces `any` in these names by the Ethernet interfaces that are up, including loopback,
/// ordered by index. Duplicates are removed.
///
/// `any` remains if no interface is up, or if an interface has this name.
pub fn expand(names: &[String]) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for name in names {
        let up = match name == ANY && index_and_kind(ANY).is_none() {
            true => interfaces_up(),
            false => Vec::new(),
        };
        let named = if up.is_empty() { vec![name.clone()] } else { up };
        for name in named {
            if !found.contains(&name) {
                found.push(name);
            }
        }
    }
    found
}

/// Returns the names of the Ethernet interfaces that are up, ordered by index.
fn interfaces_up() -> Vec<String> {
    let is_captured = |(_, one): &(String, Listed)| one.is_up && is_ethernet(one.kind);
    let mut found: Vec<_> = listed().into_iter().filter(is_captured).collect();
    found.sort_by_key(|(_, one)| one.index);
    found.into_iter().map(|(name, _)| name).collect()
}

/// Maps each network interface to its RDMA devices.
fn rdma_devices(folder: &Path) -> BTreeMap<String, Vec<(String, bool)>> {
    let mut found: BTreeMap<String, Vec<(String, bool)>> = BTreeMap::new();
    for device in entries(folder) {
        let name = device.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Software devices have no bus device.
        let is_hardware = device.join("device").exists();
        // The interface of each GID (Linux, Documentation/ABI/stable/sysfs-class-infiniband).
        let ports = entries(&device.join("ports"));
        let gids = ports.iter().flat_map(|port| entries(&port.join("gid_attrs/ndevs")));
        for interface in gids.filter_map(|gid| fs::read_to_string(gid).ok()) {
            let devices = found.entry(interface.trim().to_owned()).or_default();
            if !devices.iter().any(|(known, _)| *known == name) {
                devices.push((name.clone(), is_hardware));
            }
        }
    }
    found
}

/// An RDMA device of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RdmaDevice {
    /// Name of the device.
    pub name: String,
    /// True for hardware, false for software.
    pub is_hardware: bool,
    /// Its fabric.
    pub fabric: Fabric,
    /// The network interfaces of its ports.
    pub interfaces: Vec<String>,
}

/// The fabric of an RDMA device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// RDMA over Converged Ethernet.
    Roce,
    /// InfiniBand.
    InfiniBand,
    /// RDMA over TCP.
    Iwarp,
}

/// Returns the RDMA devices of this host, by name.
pub fn rdma_device_list() -> Vec<RdmaDevice> {
    rdma_device_list_in(Path::new("/sys/class/infiniband"))
}

fn rdma_device_list_in(folder: &Path) -> Vec<RdmaDevice> {
    let interfaces = rdma_devices(folder);
    let device = |path: std::path::PathBuf| {
        let name = path.file_name()?.to_string_lossy().into_owned();
        let layers = entries(&path.join("ports"));
        let is_infiniband = |port: &std::path::PathBuf| {
            fs::read_to_string(port.join("link_layer")).is_ok_and(|layer| layer.trim() == "InfiniBand")
        };
        let fabric = match layers.iter().any(is_infiniband) {
            _ if is_iwarp(&path) => Fabric::Iwarp,
            true => Fabric::InfiniBand,
            false => Fabric::Roce,
        };
        let is_own = |devices: &[(String, bool)]| devices.iter().any(|(device, _)| *device == name);
        let own = interfaces.iter().filter(|(_, devices)| is_own(devices));
        let interfaces = own.map(|(interface, _)| interface.clone()).collect();
        Some(RdmaDevice { is_hardware: path.join("device").exists(), fabric, interfaces, name })
    };
    entries(folder).into_iter().filter_map(device).collect()
}

/// Whether a device uses iWARP: RDMA_NODE_RNIC (Linux, drivers/infiniband/core/sysfs.c).
fn is_iwarp(device: &Path) -> bool {
    fs::read_to_string(device.join("node_type")).is_ok_and(|kind| kind.starts_with("4:"))
}

/// Returns the RDMA devices of this host if all of them use iWARP, as siw does; otherwise none.
pub fn iwarp_only() -> Vec<String> {
    iwarp_only_in(Path::new("/sys/class/infiniband"))
}

fn iwarp_only_in(folder: &Path) -> Vec<String> {
    let devices = entries(folder);
    if !devices.iter().all(|device| is_iwarp(device)) {
        return Vec::new();
    }
    let name =
        |device: &std::path::PathBuf| device.file_name().map(|name| name.to_string_lossy().into_owned());
    devices.iter().filter_map(name).collect()
}

/// Returns the entries of a folder, sorted. Empty if it cannot be read.
fn entries(folder: &Path) -> Vec<std::path::PathBuf> {
    let mut found: Vec<_> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    found.sort();
    found
}

/// Returns true if interfaces of this type carry Ethernet frames, which includes loopback.
pub(super) fn is_ethernet(kind: u32) -> bool {
    const ETHERNET: u32 = 1;
    const LOOPBACK: u32 = 772;
    kind == ETHERNET || kind == LOOPBACK
}

/// Returns the index of an interface and its ARPHRD_ type.
pub(super) fn index_and_kind(name: &str) -> Option<(u32, u32)> {
    // A name with a slash would be a path to another file.
    if name.contains('/') {
        return None;
    }
    let folder = Path::new("/sys/class/net").join(name);
    let number = |name| fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok();
    Some((number("ifindex")?, number("type")?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::net::UdpSocket;

    #[test]
    fn interfaces_match_sysfs_and_have_local_addresses() {
        let found = network_interfaces();
        let index = |folder: &Path| fs::read_to_string(folder.join("ifindex")).ok()?.trim().parse().ok();
        let folders = entries(Path::new("/sys/class/net"));
        let expected: BTreeSet<(String, u32)> = folders
            .iter()
            .filter_map(|one| Some((one.file_name()?.to_string_lossy().into_owned(), index(one)?)))
            .collect();
        assert_eq!(found.iter().map(|one| (one.name.clone(), one.index)).collect::<BTreeSet<_>>(), expected);
        assert!(found.iter().any(|one| one.name == "lo" && one.is_ethernet && one.mtu.is_some()));
        // Only addresses of this host can be bound. A link-local address also requires the
        // interface.
        for address in found.iter().flat_map(|one| &one.addresses).filter(|address| IpAddr::is_ipv4(address))
        {
            UdpSocket::bind((*address, 0)).expect("it is an address of this host");
        }
    }

    #[test]
    fn iwarp_only_hosts_are_detected() {
        for (devices, expected) in [
            (&[] as &[(&str, &str)], &[] as &[&str]),
            (&[("siw0", "4: RNIC\n")], &["siw0"]),
            (&[("siw0", "4: RNIC\n"), ("siw1", "4: RNIC\n")], &["siw0", "siw1"]),
            (&[("rxe0", "1: CA\n"), ("siw0", "4: RNIC\n")], &[]),
        ] {
            let folder = tempfile::tempdir().unwrap();
            for (device, kind) in devices {
                fs::create_dir(folder.path().join(device)).unwrap();
                fs::write(folder.path().join(device).join("node_type"), kind).unwrap();
            }
            assert_eq!(iwarp_only_in(folder.path()), expected);
        }
    }

    #[test]
    fn rdma_devices_have_fabric_and_interfaces() {
        let folder = tempfile::tempdir().unwrap();
        for (device, kind, layer, interface, is_hardware) in [
            ("irdma0", "4: RNIC\n", "Ethernet\n", "eth3\n", true),
            ("mlx5_0", "1: CA\n", "Ethernet\n", "eth1\n", true),
            ("mlx5_1", "1: CA\n", "InfiniBand\n", "ib0\n", true),
            ("rxe0", "1: CA\n", "Ethernet\n", "eth0\n", false),
        ] {
            let device = folder.path().join(device);
            fs::create_dir_all(device.join("ports/1/gid_attrs/ndevs")).unwrap();
            fs::write(device.join("node_type"), kind).unwrap();
            fs::write(device.join("ports/1/link_layer"), layer).unwrap();
            fs::write(device.join("ports/1/gid_attrs/ndevs/0"), interface).unwrap();
            if is_hardware {
                fs::create_dir(device.join("device")).unwrap();
            }
        }
        let device = |name: &str, is_hardware, fabric, interface: &str| RdmaDevice {
            name: name.to_owned(),
            is_hardware,
            fabric,
            interfaces: vec![interface.to_owned()],
        };
        assert_eq!(
            rdma_device_list_in(folder.path()),
            [
                device("irdma0", true, Fabric::Iwarp, "eth3"),
                device("mlx5_0", true, Fabric::Roce, "eth1"),
                device("mlx5_1", true, Fabric::InfiniBand, "ib0"),
                device("rxe0", false, Fabric::Roce, "eth0"),
            ]
        );
    }

    #[test]
    fn any_expands_to_the_interfaces_that_are_up() {
        let names = |names: &[&str]| expand(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(names(&["one", "two", "one"]), ["one", "two"]);
        let up = interfaces_up();
        if up.is_empty() {
            return assert_eq!(names(&["any"]), ["any"]);
        }
        assert_eq!(names(&["any"]), up);
        assert_eq!(names(&[&up[0], "any", "any"]), up);
        let known = network_interfaces();
        assert!(up.iter().all(|name| known.iter().any(|one| one.is_ethernet && one.name == *name)));
    }
}
