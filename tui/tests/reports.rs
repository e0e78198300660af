//! The report on the screen equals that of `analyze`.

mod driver;

use core::ops::ControlFlow;
use driver::{ASCII, Driver, sample};
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::one_capture::OneCapture;
use rdmascope_analysis::policy::Allowances;
use rdmascope_analysis::report::Report;
use rdmascope_capture_agent::{Files, Interrupt, Sink};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::frame;
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transport::Dissected;
use rdmascope_present::page::report::Text;
use rdmascope_present::text::Style;
use rdmascope_tests::samples;
use rdmascope_tui::overview::FoundCounts;
use rdmascope_tui::update::Message;

struct Analyzing {
    engine: Engine,
    report: Report,
    one_capture: OneCapture,
}

impl Sink for Analyzing {
    fn record(&mut self, record: &Record<'_>, dissected: &Dissected<'_>) -> ControlFlow<()> {
        let Analyzing { engine, report, one_capture } = self;
        engine.handle_dissected(record, dissected, &mut |event| {
            report.handle(&event);
            one_capture.handle(&event);
        });
        ControlFlow::Continue(())
    }

    fn idle(&mut self, _: Option<Time>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

#[test]
fn the_report_matches_analyze() {
    for name in samples::ALL {
        let file = format!("{name}.pcap");
        let mut driver = Driver::new(&file, (120, 40), ASCII);
        driver.press("r");
        let wide = driver.state.session.report.1.clone();
        driver.send(Message::Resize(80, 24));
        let engine = Engine::new(Config { observe: Observe::Events, ..Config::default() });
        let (report, one_capture) = (Report::default(), OneCapture::default());
        let mut analyzing = Analyzing { engine, report, one_capture };
        let mut files = Files::open(&[sample(&file)], None, &Interrupt::default()).unwrap();
        files.for_each(&frame::Config::default(), &mut (), &mut analyzing).unwrap();
        let Analyzing { mut engine, mut report, mut one_capture } = analyzing;
        engine.finish(&mut |event| {
            report.handle(&event);
            one_capture.handle(&event);
        });
        let totals = *engine.totals();
        let mut files = files.endings();
        files.iter_mut().for_each(|ending| ending.name = format!("samples/{file}"));
        let input = Some(format!("samples/{file}"));
        let ending = Ending {
            totals,
            files,
            port: frame::Config::default().port,
            one_capture,
            input,
            ..Ending::default()
        };
        for (width, shown) in [(120, &wide), (80, &driver.state.session.report.1)] {
            let style = Style::default().with_width(Some(width));
            let mut text = Vec::new();
            Text { report: &report, ending: &ending, style }.write(&mut text).unwrap();
            assert_eq!(String::from_utf8_lossy(shown), String::from_utf8_lossy(&text), "{name}, {width}");
        }
        assert_eq!(driver.state.session.totals, totals, "{name}");
        assert_eq!(driver.state.session.events, report.events(&ending), "{name}");
        let transactions: u64 = totals.transactions.iter().sum();
        assert_eq!(driver.state.session.rows.len() as u64, transactions, "{name}");
    }
}

/// Allowed findings stay in their list, marked, and are not counted in the overview.
#[test]
fn allowed_findings_are_marked() {
    let counted = |driver: &Driver| driver.state.session.overview.tiles.found;
    let driver = Driver::new("nfs4.1-basic.pcap", (160, 40), ASCII);
    assert_ne!(counted(&driver), FoundCounts::default(), "{}", driver.text());
    let allowances = Allowances::new(vec!["invalidation-sender-flag"], Vec::new());
    let mut driver = Driver::allowing(allowances, "nfs4.1-basic.pcap", (160, 40), ASCII);
    driver.press("7");
    let text = driver.text();
    assert!(text.contains("of them allowed") && text.contains(" allowed: "), "{text}");
    assert_eq!(counted(&driver), FoundCounts::default(), "{text}");
}

/// Three connections were closed without a reply to their calls, and the fourth waits.
#[test]
fn calls_on_closed_connections_are_not_in_flight() {
    let driver = Driver::new("../tests/cases/c02-reconnect.pcap", (120, 40), ASCII);
    let open: Vec<u32> = driver.state.moment.open.iter().map(|open| open.connection.0).collect();
    assert!(!open.is_empty() && open.iter().all(|id| *id == 4), "{open:?}");
}
