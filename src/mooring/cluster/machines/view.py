"""The read-only view of this host's files that is the root of a machine with a kernel of its own.

JAIL/root is the host's file system, read-only, with an empty directory in the place of each hidden one;
JAIL/share is what the host gives the machine. Standard library only: launchers import it.
"""

from __future__ import annotations

import os
import sys

from mooring.node.supervisor import syscalls

FIRST_PROCESS = "/sys/first-process"
"""Out of sight as soon as the guest has mounted its own /sys."""


def make_view(jail: str, share: str, hidden: list[str], first_process: str) -> None:
    """Mounts what the guest may see below `jail`; the calling process has a mount namespace of its own.
    `first_process` is a Python program."""
    root = f"{jail}/root"
    syscalls.mount("none", "/", "", syscalls.MS_REC | syscalls.MS_SLAVE)
    syscalls.mount("none", jail, "tmpfs", 0, "size=64k,mode=700")
    for name in ("root", "share"):
        os.mkdir(f"{jail}/{name}")
    syscalls.bind("/", root, recursive=True)
    for directory in hidden:
        syscalls.mount("none", f"{root}{directory}", "tmpfs", 0, "size=4k,mode=755")
    for system in ("proc", "sys", "dev"):
        syscalls.mount("none", f"{root}/{system}", "tmpfs", 0, "size=16k,mode=755")
    with open(f"{root}{FIRST_PROCESS}", "w") as program:
        program.write(f"#!{sys.executable} -IS\n{first_process}\n")
        os.chmod(program.fileno(), 0o700)
    syscalls.make_tree_read_only(root)
    syscalls.bind(share, f"{jail}/share")
