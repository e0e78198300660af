//! The steps of the gate and of the hosted CI are the same.

use super::read;
use std::collections::BTreeSet;

#[test]
fn hosted_ci_runs_every_step() {
    let gate = read(".ci/run");
    let steps: BTreeSet<&str> =
        gate.lines().filter_map(|line| line.strip_prefix("step_")?.strip_suffix("() {")).collect();
    assert!(steps.len() > 20, "only {steps:?}");
    let workflow = read(".github/workflows/ci.yml");
    let run = workflow
        .lines()
        .filter_map(|line| line.split_once("steps: \"").or_else(|| line.split_once("run: .ci/run ")));
    let run: BTreeSet<&str> = run
        .flat_map(|(_, names)| names.split('"').next().unwrap_or_default().split_whitespace())
        .filter(|name| name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
        .collect();
    assert_eq!(run, steps);
    // `.ci/run` without arguments runs all but those of the hosted CI.
    let listed: BTreeSet<&str> = ["steps=(", "hosted=("]
        .into_iter()
        .filter_map(|list| gate.split_once(list)?.1.split(')').next())
        .flat_map(str::split_whitespace)
        .collect();
    assert_eq!(listed, steps);
}
