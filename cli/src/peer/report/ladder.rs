//! The ladder diagram of a run: the packets that crossed, with direction and time.

use core::net::IpAddr;
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::{LinkType, Record, Tap, Time};
use rdmascope_present::tables::packets::Carried;
use rdmascope_tui::inject::Arrow;
use std::collections::VecDeque;

/// Packets drawn of one run: the first ones and the last ones.
const FIRST: usize = 120;
const LAST: usize = 40;
/// Packets kept before the remote side is known. They include the call that a scenario acts on.
const BEFORE: usize = 24;

/// A packet that crossed, from its IP header on, with its time.
pub(in crate::peer) struct Crossing {
    pub(in crate::peer) time: Time,
    pub(in crate::peer) bytes: Vec<u8>,
}

/// The drawn packets of a run.
#[derive(Debug, Default)]
pub(in crate::peer) struct Ladder {
    /// The address of the remote side.
    pub(super) remote: String,
    pub(in crate::peer) arrows: Vec<Arrow>,
    /// Index of the first arrow after the gap.
    pub(super) first: usize,
    /// Number of packets left out at the gap.
    pub(super) left_out: usize,
}

impl Ladder {
    /// Draws the packets between this side and `remote`.
    pub(in crate::peer) fn of(crossings: &[Crossing], remote: IpAddr) -> Ladder {
        let mut drawing = Drawing::new();
        drawing.begin(remote);
        crossings.iter().for_each(|crossing| drawing.take(crossing));
        drawing.finish()
    }
}

/// A packet between two addresses.
struct Packet {
    time: Time,
    source: String,
    destination: String,
    text: String,
}

/// A ladder under construction. It keeps only the packets that will be drawn.
pub(in crate::peer) struct Drawing {
    engine: Engine,
    records: u64,
    /// The remote side whose packets are drawn; `None` while it is unknown.
    remote: Option<String>,
    first: Vec<Packet>,
    last: VecDeque<Packet>,
    left_out: usize,
}

impl Drawing {
    pub(in crate::peer) fn new() -> Drawing {
        Drawing {
            engine: Engine::new(Config { report_packets: true, ..Config::default() }),
            records: 0,
            remote: None,
            first: Vec::new(),
            last: VecDeque::new(),
            left_out: 0,
        }
    }

    /// Draws the packets of `remote` from now on, and those kept from before.
    pub(in crate::peer) fn begin(&mut self, remote: IpAddr) {
        if self.remote.is_none() {
            let remote = remote.to_string();
            let before = core::mem::take(&mut self.last).into_iter();
            self.first = before.filter(|packet| packet.is_of(&remote)).collect();
            self.remote = Some(remote);
        }
    }

    /// Adds a packet that crossed.
    pub(in crate::peer) fn take(&mut self, crossing: &Crossing) {
        self.records += 1;
        let record = Record {
            number: self.records,
            time: crossing.time,
            link: LinkType::RAW,
            original_length: u32::try_from(crossing.bytes.len()).unwrap_or(u32::MAX),
            dropped: 0,
            tap: Tap::default(),
            data: &crossing.bytes,
        };
        let mut found = None;
        self.engine.handle(&record, &mut |event| {
            let Event::Packet(packet) = event else { return };
            let Ok(frame) = &packet.frame else { return };
            let text = match packet.readable_headers() {
                Some(headers) => {
                    format!("{} PSN {}{}", headers.bth.opcode, headers.bth.psn, Carried(headers))
                }
                None => "an unreadable packet".to_owned(),
            };
            let (source, destination) = (frame.source.to_string(), frame.destination.to_string());
            found = Some(Packet { time: crossing.time, source, destination, text });
        });
        if let Some(packet) = found {
            self.draw(packet);
        }
    }

    fn draw(&mut self, packet: Packet) {
        let most = match &self.remote {
            Some(remote) if !packet.is_of(remote) => return,
            Some(_) if self.first.len() < FIRST => return self.first.push(packet),
            Some(_) => LAST,
            None => BEFORE,
        };
        self.last.push_back(packet);
        if self.last.len() > most {
            self.last.pop_front();
            self.left_out += usize::from(self.remote.is_some());
        }
    }

    /// Returns the finished ladder, and starts a new one.
    pub(in crate::peer) fn finish(&mut self) -> Ladder {
        let remote = self.remote.take();
        let (first, last) = (core::mem::take(&mut self.first), core::mem::take(&mut self.last));
        let left_out = core::mem::take(&mut self.left_out);
        let Some(remote) = remote else { return Ladder::default() };
        let (count, start) = (first.len(), first.first().map_or(Time(0), |packet| packet.time));
        let arrow = |packet: Packet| Arrow {
            since: packet.time.since(start),
            out: packet.source != remote,
            text: packet.text,
        };
        let arrows: Vec<Arrow> = first.into_iter().chain(last).map(arrow).collect();
        Ladder { remote, arrows, first: count, left_out }
    }
}

impl Packet {
    fn is_of(&self, remote: &str) -> bool {
        self.source == remote || self.destination == remote
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rdmascope_peer::endpoint::{Config as Settings, Connect, Endpoint};
    use rdmascope_peer::frame::enclose;
    use rdmascope_peer::time::Instant;

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    /// The REQ of an endpoint to `remote`, one per millisecond.
    pub(in super::super) fn request(times: usize, remote: &str) -> Vec<Crossing> {
        let mut endpoint = Endpoint::new(Settings::default(), 1);
        endpoint.connect(Connect::new(address("192.0.2.1"), address(remote), 20049)).unwrap();
        let datagram = endpoint.poll_transmit(Instant::default()).unwrap();
        let bytes = enclose(&datagram).unwrap();
        (0..times).map(|at| Crossing { time: Time(1_000_000 * at as i64), bytes: bytes.clone() }).collect()
    }

    #[test]
    fn packets_become_arrows_with_direction_and_time() {
        let ladder = Ladder::of(&request(2, "192.0.2.2"), address("192.0.2.2"));
        assert_eq!(ladder.left_out, 0);
        assert_eq!(ladder.arrows.len(), 2);
        assert!(ladder.arrows[0].out && ladder.arrows[0].text.contains("ConnectRequest"), "{ladder:?}");
        assert_eq!(ladder.arrows[1].since, 1_000_000);
        assert!(!Ladder::of(&request(1, "192.0.2.2"), address("192.0.2.1")).arrows[0].out);
    }

    #[test]
    fn long_run_shows_first_and_last_packets() {
        let ladder = Ladder::of(&request(1000, "192.0.2.2"), address("192.0.2.2"));
        assert_eq!((ladder.arrows.len(), ladder.left_out), (FIRST + LAST, 1000 - FIRST - LAST));
        assert_eq!(ladder.arrows[FIRST].since, 1_000_000 * (1000 - LAST as u64));
    }

    #[test]
    fn ladder_starts_with_recent_packets_of_its_remote() {
        let mut drawing = Drawing::new();
        let take = |drawing: &mut Drawing, times, remote| {
            request(times, remote).iter().for_each(|crossing| drawing.take(crossing));
        };
        take(&mut drawing, 1000, "192.0.2.2");
        take(&mut drawing, 2, "192.0.2.3");
        drawing.begin(address("192.0.2.2"));
        take(&mut drawing, 3, "192.0.2.3");
        take(&mut drawing, 1, "192.0.2.2");
        let ladder = drawing.finish();
        assert_eq!((ladder.arrows.len(), ladder.left_out), (BEFORE - 2 + 1, 0));
        // The next run starts empty.
        take(&mut drawing, 1, "192.0.2.2");
        drawing.begin(address("192.0.2.3"));
        assert!(drawing.finish().arrows.is_empty());
    }
}
