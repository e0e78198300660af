//! Properties of standard output: colours, width, characters.

use anyhow::{Result, ensure};
use rdmascope_present::screen::Screen;
use rdmascope_present::text::Style;
use std::io::{self, IsTerminal as _};

/// Width of paragraphs without a terminal.
const WIDTH: usize = 80;
/// Minimum width of drawings.
const LEAST: usize = 60;

/// The style of standard output. It has colours under the same conditions as clap's help: standard
/// output is a terminal that supports them, unless `NO_COLOR` (no-color.org), `CLICOLOR` or
/// `CLICOLOR_FORCE` (bixense.com/clicolors) override that. Lines are as wide as the terminal;
/// without a terminal they have no limit, unless `COLUMNS` sets one (POSIX, section 8.3).
pub(crate) fn style() -> Style {
    let choice = anstream::AutoStream::choice(&io::stdout());
    Style::new(choice != anstream::ColorChoice::Never).with_width(width())
}

/// The width of the terminal, or the value of `COLUMNS`.
fn width() -> Option<usize> {
    let of_terminal = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    of_terminal
        .filter(|width| *width > 0)
        .or_else(named)
        .filter(|width| *width > 0)
        .map(|width| width.max(LEAST))
}

/// Fails if standard output is a terminal, on which pcapng is unreadable. `option` names a file.
pub(crate) fn refuse_pcapng(option: &str) -> Result<()> {
    ensure!(!io::stdout().is_terminal(), "pcapng is not written to a terminal; use {option} FILE or a pipe");
    Ok(())
}

/// Standard output in this style.
pub(crate) fn screen(style: Style) -> Screen {
    Screen { width: style.width().unwrap_or(WIDTH), unicode: locale_is_utf8(), style }
}

/// The first variable that is set counts (POSIX, section 8.2).
fn locale_is_utf8() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Whether the terminal shows any mixture of colours, according to `COLORTERM`.
pub(crate) fn has_any_colour() -> bool {
    std::env::var("COLORTERM").is_ok_and(|value| matches!(value.as_str(), "truecolor" | "24bit"))
}
