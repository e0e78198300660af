//! Makes a large capture from a sample.
//!
//! It contains copies of the session, eight at a time side by side. Each copy has its own clients,
//! queue pairs, PSNs, XIDs, memory and times. Copies of an iWARP session only differ in clients and
//! times.
//!
//!     enlarge SAMPLE MEGABYTES OUTPUT

use rdmascope_tests::{mutate, pcap, samples};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::Ipv4Addr;

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
/// The number of concurrent sessions.
const ABREAST: u32 = 8;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [sample, megabytes, output] = &arguments[..] else {
        eprintln!("usage: enlarge SAMPLE MEGABYTES OUTPUT");
        std::process::exit(2);
    };
    let bytes = megabytes.parse::<usize>().expect("MEGABYTES is a number") * 1_000_000;
    let session = samples::capture(sample);
    let times = session.packets.iter().map(|packet| packet.time);
    let length = times.clone().max().unwrap_or(0) - times.min().unwrap_or(0);
    let mut file = BufWriter::new(File::create(output).expect("the output can be written"));
    let mut written = 0;
    for batch in 0.. {
        let mut batch_capture: Option<pcap::Capture> = None;
        for abreast in 0..ABREAST {
            let mut copy = copy_of(&session, batch * ABREAST + abreast);
            for packet in &mut copy.packets {
                packet.time += i64::from(batch) * (length + 1_000_000_000) + i64::from(abreast) * 1_357_000;
            }
            batch_capture = Some(match batch_capture {
                Some(others) => mutate::merge(&others, &copy),
                None => copy,
            });
        }
        let out = pcap::write(&batch_capture.expect("a batch has sessions"));
        // Only the first batch has the file header.
        let part = if batch == 0 { &out[..] } else { &out[24..] };
        file.write_all(part).expect("the output can be written");
        written += part.len();
        if written >= bytes {
            break;
        }
    }
    file.flush().expect("the output can be written");
}

/// A copy of the session with client number `index`.
fn copy_of(session: &pcap::Capture, index: u32) -> pcap::Capture {
    let mut copy = session.clone();
    let spread = index.wrapping_mul(0x9e37_79b1);
    mutate::renumber_qp(&mut copy, SERVER, 0x100 + 2 * index);
    mutate::renumber_qp(&mut copy, CLIENT, 0x101 + 2 * index);
    mutate::shift_psn(&mut copy, SERVER, spread & 0x00ff_ffff);
    mutate::shift_psn(&mut copy, CLIENT, spread >> 8);
    mutate::change_communication_ids(&mut copy, spread | 1);
    mutate::change_xids(&mut copy, |xid| xid ^ spread);
    mutate::rename_memory(&mut copy, |handle, offset| (handle ^ (spread & 0x00ff_ff00), offset));
    let client = Ipv4Addr::new(10, 78, (index >> 8) as u8, index as u8);
    mutate::readdress(&mut copy, CLIENT, client);
    mutate::readdress_segments(&mut copy, CLIENT, client);
    copy
}
