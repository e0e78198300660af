//! Calls without a Reply chunk whose reply may be longer than the inline threshold.
//!
//! A connection that uses Read chunks of the Responder needs no Reply chunks (reliable-reply draft,
//! section 5.3.1). The first reply in such a chunk shows that, so these calls are kept and judged
//! when the connection ends.

use super::lists::call;
use crate::check::{Findings, View};
use crate::finding::{Finding, Value};
use crate::known::{Known, Memory};
use alloc::format;
use alloc::vec::Vec;
use rdmascope_dissector::connection::Connection;
use rdmascope_dissector::transaction::{Direction, Transaction};
use rdmascope_wire::Xid;
use rdmascope_wire::rpcrdma::Procedure;

/// The calls of one connection that offer no chunk for a long reply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unoffered {
    calls: Vec<Call>,
    /// A reply was sent in a Read chunk of the Responder.
    is_pulled: bool,
}

#[derive(Clone, Debug)]
struct Call {
    direction: Direction,
    xid: Xid,
    number: u64,
    frames: [u64; 2],
    operation: &'static str,
    /// Bytes that it requests, and the inline threshold of its reply.
    count: u64,
    threshold: u32,
}

impl Unoffered {
    /// The most calls that are kept; further ones are not reported.
    const MOST: usize = 1024;
}

impl Memory for Unoffered {
    fn footprint(&self) -> usize {
        self.calls.len() * size_of::<Call>()
    }

    fn transaction(&mut self, transaction: &Transaction, known: &Known) {
        let reply = transaction.reply.as_ref().filter(|reply| reply.procedure == Procedure::Nomsg);
        self.is_pulled |= reply.is_some_and(|reply| !reply.read_chunks.is_empty());
        if self.is_pulled {
            self.calls.clear();
        } else if self.calls.len() < Unoffered::MOST {
            self.calls.extend(too_large_inline(transaction, known));
        }
    }

    fn joined(&mut self) {
        *self = Unoffered::default();
    }
}

/// A call with an operation whose result can exceed the inline threshold, and without chunks for
/// it.
fn too_large_inline(transaction: &Transaction, known: &Known) -> Option<Call> {
    let call = call(transaction)?;
    // The reply shows how the Responder sends long ones.
    if transaction.reply.is_none() || call.reply_chunk.is_some() || !call.write_chunks.is_empty() {
        return None;
    }
    let direction = transaction.direction;
    let threshold = known.inline_threshold(known.answerer(direction))?;
    transaction.details.operations.iter().find_map(|operation| {
        let count = operation.count.filter(|count| *count > threshold.into())?;
        let has_data = operation.kind.is_read() || operation.kind.is_readdir();
        has_data.then(|| Call {
            direction,
            xid: transaction.xid,
            number: transaction.number,
            frames: [call.first.frame, call.seen.frame],
            operation: operation.name(),
            count,
            threshold,
        })
    })
}

pub(super) fn needed(_: &Connection, view: &View<'_, Unoffered>, findings: &mut Findings<'_>) {
    for call in &view.memory.calls {
        let Call { direction, operation, count, threshold, .. } = *call;
        let message = format!(
            "a {operation} of up to {count} bytes without a chunk for its reply, where the inline \
                threshold is {threshold}"
        );
        let finding = Finding::new(message)
            .by(view.caller(direction))
            .about(Some(direction), call.xid)
            .frames(call.frames)
            .values(Value::Bytes(count), Value::Bytes(threshold.into()));
        findings.add(Finding { transaction: Some(call.number), ..finding });
    }
}
