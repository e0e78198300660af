//! Arbitrary keys in arbitrary order.

mod driver;

use driver::{ASCII, Driver, UNICODE};
use proptest::prelude::*;
use rdmascope_capture_agent::Capture;
use rdmascope_tui::inject::{Arrow, Difference, Entry, Fault, Inject, Ran, SentCall, Update};
use rdmascope_tui::keys::KEYS;
use rdmascope_tui::ring::Ring;
use rdmascope_tui::session::Progress;
use rdmascope_tui::store::Store;
use rdmascope_tui::update::Message;

fn keys() -> Vec<&'static str> {
    KEYS.iter()
        .flat_map(|binding| binding.keys.iter().copied())
        .filter(|key| *key != "q" && *key != "Ctrl-c")
        .collect()
}

#[derive(Clone, Debug)]
enum Input {
    Key(&'static str),
    Char(char),
    Tick(u64),
    Resize(u16, u16),
    Mouse(u16, u16, u8),
    Update(bool, u64),
    Ran(usize),
}

fn input() -> impl Strategy<Value = Input> {
    prop_oneof![
        12 => proptest::sample::select(keys()).prop_map(Input::Key),
        2 => proptest::char::any().prop_map(Input::Char),
        2 => (0u64..3_000_000_000).prop_map(Input::Tick),
        1 => (0u16..200, 0u16..70).prop_map(|(width, height)| Input::Resize(width, height)),
        2 => (0u16..200, 0u16..70, 0u8..4).prop_map(|(column, row, kind)| Input::Mouse(column, row, kind)),
        1 => (any::<bool>(), 0u64..40).prop_map(|(is_call, number)| Input::Update(is_call, number)),
        1 => (0usize..4).prop_map(Input::Ran),
    ]
}

/// A session and a scenario for a live peer.
fn entries() -> Inject {
    let session = Entry { is_destructive: true, is_session: true, ..Entry::default() };
    let faults = vec![Fault { name: "version", help: "rdma_vers is 9" }];
    Inject::new("192.0.2.2:20049".into(), vec![session, Entry::default()], faults)
}

fn act(driver: &mut Driver, input: &Input) {
    use crossterm::event::{KeyCode, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
    match input {
        Input::Key(name) => {
            driver.press(name);
        }
        Input::Char(character) => driver.key(KeyCode::Char(*character), KeyModifiers::NONE),
        Input::Tick(nanoseconds) => driver.send(Message::Tick(*nanoseconds)),
        Input::Resize(width, height) => driver.send(Message::Resize(*width, *height)),
        Input::Update(true, 0) => driver.send(Message::Update(Box::new(Update::Calls(40)))),
        Input::Update(true, number) => {
            let differences = vec![Difference::default(); *number as usize % 3];
            let transaction = Some(*number);
            let call =
                SentCall { transaction, differences, notes: vec!["note".into()], ..SentCall::default() };
            driver.send(Message::Update(Box::new(Update::Call(call))));
        }
        Input::Update(false, number) => {
            let arrow = Arrow { since: *number, out: true, text: "RC SEND Only".into() };
            driver.send(Message::Update(Box::new(Update::Arrows(vec![arrow; *number as usize]))));
        }
        Input::Ran(index) => driver.send(Message::Ran(*index, Box::new(Ok(Ran::default())))),
        Input::Mouse(column, row, kind) => {
            let kind = match kind {
                0 => MouseEventKind::Down(MouseButton::Left),
                1 => MouseEventKind::Drag(MouseButton::Left),
                2 => MouseEventKind::ScrollUp,
                _ => MouseEventKind::ScrollDown,
            };
            let modifiers = KeyModifiers::NONE;
            driver.send(Message::Mouse(MouseEvent { kind, column: *column, row: *row, modifiers }));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// No input panics, and each screen can be drawn, for a finished capture and a live one.
    #[test]
    fn any_input_is_handled(
        walk in proptest::collection::vec(input(), 1..60),
        live in any::<bool>(),
        plain in any::<bool>(),
    ) {
        let look = if plain { ASCII } else { UNICODE };
        let mut driver = match live {
            false => Driver::new("nfs4.1-backchannel-recall.pcap", (100, 40), look),
            true => Driver::empty("live", (100, 40), look),
        };
        let mut capture = Capture::open(&driver::sample("nfs3-lossy.pcap")).unwrap();
        driver.state.inject = entries();
        if live {
            // With so little memory, the first records are discarded.
            driver.store(Store::Ring(Ring::new(300_000)));
        }
        for input in &walk {
            for _ in 0..50 {
                if let (true, Ok(Some(record))) = (live, capture.next()) {
                    driver.record(&record);
                }
            }
            if live {
                driver.batch();
            }
            act(&mut driver, input);
            driver.buffer();
        }
        prop_assert!(!live || driver.state.session.progress == Progress::Live);
    }

    /// The same number of steps back and forward leads to the same screen, by any path.
    #[test]
    fn steps_back_and_forward_are_inverse(
        from in 0u64..2100,
        steps in 1usize..12,
        other in 0u64..2100,
        view in 2u8..5,
    ) {
        let mut driver = Driver::new("nfs3-lossy.pcap", (120, 40), UNICODE);
        driver.press(&format!("{view} t \"#{from}\" Enter"));
        let before = driver.text();
        let on = ". ".repeat(steps);
        let back = ", ".repeat(steps);
        driver.press(&on);
        let forward = driver.text();
        driver.press(&format!("t \"#{other}\" Enter t \"#{}\" Enter", (from + steps as u64).min(2108)));
        prop_assert_eq!(&driver.text(), &forward);
        if from + steps as u64 <= 2108 {
            driver.press(&back);
            prop_assert_eq!(&driver.text(), &before);
        }
    }
}
