"""Starts a User-mode Linux kernel with a read-only view of this host's files.

Run as `unshare --mount python -m mooring.cluster.machines.uml.launcher JAIL SHARE WIRE HIDDEN… -- KERNEL…`
with the first process's Python program on standard input. The kernel is told to let its guest see nothing
of the host but the view in JAIL (`view.make_view`); it opens the files of its disks itself, outside of it.
WIRE is a pair of FIFOs, `wire.in` and `wire.out`: the machine's serial line, on descriptors 3 and 4.

The kernel gets a name under which no program can be found: when its guest resets, User-mode Linux starts
itself anew in the same process, where it cannot open its network any more. Without a program of that name it
ends, with status 1, and its supervisor decides.

Standard library only.
"""

from __future__ import annotations

import os
import sys

from mooring.cluster.machines.view import make_view

NO_PROGRAM = "machine-without-a-program"


def main() -> None:
    """Does not return."""
    end = sys.argv.index("--")
    (jail, share, wire, *hidden), kernel = sys.argv[1:end], sys.argv[end + 1 :]
    make_view(jail, share, hidden, sys.stdin.read())
    for number, name in ((3, "in"), (4, "out")):
        descriptor = os.open(f"{wire}/wire.{name}", os.O_RDWR)  # both ends: neither ever sees the other go
        if descriptor != number:
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.set_inheritable(number, True)
    os.execv(kernel[0], [NO_PROGRAM, *kernel[1:]])  # nosec B606 # the command line is the machine's own


if __name__ == "__main__":
    main()
