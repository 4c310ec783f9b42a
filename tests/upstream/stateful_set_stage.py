"""A StatefulSet, its controller and an API server, on which upstream's cases are played step by step.

As in upstream's tests nothing runs by itself: a round looks at the set once, then the caches follow the
server. Pods have no node, so that one that is deleted is gone at once, unless a finalizer holds it.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from random import Random
from typing import Any

from tests.upstream.tables import Json, read

from mooring.apiserver import Server
from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.controllers.statefulset.decide import is_ready, ordinal_of
from mooring.kube.client import Client, WatchEvent
from mooring.kube.errors import ApiError
from mooring.kube.objects import PersistentVolumeClaim, Pod, StatefulSet
from mooring.kube.times import format_time
from mooring.kube.transport import Request, Response, Transport
from mooring.simulation.parts.faulty_transport import admin

NAMESPACE, NAME = "default", "foo"
KEY = f"{NAMESPACE}/{NAME}"
HELD = {"finalizers": ["example.com/held"]}
MOST_ROUNDS = 500
POLICIES: tuple[Json | None, ...] = (
    *(
        {"whenDeleted": one, "whenScaled": other}
        for one in ("Retain", "Delete")
        for other in ("Retain", "Delete")
    ),
    None,
)


class Different(Exception):
    """Something is not as upstream's case has it; the text says what."""


def expect(true: bool, what: str) -> None:
    """Raises Different, with these words, if it is not true."""
    if not true:
        raise Different(what)


class Counting:
    """A transport that counts requests, and answers some of them with an internal error.

    A request is known by its method and kind, e.g. `POST pods` or `PATCH statefulsets/status`."""

    def __init__(self, inner: Transport) -> None:
        self._inner = inner
        self.sent: Counter[str] = Counter()
        self.at_once: Counter[str] = Counter()
        self._under_way: Counter[str] = Counter()
        self._failing: dict[str, int] = {}

    def fail(self, what: str, after: int = 1) -> None:
        """The request with this number, counted from now, fails; no other."""
        self._failing[what] = after

    async def send(self, request: Request) -> Response:
        what = _name_of(request)
        self.sent[what] += 1
        self._under_way[what] += 1
        self.at_once[what] = max(self.at_once[what], self._under_way[what])
        await asyncio.sleep(0.001)
        self._under_way[what] -= 1
        if what in self._failing:
            self._failing[what] -= 1
            if self._failing[what] == 0:
                del self._failing[what]
                status = {"kind": "Status", "status": "Failure", "reason": "InternalError", "code": 500}
                return Response(500, {"Content-Type": "application/json"}, json.dumps(status).encode())
        return await self._inner.send(request)

    async def close(self) -> None:
        await self._inner.close()


def _name_of(request: Request) -> str:
    kinds = ("pods", "persistentvolumeclaims", "statefulsets", "controllerrevisions")
    parts = request.path.split("/")
    kind = next((each for each in kinds if each in parts), "")
    return f"{request.method} {kind}{'/status' if parts[-1] == 'status' else ''}"


class Stage:
    """One set. `controller` does not run by itself; `wire` is what it sends its requests through."""

    def __init__(self, server: Server, now: Callable[[], datetime]) -> None:
        self.now, self.random = now, Random(1)
        self.api = Client(admin(server))
        self.wire = Counting(admin(server))
        self.controller: Any = StatefulSetController(Client(self.wire), now=now, random=Random(1))

    async def round(self) -> None:
        """Looks at the set once; what the caches show then is what has come of it."""
        try:
            await self.controller.reconcile(KEY)
        finally:
            await self.follow()

    async def fails(self) -> bool:
        """Whether a round ends in an error."""
        try:
            await self.round()
        except ApiError:
            return True
        return False

    async def follow(self) -> None:
        """Brings the caches up to date."""
        for cache in self.controller.caches:
            found = {each.key: each for each in (await self.api.list(cache.kind)).items}
            for each in cache.items():
                if each.key not in found or found[each.key].uid != each.uid:
                    cache.apply(WatchEvent("DELETED", each, str(int(each.metadata.resource_version) + 1)))
            for each in found.values():
                cache.accept(each)

    @property
    def set(self) -> StatefulSet:
        return self.controller.cache(StatefulSet).get(KEY)

    @property
    def pods(self) -> list[Pod]:
        """The set's pods, by ordinal."""
        pods = [each for each in self.controller.cache(Pod).items() if each.namespace == NAMESPACE]
        return sorted(pods, key=lambda each: ordinal_of(self.set, each) or 0)

    @property
    def claims(self) -> dict[str, PersistentVolumeClaim]:
        return {each.name: each for each in self.controller.cache(PersistentVolumeClaim).items()}

    async def edit(self, *, image: str | None = None, **spec: Any) -> None:
        """Changes the spec; `image`: that of the template's container."""
        if image is not None:
            spec["template"] = {"spec": {"containers": _containers(image)}}
        await self.api.patch(StatefulSet, NAME, {"spec": spec}, NAMESPACE)
        await self.follow()

    async def report(self, pod: Pod, phase: str, *, ready: bool = True, since_s: float = 0) -> None:
        """Sets what the pod's kubelet would. `since_s`: for how long it has been ready, in seconds."""
        since = format_time(self.now() - timedelta(seconds=since_s))
        condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": since}
        status: Json = {"phase": phase}
        if phase == "Running":
            status["conditions"] = [condition]
        await self.api.patch(Pod, pod.name, {"status": status}, NAMESPACE, subresource="status")
        await self.follow()

    async def advance(self) -> None:
        """Takes one pod that is not ready a step further: running, then ready."""
        coming = [each for each in self.pods if not is_ready(each) and not each.deleting]
        if coming:
            pod = self.random.choice(coming)
            await self.report(pod, "Running", ready=pod.status.phase == "Running")

    async def begin_to_end(self, pod: Pod) -> None:
        """The pod is being deleted, and stays so until `end`."""
        await self.hold(pod)
        await self.api.delete(Pod, pod.name, NAMESPACE)
        await self.follow()

    async def hold(self, pod: Pod) -> None:
        """The pod, once deleted, stays until `end`."""
        await self.api.patch(Pod, pod.name, {"metadata": HELD}, NAMESPACE)
        await self.follow()

    async def end(self, pod: Pod) -> None:
        await self.api.patch(Pod, pod.name, {"metadata": {"finalizers": None}}, NAMESPACE)
        await self.follow()

    async def forget(self, pod: Pod) -> None:
        """The pod is deleted, by none of the controllers."""
        await self.api.delete(Pod, pod.name, NAMESPACE)
        await self.follow()

    async def delete_claims_of_gone_pods(self) -> None:
        """What the garbage collector does."""
        uids = {each.uid for each in self.pods}
        for claim in self.claims.values():
            owners = [each for each in claim.metadata.owner_references if each.kind == "Pod"]
            if owners and not any(each.uid in uids for each in owners):
                await self.api.delete(PersistentVolumeClaim, claim.name, NAMESPACE)
                finalizers = {"metadata": {"finalizers": None}}
                if await self.api.find(PersistentVolumeClaim, claim.name, NAMESPACE):
                    await self.api.patch(PersistentVolumeClaim, claim.name, finalizers, NAMESPACE)
        await self.follow()


async def staged(now: Callable[[], datetime], **spec: Any) -> Stage:
    """A stage with a set like that of upstream's tests; `spec`: the fields in which it differs."""
    server = Server.in_memory(now=now, random=Random(1))
    await server.start()
    stage = Stage(server, now)
    await stage.api.create(StatefulSet, body(**spec), NAMESPACE)
    await stage.follow()
    return stage


def body(**spec: Any) -> Json:
    """The set of upstream's tests; `spec`: the fields in which it differs."""
    table = read("statefulset").table("TestStatefulSetAvailability")
    given = cleaned(table.rows[0]["inputSTS"])
    for template in given["spec"]["volumeClaimTemplates"]:
        template["spec"]["accessModes"] = ["ReadWriteOnce"]
    fields = {
        key: each
        for key, each in {**given["spec"], "minReadySeconds": 0, "replicas": 3, **spec}.items()
        if each is not None
    }
    return {"metadata": {"name": NAME}, "spec": fields}


def cleaned(value: Any) -> Any:
    """The fields of upstream's objects, without the kinds that the table notes."""
    if isinstance(value, list):
        return [cleaned(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        key: cleaned(each)
        for key, each in value.items()
        if key != "kind" or "apiVersion" in value or not isinstance(each, str)
    }


def _containers(image: str) -> list[Json]:
    [container] = body()["spec"]["template"]["spec"]["containers"]
    return [{**container, "image": image}]


def images(pods: Iterable[Pod]) -> list[str]:
    """The image of each pod's container."""
    return [pod.spec.containers[0].image for pod in pods]
