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

from mooring.controllers.attachdetach import controller, state
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
    metadata, status = node.metadata, node.status
    carried = [each for each in node.spec.taints if each.key == TAINT and each.effect == "NoExecute"]
    ready = [each.status for each in status.conditions if each.type == "Ready"]
    is_spent = carried != [] and has_reported_under(node, carried[0])
    facts = (metadata.name, metadata.uid, metadata.creation_timestamp or "", ready[0] if ready else "Unknown")
    annotated = (MANAGED in metadata.annotations, names.RECONSTRUCTED in metadata.annotations)
    listed = (volume in [each.name for each in status.volumes_attached], volume in status.volumes_in_use)
    declared = carried != [] and not is_spent and facts[3] == "Unknown"
    if (
        facts != (known.name, known.uid, known.created, known.ready)
        or annotated != (known.managed, known.reconstructed)
        or listed != (known.reported, known.in_use)
        or (carried != [], is_spent, declared) != (known.tainted, known.taint_spent, known.out_of_service)
    ):
        taint = f"tainted, spent, out of service: {carried != []}, {is_spent}, {declared}"
        yield f"{volume}, node {known.name}: {facts}, {annotated}, {listed}, {taint}; {known}"


def has_reported_under(node: Node, taint: Taint) -> bool:
    """A taint under which the node has reported is spent (C11): our agent says so itself; of upstream's
    kubelets `managedFields` tells when they last reported. When it appeared may not be known: then it is."""
    annotations = node.metadata.annotations
    if annotations.get(SEEN) == (taint.time_added or "true"):
        return True
    if names.RECONSTRUCTED in annotations:
        return False
    written = [each for each in node.metadata.managed_fields if each.time and each.manager not in CONTROLLERS]
    reports = [datetime.fromisoformat(each.time or "") for each in written if each.subresource == "status"]
    if not reports:
        return False
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
    errors = (status.attach_error, status.detach_error)
    about = (record.metadata.name, record.spec.node_name, record.metadata.creation_timestamp or "")
    stage = (status.attached, names.DETACHING in annotations, ends or requested)
    words = (
        int(epoch) if epoch.isdecimal() else -1,
        *(said(name, "") for name in (names.NODE_UID, names.NODE_MACHINE, names.BROKEN)),
        *(said(name, "") for name in (names.FORCE_DETACH_SINCE, names.NODE_ABSENT_SINCE)),
        *(error.message if error is not None else "" for error in errors),
    )
    if (
        about != (answer.name, answer.node, answer.created)
        or stage != (answer.attached, answer.marked, answer.deleting)
        or answer.detached != (ends and names.DETACHED in annotations)
        or words
        != (
            answer.epoch,
            *(answer.node_uid, answer.machine, answer.broken),
            *(answer.force_since, answer.absent_since),
            *(answer.attach_error, answer.detach_error),
        )
    ):
        yield f"VolumeAttachment {record.name}: {about}, {stage}, {words}; {answer}"
    for word, name in ((answer.statement, names.CONFIRMED_DEAD), (answer.evidence, names.FENCE_EVIDENCE)):
        if (word is not None or name in annotations) and not _reads(word, said(name, "")):
            yield f"VolumeAttachment {record.name}: {name} is {said(name)!r}; {word}"
    if requested and not record.metadata.finalizers:
        yield f"VolumeAttachment {record.name} counts, and is gone: only a stale cache shows it"
    if (requested or ends) and was_requested(asked, record) != (requested and not ends):
        yield f"VolumeAttachment {record.name}: that its deletion was requested is {requested}, and kept"


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
    if strangers := [
        each.key for each in pods if each.spec.node_name != node or not node or _has_ended(each)
    ]:
        yield f"pods {strangers} want nothing of node {node}"
    ages = sorted((each.metadata.creation_timestamp or "", each.key) for each in pods)
    if (answer.pods, answer.since, answer.node) != (tuple(key for _, key in ages), ages[0][0], node):
        yield f"on {node}: {answer}, of pods {ages}"
    ending = sum(each.metadata.deletion_timestamp is not None for each in pods)
    if answer.starting != (ending < len(pods)):
        yield f"on {node} so many of its pods are being deleted: {ending}; {answer}"


def _has_ended(pod: Pod) -> bool:
    return pod.status.phase in {"Succeeded", "Failed"}


QUESTIONS = (
    Question(AttachDetachController, "_state", volume_state),
    Question(AttachDetachController, "_attachment", attachment, before=was_requested),
    Question(controller, "_lock", lock),
    Question(state, "_demand", demand),
)
