"""What somebody who knows has stated about a node, on a VolumeAttachment: an operator, or a fence. Pure.

*An operator's statement* (design section 2, rule 3) names the Node by its uid and, while there is a Node, the boot and
the last report that the operator could see: when the node reports again, what was stated is void. Equality decides,
not clocks. Of a Node that is absent nothing can be seen; what was stated while it was there does not count then
(protocol.md C9, C12b).

*Evidence of a fence* (rule 1) names the uid and the boot ID that the API showed before power-off was ordered. Of an
absent Node only a fence counts that was begun after its absence was read. Fence controllers write it; here it is
judged.
"""

from __future__ import annotations

from datetime import datetime
from typing import TypeVar

import msgspec

from mooring.kube.objects import Node, VolumeAttachment
from mooring.volumes.names import CONFIRMED_DEAD, FENCE_EVIDENCE, STATUS_WRITE

T = TypeVar("T", bound=msgspec.Struct)


class Statement(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`by` and `at` are for people. `absent`: there was no Node of that name."""

    node_uid: str = msgspec.field(name="nodeUID")
    boot_id: str = msgspec.field(default="", name="bootID")
    report: str = ""
    absent: bool = False
    by: str = ""
    at: str = ""


class Evidence(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """`begun` is the time (RFC 3339) before which power-off had not been ordered; `by` the fence."""

    node_uid: str = msgspec.field(name="nodeUID")
    boot_id: str = msgspec.field(default="", name="bootID")
    begun: str = ""
    by: str = ""


def last_report(node: Node) -> str:
    """Differs after each report of the node's agent: our agent's mark, else the heartbeat of its Ready condition."""
    mark = node.metadata.annotations.get(STATUS_WRITE)
    ready = next((each for each in node.status.conditions if each.type == "Ready"), None)
    return mark or (ready.last_heartbeat_time or "" if ready is not None else "")


def statement_about(node: Node, by: str, at: str) -> Statement:
    """That the machine of a Node as it shows itself now is off."""
    return Statement(node.uid, node.status.node_info.boot_id, last_report(node), by=by, at=at)


def statement_of(record: VolumeAttachment) -> Statement | None:
    return _read(record, CONFIRMED_DEAD, Statement)


def evidence_of(record: VolumeAttachment) -> Evidence | None:
    return _read(record, FENCE_EVIDENCE, Evidence)


def annotation(statement: Statement) -> dict[str, str]:
    return {CONFIRMED_DEAD: msgspec.json.encode(statement).decode()}


def statement_holds(statement: Statement, node: Node | None, node_uid: str) -> bool:
    """Whether the statement is about the node as it is now. `node_uid` is the uid recorded on the VolumeAttachment."""
    if node is None:
        return statement.absent and statement.node_uid == node_uid
    now = (node.uid, node.status.node_info.boot_id, last_report(node))
    stated = (statement.node_uid, statement.boot_id, statement.report)
    return not statement.absent and node.ready == "Unknown" and stated == now


def evidence_holds(evidence: Evidence, node: Node | None, node_uid: str, absent_since: str) -> bool:
    """Whether the fence was one of the boot that the API shows; `absent_since` when the absence was read, or ""."""
    if node is not None:
        boot_id = node.status.node_info.boot_id
        return bool(boot_id) and (evidence.node_uid, evidence.boot_id) == (node.uid, boot_id)
    if evidence.node_uid != node_uid or not (absent_since and evidence.begun):
        return False
    return datetime.fromisoformat(evidence.begun) > datetime.fromisoformat(absent_since)


def _read(record: VolumeAttachment, annotation: str, kind: type[T]) -> T | None:
    """What is damaged states nothing."""
    text = record.metadata.annotations.get(annotation)
    if not text:
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError:
        return None
