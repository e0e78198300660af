"""Captures of NFS over RDMA of many nodes: exported on Spark by the program rdmascope, and asked as one.

docs/fleet.md says how it is used.
"""


class Refused(Exception):
    """What was asked for makes no sense: one line, and exit status 2."""
