"""The attach/detach controller: what is decided for a volume is done through the API, and nothing is remembered.

The unit of work is a volume, by its unique name. Changes of pods, claims, volumes, nodes and VolumeAttachments mark the
volumes that they touch, and only those are decided again. Attaching and detaching itself is the attacher's work; this
controller knows no storage. What it writes, and on what condition, is in `handshake`; what it decides, in `decide`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from random import Random

from mooring.controllers.attachdetach.decide import (
    Action,
    Attachment,
    Decision,
    NodeState,
    VolumeState,
    decide,
    demands_of,
)
from mooring.controllers.attachdetach.handshake import Handshake
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import AlreadyExists, NotFound
from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod, Volume, VolumeAttachment
from mooring.kube.times import Now
from mooring.volumes import claims
from mooring.volumes.errors import VolumeError
from mooring.volumes.exclusivity import is_exclusive
from mooring.volumes.names import CONTROLLER_MANAGED, attachable_volume_name, split_volume_name, volume_of
from mooring.volumes.out_of_service import SEEN
from mooring.volumes.plugin_manager import PluginManager
from mooring.volumes.spec import VolumeSpec


class AttachDetachController(Controller):
    """Creates and deletes VolumeAttachments and derives `node.status.volumesAttached` from them."""

    name = "attachdetach-controller"

    def __init__(self, client: Client, plugins: PluginManager, *, now: Now, random: Random) -> None:
        super().__init__(client, now=now, random=random)
        self._plugins = plugins
        self._pods = self.watch(
            Pod, self._volumes_of_pod, indexers={"use": self._uses_of_pod, "node": lambda pod: [pod.spec.node_name]}
        )
        self._claims = self.watch(PersistentVolumeClaim, self._volumes_of_claim)
        self._persistent_volumes = self.watch(
            PersistentVolume,
            self._volumes_of_persistent_volume,
            indexers={"volume": self._volumes_of_persistent_volume},
        )
        self._records = self.watch(
            VolumeAttachment,
            lambda record: [volume_of(record)] if volume_of(record) else [],
            indexers={
                "node": lambda record: [record.spec.node_name],
                "volume": lambda record: [volume_of(record)],
            },
        )
        self._nodes = self.watch(Node, self._volumes_of_node, matters=_what_matters)
        self._handshake = Handshake(
            client, self._records, self._nodes, now=now, random=random, answers_for=self._answers_for
        )
        # Deletions that were asked for and that the cache does not show yet: VolumeAttachment name -> uid.
        self._deleted: dict[str, str] = {}
        self._records.add_handler(self._forget_deleted)
        self._told: dict[tuple[str, str], tuple[str, ...]] = {}  # (volume, node) -> what events said, and to which pods

    # --- from changes to volumes ---------------------------------------------------------------------------------

    def _unique_name(self, spec: VolumeSpec) -> str | None:
        """The volume's unique name, if it is one that is attached."""
        try:
            plugin = self._plugins.find_attachable_plugin_by_spec(spec)
            return attachable_volume_name(plugin.get_plugin_name(), plugin.get_volume_name(spec)) if plugin else None
        except VolumeError:
            return None  # not ours, or malformed: the node says so in the pod's events

    def _spec(self, pod: Pod, volume: Volume) -> VolumeSpec | None:
        try:
            return claims.volume_spec(
                pod, volume, lambda ns, name: self._claims.get(f"{ns}/{name}"), self._persistent_volumes.get
            )
        except VolumeError:
            return None  # its claim is not bound (yet): the claim's change will bring us back

    def _uses_of_pod(self, pod: Pod) -> Iterator[str]:
        """What a pod's volumes go by in the index: a claim's key, or an inline volume's unique name."""
        for volume in pod.spec.volumes:
            claim = claims.claim_name(pod, volume)
            name = f"{pod.namespace}/{claim}" if claim else self._unique_name(VolumeSpec.of_volume(volume))
            if name:
                yield name

    def _volumes_of_pod(self, pod: Pod) -> Iterator[str]:
        for volume in pod.spec.volumes if pod.spec.node_name else ():
            spec = self._spec(pod, volume)
            name = self._unique_name(spec) if spec else None
            if name:
                yield name

    def _volumes_of_claim(self, claim: PersistentVolumeClaim) -> Iterable[str]:
        bound = self._persistent_volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
        return self._volumes_of_persistent_volume(bound) if bound else ()

    def _volumes_of_persistent_volume(self, persistent_volume: PersistentVolume) -> Iterable[str]:
        name = self._unique_name(VolumeSpec.of_persistent_volume(persistent_volume))
        return [name] if name else []

    def _volumes_of_node(self, node: Node) -> Iterator[str]:
        for record in self._records.by_index("node", node.name):
            if volume_of(record):
                yield volume_of(record)
        for pod in self._pods.by_index("node", node.name):
            yield from self._volumes_of_pod(pod)

    def _answers_for(self, volume: str) -> bool:
        try:
            return self._plugins.find_attachable_plugin_by_name(split_volume_name(volume)[0]) is not None
        except (ValueError, VolumeError):
            return False

    # --- one volume ----------------------------------------------------------------------------------------------

    async def reconcile(self, key: str) -> None:
        """Decides about one volume and does what was decided."""
        state = self._state(key)
        for decision in decide(state):
            self._tell(key, decision)
            await self._do(key, decision)

    def _state(self, volume: str) -> VolumeState:
        records = [record for record in self._records.by_index("volume", volume) if not self._vanished(record)]
        demands = demands_of(self._users(volume))
        concerned = {demand.node for demand in demands} | {record.spec.node_name for record in records}
        found = [node for name in sorted(concerned) if (node := self._nodes.get(name))]
        return VolumeState(
            volume=volume,
            several_nodes=self._several_nodes(volume),
            demands=demands,
            attachments=tuple(self._attachment(record) for record in records),
            nodes={node.name: NodeState.of(node, volume) for node in found},
        )

    def _forget_deleted(self, old: VolumeAttachment | None, new: VolumeAttachment | None) -> None:
        if old is not None and new is None:
            self._deleted.pop(old.name, None)

    def _vanished(self, record: VolumeAttachment) -> bool:
        """Its deletion was asked for, and nothing held it: the cache is late."""
        return self._deleted.get(record.name) == record.uid and not record.metadata.finalizers

    def _attachment(self, record: VolumeAttachment) -> Attachment:
        asked = self._deleted.get(record.name) == record.uid
        if record.deleting or not asked:
            self._deleted.pop(record.name, None)
        attachment = Attachment.of(record)
        return replace(attachment, deleting=True) if asked else attachment

    def _spec_of(self, volume: str) -> VolumeSpec | None:
        """What defines the volume: its PersistentVolume, else a pod that names it itself."""
        for persistent_volume in self._persistent_volumes.by_index("volume", volume):
            return VolumeSpec.of_persistent_volume(persistent_volume)
        for pod in self._pods.by_index("use", volume):
            inline = (VolumeSpec.of_volume(each) for each in pod.spec.volumes)
            return next(spec for spec in inline if self._unique_name(spec) == volume)
        return None

    def _several_nodes(self, volume: str) -> bool:
        spec = self._spec_of(volume)
        plugin = self._plugins.find_attachable_plugin_by_spec(spec) if spec else None
        return spec is not None and plugin is not None and not is_exclusive(spec, plugin.capabilities(spec))

    def _users(self, volume: str) -> Iterator[Pod]:
        """Pods that use the volume through a claim bound to it, or define it themselves."""
        for persistent_volume in self._persistent_volumes.by_index("volume", volume):
            reference = persistent_volume.spec.claim_ref
            if reference is not None:
                users = self._pods.by_index("use", f"{reference.namespace}/{reference.name}")
                yield from (pod for pod in users if volume in set(self._volumes_of_pod(pod)))
        yield from self._pods.by_index("use", volume)

    # --- doing ---------------------------------------------------------------------------------------------------

    async def _do(self, volume: str, decision: Decision) -> None:
        match decision.action:
            case Action.ATTACH:
                await self._attach(volume, decision)
            case Action.RESTORE:
                await self._handshake.restore(self._record(volume, decision.node))
            case Action.RESTAMP:
                await self._handshake.restamp(self._record(volume, decision.node), self._node(decision.node))
            case Action.REPORT:
                if not await self._handshake.report(self._record(volume, decision.node)):
                    self.queue.add_after(volume, 0.05)
            case Action.DETACH:
                await self._detach(volume, decision)
            case Action.WAIT | Action.BLOCKED | Action.SETTLED:
                return
        self.log.info(decision.action.value, volume=volume, node=decision.node, reason=decision.reason.message)

    async def _attach(self, volume: str, decision: Decision) -> None:
        spec = self._spec_of(volume)
        assert spec is not None, f"volume {volume} is wanted, but nothing defines it"
        try:
            await self._handshake.attach(volume, self._node(decision.node), spec)
        except AlreadyExists:
            self.queue.add_after(volume, 0.05)  # an older one of the same name is still going

    async def _detach(self, volume: str, decision: Decision) -> None:
        released = await self._handshake.detach(self._record(volume, decision.node))
        if released.verdict.allowed:
            self._deleted[released.record.name] = released.record.uid
            if released.verdict.forced:
                reason = released.verdict.reason
                self.log.warning("forced detach", volume=volume, node=decision.node, reason=reason.message)
                node = self._nodes.get(decision.node)
                if node is not None:
                    self.recorder.event(node, "Warning", "ForcedDetach", f"volume {volume}: {reason.message}")
        self.queue.add_after(volume, 0.05)

    def _record(self, volume: str, node: str) -> VolumeAttachment:
        """What was decided about; NotFound if it went while an earlier decision was carried out: decide again."""
        for record in self._records.by_index("volume", volume):
            if record.spec.node_name == node:
                return record
        raise NotFound(f"volume {volume} has no VolumeAttachment on node {node} any more", status=404)

    def _node(self, name: str) -> Node:
        node = self._nodes.get(name)
        if node is None:
            raise NotFound(f"node {name} does not exist any more", status=404)
        return node

    def _tell(self, volume: str, decision: Decision) -> None:
        """Says what pods' users must know, once for each change of it."""
        record = next((r for r in self._records.by_index("volume", volume) if r.spec.node_name == decision.node), None)
        said = _event(volume, decision, record)
        if said is None:
            self._told.pop((volume, decision.node), None)
            return
        pods = [pod for key in decision.pods if (pod := self._pods.get(key)) is not None]
        told = (*said, *(pod.uid for pod in pods))
        if self._told.get((volume, decision.node)) == told:
            return
        self._told[volume, decision.node] = told
        for pod in pods:
            self.recorder.event(pod, "Normal" if said[0] == "SuccessfulAttachVolume" else "Warning", *said)


def _event(volume: str, decision: Decision, record: VolumeAttachment | None) -> tuple[str, str] | None:
    """Reason and message, in upstream's words."""
    if decision.action is Action.REPORT and decision.pods:
        return "SuccessfulAttachVolume", f'AttachVolume.Attach succeeded for volume "{volume}"'
    if record is not None and record.status.attach_error is not None and decision.reason.code == "Attaching":
        message = record.status.attach_error.message
        return "FailedAttachVolume", f'AttachVolume.Attach failed for volume "{volume}" : {message}'
    if decision.action is Action.BLOCKED and decision.reason.code == "MultiAttach":
        return "FailedAttachVolume", f'Multi-Attach error for volume "{volume}": {decision.reason.message}'
    return None


def _what_matters(node: Node) -> tuple[object, ...]:
    """What of a Node a decision may depend on; heartbeats change none of it."""
    annotations, status = node.metadata.annotations, node.status
    return (
        node.uid,
        node.ready,
        node.spec.taints,
        status.volumes_attached,
        status.volumes_in_use,
        annotations.get(CONTROLLER_MANAGED),
        annotations.get(SEEN),
        status.node_info.boot_id,
    )
