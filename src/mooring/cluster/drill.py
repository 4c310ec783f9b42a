"""A fence for practice: a node is drained, cut off for real, shown to be silent, and brought back.

Each step is told; the first that fails ends the drill, with the node as it is then and what to do about it.
That it was cut off is shown by what it does not do any more: its agent renews its Lease no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from mooring.cluster import fences
from mooring.cluster.layout import ClusterError
from mooring.kube.client import Client
from mooring.kube.errors import KubeError, NotFound, Throttled
from mooring.kube.objects import Lease, Node, Pod
from mooring.kube.times import Now
from mooring.volumes.node_fences import Phase

LEASES = "kube-node-lease"
DEFAULT_RENEWAL_S = 10.0
RENEWALS = 3
"""So many renewals have to stay away."""
LOOK_S = 0.5
Say = Callable[[str], None]


async def drill(client: Client, name: str, *, by: str, now: Now, say: Say, patience: float) -> None:
    """Plays it; raises ClusterError where a step fails. `patience` in seconds, for each step."""
    node = await client.find(Node, name)
    if node is None or node.ready != "True":
        raise ClusterError(
            f"node {name} is not ready: a drill is for a node that is well. Nothing was changed"
        )
    if any("control-plane" in label for label in node.metadata.labels):
        raise ClusterError(
            f"node {name} is one of the control plane: drill on another one. Nothing was changed"
        )
    cordoned = node.spec.unschedulable
    say(f"1. node {name} is drained")
    await client.patch(Node, name, {"spec": {"unschedulable": True}})
    try:
        await _drained(client, name, patience)
        say("2. it is cut off")
        made = await fences.request(client, name, uid=node.uid, by=by, reason=f"drill by {by}", now=now)
        async for each in fences.followed(client, made):
            made = each
            say(f"   {each.status.phase or Phase.PENDING}: {each.status.message}")
        if made.status.phase != Phase.FENCED:
            raise ClusterError(f"node {name} was not fenced: {made.status.message}")
        await _silent(client, name)
        say("3. it is silent: its agent has missed three renewals of its Lease")
        say(f"4. it is brought back: {await fences.release(client, name)}")
        await _until(lambda: _returned(client, name, node), patience, f"node {name} does not come back")
    except (ClusterError, KubeError) as error:
        raise ClusterError(
            f"{error}. Node {name} stays cordoned; `mooring fence list` says how far its fence is, `mooring fence "
            f"release {name}` brings it back"
        ) from error
    await client.patch(Node, name, {"spec": {"unschedulable": True if cordoned else None}})
    say(f"5. node {name} is ready in a new boot{'' if cordoned else ', and takes pods again'}")


async def _drained(client: Client, name: str, patience: float) -> None:
    async def empty() -> bool:
        pods = [
            each
            for each in (await client.list(Pod, field_selector=f"spec.nodeName={name}")).items
            if _moves(each)
        ]
        for pod in pods:
            if not pod.deleting:
                await _evict(client, pod)
        return not pods

    await _until(
        empty, patience, f"node {name} has pods that do not go (a PodDisruptionBudget may hold them)"
    )


def _moves(pod: Pod) -> bool:
    owner = pod.controller
    return not pod.finished and (owner is None or owner.kind not in ("DaemonSet", "Node"))


async def _evict(client: Client, pod: Pod) -> None:
    body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
    }
    try:
        await client.create_raw(Pod, body, name=pod.name, namespace=pod.namespace, sub="eviction")
    except (Throttled, NotFound):  # a budget holds it for now, or it is gone
        return


async def _silent(client: Client, name: str) -> None:
    lease = await client.find(Lease, name, LEASES)
    if lease is None:
        raise ClusterError(f"node {name} has no Lease: whether it is silent cannot be seen")
    duration = lease.spec.lease_duration_seconds
    await asyncio.sleep(RENEWALS * (duration / 4 if duration else DEFAULT_RENEWAL_S))
    after = await client.find(Lease, name, LEASES)
    if after is not None and after.spec.renew_time != lease.spec.renew_time:
        raise ClusterError(
            f"node {name} has renewed its Lease after it was said to be cut off: its mechanism does not cut it off"
        )


async def _returned(client: Client, name: str, before: Node) -> bool:
    node = await client.find(Node, name)
    if (
        node is None
        or node.ready != "True"
        or node.status.node_info.boot_id == before.status.node_info.boot_id
    ):
        return False
    return await fences.fence_of(client, name) is None


async def _until(holds: Callable[[], Awaitable[bool]], patience: float, what: str) -> None:
    try:
        async with asyncio.timeout(patience):
            while True:
                if await holds():
                    return
                await asyncio.sleep(LOOK_S)
    except TimeoutError:
        raise ClusterError(f"{what}, after {patience:g} s") from None
