//! The text report of `analyze`. Lines fit the terminal, if there is one.

use crate::fold::Folding;
use crate::grid::{Grid, Group as Columns, Row};
use crate::tables::connections::{CapturedAt, Known, carried_else};
use crate::text::{Left, Maybe, Named, OtherTraffic, Style};
use crate::words;
use core::fmt::{self, Display};
use rdmascope_analysis::ending::{Ending, FileEnd, FileEnding, Heading};
use rdmascope_analysis::names::{FailureName, Invalidation, StateName};
use rdmascope_analysis::replies::Mechanism;
use rdmascope_analysis::report::{Group, Harm, Report, Statement, Stats};
use rdmascope_analysis::time::Rfc3339;
use rdmascope_analysis::units::{Bytes, Counted, Duration, Number, Plain};
use rdmascope_capture_agent::Interface;
use rdmascope_dissector::connection::{Connection, Endpoint};
use rdmascope_dissector::phases::{Phases, grouped};
use std::io::{self, Write};

/// The report as text.
#[derive(Clone, Copy, Debug)]
pub struct Text<'a> {
    /// The figures.
    pub report: &'a Report,
    /// The totals of the capture.
    pub ending: &'a Ending,
    /// The colours and the width of the output.
    pub style: Style,
}

impl Text<'_> {
    /// Writes the report.
    pub fn write(self, out: &mut dyn Write) -> io::Result<()> {
        self.write_with(|_| Ok(()), out)
    }

    /// Writes the report, with the output of `further` before the problems.
    pub fn write_with(
        self,
        further: impl FnOnce(&mut dyn Write) -> io::Result<()>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Text { ending, style, .. } = self;
        let out = &mut Folding::new(out, style);
        writeln!(out, "{}", style.bold(Heading(ending)))?;
        let verdict = self.report.verdict(ending, 0);
        write_leading(Statement::leading(&verdict), style, out)?;
        capture(ending, style, out)?;
        self.write_calls(out)?;
        self.write_connections(out)?;
        self.write_operations(out)?;
        self.write_replies(out)?;
        further(out)?;
        self.write_problems(&verdict, out)?;
        out.flush()
    }

    /// Writes how long calls were under way, and the phases in which they spent their time.
    fn write_calls(self, out: &mut dyn Write) -> io::Result<()> {
        /// The names of [`Phases::GROUPS`] in a sentence, and that of the server's time after RDMA Reads.
        const NAMES: [&str; 7] = [
            "call until its ACK",
            "RDMA Reads",
            "data in flight",
            "server side",
            "RDMA Writes",
            "reply",
            "server side or network after RDMA Reads",
        ];
        let Text { report, ending, .. } = self;
        let Some(mean) = report.under_way().mean_calls() else { return Ok(()) };
        let length = report.under_way().length();
        let whole = ending.totals.span.filter(|_| ending.chosen.is_none());
        let whole = whole.map(|(first, last)| last.since(first)).filter(|whole| *whole > 0);
        let part = whole.map_or(String::new(), |whole| {
            format!(" ({:.0} % of the span)", 100.0 * length as f64 / whole as f64)
        });
        let after = report.share_after_reads();
        let [call, reads, sending, server, writes, reply] = report.shares().map_or([0.0; 6], grouped);
        let shares = [call, reads, sending, server - after, writes, reply, after];
        let mut shares: Vec<_> = shares.into_iter().zip(NAMES).filter(|(share, _)| *share >= 0.005).collect();
        shares.sort_by(|a, b| b.0.total_cmp(&a.0));
        let shares: Vec<String> =
            shares.iter().map(|(share, name)| format!("{name} {:.0} %", 100.0 * share)).collect();
        writeln!(out, "  calls         under way for {}{part}, {mean:.1} at a time", Duration(length))?;
        if shares.is_empty() { Ok(()) } else { writeln!(out, "  their time    {}", shares.join(", ")) }
    }

    fn write_connections(self, out: &mut dyn Write) -> io::Result<()> {
        let Text { report, style, .. } = self;
        let (connections, further) = report.connections();
        if connections.is_empty() {
            return Ok(());
        }
        let count = connections.len() as u64 + further;
        writeln!(out, "\n{}", style.bold(Counted(count, "connection")))?;
        for connection in connections {
            let outstanding = report.gathered().most_outstanding(connection.id);
            write_connection(connection, outstanding, style, out)?;
        }
        if further > 0 {
            let further = Counted(further, "further connection");
            writeln!(out, "  {further}: `rdmascope connections` lists all")?;
        }
        Ok(())
    }

    fn write_operations(self, out: &mut dyn Write) -> io::Result<()> {
        let operations = self.report.operations();
        if operations.is_empty() {
            return Ok(());
        }
        let phases = Phases::GROUPS.iter().map(|name| (*name, name.len().max(5)));
        let groups = vec![
            Columns { heading: "", gap: 1, columns: vec![("count", 7), ("errors", 6), ("bytes", 8)] },
            Columns::of_times("latency", 7),
            Columns { heading: "share of the time, %", gap: 1, columns: phases.collect() },
        ];
        let mut rows = Vec::new();
        let mut group = None;
        for (key, stats) in operations {
            if group != Some((key.protocol, key.backward)) {
                group = Some((key.protocol, key.backward));
                let direction = if key.backward { ", backward" } else { "" };
                rows.push(Row::Title(match key.protocol {
                    Some(protocol) => format!("{protocol}{direction}"),
                    None => format!("call unknown{direction}"),
                }));
            }
            rows.push(Row::Cells(key.label.to_string(), cells(stats)));
        }
        Grid { title: "Operations", names: 24, groups, rows }.write(self.style, out)
    }

    /// Writes how replies were conveyed, unless all are inline or in Write chunks.
    fn write_replies(self, out: &mut dyn Write) -> io::Result<()> {
        let replies = self.report.replies();
        let counted = Mechanism::ALL.map(|mechanism| (mechanism, replies.conveyed(mechanism)));
        let (offered, in_vain) = (replies.offered(), replies.in_vain());
        if offered.0 == 0 && counted[Mechanism::ReadChunk as usize].1 == 0 {
            return Ok(());
        }
        let conveyed = counted.into_iter().filter(|(_, count)| *count > 0);
        let conveyed: Vec<String> =
            conveyed.map(|(mechanism, count)| format!("{} {}", Number(count), mechanism.title())).collect();
        write!(out, "\n{}  {}", self.style.bold("Replies"), conveyed.join(", "))?;
        if in_vain.0 > 0 {
            write!(
                out,
                "; {} of {} ({}) not needed",
                Number(in_vain.0),
                Counted(offered.0, "Reply chunk"),
                Bytes(in_vain.1),
            )?;
        }
        writeln!(out)
    }

    fn write_problems(self, verdict: &[Statement], out: &mut Folding<&mut dyn Write>) -> io::Result<()> {
        let Text { report, ending, style } = self;
        let problems = report.problems(ending);
        let (errors, further) = report.errors();
        writeln!(out, "\n{}", style.bold("Problems"))?;
        if let Some(nothing) = report.nothing_wrong(ending, verdict) {
            return writeln!(out, "  {nothing}");
        }
        let events: Vec<&Statement> = verdict.iter().filter(|statement| statement.is_of_events).collect();
        if !events.is_empty() {
            writeln!(out, "  Service")?;
        }
        for statement in events {
            writeln!(out, "              {}", Line(statement, style))?;
        }
        if !errors.is_empty() {
            writeln!(out, "  Errors in replies")?;
        }
        for (key, error) in &errors {
            let protocol = Left(Maybe(key.protocol), 8);
            write!(out, "  {:>10}  {protocol} {} ", Number(error.count), Left(key.label, 20))?;
            write!(out, "{}", style.red(Left(FailureName(key.failure, key.protocol), 30)))?;
            if let Some(frame) = error.first_frame {
                write!(out, "  first in frame {frame}")?;
            }
            writeln!(out)?;
        }
        if further > 0 {
            let further = Number(further);
            writeln!(
                out,
                "  {further:>10}  of other kinds: `rdmascope transactions --status error` lists all"
            )?;
        }
        for group in Group::ALL {
            let mut headed = false;
            for problem in problems.iter().filter(|problem| problem.group == group) {
                if !headed {
                    headed = true;
                    writeln!(out, "  {}", group.heading())?;
                }
                let count = Number(problem.count);
                let count = match group {
                    Group::Capture => style.yellow(format_args!("{count:>10}")).to_string(),
                    _ => style.red(format_args!("{count:>10}")).to_string(),
                };
                write!(out, "  {count}  {}", problem.description())?;
                if let Some(frame) = problem.first_frame {
                    write!(out, "; first in frame {frame}")?;
                }
                writeln!(out)?;
            }
        }
        write_next(ending, verdict, out.unfolded())
    }
}

/// Writes the statements that lead a report.
pub(crate) fn write_leading(leading: &[Statement], style: Style, out: &mut dyn Write) -> io::Result<()> {
    leading.iter().try_for_each(|statement| writeln!(out, "  {}", Line(statement, style)))
}

/// A statement with its frame, coloured by its harm.
struct Line<'a>(&'a Statement, Style);

impl Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line(Statement { harm, text, frame, .. }, style) = *self;
        match harm {
            Harm::Note => write!(f, "{text}")?,
            Harm::ServiceLost | Harm::Waits | Harm::Errors | Harm::Corruption => {
                write!(f, "{}", style.red(text))?
            }
            Harm::Loss | Harm::Breach => write!(f, "{}", style.yellow(text))?,
        }
        frame.map_or(Ok(()), |frame| write!(f, "; frame {frame}"))
    }
}

/// Suggests the next command: all events if the first statement is about them, otherwise its frame.
fn write_next(ending: &Ending, verdict: &[Statement], out: &mut dyn Write) -> io::Result<()> {
    let file = ending.input();
    let is_ours = |statement: &&Statement| {
        statement.harm < Harm::Note && (statement.is_of_events || statement.frame.is_some())
    };
    match verdict.iter().find(is_ours) {
        Some(Statement { is_of_events: true, .. }) => writeln!(out, "Next: rdmascope events {file}"),
        Some(Statement { frame: Some(frame), .. }) => {
            writeln!(out, "Next: rdmascope show {file} --frame {frame}")
        }
        _ => Ok(()),
    }
}

/// Writes the totals of the capture.
fn capture(ending: &Ending, style: Style, out: &mut dyn Write) -> io::Result<()> {
    let totals = &ending.totals;
    let mut row = |name: &str, value: &dyn Display| writeln!(out, "  {name:14}{value}");
    let snapped = match totals.cut_records {
        0 => String::new(),
        cut => format!(", {} of them truncated by a snap length", Number(cut)),
    };
    let bare = match totals.records_without_payload {
        0 => String::new(),
        bare => format!(", {} of them without RDMA payload", Number(bare)),
    };
    row(
        "packets",
        &format_args!("{} ({} on the wire){snapped}{bare}", Number(totals.records), Bytes(totals.bytes)),
    )?;
    if let Some((first, last)) = totals.span {
        let length = Duration(last.since(first));
        row("span", &format_args!("{} to {} ({length})", Rfc3339::from(first), Rfc3339::from(last)))?;
    }
    if let Some(chosen) = &ending.chosen {
        row("chosen", &format_args!("{chosen}: operations and errors below cover only these"))?;
    }
    if totals.segments > 0 {
        row("iWARP", &Counted(totals.segments, "TCP segment"))?;
    }
    if totals.packets == 0 {
        if totals.segments == 0 && totals.connections == 0 {
            row("RoCE", &format_args!("none; RoCEv2 is expected at UDP port {} (--port)", ending.port))?;
        }
    } else {
        let cm = Counted(totals.cm_messages, "CM message");
        let fabric = words::fabric(totals);
        match totals.other_transports {
            0 => row(fabric, &format_args!("{}, with {cm}", Counted(totals.packets, "packet")))?,
            other => row(
                fabric,
                &format_args!(
                    "{}, with {cm} and {} of transports other than RC",
                    Counted(totals.packets, "packet"),
                    Number(other)
                ),
            )?,
        }
        // Snooped messages have no ICRC.
        if totals.icrc != [0; 3] {
            let [good, bad, unverifiable] = totals.icrc.map(Number);
            let bad = style.red_if(totals.icrc[1] > 0, format_args!("{bad} bad")).to_string();
            row("ICRC", &format_args!("{good} good, {bad}, {unverifiable} not verifiable"))?;
        }
    }
    if totals.known_connections > 0 {
        let known = Counted(totals.known_connections, "connection");
        row("inventory", &format_args!("{known} reported by the host's kernel when the capture began"))?;
    }
    if let Some(frame) = totals.first_contradiction {
        let contradicted = Counted(totals.contradicted_connections, "connection");
        row(
            "",
            &style.yellow(format_args!(
                "{contradicted} of these ignored: contradicted by packets, first in frame {frame}"
            )),
        )?;
    }
    if totals.copies > 0 {
        row(
            "copies",
            &format_args!(
                "{} captured twice ({}). Counted once below",
                Counted(totals.copies, "packet"),
                ending.reason_for_copies()
            ),
        )?;
    }
    if totals.others + totals.unknown_link > 0 {
        let packets = Counted(totals.others + totals.unknown_link, "packet");
        row("other traffic", &format_args!("{packets}{}", OtherTraffic(totals)))?;
    }
    for file in &ending.files {
        let several = ending.files.len() > 1;
        for interface in file.interfaces.iter().filter(|interface| interface.dropped() > 0) {
            let file = if several { format!("{}: ", Plain(file.title())) } else { String::new() };
            row("lost", &style.yellow(format_args!("{file}{}", Lost(interface))))?;
        }
    }
    if let Some(apart) = ending.apart() {
        row("note", &style.yellow(format_args!("{apart}: --each reports on each file separately")))?;
    }
    match ending.files.as_slice() {
        [file] => row("end", &End(file, style)),
        _ => {
            let files = ending.listed_files();
            let listed =
                files.listed.iter().map(|file| format!("{}: {}", Plain(file.title()), End(file, style)));
            listed
                .chain(files.others_text())
                .enumerate()
                .try_for_each(|(index, text)| row(if index == 0 { "files" } else { "" }, &text))
        }
    }
}

/// The packets dropped at an interface while capturing.
struct Lost<'a>(&'a Interface);

impl Display for Lost<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Lost(interface) = *self;
        write!(f, "{} dropped while capturing at ", Counted(interface.dropped(), "packet"))?;
        match &interface.name {
            Some(name) => write!(f, "{}", Plain(name))?,
            None => write!(f, "interface {}", interface.number)?,
        }
        f.write_str(", according to the capture; they may explain findings")
    }
}

/// The end of a file, coloured if it is incomplete.
struct End<'a>(&'a FileEnding, Style);

impl Display for End<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let End(file, style) = *self;
        let end = FileEnd(file);
        match (&file.trouble, file.cut) {
            (Some(_), _) => style.red(end).fmt(f),
            (None, Some(_)) => style.yellow(end).fmt(f),
            (None, None) => end.fmt(f),
        }
    }
}

/// Writes the properties of a connection, in a few lines. `outstanding` is the most calls that were
/// outstanding at once, and the granted credits.
pub fn write_connection(
    connection: &Connection,
    outstanding: Option<(u64, u32)>,
    style: Style,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Connection { requester, responder, .. } = connection;
    let arrow = if connection.roles_known { "->" } else { "--" };
    write!(out, "  {} ", style.bold(Left(format_args!("#{}", connection.id.0), 4)))?;
    write!(out, "{} {arrow} {}", Queue(requester), Queue(responder))?;
    if !connection.roles_known {
        write!(out, " (opening end unknown)")?;
    }
    if let Some(port) = connection.port {
        write!(out, ", port {port}")?;
    }
    let state = StateName(connection);
    let length = Duration(connection.last.since(connection.first));
    writeln!(out, "\n       {state}; known from {}; seen for {length}", Known(connection))?;
    if let Some(protocol) = connection.protocol {
        let [from, to] = [&requester.sent, &responder.sent];
        let sends = Counted(from.sends + to.sends, "Send");
        let writes = Counted(from.writes + to.writes, "RDMA Write");
        let reads = Counted(from.read_requests + to.read_requests, "RDMA Read");
        writeln!(out, "       {}: {sends}, {writes}, {reads}", protocol.name())?;
        writeln!(out, "       path MTU {}", Maybe(connection.path_mtu))?;
        return write_ends(connection, out);
    }
    match carried_else(connection) {
        Some(carried) => writeln!(out, "       carries {carried}")?,
        None => write_transactions(connection, outstanding, out)?,
    }

    if connection.is_iwarp {
        let crc = connection.has_crc.map_or("unknown", |has_crc| if has_crc { "on" } else { "off" });
        write!(out, "       iWARP, CRCs {crc}, ")?;
    } else {
        write!(out, "       path MTU {}, ", Maybe(connection.path_mtu))?;
    }
    match (connection.call_inline_threshold, connection.reply_inline_threshold) {
        (Some(call), Some(reply)) => write!(out, "inline thresholds: call {call}, reply {reply}")?,
        _ => write!(out, "inline thresholds unknown")?,
    }
    writeln!(out, ", remote invalidation {}", Invalidation(connection))?;
    write_round_trips(connection, out)?;
    write_ends(connection, out)
}

fn write_transactions(
    connection: &Connection,
    outstanding: Option<(u64, u32)>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let [forward, backward] = connection.transactions.map(Number);
    write!(out, "       transactions: {forward} forward, {backward} backward")?;
    if let Some((most, granted)) = outstanding {
        let (most, granted) = (Counted(most, "call"), Counted(granted.into(), "credit"));
        write!(out, "; at most {most} outstanding, {granted} granted")?;
    }
    writeln!(out)
}

/// Writes the times from Sends to their ACKs, and the capture point estimated from them.
fn write_round_trips(connection: &Connection, out: &mut dyn Write) -> io::Result<()> {
    let Connection { requester, responder, .. } = connection;
    let mut any = false;
    for (name, sender) in [("responder", requester), ("requester", responder)] {
        let Some(times) = sender.round_trips else { continue };
        let (median, least) = (Duration(times.median), Duration(times.minimum));
        writeln!(
            out,
            "       Send to {name}'s ACK: median {median}, minimum {least}, count {}",
            Number(times.count)
        )?;
        any = true;
    }
    if any { writeln!(out, "       capture point {}", CapturedAt(connection)) } else { Ok(()) }
}

/// Writes the counts of each end.
fn write_ends(connection: &Connection, out: &mut dyn Write) -> io::Result<()> {
    for (name, end) in [("requester", &connection.requester), ("responder", &connection.responder)] {
        let sent = &end.sent;
        writeln!(
            out,
            "       {name} sent {:>9} packets {:>9}: {:>7} Sends {:>6} Reads {:>9} of Writes {:>9} of Read data",
            Number(sent.packets),
            Bytes(sent.bytes),
            Number(sent.sends),
            Number(sent.read_requests),
            Bytes(sent.written_bytes),
            Bytes(sent.read_response_bytes),
        )?;
        write_private_data(end, out)?;
    }
    Ok(())
}

fn write_private_data(end: &Endpoint, out: &mut dyn Write) -> io::Result<()> {
    let Some(data) = end.private_data else { return Ok(()) };
    let flag = if data.remote_invalidation { "R set" } else { "R clear" };
    write!(
        out,
        "         private data: version {}, {flag}, send size {}, receive size {}",
        data.version, data.send_size, data.receive_size
    )?;
    if data.reserved != 0 {
        write!(out, ", reserved bits 0x{:02x}", data.reserved)?;
    }
    if data.offset != 0 {
        write!(out, ", at byte {}", data.offset)?;
    }
    writeln!(out)
}

/// The cells of an operation. The flag marks cells that report failures.
fn cells(stats: &Stats) -> Vec<(String, bool)> {
    let plain = |text: String| (text, false);
    let mut cells = vec![
        plain(Number(stats.count).to_string()),
        (Number(stats.errors).to_string(), stats.errors > 0),
        plain(Maybe(Some(Bytes(stats.bytes)).filter(|bytes| bytes.0 > 0)).to_string()),
    ];
    let latency = stats.latency();
    let latencies = latency.map(|latency| [latency.minimum, latency.median, latency.p99, latency.maximum]);
    cells.extend((0..4).map(|at| {
        plain(match (latencies.map(|values| values[at]), latency) {
            (Some(value), Some(latency)) if value >= latency.bound => format!(">={}", Duration(value)),
            (value, _) => Maybe(value.map(Duration)).to_string(),
        })
    }));
    let shares = stats.shares().map(grouped);
    cells.extend((0..Phases::GROUPS.len()).map(|index| {
        plain(match shares.map(|shares| shares[index] * 100.0) {
            Some(share) if share > 0.0 => format!("{share:.1}"),
            _ => "-".to_owned(),
        })
    }));
    cells
}

/// An end of a connection.
struct Queue<'a>(&'a Endpoint);

impl Display for Queue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.qpn {
            Some(qpn) => write!(f, "{} QP {qpn}", Named(self.0)),
            None if self.0.tcp_port.is_some() => Named(self.0).fmt(f),
            None => write!(f, "{} QP unknown", Named(self.0)),
        }
    }
}

#[cfg(test)]
mod tests;
