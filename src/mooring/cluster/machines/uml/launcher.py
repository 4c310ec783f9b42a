"""Starts a User-mode Linux kernel with a read-only view of this host's files.

Run as `unshare --mount python -m mooring.cluster.machines.uml.launcher JAIL SHARE WIRE HIDDEN… -- KERNEL…`
with the first process's Python program on standard input; its path in the guest is `FIRST_PROCESS`.
JAIL/root is the host's file system, read-only, with an empty directory in the place of each HIDDEN one;
JAIL/share is SHARE. The kernel is told to let its guest see no other part of the host (`hostfs=JAIL`); it
opens the files of its disks itself, outside of that view. WIRE is a pair of FIFOs, `in` and `out`: the
machine's serial line, on descriptors 3 and 4.

The kernel gets a name under which no program can be found: when its guest resets, User-mode Linux starts
itself anew in the same process, where it cannot open its network any more. Without a program of that name it
ends, with status 1, and its supervisor decides.

Standard library only.
"""

from __future__ import annotations

import os
import sys

from mooring.node.supervisor import syscalls

NO_PROGRAM = "machine-without-a-program"
FIRST_PROCESS = "/sys/first-process"
"""Out of sight as soon as the guest has mounted its own /sys."""


def make_view(jail: str, share: str, hidden: list[str], first_process: str) -> None:
    """Mounts what the guest may see below `jail`."""
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


def main() -> None:
    """Does not return."""
    end = sys.argv.index("--")
    (jail, share, wire, *hidden), kernel = sys.argv[1:end], sys.argv[end + 1 :]
    make_view(jail, share, hidden, sys.stdin.read())
    for number, name in ((3, "in"), (4, "out")):
        descriptor = os.open(f"{wire}/{name}", os.O_RDWR)  # both ends: neither ever sees the other go
        if descriptor != number:
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.set_inheritable(number, True)
    os.execv(kernel[0], [NO_PROGRAM, *kernel[1:]])  # nosec B606 # the command line is the machine's own


if __name__ == "__main__":
    main()
