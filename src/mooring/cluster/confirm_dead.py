"""The operator's statement that a node's machine is off: the out-of-service taint, set with care.

Refused while the node answers: its Ready must be Unknown at a live read, and the write carries that read's uid and
resourceVersion. The taint is stamped with the present time, which tells it from one set before (a taint under which
the node has reported is spent).
"""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.cluster.layout import ClusterError
from mooring.kube.client import Client
from mooring.kube.errors import NotFound
from mooring.kube.objects import Node, Taint
from mooring.kube.times import Now, format_time
from mooring.volumes.out_of_service import EFFECT, TAINT, out_of_service


async def confirm(client: Client, name: str, *, now: Now) -> str:
    """Sets the taint and says so; ClusterError if the node answers or does not exist."""
    try:
        node = await client.get(Node, name)
    except NotFound as error:
        raise ClusterError(f"there is no node {name!r}: nothing was changed") from error
    if node.ready != "Unknown":
        raise ClusterError(
            f"node {name} still answers (Ready is {node.ready}): nothing was changed. If its machine has just stopped,"
            " wait until Ready is Unknown; if it runs, use `kubectl drain`"
        )
    if out_of_service(node):
        return f"node {name} is already declared out of service"
    taint = Taint(key=TAINT, value="confirmed-dead", effect=EFFECT, time_added=format_time(now()))
    taints: list[Any] = msgspec.to_builtins([*(t for t in node.spec.taints if t.key != TAINT), taint])
    await client.revise(node, {"spec": {"taints": taints}})
    return f"node {name} is declared out of service: its pods are removed and its volumes may move"
