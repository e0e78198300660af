//! Names that a capture shows late: earlier rows get them while the capture is still being read.

mod driver;

use driver::{Driver, UNICODE};
use rdmascope_capture_agent::Capture;
use rdmascope_tui::ring::Ring;
use rdmascope_tui::store::Store;

/// The same rows are listed, in the same order, as if the filter were typed now, and the selected
/// row stays selected.
#[test]
fn filters_find_rows_named_late() {
    for (lines, keys) in [
        (["file ~ '*'", "file ~ 'd/*'"], ""),
        (["file !~ 'd/*'", "file=d/*"], "s"),
        (["file ~ 'd/*' && op == WRITE", "d/file"], "s s S"),
    ] {
        for line in lines {
            let mut late = 0;
            for sample in ["nfs3-basic.pcap", "nfs4.2-basic.pcap"] {
                let mut driver = Driver::empty("live", (120, 40), UNICODE);
                driver.store(Store::Ring(Ring::new(8 << 20)));
                driver.press(&format!("1 & \"{line}\" Enter {keys}"));
                let mut capture = Capture::open(&driver::sample(sample)).unwrap();
                // It starts in the middle, after the names in use have been looked up.
                for _ in 0..600 {
                    capture.next().unwrap().expect("it has more");
                }
                let mut read = 0;
                while let Some(record) = capture.next().unwrap() {
                    driver.record(&record);
                    read += 1;
                    if read % 40 == 0 {
                        let (before, chosen) =
                            (driver.state.order.clone(), driver.state.row().map(|row| row.number));
                        let rows = driver.state.session.rows.len() as u32;
                        driver.batch();
                        late += driver
                            .state
                            .order
                            .iter()
                            .filter(|at| **at < rows && !before.contains(at))
                            .count();
                        let (order, row) =
                            (driver.state.order.clone(), driver.state.row().map(|row| row.number));
                        driver.state.relist();
                        assert_eq!(order, driver.state.order, "{sample}: {line}");
                        assert_eq!(row, driver.state.row().map(|row| row.number), "{sample}: {line}");
                        let is_listed = |number: u64| order.iter().any(|at| u64::from(*at) + 1 == number);
                        if let Some(chosen) = chosen.filter(|chosen| is_listed(*chosen)) {
                            assert_eq!(row, Some(chosen), "{sample}: {line}");
                        }
                    }
                }
            }
            assert!(late > 0 || line.contains('!'), "{line}: no row got its name late");
        }
    }
}
