//! Drives the screen like the program, but without threads and a terminal: requests are answered at
//! once.

#![allow(dead_code)]

use core::ops::ControlFlow;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use rdmascope_analysis::policy::Allowances;
use rdmascope_capture_agent::{Archive, Files, Interrupt, Sink};
use rdmascope_conformance::Level;
use rdmascope_dissector::frame;
use rdmascope_dissector::record::{Record, Time};
use rdmascope_dissector::transport::Dissected;
use rdmascope_present::text::Style;
use rdmascope_tui::analysis::{Analysis, Answer, Request};
use rdmascope_tui::chart::Figures;
use rdmascope_tui::clock::Times;
use rdmascope_tui::inject::Plan;
use rdmascope_tui::session::Progress;
use rdmascope_tui::state::{Look, Palette, State};
use rdmascope_tui::store::Store;
use rdmascope_tui::update::{Effect, Message, update};
use rdmascope_tui::view;
use std::path::{Path, PathBuf};

pub(crate) struct Driver {
    pub(crate) state: State,
    analysis: Analysis,
    /// The texts copied to the clipboard.
    pub(crate) copied: Vec<String>,
    pub(crate) has_quit: bool,
    /// Scenarios that were started.
    pub(crate) started: Vec<usize>,
    /// The plan of each order.
    pub(crate) plans: Vec<Plan>,
    /// The numbers of stopped orders.
    pub(crate) stopped: Vec<u64>,
    /// Pages that were written.
    pub(crate) exported: Vec<PathBuf>,
    /// Files of notes that were written: the name, the text, and whether one may be replaced.
    pub(crate) notes: Vec<(PathBuf, String, bool)>,
    /// Captures that were opened.
    pub(crate) opened: Vec<usize>,
    /// Whether files can be written.
    pub(crate) saves: bool,
}

pub(crate) fn sample(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples").join(name)
}

impl Driver {
    /// Reads a sample to its end.
    pub(crate) fn new(name: &str, size: (u16, u16), look: Look) -> Driver {
        Driver::allowing(Allowances::default(), name, size, look)
    }

    /// The same, with allowed findings.
    pub(crate) fn allowing(allowances: Allowances, name: &str, size: (u16, u16), look: Look) -> Driver {
        let mut driver = Driver::empty(name, size, look);
        driver.analysis.allow(allowances);
        let path = sample(name);
        let paths = [path];
        let mut files = Files::open(&paths, None, &Interrupt::default()).expect("the sample exists");
        files.for_each(&frame::Config::default(), &mut (), &mut driver).expect("it can be read");
        let mut endings = files.endings();
        // A path that does not depend on the location of the sources.
        endings.iter_mut().for_each(|ending| ending.name = format!("samples/{name}"));
        let trouble = endings.iter().find_map(|ending| ending.trouble.as_ref().map(ToString::to_string));
        driver.analysis.finish(endings);
        let archive = Archive::open(&paths, None).expect("it can be read");
        driver.analysis.store(Store::Archive(Box::new(archive)));
        let batch = driver.analysis.batch(trouble.map_or(Progress::Ended, Progress::Failed), true);
        driver.send(Message::Batch(Box::new(batch)));
        driver
    }

    /// A driver that has read nothing yet.
    pub(crate) fn empty(name: &str, size: (u16, u16), look: Look) -> Driver {
        let analysis = Analysis::new(frame::Config::default(), Level::Warning, Style::new(look.colour));
        let name = format!("samples/{name}");
        let mut state = State::new(&*name, &*name, look, size);
        // Not the time zone of this machine.
        state.times = Times::Utc;
        Driver {
            state,
            analysis,
            copied: Vec::new(),
            has_quit: false,
            started: Vec::new(),
            plans: Vec::new(),
            stopped: Vec::new(),
            exported: Vec::new(),
            notes: Vec::new(),
            saves: false,
            opened: Vec::new(),
        }
    }

    pub(crate) fn store(&mut self, store: Store) {
        self.analysis.store(store);
    }

    pub(crate) fn record(&mut self, record: &Record<'_>) {
        let dissected = Dissected::new(record, &self.analysis.frame());
        self.analysis.record(record, &dissected);
    }

    /// Advances the time of a live capture.
    pub(crate) fn time(&mut self, now: Time) -> bool {
        self.analysis.time(now)
    }

    /// Sends the new results of a live capture.
    pub(crate) fn batch(&mut self) {
        let batch = self.analysis.batch(Progress::Live, true);
        self.send(Message::Batch(Box::new(batch)));
    }

    pub(crate) fn send(&mut self, message: Message) {
        let mut effects = update(&mut self.state, message);
        let mut rounds = 0;
        while !effects.is_empty() {
            rounds += 1;
            assert!(rounds < 1000, "an answer leads to the same request again: {:?}", self.state.pending);
            let mut further = Vec::new();
            for effect in effects {
                match effect {
                    Effect::Request(request) => {
                        let answer = match request {
                            Request::Save(..) if !self.saves => Answer::Failed(request, "read only".into()),
                            request => self.analysis.answer(request),
                        };
                        further.extend(update(&mut self.state, Message::Answer(answer)));
                    }
                    Effect::Copy(text) => self.copied.push(text),
                    Effect::Chart(wanted, rows) => {
                        let figures = Box::new(Figures::new(wanted, &rows));
                        further.extend(update(&mut self.state, Message::Charted(figures)));
                    }
                    Effect::Inject(order) => {
                        self.started.push(order.index);
                        self.plans.push(order.plan);
                    }
                    Effect::Stop(number) => self.stopped.push(number),
                    Effect::Export(path) => self.exported.push(path),
                    Effect::Notes(path, text, may_replace) => self.notes.push((path, text, may_replace)),
                    Effect::Open(index) => self.opened.push(index),
                    Effect::Suspend => {}
                    Effect::Quit => self.has_quit = true,
                }
            }
            effects = further;
        }
    }

    /// Presses keys named as in the table of keys, separated by spaces; text in quotation marks is
    /// typed.
    pub(crate) fn press(&mut self, keys: &str) -> &mut Driver {
        for (index, part) in keys.split('"').enumerate() {
            if index % 2 == 1 {
                part.chars().for_each(|character| self.key(KeyCode::Char(character), KeyModifiers::NONE));
            } else {
                part.split_whitespace().for_each(|name| self.named(name));
            }
        }
        self
    }

    fn named(&mut self, name: &str) {
        let (name, modifiers) = match name.strip_prefix("Ctrl-") {
            Some(name) => (name, KeyModifiers::CONTROL),
            None => (name, KeyModifiers::NONE),
        };
        let code = match name {
            "Enter" => KeyCode::Enter,
            "Esc" => KeyCode::Esc,
            "Tab" => KeyCode::Tab,
            "Shift-Tab" => KeyCode::BackTab,
            "Space" => KeyCode::Char(' '),
            "Down" => KeyCode::Down,
            "Up" => KeyCode::Up,
            "Left" => KeyCode::Left,
            "Right" => KeyCode::Right,
            "PageDown" => KeyCode::PageDown,
            "PageUp" => KeyCode::PageUp,
            "Home" => KeyCode::Home,
            "End" => KeyCode::End,
            "Backspace" => KeyCode::Backspace,
            "F1" => KeyCode::F(1),
            name => KeyCode::Char(name.chars().next().expect("a key has a name")),
        };
        self.key(code, modifiers);
    }

    pub(crate) fn key(&mut self, code: KeyCode, modifiers: KeyModifiers) {
        self.send(Message::Key(KeyEvent::new(code, modifiers)));
    }

    /// The content of the screen.
    pub(crate) fn buffer(&self) -> Buffer {
        let (width, height) = self.state.size;
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a test terminal");
        terminal.draw(|frame| view::render(&self.state, frame)).expect("drawing succeeds");
        terminal.backend().buffer().clone()
    }

    /// The same as text.
    pub(crate) fn text(&self) -> String {
        let buffer = self.buffer();
        let width = usize::from(buffer.area.width);
        let mut text = String::new();
        for line in buffer.content.chunks(width) {
            let line: String = line.iter().map(|cell| cell.symbol()).collect();
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

impl Sink for Driver {
    fn record(&mut self, record: &Record<'_>, dissected: &Dissected<'_>) -> ControlFlow<()> {
        self.analysis.record(record, dissected);
        ControlFlow::Continue(())
    }

    fn idle(&mut self, _: Option<Time>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

pub(crate) const UNICODE: Look = Look { unicode: true, colour: true, palette: Palette::Any };
pub(crate) const ASCII: Look = Look { unicode: false, colour: false, palette: Palette::Few };

/// The screen as a picture.
pub(crate) fn svg(buffer: &Buffer) -> String {
    use ratatui::style::{Color, Modifier};
    use std::fmt::Write as _;
    const COLUMN: f32 = 8.4;
    const LINE: u16 = 18;
    let (width, height) = (buffer.area.width, buffer.area.height);
    let (right, bottom) = (f32::from(width) * COLUMN + 16.0, height * LINE + 16);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {right:.0} {bottom}\" font-family=\"monospace\" font-size=\"14\">\n\
         <rect width=\"100%\" height=\"100%\" rx=\"6\" fill=\"#000\"/>\n"
    );
    for y in 0..height {
        let mut x = 0;
        while x < width {
            let first = &buffer[(x, y)];
            let look = |x: u16| (buffer[(x, y)].fg, buffer[(x, y)].modifier);
            let mut text = String::new();
            let start = x;
            while x < width && look(x) == look(start) {
                text.push_str(buffer[(x, y)].symbol());
                x += 1;
            }
            let reversed = first.modifier.contains(Modifier::REVERSED);
            if text.trim().is_empty() && !reversed {
                continue;
            }
            let colour = match first.fg {
                Color::Rgb(red, green, blue) => format!("#{red:02x}{green:02x}{blue:02x}"),
                _ => "#e6e6e6".to_owned(),
            };
            let left = 8.0 + f32::from(start) * COLUMN;
            let length = f32::from(x - start) * COLUMN;
            let top = 8 + y * LINE;
            let fill = if reversed { "#000" } else { &*colour };
            if reversed {
                writeln!(svg, "<rect x=\"{left:.1}\" y=\"{top}\" width=\"{length:.1}\" height=\"{LINE}\" fill=\"{colour}\"/>").unwrap();
            }
            let weight = if first.modifier.contains(Modifier::BOLD) { " font-weight=\"bold\"" } else { "" };
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
            writeln!(
                svg,
                "<text x=\"{left:.1}\" y=\"{}\" textLength=\"{length:.1}\" lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\" fill=\"{fill}\"{weight}>{text}</text>",
                top + 14
            )
            .unwrap();
        }
    }
    svg + "</svg>\n"
}
