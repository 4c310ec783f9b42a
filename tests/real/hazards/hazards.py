"""The hazards H1 to H5 of the attach/detach controller and one that is mended upstream, each with a control.

A hazard is a schedule of events that end in harm where a controller takes something for permission that is
none. Its control has the same events without the one condition that matters, and must be harmless with any
controller. Nothing here knows which controller is under test.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from tests.real.hazards.control_plane import Running
from tests.real.hazards.stage import HazardCluster, Kubelet

from mooring.kube.errors import NotFound
from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.volumes.out_of_service import TAINT

FORCE_S = 360.0
"""Upstream's time after which a detach is forced."""
SLACK_S = 80.0
UNMOUNTING_S = 8.0
SETTLED_S = 12.0
LAG_S = 20.0

Play = Callable[[HazardCluster, Running, str, bool], Awaitable[str]]
"""The cluster, the controller under test, a prefix for names, whether the condition holds; gives the volume's
handle."""


@dataclass(frozen=True)
class Hazard:
    """`long`: it takes upstream's six minutes. `restarts`: it kills the controller and starts it again.
    `upstream`: what upstream's controller does by default, and with --disable-force-detach-on-timeout."""

    key: str
    title: str
    play: Play
    upstream: tuple[str, str]
    long: bool = False
    restarts: bool = False


async def slow_unmount_seen_late(stage: HazardCluster, running: Running, name: str, condition: bool) -> str:
    """H1. The condition: the unmount took longer than the force timer, on a node that is Ready throughout."""
    kubelet = await _mounted(stage, name)
    await stage.terminated(f"{name}-a")
    await asyncio.sleep(FORCE_S + 30 if condition else 30)
    stage.proxy.lag.update(pods=LAG_S, nodes=LAG_S)
    await asyncio.sleep(2)
    await kubelet.unmount(name)
    await stage.force_delete(f"{name}-a")
    await asyncio.sleep(LAG_S / 2)
    await stage.pod(f"{name}-b", kubelet.name, name)
    if await stage.reported(
        name, kubelet.name
    ):  # a controller that has un-reported it already detaches it rightly
        await kubelet.mount(name)
    await asyncio.sleep(LAG_S + SETTLED_S)
    return name


async def tainted_though_ready(
    stage: HazardCluster, running: Running, name: str, condition: bool, *, effect: str = "NoExecute"
) -> str:
    """H2. The condition: the out-of-service taint, left over on a node that is Ready."""
    kubelet = await _mounted(stage, name)
    if condition:
        taint = {"key": TAINT, "value": "nodeshutdown", "effect": effect}
        await stage.client.patch(Node, kubelet.name, {"spec": {"taints": [taint]}})
    await stage.terminated(f"{name}-a")
    await asyncio.sleep(UNMOUNTING_S)
    await _finish(stage, name)
    return name


async def node_object_deleted(stage: HazardCluster, running: Running, name: str, condition: bool) -> str:
    """H3a. The condition: an operator deletes the Node of a node that is cut off and still runs a pod."""
    kubelet = await _mounted(stage, name)
    other = await stage.node(f"{name}-other")
    kubelet.answers = False
    if condition:
        await stage.client.delete(Node, kubelet.name)
        await stage.until("pod GC removes the pod", lambda: _gone(stage, f"{name}-a"), 150)
        await stage.pod(f"{name}-b", other.name, name)
    await asyncio.sleep(FORCE_S + SLACK_S)
    return name


async def registered_again(stage: HazardCluster, running: Running, name: str, condition: bool) -> str:
    """H3b. The condition: the Node object is deleted, and the kubelet registers a new one, with nothing in
    use."""
    kubelet = await _mounted(stage, name)
    kubelet.answers = False
    if condition:
        await stage.client.delete(Node, kubelet.name)
    await stage.force_delete(f"{name}-a")
    await asyncio.sleep(3)
    if condition:
        kubelet.forget()
        await kubelet.register()
    kubelet.answers = True
    await asyncio.sleep(SETTLED_S)
    return name


async def volume_object_gone(stage: HazardCluster, running: Running, name: str, condition: bool) -> str:
    """H4a. The PersistentVolume of an attachment is gone when the controller starts; another one of the same
    storage is used elsewhere. The condition: no node's status names the volume either."""
    await _attached(stage, name, reported=not condition)
    await running.killed()
    stage.proxy.refused.clear()
    await stage.force_delete(f"{name}-a")
    for kind, namespace in ((PersistentVolumeClaim, "default"), (PersistentVolume, "")):
        await stage.client.delete(kind, name, namespace)
        with suppress(NotFound):  # a controller that still works has taken its finalizer off already
            await stage.client.patch(kind, name, {"metadata": {"finalizers": None}}, namespace)
    await stage.volume(f"{name}-again", handle=name)
    await running.started_again()
    await asyncio.sleep(SETTLED_S / 2)
    await stage.pod(f"{name}-b", f"{name}-node-other", f"{name}-again")
    await asyncio.sleep(SETTLED_S)
    return name


async def attachment_created_late(stage: HazardCluster, running: Running, name: str, condition: bool) -> str:
    """H4b. The condition: a VolumeAttachment, asked for by a controller that died, appears when its successor
    works."""
    for each in ("", "-other"):
        await stage.node(f"{name}-node{each}")
    await stage.volume(name)
    hold = stage.proxy.hold("POST", "/volumeattachments$", f"{name}-node") if condition else None
    await stage.pod(f"{name}-a", f"{name}-node", name)
    if hold is not None:
        await asyncio.wait_for(hold.held.wait(), 60)
    else:
        await stage.until("it is reported", lambda: stage.reported(name, f"{name}-node"))
    await running.killed()
    stage.proxy.holds.clear()
    await stage.force_delete(f"{name}-a")
    await running.started_again()
    await stage.pod(f"{name}-b", f"{name}-node-other", name)
    await stage.until(
        "the successor has attached it", lambda: stage.attached_to(name, f"{name}-node-other"), 120
    )
    if hold is not None:
        hold.released.set()
    await asyncio.sleep(SETTLED_S)
    return name


async def attached_but_not_reported(
    stage: HazardCluster, running: Running, name: str, condition: bool
) -> str:
    """H4c. The condition: the controller died after the attach and before the node's status said so."""
    await _attached(stage, name, reported=not condition)
    await running.killed()
    stage.proxy.refused.clear()
    await stage.force_delete(f"{name}-a")
    await stage.pod(f"{name}-b", f"{name}-node-other", name)
    await running.started_again()
    await asyncio.sleep(SETTLED_S)
    return name


async def taken_for_terminated(
    stage: HazardCluster, running: Running, name: str, condition: bool, *, statuses: bool = True
) -> str:
    """H5. The condition: the last that was heard of the pod's container, before the node fell silent, is that
    it waits (or nothing). It is being deleted with a grace of an hour."""
    kubelet = await stage.node(f"{name}-node")
    await stage.volume(name)
    await stage.pod(f"{name}-a", kubelet.name, name, grace=3600)
    await kubelet.mount(name)
    waiting = {"waiting": {"reason": "CrashLoopBackOff"}} if statuses else None
    await stage.set_pod(f"{name}-a", "Running", waiting if condition else {"running": {}})
    kubelet.answers = False
    await stage.client.delete(Pod, f"{name}-a", "default")
    await asyncio.sleep(FORCE_S + SLACK_S)
    return name


async def mounted_past_the_timer(stage: HazardCluster, running: Running, name: str, condition: bool) -> str:
    """B13, mended upstream in 1.26. The condition: still mounted after the force timer, on a node that is
    Ready."""
    await _mounted(stage, name)
    await stage.terminated(f"{name}-a")
    await asyncio.sleep(FORCE_S + SLACK_S if condition else 30)
    await _finish(stage, name)
    return name


TORN, TWICE, SAFE = "detached while mounted", "attached to two nodes", ""
HAZARDS = (
    Hazard(
        "H1",
        "slow unmount on a Ready node, watches lag 20 s",
        slow_unmount_seen_late,
        (TORN, SAFE),
        long=True,
    ),
    *(
        Hazard(
            f"H2-{effect.lower()}",
            f"out-of-service taint ({effect}) on a Ready node",
            partial(tainted_though_ready, effect=effect),
            (TORN, TORN),
        )
        for effect in ("NoExecute", "NoSchedule", "PreferNoSchedule")
    ),
    Hazard("H3a", "Node object deleted during a partition", node_object_deleted, (TORN, SAFE), long=True),
    Hazard("H3b", "kubelet registers again after that", registered_again, (TORN, TORN)),
    Hazard(
        "H4a",
        "restart, the volume's object is gone, not reported",
        volume_object_gone,
        (TWICE, TWICE),
        restarts=True,
    ),
    Hazard(
        "H4b", "VolumeAttachment that arrives late", attachment_created_late, (TWICE, TWICE), restarts=True
    ),
    Hazard(
        "H4c", "restart, attached but not reported", attached_but_not_reported, (TWICE, TWICE), restarts=True
    ),
    Hazard("H5-waiting", "pod that waits, on a silent node", taken_for_terminated, (TORN, SAFE), long=True),
    Hazard(
        "H5-empty",
        "pod without statuses, on a silent node",
        partial(taken_for_terminated, statuses=False),
        (TORN, SAFE),
        long=True,
    ),
    Hazard(
        "B13", "mounted past six minutes on a Ready node", mounted_past_the_timer, (SAFE, SAFE), long=True
    ),
)


async def _mounted(stage: HazardCluster, name: str) -> Kubelet:
    """A node NAME-node with a pod NAME-a that has the volume NAME mounted."""
    kubelet = await stage.node(f"{name}-node")
    await stage.volume(name)
    await stage.running_with_volume(name, kubelet.name, f"{name}-a")
    return kubelet


async def _attached(stage: HazardCluster, name: str, *, reported: bool) -> None:
    """Nodes NAME-node and NAME-node-other; the volume NAME is attached to the first, for a pod NAME-a."""
    for each in ("", "-other"):
        await stage.node(f"{name}-node{each}")
    await stage.volume(name)
    if not reported:
        stage.proxy.refused.append(re.compile(f"/nodes/{name}-node/status$"))
    await stage.pod(f"{name}-a", f"{name}-node", name)
    await stage.until("it is attached", lambda: stage.attached_to(name, f"{name}-node"))
    if reported:
        await stage.until("it is reported", lambda: stage.reported(name, f"{name}-node"))


async def _finish(stage: HazardCluster, name: str) -> None:
    """The kubelet ends its work as it should; the volume is detached in the end."""
    await stage.kubelets[f"{name}-node"].unmount(name)
    await stage.force_delete(f"{name}-a")
    await stage.until(f"{name} is detached", lambda: _detached(stage, name), 120)


async def _detached(stage: HazardCluster, name: str) -> bool:
    return not await stage.attachments(name)


async def _gone(stage: HazardCluster, pod: str) -> bool:
    return await stage.client.find(Pod, pod, "default") is None


async def play_all(
    stage: HazardCluster, running: Running, hazards: tuple[Hazard, ...]
) -> dict[tuple[str, bool], str]:
    """The harm done, by hazard and whether its condition held. Those that restart the controller do so
    together, before the others begin."""
    done: dict[tuple[str, bool], str] = {}

    async def play(hazard: Hazard, condition: bool) -> None:
        name = f"{hazard.key.lower()}-{'condition' if condition else 'control'}"
        handle = await hazard.play(stage, running, name, condition)
        done[hazard.key, condition] = stage.truth.harm(handle)

    for restarts in (True, False):
        plays = [
            (hazard, condition)
            for hazard in hazards
            for condition in (False, True)
            if hazard.restarts is restarts
        ]
        running.parties = len(plays)
        async with asyncio.TaskGroup() as group:
            for hazard, condition in plays:
                group.create_task(play(hazard, condition))
    return done
