"""What the played controller of upstream makes, and when it ends (`simulation/cluster/upstream.py`)."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from tests.conftest import run_in_virtual_time

from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim, Pod, VolumeAttachment
from mooring.simulation.cluster.upstream import Upstream

CLAIM = {"metadata": {"name": "data", "namespace": "default"}, "spec": {"volumeName": "pv"}}
POD = {
    "metadata": {"name": "app-0", "namespace": "default"},
    "spec": {
        "nodeName": "n1",
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    },
}


class Api:
    """The API: one pod, on n1, and its volume. `made`: nodes for which a VolumeAttachment is made. `held`:
    the node that has one, once the workload is wanted again."""

    def __init__(self, held: str, modes: list[str]) -> None:
        spec = {"accessModes": modes, "csi": {"driver": "csi.example.com", "volumeHandle": "h"}}
        volume = msgspec.convert({"metadata": {"name": "pv"}, "spec": spec}, PersistentVolume)
        self._found = {
            PersistentVolume: volume,
            PersistentVolumeClaim: msgspec.convert(CLAIM, PersistentVolumeClaim),
        }
        self._held, self.wanted, self.made = held, 1.0, list[str]()

    async def find(self, kind: Any, *name: str) -> Any:
        return self._found[kind]

    async def list(self, kind: Any, *args: str, **how: str) -> Any:
        if kind is Pod:
            return SimpleNamespace(items=[msgspec.convert(POD, Pod)])
        spec = {"attacher": "a", "nodeName": self._held, "source": {"persistentVolumeName": "pv"}}
        record = msgspec.convert({"metadata": {"name": "va"}, "spec": spec}, VolumeAttachment)
        return SimpleNamespace(items=[record] if self._held and self.wanted else [])

    async def create(self, kind: Any, body: Any) -> None:
        self.made.append(body["spec"]["nodeName"])


async def played(api: Api, starts_after: float | None) -> float:
    """One life of upstream's controller: how long it lasted. Ours is started again `starts_after` it has
    been ended."""
    loop, ours = asyncio.get_running_loop(), SimpleNamespace(life=1)

    def kill() -> None:
        if starts_after is not None:
            loop.call_later(starts_after, setattr, ours, "life", 2)

    async def scale(step: Any) -> None:
        api.wanted = step.value

    ours.kill = kill
    cluster = SimpleNamespace(processes={"attaching": ours}, scenario=SimpleNamespace(heal_s=1e9))
    users: Any = SimpleNamespace(scale=scale, api=api, cluster=cluster)
    await Upstream(users).attach("app", 1.0)
    return loop.time()


@pytest.mark.parametrize(
    ("held", "modes", "made"),
    [
        ("", ["ReadWriteOnce"], ["n1"]),
        ("n1", ["ReadWriteOnce"], ["n1"]),
        ("n0", ["ReadWriteOnce"], []),
        ("n0", ["ReadWriteMany"], ["n1"]),
    ],
)
def test_a_volume_that_cannot_be_shared_gets_no_second_node(held: str, modes: list[str], made: list[str]):
    api = Api(held, modes)
    run_in_virtual_time(played(api, None))
    assert api.made == made


@pytest.mark.parametrize(("starts_after", "lasted"), [(None, 61.0), (4.5, 6.0)])
def test_it_ends_when_ours_is_started_again(starts_after: float | None, lasted: float):
    assert run_in_virtual_time(played(Api("n0", ["ReadWriteOnce"]), starts_after)) == lasted
