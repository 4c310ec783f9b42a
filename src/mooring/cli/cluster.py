"""`mooring up`, `down`, `demo`: a cluster on this machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from pathlib import Path

import click

from mooring.cli.attaching import FORCE_DETACH_AFTER, NODE_DELETION_CONFIRMS_DEATH
from mooring.cli.cloud import parsed
from mooring.cli.nodes import DATA_DIR
from mooring.cli.output import fail, log_lines, print_findings
from mooring.cli.parts import PLUGIN_SETTING, parse_settings


def enter_rootless() -> None:
    """Without root: starts this program again as root of a user and mount namespace of its own. Returns if
    root."""
    if os.geteuid() == 0:
        return
    click.echo("not root: running in a user namespace; volumes are directories, not block devices", err=True)
    environ = {**os.environ, "MOORING_ROOTLESS": "1"}
    flags = ["--user", "--map-root-user", "--mount", "--propagation", "private"]
    try:
        os.execvpe(
            "unshare", ["unshare", *flags, sys.executable, "-m", "mooring.cli.main", *sys.argv[1:]], environ
        )
    except FileNotFoundError:
        fail("without root, `unshare` is needed: apt-get install util-linux")


def _examine(data_dir: str | None) -> None:
    """Ends the program, with a line for each thing, if a cluster cannot run here."""
    if "MOORING_ROOTLESS" in os.environ:
        return  # it was looked at as the user who called
    from mooring.cluster.doctor.diagnosis import diagnose
    from mooring.cluster.doctor.examination import examine
    from mooring.cluster.layout import open_layout

    found = diagnose(examine(open_layout(data_dir), machines=False))
    lacking = [each for each in found if each.level == "mend"]
    if lacking:
        print_findings([(each.level, each.what, each.mend) for each in lacking], err=True)
        fail("this machine cannot have a cluster as it is; mooring doctor says more")


@click.command()
@click.option("--nodes", type=click.IntRange(1, 50), help="How many nodes. Default: 3.")
@click.option(
    "--machines",
    default="namespace",
    show_default=True,
    metavar="KIND[=N],...",
    help="What the nodes run on: `namespace` (processes of this host), or with a kernel of their own each: `uml` "
    "(User-mode Linux), `qemu` (KVM), `qemu-tcg` (computes in software, slowly); namespace=2,uml=1 has both.",
)
@DATA_DIR
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="The API server's port on 127.0.0.1; 0 for any free one. Default: 7443, or any free one if that is in use.",
)
@click.option(
    "--join",
    metavar="ADDRESS/PREFIX",
    help="Also serve real kubelets, of machines in this network, at this address of the host: `mooring node join`.",
)
@FORCE_DETACH_AFTER
@NODE_DELETION_CONFIRMS_DEATH
@click.option(
    "--kubeconfig-out", type=click.Path(path_type=Path), help="Also write the kubeconfig here (0600)."
)
@click.option(
    "--node-monitor-grace-period",
    default=40.0,
    show_default=True,
    help="Seconds without a heartbeat until Unknown.",
)
@click.option(
    "--images", type=click.Path(path_type=Path, exists=True), help="Folder of root file systems for `image:`."
)
@click.option(
    "--volume-plugin-dir",
    type=click.Path(path_type=Path),
    help="Where FlexVolume drivers are, for all nodes and controllers: <vendor>~<driver>/<driver>. Default: where "
    "upstream has them, /usr/libexec/kubernetes/kubelet-plugins/volume/exec/.",
)
@PLUGIN_SETTING
@click.option(
    "--csi",
    multiple=True,
    metavar="NAME=ADDRESS",
    help="A CSI driver of yours, by its name, and where it listens: unix:///tmp/mine-{node}.sock, one for each node. "
    "Start it yourself; it may come and go. NAME=registered: it registers in nodes/NODE/plugins_registry of the data "
    "directory, and `mooring csi attacher`, ... or their like serve it.",
)
@click.option(
    "--csi-controller",
    multiple=True,
    metavar="NAME=ADDRESS",
    help="Where its controller service listens. Default: on node-1.",
)
@click.option(
    "--csi-fault",
    multiple=True,
    metavar="METHOD:WHAT[:SHARE]",
    help="What happens to a share of a method's calls: UNAVAILABLE (or another code: the driver never sees the call), "
    "after-UNAVAILABLE (it does, and its answer is lost), 2.5s (it is late). As in NodeStageVolume:UNAVAILABLE:0.1.",
)
@click.option(
    "--csi-log",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file to which a driver of yours logs: its last lines are shown, too.",
)
@click.option(
    "--cloud", is_flag=True, help="Also an EC2-compatible cloud, whose instances the nodes are; EBS driver."
)
@click.option(
    "--cloud-set",
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of that cloud, as `mooring cloud --set` takes it: attaching_s=30.",
)
@click.option(
    "--bmc",
    is_flag=True,
    help="Each machine has a BMC (IPMI, Redfish), a socket on a power strip, a port on a switch: `mooring machine`.",
)
@click.option(
    "--fencing",
    is_flag=True,
    help="With --bmc: nodes that are lost are switched off by these devices, and what they had moves by itself: "
    "`mooring fence`.",
)
@click.option(
    "--self-fence",
    is_flag=True,
    help="Includes --fencing: a machine with a kernel of its own is reset by its watchdog when its node's Lease is not "
    "renewed; a mechanism `host-agent` waits for that. Those of namespaces have none.",
)
@click.option(
    "--page", is_flag=True, help="Also serve the live page, with reported against true: `mooring page`."
)
def up(
    nodes: int | None,
    machines: str,
    data_dir: str | None,
    port: int | None,
    join: str | None,
    kubeconfig_out: Path | None,
    node_monitor_grace_period: float,
    images: Path | None,
    volume_plugin_dir: Path | None,
    plugin_settings: tuple[str, ...],
    csi: tuple[str, ...],
    csi_controller: tuple[str, ...],
    csi_fault: tuple[str, ...],
    csi_log: tuple[Path, ...],
    cloud: bool,
    cloud_set: tuple[str, ...],
    bmc: bool,
    fencing: bool,
    self_fence: bool,
    force_detach_after: float,
    node_deletion_confirms_death: str,
    page: bool,
) -> None:
    """A cluster on this machine, in the foreground, until Ctrl-C.

    Real block devices, file systems, mounts and processes; kubectl works. All state is in the data directory,
    and the next `up` resumes there.
    """
    from mooring.cluster.csi import parse_drivers
    from mooring.cluster.joining import parse_join
    from mooring.cluster.machines import kinds
    from mooring.linear_patterns import require

    require()
    try:
        of_nodes = kinds.parse(machines, nodes)
        nodes = len(of_nodes)
        drivers = parse_drivers(csi, csi_controller, csi_fault, nodes, [path.absolute() for path in csi_log])
        joining = parse_join(join) if join else None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if cloud_set and not cloud:
        raise click.UsageError("--cloud-set is about the cloud of --cloud")
    parsed(cloud_set)
    parse_settings(plugin_settings)
    if drivers and set(of_nodes) != {kinds.NAMESPACE}:
        fail(
            f"--csi with --machines {machines}: a driver that listens on this host cannot be reached from a machine "
            "with a kernel of its own, nor mount anything in it: use --machines namespace"
        )
    if (drivers or cloud) and os.geteuid() != 0:
        fail("--csi and --cloud need root: a driver outside the nodes mounts volumes for them")
    if joining and (set(of_nodes) != {kinds.NAMESPACE} or os.geteuid() != 0):
        fail(
            "--join needs root, and --machines namespace: the API server has one address for machines beside loopback"
        )
    if set(of_nodes) != {kinds.NAMESPACE} and os.geteuid() != 0:
        fail(f"--machines {machines} needs root: it makes network links and cgroups")
    for kind in dict.fromkeys(of_nodes):
        if warning := kinds.WARNINGS.get(kind):
            click.echo(warning, err=True)
    _examine(data_dir)
    enter_rootless()
    from mooring.cluster.cloud import CloudOptions
    from mooring.cluster.foreground import run
    from mooring.cluster.layout import open_layout
    from mooring.cluster.options import Options

    layout = open_layout(data_dir)
    layout.make()
    # A live view leaves no place for log lines.
    log_lines("info", (layout.logs / "up.log").open("a", buffering=1) if sys.stdout.isatty() else None)
    options = Options(
        nodes=nodes,
        machines=of_nodes,
        port=port,
        join=joining,
        node_monitor_grace_period=node_monitor_grace_period,
        force_detach_after=force_detach_after,
        node_deletion_confirms_death=node_deletion_confirms_death,
        kubeconfig_out=kubeconfig_out.absolute() if kubeconfig_out else None,
        images=images.absolute() if images else None,
        volume_plugin_dir=volume_plugin_dir.absolute() if volume_plugin_dir else None,
        plugin_settings=plugin_settings,
        rootless="MOORING_ROOTLESS" in os.environ,
        csi=drivers,
        cloud=CloudOptions(cloud_set) if cloud else None,
        bmc=bmc or fencing or self_fence,
        fencing=fencing or self_fence,
        self_fence=self_fence,
        page=page,
    )
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(run(layout, options))


@click.command()
@DATA_DIR
def down(data_dir: str | None) -> None:
    """Takes a cluster down: stops the `up` that runs, and cleans up what a killed one left."""
    from mooring.cluster.foreground import take_down
    from mooring.cluster.layout import open_layout

    layout = open_layout(data_dir)
    if not layout.root.is_dir():
        fail(f"there is no cluster in {layout.root}")
    found = take_down(layout)
    click.echo(f"{layout.root}: " + (f"stopped {', '.join(found)}" if found else "nothing was running"))


@click.command()
@click.option("--keep", is_flag=True, help="Keep the data directory.")
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("demo-out"),
    show_default=True,
    help="For the timeline.",
)
@click.option("--cloud", is_flag=True, help="With EBS volumes of a cloud on this machine; needs root.")
@click.option(
    "--machines",
    default="",
    metavar="KIND",
    help="On machines of a kind, as `up --machines` has them; needs root.",
)
@click.option(
    "--fence", "fencing", is_flag=True, help="Nodes that are lost at night, and fenced; needs root."
)
def demo(keep: bool, out: Path, cloud: bool, machines: str, fencing: bool) -> None:
    """One volume's life, for real: claim, provision, attach, format, mount, write, drain, power loss,
    crashes. With --fence: nodes that are lost, and what they had moves by itself, never too early."""
    if fencing and os.geteuid() != 0:
        fail("--fence needs root: it cuts machines off")
    if cloud and os.geteuid() != 0:
        fail("--cloud needs root: a driver outside the nodes mounts volumes for them")
    if machines and os.geteuid() != 0:
        fail("--machines needs root: it makes network links and cgroups")
    enter_rootless()
    from mooring.cluster.demo.play import run_demo

    sys.exit(
        asyncio.run(run_demo(out.absolute(), keep=keep, cloud=cloud, machines=machines, fencing=fencing))
    )


COMMANDS = (up, down, demo)
