"""Plays the tables of upstream's node life-cycle controller against ours.

As in upstream's tests, the case tells the controller how its nodes are, then time passes, then the case tells
it how they are now; after each word the controller has done what there is to do. Nodes and pods are on a
server, too. What upstream's controller sees only after an hour, a new heartbeat or lease, ours sees within
the grace period: otherwise it would have found the node silent before.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from random import Random
from typing import Any

from tests.upstream.tables import Json, Table, name_of, read

from mooring.apiserver import Server
from mooring.controllers.nodelifecycle.controller import NodeLifecycleController
from mooring.controllers.nodelifecycle.zones import Zones
from mooring.kube.client import Client, WatchEvent
from mooring.kube.decoding import decoder
from mooring.kube.keys import PodKey
from mooring.kube.objects import Lease, Node, Object, Pod
from mooring.simulation.parts.faulty_transport import FaultyTransport, admin, request

NAMESPACE = "default"
GRACE_S = 50.0
MOMENT_S = 0.5
"""For the controller to do what there is to do."""
SECONDS = {"": 0.0, "1m0s": 60.0, "1h0m0s": 3600.0}
Now = Callable[[], datetime]


class Stage:
    """A controller that is told how nodes and leases are."""

    def __init__(self, server: Server, now: Now) -> None:
        self.api = Client(admin(server))
        self.wire = FaultyTransport(admin(server))
        self.controller: Any = NodeLifecycleController(
            Client(self.wire), grace_period=GRACE_S, now=now, random=Random(1)
        )

    async def tell(self, node: Json) -> None:
        """The Node is so from now on."""
        name, status = node["metadata"]["name"], node.get("status") or {}
        if await self.api.find(Node, name) is None:
            metadata = {"name": name, "labels": node["metadata"].get("labels") or {}}
            await self.api.create(Node, {"metadata": metadata, "spec": node.get("spec") or {}})
        conditions = {"status": {"conditions": None}}
        await self.api.patch(Node, name, conditions, subresource="status")
        live = await self.api.patch(Node, name, {"status": status}, subresource="status")
        self.controller.cache(Node).accept(live)
        await asyncio.sleep(MOMENT_S)

    async def tell_lease(self, lease: Json | None) -> None:
        """The lease is so from now on."""
        if lease is not None:
            version = str(1_000_000 + int(asyncio.get_running_loop().time()))
            body = {**lease, "metadata": {**lease["metadata"], "resourceVersion": version}}
            found = decoder(Lease).decode(json.dumps(body))
            self.controller.cache(Lease).apply(WatchEvent("MODIFIED", found, version))

    async def pod(self, name: str, node: str) -> None:
        """A pod that runs on the node and is ready."""
        spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": node}
        await self.api.create(Pod, {"metadata": {"name": name}, "spec": spec}, NAMESPACE)
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        made = await self.api.patch(Pod, name, {"status": status}, NAMESPACE, subresource="status")
        self.controller.cache(Pod).accept(made)

    def pod_writes(self) -> int:
        """How often the status of a pod was written."""
        return sum(each.startswith("PATCH") and "/pods/" in each for each in self.wire.sent)


def _object(kind: type[Object], body: Json) -> Any:
    return decoder(kind).decode(json.dumps({key: each for key, each in body.items() if key != "kind"}))


async def cases(now: Now) -> dict[str, list[str]]:
    """Each case of the node life-cycle controller → its differences."""
    found: dict[str, list[str]] = {}
    for table in read("nodelifecycle").tables:
        for number, row in enumerate(table.rows):
            name = name_of(row)
            key = f"{table.test}: {number + 1}" + (f" - {name}" if name else "")
            if table.test in PURE:
                found[key] = PURE[table.test](row)
            else:
                found[key] = await _on_stage(PLAYS[table.test], table, row, now)
    return found


async def _on_stage(play: Play, table: Table, row: Json, now: Now) -> list[str]:
    server = Server.in_memory(now=now, random=Random(1))
    await server.start()
    stage = Stage(server, now)
    work = asyncio.create_task(stage.controller.queue.run(4, stage.controller._reconcile))
    try:
        return await play(stage, table, row)
    finally:
        work.cancel()


Play = Callable[[Stage, Table, Json], Awaitable[list[str]]]


# --- the health of a node, and its pods


async def _health(stage: Stage, table: Table, row: Json) -> list[str]:
    first, *others = row["fakeNodeHandler"]["Existing"]
    for pod in row["fakeNodeHandler"]["Clientset"]:
        await stage.pod(pod["metadata"]["name"], pod["spec"]["nodeName"])
    await stage.tell_lease(row.get("lease"))
    for node in (first, *others):
        await stage.tell(node)
    if span := SECONDS[row.get("timeToPass", "")]:
        beats, renews = _beats(row.get("newNodeStatus") or {}, first), row.get("newLease") != row.get("lease")
        await asyncio.sleep(GRACE_S - 2 if beats or renews else span)
        if beats:
            await stage.tell({**first, "status": row["newNodeStatus"]})
        if renews:
            await stage.tell_lease(row["newLease"])
        await asyncio.sleep(4)
    return [*await _conditions(stage, row), *_pods(stage, row)]


def _beats(status: Json, node: Json) -> bool:
    def beats(conditions: Iterable[Json]) -> set[str]:
        return {each.get("lastHeartbeatTime", "") for each in conditions}

    return beats(status.get("conditions") or []) != beats(node.get("status", {}).get("conditions") or [])


async def _conditions(stage: Stage, row: Json) -> list[str]:
    if "expectedNodes" not in row and "expectedRequestCount" not in row:
        return []
    node = await stage.api.get(Node, "node0")
    found = {each.type: each.status for each in node.status.conditions}
    nodes = row.get("expectedNodes") or row["fakeNodeHandler"]["Existing"]
    wanted = {each["type"]: each["status"] for each in nodes[0].get("status", {}).get("conditions") or []}
    return [] if found == wanted else [f"the conditions are {found}, not {wanted}"]


def _pods(stage: Stage, row: Json) -> list[str]:
    found, wanted = stage.pod_writes() > 0, row.get("expectedPodStatusUpdate", False)
    return [] if found == wanted else [f"the pod is {'' if found else 'not '}marked as not ready"]


async def _many(stage: Stage, table: Table, row: Json) -> list[str]:
    """Upstream has 50 nodes with 100 pods each; the number of its workers has no counterpart."""
    ready = {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2015-01-01T12:00:00Z"}]}
    for number in range(50):
        for pod in range(100):
            await stage.pod(f"pod-{number}-{pod}", f"node{number}")
    for number in range(50):
        await stage.tell({"metadata": {"name": f"node{number}"}, "status": ready})
    await asyncio.sleep(60)
    pods = (await stage.api.list(Pod, NAMESPACE)).items
    left = sum(
        each.status == "True" for pod in pods for each in pod.status.conditions if each.type == "Ready"
    )
    return [f"{left} of {len(pods)} pods are ready"] if left else []


async def _retry(stage: Stage, table: Table, row: Json) -> list[str]:
    """Upstream's list of pods, which fails in its third case, is a cache here, which does not."""
    await stage.pod("pod0", "node0")
    if "updateReactor" in row:
        stage.wire.lose(request("PATCH", "/pods/pod0/status"))
    before, *_, after = row["nodeIterations"]
    await stage.tell(before["newNodes"][0])
    await asyncio.sleep(60)
    await stage.tell(after["newNodes"][0])
    found, wanted = stage.pod_writes(), row["expectedPodStatusUpdates"]
    return [] if found == wanted else [f"the pod's status is written {found} times, not {wanted}"]


async def _reason(stage: Stage, table: Table, row: Json) -> list[str]:
    """A pod of a node that is Unknown is deleted when its time is up, and says why."""
    first, second = row["fakeNodeHandler"]["Existing"]
    await stage.tell(second)
    await stage.pod("pod0", "node0")
    await stage.tell(first)
    await asyncio.sleep(1)
    pod = await stage.api.get(Pod, "pod0", NAMESPACE)
    lines = [] if stage.pod_writes() else ["the pod is not written"]
    if pod.status.reason != row["expectedReason"]:
        lines.append(f"the pod's reason is {pod.status.reason!r}, not {row['expectedReason']!r}")
    return lines


async def _process(stage: Stage, table: Table, row: Json) -> list[str]:
    """A pod that comes when its node is judged already, or is not yet."""
    if row.get("monitorNodeHealth"):
        await stage.tell(row["fakeNodeHandler"]["Existing"][0])
    await stage.pod("pod0", "node0")
    stage.controller.queue.add(PodKey(f"{NAMESPACE}/pod0"))
    await asyncio.sleep(MOMENT_S)
    return _pods(stage, row)


# --- taints and labels


async def _taints(stage: Stage, table: Table, row: Json) -> list[str]:
    """Upstream's pass over NoSchedule taints; NoExecute taints are another's."""
    await stage.tell(row["Node"])
    node = await stage.api.get(Node, "node0")
    found = {(each.key, each.effect) for each in node.spec.taints if each.effect == "NoSchedule"}
    wanted = {(each["key"], each["effect"]) for each in row["ExpectedTaints"]}
    return [] if found == wanted else [f"the taints are {sorted(found)}, not {sorted(wanted)}"]


async def _labels(stage: Stage, table: Table, row: Json) -> list[str]:
    await stage.tell({**row["Node"], "status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    found = (await stage.api.get(Node, "node0")).metadata.labels
    wanted = row.get("ExpectedLabels") or {}
    return [] if found == wanted else [f"the labels are {found}, not {wanted}"]


async def _ready_condition(stage: Stage, table: Table, row: Json) -> list[str]:
    """What the controller holds of a node's Ready condition afterwards is what the Node says. Upstream's node
    that is silent for a year, by its own clock, is so for a year of this run."""
    await stage.tell(row["node"])
    await asyncio.sleep(2 * GRACE_S if "after" in row["name"] else MOMENT_S)
    live, held = await stage.api.get(Node, "node0"), stage.controller.cache(Node).get("node0")
    lines = [] if live.ready == held.ready else [f"{held.ready} is held, {live.ready} is there"]
    if "after" in row["name"] and live.ready != "Unknown":
        lines.append(f"the silent node is {live.ready}")
    return lines


# --- zones


def _zones(row: Json) -> list[str]:
    zones = Zones()
    first = [_object(Node, each) for each in row["nodeList"]]
    then = [
        _object(Node, {**node, "status": status or {}})
        for node, status in zip(row["nodeList"], row["updatedNodeStatuses"], strict=True)
    ]
    lines: list[str] = []
    for old, new, wanted in (
        ([None] * len(first), first, row["expectedInitialStates"]),
        (first, then, row["expectedFollowingStates"]),
    ):
        for before, after in zip(old, new, strict=True):
            zones.note(before, after)
        found = {zone: state.value for zone, state in zones.states().items()}
        if found != wanted:
            lines.append(f"the zones are {found}, not {wanted}")
    return lines


def _excluded(row: Json) -> list[str]:
    zones = Zones()
    zones.note(None, _object(Node, row["input"]))
    found = not zones.states()
    return [] if found == row.get("want", False) else [f"it is {'' if found else 'not '}left out"]


PURE: dict[str, Callable[[Json], list[str]]] = {
    "TestMonitorNodeHealth": _zones,
    "Test_isNodeExcludedFromDisruptionChecks": _excluded,
}
PLAYS: dict[str, Play] = {
    "TestMonitorNodeHealthUpdateStatus": _health,
    "TestMonitorNodeHealthUpdateNodeAndPodStatusWithLease": _health,
    "TestMonitorNodeHealthMarkPodsNotReady": _health,
    "TestMonitorNodeHealthMarkPodsNotReadyWithWorkerSize": _many,
    "TestMonitorNodeHealthMarkPodsNotReadyRetry": _retry,
    "TestPodStatusChange": _reason,
    "TestProcessPodMarkPodNotReady": _process,
    "TestTaintsNodeByCondition": _taints,
    "TestReconcileNodeLabels": _labels,
    "TestTryUpdateNodeHealth": _ready_condition,
}
