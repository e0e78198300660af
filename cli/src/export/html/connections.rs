//! The connections: their parameters, and the traffic of each end.

use super::values::{bytes, duration, number};
use maud::{Markup, html};
use rdmascope_analysis::names::{Invalidation, StateName};
use rdmascope_dissector::connection::{Connection, Endpoint};
use rdmascope_present::tables::connections::{CapturedAt, Known, carried_else};
use rdmascope_present::text::{Maybe, Named};

/// The rows about an end of a connection.
const SENT: [&str; 11] = [
    "packets",
    "bytes",
    "Sends",
    "Reads",
    "Write data",
    "Read data",
    "ACKs",
    "NAKs",
    "RNR NAKs",
    "sent again",
    "lacking",
];

/// A connection with its parameters and the traffic of its ends.
pub(super) fn article(connection: &Connection) -> Markup {
    let Connection { requester, responder, .. } = connection;
    let [forward, backward] = connection.transactions;
    let row = |name: &str, value: Markup| html! { div { dt { (name) } dd { (value) } } };
    html! {
        article class="connection" data-connection=(connection.id.0) {
            h3 {
                "#" (connection.id.0) " " (Named(requester))
                " " (if connection.roles_known { "\u{2192}" } else { "\u{2014}" }) " " (Named(responder))
            }
            dl class="facts" {
                (row("state", html! {
                    (StateName(connection)) "; known from " (Known(connection))
                    "; seen for " (duration(connection.last.since(connection.first)))
                    @if !connection.roles_known { "; opening end unknown" }
                }))
                @match carried_else(connection) {
                    Some(carried) => (row("carries", html! { (carried) })),
                    None => (row("transactions", html! { (number(forward)) " forward, " (number(backward)) " backward" })),
                }
                (row("negotiated", html! {
                    "path MTU " (Maybe(connection.path_mtu)) ", "
                    @match (connection.call_inline_threshold, connection.reply_inline_threshold) {
                        (Some(call), Some(reply)) => { "inline thresholds: call " (call) ", reply " (reply) },
                        _ => "inline thresholds unknown",
                    }
                    ", remote invalidation " (Invalidation(connection))
                    @if let Some(port) = connection.port { ", port " (port) }
                }))
                @if requester.round_trips.or(responder.round_trips).is_some() {
                    (row("Send to ACK", html! {
                        "of the responder: " (round_trips(requester)) br; "of the requester: " (round_trips(responder))
                    }))
                    (row("capture point", html! { (CapturedAt(connection)) }))
                }
                (row("private data", html! {
                    "requester: " (private_data(requester)) br; "responder: " (private_data(responder))
                }))
            }
            div class="scroll" {
                table {
                    thead {
                        tr {
                            th { "sent by" } th { "queue pair" }
                            @for name in SENT { th class="number" { (name) } }
                        }
                    }
                    tbody { (end("requester", requester)) (end("responder", responder)) }
                }
            }
        }
    }
}

/// The time from the Sends of an end to their ACKs.
fn round_trips(end: &Endpoint) -> Markup {
    html! {
        @match end.round_trips {
            Some(times) => {
                (duration(times.median)) " median, " (duration(times.minimum)) " minimum, count " (number(times.count))
            },
            None => "none seen",
        }
    }
}

/// The RFC 8797 private data that an end sent.
fn private_data(end: &Endpoint) -> Markup {
    html! {
        @match end.private_data {
            Some(data) => {
                "version " (data.version) ", R " (if data.remote_invalidation { "set" } else { "clear" })
                ", send size " (data.send_size) ", receive size " (data.receive_size)
                @if data.reserved != 0 { ", reserved bits " (format!("0x{:02x}", data.reserved)) }
                @if data.offset != 0 { ", at byte " (data.offset) }
            },
            None => "none seen",
        }
    }
}

/// One end of a connection, and its traffic.
fn end(name: &str, end: &Endpoint) -> Markup {
    let sent = &end.sent;
    let suspect = |count: u64| html! { td class={ "number" @if count > 0 { " bad" } } { (number(count)) } };
    html! {
        tr {
            th { (name) }
            td { (Maybe(end.qpn)) }
            td class="number" { (number(sent.packets)) }
            td class="number" { (bytes(sent.bytes)) }
            td class="number" { (number(sent.sends)) }
            td class="number" { (number(sent.read_requests)) }
            td class="number" { (bytes(sent.written_bytes)) }
            td class="number" { (bytes(sent.read_response_bytes)) }
            td class="number" { (number(sent.acknowledgements)) }
            (suspect(sent.sequence_naks + sent.fatal_naks))
            (suspect(sent.rnr_naks))
            (suspect(sent.repeated_packets))
            (suspect(sent.missing_packets))
        }
    }
}
