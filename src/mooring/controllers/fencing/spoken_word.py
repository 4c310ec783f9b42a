"""A person's word on a fence that the machine of a Node that is gone is off (`mooring.volumes.statements`):
void once there is a Node of that name again, as one has reported since.
"""

from __future__ import annotations

from mooring.kube.client import Client
from mooring.kube.objects import Node
from mooring.kube.objects.fencing import NodeFence
from mooring.volumes.names import CONFIRMED_DEAD
from mooring.volumes.statements import statement_of


async def without_void_word(client: Client, fence: NodeFence) -> NodeFence:
    """Takes the word off a fence whose Node is there, by a live read: a cache may show one that is gone by
    now. Returns the fence as it is then."""
    if statement_of(fence) is None or await client.find(Node, fence.spec.node_name) is None:
        return fence
    return await client.revise(fence, {"metadata": {"annotations": {CONFIRMED_DEAD: None}}})
