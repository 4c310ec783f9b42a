"""Garbage collection and namespace deletion against the embedded server, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
from controller_stage import ControllerStage, Play, refuse_deletions
from virtual_server import started
from waiting import until

from mooring.controllers.cleanup.controller import CleanupController, Collector, ItemKey
from mooring.controllers.cleanup.kinds import discover
from mooring.kube.client import Client
from mooring.kube.errors import Forbidden, ServerError
from mooring.kube.keys import NamespaceKey
from mooring.kube.metrics import REGISTRY
from mooring.kube.objects import ConfigMap, Namespace, Node, Pod, Secret

Story = Callable[[Client], Awaitable[None]]


@pytest.fixture
def play(play: Play) -> Play:
    async def with_controller(stage: ControllerStage, story: Story) -> None:
        controller = asyncio.create_task(stage.make(CleanupController).run())
        try:
            await story(stage.api)
        finally:
            controller.cancel()

    return lambda story: play(partial(with_controller, story=story))


def gone(api: Client, kind: Any, name: str, namespace: str = "default") -> Callable[[], Awaitable[bool]]:
    async def look() -> bool:
        return await api.find(kind, name, namespace) is None

    return look


async def owner_and_dependent(api: Client, *, blocking: bool = False) -> ConfigMap:
    owner = await api.create(ConfigMap, {"metadata": {"name": "owner"}}, "default")
    await api.create(
        Secret, {"metadata": {"name": "owned", "ownerReferences": [names(owner, blocking)]}}, "default"
    )
    return owner


def names(owner: ConfigMap, blocking: bool = False) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner.name,
        "uid": owner.uid,
        "blockOwnerDeletion": blocking,
    }


def test_what_an_object_owns_goes_after_it(play: Play) -> None:
    """Waits until the Secret is gone."""

    async def story(api: Client) -> None:
        await owner_and_dependent(api)
        await api.delete(ConfigMap, "owner", "default")
        await until(gone(api, Secret, "owned"))

    play(story)


def test_what_names_a_former_owner_of_the_same_name_goes(play: Play) -> None:
    """Waits until the Secret is gone: its owner's uid is another one than that of the present ConfigMap."""

    async def story(api: Client) -> None:
        former = await api.create(ConfigMap, {"metadata": {"name": "owner"}}, "default")
        await api.delete(ConfigMap, "owner", "default")
        await api.create(ConfigMap, {"metadata": {"name": "owner"}}, "default")
        await api.create(
            Secret, {"metadata": {"name": "owned", "ownerReferences": [names(former)]}}, "default"
        )
        await until(gone(api, Secret, "owned"))

    play(story)


def test_an_owned_object_stays_while_its_owner_does(play: Play) -> None:
    async def story(api: Client) -> None:
        await owner_and_dependent(api)
        await asyncio.sleep(60)
        assert await api.find(Secret, "owned", "default")

    play(story)


def test_an_owner_of_a_kind_that_is_not_served_is_left_in_doubt(play: Play) -> None:
    async def story(api: Client) -> None:
        reference = {"apiVersion": "example.com/v1", "kind": "Nothing", "name": "n", "uid": "u"}
        await api.create(Secret, {"metadata": {"name": "owned", "ownerReferences": [reference]}}, "default")
        await asyncio.sleep(60)
        assert await api.find(Secret, "owned", "default")

    play(story)


def test_a_foreground_deletion_ends_after_its_dependents(play: Play) -> None:
    async def story(api: Client) -> None:
        await owner_and_dependent(api, blocking=True)
        await api.patch(Secret, "owned", {"metadata": {"finalizers": ["example.com/hold"]}}, "default")
        await api.delete(ConfigMap, "owner", "default", propagation_policy="Foreground")
        await until(being_deleted(api))
        assert await api.find(ConfigMap, "owner", "default")
        await api.patch(Secret, "owned", {"metadata": {"finalizers": None}}, "default")
        await until(gone(api, ConfigMap, "owner"))

    def being_deleted(api: Client) -> Callable[[], Awaitable[bool]]:
        async def look() -> bool:
            return (await api.get(Secret, "owned", "default")).deleting

        return look

    play(story)


def test_an_orphaning_deletion_leaves_dependents_without_owner(play: Play) -> None:
    async def story(api: Client) -> None:
        await owner_and_dependent(api)
        await api.delete(ConfigMap, "owner", "default", propagation_policy="Orphan")
        await until(gone(api, ConfigMap, "owner"))
        await asyncio.sleep(10)
        assert (await api.get(Secret, "owned", "default")).metadata.owner_references == ()

    play(story)


def test_a_namespace_goes_with_everything_in_it(play: Play) -> None:
    async def story(api: Client) -> None:
        await api.create(Namespace, {"metadata": {"name": "team"}})
        await api.create(ConfigMap, {"metadata": {"name": "m"}}, "team")
        await api.create(Secret, {"metadata": {"name": "s", "finalizers": ["example.com/hold"]}}, "team")
        await api.delete(Namespace, "team")
        await until(gone(api, ConfigMap, "m", "team"))
        await asyncio.sleep(5)
        assert (await api.get(Namespace, "team")).deleting
        await api.patch(Secret, "s", {"metadata": {"finalizers": None}}, "team")
        await until(gone(api, Namespace, "team", ""))
        assert await api.find(Namespace, "default")

    play(story)


def said_by(namespace: Namespace) -> dict[str, tuple[str, str]]:
    return {each.type: (each.status, each.message) for each in namespace.status.conditions}


def test_a_namespace_says_what_it_still_holds_and_for_which_node_it_waits(play: Play) -> None:
    async def ready(api: Client, status: str) -> None:
        condition = {"type": "Ready", "status": status}
        await api.patch(Node, "n", {"status": {"conditions": [condition]}}, subresource="status")

    async def story(api: Client) -> None:
        await api.create(Node, {"metadata": {"name": "n"}})
        await ready(api, "Unknown")
        await api.create(Namespace, {"metadata": {"name": "team"}})
        spec = {"nodeName": "n", "containers": [{"name": "main", "image": "shell"}]}
        await api.create(Pod, {"metadata": {"name": "web-0"}, "spec": spec}, "team")
        await api.create(Secret, {"metadata": {"name": "s", "finalizers": ["example.com/hold"]}}, "team")
        await api.delete(Namespace, "team")
        await asyncio.sleep(20)
        said = await api.get(Namespace, "team")
        assert said_by(said) == {
            "NamespaceContentRemaining": (
                "True",
                "Some resources are remaining: pods. has 1 resource instances, secrets. has 1 resource instances",
            ),
            "NamespaceFinalizersRemaining": (
                "True",
                "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances",
            ),
            "mooring.dev/WaitsForNodes": (
                "True",
                "Nodes do not answer, and only they can say that processes have ended: pods web-0 on node n. "
                "`mooring why node/NAME` says what can be done",
            ),
        }
        await asyncio.sleep(200)
        later = await api.get(Namespace, "team")
        assert later.metadata.resource_version == said.metadata.resource_version, (
            "it is written when it changes"
        )

        await ready(api, "True")
        await api.patch(Secret, "s", {"metadata": {"finalizers": None}}, "team")
        await until(gone(api, Secret, "s", "team"))
        await asyncio.sleep(200)
        said = await api.get(Namespace, "team")
        assert {kind: status for kind, (status, _) in said_by(said).items()} == {
            "NamespaceContentRemaining": "True",
            "NamespaceFinalizersRemaining": "False",
            "mooring.dev/WaitsForNodes": "False",
        }
        await api.delete(Pod, "web-0", "team", grace_period_seconds=0)
        await until(gone(api, Namespace, "team", ""))

    play(story)


def test_what_may_not_be_deleted_in_a_namespace_keeps_nothing_else_there(play: Play) -> None:
    """A webhook protects it; and of another kind not even a list is to be had. Both are said to be left."""

    async def story(api: Client) -> None:
        listed, hidden = api.list, True

        async def list_(kind: Any, *about: Any, **how: Any) -> Any:
            if hidden and kind.RESOURCE.plural == "endpoints" and about:
                raise ServerError("its API server does not answer", status=503)
            return await listed(kind, *about, **how)

        await api.create(Namespace, {"metadata": {"name": "team"}})
        for name in ("a", "b"):
            await api.create(ConfigMap, {"metadata": {"name": name}}, "team")
        await api.create(Secret, {"metadata": {"name": "s"}}, "team")
        refuse_deletions(api, "a")
        api.list = list_  # type: ignore[method-assign]
        await api.delete(Namespace, "team")
        await asyncio.sleep(20)
        assert await api.find(ConfigMap, "b", "team") is None
        assert await api.find(Secret, "s", "team") is None
        said = said_by(await api.get(Namespace, "team"))
        assert "configmaps. has" in said["NamespaceContentRemaining"][1]
        hidden = False
        await api.delete_collection(ConfigMap, "team")
        await until(gone(api, Namespace, "team", ""), seconds=300)

    play(story)


def test_an_orphan_that_may_not_be_written_keeps_no_other_from_its_release(play: Play) -> None:
    async def story(api: Client) -> None:
        owner = await api.create(ConfigMap, {"metadata": {"name": "owner"}}, "default")
        for name in ("a", "b"):
            metadata = {"name": name, "ownerReferences": [names(owner)]}
            await api.create(Secret, {"metadata": metadata}, "default")
        await asyncio.sleep(1)
        revise = api.revise

        async def guarded(obj: Any, patch: Any, **how: Any) -> Any:
            if obj.name == "a":
                raise Forbidden("denied", status=403)
            return await revise(obj, patch, **how)

        api.revise = guarded  # type: ignore[method-assign]
        await api.delete(ConfigMap, "owner", "default", propagation_policy="Orphan")
        await asyncio.sleep(5)
        left = [bool(each.metadata.owner_references) for each in (await api.list(Secret, "default")).items]
        assert left == [True, False]

    play(story)


def test_a_namespace_that_is_emptied_at_once_is_not_written(play: Play) -> None:
    async def story(api: Client) -> None:
        seen: list[Namespace] = []
        await api.create(Namespace, {"metadata": {"name": "team"}})
        await api.create(ConfigMap, {"metadata": {"name": "m"}}, "team")
        await api.delete(Namespace, "team")
        while (found := await api.find(Namespace, "team")) is not None:
            seen.append(found)
            await asyncio.sleep(0.001)
        assert {each.status.conditions for each in seen} <= {()}

    play(story)


@pytest.mark.parametrize("there", ["none", "an empty one", "one with an object"])
def test_what_a_late_cache_says_of_a_namespace_is_not_done_to_another_of_its_name(
    there: str, run: Callable[[Any], Any], now: Callable[[], Any]
) -> None:
    """Found by the simulation: the claims of the new namespace were deleted."""

    async def story() -> None:
        stage = ControllerStage(await started(now), now)
        api = stage.api
        late = stage.make(Collector, resources=(await discover(api)).resources)
        await api.create(Namespace, {"metadata": {"name": "team"}})
        await api.delete(Namespace, "team")
        late.cache(Namespace).accept(await api.get(Namespace, "team"))
        other = stage.make(Collector, resources=[])
        other.cache(Namespace).accept(await api.get(Namespace, "team"))
        await other.reconcile(NamespaceKey("team"))
        await until(gone(api, Namespace, "team", ""))
        if there != "none":
            await api.create(Namespace, {"metadata": {"name": "team"}})
        if there == "one with an object":
            await api.create(ConfigMap, {"metadata": {"name": "new"}}, "team")
        was = [await api.find(Namespace, "team"), await api.find(ConfigMap, "new", "team")]
        await late.reconcile(NamespaceKey("team"))
        assert [await api.find(Namespace, "team"), await api.find(ConfigMap, "new", "team")] == was

    run(story())


@pytest.mark.parametrize("of_cluster", [False, True])
def test_an_owner_that_orphans_stays_while_a_late_cache_does_not_show_a_dependent(
    of_cluster: bool, run: Callable[[Any], Any], now: Callable[[], Any]
) -> None:
    """The watch of one kind stands still. What is not released would be deleted after its owner."""

    async def story() -> None:
        stage = ControllerStage(await started(now), now)
        api = stage.api
        kind: Any = Node if of_cluster else ConfigMap
        owner = await api.create(kind, {"metadata": {"name": "owner"}}, "" if of_cluster else "default")
        reference = {**names(owner), "kind": owner.RESOURCE.kind}
        owned = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
        await api.create(Secret, owned, "default")
        await api.delete(kind, owner.name, owner.namespace, propagation_policy="Orphan")
        late = stage.make(Collector, resources=(await discover(api)).resources)
        cache = late._caches[f"/{owner.RESOURCE.plural}"]
        cache.accept(await api.get(cache.kind, owner.name, owner.namespace))
        key = ItemKey(f"/{owner.RESOURCE.plural}", owner.key)
        for _ in range(2):  # what is found marks the owner
            await late.reconcile(key)
            assert await api.find(kind, owner.name, owner.namespace) is not None
        assert (await api.get(Secret, "owned", "default")).metadata.owner_references == ()
        await late.reconcile(key)
        assert await api.find(kind, owner.name, owner.namespace) is None

    run(story())


@pytest.mark.parametrize("of_cluster", [False, True])
def test_what_an_object_owned_that_came_and_went_unseen_goes_after_it(
    of_cluster: bool, run: Callable[[Any], Any], now: Callable[[], Any]
) -> None:
    """The watch of its kind is broken meanwhile (upstream's issue 56121)."""

    async def story() -> None:
        stage = ControllerStage(await started(now), now)
        api = stage.api
        kind: Any = Node if of_cluster else ConfigMap
        late = stage.make(Collector, resources=(await discover(api)).resources)
        working = asyncio.create_task(late.queue.run(1, late.reconcile))
        owner = await api.create(kind, {"metadata": {"name": "owner"}}, "" if of_cluster else "default")
        reference = {**names(owner), "kind": owner.RESOURCE.kind}
        owned = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
        late._caches["/secrets"].accept(await api.create(Secret, owned, "default"))
        await asyncio.sleep(10)
        assert await api.find(Secret, "owned", "default") is not None
        await api.delete(kind, owner.name, owner.namespace)
        cache = late._caches[f"/{owner.RESOURCE.plural}"]
        listed = await api.list(cache.kind)
        cache._replace({each.key: each for each in listed.items}, int(listed.resource_version))
        await until(gone(api, Secret, "owned"))
        working.cancel()

    run(story())


def test_cluster_scoped_owners_are_found(play: Play) -> None:
    async def story(api: Client) -> None:
        node = await api.create(Node, {"metadata": {"name": "n"}})
        reference = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": node.uid}
        await api.create(Secret, {"metadata": {"name": "owned", "ownerReferences": [reference]}}, "default")
        await asyncio.sleep(10)
        assert await api.find(Secret, "owned", "default")
        await api.delete(Node, "n")
        await until(gone(api, Secret, "owned"))

    play(story)


async def define_boats(api: Client) -> None:
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    await api.request("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body=definition)


def waiting() -> float | None:
    return REGISTRY.get_sample_value("workqueue_depth", {"name": "garbage-collector"})


def test_nothing_is_left_waiting_when_a_new_kind_is_looked_after_too(play: Play) -> None:
    """A namespace that cannot be emptied is tried again and again, as of one collector and of the next."""

    async def story(api: Client) -> None:
        await api.create(Namespace, {"metadata": {"name": "stays"}})
        await api.create(ConfigMap, {"metadata": {"name": "c", "finalizers": ["example.com/held"]}}, "stays")
        await api.delete(Namespace, "stays")
        await asyncio.sleep(100)
        before = waiting()
        await define_boats(api)
        await asyncio.sleep(300)
        assert waiting() == before

    play(story)


def test_objects_of_a_kind_defined_later_are_collected(play: Play) -> None:
    """Waits until the object of the new kind is gone."""

    async def story(api: Client) -> None:
        await asyncio.sleep(10)
        await define_boats(api)
        await asyncio.sleep(10)
        owner = await api.create(ConfigMap, {"metadata": {"name": "owner"}}, "default")
        boat = {
            "apiVersion": "example.com/v1",
            "kind": "Boat",
            "metadata": {"name": "b", "ownerReferences": [names(owner)]},
        }
        boats = "/apis/example.com/v1/namespaces/default/boats"
        await api.request("POST", boats, body=boat)
        await api.delete(ConfigMap, "owner", "default")

        async def no_boats() -> bool:
            return b'"name":"b"' not in await api.request("GET", boats)

        await until(no_boats)

    play(story)
