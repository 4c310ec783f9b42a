"""The addresses of a StatefulSet's pods, as they are now: for its clients, and for its pods in a ConfigMap.
There is no DNS in a cluster of `mooring up`; this stands for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from mooring.cluster.stage import Stage
from mooring.kube.errors import KubeError
from mooring.kube.objects import ConfigMap, Pod

LOOK_S = 0.3
MEMBERS = "members"


async def follow(
    stage: Stage, app: str, addresses: dict[str, str], note: Callable[[str], None] = lambda line: None
) -> None:
    """Keeps `addresses` and the ConfigMap up to date until it is cancelled. While the API server does not
    answer, those of the last look stay. Notes what becomes of each pod."""
    published = ""
    seen: dict[str, str] = {}
    while True:
        with suppress(KubeError, TimeoutError):
            pods = (await stage.client.list(Pod, "default", label_selector=f"app={app}")).items
            states = {pod.name: _state(pod) for pod in pods}
            for name in sorted({**seen, **states}):
                if states.get(name) != seen.get(name):
                    note(f"  {name}: {states.get(name, 'is gone')}")
            seen = states
            addresses |= {pod.name: pod.status.pod_ip for pod in pods if pod.status.pod_ip}
            hosts = "".join(f"{address} {name}\n" for name, address in sorted(addresses.items()))
            if hosts != published:
                await stage.client.patch(ConfigMap, MEMBERS, {"data": {"hosts": hosts}}, "default")
                published = hosts
        await asyncio.sleep(LOOK_S)


def _state(pod: Pod) -> str:
    ready = any(each.type == "Ready" and each.status == "True" for each in pod.status.conditions)
    words = [pod.status.phase, "ready" * ready, "ends" * pod.deleting, pod.uid[:4]]
    restarts = sum(each.restart_count for each in pod.status.container_statuses)
    waits = [each.state.waiting.reason for each in pod.status.container_statuses if each.state.waiting]
    words += [f"restarts {restarts}" * bool(restarts), *filter(None, waits)]
    return f"{' '.join(filter(None, words))} on {pod.spec.node_name or 'no node'}"
