//! Captures that were made at other places at the same time: `--with`.

use crate::captures;
use crate::interrupt;
use anyhow::{Context as _, Result, ensure};
use clap::{Arg, Args};
use core::ops::ControlFlow;
use rdmascope_analysis::places::{Passes, Places, Sample, Tally};
use rdmascope_capture_agent::{Clock, Files, Sink};
use rdmascope_dissector::frame::{self, Other};
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transport::Dissected;
use std::path::{Path, PathBuf};

/// Captures of other places.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct With {
    /// A capture of the same connections that was made at another place, such as the other end: a file, or a folder of rotated files
    ///
    /// What all places show is one capture. A packet that several show is known by its bytes, and counts once. What one place lacks, another
    /// may have. The clocks of the places are tied by packets that both show: how wrong that may be is told. `analyze` then says how long packets took between
    /// the places and where they were lost, and splits the time of operations into client, way there, server and way back; `transactions` and `show` do so for
    /// each transaction. Times are those of the clock of the first place. May be given for each further place, three at most.
    #[arg(long = "with", value_name = "FILE")]
    others: Vec<PathBuf>,
}

/// Captures that are read as one.
#[derive(Debug)]
pub(crate) struct Joint {
    /// The places, and how their clocks are tied.
    pub(crate) places: Places,
    /// All files.
    pub(crate) files: Vec<PathBuf>,
    /// The place of each.
    pub(crate) place_of: Vec<usize>,
}

impl With {
    /// For commands that read one place: the option is none of theirs.
    pub(crate) fn never(arg: Arg) -> Arg {
        if arg.get_id() == "others" {
            arg.hide(true)
                .value_parser(|_: &str| Err::<PathBuf, _>("this command reads captures of one place"))
        } else {
            arg
        }
    }

    /// Whether there are any.
    pub(crate) fn is_empty(&self) -> bool {
        self.others.is_empty()
    }

    /// Their captures.
    pub(crate) fn others(&self) -> &[PathBuf] {
        &self.others
    }

    /// Ties these places to that of `files`. `port` is that of RoCEv2.
    pub(crate) fn join(&self, files: &[PathBuf], port: u16) -> Result<Joint> {
        let mut rings = vec![files.to_vec()];
        for other in &self.others {
            rings.push(captures::expand(core::slice::from_ref(other))?);
        }
        let mut samples = Vec::with_capacity(rings.len());
        for ring in &rings {
            for path in ring {
                ensure!(
                    path != Path::new("-") && (!path.exists() || path.is_file()),
                    "{}: --with reads captures twice, which takes files",
                    path.display()
                );
            }
            let sample = sample(ring, port)?;
            samples.push((ring[0].display().to_string(), sample));
        }
        let place_of = rings.iter().enumerate().flat_map(|(place, ring)| ring.iter().map(move |_| place));
        Ok(Joint {
            place_of: place_of.collect(),
            places: Places::tie(samples).context("--with")?,
            files: rings.concat(),
        })
    }
}

impl Joint {
    /// Lets times of files be told by the clock of the first place.
    pub(crate) fn tie(&self, files: &mut Files) {
        let ties: Vec<Option<Clock>> =
            self.places.places.iter().map(|place| place.tie.as_ref().map(|tie| tie.clock())).collect();
        for (file, place) in self.place_of.iter().enumerate() {
            if let Some(clock) = &ties[*place] {
                files.tell_by(file, clock.clone());
            }
        }
    }

    /// Takes down where some packets pass, by their frames.
    pub(crate) fn passes(&self, frames: impl Iterator<Item = u64>) -> Passes {
        Passes::new(self.place_of.clone(), frames)
    }

    /// Takes down where packets were seen.
    pub(crate) fn tally(&self) -> Tally {
        Tally::new(self.places.clone(), self.place_of.clone())
    }
}

/// Some packets of a place.
fn sample(ring: &[PathBuf], port: u16) -> Result<Sample> {
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
    // Whether an ICRC is right does not matter to where the packet was seen.
    let config = frame::Config { port, verify_icrc: false };
    Files::open(ring, None, &interrupt::INPUTS)?.for_each(&config, &mut (), &mut taking)?;
    Ok(taking.0)
}
