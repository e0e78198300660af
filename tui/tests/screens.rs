//! The pictures of the screens. `RDMASCOPE_BLESS=1 cargo test --workspace --test screens` writes
//! tests/screens, the pictures of the documents and the table of keys in docs/tui.md again; review
//! the changes.

mod driver;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use driver::{ASCII, Driver, UNICODE, sample, svg};
use rdmascope_analysis::timeline::Moment;
use rdmascope_dissector::frame;
use rdmascope_tui::analysis::Request;
use rdmascope_tui::compare::{Compared, OtherCapture};
use rdmascope_tui::inject::{Arrow, Difference, Entry, Fault, Inject, Plan, Ran, SentCall, Update};
use rdmascope_tui::state::Over;
use rdmascope_tui::store::Store;
use rdmascope_tui::theme::TONES;
use rdmascope_tui::update::{Effect, Message, update};
use std::path::{Path, PathBuf};

fn compare(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/screens").join(name);
    compare_file(&path, text);
}

fn compare_file(path: &Path, text: &str) {
    if std::env::var_os("RDMASCOPE_BLESS").is_some() {
        std::fs::write(path, text).expect("the picture can be written");
    }
    let expected = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(text, expected, "{} has changed", path.display());
}

/// The keys from the first screen to each picture.
const PICTURES: &[(&str, &str)] = &[
    ("overview", ""),
    ("report", "r"),
    ("connections", "2 t \"0.9\" Enter"),
    ("transactions", "3"),
    ("slowest", "3 s"),
    ("exchange", "3 s Enter"),
    ("bytes", "3 s Enter 5 j j j j j"),
    ("frame", "3 s Enter Down Enter j j"),
    ("events", "6 Down"),
    ("findings", "7"),
    ("charts", "8"),
    ("filter", "& \"operation=READ lat\""),
    ("filtered", "& \"operation=READ\" Enter"),
    ("packets", "3 s Enter P"),
    ("packets-filtered", "P & \"opcode ~ '*READ Request' && connection == 1\" Enter j"),
    ("marks", "3 s m \"106 ms, most of it RDMA Reads\" Enter P G m \"the end\" Enter '"),
    ("help", "?"),
    ("palette", ": \"next\""),
    ("glossary", "w \"inline th\" Enter"),
];

const SIZES: [(u16, u16); 3] = [(80, 24), (160, 50), (250, 70)];

#[test]
fn every_view_of_a_session() {
    for (name, keys) in PICTURES {
        let is_wide = ["overview", "packets", "marks"].contains(name);
        let sizes = if is_wide { &SIZES[..] } else { &SIZES[..2] };
        for size in sizes.iter().copied() {
            let mut driver = Driver::new("nfs3-lossy.pcap", size, UNICODE);
            driver.press(keys);
            let (width, height) = size;
            compare(&format!("{name}-{width}x{height}.txt"), &driver.text());
            is_of_theme(&driver);
        }
    }
}

/// The state at a moment: two delegations that the server has not recalled yet.
#[test]
fn nfs4_state_at_a_moment() {
    for (width, height) in SIZES {
        let mut driver = Driver::new("nfs4.1-backchannel-recall.pcap", (width, height), UNICODE);
        driver.press("O t \"1.45\" Enter G");
        compare(&format!("state-{width}x{height}.txt"), &driver.text());
    }
}

/// All colours of the screen are those whose contrast is tested.
fn is_of_theme(driver: &Driver) {
    use ratatui::style::{Color, Modifier};
    for cell in &driver.buffer().content {
        let is_known = TONES.iter().any(|tone| cell.fg == Color::Rgb(tone.rgb[0], tone.rgb[1], tone.rgb[2]));
        assert!(is_known || cell.fg == Color::Reset, "{cell:?}");
        assert!(cell.bg == Color::Reset && !cell.modifier.contains(Modifier::DIM), "{cell:?}");
    }
}

/// The overview in ASCII without colours, and of a session whose server closed the connection.
#[test]
fn overviews_of_other_sessions() {
    for (name, sample, look, sizes) in [
        ("overview-ascii", "nfs3-lossy.pcap", ASCII, &SIZES[..]),
        ("outage", "iwarp-reconnect.pcap", UNICODE, &SIZES[..]),
        ("outage-ascii", "iwarp-reconnect.pcap", ASCII, &SIZES[..2]),
        ("nothing-wrong", "iwarp-recall.pcap", UNICODE, &SIZES[..2]),
        ("one-violation", "nfs3-basic.pcap", UNICODE, &SIZES[..2]),
    ] {
        for size in sizes.iter().copied() {
            let driver = Driver::new(sample, size, look);
            let (width, height) = size;
            compare(&format!("{name}-{width}x{height}.txt"), &driver.text());
        }
    }
}

/// The overview has the limits of a capture that was cut or damaged.
#[test]
fn incomplete_captures_are_named() {
    let whole = std::fs::read(sample("nfs3-lossy.pcap")).expect("the sample exists");
    let damaged = [&whole[..60_000], &[0xaa; 4000]].concat();
    for (name, bytes, end) in [
        ("cut.pcap", &whole[..100_000], "cut short at byte 99280"),
        ("damaged.pcap", &damaged, "expected a record of at most"),
    ] {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&path, bytes).expect("the folder is writable");
        let text = Driver::new(path.to_str().expect("it is UTF-8"), (80, 24), UNICODE).text();
        let words: Vec<&str> = text.split_whitespace().collect();
        let words = words.join(" ");
        assert!(words.contains("Limits of the capture: ") && words.contains(end), "{text}");
    }
}

/// The last line of the help can be reached.
#[test]
fn help_scrolls_to_its_end() {
    for size in SIZES.into_iter().chain([(100, 30)]) {
        let mut driver = Driver::new("nfs3-lossy.pcap", size, UNICODE);
        driver.press("? G");
        assert!(driver.text().contains("The mouse selects, opens"), "{size:?}: {}", driver.text());
    }
}

/// Lines of the exchange and of the details wrap within 80 columns.
#[test]
fn narrow_panes_show_whole_lines() {
    for (sample, keys, ends) in [
        ("iwarp-reconnect.pcap", "4", ["server before\"", "sequence 3535376417-3535376624"]),
        ("nfs4.1-backchannel-recall.pcap", "O t \"1.45\" Enter", ["the exchange", "In the whole capture"]),
    ] {
        let mut driver = Driver::new(sample, (80, 24), UNICODE);
        driver.press(keys);
        let text = driver.text();
        let words: Vec<&str> = text.split_whitespace().collect();
        assert!(ends.iter().all(|end| words.join(" ").contains(end)), "{text}");
    }
}

/// Packets of iWARP have their opcodes and contents.
#[test]
fn iwarp_packets_have_contents() {
    let mut driver = Driver::new("iwarp-nfs3.pcap", (160, 50), UNICODE);
    driver.press("P");
    assert!(driver.text().contains("Send 68 bytes msn 1 RDMA_MSG"), "{}", driver.text());
    driver.press("& \"opcode=send\" Enter");
    assert!(driver.text().contains("of 1,742, filter: opcode=send"), "{}", driver.text());
    assert!(!driver.text().contains("Packets: 0 "), "{}", driver.text());
}

/// Charts in ASCII have axes too.
#[test]
fn ascii_charts_have_axes() {
    let mut driver = Driver::new("nfs3-lossy.pcap", (80, 24), ASCII);
    driver.press("8");
    compare("charts-ascii-80x24.txt", &driver.text());
}

/// The server closed the connection: the verdict names the outage, one key shows the event and those
/// around it, and a second one the packet. samples/MANIFEST records the cause: the RDMA device was
/// deleted on the server.
#[test]
fn an_outage_is_found_with_two_keys() {
    for size in SIZES {
        let mut driver = Driver::new("iwarp-reconnect.pcap", size, UNICODE);
        let first: String = driver.text().lines().skip(2).take(1).collect();
        assert!(first.contains("3.3 s without service") && first.contains("the server closed it"), "{first}");
        driver.press("Enter");
        let text = driver.text();
        assert!(
            text.contains("service-lost") && text.contains("server closed the connection (FIN)"),
            "{text}"
        );
        assert!(
            driver.state.session.events[driver.state.cursor().at].kind.word() == "service-lost",
            "{text}"
        );
        driver.press("Enter");
        assert!(driver.text().contains("Frame 71 "), "{}", driver.text());
        driver.press("Esc Esc");
        assert_eq!(driver.text().lines().nth(2), Some(&*first));
    }
}

/// While a live session has no service, the overview shows it, and the time grows without a packet.
#[test]
fn a_live_outage_grows_while_it_lasts() {
    let mut driver = Driver::empty("live", (160, 50), UNICODE);
    let mut capture =
        rdmascope_capture_agent::Capture::open(&driver::sample("../tests/cases/c02-arp.pcap")).unwrap();
    let mut last = None;
    while let Some(record) = capture.next().unwrap() {
        // Four calls wait by then.
        if record.number > 19 {
            break;
        }
        driver.record(&record);
        last = Some(record.time);
    }
    driver.batch();
    let last = last.expect("it has packets");
    let mut seen = Vec::new();
    for seconds in [5u64, 20] {
        assert!(driver.time(last.plus(seconds * 1_000_000_000)), "calls wait");
        driver.batch();
        let verdict = driver.text().lines().nth(2).unwrap_or_default().to_owned();
        assert!(
            verdict.contains(&format!(
                "{seconds} s without service on 1 connection, from 0.005 until now; 4 calls without a reply"
            )),
            "{}",
            driver.text()
        );
        seen.push(verdict);
    }
    assert_ne!(seen[0], seen[1]);
    // The charts reach up to now.
    let (start, end) = driver.state.session.overview.over_time.span.expect("it has packets");
    assert!(end.since(start) >= 20_000_000_000);
}

/// Enter opens the view of each entry with a filter that has results, and Esc goes back.
#[test]
fn overview_entries_open_their_view() {
    for sample in ["nfs3-lossy.pcap", "iwarp-reconnect.pcap", "nfs4.1-basic.pcap", "connect-rejected.pcap"] {
        let mut driver = Driver::new(sample, (160, 50), UNICODE);
        let count = driver.state.pane().count(&driver.state);
        assert!(count >= 6, "six tiles");
        for at in 0..count {
            driver.press("1");
            driver.state.cursors[0].at = at;
            let selection = driver.state.pane().selection(&driver.state);
            let before = driver.text();
            driver.press("Enter");
            assert_ne!(driver.text(), before, "{sample}: entry {at}, {selection:?}");
            assert!(driver.state.notice.is_none(), "{sample}: {:?}", driver.state.notice);
            let is_tile = count - at <= 6;
            assert!(is_tile || !driver.text().contains("No transaction matches"), "{sample}: {selection:?}");
            driver.press("Esc");
            assert!(driver.text().contains("connections "), "{}", driver.text());
        }
    }
}

/// A click selects an entry of the overview, and a second one opens it.
#[test]
fn clicks_select_and_open_entries() {
    use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
    let mut driver = Driver::new("iwarp-reconnect.pcap", (160, 50), UNICODE);
    let text = driver.text();
    let row = text.lines().position(|line| line.contains("OPEN ")).expect("OPENs are listed") as u16;
    let click = |driver: &mut Driver| {
        let kind = MouseEventKind::Down(MouseButton::Left);
        driver.send(Message::Mouse(MouseEvent { kind, column: 5, row, modifiers: KeyModifiers::NONE }));
    };
    click(&mut driver);
    click(&mut driver);
    assert_eq!(driver.state.filter_line, "operation=OPEN");
    assert!(driver.text().contains("by latency"), "{}", driver.text());
}

const FAULTS: [Fault; 2] = [
    Fault { name: "version", help: "rdma_vers is 9" },
    Fault { name: "short", help: "the last four bytes are missing" },
];

fn with_session(size: (u16, u16)) -> Driver {
    let mut driver = Driver::new("nfs3-lossy.pcap", size, UNICODE);
    let session = Entry {
        name: "session".into(),
        title: "the calls of this capture again".into(),
        explanation: "Makes the calls of the capture again.\n".into(),
        is_destructive: true,
        is_session: true,
        ..Entry::default()
    };
    let scenario = Entry { name: "version-9".into(), ..Entry::default() };
    driver.state.inject = Inject::new("192.0.2.2:20049".into(), vec![session, scenario], FAULTS.into());
    driver
}

fn call(number: u64, name: &str) -> SentCall {
    SentCall {
        transaction: Some(number),
        name: name.into(),
        verdict: "agrees",
        latency: Some(400_000),
        ..SentCall::default()
    }
}

/// The recorded reply is shown beside the live one as results arrive.
#[test]
fn live_replies_are_compared_with_recorded_ones() {
    for size in [(80, 24), (160, 50)] {
        let mut driver = with_session(size);
        driver.press("3 j j e e 9 Enter Enter");
        assert_eq!(driver.plans, [Plan { starting_at: None, fault: Some(("short", 3)) }]);
        let send = |driver: &mut Driver, call| driver.send(Message::Update(Box::new(Update::Call(call))));
        send(&mut driver, SentCall { name: "connection 1".into(), verdict: "agrees", ..SentCall::default() });
        send(&mut driver, call(1, "NFS NULL"));
        let size_differs = Difference {
            field: "fsinfo rtmax".into(),
            recorded: "1048576".into(),
            live: "262144".into(),
            is_allowed: false,
        };
        let inline = Difference {
            field: "reply".into(),
            recorded: "in the Send".into(),
            live: "in the Reply chunk".into(),
            is_allowed: true,
        };
        let differs = SentCall {
            verdict: "differs",
            is_difference: true,
            differences: vec![size_differs, inline],
            notes: vec!["handle 0x0102: no reply brought it, so it is sent as recorded".into()],
            ..call(2, "NFSv3 FSINFO")
        };
        send(&mut driver, differs);
        let (width, height) = size;
        compare(&format!("session-runs-{width}x{height}.txt"), &driver.text());
        // It can be stopped.
        driver.press("Enter");
        assert_eq!(driver.stopped, [1]);
        assert!(driver.text().contains("stopping"), "{}", driver.text());
        let ran = Ran {
            verdict: "ended early".into(),
            text: "2 calls: 1 agree, 1 differ".into(),
            ..Ran::default()
        };
        driver.send(Message::Ran(0, Box::new(Ok(ran))));
        driver.press("p G");
        compare(&format!("session-sent-{width}x{height}.txt"), &driver.text());
    }
}

/// The first call to send and the fault are selected at the call.
#[test]
fn the_plan_is_set_at_the_selected_call() {
    let mut driver = with_session((120, 40));
    let plan = |driver: &Driver| driver.state.inject.plan.clone();
    driver.press("3 j j j i");
    assert_eq!(plan(&driver), Plan { starting_at: Some(4), fault: None });
    assert!(driver.text().contains("Enter sends: from transaction 4 on."), "{}", driver.text());
    driver.press("Esc j e");
    assert_eq!(plan(&driver), Plan { starting_at: Some(4), fault: Some(("version", 5)) });
    let command = driver.press("y").copied.pop().expect("it was copied");
    assert_eq!(
        command,
        "rdmascope peer replay samples/nfs3-lossy.pcap --to 192.0.2.2:20049 --leave-out --all --starting-at 4 --fault version@5"
    );
    driver.press("e");
    assert_eq!(plan(&driver).fault, Some(("short", 5)));
    assert!(driver.text().contains("in transaction 5 the last four bytes are missing"), "{}", driver.text());
    driver.press("e");
    assert_eq!(plan(&driver).fault, None);
    // Another call starts from there; the same one again starts from the first call.
    driver.press("i");
    assert_eq!(plan(&driver).starting_at, Some(5));
    driver.press("i");
    assert_eq!(plan(&driver), Plan::default());
    // Nothing was sent.
    assert!(driver.started.is_empty());
    let mut other = Driver::new("nfs3-lossy.pcap", (120, 40), UNICODE);
    other.press("3 i");
    assert!(other.text().contains("tui FILE --to ADDRESS"), "{}", other.text());
}

/// The ladder of a scenario grows while it runs, and the scenario can be stopped.
#[test]
fn a_running_scenario_can_be_stopped() {
    let mut driver = Driver::new("nfs3-basic.pcap", (120, 40), UNICODE);
    driver.state.inject = Inject::new("192.0.2.2:20049".into(), entries(), Vec::new());
    driver.press("9 Enter");
    let arrow = |since, out, text: &str| Arrow { since, out, text: text.into() };
    let crossed = vec![arrow(0, true, "UD SEND Only CM REQ"), arrow(90_000, false, "UD SEND Only CM REP")];
    driver.send(Message::Update(Box::new(Update::Arrows(crossed))));
    let text = driver.text();
    assert!(text.contains("Running; Enter stops it.") && text.contains("CM REP"), "{text}");
    driver.press("Enter");
    assert_eq!((driver.stopped.clone(), driver.started.len()), (vec![1], 1));
    driver.send(Message::Ran(0, Box::new(Ok(Ran { verdict: "ended early".into(), ..Ran::default() }))));
    driver.press("Enter");
    assert_eq!(driver.started, [0, 0]);
    assert!(!driver.text().contains("CM REP"), "of the run before");
}

/// The page is written to the named file, and the result is shown.
#[test]
fn the_page_is_exported() {
    let mut driver = Driver::new("nfs3-lossy.pcap", (120, 40), UNICODE);
    driver.press("X");
    assert!(driver.text().contains("write the page as: capture.html"), "{}", driver.text());
    driver.press("Ctrl-u \"mine.html\" Enter");
    assert_eq!(driver.exported, [PathBuf::from("mine.html")]);
    driver.send(Message::Exported(Err("mine.html: exists already".into())));
    assert!(driver.text().contains("mine.html: exists already"), "{}", driver.text());
}

/// The session is sent after it was requested twice, and the command is that of `peer replay`.
#[test]
fn sending_a_session_needs_confirmation() {
    let mut driver = with_session((100, 30));
    driver.press("9 Enter");
    assert!(driver.started.is_empty());
    assert!(driver.text().contains("Enter once more sends them"), "{}", driver.text());
    let copied = driver.press("y").copied.pop();
    let replay = "rdmascope peer replay samples/nfs3-lossy.pcap --to 192.0.2.2:20049 --leave-out --all";
    assert_eq!(copied.as_deref(), Some(replay));
    // All entries that are not destructive, so not the session.
    driver.press("a");
    assert_eq!(driver.started, [1]);
    driver.press("Enter");
    driver.send(Message::Ran(1, Box::new(Ok(Ran::default()))));
    assert_eq!(driver.started, [1, 0]);
}

/// Two mounts with different versions of NFS.
#[test]
fn two_captures_are_compared() {
    for (name, keys, size) in [
        ("compare-80x24", "r l", (80, 24)),
        ("compare-160x50", "r l", (160, 50)),
        ("compare-all-160x50", "r l a", (160, 50)),
    ] {
        let mut driver = Driver::new("nfs4.1-basic.pcap", size, UNICODE);
        driver.state.other = Some(OtherCapture::new("samples/nfs4.2-basic.pcap".to_owned()));
        driver.press(keys);
        assert!(driver.text().contains("Both captures are being read"), "{}", driver.text());
        // Tests run beside the samples, so no path of this machine is shown.
        let paths =
            ["nfs4.1-basic", "nfs4.2-basic"].map(|name| [PathBuf::from(format!("../samples/{name}.pcap"))]);
        let compared = Compared::read([&paths[0], &paths[1]], frame::Config::default());
        driver.send(Message::Compared(Box::new(compared.map_err(|error| error.to_string()))));
        compare(&format!("{name}.txt"), &driver.text());
        let command = driver.press("y").copied.pop().expect("it was copied");
        let all = if keys == "r l" { "" } else { " --all" };
        assert_eq!(
            command,
            format!("rdmascope diff samples/nfs4.1-basic.pcap samples/nfs4.2-basic.pcap{all}")
        );
        let before = driver.text();
        driver.press("h");
        assert!(driver.text().contains("l: comparison with samples/nfs4.2-basic.pcap"));
        assert_ne!(driver.text(), before);
    }
    let missing =
        Compared::read([&["nowhere.pcap".into()], &["nowhere.pcap".into()]], frame::Config::default());
    assert!(missing.unwrap_err().to_string().contains("nowhere.pcap"));
}

/// The pictures of the documents show real screens.
#[test]
fn documentation_pictures_show_real_screens() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/pictures");
    for (name, sample, keys) in [
        ("overview", "iwarp-reconnect.pcap", ""),
        ("outage", "iwarp-reconnect.pcap", "Enter"),
        ("slowest", "nfs3-lossy.pcap", "3 s"),
        ("exchange", "nfs3-lossy.pcap", "3 s Enter"),
        ("bytes", "nfs3-lossy.pcap", "3 s Enter Down Enter 5 j j j j j"),
    ] {
        let size = if name == "overview" { (140, 40) } else { (120, 40) };
        let mut driver = Driver::new(sample, size, UNICODE);
        driver.press(keys);
        compare_file(&folder.join(format!("tui-{name}.svg")), &svg(&driver.buffer()));
    }
}

/// docs/tui.md has the table of keys.
#[test]
fn the_tour_lists_all_keys() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/tui.md");
    let page = std::fs::read_to_string(&path).expect("the tour exists");
    let (tour, _) = page.split_once("## Keys\n").expect("it has a section of keys");
    compare_file(&path, &format!("{tour}## Keys\n\n{}", rdmascope_tui::keys::page()));
}

/// Only ASCII if the terminal shows no more, and no colours if they are off.
#[test]
fn ascii_without_colours() {
    for (name, keys) in PICTURES {
        let mut driver = Driver::new("nfs3-lossy.pcap", (100, 30), ASCII);
        driver.press(keys);
        let buffer = driver.buffer();
        for (index, cell) in buffer.content.iter().enumerate() {
            let place = (index % 100, index / 100);
            assert!(cell.symbol().is_ascii(), "{name} {place:?}: {}", cell.symbol());
            let plain = ratatui::style::Color::Reset;
            assert!(cell.fg == plain && cell.bg == plain, "{name} {place:?}: {:?}", cell);
        }
    }
}

/// The user finds the slow call and the cause: the slowest one spent its time in RDMA Reads,
/// because packets of their responses had to be retransmitted. The sample's README describes these
/// drops.
#[test]
fn the_cause_of_the_slow_write_is_found() {
    let mut driver = Driver::new("nfs3-lossy.pcap", (120, 40), UNICODE);
    driver.press("3 s Enter");
    let text = driver.text();
    assert!(
        text.contains("Transaction 13  NFSv3 WRITE") && text.contains("106ms from call to reply"),
        "{text}"
    );
    let reads =
        text.lines().find(|line| line.trim_start().starts_with("reads")).expect("there is a line of phases");
    assert!(reads.contains("89 %"), "{reads}");
    // Down the ladder, to the first retransmitted rung.
    let again = |driver: &Driver| driver.text().contains("again:");
    for _ in 0..200 {
        if again(&driver) {
            break;
        }
        driver.press("j");
    }
    assert!(again(&driver), "{}", driver.text());
}

fn entries() -> Vec<Entry> {
    let entry = |name: &str, title: &str, is_destructive| Entry {
        name: name.into(),
        title: title.into(),
        section: "RFC 8166, 4.2.1".into(),
        explanation: format!("{name}: {title}\n\nMUST RFC 8166, 4.2.1: ...\n"),
        is_destructive,
        is_session: false,
    };
    vec![
        entry("version-9", "a call of version 9", false),
        entry("many-chunks", "a call with more chunks than anybody wants", true),
        entry("msgp", "an RDMA_MSGP call", false),
    ]
}

/// Scenarios run one after the other; a destructive one only after a confirmation.
#[test]
fn scenarios_run_one_by_one() {
    let mut driver = Driver::new("nfs3-basic.pcap", (120, 40), UNICODE);
    driver.state.inject = Inject::new("192.0.2.2:20049".into(), entries(), Vec::new());
    driver.press("9 a");
    assert_eq!(driver.started, [0]);
    assert!(driver.text().contains("runs") && driver.text().contains("waits"), "{}", driver.text());
    let arrow = |since, out, text: &str| Arrow { since, out, text: text.into() };
    let ran = Ran {
        verdict: "violates".into(),
        is_violation: true,
        text: "violates  version-9\n    came back  nothing\n    allowed    ERR_VERS".into(),
        arrows: vec![arrow(0, true, "RC SEND Only PSN 7"), arrow(120_000, false, "RC Acknowledge PSN 7")],
    };
    driver.send(Message::Ran(0, Box::new(Ok(ran))));
    assert_eq!(driver.started, [0, 2], "the destructive one is not among them");
    driver.send(Message::Ran(2, Box::new(Err("no route to the server".into()))));
    compare("injection-120x40.txt", &driver.text());
    // A destructive scenario asks for confirmation, then runs; moving in between cancels the
    // question.
    driver.press("j Enter");
    assert_eq!(driver.started.len(), 2);
    assert!(driver.text().contains("Enter once more"), "{}", driver.text());
    driver.press("k j Enter Enter");
    assert_eq!(driver.started, [0, 2, 1]);
    driver.press("y");
    assert_eq!(driver.copied, ["rdmascope peer inject --to 192.0.2.2:20049 --allow-destructive many-chunks"]);
}

/// Without a target nothing is sent, and the view shows how to name one.
#[test]
fn nothing_is_sent_without_a_target() {
    let mut driver = Driver::new("nfs3-basic.pcap", (80, 24), UNICODE);
    driver.press("9 a Enter");
    assert!(driver.started.is_empty() && driver.text().contains("--to ADDRESS"), "{}", driver.text());
}

/// Keys that arrive faster than the answers all count.
#[test]
fn steps_accumulate_before_the_answer() {
    let mut driver = Driver::new("nfs3-basic.pcap", (120, 40), UNICODE);
    driver.press("t \"#100\" Enter");
    let key = |character| Message::Key(KeyEvent::new(KeyCode::Char(character), KeyModifiers::NONE));
    let asked: Vec<Effect> =
        "..,.".chars().flat_map(|character| update(&mut driver.state, key(character))).collect();
    // One request is unanswered; of those after it, only the last is sent.
    let [Effect::Request(asked)] = &asked[..] else { panic!("{asked:?}") };
    assert_eq!(asked, &Request::Seek(Moment::Record(101)));
    assert_eq!(driver.state.next[0], Some(Request::Seek(Moment::Record(102))));
}

/// A capture without calls has no slow call.
#[test]
fn a_capture_without_calls_has_no_slow_call() {
    let mut driver = Driver::new("connect-rejected.pcap", (80, 24), UNICODE);
    driver.press("}");
    assert_eq!(driver.state.notice.as_deref(), Some("no further slow call in this direction"));
}

#[test]
fn packets_are_saved() {
    let folder = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = |name: &str| folder.path().join(name);
    let records = |name: &str| {
        let mut capture = rdmascope_capture_agent::Capture::open(&path(name)).unwrap();
        let mut packets = Vec::new();
        while let Some(record) = capture.next().unwrap() {
            packets.push((record.time, record.data.to_vec()));
        }
        packets
    };
    let mut driver = Driver::new("nfs3-lossy.pcap", (120, 40), UNICODE);
    driver.saves = true;
    let save = |driver: &mut Driver, keys: &str, name: &str| {
        driver.press(keys).press("x Ctrl-u");
        driver.press(&format!("\"{}\" Enter", path(name).display()));
        driver.state.notice.clone().unwrap_or_default()
    };
    assert!(save(&mut driver, "1", "all.pcapng").ends_with("2,108 packets written"));
    let all = records("all.pcapng");
    assert_eq!(all.len(), 2108);
    assert!(save(&mut driver, "2 t \"0.9\" Enter", "one.pcapng").contains("packets written"));
    assert_eq!(records("one.pcapng"), all, "the capture has one connection");
    assert!(save(&mut driver, "3 s Enter", "write.pcapng").contains("packets written"));
    let row = driver.state.session.rows.iter().find(|row| row.number == 13).unwrap();
    let frames = row.first as usize - 1..row.last as usize;
    assert_eq!(records("write.pcapng"), all[frames]);
    let again = save(&mut driver, "1", "all.pcapng");
    assert!(again.contains("all.pcapng") && again.contains("exists"), "{again}");
}

/// Without a capture, the available ones are listed, and one is opened.
#[test]
fn captures_are_listed() {
    let mut driver = Driver::empty("none", (80, 24), UNICODE);
    driver.state.captures = (1..40).map(|number| format!("samples/{number}.pcap")).collect();
    driver.state.over = Some(Over::Captures(0));
    driver.press("j j k Esc x Enter");
    assert_eq!(driver.opened, [1]);
    driver.press("G Enter");
    assert!(driver.text().contains("samples/39.pcap"), "{}", driver.text());
    assert_eq!(driver.opened, [1, 38]);
    driver.press("q");
    assert!(driver.has_quit);
}

/// Requests that were made before records could be read again are repeated afterwards.
#[test]
fn early_requests_are_repeated() {
    let mut driver = Driver::empty("nfs3-basic.pcap", (120, 40), UNICODE);
    let mut capture = rdmascope_capture_agent::Capture::open(&driver::sample("nfs3-basic.pcap")).unwrap();
    while let Some(record) = capture.next().unwrap() {
        driver.record(&record);
    }
    driver.batch();
    driver.press("3");
    assert!(driver.text().contains("still being copied"), "{}", driver.text());
    driver.press("Enter");
    let archive = rdmascope_capture_agent::Archive::open(&[driver::sample("nfs3-basic.pcap")], None).unwrap();
    driver.store(Store::Archive(Box::new(archive)));
    driver.send(Message::Stored);
    assert!(driver.text().contains("Latency by phase"), "{}", driver.text());
}

/// From a field of a Send to the frame that carried it, and back.
#[test]
fn a_field_leads_to_its_frame() {
    let mut driver = Driver::new("nfs3-lossy.pcap", (120, 40), UNICODE);
    driver.press("3 s Enter 5 j Enter");
    assert!(driver.text().contains("Frame 53 "), "{}", driver.text());
    // Closes the field, and then goes to the previous message.
    driver.press("h h");
    assert!(driver.text().contains("Send of the reply, frame "), "{}", driver.text());
}

/// A message that a Reply chunk conveyed in ten packets. tshark numbers their frames 884 to 893;
/// the first one has 124 bytes.
#[test]
fn a_chunk_field_leads_to_its_frame() {
    let mut driver = Driver::new("nfs3-basic.pcap", (160, 50), UNICODE);
    driver.press("& \"xid=0xa2396a62\" Enter Enter 5 l l");
    assert!(driver.text().contains("message of the reply, which a chunk conveyed"), "{}", driver.text());
    driver.press("g j");
    assert!(driver.text().contains(", in frame 884 "), "{}", driver.text());
    driver.press("Enter");
    assert!(driver.text().contains("Frame 884 "), "{}", driver.text());
}
