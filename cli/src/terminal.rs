//! What standard output is: its colours, its width, its characters.

use rdmascope_present::screen::Screen;
use rdmascope_present::text::Style;
use std::io;

/// Columns of paragraphs where there is no terminal to ask.
const WIDTH: usize = 80;
/// What is drawn needs so many at least.
const LEAST: usize = 60;

/// Colours where clap's help has them too: where standard output is a terminal that knows them, unless `NO_COLOR`
/// (no-color.org), `CLICOLOR` or `CLICOLOR_FORCE` (bixense.com/clicolors) say otherwise. Lines end where the terminal does; what is no
/// terminal sets no limit to them, unless `COLUMNS` does (POSIX, section 8.3).
pub(crate) fn style() -> Style {
    let choice = anstream::AutoStream::choice(&io::stdout());
    Style::new(choice != anstream::ColorChoice::Never).with_width(width())
}

/// Columns of the terminal, or those that `COLUMNS` names.
fn width() -> Option<usize> {
    let of_terminal = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| usize::from(width.0));
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    of_terminal
        .filter(|width| *width > 0)
        .or_else(named)
        .filter(|width| *width > 0)
        .map(|width| width.max(LEAST))
}

/// Standard output, in this style.
pub(crate) fn screen(style: Style) -> Screen {
    Screen { width: style.width().unwrap_or(WIDTH), unicode: locale_is_utf8(), style }
}

/// The first of these that is set counts (POSIX, section 8.2).
fn locale_is_utf8() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}
