//! The figures of several capture points, as in `analyze`.

use super::values::{duration, number};
use maud::{Markup, html};
use rdmascope_analysis::capture_points::{EndToEnd, Split, Way};
use rdmascope_present::page::capture_points::{clock_description, remarks, way_name};

/// The capture points, the transit time and loss between them, and the split of operation times.
pub(super) fn section(end_to_end: &EndToEnd) -> Markup {
    html! {
        dl class="facts" {
            @for (index, place) in end_to_end.tally.places().places.iter().enumerate() {
                div {
                    dt { "capture point " (index + 1) }
                    dd {
                        (place.name)
                        @for (nth, host) in place.near.iter().take(4).enumerate() {
                            (if nth == 0 { ", nearest to " } else { ", " }) (host)
                        }
                        @if let Some(clock) = clock_description(place) { "; " (clock) }
                    }
                }
            }
        }
        (ways(end_to_end))
        (splits(end_to_end))
    }
}

fn ways(end_to_end: &EndToEnd) -> Markup {
    let ways: Vec<&Way> = end_to_end.tally.ways().collect();
    if ways.is_empty() {
        return html! {};
    }
    html! {
        h3 { "Paths between capture points" }
        div class="scroll" {
            table id="ways" {
                thead {
                    tr {
                        th rowspan="2" { "path" }
                        th rowspan="2" class="number" { "packets" }
                        th colspan="4" class="group" { "transit time" }
                        th colspan="4" class="group" { "of packets" }
                    }
                    tr {
                        @for name in ["min", "median", "p99", "max", "lost", "damaged", "doubled", "behind"] {
                            th class="number" { (name) }
                        }
                    }
                }
                tbody {
                    @for way in &ways {
                        @let times = way.times();
                        tr {
                            th { (way_name(way)) }
                            td class="number" { (number(way.packets)) }
                            @for index in 0..4 {
                                td class="number" { @match times { Some(times) => (duration(times[index])), None => "-" } }
                            }
                            @for located in [&way.lost, &way.damaged, &way.doubled, &way.reordered] {
                                td class={ "number" (if located.count > 0 { " bad" } else { "" }) } { (number(located.count)) }
                            }
                        }
                    }
                }
            }
        }
        @for way in &ways {
            @for remark in remarks(way) { p class="note" { (way_name(way)) ": " (remark) } }
        }
    }
}

fn splits(end_to_end: &EndToEnd) -> Markup {
    let splits = end_to_end.splits.by_time();
    if splits.is_empty() {
        return html! {};
    }
    html! {
        h3 { "End-to-end time" }
        div class="scroll" {
            table id="splits" {
                thead {
                    tr {
                        th rowspan="2" { "operation" }
                        @for name in ["count", "unknown", "mean"] { th rowspan="2" class="number" { (name) } }
                        th colspan=(Split::NAMES.len()) class="group" { "share of the time, %" }
                    }
                    tr { @for name in Split::NAMES { th class="number" { (name) } } }
                }
                tbody {
                    @for (key, sum) in &splits {
                        tr {
                            th { (key) }
                            td class="number" { (number(sum.count)) }
                            td class="number" { (number(sum.unknown)) }
                            td class="number" { @match sum.mean() { Some(mean) => (duration(mean)), None => "-" } }
                            @for share in sum.shares() { td class="number" { (share) } }
                        }
                    }
                }
            }
        }
        p class="note" {
            "The time is measured at the caller, from the last packet of the call to the last packet of the reply. The client's share is the time from an RDMA Read request "
            "to its last response. The share of a path is the delay of its packets and the time until lost ones were sent again. The rest is the server's share."
        }
    }
}
