//! Tests the limits of a confined process from inside. This program starts itself once for each
//! case, because confinement is permanent.
//!
//! Run as root, the tests show that operations are refused by confinement, not for lack of user
//! rights.

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() {
    linux::main();
}

#[cfg(target_os = "linux")]
mod linux {
    use rdmascope_capture_agent::confine::{
        ConfineError, Confined, Reach, become_user, confine, confine_except,
    };
    use std::fs::{self, File};
    use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixStream;
    use std::path::Path;
    use std::process::Command;
    use std::thread;

    /// The options of libtest that do not select tests.
    const OPTIONS: [&str; 2] = ["--test-threads", "--show-output"];

    pub(super) fn main() {
        let arguments: Vec<String> = std::env::args().collect();
        match arguments.get(1).map(String::as_str) {
            Some("--inside") => inside(&arguments[2], Path::new(&arguments[3])),
            // `cargo test NAME` and `cargo test -- --list` run every test program.
            Some(other) if !OPTIONS.iter().any(|option| other.starts_with(option)) => {
                println!("{other}: no such test here");
            }
            _ => ["nothing", "instances", "below", "paths", "threads", "user"].into_iter().for_each(case),
        }
    }

    /// Runs a case in a separate process with a separate folder.
    fn case(name: &str) {
        let folder = tempfile::tempdir().expect("a folder");
        // The process may change its user.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("the folder is ours");
        let program = std::env::current_exe().expect("this program");
        let status =
            Command::new(program).arg("--inside").arg(name).arg(folder.path()).status().expect("it starts");
        assert!(status.success(), "{name}: {status}");
        println!("confined, {name}: as it should be");
    }

    fn inside(case: &str, folder: &Path) {
        match case {
            "nothing" => nothing(folder),
            "instances" => instances(folder),
            "below" => below(folder),
            "paths" => paths(folder),
            "threads" => threads(),
            "user" => user(folder),
            other => panic!("no case {other}"),
        }
    }

    fn refused<T>(operation: &str, result: std::io::Result<T>) {
        let error = result.err().unwrap_or_else(|| panic!("{operation}: it is not refused"));
        assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{operation}: {error}");
    }

    /// Operations that are refused in every case.
    fn other_operations_are_refused() {
        refused("a file to read", File::open("/dev/null"));
        refused("memory", File::open("/proc/self/mem"));
        refused("a folder to read", fs::read_dir("/"));
        refused("a socket", UdpSocket::bind("127.0.0.1:0"));
        refused("a connection", TcpStream::connect("127.0.0.1:1"));
        refused("a pair of sockets", UnixStream::pair());
        refused("a program", Command::new("/bin/true").status());
    }

    /// Returns a line of /proc/self/status, from a file that was opened before.
    fn line(status: &mut File, name: &str) -> String {
        let mut text = String::new();
        status.rewind().expect("it is open");
        status.read_to_string(&mut text).expect("it is open");
        let line = text.lines().find_map(|line| line.strip_prefix(name)).expect("a line of this name");
        line.trim_start_matches(':').trim().to_owned()
    }

    fn nothing(folder: &Path) {
        let mut status = File::open("/proc/self/status").expect("procfs is mounted");
        let mut file = File::create(folder.join("before")).expect("not confined yet");
        let listener = TcpListener::bind("127.0.0.1:0").expect("not confined yet");
        let _client = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("a listener");
        let held = confine(Reach::Nothing).expect("one thread");
        for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
            assert_eq!(line(&mut status, set), "0000000000000000", "{set}");
        }
        assert_eq!(line(&mut status, "NoNewPrivs"), "1");
        if !is_supported(held) {
            return;
        }
        assert_eq!(line(&mut status, "Seccomp"), "2");
        other_operations_are_refused();
        refused("a new file", File::create(folder.join("after")));
        refused("a file to remove", fs::remove_file(folder.join("before")));
        refused("a folder to remove", remove_folder(folder));
        refused("another name", fs::rename(folder.join("before"), folder.join("after")));
        // Open files still work, and new threads are confined as well.
        file.write_all(b"still open").expect("it is open");
        listener.accept().expect("the listener was opened before");
        thread::spawn(other_operations_are_refused).join().expect("a thread starts");
    }

    /// Removes a folder by the call that is permitted for instances of tracefs.
    fn remove_folder(path: &Path) -> std::io::Result<()> {
        Ok(rustix::fs::unlinkat(rustix::fs::CWD, path, rustix::fs::AtFlags::REMOVEDIR)?)
    }

    fn instances(folder: &Path) {
        let inner = folder.join("instances");
        for name in ["instances/ours", "other"] {
            fs::create_dir_all(folder.join(name)).expect("not confined yet");
        }
        fs::write(inner.join("file"), "file").expect("not confined yet");
        let held = confine_except(Reach::Nothing, Some(&inner)).expect("one thread");
        if !is_supported(held) {
            return;
        }
        other_operations_are_refused();
        refused("a file", File::create(inner.join("after")));
        refused("a folder", fs::create_dir(inner.join("after")));
        refused("a file to remove", fs::remove_file(inner.join("file")));
        refused("a folder elsewhere", remove_folder(&folder.join("other")));
        remove_folder(&inner.join("ours")).expect("it may be removed");
    }

    fn below(folder: &Path) {
        let inner = folder.join("inner");
        fs::create_dir(&inner).expect("not confined yet");
        fs::write(folder.join("outside"), "outside").expect("not confined yet");
        symlink(folder.join("outside"), inner.join("link")).expect("not confined yet");
        match confine(Reach::Below(&folder.join("none"))) {
            Err(ConfineError::Folder { error, .. }) => assert_eq!(error.kind(), ErrorKind::NotFound),
            other => panic!("the folder does not exist: {other:?}"),
        }
        if !is_supported(confine(Reach::Below(&inner)).expect("one thread")) {
            return;
        }
        other_operations_are_refused();
        // Created, created again, and removed.
        for _ in 0..2 {
            let mut file = File::create(inner.join("one")).expect("it may be made");
            file.write_all(b"one").expect("it is open");
        }
        refused("a written file, to read", File::open(inner.join("one")));
        refused("a link to the outside", File::create(inner.join("link")));
        refused("a way back up", File::create(inner.join("../outside")));
        refused("a file outside", File::create(folder.join("other")));
        refused("a file outside, to remove", fs::remove_file(folder.join("outside")));
        refused("a folder", fs::create_dir(inner.join("folder")));
        fs::remove_file(inner.join("one")).expect("it may be removed");
    }

    /// A command that reads captures can access its inputs, its output, and the folder of its
    /// output.
    fn paths(folder: &Path) {
        let path = |name: &str| folder.join(name);
        for name in ["captures", "out", "private"] {
            fs::create_dir(path(name)).expect("not confined yet");
        }
        for name in ["one.pcap", "captures/two.pcap", "out/page.html", "private/key", "other.pcap"] {
            fs::write(path(name), name).expect("not confined yet");
        }
        symlink(path("private/key"), path("captures/link")).expect("not confined yet");
        symlink(path("private/key"), path("out/link")).expect("not confined yet");
        let mut status = File::open("/proc/self/status").expect("procfs is mounted");
        let read = ["one.pcap", "captures", "none.pcap"].map(path);
        let write = ["out/page.html", "out/tables"].map(path);
        if !is_supported(
            confine(Reach::Paths { read: &read, write: &write, of_others: true }).expect("one thread"),
        ) {
            return;
        }
        assert_eq!(line(&mut status, "CapEff"), line(&mut status, "CapPrm"));
        let kept = u64::from_str_radix(&line(&mut status, "CapEff"), 16).expect("it is a number");
        // CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER.
        assert_eq!(kept & !0xf, 0, "{kept:#x}");
        other_operations_are_refused();
        thread::spawn(other_operations_are_refused).join().expect("a thread starts");

        assert_eq!(fs::read_to_string(path("one.pcap")).expect("it is an input"), "one.pcap");
        assert_eq!(
            fs::read_to_string(path("captures/two.pcap")).expect("it is below an input"),
            "captures/two.pcap"
        );
        assert_eq!(fs::read_dir(path("captures")).expect("it is an input").count(), 2);
        let missing = File::open(path("none.pcap")).expect_err("there is none");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        refused("a file beside an input", File::open(path("other.pcap")));
        refused("a link to the outside", File::open(path("captures/link")));
        refused("an input, to write", File::options().write(true).open(path("one.pcap")));
        refused("an input, to remove", fs::remove_file(path("captures/two.pcap")));
        refused("an output, to read", File::open(path("out/page.html")));
        refused("a link from the output to the outside", File::create(path("out/link")));
        refused("a file beside the output's folder", File::create(path("new")));
        refused("a file that goes outside", fs::rename(path("out/page.html"), path("page.html")));

        // A file can replace another one, and a folder can be filled and removed.
        fs::write(path("out/.new"), "page").expect("it may be made");
        fs::rename(path("out/.new"), path("out/page.html")).expect("it may replace the output");
        fs::create_dir_all(path("out/tables/a")).expect("it may be made");
        fs::write(path("out/tables/part"), "rows").expect("it may be made");
        fs::rename(path("out/tables/part"), path("out/tables/a/part")).expect("it may be moved");
        let part = File::options().write(true).open(path("out/tables/a/part")).expect("it may be written");
        part.set_permissions(fs::Permissions::from_mode(0o640)).expect("it is open");
        refused("the rights of the owner", part.set_permissions(fs::Permissions::from_mode(0o4755)));
        fs::remove_dir_all(path("out/tables")).expect("it may be removed");
    }

    /// A second thread would not be confined.
    fn threads() {
        let (end, wait) = std::sync::mpsc::channel::<()>();
        let other = thread::spawn(move || wait.recv());
        assert!(matches!(confine(Reach::Nothing), Err(ConfineError::Threads(2))));
        assert!(matches!(become_user("nobody"), Err(ConfineError::Threads(2))));
        drop(end);
        let _ended = other.join();
        File::open("/dev/null").expect("not confined");
    }

    fn user(folder: &Path) {
        assert!(matches!(become_user("no such user"), Err(ConfineError::NoUser(_))));
        let mut status = File::open("/proc/self/status").expect("procfs is mounted");
        let is_root = line(&mut status, "Uid").starts_with("0\t");
        match become_user("nobody") {
            Ok(()) if is_root => {}
            // A process that already runs as the user needs no rights.
            Ok(()) if line(&mut status, "Uid").starts_with("65534\t") => return,
            Err(ConfineError::NotRoot(_)) if !is_root => return,
            other => panic!("root or not: {is_root}, {other:?}"),
        }
        for name in ["Uid", "Gid", "Groups"] {
            let ids = line(&mut status, name);
            assert!(!ids.split_whitespace().any(|id| id == "0"), "{name}: {ids}");
        }
        assert_eq!(line(&mut status, "CapPrm"), "0000000000000000");
        assert_eq!(line(&mut status, "CapBnd"), "0000000000000000");
        refused("a file of root", File::open("/etc/shadow"));
        File::create(folder.join("one")).expect("every user may write to the folder");
        let _held = is_supported(confine(Reach::Nothing).expect("one thread"));
    }

    /// Returns true if the kernel supports both; otherwise prints that the test is skipped.
    fn is_supported(held: Confined) -> bool {
        let both = held.landlock && held.seccomp;
        if !both {
            println!("SKIPPED: this kernel has not both landlock and seccomp: {held:?}");
        }
        both
    }
}
