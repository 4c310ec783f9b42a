"""A kind that cannot be listed, or a group whose kinds are not known, keeps no other from being collected;
and nothing is done that needs to know them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from controller_stage import ControllerStage, Play
from refusals import refuse_on
from waiting import until

from mooring.controllers.cleanup.controller import CleanupController
from mooring.controllers.cleanup.kinds import discover
from mooring.kube.client import Client
from mooring.kube.objects import ConfigMap, Namespace, Secret
from mooring.kube.transport import Request, Response, Transport
from mooring.simulation.parts.faulty_transport import FaultyTransport, request

QUOTAS = "/resourcequotas"
QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota"}


def owned_by(kind: str, name: str, uid: str) -> dict[str, Any]:
    reference = {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "blockOwnerDeletion": True}
    return {"metadata": {"name": "owned", "ownerReferences": [reference]}}


async def make_quota(stage: ControllerStage, body: dict[str, Any]) -> str:
    """Returns its uid."""
    path = f"/api/v1/namespaces/default{QUOTAS}"
    made = await stage.api.request("POST", path, body={**QUOTA, "spec": {"hard": {}}, **body})
    return json.loads(made)["metadata"]["uid"]


@pytest.fixture
def play(play: Play) -> Play:
    """With a controller whose client is another one, `stage.theirs`."""

    async def with_controller(stage: Any, story: Any) -> None:
        stage.theirs = FaultyTransport(stage.wire)
        stage.begin = lambda: asyncio.create_task(
            stage.make(CleanupController, client=Client(stage.theirs)).run()
        )
        await story(stage)

    return lambda story: play(lambda stage: with_controller(stage, story))


async def is_gone(stage: ControllerStage, kind: Any, name: str) -> bool:
    return await stage.api.find(kind, name, "default") is None


def test_a_kind_that_cannot_be_listed_keeps_no_other_from_being_collected(play: Play):
    async def story(stage: Any):
        refuse_on(stage.theirs, request("GET", QUOTAS), 503)
        stage.begin()
        await stage.api.create(Secret, owned_by("ConfigMap", "gone", "u"), "default")
        await until(lambda: is_gone(stage, Secret, "owned"), seconds=100)

    play(story)


def test_what_an_owner_of_a_kind_that_cannot_be_listed_owns_stays_until_that_is_known_to_be_gone(play: Play):
    async def story(stage: Any):
        uid = await make_quota(stage, {"metadata": {"name": "q"}})
        refusals = refuse_on(stage.theirs, request("GET", QUOTAS), 503)
        stage.begin()
        await stage.api.create(Secret, owned_by("ResourceQuota", "q", uid), "default")
        await stage.api.request("DELETE", f"/api/v1/namespaces/default{QUOTAS}/q")
        await asyncio.sleep(200)
        assert not await is_gone(stage, Secret, "owned")
        refusals.end()
        await until(lambda: is_gone(stage, Secret, "owned"), seconds=200)

    play(story)


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
def test_an_owner_that_waits_for_dependents_waits_for_those_of_kinds_that_cannot_be_listed(
    play: Play, policy: str
):
    async def story(stage: Any):
        owner = await stage.api.create(ConfigMap, {"metadata": {"name": "owner"}}, "default")
        await make_quota(stage, owned_by("ConfigMap", "owner", owner.uid))
        refusals = refuse_on(stage.theirs, request("GET", QUOTAS), 503)
        stage.begin()
        await stage.api.delete(ConfigMap, "owner", "default", propagation_policy=policy)
        await asyncio.sleep(200)
        assert not await is_gone(stage, ConfigMap, "owner")
        refusals.end()
        await until(lambda: is_gone(stage, ConfigMap, "owner"), seconds=200)

    play(story)


class Stale:
    """An API server that has heard nothing of the API server of one group."""

    def __init__(self, inner: Transport, group: str) -> None:
        self._inner, self._group = inner, group

    async def send(self, request: Request) -> Response:
        answer = await self._inner.send(request)
        if request.path != "/apis":
            return answer
        document = json.loads(answer.body)
        for each in document["items"]:
            if each["metadata"]["name"] == self._group:
                each["versions"] = [{"version": "v1", "freshness": "Stale", "resources": []}]
        return Response(answer.status, answer.headers, json.dumps(document).encode())

    async def close(self) -> None:
        await self._inner.close()


def test_a_namespace_stays_while_the_kinds_of_a_group_are_not_known_and_says_so(play: Play):
    """What it may hold of them would be left behind for good."""

    async def story(stage: Any):
        whole = stage.theirs.inner
        stage.theirs.inner = Stale(whole, "apps")
        stage.begin()
        await stage.api.create(Namespace, {"metadata": {"name": "team"}})
        await stage.api.create(ConfigMap, {"metadata": {"name": "m"}}, "team")
        await stage.api.delete(Namespace, "team")
        await asyncio.sleep(200)
        assert await stage.api.find(ConfigMap, "m", "team") is None
        said = {each.type: each for each in (await stage.api.get(Namespace, "team")).status.conditions}
        assert said["NamespaceDeletionDiscoveryFailure"].status == "True"
        assert "apps" in said["NamespaceDeletionDiscoveryFailure"].message
        stage.theirs.inner = whole

        async def gone() -> bool:
            return await stage.api.find(Namespace, "team") is None

        await until(gone, seconds=200)

    play(story)


class Older(Stale):
    """One without discovery in one document, of which one group does not answer."""

    async def send(self, request: Request) -> Response:
        if request.path.startswith(f"/apis/{self._group}/"):
            return Response(503, {}, b"{}")
        plain = {"Accept": "application/json"}
        return await self._inner.send(Request(request.method, request.path, headers=plain))


def test_a_group_that_does_not_answer_keeps_no_kinds_of_others_from_being_found(play: Play):
    async def story(stage: Any):
        found = await discover(Client(Older(stage.wire, "apps")))
        assert "configmaps" in {each.plural for each in found.resources}
        assert found.unknown == ["apps"]

    play(story)
