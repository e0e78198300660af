#!/usr/bin/env python3
"""tests/lab/snoop.py PATH: compares the results of a capture of messages, PATH-snoop.*, with those of a
capture of packets of the same session, PATH.*: transactions, connections, findings."""

import collections
import json
import sys

PATH = sys.argv[1]

# Facts of packets: times, frames, acknowledgements, RDMA operations, and the number of the connection.
OF_PACKETS = """acknowledged capture_gap latency_ns number phases read_bytes reads waited_ns writes written_bytes frame first_frame
    time first_time missing connection""".split()
# Facts that messages lack if they are in a chunk or behind pages: whatever a reply says, the end of a
# WRITE, and paths, which come from replies.
OF_PARTS = """bytes count stable end_of_file file file_name other_file other_name result_count result_file_handle result_item
    rpc_status rpc_xid size status status_name stop failed argument_item""".split()


def read(kind):
    with open(f"{PATH}{kind}", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def compare(snooped, captured, name, differences):
    """Lists the facts that differ. A fact of a part that messages do not show may be missing."""
    if isinstance(snooped, dict) and isinstance(captured, dict):
        for key in snooped.keys() | captured.keys():
            compare(snooped.get(key), captured.get(key), key, differences)
    elif isinstance(snooped, list) and isinstance(captured, list) and len(snooped) == len(captured) and name not in OF_PACKETS:
        for one, other in zip(snooped, captured):
            compare(one, other, name, differences)
    elif snooped != captured and name not in OF_PACKETS:
        if not (name in OF_PARTS and (snooped in (None, 0, False) or name == "stop")):
            differences.append((name, snooped, captured))


def transactions(kind):
    found = {}
    for one in read(kind):
        if one["type"] == "transaction":
            key = one["xid"], one["direction"]
            assert key not in found, f"two transactions with XID {key}"
            found[key] = one
    return found


snooped, captured = transactions("-snoop.transactions"), transactions(".transactions")
assert snooped.keys() == captured.keys() and len(snooped) > 100, (len(snooped), len(captured), snooped.keys() ^ captured.keys())
differences = []
for key, one in snooped.items():
    compare(one, captured[key], "", differences)
assert not differences, differences[:5]

connections = [one for one in read("-snoop.connections") if one["type"] == "connection"]
assert all(one["origin"] == "snoop" for one in connections), connections
used = lambda kind: [one for one in read(kind) if one["type"] == "connection" and one["transactions"]]
numbers = lambda kind: sorted((one["requester"]["qpn"], one["responder"]["qpn"]) for one in used(kind))
# Packets of iWARP have no queue pair numbers.
if used(".connections")[0]["requester"]["qpn"]:
    assert numbers("-snoop.connections") == numbers(".connections"), (numbers("-snoop.connections"), numbers(".connections"))


def rules(kind, certain):
    found = (one for one in read(kind) if one["type"] == "finding" and (one["verdict"] != "inconclusive") == certain)
    return collections.Counter(one["rule"] for one in found)


# Nothing is found in messages that is not found in packets. The parameters of a connection are unknown, and
# rules about them are inconclusive. Advice on times and registrations rests on RDMA operations.
certain, seen = rules("-snoop.findings", True), rules(".findings", True)
assert not certain - seen, (certain, seen)
lacking = {rule for rule in seen - certain if not rule.startswith("advice-")}
assert lacking <= rules("-snoop.findings", False).keys(), lacking
partial = sum(one["stop"] is not None for one in snooped.values())
print(f"{PATH.split('/')[-1]}: {len(snooped)} transactions on {len(connections)} connections, as in the packets; {partial} with a part that messages do not show")
