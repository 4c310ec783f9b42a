"""What the controller does beyond its decisions."""

from __future__ import annotations

from controller_stage import ControllerStage, Play

from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.kube.client import WatchEvent
from mooring.kube.objects import PersistentVolumeClaim, Pod, StatefulSet
from mooring.simulation.cluster.workloads import bodies


def test_a_pod_that_waits_for_a_claim_which_went_after_it_was_made_gets_another(play: Play):
    """Its claim was being deleted when the pod was made, and a stale cache did not show it:
    found by the simulation."""

    async def story(stage: ControllerStage):
        ((_, body, namespace),) = bodies("disk", "db", 1)
        stateful_set = await stage.api.create(StatefulSet, body, namespace)
        controller = stage.make(StatefulSetController)
        controller.cache(StatefulSet).accept(stateful_set)
        await controller.reconcile("default/db")
        claim = await stage.api.get(PersistentVolumeClaim, "data-db-0", "default")
        await stage.api.patch(
            PersistentVolumeClaim, claim.name, {"metadata": {"finalizers": None}}, "default"
        )
        await stage.api.delete(PersistentVolumeClaim, claim.name, "default")
        controller.cache(PersistentVolumeClaim).apply(
            WatchEvent("DELETED", claim, claim.metadata.resource_version)
        )
        assert (await stage.api.get(Pod, "db-0", "default")).status.phase == "Pending"
        await controller.reconcile("default/db")
        assert (await stage.api.get(PersistentVolumeClaim, "data-db-0", "default")).uid != claim.uid

    play(story)
