"""Plays the tables of upstream's pod garbage collector against ours.

What upstream's client has is on the server; what its informer has is in our cache, which nothing else fills.
Each pod is looked at, the case's time passes, its Nodes come and go, and each pod is looked at once more.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from random import Random
from typing import Any

from tests.upstream.tables import Json, Table, name_of, read

from mooring.apiserver import Server
from mooring.controllers.podgc.controller import PodGCController
from mooring.kube.client import Client, WatchEvent
from mooring.kube.errors import Conflict, NotFound
from mooring.kube.objects import Node, ObjectMeta, Pod
from mooring.kube.times import format_time
from mooring.simulation.parts.faulty_transport import admin

NAMESPACE = "default"
_SPAN = re.compile(r"(?:(\d+)m)?(?:(\d+)s)?")


async def cases(now: Callable[[], datetime]) -> dict[str, list[str]]:
    """Each case → its differences."""
    found: dict[str, list[str]] = {}
    for table in read("podgc").tables:
        for number, row in enumerate(table.rows):
            found[f"{table.test}: {number + 1} - {name_of(row)}"] = await _play(table, row, now)
    return found


async def _play(table: Table, row: Json, now: Callable[[], datetime]) -> list[str]:
    server = Server.in_memory(now=now, random=Random(1))
    await server.start()
    client = Client(admin(server))
    most = row.get("threshold", 0)
    controller: Any = PodGCController(client, now=now, random=Random(1), most_ended=most)
    pods = [_pod(each, number, now) for number, each in enumerate(row.get("pods") or [row.get("pod")])]
    for body in pods:
        await _store(client, controller, body)
    for body in row.get("nodes") or _nodes_of(table, pods):
        await _add(client, controller, _node(body), informed=True)
    for field, informed in (("initialClientNodes", False), ("initialInformerNodes", True)):
        for body in row.get(field) or []:
            await _add(client, controller, body, informed=informed, stored=not informed)
    await _look(controller, pods)
    await asyncio.sleep(_seconds(row.get("delay", "1m20s")))
    await _change(client, controller, row)
    await _look(controller, pods)
    await _look(controller, pods)  # upstream's second round: those whose quarantine has ended just now
    return await _differences(client, table, row, pods)


async def _look(controller: Any, pods: Iterable[Json]) -> None:
    for body in pods:
        try:
            await controller.reconcile(f"{NAMESPACE}/{body['metadata']['name']}")
        except (Conflict, NotFound):
            continue  # what the cache shows is gone


async def _store(client: Client, controller: Any, body: Json) -> None:
    """A pod as it is, one that is being deleted included."""
    status = body.pop("status", {})
    deleting = body["metadata"].pop("deletionTimestamp", None) is not None
    if deleting:
        body["metadata"]["finalizers"] = ["example.com/held"]
    await client.create(Pod, body, NAMESPACE)
    name = body["metadata"]["name"]
    if deleting:
        await client.delete(Pod, name, NAMESPACE, grace_period_seconds=30)
        await client.patch(Pod, name, {"metadata": {"finalizers": None}}, NAMESPACE)
    found = await client.find(Pod, name, NAMESPACE)
    if found is not None and status:
        found = await client.patch(Pod, name, {"status": status}, NAMESPACE, subresource="status")
    if found is not None:
        controller.cache(Pod).accept(found)


async def _add(client: Client, controller: Any, body: Json, *, informed: bool, stored: bool = True) -> None:
    if stored:
        node = await client.create(Node, {key: each for key, each in body.items() if key != "kind"})
    else:
        name = body["metadata"]["name"]
        node = Node(metadata=ObjectMeta(name=name, uid="cached", resource_version="1"))
    if informed:
        controller.cache(Node).accept(node)


async def _change(client: Client, controller: Any, row: Json) -> None:
    for body in row.get("addedClientNodes") or []:
        await _add(client, controller, body, informed=False)
    for body in row.get("addedInformerNodes") or []:
        await _add(client, controller, body, informed=True, stored=False)
    for body in row.get("deletedClientNodes") or []:
        await client.delete(Node, body["metadata"]["name"])
    for body in row.get("deletedInformerNodes") or []:
        cached = controller.cache(Node).get(body["metadata"]["name"])
        controller.cache(Node).apply(WatchEvent("DELETED", cached, "1000000"))


def _pod(given: Json, number: int, now: Callable[[], datetime]) -> Json:
    """A pod of the case: an object, or the few fields that some tables have."""
    if "metadata" in given:
        body = {key: each for key, each in given.items() if key != "kind"}
        spec = {"containers": [{"name": "c", "image": "i"}], **body.get("spec", {})}
        spec["nodeName"] = spec.get("nodeName", "").lower()  # a server wants small letters
        return {**body, "metadata": {"name": body["metadata"]["name"].lower()}, "spec": spec}
    metadata: Json = {"name": given["name"], "labels": {"number": str(number)}}
    if "deletionTimeStamp" in given:
        metadata["deletionTimestamp"] = format_time(now())
    spec = {"containers": [{"name": "c", "image": "i"}], "nodeName": given.get("nodeName", "")}
    status = {name: given[name] for name in ("phase", "reason") if name in given}
    return {"metadata": metadata, "spec": spec, "status": status}


def _nodes_of(table: Table, pods: Iterable[Json]) -> list[Json]:
    """The Nodes of the pods, in the table of a function that does not look at Nodes."""
    if table.test != "TestGCUnscheduledTerminating":
        return []
    names = {body["spec"]["nodeName"] for body in pods} - {""}
    return [{"name": name, "readyCondition": "True"} for name in sorted(names)]


def _node(given: Json) -> Json:
    ready = {"type": "Ready", "status": given["readyCondition"]}
    taints = given.get("taints") or []
    return {
        "metadata": {"name": given["name"]},
        "spec": {"taints": taints},
        "status": {"conditions": [ready]},
    }


async def _differences(client: Client, table: Table, row: Json, pods: Iterable[Json]) -> list[str]:
    names = {body["metadata"]["name"] for body in pods}
    left = {pod.name for pod in (await client.list(Pod, NAMESPACE)).items}
    wanted = set(row.get("deletedPodNames") or [])
    if "expectedDeleteAction" in row:
        wanted = {row["expectedDeleteAction"]["Name"].lower()}
    removed = names - left
    found = [f"{name} is removed" for name in sorted(removed - wanted)]
    return [*found, *(f"{name} is not removed" for name in sorted(wanted - removed))]


def _seconds(text: str) -> float:
    match = _SPAN.fullmatch(text)
    assert match is not None, f"no span: {text}"
    return timedelta(minutes=int(match[1] or 0), seconds=int(match[2] or 0)).total_seconds()
