//! XML for CI systems.

use rdmascope_analysis::units::Plain;

/// Text in an attribute or an element. What a terminal would take for a command is no character of XML either, and is escaped; so are the
/// two characters that XML leaves out beside them (XML 1.0, section 2.2).
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in Plain(text).to_string().chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push(char::REPLACEMENT_CHARACTER),
            other => escaped.push(other),
        }
    }
    escaped
}
