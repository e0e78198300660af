//! Numbers, each with its machine-readable form.

use core::fmt::Display;
use maud::{Markup, html};
use rdmascope_analysis::units::{Bytes, Duration, Number};

/// A value with its machine-readable form.
fn data(value: u64, shown: impl Display) -> Markup {
    html! { data value=(value) { (shown) } }
}

pub(super) fn number(value: u64) -> Markup {
    data(value, Number(value))
}

pub(super) fn bytes(value: u64) -> Markup {
    data(value, Bytes(value))
}

/// Formats nanoseconds.
pub(super) fn duration(value: u64) -> Markup {
    data(value, Duration(value))
}
