"""The command lines of a cluster's parts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from ipaddress import IPv4Interface
from pathlib import Path

from mooring.apiserver.transport.node_endpoints import LOOPBACK
from mooring.cluster.csi import CSIDrivers
from mooring.cluster.layout import Layout
from mooring.cluster.machines.guest.watchdog import PATH as WATCHDOG
from mooring.cluster.machines.network import MachineNetwork
from mooring.cluster.machines.uml.kernel import MOST_DISKS
from mooring.cluster.options import NODE, Options
from mooring.cluster.processes import mooring

RECYCLE_FLAGS = (
    *("--plugin-setting", "kubernetes.io/host-path:recycle=this-machine"),
    *("--plugin-setting", "kubernetes.io/local-volume:recycle=this-machine"),
)
"""All nodes are on this machine, so its controllers may empty their directories."""


def apiserver(
    layout: Layout, port: int, networks: Iterable[MachineNetwork], join: IPv4Interface | None = None
) -> list[str]:
    """It also serves machines that are plugged in, or those of a network that may join."""
    where = ["--data-dir", str(layout.apiserver), "--port", str(port)]
    plugged = list(networks)
    if join is not None:
        reached = ",".join(sorted({*map(str, LOOPBACK), str(join.network)}))
        where += ["--machines-address", str(join.ip), "--node-endpoints", reached]
    elif plugged:
        reached = {*map(str, LOOPBACK), *(str(network.addresses) for network in plugged)}
        where += ["--machines-address", str(plugged[0].host), "--node-endpoints", ",".join(sorted(reached))]
    return mooring("apiserver", *where, "--kubeconfig-out", str(layout.kubeconfig))


def controllers(layout: Layout, options: Options, csi: CSIDrivers) -> list[str]:
    """All in one process."""
    return mooring(
        "controller",
        *("--controllers", options.controllers, "--kubeconfig", str(layout.kubeconfig)),
        *("--node-monitor-grace-period", str(options.node_monitor_grace_period)),
        *("--force-detach-after", f"{options.force_detach_after:.0f}s"),
        *("--node-deletion-confirms-death", options.node_deletion_confirms_death),
        *_array(layout, options.mode),
        *RECYCLE_FLAGS,
        *_flex("--flex-volume-plugin-dir", options),
        *_given(options),
        *_csi(csi.controller_settings(f"{NODE}1", layout.csi_trace)),
    )


def agent(
    layout: Layout,
    options: Options,
    csi: CSIDrivers,
    name: str,
    network: MachineNetwork | None,
    provider_id: str = "",
) -> list[str]:
    """Of one node; `network` is its machine's, if that has a kernel of its own; `provider_id` its
    instance's."""
    flags = ["--name", name, "--root-dir", str(layout.node(name))]
    flags += ["--kubeconfig", str(layout.node_kubeconfig(name)), "--hide", str(layout.root)]
    flags += ["--endpoint-token-file", str(layout.node_endpoint_token(name))]
    flags += ["--lease-duration", str(max(4.0, options.node_monitor_grace_period))]
    if options.self_fence:  # a machine of namespaces has none there, and its agent says so
        flags += ["--self-fence", WATCHDOG]
    if provider_id:
        flags += ["--provider-id", provider_id]
    flags += [*_flex("--volume-plugin-dir", options), *_given(options)]
    if options.images:
        flags += ["--images", str(options.images)]
    trace: Path | None = layout.csi_trace
    array = _array(layout, options.mode)
    if network is not None:
        flags += ["--address", str(network.address), "--pod-network", str(network.addresses)]
        trace, array = None, _array(layout, "machine", maxVolumes=MOST_DISKS)
    return mooring("agent", *flags, *array, *_csi(csi.settings(name, trace)))


def _array(layout: Layout, mode: str, **others: object) -> list[str]:
    return _settings("mooring.dev/disk", {"array": layout.array, "mode": mode, **others})


def _flex(flag: str, options: Options) -> list[str]:
    return [flag, str(options.volume_plugin_dir)] if options.volume_plugin_dir else []


def _given(options: Options) -> list[str]:
    return [flag for each in options.plugin_settings for flag in ("--plugin-setting", each)]


def _csi(settings: Mapping[str, str]) -> list[str]:
    return _settings("kubernetes.io/csi", settings)


def _settings(plugin: str, settings: Mapping[str, object]) -> list[str]:
    return [flag for k, v in settings.items() for flag in ("--plugin-setting", f"{plugin}:{k}={v}")]
