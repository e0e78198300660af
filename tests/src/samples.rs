//! Access to the samples.

use crate::{mountstats, pcap, trace};
use std::path::{Path, PathBuf};

/// The RoCE sessions with an NFS mount.
pub const MOUNTS: [&str; 6] = [
    "nfs3-basic",
    "nfs3-lossy",
    "nfs4.1-backchannel-recall",
    "nfs4.1-basic",
    "nfs4.2-basic",
    "nfs4.2-mtu4096-large-io",
];

/// The iWARP sessions captured from their connect on, with the traces of both kernels.
pub const IWARP_MOUNTS: [&str; 3] = ["iwarp-nfs3", "iwarp-crc-lossy", "iwarp-nfs4.2-nconnect"];

/// The iWARP sessions that were open before the capture, with the traces of both kernels.
pub const IWARP_MIDSTREAM: [&str; 3] = ["iwarp-nfs4.1-midstream", "iwarp-recall", "iwarp-reconnect"];

/// All iWARP samples.
pub const IWARP: [&str; 8] = {
    let [nfs3, lossy, nconnect] = IWARP_MOUNTS;
    let [midstream, recall, reconnect] = IWARP_MIDSTREAM;
    [nfs3, lossy, nconnect, midstream, recall, reconnect, "iwarp-rejected", "iwarp-scripted"]
};

/// The RoCE sessions between Linux 7.3 at both ends, with the traces of both kernels.
pub const LINUX_7: [&str; 2] = ["nfs3-odd-direct", "nfs4.2-directories"];

/// The sessions captured from their connect on, over any transport. `tests/lab/samples` records none
/// over iWARP.
pub fn complete_sessions() -> impl Iterator<Item = &'static str> {
    let iwarp = IWARP_MOUNTS.into_iter().filter(|_| std::env::var_os(FOLDER).is_none());
    MOUNTS.into_iter().chain(LINUX_7).chain(iwarp)
}

/// The variable with which `tests/lab/samples` names the folder of newly recorded sessions.
const FOLDER: &str = "RDMASCOPE_SAMPLES";

/// A connect to a port without a listener, tried twice.
pub const REJECTED: &str = "connect-rejected";

/// Replies in Read chunks of the responder, between two peers of this project. No kernel trace
/// exists for it.
pub const RELIABLE_REPLY: &str = "reliable-reply";

/// All RoCE samples.
pub const ALL: [&str; 8] = {
    let [basic, lossy, recall, basic41, basic42, large] = MOUNTS;
    [REJECTED, basic, lossy, recall, basic41, basic42, large, RELIABLE_REPLY]
};

/// The folder of the samples, or of newly recorded ones.
pub fn folder() -> PathBuf {
    let named = std::env::var_os(FOLDER).map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../samples")))
}

/// The text of a sample's file.
///
/// # Panics
/// If the file cannot be read.
pub fn text(sample: &str, extension: &str) -> String {
    let path = folder().join(format!("{sample}.{extension}"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The packets of a sample.
///
/// # Panics
/// As [`text`].
pub fn capture(sample: &str) -> pcap::Capture {
    packets(&folder().join(format!("{sample}.pcap")))
}

/// The packets of a capture in tests/cases: a symptom that people reported, made by hand.
///
/// # Panics
/// As [`text`].
pub fn case(name: &str) -> pcap::Capture {
    packets(&PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/cases")).join(format!("{name}.pcap")))
}

fn packets(path: &Path) -> pcap::Capture {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    pcap::read(&bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The client kernel's trace.
pub fn client_trace(sample: &str) -> trace::Client {
    trace::Client::parse(&text(sample, "client.trace"))
}

/// The server kernel's trace.
pub fn server_trace(sample: &str) -> trace::Server {
    trace::Server::parse(&text(sample, "server.trace"))
}

/// The client's mountstats.
///
/// # Panics
/// If the sample has no mountstats.
pub fn mountstats(sample: &str) -> mountstats::Mountstats {
    mountstats::Mountstats::parse(&text(sample, "truth.txt"))
        .unwrap_or_else(|| panic!("{sample}.truth.txt has no mountstats"))
}
