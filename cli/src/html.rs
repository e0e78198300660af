//! The head of every HTML document, without external resources and scripts.

use maud::{Markup, PreEscaped, html};

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The style sheet of all documents: palette, text, tables.
const BASE: &str = include_str!("html/base.css");

/// The head of a document with this title, and this style sheet after the common one. Style sheets
/// are not escaped, because they are part of the program.
pub(crate) fn head(title: &str, style: &'static str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(POLICY);
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="generator" content={ "rdmascope " (env!("CARGO_PKG_VERSION")) };
            meta name="referrer" content="no-referrer";
            title { (title) }
            style { (PreEscaped(BASE)) (PreEscaped(style)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::BASE;
    use std::collections::BTreeSet;

    #[test]
    fn style_sheets_do_not_redefine_colours() {
        let names = |sheet: &'static str| -> BTreeSet<&str> {
            let words = sheet.split([' ', '\n']);
            words.filter(|word| word.starts_with("--") && word.ends_with(':')).collect()
        };
        let base = names(BASE);
        assert!(base.contains("--paper:") && base.contains("--bad:"), "{base:?}");
        for sheet in [include_str!("export/html/style.css"), include_str!("peer/report/style.css")] {
            assert!(
                names(sheet).is_disjoint(&base),
                "{:?}",
                names(sheet).intersection(&base).collect::<Vec<_>>()
            );
        }
    }
}
