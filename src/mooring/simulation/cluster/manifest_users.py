"""Users who have a machine's folder of manifests: they write, change and remove static pods, and delete their
mirrors."""

from __future__ import annotations

import asyncio

from mooring.kube.objects import Pod
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.cluster.plan import PlanStep, workloads_of
from mooring.simulation.cluster.workloads import MANIFESTS, NAMESPACE, manifest


class ManifestUsers:
    """All of them; each method but the first is a kind of action."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster
        self._names = [name for name, kind in workloads_of(cluster.scenario).items() if kind in MANIFESTS]

    def write_all(self) -> None:
        """The first edition, on each machine."""
        for node in self._cluster.machines:
            for name in self._names:
                self._write(node, name, 0)

    def _write(self, node: str, name: str, edition: int) -> None:
        self._cluster.editions[node, name] = edition
        self._cluster.machines[node].manifests.write(name, manifest(name, edition))
        self._cluster.trace("user", "plan.manifest", node=node, name=name, edition=edition)

    async def edit_manifest(self, step: PlanStep) -> None:
        for name in self._names:
            self._write(step.on, name, self._cluster.editions[step.on, name] + 1)

    async def remove_manifest(self, step: PlanStep) -> None:
        """And write it again, as it was (how 0) or in a new edition."""
        for name in self._names:
            self._cluster.machines[step.on].manifests.remove(name)
        await asyncio.sleep(step.value)
        for name in self._names:
            self._write(step.on, name, self._cluster.editions[step.on, name] + (step.how > 0))

    async def delete_mirror(self, step: PlanStep) -> None:
        for name in self._names:
            await self._cluster.as_user(
                lambda n=name: self._cluster.api.delete(Pod, f"{n}-{step.on}", NAMESPACE)
            )
