//! Compares the frame composer with frames from Linux, and with frames from the peer in one sample.

use rdmascope_tests::{Differences, samples};

/// Parses and recomposes each packet of the samples. All bytes must match, including IPv4 checksum
/// and ICRC.
#[test]
fn sample_packets_recompose_to_the_same_bytes() {
    let mut composed = 0;
    for sample in samples::ALL {
        let mut differences = Differences::of(sample);
        for packet in samples::capture(sample).packets.iter().filter(|packet| packet.is_roce()) {
            let again = packet.to_frame().to_vec().expect("it was a packet");
            differences.equal(format!("frame {}", packet.number), &packet.data, &again);
            composed += 1;
        }
        differences.end();
    }
    assert_eq!(composed, 9448, "RoCEv2 packets, as tcpdump counts those to UDP port 4791");
}
