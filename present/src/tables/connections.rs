//! Connections, one line each.

use crate::text::{Bytes, Left, Maybe, Number, Style};
use core::fmt;
use rdmascope_dissector::connection::{Connection, Origin, State};
use std::io::{self, Write};

/// The line of headings.
pub fn write_heading(style: Style, out: &mut impl Write) -> io::Result<()> {
    let line = format!(
        "{:>4} {:15} {:8}    {:15} {:8} {:8} {:9} {:>4} {:>5} {:>5} {:>3} {:>8} {:>8} {:>9}",
        "#",
        "requester",
        "QP",
        "responder",
        "QP",
        "origin",
        "state",
        "MTU",
        "call",
        "reply",
        "inv",
        "forward",
        "backward",
        "bytes"
    );
    writeln!(out, "{}", style.bold(line))
}

/// The line of `connection`.
pub fn write_row(connection: &Connection, style: Style, out: &mut impl Write) -> io::Result<()> {
    let Connection { requester, responder, .. } = connection;
    write!(
        out,
        "{:>4} {} {} {} {} {} ",
        connection.id.0,
        Left(requester.address, 15),
        Left(Maybe(requester.qpn), 8),
        if connection.roles_known { "->" } else { "--" },
        Left(responder.address, 15),
        Left(Maybe(responder.qpn), 8),
    )?;
    let origin = match connection.origin {
        Origin::Cm => "cm",
        Origin::Inferred(_) => "inferred",
    };
    let rejected = matches!(connection.state, State::Rejected(_));
    write!(out, "{origin:8} {} ", style.red_if(rejected, Left(StateWord(connection.state), 9)))?;
    let invalidation = connection.remote_invalidation.map(|on| if on { "yes" } else { "no" });
    let [forward, backward] = connection.transactions.map(Number);
    writeln!(
        out,
        "{:>4} {:>5} {:>5} {:>3} {forward:>8} {backward:>8} {:>9}",
        Maybe(connection.path_mtu),
        Maybe(connection.call_inline_threshold),
        Maybe(connection.reply_inline_threshold),
        Maybe(invalidation),
        Bytes(requester.sent.bytes + responder.sent.bytes),
    )
}

/// A state in one word.
struct StateWord(State);

impl fmt::Display for StateWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            State::Requested => "requested",
            State::Open => "open",
            State::Rejected(_) => "rejected",
            State::Closed => "closed",
        })
    }
}

/// A state in a sentence.
pub struct StateName(pub State);

impl fmt::Display for StateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            State::Requested => f.write_str("requested, and not answered"),
            State::Rejected(reason) => write!(f, "rejected, reason {reason}"),
            state => StateWord(state).fmt(f),
        }
    }
}

/// How a connection is known.
pub struct Known(pub Origin);

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let evidence = match self.0 {
            Origin::Cm => return f.write_str("the CM exchange"),
            Origin::Inferred(evidence) => evidence,
        };
        f.write_str("its traffic: ")?;
        let mut separator = "";
        for (there, what) in [
            (evidence.acknowledged_psn, "acknowledged PSNs"),
            (evidence.xid, "XIDs"),
            (evidence.rkey, "advertised memory"),
        ] {
            if there {
                write!(f, "{separator}{what}")?;
                separator = " and ";
            }
        }
        f.write_str(if separator.is_empty() { "one direction only" } else { " agree" })
    }
}
