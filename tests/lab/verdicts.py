"""Verdicts of `rdmascope peer inject --format jsonl`.

    verdicts.py FILE.jsonl                      one line per scenario: section, scenario, level, verdict
    verdicts.py FILE.jsonl SCENARIOS INJECTED   the same, with the rules by which the findings of `rdmascope check`
                                                differ from the scenario file: +rule if additional, -rule if missing
    verdicts.py --page NAME=FILE.jsonl ... --clients NAME=FILE.jsonl ...
                                                docs/verdicts.md, with a column per server and per client

If the verdict of a scenario varies (CHANCE), its line has all possible verdicts and no findings. The verdict of this
run is then a warning on standard error.
"""

import json
import sys
import tomllib


ONE_OF_TWO = "The server answers ERR_CHUNK and ends the connection at once; which of the two arrives first varies."
EARLY = "The server may end the connection before it has seen the RTU, and then with a REJ instead of a DREQ."
NEXT = "Linux abandons the call and sends the next one, or ends the connection and sends the call again on a new one; runs of one kernel differ. According to its source, the header's error becomes the call's status, and the call ends with no bytes received. If the sender of the call then overwrites that status, the error is lost; the call is sent again, and xprtrdma sends no call twice on one connection."
# Scenarios with races: the possible verdicts, and the reason. The findings vary with them.
CHANCE = {
    "credits-ignored": (
        ("conforms", "violates"),
        "After the RNR NAK, Linux 6.1 sometimes keeps repeating its replies to the destroyed queue pair, and answers neither DREQ nor REQ for 20 seconds.",
    ),
    "loss-one-in-twenty": (("conforms",), "The lost packets depend on the number of packets, and the findings depend on the lost packets."),
    "read-chunks-overlapping": (("conforms", "lost-connection"), ONE_OF_TWO),
    "read-of-target-memory": (("conforms",), EARLY),
    "read-position-beyond": (("conforms", "lost-connection"), ONE_OF_TWO),
    "reply-done": (("tolerated", "lost-connection"), NEXT),
    "reply-error-undecodable": (("tolerated", "lost-connection"), NEXT),
    "reply-error-vers": (("conforms", "lost-connection"), NEXT),
    "reply-header-20-bytes": (("tolerated", "lost-connection"), NEXT),
    "reply-msgp": (("tolerated", "lost-connection"), NEXT),
    "reply-nomsg-unused": (("tolerated", "lost-connection"), NEXT),
    "reply-nomsg-without-chunks": (("tolerated", "lost-connection"), NEXT),
    "reply-procedure-5": (("tolerated", "lost-connection"), NEXT),
    "reply-read-chunk": (("conforms", "lost-connection"), NEXT),
    "reply-read-empty": (("conforms", "lost-connection"), NEXT),
    "reply-read-list": (("conforms", "lost-connection"), NEXT),
    "reply-read-one-byte": (("conforms", "lost-connection"), NEXT),
    "reply-read-position": (("conforms", "lost-connection"), NEXT),
    "reply-write-list-discriminator": (("conforms", "tolerated", "lost-connection"), NEXT),
    "reply-write-list-past-end": (("tolerated", "lost-connection"), NEXT),
    "write-to-target-memory": (("conforms",), EARLY),
}
# The file name of the only kernel series in which this was observed.
CHANCE_OF = {"credits-ignored": "inject-6.1.jsonl"}
ALIVE = {
    "on-this-connection": "afterwards NULL was answered on this connection",
    "on-a-new-connection": "afterwards NULL was answered on a new connection",
    "gone": "afterwards NULL was not answered",
    "not-asked": "afterwards NULL was not called",
}
# For a client, the next call.
CALLS_AGAIN = {
    "on-this-connection": "afterwards it continued on this connection",
    "on-a-new-connection": "afterwards it continued on a new connection",
    "gone": "afterwards it made no more calls",
    "not-asked": "afterwards no call was awaited",
}
MEANINGS = (
    ("conforms", "A reaction that the section allows."),
    ("violates", "A reaction that the section forbids; or a server no longer answers NULL, or a client no longer calls."),
    ("tolerated", "A reaction that is in neither list of the scenario."),
    ("lost connection", "The connection was lost, which is in neither list; or it should have survived."),
    ("no answer", "No reaction, which is in neither list; or the target could not be reached."),
    ("not applicable", "A condition of the scenario is not met, or a step before the judged one failed: the run does not test the requirement."),
)


def scenarios(path):
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    rows = [line for line in lines if line["type"] == "peer_scenario"]
    for row in rows:
        # Scenarios that may crash a server were not run.
        row["verdict"] = (row["verdict"] or "withheld").replace("_", "-")
        is_of = path.endswith(CHANCE_OF.get(row["scenario"], ""))
        row["chance"] = is_of and row["verdict"] in CHANCE.get(row["scenario"], ((), ""))[0]
    return rows


def verdicts(row):
    """The verdict, or all possible ones if it varies."""
    return CHANCE[row["scenario"]][0] if row["chance"] else (row["verdict"],)


# For a connection that this end abandoned or flooded, these findings depend on how long it was
# observed.
UNTIMELY = {"acknowledgement-missing", "connection-broken"}
# Findings that depend on the packets that a server has sent by then. After refused RDMA Writes, the
# reply may leave before the NAK arrives, with Invalidate, or not. A server that gets no reply to
# its callback may or may not send another.
RACING = {
    "callback-unanswered": {"credit-first-reply"},
    "reply-chunk-too-small-again": {"invalidation-sender-flag"},
    "write-handle-unknown": {"invalidation-sender-flag"},
    "write-without-right": {"invalidation-sender-flag"},
}


def differences(name, folder, injected):
    """The rules by which the findings of `rdmascope check` differ from the scenario file.

    Advice is no fault and inconclusive findings are uncertain, so these may be additional.
    """
    with open(f"{folder}/{name}.toml", "rb") as file:
        scenario = tomllib.load(file)
    said = set(scenario.get("check", []))
    with open(f"{injected}/{name}.findings", encoding="utf-8") as file:
        findings = [json.loads(line) for line in file]
    findings = [finding for finding in findings if finding["type"] == "finding"]
    faults = {finding["rule"] for finding in findings if finding["level"] != "advice" and finding["verdict"] == "stands"}
    found = faults | ({finding["rule"] for finding in findings} & said)
    if any("abandon" in step or step.get("send", {}).get("times", 1) > 100 for step in scenario["steps"]):
        said, found = said - UNTIMELY, found - UNTIMELY
    racing = RACING.get(name, set())
    said, found = said - racing, found - racing
    return " ".join([f"+{rule}" for rule in sorted(found - said)] + [f"-{rule}" for rule in sorted(said - found)])


def words(text):
    """Escapes a table cell."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def table(targets):
    """Prints a row per scenario, with a column per target."""
    print("| section | level | scenario | " + " | ".join(targets) + " |")
    print("|---|---|---|" + "---|" * len(targets))
    for row in next(iter(targets.values())):
        cells = []
        for rows in targets.values():
            found = [other for other in rows if other["scenario"] == row["scenario"]]
            verdict = " or ".join(verdicts(found[0])).replace("-", " ") if found else ""
            cells.append(f"**{verdict}**" if verdict == "violates" else verdict)
        print(f"| {row['section']} | {row['level']} | `{row['scenario']}`: {words(row['title'])} | " + " | ".join(cells) + " |")


def instead(targets, alive):
    """Prints the reactions that are not allowed."""
    for row in next(iter(targets.values())):
        differs = [
            (name, other)
            for name, rows in targets.items()
            for other in rows
            if other["scenario"] == row["scenario"] and set(verdicts(other)) - {"conforms", "withheld"}
        ]
        if not differs:
            continue
        print(f"**`{row['scenario']}`** ({row['section']}, {row['level']}). {row['requirement']}\n")
        print(f"- Allowed: {'; '.join(row['allowed'])}.")
        for name, other in differs:
            if other["chance"]:
                print(f"- {name}: {' or '.join(verdicts(other)).replace('-', ' ')}: {CHANCE[row['scenario']][1]}")
                continue
            # If nothing was observed, the reason explains that.
            told = [*other["observed"], *([other["reason"]] if other["reason"] else [])]
            print(f"- {name}: {other['verdict'].replace('-', ' ')}: {'; '.join(told)}; {alive[other['alive'] or 'not-asked']}.")
        print()


def page(servers, clients):
    print(f"# Reactions of real servers{' and clients' if clients else ''}\n")
    server = "the kernel's NFS server" + (" and its client" if clients else "")
    print(f"Generated by `tests/lab/run --write`, which injects every scenario of [scenarios.md](scenarios.md) into {server} over soft-RoCE.")
    print("A verdict is about one requirement. The scenarios include those that may crash an end: the ends are virtual machines, which are rebooted after a crash.")
    print("For each run against a server, the findings of `rdmascope check` are compared with the scenario; differences are recorded in")
    print("[tests/lab/verdicts](../tests/lab/verdicts). Probable faults of the kernel are in [findings](findings/index.md).\n")
    print("| verdict | reaction of the server or client |")
    print("|---|---|")
    for verdict, meaning in MEANINGS:
        print(f"| {'**violates**' if verdict == 'violates' else verdict} | {meaning} |")
    print("\nThe lists are those of the scenario: reactions that the section allows, and those that it forbids. With SHOULD, a reaction in neither list departs")
    print("from the recommendation.\n")
    print("## Linux as server\n")
    table(servers)
    print("\n### Other reactions\n")
    instead(servers, ALIVE)
    if clients:
        print("## Linux as client\n")
        print("The kernel's NFSv3 client mounts the export of `rdmascope peer serve --scenario`, lists, writes and reads. Every call except one is answered correctly.\n")
        table(clients)
        print("\n### Other reactions\n")
        instead(clients, CALLS_AGAIN)


def targets(arguments):
    return {name: scenarios(path) for name, path in (argument.split("=", 1) for argument in arguments)}


if sys.argv[1] == "--page":
    given = [*sys.argv[2:], "--clients"]
    page(targets(given[: given.index("--clients")]), targets(given[given.index("--clients") + 1 : -1]))
else:
    for row in scenarios(sys.argv[1]):
        found = [differences(row["scenario"], *sys.argv[2:])] if sys.argv[2:] else []
        if row["chance"]:
            print("varies:", row["scenario"], row["verdict"], *found, file=sys.stderr)
            found = [""] * len(found)
        print(row["section"], row["scenario"], row["level"], " or ".join(verdicts(row)), *found, sep="\t")
