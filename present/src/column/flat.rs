//! Flattened columns: each column of a line and of its objects, with a dotted name for selection.

use super::{Info, Kind, List, Presence, Role};

/// A column of a line, or of an object in it.
#[derive(Clone)]
pub struct Flat {
    /// The names of the enclosing objects and its own, joined by dots: `call.frame`.
    pub name: String,
    /// The type.
    pub kind: Kind,
    /// Whether it is in one of several objects, so that a line has several values.
    pub is_repeated: bool,
    /// Whether it and all enclosing objects are in JSON.
    pub in_json: bool,
    /// The path of columns to it, from the line's column on.
    pub(super) path: Vec<&'static Info>,
}

/// The `type` of a line, which is not a column of its list.
pub(super) static TYPE: Info = Info {
    name: "type",
    meaning: "The type of the line.",
    presence: Presence::Always,
    in_json: true,
    in_parquet: None,
    sorts_by: None,
};

impl Flat {
    /// Whether a line has at most one value of it, and the value is not an object. Lines can be
    /// sorted by such a column.
    pub fn is_single(&self) -> bool {
        !self.is_repeated && !self.is_object() && !matches!(self.kind, Kind::Texts | Kind::Frames)
    }

    /// Whether it has columns of its own.
    pub fn is_object(&self) -> bool {
        self.kind.inner().is_some()
    }

    /// Whether a table shows it by default: single values that are in JSON.
    pub fn is_usual(&self) -> bool {
        self.in_json && !self.is_repeated && !self.is_object() && !self.is_type()
    }

    /// The description of the column.
    pub(super) fn info(&self) -> &'static Info {
        self.path[self.path.len() - 1]
    }

    pub(super) fn is_type(&self) -> bool {
        core::ptr::eq(self.path[0], &TYPE)
    }

    /// Whether it is within the object `other`.
    pub(super) fn is_in(&self, other: &Flat) -> bool {
        let (own, others) = (self.path.as_slice(), other.path.as_slice());
        own.len() > others.len() && own.iter().zip(others).all(|(a, b)| core::ptr::eq(*a, *b))
    }
}

/// All named columns of a line, in the order of the documentation; an object precedes its columns.
/// Columns that exist only in the text table and have no single-word name are omitted.
pub fn flat(list: &dyn List) -> Vec<Flat> {
    let mut found = Vec::new();
    if list.role() == Role::Line {
        let (name, kind) = (TYPE.name.to_owned(), Kind::Word(&[]));
        found.push(Flat { name, kind, is_repeated: false, in_json: true, path: vec![&TYPE] });
    }
    collect(list, list, None, &mut found);
    found
}

fn collect(line: &dyn List, list: &dyn List, within: Option<&Flat>, found: &mut Vec<Flat>) {
    let columns = list.columns();
    let is_of_line = |name: &str| line.columns().iter().any(|(info, _)| info.name == name);
    for (info, kind) in &columns {
        // If JSON and Parquet have different columns of one name, the JSON column is used.
        let is_other =
            !info.in_json && columns.iter().any(|(other, _)| other.in_json && other.name == info.name);
        if is_other || info.name.is_empty() || info.name.contains(' ') {
            continue;
        }
        // Rows of other Parquet tables repeat the keys of their line.
        if within.is_some() && !info.in_json && is_of_line(info.name) {
            continue;
        }
        let column = Flat {
            name: within
                .map_or_else(|| info.name.to_owned(), |object| format!("{}.{}", object.name, info.name)),
            kind: *kind,
            is_repeated: within
                .is_some_and(|object| object.is_repeated || matches!(object.kind, Kind::Objects(_))),
            in_json: info.in_json && within.is_none_or(|object| object.in_json),
            path: within.iter().flat_map(|object| object.path.iter().copied()).chain([*info]).collect(),
        };
        found.push(column.clone());
        // A list that contains itself is not part of a table.
        if let Some(inner) = kind.inner().filter(|inner| inner.name() != list.name()) {
            collect(line, inner, Some(&column), found);
        }
    }
}

/// Finds a column by name, ignoring case. The unit at the end may be omitted (`latency` is
/// `latency_ns`).
pub fn find<'a>(columns: &'a [Flat], name: &str) -> Option<&'a Flat> {
    let is_it = |column: &&Flat| column.name.eq_ignore_ascii_case(name);
    let is_it_without_unit = |column: &&Flat| {
        column.name.strip_suffix("_ns").is_some_and(|short| short.eq_ignore_ascii_case(name))
    };
    columns.iter().find(is_it).or_else(|| columns.iter().find(is_it_without_unit))
}
