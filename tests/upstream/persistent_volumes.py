"""Plays the tables of upstream's persistent volume controller against our binder and provisioner.

A case is played on the in-process API server: its objects are created there, the caches are filled from it,
and the keys that upstream's case synchronizes are reconciled once; a case of a "multi" test, until nothing
changes any more. What the server then has is compared with what the case expects.

Four things are taken as equal that differ by construction:
- uids, which the server makes, and the provisioner's name (`kubernetes.io/` is reserved): they are
  translated;
- the source of a volume, which is the played plugin's, or a CSI driver's;
- the finalizer of a made volume, which has another name for plugins (`mooring.dev/provisioned`);
- the phase of a volume that the case itself provisions: an API server drops a status at creation, so that the
  next sync sets it. Upstream's fake server keeps it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import datetime
from random import Random
from typing import Any, cast

import msgspec
from tests.upstream.cases import Case, calls
from tests.upstream.comparison import claim_of, differences, event_of, named, volume_of
from tests.upstream.mock_plugin import MOCK
from tests.upstream.tables import Json

from mooring.apiserver import Server
from mooring.controllers.binding.controller import BindingController
from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.errors import KubeError
from mooring.kube.keys import ClaimKey, VolumeKey
from mooring.kube.objects import Event, Node, PersistentVolume, PersistentVolumeClaim, Pod, StorageClass
from mooring.kube.transport import Request, Response, Transport
from mooring.simulation.parts.faulty_transport import admin
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import PluginManager

NAMESPACE = "default"
NAMES = (
    ("kubernetes.io/mock-volume", MOCK),
    ("kubernetes.io/pv-controller", "mooring.dev/provisioned"),
)
"""Names of upstream's, and what stands for them here."""
CSI_SOURCE = {"driver": "csi.example.com", "volumeHandle": "handle"}
ROUNDS = 30
"""A case of a multi test that has not settled after so many rounds fails."""


class _Failing:
    """A transport on which the requests that a case names fail first, each once."""

    def __init__(self, inner: Transport, failures: list[Json]) -> None:
        self._inner, self._failures = inner, list(failures)

    async def send(self, request: Request) -> Response:
        for each in self._failures:
            if request.method == "POST" and each["Verb"] == "create" and each["Resource"] in request.path:
                self._failures.remove(each)
                status = {
                    "kind": "Status",
                    "reason": "InternalError",
                    "message": str(each["Error"]),
                    "code": 500,
                }
                return Response(500, {}, json.dumps(status).encode())
        return await self._inner.send(request)

    async def close(self) -> None:
        await self._inner.close()


class Play:
    """One case on its own server."""

    def __init__(self, case: Case, now: Callable[[], datetime]) -> None:
        self.case = case
        self.server = Server.in_memory(now=now, random=Random(1))
        self.api = Client(admin(self.server))
        self.call, plugin, self.injected = calls(case.row)
        client = Client(_Failing(admin(self.server), case.row.get("errors", [])))
        plugins = PluginManager([plugin] if plugin else [], ControllerVolumeHost(now))
        self.binding = BindingController(client, now=now, random=Random(1))
        self.provisioning = ProvisioningController(client, plugins, now=now, random=Random(1))
        self.uids: dict[str, str] = {}
        """Upstream's uid → the server's."""
        self.before: set[str] = set()
        self.stale: list[PersistentVolumeClaim] = []
        """What the caches have instead of what is on the server."""

    async def outcome(self) -> Json:
        """Plays the case and returns what the server has then."""
        await self.server.start()
        await self._put()
        number = self.case.key.partition(" - ")[0]
        inject, custom = INJECTED.get(number), CUSTOM.get(number)
        if custom is not None:
            await custom(self)
        if self.case.multi:
            await self.settle(inject)
        else:
            await self._sync(inject)
        for controller in (self.binding, self.provisioning):
            writing = asyncio.create_task(controller.recorder.run())
            await controller.recorder.flush()
            writing.cancel()
        return await self.state()

    async def _put(self) -> None:
        row = self.case.row
        for claim in row.get("initialClaims", []):
            if "" in claim["metadata"].get("annotations", {}):  # upstream's: in the cache only
                self.stale.append(msgspec.convert(named(claim), PersistentVolumeClaim))
            else:
                await self.put_claim(claim)
        for volume in row.get("initialVolumes", []):
            await self.put_volume(volume)
        for storage_class in self.case.classes:
            body = _storage_class(self.translated(storage_class))
            await self.api.create(StorageClass, body)
        for pod in self.case.pods:
            await self.put_pod(pod)
        self.before = {each["metadata"]["name"] for each in await self.raw(PersistentVolume)}

    async def _sync(self, inject: Inject | None) -> None:
        """Upstream's single call: what it decides itself, and the operation that it starts."""
        row = self.case.row
        key: ClaimKey | VolumeKey
        if self.call.get("function") in ("testSyncClaim", "testSyncClaimError"):
            key = ClaimKey(f"{NAMESPACE}/{row['initialClaims'][0]['metadata']['name']}")
        else:
            key = VolumeKey(row["initialVolumes"][0]["metadata"]["name"])
        await self._reconcile(self.binding, key)
        if inject is not None:
            await inject(self)
        for _ in range(1 + len(row.get("errors", []))):
            await self._reconcile(self.provisioning, key)
        if isinstance(key, VolumeKey):  # the binder sees what the provisioner wrote
            await self._reconcile(self.binding, key)

    async def settle(self, inject: Inject | None = None) -> None:
        """Reconciles everything until nothing changes any more."""
        last: object = None
        for _ in range(ROUNDS):
            for controller in (self.binding, self.provisioning):
                for claim in await self.raw(PersistentVolumeClaim):
                    await self._reconcile(controller, ClaimKey(f"{NAMESPACE}/{claim['metadata']['name']}"))
                for volume in await self.raw(PersistentVolume):
                    await self._reconcile(controller, VolumeKey(volume["metadata"]["name"]))
                if inject is not None:
                    await inject(self)
                    inject = None
            now = await self.state()
            if now == last:
                return
            last = now
        raise AssertionError(f"{self.case.key}: not settled after {ROUNDS} rounds")

    async def _reconcile(self, controller: Controller[Any], key: ClaimKey | VolumeKey) -> None:
        await self._fill(controller)
        try:
            await controller.reconcile(key)
        except KubeError:
            pass  # it would be tried again after its backoff
        except Exception as error:
            if type(error).__module__.startswith("mooring.") or type(error).__name__ == "MockError":
                return
            raise

    async def _fill(self, controller: Controller[Any]) -> None:
        """Brings a controller's caches up to date, as its watches would."""
        for cache in controller.caches:
            found = {each.key: each for each in (await self.api.list(cache.kind)).items}
            found |= {each.key: each for each in self.stale if cache.kind is PersistentVolumeClaim}
            version = await self.api.version(cache.kind)
            cache._replace(found, version)  # pyright: ignore[reportPrivateUsage]

    # --- objects

    async def put_claim(self, claim: Json) -> None:
        """Creates a claim with its status."""
        body = self.translated(claim)
        metadata = body["metadata"]
        status = body.pop("status", {})
        made = await self.api.create(PersistentVolumeClaim, _created(body), NAMESPACE)
        if "uid" in claim["metadata"]:
            self.uids[claim["metadata"]["uid"]] = made.uid
        if status:
            name = metadata["name"]
            await self.api.patch(
                PersistentVolumeClaim, name, {"status": status}, NAMESPACE, subresource="status"
            )

    async def put_volume(self, volume: Json) -> None:
        """Creates a volume with its status and the played plugin's source."""
        body = self.translated(volume)
        status, deleting = body.pop("status", {}), body["metadata"].get("deletionTimestamp")
        spec = body["spec"]
        if "gcePersistentDisk" in spec:
            del spec["gcePersistentDisk"]
            made_by_csi = "volumeAttributesClassName" in spec  # else an API server refuses the field
            spec |= {"csi": CSI_SOURCE} if made_by_csi else {"flexVolume": {"driver": MOCK}}
        name = body["metadata"]["name"]
        await self.api.create(PersistentVolume, _created(body))
        if status:
            await self.api.patch(PersistentVolume, name, {"status": status}, subresource="status")
        if deleting:
            await self.api.delete(PersistentVolume, name)

    async def put_pod(self, pod: Json) -> None:
        """Creates a pod with its phase."""
        body = self.translated(pod)
        status = body.pop("status", {})
        body["spec"].setdefault("containers", [{"name": "c", "image": "i"}])
        body["spec"].setdefault("nodeName", "node") if status.get("phase") == "Running" else None
        await self.api.create(Pod, _created(body), NAMESPACE)
        if status:
            name = body["metadata"]["name"]
            await self.api.patch(Pod, name, {"status": status}, NAMESPACE, subresource="status")

    def translated(self, value: Json) -> Json:
        """Upstream's uids and names as they are here."""
        text = json.dumps(value)
        for theirs, ours in (*NAMES, *self.uids.items()):
            text = text.replace(f'"{theirs}"', f'"{ours}"').replace(f'"pvc-{theirs}"', f'"pvc-{ours}"')
        return cast("Json", named(json.loads(text)))

    async def raw(self, kind: type[Any]) -> list[Json]:
        """All objects of a kind, as the server has them."""
        path = f"/api/v1/{kind.RESOURCE.plural}"
        answer = await admin(self.server).send(Request("GET", path))
        return cast("list[Json]", json.loads(answer.body)["items"])

    # --- what is compared

    async def state(self) -> Json:
        """What is on the server, as `expected` has it."""
        state = {
            "volumes": {each["metadata"]["name"]: each for each in await self.raw(PersistentVolume)},
            "claims": {each["metadata"]["name"]: each for each in await self.raw(PersistentVolumeClaim)},
        }
        new = set(state["volumes"]) - self.before
        state["provisioned"] = {name: {} for name in new}
        found = cast("Json", json.loads(self._theirs(json.dumps(state))))
        events = (await self.api.list(Event)).items
        return {
            "volumes": {
                name: volume_of(each, name in found["provisioned"]) for name, each in found["volumes"].items()
            },
            "claims": {name: claim_of(each) for name, each in found["claims"].items()},
            "events": sorted({f"{each.type} {each.reason}" for each in events}),
        }

    def _theirs(self, text: str) -> str:
        for theirs, ours in self.uids.items():
            text = text.replace(ours, theirs)
        return text

    def expected(self) -> Json:
        """What the case expects, in the form of `state`."""
        row = self.case.row
        text = json.dumps({name: row.get(name, []) for name in ("expectedVolumes", "expectedClaims")})
        for theirs, ours in NAMES:
            text = text.replace(theirs, ours)
        found = named(json.loads(text))
        before = {self._theirs(name) for name in self.before}
        names = {each["metadata"]["name"] for each in found["expectedVolumes"]} - before
        return {
            "volumes": {
                each["metadata"]["name"]: volume_of(each, each["metadata"]["name"] in names)
                for each in found["expectedVolumes"]
            },
            "claims": {each["metadata"]["name"]: claim_of(each) for each in found["expectedClaims"]},
            "events": sorted({event_of(each) for each in row.get("expectedEvents", [])}),
        }


def _created(body: Json) -> Json:
    metadata = {
        name: each
        for name, each in body["metadata"].items()
        if name in ("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences")
    }
    for unreal in ("", "pv-testing-skip-local-store"):  # upstream's: not in the cache
        metadata.get("annotations", {}).pop(unreal, None)
    return {**body, "metadata": metadata}


def _storage_class(body: Json) -> Json:
    return {"provisioner": "kubernetes.io/no-provisioner", **_created(body)}


# --- what upstream's cases do in Go

Inject = Callable[[Play], Awaitable[None]]


async def _delete_volume(play: Play) -> None:
    name = play.case.row["initialVolumes"][0]["metadata"]["name"]
    await play.api.delete(PersistentVolume, name)
    await play.api.patch(PersistentVolume, name, {"metadata": {"finalizers": None}})


async def _mark_available(play: Play) -> None:
    name = play.case.row["initialVolumes"][0]["metadata"]["name"]
    free = {
        "spec": {"claimRef": None},
        "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": None}},
    }
    await play.api.patch(PersistentVolume, name, free)
    await play.api.patch(PersistentVolume, name, {"status": {"phase": "Available"}}, subresource="status")


async def _volume_appears(play: Play) -> None:
    """Another controller has made the volume of the claim, as the case expects it."""
    claim = next(iter(play.case.row["initialClaims"]))
    body = {
        "metadata": {"name": f"pvc-{claim['metadata']['uid']}", "annotations": {}},
        "spec": {
            "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "capacity": {"storage": "1Gi"},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": claim["spec"]["storageClassName"],
            "gcePersistentDisk": {},
        },
        "status": {"phase": "Available"},
    }
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": NAMESPACE}
    reference |= {each: claim["metadata"][each] for each in ("name", "uid")}
    if "12-2" not in play.case.key:
        body["spec"]["claimRef"], body["status"] = reference, {"phase": "Bound"}
        body["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] = "yes"
    if "11-7" in play.case.key:
        body["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] = MOCK
        body["spec"]["persistentVolumeReclaimPolicy"] = "Delete"
    await play.put_volume(body)
    play.before.add(play.translated(body)["metadata"]["name"])


async def _node_appears(play: Play) -> None:
    await play.api.create(Node, {"metadata": {"name": "node1"}})


INJECTED: dict[str, Inject] = {
    "TestDeleteSync: 8-6": _delete_volume,
    "TestProvisionSync: 11-7": _volume_appears,
    "TestProvisionSync: 11-23": _node_appears,
    "TestProvisionMultiSync: 12-2": _volume_appears,
    "TestProvisionMultiSync: 12-4": _volume_appears,
    "TestRecycleSync: 6-6": _delete_volume,
    "TestRecycleSync: 6-7": _mark_available,
    "TestRecycleSync: 6-8": _mark_available,
}
"""What happens before the operation starts, by the case's test and number."""


async def _create_claim(play: Play) -> None:
    await play.put_claim({
        "metadata": {"name": "claim5-2", "uid": "uid5-2"},
        "spec": {"accessModes": ["ReadWriteOnce", "ReadOnlyMany"], "resources": {"requests": {"storage": "1Gi"}}},
    })  # fmt: skip


async def _delete_claim(play: Play) -> None:
    name = play.case.row["initialClaims"][0]["metadata"]["name"]
    await play.api.delete(PersistentVolumeClaim, name, NAMESPACE)
    if any(each["metadata"]["name"] == name for each in await play.raw(PersistentVolumeClaim)):
        await play.api.patch(PersistentVolumeClaim, name, {"metadata": {"finalizers": None}}, NAMESPACE)


async def _delete_claim_then_volume(play: Play) -> None:
    await _delete_claim(play)
    await play.settle()
    await _delete_volume(play)


async def _delete_volume_then_claim(play: Play) -> None:
    await _delete_volume(play)
    await play.settle()
    await _delete_claim(play)


async def _settle_then_delete_claim(play: Play) -> None:
    await play.settle()
    await _delete_claim(play)


CUSTOM: dict[str, Inject] = {
    "TestControllerSync: 5-2": _create_claim,
    "TestControllerSync: 5-3": _delete_claim,
    "TestControllerSync: 5-4": _delete_volume,
    "TestControllerSync: 5-5": _delete_claim_then_volume,
    "TestControllerSync: 5-6": _delete_claim,
    "TestControllerSync: 5-7": _delete_volume_then_claim,
    "TestControllerSync: 5-8": _settle_then_delete_claim,
}
"""What a case of upstream does by a function of its own, before everything settles."""


async def play(case: Case, now: Callable[[], datetime]) -> list[str]:
    """Plays a case and returns the differences."""
    played = Play(case, now)
    found = await played.outcome()
    return differences(played.expected(), found)
