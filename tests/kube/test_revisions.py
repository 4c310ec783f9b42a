"""The history of a pod template."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from random import Random
from typing import Any

import pytest
from virtual_server import not_stuck, started

from mooring.kube.client import Client, WatchEvent
from mooring.kube.errors import Conflict, NotFound
from mooring.kube.informer import Informer
from mooring.kube.objects import ControllerRevision, ObjectMeta, StatefulSet, StatefulSetSpec
from mooring.kube.owners import controller_uid
from mooring.kube.revisions import Revisions, revision_body, same_template, template_of
from mooring.simulation.parts.faulty_transport import admin

TEMPLATE = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def owner(template: dict[str, Any] = TEMPLATE, uid: str = "u", **spec: Any) -> StatefulSet:
    metadata = ObjectMeta(name="db", namespace="default", uid=uid)
    return StatefulSet(metadata=metadata, spec=StatefulSetSpec(template=template, **spec))


async def store_set(client: Client) -> str:
    """Returns the uid of a set that the API server has under the owner's name."""
    spec = {"serviceName": "db", "selector": {"matchLabels": {"app": "db"}}, "template": TEMPLATE}
    body = {"metadata": {"name": "db", "namespace": "default"}, "spec": spec}
    return (await client.create(StatefulSet, body, "default")).uid


def played(
    story: Callable[[Revisions, Informer[ControllerRevision], Client], Any], run: Any, now: Any
) -> None:
    async def on_server() -> None:
        client = Client(admin(await started(now)))
        cache = Informer(client, ControllerRevision, random=Random(1), indexers={"owner": controller_uid})
        await story(Revisions(client, cache), cache, client)

    run(not_stuck(on_server()))


def test_a_revision_of_kube_controller_manager_is_taken_over(
    run: Callable[[Any], Any], now: Callable[[], datetime]
):
    """It has another name. A second revision would replace every pod of the set."""
    container = {"name": "c", "image": "i", "resources": {}}
    written = {
        "metadata": {**TEMPLATE["metadata"], "creationTimestamp": None},
        "spec": {"containers": [container]},
    }

    async def story(revisions: Revisions, cache: Informer[ControllerRevision], client: Client) -> None:
        body = revision_body(owner(written), 7)
        body["metadata"]["name"] = "db-674c887789"
        cache.accept(await client.create(ControllerRevision, body, "default"))
        assert await revisions.present(owner()) == "db-674c887789"
        assert [each.revision for each in cache.items()] == [7]

    played(story, run, now)


def test_what_a_revision_keeps_is_in_the_order_in_which_upstreams_clients_compare_it(
    run: Callable[[Any], Any], now: Callable[[], datetime]
):
    """Upstream's `Match` compares bytes, with the names of fields in order."""
    template = {"spec": {"containers": [{"name": "c", "image": "i", "env": []}]}, "metadata": {"labels": {}}}

    async def story(revisions: Revisions, cache: Informer[ControllerRevision], client: Client) -> None:
        name = await revisions.present(owner(template, await store_set(client)))
        stored = (await client.get(ControllerRevision, name, "default")).data
        assert json.dumps(stored) == json.dumps(stored, sort_keys=True)
        assert stored["spec"]["template"] == {**template, "$patch": "replace"}

    played(story, run, now)


@pytest.mark.parametrize(("limit", "left"), [(0, 1), (1, 2), (-1, 3)])
def test_old_revisions_go_beyond_the_limit_if_there_is_one(
    limit: int, left: int, run: Callable[[Any], Any], now: Callable[[], datetime]
):
    async def story(revisions: Revisions, cache: Informer[ControllerRevision], client: Client) -> None:
        uid = await store_set(client)
        for image in "abc":
            template = {"spec": {"containers": [{"name": "c", "image": image}]}}
            newest = await revisions.present(owner(template, uid))
        await revisions.delete_old(owner(uid=uid, revision_history_limit=limit), {newest})
        kept = (await client.list(ControllerRevision, "default")).items
        assert len(kept) == left
        assert newest in {each.name for each in kept}
        assert all(template_of(each)["spec"]["containers"] for each in kept)

    played(story, run, now)


def test_the_present_template_is_the_newest_whatever_arrives_late(
    run: Callable[[Any], Any], now: Callable[[], datetime]
):
    """A request for a former template's revision that took effect late: it has the same number. The owner is
    looked at, and its own revision becomes the newest. Found by the simulation."""
    former = {"spec": {"containers": [{"name": "c", "image": "former"}]}}

    async def story(revisions: Revisions, cache: Informer[ControllerRevision], client: Client) -> None:
        looked: list[str] = []
        revisions.call_when_changed("StatefulSet", looked.append)
        live = owner(uid=await store_set(client))
        name = await revisions.present(live)
        assert looked == [], "its own writes are no news"
        late = revision_body(owner(former, live.uid), 1)
        made = await client.create(ControllerRevision, late, "default")
        cache.apply(WatchEvent("ADDED", made, made.metadata.resource_version))
        assert looked == ["default/db"]
        assert await revisions.present(live) == name
        assert {each.name: each.revision for each in cache.items()} == {name: 2, made.name: 1}
        assert await revisions.present(live) == name
        cache.apply(WatchEvent("DELETED", made, "99"))
        assert looked == ["default/db"] * 2
        assert [each.revision for each in cache.items()] == [2]

    played(story, run, now)


def test_no_revision_is_made_for_a_set_that_is_gone_or_has_a_successor(
    run: Callable[[Any], Any], now: Callable[[], datetime]
):
    """With a cache that did not show that yet, it was made anew whenever the garbage collector had taken it
    away. Found by the simulation."""

    async def story(revisions: Revisions, cache: Informer[ControllerRevision], client: Client) -> None:
        with pytest.raises(NotFound):
            await revisions.present(owner())
        await store_set(client)
        with pytest.raises(Conflict):
            await revisions.present(owner())
        assert (await client.list(ControllerRevision, "default")).items == []

    played(story, run, now)


def test_what_a_former_set_of_that_name_left_is_not_relied_upon(
    run: Callable[[Any], Any], now: Callable[[], datetime]
):
    """Found by the simulation: it went with that set, when a partition needed it."""

    async def story(revisions: Revisions, cache: Informer[ControllerRevision], client: Client) -> None:
        former = owner(uid=await store_set(client))
        theirs = await revisions.present(former)
        await client.delete(StatefulSet, "db", "default", propagation_policy="Orphan")
        await client.patch(StatefulSet, "db", {"metadata": {"finalizers": None}}, "default")
        present = owner(uid=await store_set(client))
        ours = await revisions.present(present)
        assert ours != theirs and ours.startswith("db-")
        assert await revisions.present(present) == ours
        late = Revisions(
            client, Informer(client, ControllerRevision, random=Random(1), indexers=cache._indexers)
        )
        assert await late.present(present) == ours, "a late cache does not show it"
        kept = await client.get(ControllerRevision, ours, "default")
        assert template_of(kept) == template_of(await client.get(ControllerRevision, theirs, "default"))

    played(story, run, now)


def test_only_what_go_writes_for_an_absent_value_does_not_count():
    assert same_template({"a": None, "b": [{"resources": {}}]}, {"b": [{}]})
    assert not same_template({"volumes": [{"emptyDir": {}}]}, {"volumes": [{}]})
    assert not same_template({"resources": {"limits": {"cpu": "1"}}}, {"resources": {}})
