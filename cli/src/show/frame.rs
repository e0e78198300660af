//! `show --frame`: the fields and bytes of one frame.

use super::Show;
use crate::input::{listen, observe};
use crate::output::{self, Failure, Format, Out, Status};
use anyhow::anyhow;
use rdmascope_analysis::events::{Events, SessionEvent};
use rdmascope_analysis::findings::Findings;
use rdmascope_analysis::observer::Each;
use rdmascope_analysis::owner::Owner;
use rdmascope_analysis::units::Number;
use rdmascope_conformance::Finding;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_present::columns::{EVENT, FINDING, FRAME, FindingRow, FrameRow};
use rdmascope_present::fields::headers;
use rdmascope_present::json;
use rdmascope_present::screen::{self, Screen, findings};
use std::io::Write as _;

/// Shows the frame with this number.
pub(super) fn run(command: &Show, number: u64, screen: Screen, out: &mut Out) -> Result<Status, Failure> {
    let (mut near, mut owner) = (Vec::new(), Owner::of(number));
    let mut findings = Findings::new(Findings::ALL);
    let mut events = Events::default();
    let candidates = Each(|event: &Event<'_>| {
        if let Event::Transaction(transaction) = event
            && may_own(transaction, number)
        {
            near.push((*transaction).clone());
        }
    });
    let observers = &mut (&mut findings, &mut events, &mut owner, candidates);
    let ending = observe(&command.input, observers)?;
    let events = events.list(ending.totals.span.map(|(_, last)| last));
    let happened: Vec<&SessionEvent> = events.iter().filter(|event| event.is_shown_by(number)).collect();
    let named: Vec<&Finding> = findings.kept().filter(|finding| finding.frames.contains(&number)).collect();
    let of = owner.transaction();
    let config = Config { report_packets: true, ..Config::default() };
    let frame_config = command.input.frame();
    let mut shown = false;
    let ending = listen(&command.input, config, |event, start| {
        let Event::Packet(packet) = event else { return Ok(()) };
        if packet.record.number != number {
            return Ok(());
        }
        shown = true;
        let transaction = near.iter().find(|transaction| Some(transaction.number) == of);
        let fields = headers::frame(packet, &frame_config, transaction);
        match command.output.format {
            Format::Jsonl => {
                json::write_line(out, &FRAME.of(FrameRow { packet, transaction: of, fields: &fields }))?;
                named.iter().try_for_each(|finding| {
                    json::write_line(out, &FINDING.of(FindingRow::new(finding, false)))
                })?;
                happened.iter().try_for_each(|event| json::write_line(out, &EVENT.of(event)))
            }
            Format::Text => {
                screen::frame::head(packet, start, of, screen, out)?;
                findings::section(&named, screen, out)?;
                screen::events::section(&happened, start, screen, out)?;
                writeln!(out)?;
                screen::tree(&fields, packet.record.data, screen, out)?;
                screen::heading("Bytes", screen, out)?;
                screen::rows(packet.record.data, 0, |_| true, out)
            }
        }
    })?;
    if !shown {
        return Err(match ending.totals.records {
            0 => anyhow!("no frame {number}: the capture has no packets"),
            records => anyhow!("no frame {number}: the capture has frames 1 to {}", Number(records)),
        }
        .into());
    }
    output::report_left_out(&findings);
    Ok(output::complain_of_troubles(&ending, out)?)
}

/// Whether the Send of the call or the reply ended in this frame or may have begun in it. The frame
/// then shows the operations.
fn may_own(transaction: &Transaction, frame: u64) -> bool {
    let mut frames = transaction.messages().map(|message| message.first.frame..=message.seen.frame);
    frames.any(|frames| frames.contains(&frame))
}
