"""What a person sees of a running cluster: nodes, claims, pods, volumes. Pure: objects in, lines out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from mooring.controllers.attachdetach.decide import is_detached
from mooring.kube.client import Client
from mooring.kube.objects import Node, PersistentVolumeClaim, Pod, VolumeAttachment
from mooring.kube.printable import printable
from mooring.volumes.names import DETACHING, VOLUME_NAME
from mooring.volumes.out_of_service import out_of_service


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


def node_state(node: Node) -> str:
    """Ready, NotReady or Unknown, and what else matters."""
    words = [{"True": "Ready", "False": "NotReady"}.get(node.ready, "Unknown")]
    if node.spec.unschedulable:
        words.append("cordoned")
    if out_of_service(node):
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


class Told(NamedTuple):
    """A cell that people and programs are told in different ways: 20Gi, and the number of bytes."""

    text: str
    value: str | int | None


Cell = str | int | Told
Row = tuple[Cell, ...]
Section = tuple[tuple[str, ...], list[Row]]
"""A table: its header and its rows."""
NO_NUMBER = Told("-", None)
"""In the place of a number that is not known, or that there is none of."""


def sections(snapshot: Snapshot) -> list[Section]:
    """Tables: header and rows."""
    pods_on = [pod.spec.node_name for pod in snapshot.pods]
    nodes = [_node_row(node, pods_on.count(node.name)) for node in snapshot.nodes]
    claims = [(c.key, c.status.phase, c.spec.volume_name) for c in snapshot.claims]
    pods = [(p.key, pod_state(p), p.spec.node_name or "-") for p in snapshot.pods]
    volumes = [(volume_of(a), a.spec.node_name, attachment_state(a)) for a in snapshot.attachments]
    tables: list[tuple[tuple[str, ...], Iterable[Row]]] = [
        (("NODE", "STATE", "PODS", "ATTACHED", "IN USE"), nodes),
        (("CLAIM", "PHASE", "VOLUME"), claims),
        (("POD", "STATE", "NODE"), pods),
        (("VOLUME", "ON NODE", "STATE"), volumes),
    ]
    return [(header, ordered(rows)) for header, rows in tables if rows]


def ordered(rows: Iterable[Row]) -> list[Row]:
    """By what people read, from the left."""
    return sorted(rows, key=lambda row: [text(cell) for cell in row])


def _node_row(node: Node, pods: int) -> Row:
    status = node.status
    return (node.name, node_state(node), pods, len(status.volumes_attached), len(status.volumes_in_use))


def as_json(tables: Sequence[Section]) -> dict[str, Any]:
    """The same for scripts: numbers are numbers."""
    return {
        header[0].lower() + "s": [
            {name.lower().replace(" ", "_"): _value(cell) for name, cell in zip(header, row, strict=True)}
            for row in rows
        ]
        for header, rows in tables
    }


def _value(cell: Cell) -> str | int | None:
    return cell.value if isinstance(cell, Told) else cell


def text(cell: Cell) -> str:
    """What people are shown of a cell, made printable."""
    return printable(cell.text if isinstance(cell, Told) else str(cell))


def table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """Columns as kubectl prints them: as wide as needed, three spaces apart. Cells are made printable."""
    lines = [header, *([text(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "   ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() for line in lines
    )
