"""What must hold in the end of DaemonSets, Jobs, PodDisruptionBudgets and namespaces.

Read from the API at the end of a run. Nothing is asked for where a scenario has no such workload.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping

from mooring.kube.objects import (
    DaemonSet,
    Job,
    Namespace,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    ResourceQuota,
    ServiceAccount,
    StatefulSet,
)
from mooring.kube.quantity import parse_bytes
from mooring.kube.readiness import ready_since
from mooring.node.static.manifests import MIRROR
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.cluster.workloads import (
    DAEMONS,
    EDITION,
    GROWING,
    GUARDED,
    JOBS,
    MANIFESTS,
    NAMESPACE,
    QUOTAS,
    TENANTS,
)

TRACKING = "batch.kubernetes.io/job-tracking"

Complaint = tuple[str, str]


def of_controllers(scenario: Scenario) -> set[str]:
    """The names of the workloads whose pods are judged here."""
    return {name for name in scenario.sets if scenario.workloads.get(name) in DAEMONS | JOBS | MANIFESTS}


async def complaints(cluster: SimulatedCluster, pods: Mapping[str, Pod]) -> AsyncIterator[Complaint]:
    """Yields each property that does not hold. `pods`: all but those of silent machines, by name."""
    kinds = frozenset(cluster.scenario.workloads.values())
    if kinds & DAEMONS:
        async for complaint in _daemons(cluster, pods):
            yield complaint
    if kinds & JOBS and not cluster.silent:
        async for complaint in _jobs(cluster, pods):
            yield complaint
    for complaint in _manifests(cluster, pods):
        yield complaint
    if kinds & QUOTAS:
        async for complaint in _quotas(cluster):
            yield complaint
    if kinds & GROWING:
        async for complaint in _growing(cluster):
            yield complaint
    if kinds & TENANTS:
        async for complaint in _tenants(cluster):
            yield complaint
    if kinds & GUARDED and not cluster.silent:
        async for complaint in _budgets(cluster, pods):
            yield complaint


async def _daemons(cluster: SimulatedCluster, pods: Mapping[str, Pod]) -> AsyncIterator[Complaint]:
    nodes = {each.name for each in (await cluster.api.list(Node)).items} - cluster.silent
    for each in (await cluster.api.list(DaemonSet)).items:
        ours = [pod for pod in pods.values() if pod.metadata.labels.get("app") == each.name]
        for node in sorted(nodes & cluster.powered):
            here = [pod for pod in ours if pod.spec.node_name == node]
            if len(here) != 1 or ready_since(here[0]) is None or here[0].deleting:
                found = ", ".join(f"{pod.name} {pod.status.phase}" for pod in here) or "none"
                yield (
                    "L9",
                    f"of DaemonSet {each.name} one ready pod should be on {node}, and there is {found}",
                )


async def _jobs(cluster: SimulatedCluster, pods: Mapping[str, Pod]) -> AsyncIterator[Complaint]:
    jobs = {each.uid: each for each in (await cluster.api.list(Job)).items}
    for each in jobs.values():
        status = each.status
        complete = any(c.type == "Complete" and c.status == "True" for c in status.conditions)
        if not complete or status.succeeded != each.spec.completions or status.active or status.terminating:
            yield (
                "L10",
                f"Job {each.name} has succeeded {status.succeeded} times of {each.spec.completions}, {status}",
            )
    for name, pod in sorted(pods.items()):
        owner = pod.controller
        if TRACKING in pod.metadata.finalizers:
            yield "L10", f"pod {name} waits for a Job to count it"
        elif owner is not None and owner.kind == "Job" and (owner.uid not in jobs or not pod.finished):
            yield "L10", f"pod {name} of a Job that is gone or complete is {pod.status.phase}"


async def _quotas(cluster: SimulatedCluster) -> AsyncIterator[Complaint]:
    claims = (await cluster.api.list(PersistentVolumeClaim, NAMESPACE)).items
    storage = sum(parse_bytes(claim.spec.resources.requests["storage"]) for claim in claims)
    for each in (await cluster.api.list(ResourceQuota, NAMESPACE)).items:
        used = each.status.used
        said = int(used.get("persistentvolumeclaims", 0)), parse_bytes(used.get("requests.storage", 0))
        if said != (len(claims), storage):
            yield (
                "L15",
                f"ResourceQuota {each.name} says {used}: {len(claims)} claims ask for {storage} bytes",
            )


def _manifests(cluster: SimulatedCluster, pods: Mapping[str, Pod]) -> Iterator[Complaint]:
    """On each machine the newest edition of each static pod runs, and nothing of an earlier one; its mirror
    shows it."""
    for (node, name), edition in sorted(cluster.editions.items()):
        if node not in cluster.powered or node in cluster.silent:
            continue
        running = [uid for uid, pod in cluster.machines[node].runtime.running() if pod == f"{name}-{node}"]
        mirror = pods.get(f"{name}-{node}")
        shown = mirror.metadata.annotations if mirror is not None and not mirror.deleting else {}
        ready = mirror is not None and ready_since(mirror) is not None
        if running != [shown.get(MIRROR)] or shown.get(EDITION) != str(edition) or not ready:
            yield (
                "L14",
                f"static pod {name} of {node} should run in edition {edition}: {', '.join(running) or 'nothing'} "
                f"runs, and its mirror shows {shown or 'nothing'}",
            )


async def _growing(cluster: SimulatedCluster) -> AsyncIterator[Complaint]:
    """What claims ask for is what they have: in the API, in the storage, and in what is mounted."""
    array = cluster.array
    mounted = {disk for disk, node in array.mounted if node not in cluster.silent}
    going = {each.name for each in (await cluster.api.list(PersistentVolume)).items if each.deleting}
    for claim in (await cluster.api.list(PersistentVolumeClaim)).items:
        disk, wanted = claim.spec.volume_name, parse_bytes(claim.spec.resources.requests["storage"])
        if not array.sizes[disk] or disk not in mounted or disk in going or claim.deleting:
            continue  # it has never been asked to grow, or no node can do its part, or it is being deleted
        has = parse_bytes(claim.status.capacity.get("storage", 0))
        if not wanted <= has <= array.file_systems[disk] <= array.sizes[disk] or claim.status.conditions:
            yield (
                "L13",
                f"claim {claim.name} asks for {wanted} bytes and has {has}, {claim.status.conditions}; "
                f"its disk has {array.sizes[disk]}, and its file system {array.file_systems[disk]}",
            )


async def _tenants(cluster: SimulatedCluster) -> AsyncIterator[Complaint]:
    """A namespace that was deleted has gone, and the one that was made anew has all that it should have."""
    found = {each.name: each for each in (await cluster.api.list(Namespace)).items}
    everywhere = (await cluster.api.list(Pod)).items
    kept = {pod.namespace for pod in everywhere if pod.spec.node_name in cluster.silent}
    for name in (each for each, kind in cluster.scenario.workloads.items() if kind in TENANTS):
        if name in kept and found[name].deleting:
            continue  # a pod of a machine that no operator has declared dead may still run
        if name not in found or found[name].deleting:
            yield "L16", f"namespace {name} {'still ends' if name in found else 'does not exist'}"
        elif await cluster.api.find(StatefulSet, name, name) is None:
            yield "L16", f"namespace {name} has no StatefulSet"
        elif await cluster.api.find(ServiceAccount, "default", name) is None:
            yield "L16", f"namespace {name} has no service account"


async def _budgets(cluster: SimulatedCluster, pods: Mapping[str, Pod]) -> AsyncIterator[Complaint]:
    for each in (await cluster.api.list(PodDisruptionBudget)).items:
        ours = [pod for pod in pods.values() if pod.metadata.labels.get("app") == each.name]
        healthy = sum(ready_since(pod) is not None and not pod.deleting for pod in ours)
        status = each.status
        if (status.current_healthy, status.expected_pods) != (healthy, len(ours)) or status.disrupted_pods:
            yield (
                "L11",
                f"PodDisruptionBudget {each.name} says {status}: {healthy} of {len(ours)} are healthy",
            )
