"""Removes everything that a cluster left on this machine: processes, mounts, loop devices, its part of the
pod network, rules that cut links.

Works from what is written down and from what the kernel says, so also after a `kill -9` of everything.
Touches only what provably belongs to the data directory: processes by pid and start time, loop devices by
their backing file.
"""

from __future__ import annotations

import shutil

from mooring.cloud.devices import LoopDevices
from mooring.cluster.layout import Layout
from mooring.cluster.machines import cgroup
from mooring.cluster.machines.boot_orders import run_directory
from mooring.cluster.machines.links import heal_all
from mooring.cluster.machines.network import unplug
from mooring.cluster.machines.node_machine import take_devices
from mooring.cluster.processes import Running, end, kill, load
from mooring.cluster.propagation import clear
from mooring.cluster.storage import addresses, servers
from mooring.mounts.machine_ports import SOCKET
from mooring.node.network import release
from mooring.volumes.plugins.disk_array import DiskArray


def sweep(layout: Layout) -> list[str]:
    """Ends and removes everything; returns what it found, in words. Blocks."""
    found: list[str] = []
    layout.control.unlink(missing_ok=True)  # what finds it takes the cluster for running
    for record in sorted(layout.run.glob("*.json")):
        if record.stem == "up":
            continue
        running = load(record)
        if running is not None:
            found.append(f"{record.stem} (process {running.pid})")
            _end(record.stem, running)
        record.unlink(missing_ok=True)
    return (
        found
        + _end_machines(layout)
        + _clear_nodes(layout)
        + _take_all_devices(layout)
        + _take_volumes(layout)
        + _release_networks(layout)
        + [f"cuts of the links of {machine}" for machine in heal_all(layout.root)]
    )


def _end_machines(layout: Layout) -> list[str]:
    """What is left of machines, by their cgroups; their sockets, and where disks were plugged in."""
    found = [f"machine of {name}" for name in cgroup.remove_empty(layout.root)]
    shutil.rmtree(run_directory(layout.root), ignore_errors=True)
    of_cloud = layout.cloud.glob(f"instances/*/dev/{SOCKET}")
    for port in (*(layout.array / "nodes").glob(f"*/{SOCKET}"), *of_cloud):
        port.unlink(missing_ok=True)
    return found


def _clear_nodes(layout: Layout) -> list[str]:
    """What CSI drivers have mounted for nodes, on the host."""
    return [f"mount {path}" for root in sorted(layout.nodes.glob("*")) for path in clear(root)]


def _release_networks(layout: Layout) -> list[str]:
    """The pods' links have gone with their processes; what is left is each node's part of the addresses, and
    the taps of machines; and the addresses of storage servers."""
    roots = sorted(path for path in layout.nodes.glob("*") if path.is_dir())
    taps = [f"tap of {root.name}" for root in roots if unplug(root)]
    taps += [
        f"address of storage server {at.name}"
        for at in servers.directories(layout)
        if addresses.take_back(at)
    ]
    pods = [f"pod network of {root.name}" for root in roots if release(root)]
    return pods + [f"network of machine {root.name}" for root in roots if unplug(root)] + taps


def _take_all_devices(layout: Layout) -> list[str]:
    """All nodes are without power now; their next boot gives the devices back."""
    array = DiskArray(layout.array)
    nodes = {node for disk in array.list().values() for node in disk.nodes}
    found = [
        f"device {device} of {node}" for node in sorted(nodes) for device in array.devices(node).values()
    ]
    for node in sorted(nodes):
        take_devices(array, node)
    return found


def _take_volumes(layout: Layout) -> list[str]:
    """The devices of the cloud's instances; the cloud's next start gives them back."""
    gone, _ = LoopDevices(layout.cloud).release()
    return [f"device {device} of the cloud" for device in gone]


def _end(part: str, running: Running) -> None:
    if part.startswith("machine-"):
        # The machine's first process dies with its parent, and everything in the machine with it.
        first = running.children()
        kill(running)
        for init in first:
            kill(init)
    else:
        end(running)
