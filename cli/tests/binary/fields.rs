//! Checks JSON lines against the lists of columns, field by field and in both directions.

use rdmascope_present::column::{Kind, List, Presence, Role};
use rdmascope_present::columns::LISTS;
use serde_json::Value;

/// Checks that a line has exactly the fields of the list named by its `type`, each with the type in
/// the list.
pub fn check(line: &Value) {
    let name = line["type"].as_str().unwrap_or_else(|| panic!("a line without a type: {line}"));
    let list = LISTS.iter().find(|list| list.role() == Role::Line && list.name() == name);
    object(*list.unwrap_or_else(|| panic!("no list of columns is called {name}")), line, name);
}

fn object(list: &dyn List, value: &Value, path: &str) {
    if let Err(problem) = differs(list, value, path) {
        panic!("{problem}: {value}");
    }
}

/// The difference between the fields of an object and a list.
fn differs(list: &dyn List, value: &Value, path: &str) -> Result<(), String> {
    let fields = value.as_object().ok_or_else(|| format!("{path} is no object"))?;
    let mut known = usize::from(list.role() == Role::Line && fields.contains_key("type"));
    for (info, kind) in list.columns().into_iter().filter(|(info, _)| info.in_json) {
        let path = format!("{path}.{}", info.name);
        match (fields.get(info.name), info.presence) {
            (None, Presence::Optional) => continue,
            (None, _) => return Err(format!("{path} is missing")),
            (Some(Value::Null), Presence::OrNull) => {}
            (Some(value), _) => is_of(kind, value, &path)?,
        }
        known += 1;
    }
    if known == fields.len() { Ok(()) } else { Err(format!("{path} has fields without a column")) }
}

fn is_of(kind: Kind, value: &Value, path: &str) -> Result<(), String> {
    let number = |most: u64| value.as_u64().is_some_and(|number| number <= most);
    let hexadecimal = |digits: usize| {
        let text = value.as_str().and_then(|text| text.strip_prefix("0x"));
        text.is_some_and(|text| text.len() == digits && is_hexadecimal(text))
    };
    let entries = || value.as_array().ok_or_else(|| format!("{path} is no list"));
    let fits = match kind {
        Kind::Boolean => value.is_boolean(),
        Kind::U8 => number(u8::MAX.into()),
        Kind::U16 => number(u16::MAX.into()),
        Kind::U32 => number(u32::MAX.into()),
        Kind::U64 | Kind::Frame | Kind::Nanoseconds => number(u64::MAX),
        Kind::Fraction => value.is_number(),
        Kind::Time => value.as_str().is_some_and(|text| text.len() == 30 && text.ends_with('Z')),
        Kind::Xid | Kind::Key => hexadecimal(8),
        Kind::Qpn => hexadecimal(6),
        Kind::Offset => hexadecimal(16),
        Kind::Word(words) => {
            value.as_str().is_some_and(|text| words.is_empty() || words.iter().any(|word| word.word == text))
        }
        Kind::Text => value.is_string(),
        Kind::Bytes => value.as_str().is_some_and(|text| text.len() % 2 == 0 && is_hexadecimal(text)),
        Kind::Texts => entries()?.iter().all(Value::is_string),
        Kind::Frames => entries()?.iter().all(Value::is_u64),
        Kind::Object(list) => return differs(list, value, path),
        Kind::Objects(list) => return entries()?.iter().try_for_each(|entry| differs(list, entry, path)),
        Kind::Any(_, []) => true,
        Kind::Any(_, lists) => {
            let is_one = |value: &Value| {
                !value.is_object() || lists.iter().any(|list| differs(*list, value, path).is_ok())
            };
            value.as_array().map_or_else(|| is_one(value), |entries| entries.iter().all(is_one))
        }
    };
    if fits { Ok(()) } else { Err(format!("{path} is not of its type: {value}")) }
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}
