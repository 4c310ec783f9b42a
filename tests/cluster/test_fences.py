"""What a person asks of fences is refused with a reason, or written for the controller."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from controller_stage import ControllerStage
from virtual_server import not_stuck, started

from mooring.cluster import fences
from mooring.cluster.layout import ClusterError
from mooring.controllers.fencing.kinds import FENCING_KINDS
from mooring.fence.interface import State
from mooring.kube.objects import Node, VolumeAttachment
from mooring.kube.objects.apiextensions import CustomResourceDefinition
from mooring.kube.objects.fencing import FenceMechanism, FencePolicy, NodeFence
from mooring.volumes.names import NODE_UID


@pytest.fixture
def play(run: Any, now: Any) -> Any:
    """Plays a story on a server with a node `a`, boot `b1`."""

    def play_story(story: Any, *, kinds: bool = True) -> Any:
        async def on_server() -> Any:
            stage = ControllerStage(await started(now), now)
            for body in FENCING_KINDS if kinds else ():
                await stage.api.create(CustomResourceDefinition, body)
            await stage.api.create(Node, {"metadata": {"name": "a"}})
            await stage.api.patch(Node, "a", {"status": {"nodeInfo": {"bootID": "b1"}}}, subresource="status")
            return await story(stage.api)

        return run(not_stuck(on_server()))

    return play_story


def at() -> datetime:
    return datetime(2030, 1, 1, tzinfo=UTC)


async def asked(api: Any, node: str = "a", uid: str = "") -> NodeFence:
    return await fences.request(api, node, uid=uid, by="me", reason="", now=at)


async def policy(api: Any, name: str = "p") -> None:
    await api.create(FencePolicy, {"metadata": {"name": name}, "spec": {"ladder": [{"mechanism": "bmc"}]}})


def test_a_request_names_the_registration_and_the_boot_that_are_seen(play: Any):
    async def story(api: Any):
        await policy(api)
        made = await asked(api)
        node = await api.get(Node, "a")
        assert (made.spec.node_uid, made.spec.boot_id) == (node.uid, "b1")
        assert made.spec.requested_by == "me at 2030-01-01T00:00:00Z"
        assert made.metadata.finalizers

    play(story)


@pytest.mark.parametrize(
    ("node", "uid", "words"),
    [("a", "another", "not another"), ("gone", "", "no VolumeAttachment names it")],
)
def test_a_request_about_another_or_an_unknown_node_is_refused(play: Any, node: str, uid: str, words: str):
    async def story(api: Any):
        await policy(api)
        with pytest.raises(ClusterError, match=words):
            await asked(api, node, uid)
        assert not (await api.list(NodeFence)).items

    play(story)


@pytest.mark.parametrize("policies", [(), ("p", "q")])
def test_a_request_without_exactly_one_policy_is_refused_and_says_which_there_are(play: Any, policies: Any):
    async def story(api: Any):
        for each in policies:
            await policy(api, each)
        with pytest.raises(ClusterError, match=", ".join(policies) or "none"):
            await asked(api)

    play(story)


def test_a_node_that_is_gone_is_fenced_by_the_uid_that_its_attachments_recorded(play: Any):
    async def story(api: Any):
        spec = {"attacher": "x", "nodeName": "gone", "source": {"persistentVolumeName": "pv"}}
        await api.create(
            VolumeAttachment, {"metadata": {"name": "va", "annotations": {NODE_UID: "u"}}, "spec": spec}
        )
        assert (await asked(api, "gone")).spec.node_uid == "u"

    play(story)


def test_a_second_request_says_how_far_the_first_one_is(play: Any):
    async def story(api: Any):
        await policy(api)
        await asked(api)
        with pytest.raises(ClusterError, match="being fenced already"):
            await asked(api)

    play(story)


def test_a_fence_that_waits_is_taken_into_a_person_s_hand(play: Any):
    async def story(api: Any):
        await policy(api)
        waits = {"metadata": {"name": "a-1"}, "spec": {"nodeName": "a", "reason": "it is lost"}}
        await api.create(NodeFence, waits)
        await api.patch(NodeFence, "a-1", {"status": {"phase": "Pending"}}, subresource="status")
        made = await asked(api)
        assert (made.name, made.spec.override) == ("a-1", True)
        assert made.spec.requested_by == "me at 2030-01-01T00:00:00Z"
        with pytest.raises(ClusterError, match="being fenced already"):
            await asked(api)

    play(story)


def test_a_list_says_for_how_many_seconds_a_fence_waits(play: Any):
    async def story(api: Any):
        await api.create(NodeFence, {"metadata": {"name": "a-1"}, "spec": {"nodeName": "a"}})
        status = {"phase": "Pending", "waitsUntil": "2030-01-01T00:00:12Z"}
        await api.patch(NodeFence, "a-1", {"status": status}, subresource="status")
        await api.create(NodeFence, {"metadata": {"name": "a-2"}, "spec": {"nodeName": "a"}})
        found = {each.fence.name: fences.as_json(*each, at()) for each in await fences.listed(api)}
        assert found["a-1"]["secondsLeft"] == 12
        assert found["a-1"]["next"] == "it is looked at again"
        assert found["a-2"]["secondsLeft"] is None

    play(story)


def test_release_has_the_fence_taken_back(play: Any):
    async def story(api: Any):
        await policy(api)
        made = await asked(api)
        await fences.release(api, "a")
        assert (await api.get(NodeFence, made.name)).spec.unfence

    play(story)


def test_a_cluster_without_the_kinds_says_how_it_learns_them(play: Any):
    async def story(api: Any):
        with pytest.raises(ClusterError, match="mooring fence kinds"):
            await fences.fences(api)
        with pytest.raises(ClusterError, match="mooring fence kinds"):
            await fences.tried(api, {}, [], [])

    play(story, kinds=False)


def test_a_trial_says_of_each_node_what_each_mechanism_says(play: Any):
    from played_mechanism import Machines, PlayedMechanism

    async def story(api: Any):
        await api.create(FenceMechanism, {"metadata": {"name": "bmc"}, "spec": {"type": "played"}})
        await api.create(FenceMechanism, {"metadata": {"name": "typo"}, "spec": {"type": "plaid"}})
        mechanism = PlayedMechanism(Machines())
        found = await fences.tried(api, {"played": mechanism}, [], [])
        assert {(each.mechanism, each.node, each.state) for each in found} == {
            ("bmc", "a", State.OPEN),
            ("typo", "a", State.UNKNOWN),
        }
        assert not mechanism.given, "a trial orders nothing"
        with pytest.raises(ClusterError, match="no node 'nobody'"):
            await fences.tried(api, {}, ["nobody"], [])

    play(story)
