//! Connections, in words.

use core::fmt;
use rdmascope_dissector::connection::{Origin, State};

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
