//! The permissions of files and folders that commands create. tests/capture_veth has those of
//! `capture`, tests/tui those of `tui`.
#![cfg(unix)]

mod binary;
#[cfg(target_os = "linux")]
mod live;

use binary::{command, folder, sample, text};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

/// Runs the binary in `folder` with umask 000.
fn run(folder: &Path, arguments: &[&str]) -> Output {
    let plain = command(arguments);
    let mut masked = std::process::Command::new("sh");
    masked.args(["-c", r#"umask 000 && exec "$0" "$@""#]).arg(plain.get_program()).args(plain.get_args());
    masked.current_dir(folder).output().expect("sh runs")
}

fn mode(path: &Path) -> u32 {
    path.symlink_metadata().expect("it is there").permissions().mode() & 0o7777
}

/// Everything below a folder.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries =
        fs::read_dir(folder).expect("it is a folder").map(|entry| entry.expect("it is there").path());
    entries
        .flat_map(|path| {
            let inner = if path.is_dir() { below(&path) } else { Vec::new() };
            [path].into_iter().chain(inner)
        })
        .collect()
}

/// Commands that write files, in a folder with a copy of a sample, `mount.pcap`, and the minimum
/// number of files that each creates.
const COMMANDS: [(&[&str], usize); 8] = [
    (&["extract", "mount.pcap", "--files", "out/files"], 2),
    (&["extract", "mount.pcap", "--transaction", "7", "--output", "call.bin"], 1),
    (&["export", "pcapng", "mount.pcap", "--output", "copy.pcapng"], 1),
    (&["export", "pcapng", "mount.pcap", "--anonymize", "--output", "anonymous.pcapng"], 1),
    (&["export", "rpc", "mount.pcap", "--output", "rpc.pcapng"], 1),
    (&["export", "html", "mount.pcap", "--output", "page.html"], 1),
    #[cfg(feature = "parquet")]
    (&["export", "parquet", "mount.pcap", "--output", "tables"], 5),
    #[cfg(not(feature = "parquet"))]
    (&["export", "html", "mount.pcap", "--output", "page.html"], 1),
    (&["live", "mount.pcap", "--trigger", "latency>1us"], 1),
];

#[test]
fn new_files_are_private_unless_a_mode_is_given() {
    for (option, of_files, of_folders) in
        [(None, 0o600, 0o700), (Some("0640"), 0o640, 0o750), (Some("644"), 0o644, 0o755)]
    {
        for (arguments, minimum) in COMMANDS {
            let folder = folder();
            let capture = folder.path().join("mount.pcap");
            fs::copy(sample("nfs3-basic.pcap"), &capture).expect("it can be copied");
            let given = option.map_or(vec![], |mode| vec!["--mode", mode]);
            let output = run(folder.path(), &[arguments, &given].concat());
            assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
            let made: Vec<PathBuf> =
                below(folder.path()).into_iter().filter(|path| *path != capture).collect();
            let files = made.iter().filter(|path| path.is_file()).count();
            assert!(files >= minimum, "{arguments:?}: {made:?}");
            for path in made {
                let expected = if path.is_dir() { of_folders } else { of_files };
                assert_eq!(mode(&path), expected, "{arguments:?} {option:?}: {}", path.display());
            }
        }
    }
}

#[test]
fn replaced_file_keeps_its_permissions() {
    let folder = folder();
    let page = folder.path().join("page.html");
    for before in [0o600, 0o644, 0o660] {
        fs::write(&page, "before").expect("it can be written");
        fs::set_permissions(&page, fs::Permissions::from_mode(before)).expect("it is ours");
        let path = sample("connect-rejected.pcap");
        let output =
            run(folder.path(), &["export", "html", &path, "--output", "page.html", "--mode", "0640"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(fs::read_to_string(&page).expect("it is there").contains("<html"));
        assert_eq!(mode(&page), before);
    }
}

// These files contain no capture data, or belong in a repository.
#[test]
fn manual_pages_and_expectations_follow_the_umask() {
    let folder = folder();
    fs::copy(sample("connect-rejected.pcap"), folder.path().join("one.pcap")).expect("it can be copied");
    assert!(run(folder.path(), &["regress", ".", "--bless"]).status.success());
    assert_eq!(mode(&folder.path().join("one.expected.jsonl")), 0o666);
    assert!(run(folder.path(), &["man", "--into", "man"]).status.success());
    assert_eq!(mode(&folder.path().join("man")), 0o777);
    assert!(below(&folder.path().join("man")).iter().all(|page| mode(page) == 0o666));
}

#[test]
fn invalid_modes_are_refused() {
    for wrong in ["0755", "rw", "0400", "1600"] {
        let output = run(Path::new("."), &["extract", "x.pcap", "--files", "out", "--mode", wrong]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{wrong}");
    }
}

// A link that another user put into /tmp leads to a file that root may write.
#[test]
fn link_in_a_public_folder_is_not_followed() {
    let folder = folder();
    let (public, target) = (folder.path().join("public"), folder.path().join("target"));
    fs::create_dir(&public).expect("it can be made");
    fs::set_permissions(&public, fs::Permissions::from_mode(0o1777)).expect("it is ours");
    fs::write(&target, "precious").expect("it can be written");
    std::os::unix::fs::symlink(&target, public.join("page.html")).expect("it can be made");
    let path = sample("connect-rejected.pcap");
    let output = run(folder.path(), &["export", "html", &path, "--output", "public/page.html"]);
    binary::refused(
        &output,
        &["public/page.html: cannot be written: symbolic links in world-writable folders"],
    );
    assert_eq!(fs::read_to_string(&target).expect("it is there"), "precious");
}

/// Recordings of `peer`, and files that it reads from a server.
#[cfg(target_os = "linux")]
#[test]
fn recordings_of_live_peers_are_private() {
    use live::{Server, address};
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().expect("it is UTF-8").to_owned();
    let (at, from) = (address(), address());
    let served = ["--bind", &at, "--socket", "udp", "--save", &path("serve.pcapng")];
    let Some(server) = Server::start(&served) else { return };
    let saved = path("call.pcapng");
    let call = ["peer", "call", "--socket", "udp", "--to", &at, "--from", &from, "--save", &saved];
    let output = run(folder.path(), &call);
    assert!(output.status.success(), "{}", text(&output.stderr));
    server.stop();
    for name in ["serve.pcapng", "call.pcapng"] {
        assert_eq!(mode(&folder.path().join(name)), 0o600, "{name}");
    }
}
