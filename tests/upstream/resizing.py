"""Plays the table of upstream's expand controller against what takes its place: the resizer, which has no
plugin here, as upstream's has none, and the binder, which names the resizer of another.

Compared is whether the storage is asked, whether there is an error, and which resizer is named.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any

from tests.upstream.tables import Json, name_of, read

from mooring.apiserver import Server
from mooring.controllers.binding.controller import RESIZER, BindingController
from mooring.controllers.expansion.controller import ExpansionController
from mooring.kube.client import Client
from mooring.kube.errors import KubeError
from mooring.kube.keys import ClaimKey
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim
from mooring.simulation.parts.faulty_transport import admin
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.matching import BIND_COMPLETED
from mooring.volumes.plugin_manager import PluginManager

NAMESPACE = "default"
BOUND = {BIND_COMPLETED: "yes"}
OF_BOTH = {"accessModes": ["ReadWriteOnce"], "storageClassName": ""}


async def cases(now: Callable[[], datetime]) -> dict[str, list[str]]:
    """Each case of the expand controller → its differences."""
    [table] = read("expand").tables
    return {
        f"{table.test}: {number + 1} - {name_of(row)}": await _play(row, now)
        for number, row in enumerate(table.rows)
    }


async def _play(row: Json, now: Callable[[], datetime]) -> list[str]:
    server = Server.in_memory(now=now, random=Random(1))
    await server.start()
    api = Client(admin(server))
    plugins = PluginManager([], ControllerVolumeHost(now))
    resizer: Any = ExpansionController(api, plugins, now=now, random=Random(1))
    binder: Any = BindingController(api, now=now, random=Random(1))
    claim = await _claim(api, row["pvc"])
    volumes = [await _volume(api, row["pv"], claim)] if "pv" in row else []
    failed = False
    for controller, key in ((binder, ClaimKey(row["pvcKey"])), (resizer, row["pvcKey"])):
        controller.cache(PersistentVolumeClaim).accept(claim)
        for volume in volumes:
            controller.cache(PersistentVolume).accept(volume)
        try:
            await controller.reconcile(key)
        except KubeError:
            failed = True
    lines = [] if failed == row.get("hasError", False) else [f"there is {'an' if failed else 'no'} error"]
    live = await api.get(PersistentVolumeClaim, claim.name, NAMESPACE)
    asked = bool(live.status.allocated_resource_statuses)
    if asked != row.get("expansionCalled", False):
        lines.append(f"the storage is {'' if asked else 'not '}asked")
    named, wanted = live.metadata.annotations.get(RESIZER), (row.get("expectedAnnotation") or {}).get(RESIZER)
    return lines if named == wanted else [*lines, f"{named} is named as the resizer, not {wanted}"]


async def _claim(api: Client, given: Json) -> PersistentVolumeClaim:
    metadata = {"name": given["metadata"]["name"], "annotations": BOUND}
    body = {"metadata": metadata, "spec": {**OF_BOTH, **given["spec"]}}
    made = await api.create(PersistentVolumeClaim, body, NAMESPACE)
    status = {"status": {"phase": "Bound", **given["status"]}}
    return await api.patch(PersistentVolumeClaim, made.name, status, NAMESPACE, subresource="status")


async def _volume(api: Client, given: Json, claim: PersistentVolumeClaim) -> PersistentVolume:
    """The case's volume, of this claim: upstream's reference to it has no name."""
    reference = {"namespace": NAMESPACE, "name": claim.name, "uid": claim.uid}
    spec = {**OF_BOTH, **given["spec"], "claimRef": reference}
    metadata = {key: given["metadata"][key] for key in ("name", "annotations") if key in given["metadata"]}
    return await api.create(PersistentVolume, {"metadata": metadata, "spec": spec})
