//! Finds the transmission of a packet that its receiver takes.
//!
//! The receiver of a reliable connection takes packets in the order of their PSNs. It drops packets
//! after a lost one, and the sender sends them again (IBTA volume 1, sections 9.7.4.1.2 and
//! 9.7.5.2). So the first transmission to arrive is not always the one that the receiver takes.

use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rdmascope_dissector::connection::FlowKey;
use rdmascope_wire::psn::Psn;
use std::collections::VecDeque;

/// One PSN sequence of an end: its requests, or its responses to RDMA Reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Lane {
    pub(super) flow: FlowKey,
    pub(super) is_response: bool,
}

/// Packets that their receivers have not taken yet.
#[derive(Debug, Default)]
pub(super) struct Arrivals(HashMap<Lane, VecDeque<Transmitted>, FixedState>);

/// A packet, with the frame of its first transmission.
#[derive(Clone, Copy, Debug)]
struct Transmitted {
    psn: Psn,
    frame: u64,
    /// Whether a transmission of it arrived and was dropped.
    arrived: bool,
}

impl Arrivals {
    /// The most sequences that are followed.
    const MOST_LANES: usize = 1 << 12;
    /// The most packets of a sequence. When there are more, the oldest is missing from the
    /// receiver's capture rather than lost.
    const MOST: usize = 1 << 12;

    /// Adds a packet that no earlier record contains. Returns false if it is a retransmission.
    pub(super) fn sent(&mut self, lane: Lane, psn: Psn, frame: u64) -> bool {
        if self.0.len() >= Arrivals::MOST_LANES && !self.0.contains_key(&lane) {
            return false;
        }
        let packets = self.0.entry(lane).or_default();
        let is_new = packets.back().is_none_or(|last| last.psn.distance(psn) > 0);
        if is_new {
            if packets.len() >= Arrivals::MOST {
                packets.pop_front();
                while packets.front().is_some_and(|packet| packet.arrived) {
                    packets.pop_front();
                }
            }
            packets.push_back(Transmitted { psn, frame, arrived: false });
        }
        is_new
    }

    /// Takes the arrival of a transmission. Returns the frame of the packet's first transmission,
    /// if the receiver takes this one.
    pub(super) fn arrived(&mut self, lane: Lane, psn: Psn) -> Option<u64> {
        let packets = self.0.get_mut(&lane)?;
        let first = packets.front()?.psn;
        let index =
            packets.binary_search_by_key(&first.distance(psn), |packet| first.distance(packet.psn)).ok()?;
        packets[index].arrived = true;
        if index > 0 {
            return None;
        }
        packets.pop_front().map(|packet| packet.frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_dissector::frame::Address;
    use rdmascope_wire::Qpn;
    use std::net::Ipv4Addr;

    const LANE: Lane = Lane {
        flow: FlowKey {
            source: Address::V4(Ipv4Addr::new(10, 0, 0, 1)),
            destination: Address::V4(Ipv4Addr::new(10, 0, 0, 2)),
            destination_qp: Qpn(17),
        },
        is_response: false,
    };

    fn psn(value: u32) -> Psn {
        Psn::new(value)
    }

    #[test]
    fn packets_after_a_loss_match_when_retransmitted() {
        let mut arrivals = Arrivals::default();
        for (frame, number) in (1..).zip([0xff_fffe, 0xff_ffff, 0, 1]) {
            assert!(arrivals.sent(LANE, psn(number), frame));
        }
        assert_eq!(arrivals.arrived(LANE, psn(0xff_fffe)), Some(1));
        // Packet 0xffffff is lost.
        assert_eq!((arrivals.arrived(LANE, psn(0)), arrivals.arrived(LANE, psn(1))), (None, None));
        for number in [0xff_ffff, 0, 1] {
            assert!(!arrivals.sent(LANE, psn(number), 9), "it is sent again");
        }
        let arrived = [0xff_ffff, 0, 1, 1].map(|number| arrivals.arrived(LANE, psn(number)));
        assert_eq!(arrived, [Some(2), Some(3), Some(4), None]);
    }

    /// A packet that the receiver's capture lacks does not block the sequence forever.
    #[test]
    fn packets_that_never_arrive_are_given_up() {
        let mut arrivals = Arrivals::default();
        arrivals.sent(LANE, psn(0), 0);
        for number in 1..Arrivals::MOST as u32 {
            arrivals.sent(LANE, psn(number), number.into());
            assert_eq!(arrivals.arrived(LANE, psn(number)), None);
        }
        for number in Arrivals::MOST as u32.. {
            arrivals.sent(LANE, psn(number), number.into());
            if number > 2 * Arrivals::MOST as u32 {
                break;
            }
            assert_eq!(arrivals.arrived(LANE, psn(number)), Some(number.into()));
        }
    }

    #[test]
    fn requests_and_responses_are_matched_separately() {
        let mut arrivals = Arrivals::default();
        let responses = Lane { is_response: true, ..LANE };
        assert!(arrivals.sent(LANE, psn(7), 1) && arrivals.sent(responses, psn(5), 2));
        assert_eq!((arrivals.arrived(responses, psn(5)), arrivals.arrived(LANE, psn(7))), (Some(2), Some(1)));
    }
}
