"""What the attach/detach controller knows of a volume is what the objects say: docs/protocol.md.

Its values are compared with the objects that they were made from, field by field.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, cast

from msgspec import Struct

from mooring.controllers.attachdetach import controller, state
from mooring.controllers.attachdetach.adoption import Adoption
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
UNKNOWN = "^?"

# --- nodes


def volume_state(answer: VolumeState, asked: AttachDetachController, volume: str) -> Iterator[str]:
    """Of each Node that has or wants the volume all is known that it says, and whether it is there."""
    index: VolumeIndex = vars(asked)["_index"]
    concerned = {each.node for each in (*answer.demands, *answer.attachments)}
    there = {name for name in concerned if index.nodes.get(name) is not None}
    if set(answer.nodes) != there:
        yield f"{volume}: of nodes {sorted(there)} these are known: {sorted(answer.nodes)}"
    for known in answer.nodes.values():
        if known.node is not None and (wrong := _wrong_of_node(known, known.node, volume)):
            yield f"{volume}, node {known.name}: {wrong}"
    silent = any(name not in there or answer.nodes[name].ready == "Unknown" for name in concerned)
    if silent and answer.attachments:
        revokes = index.attachability.revokes(volume, index.spec_of(volume))
        if answer.terms.revokes != revokes:
            yield f"{volume}: its storage {'revokes' if revokes else 'does not revoke'}"


def _wrong_of_node(known: NodeState, node: Node, volume: str) -> list[str]:
    status, annotations = node.status, node.metadata.annotations
    carried = [each for each in node.spec.taints if each.key == TAINT and each.effect == "NoExecute"]
    is_spent = bool(carried) and has_reported_under(node, carried[0])
    facts = {
        "name": node.metadata.name,
        "uid": node.metadata.uid,
        "ready": next((each.status for each in status.conditions if each.type == "Ready"), "Unknown"),
        "managed": "volumes.kubernetes.io/controller-managed-attach-detach" in annotations,
        "reconstructed": names.RECONSTRUCTED in annotations,
        "reported": volume in [each.name for each in status.volumes_attached],
        "in_use": volume in status.volumes_in_use,
        "tainted": carried != [],
        "taint_spent": is_spent,
        "out_of_service": carried != [] and not is_spent and node.ready == "Unknown",
        "created": node.metadata.creation_timestamp or "",
    }
    return _differing(known, facts)


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


def attachment(answer: Attachment, asked: AttachDetachController, record: VolumeAttachment) -> Iterator[str]:
    """What a VolumeAttachment says of itself. A deletion that was requested may be known before it shows."""
    annotations, status = record.metadata.annotations, record.status
    requested = record.metadata.deletion_timestamp is not None
    epoch = annotations.get(names.ATTACH_EPOCH, "0")
    facts = {
        "name": record.metadata.name,
        "node": record.spec.node_name,
        "attached": status.attached,
        "marked": names.DETACHING in annotations,
        "deleting": answer.deleting or requested,
        "detached": requested and names.DETACHED in annotations,
        "node_uid": annotations.get(names.NODE_UID, ""),
        "machine": annotations.get(names.NODE_MACHINE, ""),
        "attach_error": status.attach_error.message if status.attach_error is not None else "",
        "detach_error": status.detach_error.message if status.detach_error is not None else "",
        "created": record.metadata.creation_timestamp or "",
        "epoch": int(epoch) if epoch.isdecimal() else -1,
        "force_since": annotations.get(names.FORCE_DETACH_SINCE, ""),
        "absent_since": annotations.get(names.NODE_ABSENT_SINCE, ""),
        "broken": annotations.get(names.BROKEN, ""),
    }
    wrong = _differing(answer, facts)
    for word, name in ((answer.statement, names.CONFIRMED_DEAD), (answer.evidence, names.FENCE_EVIDENCE)):
        if not _reads(word, annotations.get(name, "")):
            wrong.append(f"{name} is {annotations.get(name)!r}")
    if wrong:
        yield f"VolumeAttachment {record.name}: {wrong}"


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


def vanished(answer: bool, asked: AttachDetachController, record: VolumeAttachment) -> Iterator[str]:
    """One whose deletion was requested is gone, whatever a stale cache shows, unless a finalizer holds it."""
    requested = vars(asked)["_deleted"].get(record.metadata.name) == record.metadata.uid
    if answer != (requested and len(record.metadata.finalizers) == 0):
        yield f"VolumeAttachment {record.name} is taken for {'gone' if answer else 'there'}"


def lock_said(persistent_volume: PersistentVolume | None) -> dict[str, Any] | None:
    """What the annotation says, nothing where there is none; None if that cannot be read."""
    found = persistent_volume.metadata.annotations.get(ATTACHED_TO) if persistent_volume is not None else None
    try:
        said: Any = json.loads(found or "{}")
    except ValueError:
        return None
    kinds = {"epoch": int, "node": str, "nodeUID": str, "pod": str, "closed": dict}
    if not isinstance(said, dict):
        return None
    read = cast("dict[str, Any]", said)
    return read if all(isinstance(read[name], kind) for name, kind in kinds.items() if name in read) else None


def lock(answer: Lock | InvalidSpec | None, persistent_volume: PersistentVolume | None) -> Iterator[str]:
    """The lock is the PersistentVolume's annotation; if that cannot be read, it is refused."""
    said = lock_said(persistent_volume)
    if said is None or not isinstance(answer, Lock):
        if said is not None or isinstance(answer, Lock):
            yield f"the lock {said} is taken for {answer}"
        return
    closed = {name: (each.epoch, each.boot_id) for name, each in answer.closed.items()}
    says = {name: (each["epoch"], each.get("bootID", "")) for name, each in said.get("closed", {}).items()}
    got = (answer.epoch, answer.node, answer.node_uid, answer.pod, closed)
    if got != (said.get("epoch", 0), *(said.get(name, "") for name in ("node", "nodeUID", "pod")), says):
        yield f"the lock {said} is read as {answer}"


# --- pods


def demand(answer: Demand, node: str, pods: list[Pod]) -> Iterator[str]:
    """Pods with a node that have not ended want their volumes there, until they are gone; the oldest
    comes first."""
    strangers = [each.key for each in pods if each.spec.node_name != node or not node or _has_ended(each)]
    if strangers:
        yield f"pods {strangers} want nothing of node {node}"
    ages = {each.key: (each.metadata.creation_timestamp or "", each.key) for each in pods}
    oldest = sorted(ages, key=lambda key: ages[key])
    starting = [each.key for each in pods if each.metadata.deletion_timestamp is None]
    if (list(answer.pods), answer.since, answer.node) != (oldest, ages[oldest[0]][0], node):
        yield f"on {node}: {answer}, of pods {oldest}, the oldest of {ages[oldest[0]]}"
    if answer.starting != bool(starting):
        yield f"on {node} these pods are not being deleted: {starting}; {answer}"


def _has_ended(pod: Pod) -> bool:
    return pod.status.phase in {"Succeeded", "Failed"}


# --- VolumeAttachments of upstream's controller


def adopted(
    answer: str, asked: Adoption, record: VolumeAttachment, node: Node | None = None
) -> Iterator[str]:
    """Ours name plugin and volume; upstream's are named by a hash of handle, driver and node (H4a). One of a
    PersistentVolume that is there is about its volume; other attachers' volumes are not looked after."""
    annotations, attacher = record.metadata.annotations, record.spec.attacher
    plugin, name = annotations.get(names.PLUGIN), annotations.get(names.VOLUME_NAME)
    if plugin and name:
        if answer not in ("", f"{plugin}/{name}") or (plugin == names.CSI_PLUGIN and not answer):
            yield f"VolumeAttachment {record.name} of {plugin}/{name} is taken for one of {answer!r}"
        return
    if not answer:
        return
    driver, _, handle = answer.removeprefix(f"{names.CSI_PLUGIN}/").partition("^")
    if driver != attacher or attacher == names.ATTACHER:
        yield f"VolumeAttachment {record.name} of {attacher} is taken for one of {answer}"
    elif UNKNOWN not in answer and record.spec.source.persistent_volume_name is None:
        hashed = sha256(f"{handle}{driver}{record.spec.node_name}".encode()).hexdigest()
        if record.name != f"csi-{hashed}":
            yield f"VolumeAttachment {record.name} is not that of {answer} on {record.spec.node_name}"


def adopted_of(answer: list[str], asked: Adoption, volume: str) -> Iterator[str]:
    """Each VolumeAttachment is of one volume, and one that is found to be this volume's is unknown no
    more."""
    unknown: dict[str, VolumeAttachment] = vars(asked)["_unknown"]
    if both := [name for name in answer if name in unknown]:
        yield f"VolumeAttachments {both} are of {volume}, and still unknown"
    driver, _, handle = volume.removeprefix(f"{names.CSI_PLUGIN}/").partition("^")
    for record in unknown.values() if volume.startswith(f"{names.CSI_PLUGIN}/") else ():
        if record.name == f"csi-{sha256(f'{handle}{driver}{record.spec.node_name}'.encode()).hexdigest()}":
            yield f"VolumeAttachment {record.name} is of {volume}, and is not found"


def _differing(known: object, facts: Mapping[str, object]) -> list[str]:
    return [f"{name}: {fact!r}" for name, fact in facts.items() if getattr(known, name) != fact]


QUESTIONS = (
    Question(AttachDetachController, "_state", volume_state),
    Question(AttachDetachController, "_attachment", attachment),
    Question(AttachDetachController, "_vanished", vanished),
    Question(controller, "_lock", lock),
    Question(state, "_demand", demand),
    Question(Adoption, "volume", adopted),
    Question(Adoption, "names", adopted_of),
)
