//! `rdmascope diff`: compares two captures of the same workload.

use crate::capture_points::With;
use crate::input::{Input, listen};
use crate::output::{
    Failure, Format, Out, Output, Status, complain_of_troubles, warn_of_cuts, warn_of_nothing,
};
use crate::slice::{Records, SliceArguments};
use anyhow::{Context as _, anyhow, bail};
use clap::{ArgAction, Args};
use rdmascope_analysis::diff::{Comparison, Side, Thresholds};
use rdmascope_analysis::ending::Ending;
use rdmascope_analysis::observer::Observer;
use rdmascope_present::columns::{COMPARISON, ComparisonRow, DIFFERENCE};
use rdmascope_present::json;
use rdmascope_present::page::diff::Text;
use rdmascope_present::text::Style;
use std::path::Path;

/// The arguments of `diff`.
#[derive(Args, Debug)]
#[command(mut_arg("files", |files| files
    .num_args(2)
    .action(ArgAction::Set)
    .value_names(["A", "B"])
    .help("The two captures: files, or folders read as one capture each; one can be `-` for standard input")
    .long_help(None)))]
#[command(mut_args(With::never))]
pub(crate) struct Diff {
    #[command(flatten)]
    pub(crate) input: Input,
    #[command(flatten)]
    output: Output,
    /// Also show equal values, insignificant differences, and values that one capture lacks
    #[arg(long)]
    all: bool,
    /// Number of operations whose latency distribution is drawn
    #[arg(long, value_name = "N", default_value_t = 3)]
    histograms: usize,
    #[command(flatten)]
    thresholds: ThresholdArguments,
    #[command(flatten)]
    slice: SliceArguments,
}

/// The options for thresholds.
#[derive(Args, Clone, Copy, Debug)]
#[command(next_help_heading = "Thresholds")]
struct ThresholdArguments {
    /// Minimum ratio between median latencies, or 90th percentiles, that counts as a difference
    #[arg(long, value_name = "FACTOR", default_value_t = Thresholds::DEFAULT.latency_ratio, value_parser = parse_factor)]
    latency_ratio: f64,
    /// Minimum ratio between counts, shares, averages or credits that counts as a difference
    #[arg(long, value_name = "FACTOR", default_value_t = Thresholds::DEFAULT.count_ratio, value_parser = parse_factor)]
    count_ratio: f64,
    /// Significance level: the accepted probability that a difference is due to chance
    ///
    /// Latencies are compared with the Mann-Whitney rank test. The share of latencies above the
    /// 90th percentile and all other shares are compared with Fisher's exact test or the
    /// chi-squared test. For latencies the level applies to all operations together (Holm's
    /// correction). The tests assume independent values. Values of one run are not fully
    /// independent, so repeat a run before you trust a narrow result.
    #[arg(long, value_name = "PROBABILITY", default_value_t = Thresholds::DEFAULT.significance, value_parser = parse_probability)]
    significance: f64,
}

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope diff linux-6.1.pcap linux-6.12.pcap
  rdmascope diff before.pcap after.pcap --latency-ratio 1.25 --histograms 10
  tcpdump -i eth0 -w - udp port 4791 | rdmascope diff good.pcap -
  rdmascope diff a.pcap b.pcap --operation READ,WRITE --since 10
  rdmascope diff a.pcap b.pcap --format jsonl | jq 'select(.area == \"latency\")'

Exit status: 0 if nothing differs, 1 if something differs, 2 for wrong usage or no capture.";

fn parse_factor(text: &str) -> anyhow::Result<f64> {
    match text.parse() {
        Ok(factor) if (1.0..=f64::MAX).contains(&factor) => Ok(factor),
        _ => bail!("expected a factor of at least 1, such as 1.1"),
    }
}

fn parse_probability(text: &str) -> anyhow::Result<f64> {
    match text.parse() {
        Ok(probability) if probability > 0.0 && probability < 1.0 => Ok(probability),
        _ => bail!("expected a probability between 0 and 1, such as 0.01"),
    }
}

/// Compares the captures and writes the differences.
pub(crate) fn run(command: &Diff, style: Style, out: &mut Out) -> Result<Status, Failure> {
    if command.input.files.iter().all(|path| path == Path::new("-")) {
        return Err(anyhow!("only one of the two captures can be standard input").into());
    }
    let mut sides = [Side::default(), Side::default()];
    for (side, path) in sides.iter_mut().zip(&command.input.files) {
        let mut input = command.input.one(path);
        input.expand()?;
        let part = command.slice.of(&input, Records::Known);
        let (slice, captured) = part.with_context(|| path.display().to_string())?;
        let ending = listen(captured.input(), side.needs(), |event, _| {
            side.judge(&event, |finding| slice.has_finding(finding));
            if slice.has(&event) {
                side.count(&event);
            }
            Ok(())
        })?;
        side.ending = Ending { chosen: slice.chosen(), ..ending };
    }
    let [a, b] = &sides;
    let comparison = Comparison::of([a, b], &command.thresholds.thresholds());
    let shown = comparison.differences.iter().filter(|difference| command.all || difference.is_shown());
    match command.output.format {
        Format::Text => {
            let shown: Vec<_> = shown.collect();
            Text { sides: [a, b], comparison: &comparison, shown: &shown, style }
                .write(command.histograms, out)?;
        }
        Format::Jsonl => {
            json::write_line(out, &COMPARISON.of(ComparisonRow { sides: [a, b], comparison: &comparison }))?;
            for difference in shown {
                json::write_line(out, &DIFFERENCE.of(difference))?;
            }
            warn_of_cuts(&a.ending, out)?;
            warn_of_cuts(&b.ending, out)?;
        }
    }
    for side in &sides {
        warn_of_nothing(&side.ending, out)?;
        if complain_of_troubles(&side.ending, out)? == Status::Failed {
            return Ok(Status::Failed);
        }
    }
    Ok(if comparison.count() == 0 { Status::Done } else { Status::Differs })
}

impl ThresholdArguments {
    fn thresholds(&self) -> Thresholds {
        let ThresholdArguments { latency_ratio, count_ratio, significance } = *self;
        Thresholds { latency_ratio, count_ratio, significance }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_parsed() {
        assert_eq!(parse_factor("1.25").unwrap(), 1.25);
        assert_eq!(parse_probability("0.05").unwrap(), 0.05);
        for wrong in ["0.9", "-2", "x", "inf", "NaN", ""] {
            assert!(parse_factor(wrong).is_err(), "{wrong}");
        }
        for wrong in ["0", "1", "NaN", "1%"] {
            assert!(parse_probability(wrong).is_err(), "{wrong}");
        }
    }
}
