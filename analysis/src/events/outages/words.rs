//! Times without service in words: their causes, and the connections and requests concerned.

use super::{Story, Until, Wait};
use crate::events::facts::{Closed, Run};
use crate::events::history::History;
use crate::events::known::{Known, Reached, end_name};
use crate::events::{Cause, SILENCE};
use crate::units::{Counted, Duration};
use rdmascope_dissector::connection::ConnectionId;
use rdmascope_dissector::record::Seen;

/// The most connections that a text lists.
const MOST_NAMED: usize = 8;

impl Story<'_> {
    /// How a wait began: calls that had waited long before the connection was closed had no replies.
    /// An end is named if no other one closed a connection, but not a client that asked in vain or was
    /// answered late.
    pub(super) fn cause(&self, wait: &Wait, until: Until) -> Option<Cause> {
        let first = &self.known[wait.through[0]];
        let asks_in_vain =
            || self.late(until).is_some() || !self.failed_during(wait, until.time()).is_empty();
        Some(match first.history.disconnected {
            _ if first.is_unconfirmed() => Cause::Unconfirmed,
            _ if !first.was_established() => first.rejected_by().map_or(Cause::Unanswered, Cause::RejectedBy),
            Some(Closed { seen, by_requester: Some(by_requester), .. })
                if seen.time.since(wait.since) < SILENCE && self.are_closed_by(by_requester, wait) =>
            {
                if !by_requester || !asks_in_vain() {
                    Cause::ClosedBy(by_requester)
                } else if wait.calls > 0 {
                    Cause::NoReply
                } else {
                    return None;
                }
            }
            _ => Cause::NoReply,
        })
    }

    /// How the connection that ended a wait was asked for, if it was made late.
    fn late(&self, until: Until) -> Option<String> {
        let one = &self.known[until.connection()?];
        let (run, made) = one.history.setup.late()?;
        Some(answered_late(one, run, made))
    }

    /// Whether no other end closed a connection of a wait.
    fn are_closed_by(&self, requester: bool, wait: &Wait) -> bool {
        let closed = wait.through.iter().filter_map(|at| self.known[*at].history.disconnected);
        closed.filter_map(|closed| closed.by_requester).all(|by_requester| by_requester == requester)
    }

    /// The description of a wait.
    pub(super) fn text(&self, wait: &Wait, until: Until, length: u64) -> String {
        let length = Duration(length);
        let ids = |indexes: &[usize]| -> Vec<ConnectionId> {
            indexes.iter().map(|at| self.known[*at].id).collect()
        };
        let after = until.connection();
        let to_the_end = match until {
            Until::Reply(..) => "",
            Until::Made(..) => " or more",
            Until::Reached(Reached { is_live: true, .. }) => ", until now",
            Until::Reached(Reached { time, .. }) if time == self.reached.time => ", until the capture ends",
            Until::Reached(_) => ", until the client stopped asking",
        };
        let first = &self.known[wait.through[0]];
        if !first.was_established() {
            let how = if let Until::Made(..) = until { "accepted" } else { "made" };
            let made = after.map_or(String::new(), |at| format!(", then {how} as {}", self.known[at].id.0));
            return format!("no connection for {length}{to_the_end}: {}{made}", self.attempts(&wait.through));
        }
        let unread = match wait.unread {
            0 => String::new(),
            calls if calls == wait.calls => {
                "; the server never read their Read chunks: it did not begin with them".to_owned()
            }
            calls => format!("; the server never read the Read chunks of {calls}"),
        };
        let failed = self.failed_during(wait, until.time());
        let on = match self.is_served(first, wait.since, until.time()) {
            true => format!(" on connection {}", first.id.0),
            false => String::new(),
        };
        if let ([at], Some(after)) = (wait.through.as_slice(), after)
            && *at == after
        {
            return format!("no reply{on} for {length} while {} waited{unread}", Counted(wait.calls, "call"));
        }
        let mut parts = Vec::new();
        if let ([at], None) = (wait.through.as_slice(), after) {
            parts.push(match wait.calls {
                0 if self.known[*at].ended_at().is_some() && failed.is_empty() => {
                    "the connection was closed and not reopened".to_owned()
                }
                0 => format!("connection {} {}", self.known[*at].id.0, lost(&self.known[*at].history)),
                calls => format!("{} unanswered{unread}", Counted(calls, "call")),
            });
        } else {
            if wait.through.len() > 1 && wait.calls > 0 {
                let calls = Counted(wait.calls, "call");
                let on = match wait.connections {
                    0 | 1 => String::new(),
                    several => format!(" on {} in turn", Counted(several, "connection")),
                };
                parts.push(format!("{calls} unanswered{on}{unread}"));
            }
            parts.extend(self.closures(&wait.through));
            if parts.is_empty() && wait.calls > 0 {
                parts.push(format!("{} unanswered{unread}", Counted(wait.calls, "call")));
            }
        }
        if !failed.is_empty() {
            parts.push(self.attempts(&failed));
        }
        parts.extend(self.late(until));
        if let Some(id) = after.map(|at| ids(&[at])[0]) {
            parts.push(match until {
                Until::Made(..) => format!("then connection {} was made", id.0),
                _ => format!("the next reply came on connection {}", id.0),
            });
        }
        format!("no reply{on} for {length}{to_the_end}: {}", parts.join(", "))
    }

    /// How connections ended: `connections 1, 2 were closed by the server`.
    fn closures(&self, indexes: &[usize]) -> Vec<String> {
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for at in indexes {
            let one = &self.known[*at];
            if one.ended_at().is_none() || one.history.disconnected.is_none() && one.after.is_none() {
                continue;
            }
            let how = lost(&one.history);
            match groups.iter_mut().find(|(known, _)| *known == how) {
                Some((_, of)) => of.push(*at),
                None => groups.push((how, vec![*at])),
            }
        }
        groups
            .into_iter()
            .map(|(how, of)| {
                let named: Vec<String> =
                    of.iter().take(MOST_NAMED).map(|at| self.known[*at].id.0.to_string()).collect();
                let more = of.len() - named.len();
                let named = named.join(", ");
                match (of.len(), more) {
                    (1, _) => format!("connection {named} {how}"),
                    (_, 0) => format!("connections {named} {}", how.replacen("was", "were", 1)),
                    (_, more) => {
                        format!("connections {named} and {more} more {}", how.replacen("was", "were", 1))
                    }
                }
            })
            .collect()
    }

    /// How requests failed: `6 requests rejected by the server`.
    fn attempts(&self, indexes: &[usize]) -> String {
        let rejected_by = |requester: bool| {
            let is_rejected = |at: &&usize| self.known[**at].rejected_by() == Some(requester);
            indexes.iter().filter(is_rejected).count() as u64
        };
        let [by_server, by_client] = [false, true].map(rejected_by);
        let unconfirmed = indexes.iter().filter(|at| self.known[**at].is_unconfirmed()).count() as u64;
        let unanswered = indexes.len() as u64 - by_server - by_client - unconfirmed;
        let of = |count: u64, message: &'static str, how: &str| {
            (count > 0).then(|| format!("{} {how}", Counted(count, message)))
        };
        let parts = [
            of(by_server, "request", "rejected by the server"),
            of(by_client, "reply", "rejected by the client"),
            of(unconfirmed, "reply", "never confirmed by the client"),
            of(unanswered, "request", "never answered"),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// How a connection was lost.
fn lost(history: &History) -> String {
    match history.disconnected {
        Some(Closed { by_requester: Some(by_requester), .. }) => {
            format!("was closed by the {}", end_name(by_requester))
        }
        Some(_) => "was closed".to_owned(),
        None => "was lost".to_owned(),
    }
}

/// How a connection was asked for that was made late. The earlier requests may have been lost.
pub(super) fn answered_late(one: &Known<'_>, run: Run, made: Seen) -> String {
    let wait = made.time.since(run.last.time);
    let answered = if run.count > 1 && wait < SILENCE {
        format!("the last of them answered in {}", Duration(wait))
    } else {
        "answered late".to_owned()
    };
    format!("{} sent {}, {answered}", one.request_name(), Counted(run.count, "time"))
}
