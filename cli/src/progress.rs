//! Progress of long reading: a line on standard error that is removed at the end.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

/// Minimum size of a capture whose progress is shown, in bytes.
const LONG: u64 = 256_000_000;
/// Delay until progress is shown for input of unknown size.
const PATIENCE: Duration = Duration::from_secs(2);

/// The progress line, or nothing. The line is removed on drop.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    /// The draw target, and the time from which it is used.
    later: Option<(Instant, ProgressDrawTarget)>,
    /// Whether it is part of another one.
    is_part: bool,
}

impl Progress {
    /// Creates the line for reading `size` bytes, if known. `listing` is whether output lines
    /// appear during reading.
    pub(crate) fn on_terminal(size: Option<u64>, listing: bool, quiet: bool) -> Progress {
        // The line would break up a listing on the same terminal, and the listing shows progress
        // itself.
        let torn = listing && std::io::stdout().is_terminal();
        if quiet || torn || !std::io::stderr().is_terminal() {
            return Progress { bar: None, later: None, is_part: false };
        }
        Progress::on(ProgressDrawTarget::stderr(), size)
    }

    /// Creates the line for exporting captures of `size` bytes in total. Parts made by
    /// [`Progress::share`] add to it.
    #[cfg(feature = "parquet")]
    pub(crate) fn of_captures(size: u64, quiet: bool) -> Progress {
        Progress::on_terminal(Some(size), false, quiet)
    }

    /// A part that adds to the same line.
    pub(crate) fn share(&self) -> Progress {
        // The parent owns the line and clears it.
        Progress { bar: self.bar.clone(), later: None, is_part: true }
    }

    /// Runs `write`, which writes to the same terminal, with the line hidden.
    #[cfg(feature = "parquet")]
    pub(crate) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    fn on(target: ProgressDrawTarget, size: Option<u64>) -> Progress {
        let bar = ProgressBar::with_draw_target(size, ProgressDrawTarget::hidden());
        let mut progress = Progress { bar: None, later: None, is_part: false };
        match size {
            Some(..LONG) => return progress,
            Some(_) => {
                bar.set_style(style("{wide_bar} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} to go "));
                bar.set_draw_target(target);
                bar.tick();
            }
            None => {
                bar.set_style(style("{bytes} read, {bytes_per_sec}"));
                progress.later = Some((Instant::now() + PATIENCE, target));
            }
        }
        progress.bar = Some(bar);
        progress
    }
}

impl rdmascope_capture_agent::Progress for Progress {
    fn advanced(&mut self, bytes: u64) {
        let Some(bar) = &self.bar else { return };
        if let Some((_, target)) = self.later.take_if(|(from, _)| Instant::now() >= *from) {
            bar.set_draw_target(target);
        }
        bar.inc(bytes);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.as_ref().filter(|_| !self.is_part) {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is right: tests draw it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::TermLike;
    use rdmascope_capture_agent::Progress as _;
    use std::io;
    use std::sync::{Arc, Mutex};

    /// A terminal that keeps its output.
    #[derive(Clone, Debug, Default)]
    struct Terminal(Arc<Mutex<String>>);

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            100
        }
        fn move_cursor_up(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_down(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_right(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn move_cursor_left(&self, _: usize) -> io::Result<()> {
            Ok(())
        }
        fn write_line(&self, text: &str) -> io::Result<()> {
            self.write_str(text)
        }
        fn write_str(&self, text: &str) -> io::Result<()> {
            self.0.lock().unwrap().push_str(text);
            Ok(())
        }
        fn clear_line(&self) -> io::Result<()> {
            self.0.lock().unwrap().clear();
            Ok(())
        }
        fn flush(&self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Terminal {
        fn progress(&self, size: Option<u64>) -> Progress {
            // Draw every change.
            Progress::on(ProgressDrawTarget::term_like_with_hz(Box::new(self.clone()), 255), size)
        }

        fn shown(&self) -> String {
            self.0.lock().unwrap().clone()
        }
    }

    #[test]
    fn long_file_shows_progress_from_the_start() {
        let terminal = Terminal::default();
        let mut progress = terminal.progress(Some(1 << 30));
        assert!(terminal.shown().contains("0 B of 1.00 GiB"), "{}", terminal.shown());
        progress.advanced(256 << 20);
        progress.advanced(256 << 20);
        progress.bar.as_ref().unwrap().force_draw();
        assert!(terminal.shown().contains("512.00 MiB of 1.00 GiB"), "{}", terminal.shown());
        drop(progress);
        assert_eq!(terminal.shown().trim(), "");
    }

    #[test]
    fn short_file_shows_no_progress() {
        let terminal = Terminal::default();
        let mut progress = terminal.progress(Some(LONG - 1));
        progress.advanced(LONG - 1);
        assert_eq!(terminal.shown(), "");
    }

    #[test]
    fn input_of_unknown_length_shows_progress_later() {
        let terminal = Terminal::default();
        let mut progress = terminal.progress(None);
        progress.advanced(3 << 20);
        assert_eq!(terminal.shown(), "");
        let (from, _) = progress.later.as_mut().expect("nothing was drawn yet");
        *from = Instant::now();
        progress.advanced(1 << 20);
        progress.bar.as_ref().unwrap().force_draw();
        assert!(terminal.shown().contains("4.00 MiB read"), "{}", terminal.shown());
        drop(progress);
        assert_eq!(terminal.shown().trim(), "");
    }
}
