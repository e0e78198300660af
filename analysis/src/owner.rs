//! The transaction that a packet belongs to.

use crate::observer::Observer;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;

/// Finds the transaction that a packet belongs to, from the events of an engine with
/// [attribution](rdmascope_dissector::engine::Config::attribute).
#[derive(Clone, Debug)]
pub struct Owner {
    frame: u64,
    begun: Option<u64>,
    /// The numbers of the ended transactions, indexed by the order in which they began.
    numbers: Vec<u64>,
}

impl Owner {
    /// An owner search for the packet with this number.
    pub fn of(frame: u64) -> Owner {
        Owner { frame, begun: None, numbers: Vec::new() }
    }

    /// The transaction's number, once the capture has ended.
    pub fn transaction(&self) -> Option<u64> {
        self.numbers.get(self.begun? as usize - 1).copied()
    }
}

impl Observer for Owner {
    fn needs(&self) -> Config {
        Config { attribute: true, ..Config::default() }
    }

    fn handle(&mut self, event: &Event<'_>) {
        match event {
            Event::Attributed(attributed) if attributed.seen.frame == self.frame => {
                self.begun = attributed.role.map(|role| role.of().begun);
            }
            Event::Transaction(transaction) => {
                let index = transaction.begun as usize - 1;
                self.numbers.resize(self.numbers.len().max(index + 1), 0);
                self.numbers[index] = transaction.number;
            }
            _ => {}
        }
    }
}
