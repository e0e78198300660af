//! `--anonymize`: the packets with replaced addresses and names, and without data.

use super::{Packets, finish};
use crate::input::{Audience, Input, listen};
use crate::output::{Failure, notify};
use anyhow::{Context as _, Result, anyhow};
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::units::Counted;
use rdmascope_capture_agent::Note;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;
use rdmascope_dissector::record::Time;
use rdmascope_present::anonymize::{Anonymizer, Key};
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::path::Path;

/// The comment in an anonymized capture.
pub(super) const COMMENT: &str = "written by rdmascope --anonymize: addresses, names and uids are replaced, data and unknown contents are zeros. \
Checksums, ICRCs and CRCs are recomputed.";

/// Maximum number of bytes read from a key file.
const LONGEST_KEY: u64 = 1 << 20;

/// The key in a file, or a random key.
pub(super) fn key(file: Option<&Path>) -> Result<Key> {
    let Some(path) = file else {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)
            .map_err(|error| anyhow!("cannot get random numbers for a key: {error}"))?;
        return Key::new(&bytes).context("a random key is long enough");
    };
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(LONGEST_KEY).read_to_end(&mut bytes))
        .with_context(|| format!("--key {}: cannot be read", path.display()))?;
    let shortest = Key::SHORTEST;
    Key::new(&bytes).with_context(|| {
        format!(
            "--key {}: a key needs at least {shortest} bytes, this one has {}",
            path.display(),
            bytes.len()
        )
    })
}

/// Writes the anonymized packets.
pub(super) struct Anonymized<W> {
    anonymizer: Anonymizer,
    /// Number of notes, which are not copied.
    notes: u64,
    packets: Packets<W>,
}

impl<W: Write> Anonymized<W> {
    /// Writes the packets.
    pub(super) fn write(input: &Input, key: Key, packets: Packets<W>) -> Result<Ending, Failure> {
        let mut anonymizer = Anonymizer::new(key, input.ports.frame());
        listen(input, Anonymizer::first_pass(), |event, _| {
            anonymizer.learn(&event);
            Ok(())
        })?;
        let audience = Anonymized { anonymizer, notes: 0, packets };
        finish(input, audience, |audience| {
            if audience.notes > 0 {
                notify(format_args!(
                    "omitted: {} about connections and the kernel",
                    Counted(audience.notes, "note")
                ));
            }
            audience.packets
        })
    }
}

impl<W: Write> Audience for Anonymized<W> {
    fn needs(&self) -> Config {
        Anonymizer::second_pass()
    }

    fn event(&mut self, event: Event<'_>, _: Time) -> io::Result<()> {
        let replaced = self.anonymizer.handle(&event);
        match (event, replaced) {
            (Event::Packet(packet), Some(replaced)) => self.packets.write_in_place(packet, replaced.data, ""),
            _ => Ok(()),
        }
    }

    fn note(&mut self, _: &Note) {
        self.notes += 1;
    }
}
