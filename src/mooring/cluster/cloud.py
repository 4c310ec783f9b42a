"""`mooring up --cloud`: a cloud beside the cluster, in which each node is an instance, and its EBS driver.

    cloud/                  the cloud's data: what volumes hold, what is attached where
    run/ebs/NODE.sock       the driver's node service, one for each machine; it has no credentials
    run/ebs/controller.sock the driver's controller service

The node services are a part of the machines: they come with the power, and go with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import aiohttp

from mooring.apiserver.process import HOST
from mooring.cloud.data_directory import DataDirectory
from mooring.cloud.devices import BY_ID, LoopDevices
from mooring.cluster.csi import HOLE, CSIDrivers
from mooring.cluster.holding import PortTaken, is_free, with_free_port
from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.machines.guest_program import command
from mooring.cluster.processes import Part, free_port, mooring

DRIVER = "ebs.csi.aws.com"
READY_S = 30.0
_FOREIGN = ("AWS_", "MOORING_CLOUD_")
"""What a user's own environment says of some other cloud is not for these processes."""


def drivers(layout: Layout, others: CSIDrivers) -> CSIDrivers:
    """The user's drivers, and the cloud's."""
    sockets = _sockets(layout)
    return CSIDrivers(
        {**others.addresses, DRIVER: f"unix://{sockets}/{HOLE}.sock"},
        {**others.controllers, DRIVER: f"unix://{sockets}/controller.sock"},
        others.faults,
        (*others.logs, layout.logs / "ebs-controller.log"),
    )


def instance_devices(layout: Layout, instance: str) -> list[str]:
    """The block devices that an instance has now. Blocks."""
    links = (LoopDevices(layout.cloud).device_directory(instance) / "disk" / "by-id").glob(f"{BY_ID}*")
    return [os.path.realpath(link) for link in links if os.path.exists(link)]


def _sockets(layout: Layout) -> Path:
    return layout.run / "ebs"


@dataclass(frozen=True)
class CloudOptions:
    """What the cloud was asked for: settings as `mooring cloud --set` takes them."""

    settings: tuple[str, ...] = ()
    seed: int | None = None


class CloudParts:
    """The processes of the cloud and of its driver's controller. Node k is the k-th instance."""

    def __init__(self, layout: Layout, nodes: Sequence[str], options: CloudOptions) -> None:
        self.instances: dict[str, str] = {}
        """By node."""
        self.nodes: dict[str, str] = {}
        """By instance."""
        self.provider_ids: dict[str, str] = {}
        """By node: `aws:///ZONE/INSTANCE`."""
        self._layout = layout
        self._nodes = nodes
        self._directory = DataDirectory(layout.cloud)
        self._metadata: dict[str, str] = {}
        self._options = options
        self._cloud: Part | None = None
        self._controller: Part | None = None

    @property
    def parts(self) -> list[Part]:
        """What runs now."""
        return [part for part in (self._cloud, self._controller) if part is not None]

    async def start(self) -> None:
        """Returns when every node has its instance. Raises ClusterError."""
        _sockets(self._layout).mkdir(parents=True, exist_ok=True)
        await with_free_port(self._start_cloud)
        self._controller = self._part(
            "ebs-controller", self.credentials(), "ebs-driver", "controller", *self._at("controller")
        )
        await self._controller.start()

    async def _start_cloud(self) -> None:
        """Raises PortTaken if another program has got the port since it was seen to be free."""
        last, before = self._directory.endpoint(), self._written()
        port = last.port if last else free_port()
        flags = [flag for setting in self._options.settings for flag in ("--set", setting)]
        flags += [] if self._options.seed is None else ["--seed", str(self._options.seed)]
        where = ["--data-dir", str(self._layout.cloud), "--port", str(port), "--devices", "on"]
        where += ["--power", str(self.power), "--instances", str(len(self._nodes))]
        self._cloud = self._part("cloud", {}, "cloud", *where, *flags)
        await self._cloud.start()
        try:
            await self._until_instances(self._cloud, port, before)
        except ClusterError as error:
            await self._cloud.stop()  # so that it is not ours that has the port
            if is_free(HOST, port):
                raise
            taken = f"port {port} of the cloud was taken by another program"
            raise (ClusterError if last else PortTaken)(taken) from error

    def _written(self) -> int:
        """When a cloud wrote last where it listens, in nanoseconds since 1970; 0: never."""
        file = self._directory.root / "endpoint.json"
        return file.stat().st_mtime_ns if file.exists() else 0

    async def stop(self) -> None:
        """The machines have no power any more."""
        for part in reversed(self.parts):
            await part.stop()

    @property
    def power(self) -> Path:
        """The socket at which the cloud orders its instances' machines (`instance_power`)."""
        return self._layout.run / "instance-power.sock"

    def credentials(self) -> dict[str, str]:
        """Where this cloud is, and what it takes, as environment variables of AWS's own clients. Once it
        runs."""
        endpoint = self._directory.endpoint()
        assert endpoint is not None
        return self._credentials(endpoint.port)

    def node_driver(self, node: str) -> Part:
        """The driver's node service on a node's machine, not started yet."""
        self.device_directory(node).mkdir(parents=True, exist_ok=True)
        return self._part(f"ebs-{node}", self.node_environ(node), *self._node_service(node))

    def _node_service(self, node: str) -> list[str]:
        directory, allowed = self.device_directory(node), self._layout.node(node)
        where = ["--device-dir", str(directory), "--allow-path", str(allowed)]
        return ["ebs-driver", "node", *self._at(node), *where]

    def node_environ(self, node: str) -> dict[str, str]:
        """What the node service is told of its instance."""
        return {"AWS_EC2_METADATA_SERVICE_ENDPOINT": self._metadata[node]}

    def device_directory(self, node: str) -> Path:
        """What serves the node's instance as /dev, here and in its machine."""
        return LoopDevices(self._layout.cloud).device_directory(self.instances[node])

    # --- for a machine with a kernel of its own, in which the driver's node service runs

    def attached(self, node: str) -> dict[str, tuple[str, str]]:
        """Device and link of each volume that the node's instance has now. Blocks."""
        links = (self.device_directory(node) / "disk" / "by-id").glob(f"{BY_ID}vol*")
        return {
            f"vol-{link.name.removeprefix(f'{BY_ID}vol')}": (os.path.realpath(link), str(link))
            for link in links
            if os.path.exists(link)
        }

    def metadata_address(self, node: str) -> tuple[str, int]:
        """Of its instance's metadata service, on this host's loopback network."""
        host, _, port = self._metadata[node].removeprefix("http://").partition(":")
        return host, int(port)

    def guest_programs(self, node: str, host: str, port: int) -> list[list[str]]:
        """The driver's node service, and the way to the metadata service, which the host has at this port."""
        way = command("guest.relay", *self.metadata_address(node), host, port)
        return [mooring(*self._node_service(node)), way]

    def devices(self, node: str) -> list[str]:
        """The block devices that the node's instance has now. Blocks."""
        return instance_devices(self._layout, self.instances[node])

    def _at(self, name: str) -> list[str]:
        return ["--endpoint", f"unix://{_sockets(self._layout)}/{name}.sock"]

    def _credentials(self, port: int) -> dict[str, str]:
        held = self._directory.credentials(Random())
        endpoint = self._directory.endpoint()
        assert endpoint is not None
        return {
            "AWS_ENDPOINT_URL_EC2": f"http://127.0.0.1:{port}",
            "AWS_REGION": endpoint.region,
            "AWS_ACCESS_KEY_ID": held.access_key,
            "AWS_SECRET_ACCESS_KEY": held.secret_key,
        }

    def _part(self, name: str, environ: Mapping[str, str], *arguments: str) -> Part:
        foreign = dict.fromkeys(key for key in os.environ if key.startswith(_FOREIGN))
        return Part(
            name,
            mooring(*arguments),
            run=self._layout.run,
            logs=self._layout.logs,
            environ={**foreign, **environ},
        )

    async def _until_instances(self, part: Part, port: int, before: int) -> None:
        """`before` is when a cloud had written where it listens: what answers sooner is another program's."""
        deadline = asyncio.get_running_loop().time() + READY_S
        async with aiohttp.ClientSession() as session:
            while asyncio.get_running_loop().time() < deadline and not part.restarts:
                if self._written() != before and await self._instances_are_known(session, port):
                    return
                await asyncio.sleep(0.05)
        raise ClusterError(f"the cloud does not come up; see {self._layout.logs / 'cloud.log'}")

    async def _instances_are_known(self, session: aiohttp.ClientSession, port: int) -> bool:
        with contextlib.suppress(aiohttp.ClientError):
            async with session.get(f"http://{HOST}:{port}/_cloud") as reply:
                return self._take((await reply.json())["instances"])
        return False

    def _take(self, instances: Sequence[Mapping[str, str]]) -> bool:
        if len(instances) < len(self._nodes):
            return False
        for node, instance in zip(self._nodes, instances, strict=False):
            name = self.instances[node] = instance["instance_id"]
            self.nodes[name] = node
            self.provider_ids[node] = f"aws:///{instance['zone']}/{name}"
            self._metadata[node] = instance["metadata_endpoint"]
        return True
