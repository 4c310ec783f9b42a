"""The node's side of the handshake, and what becomes of mounts: against the embedded API server, in virtual
time.

The test plays the controller: it creates VolumeAttachments and reports volumes in the Node's status.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from mooring.kube.errors import Unreachable
from mooring.kube.objects import ConfigMap, Node, Pod, VolumeAttachment
from mooring.kube.transport import Request
from mooring.volumes.names import volume_attachment_name

NODE = "node-1"
DISK = "example.com/disk"
VOLUME = f"{DISK}/d1"
ATTACHMENT = volume_attachment_name(DISK, "d1", NODE)
STATUS = f"PATCH /api/v1/nodes/{NODE}/status"
MOUNTED = ["verify /dev/d1", "mount-device /dev/d1", "set-up data", "start-sandbox web-0", "start main 0"]
Play = Callable[[Any], None]


async def running(world: Any, name: str = "web-0") -> bool:
    return await world.phase(name) == "Running"


async def gone(world: Any, name: str = "web-0") -> bool:
    return await world.pod(name) is None


async def in_use(world: Any) -> tuple[str, ...]:
    return (await world.node()).status.volumes_in_use


async def started(world: Any) -> Any:
    """A pod that runs on an attached disk."""
    await world.start()
    pod = await world.create_disk_pod()
    await world.attach()
    await world.until(lambda: running(world))
    return pod


def test_a_disk_is_mounted_after_both_sides_have_published(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.create_disk_pod()
        await world.until(lambda: in_use(world))
        assert world.machine.journal == []
        await world.attach()
        await world.until(lambda: running(world))
        assert world.machine.journal == MOUNTED

    play(story)


def test_the_live_look_comes_after_the_acknowledged_write_and_reads_the_node_first(play: Play) -> None:
    async def story(world: Any) -> None:
        await started(world)
        published = max(n for n, request in enumerate(world.requests) if request == STATUS)
        look = world.requests[published + 1 :]
        node = look.index(f"GET /api/v1/nodes/{NODE}")
        attachment = look.index(f"GET /apis/storage.k8s.io/v1/volumeattachments/{ATTACHMENT}")
        assert node < attachment

    play(story)


def test_every_status_write_carries_uid_resource_version_and_boot_id_and_changes_the_node(play: Play) -> None:
    async def story(world: Any) -> None:
        bodies: list[Any] = []

        def note(request: Request) -> None:
            if f"{request.method} {request.path}" == STATUS:
                bodies.append(json.loads(request.body))

        world.gate = note
        await started(world)
        assert bodies
        assert all(body["metadata"]["uid"] and body["metadata"]["resourceVersion"] for body in bodies)
        assert all(body["status"]["nodeInfo"]["bootID"] == "boot-1" for body in bodies)
        assert all(body["status"]["conditions"][0]["type"] == "Ready" for body in bodies)
        tokens = [body["metadata"]["annotations"]["mooring.dev/status-write"] for body in bodies]
        assert len(set(tokens)) == len(tokens)

    play(story)


async def mark(world: Any) -> None:
    annotations = {"mooring.dev/detaching": "now"}
    await world.api.patch(VolumeAttachment, ATTACHMENT, {"metadata": {"annotations": annotations}})


async def not_attached(world: Any) -> None:
    await world.api.patch(VolumeAttachment, ATTACHMENT, {"status": {"attached": False}}, subresource="status")


async def delete_with_finalizer(world: Any) -> None:
    await world.api.patch(
        VolumeAttachment, ATTACHMENT, {"metadata": {"finalizers": ["mooring.dev/attacher"]}}
    )
    await world.api.delete(VolumeAttachment, ATTACHMENT)


async def delete(world: Any) -> None:
    await world.api.delete(VolumeAttachment, ATTACHMENT)


@pytest.mark.parametrize("obstacle", [mark, not_attached, delete_with_finalizer, delete])
def test_nothing_is_mounted_under_an_attachment_that_is_not_fully_there(play: Play, obstacle: Any) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.attach()
        await obstacle(world)
        await world.create_disk_pod()
        await world.until(lambda: in_use(world))
        await asyncio.sleep(30)
        assert world.machine.journal == []

    play(story)


def test_when_the_mark_is_taken_back_the_mount_goes_on(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.attach()
        await mark(world)
        await world.create_disk_pod()
        await asyncio.sleep(30)
        await world.api.patch(
            VolumeAttachment, ATTACHMENT, {"metadata": {"annotations": {"mooring.dev/detaching": None}}}
        )
        await world.until(lambda: running(world))

    play(story)


def test_nothing_is_mounted_on_the_word_of_a_node_registered_anew_by_somebody_else(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.attach()
        uid = (await world.node()).uid

        async def replaced(request: Request) -> None:
            """Between the acknowledged write and the live look the Node becomes another one."""
            if f"{request.method} {request.path}" == f"GET /api/v1/nodes/{NODE}" and not done:
                done.append(True)
                await world.api.delete(Node, NODE)
                status = {
                    "volumesInUse": [VOLUME],
                    "volumesAttached": [{"name": VOLUME, "devicePath": "/dev/d1"}],
                }
                await world.api.create(Node, {"metadata": {"name": NODE}, "status": status})
                observed.append(list(world.machine.journal))

        done: list[bool] = []
        observed: list[list[str]] = []
        world.gate = replaced
        await world.create_disk_pod()
        await world.until(lambda: done)
        await world.until(lambda: running(world))
        assert observed == [[]]
        assert (await world.node()).uid != uid
        assert await in_use(world) == (VOLUME,)

    play(story)


def test_a_write_that_was_lost_does_not_count_as_published(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.attach()
        lost: list[str] = []

        async def lose(request: Request) -> None:
            if f"{request.method} {request.path}" == STATUS and len(lost) < 3:
                lost.append(request.path)
                raise Unreachable("no answer")

        world.gate = lose
        await world.create_disk_pod()
        await world.until(lambda: running(world))
        assert len(lost) == 3
        assert await in_use(world) == (VOLUME,)

    play(story)


def test_a_mount_that_is_being_made_stays_in_use_when_its_pod_goes(play: Play) -> None:
    async def story(world: Any) -> None:
        world.machine.devices_appear.clear()
        await world.start()
        await world.create_disk_pod()
        await world.attach()
        await asyncio.sleep(5)
        await world.api.delete(Pod, "web-0", "default", grace_period_seconds=0)
        await world.create_disk_pod("web-1", disk="d2")
        await world.until(lambda: both(world))
        await asyncio.sleep(5)
        assert VOLUME in await in_use(world)
        world.machine.devices_appear.set()
        await world.until(lambda: released(world))

    async def both(world: Any) -> bool:
        return f"{DISK}/d2" in await in_use(world)

    async def released(world: Any) -> bool:
        return VOLUME not in await in_use(world)

    play(story)


def test_nothing_is_mounted_while_a_write_that_withdraws_the_volume_is_under_way(play: Play) -> None:
    async def story(world: Any) -> None:
        await started(world)
        held, go = asyncio.Event(), asyncio.Event()

        async def hold(request: Request) -> None:
            if f"{request.method} {request.path}" == STATUS and not held.is_set():
                held.set()
                await go.wait()

        await world.api.delete(Pod, "web-0", "default")
        await world.until(
            lambda: "unmount-device d1" in world.machine.journal or setattr(world, "gate", hold)
        )
        await held.wait()
        before = list(world.machine.journal)
        await world.create_disk_pod("web-1")
        await asyncio.sleep(20)
        assert world.machine.journal == before
        go.set()
        await world.until(lambda: running(world, "web-1"))
        assert await in_use(world) == (VOLUME,)

    play(story)


def test_the_volume_leaves_volumes_in_use_only_after_its_device_is_unmounted(play: Play) -> None:
    async def story(world: Any) -> None:
        await started(world)
        world.machine.failures["unmount-device"] = OSError("target is busy")
        await world.api.delete(Pod, "web-0", "default")
        await world.until(lambda: gone(world))
        await asyncio.sleep(10)
        assert await in_use(world) == (VOLUME,)
        del world.machine.failures["unmount-device"]
        await world.until(lambda: empty(world))
        assert world.machine.journal[-3:] == ["kill", "tear-down data", "unmount-device d1"]
        assert world.machine.mounts == set()

    play(story)


async def empty(world: Any) -> bool:
    return await in_use(world) == ()


def test_a_pod_stays_in_the_api_until_its_volumes_are_unmounted(play: Play) -> None:
    async def story(world: Any) -> None:
        await started(world)
        world.machine.failures["tear-down"] = OSError("target is busy")
        await world.api.delete(Pod, "web-0", "default", grace_period_seconds=2)
        await world.until(lambda: "kill" in world.machine.journal)
        await asyncio.sleep(60)
        assert await world.pod() is not None
        del world.machine.failures["tear-down"]
        await world.until(lambda: gone(world))

    play(story)


def test_two_pods_share_one_device_mount(play: Play) -> None:
    async def story(world: Any) -> None:
        await started(world)
        await world.create_disk_pod("web-1")
        await world.until(lambda: running(world, "web-1"))
        assert world.machine.journal.count("mount-device /dev/d1") == 1
        await world.api.delete(Pod, "web-0", "default")
        await world.until(lambda: gone(world))
        await asyncio.sleep(5)
        assert "unmount-device d1" not in world.machine.journal
        await world.api.delete(Pod, "web-1", "default")
        await world.until(lambda: empty(world))
        assert world.machine.journal.count("unmount-device d1") == 1

    play(story)


async def fails_to_unmount(world: Any) -> None:
    """A disk's last pod has gone, and nobody knows whether its device is still mounted."""
    await started(world)
    world.machine.failures["unmount-device"] = TimeoutError("the driver has not answered")
    await world.api.delete(Pod, "web-0", "default")
    await world.until(lambda: gone(world))
    await asyncio.sleep(5)


async def gets_it_mounted_again(world: Any) -> None:
    await world.until(lambda: running(world, "web-1"))
    assert world.machine.journal.count("mount-device /dev/d1") == 2


def test_a_device_whose_unmount_failed_is_mounted_again_before_a_pod_gets_it(play: Play) -> None:
    async def story(world: Any) -> None:
        await fails_to_unmount(world)
        await world.create_disk_pod("web-1")
        await gets_it_mounted_again(world)

    play(story)


def test_a_restarted_agent_does_not_trust_a_mount_whose_end_had_begun(play: Play) -> None:
    async def story(world: Any) -> None:
        await fails_to_unmount(world)
        await world.kill()
        await world.create_disk_pod("web-1")
        await world.start()
        await gets_it_mounted_again(world)

    play(story)


def test_a_mount_that_fails_is_told_and_tried_again(play: Play) -> None:
    async def story(world: Any) -> None:
        world.machine.failures["mount-device"] = OSError("it holds a file system of type xfs")
        await world.start()
        await world.create_disk_pod()
        await world.attach()
        told = await world.until(lambda: failed_mount(world))
        assert "volume data" in told
        assert "it holds a file system of type xfs" in told
        assert "ContainerCreating" in (await world.pod()).status.container_statuses[0].state.waiting.reason
        del world.machine.failures["mount-device"]
        await world.until(lambda: running(world))

    play(story)


async def failed_mount(world: Any) -> str | None:
    return next((message for reason, message in await world.events() if reason == "FailedMount"), None)


def test_a_pod_that_goes_before_its_disk_was_attached_leaves_nothing(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.create_disk_pod()
        await world.until(lambda: in_use(world))
        await world.api.delete(Pod, "web-0", "default")
        await world.until(lambda: gone(world))
        await world.until(lambda: empty(world))
        assert world.machine.journal == []

    play(story)


def test_waiting_for_an_attach_is_told_after_two_minutes_and_not_before(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.create_disk_pod()
        await asyncio.sleep(100)
        assert await failed_mount(world) is None
        await asyncio.sleep(60)
        told = await failed_mount(world)
        assert told is not None
        assert "not attached to this node yet" in told

    play(story)


def test_whenever_the_wait_began_it_is_told_once_in_two_minutes(play: Play) -> None:
    """A timer that by rounding is due a moment before its time must not fire again and again at that
    moment."""

    async def story(world: Any) -> None:
        await world.start()
        for number in range(40):
            await asyncio.sleep(number / 7 + 1 / 3)
            await world.create_disk_pod(f"web-{number}", disk=f"d{number}")
        for _ in range(3):
            begun = len(await world.events())
            await asyncio.sleep(123)
            told = [reason for reason, _ in (await world.events())[begun:] if reason == "FailedMount"]
            assert len(told) <= 40

    play(story)


def test_a_restarted_agent_registers_with_what_is_mounted_and_disturbs_nothing(play: Play) -> None:
    async def story(world: Any) -> None:
        await started(world)
        before = list(world.machine.journal)
        await world.kill()
        await world.api.delete(Node, NODE)
        await world.start()
        assert await in_use(world) == (VOLUME,)
        assert "POST /api/v1/nodes" in world.requests
        await asyncio.sleep(60)
        assert world.machine.journal == before
        assert await in_use(world) == (VOLUME,)

    play(story)


def test_a_restarted_agent_unmounts_nothing_before_it_knows_its_pods(play: Play) -> None:
    async def story(world: Any) -> None:
        await started(world)
        before = list(world.machine.journal)
        await world.kill()

        async def no_pods(request: Request) -> None:
            if request.path == "/api/v1/pods":
                raise Unreachable("no answer")

        world.gate = no_pods
        await world.start()
        await asyncio.sleep(120)
        assert world.machine.journal == before

    play(story)


def test_a_restarted_agent_whose_claim_reads_fail_leaves_running_pods_alone(play: Play) -> None:
    async def story(world: Any) -> None:
        await started(world)
        before = list(world.machine.journal)
        await world.kill()
        world.gate = unreachable_attachments
        await world.start()
        await asyncio.sleep(120)
        assert world.machine.journal == before

    async def unreachable_attachments(request: Request) -> None:
        if "volumeattachments" in request.path:
            raise Unreachable("no answer")

    play(story)


def test_pods_that_went_while_no_agent_was_there_are_cleaned_up(play: Play) -> None:
    async def story(world: Any) -> None:
        await started(world)
        await world.kill()
        await world.api.delete(Pod, "web-0", "default", grace_period_seconds=0)
        await world.start()
        await world.until(lambda: empty(world))
        assert world.machine.journal[-3:] == ["kill", "tear-down data", "unmount-device d1"]
        assert world.machine.mounts == set()
        assert list((world.root / "pods").glob("*")) == []
        assert list((world.root / "volumes").glob("*")) == []

    play(story)


def test_an_attachment_that_is_taken_away_ends_the_pods_and_the_mount(play: Play) -> None:
    async def story(world: Any) -> None:
        await started(world)
        await world.detach()
        await world.until(lambda: not world.machine.mounts)
        journal = world.machine.journal[len(MOUNTED) :]
        assert journal[:3] == ["kill", "tear-down data", "unmount-device d1"]
        assert any(reason == "VolumeLost" for reason, _ in await world.events())
        await world.attach()
        await world.until(lambda: "start main 1" in world.machine.journal)
        await world.until(lambda: running(world))

    play(story)


def test_an_attachment_that_was_replaced_while_no_agent_was_there_ends_the_mount(play: Play) -> None:
    async def story(world: Any) -> None:
        await started(world)
        await world.kill()
        await world.detach()
        await world.attach()
        await world.start()
        await world.until(lambda: "start main 1" in world.machine.journal)
        journal = world.machine.journal[len(MOUNTED) :]
        assert journal[:4] == ["kill", "tear-down data", "unmount-device d1", "verify /dev/d1"]

    play(story)


def test_an_unreport_that_is_taken_back_disturbs_nothing(play: Play) -> None:
    async def story(world: Any) -> None:
        await started(world)
        before = list(world.machine.journal)
        await world.report([])
        await asyncio.sleep(1)
        await world.report(["d1"])
        await asyncio.sleep(30)
        assert world.machine.journal == before

    play(story)


def test_a_claim_that_does_not_exist_is_named_and_waited_for(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}
        await world.create_pod(volumes=[volume])
        told = await world.until(lambda: failed_mount(world))
        assert "PersistentVolumeClaim default/data-web-0" in told
        assert "does not exist" in told

    play(story)


def test_a_volume_that_no_plugin_knows_is_told(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.create_pod(volumes=[{"name": "data", "hostPath": {"path": "/x"}}])
        assert "no volume plugin matched" in await world.until(lambda: failed_mount(world))

    play(story)


def test_a_config_map_that_changes_is_set_up_once_more(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.api.create(
            ConfigMap, {"metadata": {"name": "settings"}, "data": {"mode": "slow"}}, "default"
        )
        await world.create_pod(volumes=[{"name": "conf", "configMap": {"name": "settings"}}])
        await world.until(lambda: running(world))
        await asyncio.sleep(5)
        before = world.machine.journal.count("set-up conf")
        await world.api.patch(ConfigMap, "settings", {"data": {"mode": "fast"}}, "default")
        await world.until(lambda: world.machine.journal.count("set-up conf") == before + 1)
        assert "kill" not in world.machine.journal

    play(story)


def test_a_shutdown_unmounts_everything_and_says_so(play: Play) -> None:
    async def story(world: Any) -> None:
        await started(world)
        world.shutdown.set()
        await world.ended()
        node = await world.node()
        assert node.ready == "False"
        assert node.status.volumes_in_use == ()
        assert world.machine.mounts == set()

    play(story)


def test_mounts_without_a_record_count_as_in_use_and_are_taken_down(play: Play) -> None:
    async def story(world: Any) -> None:
        path = world.root / "plugins" / "example.com~disk" / "mounts" / "d9"
        world.machine.mounts.add(str(path))
        orphan = world.root / "pods" / "some-uid" / "volumes" / "example.com~local" / "scratch"
        orphan.mkdir(parents=True)
        created: list[Any] = []

        def note(sent: Any) -> None:
            if sent.method == "POST" and sent.path.endswith("/nodes"):
                created.append(json.loads(sent.body))

        world.gate = note
        await world.start()
        assert created[0]["status"]["volumesInUse"] == [f"{DISK}/d9"]
        await world.until(lambda: empty(world))
        assert world.machine.journal.count("unmount-device d9") == 1
        await world.until(lambda: not list((world.root / "pods").glob("*")))

    play(story)


def test_a_volume_that_shows_its_pod_follows_the_pods_labels(play: Play) -> None:
    async def story(world: Any) -> None:
        await world.start()
        await world.create_pod(volumes=[{"name": "cache", "emptyDir": {}}])
        await world.until(lambda: running(world))
        set_up = world.machine.journal.count("set-up cache")
        await world.api.patch(Pod, "web-0", {"metadata": {"labels": {"app": "new"}}}, "default")
        await world.until(lambda: world.machine.journal.count("set-up cache") == set_up + 1)
        await world.api.patch(Pod, "web-0", {"metadata": {"finalizers": ["example.com/x"]}}, "default")
        await asyncio.sleep(5)
        assert world.machine.journal.count("set-up cache") == set_up + 1

    play(story)
