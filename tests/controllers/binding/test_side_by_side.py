"""Claims are bound side by side: no volume is given to two of them, whatever is lost on the way, and none
waits for a volume that it could have."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random

import pytest
from controller_stage import ControllerStage, Play
from waiting import until

from mooring.controllers.binding.controller import BindingController
from mooring.kube.errors import KubeError
from mooring.kube.objects import PersistentVolume, PersistentVolumeClaim
from mooring.simulation.parts.faulty_transport import faulty_client, request
from mooring.volumes.free_volumes import FreeVolumes, is_free

MODES = ["ReadWriteOnce"]
SETTLED_S = 900.0
"""Longer than any backoff."""


async def add_volume(stage: ControllerStage, name: str, gibibytes: int = 1, phase: str = "Available") -> None:
    spec = {
        "capacity": {"storage": f"{gibibytes}Gi"},
        "accessModes": MODES,
        "storageClassName": "by-hand",
        "hostPath": {"path": f"/{name}"},
    }
    await stage.api.create(PersistentVolume, {"metadata": {"name": name}, "spec": spec})
    if phase:
        await stage.api.patch(PersistentVolume, name, {"status": {"phase": phase}}, subresource="status")


async def add_claim(stage: ControllerStage, name: str, gibibytes: int = 1) -> None:
    spec = {
        "accessModes": MODES,
        "storageClassName": "by-hand",
        "resources": {"requests": {"storage": f"{gibibytes}Gi"}},
    }
    await stage.api.create(PersistentVolumeClaim, {"metadata": {"name": name}, "spec": spec}, "default")


async def remove_claim(stage: ControllerStage, name: str) -> None:
    """At once, whoever protects it."""
    await stage.api.patch(PersistentVolumeClaim, name, {"metadata": {"finalizers": None}}, "default")
    await stage.api.delete(PersistentVolumeClaim, name, "default")


async def volume_of(stage: ControllerStage, name: str) -> str:
    """The volume that a claim is bound to; empty if it is not bound."""
    claim = await stage.api.get(PersistentVolumeClaim, name, "default")
    return claim.spec.volume_name if claim.status.phase == "Bound" else ""


async def bound(stage: ControllerStage) -> dict[str, str]:
    """Each bound claim with its volume. Fails if one volume has two claims, or the two disagree."""
    claims = (await stage.api.list(PersistentVolumeClaim)).items
    volumes = {pv.name: pv for pv in (await stage.api.list(PersistentVolume)).items}
    given = Counter(claim.spec.volume_name for claim in claims if claim.spec.volume_name)
    assert max(given.values(), default=1) == 1, given
    found = {claim.name: claim.spec.volume_name for claim in claims if claim.status.phase == "Bound"}
    uids = {claim.name: claim.uid for claim in claims}
    for name, volume in found.items():
        reference = volumes[volume].spec.claim_ref
        assert reference is not None and (reference.name, reference.uid) == (name, uids[name])
        assert volumes[volume].status.phase == "Bound"
    return found


def test_claims_that_come_at_once_get_a_volume_each_in_four_writes_each(play: Play):
    async def story(stage: ControllerStage):
        for number in range(40):
            await add_volume(stage, f"pv-{number:02}", number % 4 + 1)
        for number in range(30):
            await add_claim(stage, f"c-{number:02}", number % 2 + 1)
        client, wire = faulty_client(stage.server)
        working = asyncio.create_task(stage.make(BindingController, client).run())

        async def all_bound() -> bool:
            return len(await bound(stage)) == 30

        await until(all_bound, every_s=1)
        working.cancel()
        assert sum(sent.startswith("PATCH") for sent in wire.sent) == 4 * 30

    play(story)


def test_a_claim_that_was_passed_over_gets_the_volume_whose_binding_came_to_nothing(play: Play):
    """The volume is the only one. Its binding to the first claim is lost, and that claim is deleted."""

    async def story(stage: ControllerStage):
        await add_volume(stage, "only")
        await add_claim(stage, "first")
        client, wire = faulty_client(stage.server)
        binding = wire.hold(request("PATCH", "persistentvolumes/only"))
        controller = stage.make(BindingController, client)
        working = asyncio.create_task(controller.run())
        await binding.arrived.wait()
        await add_claim(stage, "second")
        await asyncio.sleep(60)
        assert await volume_of(stage, "second") == ""
        metadata = {"metadata": {"labels": {"somebody": "else"}}}
        await stage.api.patch(PersistentVolume, "only", metadata)  # so the binding that waits is refused
        await remove_claim(stage, "first")
        await asyncio.sleep(60)
        binding.release()
        await until(lambda: volume_of(stage, "second"), every_s=1)
        working.cancel()

    play(story)


def test_a_lost_write_leaves_no_volume_behind_that_a_claim_waits_for(play: Play):
    """The same, where nothing but the end of the try tells that the volume is free again."""

    async def story(stage: ControllerStage):
        await add_volume(stage, "only")
        await add_claim(stage, "first")
        client, wire = faulty_client(stage.server)
        lost = wire.hold_and_lose(request("PATCH", "persistentvolumes/only"))
        working = asyncio.create_task(stage.make(BindingController, client).run())
        await lost.arrived.wait()
        await add_claim(stage, "second")
        await remove_claim(stage, "first")
        await asyncio.sleep(60)
        lost.release()
        await until(lambda: volume_of(stage, "second"), every_s=1)
        working.cancel()

    play(story)


@pytest.mark.parametrize("write", ["persistentvolumes/only", "persistentvolumes/only/status", "claims/first"])
@pytest.mark.parametrize("fault", ["late", "late, and the next is lost", "lost"])
def test_a_claim_that_goes_while_it_is_being_bound_leaves_its_volume_released_or_to_the_next(
    play: Play, write: str, fault: str
):
    async def story(stage: ControllerStage):
        await add_volume(stage, "only")
        await add_claim(stage, "first")
        client, wire = faulty_client(stage.server)
        matches = lambda each: each.method == "PATCH" and each.path.endswith(write)  # noqa: E731
        held = (wire.hold_and_lose if fault == "lost" else wire.hold)(matches)
        working = asyncio.create_task(stage.make(BindingController, client).run())
        await held.arrived.wait()
        await add_claim(stage, "second")
        await remove_claim(stage, "first")
        await asyncio.sleep(60)
        if fault.endswith("the next is lost"):
            wire.lose(request("PATCH", "persistentvolume"))
        held.release()

        async def let_go() -> bool:
            only = await stage.api.get(PersistentVolume, "only")
            return only.status.phase == "Released" or await volume_of(stage, "second") == "only"

        await until(let_go, every_s=1)
        working.cancel()

    play(story)


def test_a_volume_that_becomes_free_is_given_to_a_claim_that_waits(play: Play):
    async def story(stage: ControllerStage):
        await add_claim(stage, "waiting")
        working = asyncio.create_task(stage.make(BindingController).run())
        await asyncio.sleep(60)
        await add_volume(stage, "late", phase="")
        await until(lambda: volume_of(stage, "waiting"), every_s=1)
        working.cancel()

    play(story)


def test_a_volume_that_has_grown_is_given_to_a_claim_that_waits(play: Play):
    async def story(stage: ControllerStage):
        await add_claim(stage, "large", 5)
        await add_volume(stage, "small", 1)
        working = asyncio.create_task(stage.make(BindingController).run())
        await asyncio.sleep(60)
        assert await bound(stage) == {}
        await stage.api.patch(PersistentVolume, "small", {"spec": {"capacity": {"storage": "5Gi"}}})
        await until(lambda: volume_of(stage, "large"), every_s=1)
        working.cancel()

    play(story)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(0, 26, 2))
def test_what_a_crash_leaves_is_finished_by_the_next_controller(play: Play, number: int, after: bool):
    async def story(stage: ControllerStage):
        for each in range(5):
            await add_volume(stage, f"pv-{each}", each + 1)
            await add_claim(stage, f"c-{each}", 1)
        client, wire = faulty_client(stage.server)
        wire.crash_at(number, after=after)
        first = asyncio.create_task(stage.make(BindingController, client).run())
        await asyncio.sleep(60)
        first.cancel()
        second = asyncio.create_task(stage.make(BindingController).run())
        await asyncio.sleep(SETTLED_S)
        second.cancel()
        assert len(await bound(stage)) == 5

    play(story)


@pytest.mark.parametrize("seed", range(30))
def test_whatever_is_lost_and_whoever_interferes_every_claim_has_a_volume_of_its_own_or_none_fits(
    play: Play, seed: int
):
    async def story(stage: ControllerStage):
        chance = Random(seed)
        client, wire = faulty_client(stage.server)
        working = asyncio.create_task(stage.make(BindingController, client).run())
        names = [f"{kind}-{number:02}" for kind in ("pv", "claim") for number in range(14)]
        chance.shuffle(names)
        for name in names:
            add = add_volume if name.startswith("pv") else add_claim
            await add(stage, name, chance.randint(1, 4))
            drawn = chance.random()
            if drawn < 0.3:
                fault = chance.choice([wire.lose, wire.unanswered])
                fault(request("PATCH", "persistentvolume"))
            elif drawn < 0.6:
                await interfere(stage, chance)
            await asyncio.sleep(chance.choice([0, 0, 0.01, 1]))
        await asyncio.sleep(SETTLED_S)
        working.cancel()
        found = await bound(stage)
        free = FreeVolumes((await stage.api.list(PersistentVolume)).items)
        claims = (await stage.api.list(PersistentVolumeClaim)).items
        assert found, "nothing was bound at all"
        assert {
            each.name: free.find(each) for each in claims if each.name not in found and free.find(each)
        } == {}

    play(story)


async def interfere(stage: ControllerStage, chance: Random) -> None:
    """A user labels or deletes a volume that is free, or deletes a claim."""
    volumes = [pv for pv in (await stage.api.list(PersistentVolume)).items if is_free(pv)]
    claims = (await stage.api.list(PersistentVolumeClaim)).items
    try:
        match chance.choice(["label", "delete", "leave"]):
            case "label" if volumes:
                labels = {"metadata": {"labels": {"drawn": str(chance.random())}}}
                await stage.api.patch(PersistentVolume, chance.choice(volumes).name, labels)
            case "delete" if volumes:
                await stage.api.delete(PersistentVolume, chance.choice(volumes).name)
            case "leave" if claims:
                await stage.api.delete(PersistentVolumeClaim, chance.choice(claims).name, "default")
            case _:
                pass
    except KubeError:
        pass  # somebody was faster
