"""What the StatefulSet controller finds on an API server: the set db, with one claim for each pod."""

from __future__ import annotations

from typing import Any

from controller_stage import ControllerStage
from requests_sent import marked

from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.kube.objects import ControllerRevision, PersistentVolumeClaim, Pod, StatefulSet

KEY = "default/db"
TEMPLATE = {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
LONG_AGO = "2029-12-31T23:59:00Z"


async def add_set(stage: ControllerStage, replicas: int = 1, **spec: Any) -> StatefulSet:
    """The set db."""
    given = {
        "serviceName": "db",
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "db"}},
        "template": TEMPLATE,
        "volumeClaimTemplates": [CLAIM],
    }
    return await stage.api.create(
        StatefulSet, {"metadata": {"name": "db"}, "spec": {**given, **spec}}, "default"
    )


async def change_set(stage: ControllerStage, **spec: Any) -> StatefulSet:
    return await stage.api.patch(StatefulSet, "db", {"spec": spec}, "default")


async def make_ready(stage: ControllerStage, *ordinals: int, since: str = LONG_AGO) -> None:
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}]
    status = {"status": {"phase": "Running", "conditions": conditions}}
    for ordinal in ordinals:
        await stage.api.patch(Pod, f"db-{ordinal}", status, "default", subresource="status")


async def on(stage: ControllerStage) -> StatefulSetController:
    """A controller that knows all of it, and has nothing to do yet."""
    controller = stage.make(StatefulSetController)
    await stage.fill(controller, StatefulSet, Pod, PersistentVolumeClaim, ControllerRevision)
    await marked(controller)
    return controller


async def settled(stage: ControllerStage) -> StatefulSetController:
    """The same, when all pods are there and ready."""
    for _ in range(6):
        controller = await on(stage)
        await controller.reconcile(KEY)
        for pod in (await stage.api.list(Pod)).items:
            await make_ready(stage, int(pod.name.removeprefix("db-")))
    controller = await on(stage)
    await controller.reconcile(KEY)
    return await on(stage)
