"""What other parties put on objects that are not theirs, and expect to find again: a backup program's labels
and annotations, an owner beside the controller, a taint, a condition, a finalizer.

No controller may take that away, as it would with a write of the whole list or map that it was in (S43).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import msgspec

from mooring.kube.errors import NotFound
from mooring.kube.objects import (
    ConfigMap,
    Node,
    Object,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    VolumeAttachment,
)
from mooring.kube.times import format_time
from mooring.simulation.cluster.careless_users import HOLD, hold_patch
from mooring.simulation.cluster.plan import PlanStep
from mooring.simulation.cluster.users import Users, insist
from mooring.simulation.engine.trace import Event
from mooring.volumes.claims import claims_of

MARK = "example.com/backup"
"""The key of the label, the annotation and the taint, and the type of the condition."""
GUARD = "example.com/guard"
"""Its finalizer. That of the careless users is another one: each takes its own away when it lets go."""
HOLDS = frozenset({HOLD, GUARD})
"""The finalizers of both."""
LISTED = "volume"
"""The mark of a Node that lists a volume of another controller as attached."""
ATTACHED = f"{MARK}/disk"
"""That volume: of a plugin that nothing of ours knows."""
OWNED_S = 40.0
"""After so many seconds the other party's own object goes; the garbage collector then drops what names it."""
GUARDS_S, KEEPS_S = 90.0, 8.0
"""For so many seconds each new VolumeAttachment gets its finalizer; for so many it stays there."""
TRIES = 5
"""What it does not get marked by then stays as it is."""


_record = msgspec.json.Decoder(VolumeAttachment).decode


class OtherParties:
    """One of them for each object."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self._cluster = users.cluster
        self._api = users.api
        self._guards_until = 0.0
        self._cluster.trace.listen("store.written", self._guard)

    async def mark(self, step: PlanStep) -> None:
        """Marks a pod of the workload (`how` 0), its claims (1), volumes (2), VolumeAttachments (3), its node
        (4) or the workload itself (5); with 7 its claims have another owner for a while, too, with 9 new
        VolumeAttachments a finalizer, and with 10 its node has a volume of another controller attached."""
        pod = await self._users.pod(step)
        if pod is None or pod.deleting:
            return
        async for each in self._objects(step, pod):
            await insist(lambda e=each: self._mark(e), TRIES)
            if isinstance(each, PersistentVolumeClaim) and step.how >= 6:
                await insist(lambda e=each: self._own(e, f"backup-{step.at:.0f}-{e.name}"), TRIES)
            if isinstance(each, VolumeAttachment) and step.how >= 6:
                self._guards_until = asyncio.get_running_loop().time() + GUARDS_S
            if isinstance(each, Node) and step.how >= 6:
                await insist(lambda e=each: self._list(e), TRIES)
            if isinstance(each, (Pod, Node)):
                await insist(lambda e=each: self._add_condition(e), TRIES)

    async def _objects(self, step: PlanStep, pod: Pod) -> AsyncIterator[Object]:
        claims = [await self._claim(key) for key in claims_of(pod)]
        volumes = {each.spec.volume_name for each in claims if each is not None and each.spec.volume_name}
        found: list[Object | None] = []
        match step.how % 6:
            case 0:
                found = [pod]
            case 1:
                found = [*claims]
            case 2:
                found = [await self._api.find(PersistentVolume, name) for name in sorted(volumes)]
            case 3:
                records = (await self._api.list(VolumeAttachment)).items
                found = [each for each in records if each.spec.source.persistent_volume_name in volumes]
            case 4:
                found = [await self._api.find(Node, pod.spec.node_name)] if pod.spec.node_name else []
            case _:
                found = [await self._users.workload(step.on)]
        for each in found:
            if each is not None:
                yield each

    async def _claim(self, key: str) -> PersistentVolumeClaim | None:
        namespace, _, name = key.partition("/")
        return await self._api.find(PersistentVolumeClaim, name, namespace)

    async def _mark(self, found: Object) -> None:
        live = await self._live(found)
        patch: dict[str, Any] = {"metadata": {"labels": {MARK: "yes"}, "annotations": {MARK: "yes"}}}
        if isinstance(live, Node):
            taints = [*live.spec.taints, {"key": MARK, "effect": "PreferNoSchedule"}]
            patch["spec"] = {"taints": msgspec.to_builtins(taints)}
        await self._api.revise(live, patch)
        self._tell(live, "label", "annotation", *(["taint"] if isinstance(live, Node) else []))

    async def _own(self, found: Object, name: str) -> None:
        """Has an object of its own own it for a while, beside others: what it owned alone would go, too."""
        live = await self._live(found)
        if not live.metadata.owner_references:
            return
        await self._api.create(ConfigMap, {"metadata": {"name": name}}, live.namespace)
        mine = await self._api.get(ConfigMap, name, live.namespace)
        self._cluster.user.start(self._leave(mine))
        owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": mine.uid}
        owners = [*msgspec.to_builtins(live.metadata.owner_references), owner]
        await self._api.revise(live, {"metadata": {"ownerReferences": owners}})
        self._tell(live, f"owner {name}")

    async def _leave(self, mine: ConfigMap) -> None:
        await asyncio.sleep(OWNED_S)
        await insist(lambda: self._api.delete(ConfigMap, mine.name, mine.namespace))

    async def _add_condition(self, found: Object) -> None:
        since = format_time(self._cluster.user.now())
        condition = {"type": MARK, "status": "True", "reason": "Backup", "lastTransitionTime": since}
        patch = {"status": {"conditions": [condition]}}
        kind, name, namespace = type(found), found.name, found.namespace
        await self._api.patch(
            kind, name, patch, namespace, subresource="status", uid=found.uid, strategy="strategic"
        )
        self._tell(found, "condition")

    async def _list(self, found: Object) -> None:
        live = await self._live(found)
        if not isinstance(live, Node) or any(each.name == ATTACHED for each in live.status.volumes_attached):
            return
        listed = [*msgspec.to_builtins(live.status.volumes_attached), {"name": ATTACHED, "devicePath": ""}]
        await self._api.revise(live, {"status": {"volumesAttached": listed}}, subresource="status")
        self._tell(live, LISTED)

    # --- finalizers

    def _guard(self, event: Event) -> None:
        """As soon as a VolumeAttachment is there; the attacher adds its own finalizer in that moment."""
        kind = VolumeAttachment.RESOURCE.plural
        if event.time >= self._guards_until or event.fields["resource"].partition(".")[0] != kind:
            return
        record = _record(event.fields["_body"])
        if not record.metadata.finalizers and not record.deleting:
            self._cluster.user.start(self._hold(record.name, record.uid))

    async def _hold(self, name: str, uid: str) -> None:
        """It insists: what it gave up, with an outcome that is not known, might be there when it has let
        go."""
        await insist(lambda: self._set_finalizer(name, uid, there=True))
        await asyncio.sleep(KEEPS_S)
        await insist(lambda: self._set_finalizer(name, uid, there=False))

    async def _set_finalizer(self, name: str, uid: str, *, there: bool) -> None:
        found = await self._api.find(VolumeAttachment, name)
        if found is None or found.uid != uid or (GUARD in found.metadata.finalizers) == there:
            return
        if not there:
            self._tell(found, "finalizer", kind="plan.unmarked")
        elif found.deleting:
            return
        await self._api.revise(found, hold_patch(found, GUARD, there=there))
        if there:
            self._tell(found, "finalizer")

    async def _live(self, found: Object) -> Object:
        live = await self._api.get(type(found), found.name, found.namespace)
        if live.uid != found.uid or live.deleting:
            raise NotFound(f"{found.key} is gone", status=404)
        return live

    def _tell(self, marked: Object, *marks: str, kind: str = "plan.marked") -> None:
        """From now on these are there, or (`plan.unmarked`) need not be there."""
        resource = marked.RESOURCE.plural
        for mark in marks:
            self._cluster.trace("user", kind, resource=resource, name=marked.key, uid=marked.uid, mark=mark)
