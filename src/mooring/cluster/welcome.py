"""The operator's word that a node that was said to be dead is back, and may have pods again.

The taint out-of-service goes only from a Node that answers and has reported under it: from then on it permits
nothing any more (it is spent), so that taking it away takes nothing from the protocol. Written with the uid
and resourceVersion of the read.
"""

from __future__ import annotations

from typing import Any

import msgspec

from mooring.cluster.layout import ClusterError
from mooring.kube.client import Client
from mooring.kube.objects import Node
from mooring.volumes.out_of_service import spent, taint_of


async def welcome(client: Client, name: str) -> str:
    """Takes the taint away and says what still keeps pods off; ClusterError if the node is not back yet."""
    node = await client.find(Node, name)
    if node is None:
        raise ClusterError(f"there is no node {name!r}: nothing was changed")
    if node.ready != "True":
        raise ClusterError(
            f"node {name} is not ready yet (Ready is {node.ready or 'not reported'}): nothing was changed. Start its "
            f"machine (`mooring node start {name}`), and wait"
        )
    out_of_service = taint_of(node)
    if out_of_service is None:
        return f"node {name} has no taint out-of-service{_others(node)}"
    if not spent(node):
        raise ClusterError(
            f"node {name} has not reported since it was said to be dead: nothing was changed. Wait for its next report"
        )
    rest: list[Any] = msgspec.to_builtins([taint for taint in node.spec.taints if taint != out_of_service])
    await client.revise(node, {"spec": {"taints": rest or None}})
    return f"node {name} is in service again{_others(node)}"


async def kept_off(client: Client, name: str) -> str:
    """What is still there of the word that the node is dead, and how it goes; empty if nothing is."""
    node = await client.find(Node, name)
    taint = taint_of(node) if node is not None else None
    if taint is None:
        return ""
    return (
        f"its taint {taint.key} ({taint.value!r}, since {taint.time_added or 'an unknown time'}) still keeps pods off: "
        f"when it is Ready, say `mooring node welcome {name}`"
    )


def _others(node: Node) -> str:
    """What else keeps pods off."""
    out_of_service = taint_of(node)
    taints = [f"{taint.key}:{taint.effect}" for taint in node.spec.taints if taint != out_of_service]
    words = ["it is cordoned (`kubectl uncordon`)"] if node.spec.unschedulable else []
    words += [f"its taints {', '.join(taints)} are its controllers' or yours"] if taints else []
    return f"; {'; '.join(words)}" if words else ""
