//! Selection of some columns of a line by name.

use super::flat::{Flat, find, flat};
use super::json::{Object, list};
use super::{Column, Columns, Fields, Info, Kind, List, Output, Subject, Value};
use crate::serialized::Json;

/// Selected columns of a line.
pub struct Picked<S: Subject> {
    columns: &'static Columns<S>,
    /// The columns, in the order of selection.
    flat: Vec<Flat>,
    /// The index of the line's `type` among them.
    type_at: Option<usize>,
    /// The line's columns that are selected or contain selected ones, in the order of the line.
    nodes: Vec<(&'static Column<S>, Node)>,
}

/// A selected column, or one that contains selected columns.
struct Node {
    info: &'static Info,
    /// Its index in the selection. `None` if only columns within it are selected.
    place: Option<usize>,
    /// The selected columns within it, in the order of their list.
    inner: Vec<Node>,
}

impl<S: Subject> Picked<S> {
    /// Selects columns for cells. An object is replaced by those of its columns that tables show by
    /// default. Without names, the columns that a table shows by default are selected. Unknown
    /// names are ignored: the caller checks them with [`find`].
    pub fn cells(columns: &'static Columns<S>, names: &[String]) -> Picked<S> {
        let all = flat(columns);
        let mut picked: Vec<Flat> = Vec::new();
        let mut pick = |column: &Flat| {
            if picked.iter().all(|other| other.name != column.name) {
                picked.push(column.clone());
            }
        };
        if names.is_empty() {
            all.iter().filter(|column| column.is_usual()).for_each(&mut pick);
        }
        for named in names.iter().filter_map(|name| find(&all, name)) {
            if named.is_object() {
                let is_meant = |column: &&Flat| {
                    let is_shown = !column.is_object() && (column.in_json || !named.in_json);
                    // For a single object, its single columns; for a list of objects, the columns
                    // that each object has once.
                    column.is_in(named)
                        && is_shown
                        && column.is_repeated == (named.is_repeated || matches!(named.kind, Kind::Objects(_)))
                };
                all.iter().filter(is_meant).for_each(&mut pick);
            } else {
                pick(named);
            }
        }
        Picked::new(columns, picked)
    }

    /// Selects the columns with these names, with objects as a whole.
    pub fn nested(columns: &'static Columns<S>, names: &[String]) -> Picked<S> {
        let all = flat(columns);
        let named: Vec<&Flat> = names.iter().filter_map(|name| find(&all, name)).collect();
        let mut picked: Vec<Flat> = Vec::new();
        for column in &named {
            let is_picked = picked.iter().any(|other| other.name == column.name);
            if !is_picked && named.iter().all(|other| !column.is_in(other)) {
                picked.push((*column).clone());
            }
        }
        Picked::new(columns, picked)
    }

    fn new(columns: &'static Columns<S>, flat: Vec<Flat>) -> Picked<S> {
        let type_at = flat.iter().position(Flat::is_type);
        let mut nodes = Vec::new();
        for column in columns.columns {
            let below = flat.iter().enumerate().filter(|(_, flat)| core::ptr::eq(flat.path[0], &column.info));
            let below: Vec<_> = below.map(|(place, flat)| (place, flat.path.as_slice())).collect();
            if !below.is_empty() {
                nodes.push((column, node(&column.info, column.read.kind(), &below)));
            }
        }
        Picked { columns, flat, type_at, nodes }
    }

    /// The selected columns, in the order of selection.
    pub fn columns(&self) -> &[Flat] {
        &self.flat
    }

    /// Lends each value of `subject` to `see`, with the index of its column: values of an object in
    /// the order of its list, and several objects one after the other. An absent value is
    /// [`Value::Missing`].
    pub fn each(&self, subject: S::Of<'_>, see: &mut dyn FnMut(usize, Value<'_>)) {
        if let Some(place) = self.type_at {
            see(place, Value::Text(self.columns.name));
        }
        for (column, node) in &self.nodes {
            column.see(subject, &mut |_, value| node.each(value, see));
        }
    }

    /// The selected columns of `subject` for JSON.
    pub fn line<'a>(&self, subject: S::Of<'a>) -> PickedLine<'_, 'a, S> {
        PickedLine { picked: self, subject }
    }
}

/// Creates the node of a column from the paths of the selected columns.
fn node(info: &'static Info, kind: Kind, picked: &[(usize, &[&'static Info])]) -> Node {
    let place = picked.iter().find(|(_, path)| path.len() == 1).map(|(place, _)| *place);
    let mut inner = Vec::new();
    for (info, kind) in kind.inner().map(List::columns).unwrap_or_default() {
        let below =
            picked.iter().filter(|(_, path)| path.get(1).is_some_and(|next| core::ptr::eq(*next, info)));
        let below: Vec<_> = below.map(|(place, path)| (*place, &path[1..])).collect();
        if !below.is_empty() {
            inner.push(node(info, kind, &below));
        }
    }
    Node { info, place, inner }
}

impl Node {
    fn each(&self, value: Value<'_>, see: &mut dyn FnMut(usize, Value<'_>)) {
        match value {
            Value::List(items) => items.each(&mut |item| self.each(item, see)),
            Value::Object(fields) if self.place.is_none() => {
                let mut rest = self.inner.iter().peekable();
                fields.each(Output::Any, &mut |info, value| {
                    if let Some(node) = rest.next_if(|node| core::ptr::eq(node.info, info)) {
                        node.each(value, see);
                    }
                });
            }
            Value::Missing if self.place.is_none() => {
                self.inner.iter().for_each(|node| node.each(Value::Missing, see));
            }
            value => {
                if let Some(place) = self.place {
                    see(place, value);
                }
            }
        }
    }
}

/// The selected columns of a subject for JSON: objects contain only selected columns.
pub struct PickedLine<'p, 'a, S: Subject> {
    picked: &'p Picked<S>,
    subject: S::Of<'a>,
}

impl<S: Subject> Json for PickedLine<'_, '_, S> {
    fn json(&self, out: &mut Vec<u8>) {
        let Picked { type_at, columns, nodes, .. } = self.picked;
        let mut object = Object::begin(type_at.map(|_| columns.name), out);
        for (column, node) in nodes {
            column.see(self.subject, &mut |info, value| {
                object.field(info, value, |out| node.json(value, out));
            });
        }
        object.end();
    }
}

impl Node {
    /// Writes the selected part of a value.
    fn json(&self, value: Value<'_>, out: &mut Vec<u8>) {
        match value {
            Value::Object(fields) if self.place.is_none() => self.object(fields, out),
            Value::List(items) if self.place.is_none() => {
                list(items, out, &mut |item, out| self.json(item, out));
            }
            value => value.json(out),
        }
    }

    fn object(&self, fields: &dyn Fields, out: &mut Vec<u8>) {
        let mut object = Object::begin(None, out);
        let mut rest = self.inner.iter().peekable();
        fields.each(Output::Any, &mut |info, value| {
            if let Some(node) = rest.next_if(|node| core::ptr::eq(node.info, info)) {
                object.field(info, value, |out| node.json(value, out));
            }
        });
        object.end();
    }
}
