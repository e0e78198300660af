//! Selects a single transaction by number or XID.

use anyhow::bail;
use core::fmt;
use rdmascope_analysis::names::{self, Label};
use rdmascope_analysis::units::Counted;
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_present::text::Maybe;
use rdmascope_wire::Xid;

/// How the transaction is named.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice {
    Number(u64),
    /// May match several transactions, even on one connection.
    Xid(Xid, Option<ConnectionId>),
}

impl Choice {
    fn has(self, transaction: &Transaction) -> bool {
        match self {
            Choice::Number(number) => transaction.number == number,
            Choice::Xid(xid, connection) => {
                transaction.xid == xid && connection.is_none_or(|id| transaction.connection == id)
            }
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Number(number) => write!(f, "the number {number}"),
            Choice::Xid(xid, None) => write!(f, "the XID {xid}"),
            Choice::Xid(xid, Some(id)) => write!(f, "the XID {xid} on connection {}", id.0),
        }
    }
}

/// The matching transactions; commands need exactly one.
#[derive(Debug)]
pub(crate) struct Selection {
    choice: Choice,
    /// Descriptions of the first matches.
    titles: Vec<String>,
    count: u64,
}

impl Selection {
    /// Maximum number of matches that the error message lists.
    const MOST_LISTED: usize = 8;

    pub(crate) fn new(choice: Choice) -> Selection {
        Selection { choice, titles: Vec::new(), count: 0 }
    }

    /// Whether this transaction, the next of the capture, is the first match.
    pub(crate) fn is_first(&mut self, transaction: &Transaction) -> bool {
        if !self.choice.has(transaction) {
            return false;
        }
        self.count += 1;
        if self.titles.len() < Selection::MOST_LISTED {
            self.titles.push(title(transaction));
        }
        self.count == 1
    }

    /// Fails unless exactly one transaction matched.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let Selection { choice, titles, count } = self;
        let more = match count - titles.len() as u64 {
            0 => String::new(),
            more => format!(", or {more} more"),
        };
        match count {
            0 => bail!("no transaction has {choice}; `rdmascope transactions` lists all"),
            1 => Ok(()),
            _ => bail!(
                "{} have {choice}; select one with {}{more}",
                Counted(*count, "transaction"),
                titles.join(" or ")
            ),
        }
    }
}

/// The option that selects this transaction, with a description.
fn title(transaction: &Transaction) -> String {
    let message = transaction.call.as_ref().or(transaction.reply.as_ref());
    format!(
        "--transaction {} ({} on connection {}, {}, frame {})",
        transaction.number,
        Label::of(transaction),
        transaction.connection.0,
        names::direction(transaction.direction),
        Maybe(message.map(|message| message.seen.frame)),
    )
}
