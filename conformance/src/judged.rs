//! Accessors of rules on a Send reported by the engine.

use super::finding::Finding;
use super::known::Known;
use alloc::string::String;
use rdmascope_dissector::observation::Kind;
use rdmascope_dissector::observation::Sent;
use rdmascope_dissector::transaction::Direction;
use rdmascope_wire::Xid;

/// A Send as rules read it.
pub(crate) trait Judged {
    /// rdma_xid; `None` if the Send is too short to have one.
    fn xid(&self) -> Option<Xid>;

    /// The direction of its transaction; `None` if unknown.
    fn direction(&self, known: &Known) -> Option<Direction>;

    /// rdma_credit of a call: the credits requested.
    fn request(&self) -> Option<u32>;

    /// rdma_credit of a reply or an RDMA_ERROR: the credits granted.
    fn grant(&self) -> Option<u32>;

    /// A finding against its sender, with its packets as evidence.
    fn finding(&self, known: &Known, message: String) -> Finding;
}

impl Judged for Sent<'_> {
    fn xid(&self) -> Option<Xid> {
        self.header.map(|header| header.xid)
    }

    fn direction(&self, known: &Known) -> Option<Direction> {
        match self.kind {
            Kind::Call | Kind::Done => Some(known.direction(self.from)),
            Kind::Reply | Kind::Error => Some(known.direction(self.from.other())),
            Kind::Other => None,
        }
    }

    fn request(&self) -> Option<u32> {
        self.header.filter(|_| self.is_explicit && self.kind == Kind::Call).map(|header| header.credits)
    }

    fn grant(&self) -> Option<u32> {
        let answers = matches!(self.kind, Kind::Reply | Kind::Error);
        self.header.filter(|_| self.is_explicit && answers).map(|header| header.credits)
    }

    fn finding(&self, known: &Known, message: String) -> Finding {
        Finding::new(message).by(self.from).about(self.direction(known), self.xid()).send(self.send)
    }
}
