"""What the controller does beyond its decisions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.kube.objects import PersistentVolumeClaim, Pod, StatefulSet
from mooring.simulation.cluster.workloads import bodies

Desk = Callable[[Any], Any]


def test_a_pod_that_waits_for_a_claim_which_went_after_it_was_made_gets_another(desk: Desk):
    """Its claim was being deleted when the pod was made, and a stale cache did not show it:
    found by the simulation."""

    async def scene(desk: Any):
        ((_, body, namespace),) = bodies("disk", "db", 1)
        stateful_set = await desk.api.create(StatefulSet, body, namespace)
        controller = desk.make(StatefulSetController)
        controller._sets.accept(stateful_set)
        await controller.reconcile("default/db")
        claim = await desk.api.get(PersistentVolumeClaim, "data-db-0", "default")
        await desk.api.patch(PersistentVolumeClaim, claim.name, {"metadata": {"finalizers": None}}, "default")
        await desk.api.delete(PersistentVolumeClaim, claim.name, "default")
        controller._claims._objects.clear()
        assert (await desk.api.get(Pod, "db-0", "default")).status.phase == "Pending"
        await controller.reconcile("default/db")
        assert (await desk.api.get(PersistentVolumeClaim, "data-db-0", "default")).uid != claim.uid

    desk(scene)
