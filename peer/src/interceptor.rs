//! Faults of the network, made on purpose at one end of it: what this endpoint sends and receives can be dropped, repeated,
//! delayed and changed.

use crate::packet::{Datagram, Icrc};
use crate::random::Random;
use crate::time::Instant;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;
use rdmascope_wire::bth::{Bth, Opcode};
use rdmascope_wire::cm::Message;

/// Sees each datagram before it goes out, and before it is looked at.
///
/// What is to go on is handed to `forward`; what is not, is dropped. The same datagram may be handed on twice, later, or changed.
pub trait Interceptor: core::marker::Send {
    /// A datagram on its way out.
    fn transmit(&mut self, now: Instant, datagram: Datagram, forward: &mut Forward) {
        let _ = now;
        forward.pass(datagram);
    }

    /// A datagram that has come.
    fn receive(&mut self, now: Instant, datagram: Datagram, forward: &mut Forward) {
        let _ = now;
        forward.pass(datagram);
    }
}

/// What an [`Interceptor`] lets go on.
#[derive(Debug, Default)]
pub struct Forward {
    pub(crate) passed: Vec<(Option<Duration>, Datagram)>,
}

impl Forward {
    /// Goes on at once.
    pub fn pass(&mut self, datagram: Datagram) {
        self.passed.push((None, datagram));
    }

    /// Goes on after `delay`; what comes behind it overtakes it.
    pub fn delay(&mut self, delay: Duration, datagram: Datagram) {
        self.passed.push((Some(delay), datagram));
    }

    /// What was let go on: each datagram with its delay. For those who call an interceptor of their own.
    pub fn take(&mut self) -> Vec<(Option<Duration>, Datagram)> {
        core::mem::take(&mut self.passed)
    }
}

/// Which way a datagram goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Out.
    Transmit,
    /// In.
    Receive,
}

/// Which datagrams a [`Rule`] is about. What is `None` is not asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Matches {
    /// The way it goes.
    pub direction: Option<Direction>,
    /// The opcode of its BTH.
    pub opcode: Option<Opcode>,
    /// The attribute ID of the CM message that it carries: 0x0010 REQ … 0x0016 DREP.
    pub cm_attribute: Option<u16>,
    /// Of those that match so far, the first ones let by.
    pub skip: u32,
    /// Of those behind them, how many the rule takes; `None`: all.
    pub count: Option<u32>,
    /// Of those, in how many of a thousand it acts; `None`: all.
    pub per_mille: Option<u32>,
}

/// What is done with a datagram.
pub enum Effect {
    /// It is lost.
    Drop,
    /// It goes on twice, the second time after this delay.
    Duplicate(Duration),
    /// It goes on after this delay.
    Delay(Duration),
    /// It goes on with a wrong ICRC.
    BadIcrc,
    /// The byte at this offset from the first of the BTH (from the end where negative) is combined with the mask by
    /// exclusive or; the ICRC is right.
    Flip {
        /// Which byte.
        offset: isize,
        /// The bits to turn over.
        mask: u8,
    },
    /// It goes on as this function leaves it, with a right ICRC; where the function empties it, it is lost.
    Change(Change),
}

/// Changes the bytes of a transport packet.
pub type Change = Box<dyn FnMut(&mut Vec<u8>) + core::marker::Send>;

/// A condition and its effect.
pub struct Rule {
    /// When it applies.
    pub matches: Matches,
    /// What it does.
    pub effect: Effect,
    seen: u32,
    taken: u32,
}

impl Rule {
    /// A rule that has seen nothing yet.
    pub const fn new(matches: Matches, effect: Effect) -> Rule {
        Rule { matches, effect, seen: 0, taken: 0 }
    }

    /// How many datagrams it acted on.
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

/// The attribute ID of the CM message in a datagram.
pub fn cm_attribute(datagram: &Datagram) -> Option<u16> {
    if datagram.transport.first() != Some(&Opcode::UD_SEND_ONLY.0) {
        return None;
    }
    let mad = datagram.transport.get(Bth::LENGTH + 8..)?;
    Message::parse(mad).ok().map(|(header, _)| header.attribute)
}

/// Rules in order: the first that applies to a datagram acts on it.
pub struct Rules {
    rules: Vec<Rule>,
    random: Random,
}

impl Rules {
    /// The rules; `seed` decides where they act by chance.
    pub fn new(rules: Vec<Rule>, seed: u64) -> Rules {
        Rules { rules, random: Random::new(seed) }
    }

    /// The rules, with how often each acted.
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
