"""Captures of NFS over RDMA of many nodes: exported on Spark by the program rdmascope, and asked as one.

docs/fleet.md says how it is used.
"""
