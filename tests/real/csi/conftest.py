"""A cluster without controllers, real or embedded, the driver `disk.mooring.dev`, and sidecars, upstream's
and ours."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, AsyncExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio
import waiting
from tests.real.server import process

from mooring.apiserver.data_directory import write_kubeconfig
from mooring.controllers.snapshots.kinds import DEFINITIONS
from mooring.csi.client import Client as Driver
from mooring.csi.errors import NotConnected
from mooring.csi.proto import csi_pb2 as csi
from mooring.kube import config
from mooring.kube.client import Client
from mooring.kube.errors import AlreadyExists
from mooring.kube.objects import CSIDriver, CSINode, PersistentVolume
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.volumes.plugins.disk_array import DiskArray

NAME = "disk.mooring.dev"
SIZE = 16 << 20
PATIENCE_S = 60.0
MOORING = (sys.executable, "-m", "mooring.cli.main")


@pytest.fixture(scope="session", params=["kube-apiserver", "mooring apiserver"])
def kubeconfig(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Of the administrator of an API server."""
    folder = tmp_path_factory.mktemp("cluster")
    path = folder / "kubeconfig"
    if request.param == "kube-apiserver":
        server = request.getfixturevalue("real")
        write_kubeconfig(path, server.url, server.token, server.authority.read_bytes())
        yield path
        return
    flags = ["apiserver", f"--data-dir={folder}/data", "--port=0", f"--kubeconfig-out={path}"]
    with process([*MOORING, *flags], folder / "apiserver.log") as running:
        for _ in range(200):
            if path.exists() and "http" in (folder / "apiserver.log").read_text():
                break
            assert running.poll() is None, (folder / "apiserver.log").read_text()
            subprocess.run(["sleep", "0.05"], check=True)
        yield path


@dataclass
class Ground:
    """One node with the driver, in a cluster; `folder` has logs and sockets."""

    programs: Path
    kubeconfig: Path
    folder: Path
    client: Client
    driver: Driver
    array: DiskArray
    name: str = field(default_factory=lambda: f"t{uuid4().hex[:8]}")

    @property
    def socket(self) -> Path:
        return self.folder / "csi.sock"

    def attached(self) -> dict[str, list[str]]:
        """Where the storage has each disk."""
        return {disk: sorted(held.nodes) for disk, held in self.array.list().items()}

    def theirs(self, program: str, *flags: str) -> AbstractContextManager[Any]:
        """A program of upstream's; skipped if it was not built."""
        path = self.programs / program
        if not path.exists():
            pytest.skip(f"needs {program}: run `make assets`")
        address = () if program == "snapshot-controller" else (f"--csi-address={self.socket}",)
        return self._run(program, str(path), f"--kubeconfig={self.kubeconfig}", *address, *flags)

    def ours(self, role: str, *flags: str) -> AbstractContextManager[Any]:
        where = (f"--kubeconfig={self.kubeconfig}", f"--csi-address={self.socket}")
        return self._run(f"mooring-{role}", *MOORING, "csi", role, *where, *flags)

    def controller(self, names: str) -> AbstractContextManager[Any]:
        flags = (f"--controllers={names}", f"--kubeconfig={self.kubeconfig}", "--leader-elect=false")
        return self._run(f"mooring-{names}", *MOORING, "controller", *flags)

    @contextmanager
    def _run(self, name: str, *command: str) -> Iterator[None]:
        log = self.folder / f"{name}.log"
        with process(command, log) as running:
            yield
            assert running.poll() is None, log.read_text()[-3000:]
        assert "Traceback" not in log.read_text(), log.read_text()[-3000:]

    async def volume(self, **spec: Any) -> str:
        """A disk, and its PersistentVolume of the test's name; the disk's name."""
        capability = csi.VolumeCapability(mount={}, access_mode={"mode": "SINGLE_NODE_WRITER"})
        asked = csi.CreateVolumeRequest(
            name=self.name, capacity_range={"required_bytes": SIZE}, volume_capabilities=[capability]
        )
        made = (await self.driver.controller.create_volume(asked, timeout_s=20)).volume
        source = {
            "driver": NAME,
            "volumeHandle": made.volume_id,
            "volumeAttributes": dict(made.volume_context),
        }
        body = {"capacity": {"storage": str(SIZE)}, "accessModes": ["ReadWriteOnce"], "csi": source, **spec}
        await self.client.create(PersistentVolume, {"metadata": {"name": self.name}, "spec": body})
        return made.volume_id

    async def until(self, what: str, holds: Callable[[], Awaitable[Any]]) -> None:
        def logs() -> str:
            ends = {path.name: path.read_text(errors="replace")[-1500:] for path in self.folder.glob("*.log")}
            return "\n".join(f"--- {name}\n{log}" for name, log in ends.items())

        await waiting.until(holds, what, seconds=PATIENCE_S, state=logs)


@pytest_asyncio.fixture
async def ground(programs: Path, kubeconfig: Path, tmp_path: Path) -> AsyncIterator[Ground]:
    async with AsyncExitStack() as stack:
        client = config.load(kubeconfig)
        stack.push_async_callback(client.close)
        driver = await stack.enter_async_context(Driver(f"unix://{tmp_path}/csi.sock"))
        ground = Ground(programs, kubeconfig, tmp_path, client, driver, DiskArray(tmp_path / "array"))
        flags = [
            f"--node-id={ground.name}",
            f"--array={tmp_path}/array",
            f"--allow-path={tmp_path}",
            "--machine=here",
        ]
        command = [*MOORING, "csi", "disk-driver", "--endpoint", f"unix://{ground.socket}", *flags]
        stack.enter_context(process(command, tmp_path / "driver.log"))
        await _answers(driver)
        await _registered(ground)
        try:
            yield ground
        finally:
            ground.array.power_off(ground.name)
            await client.delete(CSINode, ground.name)


async def _answers(driver: Driver) -> None:
    for _ in range(200):
        try:
            await driver.identity.probe(csi.ProbeRequest(), timeout_s=10)
            return
        except NotConnected:
            await asyncio.sleep(0.05)
    pytest.fail("the driver does not answer")


async def _registered(ground: Ground) -> None:
    """What a node's agent and the driver's manifests would have made."""
    for kind, body in (
        *((CustomResourceDefinition, each) for each in DEFINITIONS),
        (CSIDriver, {"metadata": {"name": NAME}, "spec": {"attachRequired": True}}),
    ):
        with suppress(AlreadyExists):
            await ground.client.create(kind, body)
    info = await ground.driver.node.node_get_info(csi.NodeGetInfoRequest(), timeout_s=20)
    of_node = {"name": NAME, "nodeID": info.node_id, "topologyKeys": None}
    await ground.client.create(CSINode, {"metadata": {"name": ground.name}, "spec": {"drivers": [of_node]}})
