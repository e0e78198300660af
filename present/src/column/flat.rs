//! Columns flat: each column of a line, and of the objects in it, with a dotted name by which a person picks it.

use super::{Info, Kind, List, Presence, Role};

/// A column of a line, or of an object in it.
#[derive(Clone)]
pub struct Flat {
    /// The names of the objects that it is in, and its own, joined by dots, as JSON has them: `call.frame`.
    pub name: String,
    /// Its type.
    pub kind: Kind,
    /// Whether it stands in one of several objects, so that a line has several values of it.
    pub is_repeated: bool,
    /// Whether it, and all that it stands in, is in JSON.
    pub in_json: bool,
    /// Which columns lead to it, from that of the line on.
    pub(super) path: Vec<&'static Info>,
}

/// The `type` of a line, which is no column of its list.
pub(super) static TYPE: Info = Info {
    name: "type",
    meaning: "What the line is about.",
    presence: Presence::Always,
    in_json: true,
    in_parquet: None,
};

impl Flat {
    /// Whether a line has one value of it at most, and that is no object: then lines can be sorted by it.
    pub fn is_single(&self) -> bool {
        !self.is_repeated && !self.is_object() && !matches!(self.kind, Kind::Texts | Kind::Frames)
    }

    /// Whether it consists of columns of its own.
    pub fn is_object(&self) -> bool {
        matches!(self.kind, Kind::Object(_) | Kind::Objects(_))
    }

    /// Whether a table has it where nobody says which fields it shall have: what JSON has of a line, without lists of objects.
    pub fn is_usual(&self) -> bool {
        self.in_json && !self.is_repeated && !self.is_object() && !self.is_type()
    }

    /// What it says.
    pub(super) fn info(&self) -> &'static Info {
        self.path[self.path.len() - 1]
    }

    pub(super) fn is_type(&self) -> bool {
        core::ptr::eq(self.path[0], &TYPE)
    }

    /// Whether it stands in the object `other`.
    pub(super) fn is_in(&self, other: &Flat) -> bool {
        let (own, others) = (self.path.as_slice(), other.path.as_slice());
        own.len() > others.len() && own.iter().zip(others).all(|(a, b)| core::ptr::eq(*a, *b))
    }
}

/// All columns of a line that have a name, in the order of the documentation; an object stands before its columns. What only the table in text
/// has, such as an arrow, has none, unless it is one word.
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
        // Where JSON and Parquet have different columns of one name, it is that of JSON.
        let is_other =
            !info.in_json && columns.iter().any(|(other, _)| other.in_json && other.name == info.name);
        if is_other || info.name.is_empty() || info.name.contains(' ') {
            continue;
        }
        // Rows of other tables in Parquet repeat what names their line.
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
        match kind {
            // What may hold itself is no line of a table.
            Kind::Object(inner) | Kind::Objects(inner) if inner.name() != list.name() => {
                collect(line, *inner, Some(&column), found);
            }
            _ => {}
        }
    }
}

/// The column of this name: case does not count, and the unit at its end may be missing (`latency` is `latency_ns`).
pub fn find<'a>(columns: &'a [Flat], name: &str) -> Option<&'a Flat> {
    let is_it = |column: &&Flat| column.name.eq_ignore_ascii_case(name);
    let is_it_without_unit = |column: &&Flat| {
        column.name.strip_suffix("_ns").is_some_and(|short| short.eq_ignore_ascii_case(name))
    };
    columns.iter().find(is_it).or_else(|| columns.iter().find(is_it_without_unit))
}
