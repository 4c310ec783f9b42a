"""Volumes that are made by hand one after the other, soon after the claims that wait for any of them, while a
program that keeps an account of volumes labels each as soon as it can be had: just when it is being bound.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from mooring.kube.objects import Object, PersistentVolume
from mooring.simulation.cluster.cluster import SimulatedCluster
from mooring.simulation.engine.randomness import stream
from mooring.simulation.engine.trace import Event

SOONEST_S, LATEST_S = 2.0, 20.0
INVENTORY = "example.com/inventory"
"""The label of that program."""
Wanted = tuple[type[Object], dict[str, Any], str]
"""What is to be created: kind, body and namespace."""

_volume = msgspec.json.Decoder(PersistentVolume).decode


class LateVolumes:
    """Those of one workload, in every second cluster."""

    def __init__(self, cluster: SimulatedCluster, workload: str) -> None:
        self._cluster = cluster
        self._chance = stream(cluster.seed, f"volumes of {workload}")
        self._to_be_labelled: set[str] = set()

    def left_out(self, wanted: Sequence[Wanted]) -> Sequence[Wanted]:
        """All that the workload is made of but its volumes, if these come later: on their own."""
        late = [body for kind, body, _ in wanted if kind is PersistentVolume]
        if not late or self._chance.random() < 0.5:
            return wanted
        self._to_be_labelled = {body["metadata"]["name"] for body in late}
        self._cluster.trace.listen("store.written", self._written)
        for body in late:
            self._cluster.user.start(self._make(body, self._chance.uniform(SOONEST_S, LATEST_S)))
        return [each for each in wanted if each[0] is not PersistentVolume]

    async def _make(self, body: dict[str, Any], later_s: float) -> None:
        await asyncio.sleep(later_s)
        await self._cluster.make(PersistentVolume, body)

    def _written(self, event: Event) -> None:
        name = event.fields["name"]
        if event.fields["resource"] != PersistentVolume.RESOURCE.plural or name not in self._to_be_labelled:
            return
        if _volume(event.fields["_body"]).status.phase == "Available":
            self._to_be_labelled.discard(name)
            self._cluster.user.start(self._label(name))

    async def _label(self, name: str) -> None:
        patch = {"metadata": {"labels": {INVENTORY: "yes"}}}
        await self._cluster.as_user(lambda: self._cluster.api.patch(PersistentVolume, name, patch))
