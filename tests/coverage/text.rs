//! The sentences of a specification that have a requirement keyword.

/// A sentence with a requirement keyword.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Requirement {
    pub(crate) section: String,
    /// Its number among the sentences of the section that have a keyword, from 1.
    pub(crate) ordinal: usize,
    pub(crate) keywords: Vec<&'static str>,
}

/// The sentences with keywords, in the order of the text. Left out are the front matter, the
/// appendices, program text, and the sentence that defines the keywords.
pub(crate) fn requirements(text: &str) -> Vec<Requirement> {
    let mut found: Vec<Requirement> = Vec::new();
    for (section, paragraph) in paragraphs(text) {
        for sentence in sentences(&paragraph) {
            let keywords = keywords(&sentence);
            if keywords.is_empty() || sentence.join(" ").contains("key words") {
                continue;
            }
            let before = found.last().filter(|last| last.section == section);
            let ordinal = before.map_or(1, |last| last.ordinal + 1);
            found.push(Requirement { section: section.clone(), ordinal, keywords });
        }
    }
    found
}

/// The paragraphs of the numbered sections, each with the number of its section. An item of a list
/// is a paragraph.
fn paragraphs(text: &str) -> Vec<(String, String)> {
    let mut paragraphs = Vec::new();
    let mut section: Option<String> = None;
    let mut words = String::new();
    let mut end = |section: &Option<String>, words: &mut String| {
        let paragraph = core::mem::take(words);
        if let Some(section) = section.as_ref().filter(|_| !paragraph.is_empty()) {
            paragraphs.push((section.clone(), paragraph));
        }
    };
    for line in lines(text) {
        let is_indented = line.starts_with(' ');
        let line = line.trim();
        if line.is_empty() || is_item(line) || !is_indented || line.starts_with("///") {
            end(&section, &mut words);
        }
        if line.starts_with("///") {
            continue;
        }
        if is_indented {
            words.push_str(if words.is_empty() { "" } else { " " });
            words.push_str(line);
        } else if !line.is_empty() {
            // A heading without a number begins an appendix or the front matter.
            section = number(line);
        }
    }
    end(&section, &mut words);
    paragraphs
}

/// The number of the section of a heading.
fn number(heading: &str) -> Option<String> {
    let number = heading.split(' ').next()?.strip_suffix('.')?;
    let is_number = number.split('.').all(|part| part.parse::<u8>().is_ok());
    is_number.then(|| number.to_owned())
}

/// Whether a line begins an item of a list.
fn is_item(line: &str) -> bool {
    ["o ", "* ", "- "].iter().any(|mark| line.starts_with(mark))
}

/// The lines without those at the ends of pages. A sentence continues across the end of a page.
fn lines(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = Vec::new();
    let mut rest = text.lines().map(|line| line.trim_start_matches('\u{c}').trim_end()).peekable();
    while let Some(line) = rest.next() {
        if !is_footer(line) {
            lines.push(line);
            continue;
        }
        while lines.pop_if(|last| last.is_empty()).is_some() {}
        while rest.next_if(|line| line.is_empty()).is_some() {}
        // The header of the next page.
        rest.next_if(|line| !line.starts_with(' '));
        while rest.next_if(|line| line.is_empty()).is_some() {}
        let ends = lines.last().is_none_or(|last| last.ends_with(['.', ':', ';']));
        let begins = rest.peek().is_some_and(|line| is_item(line.trim()));
        if ends || begins {
            lines.push("");
        }
    }
    lines
}

/// Whether a line is the last of a page.
fn is_footer(line: &str) -> bool {
    !line.starts_with(' ') && line.contains("[Page ") && line.ends_with(']')
}

/// The sentences of a paragraph, as words.
fn sentences(paragraph: &str) -> Vec<Vec<&str>> {
    let words: Vec<&str> = paragraph.split_whitespace().collect();
    let mut sentences = vec![Vec::new()];
    for (at, word) in words.iter().enumerate() {
        sentences.last_mut().expect("there is one").push(*word);
        if ends(word) && words.get(at + 1).is_some_and(|next| begins(next)) {
            sentences.push(Vec::new());
        }
    }
    sentences
}

/// Whether a sentence can end with a word.
fn ends(word: &str) -> bool {
    let word = word.trim_end_matches(['"', '\'', ')', ']']);
    word.ends_with(['.', '?', '!']) && !["e.g.", "i.e."].contains(&word.trim_start_matches('('))
}

/// Whether a sentence can begin with a word.
fn begins(word: &str) -> bool {
    word.starts_with(|first: char| first.is_uppercase() || ['"', '(', '['].contains(&first))
}

/// The keywords of a sentence, in their order (RFC 2119, RFC 8174).
fn keywords(sentence: &[&str]) -> Vec<&'static str> {
    let bare = |at: usize| -> &str {
        sentence.get(at).map_or("", |word| word.trim_matches(|letter: char| !letter.is_alphabetic()))
    };
    let keyword = |at: usize| match (bare(at), bare(at + 1)) {
        ("MUST", "NOT") => Some("MUST NOT"),
        ("MUST", _) => Some("MUST"),
        ("REQUIRED", _) => Some("REQUIRED"),
        ("SHALL", "NOT") => Some("SHALL NOT"),
        ("SHALL", _) => Some("SHALL"),
        ("SHOULD", "NOT") => Some("SHOULD NOT"),
        ("SHOULD", _) => Some("SHOULD"),
        ("NOT", "RECOMMENDED") => Some("NOT RECOMMENDED"),
        ("RECOMMENDED", _) if at == 0 || bare(at - 1) != "NOT" => Some("RECOMMENDED"),
        ("MAY", _) => Some("MAY"),
        ("OPTIONAL", _) => Some("OPTIONAL"),
        _ => None,
    };
    (0..sentence.len()).filter_map(keyword).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Front matter, the definition of the keywords, a list, program text, an appendix.
    const TEXT: &str = "\
A Protocol for Tests

   This front matter MUST be left out.

1.  Beginning

   The key words \"MUST\" and \"SHOULD NOT\" are those of RFC 2119.

   A sender MUST count (e.g., In words). A receiver
   MUST
   NOT count, and MAY sleep. It is NOT RECOMMENDED to dream. All must end.

1.1.  Lists

   An end does one of these:

      o it SHOULD wait;

      o it SHALL NOT wait. It is OPTIONAL
      to look, and RECOMMENDED to listen.

   /// a program SHALL
   Nothing is REQUIRED.

Appendix A.  History

   This MUST be left out.
";

    fn found(text: &str) -> Vec<(String, usize, String)> {
        requirements(text).into_iter().map(|it| (it.section, it.ordinal, it.keywords.join(", "))).collect()
    }

    fn expected() -> Vec<(String, usize, String)> {
        [
            ("1", 1, "MUST"),
            ("1", 2, "MUST NOT, MAY"),
            ("1", 3, "NOT RECOMMENDED"),
            ("1.1", 1, "SHOULD"),
            ("1.1", 2, "SHALL NOT"),
            ("1.1", 3, "OPTIONAL, RECOMMENDED"),
            ("1.1", 4, "REQUIRED"),
        ]
        .map(|(section, ordinal, keywords)| (section.to_owned(), ordinal, keywords.to_owned()))
        .to_vec()
    }

    #[test]
    fn sentences_are_counted_within_their_section() {
        assert_eq!(found(TEXT), expected());
    }

    /// The text with a page break in front of each line in turn.
    #[test]
    fn page_breaks_split_no_sentence() {
        let footer = "\n\nNobody                   Standards Track                  [Page 7]\n\u{c}\n";
        let header = "RFC 0                     Tests                     January 2000\n\n\n";
        let lines: Vec<&str> = TEXT.lines().collect();
        for at in 1..lines.len() {
            let text = format!("{}{footer}{header}{}\n", lines[..at].join("\n"), lines[at..].join("\n"));
            assert_eq!(found(&text), expected(), "a page ends after line {at}");
        }
    }
}
