"""Verdicts of `rdmascope peer inject --format jsonl`.

    verdicts.py FILE.jsonl                      a line a scenario: section, scenario, level, verdict
    verdicts.py FILE.jsonl SCENARIOS INJECTED   the same, and where `rdmascope check` on what
                                                crossed does not name exactly what the scenario says: +rule for more, -rule for less
    verdicts.py --page NAME=FILE.jsonl ... --clients NAME=FILE.jsonl ...
                                                docs/verdicts.md: a column a server, and a column a client

Where a scenario's verdict is chance (CHANCE), a line has all that it may be, and nothing of what check found; what it was this time is a warning
on standard error.
"""

import json
import sys
import tomllib


ONE_OF_TWO = "The server answers ERR_CHUNK and ends the connection at once; which of the two arrives first is chance."
EARLY = "The server may end the connection before it has seen the RTU: with a REJ then, and not with a DREQ."
NEXT = "Linux gives the call up and calls next, or ends the connection and makes it again on a new one: runs of one kernel differ. As its source reads: the header's error is put into the call's status, and the call ends with no bytes received. If the sender of the call sets that status anew, the error is lost; the call is sent again, and xprtrdma sends no call twice on one connection."
# Scenarios that race: each verdict that there may be, and why. What is found in the capture differs with it.
CHANCE = {
    "credits-ignored": (
        ("conforms", "violates"),
        "Behind the RNR NAK Linux 6.1 at times goes on repeating its replies to the queue pair that is gone, and answers neither DREQ nor REQ for 20 seconds.",
    ),
    "loss-one-in-twenty": (("conforms",), "Which packets are lost depends on how many cross, and so what is found of it."),
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
# Where that was seen of one series alone, by the name of its file.
CHANCE_OF = {"credits-ignored": "inject-6.1.jsonl"}
ALIVE = {
    "on-this-connection": "afterwards NULL was answered on this connection",
    "on-a-new-connection": "afterwards NULL was answered on a new connection",
    "gone": "afterwards NULL was not answered",
    "not-asked": "afterwards NULL was not called",
}
# Of a client it is what it called next.
CALLS_AGAIN = {
    "on-this-connection": "afterwards it went on, on this connection",
    "on-a-new-connection": "afterwards it went on, on a new connection",
    "gone": "afterwards it did not call again",
    "not-asked": "afterwards nothing was waited for",
}
MEANINGS = (
    ("conforms", "What the section allows."),
    ("violates", "What the section forbids; or a server does not answer NULL any longer, or a client calls no more."),
    ("tolerated", "Something that is in neither list of the scenario."),
    ("lost connection", "The connection was lost, which is in neither list; or it should have survived."),
    ("no answer", "Nothing came, which is in neither list; or it could not be reached."),
    ("not applicable", "What the scenario needs is not so, or a step before the one that is judged did not succeed: it says nothing about the requirement."),
)


def scenarios(path):
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    rows = [line for line in lines if line["type"] == "peer_scenario"]
    for row in rows:
        # What can crash a server was not run.
        row["verdict"] = (row["verdict"] or "withheld").replace("_", "-")
        is_of = path.endswith(CHANCE_OF.get(row["scenario"], ""))
        row["chance"] = is_of and row["verdict"] in CHANCE.get(row["scenario"], ((), ""))[0]
    return rows


def verdicts(row):
    """The verdict; where it is chance, all that it may be."""
    return CHANCE[row["scenario"]][0] if row["chance"] else (row["verdict"],)


# What is found of a connection that this side forgot, or flooded, depends on how long it was watched.
UNTIMELY = {"acknowledgement-missing", "connection-broken"}
# What is found, or not, because of what a server has sent by then. A reply stands behind RDMA Writes that are refused: it leaves before the NAK comes,
# with invalidate, or it does not. A server that gets no reply to its callback makes another, or it does not.
RACING = {
    "callback-unanswered": {"credit-first-reply"},
    "reply-chunk-too-small-again": {"invalidation-sender-flag"},
    "write-handle-unknown": {"invalidation-sender-flag"},
    "write-without-right": {"invalidation-sender-flag"},
}


def differences(name, folder, injected):
    """What `rdmascope check` found beside what the scenario's file says, and what it did not. Advice is no fault, and what is inconclusive is none for
    sure, so these may come in addition."""
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
    """As a cell of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def table(targets):
    """A row a scenario, a column a target."""
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
    """What they did where that is not what is allowed."""
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
            # Where nothing was observed the reason says why.
            told = [*other["observed"], *([other["reason"]] if other["reason"] else [])]
            print(f"- {name}: {other['verdict'].replace('-', ' ')}: {'; '.join(told)}; {alive[other['alive'] or 'not-asked']}.")
        print()


def page(servers, clients):
    print(f"# What real servers{' and clients' if clients else ''} do\n")
    server = "the kernel's NFS server" + (" and its client" if clients else "")
    print(f"Made by `tests/lab/run --write`, which injects every scenario of [scenarios.md](scenarios.md) into {server} over soft-RoCE.")
    print("A verdict is about one requirement. Scenarios that may crash an end are among them: the ends are guests, and one that is gone is booted anew.")
    print("What `rdmascope check` finds in the capture of each run against a server is held to what the scenario says it injects, and differences are noted in")
    print("[tests/lab/verdicts](../tests/lab/verdicts). What looks like a fault of the kernel is in [findings](findings/index.md).\n")
    print("| verdict | what the server or client did |")
    print("|---|---|")
    for verdict, meaning in MEANINGS:
        print(f"| {'**violates**' if verdict == 'violates' else verdict} | {meaning} |")
    print("\nThe lists are those of the scenario: what the section allows, and what it forbids. Beside SHOULD a reaction that is in neither departs from")
    print("the recommendation.\n")
    print("## Linux as server\n")
    table(servers)
    print("\n### What they did instead\n")
    instead(servers, ALIVE)
    if clients:
        print("## Linux as client\n")
        print("The kernel's NFSv3 client mounts the export of `rdmascope peer serve --scenario`, lists, writes and reads. Every call is answered rightly but one.\n")
        table(clients)
        print("\n### What they did instead\n")
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
            print("by chance:", row["scenario"], row["verdict"], *found, file=sys.stderr)
            found = [""] * len(found)
        print(row["section"], row["scenario"], row["level"], " or ".join(verdicts(row)), *found, sep="\t")
