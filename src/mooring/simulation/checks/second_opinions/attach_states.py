"""What the attach/detach controller knows of a volume is what the objects say: docs/protocol.md.

Its values are compared with the objects that they were made from, field by field.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, cast

from msgspec import Struct

from mooring.controllers.attachdetach import state
from mooring.controllers.attachdetach.controller import AttachDetachController
from mooring.controllers.attachdetach.index import VolumeIndex
from mooring.controllers.attachdetach.state import Attachment, Demand, NodeState, VolumeState
from mooring.kube.objects import Node, PersistentVolume, Pod, Taint, VolumeAttachment
from mooring.simulation.checks.second_opinions.question import Question
from mooring.volumes import names
from mooring.volumes.attachment_lock import ATTACHED_TO, Lock
from mooring.volumes.errors import InvalidSpec
from mooring.volumes.out_of_service import SEEN, TAINT

CONTROLLERS = ("kube-controller-manager", "cloud-controller-manager", "mooring")
NOTHING: Mapping[str, Any] = {}
NO_LOCK = Lock(epoch=0, node="", node_uid="", pod="", closed={})
MANAGED = "volumes.kubernetes.io/controller-managed-attach-detach"

# --- nodes


def volume_state(answer: VolumeState, asked: AttachDetachController, volume: str) -> Iterator[str]:
    """Of each Node that has or wants the volume all is known that it says, and whether it is there."""
    index: VolumeIndex = vars(asked)["_index"]
    silent = False
    concerned = {each.node for each in answer.demands}.union([each.node for each in answer.attachments])
    for name in concerned:
        known = answer.nodes.get(name)
        silent = silent or known is None or known.ready == "Unknown"
        if (known is None) != (index.nodes.get(name) is None):
            yield f"{volume}: node {name} is {'not ' if known is None else ''}known"
        elif known is not None and known.node is not None:
            yield from _node(known, known.node, volume)
    if len(concerned) < len(answer.nodes):
        yield f"{volume}: of {sorted(concerned)} these are known: {sorted(answer.nodes)}"
    records = index.records.by_index("volume", volume)
    if len(records) > len(answer.attachments):
        shown = {each.name for each in answer.attachments}
        for record in records:
            if record.name not in shown and (record.metadata.finalizers or not was_requested(asked, record)):
                yield f"{volume}: VolumeAttachment {record.name} does not count"
    if silent and answer.attachments:
        revokes = index.attachability.revokes(volume, index.spec_of(volume))
        if answer.terms.revokes != revokes:
            yield f"{volume}: its storage {'revokes' if revokes else 'does not revoke'}"


def _node(known: NodeState, node: Node, volume: str) -> Iterator[str]:
    annotations, status, taint = node.metadata.annotations, node.status, None
    for each in node.spec.taints:
        if taint is None and each.key == TAINT and each.effect == "NoExecute":
            taint = each
    ready = "Unknown"
    for each in reversed(status.conditions):
        ready = each.status if each.type == "Ready" else ready
    is_spent = taint is not None and has_reported_under(node, taint)
    if not (
        known.name == node.metadata.name
        and known.uid == node.metadata.uid
        and known.created == (node.metadata.creation_timestamp or "")
        and known.ready == ready
        and known.managed == (MANAGED in annotations)
        and known.reconstructed == (names.RECONSTRUCTED in annotations)
        and known.reported == (volume in [each.name for each in status.volumes_attached])
        and known.in_use == (volume in status.volumes_in_use)
        and known.tainted == (taint is not None)
        and known.taint_spent == is_spent
        and known.out_of_service == (taint is not None and not is_spent and ready == "Unknown")
    ):
        yield f"{volume}, node {node.name}: {ready}, {taint} (spent: {is_spent}), {status}; {known}"


def has_reported_under(node: Node, taint: Taint) -> bool:
    """A taint under which the node has reported is spent (C11): our agent says so itself; of upstream's
    kubelets `managedFields` tells when they last reported. When it appeared, or when they did, may not be
    known: then it is."""
    annotations = node.metadata.annotations
    if annotations.get(SEEN) == (taint.time_added or "true"):
        return True
    if names.RECONSTRUCTED in annotations:
        return False
    written = [each for each in node.metadata.managed_fields if each.time and each.manager not in CONTROLLERS]
    reports = [datetime.fromisoformat(each.time or "") for each in written if each.subresource == "status"]
    if not reports:
        return any(each.last_heartbeat_time is not None for each in node.status.conditions)
    of_taints = [each.time for each in written if "f:taints" in each.fields_v1.spec]
    since = taint.time_added or next(iter(sorted(filter(None, of_taints), reverse=True)), None)
    return since is None or any(each >= datetime.fromisoformat(since) for each in reports)


# --- VolumeAttachments


def was_requested(asked: AttachDetachController, record: VolumeAttachment) -> bool:
    """Its deletion, by this controller."""
    requested: dict[str, str] = vars(asked)["_deleted"]
    return requested.get(record.metadata.name) == record.metadata.uid


def attachment(
    answer: Attachment, requested: bool, asked: AttachDetachController, record: VolumeAttachment
) -> Iterator[str]:
    """What a VolumeAttachment says of itself. A deletion that was requested counts before the cache shows
    it."""
    annotations, status = record.metadata.annotations, record.status
    ends, said = record.metadata.deletion_timestamp is not None, annotations.get
    epoch = said(names.ATTACH_EPOCH, "0")
    if not (
        answer.name == record.metadata.name
        and answer.node == record.spec.node_name
        and answer.attached == status.attached
        and answer.marked == (names.DETACHING in annotations)
        and answer.deleting == (ends or requested)
        and answer.detached == (ends and names.DETACHED in annotations)
        and answer.epoch == (int(epoch) if epoch.isdecimal() else -1)
        and answer.created == (record.metadata.creation_timestamp or "")
        and answer.node_uid == said(names.NODE_UID, "")
        and answer.machine == said(names.NODE_MACHINE, "")
        and answer.broken == said(names.BROKEN, "")
        and answer.force_since == _moment(said(names.FORCE_DETACH_SINCE, ""))
        and answer.force_report == said(names.FORCE_DETACH_REPORT, "")
        and answer.absent_since == _moment(said(names.NODE_ABSENT_SINCE, ""))
        and answer.attach_error == (status.attach_error.message if status.attach_error is not None else "")
        and answer.detach_error == (status.detach_error.message if status.detach_error is not None else "")
    ):
        yield f"VolumeAttachment {record.name} says {annotations}, {status}, ends {ends}; {answer}"
    if answer.statement is not None or names.CONFIRMED_DEAD in annotations:
        yield from _said(answer.statement, names.CONFIRMED_DEAD, record)
    if answer.evidence is not None or names.FENCE_EVIDENCE in annotations:
        yield from _said(answer.evidence, names.FENCE_EVIDENCE, record)
    if requested and not record.metadata.finalizers:
        yield f"VolumeAttachment {record.name} counts, and is gone: only a stale cache shows it"
    if (requested or ends) and was_requested(asked, record) != (requested and not ends):
        yield f"VolumeAttachment {record.name}: that its deletion was requested is {requested}, and kept"


def _said(word: Struct | None, name: str, record: VolumeAttachment) -> Iterator[str]:
    if not _reads(word, record.metadata.annotations.get(name, "")):
        yield f"VolumeAttachment {record.name}: {name} is {record.metadata.annotations.get(name)!r}; {word}"


def _moment(text: str) -> str:
    """A time of which any while is not over the end of all times; "" for what is none, as users may write."""
    try:
        return text if text and datetime.fromisoformat(text) and not text.startswith("9999") else ""
    except ValueError:
        return ""


def _reads(word: Struct | None, text: str) -> bool:
    """Whether it is what an operator or a fence has stated; what cannot be read states nothing."""
    try:
        read: Any = json.loads(text) if text else None
    except ValueError:
        read = None
    said = cast("dict[str, Any]", read) if isinstance(read, dict) else {}
    if word is None:
        return "nodeUID" not in said
    keys = {"node_uid": "nodeUID", "boot_id": "bootID"}
    return all(
        getattr(word, field) == said.get(keys.get(field, field), False if field == "absent" else "")
        for field in word.__struct_fields__
    )


def lock_said(persistent_volume: PersistentVolume | None) -> Mapping[str, Any] | None:
    """What the annotation says, nothing where there is none; None if that cannot be read."""
    found = persistent_volume.metadata.annotations.get(ATTACHED_TO) if persistent_volume is not None else None
    return _read_lock(found) if found else NOTHING


@lru_cache(maxsize=64)
def _read_lock(text: str) -> Mapping[str, Any] | None:
    try:
        said: Any = json.loads(text)
    except ValueError:
        return None
    if not isinstance(said, dict):
        return None
    read = cast("dict[str, Any]", said)
    kinds = {"epoch": int, "node": str, "nodeUID": str, "pod": str, "closed": dict}
    return read if all(isinstance(read[name], kind) for name, kind in kinds.items() if name in read) else None


def lock(answer: Lock | InvalidSpec | None, persistent_volume: PersistentVolume | None) -> Iterator[str]:
    """The lock is the PersistentVolume's annotation; if that cannot be read, it is refused."""
    said = lock_said(persistent_volume)
    if said is NOTHING and answer == NO_LOCK:
        return
    if said is None or not isinstance(answer, Lock):
        if said is not None or isinstance(answer, Lock):
            yield f"the lock {said} is taken for {answer}"
        return
    closed, says = answer.closed, said.get("closed", NOTHING)
    if (
        (answer.epoch, answer.node) != (said.get("epoch", 0), said.get("node", ""))
        or (answer.node_uid, answer.pod) != (said.get("nodeUID", ""), said.get("pod", ""))
        or len(closed) != len(says)
        or any((each.epoch, each.boot_id) != _closed(says.get(name)) for name, each in closed.items())
    ):
        yield f"the lock {said} is read as {answer}"


def _closed(said: Mapping[str, Any] | None) -> tuple[int, str] | None:
    return (said["epoch"], said.get("bootID", "")) if said is not None else None


# --- pods


def demand(answer: Demand, node: str, pods: list[Pod]) -> Iterator[str]:
    """Pods with a node that have not ended want their volumes there, until they are gone; the oldest
    comes first."""
    if strangers := [each for each in pods if each.spec.node_name != node or _has_ended(each)]:
        yield f"pods {[each.key for each in strangers]} want nothing of node {node!r}"
    ages = [(each.metadata.creation_timestamp or "", each.key) for each in pods]
    ages.sort()
    if (
        not node
        or answer.node != node
        or answer.since != ages[0][0]
        or list(answer.pods) != [key for _, key in ages]
    ):
        yield f"on {node!r}: {answer}, of pods {ages}"
    lasting = [each for each in pods if each.metadata.deletion_timestamp is None]
    if answer.starting != bool(lasting):
        yield f"on {node} so many of its pods are not being deleted: {len(lasting)}; {answer}"


def _has_ended(pod: Pod) -> bool:
    return pod.status.phase in {"Succeeded", "Failed"}


QUESTIONS = (
    Question(AttachDetachController, "_state", volume_state),
    Question(AttachDetachController, "_attachment", attachment, before=was_requested),
    Question(state, "_demand", demand),
)
