"""States of a volume near to one that a run has reached: what another run, or a cluster of another kind,
would have found in its place.

Facts that belong together change together (what a Node says of itself is in the object, and is read from
there).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from random import Random
from typing import Any, TypeVar

from msgspec.structs import replace

from mooring.controllers.attachdetach.state import (
    NO_POLICY,
    Attachment,
    Demand,
    NodeState,
    Policy,
    VolumeState,
)
from mooring.kube.objects import AttachedVolume, Condition, Node, Taint
from mooring.kube.times import format_micro_time, parse_time
from mooring.simulation.checks.second_opinions.near import ANOTHER, Near, Values
from mooring.volumes.attachment_lock import Closed, Lock
from mooring.volumes.names import CONTROLLER_MANAGED, RECONSTRUCTED
from mooring.volumes.out_of_service import TAINT
from mooring.volumes.statements import Evidence, Statement, last_report

T = TypeVar("T")
AGES_S = (0.0, 5.0, 39.5, 40.0, 500.0)
"""Of timers: not begun (0), and long and just before, at, and after each of the periods that count; that of
the policy comes beside."""
NEARLY_S = 0.5
"""Just before."""


# --- VolumeAttachments


def _attachment(chance: Random, state: VolumeState) -> VolumeState:
    """One of them says something else."""
    if not state.attachments:
        return state
    at = chance.randrange(len(state.attachments))
    changed = replace(state.attachments[at], **_said(chance, state, state.attachments[at]))
    return _timed_by_now(replace(state, attachments=_with(state.attachments, at, changed)))


def _timed_by_now(state: VolumeState) -> VolumeState:
    """Its timers have run since they say that they began."""
    begun = {time for each in state.attachments for time in (each.force_since, each.absent_since) if time}
    ages = {each: (state.terms.now - parse_time(each)).total_seconds() for each in begun}
    return replace(state, terms=state.terms._replace(ages=ages))


def _said(chance: Random, state: VolumeState, held: Attachment) -> dict[str, Any]:
    node, epoch = state.nodes.get(held.node), state.lock.epoch if state.lock is not None else 0
    uid, boot = (node.uid, node.node.status.node_info.boot_id) if node and node.node else (ANOTHER, "")
    said: dict[str, Any] = {
        "attached": not held.attached,
        "marked": not held.marked,
        "epoch": chance.choice((0, epoch, epoch + 1, max(epoch - 1, 0))),
        "node_uid": chance.choice(("", uid, ANOTHER)),
        "created": chance.choice(("", _ago(state, 0.0), _ago(state, 1e9))),
        "force_since": _timer(chance, state),
        "force_report": chance.choice(("", ANOTHER, last_report(node.node) if node and node.node else "")),
        "absent_since": _timer(chance, state),
        "broken": "" if held.broken else "by hand",
        "evidence": Evidence(uid, boot, absent=node is None) if held.evidence is None else None,
        "statement": _statement(node) if held.statement is None else None,
    }
    name = chance.choice((*said, "deleting"))
    if name == "deleting":
        return {"deleting": True, "detached": chance.random() < 0.5}
    return {name: said[name]}


def _statement(node: NodeState | None) -> Statement:
    """That the node is dead, as it shows itself now."""
    if node is None or node.node is None:
        return Statement(node_uid=ANOTHER, absent=True)
    return Statement(node.uid, node.node.status.node_info.boot_id, report=last_report(node.node))


def _timer(chance: Random, state: VolumeState) -> str:
    limit = state.terms.policy.force_detach_after
    age = chance.choice((*AGES_S, limit, max(limit - NEARLY_S, 0.0)))
    return _ago(state, age) if age else ""


def _ago(state: VolumeState, seconds: float) -> str:
    return format_micro_time(state.terms.now - timedelta(seconds=seconds))


def _second(chance: Random, state: VolumeState) -> VolumeState:
    """Another node has one, too: it was created late (docs/protocol.md, H4b)."""
    held = {each.node for each in state.attachments}
    free = [name for name in (*state.nodes, ANOTHER) if name not in held]
    if not state.attachments or not free:
        return state
    node, like = chance.choice(free), chance.choice(state.attachments)
    uid = state.nodes[node].uid if node in state.nodes else ANOTHER
    second = replace(like, name=f"of-{node}", node=node, node_uid=uid)
    return replace(state, attachments=(*state.attachments, second))


# --- nodes


def _node(chance: Random, state: VolumeState) -> VolumeState:
    """One of the Nodes says something else, or is gone."""
    known = [each for each in state.nodes.values() if each.node is not None]
    if not known:
        return state
    one = chance.choice(known)
    rest = {name: each for name, each in state.nodes.items() if name != one.name}
    if chance.random() < 0.1 or one.node is None:
        return replace(state, nodes=rest)
    changed = chance.choice(NODE_FACTS)(chance, one.node, state.volume)
    return replace(state, nodes=rest | {one.name: NodeState.of(changed, state.volume)})


def _listed(chance: Random, node: Node, volume: str) -> Node:
    others = tuple(each for each in node.status.volumes_attached if each.name != volume)
    told = len(others) == len(node.status.volumes_attached)
    lists = (*others, AttachedVolume(name=volume)) if told else others
    return replace(node, status=replace(node.status, volumes_attached=lists))


def _used(chance: Random, node: Node, volume: str) -> Node:
    others = tuple(each for each in node.status.volumes_in_use if each != volume)
    used = len(others) == len(node.status.volumes_in_use)
    return replace(node, status=replace(node.status, volumes_in_use=(*others, volume) if used else others))


def _ready(chance: Random, node: Node, volume: str) -> Node:
    others = tuple(each for each in node.status.conditions if each.type != "Ready")
    ready = Condition(type="Ready", status=chance.choice(("True", "False", "Unknown")))
    return replace(node, status=replace(node.status, conditions=(*others, ready)))


def _registration(chance: Random, node: Node, volume: str) -> Node:
    return replace(node, metadata=replace(node.metadata, uid=ANOTHER))


def _tainted(chance: Random, node: Node, volume: str) -> Node:
    """It is declared out of service, and has not reported since; or it is not."""
    others = tuple(each for each in node.spec.taints if each.key != TAINT)
    declared = Taint(key=TAINT, effect="NoExecute", time_added=ANOTHER)
    taints = (*others, declared) if len(others) == len(node.spec.taints) else others
    return replace(node, spec=replace(node.spec, taints=taints))


def _annotation(chance: Random, node: Node, volume: str) -> Node:
    """It has looked for old mounts, or its agent lets a controller attach; or not."""
    name, annotations = chance.choice((CONTROLLER_MANAGED, RECONSTRUCTED)), dict(node.metadata.annotations)
    if annotations.pop(name, None) is None:
        annotations[name] = "true"
    return replace(node, metadata=replace(node.metadata, annotations=annotations))


def _machine(chance: Random, state: VolumeState) -> VolumeState:
    """A machine has taken the name of the one that a VolumeAttachment was made for; or only has a provider's
    name that the other had not."""
    at = chance.randrange(len(state.attachments)) if state.attachments else 0
    known = state.nodes.get(state.attachments[at].node) if state.attachments else None
    if known is None or known.node is None:
        return state
    info = replace(known.node.status.node_info, system_uuid=ANOTHER)
    node = replace(known.node, status=replace(known.node.status, node_info=info))
    of_another = replace(state.attachments[at], machine=chance.choice(("former ", " former")))
    return replace(
        state,
        attachments=_with(state.attachments, at, of_another),
        nodes={**state.nodes, node.name: NodeState.of(node, state.volume)},
    )


# --- pods, lock and policy


def _demand(chance: Random, state: VolumeState) -> VolumeState:
    """Pods of one node want it no more, or end, or do not; or those of another node want it, too."""
    where = chance.choice((*state.nodes, *(each.node for each in state.attachments), ANOTHER))
    others = tuple(each for each in state.demands if each.node != where)
    wanted = [each for each in state.demands if each.node == where]
    if not wanted:
        since = _ago(state, chance.choice((0.0, 1e9)))
        new = Demand(node=where, pods=(f"default/on-{where}",), since=since, starting=chance.random() < 0.7)
        return replace(state, demands=tuple(sorted((*others, new), key=lambda each: each.node)))
    if chance.random() < 0.5:
        return replace(state, demands=others)
    at = state.demands.index(wanted[0])
    changed = replace(wanted[0], starting=not wanted[0].starting)
    return replace(state, demands=_with(state.demands, at, changed))


def _lock(chance: Random, state: VolumeState) -> VolumeState:
    """It cannot be read, or was granted on, or is closed for a node."""
    lock = state.lock if state.lock is not None else Lock()
    closed = {chance.choice((*state.nodes, ANOTHER)): Closed(lock.epoch, chance.choice(("", ANOTHER)))}
    locks = (None, replace(lock, epoch=lock.epoch + 1), replace(lock, closed=closed))
    return replace(state, lock=chance.choice(locks))


def _storage(chance: Random, state: VolumeState) -> VolumeState:
    """Storage of another kind."""
    return replace(state, several_nodes=not state.several_nodes)


def _terms(chance: Random, state: VolumeState) -> VolumeState:
    """Another policy, or storage that cuts nodes off."""
    policy = Policy(chance.choice((0.0, 30.0, 360.0)), chance.random() < 0.5)
    return replace(state, terms=state.terms._replace(policy=policy, revokes=chance.random() < 0.7))


def _with(all_: Sequence[T], at: int, changed: T) -> tuple[T, ...]:
    return (*all_[:at], changed, *all_[at + 1 :])


NodeFact = Callable[[Random, Node, str], Node]
NODE_FACTS: tuple[NodeFact, ...] = (
    *(_listed, _listed, _used, _used, _ready, _ready, _registration, _annotation, _tainted),
)
FACTS: tuple[Values, ...] = (
    *(_attachment, _attachment, _attachment, _second, _node, _node, _node, _machine),
    *(_demand, _demand, _lock, _storage, _terms),
)


def _attached(state: VolumeState) -> bool:
    """The rules are about what has a VolumeAttachment: without one there is little to decide."""
    return state.attachments != ()


def _state_of(asked: dict[str, Any]) -> VolumeState:
    """Of a volume that is on one node."""
    held, node = asked["attachment"], asked["node"]
    nodes = {held.node: node} if node is not None else {}
    return VolumeState("of-it", False, (), (held,), nodes, asked.get("terms", NO_POLICY))


def _of_a_release(values: Callable[[Random, VolumeState], VolumeState]) -> Values:
    """The same facts, for the question whether the volume may be taken from that node."""

    def drawn(chance: Random, asked: dict[str, Any]) -> dict[str, Any]:
        state = values(chance, _state_of(asked))
        held = state.attachments[0]
        return {**asked, "attachment": held, "node": state.nodes.get(held.node), "terms": state.terms}

    return drawn


def _timed(chance: Random, state: VolumeState) -> VolumeState:
    """One of its timers has begun, on storage that cuts the node off, under a policy that counts."""
    policy = Policy(chance.choice((30.0, 360.0)), chance.random() < 0.5)
    state = replace(state, terms=state.terms._replace(policy=policy, revokes=True))
    timers = {name: _timer(chance, state) for name in ("force_since", "absent_since")}
    held = replace(state.attachments[0], marked=chance.random() < 0.8, **timers)
    node = chance.choice((None, *state.nodes.values()))
    nodes = {held.node: node} if node is not None else {}
    return _timed_by_now(replace(state, attachments=(held,), nodes=nodes))


RELEASES = Near(
    [("", _of_a_release(values)) for values in (_attachment, _attachment, _node, _machine, _terms, _timed)],
    times=20.0,
)
"""Often: a run gives few volumes up, and the rule has many causes."""
DECISIONS = Near([("state", values) for values in FACTS], times=0.4, possible=_attached)
