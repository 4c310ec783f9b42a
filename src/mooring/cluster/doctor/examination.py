"""Looks at this machine for `diagnosis`.

It changes nothing: namespaces that it makes end with the program that it starts in them. Blocks, for up to a
quarter of a minute where KVM has not been tried since this host booted.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

from mooring.apiserver.process import HOST
from mooring.cluster.doctor.diagnosis import FOR_DISKS, REQUIRED, USEFUL, Facts
from mooring.cluster.holding import USUAL_PORT
from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.machines import kinds
from mooring.cluster.processes import load
from mooring.linear_patterns import LibraryMissing, require
from mooring.mounts import loop
from mooring.mounts.commands import SEARCH_PATH

PATIENCE_S = 10.0
_DELETED = " (deleted)"


def examine(layout: Layout, *, machines: bool = True) -> Facts:
    """The facts of this machine, for the one who asks; with `machines`, also which kinds it can have."""
    root = os.geteuid() == 0
    place = next(path for path in (layout.root, *layout.root.parents) if path.exists())
    up = load(layout.run / "up.json")
    return Facts(
        root=root,
        missing=frozenset(
            name for name in (*REQUIRED, *FOR_DISKS, *USEFUL) if shutil.which(name, path=SEARCH_PATH) is None
        ),
        patterns=_patterns(),
        namespaces=_namespaces(root=root),
        loop=_loop() if root else "",
        kinds={kind: _lacking(kind) for kind in kinds.CHECKS if kind != kinds.NAMESPACE}
        if machines and root
        else {},
        data=str(layout.root),
        writable=os.access(place, os.W_OK | os.X_OK),
        free_bytes=shutil.disk_usage(place).free,
        running=up.pid if up is not None else 0,
        left=_left(layout) if up is None else (),
        lost_devices=_lost_devices(),
        port_taken=_is_taken(USUAL_PORT),
    )


def _patterns() -> str:
    try:
        require()
    except LibraryMissing as error:
        return str(error.__cause__)
    return ""


def _namespaces(*, root: bool) -> str:
    """Why no namespaces can be made, as nodes have them; "" if they can."""
    flags = ["--net", "--pid", "--fork"] if root else ["--user", "--map-root-user"]
    command = ["unshare", *flags, "--mount", "--propagation", "private", "true"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    except FileNotFoundError:
        return ""  # it is said that unshare is missing
    except subprocess.TimeoutExpired:
        return f"unshare has not ended after {PATIENCE_S:.0f} s"
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["unshare failed"])[0][:200]


def _loop() -> str:
    try:
        os.close(os.open("/dev/loop-control", os.O_RDWR | os.O_CLOEXEC))
    except OSError as error:
        return f"/dev/loop-control: {error.strerror}"
    return ""


def _lacking(kind: str) -> str:
    try:
        kinds.check((kind,))
    except ClusterError as error:
        return str(error)
    return ""


def _left(layout: Layout) -> list[str]:
    """What of an earlier run is still here: processes, mounts and devices."""
    parts = [record.stem for record in sorted(layout.run.glob("*.json")) if load(record) is not None]
    mounts = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    below = [path for path in mounts if path.startswith(f"{layout.root}/")]
    devices = [device for device, file in _devices() if file.startswith(f"{layout.root}/")]
    return [
        *(f"process {part}" for part in parts),
        *(f"mount {path}" for path in below),
        *(f"device {device}" for device in devices),
    ]


def _devices() -> list[tuple[str, str]]:
    """Loop devices and the files behind them."""
    names = sorted(entry for entry in os.listdir("/sys/block") if entry.startswith("loop"))
    found = [(f"/dev/{name}", loop.backing_file(f"/dev/{name}")) for name in names]
    return [(device, file) for device, file in found if file is not None]


def _lost_devices() -> list[str]:
    return [device for device, file in _devices() if file.endswith(_DELETED)]


def _is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False
