//! Figures for Prometheus, over HTTP. They change once an interval.

mod encode;

use anyhow::{Context as _, Result, anyhow};
use foldhash::fast::FixedState;
use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;
use rdmascope_conformance::{Finding, Level, Verdict};
use rdmascope_present::events::Kind;
use rdmascope_present::live::{Captured, Figures, Happening, Interval, OfConnection, Transport};
use rdmascope_present::report::Key;
use rdmascope_present::text::Named;
use std::collections::{BTreeMap, HashMap};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tiny_http::{Header, Method, Request, Response, Server};

/// What is served.
pub(super) struct Metrics(Arc<Shared>);

/// The sums, as the server's thread sees them.
#[derive(Debug, Default)]
struct Shared(Mutex<Sums>);

/// What was counted from the beginning on.
#[derive(Debug, Default)]
struct Sums {
    packets: u64,
    bytes: u64,
    /// `None`: nobody counts them.
    dropped: Option<u64>,
    connections: u64,
    given_up: u64,
    operations: BTreeMap<Key, Operation>,
    hosts: BTreeMap<Hosts, OfHosts>,
    findings: HashMap<(&'static str, Level, Verdict), u64, FixedState>,
    events: HashMap<Kind, u64, FixedState>,
    captures: u64,
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
    /// Latencies up to each of [`BOUNDS`], and longer ones.
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

/// Which host has connections to which: addresses of requester and responder.
type Hosts = (String, String);

/// Pairs of hosts that are told apart: addresses come from the wire, and each is a label. Further ones are `other`.
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
    waiting: u64,
    /// In nanoseconds.
    oldest: u64,
    in_flight: u64,
    granted: u64,
}

impl Metrics {
    /// Where they will be served.
    pub(super) fn bind(address: SocketAddr) -> Result<TcpListener> {
        TcpListener::bind(address).with_context(|| format!("--metrics {address}"))
    }

    /// Serves from now on, on threads of its own.
    pub(super) fn serve(listener: TcpListener) -> Result<Metrics> {
        let server = Server::from_listener(listener, None).map_err(|error| anyhow!("--metrics: {error}"))?;
        let shared = Arc::new(Shared::default());
        let mut registry = Registry::with_prefix("rdmascope");
        registry.register_collector(Box::new(Arc::clone(&shared)));
        let serve = move || server.incoming_requests().for_each(|request| answer(request, &registry));
        std::thread::Builder::new().name("metrics".into()).spawn(serve)?;
        Ok(Metrics(shared))
    }

    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.0.sums()
    }

    /// Adds what came by in an interval.
    pub(super) fn interval(&self, interval: &Interval) {
        self.sums().interval(interval);
    }

    /// Counts a finding.
    pub(super) fn finding(&self, finding: &Finding) {
        let Some(rule) = finding.rule else { return };
        *self.sums().findings.entry((rule.id, rule.level, finding.verdict)).or_default() += 1;
    }

    /// Counts an event, when it is first known.
    pub(super) fn happening(&self, happening: &Happening) {
        if !happening.is_again {
            *self.sums().events.entry(happening.event.kind).or_default() += 1;
        }
    }

    /// Counts a capture that was written.
    pub(super) fn captured(&self, captured: &Captured) {
        self.sums().captures += u64::from(captured.trouble.is_none());
    }
}

impl Shared {
    fn sums(&self) -> MutexGuard<'_, Sums> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers one request. An error is that of a client which is gone.
fn answer(request: Request, registry: &Registry) {
    const TYPE: &[u8] = b"application/openmetrics-text; version=1.0.0; charset=utf-8";
    let path = request.url().split('?').next().unwrap_or_default();
    let is_read = matches!(request.method(), Method::Get | Method::Head);
    let _gone = match (is_read, path) {
        (true, "/metrics") => {
            let mut body = String::new();
            text::encode(&mut body, registry).expect("a string takes all");
            let header = Header::from_bytes(&b"Content-Type"[..], TYPE).expect("it is a header");
            request.respond(Response::from_string(body).with_header(header))
        }
        (true, "/") => request.respond(Response::from_string("rdmascope: see /metrics\n")),
        (true, _) => request.respond(Response::from_string("see /metrics\n").with_status_code(404)),
        (false, _) => request.respond(Response::from_string("GET only\n").with_status_code(405)),
    };
}

impl Sums {
    fn interval(&mut self, interval: &Interval) {
        self.packets += interval.packets;
        self.bytes += interval.bytes;
        if let Some(dropped) = interval.dropped {
            *self.dropped.get_or_insert(0) += dropped;
        }
        self.given_up += interval.given_up;
        self.connections = interval.connections.iter().filter(|one| !one.has_ended).count() as u64;
        for (key, figures) in interval.operations.iter() {
            // The operations of an interval are bounded, those of all are not.
            let key = if self.operations.len() < MOST_OPERATIONS || self.operations.contains_key(key) {
                *key
            } else {
                Key::FURTHER
            };
            self.operations.entry(key).or_default().add(figures);
        }
        // What is now, not what was summed up.
        for hosts in self.hosts.values_mut() {
            (hosts.connections, hosts.waiting, hosts.oldest, hosts.in_flight, hosts.granted) =
                (0, 0, 0, 0, 0);
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

/// Operations that are told apart.
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
        self.waiting += one.waiting.calls;
        self.oldest = self.oldest.max(one.waiting.oldest.unwrap_or(0));
        if let Some(credits) = one.credits {
            self.in_flight += credits.in_flight;
            self.granted += u64::from(credits.granted.unwrap_or(0));
        }
    }
}
