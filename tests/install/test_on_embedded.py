"""`mooring uninstall` where `mooring up` runs: its marks are of controllers that are at work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any

import pytest
from virtual_server import started

from mooring.install.components import Settings, objects
from mooring.install.resources import RESOURCES
from mooring.install.uninstall import Refused, read, uninstall
from mooring.kube.client import Client
from mooring.kube.objects import Lease, PersistentVolume
from mooring.kube.objects.fencing import FencePolicy
from mooring.kube.transport import InProcess

MARK = {"mooring.dev/attached-to": "{}"}
VOLUME = {
    "metadata": {"name": "pv", "annotations": MARK},
    "spec": {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "example.com", "volumeHandle": "pv"},
    },
}


@pytest.fixture
def play(run: Callable[[Any], Any], now: Callable[[], datetime]) -> Callable[[Any], None]:
    def story(work: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        async def on_server() -> None:
            server = await started(now)
            await work(Client(InProcess(server.call, server.tokens.admin())))

        run(on_server())

    return story


def test_its_marks_are_not_taken_off(play: Callable[[Any], None]):
    async def work(client: Client) -> None:
        await client.create(PersistentVolume, VOLUME)
        with pytest.raises(Refused, match="mooring up"):
            await uninstall(client, lambda line: None)
        assert (await client.get(PersistentVolume, "pv")).metadata.annotations == MARK

    play(work)


def test_they_are_once_a_person_says_that_nothing_runs(play: Callable[[Any], None]):
    async def work(client: Client) -> None:
        await client.create(PersistentVolume, VOLUME)
        said: list[str] = []
        await uninstall(client, said.append, nothing_runs=True)
        assert said == ["persistentvolumes/pv: our marks are off"]
        assert (await read(client)).objects[0].metadata.annotations == {}

    play(work)


def test_none_is_while_a_controller_may_work_whose_renewal_is_late(play: Callable[[Any], None]):
    async def work(client: Client) -> None:
        await client.create(PersistentVolume, VOLUME)
        spec = {"holderIdentity": "elsewhere", "leaseDurationSeconds": 15}
        body = {"metadata": {"name": "mooring-attachdetach"}, "spec": spec}
        lease = await client.create(Lease, body, "kube-system")
        ending = asyncio.create_task(uninstall(client, lambda line: None, nothing_runs=True))
        await asyncio.sleep(9)
        await client.revise(lease, {"spec": {"renewTime": "2030-01-01T00:00:09.000000Z"}})
        with pytest.raises(Refused, match="is renewed by elsewhere"):
            await ending
        assert (await client.get(PersistentVolume, "pv")).metadata.annotations == MARK

    play(work)


def test_they_are_once_the_lease_of_a_controller_that_was_killed_is_over(play: Callable[[Any], None]):
    async def work(client: Client) -> None:
        await client.create(PersistentVolume, VOLUME)
        body = {"metadata": {"name": "mooring-attachdetach"}, "spec": {"holderIdentity": "killed"}}
        await client.create(Lease, body, "kube-system")
        await uninstall(client, lambda line: None, nothing_runs=True)
        assert (await read(client)).objects[0].metadata.annotations == {}
        assert (await client.list(Lease)).items == []

    play(work)


DEFINITION = RESOURCES["CustomResourceDefinition"]
POLICY = {
    "metadata": {"name": "zone-a", "finalizers": ["example.com/audit"]},
    "spec": {"ladder": [{"mechanism": "bmc"}]},
}


async def with_kinds(client: Client) -> None:
    for each in objects(["fencing"], Settings("x:1")):
        if each["kind"] == DEFINITION.kind:
            await client.request("POST", DEFINITION.path(), body=each)


def test_the_kinds_are_gone_when_it_ends(play: Callable[[Any], None]):
    """The API server ends a kind some time after its deletion, and takes it anew only then."""

    async def work(client: Client) -> None:
        await with_kinds(client)
        await uninstall(client, lambda line: None)
        await with_kinds(client)

    play(work)


def test_a_kind_that_does_not_end_is_named_with_what_holds_it(play: Callable[[Any], None]):
    async def work(client: Client) -> None:
        await with_kinds(client)
        await client.create(FencePolicy, POLICY)
        with pytest.raises(Refused, match=r"fencepolicies\.fencing\.mooring\.dev has not ended"):
            await uninstall(client, lambda line: None)

    play(work)
