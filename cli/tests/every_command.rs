//! Properties of every command, including future ones: commands and their examples are found in the
//! help.

mod binary;

use binary::{command, copy_samples, folder, root, run, sample, text};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use tempfile::TempDir;

/// A command without subcommands, with its help.
struct Described {
    /// Such as `["export", "parquet"]`.
    path: Vec<String>,
    help: String,
}

/// Every command below `path`.
fn commands_below(path: &[String]) -> Vec<Described> {
    let arguments: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
    let output = run(&arguments);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{arguments:?}");
    let help = text(&output.stdout).to_owned();
    let names: Vec<String> = section(&help, "Commands:")
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next())
        .filter(|name| !name.is_empty() && *name != "help")
        .map(ToOwned::to_owned)
        .collect();
    if names.is_empty() {
        return vec![Described { path: path.to_vec(), help }];
    }
    names.iter().flat_map(|name| commands_below(&[path, std::slice::from_ref(name)].concat())).collect()
}

fn commands() -> Vec<Described> {
    let found = commands_below(&[]);
    assert!(found.len() >= 6, "{}", found.len());
    found
}

/// The lines below a heading.
fn section<'a>(help: &'a str, heading: &str) -> impl Iterator<Item = &'a str> {
    help.lines().skip_while(move |line| *line != heading).skip(1).take_while(|line| line.starts_with("  "))
}

/// A word of an example.
#[derive(Clone, Debug)]
enum Word {
    /// A command, an option, or a value of one.
    Given(String),
    /// An input of the command.
    Subject(String),
}

impl Described {
    fn is(&self, name: &str) -> bool {
        self.path.first().is_some_and(|first| first == name)
    }

    /// Whether it reads captures.
    fn reads(&self) -> bool {
        !self.is("completions") && !self.is("man") && !self.is_live()
    }

    /// Whether it needs a remote end, which is not available here: peer.rs and tests/capture_veth
    /// test those. `live` has examples of both kinds: see live_command.rs and tests/live_veth.
    /// `tui` needs a terminal: tests/tui runs it in one.
    fn is_live(&self) -> bool {
        self.is("peer") || self.is("capture") || self.is("live") || self.is("tui")
    }

    fn examples(&self) -> Vec<Vec<Word>> {
        let call = format!("rdmascope {}", self.path.join(" "));
        let lines = section(&self.help, "Examples:");
        let calls = lines.filter_map(|line| line.find(&format!("{call} ")).map(|at| &line[at..]));
        let found: Vec<_> = calls.map(|line| self.words(line)).collect();
        assert!(!found.is_empty(), "{call} has no examples in its help");
        found
    }

    /// The words of a command line, up to the end of the command in the shell.
    fn words(&self, line: &str) -> Vec<Word> {
        let mut words = vec![String::new()];
        let mut quote = None;
        for character in line.chars() {
            match (quote, character) {
                (Some(open), _) if open == character => quote = None,
                (None, '\'' | '"') => quote = Some(character),
                (None, '|' | '>' | '&' | ';') => break,
                (None, ' ') => words.push(String::new()),
                _ => words.last_mut().expect("there is always one").push(character),
            }
        }
        let mut words = words.into_iter().filter(|word| !word.is_empty()).skip(1);
        let mut found: Vec<Word> = words.by_ref().take(self.path.len()).map(Word::Given).collect();
        while let Some(word) = words.next() {
            if word.starts_with('-') && word != "-" {
                let takes_a_value = self.help.contains(&format!("{word} <"));
                found.push(Word::Given(word));
                found.extend(takes_a_value.then(|| words.next()).flatten().map(Word::Given));
            } else {
                found.push(Word::Subject(word));
            }
        }
        found
    }
}

/// An example's words with its inputs replaced by `instead`.
fn arguments(example: &[Word], instead: impl Fn(&str) -> String) -> Vec<String> {
    let word = |word: &Word| match word {
        Word::Given(word) => word.clone(),
        Word::Subject(subject) => instead(subject),
    };
    example.iter().map(word).collect()
}

/// A folder in which an example may write.
struct Folder(TempDir);

impl Folder {
    fn new() -> Folder {
        Folder(folder())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// The binary with `arguments`, run in the folder with a sample on standard input.
    fn command(&self, arguments: &[String]) -> Command {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let mut command = command(&arguments);
        let input = File::open(sample(SAMPLE)).expect("the sample is there");
        command.current_dir(self.path()).env("HOME", self.path()).stdin(input);
        command
    }

    fn run(&self, arguments: &[String]) -> Output {
        self.command(arguments).output().expect("the binary runs")
    }
}

/// The sample that replaces the inputs of examples, and one of its XIDs (a WRITE in
/// nfs3-basic.client.trace).
const SAMPLE: &str = "nfs3-basic.pcap";
const XID: &str = "0x1b396a62";

/// Creates the inputs that an example names: a trace of the sample, a policy that it meets, and a
/// key.
fn copy_inputs(words: &[String], folder: &Folder) {
    for trace in words.iter().filter(|word| word.ends_with(".trace")) {
        let sample = sample(&SAMPLE.replace(".pcap", ".client.trace"));
        std::fs::copy(sample, folder.path().join(trace)).expect("the trace can be copied");
    }
    for key in words.iter().filter(|word| word.ends_with(".key")) {
        std::fs::write(folder.path().join(key), [7; 32]).expect("the key can be written");
    }
    for notes in words.iter().filter(|word| word.ends_with(".notes")) {
        std::fs::write(folder.path().join(notes), "frame 1: a note\n").expect("the notes can be written");
    }
    for policy in words.iter().filter(|word| word.ends_with(".toml")) {
        let policy = folder.path().join(policy);
        std::fs::write(policy, "[require]\nconnections = 1\n").expect("the policy can be written");
    }
}

/// The examples of a command with samples as inputs, each with its folder.
fn runnable(described: &Described) -> Vec<(Folder, Vec<String>)> {
    let mut found = Vec::new();
    let examples = described.examples();
    for example in examples.iter().filter(|_| !described.is_live()) {
        let folder = Folder::new();
        let subject = |subject: &str| match subject {
            "-" => subject.to_owned(),
            _ if !described.reads() => subject.to_owned(),
            _ if subject.contains(".pcap") => capture(&folder, subject),
            _ => samples(&folder),
        };
        let words = arguments(example, subject);
        let words: Vec<String> = words.into_iter().map(|word| word.replace("0x1a2b3c4d", XID)).collect();
        copy_inputs(&words, &folder);
        found.push((folder, words));
    }
    found
}

/// A separate file for each name, because a file may not be given twice.
fn capture(folder: &Folder, name: &str) -> String {
    let name = Path::new(name).file_name().expect("an example names files").to_string_lossy().into_owned();
    std::fs::copy(sample(SAMPLE), folder.path().join(&name)).expect("the sample can be copied");
    name
}

/// A copy of the samples, because a command may write next to them.
fn samples(folder: &Folder) -> String {
    copy_samples(&folder.path().join("samples"));
    "samples".to_owned()
}

/// Asserts one line on standard error that names `subject`, exit status 2, and nothing on standard
/// output but a report that has this subject.
fn refused(output: &Output, arguments: &[String], subject: &str) {
    let complaint = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {complaint}");
    let is_report = arguments.iter().any(|word| word == "junit") && text(&output.stdout).contains(subject);
    assert!(output.stdout.is_empty() || is_report, "{arguments:?}");
    assert_eq!(complaint.lines().count(), 1, "{arguments:?}: {complaint}");
    assert!(complaint.starts_with("rdmascope: ") && complaint.contains(subject), "{complaint}");
}

#[test]
fn help_command_and_help_option_agree() {
    for Described { path, help } in commands() {
        let words: Vec<&str> = ["help"].into_iter().chain(path.iter().map(String::as_str)).collect();
        let output = run(&words);
        assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{words:?}");
        assert_eq!(text(&output.stdout), help, "{words:?}");
        assert!(!help.contains('\u{1b}'), "{words:?}");
    }
}

#[test]
fn examples_run() {
    for described in commands().into_iter().filter(|described| !described.is_live()) {
        let runs = runnable(&described);
        let works = |(folder, words): &(Folder, Vec<String>)| {
            let output = folder.run(words);
            matches!(output.status.code(), Some(0 | 1)) && output.stderr.is_empty()
        };
        assert!(runs.iter().any(works), "no example of {:?} works on a sample", described.path);
    }
}

#[test]
fn missing_file_is_a_one_line_error() {
    for described in commands().iter().filter(|described| described.reads()) {
        let folder = Folder::new();
        let examples = described.examples();
        let names_files = |example: &&Vec<Word>| example.iter().any(|word| matches!(word, Word::Subject(_)));
        for example in examples.iter().filter(names_files) {
            let words = arguments(example, |_| "no-such-file.pcap".to_owned());
            copy_inputs(&words, &folder);
            refused(&folder.run(&words), &words, "no-such-file.pcap");
        }
    }
}

#[test]
fn invalid_capture_is_a_one_line_error() {
    for described in commands().iter().filter(|described| described.reads()) {
        for example in described.examples().iter().filter(|example| names_captures(example)) {
            for kind in ["empty", "folder", "prose"] {
                let folder = Folder::new();
                let words = arguments(example, |subject| {
                    let path = folder.path().join(subject);
                    let made = match kind {
                        "empty" => std::fs::write(path, b""),
                        "folder" => std::fs::create_dir(path),
                        _ => std::fs::write(path, b"this is no capture\n".repeat(10)),
                    };
                    made.expect("the folder can be written to");
                    subject.to_owned()
                });
                copy_inputs(&words, &folder);
                refused(&folder.run(&words), &words, ".pcap");
            }
        }
    }
}

fn names_captures(example: &[Word]) -> bool {
    let subjects = example.iter().filter_map(|word| match word {
        Word::Subject(subject) => Some(subject),
        Word::Given(_) => None,
    });
    subjects.clone().count() > 0 && subjects.clone().all(|subject| subject.contains(".pcap"))
}

#[test]
fn closed_output_pipe_is_no_error() {
    let runs_without_reader = |mut command: Command, words: &[String]| {
        let (reader, writer) = std::io::pipe().expect("there are pipes");
        drop(reader);
        let child = command.stdout(writer).stderr(Stdio::piped()).spawn().expect("the binary runs");
        // The command has its own copy of the writing end.
        drop(command);
        let output = child.wait_with_output().expect("the binary ends");
        assert_eq!(text(&output.stderr), "", "{words:?}");
        assert!(matches!(output.status.code(), Some(0 | 1)), "{words:?}: {:?}", output.status);
    };
    for described in commands() {
        // In a new folder, because a command does not overwrite its earlier output.
        for ((folder, words), (fresh, _)) in runnable(&described).into_iter().zip(runnable(&described)) {
            if folder.run(&words).status.code() != Some(2) {
                runs_without_reader(fresh.command(&words), &words);
            }
        }
        let words = [described.path, vec!["--help".to_owned()]].concat();
        runs_without_reader(command(&words.iter().map(String::as_str).collect::<Vec<_>>()), &words);
    }
}

#[test]
fn colour_follows_the_conventions() {
    for described in commands() {
        for (folder, words) in runnable(&described) {
            let coloured = |variables: &[(&str, &str)]| {
                let mut command = folder.command(&words);
                command.envs(variables.iter().copied());
                // Output other than text, as of export, may have any bytes.
                let printed = command.output().expect("the binary runs").stdout;
                std::str::from_utf8(&printed).is_ok_and(|text| text.contains('\u{1b}'))
            };
            assert!(!coloured(&[]), "{words:?}");
            assert!(!coloured(&[("NO_COLOR", "1"), ("CLICOLOR_FORCE", "1")]), "{words:?}");
        }
    }
    let forced = |arguments: &[&str]| {
        let output = command(arguments).env("CLICOLOR_FORCE", "1").output().expect("the binary runs");
        output.stdout.contains(&0x1b)
    };
    assert!(forced(&["--help"]) && forced(&["analyze", "samples/nfs3-lossy.pcap"]));
    assert!(!forced(&["analyze", "samples/nfs3-lossy.pcap", "--format", "jsonl"]));
}

#[test]
fn documented_exit_statuses_match_the_help() {
    let help = text(&run(&["--help"]).stdout).to_owned();
    let page = text(&run(&["man", "analyze"]).stdout).to_owned();
    let document = std::fs::read_to_string(root().join("docs/command-line.md")).expect("it is there");
    // The meaning of a status continues on lines with deeper indentation.
    let mut meanings: Vec<Vec<&str>> = Vec::new();
    for line in section(&help, "Exit status:") {
        match line.strip_prefix("     ") {
            Some(more) => meanings.last_mut().expect("a status precedes it").push(more),
            None => {
                let (number, meaning) = line.trim_start().split_once("  ").expect("a status has a meaning");
                assert_eq!(number, meanings.len().to_string());
                meanings.push(vec![meaning]);
            }
        }
    }
    assert_eq!(meanings.len(), 3);
    for (status, lines) in meanings.iter().enumerate() {
        assert!(page.contains(&format!("\\fB{status}\\fR\n{}\n", lines.join("\n"))), "{page}");
        let meaning = lines.join(" ");
        assert!(document.contains(&format!("| {status} | {meaning} |")), "{meaning}");
    }
}
