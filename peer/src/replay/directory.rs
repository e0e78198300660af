//! Directory listings, compared by entry name: each file system returns entries in its own order.

use super::compare::{Comparison, Valued};
use super::fields::{Field, Fields, Kind, Place};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The most entries of one directory that wait for the same name from the other side. Entries
/// beyond are treated as absent.
const MOST_ENTRIES: usize = 65_536;

/// The most directories that are listed at the same time.
const MOST_LISTINGS: usize = 64;

/// The fields of an entry, with their bytes.
type Entry = Vec<(Field, Vec<u8>)>;

/// Entries of a directory that only one side has returned so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    recorded: BTreeMap<Vec<u8>, Entry>,
    live: BTreeMap<Vec<u8>, Entry>,
}

/// The listings in progress, by directory.
#[derive(Clone, Debug, Default)]
pub(super) struct Listings {
    of: BTreeMap<Vec<u8>, Listing>,
}

impl Listings {
    /// The listing of a directory; empty if the call starts at the beginning. If [`MOST_LISTINGS`]
    /// are in progress, all of them are dropped first.
    pub(super) fn of(&mut self, directory: Vec<u8>, from_beginning: bool) -> &mut Listing {
        if from_beginning {
            self.of.remove(&directory);
        }
        if self.of.len() >= MOST_LISTINGS {
            self.of.clear();
        }
        self.of.entry(directory).or_default()
    }
}

/// The recorded handle of the directory that a call lists, and whether it lists from the beginning.
/// `None` if the call lists no directory.
pub(super) fn listed(fields: &Fields, message: &[u8]) -> Option<(Vec<u8>, bool)> {
    let mut handle = &[][..];
    for field in &fields.list {
        let bytes = field.bytes(message, &[]);
        match field.kind {
            Kind::Handle => handle = bytes,
            Kind::Cookie if field.operation.is_some_and(|(_, name)| name.starts_with("READDIR")) => {
                return Some((handle.to_vec(), bytes.iter().all(|byte| *byte == 0)));
            }
            _ => {}
        }
    }
    None
}

impl Listing {
    pub(super) fn is_empty(&self) -> bool {
        self.recorded.is_empty() && self.live.is_empty()
    }

    /// Compares the entries of two replies, together with those left over from earlier replies. If
    /// both listings are complete (`is_over`), leftover entries have no counterpart.
    pub(super) fn compare(
        &mut self,
        one: &[Valued<'_>],
        other: &[Valued<'_>],
        is_over: bool,
        found: &mut Comparison,
        learn: &mut impl FnMut(Kind, &[u8], &[u8]),
    ) {
        let [one, other] = [one, other].map(|fields| -> Vec<&[Valued<'_>]> {
            fields.chunk_by(|(field, _), (next, _)| field.entry == next.entry).collect()
        });
        // A client continues after the last entry that it received, whatever its name.
        let cookies = |entries: &[&[Valued<'_>]]| -> Vec<Vec<u8>> {
            let all = entries.iter().flat_map(|entry| entry.iter());
            all.filter(|(field, _)| field.kind == Kind::Cookie).map(|(_, bytes)| bytes.to_vec()).collect()
        };
        let (recorded, live) = (cookies(&one), cookies(&other));
        let last = recorded.last().zip(live.last());
        for (recorded, live) in recorded.iter().zip(&live).chain(last) {
            learn(Kind::Cookie, recorded, live);
        }
        let in_order = |entries: &[&[Valued<'_>]]| -> Vec<Vec<u8>> {
            entries.iter().filter_map(|entry| name(entry).map(<[u8]>::to_vec)).collect()
        };
        found.own += usize::from(in_order(&one) != in_order(&other));
        for (entries, known) in [(one, &mut self.recorded), (other, &mut self.live)] {
            for entry in entries {
                if let Some(name) = name(entry)
                    && known.len() < MOST_ENTRIES
                {
                    let kept = entry.iter().map(|(field, bytes)| ((*field).clone(), bytes.to_vec()));
                    known.insert(name.to_vec(), kept.collect());
                }
            }
        }
        let both: Vec<Vec<u8>> =
            self.recorded.keys().filter(|name| self.live.contains_key(*name)).cloned().collect();
        for name in both {
            let (Some(one), Some(other)) = (self.recorded.remove(&name), self.live.remove(&name)) else {
                continue;
            };
            found.pairs(&valued(&one), &valued(&other), learn);
        }
        if is_over {
            let (recorded, live) = (core::mem::take(&mut self.recorded), core::mem::take(&mut self.live));
            for (entries, is_live) in [(recorded, false), (live, true)] {
                for (name, entry) in entries {
                    let Some((field, _)) = entry.first() else { continue };
                    let name = match core::str::from_utf8(&name) {
                        Ok(name) => format!("{name:?}"),
                        Err(_) => super::compare::hexadecimal(&name),
                    };
                    let (named, none) = (name, String::from("not there"));
                    let field = Field { name: "entry", ..field.clone() };
                    match is_live {
                        true => found.add(&field, none, named),
                        false => found.add(&field, named, none),
                    }
                }
            }
        }
    }
}

fn valued(entry: &Entry) -> Vec<Valued<'_>> {
    entry.iter().map(|(field, bytes)| (field, &bytes[..])).collect()
}

/// The name of an entry.
fn name<'m>(entry: &[Valued<'m>]) -> Option<&'m [u8]> {
    let is_name = |(field, _): &&Valued<'_>| field.name == "name" && matches!(field.place, Place::Stream(_));
    entry.iter().find(is_name).map(|(_, bytes)| *bytes)
}
