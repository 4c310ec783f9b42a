"""Plays the tables of upstream's taint eviction controller against our node life-cycle controller.

As in upstream's tests, the case tells the controller what changes, one event after the other; the pods are on
a server, too. Then time passes, and compared is which pods were marked as disrupted, and deleted, by when.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from datetime import datetime
from random import Random
from typing import Any

from tests.upstream.tables import Json, Table, name_of, read

from mooring.apiserver import Server
from mooring.controllers.nodelifecycle.controller import NodeLifecycleController
from mooring.controllers.nodelifecycle.decide import tolerated_for
from mooring.kube.client import Client, WatchEvent
from mooring.kube.decoding import decoder
from mooring.kube.objects import Node, Object, Pod, Taint
from mooring.kube.times import format_time
from mooring.simulation.parts.faulty_transport import FaultyTransport, admin

NAMESPACE = "default"
LONG = 1e6
WAIT_S = 5.0
"""For so long upstream looks whether what is expected has come."""


class Stage:
    """A controller that is told of every change."""

    def __init__(self, server: Server, now: Callable[[], datetime]) -> None:
        self._now = now
        self.api = Client(admin(server))
        self.wire = FaultyTransport(admin(server))
        self.controller: Any = NodeLifecycleController(
            Client(self.wire), grace_period=LONG, now=now, random=Random(1)
        )
        self._versions = iter(range(1_000_000, 2_000_000))

    async def store(self, pods: Iterable[Json]) -> None:
        """The pods are on the server; the controller does not know of them yet."""
        for pod in pods:
            spec = {"containers": [{"name": "c", "image": "i"}], **self._timed(pod.get("spec") or {})}
            body = {"metadata": {"name": pod["metadata"]["name"]}, "spec": spec}
            await self.api.create(Pod, body, NAMESPACE)

    async def tell_pod(self, pod: Json) -> None:
        """The pod is so from now on."""
        live = await self.api.get(Pod, pod["metadata"]["name"], NAMESPACE)
        identity = {"name": live.name, "namespace": NAMESPACE, "uid": live.uid}
        self._tell(
            Pod, {"metadata": identity, "spec": pod.get("spec") or {}, "status": pod.get("status") or {}}
        )

    async def tell_node(self, node: Json) -> None:
        """The Node is so from now on, on the server and for the controller, and answers."""
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        body = {"metadata": node["metadata"], "spec": node.get("spec") or {}, "status": status}
        name, stored = body["metadata"]["name"], self._timed(body)
        if await self.api.find(Node, name) is None:
            await self.api.create(Node, stored)
        else:
            await self.api.patch(Node, name, {"spec": {"taints": stored["spec"].get("taints")}})
        self._tell(Node, body)

    def _tell(self, kind: type[Object], body: Json) -> None:
        version = str(next(self._versions))
        body = self._timed({**body, "metadata": {**body["metadata"], "resourceVersion": version}})
        found = decoder(kind).decode(json.dumps(body))
        self.controller.cache(kind).apply(WatchEvent("MODIFIED", found, version))

    def _timed(self, body: Json) -> Json:
        """The object with the time of the run, in which upstream's cases have their taints."""
        timed: Json = json.loads(json.dumps(body).replace("now+0s", format_time(self._now())))
        return timed

    def done(self, method: str) -> set[str]:
        """The names of the pods to which such a request was sent."""
        sent = (each.split() for each in self.wire.sent)
        return {path.split("/")[6] for verb, path in sent if verb == method and "/pods/" in path}


async def cases(now: Callable[[], datetime]) -> dict[str, list[str]]:
    """Each case of the taint eviction controller → its differences."""
    found: dict[str, list[str]] = {}
    for table in read("tainteviction").tables:
        for number, row in enumerate(table.rows):
            name = name_of(row)
            key = f"{table.test}: {number + 1}" + (f" - {name}" if name else "")
            play = _shortest if table.test == "TestGetMinTolerationTime" else _played
            found[key] = await play(table, row, now)
    return found


async def _shortest(table: Table, row: Json, now: Callable[[], datetime]) -> list[str]:
    """Upstream's -1 is for ever."""
    taint = Taint(key="k", effect="NoExecute")
    tolerations = [{"operator": "Exists", **(each or {})} for each in row.get("tolerations") or []]
    found = tolerated_for(decoder(Pod).decode(json.dumps({"spec": {"tolerations": tolerations}})), taint)
    wanted = {None: 0.0, "-1ns": None, "1s": 1.0}[row.get("expected")]
    return [] if found == wanted else [f"{found} s, not {wanted}"]


async def _played(table: Table, row: Json, now: Callable[[], datetime]) -> list[str]:
    server = Server.in_memory(now=now, random=Random(1))
    await server.start()
    stage = Stage(server, now)
    working = asyncio.create_task(stage.controller.queue.run(4, stage.controller.reconcile))
    try:
        return await _told(stage, table, row)
    finally:
        working.cancel()


async def _told(stage: Stage, table: Table, row: Json) -> list[str]:
    pods = list(row.get("pods") or [])
    changing = row.get("prevPod") or row.get("pod")
    later = row.get("newPod")
    await stage.store([*pods, *([changing or later] if changing or later else [])])
    for name, taints in (row.get("taintedNodes") or {"node1": []}).items():
        if changing and "oldNode" not in row:
            await stage.tell_node({"metadata": {"name": name}, "spec": {"taints": taints}})
    if old := row.get("oldNode"):
        await stage.tell_node(old)
    for pod in (*pods, *([changing] if changing else [])):
        await stage.tell_pod(pod)
    await _to_a_whole_second()
    if new := row.get("newNode") or row.get("node"):
        await stage.tell_node(new)
    if "expectedDeleteTimes" in row:
        return await _at_their_times(stage, row)
    if table.test == "TestEventualConsistency":
        return [*await _expected(stage, row), *await _late(stage, later)]
    if later:
        await stage.tell_pod(later)
    return await _expected(stage, row)


async def _to_a_whole_second() -> None:
    """A taint says its time in whole seconds."""
    await asyncio.sleep(1.0 - asyncio.get_running_loop().time() % 1.0)


async def _expected(stage: Stage, row: Json) -> list[str]:
    await asyncio.sleep(WAIT_S)
    lines: list[str] = []
    for method, field in (("PATCH", "expectPatch"), ("DELETE", "expectDelete")):
        done, wanted = bool(stage.done(method)), row.get(field, False)
        if done != wanted:
            lines.append(f"a pod is {'' if done else 'not '}{'deleted' if method == 'DELETE' else 'marked'}")
    return lines


async def _late(stage: Stage, pod: Json) -> list[str]:
    """Upstream does not look any more at the pod that is known late; it must go, unless it tolerates the
    taint."""
    await stage.tell_pod(pod)
    await asyncio.sleep(WAIT_S)
    gone = pod["metadata"]["name"] in stage.done("DELETE")
    tolerated = bool(pod["spec"].get("tolerations"))
    return [] if gone != tolerated else [f"the late pod is {'' if gone else 'not '}deleted"]


async def _at_their_times(stage: Stage, row: Json) -> list[str]:
    wanted: set[str] = set()
    lines: list[str] = []
    for each in row["expectedDeleteTimes"]:
        await asyncio.sleep(float((each.get("timestamp") or "0s").removesuffix("s")) + 0.2)
        wanted |= set(each["names"])
        if stage.done("DELETE") != wanted:
            lines.append(f"after {each.get('timestamp', '0s')} {sorted(stage.done('DELETE'))} are deleted")
    return lines
