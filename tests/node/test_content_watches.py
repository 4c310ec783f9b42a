"""What a volume shows is followed for as long as a pod uses the volume."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from mooring.kube.errors import Unreachable
from mooring.kube.objects import (
    Condition,
    ConfigMap,
    ObjectMeta,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Secret,
    Volume,
)
from mooring.kube.objects.persistentvolumes import PersistentVolumeClaimStatus, PersistentVolumeSpec
from mooring.kube.objects.volumes import (
    ConfigMapProjection,
    ConfigMapVolumeSource,
    DownwardAPIProjection,
    ProjectedVolumeSource,
    SecretProjection,
    SecretVolumeSource,
    VolumeProjection,
)
from mooring.node.volumes.content import CLAIM_PERIOD_S, ContentWatches, sources
from mooring.volumes.spec import VolumeSpec

Run = Callable[[Coroutine[Any, Any, Any]], Any]
VOLUME = "example.com/disk/d"
CLAIM = (PersistentVolumeClaim, "default", "c")


class Server:
    """Counts how often the claim is looked at, and gives these answers, then none."""

    def __init__(self, *answers: PersistentVolumeClaim | Exception) -> None:
        self.looks = 0
        self.asked: set[tuple[Any, str, str]] = set()
        self.times: list[float] = []
        self._answers = [*answers]

    async def find(self, kind: Any, name: str, namespace: str) -> PersistentVolumeClaim | None:
        self.looks += 1
        self.asked.add((kind, namespace, name))
        self.times.append(asyncio.get_running_loop().time())
        answer = self._answers.pop(0) if self._answers else None
        if isinstance(answer, Exception):
            raise answer
        return answer


def pod(uid: str) -> Pod:
    return Pod(metadata=ObjectMeta(name=uid, namespace="default", uid=uid))


def spec() -> VolumeSpec:
    reference = ObjectReference(namespace="default", name="c")
    return VolumeSpec.of_persistent_volume(PersistentVolume(spec=PersistentVolumeSpec(claim_ref=reference)))


async def looks_after(*let_go: str) -> int:
    """How many looks there still are when these of the pods p and q have let the volume go."""
    server: Any = Server()
    watches = ContentWatches(server, lambda uid, name: None, random=Random(1))
    running = asyncio.create_task(watches.run())
    await asyncio.sleep(0)
    for uid in ("p", "q"):
        watches.follow(pod(uid), spec(), VOLUME, grows=True)
    await asyncio.sleep(3 * CLAIM_PERIOD_S)
    assert server.looks
    for uid in let_go:
        watches.unfollow(uid, VOLUME)
    before = server.looks
    await asyncio.sleep(3 * CLAIM_PERIOD_S)
    running.cancel()
    return server.looks - before


def test_it_is_followed_while_one_pod_is_left(run: Run):
    assert run(looks_after("p")) > 0


def test_it_is_not_followed_for_no_pod(run: Run):
    assert run(looks_after("p", "q")) == 0


def test_what_was_not_followed_yet_can_be_let_go(run: Run):
    async def story() -> None:
        server: Any = Server()
        watches = ContentWatches(server, lambda uid, name: None, random=Random(1))
        watches.follow(pod("p"), spec(), VOLUME, grows=True)  # nothing runs yet
        watches.unfollow("p", VOLUME)
        running = asyncio.create_task(watches.run())
        await asyncio.sleep(3 * CLAIM_PERIOD_S)
        running.cancel()
        assert server.looks == 0

    run(story())


def claim(*conditions: str) -> PersistentVolumeClaim:
    told = tuple(Condition(type=each, status="True") for each in conditions)
    return PersistentVolumeClaim(status=PersistentVolumeClaimStatus(conditions=told))


GROWS = claim("FileSystemResizePending")


async def told_of(server: Any, *users: str) -> list[tuple[str, str]]:
    """What is said to have changed while the claim is looked at a few times for these pods."""
    told: list[tuple[str, str]] = []
    watches = ContentWatches(server, lambda uid, name: told.append((uid, name)), random=Random(1))
    for uid in users:
        watches.follow(pod(uid), spec(), VOLUME, grows=True)
    running = asyncio.create_task(watches.run())
    await asyncio.sleep(8 * CLAIM_PERIOD_S)
    running.cancel()
    return told


def test_each_pod_is_told_whenever_the_claim_that_was_read_asks_to_grow(run: Run):
    """What was followed before the watches run, is followed, too; and a look that fails tells nothing, and is
    not the last."""
    server = Server(GROWS, Unreachable("no answer"), claim(), claim("Resizing"), GROWS)
    assert sorted(run(told_of(server, "p", "q"))) == [("p", VOLUME)] * 2 + [("q", VOLUME)] * 2
    assert server.asked == {CLAIM}


def test_the_looks_of_many_nodes_at_their_claims_do_not_fall_together(run: Run):
    """Half a minute between them, by a quarter more or less, so that agents that start at once do not ask at
    once for ever."""

    async def story() -> list[float]:
        server: Any = Server()
        watches = ContentWatches(server, lambda uid, name: None, random=Random(1))
        watches.follow(pod("p"), spec(), VOLUME, grows=True)
        running = asyncio.create_task(watches.run())
        await asyncio.sleep(200 * 30)
        running.cancel()
        return [later - earlier for earlier, later in pairwise(server.times)]

    pauses = run(story())
    assert 22.5 <= min(pauses) < 24
    assert 36 < max(pauses) <= 37.5


@pytest.mark.parametrize("grows", [True, False])
def test_an_error_that_is_not_the_api_servers_is_not_passed_over(run: Run, grows: bool):
    """The agent ends with it, and is started anew: a volume that shows old content for ever is worse."""

    async def story() -> None:
        broken: Any = object()
        watches = ContentWatches(broken, lambda uid, name: None, random=Random(1))
        shown = spec() if grows else inline(config_map=ConfigMapVolumeSource(name="m"))
        watches.follow(pod("p"), shown, VOLUME, grows=grows)
        with pytest.raises(ExceptionGroup):
            await asyncio.wait_for(watches.run(), 300)

    run(story())


DISK = VolumeSpec.of_persistent_volume(PersistentVolume(spec=PersistentVolumeSpec()))
PROJECTED = ProjectedVolumeSource(
    sources=(
        VolumeProjection(secret=SecretProjection(name="s1")),
        VolumeProjection(config_map=ConfigMapProjection(name="m1")),
        VolumeProjection(downward_api=DownwardAPIProjection()),
        VolumeProjection(secret=SecretProjection(name="s2")),
    )
)


def inline(**source: Any) -> VolumeSpec:
    return VolumeSpec.of_volume(Volume(name="v", **source))


@pytest.mark.parametrize(
    ("shown", "grows", "followed"),
    [
        (inline(config_map=ConfigMapVolumeSource(name="m")), False, [(ConfigMap, "m")]),
        (inline(secret=SecretVolumeSource(secret_name="s")), False, [(Secret, "s")]),
        (inline(projected=PROJECTED), False, [(ConfigMap, "m1"), (Secret, "s1"), (Secret, "s2")]),
        (inline(), False, []),
        (spec(), True, [(PersistentVolumeClaim, "c")]),
        (spec(), False, []),
        (DISK, False, []),
    ],
)
def test_a_volume_follows_the_objects_that_it_shows_and_its_claim_if_it_can_grow(
    shown: VolumeSpec, grows: bool, followed: list[tuple[type, str]]
):
    assert sources(pod("p"), shown, grows) == [(kind, "default", name) for kind, name in followed]
