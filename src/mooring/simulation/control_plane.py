"""The production controllers, by name, as a simulated process makes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from random import Random
from typing import Any

from mooring.controllers.attachdetach.controller import AttachDetachController
from mooring.controllers.attacher.controller import AttacherController
from mooring.controllers.binding.controller import BindingController
from mooring.controllers.cleanup.controller import CleanupController
from mooring.controllers.ephemeral.controller import EphemeralController
from mooring.controllers.nodelifecycle.controller import NodeLifecycleController
from mooring.controllers.podgc.controller import PodGCController
from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.controllers.replicaset.controller import ReplicaSetController
from mooring.controllers.replicaset.deployment import DeploymentController
from mooring.controllers.scheduling.controller import SchedulingController
from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.simulation.plugins import MakePlugins
from mooring.volumes.host import ControllerVolumeHost

ATTACHING = ("attachdetach", "attacher")
PLACING = ("binding", "provisioning", "scheduling", "statefulset", "replicaset", "deployment", "ephemeral")
WATCHING = ("nodelifecycle", "podgc")

BY_NAME: dict[str, type[Any]] = {
    "attachdetach": AttachDetachController,
    "attacher": AttacherController,
    "binding": BindingController,
    "cleanup": CleanupController,
    "deployment": DeploymentController,
    "ephemeral": EphemeralController,
    "nodelifecycle": NodeLifecycleController,
    "podgc": PodGCController,
    "provisioning": ProvisioningController,
    "replicaset": ReplicaSetController,
    "scheduling": SchedulingController,
    "statefulset": StatefulSetController,
}
ONLY_FOR = {"replicaset": "shared", "deployment": "shared", "ephemeral": "ephemeral"}
"""Controllers that have something to do only where there is a workload of a kind; elsewhere they are left out."""
WITH_PLUGINS = (*ATTACHING, "provisioning")


def make_controllers(
    names: Iterable[str],
    client: Client,
    *,
    make_plugins: MakePlugins,
    now: Callable[[], datetime],
    random: Callable[[str], Random],
    grace_period: float,
) -> list[Controller]:
    """These controllers; `random` gives each, by its name, its own chance. `grace_period` is nodelifecycle's."""

    def make(name: str) -> Controller:
        given: dict[str, Any] = {"now": now, "random": random(name)}
        if name in WITH_PLUGINS:
            given["plugins"] = make_plugins(ControllerVolumeHost(now))
        if name == "nodelifecycle":
            given["grace_period"] = grace_period
        made: Controller = BY_NAME[name](client, **given)
        return made

    return [make(name) for name in names]
