//! Checks of the rules about memory.

use super::advertised::{AdvertisedMemory, Ender};
use crate::check::{self, Findings};
use crate::chunks;
use crate::finding::{Basis, Finding, Value};
use crate::judged::on_answer;
use crate::known::is_close;
use alloc::format;
use alloc::vec::Vec;
use rdmascope_dissector::observation::{Advertiser, Mismatch, Unmatched};
use rdmascope_dissector::record::REORDERING;
use rdmascope_dissector::transaction::{Outcome, Part, Transaction};
use rdmascope_dissector::ulb::{Operation, Place};
use rdmascope_wire::rpc;
use rdmascope_wire::rpcrdma::Segment;

type View<'a> = check::View<'a, AdvertisedMemory>;

/// The fault of an operation. `None` if the capture shows it after a Send that followed it: the
/// transaction of its memory may have been open when it was sent.
fn mismatch(unmatched: &Unmatched, view: &View<'_>) -> Option<Mismatch> {
    let is_late =
        view.memory.last(unmatched.from).is_some_and(|last| last.psn.distance(unmatched.position) <= 0);
    (!is_late).then_some(unmatched.mismatch)
}

/// A finding about an operation.
fn about(unmatched: &Unmatched, problem: &str) -> Finding {
    let name = if unmatched.reading { "an RDMA Read" } else { "an RDMA Write" };
    let (length, address) = (unmatched.memory.length, unmatched.memory.address);
    Finding::new(format!(
        "{name} of {length} bytes at 0x{address:016x}, handle {}: {problem}",
        unmatched.memory.rkey
    ))
    .by(unmatched.from)
    .frames([unmatched.seen.frame])
}

pub(super) fn unadvertised(unmatched: &Unmatched, view: &View<'_>, findings: &mut Findings<'_>) {
    if mismatch(unmatched, view) != Some(Mismatch::Unadvertised) {
        return;
    }
    let owner = unmatched.from.other();
    // Missing packets of the owner are not noticed before its first Send.
    let first = view.memory.senders[owner].first;
    let is_known = view.paired && first.is_some_and(|first| first.frame < unmatched.seen.frame);
    if !is_known || view.memory.former(owner, unmatched.memory.rkey, unmatched.address).is_some() {
        return;
    }
    let lacks = !view.is_fully_captured(owner) || view.memory.senders[owner].blind;
    findings.add(
        about(unmatched, "no open transaction advertised it")
            .observed(Value::Hexadecimal(unmatched.memory.rkey.0.into()))
            .rests_on(Basis::Silence(owner))
            .unless(lacks),
    );
}

/// Whether the transaction may have ended, or may not be the intended one.
fn is_doubtful(unmatched: &Unmatched, advertiser: Advertiser, view: &View<'_>) -> bool {
    let owner = unmatched.from.other();
    view.losses(unmatched.from) > 0
        || view.losses(owner) > 0
        || view.memory.senders[owner].blind
        || view.memory.is_shared(owner, advertiser.xid)
}

pub(super) fn past_end(unmatched: &Unmatched, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(Mismatch::PastEnd(advertiser)) = mismatch(unmatched, view) else { return };
    let inside = unmatched.address.wrapping_sub(unmatched.memory.address);
    findings.add(
        about(unmatched, &format!("the memory that was advertised ends after {inside} of them"))
            .about(Some(view.direction(advertiser.caller)), advertiser.xid)
            .values(Value::Bytes(unmatched.memory.length.into()), Value::Bytes(inside))
            .rests_on(Basis::Silence(unmatched.from.other()))
            .unless(is_doubtful(unmatched, advertiser, view)),
    );
}

pub(super) fn other_way(unmatched: &Unmatched, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(Mismatch::OtherWay(advertiser)) = mismatch(unmatched, view) else { return };
    let problem = if unmatched.reading {
        "it was advertised for writing"
    } else {
        "it was advertised \
        for reading"
    };
    let [read, write] = ["RDMA Read", "RDMA Write"];
    let (observed, allowed) = if unmatched.reading { (read, write) } else { (write, read) };
    findings.add(
        about(unmatched, problem)
            .about(Some(view.direction(advertiser.caller)), advertiser.xid)
            .values(Value::Name(observed), Value::Name(allowed))
            .rests_on(Basis::Silence(unmatched.from.other()))
            .unless(is_doubtful(unmatched, advertiser, view)),
    );
}

pub(super) fn after_reply(unmatched: &Unmatched, view: &View<'_>, findings: &mut Findings<'_>) {
    after(unmatched, view, Ender::Reply, "the transaction ended with the reply", findings);
}

pub(super) fn after_done(unmatched: &Unmatched, view: &View<'_>, findings: &mut Findings<'_>) {
    after(unmatched, view, Ender::Done, "the transaction ended with RDMA_DONE", findings);
}

fn after(unmatched: &Unmatched, view: &View<'_>, by: Ender, problem: &str, findings: &mut Findings<'_>) {
    if mismatch(unmatched, view) != Some(Mismatch::Unadvertised) {
        return;
    }
    let owner = unmatched.from.other();
    let former = view.memory.former(owner, unmatched.memory.rkey, unmatched.address);
    let Some(ended) = former.filter(|ended| ended.by == by) else { return };
    let Some(end) = ended.seen else { return };
    let finding = Finding { transaction: Some(ended.number), ..about(unmatched, problem) };
    // The capture shows it before the end of that transaction, so it may also show it before its
    // own call.
    let overtook = unmatched.seen.frame < end.frame;
    findings.add(
        finding
            .about(Some(ended.direction), ended.xid)
            .frames([end.frame])
            .rests_on(Basis::Silence(owner))
            .unless(
                overtook || view.memory.may_lack_since(view, owner, end) || view.memory.senders[owner].blind,
            ),
    );
}

pub(super) fn after_invalidation(unmatched: &Unmatched, view: &View<'_>, findings: &mut Findings<'_>) {
    let Some(Mismatch::Invalidated(revoked)) = mismatch(unmatched, view) else { return };
    let lacks = is_close(revoked.since, revoked.seen) || is_doubtful(unmatched, revoked.advertiser, view);
    findings.add(
        about(unmatched, "its handle had been invalidated")
            .about(Some(view.direction(revoked.advertiser.caller)), revoked.advertiser.xid)
            .frames([revoked.seen.frame, revoked.since.frame])
            .rests_on(Basis::Silence(unmatched.from.other()))
            .unless(lacks),
    );
}

pub(super) fn unwritten(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    let (Some(call), Some(reply)) = (&transaction.call, &transaction.reply) else { return };
    let of_chunks = |part: Part| matches!(part, Part::WriteChunk(_) | Part::ReplyChunk);
    let missing = reply.missing.iter().filter(|missing| of_chunks(missing.part));
    let is_unknown = transaction.memory_unseen || transaction.outcome != Outcome::Completed;
    if missing.clone().next().is_none() || is_unknown {
        return;
    }
    // Other rules report chunks that are returned in another way than they were offered.
    if !chunks::write::returns_as_offered(call, reply) {
        return;
    }
    let bytes: u64 =
        missing.clone().map(|missing| missing.end.unwrap_or(missing.start) - missing.start).sum();
    let claimed: u64 = chunks::writable(reply).map(|chunk| Segment::total(&chunk.segments)).sum();
    let provided = chunks::writable(call).flat_map(|chunk| &chunk.segments);
    let mut provided: Vec<&Segment> = provided.filter(|segment| segment.length > 0).collect();
    provided.sort_unstable_by_key(|segment| (segment.handle, segment.offset));
    let overlaps = provided.windows(2).any(|pair| {
        let (first, second) = (pair[0], pair[1]);
        first.handle == second.handle && second.offset - first.offset < u64::from(first.length)
    });
    let (caller, answerer) = (view.caller(transaction.direction), view.answerer(transaction.direction));
    if view.unmatched.is_reused(caller, transaction.xid)
        || view.memory.is_explained_by_unmatched(view, transaction, false, bytes)
    {
        return;
    }
    // If the capture shows an operation outside of advertised memory before the call, it may have
    // been meant for this segment.
    let unmatched = view.memory.senders[answerer].last_unmatched;
    let lacks = view.memory.may_lack(view, answerer, transaction)
        || call.stop.is_some()
        || unmatched.is_some_and(|unmatched| call.first.time.since(unmatched.seen.time) <= REORDERING.0)
        || overlaps
        || view.memory.is_shared(caller, transaction.xid);
    let place = if missing.clone().all(|missing| missing.part == Part::ReplyChunk) {
        "the Reply chunk"
    } else {
        "its chunks"
    };
    let message = format!(
        "the reply returns {claimed} bytes in {place}, but {bytes} of them were not \
            written"
    );
    findings.add(
        on_answer(transaction, view, message)
            .values(Value::Bytes(claimed - bytes.min(claimed)), Value::Bytes(claimed))
            .unless(lacks),
    );
}

pub(super) fn unread(transaction: &Transaction, view: &View<'_>, findings: &mut Findings<'_>) {
    /// The most roundup padding of a chunk.
    const PADDING: u64 = 3;
    let (Some(call), Some(_)) = (&transaction.call, &transaction.reply) else { return };
    let succeeded = transaction.rpc_status == Some(rpc::Status::Success) && transaction.status == Some(0);
    if transaction.memory_unseen
        || call.read_chunks.is_empty()
        || !succeeded
        || transaction.outcome != Outcome::Completed
    {
        return;
    }
    let length = chunks::read_bytes(call).saturating_sub(unwritten_arguments(transaction));
    let requested = transaction.timing.requested_bytes;
    if requested + PADDING * call.read_chunks.len() as u64 >= length {
        return;
    }
    let (caller, answerer) = (view.caller(transaction.direction), view.answerer(transaction.direction));
    // read-chunk-length reports a chunk that is longer than its item.
    if view.unmatched.is_reused(caller, transaction.xid)
        || view.memory.is_explained_by_unmatched(view, transaction, true, length - requested)
        || !chunks::read::has_own_lengths(transaction, call)
    {
        return;
    }
    let lacks = view.memory.may_lack(view, answerer, transaction)
        || call.stop.is_some()
        || view.memory.is_shared(caller, transaction.xid);
    let message = format!(
        "success, but only {requested} of {length} bytes in Read chunks were \
            requested"
    );
    findings.add(
        on_answer(transaction, view, message)
            .values(Value::Bytes(requested), Value::Bytes(length))
            .unless(lacks),
    );
}

/// Bytes of the arguments that the Responder had no need for: a WRITE may write fewer bytes than it
/// was asked to, and its result has their number (RFC 1813, section 3.3.7; RFC 8881, section 18.32).
fn unwritten_arguments(transaction: &Transaction) -> u64 {
    let unwritten = |operation: &Operation| {
        let item = operation.argument_item.filter(|item| matches!(item.place, Place::ReadChunk(_)))?;
        Some(u64::from(item.length).saturating_sub(operation.result_count?))
    };
    transaction.details.operations.iter().filter_map(unwritten).sum()
}
