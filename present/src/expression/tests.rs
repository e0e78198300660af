use super::*;
use crate::columns::{CONNECTION, PACKET, TRANSACTION};
use proptest::prelude::*;
use rdmascope_analysis::paths::{Paths, TransactionRow};
use rdmascope_dissector::transaction::{Outcome, Transaction, User};
use rdmascope_tests::values::{self, START};

fn holds(text: &str, transaction: &Transaction) -> bool {
    let parsed = Where::parse(text, &TRANSACTION).unwrap_or_else(|mistake| panic!("{mistake}"));
    parsed.matches(TransactionRow::from(transaction), START)
}

/// A READ of 64 KiB that took 250 us, by a user.
fn read() -> Transaction {
    let mut read = values::read(5, 250);
    let machine = read.details.keep(b"node7");
    read.user = Some(User { machine, uid: 1000, gid: 100 });
    read
}

#[test]
fn true_expressions_match() {
    for text in [
        "op == READ",
        "op = read && latency > 249us",
        "operation == READ and latency_ns == 250us",
        "latency >= 250us && latency <= 250us && latency < 0.3ms",
        "bytes == 64KiB || bytes == 1",
        "bytes >= 65536 && bytes < 66kB || op == READ",
        "xid == 0x1a2b3c05 && connection == 1 && conn != 2",
        "status == OK && status == 0 && status == NFS3_OK && status != NOENT",
        "status_name == ok and status_name ~ 'NFS3_*'",
        "! (op == WRITE || failed) && not failed",
        "failed == false && capture_gap == no",
        "op in (WRITE, READ) && status in (0, 2)",
        "outcome == completed && direction == forward",
        "uid == 1000 && machine ~ 'node*' && machine == \"node7\" && machine !~ 'x*'",
        "client == 192.0.2.1 && server ~ '192.0.2.*'",
        "call.frame == 5 && call.credits > 0 && reply.frame > 5",
        "time >= 0 && time < 1 && time > 2020-01-01T00:00:00Z",
        "security == sys",
        // An absent value satisfies no comparison, and all negated ones.
        "file != '/a' && file !~ '*' && !(file == '/a') && error != 'ERR_CHUNK'",
    ] {
        assert!(holds(text, &read()), "{text}");
    }
}

#[test]
fn false_expressions_do_not_match() {
    for text in [
        "op == WRITE",
        "latency > 250us",
        "op == READ && bytes > 64KiB",
        "bytes > 64KiB || latency < 250us",
        "!(op == READ)",
        "file ~ '*' || gss_context > 0 || error ~ '*'",
        "machine == NODE7",
        "status == NOENT || status in (1, 2) || failed",
        "uid != 1000",
        "status == error || status == AUTH_ERROR || status in (RDMA_ERROR, ERR_CHUNK)",
    ] {
        assert!(!holds(text, &read()), "{text}");
    }
}

/// Like `--status`, the names include any error, the statuses of RPC, and RDMA_ERROR.
#[test]
fn status_matches_every_kind_of_error() {
    let refused = Transaction { status: Some(2), ..read() };
    assert!(holds("status == error && status == NOENT && status != AUTH_ERROR", &refused));
    let error = Some(rdmascope_wire::rpcrdma::Error::Chunk);
    let bad = Transaction { status: None, outcome: Outcome::TransportError, error, ..read() };
    assert!(holds("status == error && status == ERR_CHUNK && status == RDMA_ERROR", &bad));
    assert!(!holds("status == ERR_VERS", &bad));
    let rpc_status = Some(rdmascope_wire::rpc::Status::AuthError(13));
    let denied = Transaction { status: None, rpc_status, ..read() };
    assert!(holds("status == error && status == auth_error", &denied));
}

/// `&&` binds more tightly than `||`, and `!` more tightly than both.
#[test]
fn operators_have_precedence() {
    for (text, expected) in [
        ("op == READ || op == READ && op == WRITE", true),
        ("(op == READ || op == READ) && op == WRITE", false),
        ("! op == WRITE && op == READ", true),
        ("! op == WRITE || op == READ && op == WRITE", true),
        ("op == WRITE && op == READ || op == READ", true),
    ] {
        assert_eq!(holds(text, &read()), expected, "{text}");
    }
}

#[test]
fn files_match_path_patterns() {
    let mut transaction = read();
    let directory = transaction.details.keep(b"dir");
    let name = transaction.details.keep(b"a.dat");
    transaction.details.operations[0].file_handle = Some(directory);
    transaction.details.operations[0].file_name = Some(name);
    let mut paths = Paths::new();
    let row = TransactionRow::follow(&transaction, &mut paths);
    let holds = |text| Where::parse(text, &TRANSACTION).unwrap().matches(row, START);
    assert!(holds("file ~ '*.dat'") && holds("file == a.dat") && holds("file ~ a.*"));
    assert!(holds("operation_details.file_name == a.dat"));
    assert!(!holds("file ~ '/*.dat'") && !holds("file == dat"));
}

#[test]
fn mistakes_have_a_position() {
    for (text, part, at) in [
        ("", "the name of a field is expected", 0),
        ("op == ", "a value is expected", 6),
        ("op == RAED", "no operation is called RAED: did you mean READ", 6),
        ("latency > 5", "expected a number with a unit", 10),
        ("lateny > 5ms", "transaction lines have no field lateny: did you mean latency_ns", 0),
        ("op > READ", "operations is not a number", 5),
        ("op == READ latency > 5ms", "&& or || is expected before this", 11),
        ("(op == READ", "a ) is expected", 11),
        ("op == READ & latency > 5ms", "use && or ||", 11),
        ("op", "is expected after operations", 2),
        ("file ~ 'a[", "the quote is not closed", 7),
        ("file ~ 'a['", "invalid path pattern", 7),
        ("bytes ~ 5", "bytes is not text", 8),
        ("call == 5", "call has fields of its own", 0),
        ("op in READ", "values in parentheses are expected", 6),
        ("op in (READ; WRITE)", "no operation is called READ;", 7),
        ("op in (READ WRITE)", ", or ) is expected", 12),
        ("failed == maybe", "true or false is expected", 10),
        ("outcome == lost", "outcome is one of completed", 11),
        ("connection == two", "a number is expected", 14),
        ("time > yesterday", "RFC 3339", 7),
        ("é == 1", "transaction lines have no field é", 0),
    ] {
        let Err(mistake) = Where::parse(text, &TRANSACTION) else { panic!("{text} is read") };
        assert!(mistake.message.contains(part), "{text}: {mistake}");
        assert_eq!(mistake.at, at, "{text}: {mistake}");
        assert!(mistake.to_string().ends_with('^'));
    }
    let deep = format!("{}op == READ{}", "(".repeat(65), ")".repeat(65));
    assert_eq!(parse(&deep, &TRANSACTION).unwrap_err().message, "too deep");
    assert!(parse(&"!".repeat(5000), &TRANSACTION).unwrap_err().message.contains("4096 bytes"));
}

#[test]
fn the_caret_is_below_the_mistake() {
    let mistake = Where::parse("file ~ 'é' && lateny > 1ms", &TRANSACTION).err().unwrap();
    let lines: Vec<_> = mistake.to_string().lines().map(str::to_owned).collect();
    let column = lines[2].chars().position(|character| character == '^').unwrap();
    assert_eq!(lines[1].chars().skip(column).take(6).collect::<String>(), "lateny");
}

#[test]
fn fields_depend_on_the_line_type() {
    assert!(parse("opcode ~ 'RDMA READ*' && psn > 5", &PACKET).is_ok());
    assert!(parse("requester.address == 10.0.0.1 && state == closed", &CONNECTION).is_ok());
    assert!(parse("op == READ", &PACKET).is_err());
}

proptest! {
    /// Any text is an expression, or a mistake that can be shown.
    #[test]
    fn any_text_parses_or_is_a_mistake(text in "\\PC{0,60}") {
        if let Err(mistake) = parse(&text, &TRANSACTION) {
            prop_assert!(mistake.at <= text.len());
            prop_assert!(mistake.to_string().contains('^'));
        }
    }

    /// The same holds for texts made of the words of expressions.
    #[test]
    fn any_words_parse_or_are_a_mistake(words in proptest::collection::vec(
        prop_oneof!["op", "latency", "file", "==", "!=", "~", ">", "5ms", "READ", "&&", "\\|\\|", "!", "\\(", "\\)", "in", ",", "'a*'", "not", "and"], 0..30)) {
        let text = words.join(" ");
        match parse(&text, &TRANSACTION) {
            Ok(expression) => { expression.holds(START, |_| {}); }
            Err(mistake) => prop_assert!(text.is_char_boundary(mistake.at)),
        }
    }
}
