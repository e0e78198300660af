use super::*;
use crate::framing::tests::{LITTLE, Pieces, on_disk};
use core::ops::ControlFlow;
use rdmascope_dissector::record::Time;
use rdmascope_dissector::transport::Dissected;
use std::io;

fn pipe(name: &str, pieces: Vec<io::Result<Vec<u8>>>) -> Capture {
    Capture::from_reader(name, Pieces(pieces)).expect("the first piece has a magic number")
}

/// A pcap file of packets with these timestamps in seconds, split into file header and packets.
fn pieces(seconds: &[u32]) -> Vec<io::Result<Vec<u8>>> {
    let records: Vec<(u32, u32, u32, &[u8])> =
        seconds.iter().map(|&seconds| (seconds, 0, 1, &b"x"[..])).collect();
    let bytes = LITTLE.pcap(0xa1b2_c3d4, 1, &records);
    let (header, packets) = bytes.split_at(24);
    core::iter::once(Ok(header.to_vec()))
        .chain(packets.chunks(17).map(|packet| Ok(packet.to_vec())))
        .collect()
}

/// Returns the steps of a source up to its end: numbers and seconds of records, and a dash for each
/// idle step.
fn answers(source: &mut impl Source) -> Vec<String> {
    let mut answers = Vec::new();
    loop {
        match source.next().expect("it can be read") {
            Next::Record(record) => {
                answers.push(format!("{}: {}", record.number, record.time.0 / 1_000_000_000));
            }
            Next::Idle(until) => {
                assert_eq!(until, None, "a pipe has no clock");
                answers.push("-".to_owned());
            }
            Next::Note(note) => unreachable!("no capture here has {note:?}"),
            Next::End => return answers,
        }
    }
}

#[test]
fn pipe_reports_idle_before_it_waits() {
    let mut one = Files::of(vec![pipe("pipe", pieces(&[7, 8]))]);
    assert_eq!(answers(&mut one), ["-", "1: 7", "-", "2: 8", "-"]);
    assert!(matches!(one.next(), Ok(Next::End)), "it stays ended");
    assert_eq!(one.size(), None);
    assert_eq!(one.position(), 24 + 2 * 17);
}

#[test]
fn several_pipes_are_merged_by_time() {
    let pipes =
        vec![pipe("a", pieces(&[2, 1, 6])), pipe("empty", pieces(&[])), pipe("b", pieces(&[2, 3, 9]))];
    let mut files = Files::of(pipes);
    assert_eq!(
        answers(&mut files),
        // The first record of each file is read first. File a precedes b at equal times, and the
        // order within a file is kept.
        ["-", "-", "-", "1: 2", "-", "2: 1", "-", "3: 2", "-", "4: 3", "-", "5: 6", "-", "6: 9", "-"]
    );
    assert!(files.endings().iter().all(|ending| ending.cut.is_none() && ending.trouble.is_none()));
}

#[test]
fn ending_of_each_file_is_reported() {
    let mut broken = pieces(&[1, 4]);
    broken.insert(2, Err(io::Error::other("the cable is out")));
    let mut short = pieces(&[2]);
    short.push(Ok(vec![0; 5]));
    let mut files =
        Files::of(vec![pipe("broken", broken), pipe("short", short), pipe("complete", pieces(&[3]))]);
    let given = answers(&mut files);
    assert_eq!(given.iter().filter(|answer| *answer != "-").collect::<Vec<_>>(), ["1: 1", "2: 2", "3: 3"]);
    let [broken, short, complete] = <[FileEnding; 3]>::try_from(files.endings()).unwrap();
    let trouble = broken.trouble.expect("it was broken off").to_string();
    assert_eq!(trouble, "broken: byte 41: cannot be read further: the cable is out");
    assert_eq!(short.cut, Some(Cut { offset: 41, needed: 16, available: 5 }));
    assert!(complete.cut.is_none() && complete.trouble.is_none());
}

#[test]
fn damaged_first_record_is_an_error_before_any_record() {
    let mut damaged = pieces(&[1]);
    damaged[1].as_mut().unwrap()[8..12].fill(0xff);
    let mut files = Files::of(vec![pipe("complete", pieces(&[1])), pipe("damaged", damaged)]);
    let error = loop {
        match files.next() {
            Ok(Next::Idle(_)) => {}
            Ok(next) => panic!("{next:?}"),
            Err(error) => break error,
        }
    };
    assert!(error.to_string().starts_with("damaged: byte 32: expected a record of at most"), "{error}");
}

/// Takes at most `most` records.
struct Few {
    most: usize,
    taken: Vec<u64>,
    waits: usize,
    bytes: u64,
}

impl Sink for Few {
    fn record(&mut self, record: &Record<'_>, _: &Dissected<'_>) -> ControlFlow<()> {
        self.taken.push(record.number);
        if self.taken.len() == self.most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn idle(&mut self, until: Option<Time>) -> ControlFlow<()> {
        assert_eq!(until, None);
        self.waits += 1;
        ControlFlow::Continue(())
    }
}

impl Progress for Few {
    fn advanced(&mut self, bytes: u64) {
        self.bytes += bytes;
    }
}

#[test]
fn sink_can_stop_early() {
    let config = frame::Config::default();
    for (most, taken, waits) in [(2, vec![1, 2], 2), (9, vec![1, 2, 3], 4)] {
        let mut files = Files::of(vec![pipe("pipe", pieces(&[1, 2, 3]))]);
        let mut few = Few { most, taken: Vec::new(), waits: 0, bytes: 0 };
        let mut progress = Few { most: 0, taken: Vec::new(), waits: 0, bytes: 0 };
        files.for_each(&config, &mut progress, &mut few).unwrap();
        assert_eq!((few.taken, few.waits), (taken, waits));
        assert_eq!(progress.bytes, 24 + 17 * (waits as u64 - 1));
    }
}

#[test]
fn two_threads_deliver_the_same_records() {
    // Larger than the minimum for a second thread.
    let data = vec![0x5a; 2000];
    let records: Vec<(u32, u32, u32, &[u8])> = (0..3000).map(|n| (n, 0, 2000, &data[..])).collect();
    let file = on_disk(&LITTLE.pcap(0xa1b2_c3d4, 1, &records));
    let paths = [file.path().to_owned()];
    let mut files = Files::open(&paths, None, &Interrupt::default()).unwrap();
    assert!(files.size() > Some(MIN_THREADED_SIZE));
    let mut sink = Few { most: 2999, taken: Vec::new(), waits: 0, bytes: 0 };
    files.for_each(&frame::Config::default(), &mut (), &mut sink).unwrap();
    assert_eq!(sink.taken, (1..=2999).collect::<Vec<_>>());
    let error = Files::open(&[paths[0].clone(), paths[0].clone()], None, &Interrupt::default())
        .err()
        .unwrap()
        .to_string();
    assert_eq!(error, format!("{}: given twice; all files together are one capture", paths[0].display()));
}

/// Number, second and file of a record.
type Row = (u64, i64, u32);

/// Collects records, up to a maximum.
struct Collector(Vec<Row>, usize);

impl Sink for Collector {
    fn record(&mut self, record: &Record<'_>, _: &Dissected<'_>) -> ControlFlow<()> {
        self.0.push((record.number, record.time.0 / 1_000_000_000, record.tap.file));
        if self.0.len() == self.1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn idle(&mut self, _: Option<Time>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Reads at most `most` records of a ring of files with these contents. Returns them and how the
/// files ended.
fn ring(files: &[Vec<u8>], most: usize) -> (Result<Vec<Row>, Error>, Vec<FileEnding>) {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..files.len()).map(|index| folder.path().join(index.to_string())).collect();
    for (path, bytes) in paths.iter().zip(files) {
        std::fs::write(path, bytes).unwrap();
    }
    let mut ring = Ring::open(&paths).unwrap();
    assert_eq!(ring.size(), Some(files.iter().map(|file| file.len() as u64).sum()));
    let mut collector = Collector(Vec::new(), most);
    let read = ring.for_each(&frame::Config::default(), &mut (), &mut collector);
    (read.map(|()| collector.0), ring.endings())
}

fn file_bytes(seconds: &[u32]) -> Vec<u8> {
    pieces(seconds).into_iter().flat_map(Result::unwrap).collect()
}

/// The first packet of a file may be older than the last one of the file before. As within one
/// file, nothing is reordered.
#[test]
fn ring_files_are_ordered_by_their_first_packets() {
    let files = [file_bytes(&[7, 8]), file_bytes(&[]), file_bytes(&[3, 6]), file_bytes(&[5, 4])];
    let (rows, endings) = ring(&files, 99);
    assert_eq!(rows.unwrap(), [(1, 3, 0), (2, 6, 0), (3, 5, 0), (4, 4, 0), (5, 7, 0), (6, 8, 0)]);
    let second = |second: i64| Time(second * 1_000_000_000);
    let spans: Vec<_> = endings.iter().map(|ending| ending.span).collect();
    let expected = [(3, 6), (4, 5), (7, 8)].map(|(first, last)| Some((second(first), second(last))));
    assert_eq!(spans, [&expected[..], &[None]].concat());
    let (rows, endings) = ring(&files, 3);
    assert_eq!((rows.unwrap().len(), endings.len()), (3, 2), "only files that are read are opened");
}

#[test]
fn unreadable_ring_file_does_not_affect_the_others() {
    let mut cut = file_bytes(&[2, 3]);
    cut.truncate(50);
    let (rows, endings) = ring(&[file_bytes(&[4]), b"nothing of a capture".to_vec(), cut], 99);
    assert_eq!(rows.unwrap(), [(1, 2, 0), (2, 4, 0)]);
    assert_eq!(endings[0].cut, Some(Cut { offset: 41, needed: 16, available: 9 }));
    assert!(endings[1].trouble.is_none());
    assert!(matches!(endings[2].trouble, Some(Error::Damaged { .. })));
    // If no file can be read, the first error is returned.
    let (rows, _) = ring(&[b"nothing of a capture".to_vec(), Vec::new()], 99);
    assert!(matches!(rows, Err(Error::Damaged { .. })));
    let (rows, _) = ring(&[file_bytes(&[]), file_bytes(&[])], 99);
    assert_eq!(rows.unwrap(), []);
}
