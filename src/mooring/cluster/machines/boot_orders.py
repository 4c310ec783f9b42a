"""What a machine with a kernel of its own is given at each boot: the disk with its state, and its orders."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mooring.cluster.layout import ClusterError
from mooring.cluster.machines import cgroup
from mooring.cluster.machines.guest_program import program
from mooring.cluster.machines.interface import Boot
from mooring.cluster.machines.network import MachineNetwork
from mooring.volumes.plugins.disk_devices import PluggedDevices

STATE_BYTES = 4 << 30
RUN = Path("/run/mooring")


@dataclass(frozen=True)
class Guest:
    """What a machine is to do: its programs (the first is the agent), their environment, where the agent
    keeps its files, and what of the host it must not see."""

    programs: list[list[str]]
    environ: Mapping[str, str]
    directory: Path
    files: Mapping[str, Path]
    """Files of the host that are copied to paths in the machine, at each boot."""
    hidden: list[Path]


@dataclass(frozen=True)
class Fittings:
    """What the machines of a kind have inside: how the host's share is mounted, the serial line's device, the
    directory with its kernel's modules, the device with its state, the interface of its cable."""

    share: tuple[str, str, str]
    """Type, source and options, as mount(2) takes them."""
    serial: str
    modules: str
    state: str
    interface: str

    def first_process(self) -> bytes:
        """The Python program that is the machine's first process."""
        return program("guest.first_process", *self.share, self.serial, self.modules).encode()


def write_orders(
    share: Path, name: str, guest: Guest, boot: Boot, fittings: Fittings, network: MachineNetwork | None
) -> None:
    """Writes `boot.json` (`guest.first_process.BootOrders`). Blocks."""
    orders = {
        "name": name,
        "state": fittings.state,
        "directory": str(guest.directory),
        "disks": str(PluggedDevices.known),
        "programs": guest.programs,
        "environ": {**guest.environ, **boot.environ},
        "files": {path: source.read_text() for path, source in guest.files.items()},
        "network": _wiring(fittings.interface, network),
    }
    path = share / "boot.json"
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(json.dumps(orders))


def _wiring(interface: str, network: MachineNetwork | None) -> dict[str, object] | None:
    if network is None:
        return None
    return {
        "address": str(network.address),
        "addresses": str(network.addresses),
        "interface": interface,
        "modules": ["bridge"],
    }


def run_directory(data_dir: Path) -> Path:
    """Sockets and FIFOs of a cluster's machines, by paths that are short enough for a socket's address."""
    return RUN / cgroup.cluster(data_dir)


def make_state(image: Path, size: int) -> None:
    """An ext4 file system for the machine's own files, if there is none. Blocks. Raises ClusterError."""
    if image.exists():
        return
    image.parent.mkdir(parents=True, exist_ok=True)
    draft = image.with_suffix(".new")
    with draft.open("wb") as file:
        file.truncate(size)
    command = ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", str(draft)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ClusterError(f"cannot make a machine's disk {image}: {done.stderr.strip()}")
    draft.rename(image)
