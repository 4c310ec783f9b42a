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


def a_second(stage: Any, tmp_path: Path, directory: str) -> Any:
    """Another machine with the same name and credentials; by the same directory name, a clone."""
    (tmp_path / "second").mkdir(exist_ok=True)
    other = type(stage)(tmp_path / "second" / directory, stage.now)
    other.root.mkdir()
    other.server, other.api = stage.server, stage.api
    return other


async def boot(stage: Any) -> str:
    return (await stage.node()).status.node_info.boot_id


async def reports(stage: Any, boot_id: str) -> bool:
    return await boot(stage) == boot_id


async def lease(stage: Any) -> Lease:
    return await stage.api.get(Lease, NODE, NAMESPACE)


def play_two(
    play: Callable[[Any], Any], tmp_path: Path, story: Callable[[Any, Any], Any], clone: bool = True
) -> None:
    async def with_both(stage: Any) -> None:
        other = a_second(stage, tmp_path, stage.root.name if clone else "another")
        await story(stage, other)

    play(with_both)


async def refused(other: Any, boot_id: str) -> None:
    await other.start(boot_id)
    with pytest.raises(HeldByAnother, match="another node agent works as node"):
        await other.ended()


@pytest.mark.parametrize("clone", [True, False])
def test_a_second_agent_stops_before_it_writes_or_mounts_anything(play: Any, tmp_path: Path, clone: bool):
    async def story(stage: Any, other: Any) -> None:
        await stage.start()
        await stage.create_disk_pod()
        await stage.attach()
        await stage.until(lambda: stage.machine.mounts)
        await refused(other, "boot-of-the-second")
        assert await boot(stage) == "boot-1", "a boot that is not true would release volumes"
        assert {request.partition(" ")[0] for request in other.requests} <= {"GET", "POST"}
        assert not [each for each in other.requests if each.startswith("POST") and "/events" not in each]
        assert other.machine.journal == []
        await refused(other, "boot-of-the-second")
        assert [reason for reason, _ in await stage.events()].count("NodeNameHeldByAnother") == 1, "told once"
        await asyncio.sleep(60)
        assert (await stage.node()).ready == "True"
        assert await stage.phase() == "Running"

    play_two(play, tmp_path, story, clone)


def test_the_next_boot_waits_until_the_last_one_has_missed_a_renewal(play: Any, tmp_path: Path):
    async def story(stage: Any, other: Any) -> None:
        await stage.start()
        await stage.until(lambda: lease(stage))
        await stage.kill()
        began = asyncio.get_running_loop().time()
        await other.start("boot-2")
        await other.until(lambda: reports(stage, "boot-2"))
        waited = asyncio.get_running_loop().time() - began
        assert 10 < waited < 20, "a renewal interval is 10 s of virtual time"

    play_two(play, tmp_path, story)


@pytest.mark.parametrize(("renewals", "takes"), [(1, True), (2, False)])
def test_a_renewal_that_comes_in_late_is_no_sign_of_an_agent_and_a_second_one_is(
    play: Any, tmp_path: Path, renewals: int, takes: bool
):
    async def come_in(stage: Any) -> None:
        for number in range(renewals):
            await asyncio.sleep(5)
            spec = {"renewTime": f"2029-01-01T00:00:0{number}.000000Z"}
            await stage.api.patch(Lease, NODE, {"spec": spec}, NAMESPACE)

    async def story(stage: Any, other: Any) -> None:
        await stage.start()
        await stage.until(lambda: lease(stage))
        await stage.kill()
        coming = asyncio.create_task(come_in(stage))
        await other.start("boot-2")
        if takes:
            await other.until(lambda: reports(stage, "boot-2"))
        else:
            with pytest.raises(HeldByAnother):
                await other.ended()
        await coming

    play_two(play, tmp_path, story)


def test_an_agent_whose_name_was_taken_ends_what_it_started(play: Any, tmp_path: Path):
    """It could not renew for long; the other one has its pods now."""

    async def story(stage: Any, other: Any) -> None:
        await stage.start()
        await stage.create_disk_pod()
        await stage.attach()
        await stage.until(stage.phase)
        running = await stage.until(
            lambda: [uid for uid, each in stage.runtime.sandboxes().items() if each.running]
        )

        def cut(request: Request) -> None:
            raise Unreachable("cut off")

        stage.gate = cut
        await other.start("boot-2")
        await other.until(lambda: reports(stage, "boot-2"))
        stage.gate = lambda request: None
        with pytest.raises(HeldByAnother):
            await stage.ended()
        assert not any(stage.runtime.sandboxes()[uid].running for uid in running)
        assert await boot(stage) == "boot-2"
        await asyncio.sleep(60)
        assert await boot(stage) == "boot-2"

    play_two(play, tmp_path, story)


@pytest.mark.parametrize("how", ["restarted", "shut down", "switched off"])
def test_who_certainly_has_the_name_does_not_wait(play: Any, tmp_path: Path, how: str):
    async def story(stage: Any) -> None:
        await stage.start("boot-1")
        await stage.until(lambda: lease(stage))
        if how == "shut down":
            stage.shutdown.set()
            await stage.ended()
            stage.shutdown.clear()
            stage.boot_id = ""  # the agent is not told that the former boot is over
        else:
            await stage.kill()
        began = asyncio.get_running_loop().time()
        await stage.start("boot-1" if how == "restarted" else "boot-2")
        wanted = "boot-1" if how == "restarted" else "boot-2"
        await stage.until(lambda: reports(stage, wanted))
        assert asyncio.get_running_loop().time() - began < 5

    play(story)


def test_a_restored_backup_of_the_api_server_ends_nothing(play: Any):
    """It has an old lease of every node, which no agent renews."""

    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_disk_pod()
        await stage.attach()
        await stage.until(lambda: stage.machine.mounts)
        old = Holder("boot-0", "", str(stage.root))
        body = {
            "metadata": {"annotations": {HOLDER: msgspec.json.encode(old).decode()}},
            "spec": {"renewTime": "2020-01-01T00:00:00.000000Z"},
        }
        await stage.api.patch(Lease, NODE, body, NAMESPACE)
        await asyncio.sleep(120)
        assert (await stage.node()).ready == "True"
        assert (await lease(stage)).spec.renew_time > "2020-01-02"
        assert stage.machine.mounts

    play(story)


def test_a_lease_that_is_deleted_or_annotated_by_others_stays_ours(play: Any):
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.until(lambda: lease(stage))
        await stage.api.patch(Lease, NODE, {"metadata": {"annotations": {"note": "x"}}}, NAMESPACE)
        await asyncio.sleep(60)
        await stage.api.delete(Lease, NODE, NAMESPACE)
        await asyncio.sleep(60)
        renewed = (await lease(stage)).spec.renew_time
        await asyncio.sleep(30)
        assert (await lease(stage)).spec.renew_time > renewed
        (owner,) = (await lease(stage)).metadata.owner_references
        assert owner.uid == (await stage.api.get(Node, NODE)).uid

    play(story)


@pytest.mark.parametrize("first", [True, False])
def test_a_kubelet_of_the_same_name_is_noticed(play: Any, first: bool):
    """It renews the Lease and knows no annotation."""

    async def story(stage: Any) -> None:
        await stage.server.start()

        async def kubelet() -> None:
            number = 0
            while True:
                number += 1
                spec = {
                    "holderIdentity": NODE,
                    "leaseDurationSeconds": 40,
                    "renewTime": f"2030-01-01T01:00:00.{number:06}Z",
                }
                if await stage.api.find(Lease, NODE, NAMESPACE) is None:
                    await stage.api.create(Lease, {"metadata": {"name": NODE}, "spec": spec}, NAMESPACE)
                else:
                    await stage.api.patch(Lease, NODE, {"spec": spec}, NAMESPACE)
                await asyncio.sleep(10)

        if first:
            await stage.api.create(Node, {"metadata": {"name": NODE}})
            renewing = asyncio.create_task(kubelet())
            await asyncio.sleep(1)
            await stage.start()
        else:
            await stage.start()
            await stage.until(lambda: lease(stage))
            renewing = asyncio.create_task(kubelet())
        with pytest.raises(HeldByAnother):
            await stage.ended()
        renewing.cancel()

    play(story)
