"""A cluster of real nodes on this machine: `mooring up`, as its users have it, with block devices and mounts.

It needs root and some programs; `lacking` says which this machine has not.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Generator, Sequence
from pathlib import Path

from mooring.cluster import control
from mooring.cluster.doctor.diagnosis import diagnose
from mooring.cluster.doctor.examination import examine
from mooring.cluster.layout import Layout
from mooring.cluster.options import NODE
from mooring.cluster.stage import Stage
from mooring.testing.cluster import FAULTS, Cluster
from mooring.testing.loop_thread import LoopThread
from mooring.testing.options import Options
from mooring.volumes.names import CSI_PLUGIN


class MachineCluster(Cluster):
    """Made by `on_this_machine`."""

    def __init__(self, thread: LoopThread, options: Options, data_dir: Path) -> None:
        super().__init__(thread, options, data_dir)
        self._stage = Stage(data_dir)

    @property
    def nodes(self) -> Sequence[str]:
        return tuple(f"{NODE}{number}" for number in range(1, self.options.nodes + 1))

    def cut(self, node: str) -> None:
        self._order("cut", node)

    def heal(self, node: str) -> None:
        self._order("heal", node)

    def kill(self, node: str) -> None:
        self._order("kill", node)

    def start(self, node: str) -> None:
        self._order("start", node)

    def _order(self, word: str, node: str) -> None:
        """Raises ClusterError: no such node, it is off, ..."""
        self._thread.run(control.say(self._stage.layout.control, word, node))

    async def begin(self) -> None:
        """Starts it, and waits until its nodes are Ready. Raises Disappointed, with what `mooring up`
        wrote."""
        await self._stage.up(*_flags(self.options, self.data_dir))
        ready = self.options.nodes
        await self._stage.until("all nodes are Ready", lambda: self._stage.ready_nodes(ready))

    async def end(self) -> None:
        """Takes it down; nothing of it is left then."""
        await self._hang_up()
        await self._stage.down()


def _flags(options: Options, data_dir: Path) -> list[str]:
    flags = ["--nodes", str(options.nodes), "--port", "0"]
    flags += ["--node-monitor-grace-period", f"{options.node_monitor_grace_period:g}"]
    for driver, address in options.csi.items():
        flags += ["--csi", f"{driver}={address}"]
    if options.csi:
        flags += ["--plugin-setting", f"{CSI_PLUGIN}:faultfile={data_dir / FAULTS}"]
    return [*flags, *options.flags]


def lacking() -> str:
    """Why this machine cannot have such a cluster, in one line, with what mends it; "" if it can."""
    if os.geteuid() != 0:
        return "needs root: nodes attach, format and mount real block devices"
    found = diagnose(examine(Layout(Path(tempfile.gettempdir()) / "mooring"), machines=False))
    return "; ".join(f"{each.what} ({each.mend})" for each in found if each.level == "mend")


@contextlib.contextmanager
def on_this_machine(options: Options | None = None) -> Generator[Cluster]:
    """A cluster of real nodes, until the context is left. `lacking` says whether there can be one."""
    data_dir = Path(tempfile.mkdtemp(prefix="mooring-"))  # short: sockets live in it
    with LoopThread("mooring") as thread:
        cluster = MachineCluster(thread, options or Options(), data_dir)
        try:
            thread.run(cluster.begin())
            yield cluster
        finally:
            thread.run(cluster.end())
            shutil.rmtree(data_dir)
