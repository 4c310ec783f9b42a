"""Every namespace has the service account `default` and the API server's authority, as long as it lives."""

from __future__ import annotations

import asyncio

from controller_stage import ControllerStage, Play
from refusals import refuse

from mooring.controllers.serviceaccounts.controller import ServiceAccountController
from mooring.kube.objects import ConfigMap, Namespace, ServiceAccount
from mooring.simulation.parts.faulty_transport import request

ROOT = "kube-root-ca.crt"
RUNNING: list[asyncio.Task[None]] = []


async def begun(stage: ControllerStage, authority: str = "PEM") -> None:
    controller = stage.make(ServiceAccountController, authority=authority)
    RUNNING.append(asyncio.create_task(controller.run()))
    await asyncio.sleep(1)


async def account(stage: ControllerStage, namespace: str) -> ServiceAccount | None:
    return await stage.api.find(ServiceAccount, "default", namespace)


async def published(stage: ControllerStage, namespace: str) -> dict[str, str] | None:
    found = await stage.api.find(ConfigMap, ROOT, namespace)
    return found.data if found is not None else None


def test_namespaces_that_are_there_and_those_that_come_have_both(play: Play):
    async def story(stage: ControllerStage):
        await begun(stage)
        await stage.api.create(Namespace, {"metadata": {"name": "team"}})
        await asyncio.sleep(1)
        for namespace in ("default", "kube-system", "team"):
            assert await account(stage, namespace) is not None
            assert await published(stage, namespace) == {"ca.crt": "PEM"}

    play(story)


def test_what_is_deleted_or_changed_comes_back(play: Play):
    async def story(stage: ControllerStage):
        await begun(stage)
        first = await account(stage, "default")
        assert first is not None
        await stage.api.delete(ServiceAccount, "default", "default")
        await stage.api.patch(ConfigMap, ROOT, {"data": {"ca.crt": "other", "more": "x"}}, "default")
        await asyncio.sleep(1)
        again = await account(stage, "default")
        assert again is not None
        assert again.uid != first.uid
        assert await published(stage, "default") == {"ca.crt": "PEM"}
        await stage.api.delete(ConfigMap, ROOT, "default")
        await asyncio.sleep(1)
        assert await published(stage, "default") == {"ca.crt": "PEM"}

    play(story)


def test_an_account_that_is_there_is_left_as_it_is(play: Play):
    async def story(stage: ControllerStage):
        made = {"metadata": {"name": "default", "labels": {"mine": "yes"}}}
        before = await stage.api.create(ServiceAccount, made, "default")
        await begun(stage)
        after = await account(stage, "default")
        assert after is not None
        assert after.metadata.resource_version == before.metadata.resource_version

    play(story)


def test_a_namespace_that_ends_gets_nothing_more(play: Play):
    async def story(stage: ControllerStage):
        held = {"metadata": {"name": "team", "finalizers": ["test/held"]}}
        await stage.api.create(Namespace, held)
        await stage.api.delete(Namespace, "team")
        await begun(stage)
        assert await account(stage, "team") is None
        assert await published(stage, "team") is None
        assert await account(stage, "default") is not None

    play(story)


def test_what_a_quota_has_refused_is_made_when_there_is_room(play: Play):
    async def story(stage: ControllerStage):
        refusals = [refuse(stage, request("POST", each)) for each in ("serviceaccounts", "configmaps")]
        await begun(stage)
        assert await account(stage, "default") is None
        assert await published(stage, "default") is None
        for each in refusals:
            each.end()
        await asyncio.sleep(5)
        assert await account(stage, "default") is not None
        assert await published(stage, "default") == {"ca.crt": "PEM"}

    play(story)


def test_an_account_that_may_not_be_made_keeps_no_authority_from_being_published(play: Play):
    async def story(stage: ControllerStage):
        refuse(stage, request("POST", "serviceaccounts"))
        await begun(stage)
        assert await published(stage, "default") == {"ca.crt": "PEM"}

    play(story)


def test_without_an_authority_none_is_published(play: Play):
    async def story(stage: ControllerStage):
        await begun(stage, authority="")
        assert await account(stage, "default") is not None
        assert await published(stage, "default") is None

    play(story)


def test_two_of_them_do_each_other_no_harm(play: Play):
    async def story(stage: ControllerStage):
        await begun(stage)
        await begun(stage)  # a second one
        for _ in range(5):
            await stage.api.delete(ServiceAccount, "default", "default")
            await asyncio.sleep(1)
            assert await account(stage, "default") is not None

    play(story)
