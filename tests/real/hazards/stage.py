"""A cluster whose storage and kubelets are played, so that what is *true* of them is known; the rest of it is
real.

Truth: on which nodes a volume is attached (the storage; it refuses nothing) and mounted (the kubelets). Harm
is judged on truth alone. It knows the API and no controller.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import waiting
from tests.real.hazards.proxy import Proxy

from mooring.kube.client import Client
from mooring.kube.errors import KubeError, NotFound
from mooring.kube.objects import Lease, Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment
from mooring.volumes.names import CONTROLLER_MANAGED, CSI_PLUGIN, csi_volume_name

DRIVER = "hazards.csi.example"
FINALIZER = "external-attacher/hazards-csi-example"
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


class HazardCluster:
    """One cluster. Names of what a scenario makes begin with its own prefix, so that several go side by
    side."""

    def __init__(self, client: Client, under_test: Proxy) -> None:
        self.client = client
        self.proxy = under_test
        self.truth = Truth()
        self.kubelets: dict[str, Kubelet] = {}
        self.failing_detaches: dict[str, int] = defaultdict(int)
        """How many detaches of a volume the storage is still going to refuse."""
        self._handles: dict[str, str] = {}

    def elapsed(self) -> float:
        return asyncio.get_running_loop().time()

    async def until(self, what: str, holds: Callable[[], Awaitable[Any]], patience: float = 60.0) -> Any:
        """Waits for something; AssertionError naming it after `patience` seconds."""
        return await waiting.until(holds, what, seconds=patience, every_s=0.1)

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
        await self._made(name, handle)
        await self.until(f"claim {name} is bound", lambda: self._bound(name))

    async def volumes(self, names: list[str]) -> None:
        """So many of them at once."""
        await asyncio.gather(*(self._made(name) for name in names))
        await self.until(f"all {len(names)} claims are bound", lambda: self._all_bound(set(names)), 120)

    async def _made(self, name: str, handle: str = "") -> None:
        self._handles[name] = handle or name
        shape = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}
        spec = {
            **shape,
            "capacity": {"storage": "1Gi"},
            "csi": {"driver": DRIVER, "volumeHandle": handle or name},
            "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "default", "name": name},
            "persistentVolumeReclaimPolicy": "Retain",
        }
        await self.client.create(PersistentVolume, {"metadata": {"name": name}, "spec": spec})
        wanted = {**shape, "volumeName": name, "resources": {"requests": {"storage": "1Gi"}}}
        await self.client.create(
            PersistentVolumeClaim, {"metadata": {"name": name}, "spec": wanted}, "default"
        )

    async def _bound(self, claim: str) -> bool:
        return (await self.client.get(PersistentVolumeClaim, claim, "default")).status.phase == "Bound"

    async def _all_bound(self, claims: set[str]) -> bool:
        found = (await self.client.list(PersistentVolumeClaim, "default")).items
        return claims <= {each.name for each in found if each.status.phase == "Bound"}

    async def pod(self, name: str, node: str, claim: str, *, grace: int = 30, tolerates: bool = True) -> Pod:
        """A pod that is bound to the node at once. It tolerates that the node is silent, or is evicted."""
        container = {
            "name": "main",
            "image": "none",
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        }
        spec = {
            "nodeName": node,
            "terminationGracePeriodSeconds": grace,
            "containers": [container],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}],
            "tolerations": [{"operator": "Exists", "effect": "NoExecute"}] if tolerates else [],
        }
        return await self.client.create(Pod, {"metadata": {"name": name}, "spec": spec}, "default")

    async def set_pod(self, name: str, phase: str, state: dict[str, Any] | None) -> None:
        """What its kubelet says of its one container; None: nothing."""
        container = {
            "name": "main",
            "image": "none",
            "imageID": "",
            "ready": False,
            "restartCount": 0,
            "state": state,
        }
        status = {"phase": phase, "containerStatuses": [container] if state is not None else []}
        await self.client.patch(Pod, name, {"status": status}, "default", subresource="status")

    async def attachments(self, volume: str) -> list[VolumeAttachment]:
        found = (await self.client.list(VolumeAttachment)).items
        return [each for each in found if each.spec.source.persistent_volume_name == volume]

    async def attached_to(self, volume: str, node: str) -> bool:
        return any(
            each.spec.node_name == node and each.status.attached for each in await self.attachments(volume)
        )

    async def reported(self, volume: str, node: str) -> bool:
        found = await self.client.find(Node, node)
        return found is not None and any(e.name == unique_name(volume) for e in found.status.volumes_attached)

    async def running_with_volume(self, volume: str, node: str, pod: str, *, tolerates: bool = True) -> None:
        """A pod that has the volume mounted on the node and runs."""
        await self.pod(pod, node, volume, tolerates=tolerates)
        await self.kubelets[node].mount(volume)
        await self.set_pod(pod, "Running", {"running": {"startedAt": now()}})

    async def terminated(self, pod: str, **options: Any) -> None:
        """Deletes a pod whose kubelet then says that its container has ended; the pod stays, as it is
        unmounting."""
        await self.client.delete(Pod, pod, "default", **options)
        await self.set_pod(pod, "Running", {"terminated": {"exitCode": 0, "finishedAt": now()}})

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
                if self.failing_detaches[handle] > 0:
                    await self._fail_detach(record, handle)
                elif FINALIZER in record.metadata.finalizers:
                    self.truth.detach(handle, node)
                    await self.client.patch(VolumeAttachment, record.name, {"metadata": {"finalizers": None}})
            elif not record.status.attached:
                await self.client.patch(
                    VolumeAttachment, record.name, {"metadata": {"finalizers": [FINALIZER]}}
                )
                self.truth.attached[handle].add(node)
                attached = {"status": {"attached": True}}
                await self.client.patch(VolumeAttachment, record.name, attached, subresource="status")
        except NotFound:
            return  # it went meanwhile

    async def _fail_detach(self, record: VolumeAttachment, handle: str) -> None:
        """Says that the storage would not; tried again after a second."""
        self.failing_detaches[handle] -= 1
        error = {"time": now(), "message": "the storage is busy"}
        await self.client.patch(
            VolumeAttachment, record.name, {"status": {"detachError": error}}, subresource="status"
        )
        await asyncio.sleep(1)
        await self._carry_out(await self.client.get(VolumeAttachment, record.name))

    async def heartbeats(self) -> None:
        """Of all kubelets that answer, until cancelled."""
        while True:
            for kubelet in list(self.kubelets.values()):
                if kubelet.answers:
                    renewed = {"spec": {"renewTime": now(micro=True)}}
                    with contextlib.suppress(KubeError):  # it went with its node
                        await self.client.patch(Lease, kubelet.name, renewed, "kube-node-lease")
            await asyncio.sleep(HEARTBEAT_S)


class Kubelet:
    """A node's agent, as far as the control plane sees it."""

    def __init__(self, stage: HazardCluster, name: str) -> None:
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
            spec = {"holderIdentity": self.name, "leaseDurationSeconds": 40, "renewTime": now(micro=True)}
            await client.create(Lease, {"metadata": {"name": self.name}, "spec": spec}, "kube-node-lease")
        await self.report()

    async def report(self) -> None:
        """Ready, and what is in use."""
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "lastHeartbeatTime": now()}
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


def now(*, micro: bool = False) -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")
