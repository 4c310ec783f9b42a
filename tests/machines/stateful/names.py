"""The addresses of a StatefulSet's pods, as they are now: for its clients, and for its pods in a ConfigMap.
There is no DNS in a cluster of `mooring up`; this stands for it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from mooring.cluster.stage import Stage
from mooring.kube.errors import KubeError
from mooring.kube.objects import ConfigMap, Pod

LOOK_S = 0.3
MEMBERS = "members"


async def follow(stage: Stage, app: str, addresses: dict[str, str]) -> None:
    """Keeps `addresses` and the ConfigMap up to date until it is cancelled. While the API server does not
    answer, those of the last look stay."""
    published = ""
    while True:
        with suppress(KubeError, TimeoutError):
            pods = (await stage.client.list(Pod, "default", label_selector=f"app={app}")).items
            addresses |= {pod.name: pod.status.pod_ip for pod in pods if pod.status.pod_ip}
            hosts = "".join(f"{address} {name}\n" for name, address in sorted(addresses.items()))
            if hosts != published:
                await stage.client.patch(ConfigMap, MEMBERS, {"data": {"hosts": hosts}}, "default")
                published = hosts
        await asyncio.sleep(LOOK_S)
