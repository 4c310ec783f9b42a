"""Whether a FenceMechanism would work when it is needed: looked at when it is made, when a node boots, and
twice a day. By day, not at 3 a.m.

What a mechanism says of a node in its present boot is kept in its status: whose device it is, and that the
device has seen the machine on. A fence compares it later, also when the Node is gone by then: it is kept as
long as something is attached there. A look changes nothing (`mooring.fence.interface`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from mooring.controllers.fencing import ordering
from mooring.controllers.fencing.conditions import condition
from mooring.controllers.fencing.detection import policies_of
from mooring.controllers.fencing.holding import read_what_is_left
from mooring.fence.interface import Look, Mechanism, Sessions, State
from mooring.kube.client import Client
from mooring.kube.objects import Condition, Node
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, FenceTarget, MechanismNode
from mooring.kube.printable import counted
from mooring.kube.times import Now, format_time, parse_time

CHECK_S = 12 * 3600.0
"""A node is looked at anew after so many seconds."""
AGAIN_S = 300.0
"""And one that the mechanism could say nothing of, after so many."""
AT_ONCE = 4
"""So many nodes are looked at at the same time."""
MOST_MESSAGE = 300


async def checked(
    client: Client,
    kinds: Mapping[str, Mechanism],
    record: FenceMechanism,
    nodes: Collection[Node],
    policies: Collection[FencePolicy],
    accept: Callable[[FenceMechanism], None],
    now: Now,
) -> float:
    """Brings the status up to date. Returns the seconds after which it is to be looked at again."""
    mine = [each for each in nodes if not record.spec.nodes or each.name in record.spec.nodes]
    anew = record.status.observed_generation != record.metadata.generation
    before = {each.name: each for each in record.status.nodes}
    held = {} if anew else before  # it may lead elsewhere now
    due = [
        each for each in mine if each.ready == "True" and (anew or _is_due(held.get(each.name), each, now))
    ]
    limit = asyncio.Semaphore(AT_ONCE)

    async def looked(node: Node) -> MechanismNode:
        async with limit:
            return _said(node, await look_at(client, kinds, record, node), now)

    fresh = {each.name: each for each in await asyncio.gather(*(looked(each) for each in due))}
    said = {
        each.name: replace(found, policy=_policy(each, policies))
        for each in mine
        if (found := (held | fresh).get(each.name)) is not None
    }
    there = {each.name for each in nodes}
    gone = [each for each in before.values() if each.name not in there]
    said |= {each.name: _of_then(each, anew=anew) for each in gone if await _has_something(client, each)}
    status = _status(record, kinds, [said[each.name] for each in mine if each.name in said], mine, now)
    status["nodes"] = msgspec.to_builtins([said[name] for name in sorted(said)])
    if anew or said != before or status["conditions"] != _plain(record.status.conditions):
        accept(await client.revise(record, {"status": status}, subresource="status"))
    return AGAIN_S if any(each.state == State.UNKNOWN for each in said.values()) else CHECK_S / 4


def _policy(node: Node, policies: Collection[FencePolicy]) -> str:
    found = policies_of(node, policies)
    return found[0].name if len(found) == 1 else ""


async def _has_something(client: Client, said: MechanismNode) -> bool:
    """Whether what is known of a node whose Node is gone is needed still."""
    return bool(await read_what_is_left(client, said.name, said.node_uid))


def _of_then(said: MechanismNode, *, anew: bool) -> MechanismNode:
    """Of a node whose Node is gone. What a mechanism saw that was described otherwise is no word that its
    machine was on; whom it spoke of is compared still."""
    return replace(said, state="") if anew else said


async def look_at(client: Client, kinds: Mapping[str, Mechanism], record: FenceMechanism, node: Node) -> Look:
    """What the mechanism says of the node now."""
    return await ordering.look(ordering.prepare(client, kinds, record, record.name, target_of(node)))


async def sessions_of(
    client: Client, kinds: Mapping[str, Mechanism], record: FenceMechanism, node: Node, longest: float
) -> Sessions:
    """What the mechanism's storage has of the node now; it is waited for so many seconds at the most."""
    prepared = ordering.prepare(client, kinds, record, record.name, target_of(node))
    return await ordering.sessions(prepared, longest=longest)


def target_of(node: Node, identities: Mapping[str, dict[str, str]] | None = None) -> FenceTarget:
    """Whom a fence of the node as it shows itself now would be about."""
    info = node.status.node_info
    addresses = [each.get("address", "") for each in node.status.addresses if each.get("type") != "Hostname"]
    return FenceTarget(
        node_name=node.name,
        node_uid=node.uid,
        boot_id=info.boot_id,
        provider_id=node.spec.provider_id,
        system_uuid=info.system_uuid,
        addresses=tuple(dict.fromkeys(each for each in addresses if each)),
        identities=dict(identities or {}),
    )


def _is_due(said: MechanismNode | None, node: Node, now: Now) -> bool:
    if said is None or (said.node_uid, said.boot_id) != (node.uid, node.status.node_info.boot_id):
        return True
    age = (now() - parse_time(said.looked_at)).total_seconds() if said.looked_at else CHECK_S
    return age >= (AGAIN_S if said.state == State.UNKNOWN else CHECK_S)


def _said(node: Node, look: Look, now: Now) -> MechanismNode:
    whom = target_of(node)
    return MechanismNode(
        name=node.name,
        node_uid=node.uid,
        boot_id=node.status.node_info.boot_id,
        state=str(look.state),
        reason=look.code,
        message=look.message[:MOST_MESSAGE],
        identity=dict(look.identity),
        looked_at=format_time(now()),
        provider_id=whom.provider_id,
        system_uuid=whom.system_uuid,
        addresses=whom.addresses,
    )


def _status(
    record: FenceMechanism,
    kinds: Mapping[str, Mechanism],
    said: Sequence[MechanismNode],
    nodes: Sequence[Node],
    now: Now,
) -> dict[str, Any]:
    mechanism = kinds.get(record.spec.type)
    return {
        "observedGeneration": record.metadata.generation,
        "scope": str(mechanism.scope) if mechanism is not None else "",
        "conditions": [_available(record, kinds, said, nodes, now)],
    }


def _available(
    record: FenceMechanism,
    kinds: Mapping[str, Mechanism],
    said: Sequence[MechanismNode],
    nodes: Sequence[Node],
    now: Now,
) -> dict[str, str]:
    """The condition Available: whether it answers for all its nodes."""
    silent = sorted(each.name for each in said if each.state == State.UNKNOWN)
    absent = sorted(set(record.spec.nodes) - {each.name for each in nodes})
    if record.spec.type not in kinds:
        known = ", ".join(sorted(kinds)) or "none"
        status, reason = "False", "NoSuchType"
        message = f"type {record.spec.type!r} is not installed: there are {known}"
    elif silent:
        first = next(each for each in said if each.name == silent[0])
        status, reason = "False", first.reason or "NoAnswer"
        message = f"no word about {', '.join(silent[:5])}: {first.message}"
    elif not said:
        status, reason, message = "Unknown", "NoNodes", "it knows no node that is ready"
    else:
        status, reason, message = "True", "Answers", f"it answers for {counted(len(said), 'node')}"
    if absent and status == "True":
        message = f"{message}; there are no nodes {', '.join(absent[:5])}"
    return condition(record.status.conditions, "Available", status, reason, message, format_time(now()))


def _plain(conditions: Sequence[Condition]) -> list[Any]:
    return msgspec.to_builtins(conditions)
