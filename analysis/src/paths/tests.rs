use super::*;
use proptest::prelude::*;
use rdmascope_dissector::connection::Route;
use rdmascope_dissector::ulb::Procedure;
use rdmascope_tests::values;

/// A COMPOUND of these operations: `PUTFH=h`, `LOOKUP:name`, `GETFH>h`, `RENAME:old:new`, `READ`. A
/// `!` marks an operation that fails.
fn compound(line: &str) -> Transaction {
    let mut transaction = values::transaction(Procedure { program: 100_003, version: 4, number: 1 }, 1, 1);
    for word in line.split(' ') {
        let (word, status) = match word.strip_suffix('!') {
            Some(word) => (word, 2),
            None => (word, 0),
        };
        let name = word.split(['=', ':', '>']).next().unwrap();
        let kind = Nfs4::ALL.iter().find(|kind| OperationKind::from(**kind).name() == name);
        let mut operation = Operation::new((*kind.unwrap_or_else(|| panic!("{name}"))).into());
        operation.status = Some(status);
        let details = &mut transaction.details;
        if let Some((_, handle)) = word.split_once('=') {
            operation.file_handle = Some(details.keep(handle.as_bytes()));
        }
        if let Some((_, handle)) = word.split_once('>') {
            operation.result_file_handle = Some(details.keep(handle.as_bytes()));
        }
        let mut names = word.split(':').skip(1);
        operation.file_name = names.next().map(|name| details.keep(name.as_bytes()));
        operation.other_name = names.next().map(|name| details.keep(name.as_bytes()));
        details.operations.push(operation);
    }
    transaction
}

fn text(known: bool, path: &[u8]) -> String {
    if known { String::from_utf8_lossy(path).into_owned() } else { "?".to_owned() }
}

/// Takes the transaction, and returns the files of its last operation, separated by a space if
/// there are two.
fn last(paths: &mut Paths, transaction: &Transaction) -> String {
    paths.take(transaction);
    let index = transaction.details.operations.len() - 1;
    let mut path = Vec::new();
    let known = paths.file(transaction, index, &mut path);
    let file = text(known, &path);
    match paths.other_file(transaction, index, &mut path) {
        true => format!("{file} {}", text(true, &path)),
        false => file,
    }
}

fn follow(paths: &mut Paths, line: &str) -> String {
    last(paths, &compound(line))
}

#[test]
fn paths_start_at_the_root() {
    let mut paths = Paths::new();
    assert_eq!(follow(&mut paths, "PUTROOTFH GETFH>root"), "/");
    assert_eq!(follow(&mut paths, "PUTROOTFH LOOKUP:export LOOKUP:home GETFH>home"), "/export/home");
    assert_eq!(follow(&mut paths, "PUTFH=home LOOKUP:a GETFH>a"), "/export/home/a");
    assert_eq!(follow(&mut paths, "PUTFH=a READ"), "/export/home/a");
    assert_eq!(follow(&mut paths, "PUTFH=home OPEN:b GETFH>b"), "/export/home/b");
    assert_eq!(follow(&mut paths, "PUTFH=home CREATE:dir GETFH>dir"), "/export/home/dir");
    assert_eq!(follow(&mut paths, "PUTFH=dir LOOKUPP GETATTR"), "/export/home");
    assert_eq!(follow(&mut paths, "PUTFH=root LOOKUP:etc!"), "/etc");
    assert_eq!(follow(&mut paths, "PUTFH=other READ"), "?");
}

#[test]
fn failed_operations_add_no_names() {
    let mut paths = Paths::new();
    assert_eq!(follow(&mut paths, "PUTFH=dir LOOKUP:a!"), "a");
    assert_eq!(follow(&mut paths, "PUTFH=dir LOOKUP:a GETFH>h"), "a");
    assert_eq!(follow(&mut paths, "PUTFH=dir SAVEFH PUTFH=dir RENAME:a:b!"), "a b");
    assert_eq!(follow(&mut paths, "PUTFH=h READ"), "a");
    assert_eq!(follow(&mut paths, "PUTFH=dir REMOVE:a!"), "a");
}

#[test]
fn rename_moves_a_file_and_its_children() {
    let mut paths = Paths::new();
    follow(&mut paths, "PUTROOTFH LOOKUP:d GETFH>d");
    follow(&mut paths, "PUTFH=d LOOKUP:log GETFH>one");
    follow(&mut paths, "PUTFH=one LOOKUP:below GETFH>below");
    let renamed = follow(&mut paths, "PUTROOTFH SAVEFH PUTFH=d RENAME:x:y");
    assert_eq!(renamed, "/x /d/y");
    let rotated = follow(&mut paths, "PUTFH=d SAVEFH RENAME:log:log.1");
    assert_eq!(rotated, "/d/log /d/log.1");
    assert_eq!(follow(&mut paths, "PUTFH=d OPEN:log GETFH>two"), "/d/log");
    assert_eq!(follow(&mut paths, "PUTFH=one WRITE"), "/d/log.1");
    assert_eq!(follow(&mut paths, "PUTFH=below READ"), "/d/log.1/below");
    assert_eq!(follow(&mut paths, "PUTFH=two WRITE"), "/d/log");
    assert_eq!(follow(&mut paths, "PUTFH=d REMOVE:log"), "/d/log");
    assert_eq!(follow(&mut paths, "PUTFH=d OPEN:log GETFH>three"), "/d/log");
    assert_eq!(follow(&mut paths, "PUTFH=two CLOSE"), "/d/log");
}

fn unnamed(paths: &Paths, transaction: &Transaction, second: bool) -> Option<Unnamed> {
    paths.unnamed(transaction.details.operations.len() - 1, second)
}

/// A single reading gets the start of an incomplete path, and later its name.
#[test]
fn the_start_of_a_path_is_learned_later() {
    let mut paths = Paths::new();
    let read = compound("PUTFH=one READ");
    assert_eq!(last(&mut paths, &read), "?");
    let one = unnamed(&paths, &read, false).expect("it has no name");
    let renamed = compound("PUTFH=d SAVEFH PUTFH=e RENAME:x:y");
    assert_eq!(last(&mut paths, &renamed), "x y");
    let [d, e] = [false, true].map(|second| unnamed(&paths, &renamed, second).expect("it has no name"));
    let shown = paths.shown();
    follow(&mut paths, "PUTFH=d READ");
    assert_eq!((paths.shown(), paths.learned(one), paths.learned(d)), (shown, None, None));

    follow(&mut paths, "PUTFH=d LOOKUP:a GETFH>one");
    assert!(paths.shown() > shown);
    let learned = paths.learned(one).expect("it has a name");
    assert_eq!((&*learned.path, learned.above), (&b"a"[..], Some(d)));
    assert_eq!(learned.join(None).as_deref(), Some(&b"a"[..]));
    assert_eq!(learned.join(Some(b"b/c")).as_deref(), Some(&b"a/b/c"[..]));

    // A later name is not a name that it had before.
    follow(&mut paths, "PUTFH=d SAVEFH RENAME:a:b");
    follow(&mut paths, "PUTROOTFH LOOKUP:export GETFH>d");
    let learned = paths.learned(one).expect("it has a name");
    assert_eq!((&*learned.path, learned.above), (&b"/export/a"[..], None));
    assert_eq!(last(&mut paths, &read), "/export/b");
    assert_eq!(unnamed(&paths, &read, false), None);

    // The start of a path turns out to be the root.
    follow(&mut paths, "PUTROOTFH GETFH>e");
    let learned = paths.learned(e).expect("it is the root");
    assert_eq!((&*learned.path, learned.above), (&b"/"[..], None));
    assert_eq!(learned.join(Some(b"y")).as_deref(), Some(&b"/y"[..]));
}

/// Directories that get their names late, one above the other or in a circle, do not make an
/// endless path.
#[test]
fn late_paths_are_bounded() {
    let mut paths = Paths::new();
    let read = compound("PUTFH=h0 READ");
    last(&mut paths, &read);
    let mut at = unnamed(&paths, &read, false);
    let mut path: Option<Box<[u8]>> = None;
    let mut grown = 0;
    for depth in 0..200 {
        follow(&mut paths, &format!("PUTFH=h{} LOOKUP:n GETFH>h{depth}", depth + 1));
        let learned = at.and_then(|at| paths.learned(at)).expect("it has a name now");
        at = learned.above;
        let Some(joined) = learned.join(path.as_deref()) else { break };
        path = Some(joined);
        grown += 1;
    }
    assert_eq!(grown, table::DEEPEST);
    let read = compound("PUTFH=c READ");
    last(&mut paths, &read);
    let circle = unnamed(&paths, &read, false).expect("it has no name");
    follow(&mut paths, "PUTFH=c LOOKUP:n GETFH>c");
    assert_eq!(paths.learned(circle).expect("it has a name").above, None);
}

/// Names learned late apply from the beginning; a RENAME applies from its time.
#[test]
fn a_second_pass_knows_names_from_the_start() {
    let session = [
        "PUTFH=one READ",
        "PUTROOTFH LOOKUP:d GETFH>d",
        "PUTFH=d SAVEFH RENAME:log:log.1",
        "PUTFH=d OPEN:log GETFH>two",
        "PUTFH=d LOOKUP:log.1 GETFH>one",
        "PUTFH=one READ",
        "PUTFH=two READ",
    ];
    let mut paths = Paths::new();
    let first: Vec<_> = session.iter().map(|line| follow(&mut paths, line)).collect();
    assert_eq!(first[0], "?");
    paths.rewind();
    let second: Vec<_> = session.iter().map(|line| follow(&mut paths, line)).collect();
    // The capture shows the handle `one` as log.1 only. The RENAME shows that this file was log
    // before.
    assert_eq!(second[0], "/d/log");
    assert_eq!(&second[1..], &first[1..]);
    assert_eq!(second[5..], ["/d/log.1", "/d/log"]);
}

#[test]
fn equal_handles_of_two_servers_are_two_files() {
    let mut paths = Paths::new();
    follow(&mut paths, "PUTFH=d LOOKUP:a GETFH>h");
    let mut other = compound("PUTFH=h READ");
    let route = other.route.unwrap();
    other.route = Some(Route { source: route.destination, destination: route.source });
    assert_eq!(last(&mut paths, &other), "?");
    // In a callback the server calls.
    let mut recall = values::transaction(Procedure { program: 0x4000_0000, version: 1, number: 1 }, 1, 1);
    recall.route = other.route;
    let handle = recall.details.keep(b"h");
    let mut operation = Operation::new(ulb::Callback::Recall.into());
    operation.file_handle = Some(handle);
    recall.details.operations.push(operation);
    assert_eq!(last(&mut paths, &recall), "a");
    other.route = None;
    assert_eq!(last(&mut paths, &other), "?");
}

fn procedure(kind: Nfs3, texts: [&str; 5]) -> Transaction {
    let mut transaction = values::transaction(Procedure { program: 100_003, version: 3, number: 1 }, 1, 1);
    let [file_handle, other_file_handle, file_name, other_name, result_file_handle] =
        texts.map(|text| (!text.is_empty()).then(|| transaction.details.keep(text.as_bytes())));
    transaction.details.operations.push(Operation {
        status: Some(0),
        file_handle,
        other_file_handle,
        file_name,
        other_name,
        result_file_handle,
        ..Operation::new(kind.into())
    });
    transaction
}

#[test]
fn nfsv3_procedures_set_paths() {
    let mut paths = Paths::new();
    let mut follow = |kind, texts| last(&mut paths, &procedure(kind, texts));
    assert_eq!(follow(Nfs3::Lookup, ["d", "", "a", "", "a"]), "a");
    assert_eq!(follow(Nfs3::Mkdir, ["d", "", "sub", "", "sub"]), "sub");
    assert_eq!(follow(Nfs3::Create, ["sub", "", "b", "", "b"]), "sub/b");
    assert_eq!(follow(Nfs3::Write, ["b", "", "", "", ""]), "sub/b");
    assert_eq!(follow(Nfs3::Rename, ["d", "sub", "a", "c", ""]), "a sub/c");
    assert_eq!(follow(Nfs3::Read, ["a", "", "", "", ""]), "sub/c");
    assert_eq!(follow(Nfs3::Link, ["b", "d", "link", "", ""]), "sub/b link");
    assert_eq!(follow(Nfs3::Getattr, ["b", "", "", "", ""]), "sub/b");
    assert_eq!(follow(Nfs3::Lookup, ["sub", "", "..", "", "d"]), "sub/..");
    assert_eq!(follow(Nfs3::Getattr, ["d", "", "", "", ""]), "?");
    assert_eq!(follow(Nfs3::Remove, ["sub", "", "b", "", ""]), "sub/b");
}

#[test]
fn readdirplus_names_the_files() {
    let mut paths = Paths::new();
    let mut listing = procedure(Nfs3::Readdirplus, ["d", "", "", "", ""]);
    for (name, handle) in [(".", "d"), ("..", "up"), ("a", "h"), ("sl/ash", "s")] {
        let [name, file_handle] = [name, handle].map(|text| listing.details.keep(text.as_bytes()));
        listing.details.entries.push(ulb::Entry { name, file_handle });
    }
    assert_eq!(last(&mut paths, &listing), "?");
    let mut read = |handle| last(&mut paths, &procedure(Nfs3::Read, [handle, "", "", "", ""]));
    assert_eq!(read("h"), "a");
    assert_eq!(read("s"), r"sl\x2fash");
    assert_eq!(read("d"), "?");
    assert_eq!(read("up"), "?");
}

/// A circle of directories is impossible in a file system, but not in a capture.
#[test]
fn directory_cycles_end() {
    let mut paths = Paths::new();
    follow(&mut paths, "PUTFH=a LOOKUP:b GETFH>b");
    follow(&mut paths, "PUTFH=b LOOKUP:a GETFH>a");
    assert_eq!(follow(&mut paths, "PUTFH=a READ"), "b/a");
    assert_eq!(follow(&mut paths, "PUTFH=a LOOKUP:c GETFH>c"), "b/a/c");
    // A file with the handle of its directory.
    assert_eq!(follow(&mut paths, "PUTFH=d OPEN:f GETFH>d"), "f");
    assert_eq!(follow(&mut paths, "PUTFH=d READ"), "f");
    let read = compound("PUTFH=d READ");
    last(&mut paths, &read);
    assert_eq!(unnamed(&paths, &read, false), None);
}

#[test]
fn patterns() {
    let matches = |pattern: &str, path: &str| FilePattern::parse(pattern).unwrap().matches(path.as_bytes());
    assert!(matches("a/*.dat", "/export/a/x.dat") && matches("x.dat", "/export/a/x.dat"));
    assert!(matches("/export/**/x.dat", "/export/a/b/x.dat") && matches("*.dat", "x.dat"));
    assert!(!matches("a/*.dat", "/export/aa/x.dat") && !matches("a/*.dat", "/export/a/b/x.dat"));
    assert!(!matches("/a/x.dat", "/export/a/x.dat") && !matches("a", "/export/a/x.dat"));
    assert!(matches("*", ".hidden") && matches("[ab]", "/b") && !matches("X.DAT", "x.dat"));
    assert!(FilePattern::parse("").is_err() && FilePattern::parse("a[").is_err());
}

proptest! {
    /// For any names and handles, a session is processed to its end. A second reading adds at most
    /// as many files as the first one.
    #[test]
    fn any_session_is_processed(lines in proptest::collection::vec((0u8..9, 0u8..4, 0u8..4, 0u8..4), 1..60)) {
        let mut paths = Paths::new();
        let session: Vec<_> = lines.iter().map(|(kind, a, b, c)| match kind {
            0 => format!("PUTFH=h{a} LOOKUP:n{b} GETFH>h{c}"),
            1 => format!("PUTFH=h{a} SAVEFH PUTFH=h{b} RENAME:n{c}:n{b}"),
            2 => format!("PUTFH=h{a} REMOVE:n{b}"),
            3 => format!("PUTROOTFH LOOKUP:n{a} LOOKUP:n{b} GETFH>h{c}"),
            4 => format!("PUTFH=h{a} SAVEFH PUTFH=h{b} LINK:n{c}"),
            5 => format!("PUTFH=h{a} LOOKUPP GETFH>h{b}"),
            6 => format!("PUTROOTFH GETFH>h{a}"),
            7 => format!("PUTFH=h{a} OPEN:n{b} GETFH>h{c}"),
            _ => format!("PUTFH=h{a} READ"),
        }).collect();
        for line in &session {
            follow(&mut paths, line);
        }
        let files = paths.table.files();
        paths.rewind();
        for line in &session {
            follow(&mut paths, line);
        }
        prop_assert!(paths.table.files() <= files * 2);
        prop_assert_eq!(paths.left_out(), 0);
    }
}
