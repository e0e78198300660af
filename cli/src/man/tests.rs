use super::*;
use crate::args::{Arguments, WIDTH};
use clap::CommandFactory as _;
use clap::Parser as _;
use clap::builder::PossibleValue;
use std::slice;

/// The complete command line.
fn command_line() -> Command {
    tree(Arguments::command())
}

/// All commands without subcommands, each with its path: `rdmascope analyze`.
fn commands() -> Vec<Command> {
    let mut found = Vec::new();
    let mut groups = vec![command_line()];
    while let Some(group) = groups.pop() {
        for command in group.get_subcommands() {
            let kind = if command.has_subcommands() { &mut groups } else { &mut found };
            kind.push(command.clone());
        }
    }
    assert!(found.len() >= 6);
    found
}

fn path(command: &Command) -> &str {
    command.get_bin_name().expect("the tree is built")
}

/// The lines of `command`'s examples.
fn examples(command: &Command) -> Vec<String> {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let section = sections(&help).into_iter().find(|section| section.title == EXAMPLES_TITLE);
    let lines = section.map(|section| section.lines).unwrap_or_default();
    lines.iter().filter_map(|line| line.strip_prefix("  ")).map(ToOwned::to_owned).collect()
}

/// The words of the pipeline part that calls rdmascope, split as by a shell.
fn words(line: &str) -> Vec<String> {
    let mut parts = vec![vec![String::new()]];
    let mut quote = None;
    for character in line.chars() {
        let part = parts.last_mut().expect("there is always one");
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None, '|' | '>' | '&' | ';') => parts.push(vec![String::new()]),
            (None, ' ') => part.push(String::new()),
            _ => part.last_mut().expect("there is always one").push(character),
        }
    }
    parts.iter_mut().for_each(|part| part.retain(|word| !word.is_empty()));
    parts.into_iter().find(|part| part.first().is_some_and(|word| word == "rdmascope")).unwrap_or_default()
}

#[test]
fn every_command_has_valid_examples() {
    for command in commands() {
        let examples = examples(&command);
        let call = path(&command);
        assert!(
            examples.iter().any(|line| line.contains(&format!("{call} "))),
            "{call} has no example of its own: {examples:?}"
        );
        for line in examples.iter().filter(|line| line.contains("rdmascope")) {
            if let Err(error) = Arguments::try_parse_from(words(line)) {
                panic!("{line}: {error}");
            }
        }
    }
}

#[test]
fn top_level_help_has_valid_examples() {
    let lines = examples(&command_line());
    assert!(!lines.is_empty());
    for line in lines {
        Arguments::try_parse_from(words(&line)).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
}

/// Commands whose output is not lines: scripts, pages, raw bytes, files of other formats, a screen.
const OTHER_OUTPUT: [&str; 6] = [
    "rdmascope capture",
    "rdmascope completions",
    "rdmascope man",
    "rdmascope extract",
    "rdmascope export",
    "rdmascope tui",
];

#[test]
fn help_of_check_names_the_formats_of_tables() {
    let check = commands().into_iter().find(|command| command.get_name() == "check").unwrap();
    for name in ["fields", "condition", "sort", "reverse", "top"] {
        let option = check.get_arguments().find(|option| option.get_id() == name).unwrap();
        assert_eq!(option.get_help_heading(), Some("Table, with --format csv, tsv or jsonl"), "{name}");
    }
}

#[test]
fn outputs_are_no_filters() {
    for command in commands() {
        for option in command.get_arguments().filter(|option| option.get_help_heading() == Some("Filters")) {
            let is_other =
                matches!(option.get_id().as_str(), "format" | "save" | "mode" | "socket" | "output");
            assert!(!is_other, "{}: {}", path(&command), option.get_id());
        }
    }
}

#[test]
fn every_command_has_the_same_format_option() {
    for command in commands() {
        let path = path(&command);
        let Some(format) = command.get_arguments().find(|argument| argument.get_id() == "format") else {
            assert!(
                OTHER_OUTPUT.iter().any(|other| path.starts_with(other)),
                "{path} prints and takes no --format"
            );
            continue;
        };
        let values = format.get_possible_values();
        let values: Vec<&str> = values.iter().map(PossibleValue::get_name).collect();
        let (common, others) = values.split_at_checked(2).unwrap_or_default();
        assert_eq!(common, ["text", "jsonl"], "{path}");
        // Listings and the intervals of a report are tables too. Checks also have formats for CI
        // systems, and verdicts on several servers or clients have a page.
        let own: &[&str] = match path {
            "rdmascope check" => &["csv", "tsv", "sarif", "junit"],
            "rdmascope analyze"
            | "rdmascope connections"
            | "rdmascope transactions"
            | "rdmascope packets"
            | "rdmascope events"
            | "rdmascope state" => &["csv", "tsv"],
            "rdmascope peer inject" | "rdmascope peer serve" => &["junit", "html"],
            _ => &[],
        };
        assert_eq!(others, own, "{path}");
        assert_eq!(format.get_default_values(), ["text"], "{path}");
        assert_eq!((format.get_long(), format.get_short()), (Some("format"), None), "{path}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let root = command_line();
    let groups = root.get_subcommands().filter(|command| command.has_subcommands()).cloned();
    for command in commands().into_iter().chain(groups).chain([root.clone()]) {
        let page = String::from_utf8(render(&command, &root).unwrap()).unwrap();
        let name = page_name(&command);
        assert!(page.contains(&format!(".TH {name} 1 \"\" \"rdmascope ")), "{page}");
        for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "\"EXIT STATUS\"", "ENVIRONMENT"] {
            assert_eq!(page.matches(&format!(".SH {section}\n")).count(), 1, "{name}: {section}");
        }
        let options = command.get_arguments().filter(|argument| !argument.is_hide_set());
        for long in options.filter_map(clap::Arg::get_long) {
            let escaped = format!("--{long}").replace('-', "\\-");
            assert!(page.contains(&escaped), "{name}: --{long}");
        }
        assert!(!page.contains('`'), "{name} has a backtick without its partner");
    }
}

#[test]
fn page_is_found_by_command_words() {
    let root = command_line();
    for command in commands() {
        let words: Vec<String> = path(&command).split(' ').skip(1).map(ToOwned::to_owned).collect();
        let page = path(&command).replace(' ', "-");
        assert_eq!(page_name(page_of(&root, &words).unwrap()), page);
        assert_eq!(page_name(page_of(&root, slice::from_ref(&page)).unwrap()), page);
    }
    assert_eq!(page_name(page_of(&root, &["rdmascope".to_owned()]).unwrap()), "rdmascope");
    assert!(page_of(&root, &["dissect".to_owned()]).is_err());
}

#[test]
fn help_footer_becomes_sections() {
    let help = "Examples:\n  rdmascope a  b\n  x | y\nA\nremark.\n\nB.\n\nExit status:\n  0  Done,\n     well.\n  10  'Else'.";
    let mut roff = Roff::new();
    sections(help).iter().for_each(|section| section.render(&mut roff));
    let examples = ".SH EXAMPLES\n.EX\nrdmascope a  b\n.EE\n.PP\n.EX\nx | y\n.EE\n.PP\nA\nremark.\n.PP\nB.\n";
    let status = ".SH \"EXIT STATUS\"\n.TP\n\\fB0\\fR\nDone,\nwell.\n.TP\n\\fB10\\fR\n'Else'.\n";
    let written = tidy(&roff.to_roff());
    assert_eq!(written, [examples, &status.replace("\n'E", "\n\\&'E")].concat());
    let one_line = sections("Exit status: 0 or 2.");
    assert_eq!((one_line[0].title, one_line[0].lines.as_slice()), ("Exit status", &["0 or 2."][..]));
    assert_eq!(tidy("of `rdmascope`, and\n"), "of \\fBrdmascope\\fR, and\n");
}

/// Wider lines are wrapped, and a wrapped example cannot be copied.
#[test]
fn help_footer_lines_fit_the_width() {
    for command in commands().into_iter().chain([command_line()]) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in help.lines() {
            assert!(line.len() <= WIDTH, "{}: {} columns: {line}", path(&command), line.len());
        }
    }
    for line in COMMON.lines() {
        assert!(line.len() <= 80, "{} columns: {line}", line.len());
    }
}
