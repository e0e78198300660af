//! The extcap interface of Wireshark (extcap(4)): Wireshark calls rdmascope with options that begin
//! with `--extcap-`, and shows RoCE interfaces and the messages of the kernel's NFS/RDMA transport.
//!
//! Capturing itself is done by `capture`, with the same arguments as on the command line.

use rdmascope_analysis::units::Plain;
use rdmascope_capture_agent::live::network_interfaces;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

/// Prefix of interface names: Wireshark also lists the interface itself.
const PREFIX: &str = "roce-";
/// The interface of `capture --snoop`.
const MESSAGES: &str = "nfs-rdma-messages";

/// A request of Wireshark.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Run `rdmascope capture` with these arguments.
    Capture(Vec<OsString>),
    /// Print information.
    Information(Information),
}

/// The information to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Information {
    Interfaces,
    LinkTypes {
        of_messages: bool,
    },
    Options {
        of_messages: bool,
    },
    /// None: the option has no use here, such as one that checks a capture filter.
    Nothing,
}

/// The options of an interface without a value: name, label and help.
const FLAGS: &[(&str, &str, &str)] = &[
    ("--promiscuous", "Promiscuous", "Also receive packets for other hosts"),
    ("--incoming-only", "Incoming only", "Omit packets sent by this host"),
    ("--tunnels", "Tunnels", "Also tunnels and tags between MAC addresses and EtherType, with any content"),
    ("--iwarp", "iWARP", "Also TCP port 20049"),
];

/// Parses arguments, the program name first. Returns `None` if they are not from Wireshark.
pub(crate) fn request(arguments: impl IntoIterator<Item = OsString>) -> Option<Request> {
    let mut arguments = arguments.into_iter().skip(1).peekable();
    let is_extcap = |argument: &OsString| argument.to_str().is_some_and(|text| text.starts_with("--extcap-"));
    if !arguments.peek().is_some_and(|first| is_extcap(first) || first == "--capture") {
        return None;
    }
    let mut information = Information::Nothing;
    let (mut is_capture, mut of_messages) = (false, false);
    let mut passed: Vec<OsString> = ["rdmascope", "capture", "--quiet"].map(OsString::from).to_vec();
    while let Some(argument) = arguments.next() {
        let text = argument.to_string_lossy().into_owned();
        let (name, joined) = match text.split_once('=') {
            Some((name, value)) => (name, Some(OsString::from(value))),
            None => (&*text, None),
        };
        let mut value = || joined.clone().or_else(|| arguments.next()).unwrap_or_default();
        match name {
            "--capture" => is_capture = true,
            "--extcap-interfaces" => information = Information::Interfaces,
            "--extcap-dlts" => information = Information::LinkTypes { of_messages: false },
            "--extcap-config" => information = Information::Options { of_messages: false },
            "--extcap-version" => {
                let _of_wireshark = joined;
            }
            "--extcap-interface" => {
                let name = value().to_string_lossy().into_owned();
                of_messages = name == MESSAGES;
                match of_messages {
                    true => passed.push("--snoop".into()),
                    false => passed.extend(["-i".into(), name.strip_prefix(PREFIX).unwrap_or(&name).into()]),
                }
            }
            "--fifo" => passed.extend(["-w".into(), value()]),
            "--extcap-capture-filter" => {
                let filter = value();
                if !filter.is_empty() {
                    passed.extend(["--filter".into(), filter]);
                }
            }
            _ => passed.push(argument),
        }
    }
    // The interface may precede the question or follow it.
    if let Information::LinkTypes { of_messages: of } | Information::Options { of_messages: of } =
        &mut information
    {
        *of = of_messages;
    }
    Some(if is_capture { Request::Capture(passed) } else { Request::Information(information) })
}

/// Prints the information in the format of the protocol.
pub(crate) fn print(information: Information, out: &mut impl Write) -> io::Result<()> {
    match information {
        Information::Nothing => Ok(()),
        Information::LinkTypes { of_messages: false } => {
            writeln!(out, "dlt {{number=1}}{{name=EN10MB}}{{display=Ethernet}}")
        }
        Information::LinkTypes { of_messages: true } => {
            writeln!(out, "dlt {{number=101}}{{name=RAW}}{{display=Raw IP}}")
        }
        Information::Interfaces => {
            writeln!(out, "extcap {{version={}}}{{display=rdmascope}}", env!("CARGO_PKG_VERSION"))?;
            for interface in network_interfaces().iter().filter(|interface| interface.is_ethernet) {
                // Braces delimit fields in the protocol.
                let name = Plain(&interface.name).to_string().replace(['{', '}'], "");
                writeln!(out, "interface {{value={PREFIX}{name}}}{{display=RoCE on {name}}}")?;
            }
            // The module of the kernel's client and server.
            if Path::new("/sys/module/rpcrdma").exists() {
                writeln!(out, "interface {{value={MESSAGES}}}{{display=NFS/RDMA messages of this host}}")?;
            }
            Ok(())
        }
        Information::Options { of_messages } => {
            let options = if of_messages { &[][..] } else { FLAGS };
            for (number, (option, display, tooltip)) in options.iter().enumerate() {
                writeln!(
                    out,
                    "arg {{number={number}}}{{call={option}}}{{display={display}}}{{type=boolflag}}{{tooltip={tooltip}}}"
                )?;
            }
            writeln!(
                out,
                "arg {{number=4}}{{call=--snap-length}}{{display=Snap length}}{{type=integer}}{{range=64,262144}}{{default=262144}}{{tooltip=Maximum bytes per packet}}"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request_of(line: &str) -> Option<Request> {
        request(line.split(' ').map(OsString::from))
    }

    #[test]
    fn wireshark_arguments_are_parsed() {
        for (line, information) in [
            ("rdmascope --extcap-interfaces --extcap-version=4.0", Information::Interfaces),
            (
                "rdmascope --extcap-interface roce-eth0 --extcap-dlts",
                Information::LinkTypes { of_messages: false },
            ),
            (
                "rdmascope --extcap-interface roce-eth0 --extcap-config",
                Information::Options { of_messages: false },
            ),
            (
                "rdmascope --extcap-config --extcap-interface nfs-rdma-messages",
                Information::Options { of_messages: true },
            ),
            ("rdmascope --extcap-interface roce-eth0 --extcap-capture-filter udp", Information::Nothing),
        ] {
            assert_eq!(request_of(line), Some(Request::Information(information)), "{line}");
        }
        for (line, expected) in [
            (
                "rdmascope --capture --extcap-interface roce-eth0 --fifo /tmp/f --extcap-capture-filter=udp --tunnels",
                "rdmascope capture --quiet -i eth0 -w /tmp/f --filter udp --tunnels",
            ),
            (
                "rdmascope --capture --extcap-interface nfs-rdma-messages --fifo /tmp/f --snap-length 512",
                "rdmascope capture --quiet --snoop -w /tmp/f --snap-length 512",
            ),
        ] {
            let expected = expected.split(' ').map(OsString::from).collect();
            assert_eq!(request_of(line), Some(Request::Capture(expected)), "{line}");
        }
        for other in ["rdmascope", "rdmascope capture -i eth0", "rdmascope --help"] {
            assert_eq!(request_of(other), None);
        }
    }
}
