//! `rdmascope man`: manual pages, generated from the help texts.

use crate::atomic_file::OutputFile;
use crate::output::{Failure, Out, Status};
use anyhow::Context as _;
use clap::{Args, Command};
use clap_mangen::roff::{Roff, bold, roman};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

pub(crate) const EXAMPLES: &str = "\
Examples:
  rdmascope man transactions | man -l -
  rdmascope man --into ~/.local/share/man/man1";

/// Sections common to all commands, at the end of `rdmascope --help` and of every page.
pub(crate) const COMMON: &str = "\
Exit status:
  0  Success. A truncated capture is read up to the cut, and the output reports
     the position.
  1  Difference (diff, regress, replay), violation (check, inject), time
     without service (check), unmet policy, failed peer call.
  2  Failure: wrong usage, no capture, or a damaged capture. One line on
     standard error has the reason.

Environment:
  NO_COLOR          If set and not empty, output has no colour.
  CLICOLOR_FORCE=1  Output has colour even if standard output is not a terminal.
  CLICOLOR=0        Output has no colour.
  TERM=dumb         Output has no colour.
  COLUMNS           Columns of text output, if standard output is not a
                    terminal; default: no limit.
  RDMASCOPE_PAGER, PAGER
                    Pager for output to a terminal; `cat` or empty for none;
                    default: less (--no-pager).
  TMPDIR            Folder for the temporary copy of standard input, for
                    commands that read it twice; default /tmp.

Signals:
  SIGINT   Ends an input pipe, and shows the results so far; peer closes its
           connections. Otherwise, and the second time, the command ends.
  SIGTERM, SIGHUP
           The command ends; capture and live finish their files first, and
           peer closes its connections. Unfinished files are removed.";

#[derive(Args, Debug)]
pub(crate) struct Man {
    /// Command whose page is written to standard output [default: rdmascope(1)]
    #[arg(value_name = "COMMAND", conflicts_with = "into")]
    command: Vec<String>,
    /// Write all pages to files in this folder; it is created if it does not exist
    #[arg(long, value_name = "DIR")]
    into: Option<PathBuf>,
}

/// Writes one page of `command_line`, or all of them into a folder.
pub(crate) fn run(command: &Man, command_line: Command, out: &mut Out) -> Result<Status, Failure> {
    let root = tree(command_line);
    match &command.into {
        Some(folder) => write_all(&root, folder)?,
        None => out.write_all(&render(page_of(&root, &command.command)?, &root)?)?,
    }
    Ok(Status::Done)
}

/// The page of a command, given as its words (`peer call`) or as the name of the page
/// (`rdmascope-peer-call`).
fn page_of<'a>(root: &'a Command, words: &[String]) -> anyhow::Result<&'a Command> {
    let name = words.join("-");
    let is_named = |page: &str| page == name || page == format!("{}-{name}", page_name(root));
    let found = pages(root).into_iter().find(|page| name.is_empty() || is_named(page_name(page)));
    found.with_context(|| format!("unknown command {:?}; rdmascope --help lists all", words.join(" ")))
}

/// All pages, that of `root` first.
fn pages(root: &Command) -> Vec<&Command> {
    let mut pages = vec![root];
    let mut at = 0;
    while let Some(page) = pages.get(at) {
        pages.extend(page.get_subcommands());
        at += 1;
    }
    pages
}

/// Builds the command tree, with the names of pages such as `rdmascope-analyze`.
fn tree(command_line: Command) -> Command {
    let mut root = command_line.disable_help_subcommand(true);
    root.build();
    root
}

fn write_all(root: &Command, folder: &Path) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("{}: cannot create the folder", folder.display()))?;
    for command in pages(root) {
        let path = folder.join(format!("{}.1", page_name(command)));
        let mut file = OutputFile::create(&path, &[], "--into")?;
        file.write_all(&render(command, root)?)
            .and_then(|()| file.finish())
            .with_context(|| format!("{}: cannot be written", path.display()))?;
    }
    Ok(())
}

fn page_name(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn render(command: &Command, root: &Command) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let mut start = Roff::new();
    let source = format!("rdmascope {}", root.get_version().unwrap_or_default());
    // The third argument is the date, which the sources do not contain.
    start.control("TH", [page_name(command), "1", "\"\"", &source, "NFS over RDMA"]);
    start.to_writer(&mut text)?;

    let page = clap_mangen::Man::new(command.clone());
    page.render_name_section(&mut text)?;
    synopsis(command).to_writer(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }

    let mut end = Roff::new();
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let own = sections(&help);
    own.iter().for_each(|section| section.render(&mut end));
    for section in sections(COMMON).iter().filter(|one| own.iter().all(|own| own.title != one.title)) {
        section.render(&mut end);
    }
    see_also(&mut end, command, root);
    end.to_writer(&mut text)?;
    Ok(tidy(&String::from_utf8_lossy(&text)).into_bytes())
}

/// The usage of clap, which unlike that of clap_mangen does not list every option.
fn synopsis(command: &Command) -> Roff {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage);
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name());
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    match usage.strip_prefix(name) {
        Some(rest) => roff.text([bold(name), roman(rest)]),
        None => roff.text([roman(usage)]),
    };
    roff
}

/// Removes the preamble that [`Roff`] repeats before each part, and breaks next to empty lines,
/// which are breaks themselves. Text in backticks becomes bold.
fn tidy(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    let preamble = |line: &str| line.contains(".ds Aq");
    for (index, line) in page.lines().enumerate() {
        if line == ".br" || (index > 1 && preamble(line)) {
            continue;
        }
        let mut parts = line.split('`');
        out.push_str(parts.next().unwrap_or_default());
        for (index, part) in parts.enumerate() {
            out.push_str(if index % 2 == 0 { "\\fB" } else { "\\fR" });
            out.push_str(part);
        }
        out.push('\n');
    }
    out
}

/// The section whose lines are command lines, not entries.
const EXAMPLES_TITLE: &str = "Examples";

/// A section at the end of a command's help.
struct Section<'a> {
    title: &'a str,
    lines: Vec<&'a str>,
}

/// The sections of `help`: each starts with a line that is not indented and ends in a colon. The
/// exit status of a command may be in the same line.
fn sections(help: &str) -> Vec<Section<'_>> {
    const STATUS: &str = "Exit status";
    let mut found: Vec<Section<'_>> = Vec::new();
    for line in help.lines() {
        let rest = line.strip_prefix(STATUS).and_then(|rest| rest.strip_prefix(": "));
        match (line.strip_suffix(':'), rest, found.last_mut()) {
            (Some(title), ..) if !title.starts_with(' ') => found.push(Section { title, lines: Vec::new() }),
            (_, Some(rest), _) => found.push(Section { title: STATUS, lines: vec![rest] }),
            (.., Some(section)) => section.lines.push(line),
            (.., None) => {}
        }
    }
    found
}

impl Section<'_> {
    fn render(&self, roff: &mut Roff) {
        roff.control("SH", [self.title.to_uppercase().as_str()]);
        let mut previous = "";
        for (index, line) in self.lines.iter().copied().enumerate() {
            // A paragraph ends where the indentation changes or at an empty line.
            let continues = !previous.is_empty() && !previous.starts_with(' ') && !line.starts_with(' ');
            let paragraph = index > 0 && !continues;
            previous = line;
            let Some(indented) = line.strip_prefix("  ") else {
                if !line.is_empty() {
                    start(roff, paragraph);
                    roff.text([roman(line)]);
                }
                continue;
            };
            if self.title == EXAMPLES_TITLE {
                start(roff, paragraph);
                roff.control("EX", []);
                roff.text([roman(indented)]);
                roff.control("EE", []);
            } else if indented.starts_with(' ') {
                roff.text([roman(indented.trim_start())]);
            } else {
                // The meaning of an entry follows its name and continues on the next lines.
                let (name, meaning) = indented.split_once("  ").unwrap_or((indented, ""));
                roff.control("TP", []);
                roff.text([bold(name)]);
                roff.text([roman(meaning.trim_start())]);
            }
        }
    }
}

/// Starts a paragraph, unless it is the first of the section.
fn start(roff: &mut Roff, paragraph: bool) {
    if paragraph {
        roff.control("PP", []);
    }
}

/// Related pages and tools.
fn see_also(roff: &mut Roff, command: &Command, root: &Command) {
    roff.control("SH", ["SEE ALSO"]);
    let mut pages: Vec<&str> = command.get_subcommands().map(page_name).collect();
    pages.sort_unstable();
    if command.get_name() != root.get_name() {
        pages.insert(0, page_name(root));
    }
    let ours = pages.into_iter().map(|name| (name, 1));
    let mut line = Vec::new();
    for (name, section) in ours.chain(RELATED) {
        if !line.is_empty() {
            line.push(roman(", "));
        }
        line.extend([bold(name), roman(format!("({section})"))]);
    }
    roff.text(line);
    roff.control("PP", []);
    roff.text([
        roman("docs/json.md, the fields of "),
        bold("--format jsonl"),
        roman(", and docs/tour.md, in packages below /usr/share/doc/rdmascope"),
    ]);
}

/// Tools that capture, read captures, or show the counters of the hosts.
const RELATED: [(&str, u8); 5] =
    [("mountstats", 8), ("nfs", 5), ("nfsstat", 8), ("tcpdump", 8), ("tshark", 1)];

#[cfg(test)]
mod tests;
