//! Prints the RPC transactions of a capture and the packets that the capture reports as missing:
//! `cargo run -p rdmascope-capture-agent --example transactions -- samples/nfs3-basic.pcap`

use rdmascope_capture_agent::{Error, Files, Interrupt, Next, Source as _};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use std::path::PathBuf;

fn main() -> Result<(), Error> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let mut files = Files::open(&paths, None, &Interrupt::default())?;
    let mut engine = Engine::new(Config::default());
    let mut print = |event: Event<'_>| {
        if let Event::Transaction(transaction) = event {
            println!("{:?}: {:?} in {:?} ns", transaction.xid, transaction.outcome, transaction.latency());
        }
    };
    loop {
        match files.next()? {
            Next::Record(record) => engine.handle(&record, &mut print),
            // The next packet of a pipe may take long: programs that buffer output flush it here.
            Next::Idle(_) => {}
            _ => break,
        }
    }
    engine.finish(&mut print);
    for file in files.endings() {
        println!(
            "{}: cut short: {:?}; {} packets dropped while capturing",
            file.title(),
            file.cut,
            file.dropped()
        );
    }
    Ok(())
}
