//! A one-line summary of the main fields of a call or a reply: those of the principal operation.

use crate::export::beginning;
use core::fmt::Write as _;
use rdmascope_analysis::names::Label;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_present::fields::{Field, rpc};
use rdmascope_wire::rpcrdma::Procedure;

/// Maximum number of fields.
const MOST: usize = 10;
/// Maximum number of characters of a value.
const LONGEST_VALUE: usize = 64;
/// Length of the text, in bytes, after which no further field is started.
const LONGEST: usize = 400;

/// The fields of the message; empty if none are known. Names and texts from the capture are quoted,
/// with terminal controls escaped.
pub(super) fn brief(transaction: &Transaction, of_reply: bool) -> Box<str> {
    let message = if of_reply { &transaction.reply } else { &transaction.call };
    let Some(message) = message else { return Box::default() };
    let fields = match message.procedure {
        Procedure::Nomsg => match transaction.message(of_reply) {
            Some(piece) => rpc::of_message(transaction, of_reply, &piece),
            None => Vec::new(),
        },
        _ => rpc::of_send(transaction, of_reply).0,
    };
    let label = Label::of(transaction).to_string();
    let is_body = |field: &&Field| field.name.ends_with(" arguments") || field.name.ends_with(" results");
    let body = fields.iter().find(is_body).and_then(|body| operation(body, &label));
    body.map_or(Box::default(), |fields| line(fields, transaction.number))
}

/// The fields of the operation with this name in a COMPOUND, or all fields of another procedure.
fn operation<'a>(body: &'a Field, label: &str) -> Option<&'a [Field]> {
    let array = body.children.iter().find(|field| matches!(&*field.name, "argarray" | "resarray"));
    match array {
        Some(array) => {
            let operation = array.children.iter().find(|field| field.name == label)?;
            Some(&operation.children)
        }
        None => Some(&body.children),
    }
}

fn line(fields: &[Field], transaction: u64) -> Box<str> {
    let (mut text, mut named, mut further) = (String::new(), 0, 0usize);
    each(fields, &mut |field| {
        if named == MOST || text.len() > LONGEST {
            further += 1;
            return;
        }
        named += 1;
        let separator = if text.is_empty() { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(text, "{separator}{} {}", field.name, beginning(&field.shown(), LONGEST_VALUE));
    });
    if further > 0 {
        let _ = write!(text, ", further fields: `rdmascope show FILE --transaction {transaction}`");
    }
    text.into()
}

/// Visits the values among fields. A field with a value of its own, such as a list with its number
/// of entries, represents its children.
fn each(fields: &[Field], see: &mut impl FnMut(&Field)) {
    for field in fields {
        let name = &*field.name;
        // The operation and its status come earlier in the comment.
        let is_redundant =
            matches!(name, "argop" | "resop" | "status" | "attributes_follow") || name.ends_with("_status");
        let is_value = field.children.is_empty() || !field.value.is_empty() && name != "attr_vals";
        match (is_redundant || field.stop.is_some(), is_value) {
            (true, _) => {}
            (false, true) => see(field),
            (false, false) => each(&field.children, see),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(name: &'static str, value: impl Into<String>) -> Field {
        Field::known(name, value)
    }

    #[test]
    fn line_has_leaf_values_and_list_lengths() {
        let fields = [
            leaf("resop", "OP_READDIR (26)"),
            leaf("status", "NFS4_OK (0)"),
            leaf("cookieverf", "0x01"),
            leaf("reply", "").with(vec![
                leaf("entries", "2 entries").with(vec![leaf("0", "\"a\"").with(vec![leaf("cookie", "7")])]),
                leaf("eof", "yes"),
            ]),
            leaf("attr_vals", "20 bytes").with(vec![leaf("size", "77")]),
        ];
        assert_eq!(&*line(&fields, 3), "cookieverf 0x01, entries 2 entries, eof yes, size 77");
    }

    #[test]
    fn line_length_is_bounded() {
        let fields: Vec<Field> = (0..11).map(|_| leaf("a", "1")).collect();
        let further = "further fields: `rdmascope show FILE --transaction 3`";
        assert_eq!(&*line(&fields, 3), format!("{}{further}", "a 1, ".repeat(10)));
        assert_eq!(line(&fields[..10], 3).matches("a 1").count(), 10);
        assert!(!line(&fields[..10], 3).contains("further"));
        let long: Vec<Field> = (0..10).map(|_| leaf("long", "\u{e9}".repeat(1 << 16))).collect();
        let text = line(&long, u64::MAX);
        assert!(text.len() < LONGEST + 4 * LONGEST_VALUE + 100, "{}", text.len());
        assert!(text.ends_with(&format!("--transaction {}`", u64::MAX)), "{text}");
    }
}
