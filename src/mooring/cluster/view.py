"""What a person sees of a running cluster: nodes, claims, pods, volumes. Pure: objects in, tables out.

What a node says of itself is known only while the node answers. Of a node that is silent it is what was known
last, and is marked: `Running?`, for programs `"known": false`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass

from mooring.cluster.tables import Cell, LastKnown, Row, Section, ordered
from mooring.controllers.attachdetach.decide import is_detached
from mooring.kube.client import Client
from mooring.kube.objects import Node, PersistentVolumeClaim, Pod, VolumeAttachment
from mooring.kube.printable import printable
from mooring.volumes.names import DETACHING, VOLUME_NAME
from mooring.volumes.out_of_service import taint_of


@dataclass(frozen=True)
class Snapshot:
    """The objects that are shown."""

    nodes: Sequence[Node]
    claims: Sequence[PersistentVolumeClaim]
    pods: Sequence[Pod]
    attachments: Sequence[VolumeAttachment]


async def take(client: Client) -> Snapshot:
    """Reads them live."""
    return Snapshot(
        (await client.list(Node)).items,
        (await client.list(PersistentVolumeClaim)).items,
        (await client.list(Pod)).items,
        (await client.list(VolumeAttachment)).items,
    )


def silent(node: Node | None) -> bool:
    """Whether nothing is heard of a node: its Ready condition is Unknown, or it has no Node object."""
    return node is None or node.ready == "Unknown"


def silent_nodes(snapshot: Snapshot) -> list[str]:
    """The names of the silent nodes, and of those that pods or VolumeAttachments name and that are gone."""
    nodes = {node.name: node for node in snapshot.nodes}
    named = {pod.spec.node_name for pod in snapshot.pods if not pod.finished}
    named |= {record.spec.node_name for record in snapshot.attachments}
    return sorted(name for name in {*nodes, *named} - {""} if silent(nodes.get(name)))


def node_state(node: Node) -> str:
    """Ready, NotReady or Unknown, and what else matters."""
    words = [{"True": "Ready", "False": "NotReady"}.get(node.ready, "Unknown")]
    if node.spec.unschedulable:
        words.append("cordoned")
    if taint_of(node) is not None:  # also while the node answers: no pod is placed there
        words.append("out-of-service")
    return ",".join(words)


def pod_state(pod: Pod) -> str:
    """What kubectl's STATUS column would say, in short."""
    if pod.deleting:
        return "Terminating"
    for status in pod.status.container_statuses:
        if status.state.waiting is not None and status.state.waiting.reason:
            return status.state.waiting.reason
    return pod.status.phase


def attachment_state(record: VolumeAttachment) -> str:
    """attaching, attached, detaching or detached, with the last error."""
    if is_detached(record):
        return "detached; its node waits until no request can be late"
    if record.deleting or DETACHING in record.metadata.annotations:
        error = record.status.detach_error
        return "detaching" + (f": {error.message}" if error else "")
    error = record.status.attach_error
    return "attached" if record.status.attached else "attaching" + (f": {error.message}" if error else "")


def volume_of(record: VolumeAttachment) -> str:
    """The volume's own name."""
    return record.metadata.annotations.get(VOLUME_NAME) or record.spec.source.persistent_volume_name or ""


def sections(snapshot: Snapshot) -> list[Section]:
    """Tables: header and rows."""
    mute = set(silent_nodes(snapshot))
    pods_on = Counter(pod.spec.node_name for pod in snapshot.pods)
    tables = [
        Section(
            ("NODE", "STATE", "PODS", "ATTACHED", "IN USE"),
            [_node_row(node, pods_on[node.name], mute) for node in snapshot.nodes],
            heard=True,
        ),
        Section(
            ("CLAIM", "PHASE", "VOLUME"),
            [(c.key, c.status.phase, c.spec.volume_name) for c in snapshot.claims],
        ),
        Section(
            ("POD", "STATE", "NODE"),
            [(p.key, pod_cell(p, mute), p.spec.node_name or "-") for p in snapshot.pods],
            heard=True,
        ),
        Section(
            ("VOLUME", "ON NODE", "STATE"),
            [(volume_of(a), a.spec.node_name, volume_cell(a, mute)) for a in snapshot.attachments],
            heard=True,
        ),
    ]
    return [each._replace(rows=ordered(each.rows)) for each in tables if each.rows]


def _node_row(node: Node, pods: int, mute: Container[str]) -> Row:
    in_use = len(node.status.volumes_in_use)
    used = LastKnown(f"{in_use}?", in_use) if node.name in mute else in_use
    return (node.name, node_state(node), pods, len(node.status.volumes_attached), used)


def pod_cell(pod: Pod, mute: Container[str]) -> Cell:
    """A pod's state, as far as it is known. One that has ended does not go on, whatever its node does."""
    state = pod_state(pod)
    doubtful = pod.spec.node_name in mute and not pod.finished
    return LastKnown(f"{state}?", state) if doubtful else state


def volume_cell(record: VolumeAttachment, mute: Container[str]) -> Cell:
    """An attachment's state, as far as it is known. That a volume is detached the storage has confirmed."""
    state = attachment_state(record)
    word, colon, error = state.partition(":")
    doubtful = record.spec.node_name in mute and not is_detached(record)
    return LastKnown(f"{word}?{colon}{error}", state) if doubtful else state


def legend(snapshot: Snapshot) -> str:
    """What the question marks mean; "" if there are none."""
    mute = silent_nodes(snapshot)
    if not mute:
        return ""
    names = ", ".join(mute[:MOST_NAMED]) + (
        f" and {len(mute) - MOST_NAMED} more" if mute[MOST_NAMED:] else ""
    )
    verb = "does" if len(mute) == 1 else "do"
    return f"? as last known: {printable(names)} {verb} not answer"


MOST_NAMED = 5
"""So many silent nodes are named, the others are counted."""
