"""What must hold in the end of volumes that show content of the API: each pod that runs sees what its objects
say now (L23), in the files that are on its machine then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import msgspec

from mooring.kube.objects import ConfigMap, Object, Pod, Secret
from mooring.simulation.checks.invariants.contents import Files, says, sources
from mooring.simulation.checks.invariants.objects import ObjectKey, StoredObject, decode
from mooring.simulation.checks.liveness import Complaint
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.cluster.workloads import CONFIGURED, NAMESPACE
from mooring.simulation.parts.content_plugins import seen

KINDS: tuple[type[Object], ...] = (ConfigMap, Secret, Pod)


async def complaints(cluster: SimulatedCluster) -> AsyncIterator[Complaint]:
    """Yields each volume that shows something else."""
    if CONFIGURED.isdisjoint(cluster.scenario.workloads.values()):
        return
    said: dict[ObjectKey, Files] = {}
    pods: list[StoredObject] = []
    for kind in KINDS:
        for each in (await cluster.api.list(kind, NAMESPACE)).items:
            body = msgspec.json.encode(each)
            said[kind.RESOURCE.plural, each.key] = says(kind.RESOURCE.plural, body)
            pods += [decode(body)] if kind is Pod else []
    running = {uid for machine in cluster.machines.values() for uid, _ in machine.runtime.running()}
    for pod in pods:
        if pod.metadata.uid in running and pod.spec.node_name in cluster.powered:
            for what in unlike(cluster.machines[pod.spec.node_name].root, pod, said):
                yield "L23", f"pod {pod.metadata.name}: {what}"


def unlike(root: Path, pod: StoredObject, said: Mapping[ObjectKey, Files]) -> Iterator[str]:
    """Where the files of a pod on the machine with that root are not what the objects say."""
    name = f"{NAMESPACE}/{pod.metadata.name}"
    for volume in pod.spec.volumes:
        there = [*root.glob(f"pods/{pod.metadata.uid}/volumes/*/{volume.name}")]
        files = {path: text for path, text in seen(there[0]) if isinstance(text, str)} if there else {}
        for source in sources(name, volume):
            wanted = said.get(source.of)
            if wanted is not None and source.seen(files) != source.files(wanted):
                yield f"{volume.name} shows {source.seen(files)}, and {source.of[1]} says {wanted}"
