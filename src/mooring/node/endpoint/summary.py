"""How full each pod's volumes are, in the form of upstream's /stats/summary."""

from __future__ import annotations

from typing import Any

from mooring.kube.objects import Pod
from mooring.kube.times import Now, format_time
from mooring.node.endpoint.volume_metrics import Mounted, claim_of
from mooring.node.endpoint.volume_stats import VolumeStats
from mooring.volumes.interfaces import Metrics


async def summary(node_name: str, mounted: Mounted, stats: VolumeStats, now: Now) -> dict[str, Any]:
    """Asks every volume; those that have no figures, or do not answer in time, are left out."""
    volumes = list(mounted)
    measured = await stats.measure(volume for _, _, volume in volumes)
    pods: dict[str, dict[str, Any]] = {}
    for pod, name, volume in volumes:
        if (metrics := measured.get(volume.get_path())) is None:
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
    claim = claim_of(pod, name)
    return {"pvcRef": {"name": claim[1], "namespace": claim[0]}} if claim is not None else {}
