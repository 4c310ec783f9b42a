"""What the node agent asks plugins before and after it uses them: in virtual time, with played mounts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from mooring.kube.errors import Unreachable
from mooring.kube.objects import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
)
from mooring.volumes.errors import SizeInfeasible

Play = Callable[[Any], None]
EMPTY_DIR = {"name": "cache", "emptyDir": {}}
DISK = "example.com/disk"


def test_a_node_that_lacks_what_a_volume_needs_says_so_and_tries_nothing(
    play: Play, monkeypatch: pytest.MonkeyPatch, played: Any
) -> None:
    async def can_mount(self: Any) -> None:
        raise FileNotFoundError("mkfs.xfs is not installed")

    monkeypatch.setattr(played.PlayedMounter, "can_mount", can_mount)

    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_pod(volumes=[EMPTY_DIR])

        async def is_reported() -> bool:
            return any(
                reason == "FailedMount" and "this node lacks" in message and "mkfs.xfs" in message
                for reason, message in await stage.events()
            )

        await stage.until(is_reported)
        assert stage.machine.journal == []

    play(story)


async def bound_volume(stage: Any, **spec: Any) -> None:
    """Claim c and volume pv of disk d1, bound to each other."""
    mode = {"volumeMode": spec["volumeMode"]} if "volumeMode" in spec else {}
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **mode}
    made = await stage.api.create(
        PersistentVolumeClaim,
        {"metadata": {"name": "c"}, "spec": {**claim, "volumeName": "pv", "storageClassName": ""}},
        "default",
    )
    await stage.api.patch(
        PersistentVolumeClaim, "c", {"status": {"phase": "Bound"}}, "default", subresource="status"
    )
    whole = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "flexVolume": {"driver": DISK, "options": {"disk": "d1"}},
        "claimRef": {"namespace": "default", "name": "c", "uid": made.uid},
        **spec,
    }
    await stage.api.create(PersistentVolume, {"metadata": {"name": "pv"}, "spec": whole})


def test_mount_options_that_a_plugin_has_not_are_refused(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await bound_volume(stage, mountOptions=["noatime"])
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
        await stage.create_pod(volumes=[volume])
        await stage.attach()

        async def is_reported() -> bool:
            return any(
                "cannot honour the mount options noatime" in message for _, message in await stage.events()
            )

        await stage.until(is_reported)
        assert not any(step.startswith("mount-device") for step in stage.machine.journal)

    play(story)


# --- raw devices


def test_a_plugin_without_raw_devices_says_so(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await bound_volume(stage, volumeMode="Block")
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
        container = {"volumeDevices": [{"name": "data", "devicePath": "/dev/xvda"}]}
        await stage.create_pod(volumes=[volume], container=container)
        await stage.attach()

        async def is_reported() -> bool:
            return any("cannot give pods raw devices" in message for _, message in await stage.events())

        await stage.until(is_reported)

    play(story)


# --- growing


async def claim_status(stage: Any) -> Any:
    return (await stage.api.get(PersistentVolumeClaim, "c", "default")).status


async def asked_to_grow(stage: Any) -> None:
    """As the resizer does when the storage has grown."""
    await stage.api.patch(PersistentVolume, "pv", {"spec": {"capacity": {"storage": "2Gi"}}})
    pending = {"conditions": [{"type": "FileSystemResizePending", "status": "True"}]}
    await stage.api.patch(PersistentVolumeClaim, "c", {"status": pending}, "default", subresource="status")


async def grown(stage: Any) -> bool:
    status = await claim_status(stage)
    return status.capacity.get("storage") == "2Gi" and not status.conditions


@pytest.mark.parametrize("mounted", [True, False])
def test_a_file_system_grows_when_its_claim_asks_for_it_mounted_or_not(play: Play, mounted: bool) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await bound_volume(stage)
        if not mounted:
            await asked_to_grow(stage)
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
        await stage.create_pod(volumes=[volume])
        await stage.attach()

        async def running() -> bool:
            return await stage.phase() == "Running"

        await stage.until(running)
        if mounted:
            assert "grow d1" not in stage.machine.journal
            await asked_to_grow(stage)
        await stage.until(lambda: grown(stage))
        assert stage.machine.journal.count("grow d1") == 1
        await stage.until(lambda: is_reported(stage))

    play(story)


async def is_reported(stage: Any) -> bool:
    return "FileSystemResizeSuccessful" in [reason for reason, _ in await stage.events()]


def test_a_file_system_that_does_not_grow_is_told_and_tried_again(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await bound_volume(stage)
        stage.machine.failures["grow"] = OSError("resize2fs is not happy")
        await asked_to_grow(stage)
        await stage.create_pod(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}])
        await stage.attach()

        async def failed() -> bool:
            return any("resize2fs is not happy" in message for _, message in await stage.events())

        await stage.until(failed)
        assert await stage.phase() == "Running"
        assert not await grown(stage)
        stage.machine.failures.clear()
        await stage.until(lambda: grown(stage))

    play(story)


def test_a_size_that_the_node_can_never_give_is_told_in_the_claim_until_it_grows(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await bound_volume(stage)
        stage.machine.failures["grow"] = SizeInfeasible("at most 1 GiB here")
        await asked_to_grow(stage)
        await stage.create_pod(volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}])
        await stage.attach()

        async def told() -> bool:
            return (await claim_status(stage)).allocated_resource_statuses == {
                "storage": "NodeResizeInfeasible"
            }

        await stage.until(told)
        status = await claim_status(stage)
        assert [each.type for each in status.conditions] == ["FileSystemResizePending", "NodeResizeError"]
        assert "at most 1 GiB here" in status.conditions[1].message
        stage.machine.failures.clear()
        await stage.until(lambda: grown(stage))
        assert not (await claim_status(stage)).allocated_resource_statuses

    play(story)


# --- limits


def test_a_pod_that_puts_too_much_into_a_volume_is_evicted(
    play: Play, monkeypatch: pytest.MonkeyPatch, played: Any
) -> None:
    full: list[str] = []

    async def limit_exceeded(self: Any) -> str | None:
        return full[0] if full else None

    monkeypatch.setattr(played.PlayedMounter, "limit_exceeded", limit_exceeded)

    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_pod(volumes=[EMPTY_DIR])

        async def phase(wanted: str) -> bool:
            return await stage.phase() == wanted

        await stage.until(lambda: phase("Running"))
        full.append("too much")
        await stage.until(lambda: phase("Failed"))
        pod = await stage.pod()
        assert (pod.status.reason, pod.status.message) == ("Evicted", "too much")
        await stage.until(lambda: "tear-down cache" in stage.machine.journal)
        assert await stage.phase() == "Failed"
        assert ("Evicted", "too much") in await stage.events()

    play(story)


def test_a_pod_whose_eviction_was_not_written_is_evicted_again_by_the_next_agent(
    play: Play, monkeypatch: pytest.MonkeyPatch, played: Any
) -> None:
    """Found by the simulation: its volume was emptied, so the next agent ran it on, with nothing in it."""

    async def limit_exceeded(self: Any) -> str | None:
        return "too much" if "tear-down cache" not in self._machine.journal else None

    async def story(stage: Any) -> None:
        def lost(request: Any) -> None:
            if request.method == "PATCH" and "/pods/" in request.path:
                raise Unreachable("no answer")

        async def failed() -> bool:
            return await stage.phase() == "Failed"

        await stage.start()
        await stage.create_pod(volumes=[EMPTY_DIR])
        await stage.until(lambda: "start main 0" in stage.machine.journal)
        monkeypatch.setattr(played.PlayedMounter, "limit_exceeded", limit_exceeded)
        stage.gate = lost
        await stage.until(lambda: "kill" in stage.machine.journal)
        await asyncio.sleep(60)
        assert "tear-down cache" not in stage.machine.journal
        await stage.kill()
        stage.gate = lambda request: None
        await stage.start()
        await stage.until(failed)
        await stage.until(lambda: "tear-down cache" in stage.machine.journal)

    play(story)


@pytest.mark.parametrize("leaving", [False, True])
def test_a_volume_for_one_pod_is_given_to_no_second_one_while_the_first_may_have_it(
    play: Play, leaving: bool
) -> None:
    """Two of them at once, too: neither waits for the other's operation."""

    async def story(stage: Any) -> None:
        await stage.start()
        await bound_volume(stage, accessModes=["ReadWriteOncePod"])
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "c"}}
        container = {"volumeMounts": [{"name": "data", "mountPath": "/data"}]}
        pods = [await stage.create_pod(name, volumes=[volume], container=container) for name in ("a", "b")]
        await stage.attach()

        async def said() -> bool:
            return any("ReadWriteOncePod" in message for _, message in await stage.events())

        await stage.until(said)
        await asyncio.sleep(300)
        (first,) = [each for each in pods if await stage.phase(each.name) == "Running"]
        (second,) = [each for each in pods if each is not first]
        assert stage.machine.journal.count("set-up pv") == 1
        if leaving:
            stage.machine.failures[f"tear-down {first.uid}"] = OSError("target is busy")
        await stage.api.delete(Pod, first.name, "default", grace_period_seconds=0)
        await asyncio.sleep(300)
        assert (await stage.phase(second.name) == "Running") is not leaving
        stage.machine.failures.clear()

        async def runs() -> bool:
            return await stage.phase(second.name) == "Running"

        await stage.until(runs)

    play(story)
