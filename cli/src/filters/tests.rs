use super::*;
use clap::Parser;
use rdmascope_analysis::paths::TransactionRow;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_dissector::ulb::Nfs4;
use rdmascope_tests::values::{self as samples, START};
use rdmascope_wire::{rpc, rpcrdma};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    arguments: TransactionArguments,
}

fn wanted(line: &str, transaction: &Transaction) -> bool {
    let words = core::iter::once("x").chain(line.split_whitespace());
    let line = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
    line.arguments.filter().matches(&TransactionRow::from(transaction), START)
}

#[test]
fn filters_match_transaction_fields() {
    let read = samples::read(5, 250);
    let full = samples::full();
    for line in [
        "",
        "--connection 1",
        "--connection 7 --connection 1",
        "--xid 0x1a2b3c05",
        "--xid 439041029",
        "--operation read",
        "--operation write --operation Read",
        "--direction forward --outcome completed",
        "--latency-above 249us",
        "--since 0.05 --until 0.050001",
        "--since 2025-11-21T09:30:00Z",
        "--status ok",
        "--status NFS3_OK",
        "--status 0",
    ] {
        assert!(wanted(line, &read), "{line}");
    }
    for line in [
        "--connection 2",
        "--xid 0x1a2b3c06",
        "--operation write,getacl",
        "--direction backward",
        "--outcome no-reply --outcome cut-off",
        "--latency-above 250us",
        "--until 0.05",
        "--since 0.050001",
        "--status error",
        "--status noent",
        "--status 2",
        "--operation read --xid 1",
    ] {
        assert!(!wanted(line, &read), "{line}");
    }
    assert!(wanted("--operation compound", &full));
    assert!(wanted("--operation putfh", &full));
}

#[test]
fn status_filter_matches_failures() {
    let mut failed = samples::compound(&[Nfs4::Sequence, Nfs4::Lookup], 2, 1, 10);
    for line in ["--status error", "--status 2", "--status 0x2", "--status NFS4ERR_NOENT", "--status noent"] {
        assert!(wanted(line, &failed), "{line}");
    }
    assert!(!wanted("--status ok", &failed));

    failed.status = None;
    failed.rpc_status = Some(rpc::Status::GarbageArguments);
    assert!(wanted("--status garbage_args", &failed));
    assert!(wanted("--status error", &failed));

    failed.rpc_status = None;
    failed.outcome = Outcome::TransportError;
    failed.error = Some(rpcrdma::Error::Chunk);
    assert!(wanted("--status err_chunk --outcome transport-error", &failed));
    assert!(wanted("--status rdma_error", &failed));
    assert!(!wanted("--status noent", &failed));
}

#[test]
fn invalid_options_are_refused() {
    for line in [
        "--xid 0x",
        "--xid 0x123456789",
        "--xid -1",
        "--latency-above 5",
        "--since noon",
        "--status 99999999999",
        "--outcome lost",
        "--direction up",
        "--connection one",
        // Unknown operation and status names.
        "--operation rea",
        "--status noentt",
    ] {
        let words = core::iter::once("x").chain(line.split_whitespace());
        assert!(Line::try_parse_from(words).is_err(), "{line}");
    }
}
