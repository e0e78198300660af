//! The networks in which the ends of connections send.

use alloc::vec::Vec;

/// The [contexts](crate::frame::Frame::context) of the packets of an end. A capture at several
/// points may show one connection in several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Contexts([Option<u32>; Contexts::MOST]);

impl Contexts {
    /// From this number on, contexts distinguish nothing.
    const MOST: usize = 4;

    /// Whether this is the first context of the end.
    #[inline]
    pub(crate) fn begins_with(&self, context: u32) -> bool {
        self.0[0] == Some(context)
    }

    /// Whether no packet of the end was seen.
    pub(crate) fn is_empty(&self) -> bool {
        self.0[0].is_none()
    }

    /// Whether the end sends in this context.
    pub(crate) fn has(&self, context: u32) -> bool {
        self.is_full() || self.0.contains(&Some(context))
    }

    /// Whether the end sends in more than one context.
    pub(crate) fn is_several(&self) -> bool {
        self.0[1].is_some()
    }

    /// Notes that the end sends in all these contexts.
    pub(crate) fn note_all(&mut self, contexts: &Contexts) {
        contexts.0.into_iter().flatten().for_each(|context| self.note(context));
    }

    /// Notes that the end sends in this context.
    pub(crate) fn note(&mut self, context: u32) {
        if !self.has(context)
            && let Some(free) = self.0.iter_mut().find(|known| known.is_none())
        {
            *free = Some(context);
        }
    }

    /// Whether two ends send in different contexts.
    pub fn is_apart(&self, other: &Contexts) -> bool {
        let is_shared = |context: &u32| self.has(*context);
        !self.is_empty() && !other.is_empty() && !other.is_full() && !other.0.iter().flatten().any(is_shared)
    }

    fn is_full(&self) -> bool {
        self.0[Contexts::MOST - 1].is_some()
    }
}

impl From<u32> for Contexts {
    fn from(context: u32) -> Contexts {
        let mut contexts = Contexts::default();
        contexts.note(context);
        contexts
    }
}

/// The networks of connections with equal addresses.
///
/// Two connections are in different networks if the contexts of an end differ, and no other
/// connection was seen in both.
#[derive(Clone, Debug, Default)]
pub struct Networks(Vec<[Contexts; 2]>);

impl Networks {
    /// Networks that are distinguished. Connections of further networks are in the last one.
    const MOST: usize = 64;

    /// The number of the network of a connection, by the contexts of both ends, requester first. The
    /// number is final if all connections were noted before.
    pub fn note(&mut self, ends: [Contexts; 2]) -> u32 {
        let is_apart = |[one, other]: &[Contexts; 2]| one.is_apart(&ends[0]) || other.is_apart(&ends[1]);
        let found = self.0.iter().position(|known| !is_apart(known));
        let at = found.unwrap_or(self.0.len()).min(Networks::MOST - 1);
        if at == self.0.len() {
            self.0.push(ends);
        }
        for (known, new) in self.0[at].iter_mut().zip(ends) {
            known.note_all(&new);
        }
        at as u32
    }

    /// Bytes of memory on the heap.
    pub fn footprint(&self) -> usize {
        self.0.len() * size_of::<[Contexts; 2]>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contexts(of: &[u32]) -> Contexts {
        let mut contexts = Contexts::default();
        of.iter().for_each(|context| contexts.note(*context));
        contexts
    }

    #[test]
    fn a_connection_in_both_contexts_joins_two_networks() {
        let [one, other, both] = [&[10][..], &[20], &[10, 20]].map(|of| [contexts(of); 2]);
        let mut networks = Networks::default();
        assert_eq!([one, other, one, other].map(|ends| networks.note(ends)), [0, 1, 0, 1]);
        assert_eq!([both, other, one].map(|ends| networks.note(ends)), [0, 0, 0]);
    }

    #[test]
    fn an_end_without_packets_distinguishes_no_networks() {
        let mut networks = Networks::default();
        let none = Contexts::default();
        assert_eq!(networks.note([contexts(&[10]), none]), 0);
        assert_eq!(networks.note([contexts(&[10]), contexts(&[30])]), 0);
        assert_eq!(networks.note([none, contexts(&[40])]), 1);
        // The same from five contexts on.
        assert_eq!(networks.note([contexts(&[10]), contexts(&[31])]), 2);
        assert_eq!(networks.note([contexts(&[1, 2, 3, 4, 5]), none]), 0);
    }

    #[test]
    fn the_number_of_networks_is_bounded() {
        let mut networks = Networks::default();
        let last = (0..1000).map(|context| networks.note([contexts(&[context]); 2])).last();
        assert_eq!(last, Some(63));
        assert!(networks.footprint() <= 64 * size_of::<[Contexts; 2]>());
    }
}
