"""What becomes known while pods are adopted counts for what is decided then."""

from __future__ import annotations

import asyncio

from controller_stage import ControllerStage, Play

from mooring.controllers.replicaset.controller import ReplicaSetController
from mooring.kube.objects import Pod, ReplicaSet
from mooring.simulation.parts.faulty_transport import request

TEMPLATE = {"metadata": {"labels": {"app": "r"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
SPEC = {"replicas": 2, "selector": {"matchLabels": {"app": "r"}}, "template": TEMPLATE}
HELD = {"metadata": {"finalizers": ["example.com/hold"]}}
ORPHAN = {**TEMPLATE, "metadata": {"name": "orphan", "labels": {"app": "r"}}}


def test_no_pod_is_surplus_any_more_when_another_began_to_end_meanwhile(play: Play):
    """One that is adopted would be the third. The answer to that may be seconds away."""

    async def story(stage: ControllerStage):
        await stage.api.create(ReplicaSet, {"metadata": {"name": "r"}, "spec": SPEC}, "default")
        controller = stage.make(ReplicaSetController)
        await stage.fill(controller, ReplicaSet)
        await controller.reconcile("default/r")
        first = (await stage.api.list(Pod)).items[0]
        await stage.api.patch(Pod, first.name, HELD, "default")
        await stage.api.create(Pod, ORPHAN, "default")
        await stage.fill(controller, ReplicaSet, Pod)
        held = stage.wire.hold(request("PATCH", "pods/orphan"))
        step = asyncio.create_task(controller.reconcile("default/r"))
        await held.arrived.wait()
        await stage.api.delete(Pod, first.name, "default")
        controller.cache(Pod).accept(await stage.api.get(Pod, first.name, "default"))
        held.release()
        await step
        assert sum(not each.deleting for each in (await stage.api.list(Pod)).items) == 2

    play(story)
