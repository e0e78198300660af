//! The end of a connection, and the reports about it.

use super::{Session, hand_up};
use crate::connection::{HostPairs, Route, State};
use crate::event::{Event, Report};
use crate::observation::{Ending, Missing, Observed};
use crate::rdma::End;
use crate::record::{Seen, Time};
use crate::rpcrdma::Transactions;

impl Session {
    /// Notes that a CM message closes the connection, or that both ends closed their TCP streams.
    /// Packets in flight may follow.
    pub(crate) fn close(&mut self, transactions: &mut Transactions, report: &mut Report<'_>) {
        transactions.number(&mut self.peers);
        self.note_dropped(transactions, report);
        if self.state != State::Closed && transactions.is_judged() {
            let complete = End::BOTH.map(|side| self.transport.complete(side));
            let route = |side: End| Route {
                source: self.ends[side].address,
                destination: self.ends[side.other()].address,
            };
            transactions.observe_outstanding(End::BOTH.map(route), complete, &self.peers, report);
        }
        self.closed_at.get_or_insert(transactions.now);
        match (self.tcp_ports, self.state) {
            (Some(_), _) => self.close_over_tcp(),
            (None, State::Rejected(_)) => {}
            (None, _) => self.state = State::Closed,
        }
        self.transport.forget_recent_requests();
    }

    /// Notes that another connection uses its queue pair. A rejected connection stays rejected.
    pub(crate) fn replaced(&mut self) {
        if self.state == State::Open || End::BOTH.into_iter().any(|end| self.packets(end) > 0) {
            self.state = State::Closed;
        }
    }

    /// By end: whether the capture has packets from its host to the other host. Packets of this end
    /// on this connection count even if `pairs` does not list its host. An end without packets does
    /// not count if the other end acknowledged some, or if all of its packets had a bad ICRC.
    pub(crate) fn captured_ends(&self, pairs: &HostPairs) -> [bool; 2] {
        End::BOTH.map(|side| {
            let (end, other) = (&self.ends[side], &self.ends[side.other()]);
            let is_left_out = || self.transport.count(side.other(), other.counts).has_answered();
            let may_be_silent = || end.counts.bad_icrc == 0 && !is_left_out();
            let is_seen = || pairs.holds(end.address, other.address, &other.contexts);
            end.counts.packets > 0 || (is_seen() && may_be_silent())
        })
    }

    /// Ends the connection: reports its open transactions, then itself. `captured` is
    /// [`Ending::captured`]. `over` is the end of the capture, if that ends the connection.
    pub(crate) fn end(
        mut self,
        captured: [bool; 2],
        over: Option<Time>,
        transactions: &mut Transactions,
        report: &mut Report<'_>,
    ) {
        transactions.number(&mut self.peers);
        self.note_dropped(transactions, report);
        self.note_half_flows(transactions);
        // Missing packets will not come any more, so held packets can be delivered.
        let Session { peers, transport, ends, .. } = &mut self;
        transport.finish(&mut |from, delivery| hand_up(from, &delivery, ends, peers, transactions, report));
        self.settle_early(None, transactions, report);
        self.note_used();
        let is_closed = self.state == State::Closed;
        let until = match is_closed {
            true => self.closed_at.unwrap_or(self.span.1.min(transactions.now)),
            false => over.unwrap_or(transactions.now),
        };
        if transactions.observes() {
            self.note_half_flows(transactions);
            self.observe_ending(captured, report);
        }
        let hidden = End::BOTH.map(|from| self.hidden(from));
        transactions.end_all((is_closed, until, captured, hidden), &mut self.peers, report);
        self.attribute_all(transactions, report);
        self.report_framed(report);
        report(Event::Connection(&self.summary()));
    }

    /// The packet that first acknowledged packets of an end after its last captured one.
    fn hidden(&self, from: End) -> Option<Seen> {
        self.transport.missing_at_the_end(from).filter(|missing| *missing > 0)?;
        self.transport.acknowledged(from).map(|(_, seen)| seen)
    }

    fn observe_ending(&self, captured: [bool; 2], report: &mut Report<'_>) {
        for from in End::BOTH {
            if let Some(packets @ 1..) = self.transport.missing_at_the_end(from) {
                let (packets, acknowledged) = (packets.unsigned_abs(), self.hidden(from));
                self.peers.observe(Observed::Missing(Missing { from, packets, acknowledged }), report);
            }
        }
        let complete = End::BOTH.map(|side| self.transport.complete(side));
        self.peers.observe(
            Observed::Ending(Ending { complete, captured, is_closed: self.state == State::Closed }),
            report,
        );
    }
}
