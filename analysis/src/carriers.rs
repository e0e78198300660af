//! The frames that carried bytes of a transaction.

use core::ops::Range;
use rdmascope_dissector::exchange::{Step, StepKind};
use rdmascope_dissector::layout::Source;
use rdmascope_dissector::role::{Attributed, Role};
use rdmascope_dissector::transaction::{Part, Transaction};
use std::collections::BTreeMap;

/// The frames of the packets of a transaction's Sends and RDMA operations.
#[derive(Clone, Debug, Default)]
pub struct Carriers {
    /// Frame numbers, by the index of the step and the packet's position in it.
    frames: BTreeMap<(u32, u32), u64>,
}

impl Carriers {
    /// The most packets kept. Frames of further packets are unknown.
    pub const MOST: usize = 1 << 16;

    /// Adds a packet with its role in `transaction`.
    pub fn see(&mut self, transaction: &Transaction, attributed: &Attributed<'_>) {
        let Some(Role::Part(of)) = attributed.role else { return };
        let step = transaction.exchange.as_ref().and_then(|kept| kept.steps.get(of.step as usize));
        let Some(step) = step.filter(|_| of.begun == transaction.begun) else { return };
        let place = u32::try_from(step.position.distance(attributed.position));
        if let Some(place) = place.ok().filter(|_| self.frames.len() < Carriers::MOST) {
            self.frames.entry((of.step, place)).or_insert(attributed.seen.frame);
        }
    }

    /// The frames that carried these bytes of a part of the call or the reply, in the order of the
    /// bytes. Frames that are missing from the capture are left out.
    pub fn of_part(
        &self,
        transaction: &Transaction,
        of_reply: bool,
        part: Part,
        bytes: Range<u64>,
    ) -> Vec<u64> {
        let steps = transaction.exchange.as_ref().map_or(&[][..], |kept| &kept.steps);
        let moves = |step: &&(u32, &Step)| {
            let Step { kind, offset, length, .. } = *step.1;
            let is_of_part = (step.1.of_reply, step.1.part) == (of_reply, part);
            let carries = !matches!(kind, StepKind::ReadRequest | StepKind::Done);
            is_of_part && carries && offset < bytes.end && bytes.start < offset.saturating_add(length)
        };
        let mut steps: Vec<(u32, &Step)> = (0..).zip(steps).filter(|step| moves(&step)).collect();
        steps.sort_by_key(|(_, step)| step.offset);
        let mut frames = Vec::new();
        for (index, step) in steps {
            let Some(size) = payload(step.length, step.extent) else { continue };
            let first = bytes.start.saturating_sub(step.offset) / size;
            let last = (bytes.end.min(step.offset + step.length) - 1 - step.offset) / size;
            let (Ok(first), Ok(last)) = (u32::try_from(first), u32::try_from(last)) else { continue };
            frames.extend(self.frames.range((index, first)..=(index, last)).map(|(_, frame)| *frame));
        }
        frames
    }

    /// The frames that carried these bytes of the call or the reply before reduction, in the order
    /// of the bytes.
    pub fn of_message(&self, transaction: &Transaction, of_reply: bool, bytes: Range<u64>) -> Vec<u64> {
        let mut frames = Vec::new();
        for extent in transaction.layout(of_reply) {
            let Source::Part(part, offset) = extent.source else { continue };
            let (from, to) = (extent.start.max(bytes.start), extent.end().min(bytes.end));
            if from < to {
                let offset = offset + (from - extent.start);
                frames.extend(self.of_part(transaction, of_reply, part, offset..offset + (to - from)));
            }
        }
        frames.dedup();
        frames
    }
}

/// The payload size of each packet of a message with this length and number of packets. All packets
/// but the last are as long as the path MTU (IBTA volume 1, section 9.7.2), so at most one path MTU
/// fits. `None` if none fits.
pub fn payload(length: u64, packets: u32) -> Option<u64> {
    let packets = u64::from(packets);
    match packets {
        0 => None,
        1 => Some(length.max(1)),
        _ => [256, 512, 1024, 2048, 4096].into_iter().find(|size| length.div_ceil(*size) == packets),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_capture_agent::Capture;
    use rdmascope_dissector::engine::{Config, Engine};
    use rdmascope_dissector::event::Event;
    use rdmascope_dissector::exchange::Keep;
    use rdmascope_tests::samples;
    use std::collections::HashMap;

    #[test]
    fn path_mtu_follows_from_length_and_packets() {
        assert_eq!(payload(40, 1), Some(40));
        assert_eq!(payload(0, 1), Some(1));
        assert_eq!(payload(1025, 2), Some(1024));
        assert_eq!(payload(4096, 4), Some(1024));
        assert_eq!(payload(4097, 2), Some(4096));
        assert_eq!(payload(1_000_000, 2), None);
        assert_eq!(payload(10, 0), None);
    }

    /// In every sample, the named frames contain the bytes that the engine put together.
    #[test]
    fn named_frames_contain_the_bytes() {
        let keep = Keep { steps: true, contents: true };
        let config = Config { keep, attribute: true, ..Config::default() };
        let (mut parts, mut messages, mut several) = (0, 0, 0);
        for name in samples::ALL {
            let path = samples::folder().join(format!("{name}.pcap"));
            let walk = |take: &mut dyn FnMut(Event<'_>), each: &mut dyn FnMut(u64, &[u8])| {
                let mut capture = Capture::open(&path).expect("the sample exists");
                let mut engine = Engine::new(config);
                while let Some(record) = capture.next().expect("it can be read") {
                    each(record.number, record.data);
                    engine.handle(&record, &mut |event| take(event));
                }
                engine.finish(&mut |event| take(event));
            };
            let mut transactions = HashMap::new();
            let mut frames = HashMap::new();
            walk(
                &mut |event| {
                    if let Event::Transaction(transaction) = event {
                        transactions.insert(transaction.begun, (transaction.clone(), Carriers::default()));
                    }
                },
                &mut |number, data| drop(frames.insert(number, data.to_vec())),
            );
            walk(
                &mut |event| {
                    if let Event::Attributed(attributed) = event
                        && let Some(Role::Part(of)) = attributed.role
                        && let Some((transaction, carriers)) = transactions.get_mut(&of.begun)
                    {
                        carriers.see(transaction, attributed);
                    }
                },
                &mut |_, _| {},
            );
            // Each window lies in one frame, or in two consecutive ones.
            let holds = |named: &[u64], window: &[u8], label: &str| {
                let data: Vec<&Vec<u8>> = named.iter().map(|number| &frames[number]).collect();
                let ends = |split: usize| {
                    let (one, other) = window.split_at(split);
                    let has = |data: &[u8], part: &[u8]| {
                        part.is_empty() || data.windows(part.len()).any(|found| found == part)
                    };
                    data.first().is_some_and(|data| has(data, one))
                        && data.last().is_some_and(|data| has(data, other))
                };
                let is_held = match named {
                    [_] => ends(window.len()),
                    [_, _] => (1..window.len()).any(ends),
                    _ => false,
                };
                assert!(is_held, "{name}: {label}: {named:?}");
            };
            for (transaction, carriers) in transactions.values() {
                let kept = transaction.exchange.as_ref().expect("exchanges are kept");
                for content in kept
                    .contents
                    .iter()
                    .filter(|content| content.captured.front() == content.bytes.len() as u64)
                {
                    for at in (0..content.bytes.len().saturating_sub(16)).step_by(1009) {
                        let range = at as u64..at as u64 + 16;
                        let named = carriers.of_part(transaction, content.of_reply, content.part, range);
                        holds(
                            &named,
                            &content.bytes[at..at + 16],
                            &format!("{} {:?} {at}", transaction.number, content.part),
                        );
                        parts += 1;
                        several += usize::from(named.len() > 1);
                    }
                }
                for of_reply in [false, true] {
                    let Some(message) = transaction.message(of_reply) else { continue };
                    if message.missing().next().is_some() {
                        continue;
                    }
                    for at in (0..message.bytes.len().saturating_sub(64)).step_by(2003) {
                        let range = at as u64..at as u64 + 4;
                        let named = carriers.of_message(transaction, of_reply, range);
                        holds(
                            &named,
                            &message.bytes[at..at + 4],
                            &format!("{} message {at}", transaction.number),
                        );
                        messages += 1;
                    }
                }
            }
        }
        assert!(parts > 10_000 && messages > 5_000 && several > 50, "{parts} {messages} {several}");
    }
}
