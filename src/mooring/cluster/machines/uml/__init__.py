"""A machine that is a User-mode Linux: a kernel of its own, as a process of this host; no virtualization is
needed.

`machine` is the machine; `launcher` starts its kernel with a read-only view of this host; `mconsole` speaks
to the kernel, `wire` to its first process (`mooring.cluster.machines.guest`).
"""
