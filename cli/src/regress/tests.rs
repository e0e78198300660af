use super::plan::{Plan, Task, expectation_of};
use super::*;
use std::path::Path;

#[test]
fn expectation_name_ignores_the_capture_format() {
    for (capture, expectation) in [
        ("a/mount.pcap", "a/mount.expected.jsonl"),
        ("mount.pcapng.zst", "mount.expected.jsonl"),
        ("mount.6.1.PCAP.GZ", "mount.6.1.expected.jsonl"),
        ("mount.cap", "mount.expected.jsonl"),
        ("mount.pcap0", "mount.pcap0.expected.jsonl"),
        ("dump", "dump.expected.jsonl"),
        ("dump.gz", "dump.expected.jsonl"),
    ] {
        assert_eq!(expectation_of(Path::new(capture)), Path::new(expectation));
    }
}

#[test]
fn plan_lists_captures_and_orphans() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    };
    let magic = [0xd4, 0xc3, 0xb2, 0xa1];
    write("z.pcap", b"no capture, but its name says that it is one");
    write("6.1/mount", &magic);
    write("6.1/notes.txt", b"Not a capture");
    write("empty", b"");
    write("gone.expected.jsonl", b"");
    write(".git/hidden.pcap", &magic);
    write("._z.pcap", b"an AppleDouble file");
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.path(), folder.path().join("circle")).unwrap();
    let plan = Plan::of(&[folder.path().to_owned()], None).unwrap();
    let jobs: Vec<_> = plan
        .jobs
        .iter()
        .map(|job| {
            let kind = match job.task {
                Task::Capture { .. } => "capture",
                Task::Orphan => "orphan",
                Task::Absent | Task::Verify(_) => "manifest",
            };
            (job.path.strip_prefix(folder.path()).unwrap().to_str().unwrap(), kind)
        })
        .collect();
    assert_eq!(jobs, [("6.1/mount", "capture"), ("gone.expected.jsonl", "orphan"), ("z.pcap", "capture")]);
    assert_eq!(plan.others, if cfg!(unix) { 3 } else { 2 });
    let only = Plan::of(&[folder.path().to_owned()], Some("6.1/")).unwrap();
    assert_eq!(only.jobs.len(), 1);

    write("z.pcapng", &magic);
    let error = Plan::of(&[folder.path().to_owned()], None).unwrap_err().to_string();
    assert!(error.contains("z.pcap") && error.contains("z.pcapng") && error.contains("rename"), "{error}");
}

#[test]
fn results_keep_the_order_of_the_jobs() {
    let jobs: Vec<u64> = (0..40).collect();
    let mut taken = Vec::new();
    let slow = |job: &u64| {
        if job.is_multiple_of(7) {
            std::thread::sleep(std::time::Duration::from_millis(3));
        }
        *job
    };
    let take = |job| {
        taken.push(job);
        Ok(())
    };
    in_order(&jobs, slow, take).unwrap();
    assert_eq!(taken, jobs);
    let broken = in_order(&jobs, |job| *job, |_| Err(io::ErrorKind::BrokenPipe.into()));
    assert_eq!(broken.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}
