"""Nodes that are lost at night: each is cut off by its devices, and what it had moves by itself, never too
early.

No story has an operator who states that a machine is dead; what a person does is said in each.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from mooring.cluster.demo.scene import Demo, ready
from mooring.cluster.power_witness import content
from mooring.kube.objects import Pod
from mooring.kube.objects.fencing import FencePolicy, NodeFence
from mooring.mounts.blocking import blocking
from mooring.volumes.node_fences import Phase

FENCED_S = 90.0
BMC_ALONE = [{"mechanism": "bmc", "confirmWith": ["power-strip"]}]


async def power_lost(demo: Demo) -> None:
    """a. The pod's node loses power, and no operator is there."""
    demo.head("a. Its node loses power at night, and no operator is there")
    stage, watch = demo.stage, demo.watch
    pod = await _running(demo)
    node = pod.spec.node_name
    await demo.writes(pod)
    since = watch.now
    demo.mark(f"{node} loses power")
    await said(demo, "node", "kill", node)
    left = await blocking(content, stage, demo.disk)
    synced = await demo.last(pod, "wrote")
    await demo.timed("silence noticed", since, lambda: ready(watch.node(node)) == "Unknown")
    fence = await fenced(demo, node)
    demo.mark(f"{node} is fenced")
    demo.say(f"fence: {fence.status.attempts[-1].message}")
    demo.check("not a byte of the disk has changed since the power loss", await _same(demo, left, node))
    await demo.timed("moved, unattended", since, lambda: demo.running(not_uid=pod.uid))
    moved = await _running(demo)
    await demo.verified(moved, synced, "after the power loss")
    await _brought_back(demo, node, fence)


async def cut_off(demo: Demo) -> None:
    """b. The pod's node is cut off, and goes on writing."""
    demo.head("b. Its node is cut off from the API server, and goes on writing")
    stage, watch = demo.stage, demo.watch
    pod = await _running(demo)
    node, since = pod.spec.node_name, watch.now
    demo.mark(f"{node} is cut off")
    await said(demo, "node", "cut", node, "--from", "api")
    await demo.writes(pod)  # a few: this machine writes one in a second, and is switched off in ten
    demo.check(f"{node} writes on, unseen", watch.true_state(node) == "mounted")
    await demo.timed("silence noticed, of a cut", since, lambda: ready(watch.node(node)) == "Unknown")
    fence = await fenced(demo, node)
    demo.mark(f"its BMC switches {node} off")
    demo.check(
        f"its BMC has switched it off, and its processes are gone: {_proof(fence)}", not stage.has_power(node)
    )
    left = await blocking(content, stage, demo.disk)
    written = await demo.last(pod, "wrote")
    await demo.timed("moved from a node that wrote on", since, lambda: demo.running(not_uid=pod.uid))
    moved = await _running(demo)
    await demo.verified(
        moved, written, "the last write of the old node is older than the first of the new one"
    )
    demo.check("nothing was ever attached twice", not watch.doubly_attached)
    demo.say(f"(the disk's checksum when the old machine was off: {left[:12]})")
    await said(demo, "node", "heal", node)
    await _brought_back(demo, node, fence)


async def silent_bmc(demo: Demo) -> None:
    """c. The BMC does not answer: the ladder goes on to the power strip."""
    demo.head("c. The BMC of its node does not answer: the ladder goes on")
    pod = await _running(demo)
    node, since = pod.spec.node_name, demo.watch.now
    await said(demo, "machine", "bmc", node, "--misbehave", "silent", "--device", "bmc")
    demo.mark(f"{node} is cut off")
    await said(demo, "node", "cut", node, "--from", "api")
    demo.say("a second source that does not answer does not count: the policy now asks the strip alone")
    await ladder(demo, [{"mechanism": "bmc", "retries": 0}, {"mechanism": "power-strip"}])
    fence = await fenced(demo, node)
    demo.mark(f"{node} is fenced")
    tried = [each.mechanism for each in fence.status.attempts]
    demo.check(
        f"tried in turn: {', '.join(tried)}; shown by {_proof(fence)}", tried[-1] == "power-strip" != tried[0]
    )
    await demo.timed("moved by the second rung", since, lambda: demo.running(not_uid=pod.uid))
    demo.check("nothing was ever attached twice", not demo.watch.doubly_attached)
    await said(demo, "machine", "bmc", node, "--misbehave", "none", "--device", "bmc")
    await said(demo, "node", "heal", node)
    await _brought_back(demo, node, fence)


async def lying_bmc(demo: Demo) -> None:
    """d. The BMC says that the machine is off, which it is not."""
    demo.head("d. The BMC of its node lies")
    stage = demo.stage
    pod = await _running(demo)
    node = pod.spec.node_name
    await ladder(demo, BMC_ALONE)
    await said(demo, "machine", "bmc", node, "--misbehave", "lie", "--device", "bmc")
    demo.mark(f"{node} is cut off")
    await said(demo, "node", "cut", node, "--from", "api")
    fence = await stage.until(
        "a person is asked", lambda: fence_in(demo, node, Phase.AWAITING_PERSON), patience=FENCED_S
    )
    demo.say(f"fence: {fence.status.message}")
    demo.check("the second source disagrees", fence.status.attempts[-1].reason == "Contradicted")
    await demo.writes(pod, more=10)
    demo.check(
        f"nothing is released: {node} still writes, and no other node has the volume",
        stage.truth.holders(demo.disk) == (node,) and stage.has_power(node),
    )
    await said(demo, "machine", "bmc", node, "--misbehave", "none", "--device", "bmc")
    demo.mark("all links are healed")
    await said(demo, "node", "heal", node)
    await stage.until("the fence is given up", lambda: became(demo, fence, Phase.CANCELLED))
    await stage.until("the pod is shown as ready", demo.running)
    still = await _running(demo)
    demo.check("the node answers again: the same pod goes on", still.uid == pod.uid)


async def storm(demo: Demo) -> None:
    """e. Two of three nodes vanish at once."""
    demo.head("e. Two of three nodes vanish at once")
    stage = demo.stage
    pod = await _running(demo)
    node = pod.spec.node_name
    other = next(each for each in ("node-1", "node-2", "node-3") if each != node)
    demo.mark(f"{node} and {other} are cut off")
    # Each command takes a while to start: one after the other, they may be no storm.
    await asyncio.gather(*(said(demo, "node", "cut", each, "--from", "api") for each in (node, other)))
    fences = [
        await stage.until(f"{each} is held", lambda each=each: _held(demo, each), patience=FENCED_S)
        for each in (node, other)
    ]
    demo.say(f"fence: {fences[-1].status.message}")
    await demo.writes(pod, more=10)
    demo.check("both have power: nothing was ordered", all(stage.has_power(each) for each in (node, other)))
    demo.mark("all links are healed")
    for each in (node, other):
        await said(demo, "node", "heal", each)
    for fence in fences:
        await stage.until(
            f"{fence.name} is given up", lambda fence=fence: became(demo, fence, Phase.CANCELLED)
        )
    await stage.until("the pod is shown as ready", demo.running)
    still = await _running(demo)
    demo.check("the network is back: the same pod goes on", still.uid == pod.uid)


async def _running(demo: Demo) -> Pod:
    pod = await demo.running()
    assert pod is not None
    return pod


async def said(demo: Demo, *words: str) -> str:
    status, answer = await demo.stage.command(*words)
    demo.check(f"mooring {' '.join(words)}{f': {answer}' if status else ''}", status == 0)
    return answer


async def _same(demo: Demo, left: str, node: str) -> bool:
    """Whether the disk is as it was, or another node has it by now."""
    if demo.stage.truth.holders(demo.disk) != (node,):
        return True
    return await blocking(content, demo.stage, demo.disk) == left


async def _fences(demo: Demo, node: str) -> list[NodeFence]:
    found = [each for each in (await demo.stage.client.list(NodeFence)).items if each.spec.node_name == node]
    return sorted(found, key=lambda each: int(each.metadata.resource_version), reverse=True)


async def fence_in(demo: Demo, node: str, phase: str) -> NodeFence | None:
    """A fence of the node that is in a phase; to be asked of phases in which no earlier one is left."""
    return next((each for each in await _fences(demo, node) if each.status.phase == phase), None)


async def became(demo: Demo, fence: NodeFence, phase: str) -> bool:
    """Whether this very fence is in a phase by now: earlier ones of its node ended in it, too."""
    return (await demo.stage.client.get(NodeFence, fence.name)).status.phase == phase


async def _held(demo: Demo, node: str) -> NodeFence | None:
    fence = await fence_in(demo, node, Phase.PENDING)
    return fence if fence is not None and fence.status.reason == "Storm" else None


async def fenced(demo: Demo, node: str) -> NodeFence:
    return await demo.stage.until(
        f"{node} is fenced", lambda: fence_in(demo, node, Phase.FENCED), patience=FENCED_S
    )


def _proof(fence: NodeFence) -> str:
    return fence.status.attempts[-1].message


async def ladder(demo: Demo, ladder: list[dict[str, Any]]) -> None:
    await demo.stage.client.patch(FencePolicy, "default", {"spec": {"ladder": ladder}})


async def _brought_back(demo: Demo, node: str, fence: NodeFence) -> None:
    """A person wants the machine back: it is switched on, boots, and is free."""
    since = demo.watch.now
    demo.mark(f"{node} is released")
    await said(demo, "fence", "release", node)
    await demo.timed("node is back", since, lambda: ready(demo.watch.node(node)) == "True")
    await demo.stage.until("its fence is over", lambda: became(demo, fence, Phase.UNFENCED))
    _, answer = await demo.stage.command("fence", "list", "-o", "json")
    phases = {each["node"]: each["phase"] for each in reversed(json.loads(answer))}
    demo.check(f"{node} has booted anew and may have pods again", phases[node] == Phase.UNFENCED)


STORIES = (power_lost, cut_off, silent_bmc, lying_bmc, storm)
