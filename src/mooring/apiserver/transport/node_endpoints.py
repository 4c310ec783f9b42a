"""The addresses at which the API server may call the agent of a node. Pure.

A Node reports itself where its agent listens (`status.addresses`, `status.daemonEndpoints`), and a thief with
the node's token could report anything. So an address counts only within the networks that the operator of
this server has named, by default this machine's loopback, on which all agents of `mooring up` listen; only in
numbers, never as a name that would be resolved; and only with an unprivileged port.
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from mooring.apiserver.errors import BadGateway, NotImplementedYet, Obj
from mooring.apiserver.values.dotted import objects_at, text_at, value_at

Network = IPv4Network | IPv6Network
LOOPBACK: tuple[Network, ...] = (ip_network("127.0.0.0/8"), ip_network("::1/128"))
_PORTS = range(1024, 65536)
_STREAMS = {"stdin": "input", "stdout": "output", "stderr": "error"}
_SWITCHES = frozenset({*_STREAMS, "tty"})
_SETTING = "--node-endpoints of mooring apiserver"


def endpoint_of(node: Obj, allowed: Sequence[Network]) -> tuple[str, int]:
    """The address and the port of a node's agent.

    Raises NotImplementedYet if the node names none, BadGateway if it names one that this server does not
    connect to.
    """
    name, port = text_at(node, "metadata.name"), value_at(node, "status.daemonEndpoints.kubeletEndpoint.Port")
    reported = next(
        (e.get("address") for e in objects_at(node, "status.addresses") if e.get("type") == "InternalIP"),
        None,
    )
    if not port or reported is None:
        raise NotImplementedYet(f'node "{name}" has no endpoint for logs and commands: its agent serves none')
    address = _address(reported)
    if address is None or not any(address in network for network in allowed):
        networks = ", ".join(map(str, allowed))
        raise BadGateway(
            f'node "{name}" says that its agent is at {reported!r:.60}, which is not in {networks} ({_SETTING})'
        )
    if isinstance(port, bool) or not isinstance(port, int) or port not in _PORTS:
        why = f"agents listen on ports from {_PORTS.start} to {_PORTS.stop - 1}"
        raise BadGateway(f'node "{name}" says that its agent listens on port {port!r:.60}: {why}')
    return str(address), port


def is_kubelet(node: Obj) -> bool:
    """Whether the node's agent is a kubelet: it speaks TLS, and knows this server by its certificate. An
    agent of ours is asked over plain HTTP, and knows it by a token."""
    return text_at(node, "status.nodeInfo.kubeletVersion").startswith("v")


def kubelet_query(query: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The parameters of a command as a kubelet reads them."""
    return [
        (_STREAMS.get(key, key), "1" if value == "true" and key in _SWITCHES else value)
        for key, value in query
    ]


def _address(reported: object) -> IPv4Address | IPv6Address | None:
    """The address, of IPv4 also if it is written as one of IPv6; None for anything else, as a zone."""
    try:
        address = ip_address(reported) if isinstance(reported, str) else None
    except ValueError:
        return None
    if isinstance(address, IPv6Address):
        return None if address.scope_id else address.ipv4_mapped or address
    return address
