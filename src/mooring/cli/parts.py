"""`mooring apiserver`, `mooring controller`, `mooring agent`: one part each, in the foreground.

`mooring up` starts them; on a real cluster `mooring controller` runs beside the real API server.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ipaddress
import os
import signal
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from random import SystemRandom
from typing import Any

import click

from mooring.cli.attaching import attach_detach, attach_detach_options, switch
from mooring.cli.output import fail, log_lines
from mooring.cli.tasks import answer_signal
from mooring.cluster import heartbeat

TLS_BUFFER = 64 * 1024
"""Bytes that asyncio reads from a TLS connection at once. It holds a buffer of this size for each
connection."""
SERVER_TLS_BUFFER = 16 * 1024
"""The same in the API server: a thousand watches, which send nothing, would hold 256 MiB with asyncio's own
256 KiB."""
LOG_LEVEL = click.option(
    "--log-level", type=click.Choice(["debug", "info", "warning", "error"]), default="info"
)
KUBECONFIG = click.option(
    "--kubeconfig", help="Where the API server is. Default: KUBECONFIG, then ~/.kube/config."
)
PLUGIN_SETTING = click.option(
    "--plugin-setting",
    "plugin_settings",
    multiple=True,
    metavar="PLUGIN:KEY=VALUE",
    help="A setting of a volume plugin; may be given several times.",
)

FLEX_DIRECTORY = "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/"
"""Where upstream looks for FlexVolume drivers."""
FLEX_PLUGIN = "kubernetes.io/flexvolume"


def flex_option(flag: str) -> Callable[[Any], Any]:
    """The directory of FlexVolume drivers, by the flag of upstream's program."""
    return click.option(
        flag,
        "flex_directory",
        default=FLEX_DIRECTORY,
        show_default=True,
        metavar="DIRECTORY",
        help="Where FlexVolume drivers are: <vendor>~<driver>/<driver>. Empty: there are none.",
    )


def with_flex_directory(settings: dict[str, dict[str, str]], directory: str) -> dict[str, dict[str, str]]:
    """The settings of plugins with the directory of drivers, unless they name one themselves."""
    named = {"directory": os.path.abspath(directory)} if directory else {}
    flex = {**named, **settings.get(FLEX_PLUGIN, {})}
    return {**settings, FLEX_PLUGIN: flex} if flex else settings


def parse_settings(given: Sequence[str]) -> dict[str, dict[str, str]]:
    """`PLUGIN:KEY=VALUE` → {PLUGIN: {KEY: VALUE}}; a usage error for anything else."""
    settings: dict[str, dict[str, str]] = {}
    for entry in given:
        plugin, colon, rest = entry.partition(":")
        key, equals, value = rest.partition("=")
        if not (plugin and colon and key and equals):
            raise click.UsageError(f"--plugin-setting {entry!r}: it has the form PLUGIN:KEY=VALUE")
        settings.setdefault(plugin, {})[key] = value
    return settings


def parse_network(context: click.Context, parameter: click.Parameter, given: str) -> str:
    """A CIDR of at least 512 addresses, or "" for `host`; a usage error for anything else."""
    if given == "host":
        return ""
    try:
        network = ipaddress.IPv4Network(given)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if network.prefixlen > 23:
        raise click.BadParameter(
            f"{given} is too small: each node needs a /24 of it, and the first stays free"
        )
    return given


def parse_address(context: click.Context, parameter: click.Parameter, given: str) -> str:
    """An IPv4 address that is not of the loopback network, or ""; a usage error for anything else."""
    try:
        address = ipaddress.IPv4Address(given) if given else None
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if address is not None and (address.is_loopback or address.is_unspecified or address.is_multicast):
        raise click.BadParameter(f"{given} is not an address of one link: give that of the machines' bridge")
    return given


def run_until_signalled(work: Coroutine[Any, Any, Any], *, tls_buffer: int = TLS_BUFFER) -> None:
    """Runs `work` until it ends, or SIGTERM or SIGINT cancels it."""

    async def story() -> None:
        heartbeat.beat(os.environ)
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    _spare(tls_buffer)
    asyncio.run(story())


def _spare(tls_buffer: int) -> None:
    """Spares CPU and memory. What a part has loaded stays, and the objects that it keeps have no cycles
    (`gc=False`), so collecting garbage among them again and again finds none. asyncio's TLS buffer is set
    here and nowhere else."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)
    SSLProtocol.max_size = tls_buffer


@click.command()
@click.option(
    "--data-dir", required=True, type=click.Path(path_type=Path), help="Where objects and secrets are kept."
)
@click.option("--port", default=7443, show_default=True, help="Port on 127.0.0.1; 0 for any free one.")
@click.option(
    "--kubeconfig-out", type=click.Path(path_type=Path), help="Where to write the admin's kubeconfig (0600)."
)
@click.option(
    "--node-endpoints",
    default="127.0.0.0/8,::1/128",
    show_default=True,
    metavar="CIDRS",
    help="Where agents are asked for logs and commands; a Node that says that its agent is elsewhere is ignored.",
)
@click.option(
    "--machines-address",
    default="",
    callback=parse_address,
    metavar="ADDRESS",
    help="Also serve at this address of the host, on the same port, for machines with the credentials of nodes alone.",
)
@click.option(
    "--kubelet-certificate-authority",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Who must have signed the certificates of kubelets. Default: they are not judged, as upstream has it.",
)
@LOG_LEVEL
def apiserver(
    data_dir: Path,
    port: int,
    kubeconfig_out: Path | None,
    node_endpoints: str,
    machines_address: str,
    kubelet_certificate_authority: Path | None,
    log_level: str,
) -> None:
    """The embedded Kubernetes API server, on the loopback interface, and at an address for machines."""
    from ipaddress import ip_network

    from mooring.apiserver.process import UNUSABLE, serve
    from mooring.linear_patterns import require

    require()
    try:
        networks = [ip_network(each.strip()) for each in node_endpoints.split(",")]
    except ValueError as error:
        fail(f"--node-endpoints {node_endpoints}: {error}")

    log_lines(log_level)
    answer_signal()

    async def run() -> None:
        running = await serve(
            data_dir=data_dir,
            port=port,
            kubeconfig=kubeconfig_out,
            node_endpoints=networks,
            machines_address=machines_address,
            kubelet_authority=kubelet_certificate_authority,
        )
        click.echo(f"serving on {running.url}; kubeconfig: {running.kubeconfig}")
        try:
            await asyncio.Event().wait()
        finally:
            await running.close()

    try:
        run_until_signalled(run(), tls_buffer=SERVER_TLS_BUFFER)
    except UNUSABLE as error:
        fail(str(error))


@click.command()
@click.option(
    "--controllers", required=True, metavar="LIST", help="Which to run, by name, with commas between."
)
@KUBECONFIG
@click.option(
    "--node-monitor-grace-period",
    default=40.0,
    show_default=True,
    help="Seconds without a heartbeat until Unknown.",
)
@switch(
    "--leader-elect",
    "Run each controller only while holding its Lease kube-system/mooring-<controller>: several may then be "
    "started, and one of them works.",
)
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), help="Serve /metrics and /healthz. Default: not served."
)
@click.option(
    "--metrics-address", default="127.0.0.1", show_default=True, help="The address for --metrics-port."
)
@attach_detach_options
@flex_option("--flex-volume-plugin-dir")
@PLUGIN_SETTING
@LOG_LEVEL
def controller(
    controllers: str,
    kubeconfig: str | None,
    node_monitor_grace_period: float,
    leader_elect: bool,
    metrics_port: int | None,
    metrics_address: str,
    flex_directory: str,
    plugin_settings: tuple[str, ...],
    log_level: str,
    **attaching: Any,
) -> None:
    """Runs controllers against an API server, Mooring's or any Kubernetes cluster's.

    There is no default: on a real cluster upstream's own controllers run, and each thing must have one
    controller.
    """
    from mooring.cli.controllers import FACTORIES, Settings, run_controllers
    from mooring.kube import config, metrics
    from mooring.kube.times import wall_clock

    names = [name.strip() for name in controllers.split(",") if name.strip()]
    unknown = [name for name in names if name not in FACTORIES]
    if unknown or not names:
        raise click.UsageError(
            f"--controllers: unknown {', '.join(unknown) or '(none given)'}; there are {', '.join(FACTORIES)}"
        )
    for_attach_detach, for_attacher = attach_detach(**attaching)
    if for_attach_detach.observe and names != ["attachdetach"]:
        raise click.UsageError(
            "--observe is of the attach/detach controller alone: --controllers=attachdetach"
        )
    log_lines(log_level)
    answer_signal()
    access = config.access(os.environ, kubeconfig)
    client = access.client()
    settings = Settings(
        now=wall_clock,
        random=SystemRandom(),
        authority=access.trust.authority.decode(),
        plugin_settings=with_flex_directory(parse_settings(plugin_settings), flex_directory),
        node_monitor_grace_period=node_monitor_grace_period,
        node_deletion_confirms_death=attaching["node_deletion_confirms_death"] != "never",
        attach_detach=for_attach_detach,
        attacher=for_attacher,
    )

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(client.close)
            if metrics_port is not None:
                port = await stack.enter_async_context(metrics.serving(metrics_address, metrics_port))
                click.echo(f"metrics on http://{metrics_address}:{port}/metrics")
            await run_controllers(names, client, settings, leader_elect=leader_elect)

    run_until_signalled(run())


@click.command()
@click.option("--name", required=True, help="The node's name.")
@click.option("--root-dir", required=True, type=click.Path(path_type=Path), help="The agent's own directory.")
@KUBECONFIG
@click.option(
    "--images",
    type=click.Path(path_type=Path, exists=True),
    help="Folder of root file systems and OCI layouts for `image:`.",
)
@click.option("--manifests", type=click.Path(path_type=Path), help="Folder of static pods' manifests.")
@click.option(
    "--standalone", is_flag=True, help="Without an API server: only the static pods of --manifests run."
)
@click.option(
    "--hide", type=click.Path(path_type=Path), multiple=True, help="A directory that pods must not see."
)
@click.option(
    "--pod-network",
    default="10.88.0.0/16",
    show_default=True,
    callback=parse_network,
    metavar="CIDR",
    help="Addresses for the pods of all nodes of this host; `host`: pods share the host's network.",
)
@click.option(
    "--address",
    default="127.0.0.1",
    show_default=True,
    help="Where this node is reached, and serves logs and commands: its Node's InternalIP.",
)
@click.option(
    "--provider-id",
    default="",
    help="What this machine is to its cloud, for a Node that is new: aws:///us-east-1a/i-0123.",
)
@click.option(
    "--endpoint-token-file",
    type=click.Path(path_type=Path, exists=True),
    help="What the API server shows when it asks this node for logs. Default: no request is answered.",
)
@switch(
    "--enable-controller-attach-detach",
    "The attach/detach controller attaches this node's volumes. With `false` the agent attaches and detaches plugin "
    "volumes itself; that cannot be changed while the node has any.",
    default=True,
)
@click.option(
    "--metrics-port", type=click.IntRange(0, 65535), help="Serve /metrics and /healthz. Default: not served."
)
@click.option(
    "--metrics-address", default="127.0.0.1", show_default=True, help="The address for --metrics-port."
)
@click.option(
    "--peer-port",
    type=click.IntRange(0, 65535),
    default=0,
    show_default=True,
    help="Where other nodes' agents ask whether this one is there (UDP), if a FencePolicy has `peers`; 0: any port.",
)
@click.option(
    "--lease-duration", default=40.0, show_default=True, help="Seconds; renewed four times as often."
)
@click.option(
    "--self-fence",
    type=click.Path(path_type=Path),
    metavar="DEVICE",
    help="Reset this machine by its hardware watchdog (/dev/watchdog0) when the node's Lease is not renewed; needs a "
    "FenceMechanism of type host-agent: docs/fencing.md. Default: it is not.",
)
@click.option(
    "--self-fence-after",
    type=click.FloatRange(min=2),
    metavar="SECONDS",
    help="So long without an acknowledged renewal, and this node ends its pods; a quarter later its machine is reset. "
    "Default: as long as the Lease holds.",
)
@flex_option("--volume-plugin-dir")
@PLUGIN_SETTING
@LOG_LEVEL
def agent(
    name: str,
    root_dir: Path,
    kubeconfig: str | None,
    images: Path | None,
    manifests: Path | None,
    standalone: bool,
    hide: tuple[Path, ...],
    pod_network: str,
    address: str,
    provider_id: str,
    endpoint_token_file: Path | None,
    enable_controller_attach_detach: bool,
    metrics_port: int | None,
    metrics_address: str,
    peer_port: int,
    lease_duration: float,
    self_fence: Path | None,
    self_fence_after: float | None,
    flex_directory: str,
    plugin_settings: tuple[str, ...],
    log_level: str,
) -> None:
    """A node agent: registers this machine as a Node, runs its pods, mounts their volumes. Needs root.

    SIGTERM ends the agent alone: pods go on, and the next agent finds them. SIGUSR1 shuts the node down: pods
    end, volumes are unmounted, then the agent exits.
    """
    from mooring.kube import config
    from mooring.kube.client import Client
    from mooring.kube.errors import ConfigError
    from mooring.kube.times import wall_clock
    from mooring.node.hardware import machine_id, system_uuid
    from mooring.node.node_lease import HeldByAnother
    from mooring.node.options import AgentOptions
    from mooring.node.registration import AttachingKindChanged
    from mooring.node.run import run_agent
    from mooring.node.self_fence.keeper import LeaseLost
    from mooring.node.standalone import NoServer
    from mooring.this_boot import boot_id

    if os.geteuid() != 0:
        fail("the node agent needs root: it mounts file systems and makes namespaces")
    log_lines(log_level)
    answer_signal()
    if standalone and manifests is None:
        raise click.UsageError("--standalone: give the folder of the pods' manifests with --manifests")
    client = Client(NoServer()) if standalone else config.connect(os.environ, kubeconfig)
    options = AgentOptions(
        name=name,
        root_dir=root_dir.absolute(),
        boot_id=os.environ.get("MOORING_BOOT_ID") or boot_id(),
        ended_boot_id=os.environ.get("MOORING_ENDED_BOOT_ID", ""),
        machine_id=machine_id(),
        system_uuid=os.environ.get("MOORING_SYSTEM_UUID") or system_uuid(),
        provider_id=provider_id,
        manifests_dir=manifests.absolute() if manifests else None,
        enable_controller_attach_detach=enable_controller_attach_detach,
        standalone=standalone,
        images_dir=images.absolute() if images else None,
        masked_dirs=tuple(path.absolute() for path in hide),
        pod_network=pod_network,
        address=address,
        endpoint_token=endpoint_token_file.read_text().strip() if endpoint_token_file else "",
        metrics_port=metrics_port,
        metrics_address=metrics_address,
        peer_port=peer_port,
        lease_duration_s=lease_duration,
        self_fence=self_fence.absolute() if self_fence else None,
        self_fence_after_s=self_fence_after or max(lease_duration, 2.0),
        plugin_settings=with_flex_directory(parse_settings(plugin_settings), flex_directory),
    )
    try:
        asyncio.run(run_agent(options, client, now=wall_clock, random=SystemRandom()))
    except (AttachingKindChanged, ConfigError, HeldByAnother, LeaseLost) as error:
        fail(str(error))


COMMANDS = (apiserver, controller, agent)
