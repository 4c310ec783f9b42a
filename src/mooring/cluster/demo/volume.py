"""One volume's life: a drain; a node that loses power while the pod writes; a controller that is killed three
times in the middle of a move. With `--machines` a fourth: a node is cut off from the API server and goes on
writing. With `--cloud` the volume is EBS's, through its CSI driver.
"""

from __future__ import annotations

import asyncio

from mooring.cluster.demo.scene import CLAIM, MANIFEST, NODES, POD, Demo, examples, ready
from mooring.cluster.observer import Observer
from mooring.cluster.power_witness import UNSYNCED, OwnKernel, PowerWitness, SharedKernel, content
from mooring.controllers.attachdetach.decide import Attachment, NodeState, may_release
from mooring.kube.objects import Node, PersistentVolume, PersistentVolumeClaim, Pod
from mooring.mounts.blocking import blocking
from mooring.pictures.model import Loss
from mooring.volumes.names import ATTACH_REQUESTED_AT


async def first_volume(demo: Demo) -> None:
    """Claim → provision → attach → format → mount → run."""
    stage, watch = demo.stage, demo.watch
    demo.head("A pod asks for a volume")
    since = watch.now
    demo.mark("a pod asks for a volume")
    demo.say(f"applied examples/{MANIFEST} with {await stage.apply(examples() / MANIFEST)}")
    await demo.timed("claim bound", since, lambda: _bound_volume(demo))
    await demo.timed("attached", since, lambda: {"attached", "mounted"} & _true_states(watch))
    await demo.timed("mounted", since, lambda: "mounted" in _true_states(watch))
    await demo.timed("pod running", since, demo.running)
    pod = await demo.running()
    assert pod is not None
    await demo.writes(pod)
    demo.check(f"the pod writes on {pod.spec.node_name}, to {_where(demo, pod)}", True)


def _true_states(watch: Observer) -> set[str]:
    return {watch.true_state(f"node-{number}") for number in range(1, NODES + 1)}


async def _bound_volume(demo: Demo) -> bool:
    claim = await demo.stage.client.find(PersistentVolumeClaim, CLAIM, "default")
    if claim is None or claim.status.phase != "Bound":
        return False
    volume = await demo.stage.client.get(PersistentVolume, claim.spec.volume_name)
    demo.disk = volume.spec.csi.volume_handle if volume.spec.csi is not None else volume.name
    demo.watch.volume, demo.watch.disk, demo.watch.pod = volume.name, demo.disk, POD
    return True


def _where(demo: Demo, pod: Pod) -> str:
    device = demo.stage.truth.device(demo.disk, pod.spec.node_name)
    return f"{device} (a real block device)" if device and device.startswith("/dev/") else "a directory"


async def drain(demo: Demo) -> None:
    """a. The pod's node is drained."""
    demo.head("a. Its node is drained")
    pod = await demo.running()
    assert pod is not None
    written = await demo.writes(pod)
    node, since = pod.spec.node_name, demo.watch.now
    demo.mark(f"{node} is drained")
    await demo.stage.drain(node)
    await demo.timed("moved by drain", since, lambda: demo.running(not_uid=pod.uid))
    moved = await demo.running()
    assert moved is not None
    demo.check(f"the pod moved from {node} to {moved.spec.node_name}", moved.spec.node_name != node)
    await demo.verified(moved, written, "after the drain")
    await demo.stage.cordon(node, False)


async def power_loss(demo: Demo) -> None:
    """b. The pod's node loses power while it writes."""
    demo.head("b. Its node loses power while it writes")
    stage, watch = demo.stage, demo.watch
    pod = await demo.running()
    assert pod is not None
    node, witness = pod.spec.node_name, _witness(demo, pod)
    await demo.writes(pod)
    await witness.begin()
    since = watch.now
    demo.mark(f"{node} loses power")
    killing = asyncio.create_task(stage.command("node", "kill", node))
    outcome = await witness.after(killing)
    status, answer = await killing
    lost_at = watch.now
    demo.check(answer, status == 0)
    if demo.rootless:
        demo.say(f"(directories have no power to lose: a late write {outcome})")
    else:
        demo.check(f"no later write of the old node succeeds ({outcome})", outcome in ("EIO", "nothing runs"))
    left = None if demo.rootless else await blocking(content, stage, demo.disk)
    synced = await demo.last(pod, "wrote")
    demo.say(f"the last record known to be synced is {synced}")
    status, answer = await stage.command("node", "confirm-dead", node)
    demo.check(f"confirm-dead is refused while {node} is not known to be silent", status != 0)
    await demo.timed("silence noticed", since, lambda: ready(watch.node(node)) == "Unknown")
    await _show_wait(demo, node)
    if left is not None:
        now = await blocking(content, stage, demo.disk)
        demo.check("not a byte of the disk has changed since the power loss", now == left)
    confirmed = watch.now
    demo.mark(f"an operator states that {node} is dead")
    status, answer = await stage.command("node", "confirm-dead", node)
    demo.check(answer, status == 0)
    await demo.timed("moved after confirm-dead", confirmed, lambda: demo.running(not_uid=pod.uid))
    demo.durations.append(("recovered from power loss, in all", watch.now - since))
    moved = await demo.running()
    assert moved is not None
    await demo.verified(moved, synced, "after the power loss")
    await _check_unsynced_is_lost(demo, moved, node, lost_at)
    await _power_on(demo, node)


def _witness(demo: Demo, pod: Pod) -> PowerWitness:
    node = pod.spec.node_name
    if demo.stage.own_kernel(node):
        return OwnKernel(demo.stage, node, demo.disk)
    mount = demo.stage.inside(node, demo.disk)
    assert mount is not None
    return SharedKernel(mount)


async def _show_wait(demo: Demo, node: str) -> None:
    """Says why the volume does not move yet, in the controller's own words."""
    live = await demo.stage.client.get(Node, node)
    record = demo.watch.record(node)
    assert record is not None
    name = next(iter(live.status.volumes_in_use), "")
    verdict = may_release(NodeState.of(live, name), Attachment.of(record))
    demo.waited[node] = verdict.reason.message
    await asyncio.sleep(1)
    held = demo.stage.truth.holders(demo.disk)
    demo.check(f"the volume waits: {verdict.reason.message}", not verdict.allowed and held == (node,))


async def _check_unsynced_is_lost(demo: Demo, pod: Pod, lost: str, since: float) -> None:
    node = pod.spec.node_name
    text = await demo.stage.file_of(node, demo.stage.truth.staged_at(demo.disk, node) / "unsynced")
    size, all_of_it = len(text or ""), len(UNSYNCED)
    if demo.rootless:
        demo.say(f"(directories have no power to lose: {size} unsynced bytes are still there)")
    else:
        demo.check(
            f"control: what was written but never synced is lost ({size} of {all_of_it} bytes are left)",
            size == 0,
        )
        words = f"{all_of_it - size} bytes that were never synced; all synced records are there"
        demo.losses.append((lost, Loss(since, words)))


async def _power_on(demo: Demo, node: str) -> None:
    since = demo.watch.now
    demo.mark(f"{node} boots")
    status, answer = await demo.stage.command("node", "start", node)
    demo.check(answer, status == 0)
    await demo.timed("node is back", since, lambda: ready(demo.watch.node(node)) == "True")
    status, answer = await demo.stage.until("it is welcome", lambda: _welcomed(demo, node))
    demo.say(answer)


async def _welcomed(demo: Demo, node: str) -> tuple[int, str] | None:
    status, answer = await demo.stage.command("node", "welcome", node)
    return (status, answer) if status == 0 else None


async def controller_crashes(demo: Demo) -> None:
    """c. The controllers are killed three times during one move."""
    demo.head("c. The controllers are killed with -9 three times during one move")
    stage, watch = demo.stage, demo.watch
    pod = await demo.running()
    assert pod is not None
    old, since = pod.spec.node_name, watch.now
    written = await demo.writes(pod)
    await stage.truth.slow_down(demo.disk, 2.5)
    await stage.cordon(old)
    await stage.client.delete(Pod, POD, "default", uid=pod.uid)
    demo.mark("the pod is deleted")
    new = await stage.until("a new pod has a node", lambda: _new_node(demo, pod.uid))
    await stage.until("nothing is written for the new node yet", lambda: watch.record(new) is None)
    await _kill(demo, "before the intent is written", watch.record(new) is None)
    await stage.until("the intent is written", lambda: _requested(demo, new))
    await _kill(demo, "after the intent, before the attach", new not in stage.truth.holders(demo.disk))
    await stage.until("the disk is attached", lambda: new in stage.truth.holders(demo.disk))
    record = watch.record(new)
    await _kill(
        demo, "after the attach, before its status", record is not None and not record.status.attached
    )
    await stage.truth.slow_down(demo.disk, 0)
    await demo.timed("moved despite three crashes", since, lambda: demo.running(not_uid=pod.uid))
    moved = await demo.running()
    assert moved is not None
    await demo.verified(moved, written, "after the crashes")
    demo.check("nothing was ever attached twice", not watch.doubly_attached)
    await stage.cordon(old, False)


async def cut_off(demo: Demo) -> None:
    """d. The pod's node is cut off from the API server, and goes on writing."""
    demo.head("d. Its node is cut off from the API server, and goes on writing")
    stage, watch = demo.stage, demo.watch
    pod = await demo.running()
    assert pod is not None
    node, since = pod.spec.node_name, watch.now
    await demo.writes(pod)
    demo.mark(f"{node} is cut off")
    status, answer = await stage.command("node", "cut", node, "--from", "api")
    demo.check(answer, status == 0)
    await demo.timed("silence noticed, of a cut", since, lambda: ready(watch.node(node)) == "Unknown")
    before = await demo.last(pod, "wrote")
    written = await demo.writes(pod, more=10)
    demo.check(
        f"to the API {node} is silent; in truth it has written {written - before} more records meanwhile",
        watch.true_state(node) == "mounted",
    )
    await _show_wait(demo, node)
    healed = watch.now
    demo.mark("its link is healed")
    status, answer = await stage.command("node", "heal", node)
    demo.check(answer, status == 0)
    await demo.timed("node is back, its link healed", healed, lambda: ready(watch.node(node)) == "True")
    await stage.until("the pod is shown as ready", demo.running)
    still = await demo.running()
    demo.check("the same pod goes on, on the same node", still is not None and still.uid == pod.uid)
    await demo.writes(pod)
    demo.check("nothing was ever attached twice", not watch.doubly_attached)


async def _new_node(demo: Demo, old_uid: str) -> str:
    pod = await demo.stage.client.find(Pod, POD, "default")
    return pod.spec.node_name if pod is not None and pod.uid != old_uid else ""


def _requested(demo: Demo, node: str) -> bool:
    record = demo.watch.record(node)
    return record is not None and ATTACH_REQUESTED_AT in record.metadata.annotations


async def _kill(demo: Demo, when: str, as_meant: bool) -> None:
    parts = [part for part in ("controllers", demo.stage.truth.part) if part]
    for part in parts:
        demo.stage.kill_part(part)
    demo.mark(f"kill -9 {when}")
    demo.check(f"killed {when}", as_meant)
    await demo.stage.until("the controllers are back", lambda: all(map(demo.stage.part, parts)))
