//! `export pcapng`: the packets, each with a comment.
//!
//! The first pass finds transactions with their steps; the second writes the packets. Memory use in
//! between is linear in the number of transactions and steps, and of packets whose role is known
//! only later. Without comments there is a single pass.

mod anonymized;
mod brief;
mod comments;
mod facts;
mod noted;

use super::{FileArguments, pcapng_to};
use crate::bulk;
use crate::capture_points::With;
use crate::input::{self, Audience, Input};
use crate::output::{self, Failure, Out, Status};
use crate::slice::{Records, Slice, SliceArguments};
use anonymized::Anonymized;
use clap::Args;
use comments::Comments;
use facts::Facts;
use foldhash::fast::FixedState;
use noted::Noted;
use rdmascope_analysis::ending::{Chosen, Ending};
use rdmascope_analysis::findings::Findings;
use rdmascope_analysis::observer::Observer;
use rdmascope_analysis::units::Counted;
use rdmascope_capture_agent::{Note, PcapngWriter, Section};
use rdmascope_dissector::bulk::BulkCut;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::{Event, Packet};
use rdmascope_dissector::exchange::Keep;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::role::Role;
use std::collections::HashMap;
use std::io::{self, ErrorKind, Write};
use std::mem;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(mut_args(With::never))]
pub(super) struct Pcapng {
    #[command(flatten)]
    pub(super) input: Input,
    #[command(flatten)]
    pub(super) file: FileArguments,
    /// Omit the payload of RDMA Writes and RDMA Reads
    ///
    /// Headers, Sends and messages in chunks are kept, and so are packets whose content is
    /// uncertain; transactions, findings and latencies are the same. Original lengths are kept. The
    /// ICRC of a shortened packet cannot be verified; a packet with a bad ICRC is kept in full.
    #[arg(long)]
    cut_bulk: bool,
    /// Write no comments
    ///
    /// The capture is then read once, and memory use does not grow with its length.
    #[arg(long)]
    no_comments: bool,
    /// File with notes to add as comments: lines such as `frame 53: TEXT` and `transaction 13: TEXT`
    ///
    /// `W` in `rdmascope tui` writes such a file. The note on a transaction becomes a comment of its
    /// first packet. Numbers are those of the input.
    #[arg(long, value_name = "FILE", conflicts_with = "anonymize")]
    pub(super) notes: Option<PathBuf>,
    #[command(flatten)]
    slice: SliceArguments,
    /// Replace addresses, names and uids, and omit data, so that the capture can be shared
    ///
    /// Ethernet and IP addresses, GUIDs, host names, names of files, users and clients, and uids
    /// are replaced by values of the same form and length; equal values get equal replacements.
    /// File data, extended attributes, security tokens, other protocols and everything that is not
    /// understood become zeros. Lengths, times, file handles, stateids, XIDs, memory and queue pair
    /// numbers are kept, so transactions, findings and latencies are the same. Checksums, ICRCs and
    /// CRCs are recomputed. No comments are written and no notes of the capture are copied.
    /// docs/sharing.md describes what the result still reveals.
    #[arg(long, help_heading = "Sharing")]
    anonymize: bool,
    /// File with the key of the replacements, so that several captures get the same ones
    ///
    /// The key is the whole file, at least 16 bytes: `head -c 32 /dev/urandom > FILE`. Anyone who
    /// has it can recover the replaced values. By default the key is random and discarded.
    #[arg(long, value_name = "FILE", requires = "anonymize", help_heading = "Sharing")]
    pub(super) key: Option<PathBuf>,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  rdmascope export pcapng mount.pcap --output mount.pcapng
  rdmascope export pcapng mount.pcap0 mount.pcap1 --output - | tshark -r - -Y frame.comment
  rdmascope export pcapng mount.pcap --where 'op == READ && latency > 50ms' --output slow.pcapng
  rdmascope export pcapng mount.pcap --notes mount.pcap.notes --output noted.pcapng
  rdmascope export pcapng mount.pcap --cut-bulk --no-comments --output small.pcapng
  rdmascope export pcapng mount.pcap --anonymize --output for-others.pcapng
  rdmascope export pcapng mount.pcap --anonymize --key secret.key --output monday.pcapng";

/// Writes the capture.
pub(super) fn run(command: &mut Pcapng, out: &mut Out) -> Result<Status, Failure> {
    let Pcapng { input, file, cut_bulk, no_comments, slice, anonymize, key, notes } = command;
    let form =
        Form { cuts_bulk: *cut_bulk, has_comments: !*no_comments && !*anonymize, is_anonymous: *anonymize };
    if form.has_comments || form.is_anonymous || notes.is_some() {
        input.keep()?;
    }
    let (slice, captured) = slice.of(input, Records::OfTransactions)?;
    let input = captured.input();
    let key = anonymize.then(|| anonymized::key(key.as_deref())).transpose()?;
    let noted = notes.as_deref().map_or(Ok(Noted::default()), |path| Noted::read(path, input))?;
    let ending = pcapng_to(&file.output, input, out, |out| match key {
        Some(key) => Anonymized::write(input, key, Packets::new(input, form, slice, noted, out)),
        None => write(input, form, slice, noted, out),
    })?;
    Ok(output::report_ending(&ending, out)?)
}

/// The form of the output.
#[derive(Clone, Copy, Debug)]
struct Form {
    cuts_bulk: bool,
    has_comments: bool,
    is_anonymous: bool,
}

/// Writes the packets.
fn write(input: &Input, form: Form, slice: Slice, noted: Noted, out: impl Write) -> Result<Ending, Failure> {
    let packets = Packets::new(input, form, slice, noted, out);
    if !form.has_comments {
        return finish(input, Plain(packets), |Plain(packets)| packets);
    }
    let mut first = FirstPass {
        facts: Facts::default(),
        late: HashMap::default(),
        findings: Findings::new(Findings::ALL),
    };
    input::read(input, &mut first)?;
    let FirstPass { facts, late, findings } = first;
    output::report_left_out(&findings);
    facts.report_left_out();
    let by_frame = findings.by_frame();
    let comments = Comments::new(facts, &by_frame);
    let second = SecondPass { comments, role: None, late, comment: String::new(), packets };
    finish(input, second, |second| second.packets)
}

/// Reads the capture and finishes the output.
fn finish<A: Audience, W: Write>(
    input: &Input,
    mut audience: A,
    packets: impl FnOnce(A) -> Packets<W>,
) -> Result<Ending, Failure> {
    let ending = input::read(input, &mut audience)?;
    packets(audience).finish()?;
    Ok(ending)
}

/// Writes packets. It writes nothing before the first one, since the input may be no capture.
struct Packets<W> {
    /// The destination until the file is started.
    out: Option<W>,
    comments: Vec<String>,
    writer: Option<PcapngWriter<W>>,
    /// The result of writing notes.
    notes_written: io::Result<()>,
    bulk: Option<BulkCut>,
    /// The part of the capture to write.
    slice: Slice,
    noted: Noted,
}

impl<W: Write> Packets<W> {
    fn new(input: &Input, form: Form, slice: Slice, noted: Noted, out: W) -> Packets<W> {
        let frame = input.frame();
        Packets {
            out: Some(out),
            comments: form
                .cuts_bulk
                .then(|| bulk::COMMENT.to_owned())
                .into_iter()
                .chain(form.is_anonymous.then(|| anonymized::COMMENT.to_owned()))
                .chain(slice.chosen().map(|chosen| comment_of(chosen, (!form.is_anonymous).then_some(input))))
                .collect(),
            slice,
            noted,
            writer: None,
            notes_written: Ok(()),
            bulk: form.cuts_bulk.then(|| BulkCut::new(frame)),
        }
    }

    fn writer(&mut self) -> io::Result<&mut PcapngWriter<W>> {
        if let Some(out) = self.out.take() {
            let application = concat!("rdmascope ", env!("CARGO_PKG_VERSION"));
            let section = Section { application, comments: &self.comments, ..Section::default() };
            self.writer = Some(PcapngWriter::begin_section(out, &section)?);
        }
        self.writer.as_mut().ok_or_else(|| ErrorKind::BrokenPipe.into())
    }

    fn write(&mut self, packet: &Packet<'_>, comment: &str) -> io::Result<()> {
        self.write_in_place(packet, packet.record.data, comment)
    }

    /// Writes the record of a packet with other bytes of the same length.
    fn write_in_place(&mut self, packet: &Packet<'_>, data: &[u8], comment: &str) -> io::Result<()> {
        mem::replace(&mut self.notes_written, Ok(()))?;
        if !self.slice.has_packet(packet) {
            return Ok(());
        }
        let kept = bulk::cut(&mut self.bulk, &packet.record).data.len();
        let note = self.noted.take(packet.record.number);
        let record = Record { data: &data[..kept], ..packet.record };
        self.writer()?.packet_with(&record, &[note.as_deref().unwrap_or_default(), comment])
    }

    /// Copies a note of the capture. An input with notes is a capture.
    fn note(&mut self, note: &Note) {
        if self.notes_written.is_ok() {
            self.notes_written = self.writer().and_then(|writer| writer.note(note.kind, &note.bytes));
        }
    }

    fn finish(mut self) -> io::Result<()> {
        self.noted.report_rest();
        mem::replace(&mut self.notes_written, Ok(()))?;
        self.writer()?.flush()
    }
}

/// The comment of a file with a part of another capture. `input` is `None` if its name must not be
/// revealed.
fn comment_of(chosen: Chosen, input: Option<&Input>) -> String {
    let transactions = Counted(chosen.transactions, "transaction");
    let Some(input) = input else {
        return format!("{transactions} of another capture, with the CM exchanges of their connections");
    };
    let files: Vec<_> = input.files.iter().map(|path| path.to_string_lossy()).collect();
    format!(
        "{transactions} of {}, with the CM exchanges of their connections; comments have the numbers of frames and transactions there",
        files.join(", ")
    )
}

/// Writes packets without comments.
struct Plain<W>(Packets<W>);

impl<W: Write> Audience for Plain<W> {
    fn needs(&self) -> Config {
        Config { report_packets: true, ..Config::default() }
    }

    fn event(&mut self, event: Event<'_>, _: Time) -> io::Result<()> {
        match event {
            Event::Packet(packet) => self.0.write(packet, ""),
            _ => Ok(()),
        }
    }

    fn note(&mut self, note: &Note) {
        self.0.note(note);
    }
}

/// Collects the facts for comments.
struct FirstPass {
    facts: Facts,
    /// Roles that became known only after their packets.
    late: HashMap<u64, Role, FixedState>,
    findings: Findings,
}

impl Audience for FirstPass {
    fn needs(&self) -> Config {
        let keep = Keep { steps: true, contents: true };
        Config { attribute: true, keep, ..self.findings.needs() }
    }

    fn event(&mut self, event: Event<'_>, _: Time) -> io::Result<()> {
        let left_out = self.facts.handle(&event);
        self.findings.handle_some(&event, |_| left_out.is_none());
        if let Some(Some(frame)) = left_out {
            self.late.remove(&frame);
        }
        if let Event::Attributed(attributed) = event
            && let Some(role) = attributed.role.filter(|_| attributed.late)
        {
            self.late.insert(attributed.seen.frame, role);
        }
        Ok(())
    }
}

/// Writes packets with comments.
struct SecondPass<'a, W> {
    comments: Comments<'a>,
    /// The role of the current packet, if already known.
    role: Option<Role>,
    late: HashMap<u64, Role, FixedState>,
    /// The comment of the current packet.
    comment: String,
    packets: Packets<W>,
}

impl<W: Write> Audience for SecondPass<'_, W> {
    fn needs(&self) -> Config {
        Config { report_packets: true, attribute: true, ..Config::default() }
    }

    fn event(&mut self, event: Event<'_>, _: Time) -> io::Result<()> {
        match event {
            Event::Attributed(attributed) if !attributed.late => self.role = attributed.role,
            Event::Packet(packet) => {
                let role = self.role.take().or_else(|| self.late.remove(&packet.record.number));
                self.comments.write(packet, role, &mut self.comment);
                self.packets.write(packet, &self.comment)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn note(&mut self, note: &Note) {
        self.packets.note(note);
    }
}
