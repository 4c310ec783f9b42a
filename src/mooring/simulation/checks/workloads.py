"""What must hold in the end of DaemonSets, Jobs and PodDisruptionBudgets.

Read from the API at the end of a run. Nothing is asked for where a scenario has no such workload.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

from mooring.kube.objects import DaemonSet, Job, Node, Pod, PodDisruptionBudget
from mooring.kube.readiness import ready_since
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.cluster.workloads import DAEMONS, GUARDED, JOBS

TRACKING = "batch.kubernetes.io/job-tracking"

Complaint = tuple[str, str]


def of_controllers(scenario: Scenario) -> set[str]:
    """The names of the workloads whose pods are judged here."""
    return {name for name in scenario.sets if scenario.workloads.get(name) in DAEMONS | JOBS}


async def complaints(cluster: SimulatedCluster, pods: Mapping[str, Pod]) -> AsyncIterator[Complaint]:
    """Yields each property that does not hold. `pods`: all but those of silent machines, by name."""
    kinds = frozenset(cluster.scenario.workloads.values())
    if kinds & DAEMONS:
        async for complaint in _daemons(cluster, pods):
            yield complaint
    if kinds & JOBS and not cluster.silent:
        async for complaint in _jobs(cluster, pods):
            yield complaint
    if kinds & GUARDED and not cluster.silent:
        async for complaint in _budgets(cluster, pods):
            yield complaint


async def _daemons(cluster: SimulatedCluster, pods: Mapping[str, Pod]) -> AsyncIterator[Complaint]:
    nodes = {each.name for each in (await cluster.api.list(Node)).items} - cluster.silent
    for each in (await cluster.api.list(DaemonSet)).items:
        ours = [pod for pod in pods.values() if pod.metadata.labels.get("app") == each.name]
        for node in sorted(nodes - cluster.lost):
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
