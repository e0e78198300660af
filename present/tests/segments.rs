//! The output of `packets` for TCP segments of iWARP.

use rdmascope_dissector::engine::{Config, Engine};
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use rdmascope_present::column::{Setting, TextTable};
use rdmascope_present::columns::PACKET;
use rdmascope_present::text::Style;
use rdmascope_tests::{samples, session};

/// The lines of these frames, without number and time.
fn lines(sample: &str, frames: &[u64]) -> Vec<String> {
    let mut engine = Engine::new(Config { report_packets: true, ..Config::default() });
    let setting = Setting { start: Time(0), style: Style::default() };
    let mut lines = Vec::new();
    for record in session::records(&samples::capture(sample)) {
        engine.handle(&record, &mut |event| {
            if let Event::Packet(packet) = event
                && frames.contains(&packet.record.number)
            {
                let mut line = Vec::new();
                TextTable::new(&PACKET).write_row(packet, setting, &mut line).expect("in-memory write");
                let line = String::from_utf8(line).expect("it is text");
                lines.push(line.split_whitespace().skip(2).collect::<Vec<_>>().join(" "));
            }
        });
    }
    lines
}

/// As tshark dissects these frames, although it does not name FPDUs by their messages.
#[test]
fn fpdus_are_named() {
    assert_eq!(
        lines("iwarp-nfs3", &[4, 6, 7, 8, 1568]),
        [
            "10.77.0.2 -> 10.77.0.1 - - - MPA Request, revision 2; iWARP 52871 -> 20049, sequence 3698732728, 32 bytes",
            "10.77.0.1 -> 10.77.0.2 - - - MPA Reply, revision 2; iWARP 20049 -> 52871, sequence 1575873690, 32 bytes",
            "10.77.0.2 -> 10.77.0.1 - - - iWARP 52871 -> 20049, sequence 3698732760, 0 bytes",
            "10.77.0.2 -> 10.77.0.1 Send - - Send 68 bytes msn 1 RDMA_MSG xid 0x3c46db1b credits 128; iWARP 52871 -> 20049, sequence 3698732760, 92 bytes",
            "10.77.0.1 -> 10.77.0.2 Send with Invalidate - - Send with Invalidate 180 bytes msn 183 RDMA_MSG xid 0xf246db1b credits 64 write 52 KiB; iWARP 20049 -> 52871, sequence 1576447118, 204 bytes",
        ]
    );
}

/// Frame 145 has a CRC that was made wrong on purpose. Frame 146 reports it, with layer and type
/// swapped as Linux writes them.
#[test]
fn crc_errors_and_terminates_are_shown() {
    let found = lines("iwarp-scripted", &[145, 146]);
    assert!(
        found[0].contains("Send 68 bytes msn 2 RDMA_MSG xid 0x52000002 credits 32 bad CRC; iWARP"),
        "{found:?}"
    );
    assert!(found[1].contains("Terminate 4 bytes msn 1: ") && found[1].contains("MPA: CRC"), "{found:?}");
}
