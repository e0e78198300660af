//! The packets as pcapng, each with a comment: what is known of it.
//!
//! The first pass finds transactions with their steps; the second writes the packets. In between, memory is linear in the number of
//! transactions and of their steps, and of the packets of which it becomes clear only later what they are.

mod comments;
mod facts;

use crate::input::{self, Audience, Input};
use crate::output::{self, Out, Status};
use crate::whole::OutputFile;
use anyhow::{Context, Result, anyhow};
use clap::Args;
use comments::Comments;
use facts::Facts;
use foldhash::fast::FixedState;
use rdmascope_capture_agent::PcapngWriter;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::observation::Observe;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::role::Role;
use rdmascope_present::ending::Ending;
use rdmascope_present::findings::Findings;
use std::collections::HashMap;
use std::io::{self, IsTerminal as _, Write};
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(super) struct Pcapng {
    #[command(flatten)]
    pub(super) input: Input,
    /// Output file, or `-` for standard output
    ///
    /// The file appears when it is complete, and replaces a regular file of that name, whose mode it keeps.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  rdmascope export pcapng mount.pcap --output mount.pcapng
  rdmascope export pcapng mount.pcap0 mount.pcap1 --output - | tshark -r - -Y frame.comment";

/// Writes the capture.
pub(super) fn run(command: &mut Pcapng, out: &mut Out) -> io::Result<Status> {
    let Pcapng { input, output } = command;
    if let Err(error) = input.keep() {
        return output::complain(&error, out);
    }
    if output == Path::new("-") {
        if io::stdout().is_terminal() {
            let error = anyhow!("pcapng is nothing for a terminal: name a file with --output, or pipe it on");
            return output::complain(&error, out);
        }
        return match write(input, &mut *out)? {
            Ok(ending) => output::tell_of_ending(&ending, out),
            Err(error) => output::complain(&error, out),
        };
    }
    match write_file(input, output) {
        Ok(ending) => output::tell_of_ending(&ending, out),
        Err(error) => output::complain(&error, out),
    }
}

fn write_file(input: &Input, output: &Path) -> Result<Ending> {
    let cannot = || format!("{}: cannot be written", output.display());
    let mut file = OutputFile::create(output, &input.files, "--output")?;
    let ending = write(input, &mut file).with_context(cannot)??;
    file.finish().with_context(cannot)?;
    Ok(ending)
}

/// The outer error is one of the output, the inner one says what is no capture.
fn write(input: &Input, out: impl Write) -> io::Result<Result<Ending>> {
    let mut first = FirstPass {
        facts: Facts::default(),
        late: HashMap::default(),
        findings: Findings::new(Findings::ALL),
    };
    let config = Config { attribute: true, observe: Observe::All, ..Config::default() };
    if let Err(error) = input::read(input, config, &mut first)? {
        return Ok(Err(error));
    }
    let FirstPass { facts, late, findings } = first;
    output::tell_of_left_out(&findings);
    let by_frame = findings.by_frame();
    let comments = Comments::new(facts, &by_frame);
    let writer = PcapngWriter::new(out, concat!("rdmascope ", env!("CARGO_PKG_VERSION")))?;
    let mut second = SecondPass { comments, role: None, late, comment: String::new(), writer };
    let config = Config { report_packets: true, attribute: true, ..Config::default() };
    let ending = match input::read(input, config, &mut second)? {
        Ok(ending) => ending,
        Err(error) => return Ok(Err(error)),
    };
    second.writer.finish()?;
    Ok(Ok(ending))
}

/// Gathers what comments speak of.
struct FirstPass {
    facts: Facts,
    /// Of packets that had come by before it was clear.
    late: HashMap<u64, Role, FixedState>,
    findings: Findings,
}

impl Audience for FirstPass {
    const LISTS: bool = false;

    fn event(&mut self, event: Event<'_>, _: Time) -> io::Result<()> {
        self.facts.handle(&event);
        self.findings.handle(&event);
        if let Event::Attributed(attributed) = event
            && let Some(role) = attributed.role.filter(|_| attributed.late)
        {
            self.late.insert(attributed.seen.frame, role);
        }
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes packets and comments.
struct SecondPass<'a, W> {
    comments: Comments<'a>,
    /// That of the current packet, where it is clear already.
    role: Option<Role>,
    late: HashMap<u64, Role, FixedState>,
    /// That of the current packet.
    comment: String,
    writer: PcapngWriter<W>,
}

impl<W: Write> Audience for SecondPass<'_, W> {
    const LISTS: bool = false;

    fn event(&mut self, event: Event<'_>, _: Time) -> io::Result<()> {
        match event {
            Event::Attributed(attributed) if !attributed.late => self.role = attributed.role,
            Event::Packet(packet) => {
                let role = self.role.take().or_else(|| self.late.remove(&packet.record.number));
                self.comments.write(packet, role, &mut self.comment);
                self.writer.packet(&packet.record, &self.comment)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn wait(&mut self) -> io::Result<()> {
        Ok(())
    }
}
