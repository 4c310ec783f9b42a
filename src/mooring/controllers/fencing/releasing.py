"""Writes what a fence has shown where the other controllers read it, and takes it back.

A fence of scope Power: its evidence on all VolumeAttachments of the node, and the out-of-service taint on the
Node, by the uid and resourceVersion of a live read that shows the same boot. One of scope Storage: its
evidence on the VolumeAttachments whose StorageFence holds, and nothing else, as the node's processes run on.
What the evidence is worth is judged by its reader, on another live read
(`controllers.attachdetach.release`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from mooring.controllers.fencing import volume_fences
from mooring.controllers.fencing.names import SHUT_OUT, TAINT_VALUE, WITHDRAWN, is_of_a_fence
from mooring.controllers.fencing.same_boot import is_same_boot
from mooring.fence.interface import Scope
from mooring.kube.batches import in_turn, one_by_one
from mooring.kube.client import Client
from mooring.kube.errors import Conflict, NotFound, conflict
from mooring.kube.objects import Node, Taint, VolumeAttachment
from mooring.kube.objects.fencing import FenceAttempt, FenceTarget, NodeFence
from mooring.kube.times import Now
from mooring.volumes.machines import Machine, are_two, recorded_machine
from mooring.volumes.names import FENCE_EVIDENCE, NODE_UID
from mooring.volumes.out_of_service import EFFECT, TAINT, spent, taint_of, time_to_add
from mooring.volumes.statements import Evidence, evidence_annotation, evidence_of

MOST_TRIES = 5
"""So often is a write tried that another one has overtaken."""
Accept = Callable[[Node], None]
"""Is told of a Node that was written, or that a live read has shown to be another than was known."""


async def release(client: Client, fence: NodeFence, proof: FenceAttempt, now: Now, accept: Accept) -> int:
    """Releases what the proof shows that the boot has lost; how many VolumeAttachments got the evidence now.
    Idempotent. Conflict if another boot reports by now, or the fence releases nothing any more."""
    target = fence.status.target
    assert target is not None
    await _same_boot(client, target, accept)
    shut = await volume_fences.shut(client, fence, proof)
    evidence = Evidence(
        target.node_uid, target.boot_id, proof.ordered_at, f"NodeFence {fence.name}", proof.absent
    )
    records = await records_of(client, target)
    await _check_releases(client, fence, proof)
    stating = list[str]()

    async def state(record: VolumeAttachment) -> None:
        due = proof.scope == Scope.POWER or record.name in shut
        stated = evidence_of(record)
        if due and stated != evidence and await _written(client, record, evidence_annotation(evidence)):
            stating.append(record.name)
        if not due and stated is not None and stated.by == evidence.by:
            await _written(client, record, {FENCE_EVIDENCE: None})  # it was lifted, or withdrawn

    # What is refused of one record keeps neither another nor the taint: a dead node's volumes would stay.
    await in_turn(
        lambda: one_by_one(records, state),
        lambda: volume_fences.released(client, fence, proof, now),
        lambda: _taint(client, target, proof.scope, now, accept),
    )
    return len(stating)


async def _same_boot(client: Client, target: FenceTarget, accept: Accept) -> Node | None:
    """The Node, read live; None if there is none. Conflict if another boot reports by now."""
    node = await client.find(Node, target.node_name)
    if node is not None and not is_same_boot(node, target):
        accept(node)
        raise conflict(f"node {target.node_name} has another boot by now")
    return node


async def _taint(client: Client, target: FenceTarget, scope: str, now: Now, accept: Accept) -> None:
    """Taints the Node as what the fence shows: out of service, or closed to new pods. It is read anew: the
    statements have taken a while, and its agent and this controller write on it, too."""
    node = await _same_boot(client, target, accept)
    if node is None:
        return
    if scope == Scope.POWER and (taint_of(node) is None or spent(node)):
        others = tuple(each for each in node.spec.taints if each != taint_of(node))
        taint = Taint(key=TAINT, value=TAINT_VALUE, effect=EFFECT, time_added=time_to_add(node, now()))
    elif scope != Scope.POWER and not {TAINT, SHUT_OUT} & {each.key for each in node.spec.taints}:
        others, taint = node.spec.taints, Taint(key=SHUT_OUT, value=scope, effect="NoSchedule")
    else:
        return
    accept(await _set_taints(client, node, (*others, taint)))


async def _check_releases(client: Client, fence: NodeFence, proof: FenceAttempt) -> None:
    """Conflict if the node may be let in by now. Read live after the records were, so that the look before it
    is let in finds each of them that is written on (`letting_in`)."""
    if proof.scope == Scope.POWER:
        return
    live = await client.find(NodeFence, fence.name)
    if live is None or live.status.proof != proof.token or live.status.letting_in:
        raise conflict(f"NodeFence {fence.name} releases nothing any more")


async def withdraw(client: Client, fence: NodeFence, accept: Accept) -> None:
    """Takes back what is still there of the release. Idempotent. A record without evidence is written, too,
    so that what is still on its way there, of a former leader or of this one, is refused: it would release
    what runs on (docs/protocol.md, C3: a change of nothing leaves late writes valid)."""
    target = fence.status.target
    assert target is not None
    records = await records_of(client, target)

    async def take_back(record: VolumeAttachment) -> None:
        evidence = evidence_of(record)
        if evidence is None or evidence.by == f"NodeFence {fence.name}":
            withdrawn = {WITHDRAWN: record.metadata.resource_version}
            await _written(client, record, {FENCE_EVIDENCE: None, **withdrawn})

    await in_turn(
        lambda: one_by_one(records, take_back),
        lambda: welcome(client, target.node_name, accept),
    )


async def welcome(client: Client, name: str, accept: Accept) -> None:
    """Takes the taints of a fence off the Node, which has reported under it. A person's stay."""
    node = await client.find(Node, name)
    if node is None:
        return
    others = tuple(each for each in node.spec.taints if not is_of_a_fence(each))
    if others != node.spec.taints:
        accept(await _set_taints(client, node, others))


async def records_of(client: Client, target: FenceTarget) -> list[VolumeAttachment]:
    """The VolumeAttachments of that registration of the node, and of no other machine, read live."""
    machine = Machine(target.system_uuid, target.provider_id)
    return [
        each
        for each in (await client.list(VolumeAttachment)).items
        if each.spec.node_name == target.node_name
        and each.metadata.annotations.get(NODE_UID, "") in ("", target.node_uid)
        and not are_two(recorded_machine(each), machine)
    ]


async def _written(client: Client, record: VolumeAttachment, annotations: dict[str, Any]) -> bool:
    """Whether it was written: one that is gone by now needs nothing. What is stated is about the node, so
    that a record that has changed meanwhile is written all the same, in its latest version. Raises Conflict
    after a few."""
    live: VolumeAttachment | None = record
    for _ in range(MOST_TRIES):
        if live is None or live.uid != record.uid:
            return False
        try:
            await client.revise(live, {"metadata": {"annotations": annotations}})
            return True
        except (Conflict, NotFound):
            live = await client.find(VolumeAttachment, record.name)
    raise conflict(f"VolumeAttachment {record.name} is written by another all the time")


async def _set_taints(client: Client, node: Node, taints: tuple[Taint, ...]) -> Node:
    body: list[Any] = msgspec.to_builtins(taints)
    return await client.revise(node, {"spec": {"taints": body or None}})
