//! One ring, or several rings with a thread each that share the packets.
//!
//! The kernel gives each packet to one ring (`ring::share`). The thread of a ring copies packets
//! into batches. The reader merges the batches by time ([`Order`]): a packet is delivered once
//! every other ring has delivered a later one, or its thread has reported that nothing older will
//! come. A ring delivers a packet at most twice [`RETIRE`] after its timestamp, which bounds the
//! wait for silent rings. Packets that are later still, because a CPU was busy, are delivered at
//! once, out of order.
//!
//! Memory is bounded: a thread has [`BATCHES`] batches and waits for an empty one. Meanwhile its
//! ring fills up, and the kernel counts the packets that it drops.

use super::ring::{Packet, RETIRE, Ring, Socket, Waited};
use rdmascope_dissector::record::Time;
use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::thread;
use std::time::Duration;

/// Number of batches of a ring.
const BATCHES: usize = 8;
/// Maximum size of a batch in bytes, unless a single packet is larger.
const BATCH: usize = 1 << 20;
/// Maximum number of packets in a batch.
const MOST: usize = 1 << 14;

/// One ring, or several.
#[derive(Debug)]
pub(super) enum Rings {
    /// One ring, whose packets are read in place.
    One(Ring),
    /// Several rings, read by threads.
    Several(Several),
}

impl Rings {
    /// Takes at least one ring.
    pub(super) fn of(mut rings: Vec<Ring>) -> io::Result<Rings> {
        if rings.len() > 1 {
            return Ok(Rings::Several(Several::of(rings)?));
        }
        rings.pop().map(Rings::One).ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Returns the sockets of the rings, at least one.
    pub(super) fn sockets(&self) -> &[Socket] {
        match self {
            Rings::One(ring) => core::slice::from_ref(ring),
            Rings::Several(several) => &several.sockets,
        }
    }

    /// Returns the next packet, or `None` if none is available. In that case, with several rings,
    /// `reached` is set to the time before which no packet will come.
    #[inline]
    pub(super) fn next(&mut self, reached: &mut Option<Time>) -> Option<Packet<'_>> {
        match self {
            Rings::One(ring) => ring.next(),
            Rings::Several(several) => several.next(reached),
        }
    }

    /// Waits for packets, at most `time`.
    pub(super) fn wait(&mut self, time: Duration) -> io::Result<Waited> {
        match self {
            Rings::One(ring) => ring.wait(time),
            Rings::Several(several) => several.wait(time),
        }
    }
}

/// Returns the time up to which a ring has delivered all packets at `now`.
pub(super) fn delivered_until(now: Time) -> Time {
    Time(now.0.saturating_sub(2 * RETIRE.as_nanos() as i64))
}

/// Several rings. Their threads start with the first wait.
#[derive(Debug)]
pub(super) struct Several {
    sockets: Vec<Socket>,
    /// Rings whose thread has not started, because the process drops its privileges first.
    rings: Vec<Ring>,
    order: Order,
    to: Sender<(usize, RingReport)>,
    reports: Receiver<(usize, RingReport)>,
    /// Returns empty batches to the threads.
    back: Vec<Sender<Batch>>,
    failed: Option<io::Error>,
}

/// A report of a ring's thread.
#[derive(Debug)]
enum RingReport {
    /// Packets in order. Nothing older will come.
    Packets(Batch),
    /// No packets at present. Nothing older than this time will come.
    Until(i64),
    /// The ring failed.
    Failed(io::Error),
}

impl Several {
    fn of(rings: Vec<Ring>) -> io::Result<Several> {
        let sockets = rings.iter().map(|ring| ring.try_clone()).collect::<io::Result<_>>()?;
        let (to, reports) = channel();
        let order = Order::new(rings.len());
        Ok(Several { sockets, rings, order, to, reports, back: Vec::new(), failed: None })
    }

    fn next(&mut self, reached: &mut Option<Time>) -> Option<Packet<'_>> {
        if self.order.is_taken() {
            self.give_back();
        }
        while !self.order.find() {
            // If packets wait for a silent ring, its thread reports its time soon.
            let report = match self.reports.try_recv() {
                Err(TryRecvError::Empty) if self.order.has_packets() => {
                    self.reports.recv_timeout(2 * RETIRE).ok()
                }
                report => report.ok(),
            };
            let Some(report) = report else {
                *reached = Some(Time(self.order.reached()));
                return None;
            };
            self.take(report);
        }
        self.order.packet()
    }

    fn wait(&mut self, time: Duration) -> io::Result<Waited> {
        for ring in self.rings.drain(..) {
            let (to, (back, pool)) = (self.to.clone(), channel());
            let index = self.back.len();
            for _ in 0..BATCHES {
                let _receiver_exists = back.send(Batch::default());
            }
            self.back.push(back);
            thread::Builder::new()
                .name(format!("ring-{index}"))
                .spawn(move || read(ring, index, &to, &pool))?;
        }
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        match self.reports.recv_timeout(time) {
            Ok(report) => self.take(report),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return Ok(Waited::TimedOut),
        }
        Ok(Waited::Ready)
    }

    fn take(&mut self, (index, report): (usize, RingReport)) {
        match report {
            RingReport::Packets(batch) => self.order.packets(index, batch),
            RingReport::Until(time) => self.order.until(index, time),
            RingReport::Failed(error) => self.failed = Some(error),
        }
    }

    fn give_back(&mut self) {
        if let Some((index, batch)) = self.order.emptied() {
            let _fails_after_thread_end = self.back[index].send(batch);
        }
    }
}

/// Reads a ring until the receiver is dropped.
fn read(mut ring: Ring, index: usize, to: &Sender<(usize, RingReport)>, pool: &Receiver<Batch>) {
    let mut kept = None;
    loop {
        let Some(mut batch) = kept.take().or_else(|| pool.recv().ok()) else { return };
        batch.clear();
        // Read the clock before the ring: packets that arrive in between are later.
        let until = delivered_until(super::now()).0;
        while batch.has_room()
            && let Some(packet) = ring.next()
        {
            batch.push(&packet);
        }
        let report = if batch.is_empty() {
            kept = Some(batch);
            RingReport::Until(until)
        } else {
            RingReport::Packets(batch)
        };
        if to.send((index, report)).is_err() {
            return;
        }
        if kept.is_some()
            && let Err(error) = ring.wait(RETIRE)
        {
            let _fails_without_receiver = to.send((index, RingReport::Failed(error)));
            return;
        }
    }
}

/// Packets copied from a ring.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    packets: Vec<Copied>,
}

/// The metadata of a copied packet.
#[derive(Clone, Copy, Debug)]
struct Copied {
    time: i64,
    interface: u32,
    hardware_time: bool,
    length: u32,
    /// End of its bytes. They start at the end of the packet before.
    end: u32,
}

impl Batch {
    fn clear(&mut self) {
        self.bytes.clear();
        self.packets.clear();
    }

    fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    fn has_room(&self) -> bool {
        self.bytes.len() < BATCH && self.packets.len() < MOST
    }

    fn push(&mut self, packet: &Packet<'_>) {
        let Packet { time, interface, hardware_time, length, data } = *packet;
        self.bytes.extend_from_slice(data);
        self.packets.push(Copied { time, interface, hardware_time, length, end: self.bytes.len() as u32 });
    }

    fn packet(&self, at: usize) -> Option<Packet<'_>> {
        let Copied { time, interface, hardware_time, length, end } = *self.packets.get(at)?;
        let start = at.checked_sub(1).map_or(0, |before| self.packets[before].end);
        Some(Packet {
            time,
            interface,
            hardware_time,
            length,
            data: &self.bytes[start as usize..end as usize],
        })
    }
}

/// Merges the packets of several rings by time.
#[derive(Debug)]
struct Order {
    rings: Vec<Waiting>,
    /// The ring of the next packet, and the time up to which its packets come before those of all
    /// other rings.
    current: Option<(usize, i64)>,
    /// The packet found last was delivered.
    is_given: bool,
}

/// The state of one ring.
#[derive(Debug)]
struct Waiting {
    batches: VecDeque<Batch>,
    /// Index of the next packet in the first batch.
    at: usize,
    /// No packet before this time will come.
    until: i64,
}

impl Waiting {
    fn head(&self) -> Option<i64> {
        self.batches.front().map(|batch| batch.packets[self.at].time)
    }

    /// Returns the earliest possible time of the next packet.
    fn earliest(&self) -> i64 {
        self.head().unwrap_or(self.until)
    }
}

impl Order {
    fn new(rings: usize) -> Order {
        let waiting = || Waiting { batches: VecDeque::new(), at: 0, until: i64::MIN };
        Order { rings: (0..rings).map(|_| waiting()).collect(), current: None, is_given: false }
    }

    fn packets(&mut self, index: usize, batch: Batch) {
        let waiting = &mut self.rings[index];
        if let Some(last) = batch.packets.last() {
            waiting.until = waiting.until.max(last.time);
            waiting.batches.push_back(batch);
        }
    }

    fn until(&mut self, index: usize, time: i64) {
        let waiting = &mut self.rings[index];
        waiting.until = waiting.until.max(time);
    }

    fn has_packets(&self) -> bool {
        self.rings.iter().any(|ring| !ring.batches.is_empty())
    }

    /// Returns the time before which no packet will come from any ring.
    fn reached(&self) -> i64 {
        self.rings.iter().map(Waiting::earliest).min().unwrap_or(i64::MIN)
    }

    /// Returns true if the last packet of a batch was delivered, so that the batch can be recycled.
    fn is_taken(&self) -> bool {
        match self.current {
            Some((index, _)) if self.is_given => {
                let ring = &self.rings[index];
                ring.batches.front().is_some_and(|batch| ring.at + 1 == batch.packets.len())
            }
            _ => false,
        }
    }

    /// Removes that batch.
    fn emptied(&mut self) -> Option<(usize, Batch)> {
        let (index, _) = self.current?;
        let ring = &mut self.rings[index];
        ring.at = 0;
        self.is_given = false;
        ring.batches.pop_front().map(|batch| (index, batch))
    }

    /// Finds the next packet. Returns false if another ring may still deliver an earlier one.
    fn find(&mut self) -> bool {
        if let Some((index, _)) = self.current
            && core::mem::take(&mut self.is_given)
        {
            self.rings[index].at += 1;
        }
        if let Some((index, limit)) = self.current
            && self.rings[index].head().is_some_and(|head| head <= limit)
        {
            return true;
        }
        let heads = self.rings.iter().enumerate().filter_map(|(index, ring)| Some((ring.head()?, index)));
        let Some((head, index)) = heads.min() else { return false };
        let others = self.rings.iter().enumerate().filter(|(other, _)| *other != index);
        let limit = others.map(|(_, ring)| ring.earliest()).min().unwrap_or(i64::MAX);
        self.current = (head <= limit).then_some((index, limit));
        self.current.is_some()
    }

    /// Returns the packet that was found.
    fn packet(&mut self) -> Option<Packet<'_>> {
        let (index, _) = self.current?;
        self.is_given = true;
        let ring = &self.rings[index];
        ring.batches.front()?.packet(ring.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Appends a numbered packet.
    fn push(batch: &mut Batch, time: i64, number: u32) {
        let data = vec![number as u8; number as usize % 5];
        batch.push(&Packet { time, interface: 7, hardware_time: false, length: number, data: &data });
    }

    /// All packets are delivered exactly once, in order of time, and none before all rings have
    /// reached its time, whatever the order of reports.
    #[test]
    fn packets_are_delivered_in_time_order() {
        let mut state = 3u64;
        let mut dice = |sides: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % sides
        };
        for rings in [2, 3, 5] {
            let mut order = Order::new(rings);
            let mut clocks = vec![0i64; rings];
            let (mut sent, mut found) = (0u32, Vec::new());
            for round in 0..3000 {
                let index = dice(rings as u64) as usize;
                let mut batch = Batch::default();
                for _ in 0..dice(4) {
                    clocks[index] += dice(20) as i64;
                    push(&mut batch, clocks[index], sent);
                    sent += 1;
                }
                if batch.is_empty() {
                    clocks[index] += dice(50) as i64;
                    order.until(index, clocks[index]);
                } else {
                    order.packets(index, batch);
                }
                if round == 2999 {
                    (0..rings).for_each(|index| order.until(index, i64::MAX));
                }
                loop {
                    if order.is_taken() {
                        let (index, mut batch) = order.emptied().unwrap();
                        assert!(index < rings && !batch.is_empty());
                        batch.clear();
                    }
                    if !order.find() {
                        break;
                    }
                    let packet = order.packet().unwrap();
                    assert_eq!(packet.data, vec![packet.length as u8; packet.length as usize % 5]);
                    let (time, number) = (packet.time, packet.length);
                    assert!(round == 2999 || clocks.iter().all(|clock| *clock >= time), "{time}: {clocks:?}");
                    found.push((time, number));
                }
                assert!(found.last().is_none_or(|(time, _)| *time <= order.reached()));
            }
            assert!(found.is_sorted_by_key(|(time, _)| *time) && !order.has_packets());
            let mut numbers: Vec<u32> = found.iter().map(|(_, number)| *number).collect();
            numbers.sort_unstable();
            assert_eq!(numbers, (0..sent).collect::<Vec<_>>());
        }
    }

    /// A late packet is delivered at once and does not delay others.
    #[test]
    fn late_packets_are_delivered_at_once() {
        let mut order = Order::new(2);
        let mut batch = Batch::default();
        push(&mut batch, 10, 0);
        push(&mut batch, 4, 1);
        push(&mut batch, 12, 2);
        order.packets(0, batch);
        order.until(1, 11);
        let mut times = Vec::new();
        while order.find() {
            times.push(order.packet().unwrap().time);
        }
        assert_eq!(times, [10, 4]);
        assert_eq!(order.reached(), 11);
    }
}
