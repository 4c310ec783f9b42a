"""The operator's statement that a node's machine is off, made with care.

Of a Node that is there: refused while it answers (its Ready must be Unknown at a live read). It gets the
out-of-service taint, by a write with that read's uid and resourceVersion, stamped with the present time,
which distinguishes it from one set before; and the statement is written on its VolumeAttachments, with the
boot and the last report that were seen. Of a Node that is gone: the statement alone, on the VolumeAttachments
and the fences that name it, for the uid that they recorded: by the one its volumes go, by the other the pods
that wait for its fence (`controllers.podgc`). It is void as soon as the node reports again
(`mooring.volumes.statements`). Of a machine whose name another one has taken: the statement alone, on the
VolumeAttachments that were made for that machine, whatever the Node says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from mooring.cluster.layout import ClusterError
from mooring.kube.client import Client
from mooring.kube.errors import Conflict, NotFound
from mooring.kube.objects import Node, Taint, VolumeAttachment
from mooring.kube.objects.fencing import NodeFence
from mooring.kube.printable import counted
from mooring.kube.times import Now, format_time
from mooring.volumes.machines import are_two, machine_of, recorded_machine
from mooring.volumes.names import NODE_UID
from mooring.volumes.node_fences import Phase, node_uid_of
from mooring.volumes.out_of_service import EFFECT, TAINT, out_of_service, time_to_add
from mooring.volumes.statements import Statement, annotation, statement_about


async def confirm(
    client: Client, name: str, *, uid: str = "", machine: str = "", by: str = "an operator", now: Now
) -> str:
    """States it and says what that does; ClusterError if the node answers, or nothing is known of it.
    `machine`: the systemUUID or the provider ID of the one that had the name before."""
    node = await client.find(Node, name)
    records = [each for each in (await client.list(VolumeAttachment)).items if each.spec.node_name == name]
    at = format_time(now())
    if machine:
        return await _former(client, node, name, machine, records, Statement("", absent=True, by=by, at=at))
    if node is None:
        fences = await _fences_under_way(client, name)
        statement = Statement(_uid_of(name, records, fences, uid), absent=True, by=by, at=at)
        await _state(client, [each for each in fences if node_uid_of(each) == statement.node_uid], statement)
        count = await _state(client, _of(records, statement.node_uid), statement)
        return (
            f"node {name} (uid {statement.node_uid}), which does not exist any more, is stated to be dead: "
            f"{counted(count, 'volume')} may move as soon as no pod uses {'it' if count == 1 else 'them'} there"
        )
    if uid and node.uid != uid:
        raise ClusterError(
            f"node {name} is registered with uid {node.uid}, not {uid}: nothing was changed. Look at it again"
        )
    if node.ready != "Unknown":
        raise ClusterError(
            f"node {name} still answers (Ready is {node.ready}): nothing was changed. If its machine has just stopped,"
            " wait until Ready is Unknown; if it runs, use `kubectl drain`"
        )
    await _state(client, _of(records, node.uid), statement_about(node, by, at))
    if out_of_service(node):
        return f"node {name} is already declared out of service"
    taint = Taint(key=TAINT, value="confirmed-dead", effect=EFFECT, time_added=time_to_add(node, now()))
    taints: list[Any] = msgspec.to_builtins([*(t for t in node.spec.taints if t.key != TAINT), taint])
    await client.revise(node, {"spec": {"taints": taints}})
    return f"node {name} is declared out of service: its pods are removed and its volumes may move"


async def _former(
    client: Client,
    node: Node | None,
    name: str,
    machine: str,
    records: list[VolumeAttachment],
    statement: Statement,
) -> str:
    """States it of a machine that does not have the name any more."""
    if node is not None and machine in machine_of(node):
        raise ClusterError(f"node {name} is that machine ({machine}): say it of the node, without --machine")
    mine = [
        each
        for each in records
        if machine in (told := recorded_machine(each)) and (node is None or are_two(told, machine_of(node)))
    ]
    if not mine:
        raise ClusterError(
            f"no volume is attached to a machine {machine} that was node {name}: nothing was changed"
        )
    count = 0
    for uid in sorted({each.metadata.annotations.get(NODE_UID, "") for each in mine}):
        of_uid = [each for each in mine if each.metadata.annotations.get(NODE_UID, "") == uid]
        count += await _state(client, of_uid, replace(statement, node_uid=uid))
    return f"machine {machine}, which was node {name} before, is stated to be dead: {counted(count, 'volume')} may move"


async def _fences_under_way(client: Client, name: str) -> list[NodeFence]:
    """Those of the node; a cluster that does not know fences has none."""
    try:
        found = (await client.list(NodeFence)).items
    except NotFound:
        return []
    return [each for each in found if each.spec.node_name == name and each.status.phase not in Phase.OVER]


def _uid_of(name: str, records: list[VolumeAttachment], fences: list[NodeFence], uid: str) -> str:
    """The uid that the VolumeAttachments and the fences of a Node that is gone have recorded."""
    recorded = sorted(
        {
            *(each.metadata.annotations.get(NODE_UID, "") for each in records),
            *(node_uid_of(each) for each in fences),
        }
    )
    if not recorded:
        raise ClusterError(
            f"there is no node {name!r}, and no VolumeAttachment and no fence names it: nothing was changed"
        )
    if uid and uid not in recorded:
        raise ClusterError(
            f"no VolumeAttachment and no fence of node {name} is of uid {uid}, but of {', '.join(recorded) or 'none'}"
        )
    if not uid and len(recorded) > 1:
        raise ClusterError(
            f"node {name} does not exist any more, and its VolumeAttachments and fences are of several registrations of"
            f" it: say which one is dead with --uid ({', '.join(each or '(not recorded)' for each in recorded)})"
        )
    return uid or recorded[0]


def _of(records: list[VolumeAttachment], uid: str) -> list[VolumeAttachment]:
    return [each for each in records if each.metadata.annotations.get(NODE_UID, "") in ("", uid)]


async def _state(
    client: Client, records: Sequence[VolumeAttachment] | Sequence[NodeFence], statement: Statement
) -> int:
    """Writes the statement on each; how many there were. One that has changed meanwhile is written all the
    same: what is stated is about the node."""
    count = 0
    for record in records:
        try:
            patch = {"metadata": {"annotations": annotation(statement)}}
            await client.revise(record, patch, any_version=True)
            count += 1
        except (Conflict, NotFound):  # gone, or another one of that name
            continue
    return count
