use super::*;
use rdmascope_dissector::transaction::ReadChunk;
use rdmascope_dissector::ulb::Procedure;
use rdmascope_tests::values::{self as samples, segment};
use rdmascope_wire::{Rkey, rpcrdma};

/// Every way of conveying a message, built from the RFC's descriptions, with the names that it
/// counts as.
#[test]
fn conveyances_are_counted_by_name() {
    let plain = || samples::transaction(Procedure { program: 100_003, version: 3, number: 7 }, 1, 10);
    let chunk = |length| Chunk { segments: vec![segment(1, length, 0)] };
    let read_chunk =
        |position| ReadChunk { position, segments: vec![segment(2, 100, 0), segment(3, 100, 0)] };
    let made = |change: &dyn Fn(&mut Transaction)| {
        let mut transaction = plain();
        change(&mut transaction);
        transaction
    };
    let nomsg = rpcrdma::Procedure::Nomsg;
    for (words, transaction) in [
        (vec!["inline-call", "inline-reply"], plain()),
        (
            vec!["inline-reply", "read-chunk"],
            made(&|one| one.call.as_mut().unwrap().read_chunks.push(read_chunk(148))),
        ),
        (
            vec!["inline-reply", "long-call"],
            made(&|one| {
                let call = one.call.as_mut().unwrap();
                call.procedure = nomsg;
                call.read_chunks.push(read_chunk(0));
            }),
        ),
        (
            vec!["inline-reply", "reduced-long-call"],
            made(&|one| {
                let call = one.call.as_mut().unwrap();
                call.procedure = nomsg;
                call.read_chunks.extend([read_chunk(0), read_chunk(148)]);
            }),
        ),
        (
            vec!["inline-call", "write-chunk"],
            made(&|one| {
                one.call.as_mut().unwrap().write_chunks.push(chunk(4096));
                one.reply.as_mut().unwrap().write_chunks.push(chunk(100));
            }),
        ),
        (
            // RFC 8166, section 3.4.6.1: an unused Write chunk is returned with zero in its
            // lengths.
            vec!["inline-call", "inline-reply", "unused-reply-chunk", "unused-write-chunk"],
            made(&|one| {
                let call = one.call.as_mut().unwrap();
                call.write_chunks.push(chunk(4096));
                call.reply_chunk = Some(chunk(4096));
                one.reply.as_mut().unwrap().write_chunks.push(chunk(0));
            }),
        ),
        (
            vec!["inline-call", "long-reply"],
            made(&|one| {
                one.call.as_mut().unwrap().reply_chunk = Some(chunk(4096));
                let reply = one.reply.as_mut().unwrap();
                reply.procedure = nomsg;
                reply.reply_chunk = Some(chunk(1000));
            }),
        ),
        (
            vec!["inline-call", "reduced-long-reply"],
            made(&|one| {
                let call = one.call.as_mut().unwrap();
                call.write_chunks.push(chunk(4096));
                call.reply_chunk = Some(chunk(4096));
                let reply = one.reply.as_mut().unwrap();
                reply.procedure = nomsg;
                reply.write_chunks.push(chunk(4096));
                reply.reply_chunk = Some(chunk(1000));
            }),
        ),
        (
            vec!["inline-call", "remote-invalidation", "responder-provided"],
            made(&|one| {
                let reply = one.reply.as_mut().unwrap();
                reply.procedure = nomsg;
                reply.read_chunks.push(read_chunk(0));
                reply.invalidated = Some(Rkey(1));
            }),
        ),
        (
            vec!["inline-call", "rdma-error"],
            made(&|one| one.reply.as_mut().unwrap().procedure = rpcrdma::Procedure::Error),
        ),
        (vec!["inline-call"], made(&|one| one.reply = None)),
        (vec!["inline-reply"], made(&|one| one.call = None)),
    ] {
        let mut counted = Conveyance::default();
        counted.count(&transaction);
        let ways = Way::ALL.into_iter().filter(|(way, ..)| counted.way(*way).0 == 1);
        let mut found: Vec<_> = ways.map(|(_, name, _)| name).collect();
        found.sort_unstable();
        assert_eq!(found, words, "{transaction:?}");
    }
}
