"""Which controllers there are, by the names that `--controllers` takes, and how each is made.

The only module that knows them all.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from mooring.controllers.attachdetach.controller import AttachDetachController, AttachDetachOptions
from mooring.controllers.attacher.controller import AttacherController, AttacherOptions
from mooring.controllers.binding.controller import BindingController
from mooring.controllers.cleanup.controller import CleanupController
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
from mooring.controllers.replicaset.controller import ReplicaSetController, ReplicationControllerController
from mooring.controllers.replicaset.deployment import DeploymentController
from mooring.controllers.scheduling.controller import SchedulingController
from mooring.controllers.serviceaccounts.controller import ServiceAccountController
from mooring.controllers.snapshots.controller import SnapshotController
from mooring.controllers.snapshots.snapshotter import SnapshotterController
from mooring.controllers.statefulset.controller import StatefulSetController
from mooring.fence.registry import load as load_mechanisms
from mooring.kube.client import Client
from mooring.kube.controller import Controller
from mooring.kube.leaderelection import LeaderElector
from mooring.kube.times import Now
from mooring.kube.transport import ReadOnly
from mooring.node.flexvolume import watch_drivers
from mooring.node.inotify import Inotify
from mooring.volumes.host import ControllerVolumeHost
from mooring.volumes.plugin_manager import PluginManager, load_plugins
from mooring.volumes.plugins.flexvolume.plugin import folder_of


@dataclass(frozen=True)
class Settings:
    """What controllers are given besides a client. Times in seconds."""

    now: Now
    random: Random
    plugin_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    node_monitor_grace_period: float = 40.0
    node_deletion_confirms_death: bool = True
    """Of pods; of volumes, `attach_detach` says it."""
    authority: str = ""
    """The certificate (PEM) that the API server is known by."""
    attach_detach: AttachDetachOptions = AttachDetachOptions()  # noqa: RUF009 - immutable
    attacher: AttacherOptions = AttacherOptions()  # noqa: RUF009 - immutable

    def plugins(self, client: Client) -> PluginManager:
        """The volume plugins, initialised for a controller, which may read what that one may."""
        return load_plugins(
            ControllerVolumeHost(self.now, self.plugin_settings, client, client.check_leading)
        )


Factory = Callable[[Client, Settings], Controller[Any]]


def _plain(kind: Callable[..., Controller[Any]]) -> Factory:
    return lambda client, settings: kind(client, now=settings.now, random=settings.random)


def _with_plugins(kind: Callable[..., Controller[Any]]) -> Factory:
    return lambda client, settings: kind(
        client, settings.plugins(client), now=settings.now, random=settings.random
    )


def _node_lifecycle(client: Client, settings: Settings) -> Controller[Any]:
    return NodeLifecycleController(
        client, grace_period=settings.node_monitor_grace_period, now=settings.now, random=settings.random
    )


def _pod_gc(client: Client, settings: Settings) -> Controller[Any]:
    return PodGCController(
        client,
        now=settings.now,
        random=settings.random,
        deletion_confirms=settings.node_deletion_confirms_death,
    )


def _attach_detach(client: Client, settings: Settings) -> Controller[Any]:
    return AttachDetachController(
        client,
        settings.plugins(client),
        now=settings.now,
        random=settings.random,
        options=settings.attach_detach,
    )


def _fencing(client: Client, settings: Settings) -> Controller[Any]:
    mechanisms = load_mechanisms().by_kind
    return FencingController(
        client, mechanisms, settings.plugins(client), now=settings.now, random=settings.random
    )


def _service_accounts(client: Client, settings: Settings) -> Controller[Any]:
    return ServiceAccountController(
        client, now=settings.now, random=settings.random, authority=settings.authority
    )


def _attacher(client: Client, settings: Settings) -> Controller[Any]:
    return AttacherController(
        client, settings.plugins(client), now=settings.now, random=settings.random, options=settings.attacher
    )


PLUGIN_CONTROLLERS: dict[str, Callable[..., Controller[Any]]] = {
    "provisioning": ProvisioningController,
    "expansion": ExpansionController,
    "modification": ModificationController,
    "snapshots": SnapshotController,
    "snapshotter": SnapshotterController,
}
"""Those that need plugins, and nothing else besides."""

FACTORIES: dict[str, Factory] = {
    **{name: _with_plugins(kind) for name, kind in PLUGIN_CONTROLLERS.items()},
    "attachdetach": _attach_detach,
    "attacher": _attacher,
    "binding": _plain(BindingController),
    "scheduling": _plain(SchedulingController),
    "quota": _plain(QuotaController),
    "statefulset": _plain(StatefulSetController),
    "daemonset": _plain(DaemonSetController),
    "deployment": _plain(DeploymentController),
    "replicaset": _plain(ReplicaSetController),
    "replicationcontroller": _plain(ReplicationControllerController),
    "job": _plain(JobController),
    "disruption": _plain(DisruptionController),
    "ephemeral": _plain(EphemeralController),
    "fencing": _fencing,
    "nodelifecycle": _node_lifecycle,
    "podgc": _pod_gc,
    "serviceaccounts": _service_accounts,
    "cleanup": _plain(CleanupController),
}


async def run_controllers(
    names: Iterable[str], client: Client, settings: Settings, *, leader_elect: bool
) -> None:
    """Runs these controllers until cancelled; with `leader_elect` each while it holds its Lease
    `mooring-<name>`.

    With `observe`, nothing can be written, so no Lease is held either.
    """
    if settings.attach_detach.observe:
        leader_elect, client = False, Client(ReadOnly(client.transport))
    identity = f"{socket.gethostname()}_{settings.random.getrandbits(64):016x}"
    drivers = folder_of(settings.plugins(client).plugins)
    if drivers is not None:  # before a controller asks which volumes are attached
        await drivers.scan()
    async with asyncio.TaskGroup() as group:
        if drivers is not None:
            group.create_task(drivers.run(watch_drivers(Inotify)))
        for name in names:
            if leader_elect:
                work = _elected(name, identity, client, settings)
            else:
                work = FACTORIES[name](client, settings).run()
            group.create_task(work, name=name)


async def _elected(name: str, identity: str, client: Client, settings: Settings) -> None:
    elector = LeaderElector(
        client, f"mooring-{name}", identity=identity, now=settings.now, random=settings.random
    )
    await elector.run_candidate(lambda guarded: FACTORIES[name](guarded, settings))
