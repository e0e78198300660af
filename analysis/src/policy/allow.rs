//! Findings that a policy or the user allows.

use crate::filter::{AddressPattern, among};
use crate::names::Protocol;
use crate::observer::Observer;
use core::fmt;
use rdmascope_conformance::Finding;
use rdmascope_dissector::connection::{Connection, ConnectionId};
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::frame::Address;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_wire::rpc::program;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A policy entry that allows findings.
#[derive(Clone, Debug)]
pub struct Allow {
    /// Its line in the file, from 1.
    pub line: usize,
    /// Rule ids and subject names, as given.
    pub names: Vec<String>,
    /// The ids of all rules that it allows to be broken.
    pub rules: Vec<&'static str>,
    /// The connections to which it applies.
    pub scope: Scope,
    /// The reason for allowing them.
    pub reason: Arc<str>,
    /// Its last day, if that is over. An expired entry allows nothing.
    pub expired: Option<String>,
}

impl Allow {
    /// The rules and the scope as text.
    pub fn title(&self) -> String {
        format!("{}{}", self.names.join(", "), self.scope)
    }

    /// Whether it allows this finding on a connection with these ends.
    pub fn allows(&self, finding: &Finding, host: Option<&Host>) -> bool {
        let (client, server, versions) = match host {
            Some(host) => (host.client, host.server, &host.versions[..]),
            None => (None, None, &[][..]),
        };
        self.expired.is_none()
            && finding.rule.is_some_and(|rule| self.rules.contains(&rule.id))
            && self.scope.has_connection(finding.connection.map(|id| id.0))
            && self.scope.has_hosts(client, server)
            && self.scope.has_version(versions)
    }
}

/// The scope of an entry. An empty list does not restrict it; of any other list, one value must
/// match.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// Addresses of NFS servers.
    pub servers: Vec<AddressPattern>,
    /// Addresses of NFS clients.
    pub clients: Vec<AddressPattern>,
    /// Connection numbers.
    pub connections: Vec<u32>,
    /// NFS versions.
    pub versions: Vec<Version>,
    /// The whole scope as text, for messages.
    pub words: String,
}

impl Scope {
    /// Whether it restricts more than the connection number.
    pub fn is_of_hosts(&self) -> bool {
        !(self.servers.is_empty() && self.clients.is_empty() && self.versions.is_empty())
    }

    /// Whether the entry applies to the connection with this number.
    pub fn has_connection(&self, connection: Option<u32>) -> bool {
        among(&self.connections, |number| connection == Some(*number))
    }

    /// Whether the entry applies between these hosts.
    pub fn has_hosts(&self, client: Option<Address>, server: Option<Address>) -> bool {
        among(&self.clients, |pattern| client.is_some_and(|address| pattern.matches(address)))
            && among(&self.servers, |pattern| server.is_some_and(|address| pattern.matches(address)))
    }

    /// Whether the entry applies where one of these versions is used.
    pub fn has_version(&self, versions: &[Version]) -> bool {
        among(&self.versions, |wanted| versions.iter().any(|version| wanted.has(*version)))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.words.is_empty() { Ok(()) } else { write!(f, " ({})", self.words) }
    }
}

/// An NFS version. Version 4 without a minor version matches any minor version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    major: u32,
    minor: Option<u32>,
}

impl Version {
    /// The version of an NFS transaction.
    pub fn of(transaction: &Transaction) -> Option<Version> {
        let Protocol { program, version, minor } = Protocol::of(transaction)?;
        match program {
            program::NFS => Some(Version { major: version, minor }),
            // The callback program has version 1 for every NFS version.
            program::CALLBACK => Some(Version { major: 4, minor }),
            _ => None,
        }
    }

    /// Parses `2`, `3`, `4`, `4.0`, `4.1` or `4.2`.
    pub fn parse(text: &str) -> Option<Version> {
        match text {
            "2" | "3" | "4" => Some(Version { major: text.parse().ok()?, minor: None }),
            "4.0" | "4.1" | "4.2" => Some(Version { major: 4, minor: text[2..].parse().ok() }),
            _ => None,
        }
    }

    fn has(self, other: Version) -> bool {
        self.major == other.major && self.minor.is_none_or(|minor| other.minor == Some(minor))
    }
}

/// The ends of a connection, and the NFS versions that it carries.
#[derive(Clone, Debug, Default)]
pub struct Host {
    client: Option<Address>,
    server: Option<Address>,
    versions: Vec<Version>,
}

impl Host {
    /// The most NFS versions kept for a connection.
    const MOST_VERSIONS: usize = 8;

    /// Takes the currently known ends of the connection.
    fn connection(&mut self, connection: &Connection) {
        self.client = Some(connection.requester.address);
        self.server = Some(connection.responder.address);
    }

    fn transaction(&mut self, transaction: &Transaction) {
        if let Some(version) = Version::of(transaction)
            && !self.versions.contains(&version)
            && self.versions.len() < Host::MOST_VERSIONS
        {
            self.versions.push(version);
        }
    }
}

/// The known ends of connections.
#[derive(Clone, Debug, Default)]
pub struct Hosts {
    by_connection: BTreeMap<ConnectionId, Host>,
    /// Whether a full table drops its oldest connection for a new one. Otherwise it ignores the new
    /// one.
    pub keeps_latest: bool,
}

impl Hosts {
    /// The most connections kept. An entry that is restricted to hosts matches nothing on other
    /// connections.
    const MOST: usize = 1 << 16;

    /// The ends of a connection.
    pub fn find(&self, id: ConnectionId) -> Option<&Host> {
        self.by_connection.get(&id)
    }

    /// Changes the entry of a connection, if the table has room for it.
    fn at(&mut self, id: ConnectionId, add: impl FnOnce(&mut Host)) {
        let is_full = self.by_connection.len() >= Hosts::MOST && !self.by_connection.contains_key(&id);
        if is_full && !self.keeps_latest {
            return;
        }
        if is_full {
            self.by_connection.pop_first();
        }
        add(self.by_connection.entry(id).or_default());
    }
}

impl Observer for Hosts {
    fn needs(&self) -> Config {
        Config::default()
    }

    fn handle(&mut self, event: &Event<'_>) {
        match event {
            Event::Connection(connection) => self.at(connection.id, |host| host.connection(connection)),
            Event::Transaction(transaction) => {
                self.at(transaction.connection, |host| host.transaction(transaction));
            }
            _ => {}
        }
    }
}

/// Allowed findings of a live session. Each finding is decided when it arrives.
#[derive(Clone, Debug, Default)]
pub struct Allowances {
    /// Rules that may be broken everywhere.
    rules: Vec<&'static str>,
    /// The entries of a policy.
    entries: Vec<Allow>,
    hosts: Hosts,
}

/// The permission for a finding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowance {
    /// The policy's reason; `None` if the user named the rule.
    pub reason: Option<Arc<str>>,
}

impl Allowances {
    /// Allows findings of these rules, and those that match these entries.
    pub fn new(rules: Vec<&'static str>, entries: Vec<Allow>) -> Allowances {
        Allowances { rules, entries, hosts: Hosts { keeps_latest: true, ..Hosts::default() } }
    }

    fn needs_hosts(&self) -> bool {
        self.entries.iter().any(|entry| entry.scope.is_of_hosts())
    }

    /// Takes an event of the engine.
    #[inline]
    pub fn take(&mut self, event: &Event<'_>) {
        if matches!(event, Event::Connection(_) | Event::Transaction(_)) && self.needs_hosts() {
            self.hosts.handle(event);
        }
    }

    /// The permission for `finding`, if any. `open` finds a connection that has not ended. The
    /// first matching entry counts.
    pub fn find(
        &mut self,
        finding: &Finding,
        open: impl FnOnce(ConnectionId) -> Option<Connection>,
    ) -> Option<Allowance> {
        if finding.rule.is_some_and(|rule| self.rules.contains(&rule.id)) {
            return Some(Allowance::default());
        }
        if self.needs_hosts()
            && let Some(connection) = finding.connection.and_then(open)
        {
            self.hosts.at(connection.id, |host| host.connection(&connection));
        }
        let host = finding.connection.and_then(|id| self.hosts.find(id));
        let entry = self.entries.iter().find(|entry| entry.allows(finding, host))?;
        Some(Allowance { reason: Some(Arc::clone(&entry.reason)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions() {
        let has = |wanted: &str, major, minor| Version::parse(wanted).unwrap().has(Version { major, minor });
        assert!(has("3", 3, None) && has("4", 4, Some(1)) && has("4.0", 4, Some(0)) && has("4", 4, None));
        assert!(!has("4.0", 4, Some(1)) && !has("4.1", 4, None) && !has("3", 4, Some(0)));
    }
}
