#!/usr/bin/env python3
"""Runs all mutations of some modules in one binary, for tests/mutants --at-once.

Copies the project to target/at-once/tree, rewrites the modules (src/main.rs), leaves out mutations that do not compile,
records the sites that each test reaches, and runs for each mutation the tests that reach it, cheapest first, until one fails.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
PROJECT = HERE.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", PROJECT / "target"))
WORK = TARGET / "at-once"
TREE = WORK / "tree"
CRATES = {"wire": "rdmascope-wire", "dissector": "rdmascope-dissector", "conformance": "rdmascope-conformance"}

options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
options.add_argument("paths", nargs="+", help="modules: files or folders of wire/src, dissector/src, conformance/src")
options.add_argument("--tests", default="conformance", help="comma-separated test targets of rdmascope-tests")
options.add_argument("--longest", type=float, default=0.5, help="the most CPU seconds of a test that is used")
options.add_argument("--budget", type=float, default=8, help="CPU seconds for the tests of one mutation")
options.add_argument("--jobs", type=int, default=os.cpu_count())
options.add_argument("--just", default="", help="test only the compiled files with these path prefixes")
options.add_argument("--only", help="file of mutations to test: the end of each line names one in the form of the output")
asked = options.parse_args()


def sources(path):
    """The Rust sources of a module, without tests and without the crate root, which declares `mutant` here."""
    whole = PROJECT / path
    files = sorted(whole.rglob("*.rs")) if whole.is_dir() else [whole]
    return [str(file.relative_to(PROJECT)) for file in files if file.name not in ("lib.rs", "tests.rs") and "tests" not in file.parent.parts]


def copy(files):
    listed = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=PROJECT, capture_output=True, check=True)
    roots = {f"{file.split('/')[0]}/src/lib.rs" for file in files}
    for name in filter(None, listed.stdout.decode().split("\0")):
        source, to = PROJECT / name, TREE / name
        if not source.is_file():
            continue
        to.parent.mkdir(parents=True, exist_ok=True)
        if name in roots:
            write(to, source.read_text() + "\nextern crate std as std_of_mutants;\nmod mutant;\n")
            write(to.parent / "mutant.rs", (HERE / "switch.rs").read_text())
        elif name in files and to.is_file() or name == "tests/Cargo.toml":
            continue
        elif not to.is_file() or (to.stat().st_mtime, to.stat().st_size) != (source.stat().st_mtime, source.stat().st_size):
            shutil.copy2(source, to)
    # No selected test needs the fuzz targets, which depend on half of the project.
    manifest = TREE / "tests/Cargo.toml"
    lines = (PROJECT / "tests/Cargo.toml").read_text().splitlines(keepends=True)
    write(manifest, "".join(line for line in lines if not line.startswith("rdmascope-fuzz-targets")))


def write(path, text):
    """Writes a file if its content changes, because cargo compares modification times."""
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


def rewrite(files, without):
    """Rewrites the modules and returns the mutations."""
    changes = []
    write(WORK / "without", "".join(f"{number}\n" for number in sorted(without)))
    told = subprocess.run([TOOL, PROJECT, TREE, WORK / "without", *files], capture_output=True, text=True, check=True)
    for line in told.stdout.splitlines():
        number, site, path, at, start, end, first, last, what = line.split("\t")
        changes.append((int(number), int(site), path, int(at), int(start), int(end), int(first), int(last), what))
    return changes


def cargo(*arguments):
    environment = dict(os.environ, RUSTFLAGS="--cap-lints allow", CARGO_TARGET_DIR=str(WORK / "target"), CARGO_PROFILE_DEV_DEBUG="0", CARGO_INCREMENTAL="1")
    ran = subprocess.run(["cargo", *arguments, "--message-format=json"], cwd=TREE, env=environment, capture_output=True, text=True)
    messages = [json.loads(line) for line in ran.stdout.splitlines() if line.startswith("{")]
    return ran, messages


def wrong(messages, changes):
    """The mutations that compiler errors refer to."""
    found = set()
    for message in messages:
        if message.get("reason") != "compiler-message" or message["message"]["level"] != "error":
            continue
        for span in message["message"]["spans"]:
            if not span["is_primary"]:
                continue
            here = [change for change in changes if change[2] == span["file_name"]]
            begin, end = span["byte_start"], span["byte_end"]
            inside = {change[0] for change in here if change[4] <= begin and end <= change[5] + 1}
            if not inside:
                around = [change for change in here if change[6] <= begin and end <= change[7]]
                narrowest = min((change[7] - change[6] for change in around), default=0)
                inside = {change[0] for change in around if change[7] - change[6] == narrowest}
            found |= inside
    return found


def compile_all(files):
    # Mutations of the same sources that did not compile before do not compile now.
    known, digest = WORK / "known.json", hashlib.sha256("".join((PROJECT / file).read_text() for file in files).encode()).hexdigest()
    before = json.loads(known.read_text()) if known.exists() else {}
    without = set(before["without"]) if before.get("digest") == digest else set()
    packages = [word for crate in sorted({file.split("/")[0] for file in files}) for word in ("-p", CRATES[crate])]
    while True:
        changes = rewrite(files, without)
        begun = time.monotonic()
        ran, messages = cargo("check", *packages)
        print(f"{len(changes)} mutations checked in {time.monotonic() - begun:.0f} s", flush=True)
        if ran.returncode == 0:
            known.write_text(json.dumps({"digest": digest, "without": sorted(without)}))
            print(f"{len(changes)} mutations compile, {len(without)} do not", flush=True)
            return changes
        found = wrong(messages, changes)
        if not found:
            sys.exit("".join(m["message"]["rendered"] for m in messages if m.get("reason") == "compiler-message")[:4000] + ran.stderr[-2000:])
        without |= found


def tests_built():
    targets = [word for name in asked.tests.split(",") if name for word in ("--test", name)]
    parts = [["-p", "rdmascope-wire", "--lib"], ["-p", "rdmascope-dissector", "--lib", "--test", "scenarios"], ["-p", "rdmascope-conformance", "--lib"]]
    if targets:
        parts.append(["-p", "rdmascope-tests", *targets])
    built = []
    for part in parts:
        ran, messages = cargo("test", "--no-run", *part)
        if ran.returncode:
            sys.exit("".join(m["message"]["rendered"] for m in messages if m.get("reason") == "compiler-message")[:4000] + ran.stderr[-2000:])
        for message in messages:
            if message.get("reason") == "compiler-artifact" and message.get("executable") and message["profile"]["test"]:
                built.append((message["executable"], str(pathlib.Path(message["manifest_path"]).parent)))
    return built


def limits(seconds):
    """Sets limits in a child, because a mutation may make it run forever or take all memory."""
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 2))


def run(test_binary, names, mutant, seconds):
    """Whether all tests pass, and the CPU time that they took."""
    program, folder = test_binary
    environment = dict(os.environ, RDMASCOPE_MUTANT=mutant, RUST_BACKTRACE="0", CARGO_MANIFEST_DIR=folder)
    child = subprocess.Popen([program, "--exact", "--test-threads=1", *names], cwd=folder, env=environment, stdout=subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, preexec_fn=lambda: limits(seconds))
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode == 0, used.ru_utime + used.ru_stime


def reach(built):
    """Each test with its time and the sites that it reaches."""
    def one(entry):
        binary, name = entry
        passes, seconds = run(binary, [name], "", 60)
        if not passes or seconds > asked.longest:
            print(f"{'slow' if passes else 'fails'}: {name}, {seconds:.1f} s", flush=True)
            return None
        noted = WORK / "reach" / f"{abs(hash((binary[0], name)))}"
        run(binary, [name], f"reach:{noted}", 120)
        sites = {int(line) for line in noted.read_text().splitlines()} if noted.exists() else set()
        return seconds, binary, name, sites

    noted, state = WORK / "reach.json", [[*binary, os.stat(binary[0]).st_mtime_ns] for binary in built] + [asked.longest]
    if noted.exists() and (known := json.loads(noted.read_text()))["state"] == state:
        return [(seconds, tuple(binary), name, set(sites)) for seconds, binary, name, sites in known["tests"]]
    shutil.rmtree(WORK / "reach", ignore_errors=True)
    (WORK / "reach").mkdir()
    entries = []
    for binary in built:
        listed = subprocess.run([binary[0], "--list", "--format", "terse"], cwd=binary[1], capture_output=True, text=True, check=True)
        entries += [(binary, line.removesuffix(": test")) for line in listed.stdout.splitlines() if line.endswith(": test")]
    with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
        found = [each for each in pool.map(one, entries) if each]
    print(f"{len(entries)} tests, of them {len(found)} are fast and pass", flush=True)
    # A test that reaches few sites is more specific.
    found.sort(key=lambda each: each[0] * (50 + len(each[3])))
    noted.write_text(json.dumps({"state": state, "tests": [(*each[:3], sorted(each[3])) for each in found]}))
    return found


def survives(change, tests):
    spent, waiting = 0.0, [each for each in tests if change[1] in each[3]]
    if not waiting:
        return "not reached"
    # Tests of the module itself first.
    module = pathlib.PurePath(change[2]).with_suffix("").parts[2:]
    waiting.sort(key=lambda each: not any(word in each[2] for word in module if word != "mod"))
    while waiting and spent < asked.budget:
        seconds, binary, _, _ = waiting[0]
        batch, rest, expected = [], [], 0.0
        for each in waiting:
            if each[1] == binary and expected < 0.6 and len(batch) < 40:
                batch.append(each[2])
                expected += each[0]
            else:
                rest.append(each)
        waiting = rest
        passes, took = run(binary, batch, str(change[0]), expected * 10 + 5)
        if not passes:
            return None
        spent += took
    return "survives"


subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "--manifest-path", HERE / "Cargo.toml", "--target-dir", WORK / "tool"], check=True)
TOOL = WORK / "tool/release/rdmascope-mutants-at-once"
TREE.mkdir(parents=True, exist_ok=True)
files = [file for path in asked.paths for file in sources(path)]
copy(files)
changes = compile_all(files)
tests = reach(tests_built())
changes = [change for change in changes if change[2].startswith(tuple(asked.just.split(",")))]
if asked.only:
    wanted = [line.strip() for line in pathlib.Path(asked.only).read_text().splitlines() if line.strip()]
    changes = [change for change in changes if any(line.endswith(f"{change[2]}:{change[3]}: {change[8]}") for line in wanted)]
counts = {}
with concurrent.futures.ThreadPoolExecutor(asked.jobs) as pool:
    for change, outcome in zip(changes, pool.map(lambda change: survives(change, tests), changes)):
        row = counts.setdefault(change[2], [0, 0])
        row[0] += 1
        row[1] += outcome is None
        if outcome:
            print(f"{outcome}: {change[2]}:{change[3]}: {change[8]}", flush=True)
for path, (all_of_them, caught) in counts.items():
    print(f"{path}: {caught} of {all_of_them} caught, {100 * caught / all_of_them:.0f} %")
