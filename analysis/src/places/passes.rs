//! When the packets of one transaction passed which place.

use crate::observer::Observer;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;

/// A packet at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pass {
    /// The place, as an index.
    pub place: usize,
    /// When it showed the packet.
    pub at: Time,
}

/// When some packets passed which place. By default none are looked for.
#[derive(Clone, Debug, Default)]
pub struct Passes {
    /// The place of each file.
    files: Vec<usize>,
    /// By the number of the record that shows the packet first.
    packets: HashMap<u64, Vec<Pass>, FixedState>,
}

impl Passes {
    /// Looks for packets, by the numbers of the records that show them first. Each file has a place.
    pub fn new(files: Vec<usize>, frames: impl IntoIterator<Item = u64>) -> Passes {
        Passes { files, packets: frames.into_iter().map(|frame| (frame, Vec::new())).collect() }
    }

    /// Where a packet passed, in the order of time.
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
