//! Selects the change that runs. This file exists only in the changed copy of the sources.
//!
//! `RDMASCOPE_MUTANT` is the number of the change, or `reach:FILE`: then the sites reached are
//! written to that file.

use std_of_mutants::env;
use std_of_mutants::fs::OpenOptions;
use std_of_mutants::io::Write;
use std_of_mutants::string::String;
use std_of_mutants::sync::OnceLock;
use std_of_mutants::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

const NOTE: u32 = u32::MAX - 1;
const UNREAD: u32 = u32::MAX;
static CHOSEN: AtomicU32 = AtomicU32::new(UNREAD);
static REACHED: [AtomicU64; 4096] = [const { AtomicU64::new(0) }; 4096];

/// Returns the index of the change that runs at this site, or a larger number for none.
pub(crate) fn at(first: u32) -> u32 {
    let chosen = CHOSEN.load(Relaxed);
    if chosen < NOTE { chosen.wrapping_sub(first) } else { read_choice(first) }
}

#[cold]
fn read_choice(first: u32) -> u32 {
    static VARIABLE: OnceLock<String> = OnceLock::new();
    let choice = VARIABLE.get_or_init(|| env::var("RDMASCOPE_MUTANT").unwrap_or_default());
    let Some(path) = choice.strip_prefix("reach:") else {
        CHOSEN.store(choice.parse().unwrap_or(NOTE - 1), Relaxed);
        return CHOSEN.load(Relaxed).wrapping_sub(first);
    };
    CHOSEN.store(NOTE, Relaxed);
    let bit = 1 << (first % 64);
    if REACHED[first as usize / 64].fetch_or(bit, Relaxed) & bit == 0 {
        let mut file = OpenOptions::new().append(true).create(true).open(path).expect("the file of sites");
        file.write_all(std_of_mutants::format!("{first}\n").as_bytes()).expect("the file of sites");
    }
    u32::MAX
}
