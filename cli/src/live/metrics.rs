//! Metrics for Prometheus, over HTTP. They change once per interval.

mod encode;
mod http;

use anyhow::{Context as _, Result};
use foldhash::fast::FixedState;
use http::{Page, Pages, Server};
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use rdmascope_analysis::events::Kind;
use rdmascope_analysis::live::{Captured, Figures, Happening, Interval, OfConnection, Transport};
use rdmascope_analysis::report::Key;
use rdmascope_conformance::{Finding, Level, Verdict};
use rdmascope_dissector::record::Time;
use rdmascope_present::text::Named;
use rdmascope_present::words;
use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The metrics server.
pub(super) struct Metrics(Arc<Shared>);

/// The sums, shared with the server's thread.
#[derive(Debug, Default)]
struct Shared(Mutex<Sums>);

/// Counts since the start.
#[derive(Debug, Default)]
struct Sums {
    intervals: u64,
    packets: u64,
    bytes: u64,
    /// The time of the latest packet.
    last_packet: Option<Time>,
    /// The end of the latest interval.
    last_interval: Option<Time>,
    /// `None` if drops are not counted.
    dropped: Option<u64>,
    connections: u64,
    evicted: u64,
    operations: BTreeMap<Key, Operation>,
    hosts: BTreeMap<Hosts, OfHosts>,
    /// By rule, level, and verdict or `allowed`.
    findings: HashMap<(&'static str, Level, &'static str), u64, FixedState>,
    events: HashMap<Kind, u64, FixedState>,
    captures: u64,
    dropped_lines: u64,
    /// Number of triggers without a capture.
    missed: u64,
}

/// The transactions of one operation.
#[derive(Clone, Debug, Default)]
struct Operation {
    count: u64,
    errors: u64,
    to_responder: u64,
    to_requester: u64,
    /// Sum of latencies in nanoseconds.
    total: u64,
    /// Number of latencies up to each of [`BOUNDS`], and of longer ones.
    latencies: [u64; BOUNDS.len() + 1],
}

/// Upper bounds of latencies in nanoseconds.
const BOUNDS: [u64; 16] = [
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    10_000_000_000,
];

/// The addresses of requester and responder.
type Hosts = (String, String);

/// Maximum number of host pairs, because addresses come from packets and each pair is a label.
/// Further ones are `other`.
const MOST_HOSTS: usize = 256;

/// The connections between two hosts.
#[derive(Clone, Debug, Default)]
struct OfHosts {
    count: u64,
    errors: u64,
    to_responder: u64,
    to_requester: u64,
    transport: Transport,
    connections: u64,
    /// Number of connections seen in one direction only.
    one_direction: u64,
    waiting: u64,
    /// In nanoseconds.
    oldest: u64,
    in_flight: u64,
    granted: u64,
}

impl Metrics {
    /// Binds the listening socket.
    pub(super) fn bind(address: SocketAddr) -> Result<TcpListener> {
        TcpListener::bind(address).with_context(|| format!("--metrics {address}"))
    }

    /// Starts to serve, on a separate thread.
    pub(super) fn serve(listener: TcpListener) -> Result<Metrics> {
        let shared = Arc::new(Shared::default());
        let server = Server::new(listener, Served::new(&shared)).context("--metrics")?;
        std::thread::Builder::new().name("metrics".into()).spawn(|| server.serve())?;
        Ok(Metrics(shared))
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.0.sums()
    }

    /// Adds an interval. `dropped_lines` is the total number of dropped output lines.
    pub(super) fn interval(&self, interval: &Interval, dropped_lines: u64) {
        let mut sums = self.sums();
        sums.interval(interval);
        sums.dropped_lines = dropped_lines;
    }

    /// Counts a finding.
    pub(super) fn finding(&self, finding: &Finding, is_allowed: bool) {
        let Some(rule) = finding.rule else { return };
        let verdict = match finding.verdict {
            Verdict::Certain if is_allowed => "allowed",
            verdict => words::verdict(verdict),
        };
        *self.sums().findings.entry((rule.id, rule.level, verdict)).or_default() += 1;
    }

    /// Counts an event when it is first reported.
    pub(super) fn happening(&self, happening: &Happening) {
        if !happening.is_again {
            *self.sums().events.entry(happening.event.kind).or_default() += 1;
        }
    }

    /// Counts a written capture.
    pub(super) fn captured(&self, captured: &Captured) {
        self.sums().captures += u64::from(captured.trouble.is_none());
    }

    /// Sets the total number of triggers without a capture.
    pub(super) fn missed(&self, missed: u64) {
        self.sums().missed = missed;
    }
}

impl Shared {
    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The pages of the server.
struct Served {
    shared: Arc<Shared>,
    registry: Registry,
    /// The number of intervals, and the text of the metrics after them. Each text is created once,
    /// so that frequent requests do not block the analysis on the lock.
    latest: Option<(u64, Arc<[u8]>)>,
}

impl Served {
    fn new(shared: &Arc<Shared>) -> Served {
        let mut registry = Registry::with_prefix("rdmascope");
        registry.register_collector(Box::new(Arc::clone(shared)));
        Served { shared: Arc::clone(shared), registry, latest: None }
    }

    /// The text of the metrics after the latest interval.
    fn text(&mut self) -> Arc<[u8]> {
        let intervals = self.shared.sums().intervals;
        let latest = self.latest.take().filter(|(of, _)| *of == intervals);
        let (_, text) = self.latest.insert(latest.unwrap_or_else(|| (intervals, self.encode())));
        Arc::clone(text)
    }

    fn encode(&self) -> Arc<[u8]> {
        let mut text = String::new();
        text::encode(&mut text, &self.registry).expect("a string takes all");
        text.into_bytes().into()
    }
}

impl Pages for Served {
    fn page(&mut self, path: &str) -> Option<Page> {
        const TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        match path {
            "/metrics" => Some(Page { content_type: TYPE, body: self.text() }),
            "/" => Some(Page::text("rdmascope: see /metrics")),
            _ => None,
        }
    }
}

impl Sums {
    fn interval(&mut self, interval: &Interval) {
        self.intervals += 1;
        self.packets += interval.packets;
        self.bytes += interval.bytes;
        self.last_packet = self.last_packet.max(interval.last_packet);
        self.last_interval = Some(Time(interval.start.0.saturating_add_unsigned(interval.length)));
        if let Some(dropped) = interval.dropped {
            *self.dropped.get_or_insert(0) += dropped;
        }
        self.evicted += interval.evicted;
        self.connections = interval.connections.iter().filter(|one| !one.has_ended).count() as u64;
        for (key, figures) in interval.operations.iter() {
            // The operations of one interval are bounded, but their union is not.
            let key = if self.operations.len() < MOST_OPERATIONS || self.operations.contains_key(key) {
                *key
            } else {
                Key::FURTHER
            };
            self.operations.entry(key).or_default().add(figures);
        }
        // Reset the gauges, which are not sums.
        for hosts in self.hosts.values_mut() {
            (hosts.connections, hosts.one_direction) = (0, 0);
            (hosts.waiting, hosts.oldest, hosts.in_flight, hosts.granted) = (0, 0, 0, 0);
        }
        for one in &interval.connections {
            let name = |end| Named(end).to_string();
            let mut hosts = (name(&one.connection.requester), name(&one.connection.responder));
            if self.hosts.len() >= MOST_HOSTS && !self.hosts.contains_key(&hosts) {
                hosts = ("other".into(), "other".into());
            }
            self.hosts.entry(hosts).or_default().add(one);
        }
    }
}

/// Maximum number of operations.
const MOST_OPERATIONS: usize = 256;

impl Operation {
    fn add(&mut self, figures: &Figures) {
        let Figures { stats, to_responder, to_requester } = figures;
        self.count += stats.count;
        self.errors += stats.errors;
        self.to_responder += to_responder;
        self.to_requester += to_requester;
        self.total += stats.total_latency;
        for (latency, count) in stats.latency_steps() {
            self.latencies[BOUNDS.partition_point(|bound| *bound < latency)] += count;
        }
    }
}

impl OfHosts {
    /// Whether a connection shows both calls and replies. True without connections.
    fn has_both_directions(&self) -> bool {
        self.connections == 0 || self.one_direction < self.connections
    }

    fn add(&mut self, one: &OfConnection) {
        self.count += one.figures.stats.count;
        self.errors += one.figures.stats.errors;
        self.to_responder += one.figures.to_responder;
        self.to_requester += one.figures.to_requester;
        self.transport = self.transport.plus(one.transport);
        if one.has_ended {
            return;
        }
        self.connections += 1;
        self.one_direction += u64::from(one.one_direction);
        self.waiting += one.waiting.calls;
        self.oldest = self.oldest.max(one.waiting.oldest.unwrap_or(0));
        if let Some(credits) = one.credits {
            self.in_flight += credits.in_flight;
            self.granted += u64::from(credits.granted.unwrap_or(0));
        }
    }
}
