"""The production controllers, by name, as a simulated process makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from random import Random
from typing import Any

from mooring.controllers.attachdetach.controller import AttachDetachController, AttachDetachOptions
from mooring.controllers.attachdetach.state import Policy as AttachDetachPolicy
from mooring.controllers.attachdetach.state import VolumeDecision
from mooring.controllers.attacher.controller import AttacherController, AttacherOptions
from mooring.controllers.binding.controller import BindingController
from mooring.controllers.cleanup.controller import Collector
from mooring.controllers.daemonset.controller import DaemonSetController
from mooring.controllers.disruption.controller import DisruptionController
from mooring.controllers.ephemeral.controller import EphemeralController
from mooring.controllers.expansion.controller import ExpansionController
from mooring.controllers.fencing.controller import FencingController
from mooring.controllers.job.controller import JobController
from mooring.controllers.modification.controller import ModificationController
from mooring.controllers.nodelifecycle.controller import NodeLifecycleController
from mooring.controllers.podgc.controller import PodGCController
from mooring.controllers.provisioning.controller import ProvisioningController
from mooring.controllers.quota.controller import QuotaController
from mooring.controllers.replicaset.controller import ReplicaSetController
from mooring.controllers.replicaset.deployment import DeploymentController
from mooring.controllers.scheduling.controller import SchedulingController
from mooring.controllers.serviceaccounts.controller import ServiceAccountController
from mooring.controllers.snapshots.controller import SnapshotController
from mooring.controllers.snapshots.snapshotter import SnapshotterController
from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.fence.interface import Mechanism
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.objects import (
    ConfigMap,
    ControllerRevision,
    CSINode,
    DaemonSet,
    Deployment,
    Job,
    Node,
    PersistentVolumeClaim,
    Pod,
    ReplicaSet,
    ServiceAccount,
    StatefulSet,
)
from mooring.simulation.cluster.scenario import Scenario
from mooring.simulation.cluster.workloads import (
    DAEMONS,
    DEPLOYMENTS,
    EPHEMERAL,
    GROWING,
    GUARDED,
    JOBS,
    KEPT,
    QUOTAS,
    TENANTS,
    TUNED,
)
from mooring.simulation.engine.trace import Trace
from mooring.simulation.parts.plugins import MakePlugins
from mooring.volumes.host import ControllerVolumeHost

ATTACHING = ("attachdetach", "attacher")
PLACING = (
    *("binding", "provisioning", "scheduling", "statefulset", "replicaset", "deployment", "ephemeral"),
    *("daemonset", "job", "disruption", "quota", "expansion", "serviceaccounts"),
    *("snapshots", "snapshotter", "modification"),
)
WATCHING = ("nodelifecycle", "podgc")
UNDER_LEASE = ("fencing",)
"""Controllers that never work without a Lease: what they do besides writes has no version."""

BY_NAME: dict[str, type[Any]] = {
    "attachdetach": AttachDetachController,
    "attacher": AttacherController,
    "binding": BindingController,
    "cleanup": Collector,
    "daemonset": DaemonSetController,
    "deployment": DeploymentController,
    "disruption": DisruptionController,
    "ephemeral": EphemeralController,
    "expansion": ExpansionController,
    "fencing": FencingController,
    "job": JobController,
    "modification": ModificationController,
    "nodelifecycle": NodeLifecycleController,
    "podgc": PodGCController,
    "provisioning": ProvisioningController,
    "quota": QuotaController,
    "replicaset": ReplicaSetController,
    "scheduling": SchedulingController,
    "serviceaccounts": ServiceAccountController,
    "snapshots": SnapshotController,
    "snapshotter": SnapshotterController,
    "statefulset": StatefulSetController,
}
OWNED = (Pod, PersistentVolumeClaim, StatefulSet, ControllerRevision)
OWNED_BY_DEPLOYMENTS = (Deployment, ReplicaSet)
OWNED_BY_NODES = (Node, CSINode)
"""The kinds with owners, or dependents, that there are: the garbage collector need not look for them."""
VERIFY_S = 300.0
"""How often what is attached is verified: less often than usual, as little ever comes of it."""
ONLY_FOR = {
    "replicaset": DEPLOYMENTS,
    "deployment": DEPLOYMENTS,
    "ephemeral": EPHEMERAL,
    "daemonset": DAEMONS,
    "job": JOBS,
    "disruption": GUARDED,
    "expansion": GROWING,
    "quota": QUOTAS,
    "serviceaccounts": TENANTS,
    "snapshots": KEPT,
    "snapshotter": KEPT,
    "modification": TUNED,
}
"""Controllers that have something to do only where there is a workload of a kind; elsewhere they are left
out."""
WITH_PLUGINS = (
    *ATTACHING,
    "provisioning",
    "expansion",
    "fencing",
    "snapshots",
    "snapshotter",
    "modification",
)


NO_MECHANISMS: Mapping[str, Mechanism] = {}


def make_controller(
    name: str,
    client: Client,
    *,
    make_plugins: MakePlugins,
    now: Callable[[], datetime],
    random: Random,
    scenario: Scenario,
    trace: Trace,
    mechanisms: Mapping[str, Mechanism] = NO_MECHANISMS,
) -> Controller[Any]:
    """The controller of this name, with the policies of the scenario. The trace is told what the full sweep
    finds."""
    policy = AttachDetachPolicy(scenario.force_detach_after_s, scenario.node_deletion_confirms_death)
    kinds = frozenset(scenario.workloads.values())
    further = (
        *((DaemonSet,) if kinds & DAEMONS else ()),
        *((Job,) if kinds & JOBS else ()),
        *((ServiceAccount,) if kinds & TENANTS else ()),
        *((ConfigMap,) if any(step.what == "mark" for step in scenario.steps) else ()),
    )
    by_nodes = OWNED_BY_NODES if scenario.collects_nodes else ()
    owned = [*OWNED, *(OWNED_BY_DEPLOYMENTS if kinds & DEPLOYMENTS else ()), *further, *by_nodes]

    life = trace.number

    def swept(volume: str, missed: VolumeDecision | None) -> None:
        node, action = (missed.node, missed.action.value) if missed is not None else ("", "")
        trace(name, "told.swept", volume=volume, node=node, action=action, by=life)

    options: dict[str, dict[str, Any]] = {
        "cleanup": {"resources": [kind.RESOURCE for kind in owned]},
        "attachdetach": {"options": AttachDetachOptions(policy, swept=swept)},
        "attacher": {"options": AttacherOptions(verify_period_s=VERIFY_S)},
        "fencing": {"mechanisms": mechanisms},
        "nodelifecycle": {"grace_period": scenario.grace_period_s},
    }
    given: dict[str, Any] = {"now": now, "random": random} | options.get(name, {})
    if name in WITH_PLUGINS:
        given["plugins"] = make_plugins(ControllerVolumeHost(now, reader=client, leads=client.check_leading))
    made: Controller[Any] = BY_NAME[name](client, **given)
    return made
