use super::*;
use crate::samples::{self, START};
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    filter: TransactionFilter,
}

fn wanted(line: &str, transaction: &Transaction) -> bool {
    let words = core::iter::once("x").chain(line.split_whitespace());
    Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}")).filter.matches(transaction, START)
}

#[test]
fn transactions_by_what_they_are() {
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
        "--operation rea",
        "--operation write",
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
fn transactions_by_how_they_failed() {
    let mut failed = samples::compound(&[(53, "SEQUENCE"), (15, "LOOKUP")], 2, 1, 10);
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
fn what_makes_no_sense_is_refused() {
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
    ] {
        let words = core::iter::once("x").chain(line.split_whitespace());
        assert!(Line::try_parse_from(words).is_err(), "{line}");
    }
}

#[test]
fn opcodes() {
    let named = OpcodeFilter::parse("read response").unwrap();
    assert!(named.matches(Opcode(0x0d)) && named.matches(Opcode(0x10)));
    assert!(!named.matches(Opcode::RC_READ_REQUEST) && !named.matches(Opcode(0xff)));
    let only = OpcodeFilter::parse("rc send only").unwrap();
    assert!(only.matches(Opcode(0x04)) && only.matches(Opcode(0x17)) && !only.matches(Opcode(0x64)));
    let number = OpcodeFilter::parse("0x81").unwrap();
    assert!(number.matches(Opcode::CNP) && !number.matches(Opcode(0x80)));
    assert!(OpcodeFilter::parse("cnp").unwrap().matches(Opcode::CNP));
    assert!(OpcodeFilter::parse("swim").is_err() && OpcodeFilter::parse("256").is_err());
}

#[test]
fn ranges_of_psns_wrap() {
    let range = PsnRange::parse("16777214-1").unwrap();
    for (psn, inside) in
        [(0xff_fffd, false), (0xff_fffe, true), (0xff_ffff, true), (0, true), (1, true), (2, false)]
    {
        assert_eq!(range.contains(Psn::new(psn)), inside, "{psn}");
    }
    let one = PsnRange::parse("7").unwrap();
    assert!(one.contains(Psn::new(7)) && !one.contains(Psn::new(8)) && !one.contains(Psn::new(6)));
    assert!(PsnRange::parse("0x1000000").is_err() && PsnRange::parse("1-").is_err());
}
