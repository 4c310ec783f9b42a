"""What a real kubelet needs to join the cluster of `mooring up --join`: its credentials, its configuration,
and its command line.

The files are for one node: its token has that node's rights alone. They hold a secret, and are the owner's
only. The kubelet is told whom to answer: this cluster's API server, by its client certificate.
"""

from __future__ import annotations

import ipaddress
import json
from pathlib import Path
from typing import Any

from mooring.apiserver.data_directory import load_tokens, write_kubeconfig, write_private
from mooring.apiserver.objects.validation.formats import subdomain_error
from mooring.apiserver.transport import tls
from mooring.cluster.holding import settings
from mooring.cluster.layout import ClusterError, Layout
from mooring.cluster.options import NODE

KUBECONFIG, CONFIG, CALLERS = "kubeconfig", "kubelet.json", "api-server.crt"


def parse_join(given: str) -> ipaddress.IPv4Interface:
    """ADDRESS/PREFIX: where other machines reach this host, and in which network they are. ValueError."""
    try:
        interface = ipaddress.IPv4Interface(given)
    except ValueError as error:
        raise ValueError(f"{error}: give ADDRESS/PREFIX, as in 192.168.1.10/24") from None
    if "/" not in given or interface.network.prefixlen in (0, 32):
        raise ValueError(
            f"{given} names no network of the machines: give ADDRESS/PREFIX, as in 192.168.1.10/24"
        )
    if interface.ip.is_loopback or interface.ip.is_unspecified or interface.ip.is_multicast:
        raise ValueError(f"{given}: other machines do not reach this host there")
    return interface


def prepare(layout: Layout, name: str, folder: Path, at: Path) -> str:
    """Writes the files of node `name` to `folder`, for a machine that will have them `at` a place; returns
    the kubelet's command line. ClusterError if the name cannot be a node's or is that of a machine of the
    cluster's own, or if the cluster has no address for other machines; nothing is written then."""
    if (problem := subdomain_error(name)) is not None:
        raise ClusterError(f"{name!r} cannot be the name of a node: {problem}")
    held = settings(layout)
    if not held.get("join"):
        raise ClusterError(
            f"the cluster on {layout.root} has no address for other machines: start it with `mooring up --join "
            "ADDRESS/PREFIX`, an address of this host in the network that the machines are in"
        )
    if name in {f"{NODE}{number}" for number in range(1, int(held.get("nodes", 0)) + 1)}:
        raise ClusterError(f"{name} is a machine of this cluster: give the joining one another name")
    address = str(parse_join(held["join"]).ip)
    authority = tls.of(layout.apiserver, address).authority.read_bytes()
    token = load_tokens(layout.apiserver).node(name)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_kubeconfig(folder / KUBECONFIG, f"https://{address}:{held['port']}", token, authority)
    write_private(folder / CALLERS, tls.of_client(layout.apiserver).authority.read_text())
    write_private(folder / CONFIG, json.dumps(kubelet_configuration(at / CALLERS), indent=2) + "\n")
    return f"kubelet --hostname-override={name} --kubeconfig={at / KUBECONFIG} --config={at / CONFIG}"


def kubelet_configuration(callers: Path) -> dict[str, Any]:
    """Of a kubelet that answers those alone whose certificate is in that file."""
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(callers)},
        },
        "authorization": {"mode": "AlwaysAllow"},
        "nodeStatusUpdateFrequency": "2s",
    }
