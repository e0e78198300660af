"""Exports captures of NFS over RDMA from many nodes on Spark with rdmascope, and queries them as one dataset.

docs/fleet.md describes its use.
"""


class Refused(Exception):
    """A usage error: one line, and exit status 2."""
