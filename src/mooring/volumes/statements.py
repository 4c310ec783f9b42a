"""What an operator or a fence has stated about a node, as annotations of a VolumeAttachment; an operator's
statement about an absent Node also of its NodeFence, by which its pods go. Pure.

*An operator's statement* names the Node by its uid and, while there is a Node, the boot and the last report
that the operator could see: when the node reports again, the statement is void. It is compared for equality,
not by clocks. Of an absent Node nothing can be seen; a statement that was made while it was there does not
count then (docs/protocol.md C9, C12b).

*Evidence of a fence* names the uid and the boot ID that the API showed before power-off was ordered. Of an
absent Node only a fence counts that read its absence before it gave its order. Fence controllers write it.

This module reads and writes the annotations. `controllers.attachdetach.release` judges whether they hold.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from mooring.kube.objects import Node, VolumeAttachment
from mooring.kube.objects.fencing import NodeFence
from mooring.volumes.names import CONFIRMED_DEAD, FENCE_EVIDENCE, STATUS_WRITE

T = TypeVar("T", bound=msgspec.Struct)


class Statement(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`by` and `at` are for people. `absent`: there was no Node of that name when it was stated."""

    node_uid: str = msgspec.field(name="nodeUID")
    boot_id: str = msgspec.field(default="", name="bootID")
    report: str = ""
    absent: bool = False
    by: str = ""
    at: str = ""


class Evidence(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`begun`: the time (RFC 3339) before which power-off had not been ordered. `by`: the fence; both are for
    people. `absent`: a live read had found no Node of that name before the order was given."""

    node_uid: str = msgspec.field(name="nodeUID")
    boot_id: str = msgspec.field(default="", name="bootID")
    begun: str = ""
    by: str = ""
    absent: bool = False


def last_report(node: Node) -> str:
    """Returns a value that differs after each report of the node's agent: our agent's mark, else the
    heartbeat of its Ready condition."""
    mark = node.metadata.annotations.get(STATUS_WRITE)
    ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
    return mark or (ready.last_heartbeat_time or "" if ready is not None else "")


def statement_about(node: Node, by: str, at: str) -> Statement:
    """Returns the statement that the machine of a Node as it shows itself now is off."""
    return Statement(node.uid, node.status.node_info.boot_id, last_report(node), by=by, at=at)


def statement_of(record: VolumeAttachment | NodeFence) -> Statement | None:
    return _read(record, CONFIRMED_DEAD, Statement)


def evidence_of(record: VolumeAttachment) -> Evidence | None:
    return _read(record, FENCE_EVIDENCE, Evidence)


def annotation(statement: Statement) -> dict[str, str]:
    return {CONFIRMED_DEAD: msgspec.json.encode(statement).decode()}


def evidence_annotation(evidence: Evidence) -> dict[str, str]:
    return {FENCE_EVIDENCE: msgspec.json.encode(evidence).decode()}


def _read(record: VolumeAttachment | NodeFence, annotation: str, kind: type[T]) -> T | None:
    """Returns the annotation decoded; None if there is none, or it cannot be read: then it states nothing."""
    text = record.metadata.annotations.get(annotation)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return None
