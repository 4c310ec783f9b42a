"""How full the volumes of claims are, as upstream's kubelet says it in /metrics.

Asked at a scrape, and known for a minute, as long as upstream's kubelet keeps what it has measured:
an agent without scrapes measures nothing. A claim that several pods of this node use appears once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import GaugeMetricFamily

from mooring.kube.objects import Pod
from mooring.node.endpoint.volume_stats import VolumeStats
from mooring.volumes.claims import claim_name
from mooring.volumes.interfaces import Metrics, Volume

AGE_S = 60.0
Mounted = Iterable[tuple[Pod, str, Volume]]
"""Each pod's volumes that are set up, with their names in the pod."""
Claim = tuple[str, str]
"""Its namespace and name."""

_BYTES = {"capacity_bytes": "capacity", "available_bytes": "available", "used_bytes": "used"}
_INODES = {"inodes": "inodes", "inodes_free": "inodes_free", "inodes_used": "inodes_used"}


async def claim_metrics(mounted: Mounted, stats: VolumeStats) -> bytes:
    """The text of these metrics."""
    volumes = [(claim, volume) for pod, name, volume in mounted if (claim := claim_of(pod, name)) is not None]
    found = await stats.measure((volume for _, volume in volumes), AGE_S)
    by_claim: dict[Claim, Metrics] = {}
    for claim, volume in volumes:
        if (metrics := found.get(volume.get_path())) is not None:
            by_claim.setdefault(claim, metrics)
    registry = CollectorRegistry()
    registry.register(_Families(by_claim, stats.unanswered))
    return generate_latest(registry)


def claim_of(pod: Pod, name: str) -> Claim | None:
    """The claim behind the pod's volume of that name, if there is one."""
    claims = (claim_name(pod, volume) for volume in pod.spec.volumes if volume.name == name)
    return next(((pod.namespace, claim) for claim in claims if claim), None)


class _Families:
    """What is measured, as a collector."""

    def __init__(self, by_claim: Mapping[Claim, Metrics], unanswered: int) -> None:
        self._by_claim = by_claim
        self._unanswered = unanswered

    def collect(self) -> Iterable[GaugeMetricFamily]:
        for name, field in (_BYTES | _INODES).items():
            text = f"The {name.replace('_', ' ')} of the volume of a claim."
            family = GaugeMetricFamily(f"kubelet_volume_stats_{name}", text, labels=_LABELS)
            for claim, metrics in sorted(self._by_claim.items()):
                if (
                    field in _BYTES.values() or metrics.inodes
                ):  # a file system may make them as they are needed
                    family.add_metric(claim, getattr(metrics, field))
            yield family
        text = "Volumes that are asked just now how full they are, or do not answer."
        yield GaugeMetricFamily("mooring_node_volumes_unanswered", text, value=self._unanswered)


_LABELS = ("namespace", "persistentvolumeclaim")
