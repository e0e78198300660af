use super::ring::{Device, Filled, Options, Outcome, Ring};
use super::*;
use crate::filter::Sieve;
use crate::live_source::{Counts, LiveSource as _};
use crate::source::{Next, Source as _};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A device in memory. Packets that find no buffer are dropped, as by hardware.
struct Fake {
    memory: Vec<Vec<u8>>,
    posted: VecDeque<u32>,
    completed: VecDeque<Filled>,
    dropped: u64,
    waits: u32,
    counter: Option<u64>,
}

/// Size of each buffer in bytes.
const SIZE: usize = 100;
/// Number of completions per poll.
const AT_ONCE: usize = 3;

impl Fake {
    fn new(buffers: usize) -> Fake {
        Fake {
            memory: vec![vec![0; SIZE]; buffers],
            posted: VecDeque::new(),
            completed: VecDeque::new(),
            dropped: 0,
            waits: 0,
            counter: None,
        }
    }

    /// Passes a packet to the device.
    fn pass(&mut self, packet: &[u8]) {
        let Some(buffer) = self.posted.pop_front() else {
            self.dropped += 1;
            return;
        };
        let outcome = match self.memory[buffer as usize].get_mut(..packet.len()) {
            Some(room) => {
                room.copy_from_slice(packet);
                Outcome::Packet(packet.len() as u32)
            }
            None => Outcome::TooLong,
        };
        self.completed.push_back(Filled { buffer, outcome });
    }

    /// Returns true if the device has the buffer, or has not yet reported its completion.
    fn has(&self, buffer: u32) -> bool {
        self.posted.contains(&buffer) || self.completed.iter().any(|one| one.buffer == buffer)
    }
}

impl Device for Fake {
    fn buffers(&self) -> u32 {
        self.memory.len() as u32
    }

    fn size(&self) -> u32 {
        SIZE as u32
    }

    fn post(&mut self, buffers: &[u32]) -> io::Result<()> {
        for buffer in buffers {
            assert!(!self.has(*buffer), "buffer {buffer} is posted twice");
            self.posted.push_back(*buffer);
        }
        Ok(())
    }

    fn poll(&mut self, filled: &mut Vec<Filled>) -> io::Result<()> {
        let count = self.completed.len().min(AT_ONCE);
        filled.extend(self.completed.drain(..count));
        Ok(())
    }

    fn wait(&mut self, _: Duration) -> io::Result<()> {
        self.waits += 1;
        Ok(())
    }

    fn bytes(&self, buffer: u32, length: u32) -> &[u8] {
        assert!(!self.has(buffer), "buffer {buffer} is read while the device has it");
        &self.memory[buffer as usize][..length as usize]
    }

    fn shortages(&mut self) -> Option<u64> {
        self.counter
    }
}

fn ring(device: Fake, snap_length: u32) -> (Ring<Fake>, Arc<AtomicBool>) {
    let end = Arc::new(AtomicBool::new(false));
    let options = Options {
        name: "fake0".into(),
        sieve: Sieve::new(&Wanted::default(), snap_length),
        interval: Duration::from_millis(1),
        end: Arc::clone(&end),
    };
    (Ring::new(device, options).expect("it takes buffers"), end)
}

/// A RoCEv1 frame of this length that contains a number.
fn frame(number: u32, length: usize) -> Vec<u8> {
    let mut frame = vec![number as u8; length.max(18)];
    frame[12..14].copy_from_slice(&0x8915u16.to_be_bytes());
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

/// A frame that the filter rejects.
fn other() -> Vec<u8> {
    [&[0; 12][..], &[0x08, 0x06], &[0; 28]].concat()
}

/// Returns the packets up to the next idle state: the bytes and the recorded lengths.
fn taken(ring: &mut Ring<Fake>) -> Vec<(Vec<u8>, u32)> {
    let mut found = Vec::new();
    loop {
        match ring.next().expect("the device goes on") {
            Next::Record(record) => found.push((record.data.to_vec(), record.original_length)),
            Next::Idle(_) | Next::End => return found,
            Next::Note(_) => panic!("a note"),
        }
    }
}

#[test]
fn packets_are_delivered_in_order_and_unchanged() {
    let (mut ring, _) = ring(Fake::new(200), 262_144);
    let mut expected = Vec::new();
    // Several times around the ring, with lengths that leave bytes of an earlier packet in the
    // buffer.
    for number in 0..1500 {
        let packet = frame(number, 90 - number as usize % 60);
        ring.device().pass(&packet);
        ring.device().pass(&other());
        expected.push((packet.clone(), packet.len() as u32));
        if number % 70 == 69 {
            assert_eq!(taken(&mut ring), expected, "up to {number}");
            expected.clear();
        }
    }
    taken(&mut ring);
    let counts = Counts { accepted: None, dropped: None, delivered: 1500 };
    assert_eq!((ring.counts().expect("it counts"), ring.device().dropped), (counts, 0));
    assert_eq!(ring.lacks(), Vec::<String>::new());
    assert_eq!(ring.names(), ["fake0"]);
}

#[test]
fn records_have_numbers_times_and_lengths() {
    let (mut ring, _) = ring(Fake::new(8), 20);
    let Ok(Next::Idle(Some(before))) = ring.next() else { panic!("no packet yet") };
    ring.device().pass(&frame(1, 60));
    ring.device().pass(&frame(2, 18));
    let mut last = before;
    for (number, length, kept) in [(1, 60, 20), (2, 18, 18)] {
        let Ok(Next::Record(record)) = ring.next() else { panic!("record {number}") };
        assert_eq!((record.number, record.original_length, record.data.len()), (number, length, kept));
        assert_eq!((record.link, record.dropped), (rdmascope_dissector::record::LinkType::ETHERNET, 0));
        assert!(record.time >= last, "no record is older than the time reported before it");
        last = record.time;
    }
    assert!(last <= crate::live_source::now());
    assert_eq!(ring.position(), 78);
}

#[test]
fn source_reports_idle_before_it_waits() {
    let (mut ring, _) = ring(Fake::new(4), 262_144);
    assert!(matches!(ring.next(), Ok(Next::Idle(Some(_)))));
    assert_eq!(ring.device().waits, 0);
    assert!(matches!(ring.next(), Ok(Next::Idle(_))));
    assert_eq!(ring.device().waits, 1);
    ring.device().pass(&frame(1, 18));
    assert!(matches!(ring.next(), Ok(Next::Record(_))));
    assert!(matches!(ring.next(), Ok(Next::Idle(_))));
    assert_eq!(ring.device().waits, 2, "one wait per idle report");
}

#[test]
fn buffer_shortage_is_reported_without_a_drop_count() {
    let (mut ring, _) = ring(Fake::new(8), 262_144);
    for number in 0..20 {
        ring.device().pass(&frame(number, 18));
    }
    let first: Vec<_> = (0..8).map(|number| (frame(number, 18), 18)).collect();
    assert_eq!(taken(&mut ring), first);
    assert_eq!(ring.device().dropped, 12);
    assert_eq!(ring.counts().expect("it counts").dropped, None, "12 packets were dropped unnoticed");
    assert_eq!(ring.dropped(), 0, "no counted drops");
    let lacks = ring.lacks();
    assert_eq!(lacks, ["fake0 ran out of receive buffers once: packets may be missing there"]);
    assert!(ring.uncounted().is_some_and(|why| why.contains("does not report")));
    // Buffers are posted again.
    ring.device().pass(&frame(99, 18));
    assert_eq!(taken(&mut ring), [(frame(99, 18), 18)]);
    assert_eq!(ring.lacks(), lacks);
}

#[test]
fn drop_counter_is_reported_relative_to_its_start() {
    let mut device = Fake::new(4);
    device.counter = Some(1000);
    let (mut ring, _) = ring(device, 262_144);
    assert_eq!(ring.lacks(), Vec::<String>::new());
    ring.device().counter = Some(1007);
    let [report] = &ring.lacks()[..] else { panic!("{:?}", ring.lacks()) };
    assert!(report.starts_with("fake0 counted 7 packets") && report.contains("or another"), "{report}");
    assert_eq!(ring.counts().expect("it counts").dropped, None, "they may be drops of other programs");
}

#[test]
fn packets_longer_than_a_buffer_are_reported() {
    let (mut ring, _) = ring(Fake::new(4), 262_144);
    ring.device().pass(&frame(1, 18));
    ring.device().pass(&frame(2, SIZE + 1));
    ring.device().pass(&frame(3, SIZE));
    let found: Vec<u32> = taken(&mut ring).iter().map(|(_, length)| *length).collect();
    assert_eq!(found, [18, SIZE as u32]);
    assert_eq!(ring.lacks(), ["packets longer than 100 bytes are missing: 1"]);
    assert_eq!(ring.device().posted.len(), 4, "its buffer is posted again");
}

#[test]
fn device_failure_ends_the_capture_with_an_error() {
    let (mut ring, _) = ring(Fake::new(4), 262_144);
    ring.device().pass(&frame(1, 18));
    let buffer = ring.device().posted.pop_front().expect("it has buffers");
    ring.device().completed.push_back(Filled { buffer, outcome: Outcome::Failed(5) });
    assert!(matches!(ring.next(), Ok(Next::Record(_))), "earlier packets are delivered");
    let error = ring.next().expect_err("the device failed").to_string();
    assert_eq!(error, "fake0: capture failed: a work completion has status 5");
}

#[test]
fn stopped_capture_delivers_the_packets_already_received() {
    let (mut ring, end) = ring(Fake::new(8), 262_144);
    for number in 0..5 {
        ring.device().pass(&frame(number, 18));
    }
    assert!(matches!(ring.next(), Ok(Next::Record(_))));
    end.store(true, Ordering::Relaxed);
    let mut rest = 0;
    loop {
        match ring.next().expect("the device goes on") {
            Next::Record(_) => rest += 1,
            Next::End => break,
            other => panic!("{other:?}"),
        }
        // A busy device always has another packet.
        ring.device().pass(&frame(77, 18));
    }
    assert_eq!(rest, 4);
    assert!(matches!(ring.next(), Ok(Next::End)), "and it stays ended");
}

proptest! {
    #[test]
    fn every_packet_that_got_a_buffer_is_delivered(
        buffers in 1usize..150,
        steps in prop::collection::vec((0u8..4, 1usize..90), 1..200),
    ) {
        let (mut ring, _) = ring(Fake::new(buffers), 262_144);
        let (mut number, mut found, mut expected) = (0, Vec::new(), Vec::new());
        for (kind, count) in steps {
            match kind {
                0 | 1 => for _ in 0..count {
                    let packet = if kind == 0 { frame(number, 18) } else { other() };
                    let dropped = ring.device().dropped;
                    ring.device().pass(&packet);
                    if kind == 0 && ring.device().dropped == dropped {
                        expected.push(number);
                    }
                    number += 1;
                },
                _ => for _ in 0..count {
                    if let Next::Record(record) = ring.next().expect("the device goes on") {
                        found.push(u32::from_be_bytes(record.data[14..18].try_into().expect("four bytes")));
                    }
                },
            }
        }
        let rest = taken(&mut ring);
        found.extend(rest.iter().map(|(data, _)| u32::from_be_bytes(data[14..18].try_into().expect("four bytes"))));
        prop_assert_eq!(found, expected);
        let dropped = ring.device().dropped;
        prop_assert!(dropped == 0 || !ring.lacks().is_empty(), "{} dropped and not reported", dropped);
        prop_assert_eq!(ring.device().posted.len(), buffers);
    }
}

#[test]
fn device_names_are_split_from_port_numbers() {
    assert_eq!(device_and_port("mlx5_0").expect("a name"), ("mlx5_0", 1));
    assert_eq!(device_and_port("mlx4_0/2").expect("a port"), ("mlx4_0", 2));
    for wrong in ["mlx5_0/", "mlx5_0/0", "mlx5_0/256", "mlx5_0/a"] {
        assert!(matches!(device_and_port(wrong), Err(SnifferError::NoPort(_))), "{wrong}");
    }
}

#[test]
fn unsupported_device_error_names_an_alternative() {
    let refused = |is_hardware, interface: Option<&str>| {
        let (device, step) = ("dev0".to_owned(), "raw packet queue pair");
        let (interface, error) = (interface.map(str::to_owned), io::Error::from(io::ErrorKind::Unsupported));
        SnifferError::Refused { device, is_hardware, interface, step, error }.to_string()
    };
    let software = refused(false, Some("eth0"));
    assert!(
        software.starts_with("dev0 cannot be snooped on (raw packet queue pair: unsupported)"),
        "{software}"
    );
    assert!(software.ends_with("its packets pass the network interface eth0: use -i eth0"), "{software}");
    assert!(
        refused(true, Some("eth0"))
            .ends_with("if it mirrors its packets to the network interface eth0, use -i eth0")
    );
    assert!(refused(true, None).contains("capture --list"));
    let none = SnifferError::NoDevice { name: "x".into(), found: Vec::new() };
    assert_eq!(none.to_string(), "there is no RDMA device x; this host has none");
    let others = SnifferError::NoDevice { name: "x".into(), found: vec!["rxe0".into(), "rxe1".into()] };
    assert_eq!(others.to_string(), "there is no RDMA device x; there are rxe0, rxe1");
}
