"""What a volume shows is followed for as long as a pod uses the volume."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from mooring.kube.objects import ObjectMeta, ObjectReference, PersistentVolume, Pod
from mooring.kube.objects.persistentvolumes import PersistentVolumeSpec
from mooring.node.volumes.content import CLAIM_PERIOD_S, ContentWatches
from mooring.volumes.spec import VolumeSpec

Run = Callable[[Coroutine[Any, Any, Any]], Any]
VOLUME = "example.com/disk/d"


class Server:
    """Counts how often the claim is looked at."""

    def __init__(self) -> None:
        self.looks = 0

    async def find(self, kind: Any, name: str, namespace: str) -> None:
        self.looks += 1


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

    run(story())
