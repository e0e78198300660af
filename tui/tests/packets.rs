//! The list of packets and the NFSv4 state at a moment.

mod driver;

use driver::{Driver, UNICODE, sample};
use rdmascope_capture_agent::Capture;
use rdmascope_tui::ring::Ring;
use rdmascope_tui::show::Show;
use rdmascope_tui::state::BytesOf;
use rdmascope_tui::store::Store;

fn lossy() -> Driver {
    Driver::new("nfs3-lossy.pcap", (120, 40), UNICODE)
}

/// The number of the selected packet.
fn selected(driver: &Driver) -> u64 {
    let at = driver.state.cursors[Show::Packets as usize].at;
    driver.state.packets.row(at).expect("it is loaded").number
}

/// From a transaction to its packets, from a packet to its transaction, and to its bytes and back.
#[test]
fn packet_and_transaction_selection_are_linked() {
    let mut driver = lossy();
    driver.press("3 s Enter P");
    // Transaction 13 begins with frame 53.
    assert_eq!(selected(&driver), 53);
    assert!(driver.text().contains("Frame 53, of transaction 13"), "{}", driver.text());
    driver.press("t \"#1738\" Enter");
    assert_eq!((selected(&driver), driver.state.chosen), (1738, Some(17)));
    driver.press("3");
    assert_eq!(driver.state.row().map(|row| row.number), Some(17));
    driver.press("Esc Enter");
    assert_eq!((driver.state.show, driver.state.bytes_of), (Show::Bytes, BytesOf::Frame));
    assert_eq!(driver.state.frame.as_ref().map(|frame| frame.number), Some(1738));
    driver.press("Esc j j j");
    assert_eq!((driver.state.show, selected(&driver)), (Show::Packets, 1741));
    // The bytes of another packet, and its packet again.
    driver.press("Enter P");
    assert_eq!(selected(&driver), 1741);
}

/// Every row is loaded, wherever the cursor goes, with the transaction that a look at the exchange
/// shows.
#[test]
fn all_packets_are_listed() {
    let mut driver = lossy();
    driver.press("P");
    for key in ["g", "G", "PageUp", "PageUp", "k", "g", "PageDown", "j"] {
        driver.press(key);
        let at = driver.state.cursors[Show::Packets as usize].at;
        assert_eq!(selected(&driver), at as u64 + 1, "{key}");
    }
    driver.press("G");
    assert_eq!(selected(&driver), 2108);
    // The CM exchange belongs to no transaction; a retransmitted packet does.
    driver.press("t \"#1\" Enter");
    assert!(
        driver.text().contains("ConnectRequest") && !driver.text().contains("Frame 1, of"),
        "{}",
        driver.text()
    );
    driver.press("t \"#191\" Enter");
    assert!(driver.text().contains("Frame 191, of transaction 13"), "{}", driver.text());
}

#[test]
fn packets_are_filtered_and_searched() {
    let mut driver = lossy();
    // tshark -Y 'infiniband.bth.opcode == 17' lists 56 of them.
    driver.press("P & \"opcode=acknowledge\" Enter");
    assert!(driver.text().contains("Packets: 56 of 2,108, filter: opcode=acknowledge"), "{}", driver.text());
    let list = driver.press("y").copied.pop();
    assert_eq!(list.as_deref(), Some("rdmascope packets samples/nfs3-lossy.pcap --opcode=acknowledge"));
    driver.press("& Ctrl-u \"connection=2\" Enter");
    assert!(driver.text().contains("no connection 2: the highest number is 1"), "{}", driver.text());
    driver.press("Esc & Ctrl-u \"opcod=read\" Enter");
    assert!(driver.text().contains("did you mean opcode?"), "{}", driver.text());
    // The NAK of the report.
    driver.press("Esc & Ctrl-u Enter / \"nak\" Enter");
    assert_eq!(selected(&driver), 2053);
    driver.press("g N");
    assert_eq!(selected(&driver), 2053);
    driver.press("/ \"no such text\" Enter");
    assert!(driver.text().contains("not found"), "{}", driver.text());
    driver.press("& \"sequence error\" Enter");
    assert_eq!((driver.state.packets.matched.len(), selected(&driver)), (1, 2053));
    driver.press("Esc");
    assert!(driver.state.packets.line.is_empty());
}

/// In a live capture, packets arrive in the list, and those that are discarded are shown as such.
#[test]
fn live_packets_are_listed() {
    let mut driver = Driver::empty("live", (120, 40), UNICODE);
    driver.store(Store::Ring(Ring::new(300_000)));
    let mut capture = Capture::open(&sample("nfs3-lossy.pcap")).unwrap();
    driver.press("P");
    let mut count = 0;
    while let Some(record) = capture.next().unwrap() {
        driver.record(&record);
        count += 1;
        if count % 100 == 0 {
            driver.batch();
        }
    }
    driver.batch();
    driver.press("G g");
    assert!(driver.text().contains("no longer kept"), "{}", driver.text());
    driver.press("G");
    assert_eq!(selected(&driver), 2108);
    driver.press("& \"opcode=acknowledge\" Enter G");
    let listed = &driver.state.packets.matched;
    assert!(!listed.is_empty() && listed.windows(2).all(|two| two[0].number < two[1].number));
}

/// `rdmascope state` lists the lifetimes of this sample; its README describes them.
#[test]
fn state_is_shown_at_the_selected_moment() {
    let mut driver = Driver::new("nfs4.1-backchannel-recall.pcap", (120, 40), UNICODE);
    for (time, words) in [
        ("0.01", "none"),
        ("0.018", "1 client ID"),
        ("1.335", "1 client ID, 1 session, 1 open, 1 delegation"),
        ("1.45", "1 client ID, 1 session, 2 delegations"),
        ("4", "1 client ID, 1 session, 2 delegations"),
        ("4.7", "1 client ID, 1 session, 2 delegations"),
    ] {
        driver.press(&format!("O t \"{time}\" Enter"));
        assert!(driver.text().contains(&format!("at this moment: {words} ")), "{time}: {}", driver.text());
    }
    driver.press("t \"1.45\" Enter G");
    let text = driver.text();
    assert!(
        text.contains("delegation") && text.contains("\"/deleg2\"") && text.contains("lasted 2.01s"),
        "{text}"
    );
    let command = driver.press("y").copied.pop();
    let expected = "rdmascope state samples/nfs4.1-backchannel-recall.pcap --since 1.450000 --until +1us";
    assert_eq!(command.as_deref(), Some(expected));
    driver.press("Enter");
    assert!(driver.text().contains("OPEN"), "{}", driver.text());
    driver.press("f O");
    assert!(driver.text().contains("at this moment: none"), "{}", driver.text());
}

/// A live capture has discarded packets of the page that is shown. The fields of such a packet are
/// requested once, not without end.
#[test]
fn a_discarded_packet_is_requested_once() {
    let mut driver = Driver::empty("live", (120, 40), UNICODE);
    driver.store(Store::Ring(Ring::new(300_000)));
    let mut capture = Capture::open(&sample("nfs3-lossy.pcap")).expect("it is a capture");
    let mut feed = |driver: &mut Driver, count: usize| {
        for _ in 0..count {
            driver.record(&capture.next().expect("it can be read").expect("it has more"));
        }
        driver.batch();
    };
    feed(&mut driver, 200);
    driver.press("P g");
    feed(&mut driver, 1500);
    driver.press("j j");
    assert_eq!((selected(&driver), driver.state.frame.as_ref().map(|frame| frame.number)), (3, Some(1)));
    assert!(driver.state.notice.is_some(), "the reason is shown");
}
