//! The tables of docs/json.md, docs/parquet.md and docs/tables.md.

use super::flat::flat;
use super::parquet::table;
use super::{Info, Kind, List, Presence, Role};
use core::fmt::Write as _;

/// The fields of an object or a line in JSON, as a table of docs/json.md.
pub fn json_table(list: &dyn List) -> String {
    let mut page = "| field | type | meaning |\n|---|---|---|\n".to_owned();
    if list.role() == Role::Line {
        row(&mut page, "type", "string", &format!("`{}`", list.name()));
    }
    json_rows(list, "", &mut page);
    page
}

fn json_rows(list: &dyn List, prefix: &str, page: &mut String) {
    for (info, kind) in list.columns().into_iter().filter(|(info, _)| info.in_json) {
        let presence = match info.presence {
            Presence::Always => "",
            Presence::OrNull => " or null",
            Presence::Optional => ", *optional*",
        };
        let name = format!("{prefix}{}", info.name);
        let mut meaning = meaning_of(info, kind);
        let inner = kind.inner();
        match inner.map(|inner| (inner.role(), inner.name())) {
            Some((Role::Shared, name)) => {
                let _ = write!(meaning, " Its fields: see `{name}` below.");
            }
            Some((Role::Line, name)) => {
                let _ = write!(meaning, " Its fields are those of a `{name}`.");
            }
            Some((Role::Inner, _)) | None => {}
        }
        if let Kind::Any(_, lists @ [_, ..]) = kind {
            let names: Vec<_> = lists.iter().map(|list| format!("`{}`", list.name())).collect();
            let _ = write!(meaning, " The fields of an object: see {} below.", names.join(", "));
        }
        row(page, &name, &format!("{}{presence}", json_type(kind)), &meaning);
        if let Some(inner) = inner.filter(|inner| inner.role() == Role::Inner) {
            let each = if matches!(kind, Kind::Objects(_)) { "[]" } else { "" };
            json_rows(inner, &format!("{name}{each}."), page);
        }
    }
}

fn json_type(kind: Kind) -> &'static str {
    match kind {
        Kind::Boolean => "boolean",
        Kind::U8 | Kind::U16 | Kind::U32 | Kind::U64 | Kind::Fraction => "number",
        Kind::Frame => "frame",
        Kind::Nanoseconds => "duration",
        Kind::Time => "time",
        Kind::Xid => "XID",
        Kind::Key => "key",
        Kind::Qpn => "queue pair number",
        Kind::Offset => "offset in memory",
        Kind::Word(_) | Kind::Text => "string",
        Kind::Bytes => "hexadecimal digits",
        Kind::Texts => "strings",
        Kind::Frames => "frames",
        Kind::Object(_) => "object",
        Kind::Objects(_) => "objects",
        Kind::Any(types, _) => types,
    }
}

/// The columns of a Parquet table, as a table of docs/parquet.md.
pub fn parquet_table(list: &dyn List) -> String {
    let mut page = "| column | type | meaning |\n|---|---|---|\n".to_owned();
    for column in table(list) {
        row(&mut page, &column.name, &column.shape.to_string(), &column.meaning);
    }
    page
}

/// The fields that tables can show and JSON lacks, as a table of docs/tables.md.
pub fn further_table(list: &dyn List) -> String {
    let mut page = "| field | type | meaning |\n|---|---|---|\n".to_owned();
    for column in flat(list).iter().filter(|column| !column.in_json) {
        row(&mut page, &column.name, json_type(column.kind), &meaning_of(column.info(), column.kind));
    }
    page
}

/// The meaning of a column, with its possible values.
pub(super) fn meaning_of(info: &Info, kind: Kind) -> String {
    let mut text = info.meaning.to_owned();
    let words = if let Kind::Word(words) = kind { words } else { &[] };
    let explains = words.iter().any(|word| !word.meaning.is_empty());
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            text.push_str(if explains { "; " } else { ", " });
        } else if explains {
            text.push(' ');
        } else {
            text.truncate(text.trim_end_matches('.').len());
            text.push_str(": ");
        }
        let _ = write!(text, "`{}`", word.word);
        if !word.meaning.is_empty() {
            let _ = write!(text, ": {}", word.meaning);
        }
    }
    if !words.is_empty() {
        text.push('.');
    }
    text
}

fn row(page: &mut String, name: &str, kind: &str, meaning: &str) {
    let _ = writeln!(page, "| `{name}` | {kind} | {} |", meaning.replace('|', "\\|"));
}
