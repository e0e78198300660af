//! Fields and bytes side by side: the bytes of the selected field are highlighted.

use super::exchange::{command, packets};
use super::pane::plain;
use super::{Pane, Selection, Target, Texts, fitted};
use crate::state::{BytesOf, State};
use core::ops::{Range, RangeInclusive};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use rdmascope_dissector::transaction::Part;
use rdmascope_present::fields::{Field, rpc};

pub(super) struct Bytes;

impl Pane for Bytes {
    fn render(&self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        let all = parts(state);
        let place = all.iter().position(|part| *part == state.bytes_of);
        let of = place.map_or(String::new(), |place| format!(" ({} of {})", place + 1, all.len()));
        let words = format!("{}{of}", name(state, state.bytes_of));
        super::title(state, frame, area, &words, !state.in_detail);
        let fields = fields(state);
        let width = usize::from(area.width).saturating_sub(1);
        let line = |index: usize| {
            let field: &Chosen = &fields[index];
            let is_closed = state.closed.contains(&(state.bytes_of, field.path.clone()));
            let sign = match (field.has_children, is_closed) {
                (true, true) => "+ ",
                (true, false) => "- ",
                (false, _) => "  ",
            };
            let indent = "  ".repeat(field.path.len() - 1);
            let separator = if field.value.is_empty() { "" } else { ": " };
            let text = format!("{indent}{sign}{}{separator}{}", field.name, field.value);
            let style = match field.has_children {
                _ if field.is_stop => super::red(state),
                true => Style::new().bold(),
                false => Style::new(),
            };
            Line::from(Span::styled(fitted(state, &text, width, false), style))
        };
        let why = "Nothing is selected: 3 lists transactions, Enter opens one, then one of its \
            rungs. h and l go through its messages.";
        super::list(state, frame, area, None, (fields.len(), why), line);
    }

    fn count(&self, state: &State) -> usize {
        fields(state).len()
    }

    fn texts<'a>(&'a self, state: &'a State) -> Texts<'a> {
        /// Of longer fields, the bytes are not searched.
        const MOST: usize = 256;
        let fields = fields(state);
        let bytes = shown(state).map_or(&[][..], |shown| shown.bytes);
        let hexadecimal = move |field: &Chosen| {
            let range = field.range.clone().filter(|range| !field.has_children && range.len() <= MOST);
            let bytes = range.and_then(|range| bytes.get(range)).unwrap_or_default();
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ")
        };
        Texts::of(fields.len(), move |index| {
            let field = &fields[index];
            format!("{}: {} {}", field.name, field.value, hexadecimal(field))
        })
    }

    fn detail_texts(&self, state: &State, _width: u16) -> Vec<String> {
        rows(state).iter().map(plain).collect()
    }

    fn detail_count(&self, state: &State, _width: u16) -> usize {
        rows(state).len()
    }

    fn render_detail(&self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        let Some(field) = field_of_chosen(state) else { return };
        let (range, rows) = (field.range, rows(state));
        let words = match &range {
            Some(range) if range.len() == 1 => format!("Byte {}", range.start),
            Some(range) if !range.is_empty() => format!("Bytes {} to {}", range.start, range.end - 1),
            _ => "Bytes".to_owned(),
        };
        let carried = match frames_of_field(state)[..] {
            [] => String::new(),
            [one] => format!(", in frame {one}"),
            [first, .., last] => format!(", in frames {first} to {last}"),
        };
        let words = words + &carried;
        super::title(state, frame, area, &words, state.in_detail);
        // The highlighted bytes are visible, unless the cursor moves in the bytes.
        let mut top = state.detail().top;
        if let Some(range) = range.filter(|_| !state.in_detail) {
            let seen = usize::from(area.height.saturating_sub(1)).max(1);
            let first = range.start / ROW;
            if !(top..top + seen).contains(&first) {
                top = first.saturating_sub(seen / 3).min(rows.len().saturating_sub(seen));
            }
        }
        super::scrolled(state, frame, area, rows.into(), top);
    }

    fn selection(&self, state: &State) -> Selection {
        let frame = state.frame.as_ref().filter(|_| state.bytes_of == BytesOf::Frame);
        let frame = frame.map(|frame| frame.number);
        let files = &state.files;
        let command = match (frame, &state.exchange) {
            (Some(frame), _) => format!("rdmascope show {files} --frame {frame}"),
            (None, Some(exchange)) => command(state, Some(exchange.transaction.number)) + " --full",
            (None, None) => format!("rdmascope packets {files}"),
        };
        let field = field_of_chosen(state);
        let target = match &field {
            Some(field) if field.has_children => Some(Target::Field(field.path.clone())),
            _ => frames_of_field(state).first().copied().map(Target::Frame),
        };
        let value = field.map(|field| field.value);
        Selection { command, value, record: frame, packets: packets(state), target }
    }
}

/// The fields and bytes that are shown.
struct Shown<'a> {
    fields: &'a [Field],
    bytes: &'a [u8],
}

/// A field as a line of the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Indices from the top of the tree.
    pub path: Vec<usize>,
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// Its bytes.
    pub range: Option<Range<usize>>,
    /// It contains fields.
    pub has_children: bool,
    /// It gives the reason why decoding stopped.
    pub is_stop: bool,
}

/// The parts whose bytes can be shown.
pub fn parts(state: &State) -> Vec<BytesOf> {
    let mut parts = Vec::new();
    if let Some(exchange) = &state.exchange {
        for of_reply in [false, true] {
            if !exchange.sends[usize::from(of_reply)].is_empty() {
                parts.push(BytesOf::Send { of_reply });
            }
            if exchange.messages[usize::from(of_reply)].is_some() {
                parts.push(BytesOf::Message { of_reply });
            }
        }
    }
    if state.frame.is_some() {
        parts.push(BytesOf::Frame);
    }
    parts
}

fn shown(state: &State) -> Option<Shown<'_>> {
    match state.bytes_of {
        BytesOf::Frame => {
            let frame = state.frame.as_ref()?;
            Some(Shown { fields: &frame.fields, bytes: &frame.bytes })
        }
        BytesOf::Send { of_reply } => {
            let exchange = state.exchange.as_ref()?;
            let bytes = rpc::send_bytes(&exchange.transaction, of_reply);
            Some(Shown { fields: &exchange.sends[usize::from(of_reply)], bytes })
        }
        BytesOf::Message { of_reply } => {
            let (fields, bytes) = state.exchange.as_ref()?.messages[usize::from(of_reply)].as_ref()?;
            Some(Shown { fields, bytes })
        }
    }
}

/// The lines of the tree: fields that are not inside closed ones.
fn fields(state: &State) -> Vec<Chosen> {
    let mut lines = Vec::new();
    if let Some(shown) = shown(state) {
        flatten(state, shown.fields, &mut Vec::new(), &mut lines);
    }
    lines
}

fn flatten(state: &State, fields: &[Field], path: &mut Vec<usize>, lines: &mut Vec<Chosen>) {
    for (index, field) in fields.iter().enumerate() {
        path.push(index);
        lines.push(Chosen {
            path: path.clone(),
            name: field.name.clone().into_owned(),
            value: field.shown().into_owned(),
            range: field.range.clone(),
            has_children: !field.children.is_empty(),
            is_stop: field.stop.is_some(),
        });
        if !state.closed.contains(&(state.bytes_of, path.clone())) {
            flatten(state, &field.children, path, lines);
        }
        path.pop();
    }
}

/// The selected field.
pub(crate) fn field_of_chosen(state: &State) -> Option<Chosen> {
    if state.show != crate::show::Show::Bytes {
        return None;
    }
    let mut fields = fields(state);
    let at = state.cursor().at;
    (at < fields.len()).then(|| fields.swap_remove(at))
}

/// The frames that carried the selected field of a message, in byte order. Empty for a field of a
/// frame, and for a field without bytes.
pub(crate) fn frames_of_field(state: &State) -> Vec<u64> {
    let field = field_of_chosen(state).and_then(|field| field.range);
    let (Some(range), Some(exchange)) = (field, &state.exchange) else { return Vec::new() };
    let (transaction, carriers) = (&exchange.transaction, &exchange.carriers);
    let bytes = range.start as u64..range.end as u64;
    match state.bytes_of {
        BytesOf::Send { of_reply } => carriers.of_part(transaction, of_reply, Part::Send, bytes),
        BytesOf::Message { of_reply } => carriers.of_message(transaction, of_reply, bytes),
        BytesOf::Frame => Vec::new(),
    }
}

/// The frames that carried the shown Send, from the first to the last.
fn frames_of_part(state: &State) -> Option<RangeInclusive<u64>> {
    let BytesOf::Send { of_reply } = state.bytes_of else { return None };
    let transaction = &state.exchange.as_ref()?.transaction;
    let message = if of_reply { transaction.reply.as_ref() } else { transaction.call.as_ref() }?;
    Some(message.first.frame..=message.seen.frame)
}

/// Bytes of a row.
const ROW: usize = 16;

/// The bytes in rows, with those of the selected field highlighted.
fn rows(state: &State) -> Vec<Line<'static>> {
    let Some(shown) = shown(state) else { return Vec::new() };
    let lit = field_of_chosen(state).and_then(|field| field.range).unwrap_or(0..0);
    let light = Style::new().reversed();
    let row = |(index, bytes): (usize, &[u8])| {
        let mut spans = vec![Span::styled(format!("{:04x}  ", index * ROW), super::dim())];
        let mut text = Vec::new();
        for column in 0..ROW {
            let at = index * ROW + column;
            let style = if lit.contains(&at) { light } else { Style::new() };
            let gap = if column == ROW / 2 { " " } else { "" };
            match bytes.get(column) {
                Some(byte) => {
                    spans.push(Span::raw(gap));
                    spans.push(Span::styled(format!("{byte:02x}"), style));
                    // The space between two bytes of the field is highlighted too.
                    let between =
                        if lit.contains(&at) && lit.contains(&(at + 1)) { style } else { Style::new() };
                    spans.push(Span::styled(" ", between));
                    let shown = if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' };
                    text.push(Span::styled(shown.to_string(), style));
                }
                None => spans.push(Span::raw(format!("{gap}   "))),
            }
        }
        spans.push(Span::raw(" "));
        spans.extend(text);
        Line::from(spans)
    };
    shown.bytes.chunks(ROW).enumerate().map(row).collect()
}

fn name(state: &State, part: BytesOf) -> String {
    let which = |of_reply| if of_reply { "reply" } else { "call" };
    let number = state.exchange.as_ref().map_or(0, |exchange| exchange.transaction.number);
    match part {
        BytesOf::Frame => format!("Frame {}", state.frame.as_ref().map_or(0, |frame| frame.number)),
        BytesOf::Send { of_reply } => {
            let frames = match frames_of_part(state).map(RangeInclusive::into_inner) {
                Some((first, last)) if first == last => format!(", frame {first}"),
                Some((first, last)) => format!(", frames {first} to {last}"),
                None => String::new(),
            };
            format!("Transaction {number}: Send of the {}{frames}", which(of_reply))
        }
        BytesOf::Message { of_reply } => {
            format!("Transaction {number}: message of the {}, which a chunk conveyed", which(of_reply))
        }
    }
}
