//! Whether several files are one capture.

use crate::observer::Observer;
use crate::units::{Counted, Duration, Plain};
use core::fmt::{self, Display};
use rdmascope_capture_agent::FileEnding;
use rdmascope_dissector::connection::Files;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;

/// Sets of files that show the same connections. There are at most [`Files::MOST`] disjoint sets.
#[derive(Clone, Debug, Default)]
pub struct OneCapture(Vec<Files>);

impl OneCapture {
    fn add(&mut self, mut files: Files) {
        self.0.retain(|set| {
            let meets = set.meet(files);
            if meets {
                files.add_all(*set);
            }
            !meets
        });
        if files != Files::default() {
            self.0.push(files);
        }
    }
}

impl Observer for OneCapture {
    fn needs(&self) -> Config {
        Config::default()
    }

    #[inline]
    fn handle(&mut self, event: &Event<'_>) {
        if let Event::Connection(connection) = event {
            self.add(connection.files);
        }
    }
}

/// The reason why files that were read as one capture may be unrelated.
#[derive(Debug)]
pub struct Apart<'a> {
    files: &'a [FileEnding],
    /// The first file of each set that shares no connection with another set; empty if there is
    /// only one set.
    strangers: Vec<usize>,
    /// The files before and after a pause that is longer than the captured time, and the pause in
    /// nanoseconds.
    pause: Option<(usize, usize, u64)>,
}

impl<'a> Apart<'a> {
    /// Compares the files by their connections and times. Returns `None` if they may be one
    /// capture. Files without a connection are ignored.
    pub fn of(files: &'a [FileEnding], one_capture: &OneCapture) -> Option<Apart<'a>> {
        let sets = &one_capture.0;
        let has_connection = |index: usize| sets.iter().any(|set| set.has(index as u32));
        let firsts = sets.iter().filter_map(|set| (0..files.len()).find(|file| set.has(*file as u32)));
        let mut strangers: Vec<usize> = firsts.collect();
        strangers.sort_unstable();
        if strangers.len() < 2 {
            strangers.clear();
        }
        let spans = files.iter().enumerate().filter(|(index, _)| has_connection(*index));
        let mut spans: Vec<_> = spans.filter_map(|(index, file)| Some((file.span?, index))).collect();
        spans.sort_unstable();
        let mut covered = 0;
        let mut longest: Option<(usize, usize, u64)> = None;
        let mut spans = spans.into_iter();
        let ((first, mut end), mut latest) = spans.next()?;
        covered += end.since(first);
        for ((first, last), file) in spans {
            let pause = first.since(end);
            if longest.is_none_or(|(_, _, longest)| pause > longest) {
                longest = Some((latest, file, pause));
            }
            covered += last.since(end.max(first));
            if last > end {
                (end, latest) = (last, file);
            }
        }
        let pause = longest.filter(|(_, _, pause)| *pause > covered);
        (!strangers.is_empty() || pause.is_some()).then_some(Apart { files, strangers, pause })
    }
}

impl Display for Apart<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// The most files listed by name.
        const NAMED: usize = 3;
        let title = |index: usize| Plain(self.files[index].title());
        let several = self.strangers.len();
        for (index, file) in self.strangers.iter().take(NAMED).enumerate() {
            let separator = match index {
                0 => "",
                _ if index + 1 == several => " and ",
                _ => ", ",
            };
            write!(f, "{separator}{}", title(*file))?;
        }
        if several > NAMED {
            write!(f, " and {}", Counted((several - NAMED) as u64, "other"))?;
        }
        if several > 0 {
            f.write_str(" share no connection")?;
        }
        if let Some((before, after, pause)) = self.pause {
            let separator = if several > 0 { "; " } else { "" };
            let (before, after) = (title(before), title(after));
            write!(f, "{separator}{} between {before} and {after}", Duration(pause))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_dissector::record::Time;

    fn files(numbers: &[u32]) -> Files {
        let mut files = Files::default();
        numbers.iter().for_each(|number| files.add(*number));
        files
    }

    /// The text for files with these spans in seconds, and connections in these files.
    fn text(spans: &[(i64, i64)], connections: &[&[u32]]) -> String {
        let file = |(index, (first, last)): (usize, &(i64, i64))| FileEnding {
            name: format!("{index}.pcap"),
            span: Some((Time(first * 1_000_000_000), Time(last * 1_000_000_000))),
            ..FileEnding::default()
        };
        let mut one_capture = OneCapture::default();
        connections.iter().for_each(|numbers| one_capture.add(files(numbers)));
        let files: Vec<FileEnding> = spans.iter().enumerate().map(file).collect();
        Apart::of(&files, &one_capture).map(|apart| apart.to_string()).unwrap_or_default()
    }

    #[test]
    fn rotated_files_are_one_capture() {
        assert_eq!(text(&[(0, 10), (11, 20), (21, 30)], &[&[0, 1], &[1, 2], &[2]]), "");
        assert_eq!(text(&[(21, 30), (0, 10), (11, 20)], &[&[0, 2], &[1, 2], &[2]]), "");
        // A single file is never reported, nor is a file without a connection.
        assert_eq!(text(&[(0, 10)], &[&[0]]), "");
        assert_eq!(text(&[(0, 10), (1000, 1001)], &[&[0], &[0]]), "");
        assert_eq!(text(&[], &[]), "");
    }

    #[test]
    fn files_without_shared_connections_are_separate() {
        assert_eq!(text(&[(0, 10), (5, 9)], &[&[0], &[1]]), "0.pcap and 1.pcap share no connection");
        let four = text(&[(0, 10), (0, 10), (0, 10), (0, 10), (0, 10)], &[&[3], &[4], &[0, 1], &[2]]);
        assert_eq!(four, "0.pcap, 2.pcap, 3.pcap and 1 other share no connection");
        // The connection that joins two sets comes last.
        assert_eq!(text(&[(0, 10), (0, 10), (0, 10)], &[&[0], &[1], &[2], &[0, 2], &[1, 2]]), "");
    }

    #[test]
    fn a_pause_longer_than_the_capture_is_reported() {
        // The same queue pairs on another day.
        assert_eq!(text(&[(0, 10), (31, 40)], &[&[0, 1]]), "21s between 0.pcap and 1.pcap");
        assert_eq!(text(&[(0, 10), (29, 40)], &[&[0, 1]]), "");
        let both = text(&[(31, 40), (0, 10), (2, 9)], &[&[0], &[1, 2]]);
        assert_eq!(both, "0.pcap and 1.pcap share no connection; 21s between 1.pcap and 0.pcap");
    }
}
