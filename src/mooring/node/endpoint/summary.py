"""How full each pod's volumes are, in the form of upstream's /stats/summary."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mooring.kube.objects import Pod
from mooring.kube.times import Now, format_time
from mooring.volumes.claims import claim_name
from mooring.volumes.interfaces import Metrics, MetricsNotSupported, Volume

Mounted = Iterable[tuple[Pod, str, Volume]]
"""Each pod's volumes that are set up, with their names in the pod."""


async def summary(node_name: str, mounted: Mounted, now: Now) -> dict[str, Any]:
    """Asks every volume; those that have no figures are left out."""
    pods: dict[str, dict[str, Any]] = {}
    for pod, name, volume in mounted:
        try:
            metrics = await volume.get_metrics()
        except MetricsNotSupported:
            continue
        reference = {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid}
        entry = pods.setdefault(
            pod.uid, {"podRef": reference, "startTime": pod.status.start_time, "volume": []}
        )
        entry["volume"].append(
            {"name": name, "time": format_time(now()), **_figures(metrics), **_claim(pod, name)}
        )
    return {"node": {"nodeName": node_name}, "pods": list(pods.values())}


def _figures(metrics: Metrics) -> dict[str, int]:
    return {
        "capacityBytes": metrics.capacity,
        "usedBytes": metrics.used,
        "availableBytes": metrics.available,
        "inodes": metrics.inodes,
        "inodesUsed": metrics.inodes_used,
        "inodesFree": metrics.inodes_free,
    }


def _claim(pod: Pod, name: str) -> dict[str, Any]:
    claims = [claim_name(pod, volume) for volume in pod.spec.volumes if volume.name == name]
    return {"pvcRef": {"name": claims[0], "namespace": pod.namespace}} if claims and claims[0] else {}
