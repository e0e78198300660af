//! Captures of the same session at several capture points: the `--with` option.

use crate::captures;
use crate::interrupt;
use crate::ports::Ports;
use anyhow::{Context as _, Result, ensure};
use clap::{Arg, Args};
use core::ops::ControlFlow;
use rdmascope_analysis::capture_points::{CapturePoints, Passes, Sample, Tally};
use rdmascope_capture_agent::{Clock, Files, Sink};
use rdmascope_dissector::frame::{self, Other};
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transport::Dissected;
use std::path::{Path, PathBuf};

/// The captures of other capture points.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct With {
    /// Capture of the same connections at another capture point, such as the other end: a file, or
    /// a folder of rotated files
    ///
    /// All captures are analyzed as one. A packet that several of them contain is recognized by its
    /// bytes and counted once; packets missing from one may be in another. Packets common to both
    /// are used to align the clocks, and the output includes the remaining error. `analyze` then
    /// reports the delay and the losses between capture points, and splits the time of operations
    /// into client, path to the server, server, and path back; `transactions` and `show` do this
    /// for each transaction. All times use the clock of the first capture point. Repeat the option
    /// for each further capture point, up to three times.
    #[arg(long = "with", value_name = "FILE")]
    others: Vec<PathBuf>,
}

/// Captures of several capture points that are read as one.
#[derive(Debug)]
pub(crate) struct JoinedCaptures {
    /// The capture points and the alignment of their clocks.
    pub(crate) places: CapturePoints,
    /// The files of all capture points.
    pub(crate) files: Vec<PathBuf>,
    /// The index of the capture point of each file.
    pub(crate) place_of: Vec<usize>,
}

impl With {
    /// Hides and rejects the option, for commands that read one capture point.
    pub(crate) fn never(arg: Arg) -> Arg {
        if arg.get_id() == "others" {
            arg.hide(true).value_parser(|_: &str| Err::<PathBuf, _>("this command does not support --with"))
        } else {
            arg
        }
    }

    /// Whether the option is not given.
    pub(crate) fn is_empty(&self) -> bool {
        self.others.is_empty()
    }

    /// The paths given.
    pub(crate) fn others(&self) -> &[PathBuf] {
        &self.others
    }

    /// Aligns the clocks of these capture points with that of `files`.
    pub(crate) fn join(&self, files: &[PathBuf], ports: Ports) -> Result<JoinedCaptures> {
        let mut rings = vec![files.to_vec()];
        for other in &self.others {
            rings.push(captures::expand(core::slice::from_ref(other))?);
        }
        let mut samples = Vec::with_capacity(rings.len());
        for ring in &rings {
            for path in ring {
                ensure!(
                    path != Path::new("-") && (!path.exists() || path.is_file()),
                    "{}: --with needs regular files, because it reads them twice",
                    path.display()
                );
            }
            let sample = sample(ring, ports)?;
            samples.push((ring[0].display().to_string(), sample));
        }
        let place_of = rings.iter().enumerate().flat_map(|(place, ring)| ring.iter().map(move |_| place));
        Ok(JoinedCaptures {
            place_of: place_of.collect(),
            places: CapturePoints::tie(samples).context("--with")?,
            files: rings.concat(),
        })
    }
}

impl JoinedCaptures {
    /// Converts the times of files to the clock of the first capture point.
    pub(crate) fn tie(&self, files: &mut Files) {
        let ties: Vec<Option<Clock>> =
            self.places.places.iter().map(|place| place.tie.as_ref().map(|tie| tie.clock())).collect();
        for (file, place) in self.place_of.iter().enumerate() {
            if let Some(clock) = &ties[*place] {
                files.set_clock(file, clock.clone());
            }
        }
    }

    /// Returns a collector of the capture points that these frames were seen at.
    pub(crate) fn passes(&self, frames: impl Iterator<Item = u64>) -> Passes {
        Passes::new(self.place_of.clone(), frames)
    }

    /// Returns a collector of the capture points that packets were seen at.
    pub(crate) fn tally(&self) -> Tally {
        Tally::new(self.places.clone(), self.place_of.clone())
    }
}

/// Samples the packets of one capture point.
fn sample(ring: &[PathBuf], ports: Ports) -> Result<Sample> {
    struct Taking(Sample);
    impl Sink for Taking {
        fn record(&mut self, record: &Record<'_>, dissected: &Dissected<'_>) -> ControlFlow<()> {
            match &dissected.frame {
                Ok(frame) => self.0.frame(frame, record.time),
                Err(Other::Tcp(segment)) => self.0.segment(segment, record.time),
                Err(_) => {}
            }
            ControlFlow::Continue(())
        }

        fn idle(&mut self, _: Option<Time>) -> ControlFlow<()> {
            ControlFlow::Continue(())
        }
    }
    let mut taking = Taking(Sample::default());
    // A packet with a wrong ICRC still shows that it was seen here.
    let config = frame::Config { verify_icrc: false, ..ports.frame() };
    Files::open(ring, None, &interrupt::INPUTS)?.for_each(&config, &mut (), &mut taking)?;
    Ok(taking.0)
}
