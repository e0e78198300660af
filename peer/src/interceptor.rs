//! Injected network faults: drops, duplicates, delays and changes packets that an endpoint sends or
//! receives.

use crate::packet::{Datagram, Icrc};
use crate::random::Random;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use rdmascope_wire::bth::{Bth, Opcode};
use rdmascope_wire::cm::Message;

/// Handles each datagram before it is sent, and before a received one is processed.
///
/// Datagrams passed to `forward` continue, and all others are dropped. An implementation may pass a
/// datagram twice, delayed or changed.
pub trait Interceptor: core::marker::Send {
    /// Handles a datagram to send.
    fn transmit(&mut self, now: Instant, datagram: Datagram, forward: &mut Forward) {
        let _ = now;
        forward.pass(datagram);
    }

    /// Handles a received datagram.
    fn receive(&mut self, now: Instant, datagram: Datagram, forward: &mut Forward) {
        let _ = now;
        forward.pass(datagram);
    }
}

/// The datagrams that an [`Interceptor`] passes.
#[derive(Debug, Default)]
pub struct Forward {
    pub(crate) passed: Vec<(Option<Duration>, Datagram)>,
}

impl Forward {
    /// Passes a datagram immediately.
    pub fn pass(&mut self, datagram: Datagram) {
        self.passed.push((None, datagram));
    }

    /// Passes a datagram after `delay`. Later datagrams overtake it.
    pub fn delay(&mut self, delay: Duration, datagram: Datagram) {
        self.passed.push((Some(delay), datagram));
    }
}

/// The direction of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Sent.
    Transmit,
    /// Received.
    Receive,
}

/// The condition of a [`Rule`]. `None` matches anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// The direction.
    pub direction: Option<Direction>,
    /// The opcode of its BTH.
    pub opcode: Option<Opcode>,
    /// The attribute ID of the CM message that it carries: 0x0010 REQ … 0x0016 DREP.
    pub cm_attribute: Option<u16>,
    /// Number of matching datagrams to skip first.
    pub skip: u32,
    /// Number of datagrams to act on after those; `None`: all.
    pub count: Option<u32>,
    /// How many of a thousand datagrams to act on, at random; `None`: all.
    pub per_mille: Option<u32>,
}

/// The effect on a datagram.
pub enum Effect {
    /// The datagram is lost.
    Drop,
    /// The datagram is sent twice, the second time after this delay.
    Duplicate(Duration),
    /// The datagram is delayed.
    Delay(Duration),
    /// The datagram gets a bad ICRC.
    BadIcrc,
    /// The byte at this offset from the start of the BTH (from the end if negative) is XORed with
    /// the mask. The ICRC is correct.
    Flip {
        /// The offset of the byte.
        offset: isize,
        /// The bits to invert.
        mask: u8,
    },
    /// The function changes the datagram, which gets a correct ICRC. An empty one is lost.
    Change(Change),
}

/// Changes the bytes of a transport packet.
pub type Change = Box<dyn FnMut(&mut Vec<u8>) + core::marker::Send>;

/// A condition and its effect.
pub struct Rule {
    /// The condition.
    pub matches: Matches,
    /// The effect.
    pub effect: Effect,
    seen: u32,
    taken: u32,
}

impl Rule {
    /// Creates a rule.
    pub const fn new(matches: Matches, effect: Effect) -> Rule {
        Rule { matches, effect, seen: 0, taken: 0 }
    }

    /// Returns the number of datagrams that it acted on.
    pub const fn taken(&self) -> u32 {
        self.taken
    }

    fn applies(&mut self, direction: Direction, datagram: &Datagram, random: &mut Random) -> bool {
        let wanted = &self.matches;
        let opcode = datagram.transport.first().copied().unwrap_or_default();
        if wanted.direction.is_some_and(|wanted| wanted != direction)
            || wanted.opcode.is_some_and(|wanted| wanted.0 != opcode)
            || wanted.cm_attribute.is_some_and(|wanted| cm_attribute(datagram) != Some(wanted))
        {
            return false;
        }
        self.seen = self.seen.saturating_add(1);
        if self.seen <= wanted.skip
            || wanted.count.is_some_and(|count| self.taken >= count)
            || wanted.per_mille.is_some_and(|per_mille| !random.chance(per_mille))
        {
            return false;
        }
        self.taken = self.taken.saturating_add(1);
        true
    }
}

/// Returns the attribute ID of the CM message in a datagram.
pub fn cm_attribute(datagram: &Datagram) -> Option<u16> {
    if datagram.transport.first() != Some(&Opcode::UD_SEND_ONLY.0) {
        return None;
    }
    let mad = datagram.transport.get(Bth::LENGTH + 8..)?;
    Message::parse(mad).ok().map(|(header, _)| header.attribute)
}

/// Rules in order. The first one that applies to a datagram acts on it.
pub struct Rules {
    rules: Vec<Rule>,
    random: Random,
}

impl Rules {
    /// Creates rules. `seed` determines the random choices.
    pub fn new(rules: Vec<Rule>, seed: u64) -> Rules {
        Rules { rules, random: Random::new(seed) }
    }

    /// Returns the rules with their counts.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    fn act(&mut self, direction: Direction, mut datagram: Datagram, forward: &mut Forward) {
        let random = &mut self.random;
        let rule = self
            .rules
            .iter_mut()
            .find_map(|rule| rule.applies(direction, &datagram, random).then_some(&mut rule.effect));
        match rule {
            None => forward.pass(datagram),
            Some(Effect::Drop) => {}
            Some(Effect::Duplicate(delay)) => {
                forward.pass(datagram.clone());
                forward.delay(*delay, datagram);
            }
            Some(Effect::Delay(delay)) => forward.delay(*delay, datagram),
            Some(Effect::BadIcrc) => forward.pass(Datagram { icrc: Icrc::Bad, ..datagram }),
            Some(Effect::Flip { offset, mask }) => {
                let length = datagram.transport.len();
                let at =
                    if *offset < 0 { length.checked_add_signed(*offset) } else { Some(*offset as usize) };
                if let Some(byte) = at.and_then(|at| datagram.transport.get_mut(at)) {
                    *byte ^= *mask;
                }
                forward.pass(datagram);
            }
            Some(Effect::Change(change)) => {
                change(&mut datagram.transport);
                if !datagram.transport.is_empty() {
                    forward.pass(datagram);
                }
            }
        }
    }
}

impl Interceptor for Rules {
    fn transmit(&mut self, _: Instant, datagram: Datagram, forward: &mut Forward) {
        self.act(Direction::Transmit, datagram, forward);
    }

    fn receive(&mut self, _: Instant, datagram: Datagram, forward: &mut Forward) {
        self.act(Direction::Receive, datagram, forward);
    }
}
