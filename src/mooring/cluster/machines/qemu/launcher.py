"""Starts a virtual machine with a read-only view of this host's files.

Run as `unshare --mount python -m mooring.cluster.machines.qemu.launcher JAIL SHARE WIRE HIDDEN… -- QEMU…`
with the first process's Python program on standard input. QEMU serves its guest the view in JAIL
(`view.make_view`), and opens all else itself, outside of it: also the serial line, so WIRE is not used here.

Standard library only.
"""

from __future__ import annotations

import os
import sys

from mooring.cluster.machines.view import make_view


def main() -> None:
    """Does not return."""
    end = sys.argv.index("--")
    (jail, share, _, *hidden), qemu = sys.argv[1:end], sys.argv[end + 1 :]
    make_view(jail, share, hidden, sys.stdin.read())
    os.execv(qemu[0], qemu)  # nosec B606 # the command line is the machine's own


if __name__ == "__main__":
    main()
