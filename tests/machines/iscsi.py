"""iSCSI volumes of tests on machines: a real server of tgt, and claims of its LUNs."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from tests.machines.machines import inside

from mooring.cluster import control
from mooring.cluster.layout import ClusterError
from mooring.cluster.stage import Stage
from mooring.cluster.storage import programs
from mooring.cluster.storage.record import Kind
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim

ONE, TWO = "node-1", "node-2"


def need_iscsi() -> None:
    """Skips where the host lacks a program, and says which."""
    try:
        programs.check(Kind.ISCSI)
    except ClusterError as error:
        pytest.skip(str(error))
    if shutil.which("iscsiadm", path="/usr/sbin:/sbin") is None:
        pytest.skip("needs iscsiadm: apt-get install open-iscsi")


async def server_of(stage: Stage) -> dict[str, Any]:
    """A server of two LUNs; both machines can log in."""
    status, answer = await stage.command("storage", "iscsi", "disks", "--size", "64Mi", "--disks", "2")
    assert status == 0, answer
    (server,) = json.loads(await control.say(stage.layout.control, "storage-list", ""))
    for node in (ONE, TWO):
        await inside(stage, server["commands"]["prepare"], node)
    return server


async def volume(
    stage: Stage,
    name: str,
    server: dict[str, Any],
    lun: int,
    *,
    affinity: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    **fields: Any,
) -> None:
    """A PersistentVolume, and the claim of that name that has it. `affinity`: which nodes reach it."""
    source = {
        "targetPortal": server["address"],
        "iqn": server["target"],
        "lun": lun,
        **fields.pop("iscsi", {}),
    }
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", **fields}
    reached = {"nodeAffinity": affinity} if affinity is not None else {}
    pv_spec = {**spec, **reached, "capacity": {"storage": "64Mi"}, "iscsi": source}
    metadata = {"name": name, "annotations": annotations or {}}
    await stage.client.create(PersistentVolume, {"metadata": metadata, "spec": pv_spec})
    claim = {**spec, "volumeName": name, "resources": {"requests": {"storage": "64Mi"}}}
    await stage.client.create(PersistentVolumeClaim, {"metadata": {"name": name}, "spec": claim}, "default")
