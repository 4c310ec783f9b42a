"""What must have come true some time after the last fault: nothing hangs, and what is recorded is what is.

Read from the API at the end of a run, and compared with the truth of array and machines.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, Pod, StatefulSet, VolumeAttachment
from mooring.simulation.trace import Event
from mooring.simulation.world import World

CALM_S = 180.0
"""For so long before the end nobody may write anything but heartbeats."""
HEARTBEATS = ("leases.coordination.k8s.io", "nodes")

Complaint = tuple[str, str]


class Quiet:
    """L7: counts what is written near the end."""

    def __init__(self, world: World) -> None:
        self._from = world.scenario.end_s - CALM_S
        self.written: list[str] = []
        world.trace.listen("store.written", self._note)
        world.trace.listen("store.deleted", self._note)

    def _note(self, event: Event) -> None:
        if event.time > self._from and event.fields["resource"] not in HEARTBEATS:
            self.written.append(f"{event.fields['resource']} {event.fields['name']}")


async def complaints(world: World, quiet: Quiet) -> AsyncIterator[Complaint]:
    """What has not come true, with the name of the property."""
    pods = {pod.name: pod for pod in (await world.api.list(Pod)).items}
    wanted = {
        f"{each.name}-{number}"
        for each in (await world.api.list(StatefulSet)).items
        for number in range(each.spec.replicas)
    }
    for name in sorted(wanted):
        pod = pods.get(name)
        if pod is None or pod.deleting or not _ready(pod):
            seen = "does not exist" if pod is None else f"is {pod.status.phase} on {pod.spec.node_name or 'no node'}"
            yield "L1", f"pod {name} is wanted and {seen}"
    for name in sorted(set(pods) - wanted):
        yield "L4", f"pod {name} is not wanted and exists"
    async for complaint in _volumes(world, [pods[name] for name in sorted(wanted & set(pods))]):
        yield complaint
    if quiet.written:
        yield "L7", f"{len(quiet.written)} writes in the last {CALM_S:.0f} s, such as {quiet.written[-1]}"


async def _volumes(world: World, pods: list[Pod]) -> AsyncIterator[Complaint]:
    claims = {claim.name: claim for claim in (await world.api.list(PersistentVolumeClaim)).items}
    for claim in claims.values():
        if not claim.spec.volume_name or claim.status.phase != "Bound":
            yield "L5", f"claim {claim.name} is {claim.status.phase}"
    desired = {
        claims[f"data-{pod.name}"].spec.volume_name: pod.spec.node_name
        for pod in pods
        if f"data-{pod.name}" in claims and _ready(pod)
    }
    records = (await world.api.list(VolumeAttachment)).items
    recorded = {each.spec.source.persistent_volume_name or "": each.spec.node_name for each in records}
    for what, seen in (
        ("attached", world.array.attached),
        ("recorded", recorded),
        ("mounted", dict(world.array.mounted)),
    ):
        if seen != desired:
            yield "L3", f"wanted {_told(desired)}, and {what} is {_told(seen)}"
    volumes = {each.name for each in (await world.api.list(PersistentVolume)).items}
    if leaked := sorted(world.array.disks - volumes):
        yield "S9", f"disks without a PersistentVolume: {', '.join(leaked)}"


def _ready(pod: Pod) -> bool:
    ready = any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)
    return pod.status.phase == "Running" and ready


def _told(places: dict[str, str]) -> str:
    return ", ".join(f"{volume} on {node}" for volume, node in sorted(places.items())) or "nothing"
