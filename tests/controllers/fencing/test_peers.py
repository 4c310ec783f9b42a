"""A node that the API server does not hear and its peers do is not fenced; one that no peer hears is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

import msgspec
import pytest

from mooring.controllers.fencing.controller import FencingController
from mooring.controllers.fencing.policies import problems_of
from mooring.controllers.fencing.polls import PATIENCE_S
from mooring.kube.client import Client
from mooring.kube.errors import AlreadyExists
from mooring.kube.objects import Event, Lease, Node
from mooring.kube.objects.fencing import FencePolicy, FencePolicySpec, NodeFence
from mooring.kube.times import format_micro_time, format_time
from mooring.simulation.parts.faulty_transport import role
from mooring.volumes.peers import (
    DOOR,
    QUESTIONS,
    STATEMENTS,
    Heard,
    Question,
    Statement,
    encoded,
    questions_of,
)

LEASES = "kube-node-lease"


class PlayedPeer:
    """A node's agent, as far as its peers go: what it hears of each node, and what it writes."""

    def __init__(self, stage: Any, name: str, hears: Mapping[str, Heard]) -> None:
        self.stage, self.name, self.hears = stage, name, dict(hears)
        self.answered: list[Question] = []
        self.asked: tuple[Question, ...] = ()
        self.renewed = 0.0
        self.word = lambda question, heard: Statement(question.node, question.boot_id, question.nonce, heard)

    async def run(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            if (node := await self.stage.api.find(Node, self.name)) is None or node.ready != "True":
                continue
            await self.renew()
            asked = questions_of(node.metadata.annotations.get(QUESTIONS, ""))
            before, self.asked = self.asked, asked
            if asked and asked != before:
                self.answered += [each for each in asked if each not in before]
                found = (self.word(each, self.hears.get(each.node, Heard.NO)) for each in asked)
                await self.state(encoded(tuple(found)))

    async def renew(self) -> None:
        now = asyncio.get_running_loop().time()
        if now - self.renewed >= 5:
            self.renewed = now
            renewed = {"spec": {"renewTime": format_micro_time(self.stage.now())}}
            await self.stage.api.patch(Lease, self.name, renewed, LEASES)

    async def state(self, text: str) -> None:
        await self.stage.api.patch(
            Lease, self.name, {"metadata": {"annotations": {STATEMENTS: text}}}, LEASES
        )


@contextlib.asynccontextmanager
async def played(stage: Any, **hears: Mapping[str, Heard]) -> AsyncIterator[dict[str, PlayedPeer]]:
    """Nodes by name, and what each hears of others."""
    for name in hears:
        await stage.node(name)
        await stage.api.patch(Node, name, {"metadata": {"annotations": {DOOR: "10.0.0.1:7000"}}})
        with contextlib.suppress(AlreadyExists):
            await stage.api.create(Lease, {"metadata": {"name": name}, "spec": {}}, LEASES)
    peers = {name: PlayedPeer(stage, name, its) for name, its in hears.items()}
    tasks = [asyncio.create_task(each.run()) for each in peers.values()]
    try:
        yield peers
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def policy(stage: Any, **peers: Any) -> None:
    await stage.mechanism()
    await stage.policy("bmc", peers=peers, worth={"onlyExclusive": False})


async def asked(stage: Any) -> None:
    """A detector asks for a fence of node a."""
    spec = {"nodeName": "a", "requestedBy": "a detector"}
    await stage.api.create(NodeFence, {"metadata": {"name": "asked"}, "spec": spec})


async def questions(stage: Any, name: str) -> str:
    return (await stage.api.get(Node, name)).metadata.annotations.get(QUESTIONS, "")


HEARS = {"a": Heard.YES}


def test_a_node_that_a_peer_hears_is_not_fenced_and_it_is_said_why(fencing: Any):
    async def story(stage: Any):
        async with played(stage, a={}, b=HEARS, c={}):
            await policy(stage)
            async with stage.running():
                await asyncio.sleep(5)
                await stage.silent("a")
                await asyncio.sleep(600)
                fence = await stage.fence("a")
                assert (fence.status.phase, fence.status.reason) == ("Pending", "HeardByPeers")
                assert "(b)" in fence.status.message
                (condition,) = fence.status.conditions
                assert (condition.type, condition.status) == ("HeardByPeers", "True")
                events = (await stage.api.list(Event)).items
        assert any(each.reason == "HeardByPeers" for each in events)
        assert not stage.machines.off

    fencing(story)


def test_a_word_is_not_forgotten_while_something_else_holds_the_fence_for_a_moment(fencing: Any):
    """Else its peer, which is cut off by then, would be waited for eight seconds, and the node fenced."""

    async def story(stage: Any):
        async with played(stage, a={}, b=HEARS, c={}) as peers:
            await policy(stage)
            async with stage.running():
                await asyncio.sleep(5)
                await stage.silent("a")
                await asyncio.sleep(30)
                for each in peers.values():
                    each.word = lambda question, heard: Statement("", "", "", heard)  # they say nothing of it
                await stage.pause("for a moment")
                await asyncio.sleep(1)
                await stage.pause("")
                await asyncio.sleep(15)
                assert not stage.machines.off
                await stage.until_phase("a", "Fenced")

    fencing(story)


def test_a_word_is_not_forgotten_while_only_one_of_two_detectors_calls_the_node_lost(fencing: Any):
    """41000293 of `fencing-by-storage.yaml`."""
    broken = {"type": "Condition", "condition": "Broken", "status": "True", "forSeconds": 1}
    both = [{"type": "Ready", "forSeconds": 1}, broken]
    worth = {"onlyExclusive": False}

    async def story(stage: Any):
        async def shows(*broken: str) -> None:
            since = format_time(stage.now())
            shown = [("Ready", "Unknown"), *(("Broken", each) for each in broken)]
            conditions = [
                {"type": type_, "status": status, "lastTransitionTime": since} for type_, status in shown
            ]
            await stage.api.patch(Node, "a", {"status": {"conditions": conditions}}, subresource="status")

        async with played(stage, a={}, b=HEARS, c={}) as peers:
            await stage.mechanism()
            await stage.policy(
                "bmc", peers={"expiresSeconds": 60}, detectors=both, quorum={"required": 2}, worth=worth
            )
            async with stage.running():
                await asyncio.sleep(5)
                await shows("True")
                await asyncio.sleep(25)
                for each in peers.values():
                    each.word = lambda question, heard: Statement("", "", "", heard)  # they say nothing of it
                await shows()
                await asyncio.sleep(10)
                await shows("True")
                await asyncio.sleep(18)
                assert not stage.machines.off
                await stage.until_phase("a", "Fenced")

    fencing(story)


def test_a_word_that_the_cache_does_not_show_yet_keeps_a_node_from_being_fenced(
    fencing: Any, monkeypatch: pytest.MonkeyPatch
):
    """7000696 of `fencing.yaml`: the watch of Leases was half a minute late."""

    def late(self: FencingController, old: Lease | None, new: Lease | None) -> None: ...

    async def story(stage: Any):
        async with played(stage, a={}, b=HEARS, c=HEARS):
            await policy(stage)
            async with stage.running():
                await asyncio.sleep(5)
                await stage.silent("a")
                await asyncio.sleep(300)
        assert not stage.machines.off

    monkeypatch.setattr(FencingController, "_stated", late)
    fencing(story)


def test_a_node_that_no_peer_hears_is_fenced_and_they_are_asked_no_more(fencing: Any):
    async def story(stage: Any):
        async with played(stage, a={}, b={}, c={}):
            await policy(stage, required=2)
            async with stage.running():
                await asyncio.sleep(5)
                await stage.silent("a")
                await stage.until_phase("a", "Fenced")

                async def none() -> bool:
                    return not await questions(stage, "b") and not await questions(stage, "c")

                await stage.until(none)

    fencing(story)


def test_a_veto_ends_when_the_peer_hears_it_no_more(fencing: Any):
    async def story(stage: Any):
        async with played(stage, a={}, b=HEARS, c={}) as peers:
            await policy(stage)
            async with stage.running():
                await asyncio.sleep(5)
                await stage.silent("a")
                await asyncio.sleep(100)
                assert not stage.machines.off
                peers["b"].hears["a"] = Heard.NO
                fence = await stage.until_phase("a", "Fenced", 60)
                assert [each.status for each in fence.status.conditions] == ["False"]

    fencing(story)


def test_a_veto_of_a_peer_that_says_nothing_more_expires(fencing: Any):
    async def story(stage: Any):
        async with played(stage, a={}, b=HEARS) as peers:
            await policy(stage)
            async with stage.running():
                await asyncio.sleep(5)
                await stage.silent("a")
                await asyncio.sleep(20)
                assert not stage.machines.off
                peers["b"].word = lambda question, heard: Statement("a", "boot-1", "0" * 32, heard)
                await stage.until_phase("a", "Fenced", 90)

    fencing(story)


def test_while_all_is_well_nothing_is_asked(fencing: Any):
    async def story(stage: Any):
        async with played(stage, a={}, b={}) as peers:
            await policy(stage)
            async with stage.running():
                await asyncio.sleep(5)  # the finalizer is written
                before = await stage.api.get(Node, "b")
                await asyncio.sleep(600)
                assert (
                    await stage.api.get(Node, "b")
                ).metadata.resource_version == before.metadata.resource_version
                assert not peers["b"].answered

    fencing(story)


def test_peers_are_not_asked_about_a_node_that_would_not_be_fenced_anyway(fencing: Any):
    async def story(stage: Any):
        async with played(stage, a={}, b={}) as peers:
            await stage.mechanism()
            await stage.policy("bmc", peers={}, paused="being tried")
            async with stage.running():
                await asyncio.sleep(5)
                await stage.silent("a")
                await asyncio.sleep(300)
                assert (await stage.fence("a")).status.reason == "Paused"
                assert not peers["b"].answered

    fencing(story)


def test_peers_are_asked_while_a_detector_still_counts(fencing: Any):
    async def story(stage: Any):
        async with played(stage, a={}, b={}) as peers:
            await stage.mechanism()
            detectors = [{"type": "Ready", "forSeconds": 60}]
            await stage.policy("bmc", peers={}, detectors=detectors, worth={"onlyExclusive": False})
            async with stage.running():
                await asyncio.sleep(5)
                await stage.silent("a")
                await asyncio.sleep(20)
                assert peers["b"].answered
                assert not stage.machines.off

    fencing(story)


def test_without_peers_in_the_policy_none_is_asked(fencing: Any):
    async def story(stage: Any):
        async with played(stage, a={}, b=HEARS) as peers:
            await stage.mechanism()
            await stage.policy("bmc")
            async with stage.running():
                await asyncio.sleep(5)
                await stage.silent("a")
                await stage.until_phase("a", "Fenced")
                assert not peers["b"].answered

    fencing(story)


def test_a_number_of_peers_that_is_required_and_missing_holds_the_fence(fencing: Any):
    async def story(stage: Any):
        async with played(stage, a={}, b={}, c={"a": Heard.ANOTHER_BOOT}):
            await policy(stage, required=2)
            async with stage.running():
                await asyncio.sleep(5)
                await stage.silent("a")
                await asyncio.sleep(300)
                assert (await stage.fence("a")).status.reason == "PeersMissing"
        assert not stage.machines.off

    fencing(story)


@pytest.mark.parametrize(
    "lie",
    [
        {"nonce": "f" * 32},
        {"boot_id": "boot-0"},
        {"node": "c"},
    ],
)
def test_a_statement_that_answers_no_question_vetoes_nothing(fencing: Any, lie: dict[str, str]):
    async def story(stage: Any):
        async with played(stage, a={}, b=HEARS, c={}) as peers:
            honest = peers["b"].word
            peers["b"].word = lambda question, heard: msgspec.structs.replace(honest(question, heard), **lie)
            await policy(stage)
            async with stage.running():
                await asyncio.sleep(5)
                await stage.silent("a")
                await stage.until_phase("a", "Fenced")

    fencing(story)


def test_an_answer_of_a_former_time_is_no_answer_now(fencing: Any):
    async def story(stage: Any):
        async with played(stage, a={}, b=HEARS, c={}) as peers:
            await policy(stage)
            async with stage.running():
                await asyncio.sleep(5)
                await stage.silent("a")
                await asyncio.sleep(10)
                assert not stage.machines.off
                old = peers["b"].answered[-1]
                await stage.report("a")
                await asyncio.sleep(60)
                peers["b"].word = lambda question, heard: Statement("a", "boot-1", old.nonce, Heard.YES)
                await stage.silent("a")
                await stage.until_phase("a", "Fenced")

    fencing(story)


def test_a_person_may_fence_a_node_that_its_peers_hear(fencing: Any):
    async def story(stage: Any):
        from mooring.cluster import fences

        async with played(stage, a={}, b=HEARS):
            await policy(stage)
            async with stage.running():
                await asyncio.sleep(5)
                await stage.silent("a")
                await asyncio.sleep(60)
                assert not stage.machines.off
                await fences.request(stage.api, "a", uid="", by="me", reason="", now=stage.now)
                await stage.until_phase("a", "Fenced")

    fencing(story)


def test_a_fence_that_is_asked_for_begins_with_the_last_word_that_it_waits_for(fencing: Any):
    async def story(stage: Any):
        async with played(stage, a={}, b={}):
            await policy(stage)
            async with stage.running():
                await asyncio.sleep(5)
                began = asyncio.get_running_loop().time()
                await asked(stage)
                await stage.until_phase("a", "Fenced")
                assert asyncio.get_running_loop().time() - began < PATIENCE_S, "in time that is played"

    fencing(story)


def test_of_a_fence_that_was_taken_back_before_it_began_peers_are_asked_nothing_more(fencing: Any):
    async def story(stage: Any):
        async with played(stage, a={}, b=HEARS) as peers:
            await policy(stage)
            async with stage.running():
                await asyncio.sleep(5)
                await asked(stage)

                async def is_held() -> bool:
                    fence = await stage.api.get(NodeFence, "asked")
                    return fence.status.reason == "HeardByPeers"

                await stage.until(is_held)
                await stage.api.patch(NodeFence, "asked", {"spec": {"unfence": True}})
                await stage.until_phase("a", "Cancelled")
                await asyncio.sleep(5)
                known = len(peers["b"].answered)
                await asyncio.sleep(120)
                assert len(peers["b"].answered) == known
                assert await questions(stage, "b") == ""

    fencing(story)


def test_the_word_of_peers_releases_nothing(fencing: Any):
    async def story(stage: Any):
        from played_mechanism import Manner

        async with played(stage, a={}, b={}, c={}):
            await stage.attachment(await stage.api.get(Node, "a"))
            stage.bmc.manner = Manner.REFUSES
            await policy(stage, required=2)
            async with stage.running():
                await asyncio.sleep(5)
                await stage.silent("a")
                await stage.until_phase("a", "AwaitingPerson")
                await asyncio.sleep(300)
            fence = await stage.fence("a")
            assert not fence.status.released_at
            assert not (await stage.api.get(Node, "a")).spec.taints

    fencing(story)


def test_a_successor_removes_what_its_predecessor_has_asked(fencing: Any):
    async def story(stage: Any):
        async with played(stage, a={}, b={}):
            stale = encoded((Question("z", "boot-1", "10.0.0.1:7000", "0" * 32),))
            await stage.api.patch(Node, "b", {"metadata": {"annotations": {QUESTIONS: stale}}})
            await policy(stage)
            async with stage.running():

                async def gone() -> bool:
                    return not await questions(stage, "b")

                await stage.until(gone)

    fencing(story)


def test_the_rights_that_the_manifest_grants_are_enough_to_ask(fencing: Any):
    async def story(stage: Any):
        async with played(stage, a={}, b=HEARS):
            await policy(stage)
            async with stage.running(Client(role(stage.server, "fencing"))):
                await asyncio.sleep(5)
                await stage.silent("a")

                async def held() -> bool:
                    fence = await stage.fence("a")
                    return fence is not None and fence.status.reason == "HeardByPeers"

                await stage.until(held)

    fencing(story)


@pytest.mark.parametrize(
    ("hears", "reason"), [(Heard.YES, "HeardByPeers"), (Heard.ANOTHER_BOOT, "PeersMissing")]
)
def test_what_peers_have_said_stays_written_while_a_successor_asks_anew(
    fencing: Any, hears: Heard, reason: str
):
    async def story(stage: Any):
        async with played(stage, a={}, b={"a": hears}, c={"a": hears}):
            await policy(stage, required=1)
            async with stage.running():
                await asyncio.sleep(5)
                await stage.silent("a")
                await asyncio.sleep(60)
                assert (await stage.fence("a")).status.reason == reason
            said: list[str] = []
            async with stage.running():
                for _ in range(60):
                    await asyncio.sleep(0.5)
                    said.append((await stage.fence("a")).status.reason)
        assert set(said) == {reason}
        assert not stage.machines.off

    fencing(story)


@pytest.mark.parametrize(
    ("peers", "words"),
    [
        ({"veto": False}, "neither veto nor are required"),
        ({"required": 6}, "5 are asked at the most"),
        ({"expiresSeconds": 3}, "10 s or more"),
        ({"expiresSeconds": float("nan")}, "10 s or more"),
        ({"required": 2}, ""),
        ({}, ""),
    ],
)
def test_rules_of_which_nothing_could_come_are_told_of(peers: dict[str, Any], words: str):
    rules = msgspec.convert({"peers": peers, "ladder": [{"mechanism": "bmc"}]}, FencePolicySpec)
    found = problems_of(FencePolicy(spec=rules), {"bmc": "Power"})
    assert [words in each for each in found] == ([True] if words else [])
