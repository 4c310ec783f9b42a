"""A stage on which nodes are shut out of iSCSI targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencing_stage import FencingStage
from played_mechanism import PlayedMechanism

from mooring.fence.interface import Answer, Order, Scope, Sessions, State, Volume
from mooring.fence.storage.iscsi_tgt import IscsiTgt
from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment
from mooring.kube.objects.fencing import FencePolicy
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.names import NODE_UID, RECONSTRUCTED, VOLUME_NAME
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.plugins.iscsi import plugin
from mooring.volumes.statements import evidence_of

IQN = "iqn.2026-01.dev.mooring:one"
REQUEST = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
SHUT = {"target": IQN, "portals": "10.0.0.1:3260, 10.0.0.2:3260"}


class PlayedTarget(PlayedMechanism):
    """It shuts nodes out of a target, and says what that covers by the rule of tgt's mechanism."""

    def covers(self, order: Order, volume: Volume) -> bool:
        return IscsiTgt().covers(order, volume)


class PlayedSessions(PlayedTarget):
    """It tells of sessions, too: of a node that it shuts out it has none, but those of `held`."""

    held: frozenset[str] = frozenset()
    mute = False
    let_in: int = 0
    counts: Callable[[], int | None] = staticmethod(lambda: None)
    """How much node a has read and written."""

    async def sessions(self, order: Order) -> Sessions:
        found, counted = await self.look(order), self.counts()
        if counted is not None:
            return Sessions(found.state, found.message, {"1/1": counted})
        if self.mute:
            return Sessions(State.UNKNOWN, "the device does not answer")
        if order.target.node in self.held:
            return Sessions(State.OPEN, "it has a session of it")
        return Sessions(found.state, found.message)

    async def unfence(self, order: Order) -> Answer:
        self.let_in += 1
        return await super().unfence(order)


IN_STATEFUL_SET = {
    "ownerReferences": [
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "set", "controller": True}
    ]
}


class StorageStage(FencingStage):
    """Nodes whose volumes are LUNs of iSCSI targets."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.bmc = PlayedTarget(self.machines, scope=Scope.STORAGE)

    def plugins(self) -> PluginManager:
        return PluginManager([plugin()], ControllerVolumeHost(self.now))

    async def lun(
        self, node: Node, name: str, iqn: str = IQN, *portals: str, lun: int = 1, recorded: str = ""
    ) -> None:
        """A volume that is attached to the node. `recorded`: what its VolumeAttachment says that it is."""
        first, *others = portals or ("10.0.0.1",)
        source = {"targetPortal": first, "portals": others, "iqn": iqn, "lun": lun}
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Gi"},
            "iscsi": source,
        }
        await self.api.create(PersistentVolume, {"metadata": {"name": f"pv-{name}"}, "spec": spec})
        await self.attach(node, name, recorded or f"{first}:3260:{iqn}:{lun}")

    async def attach(self, node: Node, name: str, volume: str) -> None:
        made = await self.attachment(node, name)
        await self.api.revise(made, {"metadata": {"annotations": {VOLUME_NAME: volume, NODE_UID: node.uid}}})

    async def back(self, *in_use: str, reconstructed: str = "boot-1") -> Node:
        """Node a answers in its boot, and has these volumes in use."""
        node = await self.report("a")
        marks = {"metadata": {"annotations": {RECONSTRUCTED: reconstructed or None}}}
        await self.api.patch(Node, "a", marks)
        status = {"status": {"volumesInUse": list(in_use)}}
        return await self.api.patch(Node, node.name, status, subresource="status")

    async def claim(self, name: str, *, of_another: bool = False) -> None:
        """A claim that is bound to the volume of that name."""
        body = {"metadata": {"name": name}, "spec": {"volumeName": f"pv-{name}", **REQUEST}}
        made = await self.api.create(PersistentVolumeClaim, body, "default")
        status = {"status": {"phase": "Bound"}}
        await self.api.patch(PersistentVolumeClaim, name, status, "default", subresource="status")
        uid = "another" if of_another else made.uid
        reference = {"claimRef": {"namespace": "default", "name": name, "uid": uid}}
        await self.api.patch(PersistentVolume, f"pv-{name}", {"spec": reference})

    async def pod(self, *claims: str, name: str = "web-0", **given: Any) -> Pod:
        """A pod of a StatefulSet that runs on the node."""
        volumes = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
        spec = {
            "nodeName": "a",
            "containers": [{"name": "main", "image": "shell"}],
            "volumes": [*volumes, *given.get("volumes", [])],
            "tolerations": given.get("tolerations", []),
        }
        metadata = {"name": name, **IN_STATEFUL_SET, **given.get("metadata", {})}
        await self.api.create(Pod, {"metadata": metadata, "spec": spec}, "default")
        running = {"status": {"phase": "Running"}}
        return await self.api.patch(Pod, name, running, "default", subresource="status")

    async def pods(self) -> list[str]:
        return sorted(each.name for each in (await self.api.list(Pod)).items)

    async def until_gone(self, name: str = "web-0") -> None:
        async def gone() -> bool:
            return name not in await self.pods()

        await self.until(gone)

    async def opt_in(self, *, releases: bool = True) -> None:
        await self.api.patch(FencePolicy, "policy", {"spec": {"storageReleasesPods": releases}})

    async def lost_node(self) -> Node:
        """A node that can be shut out of a target."""
        node = await self.node("a")
        await self.node("b")
        await self.mechanism(parameters=SHUT)
        await self.policy("bmc")
        return node

    async def released(self) -> set[str]:
        found = (await self.api.list(VolumeAttachment)).items
        return {each.name for each in found if evidence_of(each) is not None}

    async def until_released(self, *names: str) -> None:
        async def all_of_them() -> bool:
            return await self.released() == set(names)

        await self.until(all_of_them)
