"""What the page shows of one object: compact rows, as JSON's types. Pure.

A row depends only on its own object and on what is recorded about it, so that a change costs the rows that it
concerns. Keys that have nothing to say are left out. Names and messages are bounded (`text`).

- nodes: `phase` (ready, notready, silent, gone), `marks`, `pods`, `attached`, `inUse`, `since`, `zone`
- volumes: `phase`, `claim`, `size`, `class`, `driver`, `on` (node, state, error), `pods`; those that pods
  define (`own_volumes`), too
- pods: `phase` (the word of kubectl's STATUS), `tone` (ok, wait, bad, done), `node`, `volumes`
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mooring.controllers.attachdetach.decide import is_detached
from mooring.kube.objects import (
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    VolumeAttachment,
)
from mooring.kube.readiness import ready_since
from mooring.page.own_volumes import OWN, own_volumes, source_of, split_own
from mooring.page.text import message, name
from mooring.page.world import World
from mooring.volumes.attachability import driver_of
from mooring.volumes.claims import claims_of
from mooring.volumes.names import DETACHING
from mooring.volumes.out_of_service import out_of_service

Row = dict[str, Any]
"""Of JSON's types; never changed once it is made."""

CLAIM = "claim "
"""Before the key of a claim that has no volume yet: the id of its row among the volumes."""
ZONE = "topology.kubernetes.io/zone"
KINDS = (
    *(
        "nfs",
        "host_path",
        "local",
        "azure_file",
        "glusterfs",
        "iscsi",
        "fc",
        "flex_volume",
        "cephfs",
        "quobyte",
    ),
    "flocker",
)
"""Fields of a PersistentVolume by which one is named that nothing attaches, or not always."""
MOST_PODS = 20
"""Of one volume, so many pods are named; the rest is counted."""

ORDER = ("detaching", "attaching", "in-use", "used", "attached")
"""The states of a volume on a node; the first that one of its nodes has is the volume's phase."""


def node_row(key: str, world: World) -> Row | None:
    """The row of a Node; of one that is gone, as long as a pod or a VolumeAttachment names it."""
    node, records = world.nodes.get(key), world.records_on(key)
    pods = [pod for pod in world.bound_to(key) if not pod.finished]
    if node is None:
        return _row(phase="gone", pods=len(pods), attached=len(records)) if pods or records else None
    ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
    return _row(
        phase={"True": "ready", "False": "notready"}.get(node.ready, "silent"),
        marks=[name(mark) for mark in _marks(node)],
        pods=len(pods),
        attached=len(node.status.volumes_attached),
        inUse=len(node.status.volumes_in_use),
        since=(ready.last_transition_time or "") if ready is not None else "",
        zone=name(node.metadata.labels.get(ZONE, "")),
    )


def _marks(node: Node) -> Iterable[str]:
    if node.deleting:
        yield "being deleted"
    if node.spec.unschedulable:
        yield "cordoned"
    if out_of_service(node):
        yield "out of service"


def pod_row(pod: Pod, world: World) -> Row:
    """The row of a pod; `volumes` are ids of rows."""
    phase = pod_phase(pod)
    return _row(
        phase=name(phase),
        tone=_tone(pod, phase),
        node=name(pod.spec.node_name),
        volumes=[name(each) for each in _volumes_of(pod, world)],
    )


def pod_phase(pod: Pod) -> str:
    """What kubectl's STATUS column would say, in short."""
    if pod.deleting:
        return "Terminating"
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        if status.state.waiting is not None and status.state.waiting.reason not in ("", "PodInitializing"):
            return status.state.waiting.reason
    return pod.status.reason or pod.status.phase or "Pending"


def _tone(pod: Pod, phase: str) -> str:
    if pod.status.phase == "Succeeded":
        return "done"
    if pod.status.phase == "Failed" or phase.endswith(("Error", "BackOff", "NeverPull")):
        return "bad"
    return "ok" if not pod.deleting and ready_since(pod) is not None else "wait"


def _volumes_of(pod: Pod, world: World) -> Iterable[str]:
    for key in claims_of(pod):
        claim = world.claims.get(key)
        bound = claim.spec.volume_name if claim is not None else ""
        yield bound if bound in world.volumes else f"{CLAIM}{key}"
    yield from (f"{OWN}{key}" for key in own_volumes(pod))


def claim_row(claim: PersistentVolumeClaim, world: World) -> Row | None:
    """The row of a claim without a volume, None for one that has one: then its volume has a row."""
    if claim.spec.volume_name in world.volumes:
        return None
    phase = "deleting" if claim.deleting else "lost" if claim.status.phase == "Lost" else "pending"
    return _row(
        phase=phase,
        claim=name(claim.key),
        size=name(str(claim.spec.resources.requests.get("storage", ""))),
        **{"class": name(claim.storage_class)},
        **_pods(world.pods_by_claim.of(claim.key)),
    )


def volume_row(pv: PersistentVolume, world: World) -> Row:
    """The row of a PersistentVolume."""
    unique, claim = world.unique_name(pv.name), world.claim_key(pv.name)
    users = tuple(world.pods_by_claim.of(claim)) if claim is not None else ()
    places = _recorded(pv, unique, world)
    if not unique or not world.attachability.attach_required(unique):
        places = places or _unrecorded(users, world)
    return _row(
        phase=_phase(pv, [place["state"] for place in places]),
        claim=name(claim or ""),
        size=name(str(pv.spec.capacity.get("storage", ""))),
        **{"class": name(pv.spec.storage_class_name)},
        driver=name(driver_of(unique) if unique else _source(pv)),
        on=places,
        **_pods(users),
    )


def own_row(key: str, world: World) -> Row | None:
    """The row of a volume that a pod defines; None once the pod has ended, unless it is still attached."""
    pod_key, volume_name = split_own(key)
    pod = world.pods.get(pod_key)
    volume = next((each for each in pod.spec.volumes if each.name == volume_name), None) if pod else None
    if pod is None or volume is None or not (source := source_of(volume)):
        return None
    unique = world.own_unique(key)
    records = sorted(world.known.attachments_of(unique), key=lambda each: each.name) if unique else []
    places = [_place(each, unique, world) for each in records]
    if not unique or not world.attachability.attach_required(unique):
        places = places or _unrecorded([pod_key], world)
    if pod.finished and not places:
        return None
    return _row(
        phase=next((state for state in ORDER if state in [place["state"] for place in places]), "awaited"),
        driver=name(driver_of(unique) or (volume.csi.driver if volume.csi else source.replace("_", ""))),
        on=places,
        pods=[name(pod_key)],
    )


def _phase(pv: PersistentVolume, states: list[str]) -> str:
    if pv.deleting:
        return "deleting"
    if pv.status.phase == "Failed":
        return "failed"
    return next((state for state in ORDER if state in states), pv.status.phase.lower() or "available")


def _recorded(pv: PersistentVolume, unique: str, world: World) -> list[Row]:
    records = {each.name: each for each in world.records_of(pv.name)}
    if unique:
        records |= {each.name: each for each in world.known.attachments_of(unique)}
    return [_place(records[key], unique, world) for key in sorted(records)]


def _place(record: VolumeAttachment, unique: str, world: World) -> Row:
    node = world.nodes.get(record.spec.node_name)
    state = attachment_state(record)
    if state == "attached" and node is not None and unique in node.status.volumes_in_use:
        state = "in-use"
    error = record.status.detach_error if state == "detaching" else record.status.attach_error
    return _row(
        node=name(record.spec.node_name),
        state=state,
        error=message(error.message) if error is not None else "",
    )


def attachment_state(record: VolumeAttachment) -> str:
    """attaching, attached or detaching; also detaching while its own node waits for what may be late."""
    if record.deleting or DETACHING in record.metadata.annotations or is_detached(record):
        return "detaching"
    return "attached" if record.status.attached else "attaching"


def _unrecorded(users: Iterable[str], world: World) -> list[Row]:
    """Where a volume is that nothing attaches: on the nodes of its pods."""
    pods = (world.pods[key] for key in users)
    nodes = {pod.spec.node_name for pod in pods if pod.spec.node_name and not pod.finished}
    return [_row(node=name(node), state="used") for node in sorted(nodes)]


def _source(pv: PersistentVolume) -> str:
    """The volume's kind, as the API's field has it, for those that are not attached."""
    spec = pv.spec
    if spec.csi is not None:
        return spec.csi.driver
    for field in KINDS:
        if getattr(spec, field) is not None:
            return field.replace("_", "")
    return ""


def _pods(keys: Iterable[str]) -> Row:
    named = sorted(keys)
    more = {"morePods": len(named) - MOST_PODS} if len(named) > MOST_PODS else {}
    return {"pods": [name(key) for key in named[:MOST_PODS]], **more}


def _row(**fields: Any) -> Row:
    return {key: value for key, value in fields.items() if value not in ("", None, [], 0)}
