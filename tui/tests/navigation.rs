//! Search, filters, steps back, times, and the packets that are saved.

mod driver;

use driver::{Driver, UNICODE};
use rdmascope_capture_agent::Capture;
use rdmascope_tui::inject::{Difference, Entry, Inject, Ran, SentCall, Update};
use rdmascope_tui::show::Show;
use rdmascope_tui::state::BytesOf;
use rdmascope_tui::update::Message;

fn lossy() -> Driver {
    Driver::new("nfs3-lossy.pcap", (120, 40), UNICODE)
}

/// The number of the selected transaction.
fn selected(driver: &Driver) -> u64 {
    driver.state.row().expect("a transaction is selected").number
}

#[test]
fn searches_continue_and_wrap_around() {
    let mut driver = lossy();
    driver.press("3 / \"lookup\" Enter");
    assert_eq!(selected(&driver), 9);
    driver.press("n");
    assert_eq!(selected(&driver), 15);
    driver.press("n");
    assert_eq!(selected(&driver), 9);
    assert!(driver.text().contains("continued at the beginning"), "{}", driver.text());
    driver.press("N");
    assert_eq!(selected(&driver), 15);
    driver.press("/ \"no such text\" Enter");
    assert!(driver.text().contains("not found"), "{}", driver.text());
    assert_eq!(selected(&driver), 15);
    // An empty text ends the search.
    driver.press("/ Enter n");
    assert!(driver.text().contains("/ starts one"), "{}", driver.text());
}

/// A time after the capture goes to its end, and the notice says so.
#[test]
fn a_time_after_the_end_has_a_notice() {
    let mut driver = lossy();
    driver.press("t \"99999\" Enter");
    let notice = driver.state.notice.clone().unwrap_or_default();
    assert!(notice.contains("no packet after that time: the last one is at 1.986737 s"), "{notice}");
    assert_eq!(driver.state.moment.record, 2108);
    driver.press("t \"1.5\" Enter");
    assert_eq!(driver.state.notice, None);
}

/// Each view is searched: a text in it is on the screen afterwards.
#[test]
fn every_view_is_searchable() {
    for (keys, wanted) in [
        ("r", "capture point unknown"),
        ("2 t \"0.9\" Enter", "10.77.0.2"),
        ("3", "PATHCONF"),
        ("3 s Enter", "again:"),
        ("3 s Enter 5", "mtype: CALL"),
        ("6", "disconnected"),
        ("7", "invalidation-sender-flag"),
        ("8", "GETATTR"),
        ("6 p", "9.33ms"),
    ] {
        let mut driver = lossy();
        driver.press(keys).press(&format!("/ \"{wanted}\" Enter"));
        let found = driver.state.notice.as_deref().is_none_or(|notice| !notice.contains("not found"));
        let lower = driver.text().to_lowercase();
        assert!(found && lower.contains(&wanted.to_lowercase()), "{keys} {wanted}: {}", driver.text());
    }
}

/// In a text of several pages, every match is visited once, to the end and then from the beginning.
#[test]
fn searches_visit_every_match() {
    let mut driver = Driver::new("nfs3-lossy.pcap", (80, 24), UNICODE);
    driver.press("3 s Enter / \"again:\" Enter");
    let mut lines = Vec::new();
    while lines.len() < 2000 {
        let (_, _, line) = driver.state.hit.expect("a match");
        if lines.first() == Some(&line) {
            break;
        }
        lines.push(line);
        driver.press("n");
    }
    assert!(lines.len() > 3 && lines.is_sorted(), "{lines:?}");
    // Backward, the same matches.
    let mut back = Vec::new();
    for _ in 0..lines.len() {
        driver.press("N");
        back.push(driver.state.hit.expect("a match").2);
    }
    back.reverse();
    assert_eq!(back, lines);
}

/// Bytes are found in fields.
#[test]
fn bytes_are_found() {
    let mut driver = lossy();
    driver.press("3 s Enter 5 / \"07 45 38 3d\" Enter");
    assert!(driver.text().contains("Bytes 0 to 3"), "{}", driver.text());
}

#[test]
fn unknown_names_in_filters_are_rejected() {
    let mut driver = Driver::new("nfs4.1-basic.pcap", (120, 40), UNICODE);
    for (line, part) in [
        ("operation=OPNE", "operation=OPNE: unknown operation: did you mean OPEN"),
        ("operaton=OPEN", "did you mean operation?"),
        ("status=NOENTT", "did you mean NOENT"),
        ("connection=7", "no connection 7: the highest number is 1"),
        ("op == OPNE", "did you mean OPEN"),
    ] {
        driver.press(&format!("& Ctrl-u \"{line}\" Enter"));
        assert!(driver.text().contains(part), "{line}: {}", driver.text());
        assert!(driver.state.prompt.is_some() && driver.state.filter.is_empty(), "{line}");
        driver.press("Esc");
    }
    assert_eq!(driver.state.order.len(), driver.state.session.rows.len());
}

/// Earlier lines come back with Up, and Tab completes values that are in the capture.
#[test]
fn filters_have_history_and_completion() {
    let mut driver = lossy();
    driver.press("& \"operation=READ\" Enter & Ctrl-u \"operation=WRITE\" Enter & Ctrl-u Up");
    let text = |driver: &Driver| driver.state.prompt.as_ref().expect("it is open").text.clone();
    assert_eq!(text(&driver), "operation=WRITE");
    driver.press("Up");
    assert_eq!(text(&driver), "operation=READ");
    driver.press("Down Down");
    assert_eq!(text(&driver), "");
    driver.press("\"oper\" Tab \"loo\" Tab Enter");
    assert_eq!(driver.state.filter_line, "operation=LOOKUP");
    assert_eq!(driver.state.order.len(), 2);
}

/// One step back each time: out of the detail, to the exchange, to the list, to the list without a
/// filter, to the first view.
#[test]
fn esc_goes_back_one_step() {
    let mut driver = lossy();
    driver.press("3 & \"operation=READ\" Enter Enter Down Enter");
    assert_eq!((driver.state.show, driver.state.bytes_of), (Show::Bytes, BytesOf::Frame));
    let frame = driver.state.frame.as_ref().unwrap().number;
    // Another part of the same view, and a frame from a field of it.
    driver.press("5 6 Esc");
    assert_eq!((driver.state.show, driver.state.frame.as_ref().unwrap().number), (Show::Bytes, frame));
    driver.press("p Esc");
    assert!(!driver.state.in_detail && driver.state.show == Show::Bytes);
    driver.press("Esc");
    assert_eq!(driver.state.show, Show::Exchange);
    driver.press("Esc");
    assert_eq!((driver.state.show, &*driver.state.filter_line), (Show::Transactions, "operation=READ"));
    driver.press("Esc");
    assert_eq!((driver.state.show, &*driver.state.filter_line), (Show::Transactions, ""));
    driver.press("Esc");
    assert_eq!(driver.state.show, Show::Overview);
    driver.press("Esc");
    assert_eq!(driver.state.show, Show::Overview);
}

/// Between packets, the clock shows the requested time, and playing advances it.
#[test]
fn the_clock_advances_without_packets() {
    let mut driver = lossy();
    // No packet between 0.2 and 0.75 s.
    driver.press("t \"0.5\" Enter");
    assert!(driver.text().contains("0.500000 s"), "{}", driver.text());
    let record = driver.state.moment.record;
    driver.press("Space");
    driver.send(Message::Tick(100_000_000));
    assert!(driver.text().contains("0.600000 s"), "{}", driver.text());
    assert_eq!(driver.state.moment.record, record);
    // A packet shows its own time.
    driver.press("Space .");
    assert!(!driver.text().contains("0.600000 s") && driver.state.moment.record == record + 1);
}

#[test]
fn times_are_accepted_in_several_formats() {
    let mut driver = lossy();
    for (typed, shown) in [
        ("0.5", "0.500000 s"),
        ("09:37:32", "09:37:32.000 0.725893 s"),
        ("09:37:32.5", "1.225893 s"),
        ("-0.5s", "0.725893 s"),
        ("+250ms", "0.975893 s"),
        ("2026-11-21", " 0.000000 s"),
        ("2026-11-21 09:37:33", "1.725893 s"),
        ("2026-11-21T10:37:33+01:00", "1.725893 s"),
    ] {
        driver.press(&format!("t \"{typed}\" Enter"));
        assert!(driver.text().contains(shown), "{typed}: {}", driver.text());
    }
    driver.press("t \"9:61\" Enter");
    assert!(driver.text().contains("a time of day"), "{}", driver.text());
}

/// Every list has times, in the form that T selects.
#[test]
fn all_lists_show_times() {
    for keys in ["2 t \"0.9\" Enter", "3", "6", "7"] {
        let mut driver = lossy();
        driver.press(keys);
        assert!(
            driver.text().contains("UTC     seconds") && driver.text().contains("09:37:3"),
            "{}",
            driver.text()
        );
        driver.press("T");
        assert!(driver.text().contains("seconds") && !driver.text().contains(" UTC "), "{}", driver.text());
        driver.press("T");
        assert!(driver.text().contains("      delta     seconds"), "{}", driver.text());
        driver.press("T");
        assert!(driver.text().contains("local time"), "{}", driver.text());
    }
}

/// With a filter, x saves the packets of the listed transactions, and y copies the command that
/// lists them.
#[test]
fn saving_and_copying_respect_the_filter() {
    let folder = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("filtered.pcapng");
    let mut driver = lossy();
    driver.saves = true;
    driver.press("3 & \"operation=NULL\" Enter x");
    assert_eq!(driver.state.prompt.as_ref().unwrap().text, "filtered.pcapng");
    driver.press(&format!("Ctrl-u \"{}\" Enter", path.display()));
    let mut capture = Capture::open(&path).unwrap();
    let mut count = 0;
    while capture.next().unwrap().is_some() {
        count += 1;
    }
    // Call, ACK, reply of both: frames 4 to 6, and 19 to 21.
    assert_eq!(count, 6);
    driver.press("s y");
    let list = "rdmascope transactions samples/nfs3-lossy.pcap --operation=NULL --sort waited --reverse";
    assert_eq!(driver.copied.pop().as_deref(), Some(list));
    driver.press("& Ctrl-u \"latency > 50ms\" Enter S y");
    let list = "rdmascope transactions samples/nfs3-lossy.pcap --where 'latency > 50ms' --sort waited";
    assert_eq!(driver.copied.pop().as_deref(), Some(list));
    driver.press("& Ctrl-u \"found\" Enter S s s s y");
    let list = "rdmascope transactions samples/nfs3-lossy.pcap --where 'number in (17)'";
    assert_eq!(driver.copied.pop().as_deref(), Some(list));
}

/// A mark has a note, is listed, leads back to its subject, and is saved; x adds the notes to the
/// packets.
#[test]
fn marks_and_notes() {
    let folder = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("noted.pcapng");
    let mut driver = lossy();
    driver.state.notes = "lossy.pcap.notes".into();
    driver.saves = true;
    driver.press("3 s m \"the slow one\" Enter P j m \"its ACK\" Enter");
    assert!(driver.text().contains("▌*      54"), "{}", driver.text());
    driver.press("3");
    assert!(driver.text().contains("\n*     13 "), "{}", driver.text());
    driver.press("'");
    let text = driver.text();
    assert!(text.contains("2 marks, not saved") && text.contains("transaction 13 (#53)"), "{text}");
    assert!(text.contains("the slow one") && text.contains("its ACK") && text.contains("frame 54"), "{text}");
    driver.press("W Enter");
    let (file, text, may_replace) = driver.notes.pop().unwrap();
    assert_eq!((file.to_str(), may_replace), (Some("lossy.pcap.notes"), false));
    let notes = rdmascope_present::notes::parse(&text).unwrap();
    assert_eq!(notes.len(), 2, "{text}");
    driver.send(Message::Noted(Ok(file)));
    assert!(driver.text().contains("2 marks, in lossy.pcap.notes"), "{}", driver.text());
    driver.press("W Enter");
    assert!(driver.notes.pop().unwrap().2, "the file with these notes is replaced");
    driver.press("G Enter");
    assert_eq!((driver.state.show, driver.state.frame.as_ref().unwrap().number), (Show::Bytes, 54));
    driver.press(&format!("Esc x Ctrl-u \"{}\" Enter", path.display()));
    let bytes = std::fs::read(&path).unwrap();
    for note in ["the slow one", "its ACK"] {
        assert!(bytes.windows(note.len()).any(|window| window == note.as_bytes()), "{note}");
    }
    // An empty note removes a mark.
    driver.press("m Ctrl-u Enter");
    assert_eq!(driver.state.marks.list.len(), 1);
    // Nothing to mark.
    driver.press("8 m");
    assert!(driver.text().contains("no packet or transaction is selected"), "{}", driver.text());
    // Notes of a file, before and after the transactions are known.
    driver.send(Message::Notes("lossy.pcap.notes".into(), notes));
    assert_eq!(driver.state.marks.list.len(), 2);
}

/// After a session was sent, the result names the differing call, which is visible and highlighted.
#[test]
fn differing_calls_of_a_session_are_found() {
    let mut driver = lossy();
    let session = Entry { name: "session".into(), is_session: true, ..Entry::default() };
    let crash = Entry { name: "crash".into(), is_destructive: true, ..Entry::default() };
    driver.state.inject = Inject::new("192.0.2.2:20049".into(), vec![session, crash], Vec::new());
    driver.state.inject.arguments = " --from 192.0.2.9".into();
    driver.state.inject.session_arguments = " --mount /srv".into();
    driver.press("9");
    assert!(driver.text().contains("Enter send"), "{}", driver.text());
    driver.press("Enter");
    assert!(driver.text().contains("Enter stop"), "{}", driver.text());
    driver.send(Message::Update(Box::new(Update::Calls(254))));
    for number in 1..=254 {
        let differs = number == 10 || number == 200;
        let field =
            Difference { field: "size".into(), recorded: "7".into(), live: "8".into(), is_allowed: false };
        let call = SentCall {
            transaction: Some(number),
            name: format!("call {number}"),
            verdict: if differs { "differs" } else { "agrees" },
            is_difference: differs,
            differences: if differs { vec![field] } else { Vec::new() },
            ..SentCall::default()
        };
        driver.send(Message::Update(Box::new(Update::Call(call))));
        if number == 120 {
            assert!(driver.text().contains("120 of 254 calls sent"), "{}", driver.text());
        }
    }
    let ran = Ran { verdict: "differs".into(), ..Ran::default() };
    driver.send(Message::Ran(0, Box::new(Ok(ran))));
    let text = driver.text();
    assert!(text.contains("2 of 254 differ: calls 10, 200") && text.contains("call 10 "), "{text}");
    let lit = |driver: &Driver| {
        let buffer = driver.buffer();
        let is_lit =
            |cell: &&ratatui::buffer::Cell| cell.modifier.contains(ratatui::style::Modifier::REVERSED);
        let lines =
            buffer.content.chunks(120).skip(12).filter(|line| line.iter().filter(is_lit).count() > 60);
        lines.count()
    };
    assert_eq!(lit(&driver), 2, "the call and its difference: {text}");
    driver.press("n");
    assert!(driver.text().contains("call 200 "), "{}", driver.text());
    driver.press("n");
    assert!(driver.text().contains("call 10 "), "{}", driver.text());
    driver.press("N y");
    assert!(driver.text().contains("call 200 "), "{}", driver.text());
    let replay = "rdmascope peer replay samples/nfs3-lossy.pcap --to 192.0.2.2:20049 --leave-out --all \
        --from 192.0.2.9 --mount /srv";
    assert_eq!(driver.copied.pop().as_deref(), Some(replay));
    // From the highlighted call to its exchange.
    driver.press("N p Enter");
    assert_eq!((driver.state.show, driver.state.chosen), (Show::Exchange, Some(10)));
    driver.press("9 j y");
    assert!(driver.text().contains("Enter run") || driver.state.notice.is_some());
    let inject = "rdmascope peer inject --to 192.0.2.2:20049 --from 192.0.2.9 --allow-destructive crash";
    assert_eq!(driver.copied.pop().as_deref(), Some(inject));
}
