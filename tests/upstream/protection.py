"""Plays the tables of upstream's protection controllers, of claims and of volumes, against our binder.

The server has what the case ends with: claims or volumes as they were updated, and the pods that are left.
Our caches have the same, but for pods that upstream's informers do not show yet. Each claim or volume is
looked at once; compared is whether it is protected afterwards: a protected one that is deleted stays.

Retries after an error are those of every controller here (`tests/kube/test_controller.py`): the errors of a
case are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from random import Random
from typing import Any

from tests.upstream.tables import Json, name_of, read

from mooring.apiserver import Server
from mooring.controllers.binding.controller import BindingController
from mooring.kube.client import Client
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import Namespace, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.simulation.parts.faulty_transport import admin

SIZE = {"storage": "1Gi"}
CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": SIZE}, "storageClassName": ""}
VOLUME_SPEC = {"accessModes": ["ReadWriteOnce"], "capacity": SIZE, "hostPath": {"path": "/x"}}


def of_a_feature_gate(package: str) -> Iterator[str]:
    """The cases behind a gate that is off in this version of upstream."""
    for key, row in _rows(package):
        if row.get("enablePVCUnusedSinceTime"):
            yield key


def _rows(package: str) -> Iterator[tuple[str, Json]]:
    [table] = read(package).tables
    for number, row in enumerate(table.rows):
        yield f"{table.test}: {number + 1} - {name_of(row)}", row


async def claims(now: Callable[[], datetime]) -> dict[str, list[str]]:
    """Each case of claims → its differences."""
    gated = set(of_a_feature_gate("pvcprotection"))
    rows = [(key, row) for key, row in _rows("pvcprotection") if key not in gated]
    return {key: await _play_claims(row, now) for key, row in rows}


async def volumes(now: Callable[[], datetime]) -> dict[str, list[str]]:
    """Each case of volumes → its differences."""
    return {key: await _play_volume(row, now) for key, row in _rows("pvprotection")}


async def _play_claims(row: Json, now: Callable[[], datetime]) -> list[str]:
    client, controller = await _stage(now)
    objects = [*(row.get("initialObjects") or []), *(row.get("updatedPVCs") or [])]
    bodies = [each for each in objects if each["kind"] == "PersistentVolumeClaim"]
    pods = [each for each in objects if each["kind"] == "Pod"]
    pods += [row["updatedPod"]] if row.get("updatedPod") else []
    for namespace in {each["metadata"]["namespace"] for each in bodies} - {"default"}:
        await client.create(Namespace, {"metadata": {"name": namespace}})
    for body in bodies:
        await _store(client, controller, PersistentVolumeClaim, body, CLAIM_SPEC)
    for body in pods:
        spec = {"containers": [{"name": "c", "image": "i"}], **body["spec"], "volumes": _volumes_of(body)}
        name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
        made = await client.create(Pod, {"metadata": {"name": name}, "spec": spec}, namespace)
        if status := body.get("status"):
            made = await client.patch(Pod, name, {"status": status}, namespace, subresource="status")
        if not row.get("informersAreLate"):
            controller.cache(Pod).accept(made)
    for body in bodies:
        await controller.reconcile(ClaimKey(_key(body)))
    protected = _protected(row, bodies)
    return [
        difference
        for body in bodies
        if (difference := await _difference(client, PersistentVolumeClaim, body, protected[_key(body)]))
    ]


async def _play_volume(row: Json, now: Callable[[], datetime]) -> list[str]:
    client, controller = await _stage(now)
    body = row["updatedPV"]
    spec = dict(VOLUME_SPEC)
    await _store(client, controller, PersistentVolume, body, spec)
    if body.get("status"):
        made = await client.patch(
            PersistentVolume, body["metadata"]["name"], {"status": body["status"]}, subresource="status"
        )
        controller.cache(PersistentVolume).accept(made)
    await controller.reconcile(VolumeKey(_key(body)))
    found = await _difference(client, PersistentVolume, body, _protected(row, [body])[_key(body)])
    return [found] if found else []


async def _stage(now: Callable[[], datetime]) -> tuple[Client, Any]:
    server = Server.in_memory(now=now, random=Random(1))
    await server.start()
    client = Client(admin(server))
    return client, BindingController(client, now=now, random=Random(1))


def _volumes_of(pod: Json) -> list[Json]:
    """The pod's volumes, in small letters, as a server wants them."""
    found: list[Json] = json.loads(
        json.dumps(pod["spec"].get("volumes") or []).lower().replace('emptydir": ', 'emptyDir": ')
    )
    for volume in found:
        if "persistentvolumeclaim" in volume:
            volume["persistentVolumeClaim"] = {"claimName": volume.pop("persistentvolumeclaim")["claimname"]}
    return found


async def _store(client: Client, controller: Any, kind: Any, body: Json, spec: Json) -> None:
    """Stores an object with the case's finalizers, and deletes it if the case says so."""
    name, namespace = body["metadata"]["name"], body["metadata"].get("namespace", "")
    finalizers = body["metadata"].get("finalizers")
    deleted = "deletionTimestamp" in body["metadata"]
    made = await client.create(kind, {"metadata": {"name": name}, "spec": spec}, namespace)
    made = await client.patch(kind, name, {"metadata": {"finalizers": finalizers}}, namespace)
    if deleted:
        await client.delete(kind, name, namespace)
        made = await client.get(kind, name, namespace)
    controller.cache(kind).accept(made)


def _protected(row: Json, bodies: Iterable[Json]) -> dict[str, bool]:
    """Whether upstream protects each object in the end: as it was, unless a write says otherwise."""
    found = {_key(each): bool(each["metadata"].get("finalizers")) for each in bodies}
    for action in row.get("expectedActions") or []:
        if action["Verb"] == "update":
            found[_key(action["Object"])] = bool(action["Object"]["metadata"].get("finalizers"))
    return found


async def _difference(client: Client, kind: Any, body: Json, protected: bool) -> str | None:
    name, namespace = body["metadata"]["name"], body["metadata"].get("namespace", "")
    live = await client.find(kind, name, namespace)
    is_protected = live is not None and any("protection" in each for each in live.metadata.finalizers)
    if is_protected == protected:
        return None
    return f"{name} is {'' if is_protected else 'not '}protected"


def _key(body: Json) -> str:
    namespace = body["metadata"].get("namespace", "")
    return f"{namespace}/{body['metadata']['name']}" if namespace else str(body["metadata"]["name"])
