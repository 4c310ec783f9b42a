"""A cluster whose storage and kubelets are played, so that what is *true* of them is known; the rest of it is real.

Truth: on which nodes a volume is attached (the storage; it refuses nothing) and mounted (the kubelets). Harm is judged
on truth alone. It knows the API and no controller; the controllers under test are processes behind a proxy each.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from tests.real.hazards.proxy import Proxy, proxy
from tests.real.server import HOST, RealServer, free_ports

from mooring.cluster.cluster import mooring
from mooring.kube.client import Client
from mooring.kube.errors import KubeError, NotFound
from mooring.kube.http import HttpTransport
from mooring.kube.objects import Lease, Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment
from mooring.kube.tls import Trust
from mooring.volumes.names import CONTROLLER_MANAGED, CSI_PLUGIN, csi_volume_name

DRIVER = "hazards.csi.example"
FINALIZER = "external-attacher/hazards-csi-example"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
HEARTBEAT_S = 3.0


def unique_name(volume: str) -> str:
    """As in a node's status."""
    return f"{CSI_PLUGIN}/{csi_volume_name(DRIVER, volume)}"


@dataclass
class Truth:
    """What storage and nodes really do, by the storage's own name of a volume."""

    attached: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    mounted: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    torn: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Nodes from which it was detached while it was mounted there."""

    def detach(self, volume: str, node: str) -> None:
        self.attached[volume].discard(node)
        if node in self.mounted[volume]:
            self.torn[volume].append(node)

    def harm(self, volume: str) -> str:
        """What has happened to the volume that must not; "" if nothing has."""
        if self.torn[volume]:
            return "detached while mounted"
        return "attached to two nodes" if len(self.attached[volume]) > 1 else ""


@dataclass(frozen=True)
class Controller:
    """How a process of the control plane is started, by the kubeconfig that leads to its proxy."""

    name: str
    command: Callable[[Path, Path], list[str]]
    """From the folder of the real programs, and the kubeconfig."""


def _manager(*flags: str) -> Callable[[Path, Path], list[str]]:
    def command(programs: Path, kubeconfig: Path) -> list[str]:
        own = [f"--kubeconfig={kubeconfig}", "--leader-elect=false", f"--bind-address={HOST}", *flags]
        ports = [f"--secure-port={free_ports(1)[0]}", f"--cert-dir={kubeconfig.with_suffix('.certificates')}"]
        return [str(programs / "kube-controller-manager"), *own, *ports]

    return command


ATTACH_DETACH = "persistentvolume-attach-detach-controller"
REST = Controller("rest", _manager(f"--controllers=*,-{ATTACH_DETACH}"))
"""All of upstream's controllers but attach/detach."""
UPSTREAM = Controller("upstream", _manager(f"--controllers={ATTACH_DETACH}"))
UPSTREAM_NO_FORCE = Controller(
    "upstream-no-force", _manager(f"--controllers={ATTACH_DETACH}", "--disable-force-detach-on-timeout")
)
MOORING = Controller(
    "mooring",
    lambda programs, kubeconfig: mooring("controller", "--controllers=attachdetach", "--kubeconfig", str(kubeconfig)),
)


class Stage:
    """One cluster. Names of what a scenario makes begin with its own prefix, so that several go side by side."""

    def __init__(self, client: Client, under_test: Proxy) -> None:
        self.client = client
        self.proxy = under_test
        self.truth = Truth()
        self.kubelets: dict[str, Kubelet] = {}
        self._handles: dict[str, str] = {}

    def elapsed(self) -> float:
        return asyncio.get_running_loop().time()

    async def until(self, what: str, holds: Callable[[], Awaitable[Any]], patience: float = 60.0) -> Any:
        """Waits for something; AssertionError naming it after `patience` seconds."""
        try:
            async with asyncio.timeout(patience):
                while not (found := await holds()):  # noqa: ASYNC110 - others, in processes of their own, make it true
                    await asyncio.sleep(0.1)
        except TimeoutError:
            raise AssertionError(f"after {patience:g} s still not so: {what}") from None
        return found

    async def stays(self, what: str, holds: Callable[[], Awaitable[Any]], seconds: float) -> None:
        """AssertionError as soon as it does not hold."""
        end = self.elapsed() + seconds
        while self.elapsed() < end:
            assert await holds(), what
            await asyncio.sleep(0.2)

    # --- what there is

    async def node(self, name: str) -> Kubelet:
        """A new node whose kubelet answers."""
        kubelet = self.kubelets[name] = Kubelet(self, name)
        await kubelet.register()
        return kubelet

    async def volume(self, name: str, handle: str = "") -> None:
        """A volume bound to a claim of its name; `handle` is the storage's name of it, if that is another."""
        self._handles[name] = handle or name
        shape = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
        wanted = {**shape, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
        made = await self.client.create(PersistentVolumeClaim, {"metadata": {"name": name}, "spec": wanted}, "default")
        reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name, "uid": made.uid}
        spec = {
            **shape,
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": DRIVER, "volumeHandle": handle or name},
            "claimRef": reference,
            "persistentVolumeReclaimPolicy": "Retain",
        }
        await self.client.create(PersistentVolume, {"metadata": {"name": name}, "spec": spec})
        await self.until(f"claim {name} is bound", lambda: self._bound(name))

    async def _bound(self, claim: str) -> bool:
        return (await self.client.get(PersistentVolumeClaim, claim, "default")).status.phase == "Bound"

    async def pod(self, name: str, node: str, claim: str, *, grace: int = 30) -> Pod:
        """A pod that is bound to the node at once. It tolerates that the node is silent."""
        container = {"name": "main", "image": "none", "volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        spec = {
            "nodeName": node,
            "terminationGracePeriodSeconds": grace,
            "containers": [container],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}],
        }
        return await self.client.create(Pod, {"metadata": {"name": name}, "spec": spec}, "default")

    async def set_pod(self, name: str, phase: str, state: dict[str, Any] | None) -> None:
        """What its kubelet says of its one container; None: nothing."""
        container = {"name": "main", "image": "none", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        status = {"phase": phase, "containerStatuses": [container] if state is not None else []}
        await self.client.patch(Pod, name, {"status": status}, "default", subresource="status")

    async def attachments(self, volume: str) -> list[VolumeAttachment]:
        found = (await self.client.list(VolumeAttachment)).items
        return [each for each in found if each.spec.source.persistent_volume_name == volume]

    async def attached_to(self, volume: str, node: str) -> bool:
        return any(each.spec.node_name == node and each.status.attached for each in await self.attachments(volume))

    async def reported(self, volume: str, node: str) -> bool:
        found = await self.client.find(Node, node)
        return found is not None and any(e.name == unique_name(volume) for e in found.status.volumes_attached)

    async def running_with_volume(self, volume: str, node: str, pod: str) -> None:
        """A pod that has the volume mounted on the node and runs."""
        await self.pod(pod, node, volume)
        await self.kubelets[node].mount(volume)
        await self.set_pod(pod, "Running", {"running": {"startedAt": _now()}})

    async def terminated(self, pod: str, **options: Any) -> None:
        """Deletes a pod whose kubelet then says that its container has ended; the pod stays, as it is unmounting."""
        await self.client.delete(Pod, pod, "default", **options)
        await self.set_pod(pod, "Running", {"terminated": {"exitCode": 0, "finishedAt": _now()}})

    async def force_delete(self, pod: str) -> None:
        try:
            await self.client.delete(Pod, pod, "default", grace_period_seconds=0)
        except NotFound:
            return

    # --- the storage and its attacher

    async def attacher(self) -> None:
        """Carries out VolumeAttachments at once, until cancelled."""
        listed = await self.client.list(VolumeAttachment)
        for record in listed.items:
            await self._carry_out(record)
        version = listed.resource_version
        while True:
            async for event in self.client.watch(VolumeAttachment, resource_version=version):
                version = event.resource_version
                if event.object is not None and event.type != "DELETED":
                    await self._carry_out(event.object)

    async def _carry_out(self, record: VolumeAttachment) -> None:
        name = record.spec.source.persistent_volume_name or ""
        handle, node = self._handles.get(name, name), record.spec.node_name
        try:
            if record.deleting:
                if FINALIZER in record.metadata.finalizers:
                    self.truth.detach(handle, node)
                    await self.client.patch(VolumeAttachment, record.name, {"metadata": {"finalizers": None}})
            elif not record.status.attached:
                await self.client.patch(VolumeAttachment, record.name, {"metadata": {"finalizers": [FINALIZER]}})
                self.truth.attached[handle].add(node)
                attached = {"status": {"attached": True}}
                await self.client.patch(VolumeAttachment, record.name, attached, subresource="status")
        except NotFound:
            return  # it went meanwhile


class Kubelet:
    """A node's agent, as far as the control plane sees it."""

    def __init__(self, stage: Stage, name: str) -> None:
        self._stage = stage
        self.name = name
        self.answers = True
        self._mounted: set[str] = set()

    async def register(self, *, in_use: Sequence[str] = ()) -> None:
        """Makes the Node and its Lease."""
        client = self._stage.client
        metadata = {"name": self.name, "labels": {"kubernetes.io/hostname": self.name}}
        metadata["annotations"] = {CONTROLLER_MANAGED: "true"}  # type: ignore[assignment]
        await client.create(Node, {"metadata": metadata})
        if await client.find(Lease, self.name, "kube-node-lease") is None:
            spec = {"holderIdentity": self.name, "leaseDurationSeconds": 40, "renewTime": _now(micro=True)}
            await client.create(Lease, {"metadata": {"name": self.name}, "spec": spec}, "kube-node-lease")
        await self.report()

    async def report(self) -> None:
        """Ready, and what is in use."""
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": _now()}
        status = {"conditions": [ready], "volumesInUse": sorted(map(unique_name, self._mounted))}
        body = {"status": {**status, "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"}}}
        await self._stage.client.patch(Node, self.name, body, subresource="status")

    async def mount(self, volume: str) -> None:
        """Waits until the volume is reported as attached, says that it is in use, mounts it."""
        await self._stage.until(
            f"{volume} is reported on {self.name}", lambda: self._stage.reported(volume, self.name), 120
        )
        self._mounted.add(volume)
        await self.report()
        self._stage.truth.mounted[volume].add(self.name)

    async def unmount(self, volume: str) -> None:
        """Unmounts it and says so."""
        self._stage.truth.mounted[volume].discard(self.name)
        self._mounted.discard(volume)
        if self.answers:
            await self.report()

    def forget(self) -> None:
        """What a kubelet knows after it was started anew on a machine whose mounts it did not find."""
        self._mounted.clear()


def _now(*, micro: bool = False) -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


class Running:
    """A process of the control plane that can be killed and started again, by several scenarios together: `parties` of
    them must ask for it before it is done."""

    parties = 1

    def __init__(self, controller: Controller, programs: Path, kubeconfig: Path, log: Path) -> None:
        self._command = controller.command(programs, kubeconfig)
        self._log = log
        self._process: asyncio.subprocess.Process | None = None
        self._come = 0
        self._acted = asyncio.Event()

    async def killed(self) -> None:
        """kill -9, once all have come so far."""
        await self._together(self.kill)

    async def started_again(self) -> None:
        """Starts it once all have come so far."""
        await self._together(self.start)

    async def _together(self, act: Callable[[], Awaitable[None]]) -> None:
        self._come += 1
        if self._come == self.parties:
            self._come, acted, self._acted = 0, self._acted, asyncio.Event()
            await act()
            acted.set()
        else:
            await self._acted.wait()

    async def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    async def kill(self) -> None:
        """kill -9."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()
            await self._process.wait()

    def ended(self) -> bool:
        return self._process is not None and self._process.returncode is not None


@asynccontextmanager
async def stage(
    server: RealServer, programs: Path, folder: Path, controller: Controller
) -> AsyncGenerator[tuple[Stage, Running]]:
    """A cluster with all of upstream's other controllers, and the one under test behind a proxy."""
    async with AsyncExitStack() as stack:
        trust = Trust(authority=server.authority.read_bytes())
        client = Client(HttpTransport(server.url, token=server.token, trust=trust))
        stack.push_async_callback(client.close)
        between, plain = [await stack.enter_async_context(proxy(server)) for _ in range(2)]
        played = Stage(client, between)
        running = [
            Running(
                each, programs, _kubeconfig(folder / f"{each.name}.kubeconfig", way.url), folder / f"{each.name}.log"
            )
            for each, way in ((controller, between), (REST, plain))
        ]
        for each in running:
            await each.start()
            stack.push_async_callback(each.kill)
        attacher = asyncio.create_task(played.attacher())
        heart = asyncio.create_task(_heartbeats(played))
        for task in (attacher, heart):
            stack.callback(task.cancel)
        yield played, running[0]
        for task in (attacher, heart):
            assert not task.done(), task.result()
        for each in running:
            assert not each.ended(), f"a controller ended: see {folder}"


async def _heartbeats(played: Stage) -> None:
    while True:
        for kubelet in list(played.kubelets.values()):
            if kubelet.answers:
                renewed = {"spec": {"renewTime": _now(micro=True)}}
                try:
                    await played.client.patch(Lease, kubelet.name, renewed, "kube-node-lease")
                except KubeError:
                    continue  # it went with its node
        await asyncio.sleep(HEARTBEAT_S)


def _kubeconfig(path: Path, url: str) -> Path:
    document: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "hazards", "cluster": {"server": url}}],
        "users": [{"name": "admin", "user": {}}],
        "contexts": [{"name": "hazards", "context": {"cluster": "hazards", "user": "admin"}}],
        "current-context": "hazards",
    }
    path.write_bytes(msgspec.json.encode(document))
    return path
