//! Prints the RPC transactions on network interfaces as they complete. It needs CAP_NET_RAW and
//! runs until it is killed:
//! `cargo build -p rdmascope-capture-agent --example live && sudo target/debug/examples/live eth0`

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this example runs on Linux");
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use rdmascope_capture_agent::confine::{Reach, confine};
    use rdmascope_capture_agent::live::{Live, LiveConfig};
    use rdmascope_capture_agent::{LiveSource as _, Next, Source as _};
    use rdmascope_dissector::engine::{Config, Engine};
    use rdmascope_dissector::event::Event;
    use std::sync::Arc;

    let interfaces = std::env::args().skip(1).collect();
    // A program that handles signals sets this flag, and the source ends.
    let end = Arc::default();
    let mut live = Live::open(&LiveConfig { interfaces, ..LiveConfig::default() }, end)?;
    // From here on no packet can make this process open a file or a socket, if the kernel can refuse it.
    eprintln!("{:?}", confine(Reach::Nothing)?);

    let mut engine = Engine::new(Config::default());
    let mut report = |event: Event<'_>| {
        if let Event::Transaction(transaction) = event {
            println!("{:?}: {:?}", transaction.xid, transaction.outcome);
        }
    };
    loop {
        match live.next()? {
            Next::Record(record) => engine.handle(&record, &mut report),
            // Ends the waits that are over, such as that for a reply.
            Next::Idle(Some(now)) => engine.handle_time(now, &mut report),
            Next::End => break,
            _ => {}
        }
    }
    engine.finish(&mut report);
    eprintln!("{:?}", live.counts()?);
    Ok(())
}
