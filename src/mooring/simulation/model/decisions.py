"""The production decisions, asked about a state of the model. What was asked once is remembered: the answers
are pure.

A rule that is switched off changes the answer here, and nowhere else, where the rule is a decision's.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache

import msgspec

from mooring.controllers.attachdetach import decide as attach_detach
from mooring.controllers.attachdetach.state import Action, Demand, NodeState, Policy, Terms, VolumeState
from mooring.controllers.attachdetach.state import Attachment as Recorded
from mooring.controllers.attacher import decide as attacher
from mooring.kube.objects import Node, VolumeAttachment
from mooring.node.volumes import decide as node_volumes
from mooring.simulation.model.state import Attachment, Machine, NodeObject, Testimony
from mooring.volumes.attachment_lock import Closed, Lock, may_open
from mooring.volumes.names import (
    ATTACH_REQUESTED_AT,
    ATTACHER,
    ATTACHER_FINALIZER,
    AWAITED,
    CONTROLLER_MANAGED,
    RECONSTRUCTED,
    STATUS_WRITE,
)
from mooring.volumes.out_of_service import SEEN, TAINT
from mooring.volumes.statements import Evidence, Statement

VOLUME = "example.com/disk/v"
CREATED = "2030-01-01T00:00:00Z"
BEGUN, LATER = "2030-01-01T01:00:00+00:00", "2030-01-01T02:00:00+00:00"
NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)
LONG_AGO = (NOW - timedelta(hours=6)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
LONG_SINCE = dict.fromkeys((LONG_AGO, BEGUN), 3600.0)
"""Every timer that has begun has run out."""


@cache
def node_object(node: NodeObject, name: str) -> Node:
    """A Node that says the same."""
    annotations = {CONTROLLER_MANAGED: "true", STATUS_WRITE: "now"}
    if node.reconstructed:
        annotations[RECONSTRUCTED] = "boot"
    if node.awaits:
        annotations[AWAITED] = msgspec.json.encode({VOLUME: 1}).decode()
    if node.seen:
        annotations[SEEN] = CREATED
    taints = [{"key": TAINT, "effect": "NoExecute", "timeAdded": CREATED}] if node.taint else []
    body = {
        "metadata": {"name": name, "uid": "node", "annotations": annotations, "creationTimestamp": CREATED},
        "spec": {"taints": taints},
        "status": {
            "conditions": [{"type": "Ready", "status": node.ready}],
            "volumesAttached": [{"name": VOLUME, "devicePath": ""}] if node.reported else [],
            "volumesInUse": [VOLUME] if node.in_use else [],
            "nodeInfo": {"bootID": "boot"},
        },
    }
    return msgspec.convert(body, Node)


def _boot(word: Testimony) -> str:
    return "boot" if word.same_boot else "another"


def _recorded(record: Attachment, node: NodeObject | None, name: str, *, wanted: bool = False) -> Recorded:
    testimony = record.statement
    statement = None
    if testimony is not None:
        statement = Statement(
            "node" if testimony.same_uid else "gone",
            _boot(testimony),
            "now" if testimony.same_report else "then",
            absent=testimony.absent,
        )
    fenced = record.evidence
    evidence = None
    if fenced is not None:
        uid = "node" if fenced.same_uid else "gone"
        evidence = Evidence(uid, _boot(fenced), absent=fenced.absent)
    silent = node is None or node.ready == "Unknown"
    return Recorded(
        name=name,
        node=name,
        attached=record.attached,
        marked=record.marked,
        deleting=record.deleting,
        node_uid="node" if record.same_node or node is None else "before",
        attach_error="",
        detach_error="",
        created=CREATED,
        epoch=1 if record.current else 0,
        force_since=LONG_AGO if silent and not wanted else "",
        absent_since=BEGUN if node is None and not wanted else "",
        statement=statement,
        evidence=evidence,
        detached=record.detached,
    )


@cache
def released(node: NodeObject | None, record: Attachment, revokes: bool, timer: bool) -> tuple[bool, bool]:
    """Whether `may_release` allows it, and whether by force."""
    seen = NodeState.of(node_object(node, "n"), VOLUME) if node is not None else None
    terms = Terms(Policy(force_detach_after=1.0 if timer else 0.0), NOW, revokes, LONG_SINCE)
    verdict = attach_detach.may_release(seen, _recorded(record, node, "n"), terms)
    return verdict.allowed, verdict.forced


@cache
def begins(
    nodes: tuple[NodeObject | None, ...],
    records: tuple[Attachment | None, ...],
    wanted: tuple[bool, ...],
    closed: tuple[int, ...],
    locked: bool,
    revokes: bool,
    timer: bool,
) -> tuple[tuple[str, int], ...]:
    """What `decide` would have a leader begin that sees these objects, and these pods: action and node."""
    names = [f"n{number}" for number in range(len(nodes))]
    present = {
        name: NodeState.of(node_object(node, name), VOLUME)
        for name, node in zip(names, nodes, strict=True)
        if node is not None
    }
    shut = {name: _closed(each) for name, each in zip(names, closed, strict=True) if each}
    state = VolumeState(
        volume=VOLUME,
        several_nodes=False,
        demands=tuple(
            Demand(name, (f"default/{name}",), CREATED, starting=True)
            for name, want in zip(names, wanted, strict=True)
            if want
        ),
        attachments=tuple(
            _recorded(record, node, name, wanted=want)
            for name, node, record, want in zip(names, nodes, records, wanted, strict=True)
            if record is not None
        ),
        nodes=present,
        terms=Terms(Policy(force_detach_after=1.0 if timer else 0.0), NOW, revokes, LONG_SINCE),
        locked=locked,
        lock=Lock(epoch=1, closed=shut),
    )
    decisions = attach_detach.decide(state)
    return tuple((each.action.value, names.index(each.node)) for each in decisions if each.action in BEGUN_BY)


BEGUN_BY = (Action.ATTACH, Action.GRANT, Action.RESTORE, Action.RESTAMP, Action.REPORT, Action.DETACH)


@cache
def opens(node: NodeObject | None, closed: int) -> bool:
    """Whether a Node that was closed has shown that nothing is left there."""
    return may_open(_closed(closed), node_object(node, "n") if node is not None else None, VOLUME)


def _closed(closed: int) -> Closed:
    """In the boot that the Node shows, or in an earlier one."""
    return Closed(1, "boot" if closed == 1 else "one before")


@cache
def attacher_step(record: Attachment, stored: bool) -> str:
    """The attacher's next step."""
    body = {
        "metadata": {
            "name": "va",
            "finalizers": [ATTACHER_FINALIZER] if record.finalizer else [],
            "annotations": {ATTACH_REQUESTED_AT: CREATED} if record.finalizer else {},
            **({"deletionTimestamp": CREATED} if record.deleting else {}),
        },
        "spec": {"attacher": ATTACHER, "nodeName": "n"},
        "status": {"attached": record.attached},
    }
    return attacher.decide(msgspec.convert(body, VolumeAttachment), stored=stored).action.value


@cache
def agent_step(machine: Machine, wanted: bool, reported: bool, stale: bool) -> str:
    """The agent's next step."""
    pod = frozenset({"pod"})
    mounted = node_volumes.Presence.PRESENT if machine.mounted else node_volumes.Presence.ABSENT
    volume = node_volumes.VolumeState(
        attachable=True,
        has_device=True,
        wanted_by=pod if wanted and not stale else frozenset(),
        starting=pod if wanted else frozenset(),
        pods={},
        outdated=frozenset(),
        under_way=frozenset(),
        resting={},
        one_at_a_time=False,
        device=mounted,
        published=machine.published,
        reported=reported,
        to_grow=False,
        stale=stale,
    )
    return node_volumes.decide(volume).action.value
