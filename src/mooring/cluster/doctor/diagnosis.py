"""What follows from the facts about a machine: what a cluster lacks there, and how that is mended. Pure.

`mend` is what `mooring up` cannot do without, as the one who asks; `look` is what some command, flag or kind
of machine lacks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from mooring.linear_patterns import CXX_PACKAGE

Level = Literal["ok", "look", "mend"]
REQUIRED: Mapping[str, str] = {
    "mount": "mount",
    "umount": "mount",
    "unshare": "util-linux",
    "nsenter": "util-linux",
}
"""Programs without which there is no node, by Debian's package."""
FOR_DISKS: Mapping[str, str] = {"blkid": "util-linux", "mkfs.ext4": "e2fsprogs", "fsck.ext4": "e2fsprogs"}
"""Programs for block devices, which only root has."""
USEFUL: Mapping[str, tuple[str, str]] = {
    "ip": ("iproute2", "pods have no network of their own"),
    "nft": ("nftables", "links cannot be cut, and the network cannot fence"),
    "mkfs.xfs": ("xfsprogs", "no volume can have the file system xfs"),
    "resize2fs": ("e2fsprogs", "file systems do not grow with their volumes"),
    "kubectl": ("", "the cluster is there, and nothing to ask it with: kubernetes.io/docs/tasks/tools"),
}
"""Programs without which something is missing, by name: the package, and what is missing."""
LEAST_BYTES = 64 * 1024**2
"""What the API server's data and the logs of an hour take."""
SCARCE_BYTES = 2 * 1024**3
_NAMED = 4


@dataclass(frozen=True, slots=True)
class Finding:
    level: Level
    what: str
    mend: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """`missing`: programs that are not there. `patterns`: why RE2 cannot be loaded, or "". `namespaces`,
    `loop`: why there are none, or "". `kinds`: why machines of a kind cannot be had, or "", by kind.
    `free_bytes`: at `data`, the data directory that is or will be. `running`: the process whose cluster is
    there. `left`: what a killed run has left there, in words. `lost_devices`: loop devices whose files are
    gone. `port_taken`: whether another program has the usual port."""

    root: bool
    missing: frozenset[str] = frozenset()
    patterns: str = ""
    namespaces: str = ""
    loop: str = ""
    kinds: Mapping[str, str] = field(default_factory=dict[str, str])
    data: str = ""
    writable: bool = True
    free_bytes: int = SCARCE_BYTES
    running: int = 0
    left: Sequence[str] = ()
    lost_devices: Sequence[str] = ()
    port_taken: bool = False


def diagnose(facts: Facts) -> list[Finding]:
    """All there is to say, in the order in which one would mend it."""
    return [
        *_user(facts),
        *_programs(facts),
        *_kernel(facts),
        *_place(facts),
        *_others(facts),
        *_machines(facts),
    ]


def _user(facts: Facts) -> Iterator[Finding]:
    if facts.root:
        yield Finding("ok", "you are root: volumes are block devices")
    else:
        what = "you are not root: volumes are directories, and --csi, --cloud and machines with a kernel are not there"
        yield Finding("look", what, "sudo mooring up")


def _programs(facts: Facts) -> Iterator[Finding]:
    required = {**REQUIRED, **(FOR_DISKS if facts.root else {})}
    absent = {name: package for name, package in required.items() if name in facts.missing}
    if absent:
        packages = " ".join(sorted(set(absent.values())))
        yield Finding("mend", f"not installed: {', '.join(absent)}", f"apt-get install {packages}")
    else:
        yield Finding("ok", "the programs that a node runs are installed")
    for name, (package, lost) in USEFUL.items():
        if name in facts.missing:
            yield Finding(
                "look", f"{name} is not installed: {lost}", f"apt-get install {package}" if package else ""
            )
    if facts.patterns:
        yield Finding(
            "mend", f"google-re2 cannot be loaded: {facts.patterns}", f"apt-get install {CXX_PACKAGE}"
        )


def _kernel(facts: Facts) -> Iterator[Finding]:
    if facts.namespaces:
        mend = (
            "in a container: run it privileged" if facts.root else "sysctl kernel.unprivileged_userns_clone=1, or "
            "kernel.apparmor_restrict_unprivileged_userns=0, or sudo"
        )  # fmt: skip
        yield Finding("mend", f"no namespaces can be made: {facts.namespaces}", mend)
    else:
        yield Finding("ok", "namespaces can be made")
    if facts.root and facts.loop:
        yield Finding(
            "mend", f"no loop device can be had: {facts.loop}", "modprobe loop; in a container: privileged"
        )
    elif facts.root:
        yield Finding("ok", "loop devices can be had")


def _place(facts: Facts) -> Iterator[Finding]:
    mib = facts.free_bytes // 1024**2
    if not facts.writable:
        yield Finding("mend", f"{facts.data} cannot be written to", "--data-dir, or sudo")
    elif facts.free_bytes < LEAST_BYTES:
        yield Finding(
            "mend", f"{facts.data} has {mib} MiB left", f"free {LEAST_BYTES // 1024**2} MiB, or --data-dir"
        )
    elif facts.free_bytes < SCARCE_BYTES:
        yield Finding(
            "look", f"{facts.data} has {mib} MiB left", "volumes are files there, as large as what is written"
        )
    else:
        yield Finding("ok", f"{facts.data} has {mib // 1024} GiB left")


def _others(facts: Facts) -> Iterator[Finding]:
    if facts.running:
        yield Finding(
            "look",
            f"a cluster runs on {facts.data} (process {facts.running})",
            "mooring status, or --data-dir",
        )
    elif facts.left:
        shown = ", ".join(facts.left[:_NAMED]) + (
            f" and {len(facts.left) - _NAMED} more" if len(facts.left) > _NAMED else ""
        )
        yield Finding(
            "look", f"a run that was killed has left: {shown}", "mooring down, or the next mooring up"
        )
    if facts.lost_devices:
        shown = " ".join(facts.lost_devices[:_NAMED])
        yield Finding("look", f"loop devices whose files are gone: {shown}", f"losetup --detach {shown}")
    if facts.port_taken and not facts.running:
        yield Finding(
            "look", "port 7443 is in use by another program", "mooring up takes another one, or --port"
        )


def _machines(facts: Facts) -> Iterator[Finding]:
    for kind, reason in facts.kinds.items():
        if reason:
            yield Finding("look", f"--machines {kind}: not here", reason)
        else:
            yield Finding("ok", f"--machines {kind}")
