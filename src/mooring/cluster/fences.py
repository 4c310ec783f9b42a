"""What a person does with fences: ask for one, have it taken back, try the mechanisms without harm.

It writes what the fencing controller acts on, and looks at what that has written. It orders no mechanism to
do anything: `look` is all that it calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from mooring.cluster.layout import ClusterError
from mooring.cluster.tables import Row, Section
from mooring.cluster.welcome import welcome
from mooring.controllers.fencing.checking import look_at
from mooring.controllers.fencing.detection import policies_of
from mooring.controllers.fencing.host_agent import HostAgent
from mooring.controllers.fencing.names import fence_name, new_fence
from mooring.controllers.fencing.volume_fences import VolumePhase
from mooring.controllers.fencing.waits import Wait, wait_of
from mooring.fence.interface import Mechanism
from mooring.kube.client import Client
from mooring.kube.errors import AlreadyExists, NotFound
from mooring.kube.objects import Node, VolumeAttachment
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, NodeFence, StorageFence
from mooring.kube.times import Now, format_time
from mooring.volumes.names import NODE_UID
from mooring.volumes.node_fences import Phase

LOOK_S = 0.2
MISSING = (
    "this cluster does not know fences: `mooring fence kinds | kubectl apply -f -` teaches it, and the controller "
    "`fencing` acts on them"
)


class Tried(NamedTuple):
    """What a mechanism said of a node."""

    mechanism: str
    scope: str
    node: str
    state: str
    message: str
    identity: Mapping[str, str]


async def fences(client: Client) -> list[NodeFence]:
    """All of them, the last one first. ClusterError if the cluster does not know them."""
    try:
        found = (await client.list(NodeFence)).items
    except NotFound:
        raise ClusterError(MISSING) from None
    return sorted(found, key=lambda each: each.metadata.creation_timestamp or "", reverse=True)


class Listed(NamedTuple):
    """A fence, what it waits for, where that is known, and the volumes that it shuts its node out of."""

    fence: NodeFence
    wait: Wait | None
    volumes: Sequence[StorageFence] = ()


async def listed(client: Client) -> list[Listed]:
    """All fences with their waits, the last one first. ClusterError if the cluster does not know them."""
    found = await fences(client)
    try:
        volumes = (await client.list(StorageFence)).items
    except NotFound:  # kinds of an earlier version
        volumes = []
    return [
        Listed(each, wait_of(each), [of for of in volumes if of.spec.node_fence == each.name])
        for each in found
    ]


async def fence_of(client: Client, node: str) -> NodeFence | None:
    """The fence of the node that is not over."""
    found = (each for each in await fences(client) if each.spec.node_name == node)
    return next((each for each in found if each.status.phase not in Phase.OVER), None)


async def request(client: Client, name: str, *, uid: str, by: str, reason: str, now: Now) -> NodeFence:
    """Asks for a fence of the node as it shows itself now. ClusterError if nothing is known of it, or no
    policy covers it."""
    held = await fence_of(client, name)
    if held is not None and held.status.phase in ("", Phase.PENDING) and not held.spec.override:
        return await _overridden(client, held, by, reason, now)
    if held is not None:
        raise ClusterError(
            f"node {name} is being fenced already (NodeFence {held.name}, {held.status.phase or 'Pending'}: "
            f"{held.status.message}): nothing was changed"
        )
    node = await client.find(Node, name)
    if node is not None:
        if uid and uid != node.uid:
            raise ClusterError(
                f"node {name} is registered with uid {node.uid}, not {uid}: nothing was changed"
            )
        await _covered(client, node)
    node_uid = node.uid if node is not None else uid or await _recorded_uid(client, name)
    boot = node.status.node_info.boot_id if node is not None else ""
    at = format_time(now())
    spec = {
        "nodeName": name,
        "nodeUID": node_uid,
        **({"bootID": boot} if boot else {}),
        "requestedBy": f"{by} at {at}",
        "override": True,
        "reason": reason or f"{by} has asked for it at {at}",
    }
    try:
        body = new_fence(fence_name(name, node_uid, f"{boot}/{at}"), spec)
        return await client.create(NodeFence, body)
    except AlreadyExists:
        raise ClusterError(
            f"a fence of node {name} was asked for in this very second: look at it again"
        ) from None


async def _overridden(client: Client, held: NodeFence, by: str, reason: str, now: Now) -> NodeFence:
    """A fence that waits (a storm, a budget, peers that hear the node) is wanted by a person now."""
    at = format_time(now())
    wanted = {
        "requestedBy": f"{by} at {at}",
        "override": True,
        "reason": reason or f"{by} has asked for it at {at}",
    }
    return await client.revise(held, {"spec": wanted}, any_version=True)


async def _covered(client: Client, node: Node) -> None:
    policies = policies_of(node, (await client.list(FencePolicy)).items)
    if len(policies) != 1:
        names = ", ".join(sorted(each.name for each in policies)) or "none"
        raise ClusterError(
            f"exactly one FencePolicy has to cover node {node.name}, and these do: {names}. Nothing was changed. If "
            f"its machine is certainly off, say so: mooring fence confirm {node.name}"
        )


async def _recorded_uid(client: Client, name: str) -> str:
    """The uid that the VolumeAttachments of a Node that is gone have recorded."""
    records = [each for each in (await client.list(VolumeAttachment)).items if each.spec.node_name == name]
    recorded = sorted({each.metadata.annotations.get(NODE_UID, "") for each in records} - {""})
    if not recorded:
        raise ClusterError(
            f"there is no node {name!r}, and no VolumeAttachment names it: nothing was changed"
        )
    if len(recorded) > 1:
        raise ClusterError(
            f"node {name} does not exist any more, and volumes are recorded for several registrations of it: say which "
            f"one is meant with --uid ({', '.join(recorded)})"
        )
    return recorded[0]


async def release(client: Client, name: str) -> str:
    """Wants the node's fence taken back; without one, takes the node into service (`welcome`)."""
    held = await fence_of(client, name)
    if held is None:
        return await welcome(client, name)
    await client.revise(held, {"spec": {"unfence": True}}, any_version=True)
    waits = held.status.message or "see `mooring fence list`"
    return f"the fence of node {name} is taken back as soon as that is safe: {waits}"


async def followed(client: Client, fence: NodeFence) -> AsyncIterator[NodeFence]:
    """The fence each time that its phase or message changes, until it is in force, waits for a person, or is
    over."""
    said = ("", "")
    while True:
        now = await client.find(NodeFence, fence.name)
        if now is None:
            return
        if (now.status.phase, now.status.message) != said:
            said = now.status.phase, now.status.message
            yield now
        if now.status.phase in (Phase.AWAITING_PERSON, Phase.FENCED, *Phase.OVER):
            return
        await asyncio.sleep(LOOK_S)


async def tried(
    client: Client, kinds: Mapping[str, Mechanism], nodes: Sequence[str], mechanisms: Sequence[str]
) -> list[Tried]:
    """What each mechanism says of each node now. ClusterError for a name that does not exist."""
    host_agent = HostAgent(client)
    kinds = {**kinds, host_agent.kind: host_agent}
    try:
        records = (await client.list(FenceMechanism)).items
    except NotFound:
        raise ClusterError(MISSING) from None
    there = (await client.list(Node)).items
    _known(nodes, {each.name for each in there}, "node")
    _known(mechanisms, {each.name for each in records}, "FenceMechanism")
    pairs = [
        (record, node)
        for record in records
        for node in there
        if (not mechanisms or record.name in mechanisms)
        and (node.name in nodes if nodes else not record.spec.nodes or node.name in record.spec.nodes)
    ]
    return list(await asyncio.gather(*(_try(client, kinds, record, node) for record, node in pairs)))


def _known(names: Sequence[str], there: set[str], what: str) -> None:
    unknown = sorted(set(names) - there)
    if unknown:
        raise ClusterError(
            f"there is no {what} {unknown[0]!r}: there are {', '.join(sorted(there)) or 'none'}"
        )


async def _try(client: Client, kinds: Mapping[str, Mechanism], record: FenceMechanism, node: Node) -> Tried:
    look, mechanism = await look_at(client, kinds, record, node), kinds.get(record.spec.type)
    scope = mechanism.scope if mechanism is not None else record.status.scope
    return Tried(record.name, scope, node.name, look.state, look.message, look.identity)


async def read_section(client: Client) -> list[Section]:
    """The same as `section`, read live; none in a cluster that does not know fences."""
    try:
        found = await fences(client)
        policies = (await client.list(FencePolicy)).items
        mechanisms = (await client.list(FenceMechanism)).items
    except (ClusterError, NotFound):
        return []
    return section(found, policies, mechanisms)


def section(
    found: Sequence[NodeFence], policies: Sequence[FencePolicy], mechanisms: Sequence[FenceMechanism]
) -> list[Section]:
    """For `mooring status`: fences that are not over, and policies and mechanisms with which something is
    wrong; none where nothing is."""
    rows: list[Row] = [
        (f"nodefence of {each.spec.node_name}", each.status.phase or Phase.PENDING, each.status.message)
        for each in found
        if each.status.phase not in Phase.OVER
    ]
    for kind, objects in (("fencepolicy", policies), ("fencemechanism", mechanisms)):
        for each in objects:
            wrong = (condition for condition in each.status.conditions if condition.status != "True")
            rows += [(f"{kind} {each.name}", said.reason, said.message) for said in wrong]
    header = ("FENCING", "STATE", "WHAT IT WAITS FOR, OR WHAT IS WRONG")
    return [Section(header, rows)] if rows else []


def as_json(
    fence: NodeFence, wait: Wait | None, volumes: Sequence[StorageFence], now: datetime
) -> dict[str, Any]:
    """A fence for programs."""
    status = fence.status
    return {
        "name": fence.name,
        "node": fence.spec.node_name,
        "phase": status.phase or Phase.PENDING,
        "reason": status.reason,
        "message": status.message,
        "next": wait.what if wait is not None else "",
        "secondsLeft": wait.left(now) if wait is not None else None,
        "policy": status.policy,
        "requestedBy": fence.spec.requested_by,
        "created": fence.metadata.creation_timestamp,
        "releasedAt": status.released_at,
        "proof": status.proof,
        "volumes": [
            {
                "volume": each.spec.volume,
                "attachment": each.spec.attachment,
                "phase": each.status.phase or VolumePhase.PENDING,
                "reason": each.status.reason,
                "message": each.status.message,
                "releasedAt": each.status.released_at,
            }
            for each in volumes
        ],
        "attempts": [
            {
                "mechanism": each.mechanism,
                "orderedAt": each.ordered_at,
                "answeredAt": each.answered_at,
                "outcome": each.outcome or "NotAnswered",
                "reason": each.reason,
                "message": each.message,
                "evidence": each.evidence,
                "confirmations": each.confirmations,
            }
            for each in status.attempts
        ],
    }
