//! The tokens of an expression.

use super::Mistake;

/// A token, with its byte offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Token {
    pub(super) at: usize,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A name, or a value without quotes.
    Word(String),
    /// A value in quotes.
    Quoted(String),
    /// An operator or other sign, such as `==` or `&&`.
    Sign(&'static str),
}

/// The signs. Longer signs precede their prefixes.
const SIGNS: [&str; 15] = ["&&", "||", "==", "!=", "!~", "<=", ">=", "<", ">", "~", "!", "(", ")", ",", "="];

/// The greatest length of an expression in bytes.
const LONGEST: usize = 4096;

/// Splits an expression into tokens.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>, Mistake> {
    let mistake =
        |at: usize, message: &str| Mistake { text: text.to_owned(), at, message: message.to_owned() };
    if text.len() > LONGEST {
        let message = format!("the expression is longer than {LONGEST} bytes");
        return Err(Mistake { text: String::new(), at: 0, message });
    }
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        if first.is_whitespace() {
            at += first.len_utf8();
        } else if let Some(sign) = SIGNS.into_iter().find(|sign| rest.starts_with(sign)) {
            found.push(Token { at, kind: Kind::Sign(sign) });
            at += sign.len();
        } else if matches!(first, '"' | '\'') {
            let (value, length) =
                quoted(rest, first).ok_or_else(|| mistake(at, "the quote is not closed"))?;
            found.push(Token { at, kind: Kind::Quoted(value) });
            at += length;
        } else if matches!(first, '&' | '|') {
            return Err(mistake(at, "use && or ||"));
        } else {
            let ends = |character: char| character.is_whitespace() || "!<>=~&|(),\"'".contains(character);
            let length = rest.find(ends).unwrap_or(rest.len());
            found.push(Token { at, kind: Kind::Word(rest[..length].to_owned()) });
            at += length;
        }
    }
    Ok(found)
}

/// Parses quoted text, in which `\` escapes the next character. Returns the text and the bytes
/// consumed.
fn quoted(text: &str, quote: char) -> Option<(String, usize)> {
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            character if character == quote => return Some((value, at + 1)),
            '\\' => value.push(characters.next()?.1),
            character => value.push(character),
        }
    }
    None
}
