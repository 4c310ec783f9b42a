"""`mooring csi`: drivers, and what is beside them. `mooring csi disk-driver` is `disk.mooring.dev`."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

import click

from mooring import __version__
from mooring.cli import csi_roles, csi_trace
from mooring.cli.groups import Group
from mooring.cli.output import fail, log_lines
from mooring.cli.parts import LOG_LEVEL, run_until_signalled
from mooring.cli.tasks import answer_signal


@click.group(cls=Group)
def csi() -> None:
    """CSI drivers, and what Kubernetes needs beside them."""


@csi.command()
@click.option(
    "--endpoint", "endpoints", multiple=True, required=True, help="unix:///PATH or tcp://HOST:PORT; several."
)
@click.option("--node-id", default="", help="The name by which ControllerPublishVolume knows this node.")
@click.option(
    "--array", required=True, type=click.Path(path_type=Path), help="The directory of the disk array."
)
@click.option("--mode", type=click.Choice(["all", "controller", "node"]), default="all", show_default=True)
@click.option(
    "--allow-path",
    "allowed",
    multiple=True,
    type=click.Path(path_type=Path),
    default=[Path("/var/lib/kubelet")],
    show_default=True,
    help="A directory below which volumes may be mounted; several.",
)
@click.option(
    "--machine", default=os.uname().nodename[:63], help="The topology segment. Default: this host's name."
)
@click.option(
    "--max-volumes", default=0, type=click.IntRange(0), help="Of a node; 0: no limit of the driver."
)
@click.option(
    "--group-access", is_flag=True, help="Sockets may be used by their group too: 0660 instead of 0600."
)
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), help="Serve /metrics and /healthz. Default: not served."
)
@LOG_LEVEL
def disk_driver(
    endpoints: tuple[str, ...],
    node_id: str,
    array: Path,
    mode: str,
    allowed: tuple[Path, ...],
    machine: str,
    max_volumes: int,
    group_access: bool,
    metrics_port: int | None,
    log_level: str,
) -> None:
    """disk.mooring.dev: the disks of an array on this machine, as a CSI driver. Needs root."""
    from mooring.csi.driver.dispatch import Dispatcher
    from mooring.csi.driver.log import log_call
    from mooring.csi.driver.server import serving
    from mooring.csi.errors import EndpointError
    from mooring.csi.metrics import plugin_metrics
    from mooring.csi_disk.driver import disk_driver as driver
    from mooring.kube import metrics
    from mooring.kube.times import wall_clock
    from mooring.mounts.host import HostMounts
    from mooring.volumes.plugins.disk_array import DiskArray

    if mode != "controller" and not node_id:
        raise click.UsageError("--node-id: a node service needs the name of its node")
    if os.geteuid() != 0:
        fail("disk.mooring.dev needs root: it makes loop devices and mounts file systems")
    log_lines(log_level)
    answer_signal()
    root = array.absolute()
    served = driver(
        root,
        DiskArray(root),
        HostMounts(),
        version=__version__,
        node_id=node_id,
        machine=machine,
        now=wall_clock,
        controller=mode != "node",
        node=mode != "controller",
        max_volumes=max_volumes,
    )

    async def run() -> None:
        observers = [log_call, plugin_metrics(metrics.REGISTRY).observer(served.name)]
        dispatcher = Dispatcher(served, [path.absolute() for path in allowed], observers)
        async with contextlib.AsyncExitStack() as stack:
            if metrics_port is not None:
                port = await stack.enter_async_context(metrics.serving("127.0.0.1", metrics_port))
                click.echo(f"metrics on http://127.0.0.1:{port}/metrics")
            permissions = 0o660 if group_access else 0o600
            addresses = await stack.enter_async_context(serving(dispatcher, endpoints, permissions))
            click.echo(f"{served.name} listens at {', '.join(addresses)}")
            await asyncio.Event().wait()

    try:
        run_until_signalled(run())
    except EndpointError as error:
        fail(error.message)


for command in (*csi_roles.COMMANDS, *csi_trace.COMMANDS):
    csi.add_command(command)

COMMANDS = (csi,)
