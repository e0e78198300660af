//! Cycles of files that import each other.

use super::{CRATES, sources};
use std::collections::{BTreeMap, BTreeSet};

/// The path of a module within its crate; empty for the root.
type Module = Vec<String>;

/// A file of a crate, without tests and comments.
struct File {
    place: String,
    code: String,
    uses: Vec<Use>,
}

/// A name that a `use` declaration imports.
struct Use {
    path: Vec<String>,
    name: String,
    is_public: bool,
}

/// The files of a crate by module.
struct Files(BTreeMap<Module, File>);

impl Files {
    fn of(member: &str, sources: &[(String, String)]) -> Files {
        let mut files = BTreeMap::new();
        for (place, text) in sources {
            let place = place.replace('\\', "/");
            let Some(path) = place.strip_prefix(&format!("{member}/src/")) else { continue };
            let mut module: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
            let is_module_root = matches!(module.last().map(String::as_str), Some("mod" | "lib" | "main"));
            module.truncate(module.len() - usize::from(is_module_root));
            if !module.iter().any(|name| name == "tests") {
                let code = code(text);
                files.insert(module, File { uses: uses(&code), place, code });
            }
        }
        assert!(files.len() > 2, "only {} files in {member}", files.len());
        Files(files)
    }

    /// The module that defines the item at `path`, as seen from `from`. Follows at most `depth`
    /// re-exports.
    fn find(&self, from: &[String], path: &[String], depth: usize) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        let base = match first.as_str() {
            "crate" => &[],
            "self" => from,
            "super" => &from[..from.len().checked_sub(1)?],
            _ => return self.named(from, path, depth),
        };
        if rest.first().is_some_and(|name| name == "super") {
            return self.find(base, rest, depth);
        }
        self.named(base, rest, depth).or_else(|| Some(base.to_vec()))
    }

    /// The same for a path that begins with a child of `module`, or with a name that it imports.
    fn named(&self, module: &[String], path: &[String], depth: usize) -> Option<Module> {
        let (first, rest) = path.split_first()?;
        let child = [module, std::slice::from_ref(first)].concat();
        if self.0.contains_key(&child) {
            return self.named(&child, rest, depth).or(Some(child));
        }
        let used = self.0.get(module)?.uses.iter().find(|used| used.name == *first)?;
        self.find(module, &[&used.path, rest].concat(), depth.checked_sub(1)?)
    }

    /// The files that each file imports. `mod` and `pub use` are not imports, so that a module may
    /// re-export its children. An import of a module by its descendant does not count either,
    /// because the descendant is part of it.
    fn imports(&self) -> BTreeMap<String, BTreeSet<String>> {
        let of_file = |(module, file): (&Module, &File)| {
            let own = file.uses.iter().filter(|used| !used.is_public).map(|used| used.path.clone());
            let found = own.chain(paths(&file.code)).filter_map(|path| self.find(module, &path, 8));
            let others = found.filter(|other| !module.starts_with(other));
            (file.place.clone(), others.map(|other| self.0[&other].place.clone()).collect())
        };
        self.0.iter().map(of_file).collect()
    }
}

/// The code of a file without its tests and comments.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            code.extend([line, "\n"]);
        } else if lines.next().is_some_and(|item| item.ends_with('{')) {
            lines.find(|line| *line == "}");
        }
    }
    code
}

/// The `use` statements of a file, with whether they are public.
fn use_statements(code: &str) -> impl Iterator<Item = (&str, bool)> {
    code.match_indices("use ").filter_map(|(at, _)| {
        let before = code[..at].rsplit('\n').next().unwrap_or_default().trim();
        let is_use = before.is_empty() || (before.starts_with("pub") && !before.contains(' '));
        let tree = code[at + 4..].split(';').next().unwrap_or_default();
        // A line of a text may begin with the word too.
        let is_path = |c: char| c.is_alphanumeric() || c.is_whitespace() || "_:{},*".contains(c);
        (is_use && tree.chars().all(is_path)).then_some((tree, !before.is_empty()))
    })
}

fn uses(code: &str) -> Vec<Use> {
    let mut found = Vec::new();
    for (tree, is_public) in use_statements(code) {
        expand("", tree, &mut |path, name| {
            let path = path.split("::").map(str::to_owned).collect();
            found.push(Use { path, name: name.to_owned(), is_public });
        });
    }
    found
}

/// Calls `take` with each path and name of an import tree below `above`.
fn expand(above: &str, tree: &str, take: &mut impl FnMut(&str, &str)) {
    let tree = tree.trim();
    if let Some((path, inner)) = tree.split_once('{') {
        let inner = inner.strip_suffix('}').expect("a tree of imports ends with a brace");
        let mut depth = 0;
        let branches = inner.split(|character| {
            depth += i32::from(character == '{') - i32::from(character == '}');
            character == ',' && depth == 0
        });
        branches.for_each(|branch| expand(&format!("{above}{path}"), branch, take));
    } else if !tree.is_empty() {
        let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
        let path = format!("{above}{path}");
        let path = path.strip_suffix("::self").unwrap_or(&path);
        let name = if alias.is_empty() { path.rsplit("::").next().unwrap_or_default() } else { alias };
        take(path, name);
    }
}

/// The paths in the code of a file, outside of `use` declarations.
fn paths(code: &str) -> impl Iterator<Item = Vec<String>> + '_ {
    let (mut outside, mut rest) = (Vec::new(), code);
    for (tree, _) in use_statements(code) {
        let (before, after) = rest.split_once(tree).expect("the statements are in order");
        outside.push(before);
        rest = after;
    }
    outside.push(rest);
    let is_of_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let words = outside.into_iter().flat_map(move |code| code.split(move |c| !is_of_path(c)));
    let paths: BTreeSet<&str> = words.filter(|word| word.contains("::") && !word.starts_with(':')).collect();
    paths.into_iter().map(|path| path.split("::").map(str::to_owned).collect())
}

/// The groups of files that import each other, directly or indirectly.
fn circles(imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<BTreeSet<String>> {
    let reached = |from: &String| {
        let mut reached = BTreeSet::new();
        let mut next = vec![from];
        while let Some(file) = next.pop() {
            next.extend(imports[file].iter().filter(|other| reached.insert((*other).clone())));
        }
        reached
    };
    let reached: BTreeMap<&String, BTreeSet<String>> =
        imports.keys().map(|file| (file, reached(file))).collect();
    let in_cycles = reached.keys().filter(|file| reached[**file].contains(**file));
    let around = |file: &&String| {
        reached[*file].iter().filter(|other| reached[*other].contains(*file)).cloned().collect()
    };
    in_cycles.map(around).collect()
}

/// The accepted cycles, each with its reason.
const CYCLES: [(&str, &[&str]); 16] = [
    (
        "a table makes headers from rows, and reads those of a CM message by its fields",
        &[
            "wire/src/cm.rs",
            "wire/src/cm/connect.rs",
            "wire/src/cm/reject.rs",
            "wire/src/mad.rs",
            "wire/src/rdma_cm_ip.rs",
            "wire/src/table.rs",
        ],
    ),
    ("a language contains the names of its constants", &["xdr/src/language.rs", "xdr/src/naming.rs"]),
    (
        "records of new flows are held, and returned to the protocol that they came from",
        &["dissector/src/engine/cm.rs", "dissector/src/engine/iwarp.rs", "dissector/src/engine/newcomers.rs"],
    ),
    (
        "a transaction holds its exchange, and an exchange names the parts of a transaction",
        &["dissector/src/exchange.rs", "dissector/src/transaction.rs"],
    ),
    (
        "a tunnel carries frames",
        &["dissector/src/frame/link.rs", "dissector/src/frame/network.rs", "dissector/src/frame/tunnel.rs"],
    ),
    (
        "framing searches for FPDUs by the CRC that it has learned",
        &["dissector/src/iwarp/framing.rs", "dissector/src/iwarp/search.rs"],
    ),
    (
        "an open transaction holds its kept bytes",
        &["dissector/src/rpcrdma/transcript.rs", "dissector/src/rpcrdma/open.rs"],
    ),
    (
        "the rows of each version are of one type, and one function finds the row of any version",
        &[
            "dissector/src/ulb/nfs2.rs",
            "dissector/src/ulb/nfs3.rs",
            "dissector/src/ulb/nfs4/callback.rs",
            "dissector/src/ulb/nfs4.rs",
            "dissector/src/ulb/nfs4/operations.rs",
            "dissector/src/ulb/nfsacl.rs",
            "dissector/src/ulb/rows.rs",
        ],
    ),
    (
        "a walk notes facts about state, and a walk reads them",
        &["dissector/src/ulb/state.rs", "dissector/src/ulb/walk.rs"],
    ),
    (
        "both are halves of one state machine",
        &["peer/src/endpoint/command.rs", "peer/src/endpoint/management.rs"],
    ),
    (
        "an export answers by its procedures, and these act on the export",
        &["peer/src/nfs3/export.rs", "peer/src/nfs3/procedures.rs"],
    ),
    (
        "a comparison of replies includes directories and chunks",
        &["peer/src/replay/compare.rs", "peer/src/replay/conveyance.rs", "peer/src/replay/directory.rs"],
    ),
    (
        "a step is an enum, and its variants share types",
        &["peer/src/scenario/pattern.rs", "peer/src/scenario/response.rs", "peer/src/scenario/step.rs"],
    ),
    (
        "an event is parsed from the fields of a line",
        &[
            "capture-agent/src/trace/event.rs",
            "capture-agent/src/trace/fields.rs",
            "capture-agent/src/trace/line.rs",
        ],
    ),
    (
        "a page documents Parquet, and a Parquet schema contains the text of the page",
        &["present/src/column/docs.rs", "present/src/column/parquet.rs"],
    ),
    (
        "iWARP is one of the headers, and both have the same consumer data",
        &["present/src/fields/headers.rs", "present/src/fields/iwarp.rs"],
    ),
];

#[test]
fn only_listed_files_form_cycles() {
    let sources = sources();
    let found: Vec<_> =
        CRATES.iter().flat_map(|member| circles(&Files::of(member, &sources).imports())).collect();
    let listed = CYCLES.map(|(_, files)| files.iter().map(|file| (*file).to_owned()).collect());
    for cycle in &found {
        assert!(listed.contains(cycle), "these files import each other in a cycle: {cycle:#?}");
    }
    for cycle in &listed {
        assert!(found.contains(cycle), "remove this entry from the list, it is no cycle: {cycle:#?}");
    }
}

#[test]
fn imports_are_resolved_through_reexports() {
    let files = [
        ("", "pub use a::One;", ""),
        ("a", "mod b; pub use b::One; use crate::c::{self, d::Two as Other}; fn f() { c::g() }", "c c::d"),
        ("a::b", "use super::Other; use crate::One; TESTS", "c::d"),
        ("c", "pub(crate) mod d; fn g() -> super::One { d::h() } // crate::a", "a::b c::d"),
        ("c::d", "use super::g; const TEXT: &str = \"to\nuse large {segments.\"; ", ""),
    ];
    let of_file = |(module, text, _): (&str, &str, &str)| {
        let code = code(
            &text.replace("; ", ";\n").replace("TESTS", "#[cfg(test)]\nmod tests {\n    use crate::c;\n}\n"),
        );
        let names = module.split("::").filter(|name| !name.is_empty()).map(str::to_owned);
        (names.collect(), File { place: module.to_owned(), uses: uses(&code), code })
    };
    let imports = Files(files.map(of_file).into()).imports();
    for (module, _, expected) in files {
        let expected = expected.split_whitespace().map(str::to_owned).collect();
        assert_eq!(imports[module], expected, "{module}");
    }
}
