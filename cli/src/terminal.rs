//! What standard output is: its colours, its width, its characters.

use rdmascope_present::screen::Screen;
use rdmascope_present::text::Style;
use std::io;

/// Columns where there is no terminal to ask.
const WIDTH: usize = 80;
/// What is drawn needs so many at least.
const LEAST: usize = 60;

/// Colours where clap's help has them too: where standard output is a terminal that knows them, unless `NO_COLOR`
/// (no-color.org), `CLICOLOR` or `CLICOLOR_FORCE` (bixense.com/clicolors) say otherwise.
pub(crate) fn style() -> Style {
    let choice = anstream::AutoStream::choice(&io::stdout());
    Style::new(choice != anstream::ColorChoice::Never)
}

/// Standard output, in this style.
pub(crate) fn screen(style: Style) -> Screen {
    let size = terminal_size::terminal_size_of(io::stdout());
    let width = size.map_or(WIDTH, |(width, _)| usize::from(width.0));
    Screen { width: width.max(LEAST), unicode: locale_is_utf8(), style }
}

/// The first of these that is set counts (POSIX, section 8.2).
fn locale_is_utf8() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}
