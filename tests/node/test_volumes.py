"""The node's side of the handshake, and what becomes of mounts: against the embedded API server, in virtual
time.

The test plays the controller: it creates VolumeAttachments and reports volumes in the Node's status.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from signal import SIGTERM
from typing import Any

import pytest

from mooring.kube.errors import Unreachable
from mooring.kube.objects import ConfigMap, Node, Pod, VolumeAttachment
from mooring.kube.transport import Request
from mooring.node.volumes.volume import WAITING
from mooring.volumes.errors import VolumeError
from mooring.volumes.names import volume_attachment_name

NODE = "node-1"
DISK = "example.com/disk"
VOLUME = f"{DISK}/d1"
ATTACHMENT = volume_attachment_name(DISK, "d1", NODE)
STATUS = f"PATCH /api/v1/nodes/{NODE}/status"
MOUNTED = ["verify /dev/d1", "mount-device /dev/d1", "set-up data", "start-sandbox web-0", "start main 0"]
Play = Callable[[Any], None]


async def running(stage: Any, name: str = "web-0") -> bool:
    return await stage.phase(name) == "Running"


async def gone(stage: Any, name: str = "web-0") -> bool:
    return await stage.pod(name) is None


async def told(stage: Any, reason: str) -> bool:
    return any(each == reason for each, _ in await stage.events())


async def in_use(stage: Any) -> tuple[str, ...]:
    return (await stage.node()).status.volumes_in_use


async def started(stage: Any) -> Any:
    """A pod that runs on an attached disk."""
    await stage.start()
    pod = await stage.create_disk_pod()
    await stage.attach()
    await stage.until(lambda: running(stage))
    return pod


def test_a_disk_is_mounted_after_both_sides_have_published(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_disk_pod()
        await stage.until(lambda: in_use(stage))
        assert stage.machine.journal == []
        await stage.attach()
        await stage.until(lambda: running(stage))
        assert stage.machine.journal == MOUNTED

    play(story)


def test_the_live_look_comes_after_the_acknowledged_write_and_reads_the_node_first(play: Play) -> None:
    async def story(stage: Any) -> None:
        await started(stage)
        published = max(n for n, request in enumerate(stage.requests) if request == STATUS)
        look = stage.requests[published + 1 :]
        node = look.index(f"GET /api/v1/nodes/{NODE}")
        attachment = look.index(f"GET /apis/storage.k8s.io/v1/volumeattachments/{ATTACHMENT}")
        assert node < attachment

    play(story)


def test_every_status_write_carries_uid_resource_version_and_boot_id_and_changes_the_node(play: Play) -> None:
    async def story(stage: Any) -> None:
        bodies: list[Any] = []

        def note(request: Request) -> None:
            if f"{request.method} {request.path}" == STATUS:
                bodies.append(json.loads(request.body))

        stage.gate = note
        await started(stage)
        assert bodies
        assert all(body["metadata"]["uid"] and body["metadata"]["resourceVersion"] for body in bodies)
        assert all(body["status"]["nodeInfo"]["bootID"] == "boot-1" for body in bodies)
        assert all(body["status"]["conditions"][0]["type"] == "Ready" for body in bodies)
        tokens = [body["metadata"]["annotations"]["mooring.dev/status-write"] for body in bodies]
        assert len(set(tokens)) == len(tokens)

    play(story)


async def mark(stage: Any) -> None:
    annotations = {"mooring.dev/detaching": "now"}
    await stage.api.patch(VolumeAttachment, ATTACHMENT, {"metadata": {"annotations": annotations}})


async def not_attached(stage: Any) -> None:
    await stage.api.patch(VolumeAttachment, ATTACHMENT, {"status": {"attached": False}}, subresource="status")


async def delete_with_finalizer(stage: Any) -> None:
    await stage.api.patch(
        VolumeAttachment, ATTACHMENT, {"metadata": {"finalizers": ["mooring.dev/attacher"]}}
    )
    await stage.api.delete(VolumeAttachment, ATTACHMENT)


async def delete(stage: Any) -> None:
    await stage.api.delete(VolumeAttachment, ATTACHMENT)


@pytest.mark.parametrize("obstacle", [mark, not_attached, delete_with_finalizer, delete])
def test_nothing_is_mounted_under_an_attachment_that_is_not_fully_there(play: Play, obstacle: Any) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.attach()
        await obstacle(stage)
        await stage.create_disk_pod()
        await stage.until(lambda: in_use(stage))
        await asyncio.sleep(30)
        assert stage.machine.journal == []

    play(story)


def test_when_the_mark_is_taken_back_the_mount_goes_on(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.attach()
        await mark(stage)
        await stage.create_disk_pod()
        await asyncio.sleep(30)
        await stage.api.patch(
            VolumeAttachment, ATTACHMENT, {"metadata": {"annotations": {"mooring.dev/detaching": None}}}
        )
        await stage.until(lambda: running(stage))

    play(story)


def test_nothing_is_mounted_on_the_word_of_a_node_registered_anew_by_somebody_else(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.attach()
        uid = (await stage.node()).uid

        async def replaced(request: Request) -> None:
            """Between the acknowledged write and the live look the Node becomes another one."""
            if f"{request.method} {request.path}" == f"GET /api/v1/nodes/{NODE}" and not done:
                done.append(True)
                await stage.api.delete(Node, NODE)
                status = {
                    "volumesInUse": [VOLUME],
                    "volumesAttached": [{"name": VOLUME, "devicePath": "/dev/d1"}],
                }
                await stage.api.create(Node, {"metadata": {"name": NODE}, "status": status})
                observed.append(list(stage.machine.journal))

        done: list[bool] = []
        observed: list[list[str]] = []
        stage.gate = replaced
        await stage.create_disk_pod()
        await stage.until(lambda: done)
        await stage.until(lambda: running(stage))
        assert observed == [[]]
        assert (await stage.node()).uid != uid
        assert await in_use(stage) == (VOLUME,)

    play(story)


def test_a_write_that_was_lost_does_not_count_as_published(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.attach()
        lost: list[str] = []

        async def lose(request: Request) -> None:
            if f"{request.method} {request.path}" == STATUS and len(lost) < 3:
                lost.append(request.path)
                raise Unreachable("no answer")

        stage.gate = lose
        await stage.create_disk_pod()
        await stage.until(lambda: running(stage))
        assert len(lost) == 3
        assert await in_use(stage) == (VOLUME,)

    play(story)


def test_a_mount_that_is_being_made_stays_in_use_when_its_pod_goes(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.machine.devices_appear.clear()
        await stage.start()
        await stage.create_disk_pod()
        await stage.attach()
        await asyncio.sleep(5)
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=0)
        await stage.create_disk_pod("web-1", disk="d2")
        await stage.until(lambda: both(stage))
        await asyncio.sleep(5)
        assert VOLUME in await in_use(stage)
        stage.machine.devices_appear.set()
        await stage.until(lambda: released(stage))

    async def both(stage: Any) -> bool:
        return f"{DISK}/d2" in await in_use(stage)

    async def released(stage: Any) -> bool:
        return VOLUME not in await in_use(stage)

    play(story)


def test_nothing_is_mounted_while_a_write_that_withdraws_the_volume_is_under_way(play: Play) -> None:
    async def story(stage: Any) -> None:
        await started(stage)
        held, go = asyncio.Event(), asyncio.Event()

        async def hold(request: Request) -> None:
            if f"{request.method} {request.path}" == STATUS and not held.is_set():
                held.set()
                await go.wait()

        await stage.api.delete(Pod, "web-0", "default")
        await stage.until(
            lambda: "unmount-device d1" in stage.machine.journal or setattr(stage, "gate", hold)
        )
        await held.wait()
        before = list(stage.machine.journal)
        await stage.create_disk_pod("web-1")
        await asyncio.sleep(20)
        assert stage.machine.journal == before
        go.set()
        await stage.until(lambda: running(stage, "web-1"))
        assert await in_use(stage) == (VOLUME,)

    play(story)


def test_the_volume_leaves_volumes_in_use_only_after_its_device_is_unmounted(play: Play) -> None:
    async def story(stage: Any) -> None:
        await started(stage)
        stage.machine.failures["unmount-device"] = OSError("target is busy")
        await stage.api.delete(Pod, "web-0", "default")
        await stage.until(lambda: gone(stage))
        await asyncio.sleep(10)
        assert await in_use(stage) == (VOLUME,)
        del stage.machine.failures["unmount-device"]
        await stage.until(lambda: empty(stage))
        assert stage.machine.journal[-3:] == ["kill", "tear-down data", "unmount-device d1"]
        assert stage.machine.mounts == set()

    play(story)


async def empty(stage: Any) -> bool:
    return await in_use(stage) == ()


def test_a_pod_stays_in_the_api_until_its_volumes_are_unmounted(play: Play) -> None:
    async def story(stage: Any) -> None:
        await started(stage)
        stage.machine.failures["tear-down"] = OSError("target is busy")
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=2)
        await stage.until(lambda: "kill" in stage.machine.journal)
        await asyncio.sleep(60)
        assert await stage.pod() is not None
        del stage.machine.failures["tear-down"]
        await stage.until(lambda: gone(stage))

    play(story)


def test_two_pods_share_one_device_mount(play: Play) -> None:
    async def story(stage: Any) -> None:
        await started(stage)
        await stage.create_disk_pod("web-1")
        await stage.until(lambda: running(stage, "web-1"))
        assert stage.machine.journal.count("mount-device /dev/d1") == 1
        await stage.api.delete(Pod, "web-0", "default")
        await stage.until(lambda: gone(stage))
        await asyncio.sleep(5)
        assert "unmount-device d1" not in stage.machine.journal
        await stage.api.delete(Pod, "web-1", "default")
        await stage.until(lambda: empty(stage))
        assert stage.machine.journal.count("unmount-device d1") == 1

    play(story)


def test_a_pod_whose_mount_hangs_keeps_no_other_from_the_volume(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        hanging = await stage.create_disk_pod()
        stage.machine.hangs[hanging.uid] = asyncio.Event()
        await stage.attach()
        await asyncio.sleep(5)
        other = await stage.create_disk_pod("web-1")
        await stage.until(lambda: running(stage, "web-1"))
        assert not await running(stage)

        # It goes while its mount hangs: the device waits for that, too.
        for pod in (hanging, other):
            await stage.api.delete(Pod, pod.name, "default", grace_period_seconds=0)
        await stage.until(lambda: "tear-down data" in stage.machine.journal)
        await asyncio.sleep(300)
        assert "unmount-device d1" not in stage.machine.journal
        assert await in_use(stage) == (VOLUME,)
        stage.machine.hangs[hanging.uid].set()
        await stage.until(lambda: empty(stage))
        assert stage.machine.mounts == set()

    play(story)


def test_a_pod_that_cannot_be_unmounted_keeps_no_other_from_the_volume(play: Play) -> None:
    async def story(stage: Any) -> None:
        pod = await started(stage)
        stage.machine.failures[f"tear-down {pod.uid}"] = OSError("target is busy")
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=0)
        await asyncio.sleep(30)
        await stage.create_disk_pod("web-1")
        await stage.until(lambda: running(stage, "web-1"))
        assert "tear-down data" not in stage.machine.journal
        stage.machine.failures.clear()
        await stage.until(lambda: "tear-down data" in stage.machine.journal)
        assert await running(stage, "web-1")

    play(story)


def test_a_pods_backoff_is_its_own_and_begins_anew_for_what_else_is_done(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        pod = await stage.create_disk_pod()
        stage.machine.failures[f"set-up {pod.uid}"] = OSError("no such export")
        await stage.attach()
        await stage.until(lambda: told(stage, "FailedMount"))
        await asyncio.sleep(600)
        began = asyncio.get_running_loop().time()
        await stage.create_disk_pod("web-1")
        await stage.until(lambda: running(stage, "web-1"))
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=0)
        await stage.until(lambda: "tear-down data" in stage.machine.journal)
        assert asyncio.get_running_loop().time() - began < 60  # virtual: the other's is two minutes by now

    play(story)


async def fails_to_unmount(stage: Any) -> None:
    """A disk's last pod has gone; whether its device is still mounted is unknown."""
    await started(stage)
    stage.machine.failures["unmount-device"] = TimeoutError("the driver has not answered")
    await stage.api.delete(Pod, "web-0", "default")
    await stage.until(lambda: gone(stage))
    await asyncio.sleep(5)


async def gets_it_mounted_again(stage: Any) -> None:
    await stage.until(lambda: running(stage, "web-1"))
    assert stage.machine.journal.count("mount-device /dev/d1") == 2


def test_a_device_whose_unmount_failed_is_mounted_again_before_a_pod_gets_it(play: Play) -> None:
    async def story(stage: Any) -> None:
        await fails_to_unmount(stage)
        await stage.create_disk_pod("web-1")
        await gets_it_mounted_again(stage)

    play(story)


def test_a_restarted_agent_does_not_trust_a_mount_whose_end_had_begun(play: Play) -> None:
    async def story(stage: Any) -> None:
        await fails_to_unmount(stage)
        await stage.kill()
        await stage.create_disk_pod("web-1")
        await stage.start()
        await gets_it_mounted_again(stage)

    play(story)


def test_nor_one_that_an_agent_has_tried_in_vain_to_mount_again_since(play: Play) -> None:
    async def story(stage: Any) -> None:
        await fails_to_unmount(stage)
        stage.machine.failures["mount-device"] = VolumeError("an unmount is under way")
        await stage.create_disk_pod("web-1")
        await stage.until(lambda: told(stage, "FailedMount"))
        await stage.kill()
        del stage.machine.failures["mount-device"]
        await stage.start()
        await gets_it_mounted_again(stage)

    play(story)


def test_a_mount_that_fails_is_told_and_tried_again(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.machine.failures["mount-device"] = OSError("it holds a file system of type xfs")
        await stage.start()
        await stage.create_disk_pod()
        await stage.attach()
        event = await stage.until(lambda: failed_mount(stage))
        assert "volume data" in event
        assert "it holds a file system of type xfs" in event
        assert "ContainerCreating" in (await stage.pod()).status.container_statuses[0].state.waiting.reason
        del stage.machine.failures["mount-device"]
        await stage.until(lambda: running(stage))
        (volume,) = stage.agent._volumes._known.volumes.values()
        assert [want.problem for want in volume.wants.values()] == [WAITING], (
            "should it be lost, that is news"
        )

    play(story)


async def failed_mount(stage: Any) -> str | None:
    return next((message for reason, message in await stage.events() if reason == "FailedMount"), None)


def test_a_pod_that_goes_before_its_disk_was_attached_leaves_nothing(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_disk_pod()
        await stage.until(lambda: in_use(stage))
        await stage.api.delete(Pod, "web-0", "default")
        await stage.until(lambda: gone(stage))
        await stage.until(lambda: empty(stage))
        assert stage.machine.journal == []

    play(story)


def test_waiting_for_an_attach_is_told_after_two_minutes_and_not_before(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_disk_pod()
        await asyncio.sleep(100)
        assert await failed_mount(stage) is None
        await asyncio.sleep(60)
        event = await failed_mount(stage)
        assert event is not None
        assert "not attached to this node yet" in event

    play(story)


def test_whenever_the_wait_began_it_is_told_once_in_two_minutes(play: Play) -> None:
    """A timer that by rounding is due a moment before its time must not fire again and again at that
    moment."""

    async def story(stage: Any) -> None:
        await stage.start()
        for number in range(40):
            await asyncio.sleep(number / 7 + 1 / 3)
            await stage.create_disk_pod(f"web-{number}", disk=f"d{number}")
        for _ in range(3):
            begun = len(await stage.events())
            await asyncio.sleep(123)
            events = [reason for reason, _ in (await stage.events())[begun:] if reason == "FailedMount"]
            assert len(events) <= 40

    play(story)


def test_a_restarted_agent_registers_with_what_is_mounted_and_disturbs_nothing(play: Play) -> None:
    async def story(stage: Any) -> None:
        await started(stage)
        before = list(stage.machine.journal)
        await stage.kill()
        await stage.api.delete(Node, NODE)
        await stage.start()
        assert await in_use(stage) == (VOLUME,)
        assert "POST /api/v1/nodes" in stage.requests
        await asyncio.sleep(60)
        assert stage.machine.journal == before
        assert await in_use(stage) == (VOLUME,)

    play(story)


def test_a_restarted_agent_unmounts_nothing_before_it_knows_its_pods(play: Play) -> None:
    async def story(stage: Any) -> None:
        await started(stage)
        before = list(stage.machine.journal)
        await stage.kill()

        async def no_pods(request: Request) -> None:
            if request.path == "/api/v1/pods":
                raise Unreachable("no answer")

        stage.gate = no_pods
        await stage.start()
        await asyncio.sleep(120)
        assert stage.machine.journal == before

    play(story)


def test_a_restarted_agent_whose_claim_reads_fail_leaves_running_pods_alone(play: Play) -> None:
    async def story(stage: Any) -> None:
        await started(stage)
        before = list(stage.machine.journal)
        await stage.kill()
        stage.gate = unreachable_attachments
        await stage.start()
        await asyncio.sleep(120)
        assert stage.machine.journal == before

    async def unreachable_attachments(request: Request) -> None:
        if "volumeattachments" in request.path:
            raise Unreachable("no answer")

    play(story)


def test_pods_that_went_while_no_agent_was_there_are_cleaned_up(play: Play) -> None:
    async def story(stage: Any) -> None:
        await started(stage)
        await stage.kill()
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=0)
        await stage.start()
        await stage.until(lambda: empty(stage))
        assert stage.machine.journal[-3:] == ["kill", "tear-down data", "unmount-device d1"]
        assert stage.machine.mounts == set()
        assert list((stage.root / "pods").glob("*")) == []
        assert list((stage.root / "volumes").glob("*")) == []

    play(story)


def test_an_attachment_that_is_taken_away_ends_the_pods_and_the_mount(play: Play) -> None:
    async def story(stage: Any) -> None:
        await started(stage)
        await stage.detach()
        await stage.until(lambda: not stage.machine.mounts)
        journal = stage.machine.journal[len(MOUNTED) :]
        assert journal[:3] == ["kill", "tear-down data", "unmount-device d1"]
        assert any(reason == "VolumeLost" for reason, _ in await stage.events())
        await stage.attach()
        await stage.until(lambda: "start main 1" in stage.machine.journal)
        await stage.until(lambda: running(stage))

    play(story)


def test_an_attachment_that_was_replaced_while_no_agent_was_there_ends_the_mount(play: Play) -> None:
    async def story(stage: Any) -> None:
        await started(stage)
        await stage.kill()
        await stage.detach()
        await stage.attach()
        await stage.start()
        await stage.until(lambda: "start main 1" in stage.machine.journal)
        journal = stage.machine.journal[len(MOUNTED) :]
        assert journal[:4] == ["kill", "tear-down data", "unmount-device d1", "verify /dev/d1"]

    play(story)


def test_a_mount_that_was_under_way_when_its_agent_died_is_made_by_the_next_one(
    play: Play, monkeypatch: pytest.MonkeyPatch, played: Any
) -> None:
    """There is a mount, and the driver had not said that it is all: it may lack what comes after that. The
    pod wants it before it is known whether its VolumeAttachment is still there."""
    mount_device = played.PlayedAttacher.mount_device

    async def goes_on(attacher: Any, spec: Any, device_path: str, device_mount_path: str) -> None:
        await mount_device(attacher, spec, device_path, device_mount_path)
        await asyncio.Event().wait()

    async def story(stage: Any) -> None:
        monkeypatch.setattr(played.PlayedAttacher, "mount_device", goes_on)
        await stage.start()
        await stage.create_disk_pod()
        await stage.attach()
        await stage.until(lambda: "mount-device /dev/d1" in stage.machine.journal)
        await stage.kill()
        monkeypatch.setattr(played.PlayedAttacher, "mount_device", mount_device)
        stage.gate = lambda request: asyncio.sleep(5) if "/volumeattachments/" in request.path else None
        await stage.start()
        await stage.until(lambda: running(stage))
        assert stage.machine.journal.count("mount-device /dev/d1") == 2

    play(story)


def test_what_was_being_taken_from_a_pod_when_its_agent_died_has_gone_before_the_pod_runs_again(
    play: Play, monkeypatch: pytest.MonkeyPatch, played: Any
) -> None:
    """Half of it may be gone, or goes when its driver comes to it: what is then written there is nowhere."""
    tear_down = played.PlayedUnmounter.tear_down_at

    async def goes_on(unmounter: Any, directory: str) -> None:
        if directory.endswith("cache"):
            unmounter._machine.act("half of cache")
            await asyncio.Event().wait()
        await tear_down(unmounter, directory)

    async def story(stage: Any) -> None:
        await stage.start()
        disk = {"name": "data", "flexVolume": {"driver": DISK, "options": {"disk": "d1"}}}
        await stage.create_pod(volumes=[disk, {"name": "cache", "emptyDir": {}}])
        await stage.attach()
        await stage.until(lambda: running(stage))
        monkeypatch.setattr(played.PlayedUnmounter, "tear_down_at", goes_on)
        await stage.detach()
        await stage.until(lambda: "unmount-device d1" in stage.machine.journal)
        await stage.until(lambda: "half of cache" in stage.machine.journal)
        await stage.kill()
        monkeypatch.setattr(played.PlayedUnmounter, "tear_down_at", tear_down)
        stage.machine.journal.clear()
        await stage.start()
        await stage.attach()
        await stage.until(lambda: "start main 1" in stage.machine.journal)
        steps = [each for each in stage.machine.journal if "cache" in each or each.startswith("start-")]
        assert steps == ["tear-down cache", "set-up cache", "start-sandbox web-0"]

    play(story)


def test_an_unreport_that_is_taken_back_disturbs_nothing(play: Play) -> None:
    async def story(stage: Any) -> None:
        await started(stage)
        before = list(stage.machine.journal)
        await stage.report([])
        await asyncio.sleep(1)
        await stage.report(["d1"])
        await asyncio.sleep(30)
        assert stage.machine.journal == before

    play(story)


def test_of_a_volume_that_nothing_attaches_no_attachment_is_missed(
    play: Play, monkeypatch: pytest.MonkeyPatch, played: Any
) -> None:
    """Its device is mounted once for the node, as that of a local volume, or of a CSI driver with
    `attachRequired: false`: found by the simulation (D3)."""
    monkeypatch.setattr(played.PlayedDisk, "can_attach", lambda plugin, spec: False)

    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_disk_pod()
        await stage.until(lambda: running(stage))
        before = list(stage.machine.journal)
        await stage.report(["another"])
        await asyncio.sleep(30)
        assert stage.machine.journal == before
        await stage.kill()
        await stage.start()
        await asyncio.sleep(30)
        assert "kill" not in stage.machine.journal
        assert "unmount-device d1" not in stage.machine.journal

    play(story)


def test_a_claim_that_does_not_exist_is_named_and_waited_for(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}
        await stage.create_pod(volumes=[volume])
        event = await stage.until(lambda: failed_mount(stage))
        assert "PersistentVolumeClaim default/data-web-0" in event
        assert "does not exist" in event

    play(story)


def test_a_volume_that_no_plugin_knows_is_told(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_pod(volumes=[{"name": "data", "hostPath": {"path": "/x"}}])
        assert "no volume plugin matched" in await stage.until(lambda: failed_mount(stage))

    play(story)


def test_a_config_map_that_changes_is_set_up_once_more(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.api.create(
            ConfigMap, {"metadata": {"name": "settings"}, "data": {"mode": "slow"}}, "default"
        )
        await stage.create_pod(volumes=[{"name": "conf", "configMap": {"name": "settings"}}])
        await stage.until(lambda: running(stage))
        await asyncio.sleep(5)
        before = stage.machine.journal.count("set-up conf")
        await stage.api.patch(ConfigMap, "settings", {"data": {"mode": "fast"}}, "default")
        await stage.until(lambda: stage.machine.journal.count("set-up conf") == before + 1)
        assert "kill" not in stage.machine.journal

    play(story)


def test_a_shutdown_unmounts_everything_and_says_so(play: Play) -> None:
    async def story(stage: Any) -> None:
        await started(stage)
        stage.shutdown.set()
        await stage.ended()
        node = await stage.node()
        assert node.ready == "False"
        assert node.status.volumes_in_use == ()
        assert stage.machine.mounts == set()

    play(story)


def test_a_shutdown_that_comes_before_the_node_has_its_name_ends_and_unmounts_what_was_found(
    play: Play,
) -> None:
    """Its agent was started anew while the API server was away, and waited for it. What runs has its time to
    end, though it is not known how much of it."""

    async def story(stage: Any) -> None:
        pod = await started(stage)
        await stage.kill()
        stage.gate, stage.machine.exit_on_term = cut_off, False
        await stage.start()
        stage.shutdown.set()
        await stage.until(lambda: f"signal main {int(SIGTERM)}" in stage.machine.journal)
        await asyncio.sleep(20)
        assert "kill" not in stage.machine.journal
        stage.machine.update(pod.uid, running=False)
        async with asyncio.timeout(60):
            await stage.ended()
        assert stage.machine.mounts == set()

    play(story)


def test_a_shutdown_that_comes_before_the_pods_are_listed_ends_and_unmounts_what_was_found(
    play: Play,
) -> None:
    async def story(stage: Any) -> None:
        await started(stage)
        await stage.kill()
        stage.gate = without_pods
        await stage.start()
        await asyncio.sleep(5)
        stage.shutdown.set()
        async with asyncio.timeout(60):
            await stage.ended()
        assert f"signal main {int(SIGTERM)}" in stage.machine.journal
        assert stage.machine.mounts == set()

    def without_pods(request: Request) -> None:
        if request.path.endswith("/pods"):
            raise Unreachable("no route to host")

    play(story)


def cut_off(request: Request) -> None:
    raise Unreachable("no route to host")


def test_mounts_without_a_record_count_as_in_use_and_are_taken_down(play: Play) -> None:
    async def story(stage: Any) -> None:
        path = stage.root / "plugins" / "example.com~disk" / "mounts" / "d9"
        stage.machine.mounts.add(str(path))
        orphan = stage.root / "pods" / "some-uid" / "volumes" / "example.com~local" / "scratch"
        orphan.mkdir(parents=True)
        created: list[Any] = []

        def note(sent: Any) -> None:
            if sent.method == "POST" and sent.path.endswith("/nodes"):
                created.append(json.loads(sent.body))

        stage.gate = note
        await stage.start()
        assert created[0]["status"]["volumesInUse"] == [f"{DISK}/d9"]
        await stage.until(lambda: empty(stage))
        assert stage.machine.journal.count("unmount-device d9") == 1
        await stage.until(lambda: not list((stage.root / "pods").glob("*")))

    play(story)


def test_a_volume_that_shows_its_pod_follows_the_pods_labels(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_pod(volumes=[{"name": "cache", "emptyDir": {}}])
        await stage.until(lambda: running(stage))
        set_up = stage.machine.journal.count("set-up cache")
        await stage.api.patch(Pod, "web-0", {"metadata": {"labels": {"app": "new"}}}, "default")
        await stage.until(lambda: stage.machine.journal.count("set-up cache") == set_up + 1)
        await stage.api.patch(Pod, "web-0", {"metadata": {"finalizers": ["example.com/x"]}}, "default")
        await asyncio.sleep(5)
        assert stage.machine.journal.count("set-up cache") == set_up + 1

    play(story)


def test_what_ages_is_set_up_again_for_as_long_as_the_pod_has_it(play: Play) -> None:
    async def story(stage: Any) -> None:
        journal = stage.machine.journal
        stage.machine.remount_period = 60.0
        await stage.start()
        await stage.create_pod(volumes=[{"name": "cache", "emptyDir": {}}])
        await stage.until(lambda: running(stage))
        first = journal.count("set-up cache")
        await asyncio.sleep(30)
        assert journal.count("set-up cache") == first
        await asyncio.sleep(120)
        assert journal.count("set-up cache") == first + 2
        await stage.api.delete(Pod, "web-0", "default", grace_period_seconds=1)
        await stage.until(lambda: "tear-down cache" in journal)
        last = journal.count("set-up cache")
        await asyncio.sleep(120)
        assert journal.count("set-up cache") == last

    play(story)


def test_what_an_earlier_agent_has_set_up_and_ages_is_set_up_again_at_once(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.machine.remount_period = 3600.0
        await stage.start()
        await stage.create_pod(volumes=[{"name": "cache", "emptyDir": {}}])
        await stage.until(lambda: running(stage))
        first = stage.machine.journal.count("set-up cache")
        await stage.kill()
        await stage.start()
        await stage.until(lambda: stage.machine.journal.count("set-up cache") == first + 1)
        await asyncio.sleep(600)
        assert stage.machine.journal.count("set-up cache") == first + 1

    play(story)


def test_a_volume_that_could_not_be_set_up_again_is_left_to_its_pod_and_tried_again(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.machine.remount_period = 60.0
        await stage.start()
        await stage.create_pod(volumes=[{"name": "cache", "emptyDir": {}}])
        await stage.until(lambda: running(stage))
        stage.machine.failures["set-up"] = VolumeError("the driver is away")
        await stage.until(lambda: told(stage, "FailedMount"))
        assert await running(stage)
        assert "tear-down cache" not in stage.machine.journal
        before = stage.machine.journal.count("set-up cache")
        stage.machine.failures.clear()
        await stage.until(lambda: stage.machine.journal.count("set-up cache") > before)

    play(story)


SHARE = {"name": "data", "azureFile": {"secretName": "account", "shareName": "files"}}


def test_a_former_in_tree_volume_that_a_plugin_of_the_node_has_is_not_its_csi_drivers(play: Play) -> None:
    async def story(stage: Any) -> None:
        stage.machine.mounts_shares = True
        await stage.start()
        await stage.create_pod(volumes=[SHARE])
        await stage.until(lambda: running(stage))
        assert stage.machine.journal == ["set-up data", "start-sandbox web-0", "start main 0"]

    play(story)


def test_a_former_in_tree_volume_that_no_plugin_of_the_node_has_is_its_csi_drivers(play: Play) -> None:
    async def story(stage: Any) -> None:
        await stage.start()
        await stage.create_pod(volumes=[SHARE])
        told = await stage.until(stage.events)
        assert "no volume plugin matched volume #account#files#data#default" in told[0][1]
        assert stage.machine.journal == []

    play(story)
