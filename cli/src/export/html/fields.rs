//! The fields of the drawn calls and replies, collapsed below their ladders.

use crate::export::beginning;
use maud::{Markup, html};
use rdmascope_analysis::units::Counted;
use rdmascope_dissector::transaction::Transaction;
use rdmascope_present::fields::{Field, rpc};

/// Maximum number of fields shown per message.
const MOST_OF_MESSAGE: usize = 500;
/// Maximum number of fields in the page.
const MOST: usize = 25_000;
/// Maximum number of characters in a name or a value.
const LONGEST: usize = 240;
/// Maximum indentation depth. Deeper fields are not indented further.
const DEEPEST: usize = 12;

/// Renders fields until the limit of the page is reached.
#[derive(Debug)]
pub(super) struct FieldLists {
    left: usize,
}

impl Default for FieldLists {
    fn default() -> FieldLists {
        FieldLists { left: MOST }
    }
}

impl FieldLists {
    /// The fields of a transaction whose contents were kept: those of both Sends and of messages
    /// conveyed in chunks.
    pub(super) fn of(&mut self, transaction: &Transaction) -> Markup {
        let lists = [(false, "call"), (true, "reply")].map(|(of_reply, name)| {
            let (sent, _) = rpc::of_send(transaction, of_reply);
            let piece = transaction.message(of_reply);
            let conveyed = piece.map(|piece| rpc::of_message(transaction, of_reply, &piece)).unwrap_or_default();
            html! {
                (self.list(&format!("fields of the {name}\u{2019}s Send"), &sent))
                (self.list(&format!("fields of the {name}\u{2019}s message, which a chunk conveyed"), &conveyed))
            }
        });
        html! { @for list in lists { (list) } }
    }

    fn list(&mut self, title: &str, fields: &[Field]) -> Markup {
        let count = fields.iter().map(count).sum::<usize>();
        if count == 0 {
            return html! {};
        }
        let room = MOST_OF_MESSAGE.min(self.left);
        let mut rows = Vec::new();
        fields.iter().for_each(|field| gather(field, 0, room, &mut rows));
        self.left -= rows.len();
        html! {
            details class="fields" {
                summary { (Counted(count as u64, "field")) ": " (title) }
                @for (depth, field) in &rows { (row(*depth, field)) }
                @if rows.len() < count {
                    p class="note" {
                        (Counted((count - rows.len()) as u64, "further field")) ": "
                        code { "rdmascope show FILE --transaction N" } " has all."
                    }
                }
            }
        }
    }
}

fn count(field: &Field) -> usize {
    1 + field.children.iter().map(count).sum::<usize>()
}

/// Collects a field and its children until `rows` has `room` entries.
fn gather<'f>(field: &'f Field, depth: usize, room: usize, rows: &mut Vec<(usize, &'f Field)>) {
    if rows.len() == room {
        return;
    }
    rows.push((depth, field));
    field.children.iter().for_each(|child| gather(child, depth + 1, room, rows));
}

fn row(depth: usize, field: &Field) -> Markup {
    html! {
        div class={ "d" (depth.min(DEEPEST)) } {
            b { (beginning(&field.name, LONGEST)) }
            " "
            span class=[field.stop.is_some().then_some("bad")] { (beginning(&field.shown(), LONGEST)) }
            @if let Some(range) = field.range.as_ref().filter(|range| !range.is_empty()) {
                " " i { (range.start) @if range.len() > 1 { "\u{2013}" (range.end - 1) } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of shown fields, and the note about omitted ones.
    fn shown(lists: &mut FieldLists, fields: &[Field]) -> (usize, Option<String>) {
        let text = lists.list("of a call", fields).into_string();
        let further = text.split("class=\"note\">").nth(1).and_then(|rest| rest.split(':').next());
        (text.matches("<div class=\"d").count(), further.map(str::to_owned))
    }

    #[test]
    fn fields_are_bounded_and_omissions_counted() {
        let field = |number: usize| Field::new("word", number.to_string(), 4 * number..4 * number + 4);
        let many: Vec<Field> = (0..MOST_OF_MESSAGE + 100).map(field).collect();
        let mut lists = FieldLists::default();
        assert_eq!(shown(&mut lists, &many[..3]), (3, None));
        assert_eq!(shown(&mut lists, &many), (MOST_OF_MESSAGE, Some("100 further fields".to_owned())));
        // Nested fields count as well.
        let nested = [field(0).with(many.clone())];
        assert_eq!(shown(&mut lists, &nested), (MOST_OF_MESSAGE, Some("101 further fields".to_owned())));
        let messages = (MOST - 3) / MOST_OF_MESSAGE - 2;
        (0..messages).for_each(|_| assert_eq!(shown(&mut lists, &many).0, MOST_OF_MESSAGE));
        // The remaining room of the page.
        assert_eq!(shown(&mut lists, &many).0, MOST - 3 - (messages + 2) * MOST_OF_MESSAGE);
        assert_eq!(shown(&mut lists, &many), (0, Some("600 further fields".to_owned())));
        assert_eq!(shown(&mut lists, &[]), (0, None));
    }

    #[test]
    fn names_and_values_are_escaped_and_truncated() {
        let hostile = Field::new("</b></details><script>".to_owned(), "x".repeat(5000) + "<img>", 0..4);
        let text = FieldLists::default().list("of a call", &[hostile]).into_string();
        assert!(!text.contains("<script") && !text.contains("<img"), "{text}");
        assert!(text.len() < 1000 && text.contains('\u{2026}'), "{}", text.len());
    }
}
