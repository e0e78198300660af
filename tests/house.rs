//! Checks invariants of ARCHITECTURE.md on the sources.

#[path = "house/circles.rs"]
mod circles;
#[path = "house/gate.rs"]
mod gate;
#[path = "house/links.rs"]
mod links;
#[path = "house/prose.rs"]
mod prose;
#[path = "house/registry.rs"]
mod registry;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The crates that make up the binary.
const CRATES: [&str; 10] =
    ["wire", "xdr", "dissector", "peer", "conformance", "capture-agent", "analysis", "present", "tui", "cli"];

/// Every Rust source file of the project.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> =
        CRATES.iter().chain(&["testkit", "tests", "fuzz"]).map(|folder| root().join(folder)).collect();
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.map(|entry| entry.expect("the folder can be read").path()) {
            let name = entry.file_name().expect("an entry has a name").to_string_lossy().into_owned();
            if entry.is_dir() && name != "target" {
                folders.push(entry);
            } else if name.ends_with(".rs") {
                let text = std::fs::read_to_string(&entry).expect("sources are UTF-8");
                let place = entry.strip_prefix(root()).expect("it is below the root").display().to_string();
                found.push((place, text));
            }
        }
    }
    found.sort();
    assert!(found.len() > 50, "only {} sources found", found.len());
    found
}

// Invariant 10.
#[test]
fn unsafe_code_is_in_six_files() {
    // The files in verbs/, sniffer/ and fake_verbs/ are built with the feature `verbs` only.
    const ALLOWED: [&str; 6] = [
        "capture-agent/src/live/libpcap.rs",
        "capture-agent/src/live/ring.rs",
        "capture-agent/src/sniffer/sys.rs",
        "capture-agent/src/unsafe_io.rs",
        "capture-agent/tests/fake_verbs/lib.rs",
        "peer/src/verbs/sys.rs",
    ];
    // Split, so that the test does not find the word in its own source.
    let word = ["un", "safe"].concat();
    let uses = [" {", " fn", " impl", " extern", " trait"].map(|after| format!("{word}{after}"));
    let mut seen_in_allowed = BTreeSet::new();
    for (place, text) in sources() {
        let code = text.lines().map(|line| line.split("//").next().unwrap_or(""));
        let found = code.clone().any(|line| uses.iter().any(|one| line.contains(one)));
        let allowed = ALLOWED.contains(&place.replace('\\', "/").as_str());
        assert!(!found || allowed, "{place} uses {word}");
        if found {
            seen_in_allowed.insert(place.clone());
        }
        let is_crate_root = place.ends_with("src/lib.rs") || place.ends_with("src/main.rs");
        if is_crate_root {
            let forbidden =
                ["forbid", "deny"].iter().any(|level| text.contains(&format!("#![{level}({word}_code)]")));
            assert!(forbidden, "{place} does not forbid it");
        }
    }
    assert_eq!(seen_in_allowed.len(), ALLOWED.len(), "one of {ALLOWED:?} has moved: update this list");
}

// Only `present` and `cli` serialize, and the libraries read neither files nor clocks.
#[test]
fn crates_have_only_the_permitted_io_and_serialization() {
    for (place, text) in sources() {
        let member = place.split(['/', '\\']).next().expect("a path has parts");
        let library = matches!(member, "wire" | "xdr" | "dissector" | "peer" | "conformance")
            && place.contains("/src/");
        // The parts of the peer with sockets and a clock.
        let sockets = ["peer/src/driver", "peer/src/tcp.rs", "peer/src/verbs"];
        let library = library && !sockets.iter().any(|has| place.replace('\\', "/").starts_with(has));
        for word in ["std::fs", "std::time", "std::net::", "std::env", "std::thread"] {
            assert!(!(library && text.contains(word)), "{place} uses {word}");
        }
        // The peer deserializes scenarios and serializes nothing.
        let reads = place.replace('\\', "/").starts_with("peer/src/scenario");
        assert!(!reads || !text.contains("Serialize"), "{place} serializes");
        if member != "present" && member != "cli" && member != "tests" && !reads {
            assert!(!text.contains("serde::"), "{place} serializes");
        }
    }
}

/// The top-level modules of a crate that each of its top-level modules uses, outside tests.
fn modules(member: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (place, text) in sources() {
        let place = place.replace('\\', "/");
        let Some(path) = place.strip_prefix(&format!("{member}/src/")) else { continue };
        let module = path.split(['/', '.']).next().expect("a path has parts");
        // Tests may use any module; the crate root only lists modules.
        if matches!(module, "lib" | "main") || path.ends_with("tests.rs") {
            continue;
        }
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let code = code.lines().map(|line| line.split("//").next().unwrap_or_default());
        let used = uses.entry(module.to_owned()).or_default();
        for line in code {
            for after in line.split("crate::").skip(1) {
                let name: String = after.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
                assert!(!name.is_empty(), "{place}: one module of the crate for each `use`: {line}");
                used.insert(name);
            }
        }
        used.remove(module);
    }
    assert!(uses.len() > 5, "only {} modules in {member}", uses.len());
    uses
}

/// Finds a cycle of modules that use each other.
fn cycle(uses: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn from(
        name: &str,
        uses: &BTreeMap<String, BTreeSet<String>>,
        path: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> Option<Vec<String>> {
        if let Some(start) = path.iter().position(|other| other == name) {
            return Some(path[start..].to_vec());
        }
        if !done.insert(name.to_owned()) {
            return None;
        }
        path.push(name.to_owned());
        let found = uses.get(name).into_iter().flatten().find_map(|used| from(used, uses, path, done));
        path.pop();
        found
    }
    uses.keys().find_map(|name| from(name, uses, &mut Vec::new(), &mut BTreeSet::new()))
}

#[test]
fn modules_form_no_cycle() {
    for member in ["analysis", "present", "tui", "cli"] {
        assert_eq!(cycle(&modules(member)), None, "modules of {member} form a cycle");
    }
}

/// The modules of the dissector, lowest first, and the modules that each may use.
const DISSECTOR: [(&str, &[&str]); 26] = [
    ("roomy", &[]),
    ("reuse", &[]),
    ("record", &[]),
    ("waiting", &["record", "roomy"]),
    ("interval", &["roomy"]),
    ("protocol", &[]),
    ("frame", &["protocol", "record"]),
    ("connection", &["frame", "protocol", "record"]),
    ("rdma", &["record"]),
    ("role", &["rdma", "record"]),
    ("rc", &["connection", "rdma", "record", "roomy", "waiting"]),
    ("iwarp", &["connection", "frame", "rdma", "record", "roomy", "waiting"]),
    ("ulb", &["reuse"]),
    // A transaction holds its exchange, and an exchange names the parts of a transaction.
    ("transaction", &["connection", "exchange", "interval", "record", "reuse", "ulb"]),
    ("exchange", &["connection", "interval", "rdma", "record", "transaction"]),
    ("phases", &["record", "transaction"]),
    ("layout", &["exchange", "interval", "transaction", "ulb"]),
    ("observation", &["connection", "rdma", "record", "transaction", "ulb"]),
    ("event", &["connection", "frame", "iwarp", "observation", "record", "role", "transaction"]),
    ("transport", &["event", "frame", "record"]),
    (
        "rpcrdma",
        &[
            "connection",
            "event",
            "exchange",
            "interval",
            "observation",
            "protocol",
            "rdma",
            "record",
            "role",
            "roomy",
            "transaction",
            "ulb",
        ],
    ),
    ("attribution", &["interval", "rc", "rdma", "record", "role", "rpcrdma"]),
    (
        "session",
        &[
            "attribution",
            "connection",
            "event",
            "frame",
            "iwarp",
            "observation",
            "rc",
            "rdma",
            "record",
            "rpcrdma",
            "transaction",
            "waiting",
        ],
    ),
    (
        "engine",
        &[
            "connection",
            "event",
            "exchange",
            "frame",
            "iwarp",
            "observation",
            "protocol",
            "rc",
            "rdma",
            "record",
            "rpcrdma",
            "session",
            "transaction",
            "transport",
        ],
    ),
    ("bulk", &["engine", "frame", "iwarp", "record", "transport"]),
    ("batch", &["connection", "event", "observation", "rdma", "record", "transaction"]),
];

/// The modules of the peer, in the same form.
const PEER: [(&str, &[&str]); 19] = [
    ("time", &[]),
    ("random", &[]),
    ("packet", &[]),
    ("frame", &["packet"]),
    ("memory", &[]),
    ("rc", &["memory", "packet", "time"]),
    ("cm", &["time"]),
    ("interceptor", &["packet", "random", "time"]),
    ("endpoint", &["cm", "interceptor", "memory", "packet", "random", "rc", "time"]),
    ("provider", &["endpoint", "interceptor", "memory", "rc"]),
    ("pair", &["endpoint", "packet", "random", "time"]),
    ("rpcrdma", &["endpoint", "memory", "rc", "time"]),
    ("nfs3", &["rpcrdma"]),
    ("peer", &["cm", "endpoint", "packet", "pair", "rc", "rpcrdma", "time"]),
    ("replay", &["cm", "endpoint", "peer", "rpcrdma", "time"]),
    (
        "scenario",
        &[
            "cm",
            "endpoint",
            "interceptor",
            "memory",
            "nfs3",
            "packet",
            "pair",
            "peer",
            "provider",
            "rc",
            "rpcrdma",
            "time",
        ],
    ),
    ("driver", &["frame", "packet", "pair", "time"]),
    ("tcp", &["nfs3"]),
    ("verbs", &["cm", "driver", "endpoint", "interceptor", "memory", "provider", "rc", "scenario", "time"]),
];

// No module uses one above it.
#[test]
fn dissector_and_peer_modules_use_only_lower_ones() {
    assert_layers("dissector", &DISSECTOR);
    assert_layers("peer", &PEER);
}

fn assert_layers(member: &str, table: &[(&str, &[&str])]) {
    let allowed: BTreeMap<&str, &[&str]> = table.iter().copied().collect();
    for (module, uses) in modules(member) {
        let allowed = allowed.get(&*module).unwrap_or_else(|| panic!("{module} is missing from the table"));
        for used in uses {
            assert!(allowed.contains(&&*used), "{module} uses {used}, which is not below it");
        }
    }
    for (index, (module, uses)) in table.iter().copied().enumerate() {
        let below = &table[..index];
        let is_below = |used: &&str| below.iter().any(|(name, _)| name == used);
        let above =
            uses.iter().find(|used| !is_below(used) && (module, **used) != ("transaction", "exchange"));
        assert_eq!(above, None, "the table lets {module} use a module above it");
    }
}

// The layers above the transport use only the types of `rdma`, which name no transport header, so
// that other transports can provide them too.
#[test]
fn rpc_over_rdma_uses_no_transport_header() {
    let above = [
        "rdma/mod",
        "rdma/fault",
        "rdma/held",
        "rdma/operation",
        "rpcrdma",
        "ulb",
        "transaction",
        "exchange",
        "layout",
        "session/reordering",
    ];
    let above = above.map(|module| format!("dissector/src/{module}"));
    let mut looked = 0;
    for (place, text) in sources() {
        let place = place.replace('\\', "/");
        if !above.iter().any(|module| place.starts_with(module)) {
            continue;
        }
        looked += 1;
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        for line in code.lines().map(|line| line.split("//").next().unwrap_or_default()) {
            for word in ["bth", "psn", "Psn", "Reth", "rc::"] {
                assert!(!line.contains(word), "{place} names {word}: {line}");
            }
        }
    }
    assert!(looked > 10, "only {looked} files");
}

// The judge and the judged share only the crates of floor 0.
#[test]
fn peer_depends_on_wire_and_xdr_only() {
    let manifest =
        std::fs::read_to_string(root().join("peer/Cargo.toml")).expect("peer/Cargo.toml can be read");
    let crates =
        manifest.lines().filter_map(|line| line.strip_prefix("rdmascope-")?.split(['.', ' ']).next());
    assert_eq!(crates.collect::<Vec<_>>(), ["wire", "xdr"]);
}

#[test]
fn cycle_of_modules_is_found() {
    let uses = |pairs: &[(&str, &str)]| {
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (name, used) in pairs {
            uses.entry((*name).to_owned()).or_default().insert((*used).to_owned());
        }
        uses
    };
    assert_eq!(cycle(&uses(&[("a", "b"), ("a", "c"), ("b", "c"), ("c", "d")])), None);
    let round = cycle(&uses(&[("a", "b"), ("b", "c"), ("c", "d"), ("d", "b")]));
    assert_eq!(round, Some(["b", "c", "d"].map(str::to_owned).to_vec()));
}

// Invariant 1: without `std` a crate can do no I/O and read no clock. CI builds these crates
// without the features that enable `std`.
#[test]
fn crates_without_io_have_no_std() {
    let without: Vec<String> = sources()
        .into_iter()
        .filter(|(_, text)| text.contains("\n#![cfg_attr(not(test), no_std)]\n"))
        .map(|(place, _)| place)
        .collect();
    let expected =
        ["conformance", "dissector", "peer", "wire", "xdr"].map(|member| format!("{member}/src/lib.rs"));
    assert_eq!(without, expected);
}

#[test]
fn no_stubs() {
    let words = ["todo", "unimplemented", "dbg"].map(|word| format!("{word}!("));
    for (place, text) in sources() {
        for word in &words {
            assert!(!text.contains(word), "{place} has {word}…)");
        }
        assert!(!text.contains(&["#[ig", "nore"].concat()), "{place} has an ignored test");
    }
}

fn read(place: &str) -> String {
    std::fs::read_to_string(root().join(place)).unwrap_or_else(|error| panic!("{place}: {error}"))
}

/// The lines of a dependency table of a manifest, and those of `[target.….TABLE]`. Each is paired
/// with the condition, if any.
fn dependencies<'a>(manifest: &'a str, table: &str) -> Vec<(&'a str, &'a str)> {
    let mut found = Vec::new();
    let mut condition = None;
    for line in manifest.lines() {
        if let Some(header) = line.strip_prefix('[') {
            let header = header.trim_end_matches(']');
            condition = header.strip_suffix(table).filter(|rest| rest.is_empty() || rest.ends_with('.'));
        } else if let (Some(condition), Some(name)) = (condition, line.split(['.', ' ']).next()) {
            let is_crate = !name.is_empty() && !name.starts_with('#') && !name.starts_with("rdmascope-");
            found.extend(is_crate.then_some((condition, line)));
        }
    }
    found
}

/// docs/design/dependencies.md states the purpose of each crate.
#[test]
fn each_dependency_has_a_row_in_its_page() {
    let page = read("docs/design/dependencies.md");
    let rows: BTreeSet<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let mut used = BTreeSet::new();
    for member in CRATES {
        let manifest = read(&format!("{member}/Cargo.toml"));
        let named = dependencies(&manifest, "dependencies").into_iter();
        used.extend(named.filter_map(|(_, line)| line.split(['.', ' ']).next().map(str::to_owned)));
    }
    assert!(used.len() > 40, "only {used:?}");
    assert_eq!(rows, used.iter().map(String::as_str).collect());
}

/// On Linux, pnet_datalink is built only with the feature `pnet`: capturing and listing interfaces
/// are implemented here.
#[test]
fn linux_is_built_without_pnet() {
    let manifest = read("capture-agent/Cargo.toml");
    let found = dependencies(&manifest, "dependencies");
    let pnet: Vec<_> = found.into_iter().filter(|(_, line)| line.starts_with("pnet_datalink")).collect();
    let [(linux, optional), (others, always)] = pnet[..] else { panic!("{pnet:?}") };
    assert_eq!(
        (linux, others),
        ("target.'cfg(target_os = \"linux\")'.", "target.'cfg(all(unix, not(target_os = \"linux\")))'.")
    );
    assert!(optional.contains("optional = true"), "{optional}");
    assert_eq!(always, "pnet_datalink.workspace = true");
}
