"""What is known of one volume, as plain values: demands, attachments, nodes, lock and policy. Pure.

The values are made here from API objects, and judged in `decide` and `release`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import MAXYEAR, UTC, datetime
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from mooring.kube.decision import Decision
from mooring.kube.objects import Node, Pod, VolumeAttachment
from mooring.kube.times import parse_time
from mooring.volumes.attachment_lock import Lock, epoch_of
from mooring.volumes.names import (
    BROKEN,
    CONTROLLER_MANAGED,
    DETACHED,
    DETACHING,
    FORCE_DETACH_REPORT,
    FORCE_DETACH_SINCE,
    NODE_ABSENT_SINCE,
    NODE_MACHINE,
    NODE_UID,
    RECONSTRUCTED,
)
from mooring.volumes.out_of_service import out_of_service, spent, taint_of
from mooring.volumes.statements import Evidence, Statement, evidence_of, statement_of

BEFORE_ANY_TIMER = datetime.min.replace(tzinfo=UTC)


class Policy(msgspec.Struct, frozen=True, gc=False):
    """What the operator has set for nodes that do not answer.

    `force_detach_after`: seconds until a volume that no pod wants there is taken from such a node, if
    its storage revokes; 0: never. `node_deletion_confirms_death`: the deletion of a Node object
    states that its machine is off.
    """

    force_detach_after: float = 360.0
    node_deletion_confirms_death: bool = False


class Terms(NamedTuple):
    """What a release is judged by besides node and attachment. `revokes`: a detach cuts the
    old node off for good. `ages`: the time of a timer -> for how many seconds that has run."""

    policy: Policy = Policy(force_detach_after=0.0)
    now: datetime = BEFORE_ANY_TIMER
    revokes: bool = False
    ages: Mapping[str, float] = MappingProxyType({})


NO_POLICY = Terms()
"""No timer and no deletion of a Node permits a force detach: only a fence, a taint or an
operator's statement."""


class Demand(msgspec.Struct, frozen=True, gc=False):
    """Pods on one node that use the volume, oldest first ("namespace/name"). `since` is the
    oldest's creation time.

    `starting` is false when all of them are being deleted: they keep what they have, and get nothing new.
    """

    node: str
    pods: tuple[str, ...]
    since: str
    starting: bool


class Attachment(msgspec.Struct, frozen=True, gc=False):
    """What a VolumeAttachment says. `marked`: a detach has begun. `deleting`: its deletion has been
    requested. `detached`: the storage has detached the volume, and the VolumeAttachment only keeps its own
    node from having the volume again. `machine`: which one it was made for (`mooring.volumes.machines`).
    `force_report`: the last report of its node when the timer of `force_since` began; "" if not known."""

    name: str
    node: str
    attached: bool
    marked: bool
    deleting: bool
    node_uid: str
    attach_error: str
    detach_error: str
    created: str = ""
    epoch: int = 0
    force_since: str = ""
    force_report: str = ""
    absent_since: str = ""
    broken: str = ""
    statement: Statement | None = None
    evidence: Evidence | None = None
    detached: bool = False
    machine: str = ""

    @classmethod
    def of(cls, record: VolumeAttachment) -> Attachment:
        annotations, status = record.metadata.annotations, record.status
        return cls(
            name=record.name,
            node=record.spec.node_name,
            attached=status.attached,
            marked=DETACHING in annotations,
            deleting=record.deleting,
            node_uid=annotations.get(NODE_UID, ""),
            attach_error=status.attach_error.message if status.attach_error else "",
            detach_error=status.detach_error.message if status.detach_error else "",
            created=record.metadata.creation_timestamp or "",
            epoch=epoch_of(record),
            force_since=_time(annotations.get(FORCE_DETACH_SINCE, "")),
            force_report=annotations.get(FORCE_DETACH_REPORT, ""),
            absent_since=_time(annotations.get(NODE_ABSENT_SINCE, "")),
            broken=annotations.get(BROKEN, ""),
            statement=statement_of(record),
            evidence=evidence_of(record),
            detached=is_detached(record),
            machine=annotations.get(NODE_MACHINE, ""),
        )

    @property
    def usable(self) -> bool:
        return _usable(self.attached, self.marked, self.deleting)


def _time(written: str) -> str:
    """A timer's beginning; "" if a person has made something else of it: then it begins anew."""
    try:
        return written if written and parse_time(written).year < MAXYEAR else ""
    except ValueError:
        return ""


def is_usable(record: VolumeAttachment) -> bool:
    """Whether a pod may mount: attached, not marked, not being deleted. Only such a volume
    is reported to the node."""
    return _usable(record.status.attached, DETACHING in record.metadata.annotations, record.deleting)


def is_detached(record: VolumeAttachment) -> bool:
    """Whether no outstanding request can attach the volume there any more, so that other
    nodes may have it."""
    return record.deleting and DETACHED in record.metadata.annotations


def _usable(attached: bool, marked: bool, deleting: bool) -> bool:
    return attached and not marked and not deleting


class NodeState(msgspec.Struct, frozen=True, gc=False):
    """What a Node says about one volume. `reported`: in volumesAttached; `in_use`: in volumesInUse."""

    name: str
    uid: str
    ready: str
    managed: bool
    reconstructed: bool
    reported: bool
    in_use: bool
    tainted: bool
    taint_spent: bool
    out_of_service: bool
    created: str = ""
    node: Node | None = None
    """The object itself, for rules that need more of it."""

    @classmethod
    def of(cls, node: Node, volume: str) -> NodeState:
        return cls(
            name=node.name,
            uid=node.uid,
            ready=node.ready,
            managed=CONTROLLER_MANAGED in node.metadata.annotations,
            reconstructed=RECONSTRUCTED in node.metadata.annotations,
            reported=any(entry.name == volume for entry in node.status.volumes_attached),
            in_use=volume in node.status.volumes_in_use,
            tainted=taint_of(node) is not None,
            taint_spent=spent(node),
            out_of_service=out_of_service(node),
            created=node.metadata.creation_timestamp or "",
            node=node,
        )


class VolumeState(msgspec.Struct, frozen=True, gc=False):
    """Everything that is known of one volume. A node that is missing from `nodes` does not exist.

    `locked`: only the lock keeps a second node from the volume. `lock` is None if it cannot be read.
    """

    volume: str
    several_nodes: bool
    demands: tuple[Demand, ...]
    attachments: tuple[Attachment, ...]
    nodes: Mapping[str, NodeState]
    terms: Terms = NO_POLICY
    locked: bool = False
    lock: Lock | None = Lock()

    @property
    def holding(self) -> tuple[Attachment, ...]:
        """The attachments that keep other nodes from an exclusive volume."""
        return tuple(each for each in self.attachments if not each.detached)


def demands_of(users: Iterable[Pod]) -> tuple[Demand, ...]:
    """Returns what the pods that use a volume want, by node. Pods without a node, and pods
    that have ended, want nothing.

    A pod that is being deleted keeps its demand until its object is gone, whatever its
    containers' statuses say: a status without a running container does not mean that none is
    about to start (docs/safety.md, hazard H5).
    """
    by_node: dict[str, list[Pod]] = {}
    for pod in users:
        if pod.spec.node_name and not pod.finished:
            by_node.setdefault(pod.spec.node_name, []).append(pod)
    return tuple(_demand(node, pods) for node, pods in sorted(by_node.items()))


def _demand(node: str, pods: list[Pod]) -> Demand:
    pods.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.key))
    return Demand(
        node=node,
        pods=tuple(pod.key for pod in pods),
        since=pods[0].metadata.creation_timestamp or "",
        starting=any(not pod.deleting for pod in pods),
    )


class Action(Enum):
    """What to do about a volume on one node."""

    ATTACH = "Attach"  # create the VolumeAttachment
    GRANT = "Grant"  # grant the lock to the node of a VolumeAttachment of an older epoch
    RESTORE = "Restore"  # take the mark of a detach back
    RESTAMP = "Restamp"  # store the uid of a node that was registered anew and has looked at its mounts
    NOTE = "Note"  # store, or erase, when a timer was started
    REPORT = "Report"  # put the volume into volumesAttached
    DETACH = "Detach"  # begin the walk that ends with the VolumeAttachment's deletion
    WAIT = "Wait"  # the attacher, or the node, is at work
    BLOCKED = "Blocked"  # an operator, a user or another node has to do something
    SETTLED = "Settled"


class VolumeDecision(Decision[Action], frozen=True, gc=False):
    """What to do about the volume on one node. `pods`: those that use it there.

    `notes`: annotations for NOTE. `after`: seconds until a timer is due; 0 if none runs.
    """

    node: str
    pods: tuple[str, ...] = ()
    notes: tuple[tuple[str, str | None], ...] = ()
    after: float = 0.0
