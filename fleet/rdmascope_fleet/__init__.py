"""NFS over RDMA captures of many nodes: exported on Spark by rdmascope, and queried as one dataset.

docs/fleet.md describes its use.
"""


class Refused(Exception):
    """An invalid request: reported in one line, with exit status 2."""
