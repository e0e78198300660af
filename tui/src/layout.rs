//! The areas of the screen.

use ratatui::layout::Rect;

/// The areas of a screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Areas {
    /// The title: the source, and the progress of the analysis.
    pub title: Rect,
    /// The names of the views.
    pub tabs: Rect,
    /// The list, or the text, of the view.
    pub main: Rect,
    /// Details of the selected entry, if there is room.
    pub detail: Option<Rect>,
    /// The moment that is shown.
    pub moment: Rect,
    /// Keys, a prompt, or a notice.
    pub hints: Rect,
    /// Lines above the list or text of the view: its title, and the headings of columns.
    pub headings: usize,
}

/// The division of the screen in a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A text without entries to choose.
    Text,
    /// A list with headings. A body of at least this height has the other pane below the list.
    List(u16),
    /// A tree. The other pane is to its right on a wide screen, and otherwise below it.
    Tree,
}

/// The least number of lines of a list with a pane below it.
const LEAST_LIST: u16 = 8;
/// The number of columns from which on two panes are side by side.
const WIDE: u16 = 100;

/// The areas of a view on a screen of this size. The list gets `split` hundredths of the body.
pub fn areas(size: (u16, u16), form: Form, split: u16) -> Areas {
    let (width, height) = size;
    let line = |y: u16| Rect::new(0, y.min(height), width, 1.min(height.saturating_sub(y)));
    let body = Rect::new(0, 2.min(height), width, height.saturating_sub(4));
    let (main, detail) = match form {
        Form::List(least) if body.height >= least => stacked(body, split),
        Form::Tree if width >= WIDE => side_by_side(body, split),
        Form::Tree => stacked(body, split),
        Form::List(_) | Form::Text => (body, None),
    };
    Areas {
        title: line(0),
        tabs: line(1),
        main,
        detail,
        moment: line(height.saturating_sub(2)),
        hints: line(height.saturating_sub(1)),
        headings: if matches!(form, Form::List(_)) { 2 } else { 1 },
    }
}

fn stacked(body: Rect, split: u16) -> (Rect, Option<Rect>) {
    let upper = (u32::from(body.height) * u32::from(split) / 100) as u16;
    let most = body.height.saturating_sub(4).max(1);
    let upper = upper.clamp(LEAST_LIST.min(most), most).min(body.height);
    let main = Rect { height: upper, ..body };
    let detail = Rect { y: body.y + upper, height: body.height - upper, ..body };
    (main, (detail.height > 0).then_some(detail))
}

fn side_by_side(body: Rect, split: u16) -> (Rect, Option<Rect>) {
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
    pub(crate) fn detail_lines(&self) -> usize {
        self.detail.map_or(0, |area| usize::from(area.height.saturating_sub(1)))
    }
}
