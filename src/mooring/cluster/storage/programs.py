"""The programs that storage servers need, and the Debian packages that have them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines.uml import kernel
from mooring.cluster.storage.record import Kind

ENVIRON: Mapping[str, str] = {
    "PATH": os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin")),
}
"""In the place of our own: daemons are in sbin, which a user's path may not have."""
PROGRAMS: Mapping[Kind, Mapping[str, str]] = {
    Kind.NFS: {
        "rpc.nfsd": "nfs-kernel-server",
        "rpc.mountd": "nfs-kernel-server",
        "nfsdcld": "nfs-kernel-server",
    },
    Kind.ISCSI: {"tgtd": "tgt", "tgtadm": "tgt", "setpriv": "util-linux"},
    Kind.NBD: {"nbdkit": "nbdkit"},
}


def check(kind: Kind) -> None:
    """Raises ClusterError, which names what is missing and how to get it. Blocks."""
    where = ENVIRON["PATH"]
    missing = {
        package for program, package in PROGRAMS[kind].items() if shutil.which(program, path=where) is None
    }
    if missing:
        raise ClusterError(
            f"`mooring storage {kind}` needs what is not installed: apt-get install {' '.join(sorted(missing))}"
        )
    if kind is Kind.NFS:
        kernel.check()
