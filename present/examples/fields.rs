//! Prints the fields of a call and its reply, with the bytes of each field:
//! `cargo run -p rdmascope-present --example fields -- samples/nfs3-basic.pcap 16`

use rdmascope_capture_agent::{Capture, Error};
use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::exchange::Keep;
use rdmascope_present::fields::{Field, rpc};
use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("usage: fields FILE TRANSACTION")?;
    let number = arguments.next().ok_or("usage: fields FILE TRANSACTION")?.parse()?;
    Ok(fields(file.as_ref(), number, &mut |line| println!("{line}"))?)
}

/// Passes a line for each field of a transaction's Sends to `print`.
pub(crate) fn fields(path: &Path, number: u64, print: &mut dyn FnMut(String)) -> Result<(), Error> {
    let mut capture = Capture::open(path)?;
    // Fields need the bytes of the messages, which the engine otherwise drops.
    let keep = Keep { contents: true, ..Keep::default() };
    let mut engine = Engine::new(Config { keep, ..Config::default() });
    let mut report = |event: Event<'_>| match event {
        Event::Transaction(transaction) if transaction.number == number => {
            for of_reply in [false, true] {
                print(if of_reply { "reply" } else { "call" }.to_owned());
                let (fields, _) = rpc::of_send(transaction, of_reply);
                fields.iter().for_each(|field| tree(field, 1, print));
            }
        }
        _ => {}
    };
    while let Some(record) = capture.next()? {
        engine.handle(&record, &mut report);
    }
    engine.finish(&mut report);
    Ok(())
}

/// A field and its subfields, indented by their depth.
fn tree(field: &Field, depth: usize, print: &mut dyn FnMut(String)) {
    let bytes = field.range.as_ref().map_or(String::new(), |range| format!("  bytes {range:?}"));
    print(format!("{:1$}{2}: {3}{bytes}", "", 2 * depth, field.name, field.shown()));
    field.children.iter().for_each(|child| tree(child, depth + 1, print));
}
