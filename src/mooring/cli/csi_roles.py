"""`mooring csi attacher|provisioner|resizer|snapshotter|registrar`: the Kubernetes side of one CSI driver,
beside it.

Flags have the names of the CSI community's sidecars, and so have the Leases: ours takes over from theirs, and
never works at the same time. What a flag of theirs means that has no use here is accepted and said in the
log.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import SystemRandom
from typing import TYPE_CHECKING, Any, TypeVar

import click
import structlog

from mooring.cli.attaching import switch
from mooring.cli.durations import parse_duration
from mooring.cli.output import fail, log_lines
from mooring.cli.parts import KUBECONFIG, LOG_LEVEL, run_until_signalled
from mooring.cli.tasks import answer_signal

if TYPE_CHECKING:
    from mooring.csi.client import Client as Driver
    from mooring.kube.client import Client
    from mooring.kube.controller import Controller
    from mooring.volumes.plugin_manager import PluginManager

F = TypeVar("F", bound=Callable[..., Any])

log = structlog.get_logger(component="csi")

PROBE_S = 1.0
REQUESTS = 16
"""How many requests to the API server are under way at once, however many workers there are."""
UNUSED = ("--kube-api-qps", "--kube-api-burst", "--feature-gates", "-v", "--resync", "--retry-interval-start",
          "--retry-interval-max", "--leader-election-lease-duration", "--leader-election-renew-deadline",
          "--leader-election-retry-period", "--metrics-path", "--automaxprocs", "--leader-election-labels",
          "--logging-format", "--max-grpc-log-length", "--node-deployment", "--handle-volume-inuse-error",
          "--max-entries", "--resync-period")  # fmt: skip


def _seconds(context: click.Context, parameter: click.Parameter, given: str) -> float:
    return float(parse_duration(given))


def _unused(number: int, name: str) -> Callable[[F], F]:
    """Some of them are mere switches upstream."""
    return click.option(name, f"unused_{number}", default=None, is_flag=False, flag_value="true", hidden=True)


def sidecar(command: F) -> F:
    """The options that all of them have."""
    options = [
        click.option(
            "--csi-address", default="/run/csi/socket", show_default=True, help="Where the driver listens."
        ),
        KUBECONFIG,
        click.option("--timeout", default="15s", show_default=True, callback=_seconds, help="Of one call."),
        click.option("--worker-threads", "--workers", default=10, show_default=True, type=click.IntRange(1)),
        switch("--leader-election", "Work only while holding the Lease that upstream's sidecar takes, too."),
        click.option("--leader-election-namespace", default="kube-system", show_default=True),
        click.option(
            "--http-endpoint", default="", help="HOST:PORT for /metrics and /healthz. Default: not served."
        ),
        *(_unused(i, name) for i, name in enumerate(UNUSED)),
        LOG_LEVEL,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@dataclass(frozen=True)
class Role:
    """What a sidecar was started with. `lease` is the name of its Lease, `{driver}` stands for the driver."""

    address: str
    kubeconfig: str | None
    lease: str
    timeout_s: float
    leader_election: bool
    namespace: str
    http_endpoint: str
    make: Callable[[Client, PluginManager, dict[str, Any]], list[Controller[Any]]]
    extra_metadata: bool = False
    given: dict[str, Any] = field(default_factory=dict[str, Any])


def _role(given: dict[str, Any], lease: str, make: Any, **more: Any) -> Role:
    log_lines(given.pop("log_level"))
    for i, name in enumerate(UNUSED):
        if (value := given.pop(f"unused_{i}")) is not None:
            log.info("this flag has no effect here", flag=name, value=value)
    return Role(
        address=given["csi_address"],
        kubeconfig=given["kubeconfig"],
        lease=lease,
        timeout_s=given["timeout"],
        leader_election=given["leader_election"],
        namespace=given["leader_election_namespace"],
        http_endpoint=given["http_endpoint"],
        make=make,
        given=given,
        **more,
    )


async def driver_name(driver: Driver, address: str) -> str:
    """The name of the driver, once it answers and is ready."""
    from mooring.csi.errors import Code, CsiError
    from mooring.csi.proto import csi_pb2 as csi

    while True:
        try:
            probe = await driver.identity.probe(csi.ProbeRequest(), timeout_s=PROBE_S)
            if not probe.HasField("ready") or probe.ready.value:
                break
            log.info("the driver is not ready yet", address=address)
        except CsiError as error:
            if error.code == Code.UNIMPLEMENTED:
                break
            log.info("waiting for the driver", address=address, error=str(error))
        await asyncio.sleep(PROBE_S)
    return (await driver.identity.get_plugin_info(csi.GetPluginInfoRequest(), timeout_s=PROBE_S * 10)).name


def run(role: Role) -> None:
    """Serves one driver until a signal."""
    from mooring.csi.client import Client as Driver
    from mooring.csi.errors import EndpointError
    from mooring.kube import config

    answer_signal()
    try:
        driver = Driver(role.address)
    except EndpointError as error:
        fail(error.message)
    client = config.connect(os.environ, role.kubeconfig)

    async def work() -> None:
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(client.close)
            async with driver:
                name = await driver_name(driver, role.address)
            await _serve_metrics(stack, role.http_endpoint)
            await _lead(client, role, name)

    run_until_signalled(work())


async def _serve_metrics(stack: contextlib.AsyncExitStack, endpoint: str) -> None:
    from mooring.kube import metrics

    if not endpoint:
        return
    host, _, port = endpoint.rpartition(":")
    if not port.isdecimal():
        fail(f"--http-endpoint {endpoint!r}: it has the form HOST:PORT")
    await stack.enter_async_context(metrics.serving(host or "0.0.0.0", int(port)))  # nosec B104 # ":PORT"


class Together:
    """Controllers that hold one lease."""

    def __init__(self, controllers: Sequence[Controller[Any]]) -> None:
        self._controllers = controllers

    async def follow(self) -> None:
        await self._all(controller.follow() for controller in self._controllers)

    async def lead(self) -> None:
        await self._all(controller.lead() for controller in self._controllers)

    async def run(self) -> None:
        """Without a lease."""
        await self._all(controller.run() for controller in self._controllers)

    @staticmethod
    async def _all(parts: Iterable[Coroutine[None, None, None]]) -> None:
        async with asyncio.TaskGroup() as group:
            for part in parts:
                group.create_task(part)


async def _lead(client: Client, role: Role, driver: str) -> None:
    from mooring.kube.leaderelection import LeaderElector
    from mooring.kube.times import wall_clock

    def make(given: Client) -> Together:
        sparing = _sparing(given)
        return Together(role.make(sparing, _plugins(sparing, role, driver), role.given))

    log.info("serving", driver=driver, address=role.address)
    if not role.leader_election:
        await make(client).run()
        return
    random = SystemRandom()
    identity = f"{os.uname().nodename}_{random.getrandbits(64):016x}"
    lease = role.lease.replace("{driver}", driver.replace("/", "-").replace(".", "-"))
    elector = LeaderElector(
        client, lease, identity=identity, namespace=role.namespace, now=wall_clock, random=random
    )
    await elector.run_candidate(make)


def _sparing(client: Client) -> Client:
    """The same with few requests in flight. The limit is the work's alone, and before the look at the Lease:
    no renewal waits for a place, and no write is sent that has waited for one until the Lease was over."""
    from mooring.kube.client import Client
    from mooring.kube.transport import AtMost

    return Client(AtMost(client.transport, REQUESTS), leads=client.leads)


def _plugins(client: Client, role: Role, driver: str) -> PluginManager:
    """This driver, and nothing else."""
    from mooring.csi.metrics import sidecar_metrics
    from mooring.kube.metrics import REGISTRY
    from mooring.kube.times import wall_clock
    from mooring.volumes.host import ControllerVolumeHost
    from mooring.volumes.names import CSI_PLUGIN
    from mooring.volumes.plugin_manager import PluginManager
    from mooring.volumes.plugins.csi.plugin import CSIPlugin

    settings = {driver: role.address, "timeout": str(role.timeout_s)}
    plugin = CSIPlugin(extra_metadata=role.extra_metadata)
    host = ControllerVolumeHost(wall_clock, {CSI_PLUGIN: settings}, client, client.check_leading)
    plugins = PluginManager([plugin], host)
    observe = sidecar_metrics(REGISTRY).observer(driver)
    plugin.drivers_here.observers.append(lambda _, exchange: observe(exchange))
    return plugins


@click.command()
@sidecar
@click.option(
    "--reconcile-sync", default="1m", show_default=True, callback=_seconds, help="How often it is verified."
)
@click.option("--default-fstype", default="", help="For volumes that name none.", hidden=True)
def attacher(**given: Any) -> None:
    """Carries out the driver's VolumeAttachments (ControllerPublishVolume)."""

    def make(client: Client, plugins: PluginManager, given: dict[str, Any]) -> list[Controller[Any]]:
        from mooring.controllers.attacher.controller import AttacherController, AttacherOptions
        from mooring.kube.times import wall_clock

        options = AttacherOptions(workers=given["worker_threads"], verify_period_s=given["reconcile_sync"])
        return [AttacherController(client, plugins, now=wall_clock, random=SystemRandom(), options=options)]

    run(_role(given, "external-attacher-leader-{driver}", make))


def _with_plugins(*names: str, **options: Any) -> Callable[..., list[Controller[Any]]]:
    def make(client: Client, plugins: PluginManager, given: dict[str, Any]) -> list[Controller[Any]]:
        from mooring.cli.controllers import PLUGIN_CONTROLLERS
        from mooring.kube.times import wall_clock

        made = [
            PLUGIN_CONTROLLERS[name](client, plugins, now=wall_clock, random=SystemRandom(), **options)
            for name in names
        ]
        for controller in made:
            controller.workers = given["worker_threads"]
        return made

    return make


@click.command()
@sidecar
@click.option("--extra-create-metadata", is_flag=True, help="Tell the driver the names of claim and volume.")
@click.option("--default-fstype", default="", help="For volumes whose class names none.", hidden=True)
@click.option("--volume-name-prefix", default="pvc", hidden=True)
def provisioner(**given: Any) -> None:
    """Makes and deletes the driver's volumes for claims (CreateVolume, DeleteVolume)."""
    if given["volume_name_prefix"] != "pvc":
        raise click.UsageError("--volume-name-prefix: volumes are named pvc-<uid of the claim> here")
    extra = given["extra_create_metadata"]
    run(_role(given, "{driver}", _with_plugins("provisioning", static_volumes=False), extra_metadata=extra))


@click.command()
@sidecar
def resizer(**given: Any) -> None:
    """Grows the driver's volumes, and changes their attributes (ControllerExpandVolume,
    ControllerModifyVolume)."""
    run(_role(given, "external-resizer-{driver}", _with_plugins("expansion", "modification")))


@click.command()
@sidecar
@click.option("--snapshot-name-prefix", default="snapshot", hidden=True)
def snapshotter(**given: Any) -> None:
    """Takes and deletes snapshots of the driver's volumes (CreateSnapshot, DeleteSnapshot), as
    VolumeSnapshotContents say. Beside it a snapshot controller is needed: upstream's, or `mooring controller
    --controllers=snapshots`."""
    if given["snapshot_name_prefix"] != "snapshot":
        raise click.UsageError("--snapshot-name-prefix: snapshots are named snapshot-<uid> here")
    run(_role(given, "external-snapshotter-leader-{driver}", _with_plugins("snapshotter")))


@click.command()
@click.option(
    "--csi-address", default="/run/csi/socket", show_default=True, help="Where the driver listens, from here."
)
@click.option(
    "--kubelet-registration-path",
    required=True,
    metavar="PATH",
    help="Where it listens, as the node agent sees it.",
)
@click.option(
    "--plugin-registration-path",
    default=Path("/registration"),
    show_default=True,
    type=click.Path(path_type=Path),
    help="The node agent's folder for registrations.",
)
@click.option("-v", "verbosity", default=None, hidden=True)
@LOG_LEVEL
def registrar(
    csi_address: str,
    kubelet_registration_path: str,
    plugin_registration_path: Path,
    verbosity: str | None,
    log_level: str,
) -> None:
    """Makes the driver known to the node agent (or kubelet) of this machine, for as long as it runs."""
    from mooring.csi.client import Client as Driver
    from mooring.csi.driver.registration import registering
    from mooring.csi.errors import EndpointError

    log_lines(log_level)
    answer_signal()

    async def work() -> None:
        async with Driver(csi_address) as driver:
            name = await driver_name(driver, csi_address)
        async with registering(name, kubelet_registration_path, plugin_registration_path) as socket:
            click.echo(f"{name} is offered at {socket}")
            await asyncio.Event().wait()

    try:
        run_until_signalled(work())
    except EndpointError as error:
        fail(error.message)


COMMANDS = (attacher, provisioner, resizer, snapshotter, registrar)
