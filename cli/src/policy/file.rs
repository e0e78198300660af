//! Parses a policy file; every error has its line.

use super::{Latency, Limit, Measure, Policy, Required, Requirement};
use crate::filters::similar;
use crate::rules::ids;
use core::fmt::Display;
use core::ops::Range;
use rdmascope_analysis::filter::{AddressPattern, operation_names};
use rdmascope_analysis::policy::{Allow, Scope, Version};
use rdmascope_analysis::time::parse_duration;
use std::sync::Arc;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use toml::value::{Date, Datetime};

/// An error in a policy file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}: {message}")]
pub(super) struct PolicyError {
    /// The name of the file.
    pub(super) file: String,
    /// The line, from 1.
    pub(super) line: usize,
    /// The description of the error.
    pub(super) message: String,
}

type Result<T> = core::result::Result<T, PolicyError>;

/// The keys of an entry's scope.
const SCOPE: [&str; 4] = ["server", "client", "connection", "version"];

/// Parses a policy. `file` is its name for errors; entries that ended before `today` have expired.
pub(super) fn parse(file: &str, text: &str, today: Date) -> Result<Policy> {
    let source = Source { file, text };
    let document = DeTable::parse(text).map_err(|error| {
        // The message may have several lines.
        let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        source.at(error.span().unwrap_or_default(), message)
    })?;
    let root = Table { source, span: 0..0, table: document.get_ref() };
    root.keys(&["allow", "latency", "require"])?;
    let mut policy = Policy { file: file.to_owned(), ..Policy::default() };
    for table in root.tables("allow")? {
        policy.allows.push(table.allow(today)?);
    }
    for table in root.tables("latency")? {
        policy.latencies.push(table.latency()?);
    }
    if let Some(value) = root.find("require") {
        let DeValue::Table(table) = value.get_ref() else {
            return Err(source.at(value.span(), "require must be a single table: [require]"));
        };
        policy.requirements = Table { source, span: value.span(), table }.requirements()?;
    }
    Ok(policy)
}

/// The file, for the line numbers of errors.
#[derive(Clone, Copy)]
struct Source<'a> {
    file: &'a str,
    text: &'a str,
}

impl Source<'_> {
    fn line(&self, span: &Range<usize>) -> usize {
        1 + self.text.bytes().take(span.start).filter(|byte| *byte == b'\n').count()
    }

    fn at(&self, span: Range<usize>, message: impl Display) -> PolicyError {
        PolicyError { file: self.file.to_owned(), line: self.line(&span), message: message.to_string() }
    }
}

/// A table in the file.
struct Table<'a> {
    source: Source<'a>,
    span: Range<usize>,
    table: &'a DeTable<'a>,
}

type Value<'a> = Spanned<DeValue<'a>>;

impl<'a> Table<'a> {
    /// Fails if the table has other keys than these.
    fn keys(&self, known: &[&str]) -> Result<()> {
        let Some((key, _)) = self.table.iter().find(|(key, _)| !known.contains(&key.get_ref().as_ref()))
        else {
            return Ok(());
        };
        let name = key.get_ref();
        let near = similar(name, known.iter().copied());
        let message = match near.first() {
            Some(near) => format!("unknown key {name:?}: did you mean {near}?"),
            None => format!("unknown key {name:?}: expected one of {}", known.join(", ")),
        };
        Err(self.source.at(key.span(), message))
    }

    fn find(&self, name: &str) -> Option<&'a Value<'a>> {
        self.table.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
    }

    fn needed(&self, name: &str) -> Result<&'a Value<'a>> {
        self.find(name).ok_or_else(|| self.source.at(self.span.clone(), format_args!("{name} is missing")))
    }

    /// The line of a key.
    fn line_of(&self, name: &str) -> usize {
        let key = self.table.keys().find(|key| key.get_ref() == name);
        self.source.line(&key.map_or(self.span.clone(), Spanned::span))
    }

    /// The tables in a list of tables: `[[name]]`.
    fn tables(&self, name: &str) -> Result<Vec<Table<'a>>> {
        let Some(value) = self.find(name) else { return Ok(Vec::new()) };
        let wrong = |span| self.source.at(span, format_args!("{name} must be a list of tables: [[{name}]]"));
        let DeValue::Array(items) = value.get_ref() else { return Err(wrong(value.span())) };
        let table = |item: &'a Value<'a>| match item.get_ref() {
            DeValue::Table(table) => Ok(Table { source: self.source, span: item.span(), table }),
            _ => Err(wrong(item.span())),
        };
        items.iter().map(table).collect()
    }

    fn wrong(&self, value: &Value<'_>, message: impl Display) -> PolicyError {
        self.source.at(value.span(), message)
    }

    fn text(&self, value: &'a Value<'a>) -> Result<&'a str> {
        value.get_ref().as_str().ok_or_else(|| self.wrong(value, "expected a quoted string"))
    }

    fn number(&self, value: &Value<'_>) -> Result<u64> {
        let number = value.get_ref().as_integer();
        let number = number.and_then(|number| u64::from_str_radix(number.as_str(), number.radix()).ok());
        number.ok_or_else(|| self.wrong(value, "expected a whole number"))
    }

    /// The values of a key, which may be a single value or a list; empty if the key is missing.
    fn several<T>(&self, name: &str, read: impl Fn(&'a Value<'a>) -> Result<T>) -> Result<Vec<T>> {
        let Some(value) = self.find(name) else { return Ok(Vec::new()) };
        match value.get_ref() {
            DeValue::Array(items) if items.is_empty() => Err(self.wrong(value, "the list is empty")),
            DeValue::Array(items) => items.iter().map(read).collect(),
            _ => Ok(vec![read(value)?]),
        }
    }

    fn allow(&self, today: Date) -> Result<Allow> {
        self.keys(&[&["rule", "reason", "expires"][..], &SCOPE].concat())?;
        self.needed("rule")?;
        let named = self.several("rule", |value| {
            let name = self.text(value)?;
            let rules = ids(name).map_err(|error| self.wrong(value, error))?;
            Ok((name.to_owned(), rules))
        })?;
        let (names, rules): (Vec<_>, Vec<_>) = named.into_iter().unzip();
        let value = self.needed("reason")?;
        let reason = self.text(value)?;
        if reason.trim().is_empty() {
            return Err(self.wrong(value, "expected a reason"));
        }
        let expires = self.find("expires").map(|value| self.date(value)).transpose()?;
        Ok(Allow {
            line: self.source.line(&self.span),
            names,
            rules: rules.concat(),
            scope: self.scope()?,
            reason: Arc::from(reason),
            expired: expires.filter(|last| today > *last).map(|last| last.to_string()),
        })
    }

    /// Parses a TOML date.
    fn date(&self, value: &Value<'_>) -> Result<Date> {
        match value.get_ref() {
            DeValue::Datetime(Datetime { date: Some(date), time: None, offset: None }) => Ok(*date),
            _ => Err(self.wrong(value, "expected an unquoted date such as 2026-12-31")),
        }
    }

    fn latency(&self) -> Result<Latency> {
        let measures = Measure::ALL.map(|(name, _)| name);
        self.keys(&[&["operation"][..], &measures, &SCOPE].concat())?;
        let operation = self.operation(self.needed("operation")?)?;
        let mut limits = Vec::new();
        for (name, of) in Measure::ALL {
            let Some(value) = self.find(name) else { continue };
            let most = parse_duration(self.text(value)?).map_err(|error| self.wrong(value, error))?;
            limits.push(Limit { line: self.line_of(name), of, most });
        }
        if limits.is_empty() {
            let message = format!("a limit is missing: one of {}", measures.join(", "));
            return Err(self.source.at(self.span.clone(), message));
        }
        limits.sort_by_key(|limit| limit.line);
        Ok(Latency { operation, scope: self.scope()?, limits })
    }

    /// The name of an operation or procedure.
    fn operation(&self, value: &'a Value<'a>) -> Result<&'static str> {
        let text = self.text(value)?;
        let names = operation_names();
        if let Some(name) = names.iter().find(|name| name.eq_ignore_ascii_case(text)) {
            return Ok(name);
        }
        let near = similar(text, names);
        Err(match near.as_slice() {
            [] => self.wrong(value, format_args!("unknown operation {text:?}")),
            near => self.wrong(
                value,
                format_args!("unknown operation {text:?}: did you mean {}?", near.join(" or ")),
            ),
        })
    }

    fn scope(&self) -> Result<Scope> {
        let address = |value: &'a Value<'a>| {
            let text = self.text(value)?;
            let pattern = AddressPattern::parse(text).map_err(|error| self.wrong(value, error))?;
            Ok((text, pattern))
        };
        let (servers, server_patterns): (Vec<_>, _) = self.several("server", address)?.into_iter().unzip();
        let (clients, client_patterns): (Vec<_>, _) = self.several("client", address)?.into_iter().unzip();
        let connections = self.several("connection", |value| {
            let number = u32::try_from(self.number(value)?).ok().filter(|number| *number > 0);
            number.ok_or_else(|| self.wrong(value, "expected a connection number, from 1"))
        })?;
        let versions = self.several("version", |value| {
            let text = match value.get_ref() {
                DeValue::String(text) => text,
                DeValue::Integer(number) => number.as_str(),
                DeValue::Float(number) => number.as_str(),
                _ => "",
            };
            let version = Version::parse(text).map(|version| (text.to_owned(), version));
            version.ok_or_else(|| {
                self.wrong(value, "expected an NFS version: 2, 3, 4 (any minor version), 4.0, 4.1 or 4.2")
            })
        })?;
        let (version_words, versions): (Vec<_>, _) = versions.into_iter().unzip();
        let numbers: Vec<_> = connections.iter().map(ToString::to_string).collect();
        let mut words = Vec::new();
        for (name, values) in [
            ("server", servers.join(", ")),
            ("client", clients.join(", ")),
            ("connection", numbers.join(", ")),
            ("version", version_words.join(", ")),
        ] {
            if !values.is_empty() {
                words.push(format!("{name} {values}"));
            }
        }
        Ok(Scope {
            servers: server_patterns,
            clients: client_patterns,
            connections,
            versions,
            words: words.join("; "),
        })
    }

    fn requirements(&self) -> Result<Vec<Requirement>> {
        self.keys(&["connections", "transactions", "operations", "rules", "conclusive"])?;
        let mut found = Vec::new();
        for (name, kind) in [
            ("connections", Required::Connections as fn(u64) -> Required),
            ("transactions", Required::Transactions),
        ] {
            if let Some(value) = self.find(name) {
                found.push(Requirement { line: self.line_of(name), kind: kind(self.number(value)?) });
            }
        }
        let operations = self.several("operations", |value| {
            let line = self.source.line(&value.span());
            Ok(Requirement { line, kind: Required::Operation(self.operation(value)?) })
        })?;
        found.extend(operations);
        found.extend(self.several("rules", |value| {
            let name = self.text(value)?;
            let rules = ids(name).map_err(|error| self.wrong(value, error))?;
            let kind = Required::Rules(name.to_owned(), rules);
            Ok(Requirement { line: self.source.line(&value.span()), kind })
        })?);
        if let Some(value) = self.find("conclusive") {
            let share = match value.get_ref() {
                DeValue::Float(number) => number.as_str().parse().ok(),
                DeValue::Integer(number) => number.as_str().parse().ok(),
                _ => None,
            };
            let share = share.filter(|share: &f64| (0.0..=1.0).contains(share));
            let share = share.ok_or_else(|| self.wrong(value, "expected a share from 0 to 1"))?;
            found.push(Requirement { line: self.line_of("conclusive"), kind: Required::Conclusive(share) });
        }
        found.sort_by_key(|requirement| requirement.line);
        Ok(found)
    }
}
