"""The controller with CSI volumes, upstream's kubelets and an external attacher: its actions and
events, and what it takes over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from csi_cluster import DRIVER, CsiCluster, player, record_name, unique_name

from mooring.controllers.attachdetach import sweep
from mooring.controllers.attachdetach.controller import AttachDetachOptions
from mooring.controllers.attachdetach.events import LEAVES_S
from mooring.controllers.attachdetach.state import Policy
from mooring.kube.metrics import REGISTRY
from mooring.kube.objects import (
    CSIDriver,
    Event,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    VolumeAttachment,
)
from mooring.simulation.checks.memory import remembered
from mooring.simulation.parts.faulty_transport import request
from mooring.volumes.attachment_lock import ATTACHED_TO, lock_of
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.names import BROKEN, CSI_PLUGIN, NODE_UID, volume_attachment_name
from mooring.volumes.out_of_service import TAINT
from mooring.volumes.plugin_manager import PluginManager
from mooring.why import text
from mooring.why.explain import explain
from mooring.why.snapshot import read

Play = Callable[..., Any]


@pytest.fixture
def play(run: Callable[[Any], Any], now: Callable[[], Any]) -> Play:
    return player(run, now)


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


async def attached(cluster: CsiCluster, node: str = "n0", **options: Any) -> Any:
    """Volume v, attached to a node for pod p, which uses it."""
    controller, wire = cluster.controller(**options)
    await cluster.volume("v")
    await cluster.pod("p", "v", node)
    await cluster.until(lambda: has(cluster, node, "v"))
    await cluster.in_use(node, "v")
    return controller, wire


async def has(cluster: CsiCluster, node: str, disk: str) -> bool:
    return disk in await cluster.listed(node)


async def nowhere(cluster: CsiCluster, disk: str = "v") -> bool:
    return not await cluster.on(disk)


# --- the usual course


def test_of_two_persistent_volumes_of_a_disk_the_bound_one_says_how_it_may_be_attached(play: Play):
    """The other one was released, and kept, when the disk was given to a claim again. Under the policy Delete
    it would not be attached at all, and more nodes than the present one allows could have it."""

    async def story(cluster: CsiCluster) -> None:
        reference = {"kind": "PersistentVolumeClaim", "namespace": "default", "name": "gone", "uid": "gone"}
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"], "claimRef": reference}
        source = {"csi": {"driver": DRIVER, "volumeHandle": "v"}}
        await cluster.api.create(
            PersistentVolume, {"metadata": {"name": "former"}, "spec": {**spec, **source}}
        )
        await cluster.volume("v")
        for name, phase in (("former", "Released"), ("v", "Bound")):
            status = {"status": {"phase": phase}}
            await cluster.api.patch(PersistentVolume, name, status, subresource="status")
        cluster.controller()
        await cluster.pod("p", "v", "n0")
        await cluster.pod("q", "v", "n1")
        await cluster.until(lambda: cluster.listed("n0"))
        await asyncio.sleep(30)
        (record,) = await cluster.records()
        assert record.spec.source.persistent_volume_name == "v"

    play(story)


def test_a_volume_is_attached_reported_and_detached_when_its_node_has_let_it_go(play: Play):
    async def story(cluster: CsiCluster):
        await attached(cluster)
        (record,) = await cluster.records()
        assert record.name == record_name("v", "n0"), "named as upstream names it"
        assert record.spec.attacher == DRIVER
        await cluster.end_pod("p")
        await asyncio.sleep(30)
        assert await cluster.on("v") == ["n0"], "the node says that it uses it"
        await cluster.in_use("n0")
        await cluster.until(lambda: nowhere(cluster))
        assert cluster.attached == set()
        assert await cluster.listed("n0") == []

    play(story)


def test_a_volume_whose_pod_was_deleted_while_no_controller_ran_is_detached(play: Play):
    """Waits until v has no VolumeAttachment."""

    async def story(cluster: CsiCluster):
        controller, _ = await attached(cluster)
        controller.task.cancel()
        await cluster.end_pod("p")
        await cluster.in_use("n0")
        cluster.controller()
        await cluster.until(lambda: nowhere(cluster))

    play(story)


def test_a_pod_that_has_ended_wants_nothing_though_it_is_still_there(play: Play):
    """Waits until v has no VolumeAttachment, while the Succeeded pod still exists."""

    async def story(cluster: CsiCluster):
        await attached(cluster)
        await cluster.api.patch(Pod, "p", {"status": {"phase": "Succeeded"}}, "default", subresource="status")
        await cluster.in_use("n0")
        await cluster.until(lambda: nowhere(cluster))

    play(story)


@pytest.mark.parametrize(
    "statuses", [[], [{"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]]
)
def test_h5_a_deleted_pod_whose_containers_only_wait_keeps_its_volume(play: Play, statuses: list[Any]):
    async def story(cluster: CsiCluster):
        revokes = AttachDetachOptions(revokes={DRIVER: True})
        await attached(cluster, options=revokes)
        status = {"status": {"containerStatuses": statuses}}
        await cluster.api.patch(Pod, "p", status, "default", subresource="status")
        await cluster.api.delete(Pod, "p", "default", grace_period_seconds=3600)
        await cluster.ready("n0", "Unknown")
        await asyncio.sleep(1000)
        assert await cluster.on("v") == ["n0"]

    play(story)


def test_a_claim_that_is_bound_after_its_pod_was_scheduled_gets_its_volume(play: Play):
    """Waits until v is in volumesAttached of n0."""

    async def story(cluster: CsiCluster):
        cluster.controller()
        await cluster.pod("p", "v", "n0")
        await asyncio.sleep(1)
        await cluster.volume("v")
        await cluster.until(lambda: has(cluster, "n0", "v"))

    play(story)


def test_a_generic_ephemeral_volume_and_a_mirror_pod_are_like_any_other(play: Play):
    """Waits until the volumes of both pods are in volumesAttached of their nodes."""

    async def story(cluster: CsiCluster):
        cluster.controller()
        await cluster.volume("p-data")
        template = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
        volume = {"name": "data", "ephemeral": {"volumeClaimTemplate": template}}
        pod = await cluster.pod("p", "", "n0", volumes=[volume])
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.uid, "controller": True}
        patch = {"metadata": {"ownerReferences": [owner]}}
        await cluster.api.patch(PersistentVolumeClaim, "p-data", patch, "default")
        await cluster.until(lambda: has(cluster, "n0", "p-data"))
        await cluster.volume("m")
        source = {"name": "data", "persistentVolumeClaim": {"claimName": "m"}}
        spec = {"nodeName": "n1", "containers": [{"name": "main", "image": "app"}], "volumes": [source]}
        mirror = {"name": "static-n1", "annotations": {"kubernetes.io/config.mirror": "x"}}
        await cluster.api.create(Pod, {"metadata": mirror, "spec": spec}, "default")
        await cluster.until(lambda: has(cluster, "n1", "m"))

    play(story)


def test_a_driver_that_needs_no_attaching_any_more_has_its_volumes_let_go(play: Play):
    async def story(cluster: CsiCluster):
        await attached(cluster)
        await cluster.api.delete(CSIDriver, DRIVER)
        await cluster.api.create(CSIDriver, {"metadata": {"name": DRIVER}, "spec": {"attachRequired": False}})
        await asyncio.sleep(5)
        assert await cluster.on("v") == ["n0"], "it is mounted"
        await cluster.in_use("n0")
        await cluster.until(lambda: nowhere(cluster))
        await cluster.api.delete(CSIDriver, DRIVER)
        await cluster.until(lambda: has(cluster, "n0", "v"))

    play(story)


def test_a_node_that_attaches_for_itself_is_left_alone_until_it_is_annotated(play: Play):
    async def story(cluster: CsiCluster):
        cluster.controller()
        name = "volumes.kubernetes.io/controller-managed-attach-detach"
        await cluster.api.patch(Node, "n0", {"metadata": {"annotations": {name: None}}})
        await cluster.volume("v")
        await cluster.pod("p", "v", "n0")
        await asyncio.sleep(5)
        assert await nowhere(cluster)
        await cluster.api.patch(Node, "n0", {"metadata": {"annotations": {name: "true"}}})
        await cluster.until(lambda: has(cluster, "n0", "v"))

    play(story)


def test_volumes_of_a_driver_that_is_left_out_are_not_touched(play: Play):
    async def story(cluster: CsiCluster):
        cluster.controller(options=AttachDetachOptions(left_out=frozenset({DRIVER})))
        await cluster.volume("v")
        await cluster.upstreams_record("v", "n1")
        await cluster.say("n1", volumesAttached=[{"name": unique_name("v"), "devicePath": ""}])
        await cluster.pod("p", "v", "n0")
        await asyncio.sleep(30)
        assert await cluster.on("v") == ["n1"]
        assert await cluster.listed("n1") == ["v"]

    play(story)


def test_many_volumes_of_one_node_are_reported_with_few_writes(play: Play):
    async def story(cluster: CsiCluster):
        _, wire = cluster.controller()
        for number in range(250):
            await cluster.volume(f"v{number}")
        for number in range(250):
            await cluster.pod(f"p{number}", f"v{number}", "n0")
        await cluster.until(lambda: all_listed(cluster, 250))
        assert sum(each == "PATCH /api/v1/nodes/n0/status" for each in wire.sent) <= 10

    async def all_listed(cluster: CsiCluster, count: int) -> bool:
        return len(await cluster.listed("n0")) == count

    play(story)


def test_a_volume_stays_for_the_second_of_two_pods_of_a_node(play: Play):
    async def story(cluster: CsiCluster):
        await attached(cluster)
        await cluster.pod("q", "v", "n0")
        await cluster.end_pod("p")
        await cluster.in_use("n0")
        await asyncio.sleep(30)
        assert await cluster.on("v") == ["n0"]
        await cluster.end_pod("q")
        await cluster.until(lambda: nowhere(cluster))

    play(story)


def test_without_the_write_to_the_node_nothing_is_detached(play: Play):
    async def story(cluster: CsiCluster):
        _, wire = await attached(cluster)
        for _ in range(3):
            wire.lose(request("PATCH", "/nodes/n0/status"))
        deletion = request("DELETE", "/volumeattachments/")
        early = wire.hold(deletion)
        await cluster.in_use("n0")
        await cluster.end_pod("p")
        await early.arrived.wait()
        assert await cluster.listed("n0") == [], "written before it"
        early.release()
        await cluster.until(lambda: nowhere(cluster))

    play(story)


def test_a_node_whose_status_cannot_be_written_holds_up_no_other(play: Play):
    async def story(cluster: CsiCluster):
        _, wire = cluster.controller()
        for _ in range(50):
            wire.lose(request("PATCH", "/nodes/n0/status"))
        await cluster.volume("v")
        await cluster.volume("w")
        await cluster.pod("p", "v", "n0")
        await cluster.pod("q", "w", "n1")
        await cluster.until(lambda: has(cluster, "n1", "w"))
        assert await cluster.listed("n0") == []
        sent = len(wire.sent)
        await cluster.volume("x")
        await cluster.pod("r", "x", "n1")
        await cluster.until(lambda: has(cluster, "n1", "x"))
        assert "PATCH /api/v1/nodes/n1/status" in wire.sent[sent:]

    play(story)


# --- one node at a time


def test_an_uncertain_attachment_keeps_the_volume_from_another_node(play: Play):
    async def story(cluster: CsiCluster):
        cluster.attacher.cancel()  # the outcome of the attach is unknown
        cluster.controller()
        await cluster.volume("v")
        await cluster.pod("p", "v", "n0")
        await cluster.until(lambda: record(cluster))
        await cluster.in_use("n0", "v")
        await cluster.end_pod("p")
        await cluster.pod("q", "v", "n1")
        await asyncio.sleep(60)
        assert await cluster.on("v") == ["n0"]

    async def record(cluster: CsiCluster) -> Any:
        return await cluster.records()

    play(story)


def test_a_volume_for_many_nodes_is_attached_and_detached_on_each(play: Play):
    """Waits for VolumeAttachments on both nodes; then, after one pod has ended, on the other node alone."""

    async def story(cluster: CsiCluster):
        cluster.controller()
        await cluster.volume("v", ["ReadWriteMany"])
        await cluster.pod("p", "v", "n0")
        await cluster.pod("q", "v", "n1")
        await cluster.until(lambda: on_both(cluster))
        await cluster.end_pod("p")
        await cluster.until(lambda: only_n1(cluster))

    async def on_both(cluster: CsiCluster) -> bool:
        return await cluster.on("v") == ["n0", "n1"]

    async def only_n1(cluster: CsiCluster) -> bool:
        return await cluster.on("v") == ["n1"]

    play(story)


def test_of_two_records_of_one_volume_one_node_is_told_and_the_other_record_goes(play: Play):
    async def story(cluster: CsiCluster):
        await attached(cluster)
        await cluster.upstreams_record("v", "n1")  # H4b: it arrives late
        await cluster.pod("q", "v", "n1")
        await cluster.until(lambda: only_n0(cluster))
        assert await cluster.listed("n1") == []

    async def only_n0(cluster: CsiCluster) -> bool:
        return await cluster.on("v") == ["n0"]

    play(story)


# --- taking over


def test_what_upstream_has_attached_is_taken_over_as_it_is(play: Play):
    async def story(cluster: CsiCluster):
        await cluster.volume("v")
        await cluster.pod("p", "v", "n0")
        record = await cluster.upstreams_record("v", "n0")
        await cluster.say("n0", volumesAttached=[{"name": unique_name("v"), "devicePath": ""}])
        await cluster.in_use("n0", "v")
        await asyncio.sleep(1)
        _, wire = cluster.controller()
        await asyncio.sleep(10)
        assert not [each for each in wire.sent if not each.startswith("GET")], "nothing is to be done"
        await cluster.end_pod("p")
        await cluster.in_use("n0")
        await cluster.until(lambda: nowhere(cluster))
        assert record.name == record_name("v", "n0")

    play(story)


@pytest.mark.parametrize("used", [False, True])
def test_h4a_a_record_whose_persistent_volume_is_gone_is_cleaned_up_when_the_node_has_let_go(
    play: Play, used: bool
):
    async def story(cluster: CsiCluster):
        await cluster.upstreams_record("gone", "n0")
        if used:
            await cluster.in_use("n0", "gone")
        cluster.controller()
        await asyncio.sleep(30)
        assert await cluster.on("gone") == (["n0"] if used else [])
        await cluster.in_use("n0")
        await cluster.until(lambda: nowhere(cluster, "gone"))

    play(story)


def test_h4a_a_record_whose_persistent_volume_was_made_anew_keeps_the_disk_from_another_node(play: Play):
    async def story(cluster: CsiCluster):
        record = await cluster.upstreams_record("former", "n0", name=record_name("v", "n0"))
        await cluster.in_use("n0", "v")
        assert record.spec.source.persistent_volume_name == "former"
        cluster.controller()
        await asyncio.sleep(1)
        await cluster.volume("v")
        await cluster.pod("p", "v", "n1")
        await asyncio.sleep(30)
        assert await cluster.on("v") == ["n0"]

    play(story)


@pytest.mark.parametrize("known", [True, False], ids=["before", "afterwards"])
def test_h4a_a_persistent_volume_that_was_made_anew_for_another_disk_says_nothing_of_an_older_record(
    play: Play, known: bool
):
    """Its name is made of the former disk's handle: that one is in use there, whatever the new one is."""

    async def story(cluster: CsiCluster):
        former = await cluster.upstreams_record("v", "n0", name=record_name("former", "n0"))
        await cluster.in_use("n0", "former")
        if known:
            cluster.controller()
            await asyncio.sleep(10)
        await cluster.volume("v")
        if not known:
            cluster.controller()
        await cluster.pod("p", "v", "n1")
        await asyncio.sleep(30)
        assert await cluster.on("v") == ["n1"]
        assert former.name in [each.name for each in await cluster.records()]
        await cluster.in_use("n0")
        await cluster.until(lambda: is_gone(cluster, former.name))

    play(story)


async def is_gone(cluster: CsiCluster, name: str) -> bool:
    return name not in [each.name for each in await cluster.records()]


def test_a_record_with_a_volume_of_its_own_and_a_name_of_its_own_is_somebody_elses(play: Play):
    async def story(cluster: CsiCluster):
        source = {"inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"]}}
        source["inlineVolumeSpec"]["csi"] = {"driver": DRIVER, "volumeHandle": "x"}  # type: ignore[index]
        spec = {"attacher": DRIVER, "nodeName": "n0", "source": source}
        await cluster.api.create(VolumeAttachment, {"metadata": {"name": "migrated"}, "spec": spec})
        cluster.controller()
        await asyncio.sleep(30)
        assert [each.name for each in await cluster.records()] == ["migrated"]

    play(story)


# --- nodes that are lost


async def lost(cluster: CsiCluster, **options: Any) -> Any:
    """No pod wants v any more on n0, which uses it and does not answer."""
    made = await attached(cluster, **options)
    await cluster.end_pod("p")
    await cluster.ready("n0", "Unknown")
    await asyncio.sleep(1)
    return made


REVOKES = {"annotations": {"mooring.dev/detach-revokes-access": "true"}}


@pytest.mark.parametrize("gone", [False, True])
def test_storage_that_revokes_is_released_by_the_timer(play: Play, gone: bool):
    async def story(cluster: CsiCluster):
        before = value("attach_detach_controller_attachdetach_controller_forced_detaches", reason="timeout")
        await lost(cluster)
        if gone:
            await cluster.api.delete(Node, "n0")
        await asyncio.sleep(300)
        assert await cluster.on("v") == ["n0"]
        await asyncio.sleep(120)
        assert await nowhere(cluster)
        after = value("attach_detach_controller_attachdetach_controller_forced_detaches", reason="timeout")
        assert after == before + 1
        assert any("longer than 360 s" in each for each in await cluster.events("ForcedDetach"))

    play(story, **REVOKES)


def test_a_restart_neither_lengthens_nor_shortens_the_timer(play: Play):
    async def story(cluster: CsiCluster):
        controller, _ = await lost(cluster)
        await asyncio.sleep(200)
        controller.task.cancel()
        cluster.controller()
        await asyncio.sleep(140)
        assert await cluster.on("v") == ["n0"]
        await asyncio.sleep(40)
        assert await nowhere(cluster)

    play(story, **REVOKES)


def with_a_clock_that_is_set(cluster: CsiCluster) -> Callable[[int], None]:
    """Returns what sets the controller's clock, by so many hours."""
    right, wrong = cluster.now, timedelta()
    cluster.now = lambda: right() + wrong

    def set_clock(hours: int) -> None:
        nonlocal wrong
        wrong = timedelta(hours=hours)

    return set_clock


@pytest.mark.parametrize("hours", [-1, 1])
def test_the_timer_runs_for_its_time_also_if_the_clock_is_set_meanwhile(play: Play, hours: int):
    async def story(cluster: CsiCluster):
        set_clock = with_a_clock_that_is_set(cluster)
        await lost(cluster)
        await asyncio.sleep(100)
        set_clock(hours)
        await asyncio.sleep(200)
        assert await cluster.on("v") == ["n0"]
        await asyncio.sleep(120)
        assert await nowhere(cluster)

    play(story, **REVOKES)


@pytest.mark.parametrize("hours", [-1, 1])
@pytest.mark.parametrize("restarted", [False, True])
def test_a_node_has_its_time_to_come_back_also_if_the_clock_is_set_meanwhile(
    play: Play, hours: int, restarted: bool
):
    async def story(cluster: CsiCluster):
        set_clock = with_a_clock_that_is_set(cluster)
        policy = Policy(force_detach_after=0.0, node_deletion_confirms_death=True)
        options = AttachDetachOptions(policy=policy)
        controller, _ = await lost(cluster, options=options)
        await cluster.api.delete(Node, "n0")
        await asyncio.sleep(10)
        set_clock(hours)
        if restarted:
            controller.task.cancel()
            cluster.controller(options=options)
        await asyncio.sleep(25)
        assert await cluster.on("v") == ["n0"]
        await asyncio.sleep(60)
        assert await nowhere(cluster)

    play(story, **REVOKES)


@pytest.mark.parametrize("why", ["answers", "wanted"])
def test_the_timer_begins_anew_when_its_ground_was_gone(play: Play, why: str):
    async def story(cluster: CsiCluster):
        await lost(cluster)
        await asyncio.sleep(200)
        if why == "answers":
            await cluster.ready("n0", "True", "2030-01-01T00:03:00Z")
            await asyncio.sleep(1)
            await cluster.ready("n0", "Unknown", "2030-01-01T00:03:00Z")
        else:
            await cluster.pod("q", "v", "n0")
            await asyncio.sleep(1)
            await cluster.end_pod("q")
        await asyncio.sleep(300)
        assert await cluster.on("v") == ["n0"]
        await asyncio.sleep(100)
        assert await nowhere(cluster)

    play(story, **REVOKES)


@pytest.mark.parametrize(
    "options",
    [
        AttachDetachOptions(policy=Policy(force_detach_after=0.0)),
        AttachDetachOptions(revokes={DRIVER: False}),
    ],
)
def test_without_the_policy_or_where_nothing_is_revoked_it_stays_for_ever(
    play: Play, options: AttachDetachOptions
):
    async def story(cluster: CsiCluster):
        await lost(cluster, options=options)
        await asyncio.sleep(3000)
        assert await cluster.on("v") == ["n0"]

    play(story, **REVOKES)


def test_h1_a_node_that_answers_keeps_what_it_uses_however_long(play: Play):
    async def story(cluster: CsiCluster):
        await attached(cluster)
        await cluster.end_pod("p")
        await asyncio.sleep(3000)
        assert await cluster.on("v") == ["n0"]

    play(story, **REVOKES)


@pytest.mark.parametrize(
    ("effect", "ready"), [("NoSchedule", "Unknown"), ("NoExecute", "True"), ("NoExecute", "False")]
)
def test_h2_an_out_of_service_taint_releases_nothing_of_a_node_that_answers(
    play: Play, effect: str, ready: str
):
    async def story(cluster: CsiCluster):
        await attached(cluster)
        await cluster.end_pod("p")
        await cluster.ready("n0", ready)
        taint = {"key": TAINT, "effect": effect, "value": "nodeshutdown"}
        await cluster.api.patch(Node, "n0", {"spec": {"taints": [taint]}})
        await asyncio.sleep(60)
        assert await cluster.on("v") == ["n0"]

    play(story)


def test_a_node_that_is_deleted_keeps_its_volumes_and_so_does_one_that_registers_under_its_name(play: Play):
    async def story(cluster: CsiCluster):
        await lost(cluster)
        await cluster.api.delete(Node, "n0")
        await asyncio.sleep(1000)
        assert await cluster.on("v") == ["n0"]
        await cluster.node("n0")  # H3b: the new Node is empty, and does not show old mounts
        await asyncio.sleep(1000)
        assert await cluster.on("v") == ["n0"]

    play(story)


def test_a_kubelet_that_has_registered_anew_speaks_for_a_volume_that_it_uses_again(play: Play):
    async def story(cluster: CsiCluster):
        await attached(cluster)
        await cluster.api.delete(Node, "n0")
        anew = await cluster.node("n0")
        await cluster.in_use("n0", "v")
        await cluster.until(lambda: has(cluster, "n0", "v"))
        (record,) = await cluster.records()
        assert record.metadata.annotations[NODE_UID] == anew.uid
        await cluster.end_pod("p")
        await cluster.in_use("n0")
        await cluster.until(lambda: nowhere(cluster))

    play(story)


def test_under_the_policy_a_node_that_stays_away_is_dead(play: Play):
    async def story(cluster: CsiCluster):
        policy = Policy(force_detach_after=0.0, node_deletion_confirms_death=True)
        await lost(cluster, options=AttachDetachOptions(policy=policy))
        await asyncio.sleep(1000)
        assert await cluster.on("v") == ["n0"]
        await cluster.api.delete(Node, "n0")
        await asyncio.sleep(35)
        assert await cluster.on("v") == ["n0"]
        await asyncio.sleep(10)
        assert await nowhere(cluster)

    play(story, **REVOKES)


def test_under_the_policy_a_node_that_comes_back_in_time_is_not(play: Play):
    async def story(cluster: CsiCluster):
        policy = Policy(force_detach_after=0.0, node_deletion_confirms_death=True)
        await lost(cluster, options=AttachDetachOptions(policy=policy))
        await cluster.api.delete(Node, "n0")
        await asyncio.sleep(30)
        await cluster.node("n0")
        await cluster.in_use("n0", "v")
        await asyncio.sleep(30)
        await cluster.api.delete(Node, "n0")
        await asyncio.sleep(30)
        assert await cluster.on("v") == ["n0"], "the absence is counted anew"

    play(story, **REVOKES)


def test_an_attachment_that_is_broken_on_purpose_is_released_and_its_node_closed(play: Play):
    async def story(cluster: CsiCluster):
        await lost(cluster)
        patch = {"metadata": {"annotations": {BROKEN: "by the operator"}}}
        await cluster.api.patch(VolumeAttachment, record_name("v", "n0"), patch)
        await cluster.until(lambda: nowhere(cluster))
        lock = lock_of(await cluster.api.get(PersistentVolume, "v"))
        assert list(lock.closed) == ["n0"]
        first = lock.epoch
        await cluster.pod("q", "v", "n0")
        await cluster.ready("n0", "True", "2030-01-01T01:00:00Z")
        await asyncio.sleep(30)
        assert await nowhere(cluster), "the node still has it in volumesInUse"
        await cluster.until(lambda: has_event(cluster, "FailedAttachVolume", "taken from node n0 by force"))
        await cluster.in_use("n0")
        await cluster.until(lambda: has(cluster, "n0", "v"))
        lock = lock_of(await cluster.api.get(PersistentVolume, "v"))
        assert (lock.epoch, lock.closed) == (first + 1, {})

    play(story)


async def has_event(cluster: CsiCluster, reason: str, words: str) -> bool:
    return any(words in each for each in await cluster.events(reason))


# --- what is told


def test_the_pod_that_waits_is_told_in_upstreams_words_and_again_while_it_lasts(play: Play):
    async def story(cluster: CsiCluster):
        await attached(cluster)
        await cluster.pod("q", "v", "n1")
        await cluster.until(
            lambda: has_event(cluster, "FailedAttachVolume", 'Multi-Attach error for volume "v" Volume is')
        )
        (explanation,) = await cluster.events("FailedAttachVolume", "q")
        assert explanation == 'Multi-Attach error for volume "v" Volume is already used by pod(s) p'

        async def count() -> int:
            found = (await cluster.api.list(Event)).items
            return sum(each.count or 1 for each in found if each.reason == "FailedAttachVolume")

        assert await count() == 1
        await asyncio.sleep(1000)
        assert 3 <= await count() <= 5

    play(story)


def test_a_detach_that_fails_is_told_on_the_node(play: Play):
    """Waits for the event on the Node, and then for the event on a pod that wants the volume elsewhere."""

    async def story(cluster: CsiCluster):
        await attached(cluster)
        cluster.detach_fails = True
        await cluster.end_pod("p")
        await cluster.in_use("n0")
        await cluster.until(
            lambda: has_event(cluster, "FailedDetachVolume", 'failed for volume "v" : the array is on fire')
        )
        await cluster.pod("q", "v", "n1")
        await cluster.until(lambda: has_event(cluster, "FailedAttachVolume", "the array is on fire"))

    play(story)


def test_the_pod_whose_volume_was_attached_is_told_so(play: Play):
    """Waits for upstream's event on the pod."""

    async def story(cluster: CsiCluster):
        await attached(cluster)
        await cluster.until(
            lambda: has_event(
                cluster, "SuccessfulAttachVolume", 'AttachVolume.Attach succeeded for volume "v"'
            )
        )

    play(story)


# --- counted, observed, swept


def test_what_is_wanted_attached_and_blocked_is_counted_and_no_more_when_it_is_over(play: Play):
    label = f"kubernetes.io/csi:{DRIVER}"

    def gauges() -> tuple[float, ...]:
        return (
            value("storage_count_attachable_volumes_in_use", node="n0", volume_plugin=label),
            value("attachdetach_controller_total_volumes", plugin_name=label, state="desired_state_of_world"),
            value("attachdetach_controller_total_volumes", plugin_name=label, state="actual_state_of_world"),
            value("mooring_attachdetach_blocked_volumes", reason="MultiAttach"),
        )

    async def story(cluster: CsiCluster):
        before = gauges()
        counted = value("mooring_attachdetach_desired_to_attached_seconds_count")
        controller, _ = await attached(cluster)
        await cluster.pod("q", "v", "n1")
        await asyncio.sleep(1)
        assert tuple(new - old for new, old in zip(gauges(), before, strict=True)) == (1, 2, 1, 1)
        assert value("mooring_attachdetach_desired_to_attached_seconds_count") == counted + 1
        controller.task.cancel()
        await asyncio.sleep(0)
        await asyncio.sleep(0.1)
        assert gauges() == before

    play(story)


def test_the_sweep_finds_what_was_missed_and_counts_it(play: Play, monkeypatch: pytest.MonkeyPatch):
    async def story(cluster: CsiCluster):
        controller, _ = await attached(cluster)
        before = value("mooring_attachdetach_sweep_corrections_total", action="Report")
        await asyncio.sleep(sweep.SWEEP_S * 2)
        assert value("mooring_attachdetach_sweep_corrections_total", action="Report") == before
        whole = controller.queue.add
        monkeypatch.setattr(controller.queue, "add", lambda key: whole(key) if key == sweep.SWEEP else None)
        await cluster.say("n0", volumesAttached=[])  # a change that is missed
        await asyncio.sleep(1)
        monkeypatch.setattr(controller.queue, "add", whole)
        await asyncio.sleep(sweep.SWEEP_S + 1)
        assert await has(cluster, "n0", "v")
        assert value("mooring_attachdetach_sweep_corrections_total", action="Report") == before + 1

    play(story)


def test_an_observer_writes_nothing_and_counts_where_it_disagrees(play: Play):
    async def story(cluster: CsiCluster):
        await attached(cluster)
        _, wire = cluster.controller(options=AttachDetachOptions(observe=True))
        await asyncio.sleep(1)
        unsafe = value("mooring_attachdetach_disagreements_total", kind="unsafe-detach")
        second = value("mooring_attachdetach_disagreements_total", kind="second-attachment")
        await cluster.upstreams_record("v", "n1")
        await asyncio.sleep(0.01)
        await cluster.api.delete(VolumeAttachment, record_name("v", "n0"))  # it is in use
        await asyncio.sleep(10)
        assert value("mooring_attachdetach_disagreements_total", kind="unsafe-detach") == unsafe + 1
        assert value("mooring_attachdetach_disagreements_total", kind="second-attachment") == second + 1
        assert not [each for each in wire.sent if not each.startswith("GET")]

    play(story)


def test_an_observer_counts_what_is_left_undone(play: Play):
    async def story(cluster: CsiCluster):
        cluster.controller(options=AttachDetachOptions(observe=True))
        before = value("mooring_attachdetach_disagreements_total", kind="not-done-attach")
        await cluster.volume("v")
        await cluster.pod("p", "v", "n0")
        await asyncio.sleep(50)
        assert value("mooring_attachdetach_disagreements_total", kind="not-done-attach") == before
        await asyncio.sleep(200)
        assert value("mooring_attachdetach_disagreements_total", kind="not-done-attach") == before + 1

    play(story)


def test_another_active_controller_is_reported(play: Play):
    async def story(cluster: CsiCluster):
        await attached(cluster)
        assert await cluster.events("AnotherAttachDetachController") == []
        await cluster.say("n0", volumesAttached=[])
        await cluster.until(
            lambda: has_event(cluster, "AnotherAttachDetachController", "volumesAttached of node n0")
        )
        await cluster.volume("w")
        await cluster.upstreams_record("w", "n1")
        await cluster.until(
            lambda: has_event(cluster, "AnotherAttachDetachController", "was created by another controller")
        )

    play(story)


# --- the lock, where a driver does not refuse

SHY = {"annotations": {"mooring.dev/refuses-second-attach": "false"}}


def test_a_volume_whose_driver_does_not_refuse_is_locked_and_kubelets_are_said_not_to_look(play: Play):
    async def story(cluster: CsiCluster):
        await attached(cluster)
        held = await cluster.api.get(PersistentVolume, "v")
        lock = lock_of(held)
        assert ATTACHED_TO in held.metadata.annotations
        assert (lock.node, lock.pod) == ("n0", "default/p")
        first = lock.epoch
        await cluster.until(lambda: has_event(cluster, "LockIsAdvisory", "does not compare the lock"))
        await cluster.end_pod("p")
        await cluster.in_use("n0")
        await cluster.pod("q", "v", "n1")
        await cluster.until(lambda: has(cluster, "n1", "v"))
        lock = lock_of(await cluster.api.get(PersistentVolume, "v"))
        assert (lock.epoch, lock.node, lock.pod) == (first + 1, "n1", "default/q")
        assert cluster.both == []

    play(story, **SHY)


def test_a_record_that_arrives_late_under_an_older_epoch_is_never_reported_and_goes(play: Play):
    async def story(cluster: CsiCluster):
        await attached(cluster)
        record = await cluster.upstreams_record("v", "n1")
        await cluster.pod("q", "v", "n1")
        for _ in range(200):
            assert await cluster.listed("n1") == []
            await asyncio.sleep(0.05)
        assert await cluster.on("v") == ["n0"]
        assert record.uid not in {each.uid for each in await cluster.records()}

    play(story, **SHY)


def test_a_damaged_lock_grants_nothing(play: Play):
    async def story(cluster: CsiCluster):
        cluster.controller()
        await cluster.volume("v")
        await cluster.api.patch(PersistentVolume, "v", {"metadata": {"annotations": {ATTACHED_TO: "{"}}})
        await cluster.pod("p", "v", "n0")
        await cluster.until(
            lambda: has_event(cluster, "FailedAttachVolume", "the lock on its PersistentVolume")
        )
        assert await nowhere(cluster)
        assert "LockDamaged" in await why(cluster, "pv/v")

    play(story, **SHY)


async def why(cluster: CsiCluster, target: str) -> str:
    """The codes of an explanation, from the object to its last causes."""
    known = await read(cluster.api, PluginManager([], ControllerVolumeHost(cluster.now)))
    return "\n".join(
        text.lines(explain(target, "default", known), cluster.now(), lambda words, colour: words)
    )


def test_why_says_what_upstreams_records_do_and_when_the_timer_is_due(play: Play):
    async def story(cluster: CsiCluster):
        await cluster.volume("v")
        await cluster.upstreams_record("v", "n0")
        await cluster.in_use("n0", "v")
        await cluster.ready("n0", "Unknown")
        await cluster.pod("q", "v", "n1")
        cluster.controller()
        await asyncio.sleep(5)
        explanation = await why(cluster, "pv/v")
        assert "NodeNotAnswering" in explanation
        assert "it is taken from there at" in explanation

    play(story, **REVOKES)


# --- volumes in their storage's own old words

EBS = "ebs.csi.aws.com"
EBS_RECORD = volume_attachment_name(CSI_PLUGIN, f"{EBS}^vol-1", "n0")
EBS_VOLUME = f"{CSI_PLUGIN}/{EBS}^vol-1"
AWS = {"awsElasticBlockStore": {"volumeID": "aws://us-east-1a/vol-1"}}


async def recorded(cluster: CsiCluster) -> VolumeAttachment | None:
    return await cluster.api.find(VolumeAttachment, EBS_RECORD)


async def drivers_attacher_says_attached(cluster: CsiCluster) -> None:
    await cluster.until(lambda: recorded(cluster))
    await cluster.api.patch(
        VolumeAttachment, EBS_RECORD, {"status": {"attached": True}}, subresource="status"
    )


async def lists_it(cluster: CsiCluster) -> bool:
    node = await cluster.api.get(Node, "n0")
    return any(entry.name == EBS_VOLUME for entry in node.status.volumes_attached)


async def record_is_gone(cluster: CsiCluster) -> bool:
    return await recorded(cluster) is None


def test_an_in_tree_persistent_volume_is_attached_by_its_csi_driver(play: Play):
    async def story(cluster: CsiCluster):
        cluster.controller()
        await cluster.volume("v")
        await cluster.api.patch(PersistentVolume, "v", {"metadata": {"finalizers": None}})
        reference = (await cluster.api.get(PersistentVolume, "v")).spec.claim_ref
        assert reference is not None
        await cluster.api.delete(PersistentVolume, "v")
        claim = {"namespace": "default", "name": "v", "uid": reference.uid}
        spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "claimRef": claim, **AWS}
        await cluster.api.create(PersistentVolume, {"metadata": {"name": "v"}, "spec": spec})
        await cluster.pod("p", "v", "n0")
        await drivers_attacher_says_attached(cluster)
        record = await recorded(cluster)
        assert record is not None
        assert (record.spec.attacher, record.spec.source.persistent_volume_name) == (EBS, "v")
        await cluster.until(lambda: lists_it(cluster))
        await cluster.end_pod("p")
        await cluster.until(lambda: record_is_gone(cluster))

    play(story)


def test_an_in_tree_volume_that_a_pod_defines_is_written_in_its_record(play: Play):
    async def story(cluster: CsiCluster):
        cluster.controller()
        await cluster.pod("p", "unused", "n0", volumes=[{"name": "data", **AWS}])
        await drivers_attacher_says_attached(cluster)
        record = await recorded(cluster)
        assert record is not None
        assert record.spec.attacher == EBS
        assert record.spec.source.inline_volume_spec == {
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": EBS, "volumeHandle": "vol-1", "volumeAttributes": {"partition": "0"}},
            "volumeMode": "Filesystem",
        }
        await cluster.until(lambda: lists_it(cluster))
        await cluster.end_pod("p")
        await cluster.until(lambda: record_is_gone(cluster))

    play(story)


def test_upstreams_record_of_a_volume_that_a_pod_defined_is_taken_over(play: Play):
    """Waits until the VolumeAttachment, which no pod wants any more, is gone."""

    async def story(cluster: CsiCluster):
        csi = {"driver": EBS, "volumeHandle": "vol-1"}
        source = {"inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"], "csi": csi}}
        spec = {"attacher": EBS, "nodeName": "n0", "source": source}
        await cluster.api.create(VolumeAttachment, {"metadata": {"name": EBS_RECORD}, "spec": spec})
        await drivers_attacher_says_attached(cluster)
        cluster.controller()
        await cluster.until(lambda: record_is_gone(cluster))

    play(story)


def test_a_volume_on_its_way_from_a_node_that_no_pod_uses_is_no_news_until_it_takes_long(play: Play):
    async def story(cluster: CsiCluster):
        await attached(cluster)
        await cluster.api.delete(Pod, "p", "default", grace_period_seconds=0)
        await cluster.pod("q", "v", "n1")
        await asyncio.sleep(LEAVES_S - 1)
        assert await cluster.events("FailedAttachVolume") == []
        await cluster.until(lambda: has_event(cluster, "FailedAttachVolume", "can't be attached to another"))

    play(story)


def test_nothing_is_remembered_of_pods_that_waited_for_a_volume_and_are_gone(play: Play):
    """Found by the simulation (L18)."""

    async def story(cluster: CsiCluster):
        controller, _ = await attached(cluster)
        await cluster.api.delete(Pod, "p", "default", grace_period_seconds=0)
        await cluster.pod("q", "v", "n1")
        uid = (await cluster.api.get(Pod, "q", "default")).uid
        await asyncio.sleep(LEAVES_S + 1)
        assert [*remembered(controller, {uid})] != []
        await cluster.api.delete(Pod, "q", "default", grace_period_seconds=0)
        await asyncio.sleep(1)
        assert [*remembered(controller, {uid})] == []

    play(story)


def test_nothing_is_remembered_of_a_pod_that_is_gone_while_others_wait_on_two_nodes(play: Play):
    """Found by the simulation (21021 of the swarm, L18)."""

    async def story(cluster: CsiCluster):
        controller, _ = await attached(cluster)
        await cluster.api.delete(Pod, "p", "default", grace_period_seconds=0)
        for name in ("q", "r"):
            await cluster.pod(name, "v", "n1")
        uid = (await cluster.api.get(Pod, "q", "default")).uid
        await asyncio.sleep(LEAVES_S + 1)
        await cluster.node("n2")
        await cluster.pod("s", "v", "n2")
        await cluster.api.delete(Pod, "q", "default", grace_period_seconds=0)
        await asyncio.sleep(1)
        assert [*remembered(controller, {uid})] == []

    play(story)
