"""Verdicts of `rdmascope peer inject --format jsonl`.

    verdicts.py FILE.jsonl                      a line for each scenario: section, scenario, level, verdict
    verdicts.py FILE.jsonl SCENARIOS INJECTED   also the rules in which `rdmascope check` on the capture
                                                differs from the scenario: +rule for more, -rule for less;
                                                +kernel-warning: the server's kernel printed a WARNING
    verdicts.py --page NAME=FILE.jsonl ... --clients NAME=FILE.jsonl ...
                                                docs/verdicts.md: a column for each server and client

If a scenario's verdict is subject to chance (CHANCE), its line has all possible verdicts and no
findings of check; the verdict of this run is a warning on standard error.
"""

import json
import os
import sys
import tomllib


ONE_OF_TWO = "The server answers ERR_CHUNK and ends the connection at once; either may arrive first."
EARLY = "The server may end the connection before it receives the RTU: with a REJ in that case, and not with a DREQ."
NEXT = "Linux gives up the call and makes the next one, or ends the connection and repeats the call on a new one; runs of one kernel differ. According to its source, the header error becomes the status of the call, which ends with no bytes received. If the sending side overwrites that status, the error is lost and the call is sent again, which xprtrdma never does on the same connection."
# Scenarios with a race: the possible verdicts, and the reason. The findings in the capture differ too.
CHANCE = {
    "credits-ignored": (
        ("conforms", "violates"),
        "After the RNR NAK, Linux 6.1 sometimes keeps retransmitting its replies to the closed queue pair, and answers neither DREQ nor REQ for 20 seconds.",
    ),
    "loss-one-in-twenty": (("conforms",), "The lost packets, and so the findings, depend on the number of packets."),
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
# Scenarios that raced on one kernel series only, by the name of its file.
CHANCE_OF = {"credits-ignored": "inject-6.1.jsonl"}
ALIVE = {
    "on-this-connection": "NULL was answered afterwards on this connection",
    "on-a-new-connection": "NULL was answered afterwards on a new connection",
    "gone": "NULL was not answered afterwards",
    "not-asked": "NULL was not called afterwards",
}
# For a client: its next call.
CALLS_AGAIN = {
    "on-this-connection": "it continued on this connection",
    "on-a-new-connection": "it continued on a new connection",
    "gone": "it made no further call",
    "not-asked": "no further call was expected",
}
MEANINGS = (
    ("conforms", "A reaction that the section allows."),
    ("violates", "A reaction that the section forbids; or a server no longer answers NULL, or a client makes no further call."),
    ("tolerated", "A reaction in neither list of the scenario."),
    ("lost connection", "The connection was lost, which is in neither list; or the connection had to survive."),
    ("no answer", "There was no reaction, which is in neither list; or the target could not be reached."),
    ("not applicable", "A condition of the scenario is not met, or a step before the judged one failed. This is no statement about the requirement."),
)


def scenarios(path):
    with open(path, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    rows = [line for line in lines if line["type"] == "peer_scenario"]
    for row in rows:
        # Destructive scenarios may not have been run.
        row["verdict"] = (row["verdict"] or "withheld").replace("_", "-")
        is_of = path.endswith(CHANCE_OF.get(row["scenario"], ""))
        row["chance"] = is_of and row["verdict"] in CHANCE.get(row["scenario"], ((), ""))[0]
    return rows


def verdicts(row):
    """The verdict, or all possible ones if it is subject to chance."""
    return CHANCE[row["scenario"]][0] if row["chance"] else (row["verdict"],)


# Findings on a connection that this side abandoned or flooded depend on the length of the capture.
UNTIMELY = {"acknowledgement-missing", "connection-broken"}
# Findings that depend on the messages that a server has sent by then. A reply follows RDMA Writes that
# are refused: it may leave, with invalidate, before the NAK arrives. A server without a reply to its
# callback may make another one. nfs-ganesha takes the call's XID, which is random, for the length of
# an RDMA Read.
RACING = {
    "callback-reply-other-xid": {"credit-beyond-request"},
    "callback-unanswered": {"credit-first-reply"},
    "read-list-discriminator": {"dma-length"},
    "reply-chunk-too-small-again": {"invalidation-sender-flag"},
    "write-handle-unknown": {"invalidation-sender-flag"},
    "write-without-right": {"invalidation-sender-flag"},
}


def differences(name, folder, injected):
    """The differences between the findings of `rdmascope check` and those that the scenario's file lists.
    Additional advice and inconclusive findings do not count."""
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
    return " ".join(kernel_warning(f"{injected}/{name}.kernel") + [f"+{rule}" for rule in sorted(found - said)] + [f"-{rule}" for rule in sorted(said - found)])


def kernel_warning(path):
    """Whether the log of the server's kernel has a WARNING. A server in user space has no such log."""
    if not os.path.exists(path):
        return []
    with open(path, encoding="utf-8", errors="replace") as file:
        return ["+kernel-warning"] if "WARNING: " in file.read() else []


def words(text):
    """As a cell of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def table(targets):
    """A row for each scenario, a column for each target."""
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
    """The reactions that are not allowed."""
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
            # Without an observation, the reason explains the verdict.
            told = [*other["observed"], *([other["reason"]] if other["reason"] else [])]
            print(f"- {name}: {other['verdict'].replace('-', ' ')}: {'; '.join(told)}; {alive[other['alive'] or 'not-asked']}.")
        print()


def page(servers, clients):
    print(f"# Verdicts on real servers{' and clients' if clients else ''}\n")
    server = "the kernel's NFS server" + (" and client" if clients else "")
    print("Generated by `tests/lab/run --write`, which runs every scenario of [scenarios.md](scenarios.md)")
    print(f"against {server} over soft-RoCE. `tests/lab/run --server ganesha` runs them against")
    print("nfs-ganesha, a server in user space. A verdict is about one requirement.")
    print("Scenarios that may crash an end are included: the ends are virtual machines, and a crashed one is")
    print("booted again. nfs-ganesha is restarted before each scenario.\n")
    print("The findings of `rdmascope check` in the capture of each run against a server are compared with")
    print("those that the scenario lists. [tests/lab/verdicts](../tests/lab/verdicts) has the differences.")
    print("Probable faults of the kernel and of nfs-ganesha are in [findings](findings/index.md).\n")
    print("| verdict | reaction of the server or client |")
    print("|---|---|")
    for verdict, meaning in MEANINGS:
        print(f"| {'**violates**' if verdict == 'violates' else verdict} | {meaning} |")
    print("\nThe lists of a scenario are the reactions that the section allows and those that it forbids. For a")
    print("SHOULD, a reaction in neither list departs from the recommendation.\n")
    print("## Servers\n")
    table(servers)
    print("\n### Other reactions\n")
    instead(servers, ALIVE)
    if clients:
        print("## Linux as client\n")
        print("The kernel's NFSv3 client mounts the export of `rdmascope peer serve --scenario`, and lists, writes")
        print("and reads. Every call but one gets the correct reply.\n")
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
            print("by chance:", row["scenario"], row["verdict"], *found, file=sys.stderr)
            found = [""] * len(found)
        print(row["section"], row["scenario"], row["level"], " or ".join(verdicts(row)), *found, sep="\t")
