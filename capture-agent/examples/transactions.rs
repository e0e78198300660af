//! Prints the RPC transactions of captures, and what the captures lack:
//! `cargo run -p rdmascope-capture-agent --example transactions -- samples/nfs3-basic.pcap`

use rdmascope_capture_agent::{Error, Files, Interrupt, Next, Source as _};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use std::path::PathBuf;

fn main() -> Result<(), Error> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    transactions(&paths, &mut |line| println!("{line}"))
}

/// Passes a line for each transaction and each file to `print`.
pub(crate) fn transactions(paths: &[PathBuf], print: &mut dyn FnMut(String)) -> Result<(), Error> {
    let mut files = Files::open(paths, None, &Interrupt::default())?;
    let mut engine = Engine::new(Config::default());
    let mut report = |event: Event<'_>| {
        if let Event::Transaction(transaction) = event {
            print(format!(
                "{:?}: {:?} in {:?} ns",
                transaction.xid,
                transaction.outcome,
                transaction.latency()
            ));
        }
    };
    loop {
        match files.next()? {
            Next::Record(record) => engine.handle(&record, &mut report),
            // The next packet of a pipe may take long: programs that buffer output flush it here.
            Next::Idle(_) => {}
            // A note that the capture contains in addition to packets.
            Next::Note(_) => {}
            _ => break,
        }
    }
    engine.finish(&mut report);
    for file in files.endings() {
        let (title, dropped) = (file.title(), file.dropped());
        print(format!("{title}: cut short: {:?}; {dropped} packets dropped while capturing", file.cut));
    }
    Ok(())
}
