//! The times at which selected packets passed each place.

use crate::observer::Observer;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;

/// A packet at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The index of the place.
    pub place: usize,
    /// The time of the packet at the place.
    pub at: Time,
}

/// The times of selected packets at each place. The default selects no packets.
#[derive(Clone, Debug, Default)]
pub struct Passes {
    /// The place of each file.
    files: Vec<usize>,
    /// By the number of the first record with the packet.
    packets: HashMap<u64, Vec<Pass>, FixedState>,
}

impl Passes {
    /// Selects packets by the numbers of their first records. `files` has the place of each file.
    pub fn new(files: Vec<usize>, frames: impl IntoIterator<Item = u64>) -> Passes {
        Passes { files, packets: frames.into_iter().map(|frame| (frame, Vec::new())).collect() }
    }

    /// The places that a packet passed, in order of time.
    pub fn of(&self, frame: u64) -> &[Pass] {
        self.packets.get(&frame).map_or(&[], Vec::as_slice)
    }
}

impl Observer for Passes {
    fn needs(&self) -> Config {
        Config { report_packets: true, ..Config::default() }
    }

    fn handle(&mut self, event: &Event<'_>) {
        let Event::Packet(packet) = event else { return };
        let number = packet.copy_of.map_or(packet.record.number, |first| first.frame);
        if let Some(passes) = self.packets.get_mut(&number)
            && let Some(&place) = self.files.get(packet.record.tap.file as usize)
            && passes.iter().all(|pass| pass.place != place)
        {
            passes.push(Pass { place, at: packet.record.time });
        }
    }
}
