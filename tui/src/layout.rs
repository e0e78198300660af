//! Where what stands on the screen.

use crate::show::Show;
use ratatui::layout::Rect;

/// The places of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Areas {
    /// What is analyzed, and how far.
    pub title: Rect,
    /// The names of the views.
    pub tabs: Rect,
    /// The list, or the text, of the view.
    pub main: Rect,
    /// What belongs to what is chosen there, where there is room for it.
    pub detail: Option<Rect>,
    /// The moment that is shown.
    pub moment: Rect,
    /// Keys, a prompt, or what is to be said.
    pub hints: Rect,
    /// Lines in front of the list or text of the view: its title, and the headings of columns.
    pub headings: usize,
}

/// Lines that a list has at least where something stands below it.
const LEAST_LIST: u16 = 8;
/// Columns from which on two panes stand beside each other.
const WIDE: u16 = 100;

/// The places on a screen of this size, for a view. `split` is how many hundredths of the body the list has.
pub fn areas(size: (u16, u16), show: Show, split: u16) -> Areas {
    let (width, height) = size;
    let line = |y: u16| Rect::new(0, y.min(height), width, 1.min(height.saturating_sub(y)));
    let body = Rect::new(0, 2.min(height), width, height.saturating_sub(4));
    let (main, detail) = match show {
        Show::Connections | Show::Events | Show::Findings | Show::Inject if body.height >= 14 => {
            below(body, split)
        }
        Show::Transactions if body.height >= 30 => below(body, split),
        Show::Bytes if width >= WIDE => beside(body, split),
        Show::Bytes => below(body, split),
        _ => (body, None),
    };
    Areas {
        title: line(0),
        tabs: line(1),
        main,
        detail,
        moment: line(height.saturating_sub(2)),
        hints: line(height.saturating_sub(1)),
        headings: match show {
            Show::Connections | Show::Transactions | Show::Events | Show::Findings | Show::Inject => 2,
            Show::Report | Show::Exchange | Show::Bytes | Show::Charts => 1,
        },
    }
}

fn below(body: Rect, split: u16) -> (Rect, Option<Rect>) {
    let upper = (u32::from(body.height) * u32::from(split) / 100) as u16;
    let most = body.height.saturating_sub(4).max(1);
    let upper = upper.clamp(LEAST_LIST.min(most), most).min(body.height);
    let main = Rect { height: upper, ..body };
    let detail = Rect { y: body.y + upper, height: body.height - upper, ..body };
    (main, (detail.height > 0).then_some(detail))
}

fn beside(body: Rect, split: u16) -> (Rect, Option<Rect>) {
    let left = (u32::from(body.width) * u32::from(split) / 100) as u16;
    let left = left.clamp(20, body.width - 20);
    let main = Rect { width: left, ..body };
    (main, Some(Rect { x: body.x + left, width: body.width - left, ..body }))
}

impl Areas {
    /// Lines of the list or text of the view, below its title and headings.
    pub fn lines(&self) -> usize {
        usize::from(self.main.height).saturating_sub(self.headings)
    }

    /// Lines of the other pane.
    pub fn detail_lines(&self) -> usize {
        self.detail.map_or(0, |area| usize::from(area.height.saturating_sub(1)))
    }
}
