//! The networks in which an end of a connection sends.

/// The [contexts](crate::frame::Frame::context) of the packets of an end. A capture at several
/// points may show one connection in several.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Contexts([Option<u32>; Contexts::MOST]);

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

    /// Notes that the end sends in this context.
    pub(crate) fn note(&mut self, context: u32) {
        if !self.has(context)
            && let Some(free) = self.0.iter_mut().find(|known| known.is_none())
        {
            *free = Some(context);
        }
    }

    /// Whether two ends send in different contexts.
    pub(crate) fn is_apart(&self, other: &Contexts) -> bool {
        !self.is_empty() && !other.is_empty() && !other.0.iter().flatten().any(|context| self.has(*context))
    }

    fn is_full(&self) -> bool {
        self.0[Contexts::MOST - 1].is_some()
    }
}
