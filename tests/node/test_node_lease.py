"""One agent for one node name: a clone, a copied kubeconfig or a second directory neither writes nor
mounts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mooring.kube.errors import Unreachable
from mooring.kube.objects import Lease, Node
from mooring.kube.transport import Request
from mooring.node.node_lease import HOLDER, NAMESPACE, HeldByAnother, Holder, may_take_at_once

NODE = "node-1"
OWN = Holder("b1", "m", "a1")


@pytest.mark.parametrize(("holder", "ended", "takes"), [
    (OWN, "", True),
    (Holder("b1", "other", "a1"), "", True),
    (Holder("b2", "m", "a1"), "", False),
    (Holder("b1", "m", "a2"), "", False),
    (Holder("b2", "m", "a1", over=True), "", True),
    (Holder("b2", "m", "a1"), "b2", True),
    (Holder("b3", "m", "a1"), "b2", False),
    (Holder("", "", ""), "", False),
    (None, "", False),
])  # fmt: skip
def test_who_takes_a_name_without_waiting(holder: Holder | None, ended: str, takes: bool):
    assert may_take_at_once(holder, OWN, ended) is takes


def a_second(world: Any, tmp_path: Path, directory: str) -> Any:
    """Another machine with the same name and credentials; by the same directory name, a clone."""
    (tmp_path / "second").mkdir(exist_ok=True)
    other = type(world)(tmp_path / "second" / directory, world.now)
    other.root.mkdir()
    other.server, other.api = world.server, world.api
    return other


async def boot(world: Any) -> str:
    return (await world.node()).status.node_info.boot_id


async def reports(world: Any, boot_id: str) -> bool:
    return await boot(world) == boot_id


async def lease(world: Any) -> Lease:
    return await world.api.get(Lease, NODE, NAMESPACE)


def play_two(
    play: Callable[[Any], Any], tmp_path: Path, story: Callable[[Any, Any], Any], clone: bool = True
) -> None:
    async def told(world: Any) -> None:
        other = a_second(world, tmp_path, world.root.name if clone else "another")
        await story(world, other)

    play(told)


async def refused(other: Any, boot_id: str) -> None:
    await other.start(boot_id)
    with pytest.raises(HeldByAnother, match="another node agent works as node"):
        await other.ended()


@pytest.mark.parametrize("clone", [True, False])
def test_a_second_agent_stops_before_it_writes_or_mounts_anything(play: Any, tmp_path: Path, clone: bool):
    async def story(world: Any, other: Any) -> None:
        await world.start()
        await world.create_disk_pod()
        await world.attach()
        await world.until(lambda: world.machine.mounts)
        await refused(other, "boot-of-the-second")
        assert await boot(world) == "boot-1", "a boot that is not true would release volumes"
        assert {request.partition(" ")[0] for request in other.requests} <= {"GET", "POST"}
        assert not [each for each in other.requests if each.startswith("POST") and "/events" not in each]
        assert other.machine.journal == []
        await refused(other, "boot-of-the-second")
        assert [reason for reason, _ in await world.events()].count("NodeNameHeldByAnother") == 1, "told once"
        await asyncio.sleep(60)
        assert (await world.node()).ready == "True"
        assert await world.phase() == "Running"

    play_two(play, tmp_path, story, clone)


def test_the_next_boot_waits_until_the_last_one_has_missed_a_renewal(play: Any, tmp_path: Path):
    async def story(world: Any, other: Any) -> None:
        await world.start()
        await world.until(lambda: lease(world))
        await world.kill()
        began = asyncio.get_running_loop().time()
        await other.start("boot-2")
        await other.until(lambda: reports(world, "boot-2"))
        waited = asyncio.get_running_loop().time() - began
        assert 10 < waited < 20, "a renewal interval is 10 s of virtual time"

    play_two(play, tmp_path, story)


def test_an_agent_whose_name_was_taken_ends_what_it_started(play: Any, tmp_path: Path):
    """It could not renew for long; the other one has its pods now."""

    async def story(world: Any, other: Any) -> None:
        await world.start()
        await world.create_disk_pod()
        await world.attach()
        await world.until(world.phase)
        running = await world.until(
            lambda: [uid for uid, each in world.runtime.sandboxes().items() if each.running]
        )

        def cut(request: Request) -> None:
            raise Unreachable("cut off")

        world.gate = cut
        await other.start("boot-2")
        await other.until(lambda: reports(world, "boot-2"))
        world.gate = lambda request: None
        with pytest.raises(HeldByAnother):
            await world.ended()
        assert not any(world.runtime.sandboxes()[uid].running for uid in running)
        assert await boot(world) == "boot-2"
        await asyncio.sleep(60)
        assert await boot(world) == "boot-2"

    play_two(play, tmp_path, story)


@pytest.mark.parametrize("how", ["restarted", "shut down", "switched off"])
def test_who_certainly_has_the_name_does_not_wait(play: Any, tmp_path: Path, how: str):
    async def story(world: Any) -> None:
        await world.start("boot-1")
        await world.until(lambda: lease(world))
        if how == "shut down":
            world.shutdown.set()
            await world.ended()
            world.shutdown.clear()
            world.boot_id = ""  # nobody says that the former boot is over
        else:
            await world.kill()
        began = asyncio.get_running_loop().time()
        await world.start("boot-1" if how == "restarted" else "boot-2")
        wanted = "boot-1" if how == "restarted" else "boot-2"
        await world.until(lambda: reports(world, wanted))
        assert asyncio.get_running_loop().time() - began < 5

    play(story)


def test_a_restored_backup_of_the_api_server_ends_nothing(play: Any):
    """It says of every node what was true long ago, and nobody renews that."""

    async def story(world: Any) -> None:
        await world.start()
        await world.create_disk_pod()
        await world.attach()
        await world.until(lambda: world.machine.mounts)
        old = Holder("boot-0", "", str(world.root))
        body = {
            "metadata": {"annotations": {HOLDER: msgspec.json.encode(old).decode()}},
            "spec": {"renewTime": "2020-01-01T00:00:00.000000Z"},
        }
        await world.api.patch(Lease, NODE, body, NAMESPACE)
        await asyncio.sleep(120)
        assert (await world.node()).ready == "True"
        assert (await lease(world)).spec.renew_time > "2020-01-02"
        assert world.machine.mounts

    play(story)


def test_a_lease_that_is_deleted_or_annotated_by_others_stays_ours(play: Any):
    async def story(world: Any) -> None:
        await world.start()
        await world.until(lambda: lease(world))
        await world.api.patch(Lease, NODE, {"metadata": {"annotations": {"note": "x"}}}, NAMESPACE)
        await asyncio.sleep(60)
        await world.api.delete(Lease, NODE, NAMESPACE)
        await asyncio.sleep(60)
        renewed = (await lease(world)).spec.renew_time
        await asyncio.sleep(30)
        assert (await lease(world)).spec.renew_time > renewed
        (owner,) = (await lease(world)).metadata.owner_references
        assert owner.uid == (await world.api.get(Node, NODE)).uid

    play(story)


@pytest.mark.parametrize("first", [True, False])
def test_a_kubelet_of_the_same_name_is_noticed(play: Any, first: bool):
    """It renews the Lease and knows no annotation."""

    async def story(world: Any) -> None:
        await world.server.start()

        async def kubelet() -> None:
            number = 0
            while True:
                number += 1
                spec = {
                    "holderIdentity": NODE,
                    "leaseDurationSeconds": 40,
                    "renewTime": f"2030-01-01T01:00:00.{number:06}Z",
                }
                if await world.api.find(Lease, NODE, NAMESPACE) is None:
                    await world.api.create(Lease, {"metadata": {"name": NODE}, "spec": spec}, NAMESPACE)
                else:
                    await world.api.patch(Lease, NODE, {"spec": spec}, NAMESPACE)
                await asyncio.sleep(10)

        if first:
            await world.api.create(Node, {"metadata": {"name": NODE}})
            renewing = asyncio.create_task(kubelet())
            await asyncio.sleep(1)
            await world.start()
        else:
            await world.start()
            await world.until(lambda: lease(world))
            renewing = asyncio.create_task(kubelet())
        with pytest.raises(HeldByAnother):
            await world.ended()
        renewing.cancel()

    play(story)
