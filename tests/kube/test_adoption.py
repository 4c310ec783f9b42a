"""Who owns an object that a selector matches, or does not match any more."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from mooring.apiserver import Server
from mooring.kube.adoption import Action, Adopter, decide
from mooring.kube.client import Client
from mooring.kube.errors import Conflict
from mooring.kube.informer import Informer
from mooring.kube.objects import ConfigMap, ObjectMeta, OwnerReference, Pod
from mooring.kube.selectors import LabelSelector, Requirement
from mooring.simulation.parts.faulty_transport import faulty_client

OURS = OwnerReference(kind="ConfigMap", name="o", uid="o", controller=True)
OTHERS = OwnerReference(kind="ConfigMap", name="x", uid="x", controller=True)
SELECTOR = LabelSelector((Requirement("app", "In", ("web",)),))


def owner(*, deleting: bool = False) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name="o", uid="o", deletion_timestamp="t" if deleting else None))


def pod(reference: OwnerReference | None, *, deleting: bool = False) -> Pod:
    references = (reference,) if reference is not None else ()
    deleted = "t" if deleting else None
    return Pod(
        metadata=ObjectMeta(name="p", uid="p", owner_references=references, deletion_timestamp=deleted)
    )


@pytest.mark.parametrize(
    ("reference", "matches", "owner_ends", "pod_ends", "expected"),
    [
        (OURS, True, False, False, Action.KEEP),
        (OURS, True, True, True, Action.KEEP),
        (OURS, False, False, False, Action.RELEASE),
        (OURS, False, True, False, Action.LEAVE),
        (OTHERS, True, False, False, Action.LEAVE),
        (OTHERS, False, False, False, Action.LEAVE),
        (None, True, False, False, Action.ADOPT),
        (None, True, True, False, Action.LEAVE),
        (None, True, False, True, Action.LEAVE),
        (None, False, False, False, Action.LEAVE),
    ],
)
def test_what_becomes_of_an_object(reference, matches, owner_ends, pod_ends, expected):
    found = decide(owner(deleting=owner_ends), matches, pod(reference, deleting=pod_ends))
    assert found.action is expected


class Adopting:
    """A server with an owner, and an adopter whose cache a test fills."""

    def __init__(self, server: Server) -> None:
        self.client: Client
        self.client, self.wire = faulty_client(server)
        self.cache = Informer(self.client, Pod, random=Random(1))
        self.adopter = Adopter(self.client, self.cache)

    async def pod(self, name: str, app: str, *owners: dict[str, Any]) -> Pod:
        metadata = {"name": name, "labels": {"app": app}, "ownerReferences": list(owners)}
        spec = {"containers": [{"name": "c", "image": "i"}]}
        return await self.client.create(Pod, {"metadata": metadata, "spec": spec}, "default")

    async def owner(self) -> ConfigMap:
        return await self.client.create(ConfigMap, {"metadata": {"name": "o"}}, "default")

    async def owners(self, name: str) -> list[str]:
        found = await self.client.get(Pod, name, "default")
        return [each.name for each in found.metadata.owner_references]


@pytest.fixture
def play(run, now):
    def play_scene(scene):
        async def whole():
            guard = asyncio.create_task(asyncio.sleep(1e6))
            server = Server.in_memory(now=now, random=Random(1))
            await server.start()
            await scene(Adopting(server))
            assert not guard.done()

        run(whole())

    return play_scene


def test_an_orphan_is_adopted_and_keeps_its_other_owners(play):
    async def scene(stage: Adopting):
        owner = await stage.owner()
        other = {"apiVersion": "v1", "kind": "ConfigMap", "name": "friend", "uid": "f"}
        orphan, stranger = await stage.pod("p", "web", other), await stage.pod("q", "db")
        found = await stage.adopter.settle(owner, SELECTOR, [orphan, stranger])
        assert [each.name for each in found] == ["p"]
        assert await stage.owners("p") == ["friend", "o"]
        assert await stage.owners("q") == []
        assert stage.cache.get("default/p") == found[0]

    play(scene)


def test_what_does_not_match_any_more_is_released(play):
    async def scene(stage: Adopting):
        owner = await stage.owner()
        [adopted] = await stage.adopter.settle(owner, SELECTOR, [await stage.pod("p", "web")])
        relabelled = await stage.client.revise(adopted, {"metadata": {"labels": {"app": "debug"}}})
        assert await stage.adopter.settle(owner, SELECTOR, [relabelled]) == []
        assert await stage.owners("p") == []

    play(scene)


def test_another_owner_of_that_name_is_not_given_the_old_ones_pods(play):
    async def scene(stage: Adopting):
        gone = await stage.owner()
        await stage.client.delete(ConfigMap, "o", "default")
        await stage.owner()
        orphan = await stage.pod("p", "web")
        with pytest.raises(Conflict, match="another one has its name"):
            await stage.adopter.settle(gone, SELECTOR, [orphan])
        assert await stage.owners("p") == []

    play(scene)


def test_the_owners_finalizer_comes_and_goes_with_the_reference(play):
    async def scene(stage: Adopting):
        owner = await stage.owner()
        adopter = Adopter(stage.client, stage.cache, "example.com/tracking")
        [adopted] = await adopter.settle(owner, SELECTOR, [await stage.pod("p", "web")])
        assert adopted.metadata.finalizers == ("example.com/tracking",)
        relabelled = await stage.client.revise(adopted, {"metadata": {"labels": {"app": "debug"}}})
        await adopter.settle(owner, SELECTOR, [relabelled])
        assert (await stage.client.get(Pod, "p", "default")).metadata.finalizers == ()

    play(scene)
