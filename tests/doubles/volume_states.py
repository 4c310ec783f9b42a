"""States of a volume, one for each rule of attaching, and what they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from decide_values import ATTACHED
from msgspec.structs import replace

from mooring.controllers.attachdetach.state import (
    Attachment,
    Demand,
    NodeState,
    Policy,
    Terms,
    VolumeState,
)
from mooring.kube.objects import (
    AttachedVolume,
    Condition,
    ManagedMeta,
    Node,
    NodeStatus,
    NodeSystemInfo,
)
from mooring.volumes.attachment_lock import Closed, Lock
from mooring.volumes.names import CONTROLLER_MANAGED, RECONSTRUCTED

VOLUME = "example.com/disk/d1"
NOW = datetime(2030, 1, 1, 0, 10, tzinfo=UTC)
LONG_AGO, JUST_NOW = "2030-01-01T00:00:00Z", "2030-01-01T00:09:50Z"
AGES = {LONG_AGO: 600.0, JUST_NOW: 10.0, "2030-01-01T00:09:20Z": 40.0}
ON_N0 = Demand(node="n0", pods=("default/web-0",), since=LONG_AGO, starting=True)


def node(
    name: str = "n0", *, uid: str = "uid", ready: str = "True", uses: bool = False, told: bool = False
) -> NodeState:
    made = Node(
        metadata=ManagedMeta(name=name, uid=uid, annotations={CONTROLLER_MANAGED: "", RECONSTRUCTED: "b1"}),
        status=NodeStatus(
            conditions=(Condition(type="Ready", status=ready),),
            node_info=NodeSystemInfo(boot_id="b1"),
            volumes_in_use=(VOLUME,) if uses else (),
            volumes_attached=(AttachedVolume(name=VOLUME),) if told else (),
        ),
    )
    return NodeState.of(made, VOLUME)


def held(on: str = "n0", **changes: Any) -> Attachment:
    return replace(ATTACHED, name=f"va-{on}", node=on, node_uid="uid", **changes)


def state(
    *known: NodeState, held: Sequence[Attachment] = (), wanted: Sequence[Demand] = (), **more: Any
) -> VolumeState:
    return VolumeState(
        volume=VOLUME,
        several_nodes=more.pop("several_nodes", False),
        demands=tuple(wanted),
        attachments=tuple(held),
        nodes={each.name: each for each in known},
        terms=Terms(Policy(360.0, False), NOW, True, AGES),
        **more,
    )


STATES = {
    "it is wanted": state(node(), wanted=[ON_N0]),
    "its pods end": state(node(), wanted=[replace(ON_N0, starting=False)]),
    "its node is gone": state(wanted=[ON_N0]),
    "another node has it": state(node(), node("n1", uses=True), held=[held("n1")], wanted=[ON_N0]),
    "another node had it": state(node(), held=[held("n1", deleting=True, detached=True)], wanted=[ON_N0]),
    "an older pod wants it": state(
        node(), node("n1"), wanted=[replace(ON_N0, since=JUST_NOW), replace(ON_N0, node="n1")]
    ),
    "its lock is damaged": state(node(), wanted=[ON_N0], lock=None),
    "its node is closed": state(
        node(ready="Unknown"), wanted=[ON_N0], lock=Lock(4, closed={"n0": Closed(4)})
    ),
    "it is attached": state(node(), held=[held()], wanted=[ON_N0]),
    "it is attached and reported": state(node(told=True), held=[held()], wanted=[ON_N0]),
    "it is being attached": state(node(), held=[held(attached=False)], wanted=[ON_N0]),
    "it is being detached": state(node(), held=[held(deleting=True)], wanted=[ON_N0]),
    "it is wanted again": state(node(), held=[held(marked=True)], wanted=[ON_N0]),
    "it is of an older epoch": state(node(), held=[held(epoch=3)], wanted=[ON_N0], lock=Lock(4)),
    "its node is registered anew": state(node(uid="uid-2"), held=[held()], wanted=[ON_N0]),
    "nothing uses it": state(node(told=True), held=[held()]),
    "its node uses it": state(node(uses=True, told=True), held=[held()]),
    "its node uses it and is not told": state(node(uses=True), held=[held()]),
    "its node is silent": state(node(ready="Unknown", uses=True), held=[held()]),
    "its node has been silent": state(node(ready="Unknown", uses=True), held=[held(force_since=LONG_AGO)]),
    "its node was silent": state(node(uses=True, told=True), held=[held(force_since=LONG_AGO)]),
    "a second one": state(
        node(uses=True),
        node("n1"),
        held=[held(), held("n1", created=JUST_NOW)],
        wanted=[ON_N0, replace(ON_N0, node="n1")],
    ),
}
